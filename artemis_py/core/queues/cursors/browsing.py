"""The cursor of a browser, which removes nothing: it sees waiting messages in memory and on disk, each once."""

from collections import deque
from typing import TYPE_CHECKING

from artemis_py.core.queues.cursors.cursor import ScanBudget, wants
from artemis_py.core.queues.cursors.list_cursor import DISK_COST, SCAN_PAGE_MESSAGES, ListCursor
from artemis_py.core.queues.page import END
from artemis_py.core.queues.reference import PRIORITIES, Reference
from artemis_py.core.queues.tail import Tail

if TYPE_CHECKING:
    from artemis_py.core.queues.backlog import Backlog
    from artemis_py.core.queues.consumer import Consumer


class BrowsingCursor(ListCursor):
    """Shows messages on disk without bringing them into the queue's memory; it reads at most a page ahead."""

    def __init__(self) -> None:
        super().__init__()
        self.ahead: deque[Reference] = deque()
        """The messages on disk that are shown next, of one priority."""
        self._ahead_priority: int = -1
        self._ahead_end: int = 0
        """The sequence up to which `ahead` has everything on disk."""
        self._ahead_last: int = 0
        """Sequence of the last message that was read, whether the consumer wants it or not."""
        self._ahead_removed: int = 0
        """`Tail.removed_count` when `ahead` was read."""

    def next(self, consumer: "Consumer", budget: ScanBudget) -> Reference | None:
        """Return the next message the consumer wants, of the highest priority that has more."""
        backlog = consumer.queue.backlog
        for priority in range(PRIORITIES - 1, -1, -1):
            if not (backlog.mask | backlog.cold_mask) & (1 << priority):
                continue
            while True:
                tail = backlog.tails[priority]
                if tail is None and self._ahead_priority == priority:
                    self.ahead.clear()
                    self._ahead_priority = -1
                reach = END if tail is None else max(tail.frontier, self.reach[priority])
                found = self._walk(backlog, consumer, priority, reach, budget)
                if found is not None or budget.left <= 0:
                    return found
                if tail is None or reach >= backlog.last_sequence(tail):
                    break
                found = self._look_ahead(backlog, tail, consumer, priority, reach, budget)
                if found is not None:
                    return found
                if self._ahead_priority < 0 and self._ahead_end >= backlog.last_sequence(tail):
                    break
                if budget.left <= 0:
                    return None
        return None

    def _walk(
        self, backlog: "Backlog", consumer: "Consumer", priority: int, reach: int, budget: ScanBudget
    ) -> Reference | None:
        """Search the list in memory, from the place up to sequence `reach`."""
        place = examined = self.places[priority]
        candidate = backlog.lists[priority].head if place is None else place.next
        found: Reference | None = None
        seen = self.reach[priority]
        left = budget.left
        while candidate is not None and left > 0 and candidate.sequence <= reach:
            left -= 1
            examined = candidate
            if candidate.sequence > seen and wants(consumer, candidate):
                found = candidate
                break
            candidate = candidate.next
        budget.left = left
        if examined is not place:
            self.move(priority, examined)
            if examined is not None and examined.sequence > seen:
                self.reach[priority] = examined.sequence
        return found

    def _look_ahead(
        self, backlog: "Backlog", tail: Tail, consumer: "Consumer", priority: int, reach: int, budget: ScanBudget
    ) -> Reference | None:
        """Return the next message on disk or, behind the frontier, in memory, whichever comes first."""
        ahead = self.ahead
        if self._ahead_priority != priority and not self._read_ahead(backlog, tail, consumer, priority, reach, budget):
            return None
        end = ahead[0].sequence - 1 if ahead else self._ahead_end
        budget.left = max(budget.left, 1)
        found = self._walk(backlog, consumer, priority, end, budget)
        if found is not None:
            return found
        if not ahead:
            # No further than it has seen: messages that other consumers have now may come back behind that, and then
            # this browser must see them.
            self.reach[priority] = max(self._ahead_last, self.reach[priority])
            self._ahead_priority = -1
            return None
        reference = ahead.popleft()
        if not tail.has(reference, self._ahead_removed):
            # It was brought into memory in the meantime: if it is still there, the next search finds it.
            return None
        self.reach[priority] = reference.sequence
        reference.was_acquired = reference.was_acquired or reference.sequence < backlog.restored_below
        return reference

    def _read_ahead(
        self, backlog: "Backlog", tail: Tail, consumer: "Consumer", priority: int, reach: int, budget: ScanBudget
    ) -> bool:
        """Read the next page of a priority; False if it cannot be read."""
        self.ahead.clear()
        # Messages read ahead count in no account, and a thousand browsers would have a page each.
        ahead_messages = 1 if backlog.dispatcher.account.is_tight else SCAN_PAGE_MESSAGES
        page = backlog.scan(tail, reach, END, max(1, min(ahead_messages, consumer.credit)))
        self._ahead_last = self.reach[priority]
        self._ahead_removed = tail.removed_count
        if page is None:
            self._ahead_priority = -1
            self._ahead_end = END
            return False
        for reference in page.references:
            budget.left -= DISK_COST
            self._ahead_last = reference.sequence
            if wants(consumer, reference):
                self.ahead.append(reference)
        self._ahead_priority = priority
        self._ahead_end = min(page.end, backlog.last_sequence(tail))
        return True
