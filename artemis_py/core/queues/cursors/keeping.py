"""The cursor of an ordinary consumer of a queue that keeps its messages: it sees each of them once, in order.

It has a place in each priority, as a browser does, and shows messages on disk without bringing them into the queue's
memory. A browser shows what is there when it comes by; this cursor also shows a message that comes back behind its
place, leaves a message that is not durable yet until it is, and does not read the disk again when it is at the end.
"""

from collections import deque
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


class KeepingCursor(ListCursor):
    """`reach` is, per priority, the sequence up to which its consumer has seen or skipped everything."""

    def __init__(self) -> None:
        super().__init__()
        self._returned: list[tuple[int, int, Reference]] = []
        """Messages that came back behind the place: a heap of (9 - priority, sequence, reference)."""
        self._page: deque[Reference] = deque()
        """The messages on disk that are next, of one priority."""
        self._page_priority: int = -1
        self._page_end: int = 0
        """The sequence up to which `_page` has everything on disk."""
        self._page_removed: int = 0
        """`Tail.removed_count` when `_page` was read."""

    def next(self, consumer: "Consumer", budget: ScanBudget) -> Reference | None:
        """Return the next message the consumer wants, of the highest priority that has more.

        A message that dispatch leaves, because it is not durable yet, is returned again next time.
        """
        backlog = consumer.queue.backlog
        returned = self._returned
        while returned and returned[0][2].state != WAITING:
            heappop(returned)
        for priority in range(PRIORITIES - 1, -1, -1):
            if not (backlog.mask | backlog.cold_mask) & (1 << priority):
                continue
            if returned and returned[0][0] == PRIORITIES - 1 - priority:
                return heappop(returned)[2]
            if self.reach[priority] >= backlog.last_sequence(backlog.tails[priority]):
                continue
            found = self._search(backlog, consumer, priority, budget)
            if found is not None or budget.left <= 0:
                return found
        return None

    def _search(self, backlog: "Backlog", consumer: "Consumer", priority: int, budget: ScanBudget) -> Reference | None:
        """Return the next message of one priority that the consumer wants, whether it is in memory or on disk."""
        while budget.left > 0:
            warm = self._next_in_memory(backlog, priority, budget)
            if budget.left <= 0:
                return None
            tail = backlog.tails[priority]
            if tail is not None and (warm is None or warm.sequence > tail.frontier):
                cold = self._next_on_disk(tail, consumer, priority)
                if cold is not None and (warm is None or cold.sequence < warm.sequence):
                    if not self._leaves(backlog, cold):
                        self._page.popleft()
                        self.reach[priority] = cold.sequence
                    return cold
                if cold is None and (warm is None or warm.sequence > self._page_end):
                    if not self._read(backlog, tail, consumer, priority, budget):
                        return None
                    continue
            if warm is None:
                self.reach[priority] = backlog.last_sequence(tail)
                return None
            budget.left -= 1
            is_wanted = self._wants(consumer, warm)
            if not is_wanted or not self._leaves(backlog, warm):
                self.move(priority, warm)
                self.reach[priority] = warm.sequence
            if is_wanted:
                return warm
        return None

    def _next_in_memory(self, backlog: "Backlog", priority: int, budget: ScanBudget) -> Reference | None:
        """Return the first message in memory that the consumer has not seen; the place moves up to it."""
        place = seen = self.places[priority]
        candidate = backlog.lists[priority].head if place is None else place.next
        reach = self.reach[priority]
        left = budget.left
        # Messages that were on disk when it saw them may be in memory by now.
        while candidate is not None and candidate.sequence <= reach and left > 0:
            left -= 1
            seen = candidate
            candidate = candidate.next
        budget.left = left
        if seen is not place:
            self.move(priority, seen)
        return candidate

    def _next_on_disk(self, tail: Tail, consumer: "Consumer", priority: int) -> Reference | None:
        """Return the first message of the page that is still on disk only; None if the page is used up."""
        page = self._page
        if self._page_priority != priority:
            page.clear()
            self._page_priority = priority
            self._page_end = max(tail.frontier, self.reach[priority])
        while page:
            reference = page[0]
            if reference.sequence > self.reach[priority] and tail.has(reference, self._page_removed):
                return reference
            page.popleft()
        return None

    def _read(self, backlog: "Backlog", tail: Tail, consumer: "Consumer", priority: int, budget: ScanBudget) -> bool:
        """Note that the page was seen, and read the next one; False if there is none, or if it cannot be read."""
        # What is in memory behind the frontier was seen up to the end of the page as well.
        seen = max(self.reach[priority], self._page_end, tail.frontier)
        last = backlog.last_sequence(tail)
        self.reach[priority] = min(seen, last)
        if seen >= last:
            return False
        # Messages read ahead count in no account, and a thousand consumers would have a page each.
        max_messages = 1 if backlog.dispatcher.account.is_tight else SCAN_PAGE_MESSAGES
        if consumer.filter is None:
            max_messages = max(1, min(max_messages, consumer.credit))
        page = backlog.scan(tail, seen, END, max_messages)
        if page is None:
            return False
        budget.left -= 1 + len(page.references) * DISK_COST
        for reference in page.references:
            if self._wants(consumer, reference):
                reference.was_acquired = reference.was_acquired or reference.sequence < backlog.restored_below
                self._page.append(reference)
        self._page_end = min(page.end, last)
        self._page_removed = tail.removed_count
        if self._page:
            # Otherwise a small budget would never be enough for a page and its first message.
            budget.left = max(budget.left, 1)
        return True

    def _leaves(self, backlog: "Backlog", reference: Reference) -> bool:
        """Tell whether dispatch will leave the message because it is not durable yet."""
        return reference.batch > backlog.dispatcher.stored_batch

    def _wants(self, consumer: "Consumer", reference: Reference) -> bool:
        """Tell whether the consumer is to see a message: a client that is back may still have it unsettled."""
        return reference.sequence not in consumer.shown and wants(consumer, reference)

    def came_back(self, consumer: "Consumer", reference: Reference) -> None:
        """Remember a message that returned behind the place, if the consumer wants it."""
        priority = consumer.queue.backlog.priority_of(reference)
        if reference.sequence <= self.reach[priority] and self._wants(consumer, reference):
            heappush(self._returned, (PRIORITIES - 1 - priority, reference.sequence, reference))

    def reset(self) -> None:
        """Forget all references, but not what the consumer has seen."""
        super().reset()
        self._returned.clear()
        self._page.clear()
        self._page_priority = -1
