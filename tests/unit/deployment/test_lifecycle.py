"""The order in which parts start and stop."""

import asyncio

import pytest

from artemis_py.deployment.lifecycle import Lifecycle, Part, State


class World:
    """A broker of three parts that write down what happens to them."""

    def __init__(self, failing: str = "") -> None:
        self.events: list[str] = []
        self.life = Lifecycle()
        self._failing = failing
        self.life.add(
            self.part("clock", State.STANDBY), self.part("store", State.RECOVERING), self.part("door", State.ACTIVE)
        )

    def part(self, name: str, state: State) -> Part:
        return Part(name, state, lambda: self.note(f"start {name}"), lambda: self.note(f"stop {name}"))

    def note(self, event: str) -> None:
        self.events.append(event)
        if event == self._failing:
            raise OSError(event)


async def test_parts_start_in_order_and_stop_in_reverse() -> None:
    world = World()

    await world.life.advance(State.ACTIVE)
    states = [world.life.state]
    assert await world.life.stop()
    states.append(world.life.state)

    assert states == [State.ACTIVE, State.STOPPED]
    assert world.events == ["start clock", "start store", "start door", "stop door", "stop store", "stop clock"]


async def test_a_standby_goes_on_when_it_is_told_to() -> None:
    """A passive broker of a pair opens its doors later: only ACTIVE starts what needs the store for itself."""
    world = World()

    await world.life.advance(State.STANDBY)
    assert (world.life.state, world.events) == (State.STANDBY, ["start clock"])
    await world.life.advance(State.ACTIVE)

    assert world.events == ["start clock", "start store", "start door"]


async def test_a_standby_that_stops_never_opened_the_store() -> None:
    world = World()
    await world.life.advance(State.STANDBY)

    await world.life.stop()

    assert world.events == ["start clock", "stop clock"]


async def test_a_failure_in_the_middle_stops_what_was_started() -> None:
    """The part that failed is stopped too: it may have done half of its work."""
    world = World("start store")

    with pytest.raises(OSError, match="start store"):
        await world.life.advance(State.ACTIVE)

    assert world.life.state is State.STOPPED
    assert world.events == ["start clock", "start store", "stop store", "stop clock"]


async def test_a_part_that_cannot_stop_keeps_no_other_running() -> None:
    world = World("stop door")
    await world.life.advance(State.ACTIVE)

    with pytest.raises(OSError, match="stop door"):
        await world.life.stop()

    assert world.events[-3:] == ["stop door", "stop store", "stop clock"]
    assert world.life.state is State.STOPPED


async def test_stopping_twice_stops_once() -> None:
    world = World()
    await world.life.advance(State.ACTIVE)

    assert [await world.life.stop(), await world.life.stop()] == [True, False]


async def test_a_stop_before_the_start_changes_nothing() -> None:
    world = World()

    assert not await world.life.stop()
    await world.life.advance(State.ACTIVE)

    assert world.life.state is State.ACTIVE


async def test_the_second_of_two_stops_at_once_waits_for_the_first() -> None:
    """A client's last words take time: nobody closes the store below them."""
    leaving = asyncio.Event()
    world = World()
    world.life.add(Part("clients", State.ACTIVE, stop=leaving.wait))
    await world.life.advance(State.ACTIVE)
    stops = [asyncio.ensure_future(world.life.stop()) for _ in range(2)]
    await asyncio.sleep(0)
    assert (world.life.state, world.events[-1]) == (State.DRAINING, "start door")
    leaving.set()

    assert await asyncio.gather(*stops) == [True, False]
    assert world.events[-3:] == ["stop door", "stop store", "stop clock"]


async def test_a_stop_that_was_cancelled_can_be_finished() -> None:
    """The program that embeds a broker lost its patience, then asks again."""
    leaving = asyncio.Event()
    world = World()
    world.life.add(Part("clients", State.ACTIVE, stop=leaving.wait))
    await world.life.advance(State.ACTIVE)
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(world.life.stop(), 0.001)
    leaving.set()

    assert await world.life.stop()
    assert world.life.state is State.STOPPED


async def test_a_stop_during_the_start_waits_for_it() -> None:
    """A socket that was being opened is closed as well."""
    opened = asyncio.Event()
    world = World()
    world.life.add(Part("acceptor", State.ACTIVE, opened.wait, lambda: world.note("stop acceptor")))
    starting = asyncio.ensure_future(world.life.advance(State.ACTIVE))
    await asyncio.sleep(0)
    stopping = asyncio.ensure_future(world.life.stop())
    await asyncio.sleep(0)
    assert world.events[-1] == "start door"
    opened.set()

    await asyncio.gather(starting, stopping)
    assert world.events[-4:] == ["stop acceptor", "stop door", "stop store", "stop clock"]


async def test_a_broker_starts_once() -> None:
    world = World()
    await world.life.advance(State.STANDBY)
    await world.life.stop()

    with pytest.raises(AssertionError, match="STOPPED"):
        await world.life.advance(State.ACTIVE)


def test_parts_are_listed_in_the_order_of_their_states() -> None:
    """One that came too late would start after clients were let in."""
    world = World()

    with pytest.raises(AssertionError, match="late"):
        world.life.add(Part("late", State.STANDBY))
