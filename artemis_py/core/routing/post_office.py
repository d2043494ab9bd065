"""The post office: all addresses and queues of a broker, and the way of a message to its queues.

It owns the address model and nothing else: sessions ask it with the rights of a client, the broker feeds it time.
"""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Protocol

from artemis_py.core.addresses.address import Address
from artemis_py.core.addresses.binding import Binding
from artemis_py.core.addresses.router import Router
from artemis_py.core.messages.message import Message
from artemis_py.core.names.routing_type import RoutingType
from artemis_py.core.names.syntax import WildcardTrie, is_unicode, parse_fqqn
from artemis_py.core.queues.dispatcher import Hub
from artemis_py.core.queues.queue import Queue, queues_of
from artemis_py.core.queues.storage import UNLIMITED, Scratch, Storage
from artemis_py.core.routing.creations import Creations
from artemis_py.core.routing.discards import Discards
from artemis_py.core.routing.duplicates import DuplicateCache, readable
from artemis_py.core.routing.routes import Routes
from artemis_py.core.routing.transaction import Transaction
from artemis_py.core.routing.undeliverable import Undeliverable
from artemis_py.core.runtime.access import AccessControl, OpenAccess, Subject
from artemis_py.core.runtime.accounts import (
    ADDRESS_BYTES,
    GLOBAL_REJECT_FACTOR,
    NAME_FACTOR,
    QUEUE_BYTES,
    MemoryAccount,
    tables_limit,
)
from artemis_py.core.runtime.entropy import Entropy
from artemis_py.core.runtime.events import (
    AddressAdded,
    AddressHasRoom,
    AddressIsFull,
    AddressRemoved,
    BindingAdded,
    BindingRemoved,
    Duplicate,
    Events,
    QueueAdded,
    QueueRemoved,
    StoreFailed,
    Unrouted,
)
from artemis_py.core.runtime.meter import ADDRESS_UNITS, QUEUE_UNITS, Meter
from artemis_py.core.services.retained import RESERVED, RetainedMessages
from artemis_py.core.services.staging import Staging
from artemis_py.core.settings.options import (
    DEFAULT_BROKER_SETTINGS,
    BrokerSettings,
    DiskFullPolicy,
    FullPolicy,
    PageFullPolicy,
    ResolvedSettings,
    SettingsRepository,
)
from artemis_py.core.settings.queue_config import CHANGEABLE, QueueConfig
from artemis_py.errors import (
    AddressExists,
    AddressFull,
    DuplicateMessage,
    InUse,
    InvalidRequest,
    NoSuchAddress,
    NoSuchQueue,
    QueueExists,
    RoutingTypeMismatch,
    StoreError,
)

if TYPE_CHECKING:
    from artemis_py.core.sessions.session import Session

# Long enough for any name a person or a client library makes, short enough to be a dictionary key and a log field.
MAX_NAME_LENGTH = 4096

# A routing table of so many queues is made in the time of a unit of work.
BINDINGS_PER_UNIT = 16

# Nodes of the trie of wildcard addresses that are visited in it.
STEPS_PER_UNIT = 4

# How long an address that was full must have room before that is told.
LASTING_ROOM_MS = 10_000


class Endpoint(Protocol):
    """Takes what is sent to one address, in place of queues: how the broker itself is spoken to."""

    def receive(self, message: Message, session: "Session") -> None:
        """Act on a message; whatever goes wrong is the reply's business, nothing is raised."""


class PostOffice:
    """Addresses, queues and routing."""

    def __init__(
        self,
        settings: SettingsRepository,
        storage: Storage,
        options: BrokerSettings = DEFAULT_BROKER_SETTINGS,
        access: AccessControl | None = None,
        events: Events | None = None,
        scratch: Scratch | None = None,
        entropy: Entropy | None = None,
    ) -> None:
        self.settings: SettingsRepository = settings
        self.subject_now: Callable[[Subject], Subject] = _as_it_was
        """A subject of an earlier login with its rights of now, to act in the name of a client that is gone."""
        self.options: BrokerSettings = options
        self.entropy: Entropy = Entropy() if entropy is None else entropy
        self.access: AccessControl = OpenAccess() if access is None else access
        self.events: Events = Events() if events is None else events
        self.hub: Hub = Hub(storage, scratch)
        self.meter: Meter = self.hub.meter
        self.creations: Creations = Creations()
        self.discards: Discards = Discards(self.hub, self.events)
        self._undeliverable: Undeliverable = Undeliverable(self)
        self.storage: Storage = storage
        self.addresses: dict[str, Address] = {}
        self.queues: dict[str, Queue] = {}
        self._duplicates: dict[str, DuplicateCache] = {}
        """What addresses remember of duplicate ids, by name; nothing until a producer gives one."""
        self.endpoints: dict[str, Endpoint] = {}
        self.sessions: dict[int, Session] = {}
        """Open sessions by id, for management."""
        self.account: MemoryAccount = self.hub.account
        self.account.set_limits(options.global_max_size_bytes, options.global_max_messages)
        self.account.can_spill = scratch is not None
        self.hub.tables.set_limits(tables_limit(options.global_max_size_bytes), -1)
        self.retained: RetainedMessages = RetainedMessages(self.hub, options.wildcards, self.addresses)
        self._storage_failure: str | None = None
        self._wild: WildcardTrie[Address] = WildcardTrie(options.wildcards)
        self._wildcard_version: int = 0
        self._next_message_id: int = 1
        self._next_queue_id: int = 1
        self._next_id: int = 1
        self.staging: Staging = Staging(self)
        settings.on_change(self._settings_changed)

    # -- time ------------------------------------------------------------------------------------------------

    @property
    def now_ms(self) -> int:
        """Milliseconds since 1970, as the driver said at the start of this turn."""
        return self.hub.now_ms

    @now_ms.setter
    def now_ms(self, value: int) -> None:
        self.hub.now_ms = value

    def run(self, budget: int = 1000) -> bool:
        """Deliver what can be delivered, at most `budget` messages; True: call again, there is more."""
        return self.hub.run(budget)

    def next_deadline_ms(self) -> int | None:
        """When `handle_deadlines` is due next."""
        return self.hub.timers.next_ms()

    def handle_deadlines(self) -> None:
        """Do what was planned for a moment up to `now_ms`."""
        self.hub.timers.run(self.hub.now_ms)

    def new_id(self) -> int:
        """A number that nothing else in this broker has (sessions, consumers, transactions)."""
        number = self._next_id
        self._next_id += 1
        return number

    def new_message_id(self) -> int:
        """A number that no other message has."""
        number = self._next_message_id
        self._next_message_id += 1
        return number

    def random(self) -> float:
        """A number in [0, 1)."""
        return self.entropy.random()

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
        """Create an address; it counts for `creator`. Raises AddressExists, InvalidRequest."""
        self._check_name("address", name)
        if "::" in name:
            raise InvalidRequest(f"'{name}' names a queue of an address; an address may not contain '::'")
        if not routing_types:
            raise InvalidRequest(f"address '{name}' needs a routing type: ANYCAST, MULTICAST or both")
        if name in self.addresses:
            raise AddressExists(f"address '{name}' exists already")
        address = Address(
            name, routing_types, self.settings.resolve(name), self.account, auto_created, temporary, internal, creator
        )
        self.creations.add(creator)
        address.created_ms = self.hub.now_ms
        self.hub.tables.occupy(ADDRESS_BYTES + NAME_FACTOR * len(name))
        self.meter.work += ADDRESS_UNITS
        self.addresses[name] = address
        if self.options.wildcards.routing_enabled and self.options.wildcards.is_wild(name):
            self._wild.add(name, address)
        self._save(address)
        self.events.emit(AddressAdded(name, auto_created))
        return address

    def update_address(self, name: str, routing_types: frozenset[RoutingType]) -> Address:
        """Change an address' routing types. Raises NoSuchAddress, InUse if a queue still needs one, InvalidRequest."""
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
        """Delete an address; with `force` its queues too. Raises NoSuchAddress, InUse."""
        address = self.address(name)
        if address.bindings and not force:
            names = ", ".join(f"'{binding.name}'" for binding in address.bindings[:5])
            raise InUse(f"address '{name}' still has queues: {names}")
        for queue in queues_of(address):
            self.delete_queue(queue.name, force=True, reason=reason)
        # Deleting the last queue of an auto-created address may have taken the address along.
        if self.addresses.pop(name, None) is not None:
            self.hub.tables.vacate(ADDRESS_BYTES + NAME_FACTOR * len(name))
            self.meter.work += ADDRESS_UNITS
            address.is_deleted = True
            cache = self._duplicates.pop(address.name, None)
            if cache is not None:
                cache.give_back()
            self.creations.remove(address.creator)
            # It refers back to it: without it the address goes at once, and not with a pause for all garbage together.
            address.router = None
            if self.options.wildcards.routing_enabled and self.options.wildcards.is_wild(name):
                self._wild.remove(name, address)
                self._wildcard_version += 1
            if not address.temporary:
                self.storage.forget_address(address)
            self.events.emit(AddressRemoved(name, reason))

    def address(self, name: str) -> Address:
        """The address of this name. Raises NoSuchAddress."""
        address = self.addresses.get(name)
        if address is None:
            raise NoSuchAddress(f"address '{name}' does not exist")
        return address

    def pause_address(self, name: str, paused: bool) -> None:
        """Stop or resume deliveries of all its queues, present and future. Raises NoSuchAddress."""
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
        """Create a queue on an address that exists; `id` is the number it had before a restart.

        Raises QueueExists, NoSuchAddress, RoutingTypeMismatch, InvalidFilter, InvalidRequest.
        """
        self._check_name("queue", config.name)
        if "::" in config.name and not id:
            # One that was stored before this was refused keeps its name.
            raise InvalidRequest(f"the name of queue '{config.name}' may not contain '::', which ends an address")
        existing = self.queues.get(config.name)
        if existing is not None:
            raise QueueExists(
                f"queue '{config.name}' exists already, on address '{existing.address.name}'; "
                "queue names are unique in the whole broker"
            )
        address = self.address(config.address)
        routing_type = config.routing_type
        if routing_type is None:
            routing_type = address.settings.default_queue_routing_type
        if routing_type not in address.routing_types:
            raise RoutingTypeMismatch(
                f"address '{address.name}' is not configured for {_kind(routing_type)} support; "
                f"queue '{config.name}' needs {routing_type.name}"
            )
        queue = Queue(self.hub, config, address, id or self._next_queue_id, routing_type, self._undeliverable)
        queue.configure(config)
        self._next_queue_id = max(self._next_queue_id, queue.id + 1)
        self.hub.tables.occupy(QUEUE_BYTES + NAME_FACTOR * len(queue.name))
        self.meter.work += QUEUE_UNITS
        self.queues[config.name] = queue
        self.creations.add(config.creator)
        address.bindings.append(queue)
        self._bindings_changed(address)
        if queue.is_stored:
            self.storage.save_queue(queue)
            queue.reserve_sequences()
        self.events.emit(QueueAdded(queue.name, address.name, queue.auto_created))
        if self.events.wants(BindingAdded):
            self.events.emit(BindingAdded(queue.name, address.name, routing_type))
        return queue

    def update_queue(self, name: str, changes: Mapping[str, object]) -> Queue:
        """Change attributes, named as in QueueConfig.

        Raises NoSuchQueue, InvalidRequest for an attribute that is fixed or a value that cannot be, InvalidFilter.
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
        consumers = sum(not consumer.browse for consumer in queue.consumers)
        if config.max_consumers is not None and 0 <= config.max_consumers < consumers:
            raise InvalidRequest(f"queue '{name}' has {consumers} consumers, more than max-consumers would be")
        queue.configure(config)
        queue.routing_type = routing_type
        # Routing tables remember types and whether there is a filter.
        self._bindings_changed(queue.address)
        if queue.is_stored:
            self.storage.save_queue(queue)
        return queue

    def delete_queue(self, name: str, force: bool = False, reason: str = "deleted by request") -> None:
        """Delete a queue with its messages; with `force` although it has consumers. Raises NoSuchQueue, InUse."""
        queue = self.queue(name)
        if queue.consumers and not force:
            raise InUse(f"queue '{name}' still has {len(queue.consumers)} consumers")
        address = queue.address
        self.hub.tables.vacate(QUEUE_BYTES + NAME_FACTOR * len(name))
        self.meter.work += QUEUE_UNITS
        del self.queues[name]
        self.creations.remove(queue.config.creator)
        address.bindings.remove(queue)
        address.binding_removed_ms = self.hub.now_ms
        self._bindings_changed(address)
        queue.delete(reason)
        self.events.emit(QueueRemoved(name, address.name, reason))
        if self.events.wants(BindingRemoved):
            self.events.emit(BindingRemoved(name, address.name, queue.routing_type))

    def queue(self, name: str) -> Queue:
        """The queue of this name. Raises NoSuchQueue."""
        queue = self.queues.get(name)
        if queue is None:
            raise NoSuchQueue(f"queue '{name}' does not exist")
        return queue

    def find_queue(self, text: str) -> Queue | None:
        """The queue that `name`, `address::name` or `::name` means, if it is there."""
        address, name = parse_fqqn(text)
        if name is None:
            return self.queues.get(address)
        queue = self.queues.get(name)
        if queue is None or (address and queue.address.name != address):
            return None
        return queue

    def _check_name(self, kind: str, name: str) -> None:
        if not name:
            raise InvalidRequest(f"the name of {'an' if kind == 'address' else 'a'} {kind} may not be empty")
        if len(name) > MAX_NAME_LENGTH:
            raise InvalidRequest(f"the name of the {kind} has {len(name)} characters; {MAX_NAME_LENGTH} are allowed")
        if not is_unicode(name):
            raise InvalidRequest(f"the name of the {kind} has half a character, which cannot be stored: {name!r}")

    def _bindings_changed(self, address: Address) -> None:
        address.unrouted_reported = False
        if address.router is not None:
            address.router.is_stale = True
        if self.options.wildcards.routing_enabled and self.options.wildcards.is_wild(address.name):
            self._wildcard_version += 1

    def _settings_changed(self) -> None:
        for address in self.addresses.values():
            address.apply_settings(self.settings.resolve(address.name))
        for queue in self.queues.values():
            queue.configure(queue.config)

    # -- storage ---------------------------------------------------------------------------------------------

    def go_on_from(self, message_id: int, queue_id: int) -> None:
        """Number new messages and queues from these on, or higher: what a restart has to take care of."""
        self._next_message_id = max(self._next_message_id, message_id)
        self._next_queue_id = max(self._next_queue_id, queue_id)

    def storage_failed(self, reason: str) -> None:
        """Nothing becomes durable any more: refuse what asks for it; everything else goes on in memory."""
        self._storage_failure = reason
        self.hub.stores = False
        self.account.close()
        self.hub.stored(UNLIMITED)
        self.events.emit(StoreFailed(reason))

    @property
    def storage_failure(self) -> str | None:
        """Why nothing is stored any more; None while it is."""
        return self._storage_failure

    def stored(self, batch: int) -> bool:
        """All references up to this batch are durable; True if some may be delivered now: `run` is to be called."""
        return self.hub.stored(batch)

    # -- routing ---------------------------------------------------------------------------------------------

    def register_endpoint(self, address: str, endpoint: Endpoint) -> None:
        """Have `endpoint` take everything that is sent to `address`."""
        self.endpoints[address] = endpoint

    def router(self, address: Address) -> Router:
        """The router of an address, made again if bindings changed."""
        router = address.router
        if router is None or router.is_stale or router.wildcard_version != self._wildcard_version:
            bound = [address.bindings]
            steps = self._wild.steps
            if self.options.wildcards.routing_enabled:
                is_reserved = address.name.startswith(RESERVED)
                for wild in self._wild.match(address.name):
                    # Who subscribes to everything does not mean what the broker says of itself [MQTT-4.7.2-1].
                    if wild is not address and not (is_reserved and self._begins_wild(wild.name)):
                        bound.append(wild.bindings)
            previous = router if isinstance(router, Routes) else None
            routes = Routes(bound, previous, self._wildcard_version)
            self.meter.work += routes.size // BINDINGS_PER_UNIT + (self._wild.steps - steps) // STEPS_PER_UNIT
            router = address.router = routes
        return router

    def has_wildcard_queue(self, name: str) -> bool:
        """Whether a queue of a wildcard address gets what is sent to this name."""
        return self.options.wildcards.routing_enabled and any(wild.bindings for wild in self._wild.match(name))

    def _begins_wild(self, pattern: str) -> bool:
        """Whether the first word of a pattern is a wildcard."""
        wildcards = self.options.wildcards
        return pattern.partition(wildcards.delimiter)[0] in (wildcards.any_words, wildcards.single_word)

    def deposit(self, message: Message, queue: Queue) -> None:
        """Put a message into one queue, past routing and the limits of its address: a copy for a late subscriber."""
        message.id = self._next_message_id
        self._next_message_id += 1
        message.origin = queue.address
        queue.take(message)

    def route(
        self, message: Message, address: Address, queue_name: str = "", transaction: Transaction | None = None
    ) -> int:
        """Send a message through an address, or to one queue of it; returns how many queues got it.

        With a transaction they get it at its commit. Raises AddressFull when that is the address' policy, StoreError
        for a durable message after the storage failed.
        """
        message.id = self._next_message_id
        self._next_message_id += 1
        message.address = address.name
        message.origin = address
        if (address.account.is_full or self.account.is_full) and not address.internal:
            if self._storage_failure is not None and message.durable:
                raise StoreError(f"nothing can be stored any more: {self._storage_failure}")
            if self._is_dropped(address):
                return 0
        if address.changes_messages:
            self._change(message, address.settings)
        router = address.router
        if (
            router is not None
            and router.only is not None
            and not router.is_stale
            and router.wildcard_version == self._wildcard_version
            and message.routing_type != 0
            and not queue_name
            and transaction is None
        ):
            address.routed += 1
            router.only.take(message)
            return 1
        return self._hand_over(message, address, queue_name, transaction)

    def route_once(
        self,
        message: Message,
        address: Address,
        queue_name: str,
        transaction: Transaction | None,
        duplicate_id: bytes,
    ) -> int:
        """As `route`, for a message under an id: 0 if the address has taken one under the same id (reference §3.13).

        A transaction can then only be rolled back; outside of one the sender need not know. The id is remembered with
        the message: both are durable at the same moment.
        """
        cache = self.duplicates(address)
        if duplicate_id in cache or (transaction is not None and transaction.has_claimed(address, duplicate_id)):
            self.events.emit(Duplicate(address.name, readable(duplicate_id)))
            if transaction is not None:
                transaction.fail(DuplicateMessage(f"address '{address.name}' took a message under the same id before"))
            return 0
        message.stored_first = True
        count = self.route(message, address, queue_name, transaction)
        if transaction is None:
            cache.add(duplicate_id, message.durable, self.id_cache_size(address))
        else:
            transaction.claim(address, duplicate_id)
        return count

    def admit(self, message: Message, address: Address) -> bool:
        """What `route` does before it looks for queues, for a message that is routed later; False: it is dropped.

        Raises AddressFull, StoreError.
        """
        message.id = self._next_message_id
        self._next_message_id += 1
        message.address = address.name
        message.origin = address
        if (address.account.is_full or self.account.is_full) and not address.internal:
            if self._storage_failure is not None and message.durable:
                raise StoreError(f"nothing can be stored any more: {self._storage_failure}")
            if self._is_dropped(address):
                return False
        if address.changes_messages:
            self._change(message, address.settings)
        return True

    def release(self, message: Message, address: Address) -> int:
        """Route a message that was admitted before; returns how many queues got it."""
        address.take_over(message)
        message.stored_first = True
        return self._hand_over(message, address, "", None)

    def commit(self, transaction: Transaction) -> None:
        """Make everything happen. Raises TransactionRolledBack, everything undone, if something had failed.

        It also fails if an address has meanwhile taken a message under an id that this transaction uses.
        """
        claims = transaction.claims
        if not claims:
            transaction.commit()
            return
        for address, id in claims:
            cache = self._duplicates.get(address.name)
            if cache is not None and not address.is_deleted and id in cache:
                self.events.emit(Duplicate(address.name, readable(id)))
                transaction.fail(
                    DuplicateMessage(f"address '{address.name}' took a message under the same id meanwhile")
                )
        durable = transaction.is_durable
        transaction.commit()
        for address, id in claims:
            cache = self._duplicates.get(address.name)
            if cache is not None and not address.is_deleted:
                cache.add(id, durable, self.id_cache_size(address))

    def duplicates(self, address: Address) -> DuplicateCache:
        """What an address remembers of duplicate ids, read from the store when first asked for."""
        cache = self._duplicates.get(address.name)
        if cache is None:
            stores = self.options.persist_id_cache and not address.temporary
            cache = self._duplicates[address.name] = DuplicateCache(address, self.storage if stores else None)
        return cache

    def id_cache_size(self, address: Address) -> int:
        """How many duplicate ids an address remembers."""
        size = address.settings.id_cache_size
        return self.options.id_cache_size if size < 0 else size

    def _hand_over(self, message: Message, address: Address, queue_name: str, transaction: Transaction | None) -> int:
        router = address.router
        if router is None or router.is_stale or router.wildcard_version != self._wildcard_version:
            router = self.router(address)
        if queue_name:
            targets = self.named_target(message, address, queue_name)
        else:
            targets = router.select(message)
            self.meter.work += router.choices
        if not targets:
            self._unrouted(message, address, transaction)
            return 0
        address.routed += 1
        self.meter.work += len(targets)
        if transaction is not None:
            transaction.send(message, targets)
        else:
            for target in targets:
                target.take(message)
        return len(targets)

    def named_target(self, message: Message, address: Address, queue_name: str) -> list[Binding]:
        """The one queue an FQQN means, if it is bound here and its filter wants the message (reference §1.5)."""
        queue = self.queues.get(queue_name)
        if queue is None or not queue.accepts(message):
            return []
        if queue.address is not address and not self.options.wildcards.matches(queue.address.name, address.name):
            return []
        return [queue]

    def _unrouted(self, message: Message, address: Address, transaction: Transaction | None) -> None:
        address.unrouted += 1
        if not address.unrouted_reported and not address.internal:
            address.unrouted_reported = True
            self.events.emit(Unrouted(address.name))
        self._undeliverable.unrouted(message, address, transaction)

    def _is_dropped(self, address: Address) -> bool:
        """A message arrives for a full address: True to drop it, False to take it. Raises AddressFull."""
        if self.account.disk_is_full and self._is_dropped_for_disk(address):
            return True
        if address.is_page_full:
            return self._is_page_dropped(address)
        if not address.account.is_full and not self.account.is_over_limit:
            return False
        policy = address.settings.address_full_policy
        account = address.account if address.account.is_full else self.account
        if not address.full_reported:
            address.full_reported = True
            self.events.emit(AddressIsFull(address.name, policy.value, account.size_bytes))
            account.when_room(lambda: self._has_room(address, account))
        if policy is FullPolicy.DROP:
            return True
        threshold = address.settings.max_size_bytes_reject_threshold
        hard_limit = GLOBAL_REJECT_FACTOR * self.account.max_bytes
        if (
            policy is FullPolicy.FAIL
            or 0 <= threshold <= address.account.size_bytes
            or 0 <= hard_limit <= self.account.size_bytes
        ):
            raise AddressFull(f"address '{address.name}' is full")
        # PAGE: what is not durable goes to disk. BLOCK: credit that is out is honoured, no more is given.
        return False

    def _is_page_dropped(self, address: Address) -> bool:
        """A message arrives for an address at its page limit: True to drop it. Raises AddressFull."""
        policy = address.settings.page_full_policy
        if not address.page_full_reported:
            address.page_full_reported = True
            self.events.emit(AddressIsFull(address.name, f"PAGE, then {policy.value}", address.paged_bytes))
        if policy is PageFullPolicy.FAIL:
            raise AddressFull(f"address '{address.name}' has reached its page limit")
        return True

    def _is_dropped_for_disk(self, address: Address) -> bool:
        """The same while the disk is nearly full: credit that is out is honoured until little of it is left."""
        policy = address.settings.disk_full_policy
        if policy is DiskFullPolicy.DROP:
            return True
        if policy is DiskFullPolicy.FAIL or self.account.disk_is_exhausted:
            raise AddressFull(f"address '{address.name}' takes no messages: the broker's disk is nearly full")
        return False

    def disk_changed(self, is_full: bool, is_exhausted: bool) -> None:
        """Hold producers back or let them go on, as `disk-full-policy` says; consumers go on in any case.

        `is_exhausted`: so little is left that messages are refused whatever the policy.
        """
        self.account.disk_is_full = is_full
        self.account.disk_is_exhausted = is_exhausted
        self.account.update()

    def _has_room(self, address: Address, account: MemoryAccount) -> None:
        """Tell it if that lasts: an address that stays at its limit has room again and again."""
        self.hub.timers.at(self.hub.now_ms + LASTING_ROOM_MS, lambda: self._still_has_room(address, account))

    def _still_has_room(self, address: Address, account: MemoryAccount) -> None:
        if account.is_over_limit:
            account.when_room(lambda: self._has_room(address, account))
            return
        address.full_reported = False
        self.events.emit(AddressHasRoom(address.name))

    def _change(self, message: Message, settings: ResolvedSettings) -> None:
        """Do to a message what the settings of its address say (`ResolvedSettings.changes_messages`)."""
        if settings.enable_ingress_timestamp:
            message.set_extra("_AMQ_INGRESS_TIMESTAMP", self.hub.now_ms)
        self._apply_expiry(message, settings)

    def _apply_expiry(self, message: Message, settings: ResolvedSettings) -> None:
        """Reference §3.9: no-expiry, then expiry-delay for messages that have none, then the bounds."""
        now_ms = self.hub.now_ms
        if settings.no_expiry:
            message.expires_ms = 0
        elif settings.expiry_delay >= 0:
            if message.expires_ms == 0:
                message.expires_ms = now_ms + settings.expiry_delay
        else:
            shortest, longest = settings.min_expiry_delay, settings.max_expiry_delay
            if message.expires_ms == 0:
                if longest >= 0:
                    message.expires_ms = now_ms + longest
                elif shortest >= 0:
                    message.expires_ms = now_ms + shortest
            elif longest >= 0 and message.expires_ms > now_ms + longest:
                message.expires_ms = now_ms + longest
            elif shortest >= 0 and message.expires_ms < now_ms + shortest:
                message.expires_ms = now_ms + shortest


def _kind(routing_type: RoutingType) -> str:
    return "queue" if routing_type is RoutingType.ANYCAST else "topic"


def _as_it_was(subject: Subject) -> Subject:
    return subject
