"""The rules of subscriptions, as a protocol of its own would use them."""

import pytest

from artemis_py.core.names.routing_type import RoutingType
from artemis_py.core.queues.consumer import Consumer
from artemis_py.core.routing.domain import Domain
from artemis_py.core.runtime.access import Permission, Subject
from artemis_py.core.selectors.filter import Filter, parse_filter
from artemis_py.core.sessions.session import Session
from artemis_py.core.sessions.sessions import Sessions
from artemis_py.core.sessions.subscriptions import Lifetime, Subscription, SubscriptionSpec, without_own
from artemis_py.core.settings.address_settings import AddressSettings
from artemis_py.errors import (
    MaxConsumersReached,
    NoSuchAddress,
    NoSuchQueue,
    NotAuthorized,
    QueueExists,
    RoutingTypeMismatch,
)
from tests.core_harness import Recorder, make_domain, make_message, make_queue, make_session

RED = parse_filter("colour = 'red'")


class Rules:
    """Access control that denies what it is told to."""

    def __init__(self, *denied: Permission) -> None:
        self.denied = set(denied)

    def allows(self, subject: Subject, permission: Permission, address: str, queue: str | None = None) -> bool:
        return permission not in self.denied


def durable(
    *names: str, filter: Filter | None = None, shared: bool = False, recreates: bool = True
) -> SubscriptionSpec:
    """A durable subscription of `news`."""
    return SubscriptionSpec("news", names, True, shared, filter, "ann", recreates)


def consume(session: Session, subscription: Subscription) -> Consumer:
    return session.consume(subscription.queue, Recorder())


def test_a_temporary_subscription_goes_with_its_subscriber() -> None:
    """It has no name, so nobody else can find it, and it takes no permission to end it."""
    domain = make_domain()
    session = make_session(domain)
    subscription = session.subscribe(SubscriptionSpec("news", filter=RED))
    domain.route(make_message(colour="red"), domain.addresses["news"])
    domain.route(make_message(colour="blue"), domain.addresses["news"])
    assert (subscription.lifetime, subscription.queue.message_count) == (Lifetime.TEMPORARY, 1)
    domain.access = Rules(*Permission)

    session.unsubscribe(subscription, "done")

    assert subscription.queue.is_deleted


def test_a_durable_subscription_is_found_again() -> None:
    """The client that goes keeps it, the one that unsubscribes deletes it."""
    domain = make_domain()
    first = make_session(domain)
    subscription = first.subscribe(durable("c.s"))
    first.close_consumer(consume(first, subscription))
    first.subscriptions.leave(subscription, "gone")
    assert (subscription.is_new, subscription.queue.user, subscription.queue.settings.max_consumers) == (True, "ann", 1)
    again = make_session(domain)

    found = again.subscribe(durable("c.s"))
    assert (found.queue, found.is_new) == (subscription.queue, False)
    assert again.subscriptions.find("c.s") is found.queue
    again.unsubscribe(found, "done")

    assert found.queue.is_deleted
    assert again.subscriptions.find("c.s") is None


def test_a_durable_subscription_has_one_consumer() -> None:
    """The second is refused when it attaches, as by any queue with a limit."""
    domain = make_domain()
    session = make_session(domain)
    consume(session, session.subscribe(durable("c.s")))

    with pytest.raises(MaxConsumersReached):
        consume(session, session.subscribe(durable("c.s")))


def test_a_volatile_shared_subscription_goes_with_its_last_consumer() -> None:
    """Whoever leaves before leaves it to the others."""
    domain = make_domain()
    session = make_session(domain)
    spec = SubscriptionSpec("news", ("c.s",), shared=True)
    first, second = session.subscribe(spec), session.subscribe(spec)
    consumers = [consume(session, first), consume(session, second)]
    assert (first.queue, first.queue.durable) == (second.queue, False)

    session.close_consumer(consumers[0])
    session.subscriptions.leave(first, "gone")
    assert not first.queue.is_deleted
    session.close_consumer(consumers[1])
    session.subscriptions.leave(second, "gone")

    assert first.queue.is_deleted


def test_another_filter_makes_an_idle_subscription_again() -> None:
    """What the old filter let in is not wanted any more."""
    domain = make_domain()
    session = make_session(domain)
    before = session.subscribe(durable("c.s"))

    after = session.subscribe(durable("c.s", filter=RED))

    assert before.queue.is_deleted
    assert (after.is_new, after.queue.filter) == (True, RED)


def test_a_subscription_in_use_is_not_changed() -> None:
    """The refusal says with what filter it is used."""
    domain = make_domain()
    session = make_session(domain)
    consume(session, session.subscribe(durable("c.s", filter=RED)))

    with pytest.raises(QueueExists, match="in use on address 'news' with the filter colour = 'red'"):
        session.subscribe(durable("c.s"))


def test_a_configured_queue_stays_as_it_is() -> None:
    """Whatever a client asks for, and also when it unsubscribes."""
    domain = make_domain()
    queue = make_queue(domain, "c.s", RoutingType.MULTICAST, address="news", configuration_managed=True)
    session = make_session(domain)

    subscription = session.subscribe(durable("c.s", filter=RED))
    session.unsubscribe(subscription, "done")

    assert (subscription.queue, queue.filter, queue.is_deleted) == (queue, None, False)


def test_a_name_that_another_subscription_has_is_passed_over() -> None:
    """Names of different kinds of subscriptions may meet; when all are taken the client is told."""
    domain = make_domain()
    session = make_session(domain)
    shared = session.subscribe(durable("a.b", shared=True, recreates=False))

    own = session.subscribe(durable("a.b", "$own.a.b", recreates=False))

    assert (shared.queue.name, own.queue.name) == ("a.b", "$own.a.b")
    with pytest.raises(QueueExists, match="names for a queue of 'news' are taken"):
        session.subscribe(durable("a.b", recreates=False))


@pytest.mark.parametrize("force", [False, True])
def test_no_queue_is_deleted_past_the_check(force: bool) -> None:
    """Every protocol's way to unsubscribe needs the permission, and nothing is done without it."""
    domain = make_domain()
    session = make_session(domain)
    subscription = session.subscribe(durable("c.s"))
    domain.access = Rules(Permission.DELETE_DURABLE_QUEUE)

    with pytest.raises(NotAuthorized):
        session.subscriptions.unsubscribe(subscription, "done", force)
    with pytest.raises(NotAuthorized):
        session.subscribe(durable("c.s", filter=RED))

    assert not subscription.queue.is_deleted
    Sessions(domain).end_subscription(subscription, "expired")
    assert subscription.queue.is_deleted


def test_others_that_consume_keep_the_queue() -> None:
    """An administrator that looks at it, for instance; a client that insists cuts them off."""
    domain = make_domain()
    session = make_session(domain)
    subscription = session.subscribe(durable("c.s"))
    consume(session, subscription)

    session.unsubscribe(subscription, "done")
    assert not subscription.queue.is_deleted
    session.subscriptions.unsubscribe(subscription, "done", force=True)

    assert subscription.queue.is_deleted


def test_what_a_client_may_not_read_is_not_there_for_it() -> None:
    """It does not learn whether a subscription exists, nor with which filter."""
    domain = make_domain()
    session = make_session(domain)
    session.subscribe(durable("c.s", filter=RED))
    domain.access = Rules(Permission.CONSUME)

    assert session.subscriptions.find("c.s") is None
    with pytest.raises(NotAuthorized):
        session.subscribe(durable("c.s"))
    with pytest.raises(NotAuthorized):
        session.subscribe(durable("other"))


def test_a_queue_made_for_nothing_is_withdrawn() -> None:
    """One that was there before stays."""
    domain = make_domain()
    session = make_session(domain)
    new, found = session.subscribe(durable("c.s")), session.subscribe(durable("c.s"))

    session.subscriptions.withdraw(found, "refused")
    assert not new.queue.is_deleted
    session.subscriptions.withdraw(new, "refused")

    assert new.queue.is_deleted


def no_creation() -> Domain:
    """A domain where nothing comes into being on demand."""
    return make_domain({"#": AddressSettings(auto_create_addresses=False, auto_create_queues=False)})


def test_a_subscriber_creates_an_address_and_never_widens_one() -> None:
    """artemis-model §1.4; a producer does widen it."""
    domain = make_domain()
    make_queue(domain, "orders")
    domain.update_address("orders", frozenset((RoutingType.ANYCAST,)))

    make_session(domain).subscribe(durable("c.s"))
    with pytest.raises(RoutingTypeMismatch, match="not configured for topic support: it is ANYCAST"):
        make_session(domain).subscribe(SubscriptionSpec("orders"))
    with pytest.raises(NoSuchAddress):
        make_session(no_creation()).subscribe(SubscriptionSpec("news"))

    assert domain.addresses["news"].routing_types == {RoutingType.MULTICAST}


def test_a_queue_by_its_full_name() -> None:
    """Created if that is allowed; a multicast one with the filter of its first consumer."""
    domain = make_domain()
    subscriptions = make_session(domain).subscriptions

    queue = subscriptions.named_queue("news", "mine", RoutingType.MULTICAST, RED)
    assert (queue.filter, queue.settings.auto_delete) == (RED, False)
    assert subscriptions.named_queue("news", "mine", RoutingType.MULTICAST, RED) is queue
    assert subscriptions.named_queue("news", "mine", RoutingType.MULTICAST, None) is queue
    browsed = subscriptions.named_queue("news", "mine", RoutingType.MULTICAST, parse_filter("a = 1"), browse=True)
    assert browsed is queue
    with pytest.raises(QueueExists, match="cannot be read with another"):
        subscriptions.named_queue("news", "mine", RoutingType.MULTICAST, parse_filter("a = 1"))
    with pytest.raises(NoSuchQueue, match="bound to address 'news'"):
        subscriptions.named_queue("olds", "mine", RoutingType.MULTICAST)
    with pytest.raises(NoSuchQueue, match="auto-create-queues is off"):
        make_session(no_creation()).subscriptions.named_queue("news", "mine", RoutingType.ANYCAST)


def test_no_local_leaves_out_what_the_client_sent() -> None:
    """The name of a client may have quotes."""
    wanted = parse_filter(without_own("o'neill"))

    assert not wanted.matches(make_message(producer="o'neill"))
    assert wanted.matches(make_message(producer="other"))
