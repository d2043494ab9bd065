"""Slow consumers: which are, which are not, and what happens to them (docs/notifications.md#slow-consumers)."""

from typing import Any, Final

import pytest

from artemis_py.core.names.routing_type import RoutingType
from artemis_py.core.queues.consumer import ACCEPTED, REJECTED, Consumer
from artemis_py.core.queues.queue import Queue
from artemis_py.core.queues.reference import Reference
from artemis_py.core.runtime.access import Subject
from artemis_py.core.runtime.events import ConsumerSlow
from artemis_py.core.selectors.filter import parse_filter
from artemis_py.core.sessions.session import Session
from artemis_py.core.settings.address_settings import AddressSettings, SlowConsumerPolicy, SlowConsumerUnit
from tests.core_harness import (
    Recorder,
    make_domain,
    make_message,
    make_queue,
    make_services,
    pass_time,
    send,
    settle_down,
)

PERIOD_MS: Final = 5_000
DEMANDED: Final = 50
"""Messages in a period, with a threshold of 10."""


class Connection:
    """The connection of a session, as far as it can be ended."""

    def __init__(self, session: Session) -> None:
        self._session: Final = session
        self.reasons: Final[list[str]] = []

    def closed_by_operator(self, reason: str) -> None:
        self.reasons.append(reason)
        self._session.close()

    def user_removed(self, reason: str) -> None:
        raise AssertionError

    def refer(self, only_followers: bool) -> None:
        raise AssertionError

    def rights_changed(self) -> None:
        raise AssertionError


class Client:
    """One consumer of the queue `q`."""

    def __init__(self, world: "World", credit: int = 1000, queue: str = "q", **options: Any) -> None:
        self.world: Final = world
        self.session: Final = world.services.sessions.open(Subject("ann"), "c1", "192.0.2.1:5", "TEST")
        self.connection: Final = Connection(self.session)
        self.session.client = self.connection
        self.sink: Final = Recorder()
        self.consumer: Final[Consumer] = self.session.consume(world.domain.queues[queue], self.sink, **options)
        self.unsettled: Final[list[Reference]] = []
        self.consumer.grant(credit)
        settle_down(world.domain)

    def accept(self, count: int) -> None:
        """Acknowledge the oldest deliveries; credit is renewed for each."""
        self.unsettled.extend(self.sink.take())
        for _ in range(count):
            self.consumer.settle(self.unsettled.pop(0), ACCEPTED)
            self.consumer.grant(self.consumer.credit + 1)
            settle_down(self.world.domain)
            self.unsettled.extend(self.sink.take())


class World:
    """A queue whose address demands ten messages a second."""

    def __init__(self, **settings: Any) -> None:
        settings = {"slow_consumer_threshold": 10} | settings
        self.domain: Final = make_domain({"#": AddressSettings(**settings)})
        self.services: Final = make_services(self.domain)
        self.queue: Final[Queue] = make_queue(self.domain)
        self.slow: Final[list[ConsumerSlow]] = []
        self.domain.events.subscribe(self._heard, ConsumerSlow)

    def _heard(self, event: Any) -> None:
        self.slow.append(event)

    def send(self, count: int, address: str = "q") -> None:
        send(self.domain, address, *["m"] * count)

    def wait(self, milliseconds: int = PERIOD_MS) -> None:
        """Let time pass; the consumers are looked at in the middle of it or at its end."""
        pass_time(self.domain, milliseconds)

    def verdicts(self) -> int:
        """How many were slow since the last call."""
        count = len(self.slow)
        self.slow.clear()
        return count


def test_a_consumer_that_settles_too_little_is_slow() -> None:
    """All of it is in the event."""
    world = World()
    client = Client(world)
    world.send(200)
    world.wait()
    assert world.verdicts() == 0

    client.accept(DEMANDED - 1)
    world.wait()

    (slow,) = world.slow
    assert (slow.id, slow.queue, slow.address, slow.session_id) == (client.consumer.id, "q", "q", client.session.id)
    assert (slow.acknowledged, slow.span_ms, slow.demand) == (49, PERIOD_MS, "10 messages per second")
    assert (slow.count, slow.client.user, slow.client.peer, slow.is_disconnected) == (1, "ann", "192.0.2.1:5", False)
    assert client.connection.reasons == []


def test_one_that_settles_enough_is_not() -> None:
    world = World()
    client = Client(world)
    world.send(200)
    world.wait()

    client.accept(DEMANDED)
    world.wait()

    assert world.verdicts() == 0


def test_it_is_told_at_each_look() -> None:
    """As in Artemis: the notification is repeated as long as it lasts."""
    world = World()
    Client(world)
    world.send(200)

    for _ in range(4):
        world.wait()

    assert world.verdicts() == 3


def test_what_waits_behind_a_full_window_counts() -> None:
    """A worker that takes one message at a time has never more than one, and is slow all the same."""
    world = World()
    client = Client(world, credit=1)
    world.send(200)
    world.wait()

    client.accept(10)
    world.wait()

    assert world.verdicts() == 1


def test_each_consumer_has_its_share_of_what_waits() -> None:
    """120 messages are less for three consumers than for one."""
    world = World()
    for _ in range(3):
        Client(world, credit=1)
    world.send(120)

    for _ in range(3):
        world.wait()

    assert world.verdicts() == 0
    world.send(100)
    world.wait()
    world.wait()
    assert world.verdicts() == 3


def test_a_client_that_does_not_read_is_slow() -> None:
    """Presettled: what it takes is settled, so it must have stopped taking anything."""
    world = World()
    client = Client(world, presettled=True)
    client.consumer.block()
    world.send(200)

    world.wait()
    world.wait()

    assert world.verdicts() == 1


def test_the_credit_of_a_client_that_asks_for_nothing_is_not_its_speed() -> None:
    """In Artemis it is (credit starvation)."""
    world = World()
    Client(world, credit=0)
    world.send(200)

    for _ in range(3):
        world.wait()

    assert world.verdicts() == 0


def test_an_idle_consumer_is_not_slow() -> None:
    """In Artemis it is if others were busy: here the other one takes everything."""
    world = World()
    Client(world, filter=parse_filter("x = 1"))
    busy = Client(world)

    for _ in range(3):
        world.send(100)
        busy.accept(100)
        world.wait()

    assert world.verdicts() == 0


def test_messages_that_came_just_before_the_look_do_not_count() -> None:
    """Artemis compares what came in the period with the whole of it."""
    world = World()
    client = Client(world)

    for _ in range(3):
        world.wait(PERIOD_MS - 1)
        world.send(200)
        world.wait(1)
        client.accept(200)

    assert world.verdicts() == 0


def test_less_than_is_demanded_is_not_enough_to_do() -> None:
    world = World()
    Client(world)
    world.send(DEMANDED - 1)

    for _ in range(3):
        world.wait()

    assert world.verdicts() == 0


def test_a_consumer_with_nothing_left_to_do_is_not_slow() -> None:
    """It has acknowledged ten and rejected the rest: none waits for it."""
    world = World()
    client = Client(world)
    world.send(100)
    world.wait()

    client.accept(10)
    for reference in client.unsettled:
        client.consumer.settle(reference, REJECTED)
    world.wait()

    assert world.verdicts() == 0


def test_what_waits_for_others_does_not_count() -> None:
    """A selector leaves most of the queue to others; what the consumer has counts as ever."""
    world = World()
    queue = world.queue
    session_filter = parse_filter("colour = 'red'")
    client = Client(world, credit=1, filter=session_filter)
    for _ in range(200):
        world.domain.route(make_message("m", colour="blue"), queue.address)
    world.domain.route(make_message("m", colour="red"), queue.address)
    settle_down(world.domain)

    for _ in range(3):
        world.wait()

    assert len(client.sink.deliveries) == 1
    assert world.verdicts() == 0


@pytest.mark.parametrize("paused", [True, False])
def test_what_a_pause_keeps_does_not_count(paused: bool) -> None:
    world = World()
    Client(world, credit=1)
    world.send(200)
    if paused:
        world.queue.pause()

    world.wait()
    world.wait()

    assert world.verdicts() == (0 if paused else 1)


class Large:
    """A body outside of memory, as far as a queue looks at it."""

    size: Final = 1 << 30

    def hold(self) -> None:
        pass

    def release(self) -> None:
        pass


def test_a_large_message_on_its_way_is_not_slow() -> None:
    """It takes its time to arrive; the same consumer is judged when that is over."""
    world = World()
    client = Client(world)
    large = make_message("m")
    large.large = Large()  # type: ignore[assignment]
    world.domain.route(large, world.queue.address)
    world.send(200)
    for _ in range(3):
        world.wait()
    assert world.verdicts() == 0

    client.accept(1)
    world.wait()
    assert world.verdicts() == 1


def test_browsers_are_never_slow() -> None:
    world = World()
    Client(world, browse=True)
    world.send(200)

    for _ in range(3):
        world.wait()

    assert world.verdicts() == 0


def test_a_queue_that_keeps_its_messages_has_slow_consumers_too() -> None:
    world = World()
    make_queue(world.domain, "kept", non_destructive=True)
    Client(world, queue="kept")
    world.send(200, "kept")

    world.wait()
    world.wait()

    assert world.verdicts() == 1


@pytest.mark.parametrize(
    ("unit", "demand"),
    [
        (SlowConsumerUnit.MESSAGES_PER_SECOND, 5_000),
        (SlowConsumerUnit.MESSAGES_PER_MINUTE, 60_000),
        (SlowConsumerUnit.MESSAGES_PER_HOUR, 3_600_000),
        (SlowConsumerUnit.MESSAGES_PER_DAY, 86_400_000),
    ],
)
def test_a_consumer_has_the_time_of_one_message(unit: SlowConsumerUnit, demand: int) -> None:
    """Artemis compares the rate in each period: with one message an hour, whoever works for 5 s would be slow."""
    world = World(slow_consumer_threshold=1, slow_consumer_threshold_measurement_unit=unit)
    Client(world)
    world.send(10)
    world.wait(PERIOD_MS)

    world.wait(max(demand - 1000, PERIOD_MS - 1000))
    assert world.verdicts() == 0

    world.wait(1000)
    world.wait(PERIOD_MS)
    assert world.verdicts() > 0


def test_the_period_is_that_of_the_settings() -> None:
    world = World(slow_consumer_check_period=60)
    Client(world)
    world.send(5000)

    world.wait(60_000)
    world.wait(59_000)
    assert world.verdicts() == 0

    world.wait(1_000)
    assert world.verdicts() == 1


def test_a_slow_consumer_is_disconnected_with_the_reason() -> None:
    """KILL: the client is told; what it had goes to others."""
    world = World(slow_consumer_policy=SlowConsumerPolicy.KILL)
    client = Client(world)
    world.send(200)
    world.wait()

    world.wait()

    (slow,) = world.slow
    assert slow.is_disconnected
    text = "it acknowledged 0 messages in 5.0 s, and 10 messages per second are demanded"
    assert client.connection.reasons == [f"consumer of queue 'q' is too slow: {text}"]
    assert client.session.farewell == client.connection.reasons[0]
    assert (world.queue.waiting_count, world.queue.consumer_count) == (200, 0)
    world.wait()
    assert world.verdicts() == 1, "only the one before it was disconnected"


def test_without_a_threshold_there_is_no_timer() -> None:
    """Nothing is done for settings that nobody made; they may come later, and go again."""
    world = World(slow_consumer_threshold=-1)
    Client(world)
    world.send(200)
    assert world.domain.dispatcher.next_steady_ms() is None

    world.domain.settings.put("#", AddressSettings(slow_consumer_threshold=10))
    settle_down(world.domain)
    world.wait()
    world.wait()
    assert world.verdicts() == 1

    world.domain.settings.put("#", AddressSettings(slow_consumer_threshold=0))
    settle_down(world.domain)
    assert world.domain.dispatcher.next_steady_ms() is None
    world.wait()
    assert world.verdicts() == 0


def test_nothing_is_looked_at_after_the_end() -> None:
    world = World()

    world.services.slow_consumers.stop()

    assert world.domain.dispatcher.next_steady_ms() is None


def test_many_consumers_are_looked_at_in_slices() -> None:
    """A thousand of them: nobody waits for the look to end."""
    world = World()
    for _ in range(1000):
        Client(world, credit=0)
    pass_time_to = world.domain.dispatcher
    pass_time_to.steady_ms += PERIOD_MS

    pass_time_to.handle_deadlines()

    assert pass_time_to.slices.has_work
    settle_down(world.domain)
    assert not pass_time_to.slices.has_work


def test_only_its_own_consumers_are_looked_at() -> None:
    """Each address has settings of its own, in one broker."""
    domain = make_domain({"fast.#": AddressSettings(slow_consumer_threshold=10)})
    services = make_services(domain)
    heard: list[object] = []
    domain.events.subscribe(heard.append, ConsumerSlow)
    for name in ("fast.a", "other"):
        queue = make_queue(domain, name, RoutingType.ANYCAST)
        session = services.sessions.open(Subject("ann"), "c1", "192.0.2.1:5", "TEST")
        session.consume(queue, Recorder()).grant(1000)
        send(domain, name, *["m"] * 200)

    pass_time(domain, PERIOD_MS)
    pass_time(domain, PERIOD_MS)

    assert [getattr(each, "queue", "") for each in heard] == ["fast.a"]
