"""A queue: order, priority, dispatch to consumers with credit, and what becomes of each delivery.

Messages wait in ten intrusive lists, one a priority, sorted by `sequence`. Adding, taking and putting back are
O(1) whatever the backlog. A consumer without conditions takes the head; one that picks (a selector, a browser)
keeps a cursor per priority, so that it examines each message once, however often it asks.

The queue reads no clock and knows no protocol: a consumer's `Sink` turns a delivery into bytes.
"""

from collections import deque
from heapq import heappop, heappush
from typing import Final, Protocol

from mypy_extensions import mypyc_attr

from artemis_py.core.destination import Address
from artemis_py.core.filter import Filter
from artemis_py.core.message import Message, RoutingType
from artemis_py.core.settings import QueueConfig
from artemis_py.core.storage import UNLIMITED, Storage
from artemis_py.core.timers import Timer, Timers

PRIORITIES: Final = 10

# Messages examined on behalf of picking consumers before other queues and the sockets get their turn: about 2 ms in
# pure Python, short enough that nobody notices.
SCAN_BUDGET: Final = 2000

# What a delivery ends with. Plain ints: they are compared per message in compiled code.
ACCEPTED: Final = 0
"""Done: the message leaves the queue."""
RELEASED: Final = 1
"""Never looked at: back to its place, the attempt does not count."""
FAILED: Final = 2
"""The attempt failed: it counts, and may lead to the dead-letter address."""
REJECTED: Final = 3
"""Nobody can process it: to the dead-letter address at once."""

# Where a reference is.
WAITING: Final = 0
DELIVERING: Final = 1
SCHEDULED: Final = 2
GONE: Final = 3
CLAIMED: Final = 4
"""Acknowledged in a transaction that has not ended."""


def hold(message: Message) -> None:
    """Somebody keeps the message: it counts in the account of the address it was sent to, once."""
    if message.references == 0 and message.origin is not None:
        message.origin.charge(message)
    message.references += 1


def unhold(message: Message) -> None:
    """Undo one `hold`."""
    message.references -= 1
    if message.references == 0 and message.origin is not None:
        message.origin.discharge(message)


class Reference:
    """One message in one queue."""

    __slots__ = ("consumer", "cursors", "delivery_count", "handle", "hidden_from", "message", "next", "previous",
                 "queue", "sequence", "state", "was_acquired")  # fmt: skip

    def __init__(self, message: Message, queue: "Queue", handle: int = 0) -> None:
        self.message: Message = message
        self.queue: Queue = queue
        self.handle: int = handle
        """The store's name for it within its queue, set by the store; 0 if it is not stored."""
        self.sequence: int = 0
        """Position in the queue, from 1; given when the message becomes visible, never reused. 0: not yet visible."""
        self.delivery_count: int = 0
        """Earlier attempts that count."""
        self.was_acquired: bool = False
        """It came back from a consumer at least once, whatever that says of the attempt."""
        self.state: int = WAITING
        self.previous: Reference | None = None
        self.next: Reference | None = None
        self.consumer: Consumer | None = None
        """Who has it while it is delivered or claimed."""
        self.cursors: set[Consumer] | None = None
        """Picking consumers that examined everything up to and including this reference."""
        self.hidden_from: set[int] | None = None
        """Ids of consumers that declared it undeliverable to them."""

    def lookup(self, name: str) -> object:
        """What a selector finds under `name`: the queue's own facts first, then the message's."""
        if name == "amqp.annotation.x-opt-sequence-number":
            return self.sequence
        if name == "JMSXDeliveryCount":
            return self.delivery_count + 1
        if name == "JMSRedelivered":
            return self.delivery_count > 0
        return self.message.lookup(name)


class ReferenceList:
    """The waiting references of one priority, sorted by sequence."""

    __slots__ = ("count", "head", "tail")

    def __init__(self) -> None:
        self.head: Reference | None = None
        self.tail: Reference | None = None
        self.count: int = 0

    def append(self, reference: Reference) -> None:
        """Add the newest."""
        tail = self.tail
        reference.previous = tail
        reference.next = None
        if tail is None:
            self.head = reference
        else:
            tail.next = reference
        self.tail = reference
        self.count += 1

    def insert(self, reference: Reference, near: Reference | None) -> None:
        """Put one back at its place, looking for it from `near`, or from the head."""
        sequence = reference.sequence
        after = near
        while after is not None and after.sequence > sequence:
            after = after.previous
        following = self.head if after is None else after.next
        while following is not None and following.sequence < sequence:
            after = following
            following = following.next
        reference.previous = after
        reference.next = following
        if after is None:
            self.head = reference
        else:
            after.next = reference
        if following is None:
            self.tail = reference
        else:
            following.previous = reference
        self.count += 1

    def unlink(self, reference: Reference, priority: int) -> None:
        """Take one out, wherever it is; cursors on it step back."""
        previous = reference.previous
        following = reference.next
        if previous is None:
            self.head = following
        else:
            previous.next = following
        if following is None:
            self.tail = previous
        else:
            following.previous = previous
        if reference.cursors is not None:
            for consumer in reference.cursors:
                consumer.cursors[priority] = previous
            if previous is not None:
                if previous.cursors is None:
                    previous.cursors = reference.cursors
                else:
                    previous.cursors |= reference.cursors
            reference.cursors = None
        reference.previous = None
        reference.next = None
        self.count -= 1


@mypyc_attr(allow_interpreted_subclasses=True)
class Sink:
    """Where a consumer's deliveries go: one protocol's half of it.

    A class and not a typing.Protocol, for `deliver` is called per message: compiled sinks are called directly.
    """

    def deliver(self, reference: Reference) -> None:
        """Write the delivery. Called from the queue's dispatch: must not add or remove consumers."""
        raise NotImplementedError

    def drained(self) -> None:
        """There is nothing more for a draining consumer; its credit is gone."""
        raise NotImplementedError

    def ended(self, reason: str) -> None:
        """The queue was deleted: the consumer is closed already."""
        raise NotImplementedError


class Consumer:
    """One taker of messages from one queue, with credit."""

    __slots__ = (
        "accepted",
        "blocked",
        "browse",
        "credit",
        "cursors",
        "draining",
        "filter",
        "id",
        "in_ring",
        "is_closed",
        "outstanding",
        "picks",
        "presettled",
        "priority",
        "queue",
        "revisit",
        "sink",
        "user",
    )

    def __init__(
        self,
        id: int,
        queue: "Queue",
        sink: Sink,
        filter: Filter | None,
        browse: bool,
        priority: int,
        user: str,
        presettled: bool = False,
    ) -> None:
        self.id: int = id
        self.queue: Queue = queue
        self.sink: Sink = sink
        self.filter: Filter | None = filter
        self.browse: bool = browse
        self.priority: int = priority
        self.presettled: bool = presettled and not browse
        """Its deliveries are acknowledged when they are handed over."""
        self.user: str = user
        """Who consumes, for management."""
        self.credit: int = 0
        """Messages it may still get."""
        self.blocked: bool = False
        """Its connection cannot take more output now."""
        self.draining: bool = False
        self.in_ring: bool = False
        self.is_closed: bool = False
        self.picks: bool = browse or filter is not None
        """Whether it may pass over messages, and hence needs cursors."""
        self.cursors: list[Reference | None] = [None] * PRIORITIES if self.picks else []
        """Per priority the last reference it examined; None: nothing yet."""
        self.revisit: list[tuple[int, int, Reference]] = []
        """Messages that came back behind a cursor: a heap of (9 - priority, sequence, reference)."""
        self.outstanding: dict[int, Reference] = {}
        """What it has and did not settle, by sequence."""
        self.accepted: int = 0
        """Deliveries it acknowledged."""

    def grant(self, credit: int, drain: bool = False) -> None:
        """Set the credit (absolute). With `drain`, what cannot be used at once is given up (`Sink.drained`)."""
        self.credit = credit
        self.draining = drain
        if credit > 0 or drain:
            self.queue.consumer_ready(self)

    def block(self) -> None:
        """Deliver nothing until `unblock`."""
        self.blocked = True

    def unblock(self) -> None:
        """Deliveries may go on."""
        if self.blocked:
            self.blocked = False
            if self.credit > 0 or self.draining:
                self.queue.consumer_ready(self)

    def settle(self, reference: Reference, outcome: int, here: bool = True) -> None:
        """End a delivery with one of the outcomes above; `here` false: never again to this consumer."""
        outstanding = self.outstanding
        sequence = reference.sequence
        if sequence not in outstanding:
            return
        del outstanding[sequence]
        if outcome == ACCEPTED:
            self.accepted += 1
            self.queue.acknowledge(reference)
        else:
            if not here:
                self.hide(reference)
            self.queue.give_back(reference, outcome)

    def refuse(self, reference: Reference, outcome: int) -> None:
        """The sink cannot send what it was just handed: the credit is unused, and it shall not come here again."""
        self.credit += 1
        if not self.browse:
            self.outstanding.pop(reference.sequence, None)
            self.hide(reference)
            self.queue.give_back(reference, outcome)

    def relinquish(self, reference: Reference) -> None:
        """Let go of a delivery without settling it; whoever adopts it is answerable for it."""
        self.outstanding.pop(reference.sequence, None)

    def adopt(self, reference: Reference) -> None:
        """Take over a delivery that another consumer of this queue relinquished."""
        reference.consumer = self
        self.outstanding[reference.sequence] = reference

    def hide(self, reference: Reference) -> None:
        """Never offer this reference to this consumer again."""
        if reference.hidden_from is None:
            reference.hidden_from = set()
        reference.hidden_from.add(self.id)
        if not self.picks:
            self.picks = True
            self.cursors = [None] * PRIORITIES
            self.queue.picking_count += 1

    def close(self, failed: bool = False) -> None:
        """Leave the queue; unsettled deliveries go back, as failed attempts if the connection broke."""
        if not self.is_closed:
            self.queue.remove_consumer(self, failed)


class Level:
    """Consumers of one priority that take turns."""

    __slots__ = ("priority", "ring")

    def __init__(self, priority: int) -> None:
        self.priority: int = priority
        self.ring: deque[Consumer] = deque()
        """Those with credit, next one first; who turns out to have none is taken out when its turn comes."""


class Mover(Protocol):
    """Who takes messages out of a queue that no consumer wants any more: the post office."""

    def dead_letter(self, reference: Reference) -> None:
        """Copy it to the dead-letter address of its queue's address, if there is one."""

    def expire(self, reference: Reference) -> None:
        """Copy it to the expiry address of its message's address, if there is one."""

    def random(self) -> float:
        """A number in [0, 1): collision avoidance of redeliveries."""


class Hub:
    """What all queues of a broker share: the time of this turn, planned calls, storage, and whose turn it is."""

    def __init__(self, storage: Storage) -> None:
        self.now_ms: int = 0
        """Milliseconds since 1970, set at the start of each turn."""
        self.storage: Storage = storage
        self.timers: Timers = Timers()
        self.mover: Mover | None = None
        self.ready: list[Queue] = []
        """Queues that may have something to deliver."""

    def run(self, budget: int) -> bool:
        """Let every ready queue deliver, at most `budget` messages in all; True if some had to stop early."""
        ready = self.ready
        if not ready:
            return False
        self.ready = []
        index = 0
        try:
            while index < len(ready) and budget > 0:
                queue = ready[index]
                index += 1
                queue.is_ready = False
                budget -= queue.dispatch(budget)
        finally:
            # Whoever did not get its turn goes first in the next one, even if a sink failed.
            if index < len(ready):
                self.ready = ready[index:] + self.ready
        return len(self.ready) > 0


class Queue:
    """An ordered set of references, bound to one address for life (reference §1.1, §2.2, §3.1)."""

    def __init__(self, hub: Hub, config: QueueConfig, address: Address, id: int, routing_type: RoutingType) -> None:
        self.hub: Hub = hub
        self.id: int = id
        self.name: str = config.name
        self.address: Address = address
        self.routing_type: RoutingType = routing_type
        self.durable: bool = config.durable and not config.temporary
        self.temporary: bool = config.temporary
        self.is_stored: bool = self.durable and not address.temporary
        """Whether a restart brings it back, with its durable messages."""
        self.internal: bool = config.internal
        self.auto_created: bool = config.auto_created
        self.configuration_managed: bool = config.configuration_managed
        self.user: str | None = config.user
        self.config: QueueConfig = config
        """What it was asked to be; what was left open there is decided below."""
        self.owner: object = None
        """The session a temporary queue belongs to: nobody else may consume from it."""
        self.filter: Filter | None = None
        self.max_consumers: int = -1
        self.exclusive: bool = False
        self.purge_on_no_consumers: bool = False
        self.consumers_before_dispatch: int = 0
        self.delay_before_dispatch_ms: int = -1
        self.auto_delete: bool = False
        self.auto_delete_delay_ms: int = 0
        self.auto_delete_message_count: int = 0
        self.enabled: bool = config.enabled
        self.paused: bool = False
        self.is_deleted: bool = False
        self.consumers: list[Consumer] = []
        self.exclusive_owner: Consumer | None = None
        self.picking_count: int = 0
        """Consumers that keep cursors."""
        self.is_ready: bool = False
        self.next_sequence: int = 1
        self.sequence_limit: int = 0 if self.is_stored else UNLIMITED
        """From this sequence on more have to be reserved in the store."""
        self.waiting_count: int = 0
        self.delivering_count: int = 0
        self.messages_added: int = 0
        self.messages_acknowledged: int = 0
        self.messages_expired: int = 0
        self.messages_killed: int = 0
        self.created_ms: int = hub.now_ms
        self.consumer_removed_ms: int = 0
        """When the last consumer left; 0 if none ever did."""
        self.swept: bool = False
        """The reaper found it unused in its last pass."""
        self._lists: list[ReferenceList] = [ReferenceList() for _ in range(PRIORITIES)]
        self._mask: int = 0
        """Bit p is set if messages of priority p wait."""
        self._levels: list[Level] = []
        self._draining: list[Consumer] = []
        self._scheduled: list[tuple[int, int, Reference]] = []
        self._schedule_count: int = 0
        self._schedule_timer: Timer | None = None
        self._earliest_expiry_ms: int = 0
        self._gate_open: bool = True
        """consumers-before-dispatch is satisfied."""
        self._gate_timer: Timer | None = None

    # -- facts -----------------------------------------------------------------------------------------------

    @property
    def scheduled_count(self) -> int:
        """Messages that wait for their time."""
        return len(self._scheduled)

    @property
    def message_count(self) -> int:
        """All messages: waiting, delivered but not settled, and scheduled."""
        return self.waiting_count + self.delivering_count + len(self._scheduled)

    @property
    def first_sequence(self) -> int:
        """The lowest number that waits; `next_sequence` if none does."""
        first = self.next_sequence
        for references in self._lists:
            head = references.head
            if head is not None and head.sequence < first:
                first = head.sequence
        return first

    @property
    def consumer_count(self) -> int:
        """Consumers attached, browsers included."""
        return len(self.consumers)

    @property
    def was_used(self) -> bool:
        """Whether anything ever left it or a consumer did (what the reaper wants to see, reference §2.4)."""
        return (
            self.consumer_removed_ms > 0
            or self.messages_acknowledged > 0
            or self.messages_expired > 0
            or self.messages_killed > 0
        )

    def accepts(self, message: Message) -> bool:
        """Whether the queue's filter wants the message."""
        return self.filter is None or self.filter.matches(message)

    def has_consumer_for(self, message: Message) -> bool:
        """Whether some consumer would take the message, credit or not."""
        for consumer in self.consumers:
            if not consumer.browse and (consumer.filter is None or consumer.filter.matches(message)):
                return True
        return False

    # -- in --------------------------------------------------------------------------------------------------

    def add(self, message: Message) -> None:
        """Take a message that was routed here, unless the queue is disabled or purges without consumers."""
        if not self.enabled or (self.purge_on_no_consumers and not self.consumers):
            return
        if message.references == 0 and message.origin is not None:
            message.origin.charge(message)
        message.references += 1
        self.messages_added += 1
        reference = Reference(message, self)
        expires_ms = message.expires_ms
        if expires_ms and (expires_ms < self._earliest_expiry_ms or self._earliest_expiry_ms == 0):
            self._earliest_expiry_ms = expires_ms
        if message.delivery_time_ms > 0:
            self._schedule(reference, message.delivery_time_ms)
        else:
            self._append(reference)
        if message.durable and self.is_stored:
            self.hub.storage.put(reference)

    def restore(self, reference: Reference, due_ms: int) -> None:
        """Take back a reference from the store after a restart; those with a sequence come in ascending order.

        Before `due_ms` it may not go out. Whether it was with a consumer before is not known, so nothing that comes
        back claims to be delivered for the first time (AMQP 1.0 §3.2.1, first-acquirer: false says "perhaps").
        """
        message = reference.message
        hold(message)
        reference.was_acquired = True
        expires_ms = message.expires_ms
        if expires_ms and (expires_ms < self._earliest_expiry_ms or self._earliest_expiry_ms == 0):
            self._earliest_expiry_ms = expires_ms
        if reference.sequence == 0 or due_ms > self.hub.now_ms:
            self._schedule(reference, due_ms)
        else:
            self._insert(reference, self._lists[4 if self.internal else message.priority].tail)

    def reserve_sequences(self) -> None:
        """Have the store remember that the next sequences were used."""
        self.sequence_limit = self.hub.storage.reserve(self)

    def _append(self, reference: Reference) -> None:
        """Make a reference visible: number it and put it last."""
        sequence = self.next_sequence
        reference.sequence = sequence
        self.next_sequence = sequence + 1
        if sequence >= self.sequence_limit:
            self.reserve_sequences()
        reference.state = WAITING
        priority = 4 if self.internal else reference.message.priority
        self._lists[priority].append(reference)
        self._mask |= 1 << priority
        self.waiting_count += 1
        if self.consumers and not self.is_ready:
            self.is_ready = True
            self.hub.ready.append(self)

    def _insert(self, reference: Reference, near: Reference | None) -> None:
        """Put a returned reference back at its place."""
        if reference.sequence == 0:
            self._append(reference)
            if reference.handle:
                # The store keeps scheduled references apart: they have no place in the queue's order yet.
                self.hub.storage.remove(reference)
                self.hub.storage.put(reference)
            return
        reference.state = WAITING
        priority = 4 if self.internal else reference.message.priority
        self._lists[priority].insert(reference, near)
        self._mask |= 1 << priority
        self.waiting_count += 1
        if self.picking_count > 0:
            for consumer in self.consumers:
                if consumer.picks and not consumer.browse:
                    cursor = consumer.cursors[priority]
                    if cursor is not None and cursor.sequence > reference.sequence and self._wants(consumer, reference):
                        heappush(consumer.revisit, (PRIORITIES - 1 - priority, reference.sequence, reference))
        self.mark_ready()

    def _unlink(self, reference: Reference) -> None:
        priority = 4 if self.internal else reference.message.priority
        references = self._lists[priority]
        references.unlink(reference, priority)
        if references.head is None:
            self._mask &= ~(1 << priority)
        self.waiting_count -= 1

    def _forget(self, reference: Reference) -> None:
        """The reference is gone for good."""
        reference.state = GONE
        reference.consumer = None
        if reference.handle:
            self.hub.storage.remove(reference)
        unhold(reference.message)

    # -- schedule --------------------------------------------------------------------------------------------

    def _schedule(self, reference: Reference, when_ms: int) -> None:
        reference.state = SCHEDULED
        self._schedule_count += 1
        heappush(self._scheduled, (when_ms, self._schedule_count, reference))
        self._plan_schedule()

    def _plan_schedule(self) -> None:
        if not self._scheduled:
            return
        when_ms = self._scheduled[0][0]
        timer = self._schedule_timer
        if timer is not None and timer.is_pending:
            if timer.when_ms <= when_ms:
                return
            timer.cancel()
        self._schedule_timer = self.hub.timers.at(when_ms, self._schedule_due)

    def _schedule_due(self) -> None:
        now_ms = self.hub.now_ms
        while self._scheduled and self._scheduled[0][0] <= now_ms:
            reference = heappop(self._scheduled)[2]
            if reference.state == SCHEDULED:
                self._insert(reference, None)
        self._plan_schedule()

    # -- out -------------------------------------------------------------------------------------------------

    def mark_ready(self) -> None:
        """Have `dispatch` called in this turn."""
        if not self.is_ready and self.consumers:
            self.is_ready = True
            self.hub.ready.append(self)

    def consumer_ready(self, consumer: Consumer) -> None:
        """A consumer got credit, or drains."""
        if consumer.draining and consumer not in self._draining:
            self._draining.append(consumer)
        if not consumer.in_ring and consumer.credit > 0:
            consumer.in_ring = True
            for level in self._levels:
                if level.priority == consumer.priority:
                    level.ring.append(consumer)
                    break
        self.mark_ready()

    def dispatch(self, budget: int) -> int:
        """Hand waiting messages to consumers with credit, at most `budget`; returns how many.

        Marks itself ready again if it stopped because of the budget.
        """
        delivered = 0
        scan_left = SCAN_BUDGET
        if self._mask and self._gate_open and not self.paused and not self.address.paused:
            now_ms = self.hub.now_ms
            for level in self._levels:
                ring = level.ring
                misses = 0
                while ring:
                    consumer = ring[0]
                    if consumer.credit <= 0 or consumer.blocked or consumer.is_closed:
                        ring.popleft()
                        consumer.in_ring = False
                        continue
                    if delivered >= budget:
                        self.mark_ready()
                        return delivered
                    reference: Reference | None
                    if self.exclusive and not consumer.browse and not self._is_owner(consumer):
                        reference = None
                    elif consumer.picks:
                        if scan_left <= 0:
                            self.mark_ready()
                            return delivered
                        reference, scan_left = self._pick(consumer, scan_left)
                        if reference is None and scan_left <= 0:
                            self.mark_ready()
                            return delivered
                    elif self._mask:
                        reference = self._lists[self._mask.bit_length() - 1].head
                    elif self.picking_count == 0:
                        break
                    else:
                        reference = None
                    if reference is None:
                        misses += 1
                        if misses >= len(ring):
                            break
                        ring.rotate(-1)
                        continue
                    expires_ms = reference.message.expires_ms
                    if expires_ms and expires_ms <= now_ms:
                        # A browser passes it over: looking at a queue changes nothing in it.
                        if not consumer.browse:
                            self.expire(reference)
                        continue
                    misses = 0
                    delivered += 1
                    consumer.credit -= 1
                    if not consumer.browse:
                        self._unlink(reference)
                        reference.state = DELIVERING
                        reference.consumer = consumer
                        self.delivering_count += 1
                        if not consumer.presettled:
                            consumer.outstanding[reference.sequence] = reference
                    if len(ring) > 1:
                        ring.rotate(-1)
                    consumer.sink.deliver(reference)
                    if consumer.presettled and reference.state == DELIVERING:
                        consumer.accepted += 1
                        self.acknowledge(reference)
        if self._draining:
            self._end_drains()
        return delivered

    def _is_owner(self, consumer: Consumer) -> bool:
        """Whether an exclusive queue may deliver to this consumer; the first that could take something is pinned."""
        if self.exclusive_owner is None:
            self.exclusive_owner = consumer
        return self.exclusive_owner is consumer

    def _end_drains(self) -> None:
        """Nothing is left for draining consumers, except for those whose output is blocked."""
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

    def _wants(self, consumer: Consumer, reference: Reference) -> bool:
        if reference.hidden_from is not None and consumer.id in reference.hidden_from:
            return False
        return consumer.filter is None or consumer.filter.matches(reference)

    def _pick(self, consumer: Consumer, scan_left: int) -> tuple[Reference | None, int]:
        """The next reference a picking consumer wants, and how many more may be examined in this turn."""
        revisit = consumer.revisit
        while revisit and revisit[0][2].state != WAITING:
            heappop(revisit)
        lowest = PRIORITIES - revisit[0][0] if revisit else 0
        for priority in range(PRIORITIES - 1, lowest - 1, -1):
            if not self._mask & (1 << priority):
                continue
            cursor = consumer.cursors[priority]
            examined = cursor
            candidate = self._lists[priority].head if cursor is None else cursor.next
            found: Reference | None = None
            while candidate is not None and scan_left > 0:
                scan_left -= 1
                if self._wants(consumer, candidate):
                    found = candidate
                    if consumer.browse:
                        examined = candidate
                    break
                examined = candidate
                candidate = candidate.next
            if examined is not cursor:
                self._move_cursor(consumer, priority, examined)
            if found is not None:
                return found, scan_left
            if scan_left <= 0:
                return None, 0
        if revisit:
            return heappop(revisit)[2], scan_left
        return None, scan_left

    def _move_cursor(self, consumer: Consumer, priority: int, to: Reference | None) -> None:
        cursor = consumer.cursors[priority]
        if cursor is not None and cursor.cursors is not None:
            cursor.cursors.discard(consumer)
        consumer.cursors[priority] = to
        if to is not None:
            if to.cursors is None:
                to.cursors = set()
            to.cursors.add(consumer)

    # -- how deliveries end ------------------------------------------------------------------------------------

    def acknowledge(self, reference: Reference) -> None:
        """A delivered (or claimed) message was processed."""
        self.delivering_count -= 1
        self.messages_acknowledged += 1
        # What `_forget` does, without the calls: this is the end of nearly every message.
        reference.state = GONE
        reference.consumer = None
        if reference.handle:
            self.hub.storage.remove(reference)
        message = reference.message
        message.references -= 1
        if message.references == 0 and message.origin is not None:
            message.origin.discharge(message)

    def give_back(self, reference: Reference, outcome: int) -> None:
        """A delivered (or claimed) message was not processed: RELEASED, FAILED or REJECTED."""
        self.delivering_count -= 1
        consumer = reference.consumer
        reference.consumer = None
        reference.was_acquired = True
        if self.is_deleted:
            self._forget(reference)
            return
        if outcome == REJECTED:
            self._kill(reference)
            return
        delay_ms = 0
        if outcome == FAILED:
            reference.delivery_count += 1
            settings = self.address.settings
            if not self.internal:
                if 0 < settings.max_delivery_attempts <= reference.delivery_count:
                    self._kill(reference)
                    return
                if settings.redelivery_delay > 0:
                    delay_ms = self._redelivery_delay_ms(reference.delivery_count)
            if reference.handle:
                self.hub.storage.update(reference, self.hub.now_ms + delay_ms if delay_ms else 0)
        if self.purge_on_no_consumers and not self.consumers:
            self.messages_killed += 1
            self._forget(reference)
        elif delay_ms > 0:
            self._schedule(reference, self.hub.now_ms + delay_ms)
        else:
            near: Reference | None = None
            if consumer is not None and consumer.picks and not consumer.is_closed:
                near = consumer.cursors[4 if self.internal else reference.message.priority]
            self._insert(reference, near)

    def _redelivery_delay_ms(self, delivery_count: int) -> int:
        """Reference §3.10; the cap is applied last."""
        settings = self.address.settings
        maximum = float(settings.max_redelivery_delay)
        delay = float(settings.redelivery_delay)
        for _ in range(delivery_count - 1):
            delay *= settings.redelivery_delay_multiplier
            if delay >= maximum:
                break
        factor = settings.redelivery_collision_avoidance_factor
        mover = self.hub.mover
        if factor > 0 and mover is not None:
            # One draw decides size and direction: [-1, 1).
            delay += delay * factor * (2.0 * mover.random() - 1.0)
        return int(min(delay, maximum))

    def _kill(self, reference: Reference) -> None:
        """To the dead-letter address."""
        self.messages_killed += 1
        mover = self.hub.mover
        if mover is not None and not self.internal:
            mover.dead_letter(reference)
        self._forget(reference)

    def expire(self, reference: Reference) -> None:
        """A waiting message is past its time: to the expiry address."""
        self._unlink(reference)
        self.messages_expired += 1
        mover = self.hub.mover
        if mover is not None:
            mover.expire(reference)
        self._forget(reference)

    def expire_due(self) -> int:
        """Expire all waiting messages that are due; returns how many. Costs nothing while none can be due."""
        now_ms = self.hub.now_ms
        if self._earliest_expiry_ms == 0 or self._earliest_expiry_ms > now_ms:
            return 0
        earliest = 0
        count = 0
        for references in self._lists:
            reference = references.head
            while reference is not None:
                following = reference.next
                expires_ms = reference.message.expires_ms
                if expires_ms:
                    if expires_ms <= now_ms:
                        self.expire(reference)
                        count += 1
                    elif earliest == 0 or expires_ms < earliest:
                        earliest = expires_ms
                reference = following
        for _, _, scheduled in self._scheduled:
            expires_ms = scheduled.message.expires_ms
            if expires_ms and (earliest == 0 or expires_ms < earliest):
                earliest = expires_ms
        for consumer in self.consumers:
            for delivered in consumer.outstanding.values():
                expires_ms = delivered.message.expires_ms
                if expires_ms and (earliest == 0 or expires_ms < earliest):
                    earliest = expires_ms
        self._earliest_expiry_ms = earliest
        return count

    def claim(self, reference: Reference) -> None:
        """A transaction acknowledges a delivery: its consumer is done with it, the queue not yet."""
        consumer = reference.consumer
        if consumer is not None:
            consumer.outstanding.pop(reference.sequence, None)
        reference.state = CLAIMED

    def unclaim(self, reference: Reference) -> bool:
        """Hand a claimed delivery back to its consumer; False if that is gone."""
        consumer = reference.consumer
        if consumer is None or consumer.is_closed:
            return False
        reference.state = DELIVERING
        consumer.outstanding[reference.sequence] = reference
        return True

    def purge(self, filter: Filter | None = None) -> int:
        """Remove waiting and scheduled messages (those `filter` wants); returns how many. In-flight ones stay."""
        count = 0
        for references in self._lists:
            reference = references.head
            while reference is not None:
                following = reference.next
                if filter is None or filter.matches(reference):
                    self._unlink(reference)
                    self._forget(reference)
                    count += 1
                reference = following
        kept: list[tuple[int, int, Reference]] = []
        for entry in self._scheduled:
            if filter is None or filter.matches(entry[2]):
                self._forget(entry[2])
                count += 1
            else:
                kept.append(entry)
        # A sorted list is a valid heap.
        self._scheduled = sorted(kept, key=_schedule_order)
        self.messages_killed += count
        return count

    def acknowledge_up_to(self, sequence: int) -> int:
        """Acknowledge everything that waits below `sequence`; how many there were. What is delivered stays."""
        count = 0
        for references in self._lists:
            reference = references.head
            while reference is not None and reference.sequence < sequence:
                following = reference.next
                self._unlink(reference)
                self._forget(reference)
                count += 1
                reference = following
        self.messages_acknowledged += count
        return count

    def browse_all(self) -> list[Reference]:
        """The waiting references in the order they would be delivered."""
        result: list[Reference] = []
        for priority in range(PRIORITIES - 1, -1, -1):
            reference = self._lists[priority].head
            while reference is not None:
                result.append(reference)
                reference = reference.next
        return result

    # -- consumers ---------------------------------------------------------------------------------------------

    def add_consumer(self, consumer: Consumer) -> None:
        """Attach a consumer; limits were checked by the session."""
        self.consumers.append(consumer)
        if consumer.picks:
            self.picking_count += 1
        for index, level in enumerate(self._levels):
            if level.priority == consumer.priority:
                break
            if level.priority < consumer.priority:
                self._levels.insert(index, Level(consumer.priority))
                break
        else:
            self._levels.append(Level(consumer.priority))
        self.swept = False
        self._check_gate()

    def remove_consumer(self, consumer: Consumer, failed: bool) -> None:
        """Detach a consumer; what it did not settle goes back to its place."""
        consumer.is_closed = True
        self.consumers.remove(consumer)
        for level in self._levels:
            if level.priority == consumer.priority:
                if consumer.in_ring:
                    level.ring.remove(consumer)
                if not any(other.priority == consumer.priority for other in self.consumers):
                    self._levels.remove(level)
                break
        consumer.in_ring = False
        if consumer.picks:
            self.picking_count -= 1
            for priority in range(PRIORITIES):
                self._move_cursor(consumer, priority, None)
            consumer.revisit.clear()
        if self.exclusive_owner is consumer:
            self.exclusive_owner = None
        outstanding = sorted(consumer.outstanding.values(), key=_sequence_of, reverse=True)
        consumer.outstanding = {}
        if not self.consumers:
            self.consumer_removed_ms = self.hub.now_ms
            self._check_gate()
            if self.purge_on_no_consumers:
                self.purge()
        # Newest first: each finds its place at the head at once.
        for reference in outstanding:
            self.give_back(reference, FAILED if failed else RELEASED)
        self.mark_ready()

    def _check_gate(self) -> None:
        """consumers-before-dispatch and delay-before-dispatch (reference §2.3)."""
        needed = self.consumers_before_dispatch
        if needed <= 0 and self.delay_before_dispatch_ms < 0:
            self._gate_open = True
            return
        count = len(self.consumers)
        if count == 0:
            self._gate_open = False
            if self._gate_timer is not None:
                self._gate_timer.cancel()
                self._gate_timer = None
        elif needed > 0 and count >= needed:
            self._open_gate()
        elif not self._gate_open and self._gate_timer is None and self.delay_before_dispatch_ms >= 0:
            self._gate_timer = self.hub.timers.at(self.hub.now_ms + self.delay_before_dispatch_ms, self._open_gate)

    def _open_gate(self) -> None:
        if self._gate_timer is not None:
            self._gate_timer.cancel()
            self._gate_timer = None
        self._gate_open = True
        self.mark_ready()

    def configure(
        self,
        filter: Filter | None,
        max_consumers: int,
        exclusive: bool,
        purge_on_no_consumers: bool,
        consumers_before_dispatch: int,
        delay_before_dispatch_ms: int,
        auto_delete: bool,
        auto_delete_delay_ms: int,
        auto_delete_message_count: int,
    ) -> None:
        """Set the changeable attributes (reference §2.2), at creation and later."""
        self.filter = filter
        self.max_consumers = max_consumers
        self.exclusive = exclusive
        if not exclusive:
            self.exclusive_owner = None
        self.purge_on_no_consumers = purge_on_no_consumers
        self.consumers_before_dispatch = consumers_before_dispatch
        self.delay_before_dispatch_ms = delay_before_dispatch_ms
        self.auto_delete = auto_delete
        self.auto_delete_delay_ms = auto_delete_delay_ms
        self.auto_delete_message_count = auto_delete_message_count
        self._check_gate()
        self.mark_ready()

    def pause(self) -> None:
        """Stop deliveries; messages go on coming in. A durable queue stays paused through a restart."""
        self.paused = True
        self._save()

    def resume(self) -> None:
        """Deliver again."""
        self.paused = False
        self._save()
        self.mark_ready()

    def _save(self) -> None:
        if self.is_stored:
            self.hub.storage.save_queue(self)

    def delete(self, reason: str) -> None:
        """End all consumers and forget all messages; the post office has unbound the queue already."""
        self.is_deleted = True
        for consumer in list(self.consumers):
            self.remove_consumer(consumer, False)
            consumer.sink.ended(reason)
        self.purge()
        if self._schedule_timer is not None:
            self._schedule_timer.cancel()
        if self._gate_timer is not None:
            self._gate_timer.cancel()
        if self.is_stored:
            self.hub.storage.forget_queue(self)


def _sequence_of(reference: Reference) -> int:
    return reference.sequence


def _schedule_order(entry: tuple[int, int, Reference]) -> tuple[int, int]:
    return entry[0], entry[1]
