"""Failed deliveries of one queue that are repeated later, after their redelivery delay.

A delay is a span, so it is counted on the steady clock; delivery times are times of day, and are in `schedule`. Delayed
messages are in memory only here: a store keeps them at their place in the queue, with the time of day at which the
delay is over.
"""

from collections.abc import Callable
from heapq import heapify, heappop, heappush
from typing import Final

from artemis_py.core.queues.dispatcher import Dispatcher
from artemis_py.core.queues.reference import GONE, SCHEDULED, Reference
from artemis_py.core.runtime.timers import Timer

# So many discarded references may stay until they are due, however few others there are.
LEAST_DISCARDED: Final = 16


class Delays:
    """A heap of references, the one whose delay ends first on top."""

    __slots__ = ("_count", "_discarded", "_dispatcher", "_heap", "_on_due", "_timer")

    def __init__(self, dispatcher: Dispatcher, on_due: Callable[[Reference], None]) -> None:
        self._dispatcher: Dispatcher = dispatcher
        self._on_due: Callable[[Reference], None] = on_due
        self._heap: list[tuple[int, int, Reference]] = []
        """Ends of the delays as `Dispatcher.steady_ms` counts, in the order of their begins if they end together."""
        self._count: int = 0
        self._discarded: int = 0
        """Number of references in the heap that were discarded; they are GONE."""
        self._timer: Timer | None = None

    @property
    def count(self) -> int:
        """Number of delayed messages."""
        return len(self._heap) - self._discarded

    def add(self, reference: Reference, delay_ms: int) -> None:
        """Keep a reference until its delay is over."""
        reference.state = SCHEDULED
        self._count += 1
        heappush(self._heap, (self._dispatcher.steady_ms + delay_ms, self._count, reference))
        self._plan()

    def _plan(self) -> None:
        if not self._heap:
            return
        when_ms = self._heap[0][0]
        timer = self._timer
        if timer is not None and timer.is_pending:
            if timer.when_ms <= when_ms:
                return
            timer.cancel()
        self._timer = self._dispatcher.steady_timers.at(when_ms, self._run)

    def _run(self) -> None:
        while self._heap and self._heap[0][0] <= self._dispatcher.steady_ms:
            reference = heappop(self._heap)[2]
            if reference.state == SCHEDULED:
                self._on_due(reference)
            else:
                self._discarded -= 1
        self._plan()

    def waiting(self) -> list[Reference]:
        """Return the delayed messages."""
        return [entry[2] for entry in self._heap if entry[2].state == SCHEDULED]

    def take_all(self) -> list[Reference]:
        """Remove and return all."""
        taken = self.waiting()
        self._heap = []
        self._discarded = 0
        return taken

    def take(self, wanted: set[Reference]) -> list[Reference]:
        """Remove and return the references in `wanted` that are still here."""
        taken = [reference for reference in self.waiting() if reference in wanted]
        self._heap = [entry for entry in self._heap if entry[2] not in wanted and entry[2].state == SCHEDULED]
        heapify(self._heap)
        self._discarded = 0
        return taken

    def discard(self, reference: Reference) -> None:
        """Remove a reference; the caller ends it now.

        Its place in the heap is freed when it would have been due, or when half of the heap was discarded.
        """
        self._discarded += 1
        reference.state = GONE
        if 2 * self._discarded > len(self._heap) and self._discarded > LEAST_DISCARDED:
            self._heap = [entry for entry in self._heap if entry[2].state == SCHEDULED]
            heapify(self._heap)
            self._discarded = 0

    def cancel(self) -> None:
        """Cancel the timer, because the queue is deleted."""
        if self._timer is not None:
            self._timer.cancel()
