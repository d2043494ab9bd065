"""Who wants to be called when: a heap that connections may move their wish in without touching it.

A connection's deadline moves ahead with every byte it hears. Moving a heap entry each time would cost more than the
byte, so an entry stays where it is and its owner is asked again when it comes up. Time is passed in.
"""

from heapq import heapify, heappop, heappush
from math import inf
from typing import Final, Protocol

# Entries that nobody waits for any more are swept out when they are the majority of more than this many: closed
# connections must not pile up until their deadline would have come.
SWEEP_THRESHOLD: Final = 64


class Waiter(Protocol):
    """What can be called when its time has come."""

    planned_at: float
    """When the call is planned, in seconds; infinity if it is not. Written by `Deadlines` only."""

    def handle_deadline(self, now: float) -> None:
        """The moment planned came, or one before it: plan again what is still to come."""


class Deadlines:
    """The plan of all waiters; each has one call planned at most."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, Waiter]] = []
        self._count = 0
        self._stale = 0

    def __len__(self) -> int:
        """Entries held, those nobody waits for included."""
        return len(self._heap)

    def plan(self, waiter: Waiter, when: float) -> None:
        """Call `waiter` at `when` at the latest: an earlier call that was planned before stays."""
        if when >= waiter.planned_at:
            return
        self.forget(waiter)
        waiter.planned_at = when
        self._count += 1
        heappush(self._heap, (when, self._count, waiter))

    def forget(self, waiter: Waiter) -> None:
        """Make no call to `waiter` that is not planned anew."""
        if waiter.planned_at == inf:
            return
        waiter.planned_at = inf
        self._stale += 1
        if self._stale > SWEEP_THRESHOLD and self._stale * 2 > len(self._heap):
            self._heap = [entry for entry in self._heap if entry[0] == entry[2].planned_at]
            heapify(self._heap)
            self._stale = 0

    def next(self) -> float | None:
        """When the earliest call is due."""
        heap = self._heap
        while heap and heap[0][0] != heap[0][2].planned_at:
            heappop(heap)
            self._stale -= 1
        return heap[0][0] if heap else None

    def take_due(self, now: float) -> list[Waiter]:
        """The waiters to call now, earliest first; they have no call planned any more."""
        due: list[Waiter] = []
        while (when := self.next()) is not None and when <= now:
            waiter = heappop(self._heap)[2]
            waiter.planned_at = inf
            due.append(waiter)
        return due
