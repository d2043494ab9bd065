"""Spans are as long as they are while somebody sets the wall clock: an hour forward, or an hour back.

Each test runs with both, and with a clock that nobody sets.
"""

from artemis_py.core.names.routing_type import RoutingType
from artemis_py.core.queues.consumer import FAILED
from artemis_py.core.routing.admission import LASTING_ROOM_MS
from artemis_py.core.routing.discards import REPORT_PERIOD_MS, DiscardCause, Discards
from artemis_py.core.routing.domain import Domain
from artemis_py.core.runtime.events import AddressHasRoom, Dropped
from artemis_py.core.services.services import Services
from artemis_py.core.settings.address_settings import AddressSettings
from artemis_py.core.settings.broker_settings import BrokerSettings
from tests.core_harness import (
    HOUR_MS,
    attach,
    make_domain,
    make_message,
    make_queue,
    make_services,
    make_session,
    pass_time,
    send,
    set_clock,
    set_clocks,
    settle_down,
)

SECOND_MS = 1000
SCAN_MS = 100


def make_world(
    *settings: tuple[str, AddressSettings], transaction_timeout_ms: int = 300_000
) -> tuple[Domain, Services]:
    """A domain that looks every 100 ms for what is over, at two o'clock."""
    options = BrokerSettings(
        address_queue_scan_period_ms=SCAN_MS,
        transaction_scan_period_ms=SCAN_MS,
        message_expiry_scan_period_ms=SCAN_MS,
        transaction_timeout_ms=transaction_timeout_ms,
    )
    domain = make_domain(dict(settings), options)
    domain.dispatcher.now_ms = 2 * HOUR_MS
    services = make_services(domain)
    services.reaper.start()
    return domain, services


def scans(domain: Domain, milliseconds: int) -> None:
    """Time passes, scan by scan."""
    for _ in range(0, milliseconds, SCAN_MS):
        pass_time(domain, SCAN_MS)


@set_clocks
def test_unused_queues_and_addresses_stay_for_their_delay(jump_ms: int) -> None:
    delays = AddressSettings(auto_delete_queues_delay=5 * SECOND_MS, auto_delete_addresses_delay=5 * SECOND_MS)
    domain, _ = make_world(("#", delays))
    domain.create_address("a", frozenset((RoutingType.ANYCAST,)), auto_created=True)
    queue = make_queue(domain, "a", auto_created=True)
    _, consumer = attach(domain, queue)
    consumer.close()

    set_clock(domain, jump_ms)
    scans(domain, 4 * SECOND_MS)
    early = "a" in domain.queues
    scans(domain, 2 * SECOND_MS)
    after_queue = ("a" in domain.queues, "a" in domain.addresses)
    set_clock(domain, jump_ms)
    scans(domain, 6 * SECOND_MS)

    assert (early, after_queue, "a" in domain.addresses) == (True, (False, True), False)


@set_clocks
def test_a_transaction_may_last_as_long_as_its_timeout(jump_ms: int) -> None:
    domain, services = make_world(transaction_timeout_ms=5 * SECOND_MS)
    transaction = services.sessions.open(make_session(domain).subject).begin()

    set_clock(domain, jump_ms)
    scans(domain, 4 * SECOND_MS)
    early = transaction.is_open
    scans(domain, 2 * SECOND_MS)

    assert (early, transaction.is_open) == (True, False)


@set_clocks
def test_a_gate_opens_when_the_first_consumer_has_waited(jump_ms: int) -> None:
    domain, _ = make_world()
    queue = make_queue(domain, consumers_before_dispatch=2, delay_before_dispatch_ms=5 * SECOND_MS)
    send(domain, "q", "m")
    recorder, _ = attach(domain, queue)

    set_clock(domain, jump_ms)
    pass_time(domain, 4 * SECOND_MS)
    early = recorder.bodies()
    pass_time(domain, SECOND_MS)

    assert (early, recorder.bodies()) == ([], ["m"])


@set_clocks
def test_discards_are_reported_after_their_period(jump_ms: int) -> None:
    domain, _ = make_world()
    dropped: list[int] = []
    discards = Discards(domain.dispatcher, domain.events)
    domain.events.subscribe(lambda event: dropped.append(event.count) if isinstance(event, Dropped) else None, Dropped)
    for _ in range(3):
        discards.add("q", DiscardCause.DIVERT, "too old")

    set_clock(domain, jump_ms)
    pass_time(domain, REPORT_PERIOD_MS - 1)
    early = list(dropped)
    pass_time(domain, 1)

    assert (early, dropped) == ([1], [1, 2])


@set_clocks
def test_an_address_has_room_if_that_lasts(jump_ms: int) -> None:
    domain, _ = make_world(("#", AddressSettings(max_size_messages=2)))
    told: list[str] = []
    domain.events.subscribe(lambda _: told.append("room"), AddressHasRoom)
    queue = make_queue(domain)
    send(domain, "q", "a", "b", "c")
    queue.purge()
    settle_down(domain)

    set_clock(domain, jump_ms)
    pass_time(domain, LASTING_ROOM_MS - 1)
    early = list(told)
    pass_time(domain, 1)

    assert (early, told) == ([], ["room"])


@set_clocks
def test_a_failed_delivery_is_repeated_after_its_delay(jump_ms: int) -> None:
    domain, _ = make_world(("#", AddressSettings(redelivery_delay=5 * SECOND_MS)))
    queue = make_queue(domain)
    send(domain, "q", "m")
    recorder, consumer = attach(domain, queue)
    consumer.settle(recorder.take()[0], FAILED)

    set_clock(domain, jump_ms)
    pass_time(domain, 5 * SECOND_MS - 1)
    early = recorder.bodies()
    pass_time(domain, 1)

    assert (early, recorder.bodies()) == ([], ["m"])


def test_messages_follow_the_time_of_day() -> None:
    """Users name it: it counts when they set the clock, at once if it goes forward."""
    domain, _ = make_world()
    now_ms = domain.dispatcher.now_ms
    queue = make_queue(domain)
    domain.route(make_message("later", delivery_time_ms=now_ms + 1800 * SECOND_MS), domain.addresses["q"])
    domain.route(make_message("gone", expires_ms=now_ms + 1800 * SECOND_MS), domain.addresses["q"])
    recorder, consumer = attach(domain, queue, credit=0)

    set_clock(domain, -HOUR_MS)
    scans(domain, 10 * SECOND_MS)
    back = (queue.scheduled_count, queue.waiting_count)
    set_clock(domain, 2 * HOUR_MS)
    scans(domain, SCAN_MS)
    consumer.grant(2)
    settle_down(domain)

    assert (back, recorder.bodies(), queue.messages_expired) == ((1, 1), ["later"], 1)
