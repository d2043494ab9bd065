"""Acknowledging waiting messages by their sequences, for readers that removed nothing from the queue."""

from typing import TYPE_CHECKING

from artemis_py.core.queues.page import PAGE_MESSAGES
from artemis_py.core.queues.reference import PRIORITIES, Reference
from artemis_py.core.queues.settlement import forget

if TYPE_CHECKING:
    from artemis_py.core.queues.queue import Queue


def acknowledge_below(queue: "Queue", sequence: int, limit: int, start: int = 0) -> int:
    """Acknowledge waiting messages from `start` up to but excluding `sequence`, at most `limit`; return how many.

    Delivered messages stay. Messages past their expiry time expire instead: no consumer got them in time.
    A queue that keeps its messages ignores it.
    """
    if queue.keeps_messages:
        return 0
    expired_before = queue.messages_expired
    count = 0
    for priority in range(PRIORITIES):
        count += _end_in_memory(queue, priority, start, sequence, limit - count)
        count += _end_on_disk(queue, priority, start, sequence, limit - count)
    queue.messages_acknowledged += count - (queue.messages_expired - expired_before)
    return count


def _end_in_memory(queue: "Queue", priority: int, start: int, stop: int, limit: int) -> int:
    count = 0
    reference = queue.backlog.lists[priority].head
    while reference is not None and reference.sequence < stop and count < limit:
        following = reference.next
        if reference.sequence >= start:
            queue.backlog.unlink(reference)
            _end(queue, reference)
            count += 1
        reference = following
    return count


def _end_on_disk(queue: "Queue", priority: int, start: int, stop: int, limit: int) -> int:
    backlog = queue.backlog
    tail = backlog.tails[priority]
    if tail is None:
        return 0
    count = 0
    after = max(tail.frontier, start - 1)
    while after < stop - 1 and count < limit:
        page = backlog.scan(tail, after, stop - 1, min(PAGE_MESSAGES, limit - count))
        if page is None:
            break
        for reference in page.references:
            backlog.pull(tail, reference)
            _end(queue, reference)
            count += 1
        after = page.end
        if start <= tail.frontier + 1:
            tail.advance(after)
    backlog.close(tail, priority)
    return count


def _end(queue: "Queue", reference: Reference) -> None:
    """End a message that was removed from the backlog."""
    if 0 < reference.message.expires_ms <= queue.dispatcher.now_ms:
        queue.expiry.end(reference)
    else:
        forget(reference)


def acknowledge_numbers(queue: "Queue", wanted: set[int]) -> int:
    """Acknowledge the waiting messages with these sequences; return how many. Delivered messages stay.

    Every waiting message from the lowest of the sequences to the highest is examined.
    A queue that keeps its messages ignores it.
    """
    if queue.keeps_messages:
        return 0
    count = 0
    low, high = min(wanted), max(wanted)
    backlog = queue.backlog
    for priority in range(PRIORITIES):
        reference = backlog.lists[priority].head
        while reference is not None and reference.sequence <= high:
            following = reference.next
            if reference.sequence in wanted:
                backlog.unlink(reference)
                forget(reference)
                count += 1
            reference = following
        tail = backlog.tails[priority]
        after = 0 if tail is None else max(tail.frontier, low - 1)
        while tail is not None and after < high:
            page = backlog.scan(tail, after, high, PAGE_MESSAGES)
            if page is None:
                break
            for cold in page.references:
                if cold.sequence in wanted:
                    backlog.pull(tail, cold)
                    forget(cold)
                    count += 1
            after = page.end
    queue.messages_acknowledged += count
    return count
