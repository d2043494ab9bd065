"""The clock that a test moves: what a broker takes for the time of day."""

import time
from collections.abc import Callable
from typing import Final

Settle = Callable[[], None]
"""Waits until the broker has done everything that is due."""


class Clock:
    """The wall clock of one broker. It runs as usual; `advance` moves it forward.

    Everything that depends on the time of day follows: times to live, delivery delays, redelivery delays, schedules,
    session expiry and the delays of wills. Keep-alives and time-outs of connections do not, so no client is lost.
    """

    def __init__(self, settle: Settle) -> None:
        self._settle: Final = settle
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
        self._settle()
