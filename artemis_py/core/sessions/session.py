"""A session: what a protocol handler holds towards the core, with the rights of one client.

Every operation is checked against the client's permissions here, so that no protocol can forget it. The rule that
decides which addresses and queues come into being on demand (reference §1.3) is here too, once for all protocols.
"""

from collections.abc import Mapping
from typing import Protocol

from artemis_py.core.addresses.address import Address
from artemis_py.core.messages.message import Message
from artemis_py.core.names.routing_type import RoutingType
from artemis_py.core.names.syntax import parse_fqqn
from artemis_py.core.queues.attaching import attach
from artemis_py.core.queues.consumer import Consumer, ConsumerOptions, Sink
from artemis_py.core.queues.cursors.cursor import Cursor
from artemis_py.core.queues.dispatcher import ADDRESS_PARTS, QUEUE_PARTS
from artemis_py.core.queues.queue import Queue, queues_of
from artemis_py.core.routing.creations import creator_of
from artemis_py.core.routing.post_office import Endpoint, PostOffice
from artemis_py.core.routing.routes import NO_TYPE
from artemis_py.core.routing.transaction import Transaction
from artemis_py.core.runtime.access import Permission, Subject
from artemis_py.core.runtime.background import SLICE_UNITS, Steps
from artemis_py.core.runtime.events import (
    ConsumerClosed,
    ConsumerOpened,
    Denied,
    LimitReached,
    SessionClosed,
    SessionOpened,
)
from artemis_py.core.runtime.meter import CONSUMER_UNITS
from artemis_py.core.selectors.filter import Filter
from artemis_py.core.services.staging import Stage
from artemis_py.core.settings.options import QueueConfig
from artemis_py.errors import (
    InvalidRequest,
    LimitExceeded,
    MaxConsumersReached,
    NoSuchAddress,
    NoSuchQueue,
    NotAuthorized,
    Refusal,
    RoutingTypeMismatch,
    UnknownTransaction,
)


class Producer:
    """Sends to one address, with the permission that was checked when it was made."""

    __slots__ = (
        "_endpoint",
        "_is_held",
        "_session",
        "_stage",
        "address",
        "explicit_type",
        "messages_sent",
        "name",
        "queue_name",
    )

    def __init__(
        self, session: "Session", name: str, queue_name: str, explicit_type: int, endpoint: Endpoint | None
    ) -> None:
        self._session: Session = session
        self.name: str = name
        self.queue_name: str = queue_name
        self.explicit_type: int = explicit_type
        """What the client asked for; NO_TYPE leaves it to the message and the address."""
        self.address: Address | None = None
        self._endpoint: Endpoint | None = endpoint
        self._stage: Stage | None = None
        self._is_held: bool = False
        self.messages_sent: int = 0

    def prepare(self) -> Address | None:
        """Make sure that the destination is there, creating it if allowed; None for an endpoint.

        Raises NoSuchAddress, NotAuthorized, RoutingTypeMismatch, LimitExceeded.
        """
        if self._endpoint is not None:
            return None
        session = self._session
        office = session.postoffice
        existing = office.addresses.get(self.name)
        if existing is None:
            office.hub.check_tables(f"address '{self.name}'", ADDRESS_PARTS)
            routing_type = self.explicit_type
            if routing_type == NO_TYPE:
                routing_type = office.settings.resolve(self.name).default_address_routing_type
            session.ensure_destination(self.name, self.queue_name, RoutingType(routing_type))
        elif self.explicit_type != NO_TYPE:
            session.ensure_destination(self.name, self.queue_name, RoutingType(self.explicit_type))
        elif len(existing.routing_types) == 1:
            session.ensure_destination(self.name, self.queue_name, next(iter(existing.routing_types)))
        address = office.address(self.name)
        if self._is_held and address is not self.address:
            if self.address is not None:
                self.address.producers -= 1
            address.producers += 1
        self.address = address
        return address

    def hold(self) -> None:
        """The client stays attached: its address is in use, and stays too, until `let_go` or the session's end."""
        if not self._is_held and self.address is not None:
            self._is_held = True
            self.address.producers += 1
            self._session.held_producers.add(self)

    def let_go(self) -> None:
        """Undo `hold`; harmless if it did not happen."""
        if self._is_held:
            self._is_held = False
            self._session.held_producers.discard(self)
            if self.address is not None:
                self.address.producers -= 1

    def send(self, message: Message, transaction: Transaction | None = None, duplicate_id: bytes = b"") -> int:
        """Route a message; returns how many queues got (or will get) it, 1 for a stage.

        `duplicate_id`, if there is one, comes from `duplicates.duplicate_id`; see `PostOffice.route_once`.
        Raises Refusal of some kind; a transaction it was part of can then only be rolled back.
        """
        self.messages_sent += 1
        if self.explicit_type != NO_TYPE:
            message.routing_type = self.explicit_type
        try:
            stage = self._stage
            if stage is not None:
                return self._send_to_stage(message, transaction, stage)
            address = self.address
            if address is None or address.is_deleted or (not address.bindings and message.routing_type != 0):
                address = self.prepare()
            if address is None:
                assert self._endpoint is not None
                message.address = self.name
                self._endpoint.receive(message, self._session)
                return 1
            if duplicate_id:
                return self._session.postoffice.route_once(message, address, self.queue_name, transaction, duplicate_id)
            return self._session.postoffice.route(message, address, self.queue_name, transaction)
        except Refusal as refusal:
            if transaction is not None:
                transaction.fail(refusal)
            raise

    def stage(self, stage: Stage) -> None:
        """Keep what is sent from now on in a stage, until its epoch is committed (`staging`)."""
        self._stage = stage

    def refused(self) -> None:
        """A message was not taken: its stage, if there is one, remembers that."""
        if self._stage is not None:
            self._session.postoffice.staging.refuse(self._stage)

    def _send_to_stage(self, message: Message, transaction: Transaction | None, stage: Stage) -> int:
        if transaction is not None:
            raise InvalidRequest("a stage takes no transactions: its epoch is one")
        address = self.prepare() if self.address is None or self.address.is_deleted else self.address
        assert address is not None
        self._session.postoffice.staging.take(stage, message, address)
        return 1

    @property
    def must_wait(self) -> bool:
        """Whether the client should get no more credit for now."""
        return self.address is not None and self.address.must_wait


class Client(Protocol):
    """The connection of a session, as far as its rights go. Fulfilled by a protocol that has something to end."""

    def user_removed(self, reason: str) -> None:
        """The user may not be here any more: end the connection, in the protocol's words."""

    def rights_changed(self) -> None:
        """The session has another subject: end what it may not have open any more, forget what was allowed before."""


class Session:
    """One client's rights, and all it has open: consumers, transactions, temporary addresses and queues."""

    def __init__(
        self, postoffice: PostOffice, subject: Subject, client_id: str = "", peer: str = "", protocol: str = ""
    ) -> None:
        self.postoffice: PostOffice = postoffice
        self.subject: Subject = subject
        self.client: Client | None = None
        """Told when the rights change; without one they are only checked at what comes next."""
        self.client_id: str = client_id
        self.protocol: str = protocol
        self.id: int = postoffice.new_id()
        self.created_ms: int = postoffice.now_ms
        self.consumers: dict[int, Consumer] = {}
        self.transactions: dict[int, Transaction] = {}
        self.held_producers: set[Producer] = set()
        self._peer: str = peer
        self._temporary_queues: dict[str, Queue] = {}
        self._temporary_addresses: dict[str, Address] = {}
        postoffice.sessions[self.id] = self
        if postoffice.events.wants(SessionOpened):
            postoffice.events.emit(SessionOpened(self.id, subject.name, client_id, protocol, peer))

    @property
    def peer(self) -> str:
        """The client's network address, for the log."""
        return self._peer

    # -- rights ----------------------------------------------------------------------------------------------

    def check(self, permission: Permission, address: str, queue: str | None = None) -> None:
        """Raises NotAuthorized, and has it reported, if the client may not do this."""
        if not self.postoffice.access.allows(self.subject, permission, address, queue):
            self.postoffice.events.emit(Denied(self.subject, permission, address, queue, self._peer))
            where = f"'{address}'" if queue is None else f"queue '{queue}' of '{address}'"
            raise NotAuthorized(f"user '{self.subject.name}' lacks permission '{permission.value}' on {where}")

    def set_rights(self, subject: Subject) -> None:
        """The user's roles were changed."""
        self.subject = subject
        if self.client is not None:
            self.client.rights_changed()

    def revoke(self, reason: str) -> None:
        """The user may not be here any more: whatever still comes is denied."""
        self.subject = Subject(self.subject.user)
        if self.client is not None:
            self.client.user_removed(reason)

    def check_consumer(self, queue: Queue, browse: bool = False) -> None:
        """Raises NotAuthorized, and has it reported, if the client may not attach to this queue.

        A durable subscription is its user's: others need the permission to delete it as well, since what they consume
        is gone for its user. What broker.xml says of a queue's user is for information only.
        """
        self.check(Permission.BROWSE if browse else Permission.CONSUME, queue.address.name, queue.name)
        if queue.owner is not None and queue.owner is not self:
            raise NotAuthorized(f"temporary queue '{queue.name}' belongs to another connection")
        self._check_owner(queue.address)
        if not browse and not self.owns(queue):
            permission = delete_permission(queue)
            if not self.postoffice.access.allows(self.subject, permission, queue.address.name, queue.name):
                self.postoffice.events.emit(
                    Denied(self.subject, permission, queue.address.name, queue.name, self._peer)
                )
                raise NotAuthorized(
                    f"queue '{queue.name}' is another user's subscription: it takes the permission "
                    f"'{permission.value}' to consume from it"
                )

    def owns(self, queue: Queue) -> bool:
        """Whether a queue is nobody's subscription, or this user's."""
        return (
            queue.user is None
            or queue.user == self.subject.user
            or queue.configuration_managed
            or queue.routing_type is not RoutingType.MULTICAST
        )

    def check_delete(self, queue: Queue) -> None:
        """Raises NotAuthorized, and has it reported, if the client may not delete this queue."""
        self.check(delete_permission(queue), queue.address.name, queue.name)

    # -- addresses and queues --------------------------------------------------------------------------------

    def create_address(self, name: str, routing_types: frozenset[RoutingType], auto_created: bool = False) -> Address:
        """Create an address. Raises NotAuthorized, LimitExceeded, and what PostOffice.create_address raises."""
        self.check(Permission.CREATE_ADDRESS, name)
        creator: str | None = None
        if auto_created:
            self._check_creations(1)
            creator = creator_of(self.subject)
        self.postoffice.hub.check_tables(f"address '{name}'", QUEUE_PARTS)
        return self.postoffice.create_address(name, routing_types, auto_created, creator=creator)

    def update_address(self, name: str, routing_types: frozenset[RoutingType]) -> Address:
        """Change routing types. Raises NotAuthorized, and what PostOffice.update_address raises."""
        self.check(Permission.CREATE_ADDRESS, name)
        return self.postoffice.update_address(name, routing_types)

    def delete_address(self, name: str, force: bool = False) -> None:
        """Delete an address. Raises NotAuthorized, and what PostOffice.delete_address raises."""
        self.check(Permission.DELETE_ADDRESS, name)
        self.postoffice.delete_address(name, force)

    def create_queue(self, config: QueueConfig) -> Queue:
        """Create a queue. Raises NotAuthorized, LimitExceeded, and what PostOffice.create_queue raises."""
        durable = config.durable and not config.temporary
        permission = Permission.CREATE_DURABLE_QUEUE if durable else Permission.CREATE_NON_DURABLE_QUEUE
        self.check(permission, config.address, config.name)
        address = self.postoffice.addresses.get(config.address)
        if address is not None:
            self._check_owner(address)
        if config.auto_created:
            self._check_creations(1)
            config = config.changed(creator=creator_of(self.subject))
        self.postoffice.hub.check_tables(f"queue '{config.name}'", QUEUE_PARTS)
        return self.postoffice.create_queue(config)

    def _check_creations(self, wanted: int) -> None:
        """Raises LimitExceeded, and has it reported, if the user may not have so many more created on demand."""
        try:
            self.postoffice.creations.check(self.subject, wanted)
        except LimitExceeded as refusal:
            self.postoffice.events.emit(LimitReached(str(refusal), self._peer))
            raise

    def _check_owner(self, address: Address) -> None:
        """Raises NotAuthorized if only another session may consume from a temporary address."""
        if address.owner is not None and address.owner is not self:
            raise NotAuthorized(f"temporary address '{address.name}' belongs to another connection")

    def update_queue(self, name: str, changes: Mapping[str, object]) -> Queue:
        """Change a queue. Raises NotAuthorized, and what PostOffice.update_queue raises."""
        queue = self.postoffice.queue(name)
        permission = Permission.CREATE_DURABLE_QUEUE if queue.durable else Permission.CREATE_NON_DURABLE_QUEUE
        self.check(permission, queue.address.name, name)
        return self.postoffice.update_queue(name, changes)

    def delete_queue(self, name: str, force: bool = False) -> None:
        """Delete a queue, and its auto-created address with the last one if that shall not linger.

        Raises NotAuthorized, and what PostOffice.delete_queue raises.
        """
        queue = self.postoffice.queue(name)
        self.check_delete(queue)
        self._delete(queue, force, "deleted by request")

    def _delete(self, queue: Queue, force: bool, reason: str) -> None:
        self.postoffice.delete_queue(queue.name, force, reason)
        self._temporary_queues.pop(queue.name, None)
        address = queue.address
        settings = address.settings
        if (
            address.auto_created
            and not address.is_deleted
            and not address.bindings
            and settings.auto_delete_addresses
            and settings.auto_delete_addresses_delay == 0
        ):
            self.postoffice.delete_address(address.name, reason="its last queue was deleted")

    def ensure_destination(self, name: str, queue_name: str, routing_type: RoutingType) -> None:
        """Have the address (and for ANYCAST or an FQQN the queue) come into being if that is allowed.

        An address that lacks the routing type gets it. Raises NoSuchAddress, NoSuchQueue, RoutingTypeMismatch,
        NotAuthorized, LimitExceeded (reference §1.3).
        """
        office = self.postoffice
        settings = office.settings.resolve(name)
        address = office.addresses.get(name)
        if address is None:
            if not settings.auto_create_addresses:
                raise NoSuchAddress(f"address '{name}' does not exist and auto-create-addresses is off for it")
            if routing_type is RoutingType.ANYCAST or queue_name:
                # No address is left over for want of its queue.
                self.check(Permission.CREATE_ADDRESS, name)
                self._check_creations(2)
            address = self.create_address(name, frozenset((routing_type,)), auto_created=True)
        elif routing_type not in address.routing_types:
            if not settings.auto_create_addresses:
                raise RoutingTypeMismatch(
                    f"address '{name}' does not support {routing_type.name} and auto-create-addresses is off for it"
                )
            self.update_address(name, address.routing_types | {routing_type})
        if routing_type is RoutingType.MULTICAST and not queue_name:
            return
        wanted = queue_name or name
        queue = office.queues.get(wanted)
        if queue is not None:
            if not queue_name and queue.routing_type is not RoutingType.ANYCAST:
                raise RoutingTypeMismatch(f"queue '{wanted}' is MULTICAST, not ANYCAST")
            if queue.address is address:
                return
            if queue_name:
                raise NoSuchQueue(f"queue '{wanted}' belongs to address '{queue.address.name}', not to '{name}'")
        if not queue_name:
            for bound in queues_of(address):
                if not office.options.wildcards.is_wild(bound.name):
                    return
        if not settings.auto_create_queues:
            raise NoSuchQueue(f"queue '{wanted}' does not exist and auto-create-queues is off for '{name}'")
        self.create_queue(QueueConfig(name=wanted, address=name, routing_type=routing_type, auto_created=True))

    def queue_to_consume(self, name: str) -> Queue:
        """The queue a point-to-point consumer on address `name` gets, created if need be (reference §1.3, end).

        Raises NoSuchAddress, NoSuchQueue, RoutingTypeMismatch, NotAuthorized.
        """
        office = self.postoffice
        queue = office.queues.get(name)
        if queue is not None and queue.address.name == name:
            return queue
        address = office.addresses.get(name)
        if address is not None:
            for bound in queues_of(address):
                if not office.options.wildcards.is_wild(bound.name):
                    return bound
        if queue is not None:
            return queue
        self.ensure_destination(name, "", RoutingType.ANYCAST)
        return office.queue(name)

    # -- temporary resources ---------------------------------------------------------------------------------

    def create_temporary_queue(
        self, routing_type: RoutingType, address: str | None = None, filter: str | None = None
    ) -> Queue:
        """A queue of a random name that lives as long as this session, on an address of its own or a given one."""
        name = self.postoffice.entropy.uuid()
        if address is None:
            self.create_temporary_address(routing_type, name)
            address = name
        config = QueueConfig(
            name=name,
            address=address,
            routing_type=routing_type,
            durable=False,
            filter=filter,
            temporary=True,
            max_consumers=-1,
        )
        queue = self.create_queue(config)
        queue.owner = self
        self._temporary_queues[name] = queue
        return queue

    def create_temporary_address(self, routing_type: RoutingType, name: str | None = None) -> Address:
        """An address of a random name that lives as long as this session."""
        name = self.postoffice.entropy.uuid() if name is None else name
        self.check(Permission.CREATE_ADDRESS, name)
        self.postoffice.hub.check_tables(f"temporary address '{name}'", QUEUE_PARTS)
        address = self.postoffice.create_address(name, frozenset((routing_type,)), auto_created=True, temporary=True)
        address.owner = self
        self._temporary_addresses[name] = address
        return address

    def let_go(self, name: str) -> None:
        """A temporary queue or address is not to be deleted with this session: somebody else sees to that."""
        self._temporary_queues.pop(name, None)
        self._temporary_addresses.pop(name, None)

    def adopt(self, queue: Queue) -> None:
        """Delete this queue when the session ends: a non-durable subscription."""
        queue.owner = self
        self._temporary_queues[queue.name] = queue

    def delete_temporary(self, name: str) -> None:
        """Delete a temporary queue or address of this session; nothing happens if it is gone."""
        queue = self._temporary_queues.pop(name, None)
        if queue is not None and not queue.is_deleted:
            self.postoffice.delete_queue(name, force=True, reason="temporary")
        address = self._temporary_addresses.pop(name, None)
        if address is not None and not address.is_deleted:
            self.postoffice.delete_address(name, force=True, reason="temporary")

    # -- messages --------------------------------------------------------------------------------------------

    def producer(self, text: str, routing_type: RoutingType | None = None) -> Producer:
        """A producer for an address or FQQN, whose destination exists when this returns.

        Raises NotAuthorized, NoSuchAddress, NoSuchQueue, RoutingTypeMismatch.
        """
        name, queue_name = parse_fqqn(text)
        if not name and queue_name:
            name = self.postoffice.queue(queue_name).address.name
        self.check(Permission.SEND, name, queue_name)
        explicit = NO_TYPE if routing_type is None else int(routing_type)
        producer = Producer(self, name, queue_name or "", explicit, self.postoffice.endpoints.get(name))
        producer.prepare()
        return producer

    def consume(
        self,
        queue: Queue,
        sink: Sink,
        filter: Filter | None = None,
        browse: bool = False,
        priority: int = 0,
        presettled: bool = False,
        cursor: Cursor | None = None,
    ) -> Consumer:
        """Attach to a queue, without credit yet; `presettled`: a delivery is acknowledged when it is handed over.

        A browser with a `RangeReader` as its `cursor` reads that part of the queue by numbers.
        Raises NotAuthorized, MaxConsumersReached, LimitExceeded.
        """
        self.check_consumer(queue, browse)
        if not browse and queue.settings.max_consumers >= 0:
            count = sum(not consumer.browse for consumer in queue.consumers)
            if count >= queue.settings.max_consumers:
                raise MaxConsumersReached(
                    f"queue '{queue.name}' has {count} of at most {queue.settings.max_consumers} consumers"
                )
        self.postoffice.hub.check_tables(f"a consumer of '{queue.name}'")
        options = ConsumerOptions(filter, browse, priority, presettled, cursor)
        consumer = Consumer(self.postoffice.new_id(), queue, sink, options, self.subject.name)
        self.consumers[consumer.id] = consumer
        self.postoffice.meter.work += CONSUMER_UNITS
        attach(consumer)
        events = self.postoffice.events
        if events.wants(ConsumerOpened):
            events.emit(ConsumerOpened(consumer.id, queue.name, queue.address.name, self.id, browse))
        return consumer

    def close_consumer(self, consumer: Consumer, failed: bool = False) -> None:
        """Detach a consumer; what it did not settle goes back."""
        self.postoffice.meter.work += CONSUMER_UNITS + len(consumer.outstanding)
        is_open = self.consumers.pop(consumer.id, None) is not None
        consumer.close(failed)
        events = self.postoffice.events
        if is_open and events.wants(ConsumerClosed):
            queue = consumer.queue
            events.emit(ConsumerClosed(consumer.id, queue.name, queue.address.name, self.id, consumer.browse))

    # -- transactions ----------------------------------------------------------------------------------------

    def begin(self) -> Transaction:
        """Open a transaction."""
        transaction = Transaction(self.postoffice.new_id(), self.postoffice.now_ms)
        self.transactions[transaction.id] = transaction
        return transaction

    def transaction(self, id: int) -> Transaction:
        """The open transaction of this number. Raises UnknownTransaction."""
        transaction = self.transactions.get(id)
        if transaction is None:
            raise UnknownTransaction(f"transaction {id} is not open: unknown, ended, or timed out")
        return transaction

    def commit(self, transaction: Transaction) -> None:
        """Raises TransactionRolledBack if it could only be rolled back; it is over either way."""
        self.transactions.pop(transaction.id, None)
        self.postoffice.commit(transaction)

    def rollback(self, transaction: Transaction) -> None:
        """Undo it."""
        self.transactions.pop(transaction.id, None)
        transaction.rollback()

    # -- end -------------------------------------------------------------------------------------------------

    def close(self, failed: bool = False) -> None:
        """End everything; `failed`: the connection broke, so what was being delivered counts as an attempt.

        What is much is given back in slices, the first one now. Nothing is delivered to its consumers any more.
        """
        if self.postoffice.sessions.pop(self.id, None) is None:
            return
        for transaction in list(self.transactions.values()):
            transaction.rollback()
        self.transactions.clear()
        self.block()
        self.postoffice.hub.slices.start(self._close(failed))
        events = self.postoffice.events
        if events.wants(SessionClosed):
            events.emit(SessionClosed(self.id, self.subject.name, self.client_id, self.protocol, self._peer))

    def block(self) -> None:
        """Deliver nothing more to any of its consumers: the client is gone."""
        for consumer in self.consumers.values():
            consumer.block()

    def _close(self, failed: bool) -> Steps:
        meter = self.postoffice.meter
        end = meter.work + SLICE_UNITS
        for consumer in list(self.consumers.values()):
            self.close_consumer(consumer, failed)
            if meter.work >= end:
                yield None
                end = meter.work + SLICE_UNITS
        for producer in list(self.held_producers):
            producer.let_go()
        for name in [*self._temporary_queues, *self._temporary_addresses]:
            address = self._temporary_addresses.get(name)
            if address is not None:
                # Others may have any number of subscriptions there.
                for queue in queues_of(address):
                    if not queue.is_deleted:
                        self.postoffice.delete_queue(queue.name, force=True, reason="temporary")
                    if meter.work >= end:
                        yield None
                        end = meter.work + SLICE_UNITS
            self.delete_temporary(name)
            if meter.work >= end:
                yield None
                end = meter.work + SLICE_UNITS
        return None


def delete_permission(queue: Queue) -> Permission:
    """What it takes to delete a queue."""
    return Permission.DELETE_DURABLE_QUEUE if queue.durable else Permission.DELETE_NON_DURABLE_QUEUE
