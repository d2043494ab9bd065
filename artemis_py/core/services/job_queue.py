"""The queue with the messages of jobs: each is found again by its sequence, in memory or on disk.

No client reaches the queue, and no setting of an address applies to it: nothing expires there. A guard tells the
service what comes in, in whatever way: from a producer, or at the commit of a transaction that an earlier run prepared.
"""

from typing import Final, Protocol

from artemis_py.core.queues.page import Page
from artemis_py.core.queues.queue import Queue
from artemis_py.core.queues.reference import WAITING, Reference
from artemis_py.core.queues.rules.guard import Guard
from artemis_py.core.queues.rules.kinds import set_guard
from artemis_py.core.queues.settlement import forget
from artemis_py.core.routing.domain import Domain
from artemis_py.core.services.kept_messages import create_keeper
from artemis_py.errors import StoreError

SCHEDULED: Final = "$artemis.scheduled"
"""Name of the queue and of its address."""

PRIORITY: Final = 4
"""The priority of all messages in an internal queue."""


class Found:
    """A message of the queue, and where it is."""

    __slots__ = ("is_on_disk", "reference")

    def __init__(self, reference: Reference, is_on_disk: bool) -> None:
        self.reference: Reference = reference
        self.is_on_disk: bool = is_on_disk


class Owner(Protocol):
    """What is told of the messages of the queue."""

    def arrived(self, reference: Reference, sequence: int) -> bool:
        """Note a message that gets this sequence; False: it is not taken."""

    def moved(self, sequence: int, reference: Reference | None) -> None:
        """Note that a message is in memory, with this reference, or on disk only (None)."""

    def removed(self, sequence: int) -> None:
        """Note that a message has left the queue."""

    def emptied(self) -> None:
        """Note that all messages leave the queue: an administrator empties it."""


class _Doorkeeper(Guard):
    """Tells the owner what happens to the queue."""

    def __init__(self, owner: Owner) -> None:
        super().__init__()
        self._owner: Final = owner

    def admit(self, queue: Queue, reference: Reference) -> bool:
        """Take a message that its owner understands."""
        return self._owner.arrived(reference, queue.next_sequence)

    def unloaded(self, queue: Queue, reference: Reference) -> None:
        """Tell that a message is on disk only."""
        self._owner.moved(reference.sequence, None)

    def loaded(self, queue: Queue, reference: Reference) -> None:
        """Tell that a message came back into memory."""
        self._owner.moved(reference.sequence, reference)

    def ended(self, queue: Queue, reference: Reference) -> None:
        """Tell that a message is gone."""
        self._owner.removed(reference.sequence)

    def emptied(self, queue: Queue) -> int:
        """Tell that all messages go."""
        self._owner.emptied()
        return 0


class JobQueue:
    """The queue, which is created with the first job."""

    def __init__(self, domain: Domain, owner: Owner) -> None:
        self._domain: Final = domain
        self._owner: Final = owner
        self._queue: Queue | None = None
        self._emptied_upto: int = 0
        """Sequence up to which an administrator has emptied the queue; memory is freed later."""
        domain.reserved.add(SCHEDULED)

    def restore(self) -> int:
        """Find the queue of an earlier run; return the number of messages in it."""
        queue = self._domain.queues.get(SCHEDULED)
        if queue is None:
            return 0
        self._adopt(queue)
        return queue.message_count

    def open(self) -> Queue:
        """Return the queue, which is created if there is none."""
        queue = self._queue
        if queue is not None and not queue.is_deleted:
            return queue
        queue = create_keeper(self._domain, SCHEDULED, SCHEDULED)
        self._adopt(queue)
        return queue

    def find(self, sequence: int, reference: Reference | None) -> Found | None:
        """Return a message, which stays in the queue; None if it is gone. Raises StoreError if it cannot be read.

        `reference` is that of the message if it is known to be in memory.
        """
        if self.was_emptied(sequence):
            return None
        if reference is not None and reference.state == WAITING:
            return Found(reference, False)
        queue = self._queue
        tail = None if queue is None or queue.is_deleted else queue.backlog.tails[PRIORITY]
        if queue is None or tail is None or sequence <= tail.frontier:
            return None
        page: Page | None = queue.backlog.scan(tail, sequence - 1, sequence, 1)
        if page is None:
            raise StoreError("a scheduled message cannot be read")
        return Found(page.references[0], True) if page.references else None

    def was_emptied(self, sequence: int) -> bool:
        """Tell whether an administrator has removed a message, with all others that were there."""
        return sequence <= self._emptied_upto

    def empty(self) -> None:
        """Note that all messages leave the queue."""
        if self._queue is not None:
            self._emptied_upto = self._queue.next_sequence - 1

    def take(self, found: Found) -> None:
        """Remove a message that `find` returned in this turn."""
        reference = found.reference
        backlog = reference.queue.backlog
        if not found.is_on_disk:
            backlog.unlink(reference)
            forget(reference)
            return
        tail = backlog.tails[PRIORITY]
        assert tail is not None, "it was read from there"
        backlog.pull(tail, reference)
        forget(reference)
        backlog.close(tail, PRIORITY)

    def _adopt(self, queue: Queue) -> None:
        queue.address.sets_aside = True
        queue.expiry.is_off = True
        set_guard(queue, _Doorkeeper(self._owner))
        self._queue = queue
