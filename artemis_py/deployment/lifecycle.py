"""The order in which the parts of a broker start and stop, and the broker's state.

    BUILT ──► STANDBY ──► RECOVERING ──► ACTIVE ──► DRAINING ──► STOPPED

Each part belongs to one of the three states in the middle, and starts when the broker reaches it. Parts start one after
the other, in the order of the list, and stop in reverse. When a part fails to start, those before it are stopped and
the broker is STOPPED. States never go back: a stopped broker does not start again.
"""

import asyncio
from collections.abc import Callable
from enum import IntEnum
from inspect import isawaitable
from typing import Final

from attrs import frozen


class State(IntEnum):
    """State of a broker."""

    BUILT = 0
    """Nothing has happened yet."""
    STANDBY = 1
    """The parts that need no messages run: time, logins, the log."""
    RECOVERING = 2
    """The store is read, and the configuration is applied to what it contains."""
    ACTIVE = 3
    """Clients may connect. Only this state needs exclusive access to the store."""
    DRAINING = 4
    """New clients are refused. Parts stop, the clients' connections among the first."""
    STOPPED = 5
    """All parts have stopped."""


Action = Callable[[], object]
"""Function that starts or stops a part; its result is awaited if it is awaitable."""


@frozen
class Part:
    """One part of a broker: how it starts and stops."""

    name: str
    """Name for error texts."""
    state: State
    """State in which the part starts: STANDBY, RECOVERING or ACTIVE."""
    start: Action | None = None
    """Starts the part; None if there is nothing to start."""
    stop: Action | None = None
    """Stops the part; also called if `start` failed. None if there is nothing to stop."""


class Lifecycle:
    """Starts and stops parts."""

    def __init__(self) -> None:
        self.state = State.BUILT
        self._parts: Final[list[Part]] = []
        self._started = 0
        """Number of parts, from the first on, that `stop` must stop."""
        # A stop during a start waits for the start, and a second stop waits for the first one.
        self._lock: Final = asyncio.Lock()

    @property
    def obstacle(self) -> str | None:
        """Why the broker serves nobody, in words; None while all parts run."""
        if self.state >= State.DRAINING:
            return "the broker is stopping"
        return None if self._started == len(self._parts) else "the broker is starting"

    def add(self, *parts: Part) -> None:
        """Append parts; the state of each must not be earlier than that of the part before it."""
        for part in parts:
            assert State.STANDBY <= part.state <= State.ACTIVE, f"{part.name} starts in no state of its own"
            assert not self._parts or self._parts[-1].state <= part.state, f"{part.name} starts too late for its state"
            self._parts.append(part)

    async def advance(self, state: State) -> None:
        """Start the parts of all states up to `state`. If a part raises, stop everything and raise that exception."""
        assert self.state <= state <= State.ACTIVE, f"a broker that is {self.state.name} does not become {state.name}"
        async with self._lock:
            try:
                while self._started < len(self._parts) and self._parts[self._started].state <= state:
                    part = self._parts[self._started]
                    self.state = part.state
                    self._started += 1
                    await _call(part.start)
            except BaseException:
                await self._stop()
                raise
            self.state = state

    async def stop(self) -> bool:
        """Stop the started parts in reverse order; return False if there was nothing to stop.

        If a part fails to stop, the others are stopped all the same, and the first failure is raised at the end. If
        this is cancelled, the next call continues with the part that was being stopped.
        """
        async with self._lock:
            return await self._stop()

    async def _stop(self) -> bool:
        if self.state is State.BUILT:
            return False
        failure: Exception | None = None
        is_needed = self._started > 0
        self.state = State.DRAINING
        while self._started:
            try:
                await _call(self._parts[self._started - 1].stop)
            except Exception as error:  # the other parts are stopped whatever this one does
                failure = failure or error
            self._started -= 1
        self.state = State.STOPPED
        if failure is not None:
            raise failure
        return is_needed


async def _call(action: Action | None) -> None:
    if action is not None:
        result = action()
        if isawaitable(result):
            await result
