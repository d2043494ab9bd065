"""Ring queues: at most `ring-size` messages wait; when one more comes, another is removed.

Messages that consumers have do not count, nor do scheduled ones. `ring-eviction` says which message is removed:

    OLDEST   the one with the lowest sequence, whatever its priority; a message that comes back to a full ring is itself
             removed if it is older than all that wait
    HEAD     the next to be delivered: the oldest of the highest priority, which may be the message that comes; one that
             comes back to a full ring is removed (artemis-model §3.3)

Messages on disk count, and the message to remove is read from disk in pages as the ring advances, as for a consumer.
A ring is therefore exact however small its window is, and a message costs the same however many there are.

If more messages wait than `ring-size` says, because it was lowered, or because a restart put back what consumers had,
the rest is removed in slices. Until then each message that comes removes two, so the queue never grows.

After a restart, failed deliveries that wait for their redelivery delay count until they are read from disk.
"""

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Final

from artemis_py.core.queues.reference import Reference
from artemis_py.core.queues.rules.entry import Entry
from artemis_py.core.queues.settlement import replace
from artemis_py.core.runtime.background import SLICE_MESSAGES, Steps
from artemis_py.core.settings.queue_settings import RingEviction

if TYPE_CHECKING:
    from artemis_py.core.queues.queue import Queue

# Milliseconds until a ring that could not read the disk tries again to remove what is too much.
RETRY_MS: Final = 1000


class Ring(Entry):
    """Keeps at most `size` messages."""

    def __init__(self, size: int, eviction: RingEviction = RingEviction.OLDEST) -> None:
        self.size: int = size
        """Number of messages that may wait; with 0 nothing comes in."""
        self.removes_head: bool = eviction is RingEviction.HEAD

    def admit(self, queue: "Queue", reference: Reference) -> bool:
        """Make room for the message; tell whether it comes in."""
        backlog = queue.backlog
        if backlog.count >= self.size:
            if self.size == 0:
                return False
            if self.removes_head and backlog.priority_of(reference) >= (backlog.mask | backlog.cold_mask).bit_length():
                # It would be the head.
                return False
            self._remove_one(queue)
            # Still without room: a ring that shrinks, or that could not read the disk for a while, becomes smaller.
            if backlog.count >= self.size:
                self._remove_one(queue)
        return True

    def _remove_one(self, queue: "Queue") -> None:
        """Remove a message if there is no room; nothing is removed while the disk cannot be read."""
        backlog = queue.backlog
        victim = backlog.head() if self.removes_head else backlog.oldest()
        # What was read may have turned out to wait for a redelivery delay: then there may be room.
        if victim is not None and backlog.count >= self.size:
            replace(victim)

    def readmit(self, queue: "Queue", reference: Reference) -> bool:
        """Make room as `ring-eviction` says, which may mean that this message does not return."""
        backlog = queue.backlog
        if backlog.count < self.size:
            return True
        if self.removes_head or self.size == 0:
            return False
        oldest = backlog.oldest()
        # While the disk cannot be read, one message too many is better than losing one.
        if oldest is None or backlog.count < self.size:
            return True
        if oldest.sequence > reference.sequence:
            return False
        replace(oldest)
        return True


def size_of(queue: "Queue") -> int:
    """Return how many messages may wait in a queue; -1: it is no ring.

    A queue of the broker itself, such as a stage, is a ring only if its creator said so: the setting of the address is
    about queues of clients.
    """
    if queue.internal and queue.config.ring_size is None:
        return -1
    return queue.settings.ring_size


def shrink(queue: "Queue") -> None:
    """Begin to remove messages if more wait than `ring-size` says, unless that is under way."""
    if 0 <= size_of(queue) < queue.backlog.count and not queue.is_shrinking:
        queue.is_shrinking = True
        queue.dispatcher.slices.start(_shrink(queue))


def shrink_soon(queue: "Queue") -> None:
    """Do the same in the first iteration of the loop: at a restart the store cannot be read yet."""
    if size_of(queue) >= 0:
        queue.dispatcher.after(0, partial(shrink, queue))


def _shrink(queue: "Queue") -> Steps:
    """Remove messages until `ring-size` of them are left. It may change between two slices."""
    backlog = queue.backlog
    left = SLICE_MESSAGES
    while not queue.is_deleted and 0 <= size_of(queue) < backlog.count:
        removes_head = queue.settings.ring_eviction is RingEviction.HEAD
        victim = backlog.head() if removes_head else backlog.oldest()
        if victim is None:
            if backlog.count > 0:
                yield partial(_wait, queue)
            continue
        if backlog.count <= size_of(queue):
            break
        if queue.guard is not None and not queue.guard.may_go(victim):
            # Its service calls `shrink` again when it needs the message no longer.
            break
        replace(victim)
        left -= 1
        if left == 0:
            left = SLICE_MESSAGES
            yield None
    queue.is_shrinking = False
    return None


def _wait(queue: "Queue", go_on: Callable[[], None], failed: Callable[[str], None]) -> None:
    """Wait until the disk may be readable again."""
    queue.dispatcher.after(RETRY_MS, go_on)
