"""A queue: order, priority, dispatch to consumers with credit, and what becomes of each delivery.

Messages wait in ten lists, one a priority, sorted by `sequence`. The queue reads no clock and knows no protocol.
"""

from typing import Final

from artemis_py.core.addresses.address import Address
from artemis_py.core.addresses.binding import Binding
from artemis_py.core.messages.message import LATEST_MS, Message
from artemis_py.core.names.routing_type import RoutingType
from artemis_py.core.queues.backlog import PAGE_MESSAGES, Backlog
from artemis_py.core.queues.bulk import take_out
from artemis_py.core.queues.consumer import FAILED, REJECTED, RELEASED, Consumer, Level
from artemis_py.core.queues.cursors.cursor import ScanBudget
from artemis_py.core.queues.cursors.range_reader import serve_apart
from artemis_py.core.queues.dispatcher import Hub
from artemis_py.core.queues.page import END, SCHEDULED_RANK, Page
from artemis_py.core.queues.reference import (
    CLAIMED,
    DELIVERING,
    GONE,
    PRIORITIES,
    Reference,
    hold,
    unhold,
)
from artemis_py.core.queues.routing_services import RoutingServices
from artemis_py.core.queues.schedule import Schedule
from artemis_py.core.queues.storage import UNLIMITED
from artemis_py.core.runtime.accounts import CONSUMER_BYTES
from artemis_py.core.runtime.background import SLICE_MESSAGES, Steps
from artemis_py.core.runtime.timers import Timer
from artemis_py.core.selectors.filter import parse_filter
from artemis_py.core.settings.queue_config import QueueConfig
from artemis_py.core.settings.queue_settings import DEFAULT_QUEUE_SETTINGS, QueueSettings

# Messages examined for cursors before other queues and the sockets get their turn: about 2 ms in
# pure Python, short enough that nobody notices.
SCAN_BUDGET: Final = 2000


class Queue(Binding):
    """An ordered set of references, bound to one address for life (reference §1.1, §2.2, §3.1)."""

    def __init__(
        self,
        hub: Hub,
        config: QueueConfig,
        address: Address,
        id: int,
        routing_type: RoutingType,
        routing: RoutingServices,
    ) -> None:
        super().__init__(config.name, address, routing_type)
        self.hub: Hub = hub
        self.routing: RoutingServices = routing
        """Takes what cannot be delivered."""
        self.id: int = id
        self.durable: bool = config.durable and not config.temporary
        self.temporary: bool = config.temporary
        self.is_stored: bool = self.durable and not address.temporary
        """Whether a restart brings it back, with its durable messages."""
        self.internal: bool = config.internal
        self.auto_created: bool = config.auto_created
        self.configuration_managed: bool = config.configuration_managed
        self.user: str | None = config.user
        self.config: QueueConfig = config
        """What it was asked to be; `settings` decides what was left open there."""
        self.owner: object = None
        """The session a temporary queue belongs to: nobody else may consume from it."""
        self.settings: QueueSettings = DEFAULT_QUEUE_SETTINGS
        """What applies to it, of which it keeps below what is asked for each message."""
        self.exclusive: bool = False
        self.purge_on_no_consumers: bool = False
        self.enabled: bool = config.enabled
        self.paused: bool = False
        self.consumers: list[Consumer] = []
        self.holders: list[Consumer] = []
        """Consumers of which only deliveries are left, that their clients may still settle; no message goes to them."""
        self.exclusive_owner: Consumer | None = None
        self.cursor_count: int = 0
        """Consumers in rings that have cursors."""
        self.is_ready: bool = False
        self.is_greedy: bool = False
        """In its last turn it delivered all it was allowed to."""
        self.awaits_store: bool = False
        """It is ready again when what it has was stored."""
        self.next_sequence: int = 1
        self.skipped: tuple[tuple[int, int], ...] = ()
        """Ranges of numbers, from and to, that were reserved when the broker ended and may never have been given: of
        each, what is behind the last number that was. Ascending, and as many as the store remembers."""
        self.sequence_limit: int = 0 if self.is_stored else UNLIMITED
        """From this sequence on more have to be reserved in the store."""
        self.restored_below: int = 0
        """What has a lower sequence is from an earlier run: it may have been delivered before."""
        self.delivering_count: int = 0
        self.returning: int = 0
        """Consumers that left with so much that it is still being put back."""
        self.messages_added: int = 0
        self.messages_acknowledged: int = 0
        self.messages_expired: int = 0
        self.messages_killed: int = 0
        self.created_ms: int = hub.now_ms
        self.consumer_removed_ms: int = 0
        """When the last consumer left; 0 if none ever did."""
        self.subscriber_count: int = 0
        """Sessions that have a subscription here, and come back although they have no consumer now."""
        self.swept: bool = False
        """The reaper found it unused in its last pass."""
        self.backlog: Backlog = Backlog(self, hub)
        self.schedule: Schedule = Schedule(self, hub, self._on_due)
        self.aside: dict[int, Reference] = {}
        """References by number, neither waiting nor delivered: in a transaction, or failed and kept back."""
        self.apart: list[Consumer] = []
        """Consumers that stand in no ring (`Cursor.is_apart`)."""
        self._levels: list[Level] = []
        self._draining: list[Consumer] = []
        self._earliest_expiry_ms: int = 0
        self.may_expire_on_disk: bool = False
        """Some of what is on disk only may have an expiry."""
        self._swept_priority: int = PRIORITIES - 1
        self._swept_position: int = 0
        self._swept_expiry: bool = False
        self._gate_open: bool = True
        """consumers-before-dispatch is satisfied."""
        self._gate_timer: Timer | None = None

    # -- facts -----------------------------------------------------------------------------------------------

    @property
    def waiting_count(self) -> int:
        """Messages that could be delivered, in memory or not."""
        return self.backlog.count

    @property
    def scheduled_count(self) -> int:
        """Messages that wait for their time."""
        return self.schedule.count

    @property
    def message_count(self) -> int:
        """All messages: waiting, delivered but not settled, and scheduled."""
        return self.backlog.count + self.delivering_count + self.schedule.count

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

    @property
    def keeps(self) -> bool:
        """Whether it does not throw away at once what it takes."""
        return self.enabled and not (self.purge_on_no_consumers and not self.consumers)

    def has_consumer_for(self, message: Message) -> bool:
        """Whether some consumer would take the message, credit or not."""
        for consumer in self.consumers:
            if not consumer.browse and (consumer.filter is None or consumer.filter.matches(message)):
                return True
        return False

    # -- in --------------------------------------------------------------------------------------------------

    def take(self, message: Message) -> None:
        """Take a message that was routed here, unless the queue is disabled or purges without consumers."""
        if not self.enabled or (self.purge_on_no_consumers and not self.consumers):
            return
        origin = message.origin
        if message.references == 0:
            if origin is not None:
                origin.charge(message)
            if message.large is not None:
                message.large.hold()
        elif origin is not None:
            origin.charge_reference()
        message.references += 1
        self.messages_added += 1
        reference = Reference(message, self)
        expires_ms = message.expires_ms
        if expires_ms:
            self.note_expiry(expires_ms)
            self.may_expire_on_disk = True
        is_stored = message.durable and self.is_stored and self.hub.stores
        if message.delivery_time_ms > 0:
            message.delivery_time_ms = min(message.delivery_time_ms, LATEST_MS)
            if is_stored:
                self.hub.storage.put(reference)
                self.schedule.add_stored(reference)
            else:
                self.schedule.add(reference, message.delivery_time_ms)
        else:
            self._append(reference, is_stored)
            if is_stored:
                self.hub.storage.put(reference)

    def restore(self, rank: int, count: int, size_bytes: int, scheduled_below: int) -> None:
        """Know of messages that an earlier run left in the store; they are read when their turn comes.

        Whether one was with a consumer before is not known, so nothing that comes back claims to be delivered for the
        first time (AMQP 1.0 §3.2.1, first-acquirer: false says "perhaps"). A scheduled one is no exception: it may have
        been due, and delivered, before its place in the queue was committed. `scheduled_below` is the running number
        from which on they are of this run.
        """
        self.restored_below = self.next_sequence
        self.may_expire_on_disk = True
        if rank == SCHEDULED_RANK:
            self.schedule.restore(count, size_bytes, scheduled_below)
        else:
            self.backlog.restore(PRIORITIES - 1 - rank, count, size_bytes)

    def committed(self, reference: Reference) -> None:
        """A COLD reference can be read from the storage now; see `Storage.put`."""
        if reference.sequence == 0:
            self.schedule.committed(reference)
            return
        tail = self.backlog.tails[self.backlog.priority_of(reference)]
        if tail is not None:
            tail.committed(reference)

    def note_expiry(self, expires_ms: int) -> None:
        """A message in memory expires then."""
        if expires_ms < self._earliest_expiry_ms or self._earliest_expiry_ms == 0:
            self._earliest_expiry_ms = expires_ms

    def reserve_sequences(self) -> None:
        """Have the store remember that the next sequences were used."""
        self.sequence_limit = self.hub.storage.reserve(self)

    def _append(self, reference: Reference, is_stored: bool) -> None:
        """Make a reference visible: number it and put it last."""
        sequence = self.next_sequence
        reference.sequence = sequence
        self.next_sequence = sequence + 1
        if sequence >= self.sequence_limit:
            self.reserve_sequences()
        self.backlog.append(reference, is_stored)
        if self.consumers and not self.is_ready:
            self.is_ready = True
            self.hub.ready.append(self)

    def _insert(self, reference: Reference, near: Reference | None) -> None:
        """Put a returned reference back at its place."""
        self.backlog.insert(reference, near)
        if self.cursor_count > 0:
            for consumer in self.consumers:
                if consumer.cursor is not None:
                    consumer.cursor.came_back(consumer, reference)
        self.mark_ready()

    def forget(self, reference: Reference) -> None:
        """The reference is gone for good. What a deleted queue had in the store goes with it."""
        reference.state = GONE
        reference.consumer = None
        if self.aside:
            self.aside.pop(reference.sequence, None)
        if reference.handle and not self.is_deleted:
            self._unstore(reference)
        unhold(reference.message)

    def _unstore(self, reference: Reference) -> None:
        """Have the store forget it, and remember that it can be read until then."""
        if reference.sequence == 0:
            self.schedule.left(reference)
        elif self.backlog.cold_mask:
            tail = self.backlog.tails[self.backlog.priority_of(reference)]
            if tail is not None:
                tail.left(reference)
        self.hub.storage.remove(reference)

    # -- schedule --------------------------------------------------------------------------------------------

    def delay(self, reference: Reference, when_ms: int) -> None:
        """Keep a failed delivery back until it may be repeated."""
        self.aside[reference.sequence] = reference
        self.schedule.add(reference, when_ms)

    def _on_due(self, reference: Reference) -> None:
        """Its time has come."""
        if reference.sequence:
            self.aside.pop(reference.sequence, None)
            self._insert(reference, None)
            return
        if not reference.handle:
            self._append(reference, False)
            return
        # The store keeps scheduled references apart: they have no place in the queue's order yet. The commit of the old
        # place may still be under way, so the new place is another reference.
        self._unstore(reference)
        reference.state = GONE
        visible = Reference(reference.message, self)
        visible.was_acquired = reference.was_acquired
        if visible.was_acquired and self.restored_below <= self.next_sequence:
            # Of what is read from the disk again only the sequence tells from which run it is. What came in between
            # says "perhaps" as well.
            self.restored_below = self.next_sequence + 1
        self._append(visible, self.hub.stores)
        self.hub.storage.put(visible)

    # -- out -------------------------------------------------------------------------------------------------

    def mark_ready(self) -> None:
        """Have `dispatch` called in this turn."""
        if not self.is_ready and self.consumers:
            self.is_ready = True
            self.hub.ready.append(self)

    def consumer_ready(self, consumer: Consumer) -> None:
        """A consumer got credit, or drains."""
        if consumer.reads_apart:
            self.mark_ready()
            return
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

        What a crash must not take back from somebody who has seen it (`Message.stored_first`) is handed out only once
        it is durable; browsers may look ahead.

        Marks itself ready again if it stopped because of the budget.
        """
        delivered = 0
        stored_batch = self.hub.stored_batch
        early: Reference | None = None
        if self.apart:
            delivered = serve_apart(self, budget)
        scan = ScanBudget(SCAN_BUDGET)
        backlog = self.backlog
        if (
            (backlog.mask or backlog.cold_mask)
            and self._gate_open
            and not self.paused
            and not self.address.paused
            and not self.returning
        ):
            now_ms = self.hub.now_ms
            free_bytes = self.hub.free_unsettled_bytes
            for level in self._levels:
                ring = level.ring
                misses = 0
                while ring:
                    consumer = ring[0]
                    if consumer.credit <= 0 or consumer.blocked or consumer.is_closed:
                        ring.popleft()
                        consumer.in_ring = False
                        continue
                    if consumer.unsettled_bytes >= free_bytes and self.hub.holds_back(consumer.unsettled_bytes):
                        ring.popleft()
                        consumer.in_ring = False
                        consumer.is_starved = True
                        self.hub.starved.add(consumer)
                        continue
                    if delivered >= budget:
                        self.mark_ready()
                        return delivered
                    reference: Reference | None
                    if self.exclusive and not consumer.browse and not self._is_owner(consumer):
                        reference = None
                    elif consumer.cursor is not None:
                        reference = consumer.cursor.next(consumer, scan) if scan.left > 0 else None
                        if reference is None and scan.left <= 0:
                            self.mark_ready()
                            return delivered
                    elif backlog.cold_mask:
                        reference = backlog.head()
                    elif backlog.mask:
                        reference = backlog.lists[backlog.mask.bit_length() - 1].head
                    elif self.cursor_count == 0:
                        break
                    else:
                        reference = None
                    if reference is not None and reference.batch > stored_batch and not consumer.browse:
                        early = reference
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
                    if expires_ms and expires_ms <= now_ms:
                        # A browser passes it over: looking at a queue changes nothing in it.
                        if not consumer.browse:
                            self.expire(reference)
                        continue
                    misses = 0
                    delivered += 1
                    consumer.credit -= 1
                    if not consumer.browse:
                        backlog.unlink(reference)
                        reference.state = DELIVERING
                        reference.consumer = consumer
                        self.delivering_count += 1
                        if not consumer.presettled:
                            consumer.outstanding[reference.sequence] = reference
                            consumer.unsettled_bytes += reference.message.size
                    if len(ring) > 1:
                        ring.rotate(-1)
                    consumer.sink.deliver(reference)
                    if consumer.presettled and reference.state == DELIVERING:
                        consumer.accepted += 1
                        self.acknowledge(reference)
        if early is not None:
            self.hub.await_store(self, early)
        elif self._draining and not self.returning:
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

    # -- how deliveries end ------------------------------------------------------------------------------------

    def acknowledge(self, reference: Reference) -> None:
        """A delivered (or claimed) message was processed."""
        self.delivering_count -= 1
        self.messages_acknowledged += 1
        # What `forget` does, without the calls: this is the end of nearly every message.
        reference.state = GONE
        reference.consumer = None
        if reference.handle:
            if self.backlog.cold_mask:
                self._unstore(reference)
            else:
                self.hub.storage.remove(reference)
        message = reference.message
        message.references -= 1
        origin = message.origin
        if message.references == 0:
            if origin is not None:
                origin.discharge(message)
            if message.large is not None:
                message.large.release()
        elif origin is not None:
            origin.discharge_reference()

    def amend(self, reference: Reference, message: Message) -> None:
        """Have a delivered (or claimed) message, as its consumer changed it, come back in place of what it was.

        Other queues that share the message keep it as it was. The change is as durable as the reference.
        """
        hold(message)
        unhold(reference.message)
        reference.message = message
        if reference.handle and not self.is_deleted:
            self.hub.storage.update(reference, 0)

    def give_back(self, reference: Reference, outcome: int) -> None:
        """A delivered (or claimed) message was not processed: RELEASED, FAILED or REJECTED."""
        self.delivering_count -= 1
        consumer = reference.consumer
        reference.consumer = None
        reference.was_acquired = True
        if self.is_deleted:
            self.forget(reference)
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
            self.forget(reference)
        elif delay_ms > 0:
            self.delay(reference, self.hub.now_ms + delay_ms)
        else:
            near: Reference | None = None
            if consumer is not None and consumer.cursor is not None and not consumer.is_closed:
                near = consumer.cursor.place(4 if self.internal else reference.message.priority)
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
        if factor > 0:
            # One draw decides size and direction: [-1, 1).
            delay += delay * factor * (2.0 * self.routing.random() - 1.0)
        return int(min(delay, maximum))

    def _kill(self, reference: Reference) -> None:
        """To the dead-letter address."""
        self.messages_killed += 1
        if not self.internal:
            self.routing.dead_letter(reference)
        self.forget(reference)

    def expire(self, reference: Reference) -> None:
        """A waiting message is past its time: to the expiry address."""
        self.backlog.unlink(reference)
        self._expired(reference)

    def _expired(self, reference: Reference) -> None:
        self.messages_expired += 1
        self.routing.expire(reference)
        self.forget(reference)

    def expire_due(self) -> int:
        """Expire all waiting messages that are due; returns how many. Costs nothing while none can be due."""
        now_ms = self.hub.now_ms
        if self._earliest_expiry_ms == 0 or self._earliest_expiry_ms > now_ms:
            return 0
        earliest = 0
        count = 0
        for references in self.backlog.lists:
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
        for scheduled in self.schedule.waiting():
            expires_ms = scheduled.message.expires_ms
            if expires_ms and (earliest == 0 or expires_ms < earliest):
                earliest = expires_ms
        for consumer in self.consumers + self.holders:
            for delivered in consumer.outstanding.values():
                expires_ms = delivered.message.expires_ms
                if expires_ms and (earliest == 0 or expires_ms < earliest):
                    earliest = expires_ms
        self._earliest_expiry_ms = earliest
        return count

    def sweep(self, max_messages: int) -> bool:
        """Expire what is due of the next messages that are on disk only; True when it came round."""
        backlog = self.backlog
        priority = self._swept_priority
        tail = backlog.tails[priority]
        page: Page | None = None
        if tail is not None:
            page = backlog.scan(tail, max(tail.frontier, self._swept_position), END, max_messages)
        if tail is not None and page is not None:
            for reference in page.references:
                expires_ms = reference.message.expires_ms
                if expires_ms and expires_ms <= self.hub.now_ms:
                    backlog.pull(tail, reference)
                    self._expired(reference)
                elif expires_ms:
                    self._swept_expiry = True
            backlog.close(tail, priority)
            self._swept_position = page.end
            if page.end < END:
                return False
        self._swept_position = 0
        if priority > 0:
            self._swept_priority = priority - 1
            return False
        self._swept_priority = PRIORITIES - 1
        self.may_expire_on_disk = self._swept_expiry
        self._swept_expiry = False
        return True

    def claim(self, reference: Reference) -> None:
        """A transaction acknowledges a delivery: its consumer is done with it, the queue not yet."""
        consumer = reference.consumer
        if consumer is not None:
            consumer.relinquish(reference)
        reference.state = CLAIMED
        self.aside[reference.sequence] = reference

    def end_claim(self, reference: Reference) -> None:
        """The transaction ends; `acknowledge`, `give_back` or `unclaim` follows."""
        self.aside.pop(reference.sequence, None)

    def unclaim(self, reference: Reference) -> bool:
        """Hand a claimed delivery back to its consumer; False if that is gone. `end_claim` came before."""
        consumer = reference.consumer
        if consumer is None or consumer.is_closed:
            return False
        reference.state = DELIVERING
        consumer.adopt(reference)
        return True

    def purge(self) -> int:
        """Remove waiting and scheduled messages; returns how many. In-flight ones stay.

        They are gone at once; of many, memory and what was stored of those in memory are given back in the turns to
        come. `bulk.empty` ends when that is done.
        """
        count, rest = take_out(self)
        self.hub.slices.start(rest)
        return count

    def acknowledge_below(self, sequence: int, limit: int, start: int = 0) -> int:
        """Acknowledge what waits below `sequence`, at most `limit` messages; how many went. What is delivered stays.

        What is below `start` stays as well. What is past its time expires instead: nobody got it, or not in time.
        """
        count = expired = 0
        backlog = self.backlog
        now_ms = self.hub.now_ms
        for priority in range(PRIORITIES):
            reference = backlog.lists[priority].head
            while reference is not None and reference.sequence < sequence and count < limit:
                following = reference.next
                if reference.sequence >= start:
                    backlog.unlink(reference)
                    if 0 < reference.message.expires_ms <= now_ms:
                        self._expired(reference)
                        expired += 1
                    else:
                        self.forget(reference)
                    count += 1
                reference = following
            tail = backlog.tails[priority]
            after = 0 if tail is None else max(tail.frontier, start - 1)
            while tail is not None and after < sequence - 1 and count < limit:
                page = backlog.scan(tail, after, sequence - 1, min(PAGE_MESSAGES, limit - count))
                if page is None:
                    break
                for cold in page.references:
                    backlog.pull(tail, cold)
                    if 0 < cold.message.expires_ms <= now_ms:
                        self._expired(cold)
                        expired += 1
                    else:
                        self.forget(cold)
                    count += 1
                after = page.end
                if start <= tail.frontier + 1:
                    tail.advance(after)
            if tail is not None:
                backlog.close(tail, priority)
        self.messages_acknowledged += count - expired
        return count

    def acknowledge_numbers(self, wanted: set[int]) -> int:
        """Acknowledge what waits under these numbers; how many. What is delivered stays.

        Everything from the lowest of them to the highest is looked at.
        """
        count = 0
        low, high = min(wanted), max(wanted)
        backlog = self.backlog
        for priority in range(PRIORITIES):
            reference = backlog.lists[priority].head
            while reference is not None and reference.sequence <= high:
                following = reference.next
                if reference.sequence in wanted:
                    backlog.unlink(reference)
                    self.forget(reference)
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
                        self.forget(cold)
                        count += 1
                after = page.end
        self.messages_acknowledged += count
        return count

    def browse_all(self) -> list[Reference]:
        """The waiting references in the order they would be delivered; those on disk are read, and not kept."""
        result: list[Reference] = []
        backlog = self.backlog
        for priority in range(PRIORITIES - 1, -1, -1):
            found: list[Reference] = []
            reference = backlog.lists[priority].head
            while reference is not None:
                found.append(reference)
                reference = reference.next
            tail = backlog.tails[priority]
            after = 0 if tail is None else tail.frontier
            while tail is not None and after < END:
                page = backlog.scan(tail, after, END, PAGE_MESSAGES)
                if page is None:
                    break
                for cold in page.references:
                    cold.was_acquired = 0 < cold.sequence < self.restored_below
                    found.append(cold)
                after = page.end
            found.sort(key=_sequence_of)
            result += found
        return result

    # -- consumers ---------------------------------------------------------------------------------------------

    def add_consumer(self, consumer: Consumer) -> None:
        """Attach a consumer; limits were checked by the session."""
        self.consumers.append(consumer)
        self.hub.tables.occupy(CONSUMER_BYTES)
        if consumer.reads_apart:
            self.apart.append(consumer)
        elif consumer.cursor is not None:
            self.cursor_count += 1
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
        self.hub.tables.vacate(CONSUMER_BYTES)
        if consumer.reads_apart:
            self.apart.remove(consumer)
        self.hub.starved.discard(consumer)
        for level in self._levels:
            if level.priority == consumer.priority:
                if consumer.in_ring:
                    level.ring.remove(consumer)
                if not any(other.priority == consumer.priority for other in self.consumers):
                    self._levels.remove(level)
                break
        consumer.in_ring = False
        if consumer.cursor is not None:
            self.cursor_count -= not consumer.reads_apart
            consumer.cursor.reset()
        if self.exclusive_owner is consumer:
            self.exclusive_owner = None
        outstanding = sorted(consumer.outstanding.values(), key=_sequence_of, reverse=True)
        consumer.outstanding = {}
        if not self.consumers:
            self.consumer_removed_ms = self.hub.now_ms
            self._check_gate()
            if self.purge_on_no_consumers:
                self.purge()
        if outstanding:
            self.hub.slices.start(self._take_back(outstanding, FAILED if failed else RELEASED))
        self.mark_ready()

    def _take_back(self, references: list[Reference], outcome: int) -> Steps:
        """Put back what a consumer had, in slices. Nothing is delivered until the last is back, so that order holds."""
        self.returning += 1
        left = SLICE_MESSAGES
        # Newest first: each finds its place at the head at once.
        for reference in references:
            self.give_back(reference, outcome)
            left -= 1
            if left == 0:
                left = SLICE_MESSAGES
                yield None
        self.returning -= 1
        self.mark_ready()
        return None

    def _check_gate(self) -> None:
        """consumers-before-dispatch and delay-before-dispatch (reference §2.3)."""
        needed = self.settings.consumers_before_dispatch
        delay_ms = self.settings.delay_before_dispatch_ms
        if needed <= 0 and delay_ms < 0:
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
        elif not self._gate_open and self._gate_timer is None and delay_ms >= 0:
            self._gate_timer = self.hub.timers.at(self.hub.now_ms + delay_ms, self._open_gate)

    def _open_gate(self) -> None:
        if self._gate_timer is not None:
            self._gate_timer.cancel()
            self._gate_timer = None
        self._gate_open = True
        self.mark_ready()

    def configure(self, config: QueueConfig) -> None:
        """Be what `config` asks for, where it and the settings of the address say something that may change.

        Raises InvalidFilter; then nothing changed.
        """
        self.filter = parse_filter(config.filter) if config.filter else None
        self.config = config
        self.settings = settings = config.resolved(self.address.settings)
        self.enabled = config.enabled
        self.user = config.user
        self.configuration_managed = config.configuration_managed
        self.exclusive = settings.exclusive
        if not settings.exclusive:
            self.exclusive_owner = None
        self.purge_on_no_consumers = settings.purge_on_no_consumers
        self.backlog.set_window(self.address.settings.max_read_page_messages, self.address.settings.max_read_page_bytes)
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
        for holder in list(self.holders):
            holder.sink.ended(reason)
        self.purge()
        self.schedule.cancel()
        if self._gate_timer is not None:
            self._gate_timer.cancel()
        if self.is_stored:
            self.hub.storage.forget_queue(self)


def _sequence_of(reference: Reference) -> int:
    return reference.sequence


def queues_of(address: Address) -> list[Queue]:
    """The queues among the bindings of an address, in the order they were created."""
    return [binding for binding in address.bindings if isinstance(binding, Queue)]
