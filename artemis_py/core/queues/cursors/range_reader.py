"""Reading a part of a queue by the numbers of its messages, without changing anything in it.

A range reader is the cursor of a browser that gets the messages from one number up to another in the order of the
numbers, whatever their priority: those that other consumers have and did not settle, that a transaction has claimed,
and that wait for a redelivery delay are included. It holds no place in the queue: each page is gathered from what is
then in memory, on disk and elsewhere, so any number of readers may read at once, anywhere. A reader takes the end of
its range as proof that it had everything: what cannot be read now is not passed over, and the range does not end.
"""

from typing import TYPE_CHECKING, Final

from artemis_py.core.queues.cursors.cursor import Cursor, ScanBudget
from artemis_py.core.queues.reference import GONE, PRIORITIES, WAITING, Reference, ReferenceList
from artemis_py.core.queues.tail import Tail
from artemis_py.errors import StoreError

if TYPE_CHECKING:
    from artemis_py.core.queues.consumer import Consumer
    from artemis_py.core.queues.queue import Queue

# Gathered at a time, of each priority: some 2 ms if all of it is on disk.
PAGE_MESSAGES: Final = 500

# Looked at on behalf of one consumer before others get their turn; a selector may pass many over.
EXAMINED_BUDGET: Final = 2000


class RangeReader(Cursor):
    """The position of one consumer in its range."""

    def __init__(self, start: int, stop: int) -> None:
        super().__init__()
        self.is_apart = True
        self.position: int = start
        """Everything below was given out, or is not there."""
        self.stop: int = stop
        """The first number that is not wanted."""
        self._page: list[Reference] = []
        self._index: int = 0
        self._end: int = start - 1
        """The page has everything up to this number."""
        self._hints: list[Reference | None] = [None] * PRIORITIES
        """Per priority the last reference in memory that was gathered: the search for the next page begins there."""

    def next(self, consumer: "Consumer", budget: ScanBudget) -> Reference | None:
        """The next message of the range that the consumer wants; see `advance`."""
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
        """The next that is there; None if there is no more for now, or if that cannot be told (`is_unreadable`)."""
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
            if self.position > last:
                self._page = []
                return None
            self._gather(queue, last)
            if self.is_unreadable:
                return None

    def reset(self) -> None:
        """Forget what was gathered: the queue was emptied, and nothing of it is there any more."""
        self._page = []
        self._index = 0
        self._end = self.position - 1
        self._hints = [None] * PRIORITIES

    def _gather(self, queue: "Queue", last: int) -> None:
        """Take together what comes next, up to the number `last` at most."""
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
            for delivered in consumer.outstanding.values():
                if self.position <= delivered.sequence <= end:
                    found.append(delivered)
        for aside in queue.aside.values():
            if self.position <= aside.sequence <= end:
                found.append(aside)
        self._page = sorted([reference for reference in found if reference.sequence <= end], key=_sequence_of)
        self._index = 0
        self._end = end

    def _gather_memory(self, references: ReferenceList, priority: int, end: int, found: list[Reference]) -> int:
        """Add a page of one list to `found`; up to where nothing of it is missing."""
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
    """Deliver to the consumers whose cursors read apart from the others; how many messages."""
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
    """The lowest number that is there, wherever it is; that of the next message if nothing is. Raises StoreError."""
    first = queue.next_sequence
    backlog = queue.backlog
    for priority in range(PRIORITIES):
        head = backlog.lists[priority].head
        if head is not None:
            first = min(first, head.sequence)
        tail = backlog.tails[priority]
        if tail is not None and tail.frontier < first:
            page = backlog.scan(tail, tail.frontier, first, 1)
            if page is None:
                raise StoreError(f"messages of queue '{queue.name}' cannot be read")
            if page.references:
                first = min(first, page.references[0].sequence)
    for consumer in queue.consumers + queue.holders:
        for sequence in consumer.outstanding:
            first = min(first, sequence)
    for sequence in queue.aside:
        first = min(first, sequence)
    return first


def there(queue: "Queue", start: int, stop: int, limit: int) -> tuple[list[Reference], int]:
    """Return what is there of the numbers from `start` up to `stop`, and the number up to which that is all.

    No more than `limit` are looked at. Raises StoreError if that cannot be told.
    """
    reader = RangeReader(start, stop)
    found: list[Reference] = []
    while len(found) < limit:
        reference = reader.advance(queue)
        if reference is None:
            if reader.is_unreadable:
                raise StoreError(f"messages of queue '{queue.name}' cannot be read")
            return found, stop
        found.append(reference)
    return found, reader.position


def first_since(queue: "Queue", time_ms: int) -> int:
    """The lowest number of a message that arrived at `time_ms` or later; that of the next message if there is none.

    What does not say when it arrived (`enable-ingress-timestamp`) counts as older. In memory every message is looked
    at, on disk as few as halving takes: messages that were scheduled, or in a long transaction, arrived long before
    they got their number, and there may hide those before them.
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
        for delivered in consumer.outstanding.values():
            if delivered.sequence < first and _arrived_ms(delivered) >= time_ms:
                first = delivered.sequence
    for aside in queue.aside.values():
        if aside.sequence < first and _arrived_ms(aside) >= time_ms:
            first = aside.sequence
    return first


def _first_on_disk(queue: "Queue", tail: Tail, time_ms: int, below: int) -> int:
    """The lowest number of a tail, under `below`, whose message arrived at a time or later; else `below`."""
    found = below
    start = tail.frontier + 1
    stop = below
    while start < stop:
        middle = (start + stop) // 2
        page = queue.backlog.scan(tail, middle - 1, stop - 1, 1)
        if page is None:
            # It cannot be read now; a reader that begins here gets what is too old, and misses nothing.
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
