"""The cursor of a consumer of a queue with message groups, and the scan that such consumers share.

Consumers without a selector share one scan of the queue, so a message is examined once, however many they are. A
message that the scan passes, because the owner of its group is busy, is listed for its group (`rules/groups`).

    shared     the usual mode: messages listed for its groups, then what the shared scan finds
    behind     so many messages were listed for its groups that the scan passed more: it walks through the queue
               by itself until it has caught up
    selective  with a selector, or when a message was hidden from it: it always walks by itself
"""

from typing import TYPE_CHECKING, Final

from artemis_py.core.queues.cursors.cursor import Cursor, ScanBudget
from artemis_py.core.queues.cursors.list_cursor import DISK_COST, SCAN_PAGE_MESSAGES, ListCursor
from artemis_py.core.queues.cursors.selective import SelectiveCursor
from artemis_py.core.queues.page import END
from artemis_py.core.queues.reference import PRIORITIES, Reference

if TYPE_CHECKING:
    from artemis_py.core.queues.backlog import Backlog
    from artemis_py.core.queues.consumer import Consumer
    from artemis_py.core.queues.rules.groups import Groups
    from artemis_py.core.queues.tail import Tail

# What happens to a message that the scan examines for a consumer.
TAKE: Final = 0
"""The consumer may have it."""
PASS: Final = 1
"""Another consumer gets it later; it is listed, or that consumer finds it by itself."""
HIDDEN: Final = 2
"""The consumer must not get it, but any other may: the scan stays here, and the consumer becomes selective."""
BEHIND: Final = 3
"""Another consumer owns its group, but no more messages are listed for that one: it falls behind."""

SEQUENCE_BITS: Final = 56
NO_KEY: Final = 1 << 60
"""A key behind all others."""


def key_of(priority: int, sequence: int) -> int:
    """Return a number that sorts messages as they are delivered: by priority, then by sequence."""
    return (PRIORITIES - 1 - priority) << SEQUENCE_BITS | sequence


def priority_in(key: int) -> int:
    """Return the priority in a key."""
    return PRIORITIES - 1 - (key >> SEQUENCE_BITS)


class GroupScan(ListCursor):
    """The scan that consumers share: everything up to its place is delivered, listed, or found by its owner alone."""

    def __init__(self, groups: "Groups") -> None:
        super().__init__()
        self._groups: Groups = groups
        self.late: GroupCursor | None = None
        """The cursor that falls behind, after BEHIND."""

    def find(self, consumer: "Consumer", cursor: "GroupCursor", before: int, budget: ScanBudget) -> Reference | None:
        """Return the next message that the consumer may have, with a key below `before`.

        The place stays before it, because dispatch may leave it. None also if the consumer became selective.
        """
        backlog = consumer.queue.backlog
        lowest = 0 if before == NO_KEY else priority_in(before)
        for priority in range(PRIORITIES - 1, lowest - 1, -1):
            if not (backlog.mask | backlog.cold_mask) & (1 << priority):
                continue
            limit = END
            if before != NO_KEY and priority == lowest:
                limit = (before & END) - 1
            while True:
                tail = backlog.tails[priority]
                reach = END if tail is None else max(tail.frontier, self.reach[priority])
                found = self._walk(backlog, consumer, priority, min(reach, limit), budget)
                if found is not None or budget.left <= 0 or cursor.is_selective:
                    return found
                if tail is None or reach >= backlog.last_sequence(tail) or reach >= limit:
                    break
                self._search(backlog, tail, consumer, priority, reach, budget)
                if budget.left <= 0:
                    return None
        return None

    def _walk(
        self, backlog: "Backlog", consumer: "Consumer", priority: int, upto: int, budget: ScanBudget
    ) -> Reference | None:
        """Search the list in memory, from the place up to sequence `upto`."""
        place = examined = self.places[priority]
        candidate = backlog.lists[priority].head if place is None else place.next
        found: Reference | None = None
        left = budget.left
        while candidate is not None and left > 0 and candidate.sequence <= upto:
            left -= 1
            verdict = self._groups.examine(consumer, candidate, False)
            if verdict == TAKE:
                found = candidate
                break
            if verdict == HIDDEN:
                break
            if verdict == BEHIND and self.late is not None:
                self.move(priority, examined)
                place = examined
                self.late.fall_behind(self)
            examined = candidate
            candidate = candidate.next
        budget.left = left
        if examined is not place:
            self.move(priority, examined)
        return found

    def _search(
        self, backlog: "Backlog", tail: "Tail", consumer: "Consumer", priority: int, reach: int, budget: ScanBudget
    ) -> None:
        """Bring the messages of the next page on disk that nobody owns, or the consumer owns, into memory."""
        page = backlog.scan(tail, reach, END, min(SCAN_PAGE_MESSAGES, backlog.page_messages))
        if page is None:
            self.reach[priority] = backlog.last_sequence(tail)
            return
        for reference in page.references:
            budget.left -= DISK_COST
            verdict = self._groups.examine(consumer, reference, True)
            if verdict == TAKE:
                backlog.fetch(tail, reference, page)
            elif verdict == BEHIND and self.late is not None:
                self.reach[priority] = max(reach, reference.sequence - 1)
                self.late.fall_behind(self)
        self.reach[priority] = min(page.end, backlog.last_sequence(tail))
        backlog.close(tail, priority)


class GroupCursor(Cursor):
    """The cursor of one consumer; see the modes above."""

    def __init__(self, groups: "Groups", is_selective: bool) -> None:
        super().__init__()
        self._groups: Groups = groups
        self.is_selective: bool = is_selective
        self.own: SelectiveCursor | None = SelectiveCursor() if is_selective else None
        """The cursor with which it walks by itself; None: it shares the scan."""
        self.ready: list[int] = []
        """Keys of the first listed message of each group that it owns, as a heap; some may be out of date."""
        self.listed: int = 0
        """Number of messages that are listed for its groups."""

    def next(self, consumer: "Consumer", budget: ScanBudget) -> Reference | None:
        """Return the next message for the consumer."""
        own = self.own
        if own is None:
            return self._groups.find(consumer, self, budget)
        found = own.next(consumer, budget)
        if self.is_selective or (found is None and budget.left <= 0):
            return found
        if found is None:
            # It has caught up with the shared scan, or passed it.
            own.reset()
            self.own = None
            self._groups.rejoined(self)
            return self._groups.find(consumer, self, budget)
        key = self._groups.lists.first_ready(consumer, self)
        if key < key_of(consumer.queue.backlog.priority_of(found), found.sequence):
            listed = self._groups.lists.bring(consumer.queue, key, budget)
            if listed is not None:
                return listed
        return found

    def fall_behind(self, scan: GroupScan) -> None:
        """Walk alone from the place of the shared scan."""
        own = self.own = SelectiveCursor()
        for priority in range(PRIORITIES):
            own.move(priority, scan.places[priority])
            own.reach[priority] = scan.reach[priority]

    def become_selective(self) -> None:
        """Walk alone, from the start, from now on: a message is hidden from the consumer."""
        if self.own is not None:
            self.own.reset()
        self.is_selective = True
        self.own = SelectiveCursor()
        self.ready = []

    def go_back(self, key: int, reference: Reference | None) -> None:
        """Examine a message again that the consumer may have now, if its own cursor has passed it."""
        own = self.own
        if own is None:
            return
        priority = priority_in(key)
        sequence = key & END
        place = own.places[priority]
        if place is not None and place.sequence >= sequence:
            own.move(priority, None if reference is None else reference.previous)
        if own.reach[priority] >= sequence:
            own.reach[priority] = sequence - 1

    def place(self, priority: int) -> Reference | None:
        """Return the last reference that the scan examined."""
        return self._groups.scan.places[priority] if self.own is None else self.own.places[priority]

    def reset(self) -> None:
        """Forget all references."""
        if self.own is not None:
            self.own.reset()


def group_cursor_of(consumer: "Consumer") -> GroupCursor | None:
    """Return the cursor of a consumer; None if its creator passed one that knows no groups."""
    return consumer.cursor if isinstance(consumer.cursor, GroupCursor) else None
