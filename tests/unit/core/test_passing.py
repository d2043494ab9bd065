"""Messages that pass through a queue, and whatever has the queue take them instead."""

from collections.abc import Callable

import pytest

from artemis_py.core.messages.message import Message
from artemis_py.core.names.routing_type import RoutingType
from artemis_py.core.queues.consumer import Consumer, PassingSink
from artemis_py.core.queues.queue import Queue
from artemis_py.core.queues.reference import Reference
from artemis_py.core.routing.domain import Domain
from artemis_py.core.selectors.filter import parse_filter
from tests.core_harness import START_MS, Recorder, make_domain, make_message, make_queue, make_session


class Taker(PassingSink):
    """Takes what is passed on, until it is told not to."""

    def __init__(self) -> None:
        self.passed: list[str] = []
        self.delivered: list[str] = []
        self.is_open = True

    def pass_on(self, message: Message) -> bool:
        if self.is_open:
            self.passed.append(message.data.decode())
        return self.is_open

    def deliver(self, reference: Reference) -> None:
        self.delivered.append(reference.message.data.decode())

    def drained(self) -> None:
        """Never asked for."""

    def ended(self, reason: str) -> None:
        """Does not matter."""


class World:
    """An address with one multicast queue, and a presettled consumer of it."""

    def __init__(self, **options: object) -> None:
        self.domain: Domain = make_domain()
        self.queue: Queue = make_queue(self.domain, "q", RoutingType.MULTICAST, address="fan", **options)
        self.session = make_session(self.domain)
        self.sink = Taker()
        self.consumer: Consumer = self.session.consume(self.queue, self.sink, presettled=True)
        self.consumer.grant(100)

    def send(self, *bodies: str) -> None:
        """Send plain messages."""
        for body in bodies:
            self.domain.route(make_message(body), self.domain.addresses["fan"])


def test_a_message_passes_through_before_the_dispatcher_runs() -> None:
    """It was taken, delivered and acknowledged; nothing of it is left."""
    world = World()
    world.send("a", "b")

    assert (world.sink.passed, world.sink.delivered) == (["a", "b"], [])
    assert (world.consumer.credit, world.consumer.accepted) == (98, 2)
    queue = world.queue
    assert (queue.messages_added, queue.messages_acknowledged, queue.message_count) == (2, 2, 0)
    assert world.domain.account.size_bytes == 0
    world.domain.dispatcher.run()
    assert world.sink.delivered == []


def test_the_order_stays_behind_a_message_that_waits() -> None:
    """What the sink did not take waits, and what comes later waits behind it."""
    world = World()
    world.sink.is_open = False
    world.send("a")
    world.sink.is_open = True
    world.send("b")
    assert (world.sink.passed, world.queue.message_count) == ([], 2)
    world.domain.dispatcher.run()
    world.send("c")

    assert (world.sink.delivered, world.sink.passed) == (["a", "b"], ["c"])


def test_passing_is_less_work_than_keeping() -> None:
    """A read may pass on more copies in a turn than queues can keep: with 100 subscribers a write then has many."""
    domain = make_domain()
    for number in range(100):
        queue = make_queue(domain, f"q{number}", RoutingType.MULTICAST, address="fan")
        make_session(domain, f"c{number}").consume(queue, Taker(), presettled=True).grant(100)
    domain.route(make_message(), domain.addresses["fan"])
    before = domain.meter.work
    domain.route(make_message(), domain.addresses["fan"])

    assert domain.meter.work - before == 100 // 8


def _second_consumer(world: World) -> None:
    world.session.consume(world.queue, Recorder())


def _exclusive(world: World) -> None:
    world.session.close_consumer(world.consumer)
    world.consumer = world.session.consume(world.queue, world.sink, presettled=True, exclusive=True)
    world.consumer.grant(100)


def _selector(world: World) -> None:
    world.session.close_consumer(world.consumer)
    parsed = parse_filter("color IS NULL")
    world.consumer = world.session.consume(world.queue, world.sink, parsed, presettled=True)
    world.consumer.grant(100)


def _pause_address(world: World) -> None:
    world.queue.address.paused = True


@pytest.mark.parametrize(
    "change",
    [
        _second_consumer,
        _exclusive,
        _selector,
        _pause_address,
        lambda world: world.consumer.grant(0),
        lambda world: world.consumer.block(),
        lambda world: world.queue.pause(),
    ],
)
def test_a_queue_takes_what_it_may_not_pass_on(change: Callable[[World], None]) -> None:
    """Then its own rules decide, in the dispatcher's turn."""
    world = World()
    change(world)
    world.send("a")

    assert (world.sink.passed, world.queue.message_count) == ([], 1)


@pytest.mark.parametrize(
    "options",
    [{"ring_size": 5}, {"last_value_key": "key"}, {"non_destructive": True}, {"consumers_before_dispatch": 2}],
)
def test_a_queue_with_a_rule_takes_all(options: dict[str, object]) -> None:
    """A ring or last-value queue decides what it keeps; others wait for consumers, or keep what they deliver."""
    world = World(**options)
    world.send("a")

    assert world.sink.passed == []
    assert world.queue.messages_added == 1


@pytest.mark.parametrize(
    "message", [make_message("a", expires_ms=START_MS + 9), make_message("a", delivery_time_ms=START_MS + 9)]
)
def test_a_message_with_a_time_is_taken(message: Message) -> None:
    """It may have to wait, or be an expired one."""
    world = World()
    world.domain.route(message, world.domain.addresses["fan"])

    assert (world.sink.passed, world.queue.message_count) == ([], 1)


def test_a_message_that_the_queue_stores_is_taken() -> None:
    """A durable queue has to remember a durable message until it is acknowledged."""
    world = World(durable=True)
    world.domain.route(make_message("a", durable=True), world.domain.addresses["fan"])
    assert (world.sink.passed, world.queue.message_count) == ([], 1)
    world.domain.dispatcher.run()
    world.send("b")

    assert world.sink.passed == ["b"]


def test_nothing_passes_to_a_consumer_that_left() -> None:
    """The next one gets what was sent in between, and then what passes."""
    world = World()
    world.session.close_consumer(world.consumer)
    world.send("a")
    world.session.consume(world.queue, world.sink, presettled=True).grant(100)
    world.send("b")
    world.domain.dispatcher.run()
    world.send("c")

    assert (world.sink.delivered, world.sink.passed) == (["a", "b"], ["c"])


def test_a_consumer_that_settles_others_may_take_a_message_at_once() -> None:
    """If its sink says that there is nothing to settle, the delivery is over."""
    world = World()
    world.session.close_consumer(world.consumer)
    world.consumer = world.session.consume(world.queue, world.sink)
    world.consumer.grant(100)
    world.send("a")

    assert world.sink.passed == ["a"]
    assert (world.consumer.outstanding.count, world.consumer.accepted) == (0, 1)
    assert (world.queue.message_count, world.queue.messages_acknowledged) == (0, 1)


def test_what_such_a_consumer_has_to_settle_is_taken() -> None:
    """A durable message is more than one that is delivered at most once, even in a queue that stores nothing."""
    world = World()
    world.session.close_consumer(world.consumer)
    world.session.consume(world.queue, world.sink).grant(100)
    world.domain.route(make_message("a", durable=True), world.domain.addresses["fan"])

    assert (world.sink.passed, world.queue.message_count) == ([], 1)
