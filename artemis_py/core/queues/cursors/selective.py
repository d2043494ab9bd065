"""What a consumer gets that may pass messages over: one with a selector, a browser, one that a message is hidden from.

It keeps a cursor in the list of each priority, and a reach: up to which position it examined what is on disk. What a
selector wants there is brought into memory and leaves the rest where it is, so a selector sees all of a backlog and
memory stays flat. A browser is shown references that nobody keeps.
"""

from heapq import heappop
from typing import TYPE_CHECKING, Final

from artemis_py.core.queues.page import END
from artemis_py.core.queues.reference import PRIORITIES, WAITING, Reference
from artemis_py.core.queues.tail import Tail

if TYPE_CHECKING:
    from artemis_py.core.queues.backlog import Backlog
    from artemis_py.core.queues.consumer import Consumer

# What is read from disk for one of them at a time, and what examining one there costs of the scan budget: it is
# decoded first.
SCAN_PAGE_MESSAGES: Final = 100
DISK_COST: Final = 4


def wants(consumer: "Consumer", reference: Reference) -> bool:
    """Whether the consumer may and would take it."""
    if reference.hidden_from is not None and consumer.id in reference.hidden_from:
        return False
    return consumer.filter is None or consumer.filter.matches(reference)


def move_cursor(consumer: "Consumer", priority: int, to: Reference | None) -> None:
    """What it examined last."""
    cursor = consumer.cursors[priority]
    if cursor is not None and cursor.cursors is not None:
        cursor.cursors.discard(consumer)
    consumer.cursors[priority] = to
    if to is not None:
        if to.cursors is None:
            to.cursors = set()
        to.cursors.add(consumer)


def find_next(backlog: "Backlog", consumer: "Consumer", scan_left: int) -> tuple[Reference | None, int]:
    """The next reference the consumer wants, and how many more may be examined in this turn."""
    revisit = consumer.revisit
    while revisit and revisit[0][2].state != WAITING:
        heappop(revisit)
    lowest = PRIORITIES - revisit[0][0] if revisit else 0
    for priority in range(PRIORITIES - 1, lowest - 1, -1):
        if not (backlog.mask | backlog.cold_mask) & (1 << priority):
            continue
        while True:
            tail = backlog.tails[priority]
            if tail is None and consumer.ahead_priority == priority:
                consumer.ahead.clear()
                consumer.ahead_priority = -1
            reach = END if tail is None else max(tail.frontier, consumer.reach[priority])
            found, scan_left = _walk(backlog, consumer, priority, reach, scan_left)
            if found is not None:
                return found, scan_left
            if scan_left <= 0:
                return None, 0
            if tail is None or reach >= backlog.last_sequence:
                break
            if consumer.browse:
                found, scan_left = _browse(backlog, tail, consumer, priority, reach, scan_left)
                if found is not None:
                    return found, scan_left
                if consumer.ahead_priority < 0 and consumer.ahead_end >= backlog.last_sequence:
                    break
            else:
                scan_left = _search(backlog, tail, consumer, priority, reach, scan_left)
            if scan_left <= 0:
                return None, 0
    if revisit:
        return heappop(revisit)[2], scan_left
    return None, scan_left


def _walk(
    backlog: "Backlog", consumer: "Consumer", priority: int, reach: int, scan_left: int
) -> tuple[Reference | None, int]:
    """Look through the list in memory, from the cursor up to a sequence."""
    cursor = consumer.cursors[priority]
    examined = cursor
    candidate = backlog.lists[priority].head if cursor is None else cursor.next
    found: Reference | None = None
    seen = consumer.reach[priority] if consumer.browse else 0
    while candidate is not None and scan_left > 0 and candidate.sequence <= reach:
        scan_left -= 1
        if candidate.sequence > seen and wants(consumer, candidate):
            found = candidate
            if consumer.browse:
                examined = candidate
            break
        examined = candidate
        candidate = candidate.next
    if examined is not cursor:
        move_cursor(consumer, priority, examined)
        if consumer.browse and examined is not None and examined.sequence > seen:
            consumer.reach[priority] = examined.sequence
    return found, scan_left


def _search(backlog: "Backlog", tail: Tail, consumer: "Consumer", priority: int, reach: int, scan_left: int) -> int:
    """Bring into memory what the consumer wants of the next page on disk, as much as it has credit for."""
    if consumer.filter is None:
        # It wants all of it but what it was refused before, and that is in memory.
        if not backlog.load(priority):
            consumer.reach[priority] = backlog.last_sequence
        return scan_left - SCAN_PAGE_MESSAGES
    page = backlog.scan(tail, reach, END, SCAN_PAGE_MESSAGES)
    if page is None:
        consumer.reach[priority] = backlog.last_sequence
        return scan_left
    reached = min(page.end, backlog.last_sequence)
    credit = consumer.credit
    for reference in page.references:
        scan_left -= DISK_COST
        if wants(consumer, reference):
            backlog.fetch(tail, reference, page)
            credit -= 1
            if credit <= 0:
                reached = reference.sequence
                break
    consumer.reach[priority] = reached
    backlog.close(tail, priority)
    return scan_left


def _browse(
    backlog: "Backlog", tail: Tail, consumer: "Consumer", priority: int, reach: int, scan_left: int
) -> tuple[Reference | None, int]:
    """The next of what is on disk and what is in memory behind the frontier, in order."""
    ahead = consumer.ahead
    if consumer.ahead_priority != priority:
        ahead.clear()
        # What is read ahead counts in no account, and a thousand browsers would have a page each.
        ahead_messages = 1 if backlog.hub.account.is_tight else SCAN_PAGE_MESSAGES
        page = backlog.scan(tail, reach, END, max(1, min(ahead_messages, consumer.credit)))
        consumer.ahead_last = consumer.reach[priority]
        if page is None:
            consumer.ahead_priority = -1
            consumer.ahead_end = END
            return None, scan_left
        for reference in page.references:
            scan_left -= DISK_COST
            consumer.ahead_last = reference.sequence
            if wants(consumer, reference):
                ahead.append(reference)
        consumer.ahead_priority = priority
        consumer.ahead_end = min(page.end, backlog.last_sequence)
    end = ahead[0].sequence - 1 if ahead else consumer.ahead_end
    found, scan_left = _walk(backlog, consumer, priority, end, max(scan_left, 1))
    if found is not None:
        return found, scan_left
    if not ahead:
        # Not further than it saw: what others have now may come back behind that, and it shall see it then.
        consumer.reach[priority] = max(consumer.ahead_last, consumer.reach[priority])
        consumer.ahead_priority = -1
        return None, scan_left
    reference = ahead.popleft()
    if not tail.has(reference):
        # Somebody brought it into memory meanwhile: if it is still there, the next look finds it.
        return None, scan_left
    consumer.reach[priority] = reference.sequence
    reference.was_acquired = reference.was_acquired or reference.sequence < backlog.restored_below
    return reference, scan_left
