"""A queue: its attributes, the way of messages into it, and its configuration.

Messages wait in its backlog, or in its schedule until their delivery time. `dispatch` hands them to consumers,
`settlement` ends deliveries, and `rules` define other kinds of queues. The queue reads no clock and knows no protocol.
"""

from artemis_py.core.addresses.address import Address
from artemis_py.core.addresses.binding import Binding
from artemis_py.core.messages.message import LATEST_MS, Message
from artemis_py.core.names.routing_type import RoutingType
from artemis_py.core.queues.arrival import Arrival
from artemis_py.core.queues.attaching import detach
from artemis_py.core.queues.backlog import Backlog
from artemis_py.core.queues.bulk import take_out
from artemis_py.core.queues.consumer import Consumer
from artemis_py.core.queues.dispatch import Dispatch
from artemis_py.core.queues.dispatcher import Dispatcher
from artemis_py.core.queues.expiry import Expiry
from artemis_py.core.queues.page import SCHEDULED_RANK
from artemis_py.core.queues.passing import keep_unlisted, pass_on
from artemis_py.core.queues.reference import GONE, PRIORITIES, Reference, hold
from artemis_py.core.queues.routing_services import RoutingServices
from artemis_py.core.queues.rules.assignment import Assignment
from artemis_py.core.queues.rules.entry import Entry
from artemis_py.core.queues.rules.guard import Guard
from artemis_py.core.queues.rules.kinds import choose_rules
from artemis_py.core.queues.rules.last_value import property_of
from artemis_py.core.queues.rules.ring import shrink, shrink_soon
from artemis_py.core.queues.schedule import Schedule
from artemis_py.core.queues.settlement import amend, forget, give_back, put_back, unstore
from artemis_py.core.queues.storage import UNLIMITED
from artemis_py.core.runtime.timers import NEVER
from artemis_py.core.selectors.filter import parse_filter
from artemis_py.core.settings.queue_config import QueueConfig
from artemis_py.core.settings.queue_settings import DEFAULT_QUEUE_SETTINGS, QueueSettings


class Queue(Binding):
    """An ordered set of references, bound to one address for life (artemis-model §1.1, §2.2, §3.1)."""

    # Long because it declares every attribute in one place.
    def __init__(
        self,
        dispatcher: Dispatcher,
        config: QueueConfig,
        address: Address,
        id: int,
        routing_type: RoutingType,
        routing: RoutingServices,
    ) -> None:
        super().__init__(config.name, address, routing_type)
        self.dispatcher: Dispatcher = dispatcher
        self.routing: RoutingServices = routing
        """Takes messages that cannot be delivered."""
        self.id: int = id
        self.durable: bool = config.durable and not config.temporary
        self.temporary: bool = config.temporary
        self.is_stored: bool = self.durable and not address.temporary
        """Whether the queue and its durable messages survive a restart."""
        self.internal: bool = config.internal
        self.auto_created: bool = config.auto_created
        self.configuration_managed: bool = config.configuration_managed
        self.user: str | None = config.user
        self.config: QueueConfig = config
        """The configuration its creator asked for; `settings` decides what it leaves open."""
        self.owner: object = None
        """The session that a temporary queue belongs to; no other session may consume from it."""
        self.settings: QueueSettings = DEFAULT_QUEUE_SETTINGS
        """The settings in force; those that are needed for each message are copied below."""
        self.purge_on_no_consumers: bool = False
        self.enabled: bool = config.enabled
        self.paused: bool = False
        self.consumers: list[Consumer] = []
        self.holders: list[Consumer] = []
        """Consumers that get no more messages, but whose clients may still settle their deliveries."""
        self.passing: Consumer | None = None
        """The only consumer, if messages may be passed on to it that this queue never holds (`passing`)."""
        self.entry: Entry | None = None
        """The rule for incoming messages; None for most queues."""
        self.guard: Guard | None = None
        """What a service has put around the entry rule (`kinds.set_guard`); None for nearly every queue."""
        self.assignment: Assignment | None = None
        """The rule that says which consumer gets a message; None for most queues."""
        self.has_groups: bool = False
        """Whether a message that may belong to a group has come; until then a queue needs no rule for groups."""
        self.keeps_messages: bool = False
        """Whether deliveries remove nothing: each consumer gets all messages, as a browser does."""
        self.is_shrinking: bool = False
        """Whether messages are being removed because more wait than `ring-size` says."""
        self.next_sequence: int = 1
        self.skipped: tuple[tuple[int, int], ...] = ()
        """Ranges (start, stop) of sequences that were reserved when the broker ended and may never have been used:
        each begins after the last sequence that was used. Ascending, and as many as the store remembers."""
        self.sequence_limit: int = 0 if self.is_stored else UNLIMITED
        """The first sequence that is not reserved in the store yet."""
        self.restored_below: int = 0
        """Messages with a lower sequence are from an earlier run, and may have been delivered before."""
        self.delivering_count: int = 0
        self.messages_added: int = 0
        self.messages_acknowledged: int = 0
        self.messages_expired: int = 0
        self.messages_killed: int = 0
        self.is_configured: bool = False
        """Whether `configure` was called, and has decided what is fixed from then on."""
        self.messages_replaced: int = 0
        """Number of messages that were removed to make room for others, or that the entry rule refused."""
        self.history_ids: tuple[int, int] | None = None
        """Ids of the first and the last message of the history that the queue began with; None if it had none, and
        after a restart."""
        self.created_steady_ms: int = dispatcher.steady_ms
        """Time of the creation, as `Dispatcher.steady_ms` counts."""
        self.consumer_removed_steady_ms: int = NEVER
        """Time at which the last consumer left, on the same clock; NEVER if none ever did."""
        self.exclusive_consumers: int = 0
        """Number of attached consumers that want all messages for themselves."""
        self.subscriber_count: int = 0
        """Number of sessions with a subscription here, including those that have no consumer now but may return."""
        self.swept: bool = False
        """Whether the reaper found the queue unused in its last pass."""
        self.backlog: Backlog = Backlog(self, dispatcher)
        self.schedule: Schedule = Schedule(self, dispatcher, self._on_due)
        self.aside: dict[int, Reference] = {}
        """References by sequence that are neither waiting nor delivered: in a transaction, or failed and delayed."""
        self.expiry: Expiry = Expiry(self)
        self.dispatch: Dispatch = Dispatch(self, dispatcher)

    # -- facts -----------------------------------------------------------------------------------------------

    @property
    def waiting_count(self) -> int:
        """Number of messages that could be delivered, in memory or not."""
        return self.backlog.count

    @property
    def scheduled_count(self) -> int:
        """Number of messages that wait for their delivery time."""
        return self.schedule.count

    @property
    def message_count(self) -> int:
        """Number of all messages: waiting, delivered but not settled, and scheduled."""
        return self.backlog.count + self.delivering_count + self.schedule.count

    @property
    def consumer_count(self) -> int:
        """Number of attached consumers, browsers included."""
        return len(self.consumers)

    @property
    def was_used(self) -> bool:
        """Whether a message or a consumer ever left the queue, as the reaper wants to know (artemis-model §2.4)."""
        return (
            self.consumer_removed_steady_ms != NEVER
            or self.messages_acknowledged > 0
            or self.messages_expired > 0
            or self.messages_killed > 0
            or self.messages_replaced > 0
        )

    @property
    def keeps(self) -> bool:
        """Whether the queue keeps the messages it is given, rather than discarding them at once."""
        return self.enabled and not (self.purge_on_no_consumers and not self.consumers)

    def has_consumer_for(self, message: Message) -> bool:
        """Tell whether some consumer would take the message, with or without credit."""
        for consumer in self.consumers:
            if not consumer.is_browser and (consumer.filter is None or consumer.filter.matches(message)):
                return True
        return False

    def began_with(self, message: Message) -> bool:
        """Tell whether a message that was sent here, and not in a transaction, is part of the queue's history."""
        ids = self.history_ids
        if ids is None or not ids[0] <= message.id <= ids[1]:
            return False
        return message.routing_type < 0 or message.routing_type == int(self.routing_type)

    # -- in --------------------------------------------------------------------------------------------------

    def offer(self, message: Message) -> bool:
        """Take a message that was sent just now; True: it passed through to the only consumer (`passing`)."""
        consumer = self.passing
        if consumer is not None:
            if (not message.durable or consumer.presettled) and pass_on(self, message):
                return True
            if keep_unlisted(self, message):
                return False
        self.take(message)
        return False

    def take(self, message: Message) -> None:
        """Take a message that was routed here.

        The message is ignored if the queue is disabled, or if it purges without consumers and has none.
        """
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
            self.expiry.note(expires_ms)
            self.expiry.may_be_on_disk = True
        is_stored = message.durable and self.is_stored and self.dispatcher.stores
        if message.delivery_time_ms > 0:
            message.delivery_time_ms = min(message.delivery_time_ms, LATEST_MS)
            if is_stored:
                self.dispatcher.storage_put(reference)
                self.schedule.add_stored(reference)
            else:
                self.schedule.add(reference, message.delivery_time_ms)
        else:
            if self._append(reference, is_stored) and is_stored:
                self.dispatcher.storage_put(reference)

    def take_stored(self, source: Reference) -> None:
        """Take a message that another queue has stored and unlinked; it is not stored a second time.

        The caller removes `source` from the store. The message has neither a delivery time nor an expiry.
        """
        message = source.message
        if not (source.handle and message.durable and self.is_stored and self.dispatcher.stores and self.keeps):
            self.take(message)
            return
        hold(message)
        self.messages_added += 1
        reference = Reference(message, self)
        if self._append(reference, True):
            self.dispatcher.storage.put_stored(reference, source)

    def adopt(self, message: Message) -> None:
        """Take over a message that another queue has set aside; its delivery time is over. It is not counted as new."""
        hold(message)
        reference = Reference(message, self)
        if message.expires_ms:
            self.expiry.note(message.expires_ms)
            self.expiry.may_be_on_disk = True
        is_stored = message.durable and self.is_stored and self.dispatcher.stores
        if self._append(reference, is_stored) and is_stored:
            self.dispatcher.storage.put(reference)

    def take_handed(self, message: Message, delivery_count: int, was_acquired: bool) -> None:
        """Take a message that another broker handed over, with the failed attempts that it had there."""
        hold(message)
        self.messages_added += 1
        reference = Reference(message, self)
        reference.delivery_count = delivery_count
        reference.was_acquired = was_acquired
        if message.expires_ms:
            self.expiry.note(message.expires_ms)
            self.expiry.may_be_on_disk = True
        is_stored = message.durable and self.is_stored and self.dispatcher.stores
        if self._append(reference, is_stored) and is_stored:
            self.dispatcher.storage.put(reference)
            if delivery_count > 0:
                self.dispatcher.storage.update(reference, 0)

    def restore(self, rank: int, count: int, size_bytes: int, scheduled_below: int) -> None:
        """Register messages that an earlier run left in the store; they are read when they are needed.

        It is not known whether any of them had been delivered, so none claims to be delivered for the first time
        (AMQP 1.0 §3.2.1, first-acquirer: false means "perhaps"). That includes scheduled messages: one may have become
        due, and been delivered, before its place in the queue was committed. Scheduled messages with a running number
        below `scheduled_below` are from an earlier run.
        """
        self.restored_below = self.next_sequence
        self.expiry.may_be_on_disk = True
        if rank == SCHEDULED_RANK:
            self.schedule.restore(count, size_bytes, scheduled_below)
        else:
            self.backlog.restore(PRIORITIES - 1 - rank, count, size_bytes)
            shrink_soon(self)

    @property
    def takes_ranges(self) -> bool:
        """Whether `expect` may be used: stored messages need not be examined before they are in the queue."""
        return (
            self.is_stored
            and self.dispatcher.stores
            and self.enabled
            and not self.purge_on_no_consumers
            and self.filter is None
            and self.entry is None
            and self.guard is None
            and self.history_ids is None
            and not self.is_deleted
        )

    def expect(self, priority: int, count: int, size_bytes: int) -> Arrival:
        """Take durable messages of one priority that the caller has the store move here (`Storage.move`).

        They have no delivery time, no expiry and no group.
        """
        arrival = Arrival(self, priority, self.next_sequence, count, size_bytes)
        self.messages_added += count
        self.next_sequence += count
        if self.next_sequence > self.sequence_limit:
            self.reserve_sequences()
        self.backlog.expect(arrival)
        return arrival

    def arrived(self, arrival: Arrival) -> None:
        """Note that messages that were expected can be read from the storage now."""
        self.backlog.arrived(arrival)
        self.dispatch.mark_ready()
        arrival.arrive()

    def committed(self, reference: Reference) -> None:
        """Note that a COLD reference can be read from the storage now; see `Storage.put`."""
        if reference.sequence == 0:
            self.schedule.committed(reference)
            return
        tail = self.backlog.tails[self.backlog.priority_of(reference)]
        if tail is not None:
            tail.committed(reference)

    def reserve_sequences(self) -> None:
        """Reserve the next sequences in the store, so that no later run uses them again."""
        self.sequence_limit = self.dispatcher.storage.reserve(self)

    def _append(self, reference: Reference, is_stored: bool) -> bool:
        """Make a reference visible: give it a sequence and put it last. Return False if the entry rule refuses it."""
        if self.entry is not None and not self.entry.admit(self, reference):
            self.messages_replaced += 1
            forget(reference)
            return False
        if reference.message.has_group and not self.has_groups:
            self.find_groups()
        sequence = self.next_sequence
        reference.sequence = sequence
        self.next_sequence = sequence + 1
        if sequence >= self.sequence_limit:
            self.reserve_sequences()
        self.backlog.append(reference, is_stored)
        dispatch = self.dispatch
        if self.consumers and not dispatch.is_ready:
            dispatch.is_ready = True
            self.dispatcher.ready.append(dispatch)
        return True

    def find_groups(self) -> None:
        """Use the rule for message groups from now on, if the attributes ask for it: the first such message is here."""
        self.has_groups = True
        choose_rules(self)

    def _on_due(self, reference: Reference) -> None:
        """Make a message that has become due visible."""
        if reference.sequence:
            self.aside.pop(reference.sequence, None)
            put_back(reference, None)
            return
        if not reference.handle:
            self._append(reference, False)
            return
        # The store keeps scheduled references separately: they have no place in the queue's order yet. The commit of
        # the old place may still be under way, so the new place gets a reference of its own.
        unstore(reference)
        reference.state = GONE
        visible = Reference(reference.message, self)
        visible.was_acquired = reference.was_acquired
        if visible.was_acquired and self.restored_below <= self.next_sequence:
            # If it is read from disk again, only its sequence tells which run it is from. Messages that arrived in
            # between then say "perhaps" as well.
            self.restored_below = self.next_sequence + 1
        if self._append(visible, self.dispatcher.stores):
            self.dispatcher.storage.put(visible)

    # -- out -------------------------------------------------------------------------------------------------

    # Protocols know queues and not `settlement`, most of whose functions are for core alone: hence these two.

    def give_back(self, reference: Reference, outcome: int) -> None:
        """Give back a delivery of this queue; see `settlement.give_back`."""
        give_back(reference, outcome)

    def amend(self, reference: Reference, message: Message) -> None:
        """Replace a delivered message by a changed one; see `settlement.amend`."""
        amend(reference, message)

    def purge(self) -> int:
        """Remove waiting and scheduled messages and return how many. Messages in delivery stay.

        They are gone at once. If there are many, their memory, and the stored copies of those in memory, are freed
        over the next iterations of the loop. `bulk.empty` ends when that is done.
        """
        count, rest = take_out(self)
        self.dispatcher.slices.start(rest)
        return count

    # -- configuration -----------------------------------------------------------------------------------------

    def configure(self, config: QueueConfig) -> None:
        """Apply `config`, completed by the settings of the address, to everything that may change.

        Raises InvalidFilter; nothing has changed then.
        """
        self.filter = parse_filter(config.filter) if config.filter else None
        config = self._with_fixed(config)
        self.config = config
        self.settings = settings = config.resolved(self.address.settings)
        self.enabled = config.enabled
        self.user = config.user
        self.configuration_managed = config.configuration_managed
        self.purge_on_no_consumers = settings.purge_on_no_consumers
        self.backlog.set_window(self.address.settings.max_read_page_messages, self.address.settings.max_read_page_bytes)
        choose_rules(self)
        shrink(self)
        self.dispatch.gate.check()
        self.dispatch.mark_ready()

    def count_exclusive(self, difference: int) -> None:
        """Note that a consumer that wants all messages for itself has attached (1) or left (-1)."""
        self.exclusive_consumers += difference
        if self.exclusive_consumers == (1 if difference > 0 else 0):
            choose_rules(self)

    def _with_fixed(self, config: QueueConfig) -> QueueConfig:
        """Return the configuration with what `default-…` settings decide once, when the queue is created.

        A queue that kept last values from some moment on would not know which of its messages are the last.
        """
        if self.internal:
            return config.changed(last_value=False)
        name = property_of(config, config.resolved(self.address.settings))
        if self.is_configured:
            if not self.settings.last_value:
                return config if name is None else config.changed(last_value=False)
            name = self.settings.last_value_key
        self.is_configured = True
        return config if name is None else config.changed(last_value=True, last_value_key=name)

    def pause(self) -> None:
        """Stop deliveries; messages still come in. A durable queue stays paused after a restart."""
        self.paused = True
        self._save()
        if self.dispatch.watcher is not None:
            self.dispatch.watcher.changed()

    def resume(self) -> None:
        """Resume deliveries."""
        self.paused = False
        self._save()
        self.dispatch.mark_ready()

    def _save(self) -> None:
        if self.is_stored:
            self.dispatcher.storage.save_queue(self)

    def delete(self, reason: str) -> None:
        """End all consumers and forget all messages; the directory has unbound the queue already."""
        self.is_deleted = True
        for consumer in list(self.consumers):
            detach(consumer, False)
            consumer.sink.ended(reason)
        for holder in list(self.holders):
            holder.sink.ended(reason)
        self.purge()
        if self.assignment is not None:
            self.assignment.ended(self)
            self.assignment = None
        self.schedule.cancel()
        self.dispatch.gate.cancel()
        if self.is_stored:
            self.dispatcher.storage.forget_queue(self)


def _sequence_of(reference: Reference) -> int:
    return reference.sequence


def queues_of(address: Address) -> list[Queue]:
    """Return the queues among the bindings of an address, in the order in which they were created."""
    return [binding for binding in address.bindings if isinstance(binding, Queue)]
