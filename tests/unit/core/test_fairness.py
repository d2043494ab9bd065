"""What is much is done in slices, and who wants little does not wait for those who want much. Counted, not timed."""

import pytest

from artemis_py.core.names.routing_type import RoutingType
from artemis_py.core.queues.consumer import ACCEPTED, Consumer
from artemis_py.core.routing.domain import Domain
from artemis_py.core.runtime.timers import RUN_CALLS
from tests.core_harness import (
    START_MS,
    Recorder,
    make_domain,
    make_message,
    make_queue,
    make_session,
    send,
    settle_down,
)


def consume(domain: Domain, name: str, credit: int) -> tuple[Recorder, Consumer]:
    """A consumer with credit; nothing is delivered yet."""
    sink = Recorder()
    consumer = make_session(domain).consume(domain.queue(name), sink)
    consumer.grant(credit)
    return sink, consumer


def test_a_queue_with_little_does_not_wait_for_those_with_much() -> None:
    """300 queues have more than a turn delivers; one message elsewhere goes out in the next turn, and so do they."""
    domain = make_domain()
    much = []
    for number in range(300):
        make_queue(domain, f"q{number}")
        for _ in range(50):
            domain.route(make_message(), domain.addresses[f"q{number}"])
        much.append(consume(domain, f"q{number}", 1000)[0])
    make_queue(domain, "little")
    sink, _ = consume(domain, "little", 1000)
    for _ in range(3):
        domain.dispatcher.run(1000)

    served = 0
    before = sum(len(one.deliveries) for one in much)
    for _ in range(6):
        domain.route(make_message(), domain.addresses["little"])
        domain.dispatcher.run(1000)
        served += len(sink.take())

    assert served == 6
    assert sum(len(one.deliveries) for one in much) - before > 2400


@pytest.mark.parametrize(("is_busy", "turns"), [(True, 10), (False, 1)])
def test_a_fan_out_is_gathered_only_while_input_waits(is_busy: bool, turns: int) -> None:
    """100 subscribers with a few messages each: all in one turn if there is time, else many in a write."""
    domain = make_domain()
    sinks = []
    for number in range(100):
        make_queue(domain, f"q{number}", RoutingType.MULTICAST, address="fan")
        sinks.append(consume(domain, f"q{number}", 1000)[0])

    def send_five() -> int:
        for _ in range(5):
            domain.route(make_message(), domain.addresses["fan"])
        count = 0
        while any(len(sink.deliveries) < 5 for sink in sinks):
            domain.dispatcher.run(1000, is_busy)
            count += 1
        for sink in sinks:
            assert len(sink.take()) == 5
        return count

    assert send_five() == 1
    assert send_five() == turns


def test_what_the_budget_does_not_reach_comes_first_the_next_time() -> None:
    """While no input waits: each queue may deliver much, so the first ones would leave nothing for the others."""
    domain = make_domain()
    sinks = []
    for number in range(20):
        make_queue(domain, f"q{number}")
        for _ in range(600):
            domain.route(make_message(), domain.addresses[f"q{number}"])
        sinks.append(consume(domain, f"q{number}", 1000)[0])
    for _ in range(5):
        domain.dispatcher.run(1000, False)

    assert [len(sink.deliveries) for sink in sinks] == [250] * 20


def test_queues_with_much_are_not_starved_by_those_with_little() -> None:
    """A part of each turn is theirs, however many others become ready."""
    domain = make_domain()
    make_queue(domain, "much")
    for _ in range(2000):
        domain.route(make_message(), domain.addresses["much"])
    sink, _ = consume(domain, "much", 5000)
    for number in range(60):
        make_queue(domain, f"q{number}")
        consume(domain, f"q{number}", 5000)
    domain.dispatcher.run(100)

    for _ in range(10):
        for number in range(60):
            domain.route(make_message(), domain.addresses[f"q{number}"])
        domain.dispatcher.run(100)

    assert len(sink.take()) >= 80


def test_a_delivery_in_a_queue_keeps_its_order_when_much_comes_back() -> None:
    """A consumer leaves with 5,000 deliveries: they return in slices, and until the last is back nobody gets any."""
    domain = make_domain()
    queue = make_queue(domain)
    for number in range(5010):
        domain.route(make_message(str(number)), domain.addresses["q"])
    _, first = consume(domain, "q", 5000)
    settle_down(domain)
    sink, second = consume(domain, "q", 10_000)
    settle_down(domain)
    early = sink.bodies()
    for reference in second.outstanding.all():
        second.settle(reference, ACCEPTED)
    assert early == [str(number) for number in range(5000, 5010)]

    first.close()
    turns = 0
    between = 0
    while queue.dispatch.returning:
        domain.dispatcher.run(1000)
        turns += 1
        between += len(sink.deliveries) if queue.dispatch.returning else 0
    settle_down(domain)

    assert turns >= 9
    assert between == 0
    assert sink.bodies() == [str(number) for number in range(5000)]
    assert queue.delivering_count == 5000


def test_a_queue_can_be_deleted_while_much_comes_back() -> None:
    """What is still on its way is forgotten with it."""
    domain = make_domain()
    make_queue(domain)
    for number in range(3000):
        domain.route(make_message(str(number)), domain.addresses["q"])
    _, consumer = consume(domain, "q", 3000)
    settle_down(domain)
    consumer.close()
    domain.delete_queue("q")
    settle_down(domain)

    assert domain.account.message_count == 0


def test_a_session_ends_in_slices() -> None:
    """1,000 temporary queues with consumers: nothing is delivered to them any more, and they go over many turns."""
    domain = make_domain()
    session = make_session(domain)
    sink = Recorder()
    queues = [session.create_temporary_queue(RoutingType.ANYCAST) for _ in range(1000)]
    for queue in queues:
        session.consume(queue, sink, presettled=True).grant(10)
    settle_down(domain)

    before = domain.meter.work
    session.close()
    at_once = domain.meter.work - before
    left = [queue for queue in queues if not queue.is_deleted]
    domain.route(make_message(), left[-1].address)
    turns, most = 0, 0
    while domain.queues:
        before = domain.meter.work
        domain.dispatcher.run()
        most = max(most, domain.meter.work - before)
        turns += 1

    assert 0 < at_once < 600
    assert most < 600
    assert turns > 20
    assert sink.deliveries == []
    assert not domain.addresses
    assert domain.account.message_count == 0


def test_a_temporary_topic_with_many_queues_of_others_goes_in_slices() -> None:
    """The queues are not its owner's, but they go with it."""
    domain = make_domain()
    session = make_session(domain)
    address = session.create_temporary_address(RoutingType.MULTICAST)
    for number in range(200):
        make_queue(domain, f"q{number}", RoutingType.MULTICAST, address=address.name)

    before = domain.meter.work
    session.close()
    at_once = domain.meter.work - before
    settle_down(domain)

    assert at_once < 600
    assert not domain.queues
    assert not domain.addresses


def test_what_is_planned_for_one_moment_by_the_thousand_takes_many_turns() -> None:
    """In the order in which it was planned, and before what is due later."""
    domain = make_domain()
    said: list[int] = []
    for number in range(3 * RUN_CALLS):
        domain.dispatcher.timers.at(START_MS + 5, lambda number=number: said.append(number))  # type: ignore[misc]
    domain.dispatcher.timers.at(START_MS + 6, lambda: said.append(-1))
    domain.dispatcher.now_ms = START_MS + 10

    runs = 0
    while (due_ms := domain.dispatcher.next_deadline_ms()) is not None and due_ms <= domain.dispatcher.now_ms:
        domain.dispatcher.handle_deadlines()
        runs += 1
        assert len(said) <= runs * RUN_CALLS

    assert said == [*range(3 * RUN_CALLS), -1]
    assert runs == 4


def test_calls_after_a_span_come_whatever_the_wall_clock_says() -> None:
    """It may be set back, or forward; what is planned for a time of day follows it."""
    dispatcher = make_domain().dispatcher
    said: list[str] = []
    dispatcher.after(1_000, lambda: said.append("span"))
    dispatcher.timers.at(START_MS + 1_000, lambda: said.append("time of day"))

    dispatcher.now_ms -= 3_600_000
    dispatcher.steady_ms += 999
    assert not dispatcher.is_due()
    dispatcher.steady_ms += 1
    assert dispatcher.is_due()
    dispatcher.handle_deadlines()
    assert said == ["span"]
    assert dispatcher.next_steady_ms() is None
    dispatcher.after(1_000, lambda: said.append("later"))
    dispatcher.now_ms += 2 * 3_600_000
    assert dispatcher.is_due()
    dispatcher.handle_deadlines()
    assert said == ["span", "time of day"]


def test_a_call_that_fails_keeps_none_of_the_other_clock() -> None:
    """A deadline of the core that fails is an error in the log; those of the mesh come all the same."""
    dispatcher = make_domain().dispatcher
    said: list[str] = []

    def fail() -> None:
        raise RuntimeError("planted")

    dispatcher.timers.at(START_MS, fail)
    dispatcher.after(0, lambda: said.append("span"))
    with pytest.raises(RuntimeError, match="planted"):
        dispatcher.handle_deadlines()

    assert said == ["span"]


@pytest.mark.parametrize("with_filters", [False, True])
def test_routing_counts_what_it_does(with_filters: bool) -> None:
    """A unit for each queue that gets the message, and for each that had to be asked."""
    domain = make_domain()
    options = {"filter": "color = 'red'"} if with_filters else {}
    for number in range(100):
        make_queue(domain, f"q{number}", RoutingType.MULTICAST, address="fan", **options)
    domain.route(make_message(color="blue"), domain.addresses["fan"])
    before = domain.meter.work
    domain.route(make_message(color="blue"), domain.addresses["fan"])

    assert domain.meter.work - before == 100


def test_a_short_queue_is_emptied_and_left_at_once() -> None:
    """Slices are for what is long: the usual case ends in the turn in which it began."""
    domain = make_domain()
    session = make_session(domain)
    queue = session.create_temporary_queue(RoutingType.ANYCAST)
    send(domain, queue.address.name, "a", "b")
    session.consume(queue, Recorder()).grant(1)
    settle_down(domain)

    session.close()

    assert not domain.queues
    assert not domain.dispatcher.slices.has_work
