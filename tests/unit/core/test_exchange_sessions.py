"""What clients may do with exchanges: permissions, producers, credit, and what ends with a session."""

from collections.abc import Callable

import pytest
from attrs import evolve

from artemis_py.core.messages.message import Message
from artemis_py.core.routing.domain import Domain
from artemis_py.core.runtime.access import Permission, Subject
from artemis_py.core.runtime.background import SLICE_UNITS
from artemis_py.core.services.xid import Xid
from artemis_py.core.sessions.exchange_subscriptions import subscribe_to_exchange
from artemis_py.core.sessions.exchanges import (
    RoutingKeys,
    bind,
    declare_exchange,
    delete_exchange,
    open_default_producer,
    open_exchange_producer,
    unbind,
    update_exchange,
)
from artemis_py.core.sessions.session import Session
from artemis_py.core.sessions.subscriptions import SubscriptionSpec
from artemis_py.core.settings.address_settings import AddressSettings, FullPolicy
from artemis_py.core.settings.broker_settings import BrokerSettings
from artemis_py.core.settings.exchange_config import (
    ExchangeConfig,
    ExchangeLifetime,
    ExchangeType,
    Unroutable,
)
from artemis_py.errors import (
    ExchangeDeleted,
    InUse,
    InvalidRequest,
    LimitExceeded,
    NoRoute,
    NoSuchExchange,
    NotAuthorized,
    QueueExists,
)
from tests.core_harness import Recorder, make_domain, make_message, make_queue, make_services, make_session, settle_down
from tests.unit.core.exchange_world import bind as bind_queue
from tests.unit.core.exchange_world import make_exchange, make_queues, to_exchange, to_queue


class Only:
    """Grants what is in a list of permissions and names."""

    def __init__(self, *granted: tuple[Permission, str]) -> None:
        self.granted = set(granted)

    def allows(self, subject: Subject, permission: Permission, address: str, queue: str | None = None) -> bool:
        return (permission, address) in self.granted


class KeyProperty(RoutingKeys):
    """The routing key is a property."""

    def key_of(self, message: Message, exchange: str) -> str:
        return str(message.lookup("key"))


CONFIG = ExchangeConfig(name="e", type=ExchangeType.DIRECT)
SEND, CONSUME = (Permission.SEND, "e"), (Permission.CONSUME, "e")

REQUESTS: list[tuple[str, list[tuple[Permission, str]], Callable[[Session, Domain], object]]] = [
    (
        "declare",
        [(Permission.CREATE_ADDRESS, "new"), (Permission.SEND, "q")],
        lambda session, domain: declare_exchange(session, evolve(CONFIG, name="new", alternate=to_queue("q"))),
    ),
    (
        "update",
        [(Permission.CREATE_ADDRESS, "e"), (Permission.SEND, "f")],
        lambda session, domain: update_exchange(
            session, domain.exchanges.exchange("e"), evolve(CONFIG, alternate=to_exchange("f"))
        ),
    ),
    (
        "delete",
        [(Permission.DELETE_ADDRESS, "e")],
        lambda session, domain: delete_exchange(session, domain.exchanges.exchange("e")),
    ),
    (
        "bind",
        [CONSUME, (Permission.SEND, "q")],
        lambda session, domain: bind(session, domain.exchanges.exchange("e"), "other", to_queue("q")),
    ),
    (
        "unbind",
        [CONSUME, (Permission.SEND, "q")],
        lambda session, domain: unbind(session, domain.exchanges.exchange("e"), "k", to_queue("q")),
    ),
    (
        "chain",
        [CONSUME, (Permission.SEND, "f")],
        lambda session, domain: bind(session, domain.exchanges.exchange("e"), "other", to_exchange("f")),
    ),
    (
        "publish",
        [SEND],
        lambda session, domain: open_exchange_producer(
            session, domain.exchanges.exchange("e"), "k", RoutingKeys()
        ).send(make_message()),
    ),
    (
        "publish to the default exchange",
        [(Permission.SEND, "q")],
        lambda session, domain: open_default_producer(session, KeyProperty(), False).send(make_message(key="q")),
    ),
]


@pytest.mark.parametrize(("needed", "call"), [each[1:] for each in REQUESTS], ids=[each[0] for each in REQUESTS])
def test_each_request_needs_its_permissions(
    needed: list[tuple[Permission, str]], call: Callable[[Session, Domain], object]
) -> None:
    """All of them, and no more."""
    for missing in needed:
        domain = make_domain()
        make_queues(domain, "q")
        make_exchange(domain, "e")
        make_exchange(domain, "f")
        bind_queue(domain, "e", "k", "q")
        session = make_session(domain)
        domain.access = Only(*[each for each in needed if each != missing])
        with pytest.raises(NotAuthorized, match=missing[0].value):
            call(session, domain)
        assert domain.queue("q").message_count == 0
        domain.access = Only(*needed)
        assert call(session, domain) is not False


def test_what_belongs_to_the_broker_cannot_be_bound() -> None:
    """Nor be reached through the default exchange."""
    domain = make_domain()
    name = f"{domain.options.internal_naming_prefix}x"
    make_queues(domain, f"{name} secret")
    domain.reserved.add("secret")
    session = make_session(domain)
    exchange = make_exchange(domain)

    for internal in (name, "secret"):
        with pytest.raises(NotAuthorized, match="internal"):
            bind(session, exchange, "k", to_queue(internal))
        with pytest.raises(NotAuthorized, match="internal"):
            declare_exchange(session, evolve(CONFIG, name="new", alternate=to_queue(internal)))
        with pytest.raises(NoRoute):
            open_default_producer(session, KeyProperty(), True).send(make_message(key=internal))
    with pytest.raises(NotAuthorized, match="internal"):
        declare_exchange(session, evolve(CONFIG, name=name))


def test_a_producer_has_one_routing_key_or_finds_that_of_each_message() -> None:
    """That of the address is stronger than those of messages."""
    domain = make_domain()
    make_queues(domain, "a b")
    exchange = make_exchange(domain)
    bind_queue(domain, "e", "a", "a")
    bind_queue(domain, "e", "b", "b")
    session = make_session(domain)

    open_exchange_producer(session, exchange, "a", KeyProperty()).send(make_message(key="b"))
    assert [domain.queue(name).message_count for name in "ab"] == [1, 0]
    open_exchange_producer(session, exchange, None, KeyProperty()).send(make_message(key="b"))
    assert [domain.queue(name).message_count for name in "ab"] == [1, 1]


@pytest.mark.parametrize(
    ("unroutable", "rejects", "is_refused"),
    [
        (Unroutable.DISCARD, None, False),
        (Unroutable.REJECT, None, True),
        (Unroutable.DISCARD, True, True),
        (Unroutable.REJECT, False, False),
    ],
)
def test_a_producer_may_decide_about_unroutable_messages(
    unroutable: Unroutable, rejects: bool | None, is_refused: bool
) -> None:
    """Its wish is stronger than the attribute of the exchange. A refused message fails its transaction."""
    domain = make_domain()
    session = make_session(domain)
    producer = open_exchange_producer(
        session, make_exchange(domain, unroutable=unroutable), "k", RoutingKeys(), rejects
    )
    transaction = session.begin()

    if is_refused:
        with pytest.raises(NoRoute):
            producer.send(make_message(), transaction)
        assert transaction.has_work
    else:
        assert producer.send(make_message(), transaction) == 0
        session.commit(transaction)


def test_a_producer_follows_an_exchange_that_is_declared_again() -> None:
    """While it is gone, the producer is refused."""
    domain = make_domain()
    make_queues(domain, "q")
    producer = open_exchange_producer(make_session(domain), make_exchange(domain), "k", RoutingKeys())
    domain.exchanges.delete(domain.exchanges.exchange("e"))

    with pytest.raises(NoSuchExchange):
        producer.send(make_message())
    make_exchange(domain, "e", "fanout")
    bind_queue(domain, "e", "", "q")

    assert producer.send(make_message()) == 1


def test_producers_of_a_deleted_exchange_are_told_in_slices() -> None:
    """Each once, with the reason; one that has let go in the meantime is not told, and its messages are refused."""
    domain = make_domain()
    exchange = make_exchange(domain, "e")
    session = make_session(domain)
    told: list[str] = []
    producers = [open_exchange_producer(session, exchange, "k", RoutingKeys()) for _ in range(3 * SLICE_UNITS)]
    for producer in producers:
        producer.hold()
        producer.when_gone(told.append)

    domain.exchanges.delete(exchange, reason="not needed")
    assert 0 < len(told) <= SLICE_UNITS
    producers[-1].let_go()
    settle_down(domain)

    assert told == ["not needed"] * (len(producers) - 1)
    with pytest.raises(ExchangeDeleted, match="'e' was deleted"):
        producers[0].send(make_message())


def test_credit_waits_for_the_queue_that_is_full() -> None:
    """With BLOCK, credit that was given is honoured, and then the producer waits for room."""
    blocking = AddressSettings(max_size_messages=1, address_full_policy=FullPolicy.BLOCK)
    domain = make_domain({"q": blocking})
    make_queues(domain, "q other")
    producer = open_exchange_producer(make_session(domain), make_exchange(domain), None, KeyProperty())
    bind_queue(domain, "e", "q", "q")
    bind_queue(domain, "e", "other", "other")
    woken: list[str] = []

    for _ in range(2):
        producer.send(make_message(key="q"))
    assert producer.must_wait
    producer.when_room(lambda: woken.append("room"))
    domain.queue("q").purge()
    settle_down(domain)

    assert woken == ["room"]
    assert not producer.must_wait


def test_the_default_exchange_reaches_the_queue_of_the_name() -> None:
    """Not the exchange of that name, and nothing is created."""
    domain = make_domain()
    make_queues(domain, "celery other")
    make_exchange(domain, "celery", "fanout")
    bind_queue(domain, "celery", "", "other")
    session = make_session(domain)
    producer = open_default_producer(session, KeyProperty(), False)

    assert producer.send(make_message(key="celery")) == 1
    assert producer.send(make_message(key="amq.fanout")) == 0
    assert producer.send(make_message(key="celery"), None, b"1") == 1
    assert producer.send(make_message(key="celery"), None, b"1") == 0
    with pytest.raises(NoRoute, match="no queue 'nothing'"):
        open_default_producer(session, KeyProperty(), True).send(make_message(key="nothing"))
    assert [domain.queue(name).message_count for name in ("celery", "other")] == [2, 0]
    assert set(domain.queues) == set(domain.addresses) == {"celery", "other"}


def test_an_exchange_may_end_with_its_session() -> None:
    """Even if it is an alternate, and even if it was deleted by somebody else before."""
    domain = make_domain()
    session = make_session(domain)
    for name in ("e", "gone"):
        declare_exchange(session, evolve(CONFIG, name=name, lifetime=ExchangeLifetime.SESSION))
    make_exchange(domain, "user", durable=False, alternate=to_exchange("e"))
    domain.exchanges.delete(domain.exchanges.exchange("gone"))
    make_exchange(domain, "gone")

    session.close()

    assert {each.name for each in domain.exchanges if not each.is_predeclared} == {"user", "gone"}
    assert not domain.exchanges.exchange("user").has_alternate


def test_exchanges_and_bindings_are_limited() -> None:
    """With the other tables that clients make grow."""
    domain = make_domain(options=BrokerSettings(global_max_size_bytes=1))
    domain.dispatcher.tables.set_limits(400_000, -1)
    make_queue(domain, "q")
    session = make_session(domain)
    exchange = declare_exchange(session, CONFIG)

    def bind_many() -> None:
        for number in range(1000):
            bind(session, exchange, str(number), to_queue("q"))

    with pytest.raises(LimitExceeded, match="no room for a binding of exchange 'e'"):
        bind_many()
    with pytest.raises(LimitExceeded, match="no room for exchange 'f'"):
        declare_exchange(session, evolve(CONFIG, name="f"))
    assert 50 < len(exchange.bindings) < 300


def test_totals_have_what_came_through_exchanges() -> None:
    """Routed or not."""
    domain = make_domain()
    make_queues(domain, "q")
    bind_queue(domain, "amq.fanout", "", "q")
    services = make_services(domain)
    for name in ("amq.fanout", "amq.direct"):
        domain.publishing.publish(make_message(), domain.exchanges.exchange(name), "")

    assert services.sessions.totals().messages_in == 2


def test_a_prepared_branch_publishes_at_its_commit() -> None:
    """To one queue, and to queues of several addresses, also if an address has the name of the exchange."""
    domain = make_domain()
    make_queues(domain, "a b e")
    exchange = make_exchange(domain, "e", "fanout")
    bind_queue(domain, "e", "", "a")
    branches, session = make_services(domain).branches, make_session(domain)
    for number in range(2):
        xid = Xid(1, bytes([number]), b"b")
        transaction = branches.start(session, xid)
        open_exchange_producer(session, exchange, "k", RoutingKeys()).send(make_message(), transaction)
        branches.end(session, xid)
        assert branches.prepare(session, xid)
        branches.commit(session, xid)
        bind_queue(domain, "e", "", "b")

    assert [domain.queue(name).message_count for name in ("a", "b", "e")] == [2, 1, 0]
    for name in "ab":
        domain.queue(name).purge()
    settle_down(domain)
    assert [each.size_bytes for each in domain.addresses.values()] == [0] * len(domain.addresses)
    assert exchange.address.size_bytes == domain.account.size_bytes == 0


def test_a_subscription_needs_what_its_exchange_and_a_temporary_queue_need() -> None:
    """Without the permission to consume from the exchange, no queue is made."""
    domain = make_domain()
    session = make_session(domain)
    name = "amq.topic"
    domain.access = Only(*[(Permission.CONSUME, name)])
    with pytest.raises(NotAuthorized, match="createAddress"):
        subscribe_to_exchange(session, SubscriptionSpec(name), ["#"], {})

    domain.access = All(but=(Permission.CONSUME, name))
    with pytest.raises(NotAuthorized, match="consume"):
        subscribe_to_exchange(session, SubscriptionSpec(name), ["#"], {})
    assert not domain.queues
    assert not domain.addresses


@pytest.mark.parametrize("missing", [Permission.CONSUME, Permission.SEND])
def test_a_configured_queue_is_bound_only_for_those_who_may_use_it(missing: Permission) -> None:
    """It may have the name of a subscription: a client that may not read it, or send to it, leaves no binding there."""
    domain = make_domain()
    queue = make_queue(domain, "me.sub", address="payroll", configuration_managed=True)
    session = make_session(domain)
    spec = SubscriptionSpec("amq.topic", ("me.sub",), durable=True, recreates=True)
    domain.access = All(but=(missing, "payroll"))

    with pytest.raises(NotAuthorized, match="payroll"):
        subscribe_to_exchange(session, spec, ["#"], {})
    assert not domain.exchanges.bindings_of(queue)

    domain.access = All(but=(Permission.CREATE_ADDRESS, "payroll"))
    assert subscribe_to_exchange(session, spec, ["#"], {}).queue is queue
    domain.access = All(but=(Permission.SEND, "payroll"))
    assert subscribe_to_exchange(session, spec, ["#"], {}).queue is queue
    assert [each.key for each in domain.exchanges.bindings_of(queue)] == ["#"]


def test_a_subscription_is_not_shared_with_one_to_another_exchange() -> None:
    """The next name is taken, where names may be taken; a queue that has lost its binding is bound again."""
    domain = make_domain()
    session = make_session(domain)
    names = ("group", "second")
    for name, expected in (("amq.topic", "group"), ("amq.fanout", "second"), ("amq.topic", "group")):
        spec = SubscriptionSpec(name, names, durable=True, shared=True)
        assert subscribe_to_exchange(session, spec, ["k"], {}).queue.name == expected
    with pytest.raises(QueueExists, match="are taken"):
        subscribe_to_exchange(session, SubscriptionSpec("amq.direct", names, durable=True, shared=True), ["k"], {})

    domain.exchanges.unbind(domain.exchanges.exchange("amq.topic"), "k", to_queue("group"))
    subscribe_to_exchange(session, SubscriptionSpec("amq.topic", names, durable=True, shared=True), ["k"], {})
    assert len(domain.exchanges.bindings_of(domain.queue("group"))) == 1


def test_what_is_refused_leaves_nothing_of_a_named_subscription() -> None:
    """Neither its queue nor its address: for lack of a permission, or for a key that cannot be one."""
    domain = make_domain()
    session = make_session(domain)
    spec = SubscriptionSpec("amq.topic", ("me.sub",), durable=True)
    domain.access = All(but=(Permission.CREATE_DURABLE_QUEUE, "amq.topic.me.sub"))
    with pytest.raises(NotAuthorized, match="createDurableQueue"):
        subscribe_to_exchange(session, spec, ["#"], {})
    domain.access = All(but=(Permission.SEND, "nothing"))
    with pytest.raises(InvalidRequest, match="256"):
        subscribe_to_exchange(session, spec, ["fine", "a" + ".a" * 300], {})

    assert not domain.queues
    assert not domain.addresses
    assert not domain.exchanges.exchange("amq.topic").bindings


def test_addresses_of_subscriptions_are_not_created_on_demand() -> None:
    """They do not count for `max-auto-created-per-user`: their number is that of the subscriptions."""
    domain = make_domain()
    domain.creations.limit = 1
    for number in range(3):
        spec = SubscriptionSpec("amq.topic", (f"me.{number}",), durable=True)
        subscribe_to_exchange(make_session(domain), spec, ["#"], {})

    assert len(domain.queues) == 3


class Below:
    """Grants everything for a name and what is below it, as a security setting for `name.#` does."""

    def __init__(self, name: str) -> None:
        self.name = name

    def allows(self, subject: Subject, permission: Permission, address: str, queue: str | None = None) -> bool:
        return address == self.name or address.startswith(self.name + ".")


def test_permissions_for_an_exchange_and_what_is_below_are_those_of_its_subscriptions() -> None:
    """Whatever the client calls them: it makes, reads and ends them, and none of another exchange."""
    domain = make_domain()
    session = make_session(domain)
    domain.access = Below("amq.topic")
    spec = SubscriptionSpec("amq.topic", ("me.sub",), durable=True, recreates=True)
    subscription = subscribe_to_exchange(session, spec, ["#"], {})
    session.close_consumer(session.consume(subscription.queue, Recorder()))
    session.subscriptions.unsubscribe(subscription, "unsubscribed")

    assert not domain.queues
    assert not domain.addresses
    with pytest.raises(NotAuthorized):
        subscribe_to_exchange(session, SubscriptionSpec("amq.fanout", ("me.sub",), durable=True), ["#"], {})


def test_a_subscription_that_is_an_alternate_ends_nevertheless() -> None:
    """Its exchange has no alternate then. A client that deletes such a queue is refused."""
    domain = make_domain()
    session = make_session(domain)
    subscription = session.subscribe(SubscriptionSpec("topic", ("s",), durable=True))
    make_exchange(domain, "e", alternate=to_queue("s"))

    with pytest.raises(InUse, match="alternate"):
        session.delete_queue("s")
    session.subscriptions.unsubscribe(subscription, "unsubscribed")

    assert "s" not in domain.queues
    assert not domain.exchanges.exchange("e").has_alternate


class All:
    """Grants everything but one permission."""

    def __init__(self, but: tuple[Permission, str]) -> None:
        self.but = but

    def allows(self, subject: Subject, permission: Permission, address: str, queue: str | None = None) -> bool:
        return (permission, address) != self.but
