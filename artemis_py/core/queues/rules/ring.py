"""Ring queues: at most `ring-size` messages wait; when one more comes, the oldest is removed.

Messages that consumers have do not count. A message that is given back to a full ring is removed if it is older than
all that wait. The oldest is the one with the lowest sequence, whatever its priority. It is found in memory and on disk:
messages on disk only are read in pages as the ring advances, as for a consumer, so a ring is exact however small its
window is.
"""

from typing import TYPE_CHECKING, Final

from artemis_py.core.queues.reference import Reference
from artemis_py.core.queues.rules.entry import Entry
from artemis_py.core.queues.settlement import replace

if TYPE_CHECKING:
    from artemis_py.core.queues.queue import Queue

# A queue that has more messages than `ring-size` when it becomes a ring loses at most this many with each that comes:
# about 0.2 ms.
MAX_REPLACED: Final = 100


class Ring(Entry):
    """Keeps the newest messages."""

    def __init__(self, size: int) -> None:
        self.size: int = size
        """Number of messages that may wait; with 0 nothing comes in."""

    def admit(self, queue: "Queue", reference: Reference) -> bool:
        """Make room for the message; tell whether it comes in."""
        left = MAX_REPLACED
        while queue.waiting_count >= self.size and left > 0:
            oldest = queue.backlog.oldest()
            if oldest is None:
                # Nothing is left, or the disk cannot be read now.
                break
            replace(oldest)
            left -= 1
        return self.size > 0

    def readmit(self, queue: "Queue", reference: Reference) -> bool:
        """Make room by removing the oldest, which may be this message; tell whether it returns."""
        if queue.waiting_count < self.size:
            return True
        oldest = queue.backlog.oldest()
        if oldest is None:
            # The disk cannot be read now: one message too many is better than losing one.
            return self.size > 0
        if oldest.sequence > reference.sequence:
            return False
        replace(oldest)
        return True
