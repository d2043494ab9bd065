"""The tail of a list: the messages behind a frontier that a queue has on disk and not in memory.

                 in memory                |           on disk
    ... delivered, waiting, waiting ... frontier ... t ... t .......... recent recent
                                               taken: in memory or gone

Three things make it exact. A reference that was put but is not committed yet cannot be read, so it stays in `recent`
until it is. A reference that was taken from behind the frontier and removed can be read until that is committed, so its
position stays in `taken` until then. The store always shows everything up to some batch, which for a list means
everything up to some position; `recent` has the rest.

Durable messages are in the storage; others, if they exceed the limits of memory, are in the scratch store.
"""

from collections import deque
from typing import TYPE_CHECKING, Final

from artemis_py.core.queues.arrival import Arrival
from artemis_py.core.queues.page import END, SCHEDULED_RANK, Page, PageRequest, Place, number_of, position_of
from artemis_py.core.queues.reference import COLD, GONE, WAITING, Reference, hold, unhold

if TYPE_CHECKING:
    from artemis_py.core.queues.queue import Queue


class Tail:
    """The tail of one list of one queue."""

    __slots__ = (
        "_arriving",
        "_leaving",
        "frontier",
        "is_counted_wrong",
        "queue",
        "rank",
        "recent",
        "removed_count",
        "spilled_bytes",
        "spilled_count",
        "stored_bytes",
        "stored_count",
        "taken",
    )

    def __init__(self, queue: "Queue", rank: int, frontier: int) -> None:
        self.queue: Queue = queue
        self.rank: int = rank
        self.frontier: int = frontier
        """Everything up to this position is in memory or gone."""
        self.stored_count: int = 0
        """Number of messages in the storage or on their way there."""
        self.stored_bytes: int = 0
        self.spilled_count: int = 0
        """Number of messages in the scratch store."""
        self.spilled_bytes: int = 0
        self.recent: Final[deque[Reference]] = deque()
        """References that are not committed yet, in the order in which they came; those no longer COLD were taken."""
        self.taken: set[int] = set()
        """Positions behind the frontier that a read may still show but that are in memory or gone."""
        self._leaving: Final[deque[tuple[int, int]]] = deque()
        """Batch and position of references that were taken and then removed."""
        self._arriving: Final[deque[Arrival]] = deque()
        """What the store moves here and has not committed yet, in the order of the sequences."""
        self.is_counted_wrong: bool = False
        self.removed_count: int = 0
        """Number of messages behind the frontier that were removed; a cursor that has read ahead compares it."""

    @property
    def count(self) -> int:
        """Number of messages that are on disk only."""
        return self.stored_count + self.spilled_count

    # -- in ----------------------------------------------------------------------------------------------------

    def put(self, reference: Reference) -> None:
        """Add a durable message that is to be on disk only; the caller puts it into the storage."""
        reference.state = COLD
        self.stored_count += 1
        self.stored_bytes += reference.message.size
        self.recent.append(reference)

    def spill(self, reference: Reference) -> None:
        """Move a message to the scratch store only."""
        message = reference.message
        self.spilled_count += 1
        self.spilled_bytes += message.size
        self.queue.address.page_out(1, message.size)
        reference.state = COLD
        scratch = self.queue.dispatcher.scratch
        assert scratch is not None
        scratch.spill(reference, self.rank)
        if self.queue.entry is not None:
            self.queue.entry.unloaded(self.queue, reference)
        unhold(message)

    def restore(self, count: int, size_bytes: int) -> None:
        """Register messages that an earlier run left on disk."""
        self.stored_count += count
        self.stored_bytes += size_bytes
        self.queue.address.page_out(count, size_bytes)

    def expect(self, arrival: Arrival) -> None:
        """Count messages that the store moves here; they cannot be read before they have `arrived`."""
        self.stored_count += arrival.count
        self.stored_bytes += arrival.size_bytes
        self._arriving.append(arrival)

    def arrived(self, arrival: Arrival) -> bool:
        """Note that messages that were expected can be read now; False if they were removed in the meantime."""
        if arrival not in self._arriving:
            return False
        self._arriving.remove(arrival)
        self.stored_count -= arrival.missing
        self.queue.address.page_out(arrival.count - arrival.missing, arrival.size_bytes)
        return True

    @property
    def readable_upto(self) -> int:
        """Return the position up to which the tail can be read now: what arrives, and what is behind it, cannot."""
        return self._arriving[0].first - 1 if self._arriving else END

    def committed(self, reference: Reference) -> None:
        """Note that a reference that was put can be read now."""
        recent = self.recent
        if self.rank == SCHEDULED_RANK:
            if reference in recent:
                recent.remove(reference)
        else:
            while recent and recent[0].state != COLD:
                recent.popleft()
            if recent and recent[0] is reference:
                recent.popleft()
        self.queue.address.page_out(1, reference.message.size)
        if self.queue.entry is not None:
            self.queue.entry.unloaded(self.queue, reference)
        unhold(reference.message)

    # -- out ---------------------------------------------------------------------------------------------------

    def read(self, after: int, upto: int, max_messages: int, max_bytes: int) -> Page | None:
        """Read the next messages on disk behind position `after`, in order; None if they cannot be read."""
        if self._arriving and self._arriving[0].first <= upto:
            upto = self._arriving[0].first - 1
            if upto <= after:
                return None
        page: Page | None = None
        request = PageRequest(self.rank, after, upto, max_messages, max_bytes, self.taken)
        if self.stored_count > 0:
            page = self._read_stored(request)
            if page is None:
                return None
        scratch = self.queue.dispatcher.scratch
        if self.spilled_count > 0 and scratch is not None:
            spilled = scratch.read(self.queue, request)
            if spilled is None:
                return None
            page = spilled if page is None else _merged(page, spilled)
        if page is None:
            page = Page()
            page.end = upto
        for position in page.lost:
            self._lost(position)
        return page

    def _read_stored(self, request: PageRequest) -> Page | None:
        recent = self.recent
        after, upto = request.after, request.upto
        while recent and recent[0].state != COLD:
            recent.popleft()
        if self.rank == SCHEDULED_RANK:
            return self._read_scheduled(request)
        bound = upto
        if recent and recent[0].sequence <= upto:
            bound = recent[0].sequence - 1
        page: Page | None
        if bound > after:
            page = self.queue.dispatcher.storage.read(self.queue, request if bound == upto else request.up_to(bound))
            if page is None or page.end < bound:
                return page
        else:
            page = Page()
            page.end = bound
        size = 0
        for reference in recent:
            if reference.sequence > upto:
                break
            if reference.state == COLD and reference.sequence > after:
                if len(page.references) >= request.max_messages or size >= request.max_bytes:
                    return page
                page.references.append(reference)
                size += reference.message.size
            if reference.sequence > page.end:
                page.end = reference.sequence
        page.end = upto
        return page

    def _read_scheduled(self, request: PageRequest) -> Page | None:
        """Read scheduled messages: uncommitted ones belong between the others, and may already be among them.

        Positions are not assigned in order here.
        """
        page = self.queue.dispatcher.storage.read(self.queue, request)
        if page is None:
            return None
        uncommitted: dict[int, Reference] = {}
        for reference in self.recent:
            if reference.state == COLD:
                position = position_of(reference)
                if request.after < position <= page.end:
                    uncommitted[position] = reference
        if uncommitted:
            references = [reference for reference in page.references if position_of(reference) not in uncommitted]
            references.extend(uncommitted.values())
            references.sort(key=position_of)
            page.references = references
        return page

    def has(self, reference: Reference, removed_count: int) -> bool:
        """Tell whether a reference that was read when `removed_count` was this is still on disk only."""
        position = position_of(reference)
        if position <= self.frontier or position in self.taken:
            return False
        if reference.handle:
            if removed_count == self.removed_count:
                return True
            # `taken` forgets what is removed once that is committed.
            found = self.read(position - 1, position, 1, 1)
            return found is None or len(found.references) > 0
        scratch = self.queue.dispatcher.scratch
        if scratch is None:
            return False
        page = scratch.read(self.queue, PageRequest(self.rank, position - 1, position, 1, 1, self.taken))
        return page is not None and len(page.references) > 0

    def take(self, reference: Reference) -> None:
        """Bring a reference into memory, where its message counts for its address; the caller gives it a place."""
        message = reference.message
        if reference.state == COLD:
            self.stored_count -= 1
            self.stored_bytes -= message.size
            if self.rank == SCHEDULED_RANK:
                # It may become COLD again, at its place in the queue.
                self.recent.remove(reference)
        else:
            message.origin = self.queue.routing.account_of(message, self.queue.address)
            hold(message)
            self.queue.address.page_in(1, message.size)
            if reference.handle:
                self.stored_count -= 1
                self.stored_bytes -= message.size
                if reference.sequence:
                    reference.was_acquired = reference.sequence < self.queue.restored_below
                else:
                    reference.was_acquired = number_of(reference) < self.queue.schedule.restored_below
            else:
                self.spilled_count -= 1
                self.spilled_bytes -= message.size
                scratch = self.queue.dispatcher.scratch
                if scratch is not None:
                    scratch.remove(reference, self.rank)
            if self.queue.entry is not None:
                self.queue.entry.loaded(self.queue, reference)
        reference.state = WAITING
        position = position_of(reference)
        if position > self.frontier and reference.handle:
            self.taken.add(position)

    def remove_at(self, place: Place, key: bytes, is_stored: bool) -> bool:
        """Remove a message that is on disk only without reading it; False if it is in memory or gone."""
        position = place.sequence
        if position <= self.frontier or position in self.taken:
            return False
        queue = self.queue
        if is_stored:
            self.stored_count -= 1
            self.stored_bytes -= place.size_bytes
            self._forget_later(position)
            queue.dispatcher.storage.remove_at(queue, place, key)
        else:
            scratch = queue.dispatcher.scratch
            assert scratch is not None
            self.spilled_count -= 1
            self.spilled_bytes -= place.size_bytes
            scratch.remove_at(queue, place, key)
        queue.address.page_in(1, place.size_bytes)
        return True

    def advance(self, end: int) -> None:
        """Move the frontier to position `end`: everything up to it was taken."""
        self.frontier = end
        if self.taken:
            self.taken = {position for position in self.taken if position > end}
        leaving = self._leaving
        while leaving and leaving[0][1] <= end:
            leaving.popleft()

    def forget_first(self, count: int) -> int:
        """Forget the next messages, because the store moves them away; return their size in bytes, if all equal.

        They are all that is left of their sequences, and none of them is in `taken`.
        """
        size_bytes = self.stored_bytes if count == self.stored_count else self.stored_bytes * count // self.stored_count
        self.frontier += count
        self.stored_count -= count
        self.stored_bytes -= size_bytes
        cold_count = cold_bytes = 0
        recent = self.recent
        while recent and recent[0].sequence <= self.frontier:
            reference = recent.popleft()
            if reference.state == COLD:
                cold_count += 1
                cold_bytes += reference.message.size
                reference.state = GONE
                unhold(reference.message)
        self.queue.address.page_in(count - cold_count, size_bytes - cold_bytes)
        return size_bytes

    def left(self, reference: Reference) -> None:
        """Note that a stored reference is about to be removed: it may be read until that is committed."""
        position = position_of(reference)
        if position > self.frontier or self.rank == SCHEDULED_RANK:
            self._forget_later(position)

    def _forget_later(self, position: int) -> None:
        self.removed_count += 1
        storage = self.queue.dispatcher.storage
        committed = storage.committed
        leaving = self._leaving
        while leaving and leaving[0][0] <= committed:
            self.taken.discard(leaving.popleft()[1])
        self.taken.add(position)
        leaving.append((storage.batch, position))

    def _lost(self, position: int) -> None:
        """Subtract a damaged message; its size is not known, so the bytes are corrected when the tail ends."""
        self.stored_count -= 1
        self._forget_later(position)
        self.queue.address.page_in(1, 0)

    def clear(self) -> None:
        """Empty the tail, and subtract from the accounts what it still counts there."""
        count, size_bytes = self.count, self.stored_bytes + self.spilled_bytes
        for reference in self.recent:
            if reference.state == COLD:
                # It was not counted as being on disk yet.
                count -= 1
                size_bytes -= reference.message.size
                reference.state = GONE
                if self.queue.entry is not None:
                    self.queue.entry.ended(self.queue, reference)
                unhold(reference.message)
        for arrival in self._arriving:
            count -= arrival.count
            size_bytes -= arrival.size_bytes
        self._arriving.clear()
        self.queue.address.page_in(count, size_bytes)
        self.recent.clear()
        self.stored_count = self.stored_bytes = self.spilled_count = self.spilled_bytes = 0


def _merged(one: Page, other: Page) -> Page:
    """Return two pages of the same range as one, as far as both go."""
    page = Page()
    page.end = min(one.end, other.end)
    page.due = one.due
    page.lost = one.lost
    references = one.references + other.references
    references.sort(key=position_of)
    while references and position_of(references[-1]) > page.end:
        references.pop()
    page.references = references
    return page
