"""The cursor of a consumer that may skip messages: one with a selector, or one that a message is hidden from.

Messages on disk that a selector matches are brought into memory while the rest stay on disk, so a selector sees the
whole backlog and memory use stays flat. A message that comes back behind the cursor is remembered if the consumer
wants it.
"""

from heapq import heappop, heappush
from typing import TYPE_CHECKING

from artemis_py.core.queues.cursors.cursor import ScanBudget, wants
from artemis_py.core.queues.cursors.list_cursor import DISK_COST, SCAN_PAGE_MESSAGES, ListCursor
from artemis_py.core.queues.page import END
from artemis_py.core.queues.reference import PRIORITIES, WAITING, Reference
from artemis_py.core.queues.tail import Tail

if TYPE_CHECKING:
    from artemis_py.core.queues.backlog import Backlog
    from artemis_py.core.queues.consumer import Consumer


class SelectiveCursor(ListCursor):
    """Examines each message once, however often its consumer asks."""

    def __init__(self) -> None:
        super().__init__()
        self._returned: list[tuple[int, int, Reference]] = []
        """Messages that came back behind the place: a heap of (9 - priority, sequence, reference)."""

    def next(self, consumer: "Consumer", budget: ScanBudget) -> Reference | None:
        """Return the next message the consumer wants: the first of the highest priority."""
        returned = self._returned
        while returned and not self._may_take(consumer, returned[0][2]):
            heappop(returned)
        lowest = PRIORITIES - returned[0][0] if returned else 0
        backlog = consumer.queue.backlog
        for priority in range(PRIORITIES - 1, lowest - 1, -1):
            if not (backlog.mask | backlog.cold_mask) & (1 << priority):
                continue
            while True:
                tail = backlog.tails[priority]
                reach = END if tail is None else max(tail.frontier, self.reach[priority])
                found = self._walk(backlog, consumer, priority, reach, budget)
                if found is not None or budget.left <= 0:
                    return found
                if tail is None or reach >= backlog.last_sequence(tail):
                    break
                self._search(backlog, tail, consumer, priority, reach, budget)
                if budget.left <= 0:
                    return None
        return heappop(returned)[2] if returned else None

    def has_next(self, consumer: "Consumer", budget: ScanBudget) -> bool:
        """Tell whether a message waits that the consumer wants, without taking it; false if the budget is used up."""
        returned = self._returned
        while returned and not self._may_take(consumer, returned[0][2]):
            heappop(returned)
        return len(returned) > 0 or self.next(consumer, budget) is not None

    def wants(self, consumer: "Consumer", reference: Reference) -> bool:
        """Tell whether a message is allowed for the consumer, and what it selects."""
        return wants(consumer, reference)

    def _may_take(self, consumer: "Consumer", reference: Reference) -> bool:
        """Tell whether the consumer may still take a message that returned: it may have an owner by now."""
        return reference.state == WAITING and (consumer.queue.assignment is None or self.wants(consumer, reference))

    def _walk(
        self, backlog: "Backlog", consumer: "Consumer", priority: int, reach: int, budget: ScanBudget
    ) -> Reference | None:
        """Search the list in memory, from the place up to sequence `reach`.

        The place stays before the message found, because dispatch may leave it (if it is not durable yet, for example).
        """
        place = examined = self.places[priority]
        candidate = backlog.lists[priority].head if place is None else place.next
        found: Reference | None = None
        left = budget.left
        while candidate is not None and left > 0 and candidate.sequence <= reach:
            left -= 1
            if self.wants(consumer, candidate):
                found = candidate
                break
            examined = candidate
            candidate = candidate.next
        budget.left = left
        if examined is not place:
            self.move(priority, examined)
        return found

    def _search(
        self, backlog: "Backlog", tail: Tail, consumer: "Consumer", priority: int, reach: int, budget: ScanBudget
    ) -> None:
        """Bring the messages that the consumer wants of the next page on disk into memory, up to its credit."""
        assignment = consumer.queue.assignment
        if consumer.filter is None and (assignment is None or not assignment.is_by_message):
            # It wants everything except the messages hidden from it, and those are in memory.
            if not backlog.load(priority):
                self.reach[priority] = backlog.last_sequence(tail)
            budget.left -= SCAN_PAGE_MESSAGES
            return
        page = backlog.scan(tail, reach, END, SCAN_PAGE_MESSAGES)
        if page is None:
            self.reach[priority] = backlog.last_sequence(tail)
            return
        reached = min(page.end, backlog.last_sequence(tail))
        credit = consumer.credit
        for reference in page.references:
            budget.left -= DISK_COST
            if self.wants(consumer, reference):
                backlog.fetch(tail, reference, page)
                credit -= 1
                if credit <= 0:
                    reached = reference.sequence
                    break
        self.reach[priority] = reached
        backlog.close(tail, priority)

    def came_back(self, consumer: "Consumer", reference: Reference) -> None:
        """Remember a message that returned behind the place, if the consumer wants it."""
        priority = consumer.queue.backlog.priority_of(reference)
        place = self.places[priority]
        if place is not None and place.sequence > reference.sequence and self.wants(consumer, reference):
            heappush(self._returned, (PRIORITIES - 1 - priority, reference.sequence, reference))

    def reset(self) -> None:
        """Forget all references, including those that returned, and examine everything again."""
        super().reset()
        self._returned.clear()
        for priority in range(PRIORITIES):
            self.reach[priority] = 0
