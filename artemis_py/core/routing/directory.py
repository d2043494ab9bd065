"""The directory: the addresses, queues and other bindings of one domain.

It creates, changes, finds and deletes them, and keeps the store and the routers of addresses up to date. Messages are
handled in `routing`.
"""

from collections.abc import Mapping

from artemis_py.core.addresses.address import Address
from artemis_py.core.addresses.binding import Binding
from artemis_py.core.messages.message import Message
from artemis_py.core.names.routing_type import RoutingType
from artemis_py.core.names.syntax import parse_fqqn
from artemis_py.core.queues.dispatcher import Dispatcher
from artemis_py.core.queues.queue import Queue, queues_of
from artemis_py.core.queues.storage import HostRecords, RecordStorage, Storage
from artemis_py.core.routing.companion import Companion
from artemis_py.core.routing.creations import Creations
from artemis_py.core.routing.departed import Departed
from artemis_py.core.routing.discards import DeadLetters, Discards
from artemis_py.core.routing.duplicates import Duplicates
from artemis_py.core.routing.names import check_address_name, check_name, check_queue_name
from artemis_py.core.routing.routers import Routers
from artemis_py.core.routing.temporary_names import TemporaryNames
from artemis_py.core.routing.undeliverable import Undeliverable
from artemis_py.core.runtime.accounts import ADDRESS_BYTES, NAME_FACTOR, QUEUE_BYTES, MemoryAccount
from artemis_py.core.runtime.entropy import Entropy
from artemis_py.core.runtime.event_facts import BindingFacts
from artemis_py.core.runtime.events import (
    AddressAdded,
    AddressRemoved,
    BindingAdded,
    BindingRemoved,
    BindingUpdated,
    Events,
    QueueAdded,
    QueueRemoved,
)
from artemis_py.core.runtime.meter import ADDRESS_UNITS, QUEUE_UNITS, Meter
from artemis_py.core.settings.broker_settings import BrokerSettings
from artemis_py.core.settings.queue_config import CHANGEABLE, QueueConfig
from artemis_py.core.settings.repository import SettingsRepository
from artemis_py.errors import (
    AddressExists,
    InUse,
    InvalidRequest,
    LimitExceeded,
    NoSuchAddress,
    NoSuchQueue,
    QueueExists,
    RoutingTypeMismatch,
)


class Directory:
    """The addresses, queues and other bindings of one domain."""

    def __init__(
        self,
        settings: SettingsRepository,
        dispatcher: Dispatcher,
        options: BrokerSettings,
        events: Events,
        entropy: Entropy,
        host: int = 0,
    ) -> None:
        self.settings: SettingsRepository = settings
        self.options: BrokerSettings = options
        self.events: Events = events
        self.entropy: Entropy = entropy
        self.temporary_names: TemporaryNames = TemporaryNames(entropy)
        self.dispatcher: Dispatcher = dispatcher
        self.meter: Meter = dispatcher.meter
        self.account: MemoryAccount = dispatcher.account
        self.storage: Storage = dispatcher.storage
        self.host: int = host
        """Id of the virtual host that this is; 0: the default host."""
        self.records: RecordStorage = dispatcher.storage if host == 0 else HostRecords(dispatcher.storage, host)
        """The part of the storage for records of this host."""
        self.max_queues: int = -1
        """Limit for the number of queues, without the broker's own; -1: none."""
        self.internal_queues: int = 0
        """Number of queues that the broker has for itself."""
        self.addresses: dict[str, Address] = {}
        self.queues: dict[str, Queue] = {}
        self.others: dict[str, Binding] = {}
        """Bindings that are not queues, by name: diverts, and bindings of third-party packages."""
        self.companions: list[Companion] = []
        """Services that add to addresses and queues in the same turn in which these are created or deleted."""
        self.reserved: set[str] = set()
        """Names that services have for addresses and queues of their own, which no client may use or change."""
        self.creations: Creations = Creations()
        self.departed: Departed = Departed()
        self.duplicates: Duplicates = Duplicates(dispatcher.storage, options)
        self.discards: Discards = Discards(dispatcher, events)
        self.dead_letters: DeadLetters = DeadLetters(dispatcher, events)
        self.undeliverable: Undeliverable = Undeliverable(self, self.discards, self.dead_letters, entropy)
        self.routers: Routers = Routers(options.wildcards, dispatcher.meter)

    # -- addresses -------------------------------------------------------------------------------------------

    def create_address(
        self,
        name: str,
        routing_types: frozenset[RoutingType],
        auto_created: bool = False,
        temporary: bool = False,
        internal: bool = False,
        creator: str | None = None,
    ) -> Address:
        """Create an address, which counts for `creator`. Raises AddressExists, InvalidRequest."""
        check_address_name(name)
        if not routing_types:
            raise InvalidRequest(f"address '{name}' needs a routing type: ANYCAST, MULTICAST or both")
        if name in self.addresses:
            raise AddressExists(f"address '{name}' exists already")
        address = Address(
            name,
            routing_types,
            self.settings.resolve(name),
            self.account,
            auto_created,
            temporary,
            internal,
            creator,
            host=self.host,
        )
        self.creations.add(creator)
        address.created_steady_ms = self.dispatcher.steady_ms
        self.dispatcher.tables.occupy(ADDRESS_BYTES + NAME_FACTOR * len(name))
        self.meter.work += ADDRESS_UNITS
        self.addresses[name] = address
        self.routers.add(address)
        self._save(address)
        self.events.emit(AddressAdded(name, auto_created))
        for companion in self.companions:
            companion.address_added(address)
        return address

    def update_address(self, name: str, routing_types: frozenset[RoutingType]) -> Address:
        """Change the routing types of an address. Raises NoSuchAddress, InvalidRequest, InUse if a queue needs one."""
        address = self.address(name)
        if not routing_types:
            raise InvalidRequest(f"address '{name}' needs a routing type: ANYCAST, MULTICAST or both")
        for queue in queues_of(address):
            if queue.routing_type not in routing_types:
                raise InUse(
                    f"address '{name}' cannot drop {queue.routing_type.name}: queue '{queue.name}' is of that type"
                )
        address.routing_types = routing_types
        self._save(address)
        return address

    def delete_address(self, name: str, force: bool = False, reason: str = "deleted by request") -> None:
        """Delete an address; with `force`, its queues too. Raises NoSuchAddress, InUse."""
        address = self.address(name)
        if address.bindings and not force:
            names = ", ".join(f"'{binding.name}'" for binding in address.bindings[:5])
            raise InUse(f"address '{name}' still has queues: {names}")
        for queue in queues_of(address):
            self.delete_queue(queue.name, force=True, reason=reason)
        for binding in [*address.bindings, *address.accessories]:
            self.unbind(binding)
        # Deleting the last queue of an auto-created address may have deleted the address as well.
        if self.addresses.pop(name, None) is not None:
            self.dispatcher.tables.vacate(ADDRESS_BYTES + NAME_FACTOR * len(name))
            self.meter.work += ADDRESS_UNITS
            address.is_deleted = True
            self.duplicates.forget(address)
            self.departed.address_removed(address)
            self.creations.remove(address.creator)
            # The router refers back to the address: without this cycle the address is freed at once, not by the garbage
            # collector, which would pause for all garbage together.
            address.router = None
            self.routers.remove(address)
            if not address.temporary:
                self.storage.forget_address(address)
            self.events.emit(AddressRemoved(name, reason, address.routing_types))
            for companion in self.companions:
                companion.address_removed(address)

    def address(self, name: str) -> Address:
        """Return the address of this name. Raises NoSuchAddress."""
        address = self.addresses.get(name)
        if address is None:
            raise NoSuchAddress(f"address '{name}' does not exist")
        return address

    def pause_address(self, name: str, paused: bool) -> None:
        """Stop or resume the deliveries of all queues of an address, present and future. Raises NoSuchAddress."""
        address = self.address(name)
        address.paused = paused
        self._save(address)
        if not paused:
            for queue in queues_of(address):
                queue.dispatch.mark_ready()

    def _save(self, address: Address) -> None:
        if not address.temporary:
            self.storage.save_address(address)

    # -- queues ----------------------------------------------------------------------------------------------

    def create_queue(self, config: QueueConfig, id: int = 0) -> Queue:
        """Create a queue on an address that exists; `id` is the number it had before a restart, 0 for a new queue.

        Raises QueueExists, NoSuchAddress, RoutingTypeMismatch, InvalidFilter, InvalidRequest, LimitExceeded.
        """
        check_queue_name(config.name, is_stored=id != 0)
        self.check_unused(config.name)
        if 0 <= self.max_queues <= len(self.queues) - self.internal_queues and id == 0 and not config.internal:
            count = len(self.queues) - self.internal_queues
            raise LimitExceeded(f"there are {count} queues, and max-queues is {self.max_queues}")
        address = self.address(config.address)
        routing_type = config.routing_type
        if routing_type is None:
            routing_type = address.settings.default_queue_routing_type
        if routing_type not in address.routing_types:
            raise RoutingTypeMismatch(
                f"address '{address.name}' is not configured for {_kind(routing_type)} support; "
                f"queue '{config.name}' needs {routing_type.name}"
            )
        numbers = self.dispatcher.numbers
        queue = Queue(self.dispatcher, config, address, id or numbers.queue_id, routing_type, self.undeliverable)
        queue.configure(config)
        numbers.queue_id = max(numbers.queue_id, queue.id + 1)
        self.dispatcher.tables.occupy(QUEUE_BYTES + NAME_FACTOR * len(queue.name))
        self.meter.work += QUEUE_UNITS
        self.queues[config.name] = queue
        self.internal_queues += config.internal
        self._count(config, True)
        address.bindings.append(queue)
        self.bindings_changed(address)
        if queue.is_stored:
            self.storage.save_queue(queue)
            queue.reserve_sequences()
        self.events.emit(QueueAdded(queue.name, address.name, queue.auto_created))
        self._tell_bound(queue)
        if id == 0:
            for companion in self.companions:
                companion.queue_created(queue)
        return queue

    def _count(self, config: QueueConfig, is_there: bool) -> None:
        """Count a queue for its creator, or subtract it."""
        users, creator = self.dispatcher.users, config.creator
        if is_there:
            users.queue_added(creator)
            if config.auto_created:
                self.creations.add(creator)
        else:
            users.queue_removed(creator)
            if config.auto_created:
                self.creations.remove(creator)

    def update_queue(self, name: str, changes: Mapping[str, object]) -> Queue:
        """Change attributes of a queue, named as in QueueConfig.

        Raises NoSuchQueue, InvalidFilter, RoutingTypeMismatch, and InvalidRequest for an attribute that is fixed or a
        value that is not allowed.
        """
        queue = self.queue(name)
        for attribute in changes:
            if attribute not in CHANGEABLE:
                raise InvalidRequest(f"'{attribute}' of queue '{name}' cannot be changed")
        config = queue.config.changed(**changes)
        routing_type = config.routing_type if config.routing_type is not None else queue.routing_type
        if routing_type not in queue.address.routing_types:
            raise RoutingTypeMismatch(
                f"address '{queue.address.name}' is not configured for {_kind(routing_type)} support"
            )
        consumers = sum(not consumer.is_browser for consumer in queue.consumers)
        if config.max_consumers is not None and 0 <= config.max_consumers < consumers:
            raise InvalidRequest(f"queue '{name}' has {consumers} consumers, more than the new max-consumers")
        filter = queue.filter
        queue.configure(config)
        queue.routing_type = routing_type
        # Routing tables remember types and whether there is a filter.
        self.bindings_changed(queue.address)
        if queue.filter != filter:
            self.tell_updated(queue)
        if queue.is_stored:
            self.storage.save_queue(queue)
        for companion in self.companions:
            companion.queue_updated(queue)
        return queue

    def delete_queue(self, name: str, force: bool = False, reason: str = "deleted by request") -> None:
        """Delete a queue with its messages; with `force`, even if it has consumers or a service needs it.

        Raises NoSuchQueue, InUse.
        """
        queue = self.queue(name)
        if queue.consumers and not force:
            raise InUse(f"queue '{name}' still has {len(queue.consumers)} consumers")
        if not force:
            self.check_queue_removal(queue)
        address = queue.address
        self.dispatcher.tables.vacate(QUEUE_BYTES + NAME_FACTOR * len(name))
        self.meter.work += QUEUE_UNITS
        del self.queues[name]
        self.internal_queues -= queue.config.internal
        self._count(queue.config, False)
        self._remove(queue)
        queue.delete(reason)
        self.departed.queue_removed(queue)
        self.events.emit(QueueRemoved(name, address.name, reason))
        self._tell_unbound(queue)
        for companion in self.companions:
            companion.queue_removed(queue)

    def check_queue_removal(self, queue: Queue) -> None:
        """Raise InUse if a service needs a queue."""
        for companion in self.companions:
            companion.check_queue_removal(queue)

    def queue(self, name: str) -> Queue:
        """Return the queue of this name. Raises NoSuchQueue."""
        queue = self.queues.get(name)
        if queue is None:
            raise NoSuchQueue(f"queue '{name}' does not exist")
        return queue

    def find_queue(self, text: str) -> Queue | None:
        """Return the queue that `name`, `address::name` or `::name` means; None if there is none."""
        address, name = parse_fqqn(text)
        if name is None:
            return self.queues.get(address)
        queue = self.queues.get(name)
        if queue is None or (address and queue.address.name != address):
            return None
        return queue

    def named_target(self, message: Message, address: Address, queue_name: str) -> list[Binding]:
        """Return the one queue that an FQQN means, if it is bound here and accepts the message (artemis-model §1.5)."""
        queue = self.queues.get(queue_name)
        if queue is None or not queue.accepts(message):
            return []
        if queue.address is not address and not self.options.wildcards.matches(queue.address.name, address.name):
            return []
        return [queue]

    # -- bindings --------------------------------------------------------------------------------------------

    def bind(self, binding: Binding) -> None:
        """Bind a binding other than a queue to its address; queues are bound by `create_queue`.

        Raises NoSuchAddress if its address is not in this domain, QueueExists if another binding has its name,
        InvalidRequest for a name that is not allowed.
        """
        check_name("binding", binding.name)
        self.check_unused(binding.name)
        address = binding.address
        if self.address(address.name) is not address:
            raise NoSuchAddress(f"address '{address.name}' was deleted, and another one has its name")
        self.others[binding.name] = binding
        if binding.is_accessory:
            address.accessories = (*address.accessories, binding)
        else:
            address.bindings.append(binding)
        self.routers.forwarding += binding.forwards
        self.bindings_changed(address)
        self._tell_bound(binding)

    def unbind(self, binding: Binding) -> None:
        """Unbind a binding other than a queue; does nothing if it is not bound."""
        if self.others.get(binding.name) is binding:
            del self.others[binding.name]
            binding.is_deleted = True
            self.routers.forwarding -= binding.forwards
            self._remove(binding)
            self._tell_unbound(binding)
            binding.unbound()

    def has_wildcard_queue(self, name: str) -> bool:
        """Tell whether something bound to a wildcard address gets messages sent to this name."""
        return self.routers.have_binding_for(name)

    def _remove(self, binding: Binding) -> None:
        address = binding.address
        if binding.is_accessory:
            address.accessories = tuple([each for each in address.accessories if each is not binding])
        else:
            address.bindings.remove(binding)
            address.binding_removed_steady_ms = self.dispatcher.steady_ms
        self.bindings_changed(address)

    def bindings_changed(self, address: Address) -> None:
        """Have the routers of an address made again, because one of its bindings has changed."""
        address.unrouted_reported = False
        self.routers.bindings_changed(address)

    def _tell_bound(self, binding: Binding) -> None:
        if self.events.wants(BindingAdded):
            facts = _facts_of(binding)
            self.events.emit(BindingAdded(binding.name, binding.address.name, binding.routing_type, facts))

    def tell_updated(self, binding: Binding) -> None:
        """Tell that a binding, which stays where it is, takes other messages or does something else with them."""
        if self.events.wants(BindingUpdated):
            facts = _facts_of(binding)
            self.events.emit(BindingUpdated(binding.name, binding.address.name, binding.routing_type, facts))

    def _tell_unbound(self, binding: Binding) -> None:
        if self.events.wants(BindingRemoved):
            facts = _facts_of(binding)
            self.events.emit(BindingRemoved(binding.name, binding.address.name, binding.routing_type, facts))

    # -- checks ----------------------------------------------------------------------------------------------

    def check_unused(self, name: str) -> None:
        """Raise QueueExists if a binding has this name."""
        queue = self.queues.get(name)
        if queue is not None:
            raise QueueExists(
                f"queue '{name}' exists already, on address '{queue.address.name}'; "
                "queue names are unique in the whole broker"
            )
        other = self.others.get(name)
        if other is not None:
            raise QueueExists(f"'{name}' is bound to address '{other.address.name}' already")

    # -- settings --------------------------------------------------------------------------------------------

    def apply_settings(self) -> None:
        """Apply changed address settings to all addresses and queues."""
        for address in self.addresses.values():
            address.apply_settings(self.settings.resolve(address.name))
        for queue in self.queues.values():
            queue.configure(queue.config)


def _facts_of(binding: Binding) -> BindingFacts:
    """Return what listeners are told of a binding."""
    return BindingFacts(
        binding.id if isinstance(binding, Queue) else 0,
        binding.routing_name or binding.name,
        None if binding.filter is None else binding.filter.text,
        binding.forwards,
        binding.internal if isinstance(binding, Queue) else binding.is_accessory,
    )


def _kind(routing_type: RoutingType) -> str:
    return "queue" if routing_type is RoutingType.ANYCAST else "topic"
