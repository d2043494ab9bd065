"""Scheduled messages: those with a delivery time, which is a time of day, and failed deliveries that are delayed.

The soonest are in a heap. If there are more durable messages with a delivery time than a window takes, the later
ones are on disk only, as in `tail`, in the order of their delivery times. Failed deliveries are in `delays`.
"""

from collections.abc import Callable
from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING, Final

from artemis_py.core.queues.delays import Delays
from artemis_py.core.queues.dispatcher import Dispatcher
from artemis_py.core.queues.page import SCHEDULE_END, SCHEDULED_RANK, position_of
from artemis_py.core.queues.reference import COLD, SCHEDULED, Reference
from artemis_py.core.queues.tail import Tail
from artemis_py.core.runtime.timers import Timer
from artemis_py.core.selectors.filter import Filter
from artemis_py.errors import StoreError

if TYPE_CHECKING:
    from artemis_py.core.queues.queue import Queue

Entry = tuple[int, int, Reference]
"""The time at which a message is due, its order among those due at the same time, and the reference."""

# Messages with a delivery time that a queue keeps in memory; up to twice as many if they do not arrive in order.
WINDOW_MESSAGES: Final = 1000

PAGE_BYTES: Final = 1 << 20


class Schedule:
    """The scheduled messages of one queue."""

    __slots__ = (
        "_count",
        "_delays",
        "_heap",
        "_on_due",
        "_queue",
        "_tail",
        "_timer",
        "dispatcher",
        "restored_below",
        "window_messages",
    )

    def __init__(self, queue: "Queue", dispatcher: Dispatcher, on_due: Callable[[Reference], None]) -> None:
        self._queue: Queue = queue
        self.dispatcher: Dispatcher = dispatcher
        self._on_due: Callable[[Reference], None] = on_due
        self._heap: list[Entry] = []
        self._count: int = 0
        self._delays: Delays | None = None
        """Failed deliveries; None as long as there were none."""
        self._tail: Tail | None = None
        self._timer: Timer | None = None
        self.window_messages: int = WINDOW_MESSAGES
        self.restored_below: int = 0
        """Messages with a lower running number of the store are from an earlier run, and may have been delivered."""

    @property
    def count(self) -> int:
        """Number of all scheduled messages."""
        tail, delays = self._tail, self._delays
        return len(self._heap) + (0 if tail is None else tail.count) + (0 if delays is None else delays.count)

    # -- in ----------------------------------------------------------------------------------------------------

    def add(self, reference: Reference, when_ms: int) -> None:
        """Keep a reference in memory until it is due at `when_ms`."""
        reference.state = SCHEDULED
        self._count += 1
        heappush(self._heap, (when_ms, self._count, reference))
        self._plan()

    def delay(self, reference: Reference, delay_ms: int) -> None:
        """Keep a failed delivery in memory for this time from now on, whatever becomes of the wall clock."""
        if self._delays is None:
            self._delays = Delays(self.dispatcher, self._on_due)
        self._delays.add(reference, delay_ms)

    def add_stored(self, reference: Reference) -> None:
        """Add a reference that was just put into the storage under its delivery time."""
        tail = self._tail
        if tail is None:
            tail = self._tail = Tail(self._queue, SCHEDULED_RANK, SCHEDULE_END)
        if tail.count == 0:
            tail.frontier = SCHEDULE_END
        if position_of(reference) > tail.frontier:
            self._leave(tail, reference)
            return
        self.add(reference, reference.message.delivery_time_ms)
        if len(self._heap) > 2 * self.window_messages:
            self._shorten(tail)

    def _shorten(self, tail: Tail) -> None:
        """Leave messages that are not due soon on disk only: the frontier moves back."""
        entries = sorted(self._heap, key=_order)
        kept = entries[: self.window_messages]
        tail.frontier = max([position_of(entry[2]) for entry in kept if _may_go(entry[2])], default=0)
        for entry in entries[self.window_messages :]:
            if _may_go(entry[2]) and position_of(entry[2]) > tail.frontier:
                self._leave(tail, entry[2])
            else:
                kept.append(entry)
        self._heap = kept
        heapify(self._heap)

    def _leave(self, tail: Tail, reference: Reference) -> None:
        tail.put(reference)
        if self.dispatcher.storage.is_written(reference):
            tail.committed(reference)

    def restore(self, count: int, size_bytes: int, below: int) -> None:
        """Register messages that an earlier run left on disk, with running numbers below `below`.

        The first iteration of the loop finds out which of them is due first.
        """
        self.restored_below = below
        self._tail = Tail(self._queue, SCHEDULED_RANK, 0)
        self._tail.restore(count, size_bytes)
        self._plan_at(self.dispatcher.now_ms)

    def committed(self, reference: Reference) -> None:
        """Note that a reference that was put can be read now; see `Tail.committed`."""
        if self._tail is not None:
            self._tail.committed(reference)

    # -- out ---------------------------------------------------------------------------------------------------

    def _plan(self) -> None:
        if self._heap:
            self._plan_at(self._heap[0][0])

    def _plan_at(self, when_ms: int) -> None:
        timer = self._timer
        if timer is not None and timer.is_pending:
            if timer.when_ms <= when_ms:
                return
            timer.cancel()
        self._timer = self.dispatcher.timers.at(when_ms, self._run)

    def _run(self) -> None:
        now_ms = self.dispatcher.now_ms
        while self._load_next() and self._heap[0][0] <= now_ms:
            self._on_due(heappop(self._heap)[2])
        self._plan()

    def _load_next(self) -> bool:
        """Make sure that the first in the heap is the next of all messages; False if there is none."""
        while True:
            tail = self._tail
            if tail is None or tail.count == 0 or (self._heap and self._heap[0][0] <= tail.frontier >> 64):
                return bool(self._heap)
            if not self._load(tail):
                return bool(self._heap)

    def _load(self, tail: Tail) -> bool:
        page = tail.read(tail.frontier, SCHEDULE_END, self.window_messages, PAGE_BYTES)
        if page is None:
            return False
        tail.frontier = page.end
        for reference in page.references:
            tail.take(reference)
            reference.state = SCHEDULED
            self._count += 1
            heappush(self._heap, (reference.message.delivery_time_ms, self._count, reference))
        if tail.count <= 0 or page.end == SCHEDULE_END:
            self._end(tail)
        return True

    def _end(self, tail: Tail) -> None:
        """Empty a tail that has nothing on disk any more; a count that disagrees is wrong (a damaged store)."""
        tail.clear()
        tail.frontier = SCHEDULE_END

    def left(self, reference: Reference) -> None:
        """Note that a stored reference is about to be removed."""
        if self._tail is not None:
            self._tail.left(reference)

    # -- all at once -------------------------------------------------------------------------------------------

    def waiting(self) -> list[Reference]:
        """Return the messages in memory."""
        waiting = [entry[2] for entry in self._heap]
        if self._delays is not None:
            waiting += self._delays.waiting()
        return waiting

    def take_heap(self) -> list[Reference]:
        """Remove and return all messages in memory; `drop` is for the rest."""
        taken = [entry[2] for entry in self._heap]
        self._heap = []
        if self._delays is not None:
            taken += self._delays.take_all()
        return taken

    def discard(self, reference: Reference) -> None:
        """Remove a failed delivery that waits in memory; the caller ends it now."""
        assert self._delays is not None
        self._delays.discard(reference)

    def take(self, wanted: set[Reference]) -> list[Reference]:
        """Remove and return the references in `wanted` that are still in memory."""
        taken = [entry[2] for entry in self._heap if entry[2] in wanted]
        self._heap = [entry for entry in self._heap if entry[2] not in wanted]
        heapify(self._heap)
        if self._delays is not None:
            taken += self._delays.take(wanted)
        if not self._heap:
            self._plan_at(self.dispatcher.now_ms)
        return taken

    def take_page(self, filter: Filter, after: int) -> tuple[list[Reference], int]:
        """Remove the messages that `filter` matches from the next page of those on disk only.

        Returns them, and the position that was reached, -1 at the end. Raises StoreError if the page cannot be read.
        """
        tail = self._tail
        if tail is None or tail.count == 0:
            return [], -1
        page = tail.read(max(tail.frontier, after), SCHEDULE_END, self.window_messages, PAGE_BYTES)
        if page is None:
            raise StoreError(f"scheduled messages of queue '{self._queue.name}' cannot be read")
        taken = [reference for reference in page.references if filter.matches(reference)]
        for reference in taken:
            tail.take(reference)
        return taken, -1 if page.end >= SCHEDULE_END else page.end

    def drop(self) -> int:
        """Forget all messages that are on disk only; return how many there were."""
        tail = self._tail
        if tail is None or tail.count == 0:
            return 0
        count = tail.count
        self.dispatcher.storage.drop(
            self._queue,
            SCHEDULED_RANK,
            tail.frontier,
            SCHEDULE_END,
            frozenset(),
            tail.stored_count,
            tail.stored_bytes,
        )
        self._end(tail)
        return count

    def cancel(self) -> None:
        """Cancel the timers, because the queue is deleted."""
        if self._timer is not None:
            self._timer.cancel()
        if self._delays is not None:
            self._delays.cancel()


def _may_go(reference: Reference) -> bool:
    """Tell whether a reference can be on disk only: it is stored under its delivery time."""
    return reference.handle != 0 and reference.sequence == 0 and reference.state != COLD


def _order(entry: Entry) -> tuple[int, int]:
    return entry[0], entry[1]
