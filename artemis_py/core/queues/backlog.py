"""The waiting messages of a queue in the order in which they leave it: a window of them in memory, the rest on disk.

Each priority has a sorted list of references in memory and, if more messages wait than fit the window, a `Tail`.
While there is a tail, durable messages go to its end, and the list is filled from its front when everything before
the frontier is gone. References behind the frontier may be in the list as well: messages that are not durable, and
those that a selector picked. They wait until the frontier passes them.

Appending, removing and putting back are O(1) whatever the length.
"""

from typing import TYPE_CHECKING, Final

from artemis_py.core.addresses.address import Address
from artemis_py.core.messages.message import DEFAULT_PRIORITY, Message
from artemis_py.core.queues.arrival import Arrival
from artemis_py.core.queues.dispatcher import Dispatcher
from artemis_py.core.queues.page import END, PAGE_BYTES, Page, Place, page_bytes, page_messages
from artemis_py.core.queues.reference import GONE, PRIORITIES, WAITING, Reference, ReferenceList, unhold
from artemis_py.core.queues.settlement import delay
from artemis_py.core.queues.tail import Tail
from artemis_py.core.queues.unlisted import Unlisted
from artemis_py.core.runtime.accounts import TAIL_BYTES, MemoryAccount

if TYPE_CHECKING:
    from artemis_py.core.queues.consumer import Consumer
    from artemis_py.core.queues.queue import Queue

# A queue without consumers keeps the window divided by this in memory: 10,000 such queues are not unusual.
IDLE_SHARE: Final = 16


class Backlog:
    """The waiting messages of one queue."""

    __slots__ = (
        "_address",
        "_broker_account",
        "_consumers",
        "_lists",
        "_mask",
        "_queue",
        "_window_bytes",
        "_window_messages",
        "cold_count",
        "cold_mask",
        "count",
        "dispatcher",
        "emptied",
        "memory_bytes",
        "tails",
        "unlisted",
    )

    def __init__(self, queue: "Queue", dispatcher: Dispatcher) -> None:
        self._queue: Queue = queue
        self._address: Address = queue.address
        self._broker_account: MemoryAccount = dispatcher.account
        self._consumers: list[Consumer] = queue.consumers
        self.dispatcher: Dispatcher = dispatcher
        self._lists: Final[list[ReferenceList]] = [ReferenceList() for _ in range(PRIORITIES)]
        self._mask: int = 0
        self.unlisted: Unlisted | None = None
        """The newest messages, if they have no references yet; made when first needed."""
        self.tails: Final[list[Tail | None]] = [None] * PRIORITIES
        self.cold_mask: int = 0
        """Bit mask: bit p is set if priority p has a tail."""
        self.count: int = 0
        """Number of all waiting messages."""
        self.cold_count: int = 0
        """Number of messages that wait on disk only."""
        self.memory_bytes: int = 0
        """Size of the waiting messages in memory, in bytes."""
        self.emptied: int = 0
        """Number of times that everything was removed; a place in a list that was remembered before is then invalid."""
        self._window_messages: int = END
        self._window_bytes: int = END

    def set_window(self, max_messages: int, max_bytes: int) -> None:
        """Set how many messages and bytes may be in memory; -1: no limit."""
        self._window_messages = max_messages if max_messages >= 0 else END
        self._window_bytes = max_bytes if max_bytes >= 0 else END

    @property
    def lists(self) -> list[ReferenceList]:
        """The waiting references in memory, by priority."""
        self._list_all()
        return self._lists

    @property
    def mask(self) -> int:
        """Bit mask: bit p is set if the list of priority p is not empty."""
        self._list_all()
        return self._mask

    def last_sequence(self, tail: Tail | None) -> int:
        """Return the highest sequence that may be waiting where this tail is, and can be read now."""
        last = self._queue.next_sequence - 1
        return last if tail is None else min(last, tail.readable_upto)

    @property
    def size_bytes(self) -> int:
        """Size of all waiting messages in bytes, in memory or not."""
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
        """Return the priority whose list the reference belongs to; an internal queue uses only one."""
        return 4 if self._queue.internal else reference.message.priority

    # -- in ----------------------------------------------------------------------------------------------------

    def append(self, reference: Reference, is_stored: bool) -> None:
        """Add the newest reference. If it becomes COLD, and `is_stored`, the caller must put it into the storage."""
        if self.unlisted is not None:
            self._list_all()
        message = reference.message
        origin = message.origin
        reference.state = WAITING
        self.count += 1
        if (
            self.cold_mask != 0
            or self.count > self._window_messages
            or self.memory_bytes > self._window_bytes
            or self._address.account.is_full
            # With a wildcard queue the message counts for another address than the queue's own.
            or (origin is not None and origin.account.is_full)
            or self._broker_account.size_bytes >= self._broker_account.tight_bytes
            or len(self._consumers) == 0
        ) and self._page_out(reference, is_stored):
            return
        priority = 4 if self._queue.internal else message.priority
        self._lists[priority].append(reference)
        self._mask |= 1 << priority
        self.memory_bytes += message.size

    def _page_out(self, reference: Reference, is_stored: bool) -> bool:
        """Move the newest message to disk only, if it should be there; return whether it went."""
        if is_stored:
            return self._page_out_stored(reference)
        address = self._address
        message = reference.message
        if message.large is not None or (self.count == 1 and self._consumers):
            # The body of a large message is on disk already, and is deleted when nothing refers to it.
            return False
        if not address.must_spill and (message.origin is None or not message.origin.must_spill):
            return False
        scratch = self.dispatcher.scratch
        if scratch is None or not scratch.is_usable:
            # From now on producers are blocked instead.
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
                # If it is the only one waiting, it is about to leave, however short memory is.
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
        """Put a reference back at its place, searching from `near`, or from the head."""
        self._list_all()
        reference.state = WAITING
        priority = self.priority_of(reference)
        self._lists[priority].insert(reference, near)
        self._mask |= 1 << priority
        self.count += 1
        self.memory_bytes += reference.message.size

    def add_unlisted(self, message: Message, sequence: int, size: int) -> bool:
        """Add the newest message, which `passing` may keep without a reference; False: `append` is to take it."""
        if self.cold_mask != 0 or self.count >= self._window_messages or self.memory_bytes > self._window_bytes:
            return False
        if self.unlisted is None:
            self.unlisted = Unlisted()
        self.unlisted.add(message, sequence)
        self.count += 1
        self.memory_bytes += size
        return True

    @property
    def is_unlisted(self) -> bool:
        """Whether messages wait, and all of them without references."""
        return self.unlisted is not None and self.unlisted.count > 0 and self._mask == 0

    def take_unlisted(self) -> Reference:
        """Remove the first message that has no reference, and return one; `is_unlisted` must be true."""
        assert self.unlisted is not None
        reference = self.unlisted.take(self._queue)
        self.count -= 1
        self.memory_bytes -= reference.message.size
        return reference

    def remove_unlisted(self, messages: list[Message]) -> int:
        """Remove the first messages that have no references, which are these; return their size in bytes."""
        assert self.unlisted is not None
        count = len(messages)
        size_bytes = self.memory_bytes if count == self.count else sum([message.size for message in messages])
        self.unlisted.remove(count)
        self.count -= count
        self.memory_bytes -= size_bytes
        return size_bytes

    def _list_all(self) -> None:
        """Make references to the messages that have none."""
        if self.unlisted is not None and self.unlisted.count > 0:
            for reference in self.unlisted.take_all(self._queue):
                self._lists[DEFAULT_PRIORITY].append(reference)
            self._mask |= 1 << DEFAULT_PRIORITY

    def restore(self, priority: int, count: int, size_bytes: int) -> None:
        """Register `count` messages of a priority that an earlier run left on disk."""
        self._tail(priority, 0).restore(count, size_bytes)
        self.count += count
        self.cold_count += count

    def expect(self, arrival: Arrival) -> None:
        """Register messages that the store moves here, behind all others of their priority."""
        self._tail(arrival.priority, arrival.first - 1).expect(arrival)
        self.count += arrival.count
        self.cold_count += arrival.count

    def arrived(self, arrival: Arrival) -> None:
        """Note that messages that were expected can be read now, without those that are missing."""
        tail = self.tails[arrival.priority]
        if tail is not None and tail.arrived(arrival):
            self._lose(arrival.missing)
            self.close(tail, arrival.priority)

    @property
    def readable_upto(self) -> int:
        """Return the sequence up to which no message of any priority is still being moved here by the store."""
        upto = END
        for tail in self.tails:
            if tail is not None:
                upto = min(upto, tail.readable_upto)
        return upto

    # -- out ---------------------------------------------------------------------------------------------------

    def first(self) -> Reference | None:
        """Return the next message in memory; None if there is none. What is on disk may come before it."""
        if self.unlisted is not None:
            self._list_all()
        mask = self._mask
        return self._lists[mask.bit_length() - 1].head if mask else None

    def head(self) -> Reference | None:
        """Return the next message, read from disk if necessary; None if nothing waits or it cannot be read now."""
        self._list_all()
        while True:
            mask = self._mask | self.cold_mask
            if not mask:
                return None
            priority = mask.bit_length() - 1
            head = self._lists[priority].head
            tail = self.tails[priority]
            if tail is None or (head is not None and head.sequence <= tail.frontier):
                return head
            if not self.load(priority):
                return None

    def oldest(self) -> Reference | None:
        """Return the waiting message with the lowest sequence, read from disk if necessary.

        None if nothing waits or it cannot be read now.
        """
        self._list_all()
        mask = self._mask | self.cold_mask
        if mask & (mask - 1) == 0:
            # One priority, as in nearly every queue.
            return self.head()
        oldest: Reference | None = None
        while mask:
            priority = mask.bit_length() - 1
            mask &= ~(1 << priority)
            while True:
                head = self._lists[priority].head
                if head is not None and (oldest is None or head.sequence < oldest.sequence):
                    oldest = head
                tail = self.tails[priority]
                # What is on disk is younger than the frontier.
                if tail is None or (oldest is not None and oldest.sequence <= tail.frontier):
                    break
                if not self.load(priority):
                    return None
        return oldest

    def unlink(self, reference: Reference) -> None:
        """Remove a reference from its list."""
        priority = 4 if self._queue.internal else reference.message.priority
        references = self._lists[priority]
        references.unlink(reference, priority)
        if references.head is None:
            self._mask &= ~(1 << priority)
        self.count -= 1
        self.memory_bytes -= reference.message.size

    def give_up(self, priority: int, limit: int) -> tuple[int, int]:
        """Forget the first messages of a priority, at most `limit`, because the store moves them to another queue.

        Returns their number and size. All messages of the queue are durable and wait, and their sequences are
        consecutive. The size of those that are on disk only is their share, as if all of them had the same.
        """
        self._list_all()
        references = self._lists[priority]
        count = size_bytes = 0
        reference = references.head
        while reference is not None and count < limit:
            self.unlink(reference)
            reference.state = GONE
            count += 1
            size_bytes += reference.message.size
            unhold(reference.message)
            reference = references.head
        tail = self.tails[priority]
        if tail is not None and count < limit:
            cold = min(limit - count, tail.stored_count)
            size_bytes += tail.forget_first(cold)
            self._lose(cold)
            count += cold
            self.close(tail, priority)
        return count, size_bytes

    def load(self, priority: int) -> bool:
        """Read the next page of a priority's tail into memory and move the frontier. False if it cannot be read."""
        tail = self.tails[priority]
        assert tail is not None
        page = tail.read(tail.frontier, END, self.page_messages, self.page_bytes)
        if page is None:
            return False
        tail.advance(page.end)
        for reference in page.references:
            self._take(tail, reference, priority, page)
        self._lose(len(page.lost))
        self.close(tail, priority)
        return True

    @property
    def page_messages(self) -> int:
        """Number of messages to bring into memory at a time, as the window and the account allow."""
        return page_messages(self.dispatcher.account, self._window_messages)

    @property
    def page_bytes(self) -> int:
        """The same in bytes."""
        return page_bytes(self.dispatcher.account, self._window_bytes)

    def fetch(self, tail: Tail, reference: Reference, page: Page) -> None:
        """Bring one reference of a page behind the frontier into memory, at its place in the list."""
        self._take(tail, reference, self.priority_of(reference), page)

    def _take(self, tail: Tail, reference: Reference, priority: int, page: Page) -> None:
        tail.take(reference)
        self.cold_count -= 1
        if reference.message.expires_ms:
            self._queue.expiry.note(reference.message.expires_ms)
        if reference.message.has_group and not self._queue.has_groups:
            self._queue.find_groups()
        if self._queue.assignment is not None:
            self._queue.assignment.entered(self._queue, reference)
        due_ms = page.due.get(reference.sequence, 0) if page.due else 0
        if due_ms > self.dispatcher.now_ms:
            # An earlier run stored the time of day. The wall clock may have been set since then, so no delay becomes
            # longer than the settings allow.
            self.count -= 1
            longest_ms = self._queue.address.settings.max_redelivery_delay
            delay(reference, min(due_ms - self.dispatcher.now_ms, longest_ms))
            return
        references = self._lists[priority]
        last = references.tail
        if last is None or last.sequence < reference.sequence:
            references.append(reference)
        else:
            references.insert(reference, last)
        self._mask |= 1 << priority
        self.memory_bytes += reference.message.size

    def _lose(self, count: int) -> None:
        """Subtract messages that are lost, for example because they were damaged on disk."""
        self.cold_count -= count
        self.count -= count

    def close(self, tail: Tail, priority: int) -> None:
        """End a tail that has become empty."""
        if tail.count > 0 and tail.frontier < END:
            return
        # A wrong count (a damaged store) must not keep the queue waiting for messages that do not exist.
        self._lose(tail.count)
        self._end_tail(tail, priority)

    def _end_tail(self, tail: Tail, priority: int) -> None:
        tail.clear()
        self.tails[priority] = None
        self.cold_mask &= ~(1 << priority)
        self.dispatcher.tables.vacate(TAIL_BYTES)

    # -- all at once -------------------------------------------------------------------------------------------

    def scan(self, tail: Tail, after: int, upto: int, max_messages: int) -> Page | None:
        """Read what is on disk behind position `after`, without moving the frontier; None if it cannot be read."""
        page = tail.read(after, upto, max_messages, PAGE_BYTES)
        if page is not None and page.lost:
            self._lose(len(page.lost))
        return page

    def remove_at(self, place: Place, key: bytes, is_stored: bool) -> bool:
        """Remove a message that is on disk only without reading it, as `Tail.remove_at`."""
        priority = PRIORITIES - 1 - place.rank
        tail = self.tails[priority]
        if tail is None or not tail.remove_at(place, key, is_stored):
            return False
        self.cold_count -= 1
        self.count -= 1
        self.close(tail, priority)
        return True

    def pull(self, tail: Tail, reference: Reference) -> None:
        """Remove one reference of a page from the backlog; the caller ends it."""
        tail.take(reference)
        self.cold_count -= 1
        self.count -= 1

    def take_lists(self) -> list[Reference]:
        """Remove all references in memory; return the heads of the lists they form. The caller ends them."""
        self._list_all()
        heads: list[Reference] = []
        for references in self._lists:
            if references.head is not None:
                heads.append(references.head)
            self.count -= references.count
            references.head = references.tail = None
            references.count = 0
        self._mask = 0
        self.memory_bytes = 0
        self.emptied += 1
        return heads

    def drop(self) -> None:
        """Forget all messages that are on disk only."""
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
