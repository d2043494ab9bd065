"""Runs: deliveries that a consumer settles in their order, without references, and what makes references of them."""

import pytest

from artemis_py.core.messages.message import Message
from artemis_py.core.names.routing_type import RoutingType
from artemis_py.core.queues.consumer import ACCEPTED, RELEASED, Consumer, PassingSink
from artemis_py.core.queues.queue import Queue
from artemis_py.core.queues.reference import Reference
from artemis_py.core.queues.run import Run
from tests.core_harness import make_domain, make_message, make_queue, make_session, settle_down


class TakenRun(Run):
    """A run whose protocol keeps nothing of it."""

    def unfold(self) -> None:
        self.take_references()


class Subscriber(PassingSink):
    """Takes everything in one run, or one by one."""

    def __init__(self) -> None:
        self.consumer: Consumer | None = None
        self.run: Run | None = None
        self.bodies: list[str] = []
        self.single: list[Reference] = []
        self.room = 1000
        """Messages that it takes in a run at a time."""

    def pass_on(self, message: Message) -> bool:
        return False

    def deliver(self, reference: Reference) -> None:
        self.single.append(reference)
        self.bodies.append(reference.message.data.decode())

    def run_room(self, most: int) -> int:
        return min(most, self.room)

    def deliver_run(self, messages: list[Message], first: int) -> int:
        assert self.consumer is not None
        if self.run is None:
            self.run = TakenRun(self.consumer, first)
        self.run.add(messages, first)
        self.bodies += [message.data.decode() for message in messages]
        return len(messages)

    def drained(self) -> None:
        """Never asked for."""

    def ended(self, reason: str) -> None:
        """Does not matter."""


class World:
    """An address with two multicast queues, each with a consumer."""

    def __init__(self) -> None:
        self.domain = make_domain({})
        self.queues: list[Queue] = []
        self.sinks: list[Subscriber] = []
        self.consumers: list[Consumer] = []
        for name in ("q", "r"):
            queue = make_queue(self.domain, name, RoutingType.MULTICAST, address="fan", durable=False)
            sink = Subscriber()
            sink.consumer = make_session(self.domain, name).consume(queue, sink)
            sink.consumer.grant(1 << 40)
            self.queues.append(queue)
            self.sinks.append(sink)
            self.consumers.append(sink.consumer)
        settle_down(self.domain)
        self.queue, self.sink, self.consumer = self.queues[0], self.sinks[0], self.consumers[0]

    def send(self, bodies: str) -> None:
        """Send a message of each letter, and let the queues deliver."""
        for body in bodies:
            self.domain.route(make_message(body, durable=True), self.domain.addresses["fan"])
        settle_down(self.domain)

    def counts(self) -> tuple[int, int, int, int]:
        """What the first queue and its consumer count."""
        queue, consumer = self.queue, self.consumer
        return queue.delivering_count, consumer.outstanding.count, queue.messages_acknowledged, consumer.accepted

    @property
    def run(self) -> Run:
        """The run of the first consumer."""
        assert self.sink.run is not None
        return self.sink.run


def test_a_run_is_settled_in_parts() -> None:
    """A part may end between two messages of one visit. A message is held until no queue has it any more."""
    world = World()
    world.send("abc")
    world.send("de")
    seen = [world.counts()]
    sizes = [world.consumer.unsettled_bytes]
    for count in (2, 2, 1):
        world.run.settle(count)
        seen.append(world.counts())
        sizes.append(world.consumer.unsettled_bytes)
    held = world.domain.account.message_count
    other = world.sinks[1].run
    assert other is not None
    other.settle(5)

    assert world.sink.bodies == list("abcde")
    assert world.sink.single == []
    assert seen == [(5, 5, 0, 0), (3, 3, 2, 2), (1, 1, 4, 4), (0, 0, 5, 5)]
    assert [size % sizes[0] for size in sizes] == [0, sizes[0] // 5 * 3, sizes[0] // 5, 0]
    assert held == 5
    assert (world.domain.account.message_count, world.domain.account.size_bytes) == (0, 0)


def test_a_run_of_which_some_is_settled_becomes_references() -> None:
    """With the sequences of the messages; they are settled and given back as any others."""
    world = World()
    world.send("abc")
    world.run.settle(1)
    references = world.consumer.unsettled()
    for reference in references:
        world.consumer.settle(reference, ACCEPTED)

    assert [(one.sequence, one.message.data) for one in references] == [(2, b"b"), (3, b"c")]
    assert world.counts() == (0, 0, 3, 3)
    assert world.run.count == 0


def test_a_consumer_that_leaves_gives_its_run_back() -> None:
    """The next one gets it in order."""
    world = World()
    world.send("abcd")
    world.run.settle(1)
    world.consumer.close()
    settle_down(world.domain)
    sink = Subscriber()
    sink.room = 0
    sink.consumer = make_session(world.domain, "next").consume(world.queue, sink)
    sink.consumer.grant(100)
    settle_down(world.domain)

    assert sink.bodies == list("bcd")
    assert [reference.was_acquired for reference in sink.single] == [True, True, True]


def test_a_message_that_goes_by_itself_comes_behind_the_runs() -> None:
    """The runs before it become references, so that the order of deliveries is that of the list."""
    world = World()
    world.send("abc")
    world.sink.room = 0
    world.send("d")

    assert [reference.sequence for reference in world.consumer.unsettled()] == [1, 2, 3, 4]
    assert world.counts() == (4, 4, 0, 0)


def test_a_rule_for_groups_is_told_of_deliveries_that_came_before() -> None:
    """It is asked about each of them when it ends, so each has a reference."""
    world = World()
    world.send("ab")
    world.queue.find_groups()

    assert world.queue.assignment is not None
    assert world.run.count == 0
    for reference in world.consumer.unsettled():
        world.consumer.settle(reference, RELEASED)
    assert world.queue.delivering_count == 0


def test_consumers_get_no_run_while_memory_is_tight() -> None:
    """What each may have unsettled is then looked at before each message."""
    world = World()
    world.domain.account.tight_bytes = 0
    world.send("ab")

    assert world.sink.run is None
    assert world.sink.bodies == ["a", "b"]


@pytest.mark.parametrize("room", [1, 2, 3])
def test_a_sink_says_how_many_it_takes(room: int) -> None:
    """The rest follows in the same visit."""
    world = World()
    world.sink.room = room
    world.send("abcdefg")

    assert world.sink.bodies == list("abcdefg")
    assert world.run.count == 7
