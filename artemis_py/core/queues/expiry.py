"""Expired messages: each is found when it is about to be delivered, or by the reaper (`expire_due`, `sweep`)."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from artemis_py.core.queues.page import END, Page
from artemis_py.core.queues.reference import PRIORITIES, Reference
from artemis_py.core.queues.settlement import forget

if TYPE_CHECKING:
    from artemis_py.core.queues.queue import Queue


class Expiry:
    """Finds the expired messages of one queue; a search costs nothing while none can be due."""

    __slots__ = (
        "_earliest_ms",
        "_queue",
        "_swept_has_expiry",
        "_swept_position",
        "_swept_priority",
        "is_off",
        "may_be_on_disk",
        "returns",
    )

    def __init__(self, queue: "Queue") -> None:
        self._queue: Queue = queue
        self._earliest_ms: int = 0
        """The earliest expiry of all messages in memory, or an earlier time; 0: none expires."""
        self.is_off: bool = False
        """Whether nothing expires here, because all messages are on their way to another queue."""
        self.may_be_on_disk: bool = False
        """Whether some of the messages that are on disk only may have an expiry."""
        self.returns: Callable[[Reference], bool] | None = None
        """Of an internal queue: puts an expired message into the queue that it was taken from; False: it has none."""
        self._swept_priority: int = PRIORITIES - 1
        self._swept_position: int = 0
        self._swept_has_expiry: bool = False

    def note(self, expires_ms: int) -> None:
        """Note that a message in memory expires at this time."""
        if expires_ms < self._earliest_ms or self._earliest_ms == 0:
            self._earliest_ms = expires_ms

    def expire(self, reference: Reference) -> None:
        """Send a waiting message to the expiry address."""
        self._queue.backlog.unlink(reference)
        self.end(reference)

    def expire_anywhere(self, reference: Reference) -> None:
        """Send a waiting message to the expiry address, whether it is in memory or was read from disk to be shown."""
        backlog = self._queue.backlog
        priority = backlog.priority_of(reference)
        tail = backlog.tails[priority]
        if tail is None or not tail.has(reference, tail.removed_count):
            self.expire(reference)
            return
        backlog.pull(tail, reference)
        self.end(reference)
        backlog.close(tail, priority)

    def end(self, reference: Reference) -> None:
        """Send a message that was removed from the backlog to the expiry address.

        What expires in an internal queue returns to its own queue, or is gone: it is a copy, or the original is not
        there for a client.
        """
        if self.returns is None or not self.returns(reference):
            self._queue.messages_expired += 1
            if not self._queue.internal:
                self._queue.routing.expire(reference)
        forget(reference)

    def expire_due(self) -> int:
        """Expire all waiting messages in memory that are due; return how many."""
        queue = self._queue
        now_ms = queue.dispatcher.now_ms
        if self._earliest_ms == 0 or self._earliest_ms > now_ms or self.is_off:
            return 0
        count = 0
        earliest = 0
        for references in queue.backlog.lists:
            reference = references.head
            while reference is not None:
                following = reference.next
                expires_ms = reference.message.expires_ms
                if expires_ms:
                    if expires_ms <= now_ms:
                        self.expire(reference)
                        count += 1
                    else:
                        earliest = _earlier(earliest, reference)
                reference = following
        # Scheduled, delivered and claimed messages do not expire where they are, but may expire when they come back.
        for scheduled in queue.schedule.waiting():
            earliest = _earlier(earliest, scheduled)
        for aside in queue.aside.values():
            earliest = _earlier(earliest, aside)
        for consumer in queue.consumers + queue.holders:
            for delivered in consumer.outstanding.all():
                earliest = _earlier(earliest, delivered)
        self._earliest_ms = earliest
        return count

    def sweep(self, max_messages: int) -> bool:
        """Expire due messages among the next `max_messages` that are on disk only; True at the end of a round."""
        if self.is_off:
            return True
        backlog = self._queue.backlog
        priority = self._swept_priority
        tail = backlog.tails[priority]
        page: Page | None = None
        if tail is not None:
            page = backlog.scan(tail, max(tail.frontier, self._swept_position), END, max_messages)
        if tail is not None and page is not None:
            for reference in page.references:
                expires_ms = reference.message.expires_ms
                if expires_ms and expires_ms <= self._queue.dispatcher.now_ms:
                    backlog.pull(tail, reference)
                    self.end(reference)
                elif expires_ms:
                    self._swept_has_expiry = True
            backlog.close(tail, priority)
            self._swept_position = page.end
            if page.end < END:
                return False
        self._swept_position = 0
        if priority > 0:
            self._swept_priority = priority - 1
            return False
        self._swept_priority = PRIORITIES - 1
        self.may_be_on_disk = self._swept_has_expiry
        self._swept_has_expiry = False
        return True


def _earlier(earliest_ms: int, reference: Reference) -> int:
    """Return the earlier of a time and the expiry of a message; 0 stands for never."""
    expires_ms = reference.message.expires_ms
    return expires_ms if expires_ms and (earliest_ms == 0 or expires_ms < earliest_ms) else earliest_ms
