"""Dispatch: which of a queue's consumers gets the next message.

Consumers with credit stand in a ring per consumer priority. Each gets the head of the queue, or what its cursor
chooses. What a crash must not take back from a client that has seen it (`Message.stored_first`) is handed out only once
it is durable; browsers may look ahead.
"""

from collections import deque
from typing import TYPE_CHECKING, Final

from artemis_py.core.queues.consumer import Consumer
from artemis_py.core.queues.cursors.range_reader import serve_apart
from artemis_py.core.queues.dispatcher import Dispatchable, Dispatcher
from artemis_py.core.queues.gate import Gate
from artemis_py.core.queues.reference import DELIVERING, Reference
from artemis_py.core.queues.settlement import acknowledge

if TYPE_CHECKING:
    from artemis_py.core.queues.queue import Queue

# Messages examined for cursors before other queues and the sockets get their turn: about 2 ms in pure Python, short
# enough that nobody notices.
SCAN_BUDGET: Final = 2000


class Level:
    """Consumers of one priority that take turns."""

    __slots__ = ("priority", "ring")

    def __init__(self, priority: int) -> None:
        self.priority: int = priority
        self.ring: deque[Consumer] = deque()
        """Consumers with credit, next one first; one that turns out to have none is taken out when its turn comes."""


class Dispatch(Dispatchable):
    """Hands the messages of one queue to its consumers."""

    def __init__(self, queue: "Queue", dispatcher: Dispatcher) -> None:
        super().__init__()
        self._queue: Queue = queue
        self._dispatcher: Dispatcher = dispatcher
        self.gate: Gate = Gate(queue)
        self.levels: list[Level] = []
        """One for each priority that consumers have, the highest first."""
        self.apart: list[Consumer] = []
        """Consumers that stand in no ring (`Cursor.is_apart`)."""
        self.cursor_count: int = 0
        """Consumers in rings that have cursors."""
        self.returning: int = 0
        """Consumers that left with so much that it is still being put back."""
        self._draining: list[Consumer] = []
        self._early: Reference | None = None
        """A message that would be delivered in this visit if it were durable."""
        self._is_cut: bool = False
        """This visit ended because a budget was used up."""

    def add(self, consumer: Consumer) -> None:
        """Make room for a consumer that attached."""
        if consumer.reads_apart:
            self.apart.append(consumer)
        elif consumer.cursor is not None:
            self.cursor_count += 1
        elif self._queue.assignment is not None and self._queue.assignment.is_by_message:
            consumer.keep_cursor()
        for index, level in enumerate(self.levels):
            if level.priority == consumer.priority:
                break
            if level.priority < consumer.priority:
                self.levels.insert(index, Level(consumer.priority))
                break
        else:
            self.levels.append(Level(consumer.priority))

    def remove(self, consumer: Consumer) -> None:
        """Undo `add`; the consumer is none of the queue's any more."""
        if consumer.reads_apart:
            self.apart.remove(consumer)
        elif consumer.cursor is not None:
            self.cursor_count -= 1
        for level in self.levels:
            if level.priority == consumer.priority:
                if consumer.in_ring:
                    level.ring.remove(consumer)
                if not any(other.priority == consumer.priority for other in self._queue.consumers):
                    self.levels.remove(level)
                break
        consumer.in_ring = False

    def follow_assignment(self) -> None:
        """Give consumers cursors if the rule of assignment, which is a new one, needs them."""
        if self._queue.assignment is not None and self._queue.assignment.is_by_message:
            for consumer in self._queue.consumers:
                consumer.keep_cursor()

    def mark_ready(self) -> None:
        """Have `deliver` called in this turn."""
        if not self.is_ready and self._queue.consumers:
            self.is_ready = True
            self._dispatcher.ready.append(self)

    def consumer_ready(self, consumer: Consumer) -> None:
        """Put a consumer into its ring: it got credit, or drains."""
        if not consumer.reads_apart:
            if consumer.draining and consumer not in self._draining:
                self._draining.append(consumer)
            if not consumer.in_ring and consumer.credit > 0:
                consumer.in_ring = True
                for level in self.levels:
                    if level.priority == consumer.priority:
                        level.ring.append(consumer)
                        break
        self.mark_ready()

    def deliver(self, budget: int) -> int:
        """Hand waiting messages to consumers with credit, at most `budget`; returns how many.

        Marks itself ready again if it stopped because of a budget.
        """
        queue = self._queue
        delivered = serve_apart(queue, budget) if self.apart else 0
        backlog = queue.backlog
        self._early = None
        if (
            (backlog.mask or backlog.cold_mask)
            and self.gate.is_open
            and not queue.paused
            and not queue.address.paused
            and not self.returning
        ):
            self._dispatcher.scan.left = SCAN_BUDGET
            self._is_cut = False
            for level in self.levels:
                if level.ring:
                    delivered = self._serve(level.ring, delivered, budget)
                    if self._is_cut:
                        return delivered
        if self._early is not None:
            self._dispatcher.await_store(self, self._early)
            self._early = None
        elif self._draining and not self.returning:
            self._end_drains()
        return delivered

    # One loop of nearly 60 lines, because it runs once per message: with its steps as methods of their own, what is
    # local here would be looked up again for each message.
    def _serve(self, ring: deque[Consumer], delivered: int, budget: int) -> int:
        """Let the consumers of one ring take turns; how many messages were delivered in this visit by now."""
        queue = self._queue
        dispatcher = self._dispatcher
        backlog = queue.backlog
        assignment = queue.assignment
        scan = dispatcher.scan
        free_bytes = dispatcher.free_unsettled_bytes
        stored_batch = dispatcher.stored_batch
        misses = 0
        while ring:
            consumer = ring[0]
            if consumer.credit <= 0 or consumer.blocked or consumer.is_closed:
                ring.popleft().in_ring = False
                continue
            if consumer.unsettled_bytes >= free_bytes and dispatcher.holds_back(consumer.unsettled_bytes):
                ring.popleft().in_ring = False
                dispatcher.starve(consumer)
                continue
            if delivered >= budget:
                return self._cut(delivered)
            reference: Reference | None = None
            if assignment is not None and not consumer.browse and not assignment.may_take(queue, consumer):
                pass
            elif consumer.cursor is not None:
                if scan.left > 0:
                    reference = consumer.cursor.next(consumer, scan)
                if reference is None and scan.left <= 0:
                    return self._cut(delivered)
            elif backlog.cold_mask:
                reference = backlog.head()
            elif backlog.mask:
                reference = backlog.lists[backlog.mask.bit_length() - 1].head
            elif self.cursor_count == 0:
                break
            if reference is not None and reference.batch > stored_batch and not consumer.browse:
                self._early = reference
                if self.cursor_count == 0:
                    break
                reference = None
            if reference is None:
                misses += 1
                if misses >= len(ring):
                    break
                ring.rotate(-1)
                continue
            expires_ms = reference.message.expires_ms
            if expires_ms and expires_ms <= dispatcher.now_ms:
                # A browser passes it over: looking at a queue changes nothing in it.
                if not consumer.browse:
                    queue.expiry.expire(reference)
                continue
            misses = 0
            delivered += 1
            if len(ring) > 1:
                ring.rotate(-1)
            if assignment is not None and not consumer.browse:
                assignment.delivered(queue, consumer, reference)
            self._hand_over(consumer, reference)
        return delivered

    def _cut(self, delivered: int) -> int:
        """End this visit, since a budget is used up, and ask for another."""
        self._is_cut = True
        self.mark_ready()
        return delivered

    def _hand_over(self, consumer: Consumer, reference: Reference) -> None:
        consumer.credit -= 1
        queue = self._queue
        if not consumer.browse:
            queue.backlog.unlink(reference)
            reference.state = DELIVERING
            reference.consumer = consumer
            queue.delivering_count += 1
            if not consumer.presettled:
                consumer.outstanding[reference.sequence] = reference
                consumer.unsettled_bytes += reference.message.size
        consumer.sink.deliver(reference)
        if consumer.presettled and reference.state == DELIVERING:
            consumer.accepted += 1
            acknowledge(reference)

    def _end_drains(self) -> None:
        """Tell draining consumers that nothing is left for them, except for those whose output is blocked."""
        waiting: list[Consumer] = []
        for consumer in self._draining:
            if consumer.is_closed or not consumer.draining:
                continue
            if consumer.blocked:
                waiting.append(consumer)
                continue
            consumer.draining = False
            consumer.credit = 0
            consumer.sink.drained()
        self._draining = waiting
