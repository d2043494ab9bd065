"""The waiting messages of a queue in the order in which they leave it: a window of them in memory, the rest on disk.

Of each priority there is a sorted list of references in memory, and, if more wait than the window takes, a `Tail`.
While there is a tail, durable messages go to its end, and the list is filled from its front when everything before
the frontier is gone. References behind the frontier may be in the list as well: messages that are not durable, and
those a selector picked. They wait until the frontier passes them.

Adding, taking and putting back are O(1) whatever the length.
"""

from typing import TYPE_CHECKING, Final

from artemis_py.core.addresses.address import Address
from artemis_py.core.queues.dispatcher import Dispatcher
from artemis_py.core.queues.page import END, Page
from artemis_py.core.queues.reference import PRIORITIES, WAITING, Reference, ReferenceList
from artemis_py.core.queues.settlement import delay
from artemis_py.core.queues.tail import Tail
from artemis_py.core.runtime.accounts import TAIL_BYTES, MemoryAccount

if TYPE_CHECKING:
    from artemis_py.core.queues.consumer import Consumer
    from artemis_py.core.queues.queue import Queue

# What is read from disk at a time: some 2 ms, so that the sockets do not wait.
PAGE_MESSAGES: Final = 500
PAGE_BYTES: Final = 1 << 20

# The same while memory is tight: enough not to wait for each message.
TIGHT_PAGE_MESSAGES: Final = 50
TIGHT_PAGE_BYTES: Final = 1 << 16

# The same while memory is full: what was read for a consumer that does not take it adds up over thousands of queues.
FULL_PAGE_MESSAGES: Final = 8
FULL_PAGE_BYTES: Final = 1 << 13

# With nobody to read it a queue keeps this share of its window: 10,000 queues without consumers are no rare thing.
IDLE_SHARE: Final = 16


class Backlog:
    """The waiting messages of one queue."""

    __slots__ = (
        "_address",
        "_broker_account",
        "_consumers",
        "_queue",
        "_window_bytes",
        "_window_messages",
        "cold_count",
        "cold_mask",
        "count",
        "dispatcher",
        "emptied",
        "lists",
        "mask",
        "memory_bytes",
        "tails",
    )

    def __init__(self, queue: "Queue", dispatcher: Dispatcher) -> None:
        self._queue: Queue = queue
        self._address: Address = queue.address
        self._broker_account: MemoryAccount = dispatcher.account
        self._consumers: list[Consumer] = queue.consumers
        self.dispatcher: Dispatcher = dispatcher
        self.lists: Final[list[ReferenceList]] = [ReferenceList() for _ in range(PRIORITIES)]
        self.mask: int = 0
        """Bit p is set if the list of priority p has something."""
        self.tails: Final[list[Tail | None]] = [None] * PRIORITIES
        self.cold_mask: int = 0
        """Bit p is set if priority p has a tail."""
        self.count: int = 0
        """All that wait."""
        self.cold_count: int = 0
        """Messages that wait on disk only."""
        self.memory_bytes: int = 0
        """Size of those in memory."""
        self.emptied: int = 0
        """Times that everything was taken out: a place in a list that was remembered before is of no use."""
        self._window_messages: int = END
        self._window_bytes: int = END

    def set_window(self, max_messages: int, max_bytes: int) -> None:
        """Set how much may be in memory; -1: no limit."""
        self._window_messages = max_messages if max_messages >= 0 else END
        self._window_bytes = max_bytes if max_bytes >= 0 else END

    @property
    def last_sequence(self) -> int:
        """Nothing waits behind this position, of any priority."""
        return self._queue.next_sequence - 1

    @property
    def size_bytes(self) -> int:
        """Size of all that wait, in memory or not."""
        size = self.memory_bytes
        for tail in self.tails:
            if tail is not None:
                size += tail.stored_bytes + tail.spilled_bytes
        return size

    @property
    def restored_below(self) -> int:
        """See `Queue.restored_below`."""
        return self._queue.restored_below

    def priority_of(self, reference: Reference) -> int:
        """Which list it belongs to: an internal queue has one."""
        return 4 if self._queue.internal else reference.message.priority

    # -- in ----------------------------------------------------------------------------------------------------

    def append(self, reference: Reference, is_stored: bool) -> None:
        """Add the newest. If it ends up COLD the caller still has to put it into the storage, if `is_stored`."""
        message = reference.message
        origin = message.origin
        reference.state = WAITING
        self.count += 1
        if (
            self.cold_mask != 0
            or self.count > self._window_messages
            or self.memory_bytes > self._window_bytes
            or self._address.account.is_full
            # Behind a wildcard the message counts at another address than its queue's.
            or (origin is not None and origin.account.is_full)
            or self._broker_account.size_bytes >= self._broker_account.tight_bytes
            or len(self._consumers) == 0
        ) and self._page_out(reference, is_stored):
            return
        priority = 4 if self._queue.internal else message.priority
        self.lists[priority].append(reference)
        self.mask |= 1 << priority
        self.memory_bytes += message.size

    def _page_out(self, reference: Reference, is_stored: bool) -> bool:
        """Whether the newest message goes to disk only."""
        if is_stored:
            return self._page_out_stored(reference)
        address = self._address
        message = reference.message
        if message.large is not None or (self.count == 1 and self._consumers):
            # The body of a large one is on disk already, and goes when nobody holds it.
            return False
        if not address.must_spill and (message.origin is None or not message.origin.must_spill):
            return False
        scratch = self.dispatcher.scratch
        if scratch is None or not scratch.is_usable:
            # From now on producers are held back instead.
            address.broker_account.can_spill = False
            return False
        priority = self.priority_of(reference)
        self._tail(priority, reference.sequence - 1).spill(reference)
        self.cold_count += 1
        return True

    def _page_out_stored(self, reference: Reference) -> bool:
        priority = self.priority_of(reference)
        tail = self.tails[priority]
        if tail is None:
            waiting = self.count - self.cold_count
            origin = reference.message.origin
            is_short = (
                self._address.account.is_full
                or self._broker_account.is_tight
                or (origin is not None and origin.account.is_full)
            )
            share = IDLE_SHARE
            if self._consumers:
                share = 1
                # The only one that waits is about to leave, however short memory is.
                is_short = is_short and waiting > 1
            if (
                waiting <= max(1, self._window_messages // share)
                and self.memory_bytes <= self._window_bytes // share
                and not is_short
            ):
                return False
            tail = self._tail(priority, reference.sequence - 1)
        tail.put(reference)
        self.cold_count += 1
        return True

    def _tail(self, priority: int, frontier: int) -> Tail:
        tail = self.tails[priority]
        if tail is None:
            tail = self.tails[priority] = Tail(self._queue, PRIORITIES - 1 - priority, frontier)
            self.dispatcher.tables.occupy(TAIL_BYTES)
            self.cold_mask |= 1 << priority
        return tail

    def insert(self, reference: Reference, near: Reference | None) -> None:
        """Put one back at its place, looking for it from `near`, or from the head."""
        reference.state = WAITING
        priority = self.priority_of(reference)
        self.lists[priority].insert(reference, near)
        self.mask |= 1 << priority
        self.count += 1
        self.memory_bytes += reference.message.size

    def restore(self, priority: int, count: int, size_bytes: int) -> None:
        """An earlier run left these on disk."""
        self._tail(priority, 0).restore(count, size_bytes)
        self.count += count
        self.cold_count += count

    # -- out ---------------------------------------------------------------------------------------------------

    def head(self) -> Reference | None:
        """The message whose turn it is, read from disk if need be; None if nothing waits, or cannot be read now."""
        while True:
            mask = self.mask | self.cold_mask
            if not mask:
                return None
            priority = mask.bit_length() - 1
            head = self.lists[priority].head
            tail = self.tails[priority]
            if tail is None or (head is not None and head.sequence <= tail.frontier):
                return head
            if not self.load(priority):
                return None

    def oldest(self) -> Reference | None:
        """The message with the lowest number, read from disk if need be; None if there is none that can be read now."""
        oldest: Reference | None = None
        for priority in range(PRIORITIES):
            while True:
                head = self.lists[priority].head
                tail = self.tails[priority]
                if tail is None or (head is not None and head.sequence <= tail.frontier):
                    break
                if not self.load(priority):
                    return None
            if head is not None and (oldest is None or head.sequence < oldest.sequence):
                oldest = head
        return oldest

    def unlink(self, reference: Reference) -> None:
        """Take one out of its list."""
        priority = 4 if self._queue.internal else reference.message.priority
        references = self.lists[priority]
        references.unlink(reference, priority)
        if references.head is None:
            self.mask &= ~(1 << priority)
        self.count -= 1
        self.memory_bytes -= reference.message.size

    def load(self, priority: int) -> bool:
        """Move the frontier of a priority with a tail: what is next comes into memory. False if it cannot be read."""
        tail = self.tails[priority]
        assert tail is not None
        max_messages = min(PAGE_MESSAGES, max(1, self._window_messages))
        max_bytes = min(PAGE_BYTES, max(1, self._window_bytes))
        account = self.dispatcher.account
        if account.size_bytes >= account.overdrawn_bytes:
            max_messages = max_bytes = 1
        elif account.size_bytes >= account.full_bytes:
            max_messages = min(FULL_PAGE_MESSAGES, max_messages)
            max_bytes = min(FULL_PAGE_BYTES, max_bytes)
        elif account.is_tight:
            max_messages = min(TIGHT_PAGE_MESSAGES, max_messages)
            max_bytes = min(TIGHT_PAGE_BYTES, max_bytes)
        page = tail.read(tail.frontier, END, max_messages, max_bytes)
        if page is None:
            return False
        tail.advance(page.end)
        for reference in page.references:
            self._take(tail, reference, priority, page)
        self._lose(len(page.lost))
        self.close(tail, priority)
        return True

    def fetch(self, tail: Tail, reference: Reference, page: Page) -> None:
        """Bring one of a page behind the frontier into memory, at its place in the list."""
        self._take(tail, reference, self.priority_of(reference), page)

    def _take(self, tail: Tail, reference: Reference, priority: int, page: Page) -> None:
        tail.take(reference)
        self.cold_count -= 1
        if reference.message.expires_ms:
            self._queue.expiry.note(reference.message.expires_ms)
        due_ms = page.due.get(reference.sequence, 0) if page.due else 0
        if due_ms > self.dispatcher.now_ms:
            self.count -= 1
            delay(reference, due_ms)
            return
        references = self.lists[priority]
        last = references.tail
        if last is None or last.sequence < reference.sequence:
            references.append(reference)
        else:
            references.insert(reference, last)
        self.mask |= 1 << priority
        self.memory_bytes += reference.message.size

    def _lose(self, count: int) -> None:
        """Count out what was damaged on disk."""
        self.cold_count -= count
        self.count -= count

    def close(self, tail: Tail, priority: int) -> None:
        """End a tail if it has nothing any more."""
        if tail.count > 0 and tail.frontier < END:
            return
        # A count that is wrong (a damaged store) may not keep the queue waiting for messages that are not there.
        self._lose(tail.count)
        self._end_tail(tail, priority)

    def _end_tail(self, tail: Tail, priority: int) -> None:
        tail.clear()
        self.tails[priority] = None
        self.cold_mask &= ~(1 << priority)
        self.dispatcher.tables.vacate(TAIL_BYTES)

    # -- all at once -------------------------------------------------------------------------------------------

    def scan(self, tail: Tail, after: int, upto: int, max_messages: int) -> Page | None:
        """Read what is on disk behind a position, to look for something; the frontier stays."""
        page = tail.read(after, upto, max_messages, PAGE_BYTES)
        if page is not None and page.lost:
            self._lose(len(page.lost))
        return page

    def pull(self, tail: Tail, reference: Reference) -> None:
        """Take one of a page out of the backlog: the caller ends it."""
        tail.take(reference)
        self.cold_count -= 1
        self.count -= 1

    def take_lists(self) -> list[Reference]:
        """Take out all that are in memory: the heads of the lists they make up. The caller ends them."""
        heads: list[Reference] = []
        for references in self.lists:
            if references.head is not None:
                heads.append(references.head)
            self.count -= references.count
            references.head = references.tail = None
            references.count = 0
        self.mask = 0
        self.memory_bytes = 0
        self.emptied += 1
        return heads

    def drop(self) -> None:
        """Forget all that is on disk only."""
        for priority in range(PRIORITIES):
            tail = self.tails[priority]
            if tail is None:
                continue
            if tail.stored_count > 0:
                self.dispatcher.storage.drop(
                    self._queue,
                    tail.rank,
                    tail.frontier,
                    self._queue.next_sequence - 1,
                    frozenset(tail.taken),
                    tail.stored_count,
                    tail.stored_bytes,
                )
            if tail.spilled_count > 0 and self.dispatcher.scratch is not None:
                self.dispatcher.scratch.drop(self._queue, tail.rank, self._queue.next_sequence - 1)
            self._lose(tail.count)
            self._end_tail(tail, priority)
