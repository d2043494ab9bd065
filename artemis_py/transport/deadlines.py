"""Deadlines of all connections, in a heap; a connection may move its own without touching the heap.

A connection's deadline moves ahead with every byte it receives. Moving a heap entry each time would cost more than the
byte, so an entry stays where it is and its owner is asked again when the entry is due. Time is passed in.
"""

from heapq import heapify, heappop, heappush
from math import inf
from typing import Final, Protocol

# Stale entries are removed when there are more than this many and they are the majority: closed connections must not
# pile up until their deadlines would have come.
SWEEP_THRESHOLD: Final = 64


class Waiter(Protocol):
    """An object that can be called at a deadline."""

    planned_at: float
    """Time of the planned call in seconds; infinity if none is planned. Written by `Deadlines` only."""

    def handle_deadline(self, now: float) -> None:
        """Handle a planned call, which may come early: plan again what is not due yet."""


class Deadlines:
    """Plan of the calls to all waiters; each waiter has at most one planned call."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, Waiter]] = []
        self._count = 0
        self._stale = 0

    def __len__(self) -> int:
        """Return the number of entries, stale ones included."""
        return len(self._heap)

    def plan(self, waiter: Waiter, when: float) -> None:
        """Plan a call to `waiter` at `when` at the latest: an earlier call that is already planned stays."""
        if when >= waiter.planned_at:
            return
        self.forget(waiter)
        waiter.planned_at = when
        self._count += 1
        heappush(self._heap, (when, self._count, waiter))

    def forget(self, waiter: Waiter) -> None:
        """Cancel the planned call to `waiter`."""
        if waiter.planned_at == inf:
            return
        waiter.planned_at = inf
        self._stale += 1
        if self._stale > SWEEP_THRESHOLD and self._stale * 2 > len(self._heap):
            self._heap = [entry for entry in self._heap if entry[0] == entry[2].planned_at]
            heapify(self._heap)
            self._stale = 0

    def next(self) -> float | None:
        """Return when the earliest call is due; None if none is planned."""
        heap = self._heap
        while heap and heap[0][0] != heap[0][2].planned_at:
            heappop(heap)
            self._stale -= 1
        return heap[0][0] if heap else None

    def take_due(self, now: float) -> list[Waiter]:
        """Return the waiters to call now, earliest first; their planned calls are removed."""
        due: list[Waiter] = []
        while (when := self.next()) is not None and when <= now:
            waiter = heappop(self._heap)[2]
            waiter.planned_at = inf
            due.append(waiter)
        return due
