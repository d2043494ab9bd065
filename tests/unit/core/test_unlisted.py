"""Messages that wait for the only consumer of their queue without references, and whatever makes references of them."""

from collections.abc import Callable

import pytest

from artemis_py.core.messages.message import Message
from artemis_py.core.names.routing_type import RoutingType
from artemis_py.core.queues.consumer import ACCEPTED, RELEASED, Consumer, PassingSink
from artemis_py.core.queues.queue import Queue
from artemis_py.core.queues.reference import Reference
from artemis_py.core.queues.unlisted import Unlisted
from artemis_py.core.routing.domain import Domain
from artemis_py.core.settings.address_settings import AddressSettings
from tests.core_harness import (
    START_MS,
    Recorder,
    browse_all,
    make_domain,
    make_message,
    make_queue,
    make_session,
    pass_time,
    settle_down,
)


class Subscriber(PassingSink):
    """Settles what it gets later, or never."""

    def __init__(self) -> None:
        self.got: list[Reference] = []
        self.consumer: Consumer | None = None
        self.room = 1000

    def pass_on(self, message: Message) -> bool:
        """Everything has to be settled."""
        return False

    def deliver(self, reference: Reference) -> None:
        self.got.append(reference)
        self.room -= 1
        if not self.room:
            assert self.consumer is not None
            self.consumer.block()

    def drained(self) -> None:
        """Never asked for."""

    def ended(self, reason: str) -> None:
        """Does not matter."""

    def bodies(self) -> list[str]:
        """The bodies of what came since the last call."""
        got, self.got = self.got, []
        return [reference.message.data.decode() for reference in got]


class World:
    """An address with two multicast queues, each with a consumer."""

    def __init__(self, settings: AddressSettings | None = None, **options: object) -> None:
        self.domain: Domain = make_domain({} if settings is None else {"#": settings})
        self.queues: list[Queue] = []
        self.sinks: list[Subscriber] = []
        self.consumers: list[Consumer] = []
        for name in ("q", "r"):
            queue = make_queue(self.domain, name, RoutingType.MULTICAST, address="fan", durable=False, **options)
            sink = Subscriber()
            sink.consumer = make_session(self.domain, name).consume(queue, sink)
            sink.consumer.grant(100)
            self.queues.append(queue)
            self.sinks.append(sink)
            self.consumers.append(sink.consumer)
        settle_down(self.domain)
        self.queue, self.sink, self.consumer = self.queues[0], self.sinks[0], self.consumers[0]

    def send(self, *bodies: str, **options: object) -> None:
        """Send messages that are to be settled; nothing is delivered yet."""
        for body in bodies:
            message = make_message(body, durable=True, **options)  # type: ignore[arg-type]
            self.domain.route(message, self.domain.addresses["fan"])

    def run(self) -> None:
        """Let the queues deliver."""
        settle_down(self.domain)


def test_a_fan_out_makes_references_when_it_delivers() -> None:
    """Each queue has its own, with sequences, and settles them by themselves; then nothing is left."""
    world = World()
    world.send("a", "b")
    assert [queue.backlog.is_unlisted for queue in world.queues] == [True, True]
    assert [(queue.waiting_count, queue.message_count) for queue in world.queues] == [(2, 2), (2, 2)]
    world.run()
    got = [list(sink.got) for sink in world.sinks]
    assert [[reference.sequence for reference in each] for each in got] == [[1, 2], [1, 2]]
    assert [queue.delivering_count for queue in world.queues] == [2, 2]
    assert [consumer.unsettled() for consumer in world.consumers] == got
    for consumer, references in zip(world.consumers, got, strict=True):
        for reference in references:
            consumer.settle(reference, ACCEPTED)

    assert [sink.bodies() for sink in world.sinks] == [["a", "b"], ["a", "b"]]
    assert [queue.messages_acknowledged for queue in world.queues] == [2, 2]
    assert [queue.backlog.memory_bytes for queue in world.queues] == [0, 0]
    assert world.domain.account.size_bytes == 0


def test_a_consumer_that_blocks_gets_the_rest_in_order() -> None:
    """However many places were used up before."""
    world = World()
    world.sink.room = 70
    bodies = [str(number) for number in range(200)]
    world.consumer.grant(1000)
    world.send(*bodies)
    world.run()
    got = world.sink.bodies()
    while world.queue.waiting_count:
        world.sink.room = 17
        world.consumer.unblock()
        world.send(f"more {len(got)}") if len(got) < 100 else None
        world.run()
        got += world.sink.bodies()

    assert got[:200] == bodies
    assert got[200:] == sorted(got[200:], key=lambda body: int(body.split()[1]))
    assert world.queue.backlog.memory_bytes == 0


def test_what_is_given_back_comes_before_what_waits() -> None:
    """It has the older sequence."""
    world = World()
    world.send("a")
    world.run()
    (first,) = world.sink.got
    world.consumer.block()
    world.send("b", "c")
    world.consumer.settle(first, RELEASED)
    assert not world.queue.backlog.is_unlisted
    world.consumer.unblock()
    world.run()

    assert world.sink.bodies() == ["a", "a", "b", "c"]


def test_a_message_of_higher_priority_overtakes() -> None:
    """It is taken as ever, and the others get their references."""
    world = World()
    world.send("a", "b")
    world.send("high", priority=9)
    world.send("c")
    world.run()

    assert world.sink.bodies() == ["high", "a", "b", "c"]


def test_a_message_that_expires_does_so_among_others() -> None:
    """Only messages that do not are kept without references."""
    world = World()
    world.consumer.block()
    world.send("a")
    world.send("b", expires_ms=START_MS + 1000)
    world.send("c")
    pass_time(world.domain, 2000)
    world.consumer.unblock()
    world.run()

    assert world.sink.bodies() == ["a", "c"]


def test_whoever_looks_finds_a_reference_for_each() -> None:
    """Browsers, purging and management go through the lists."""
    world = World()
    world.send("a", "b", "c")

    assert [(reference.message.data, reference.sequence) for reference in browse_all(world.queue)] == [
        (b"a", 1),
        (b"b", 2),
        (b"c", 3),
    ]
    world.send("d")
    assert world.queue.purge() == 4
    assert world.queue.message_count == 0
    world.run()
    assert world.sink.bodies() == []
    assert world.sinks[1].bodies() == ["a", "b", "c", "d"]


@pytest.mark.parametrize("ends", [False, True])
def test_another_consumer_takes_turns(ends: bool) -> None:
    """Also if the first one leaves before anything was delivered."""
    world = World()
    world.send("a", "b")
    other = Recorder()
    second = make_session(world.domain, "other").consume(world.queue, other)
    second.grant(100)
    if ends:
        world.consumer.close()
    world.send("c", "d")
    world.run()
    shared = [] if ends else ["a", "c"]

    assert (world.sink.bodies(), other.bodies()) == (shared, ["a", "b", "c", "d"] if ends else ["b", "d"])


def test_deleting_the_queue_returns_their_memory() -> None:
    """The messages stay with the other queue."""
    world = World()
    world.send("a", "b")
    before = world.domain.account.size_bytes
    world.domain.delete_queue("q", force=True)
    world.run()
    assert 0 < world.domain.account.size_bytes < before
    for reference in world.sinks[1].got:
        world.consumers[1].settle(reference, ACCEPTED)

    assert world.domain.account.size_bytes == 0


@pytest.mark.parametrize(
    "stop",
    [lambda queue: queue.pause(), lambda queue: setattr(queue.address, "paused", True)],
    ids=["queue", "address"],
)
def test_a_pause_holds_them(stop: Callable[[Queue], None]) -> None:
    """As any message."""
    world = World()
    stop(world.queue)
    world.send("a")
    world.run()

    assert (world.sink.bodies(), world.queue.waiting_count) == ([], 1)


def test_a_window_that_is_full_has_the_queue_decide() -> None:
    """What becomes of more messages is the business of the backlog, which may put them on disk."""
    world = World(AddressSettings(max_read_page_messages=2))
    world.consumer.block()
    world.send("a", "b")
    assert world.queue.backlog.is_unlisted
    world.send("c")
    assert not world.queue.backlog.is_unlisted
    world.consumer.unblock()
    world.run()

    assert world.sink.bodies() == ["a", "b", "c"]


def test_places_are_given_back() -> None:
    """A queue that never runs empty does not grow, and sequences stay with their messages."""
    domain = make_domain()
    queue = make_queue(domain)
    unlisted = Unlisted()
    added = taken = 0
    for count in (300, 200, 1, 64, 500, 0):
        for _ in range(count):
            added += 1
            unlisted.add(make_message(str(added)), added)
        while unlisted.count > (count // 2):
            taken += 1
            reference = unlisted.take(queue)
            assert (reference.sequence, reference.message.data) == (taken, str(taken).encode())

    assert added == taken
