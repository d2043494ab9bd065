"""The messages of prepared branches: they wait in one queue, until their branch is committed or rolled back.

No client reaches the queue, and no setting of an address applies to it: nothing expires there, and delivery times begin
to count with the commit. A branch puts its messages there in one turn, so they have consecutive sequences. Durable ones
survive a restart; in memory are as many as for any queue without consumers. In memory they count at the address of this
queue; the service has them count at their own addresses as messages on disk do.
"""

from typing import Final

from artemis_py.core.messages.message import Message
from artemis_py.core.queues.page import Page
from artemis_py.core.queues.queue import Queue
from artemis_py.core.queues.reference import WAITING, Reference
from artemis_py.core.queues.settlement import forget
from artemis_py.core.routing.domain import Domain
from artemis_py.core.services.kept_messages import create_keeper
from artemis_py.errors import StoreError

PREPARED: Final = "$artemis.prepared"
"""Name of the queue and of its address."""

PRIORITY: Final = 4
"""The priority of all messages in an internal queue."""
PAGE_MESSAGES: Final = 500


class MessageRange:
    """Where the messages of one branch are."""

    __slots__ = ("count", "emptied", "first", "in_memory", "queue")

    def __init__(self, queue: Queue | None, first: int, count: int) -> None:
        self.queue: Queue | None = queue
        self.first: int = first
        """Sequence of the first message."""
        self.count: int = count
        """Number of messages, including those that were not durable and are gone."""
        self.in_memory: list[Reference] = []
        """Those that are not on disk only."""
        self.emptied: int = 0
        """`Backlog.emptied` when they came: if that differs, an administrator has emptied the queue."""


class PreparedMessages:
    """The queue, which is created with the first message."""

    def __init__(self, domain: Domain) -> None:
        self._domain: Final = domain
        self._queue: Queue | None = None
        domain.reserved.add(PREPARED)

    def restore(self) -> int:
        """Find the queue of an earlier run; return the number of messages in it."""
        queue = self._domain.queues.get(PREPARED)
        if queue is None:
            return 0
        self._adopt(queue)
        return queue.message_count

    def find(self, first: int, count: int) -> MessageRange:
        """Return where the messages of a branch are that an earlier run prepared."""
        return MessageRange(self._queue if count else None, first, count)

    def put(self, messages: list[Message]) -> MessageRange:
        """Take over the messages of a branch; they are as durable as everything of this turn."""
        if not messages:
            return MessageRange(None, 0, 0)
        queue = self._queue
        if queue is None or queue.is_deleted:
            queue = self._create()
        part = MessageRange(queue, queue.next_sequence, len(messages))
        backlog = queue.backlog
        part.emptied = backlog.emptied
        references = backlog.lists[PRIORITY]
        for message in messages:
            queue.address.take_over(message)
            queue.adopt(message)
            last = references.tail
            if last is not None and last.sequence == queue.next_sequence - 1:
                part.in_memory.append(last)
        return part

    def take(self, part: MessageRange) -> list[Reference]:
        """Take the messages of a branch out of the queue, in order; `end` must follow.

        Raises StoreError if some cannot be read; nothing has changed then. Messages that were damaged, or that an
        administrator removed, are missing.
        """
        queue = part.queue
        if queue is None or queue.is_deleted:
            return []
        backlog = queue.backlog
        cold = self._read(queue, part)
        taken: list[Reference] = []
        if part.emptied == backlog.emptied:
            for reference in part.in_memory:
                if reference.state == WAITING:
                    backlog.unlink(reference)
                    taken.append(reference)
            part.in_memory = []
        tail = backlog.tails[PRIORITY]
        if tail is not None and cold:
            for reference in cold:
                backlog.pull(tail, reference)
            taken.extend(cold)
            taken.sort(key=_sequence_of)
        return taken

    def end(self, references: list[Reference]) -> None:
        """Forget what `take` returned."""
        for reference in references:
            forget(reference)
        queue = self._queue
        if queue is not None:
            tail = queue.backlog.tails[PRIORITY]
            if tail is not None:
                queue.backlog.close(tail, PRIORITY)

    def _read(self, queue: Queue, part: MessageRange) -> list[Reference]:
        """Return the messages that are on disk only; they are still there."""
        found: list[Reference] = []
        backlog = queue.backlog
        tail = backlog.tails[PRIORITY]
        last = part.first + part.count - 1
        if tail is None:
            return found
        after = max(part.first - 1, tail.frontier)
        while after < last:
            page: Page | None = backlog.scan(tail, after, last, PAGE_MESSAGES)
            if page is None:
                raise StoreError("the messages of a prepared branch cannot be read")
            found.extend(page.references)
            after = page.end
        return found

    def _create(self) -> Queue:
        queue = create_keeper(self._domain, PREPARED, PREPARED)
        self._adopt(queue)
        return queue

    def _adopt(self, queue: Queue) -> None:
        queue.address.sets_aside = True
        queue.expiry.is_off = True
        self._queue = queue


def _sequence_of(reference: Reference) -> int:
    return reference.sequence
