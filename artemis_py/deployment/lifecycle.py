"""The order in which the parts of a broker start and stop, and how far it is.

    BUILT ──► STANDBY ──► RECOVERING ──► ACTIVE ──► DRAINING ──► STOPPED

Each part belongs to one of the three states in the middle, and starts when the broker reaches it. Parts start one after
the other, in the order of the list, and stop in reverse. When a part fails to start, those before it are stopped and
the broker is STOPPED. It never goes back: a broker that stopped does not start again.
"""

import asyncio
from collections.abc import Callable
from enum import IntEnum
from inspect import isawaitable
from typing import Final

from attrs import frozen


class State(IntEnum):
    """How far a broker is."""

    BUILT = 0
    """Nothing has happened yet."""
    STANDBY = 1
    """The parts run that need no messages: time, logins, the log."""
    RECOVERING = 2
    """The store is read, and the configuration applied to what it held."""
    ACTIVE = 3
    """Clients are let in. Only this state needs to have the store for itself."""
    DRAINING = 4
    """No client is let in any more; parts stop, the clients' connections among the first."""
    STOPPED = 5
    """Nothing runs any more."""


Action = Callable[[], object]
"""Starts or stops a part; what it returns is awaited if that is possible."""


@frozen
class Part:
    """One part of a broker, as far as its life goes."""

    name: str
    """For error texts."""
    state: State
    """The state in which it starts: STANDBY, RECOVERING or ACTIVE."""
    start: Action | None = None
    """None: there is nothing to start."""
    stop: Action | None = None
    """Called if `start` was called, also if that failed. None: there is nothing to stop."""


class Lifecycle:
    """Starts and stops parts."""

    def __init__(self) -> None:
        self.state = State.BUILT
        self._parts: Final[list[Part]] = []
        self._started = 0
        """How many parts, from the first on, are to be stopped."""
        # A stop during the start waits for it, and a second stop for the first one.
        self._lock: Final = asyncio.Lock()

    def add(self, *parts: Part) -> None:
        """Append parts; their states are those of the parts before them, or later ones."""
        for part in parts:
            assert State.STANDBY <= part.state <= State.ACTIVE, f"{part.name} starts in no state of its own"
            assert not self._parts or self._parts[-1].state <= part.state, f"{part.name} starts too late for its state"
            self._parts.append(part)

    async def advance(self, state: State) -> None:
        """Start the parts of all states up to this one. Raises what a part raises; everything is stopped then."""
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
        """Stop what was started, in reverse; False if there was nothing to stop.

        A part that fails to stop does not keep the others running: the first failure is raised at the end. When this
        is cancelled, the next call goes on with the part that was being stopped.
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
            except Exception as error:  # the edge of a part: the others are stopped whatever it does
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
