"""Dispatch: which of a queue's consumers gets the next message.

There is a ring of consumers with credit for each consumer priority. Each consumer gets the head of the queue, or what
its cursor chooses. A message that must not be lost once a client has seen it (`Message.stored_first`) is delivered only
when it is durable; browsers may see it earlier.
"""

from typing import TYPE_CHECKING, Final

from artemis_py.core.queues.consumer import Consumer
from artemis_py.core.queues.cursors.cursor import Cursor
from artemis_py.core.queues.cursors.group_cursor import GroupCursor
from artemis_py.core.queues.cursors.range_reader import serve_apart
from artemis_py.core.queues.cursors.selective import SelectiveCursor
from artemis_py.core.queues.dispatcher import Dispatchable, Dispatcher
from artemis_py.core.queues.gate import Gate
from artemis_py.core.queues.reference import DELIVERING, Reference
from artemis_py.core.queues.settlement import acknowledge, show

if TYPE_CHECKING:
    from artemis_py.core.queues.queue import Queue
    from artemis_py.core.queues.rules.assignment import Assignment

# Messages examined for cursors before other queues and the sockets are served: about 2 ms in pure Python, too short to
# be noticed.
SCAN_BUDGET: Final = 2000

MOST_EMPTY: Final = 64
"""Places at the front of a ring that may be empty beyond the number of its consumers."""


class Ring:
    """Consumers of one priority with credit, which take turns.

    One that has used up its credit is removed when its turn comes. A list and an index are used instead of a deque:
    the turn changes with each message, and compiled code can only call the methods of a deque by name, which is slow.
    Consumers with a credit of one leave at the front, message by message. So their places are given up many at a time:
    with 10,000 of them, moving all the others each time takes 2 us.
    """

    __slots__ = ("_begin", "_consumers", "_next", "count", "priority")

    def __init__(self, priority: int) -> None:
        self.priority: int = priority
        self._consumers: list[Consumer | None] = []
        """Consumers from `_begin` on; the places before it are empty."""
        self._begin: int = 0
        self._next: int = 0
        """Index of the consumer whose turn it is; the same as `_begin` if there is none."""
        self.count: int = 0
        """Number of consumers."""

    def first(self) -> Consumer:
        """Return the consumer whose turn it is; there must be one."""
        consumer = self._consumers[self._next]
        assert consumer is not None
        return consumer

    def turn(self) -> None:
        """Make it the turn of the following consumer."""
        following = self._next + 1
        self._next = following if following < self._begin + self.count else self._begin

    def append(self, consumer: Consumer) -> None:
        """Add a consumer whose turn comes after all others."""
        if self._next == self._begin:
            self._consumers.append(consumer)
        else:
            self._consumers.insert(self._next, consumer)
            self._next += 1
        self.count += 1

    def leave(self) -> None:
        """Remove the consumer whose turn it is; it is the turn of the following one."""
        if self._next > self._begin:
            self._delete(self._next)
            return
        self._consumers[self._begin] = None
        self._begin += 1
        self._next = self._begin
        self.count -= 1
        if self._begin > self.count + MOST_EMPTY:
            del self._consumers[: self._begin]
            self._begin = self._next = 0

    def remove(self, consumer: Consumer) -> None:
        """Remove a consumer, which must be here."""
        self._delete(self._consumers.index(consumer, self._begin))

    def _delete(self, index: int) -> None:
        del self._consumers[index]
        self.count -= 1
        if index < self._next:
            self._next -= 1
        elif self._next == self._begin + self.count:
            self._next = self._begin

    def arrange(self, consumers: list[Consumer]) -> None:
        """Have these consumers take their turns in this order."""
        self._consumers = list[Consumer | None](consumers)
        self._begin = self._next = 0
        self.count = len(consumers)

    def prefer(self, consumer: Consumer) -> None:
        """Make it the turn of a consumer, which must be here; the others keep their order."""
        if self.first() is not consumer:
            self.remove(consumer)
            self._consumers.insert(self._next, consumer)
            self.count += 1


class Dispatch(Dispatchable):
    """Hands the messages of one queue to its consumers."""

    def __init__(self, queue: "Queue", dispatcher: Dispatcher) -> None:
        super().__init__()
        self._queue: Queue = queue
        self._dispatcher: Dispatcher = dispatcher
        self.gate: Gate = Gate(queue)
        self.rings: list[Ring] = []
        """One ring for each priority that a consumer has, the highest first."""
        self.apart: list[Consumer] = []
        """Consumers outside the rings (`Cursor.is_apart`)."""
        self.cursor_count: int = 0
        """Number of consumers that have cursors and are not in `apart`."""
        self.returning: int = 0
        """Number of consumers that left and whose deliveries are still being put back."""
        self._draining: list[Consumer] = []
        self._early: Reference | None = None
        """A message that this visit would deliver if it were durable."""
        self._is_cut: bool = False
        """Whether this visit ended because a budget was used up."""

    def add(self, consumer: Consumer) -> None:
        """Add a consumer that attached."""
        if consumer.reads_apart:
            self.apart.append(consumer)
        elif consumer.cursor is not None:
            self.cursor_count += 1
        assignment = self._queue.assignment
        if assignment is not None and assignment.is_by_message:
            self._give_cursor(consumer, assignment.make_cursor(consumer))
        if self.watcher is not None:
            self.watcher.changed()
        for index, ring in enumerate(self.rings):
            if ring.priority == consumer.priority:
                break
            if ring.priority < consumer.priority:
                self.rings.insert(index, Ring(consumer.priority))
                break
        else:
            self.rings.append(Ring(consumer.priority))

    def remove(self, consumer: Consumer) -> None:
        """Undo `add`; the queue's list of consumers no longer has the consumer."""
        if self.watcher is not None:
            self.watcher.changed()
        if consumer.reads_apart:
            self.apart.remove(consumer)
        elif consumer.cursor is not None:
            self.cursor_count -= 1
        for ring in self.rings:
            if ring.priority == consumer.priority:
                if consumer.in_ring:
                    ring.remove(consumer)
                if not any(other.priority == consumer.priority for other in self._queue.consumers):
                    self.rings.remove(ring)
                break
        consumer.in_ring = False

    def change_assignment(self, assignment: "Assignment | None") -> None:
        """Use another assignment rule, or none, and give consumers the cursors that it needs."""
        queue = self._queue
        for consumer in queue.consumers:
            # The rule is to be asked about each delivery.
            consumer.outstanding.unfold()
        if queue.assignment is not None:
            queue.assignment.ended(queue)
        queue.assignment = assignment
        for consumer in queue.consumers:
            consumer.mark = None
            consumer.is_first_of_group = False
            if assignment is not None and assignment.is_by_message:
                self._give_cursor(consumer, assignment.make_cursor(consumer))
            elif isinstance(consumer.cursor, GroupCursor):
                # Messages may be hidden from it.
                self._give_cursor(consumer, SelectiveCursor())
        if assignment is not None:
            assignment.began(queue)
        self.mark_ready()

    def _give_cursor(self, consumer: Consumer, cursor: Cursor) -> None:
        """Replace the cursor of a consumer, unless its creator passed one or it browses."""
        if consumer.browse:
            return
        if consumer.cursor is None:
            self.cursor_count += 1
        elif isinstance(consumer.cursor, (SelectiveCursor, GroupCursor)):
            consumer.cursor.reset()
        else:
            return
        consumer.cursor = cursor

    def enter(self, consumer: Consumer) -> None:
        """Put a consumer with credit into its ring."""
        if not consumer.in_ring and consumer.credit > 0 and not consumer.is_closed:
            consumer.in_ring = True
            for ring in self.rings:
                if ring.priority == consumer.priority:
                    ring.append(consumer)
                    break

    def mark_ready(self) -> None:
        """Have `deliver` called in this iteration of the loop."""
        if not self.is_ready and self._queue.consumers:
            self.is_ready = True
            self._dispatcher.ready.append(self)

    def consumer_ready(self, consumer: Consumer) -> None:
        """Put a consumer that got credit, or drains, into its ring."""
        if not consumer.reads_apart:
            if consumer.draining and consumer not in self._draining:
                self._draining.append(consumer)
            self.enter(consumer)
        self.mark_ready()

    def deliver(self, budget: int) -> int:
        """Hand at most `budget` waiting messages to consumers with credit; return how many.

        Marks itself as ready again if it stopped because a budget was used up.
        """
        queue = self._queue
        delivered = serve_apart(queue, budget) if self.apart else 0
        backlog = queue.backlog
        if backlog.count and self.gate.is_open and not queue.paused and not queue.address.paused and not self.returning:
            self._dispatcher.scan.left = SCAN_BUDGET
            self._is_cut = False
            if queue.assignment is not None:
                queue.assignment.begin(queue)
            for ring in self.rings:
                if ring.count:
                    delivered = self._serve(ring, delivered, budget)
                    if self._is_cut:
                        return delivered
        early = self._early
        if early is not None:
            self._early = None
            self._dispatcher.await_store(self, early)
        elif self._draining and not self.returning:
            self._end_drains()
        return delivered

    # One loop of 60 lines, because it runs once per message: if its steps were methods, each would have to look
    # up again what is a local variable here.
    def _serve(self, ring: Ring, delivered: int, budget: int) -> int:
        """Let the consumers of one ring take turns; return how many messages this visit has delivered so far."""
        queue = self._queue
        dispatcher = self._dispatcher
        backlog = queue.backlog
        assignment = queue.assignment
        free_bytes = dispatcher.free_unsettled_bytes
        stored_batch = dispatcher.stored_batch
        misses = 0
        # While one consumer is alone in the ring, as in nearly every queue, the ring is not asked for it each time.
        alone = ring.first() if ring.count == 1 else None
        if alone is not None and backlog.is_unlisted:
            delivered = self._serve_unlisted(alone, delivered, budget)
            if self._is_cut:
                return delivered
        while alone is not None or ring.count:
            consumer = ring.first() if alone is None else alone
            if alone is not None and (consumer.credit <= 0 or consumer.blocked or consumer.is_closed):
                alone = None
                continue
            if consumer.credit <= 0 or consumer.blocked or consumer.is_closed:
                consumer.in_ring = False
                ring.leave()
                continue
            if consumer.unsettled_bytes >= free_bytes and dispatcher.holds_back(consumer.unsettled_bytes):
                consumer.in_ring = False
                ring.leave()
                alone = None
                dispatcher.starve(consumer)
                continue
            if delivered >= budget:
                return self._cut(delivered)
            reference: Reference | None = None
            if assignment is not None and not consumer.browse and not assignment.may_take(queue, consumer):
                pass
            elif consumer.cursor is not None:
                reference = self._ask(consumer, consumer.cursor, assignment)
                if self._is_cut:
                    return self._cut(delivered)
                if not consumer.in_ring:
                    ring.leave()
                    alone = None
                    continue
            elif backlog.cold_mask:
                reference = backlog.head()
                if queue.assignment is not assignment:
                    return self._cut(delivered)
            else:
                reference = backlog.first()
                if reference is None and self.cursor_count == 0:
                    break
            if reference is not None and reference.batch > stored_batch and not consumer.is_browser:
                self._early = reference
                if self.cursor_count == 0:
                    break
                reference = None
            if reference is None:
                # After a whole round without a message the turn is whose it was.
                ring.turn()
                misses += 1
                if misses >= ring.count:
                    break
                continue
            expires_ms = reference.message.expires_ms
            if expires_ms and expires_ms <= dispatcher.now_ms:
                if not consumer.browse:  # Browsing changes nothing in a queue.
                    queue.expiry.expire(reference)
                elif not consumer.is_browser:
                    queue.expiry.expire_anywhere(reference)
                continue
            misses = 0
            delivered += 1
            if alone is None and ring.count > 1 and (assignment is None or assignment.takes_turns):
                if consumer.turns_left:
                    consumer.turns_left -= 1
                else:
                    consumer.turns_left = consumer.extra_turns
                    ring.turn()
            self._hand_over(consumer, reference)
        return delivered

    def _serve_unlisted(self, consumer: Consumer, delivered: int, budget: int) -> int:
        """Hand messages that have no references yet to the only consumer in its ring, as `_serve` does."""
        queue = self._queue
        dispatcher = self._dispatcher
        backlog = queue.backlog
        free_bytes = dispatcher.free_unsettled_bytes
        if consumer.cursor is None and queue.assignment is None and not dispatcher.account.is_tight:
            count = -1
            while delivered < budget and count != 0:
                count = self._deliver_run(consumer, budget - delivered)
                delivered += count
        while (
            backlog.is_unlisted
            and consumer.cursor is None
            and queue.assignment is None
            and consumer.credit > 0
            and not consumer.blocked
            and not consumer.is_closed
            and (consumer.unsettled_bytes < free_bytes or not dispatcher.holds_back(consumer.unsettled_bytes))
        ):
            if delivered >= budget:
                return self._cut(delivered)
            delivered += 1
            consumer.credit -= 1
            self._deliver(consumer, backlog.take_unlisted())
        return delivered

    def _deliver_run(self, consumer: Consumer, most: int) -> int:
        """Deliver the first of the messages that have no references as a run, if the sink takes one; return how many.

        While memory is not tight, what the consumer has unsettled is no reason to stop (`Dispatcher.holds_back`).
        """
        sink = consumer.passing
        if sink is None or consumer.presettled or consumer.blocked or consumer.is_closed or consumer.credit < most:
            return 0
        queue = self._queue
        backlog = queue.backlog
        unlisted = backlog.unlisted
        room = sink.run_room(min(most, backlog.count))
        if room <= 0 or unlisted is None:
            return 0
        messages, first = unlisted.first(room)
        count = sink.deliver_run(messages, first)
        if count > 0:
            consumer.credit -= count
            queue.delivering_count += count
            consumer.unsettled_bytes += backlog.remove_unlisted(messages if count == room else messages[:count])
        return count

    def _ask(self, consumer: Consumer, cursor: Cursor, assignment: "Assignment | None") -> Reference | None:
        """Return what a cursor chooses; the visit may have to end (`_is_cut`), or the consumer to leave its ring.

        The visit ends as well if the first message of a group, which came from disk, has changed the assignment rule.
        """
        scan = self._dispatcher.scan
        queue = self._queue
        reference = cursor.next(consumer, scan) if scan.left > 0 else None
        if (reference is None and scan.left <= 0) or queue.assignment is not assignment:
            self._is_cut = True
        elif reference is None and assignment is not None and assignment.rests(queue, consumer):
            consumer.in_ring = False
        return reference

    def _cut(self, delivered: int) -> int:
        """End this visit because a budget is used up, and ask for another."""
        self._is_cut = True
        self._early = None
        self.mark_ready()
        return delivered

    def _hand_over(self, consumer: Consumer, reference: Reference) -> None:
        consumer.credit -= 1
        if not consumer.browse:
            queue = self._queue
            if queue.assignment is not None:
                queue.assignment.delivered(queue, consumer, reference)
            queue.backlog.unlink(reference)
            self._deliver(consumer, reference)
            return
        if not consumer.is_browser:
            if consumer.presettled:
                consumer.accepted += 1
            else:
                reference = show(reference, consumer)
        consumer.sink.deliver(reference)

    def _deliver(self, consumer: Consumer, reference: Reference) -> None:
        """Deliver a reference that is in no list, and whose credit is used."""
        reference.state = DELIVERING
        reference.consumer = consumer
        self._queue.delivering_count += 1
        if not consumer.presettled:
            consumer.outstanding.add(reference)
            consumer.unsettled_bytes += reference.message.size
        consumer.sink.deliver(reference)
        if consumer.presettled and reference.state == DELIVERING:
            consumer.accepted += 1
            acknowledge(reference)

    def _end_drains(self) -> None:
        """Tell draining consumers that nothing is left for them, except those whose output is blocked."""
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
