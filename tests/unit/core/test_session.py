"""What a client may have created, sent and undone: sessions, transactions, the reaper
(artemis-model §1.3, §2.4, §3.18).
"""

import gc

import pytest

from artemis_py.core.names.routing_type import RoutingType
from artemis_py.core.queues.consumer import ACCEPTED, RELEASED
from artemis_py.core.routing.domain import Domain
from artemis_py.core.runtime.access import Permission, Subject
from artemis_py.core.sessions.session import Session
from artemis_py.core.sessions.sessions import Sessions
from artemis_py.core.sessions.subscriptions import SubscriptionSpec
from artemis_py.core.settings.address_settings import AddressSettings, FullPolicy
from artemis_py.core.settings.broker_settings import BrokerSettings
from artemis_py.core.settings.queue_config import QueueConfig
from artemis_py.errors import (
    AddressFull,
    MaxConsumersReached,
    NoSuchAddress,
    NoSuchQueue,
    NotAuthorized,
    RoutingTypeMismatch,
    TransactionRolledBack,
    UnknownTransaction,
)
from tests.core_harness import (
    Recorder,
    attach,
    make_domain,
    make_message,
    make_queue,
    make_services,
    make_session,
    settle_down,
)

ANYCAST = RoutingType.ANYCAST
MULTICAST = RoutingType.MULTICAST


# -- creation on demand ----------------------------------------------------------------------------------------


def test_a_typed_producer_creates_address_and_queue() -> None:
    domain = make_domain()

    make_session(domain).producer("orders", ANYCAST)

    assert domain.addresses["orders"].auto_created
    assert domain.queues["orders"].auto_created


def test_an_untyped_producer_of_an_unknown_address_uses_the_default_type() -> None:
    domain = make_domain()

    make_session(domain).producer("orders")

    assert domain.addresses["orders"].routing_types == {MULTICAST}
    assert domain.queues == {}


def test_an_untyped_producer_of_an_address_with_both_types_creates_nothing() -> None:
    """artemis-model §1.3: a null routing type is reported as existing."""
    domain = make_domain()
    domain.create_address("a", frozenset(RoutingType))

    make_session(domain).producer("a")

    assert domain.queues == {}


def test_a_typed_producer_widens_an_address() -> None:
    domain = make_domain()
    domain.create_address("a", frozenset((MULTICAST,)))

    make_session(domain).producer("a", ANYCAST)

    assert domain.addresses["a"].routing_types == set(RoutingType)


def test_no_second_queue_is_made_where_one_can_take_the_message() -> None:
    domain = make_domain()
    make_queue(domain, "other", address="a")

    make_session(domain).producer("a", ANYCAST)

    assert list(domain.queues) == ["other"]


def test_an_fqqn_producer_creates_the_named_queue() -> None:
    domain = make_domain()

    make_session(domain).producer("a::q", MULTICAST)

    assert domain.queues["q"].routing_type is MULTICAST


def test_an_fqqn_must_name_a_queue_of_its_address() -> None:
    domain = make_domain()
    make_queue(domain, "q", address="a")

    with pytest.raises(NoSuchQueue, match="belongs to address 'a'"):
        make_session(domain).producer("b::q", ANYCAST)


@pytest.mark.parametrize(
    ("settings", "error"),
    [
        (AddressSettings(auto_create_addresses=False), NoSuchAddress),
        (AddressSettings(auto_create_queues=False), NoSuchQueue),
    ],
)
def test_what_may_not_be_created_is_refused(settings: AddressSettings, error: type[Exception]) -> None:
    with pytest.raises(error):
        make_session(make_domain({"#": settings})).producer("a", ANYCAST)


def test_widening_is_refused_where_addresses_are_not_created() -> None:
    domain = make_domain({"#": AddressSettings(auto_create_addresses=False)})
    domain.create_address("a", frozenset((MULTICAST,)))

    with pytest.raises(RoutingTypeMismatch):
        make_session(domain).producer("a", ANYCAST)


def test_a_consumer_gets_the_queue_of_the_address_name_before_any_other() -> None:
    domain = make_domain()
    make_queue(domain, "first", address="a")
    own = make_queue(domain, "a", address="a")

    assert make_session(domain).queue_to_consume("a") is own


def test_a_consumer_is_not_given_a_wildcard_queue() -> None:
    """artemis-model §7.1 (ARTEMIS-5337)."""
    domain = make_domain()
    make_queue(domain, "a.#", address="a.#")

    assert make_session(domain).queue_to_consume("a.b").name == "a.b"


def test_a_reaped_queue_is_made_anew_for_a_producer_that_stayed() -> None:
    domain = make_domain()
    producer = make_session(domain).producer("a", ANYCAST)
    domain.delete_address("a", force=True)

    producer.send(make_message())

    assert domain.queues["a"].message_count == 1


# -- rights ----------------------------------------------------------------------------------------------------


class Only:
    """Grants some permissions everywhere."""

    def __init__(self, *permissions: Permission) -> None:
        self._permissions = permissions

    def allows(self, subject: Subject, permission: Permission, address: str, queue: str | None = None) -> bool:
        return permission in self._permissions


@pytest.mark.parametrize(
    ("granted", "missing"),
    [
        ((), Permission.SEND),
        ((Permission.SEND,), Permission.CREATE_ADDRESS),
        ((Permission.SEND, Permission.CREATE_ADDRESS), Permission.CREATE_DURABLE_QUEUE),
    ],
)
def test_each_step_of_creation_on_demand_needs_its_permission(
    granted: tuple[Permission, ...], missing: Permission
) -> None:
    """reliability §5.8: auto-create is checked separately."""
    domain = make_domain()
    domain.access = Only(*granted)

    with pytest.raises(NotAuthorized, match=f"user 'tester' lacks permission '{missing.value}' on"):
        make_session(domain).producer("a", ANYCAST)


def test_consuming_and_browsing_are_different_permissions() -> None:
    domain = make_domain()
    queue = make_queue(domain)
    domain.access = Only(Permission.BROWSE)
    session = make_session(domain)

    session.consume(queue, Recorder(), browse=True)

    with pytest.raises(NotAuthorized, match="'consume'"):
        session.consume(queue, Recorder())


def test_only_its_own_connection_consumes_from_a_temporary_queue() -> None:
    domain = make_domain()
    queue = make_session(domain).create_temporary_queue(ANYCAST)

    with pytest.raises(NotAuthorized, match="belongs to another connection"):
        make_session(domain).consume(queue, Recorder())


def test_max_consumers_does_not_count_browsers() -> None:
    domain = make_domain()
    queue = make_queue(domain, max_consumers=1)
    session = make_session(domain)
    session.consume(queue, Recorder(), browse=True)
    session.consume(queue, Recorder())

    with pytest.raises(MaxConsumersReached):
        session.consume(queue, Recorder())


# -- end -------------------------------------------------------------------------------------------------------


def test_a_session_takes_its_temporary_resources_along() -> None:
    domain = make_domain()
    sessions = Sessions(domain)
    session = sessions.open(Subject("tester"))
    session.create_temporary_queue(ANYCAST)
    session.create_temporary_address(MULTICAST)

    session.close()

    assert (domain.addresses, domain.queues, sessions.opened) == ({}, {}, {})


def test_a_broken_session_returns_deliveries_and_undoes_its_transactions() -> None:
    domain = make_domain()
    queue = make_queue(domain)
    session = make_session(domain)
    recorder = Recorder()
    session.consume(queue, recorder).grant(10)
    producer = session.producer("q", ANYCAST)
    producer.send(make_message("kept"))
    settle_down(domain)
    transaction = session.begin()
    transaction.settle(recorder.take()[0], ACCEPTED)
    producer.send(make_message("undone"), transaction)

    session.close(failed=True)

    other, _ = attach(domain, queue)
    assert [(one.message.data, one.delivery_count) for one in other.take()] == [(b"kept", 1)]
    assert domain.account.message_count == 1


# -- transactions ----------------------------------------------------------------------------------------------


def test_sends_become_visible_at_commit_in_order() -> None:
    domain = make_domain()
    queue = make_queue(domain)
    recorder, _ = attach(domain, queue)
    session = make_session(domain)
    producer = session.producer("q")
    transaction = session.begin()
    producer.send(make_message("1"), transaction)
    producer.send(make_message("outside"))
    producer.send(make_message("2"), transaction)
    settle_down(domain)
    before = recorder.bodies()

    session.commit(transaction)
    settle_down(domain)

    assert (before, recorder.bodies()) == (["outside"], ["1", "2"])
    with pytest.raises(UnknownTransaction):
        session.transaction(transaction.id)


def test_rolled_back_sends_never_happened() -> None:
    domain = make_domain()
    queue = make_queue(domain)
    session = make_session(domain)
    transaction = session.begin()
    session.producer("q").send(make_message(), transaction)

    session.rollback(transaction)

    assert (queue.message_count, domain.account.size_bytes) == (0, 0)


def test_a_settlement_holds_only_after_commit_and_a_rollback_counts_as_an_attempt() -> None:
    """amqp10 §13.2: rolled-back retirements count as a delivery attempt."""
    domain = make_domain()
    queue = make_queue(domain)
    session = make_session(domain)
    session.producer("q").send(make_message("a"))
    recorder = Recorder()
    consumer = session.consume(queue, recorder)
    consumer.grant(10)
    settle_down(domain)
    transaction = session.begin()
    transaction.settle(recorder.take()[0], ACCEPTED)
    in_doubt = queue.delivering_count

    session.rollback(transaction)
    settle_down(domain)

    again = recorder.take()[0]
    assert (in_doubt, again.delivery_count) == (1, 1)


def test_a_delivery_the_client_kept_stays_with_it_after_rollback() -> None:
    domain = make_domain()
    queue = make_queue(domain)
    session = make_session(domain)
    session.producer("q").send(make_message("a"))
    recorder = Recorder()
    consumer = session.consume(queue, recorder)
    consumer.grant(10)
    settle_down(domain)
    reference = recorder.take()[0]
    transaction = session.begin()
    transaction.settle(reference, ACCEPTED, is_final=False)
    session.rollback(transaction)
    settle_down(domain)
    assert recorder.take() == []

    consumer.settle(reference, ACCEPTED)

    assert queue.message_count == 0


def test_other_outcomes_than_accepted_wait_for_commit_too() -> None:
    domain = make_domain()
    queue = make_queue(domain)
    session = make_session(domain)
    session.producer("q").send(make_message("a"))
    recorder = Recorder()
    session.consume(queue, recorder).grant(10)
    settle_down(domain)
    transaction = session.begin()
    transaction.settle(recorder.take()[0], RELEASED)
    settle_down(domain)
    before = recorder.take()

    session.commit(transaction)
    settle_down(domain)

    assert (before, recorder.bodies()) == ([], ["a"])


def test_a_failed_send_makes_the_transaction_rollback_only() -> None:
    domain = make_domain({"q": AddressSettings(max_size_messages=1, address_full_policy=FullPolicy.FAIL)})
    queue = make_queue(domain)
    session = make_session(domain)
    producer = session.producer("q")
    transaction = session.begin()
    producer.send(make_message(), transaction)
    with pytest.raises(AddressFull):
        producer.send(make_message(), transaction)

    with pytest.raises(TransactionRolledBack, match="is full"):
        session.commit(transaction)
    assert queue.message_count == 0


def test_a_delivery_is_settled_once() -> None:
    domain = make_domain()
    queue = make_queue(domain)
    session = make_session(domain)
    session.producer("q").send(make_message())
    recorder = Recorder()
    consumer = session.consume(queue, recorder)
    consumer.grant(1)
    settle_down(domain)
    reference = recorder.take()[0]
    consumer.settle(reference, ACCEPTED)

    assert not session.begin().settle(reference, ACCEPTED)
    consumer.settle(reference, RELEASED)
    assert (queue.message_count, queue.messages_acknowledged) == (0, 1)


# -- the reaper ------------------------------------------------------------------------------------------------


def used_queue(domain: Domain, **options: object) -> Session:
    """An auto-created queue that had a consumer."""
    session = make_session(domain)
    session.producer("a", ANYCAST)
    session.consume(domain.queues["a"], Recorder())
    session.close()
    return session


def test_the_reaper_needs_two_passes() -> None:
    """artemis-model §2.4."""
    domain = make_domain()
    used_queue(domain)
    reaper = make_services(domain).reaper
    reaper.reap()
    after_one = list(domain.queues)

    reaper.reap()
    reaper.reap()
    reaper.reap()

    assert (after_one, list(domain.queues), list(domain.addresses)) == (["a"], [], [])


def test_a_consumer_between_two_passes_saves_the_queue() -> None:
    domain = make_domain()
    used_queue(domain)
    reaper = make_services(domain).reaper
    reaper.reap()
    used_queue(domain)

    reaper.reap()

    assert list(domain.queues) == ["a"]


def test_a_queue_nobody_used_is_kept_unless_the_check_is_skipped() -> None:
    for skip, expected in ((False, ["a"]), (True, [])):
        domain = make_domain({"#": AddressSettings(auto_delete_queues_skip_usage_check=skip)})
        make_session(domain).producer("a", ANYCAST)
        reaper = make_services(domain).reaper

        reaper.reap()
        reaper.reap()

        assert list(domain.queues) == expected


def test_a_queue_with_messages_is_kept_unless_the_count_allows_it() -> None:
    for count, expected in ((0, ["a"]), (-1, [])):
        domain = make_domain({"#": AddressSettings(auto_delete_queues_message_count=count)})
        used_queue(domain)
        make_session(domain).producer("a", ANYCAST).send(make_message())
        reaper = make_services(domain).reaper

        reaper.reap()
        reaper.reap()

        assert list(domain.queues) == expected


def test_the_delay_counts_from_the_last_consumer() -> None:
    domain = make_domain({"#": AddressSettings(auto_delete_queues_delay=1000)})
    used_queue(domain)
    reaper = make_services(domain).reaper
    for _ in range(3):
        reaper.reap()
    early = list(domain.queues)
    domain.dispatcher.steady_ms += 1000

    reaper.reap()
    reaper.reap()

    assert (early, list(domain.queues)) == (["a"], [])


def test_the_start_up_pass_deletes_empty_queues_at_once() -> None:
    domain = make_domain()
    make_session(domain).producer("a", ANYCAST)
    make_session(domain).producer("b", ANYCAST).send(make_message())

    make_services(domain).reaper.reap_at_start()

    assert list(domain.queues) == ["b"]


def test_configured_queues_are_never_reaped() -> None:
    domain = make_domain({"#": AddressSettings(auto_delete_created_queues=True)})
    domain.create_address("a", frozenset((ANYCAST,)))
    domain.create_queue(QueueConfig(name="a", address="a", routing_type=ANYCAST, configuration_managed=True))
    session = make_session(domain)
    session.consume(domain.queues["a"], Recorder())
    session.close()
    reaper = make_services(domain).reaper

    reaper.reap()
    reaper.reap()

    assert list(domain.queues) == ["a"]


def test_a_client_that_deletes_the_last_queue_takes_an_auto_created_address_along() -> None:
    domain = make_domain()
    session = make_session(domain)
    session.producer("a", ANYCAST)

    session.delete_queue("a")

    assert domain.addresses == {}


def test_old_transactions_are_rolled_back() -> None:
    domain = make_domain(options=BrokerSettings(transaction_timeout_ms=1000))
    services = make_services(domain)
    session = services.sessions.open(Subject("tester"))
    transaction = session.begin()
    reaper = services.reaper
    reaper.start()

    domain.dispatcher.steady_ms += 1000
    domain.dispatcher.handle_deadlines()

    assert not transaction.is_open
    with pytest.raises(UnknownTransaction):
        session.transaction(transaction.id)


def test_a_stopped_reaper_does_nothing_more() -> None:
    domain = make_domain(options=BrokerSettings(transaction_timeout_ms=1000))
    services = make_services(domain)
    transaction = services.sessions.open(Subject("tester")).begin()
    reaper = services.reaper
    reaper.start()
    reaper.stop()

    domain.dispatcher.steady_ms += 10_000
    domain.dispatcher.handle_deadlines()

    assert transaction.is_open


def test_a_session_that_ended_leaves_no_garbage_to_collect() -> None:
    """Many connections that end at once must not cause a pause for all of them together."""
    domain = make_domain()
    gc.collect()
    gc.disable()
    try:
        for _ in range(100):
            session = make_session(domain)
            session.subscribe(SubscriptionSpec("news", ("c.s",), durable=True, recreates=True))
            session.producer("q", ANYCAST).hold()
            session.close()
            settle_down(domain)
        del session
        assert gc.collect() == 0
    finally:
        gc.enable()


def test_a_session_of_the_broker_itself_needs_no_permission() -> None:
    """What is internal stays out of its reach, and a drain does not count it among the clients."""
    domain = make_domain()
    domain.access = NoAccess()
    session = Sessions(domain).open_for_broker("c", "peer:1", "AMQP")
    session.create_address("a", frozenset((RoutingType.ANYCAST,)))

    assert all(session.may(permission, "a") for permission in Permission)
    assert session.is_operator
    with pytest.raises(NotAuthorized, match="is internal"):
        session.create_address("$.artemis.internal.x", frozenset((RoutingType.ANYCAST,)))


class NoAccess:
    """Nobody may do anything."""

    def allows(self, subject: Subject, permission: Permission, address: str, queue: str | None = None) -> bool:
        return False
