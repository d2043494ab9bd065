"""The clock that a test moves: the time of day of a broker, and the clock on which it measures spans."""

import time
from collections.abc import Callable
from typing import Final

Skip = Callable[[float], None]
"""Moves the clocks of a broker forward, by seconds, and waits until it has done everything that is due."""


class Clock:
    """The clocks of one broker, which move together. They run as usual; `advance` moves them forward.

    What the core of the broker waits for follows: times to live, delivery delays, redelivery delays, schedules,
    auto-delete, session expiry and the delays of wills. Keep-alives and time-outs of connections do not, so no client
    is lost.
    """

    def __init__(self, skip: Skip) -> None:
        self._skip: Final = skip
        self._ahead_s = 0.0

    @property
    def ahead_s(self) -> float:
        """Seconds by which the broker is ahead of the real time."""
        return self._ahead_s

    def now(self) -> float:
        """Return the broker's time, in seconds since 1970."""
        return time.time() + self._ahead_s

    def advance(self, seconds: float) -> None:
        """Move forward by this time, and wait until the broker has done what became due.

        Raises ValueError for a negative time: a broker's clock does not go back.
        """
        if seconds < 0:
            raise ValueError("a clock can only be moved forward")
        self._ahead_s += seconds
        self._skip(seconds)
