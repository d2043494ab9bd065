"""Timers: a heap of planned calls, by their time in milliseconds on one clock. The current time is passed in."""

from collections import deque
from collections.abc import Callable
from heapq import heappop, heappush
from typing import Final

from artemis_py.core.runtime.meter import Meter

# Limits of one run: calls, and units of work done in them. Thousands of calls planned for the same time are spread over
# several turns.
RUN_CALLS: Final = 200
RUN_UNITS: Final = 500

NEVER: Final = -1
"""A time of the steady clock that has not been."""


class Timer:
    """One planned call, which `cancel` prevents."""

    __slots__ = ("_callback", "when_ms")

    def __init__(self, when_ms: int, callback: Callable[[], None]) -> None:
        self.when_ms = when_ms
        self._callback: Callable[[], None] | None = callback

    def cancel(self) -> None:
        """Cancel the call; harmless if it has already been made."""
        self._callback = None

    @property
    def is_pending(self) -> bool:
        """Whether the call is still to come."""
        return self._callback is not None

    def fire(self) -> None:
        """Make the call, once."""
        callback, self._callback = self._callback, None
        if callback is not None:
            callback()


class Timers:
    """All planned calls, earliest first; calls for the same time keep the order in which they were planned."""

    def __init__(self, meter: Meter | None = None) -> None:
        self._meter: Meter = Meter() if meter is None else meter
        self._heap: list[tuple[int, int, Timer]] = []
        self._due: deque[Timer] = deque()
        """Calls that are due but were too many for the last run."""
        self._count = 0

    def at(self, when_ms: int, callback: Callable[[], None]) -> Timer:
        """Plan `callback` for `when_ms`."""
        timer = Timer(when_ms, callback)
        self._count += 1
        heappush(self._heap, (when_ms, self._count, timer))
        return timer

    def next_ms(self) -> int | None:
        """Return the time of the earliest planned call; None if there is none."""
        if self._due:
            return self._due[0].when_ms
        heap = self._heap
        while heap and not heap[0][2].is_pending:
            heappop(heap)
        return heap[0][0] if heap else None

    def run(self, now_ms: int) -> None:
        """Make the calls that are due, up to the limits of one run; if some are left, `next_ms` is not after `now_ms`.

        A call that is planned during the run for a time already past waits for the next run.
        """
        heap = self._heap
        due = self._due
        while heap and heap[0][0] <= now_ms:
            due.append(heappop(heap)[2])
        end = self._meter.work + RUN_UNITS
        left = min(len(due), RUN_CALLS)
        while left > 0 and self._meter.work < end:
            left -= 1
            due.popleft().fire()
