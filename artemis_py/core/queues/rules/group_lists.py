"""The listed messages of a queue with groups: those that wait, and that the shared scan has passed.

Their numbers are in a heap for each group; only the messages themselves may be on disk. The first of each group is
announced: to the owner of the group, or, if any consumer may take it, to all.
"""

from heapq import heappop, heappush
from typing import TYPE_CHECKING, Final

from artemis_py.core.queues.cursors.cursor import ScanBudget
from artemis_py.core.queues.cursors.group_cursor import NO_KEY, GroupCursor, group_cursor_of, key_of, priority_in
from artemis_py.core.queues.cursors.list_cursor import DISK_COST
from artemis_py.core.queues.page import END
from artemis_py.core.queues.reference import WAITING, Reference
from artemis_py.core.queues.rules.group_table import Group, GroupTable
from artemis_py.core.runtime.accounts import LISTED_BYTES

if TYPE_CHECKING:
    from artemis_py.core.queues.consumer import Consumer
    from artemis_py.core.queues.queue import Queue

# Messages that are listed for the groups of one consumer, or for one group without an owner, and in all. With consumers
# of the same speed the lists of 100 of them rarely exceed 500. What exceeds the limits is found by another walk.
LISTED_PER_OWNER: Final = 2_000
LISTED_LIMIT: Final = 100_000


class GroupLists:
    """Which listed message is next, for each group and for each consumer."""

    def __init__(self, queue: "Queue", table: GroupTable) -> None:
        self._queue: Queue = queue
        self._table: GroupTable = table
        self._group_of: dict[int, Group] = {}
        """Groups of listed messages, by sequence."""
        self._references: dict[int, Reference | None] = {}
        """Listed messages by sequence; None: it is on disk only."""
        self._free: list[int] = []
        """Keys of the first listed message of groups without an owner, as a heap; some may be out of date."""
        self.alone: list[GroupCursor] = []
        """Cursors that may walk by themselves."""
        self.resting: dict[Consumer, None] = {}
        """Consumers with credit that left their ring, because there was nothing for them."""
        self.is_exhausted: bool = False
        """Whether the shared scan found nothing more, and no message is announced to all."""

    @property
    def count(self) -> int:
        """Number of listed messages."""
        return len(self._group_of)

    def group_of(self, sequence: int) -> Group | None:
        """Return the group for which a message is listed; None if it is not listed."""
        return self._group_of.get(sequence)

    def groups(self) -> set[Group]:
        """Return the groups that have listed messages."""
        return set(self._group_of.values())

    def entered(self, reference: Reference) -> None:
        """Remember where a listed message is in memory."""
        if reference.sequence in self._references:
            self._references[reference.sequence] = reference

    def wake(self, consumer: "Consumer") -> None:
        if consumer.credit <= 0:
            return
        if self.resting:
            self.resting.pop(consumer, None)
        self._queue.dispatch.enter(consumer)
        self._queue.dispatch.mark_ready()

    def is_full(self, listed: int) -> bool:
        return (
            listed >= LISTED_PER_OWNER or len(self._group_of) >= LISTED_LIMIT or self._queue.dispatcher.tables.is_full
        )

    def add(self, group: Group, reference: Reference, is_cold: bool) -> None:
        """List a waiting message that the scan has passed."""
        sequence = reference.sequence
        if sequence in self._group_of:
            return
        key = key_of(self._queue.backlog.priority_of(reference), sequence)
        self._group_of[sequence] = group
        self._references[sequence] = None if is_cold else reference
        self._queue.dispatcher.tables.occupy(LISTED_BYTES)
        heappush(group.waiting, key)
        group.listed += 1
        owner = self._table.owner_of(group)
        cursor = None if owner is None else group_cursor_of(owner)
        if cursor is not None:
            cursor.listed += 1
        if group.waiting[0] == key:
            self.announce(group)
        if self.alone and (self._table.is_free(group) or (cursor is not None and cursor.is_selective)):
            self.send_back(key)

    def remove(self, sequence: int) -> None:
        """Note that a listed message no longer waits, and announce the next one of its group."""
        group = self._group_of.pop(sequence, None)
        if group is None:
            return
        del self._references[sequence]
        self._queue.dispatcher.tables.vacate(LISTED_BYTES)
        group.listed -= 1
        owner = self._table.owner_of(group)
        cursor = None if owner is None else group_cursor_of(owner)
        if cursor is not None:
            cursor.listed -= 1
        waiting = group.waiting
        if waiting[0] & END == sequence:
            heappop(waiting)
            while waiting and waiting[0] & END not in self._group_of:
                heappop(waiting)
            if waiting:
                self.announce(group)

    def announce(self, group: Group) -> None:
        """Offer the first listed message of a group to its owner, or to all if it is free."""
        key = group.waiting[0]
        owner = self._table.owner_of(group)
        if owner is not None:
            cursor = group_cursor_of(owner)
            if cursor is not None and not cursor.is_selective:
                heappush(cursor.ready, key)
            self.wake(owner)
        elif group.in_flight == 0:
            heappush(self._free, key)
            self.is_exhausted = False
            self._queue.dispatch.mark_ready()

    def send_back(self, key: int) -> None:
        """Have cursors that walk by themselves examine a listed message again."""
        reference = self._references.get(key & END)
        for cursor in self.alone:
            cursor.go_back(key, reference)
        self._queue.dispatch.mark_ready()

    def first_ready(self, consumer: "Consumer", cursor: GroupCursor) -> int:
        """Return the key of the first message that is listed for the consumer's groups; NO_KEY if there is none."""
        ready = cursor.ready
        while ready:
            key = ready[0]
            group = self._group_of.get(key & END)
            if group is not None and group.waiting[0] == key and self._table.owner_of(group) is consumer:
                return key
            heappop(ready)
        return NO_KEY

    def first_free(self) -> int:
        """Return the key of the first listed message that any consumer may have; NO_KEY if there is none."""
        free = self._free
        while free:
            key = free[0]
            group = self._group_of.get(key & END)
            if group is not None and group.waiting[0] == key and self._table.is_free(group):
                return key
            heappop(free)
        return NO_KEY

    def bring(self, queue: "Queue", key: int, budget: ScanBudget) -> Reference | None:
        """Return a listed message, read from disk if necessary.

        None if it does not wait any more, which is noted, or cannot be read now.
        """
        sequence = key & END
        reference = self._references.get(sequence)
        if reference is None:
            priority = priority_in(key)
            backlog = queue.backlog
            tail = backlog.tails[priority]
            budget.left -= DISK_COST
            if tail is not None:
                page = backlog.scan(tail, sequence - 1, sequence, 1)
                if page is None:
                    return None
                for cold in page.references:
                    backlog.fetch(tail, cold, page)
                    reference = cold
                backlog.close(tail, priority)
        if reference is None or reference.state != WAITING:
            self.remove(sequence)
            return None
        return reference

    def clear(self) -> None:
        """Forget all listed messages."""
        for group in self._group_of.values():
            group.listed = 0
            group.waiting = []
        self._queue.dispatcher.tables.vacate(LISTED_BYTES * len(self._group_of))
        self._group_of.clear()
        self._references.clear()
        self._free = []
