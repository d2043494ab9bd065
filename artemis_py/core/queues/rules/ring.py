"""Ring queues: at most so many messages wait; when one more comes, the oldest goes (`ring-size`).

Messages with consumers do not count. One that is given back to a full ring goes if it is older than all that wait.
The oldest is the one with the lowest number, whatever its priority. It is found in memory and on disk: what is on disk
only is read in pages as the ring moves on, as for a consumer, so a ring is exact however small its window is.
"""

from typing import TYPE_CHECKING, Final

from artemis_py.core.queues.reference import Reference
from artemis_py.core.queues.rules.entry import Entry
from artemis_py.core.queues.settlement import replace

if TYPE_CHECKING:
    from artemis_py.core.queues.queue import Queue

# A queue that has many more messages than its ring when it becomes one loses so many with each that comes: some 0.2 ms.
MAX_REPLACED: Final = 100


class Ring(Entry):
    """Keeps the newest messages."""

    def __init__(self, size: int) -> None:
        self.size: int = size
        """Messages that may wait; with 0 nothing comes in."""

    def admit(self, queue: "Queue", reference: Reference) -> bool:
        """Make room for the message."""
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
        """Make room by the oldest, which may be this one."""
        if queue.waiting_count < self.size:
            return True
        oldest = queue.backlog.oldest()
        if oldest is None:
            # The disk cannot be read now: one too many is better than a message that is lost for that.
            return self.size > 0
        if oldest.sequence > reference.sequence:
            return False
        replace(oldest)
        return True
