"""Reading a range of a queue by sequence, without changing anything in it.

A range reader is the cursor of a browser that gets the messages from one sequence up to another, in order, whatever
their priority. Messages that other consumers have not settled, that a transaction has claimed, or that wait for a
redelivery delay are included. It has no place in the queue: each page is gathered from what is then in memory, on disk
and elsewhere, so any number of readers may read at once, anywhere. The end of the range proves to the client that it
got everything: a message that cannot be read now is not skipped, and the range does not end.
"""

from typing import TYPE_CHECKING, Final

from artemis_py.core.queues.cursors.cursor import Cursor, ScanBudget
from artemis_py.core.queues.reference import GONE, PRIORITIES, WAITING, Reference, ReferenceList
from artemis_py.core.queues.tail import Tail
from artemis_py.errors import StoreError

if TYPE_CHECKING:
    from artemis_py.core.queues.consumer import Consumer
    from artemis_py.core.queues.queue import Queue

# Messages gathered at a time, per priority: about 2 ms if all of them are on disk.
PAGE_MESSAGES: Final = 500

# Messages examined for one consumer before others are served; a selector may skip many.
EXAMINED_BUDGET: Final = 2000


class RangeReader(Cursor):
    """The position of one consumer in its range."""

    def __init__(self, start: int, stop: int) -> None:
        super().__init__()
        self.is_apart = True
        self.position: int = start
        """Everything below this sequence was delivered or does not exist."""
        self.stop: int = stop
        """The first sequence after the range."""
        self._page: list[Reference] = []
        self._index: int = 0
        self._end: int = start - 1
        """The sequence up to which the page is complete."""
        self._hints: list[Reference | None] = [None] * PRIORITIES
        """The last reference in memory that was gathered, per priority: the search for the next page begins there."""

    def next(self, consumer: "Consumer", budget: ScanBudget) -> Reference | None:
        """Return the next message of the range that the consumer wants; see `advance`."""
        now_ms = consumer.queue.dispatcher.now_ms
        filter = consumer.filter
        while budget.left > 0:
            reference = self.advance(consumer.queue)
            if reference is None:
                return None
            budget.left -= 1
            expires_ms = reference.message.expires_ms
            if (not expires_ms or expires_ms > now_ms) and (filter is None or filter.matches(reference)):
                return reference
        return None

    def advance(self, queue: "Queue") -> Reference | None:
        """Return the next message; None if there is none for now, or if it cannot be read (`is_unreadable`)."""
        self.is_unreadable = False
        while True:
            while self._index < len(self._page):
                reference = self._page[self._index]
                self._index += 1
                if reference.state != GONE:
                    self.position = reference.sequence + 1
                    return reference
            self.position = max(self.position, self._end + 1)
            last = min(self.stop, queue.next_sequence) - 1
            readable = min(last, queue.backlog.readable_upto)
            if self.position > readable:
                self._page = []
                self.is_unreadable = self.position <= last
                return None
            self._gather(queue, readable)
            if self.is_unreadable:
                return None

    def reset(self) -> None:
        """Forget what was gathered, because the queue was emptied."""
        self._page = []
        self._index = 0
        self._end = self.position - 1
        self._hints = [None] * PRIORITIES

    def _gather(self, queue: "Queue", last: int) -> None:
        """Gather the next page, up to sequence `last` at most."""
        found: list[Reference] = []
        end = last
        backlog = queue.backlog
        for priority in range(PRIORITIES):
            end = self._gather_memory(backlog.lists[priority], priority, end, found)
            tail = backlog.tails[priority]
            if tail is not None and tail.frontier < end:
                page = backlog.scan(tail, max(self.position - 1, tail.frontier), end, PAGE_MESSAGES)
                if page is None:
                    self._page = []
                    self._index = 0
                    self.is_unreadable = True
                    return
                for reference in page.references:
                    reference.was_acquired = reference.was_acquired or reference.sequence < queue.restored_below
                    found.append(reference)
                end = min(end, page.end)
        for consumer in queue.consumers + queue.holders:
            for delivered in consumer.outstanding.all():
                if self.position <= delivered.sequence <= end:
                    found.append(delivered)
        for aside in queue.aside.values():
            if self.position <= aside.sequence <= end:
                found.append(aside)
        self._page = sorted([reference for reference in found if reference.sequence <= end], key=_sequence_of)
        self._index = 0
        self._end = end

    def _gather_memory(self, references: ReferenceList, priority: int, end: int, found: list[Reference]) -> int:
        """Add a page of one list to `found`; return the sequence up to which it is complete."""
        hint = self._hints[priority]
        if hint is not None and hint.state == WAITING and hint.sequence < self.position:
            candidate = hint.next
        else:
            candidate = references.head
        while candidate is not None and candidate.sequence < self.position:
            candidate = candidate.next
        count = 0
        last: Reference | None = None
        while candidate is not None and candidate.sequence <= end:
            if count >= PAGE_MESSAGES:
                assert last is not None
                end = last.sequence
                break
            found.append(candidate)
            last = candidate
            count += 1
            candidate = candidate.next
        if last is not None:
            self._hints[priority] = last
        return end


def serve_apart(queue: "Queue", budget: int) -> int:
    """Deliver to the consumers outside the rings (`Cursor.is_apart`); return how many messages."""
    delivered = 0
    for consumer in queue.dispatch.apart:
        cursor = consumer.cursor
        assert cursor is not None
        delivered += _serve(queue, consumer, cursor, budget - delivered)
    return delivered


def _serve(queue: "Queue", consumer: "Consumer", cursor: Cursor, budget: int) -> int:
    delivered = 0
    scan = ScanBudget(EXAMINED_BUDGET)
    while consumer.credit > 0:
        if consumer.blocked:
            return delivered
        reference = cursor.next(consumer, scan) if delivered < budget else None
        if reference is None and (delivered >= budget or scan.left <= 0):
            queue.dispatch.mark_ready()
            return delivered
        if reference is None:
            break
        consumer.credit -= 1
        delivered += 1
        consumer.sink.deliver(reference)
    if consumer.draining and not consumer.blocked and not cursor.is_unreadable:
        consumer.draining = False
        consumer.credit = 0
        consumer.sink.drained()
    return delivered


def first_sequence(queue: "Queue") -> int:
    """Return the lowest sequence in the queue, wherever it is, or the next one to be given if there is none.

    Raises StoreError if it cannot be read.
    """
    first = queue.next_sequence
    backlog = queue.backlog
    for priority in range(PRIORITIES):
        head = backlog.lists[priority].head
        if head is not None:
            first = min(first, head.sequence)
        tail = backlog.tails[priority]
        if tail is not None:
            first = min(first, tail.readable_upto + 1)
        if tail is not None and tail.frontier + 1 < first:
            page = backlog.scan(tail, tail.frontier, first - 1, 1)
            if page is None:
                raise StoreError(f"messages of queue '{queue.name}' cannot be read")
            if page.references:
                first = min(first, page.references[0].sequence)
    for consumer in queue.consumers + queue.holders:
        for delivered in consumer.outstanding.all():
            first = min(first, delivered.sequence)
    for sequence in queue.aside:
        first = min(first, sequence)
    return first


def there(queue: "Queue", start: int, stop: int, limit: int) -> tuple[list[Reference], int]:
    """Return the messages from sequence `start` up to `stop`, and the sequence up to which they are complete.

    Returns no more than `limit`. Raises StoreError if they cannot be read.
    """
    reader = RangeReader(start, stop)
    found: list[Reference] = []
    while len(found) < limit:
        reference = reader.advance(queue)
        if reference is None:
            if reader.is_unreadable and reader.position <= queue.backlog.readable_upto:
                raise StoreError(f"messages of queue '{queue.name}' cannot be read")
            return found, reader.position if reader.is_unreadable else stop
        found.append(reference)
    return found, reader.position


def first_since(queue: "Queue", time_ms: int) -> int:
    """Return the lowest sequence of a message that arrived at `time_ms` or later, or the next one if there is none.

    A message without a time of arrival (`enable-ingress-timestamp`) counts as older. In memory every message is
    examined, on disk a binary search is used. Messages that were scheduled, or in a long transaction, arrived long
    before they got their sequence; on disk they may hide messages before them.
    """
    first = queue.next_sequence
    backlog = queue.backlog
    for priority in range(PRIORITIES):
        candidate = backlog.lists[priority].head
        while candidate is not None and candidate.sequence < first:
            if _arrived_ms(candidate) >= time_ms:
                first = candidate.sequence
                break
            candidate = candidate.next
        tail = backlog.tails[priority]
        if tail is not None:
            first = _first_on_disk(queue, tail, time_ms, first)
    for consumer in queue.consumers + queue.holders:
        for delivered in consumer.outstanding.all():
            if delivered.sequence < first and _arrived_ms(delivered) >= time_ms:
                first = delivered.sequence
    for aside in queue.aside.values():
        if aside.sequence < first and _arrived_ms(aside) >= time_ms:
            first = aside.sequence
    return first


def _first_on_disk(queue: "Queue", tail: Tail, time_ms: int, below: int) -> int:
    """Return the lowest sequence of a tail, under `below`, whose message arrived at `time_ms` or later, or `below`."""
    found = below
    start = tail.frontier + 1
    stop = below
    while start < stop:
        middle = (start + stop) // 2
        page = queue.backlog.scan(tail, middle - 1, stop - 1, 1)
        if page is None:
            # It cannot be read now; a reader that begins here gets messages that are too old, and misses none.
            return start
        if not page.references:
            stop = middle
        elif _arrived_ms(page.references[0]) >= time_ms:
            found = page.references[0].sequence
            stop = middle
        else:
            start = page.references[0].sequence + 1
    return found


def _arrived_ms(reference: Reference) -> int:
    extra = reference.message.extra
    arrived = None if extra is None else extra.get("_AMQ_INGRESS_TIMESTAMP")
    return arrived if isinstance(arrived, int) else -1


def _sequence_of(reference: Reference) -> int:
    return reference.sequence
