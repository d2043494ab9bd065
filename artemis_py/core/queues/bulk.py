"""Operations on all messages of a queue: emptying it, and removing or counting the messages that a selector matches.

Each runs in the background (`runtime/background`), because a queue may have millions of messages. It covers the
messages that are in the queue when it begins; later ones are left alone.

Emptying takes effect at once: lists and tails are removed as a whole, and only freeing their contents takes slices. A
crash between slices may bring back messages that were in memory, so the request is answered only after the last slice.
Removing and counting examine each message when they reach it. Messages that a consumer has at that time are skipped,
and so are messages that it gives back at a place already examined.
"""

from typing import TYPE_CHECKING

from artemis_py.core.queues.page import Page
from artemis_py.core.queues.reference import PRIORITIES, WAITING, Reference
from artemis_py.core.queues.settlement import forget
from artemis_py.core.runtime.background import SLICE_MESSAGES, Steps
from artemis_py.core.selectors.filter import Filter
from artemis_py.errors import StoreError

if TYPE_CHECKING:
    from artemis_py.core.queues.queue import Queue


class Place:
    """A position in one priority of a queue that is being searched."""

    __slots__ = ("_emptied", "_hints", "_priority", "_queue", "_upto", "cold", "position", "step", "warm")

    def __init__(self, queue: "Queue", priority: int, upto: int) -> None:
        self._queue: Queue = queue
        self._priority: int = priority
        self._upto: int = upto
        self._emptied: int = queue.backlog.emptied
        self._hints: list[Reference] = []
        """The last message in memory of each slice: the search continues after the last one that still waits."""
        self.position: int = 0
        """Everything up to this sequence was examined."""
        self.step: int = SLICE_MESSAGES
        """Messages in memory, and on disk, that one move may find."""
        self.warm: list[Reference] = []
        """The next messages in memory."""
        self.cold: list[Reference] = []
        """The next messages that are on disk only."""

    def move(self) -> bool:
        """Move to the next messages; False at the end. Raises StoreError if they cannot be read."""
        backlog = self._queue.backlog
        tail = backlog.tails[self._priority]
        if tail is not None:
            # What the store is moving here counts as not yet arrived.
            self._upto = min(self._upto, tail.readable_upto)
        if self.position >= self._upto:
            return False
        end = self._find_warm(self._upto)
        self.cold = []
        if tail is not None and tail.frontier < end:
            page: Page | None = backlog.scan(tail, max(tail.frontier, self.position), end, self.step)
            if page is None:
                raise StoreError(f"messages of queue '{self._queue.name}' cannot be read")
            self.cold = page.references
            end = min(end, page.end)
            while self.warm and self.warm[len(self.warm) - 1].sequence > end:
                self.warm.pop()
        if self.warm:
            self._hints.append(self.warm[len(self.warm) - 1])
        self.position = end
        return True

    def _find_warm(self, end: int) -> int:
        """Collect the next messages in memory; return the sequence up to which they are complete."""
        warm: list[Reference] = []
        self.warm = warm
        candidate = self._after_hint()
        while candidate is not None and candidate.sequence <= self.position:
            candidate = candidate.next
        while candidate is not None and candidate.sequence <= end:
            if len(warm) >= self.step:
                return warm[len(warm) - 1].sequence
            warm.append(candidate)
            candidate = candidate.next
        return end

    def _after_hint(self) -> Reference | None:
        backlog = self._queue.backlog
        if self._emptied != backlog.emptied:
            self._emptied = backlog.emptied
            self._hints = []
        while self._hints:
            hint = self._hints[len(self._hints) - 1]
            if hint.state == WAITING:
                return hint.next
            self._hints.pop()
        return backlog.lists[self._priority].head


def count(queue: "Queue", filter: Filter) -> Steps:
    """Count the waiting messages that `filter` matches. Raises StoreError if some cannot be read."""
    found = 0
    left = SLICE_MESSAGES
    upto = queue.next_sequence - 1
    for priority in range(PRIORITIES):
        place = Place(queue, priority, upto)
        while place.move():
            for reference in place.warm:
                found += filter.matches(reference)
            for reference in place.cold:
                found += filter.matches(reference)
            left -= len(place.warm) + len(place.cold)
            if left <= 0:
                left = SLICE_MESSAGES
                yield None
    return found


def remove(queue: "Queue", filter: Filter) -> Steps:
    """Remove the waiting and scheduled messages that `filter` matches; return how many. Raises StoreError as `count`.

    Each slice is durable as a whole or not at all.
    """
    removed = 0
    left = SLICE_MESSAGES
    upto = queue.next_sequence - 1
    for priority in range(PRIORITIES):
        place = Place(queue, priority, upto)
        while place.move():
            removed += _remove_found(queue, place, priority, filter)
            left -= len(place.warm) + len(place.cold)
            if left <= 0:
                left = SLICE_MESSAGES
                yield None
    after = 0
    while after >= 0:
        page, after = queue.schedule.take_page(filter, after)
        for reference in page:
            forget(reference)
        removed += len(page)
        queue.messages_killed += len(page)
        if after >= 0:
            yield None
    wanted: set[Reference] = set()
    for index, reference in enumerate(queue.schedule.waiting()):
        if filter.matches(reference):
            wanted.add(reference)
        if index % SLICE_MESSAGES == SLICE_MESSAGES - 1:
            yield None
    if wanted:
        taken = queue.schedule.take(wanted)
        queue.messages_killed += len(taken)
        removed += len(taken)
        yield from _end(queue, [], taken)
    return removed


def _remove_found(queue: "Queue", place: Place, priority: int, filter: Filter) -> int:
    """Remove the messages that `filter` matches among those that `place` found."""
    removed = 0
    backlog = queue.backlog
    for reference in place.warm:
        if filter.matches(reference):
            backlog.unlink(reference)
            forget(reference)
            removed += 1
    tail = backlog.tails[priority]
    if tail is not None:
        for reference in place.cold:
            if filter.matches(reference):
                backlog.pull(tail, reference)
                forget(reference)
                removed += 1
        backlog.close(tail, priority)
    queue.messages_killed += removed
    return removed


def empty(queue: "Queue") -> Steps:
    """Remove all waiting and scheduled messages; return how many. The queue is empty after the first slice."""
    removed, rest = take_out(queue)
    yield from rest
    return removed


def take_out(queue: "Queue") -> tuple[int, Steps]:
    """Take all waiting and scheduled messages out of a queue; return how many, and the work that ends them."""
    backlog = queue.backlog
    for consumer in queue.consumers:
        if consumer.cursor is not None:
            consumer.cursor.reset()
    if queue.assignment is not None:
        queue.assignment.emptied(queue)
    removed = backlog.count + queue.schedule.count
    if queue.guard is not None:
        removed += queue.guard.emptied(queue)
    heads = backlog.take_lists()
    scheduled = queue.schedule.take_heap()
    for reference in scheduled:
        queue.aside.pop(reference.sequence, None)
    queue.schedule.drop()
    backlog.drop()
    queue.messages_killed += removed
    return removed, _end(queue, heads, scheduled)


def _end(queue: "Queue", heads: list[Reference], scheduled: list[Reference]) -> Steps:
    left = SLICE_MESSAGES
    for head in heads:
        reference: Reference | None = head
        while reference is not None:
            following = reference.next
            reference.previous = reference.next = None
            forget(reference)
            reference = following
            left -= 1
            if left == 0:
                left = SLICE_MESSAGES
                yield None
    for reference in scheduled:
        forget(reference)
        left -= 1
        if left == 0:
            left = SLICE_MESSAGES
            yield None
    scratch = queue.dispatcher.scratch
    while scratch is not None and scratch.sweep():
        yield None
    return None
