"""A session: the interface of the core to a protocol handler, with the rights of one client.

Every operation is checked against the client's permissions here, so that no protocol can forget it. Addresses and
queues are created on demand through it (artemis-model §1.3), by one rule for all protocols.
"""

from collections.abc import Callable, Mapping

from artemis_py.core.addresses.address import Address
from artemis_py.core.names.routing_type import RoutingType
from artemis_py.core.queues.attaching import attach
from artemis_py.core.queues.consumer import Consumer, ConsumerOptions, Sink
from artemis_py.core.queues.cursors.cursor import Cursor
from artemis_py.core.queues.dispatcher import QUEUE_PARTS, RESERVE_PARTS, TABLES_PARTS
from artemis_py.core.queues.queue import Queue
from artemis_py.core.routing.creations import creator_of
from artemis_py.core.routing.destinations import ensure_destination
from artemis_py.core.routing.domain import Domain
from artemis_py.core.routing.exchanges.exchange import Exchange
from artemis_py.core.routing.sender import Sender
from artemis_py.core.routing.transaction import Transaction
from artemis_py.core.runtime.access import OpenAccess, Permission, Subject
from artemis_py.core.runtime.background import SLICE_UNITS, Steps
from artemis_py.core.runtime.events import Denied, LimitReached
from artemis_py.core.runtime.meter import CONSUMER_UNITS
from artemis_py.core.selectors.filter import Filter
from artemis_py.core.sessions.client import Client
from artemis_py.core.sessions.destinations import anycast_queue, full_name, queue_to_consume
from artemis_py.core.sessions.inlet import Endpoint
from artemis_py.core.sessions.producer import Producer, open_producer
from artemis_py.core.sessions.subscriptions import Subscription, Subscriptions, SubscriptionSpec, delete_queue
from artemis_py.core.sessions.telling import tell_closed, tell_consumer_closed, tell_consumer_opened, tell_opened
from artemis_py.core.sessions.temporary import TemporaryNode, TemporaryResources
from artemis_py.core.sessions.validated_user import ValidatedUser, validated_user_of
from artemis_py.core.settings.queue_config import QueueConfig
from artemis_py.errors import (
    LimitExceeded,
    MaxConsumersReached,
    NotAuthorized,
    UnknownTransaction,
)


class Session(Sender):
    """One client's rights, and everything it has open: consumers, transactions, temporary addresses and queues."""

    def __init__(
        self,
        domain: Domain,
        subject: Subject,
        client_id: str = "",
        peer: str = "",
        protocol: str = "",
        opened: "dict[int, Session] | None" = None,
        endpoints: dict[str, Endpoint] | None = None,
        certificate: str | None = None,
        is_present: bool = True,
    ) -> None:
        """Open a session that is in `opened` until it ends, and may send to `endpoints`: see `Sessions.open`."""
        self.domain: Domain = domain
        self.subject: Subject = subject
        self.client: Client | None = None
        """Told when the rights change; without one, new rights only apply to later operations."""
        self.is_operator: bool = False
        """Whether the client says that it operates the broker: it may stay while others must leave."""
        self.is_counted: bool = False
        """Whether it is one of the connections of its user that are limited."""
        self.is_trusted: bool = False
        """Whether it belongs to the broker itself, which needs no permissions."""
        self.client_id: str = client_id
        self.protocol: str = protocol
        self.id: int = domain.new_id()
        self.created_ms: int = domain.dispatcher.now_ms
        self.consumers: dict[int, Consumer] = {}
        self.transactions: dict[int, Transaction] = {}
        self.held_producers: set[Producer] = set()
        self.validated: ValidatedUser | None = validated_user_of(subject.user, domain.options)
        """What names the user on messages; None if nothing does."""
        self.peer: str = peer
        """The client's network address, for the log."""
        self.certificate: str | None = certificate
        """Distinguished name of the client's TLS certificate; None if it has none."""
        self.is_present: bool = is_present
        """Whether the client is connected, or was; the broker also opens sessions for clients that are not."""
        self.farewell: str = ""
        """Why the session ends or has ended, in words; empty before."""
        self._temporary: TemporaryResources = TemporaryResources(domain)
        self._opened: dict[int, Session] = {} if opened is None else opened
        self._endpoints: dict[str, Endpoint] = {} if endpoints is None else endpoints
        self._opened[self.id] = self
        tell_opened(self)

    # -- rights ----------------------------------------------------------------------------------------------

    @property
    def is_checked(self) -> bool:
        """Whether the rights of clients are checked at all (`security-enabled`)."""
        return not isinstance(self.domain.access, OpenAccess)

    def may(self, permission: Permission, address: str, queue: str | None = None) -> bool:
        """Tell whether the client has a permission."""
        return self.is_trusted or self.domain.access.allows(self.subject, permission, address, queue)

    def may_delete(self, queue: Queue) -> bool:
        """Tell whether the client may delete this queue."""
        return self.may(delete_permission(queue), queue.address.name, queue.name)

    def denied(self, permission: Permission, address: str, queue: str | None = None) -> None:
        """Report that the client was denied something for lack of a permission."""
        self.domain.events.emit(Denied(self.subject, permission, address, queue, self.peer))

    def check(self, permission: Permission, address: str, queue: str | None = None) -> None:
        """Raise NotAuthorized, and report it, if the client lacks a permission."""
        if not self.may(permission, address, queue):
            self.denied(permission, address, queue)
            where = f"'{address}'" if queue is None else f"queue '{queue}' of '{address}'"
            raise NotAuthorized(f"user '{self.subject.name}' lacks permission '{permission.value}' on {where}")

    def check_reach(self, name: str) -> None:
        """Raise NotAuthorized for the name of something that the broker has created for itself.

        Nobody may change that, whatever the permissions; browsing it and emptying it are allowed.
        """
        if name.startswith(self.domain.options.internal_naming_prefix):
            raise NotAuthorized(f"'{name}' is internal: names that begin so belong to the broker")
        if name in self.domain.reserved:
            raise NotAuthorized(f"'{name}' is internal: it belongs to the broker")

    def set_rights(self, subject: Subject) -> None:
        """Apply changed roles of the user."""
        self.subject = subject
        if self.client is not None:
            self.client.rights_changed()

    def options_changed(self) -> None:
        """Apply other options of the broker to messages that are sent from now on."""
        self.validated = None if self.is_trusted else validated_user_of(self.subject.user, self.domain.options)

    def revoke(self, reason: str) -> None:
        """Take all rights away from a user that was removed: every later operation is denied."""
        self.subject = Subject(self.subject.user)
        self.farewell = reason
        if self.client is not None:
            self.client.user_removed(reason)

    def disconnect(self, reason: str) -> bool:
        """End the connection of the client; False if there is none, because the session is for an absent one."""
        if self.client is None:
            return False
        self.farewell = reason
        self.client.closed_by_operator(reason)
        return True

    def check_consumer(self, queue: Queue, browse: bool = False) -> None:
        """Raise NotAuthorized, and report it, if the client may not attach to this queue.

        A durable subscription belongs to its user: other users also need the permission to delete it, because what they
        consume is lost to its user. The user that broker.xml names for a queue is for information only.
        """
        self.check(Permission.BROWSE if browse else Permission.CONSUME, queue.address.name, queue.name)
        if not browse:
            self.check_reach(queue.name)
        if queue.owner is not None and queue.owner is not self:
            raise NotAuthorized(f"temporary queue '{queue.name}' belongs to another connection")
        self._check_owner(queue.address)
        if not browse and not self.owns(queue):
            permission = delete_permission(queue)
            if not self.may_delete(queue):
                self.denied(permission, queue.address.name, queue.name)
                raise NotAuthorized(
                    f"queue '{queue.name}' is another user's subscription: consuming from it needs the permission "
                    f"'{permission.value}'"
                )

    def owns(self, queue: Queue) -> bool:
        """Tell whether a queue is not another user's subscription."""
        return (
            queue.user is None
            or queue.user == self.subject.user
            or queue.configuration_managed
            or queue.routing_type is not RoutingType.MULTICAST
        )

    def check_delete(self, queue: Queue) -> None:
        """Raise NotAuthorized, and report it, if the client may not delete this queue."""
        self.check(delete_permission(queue), queue.address.name, queue.name)
        self.check_reach(queue.name)

    # -- addresses and queues --------------------------------------------------------------------------------

    def create_address(self, name: str, routing_types: frozenset[RoutingType], auto_created: bool = False) -> Address:
        """Create an address. Raises NotAuthorized, LimitExceeded, and what Domain.create_address raises."""
        self.check(Permission.CREATE_ADDRESS, name)
        self.check_reach(name)
        creator: str | None = None
        if auto_created:
            self.check_creations(1)
            creator = creator_of(self.subject)
        self.domain.dispatcher.check_tables(f"address '{name}'", QUEUE_PARTS)
        return self.domain.create_address(name, routing_types, auto_created, creator=creator)

    def update_address(self, name: str, routing_types: frozenset[RoutingType]) -> Address:
        """Change routing types. Raises NotAuthorized, and what Domain.update_address raises."""
        self.check(Permission.CREATE_ADDRESS, name)
        self.check_reach(name)
        return self.domain.update_address(name, routing_types)

    def delete_address(self, name: str, force: bool = False) -> None:
        """Delete an address. Raises NotAuthorized, and what Domain.delete_address raises."""
        self.check(Permission.DELETE_ADDRESS, name)
        self.check_reach(name)
        self.domain.delete_address(name, force)

    def create_queue(self, config: QueueConfig) -> Queue:
        """Create a queue. Raises NotAuthorized, LimitExceeded, and what Domain.create_queue raises."""
        durable = config.durable and not config.temporary
        permission = Permission.CREATE_DURABLE_QUEUE if durable else Permission.CREATE_NON_DURABLE_QUEUE
        self.check(permission, config.address, config.name)
        self.check_reach(config.address)
        self.check_reach(config.name)
        address = self.domain.addresses.get(config.address)
        if address is not None:
            self._check_owner(address)
        self.check_creations(int(config.auto_created), is_queue=True)
        if config.creator is None:
            config = config.changed(creator=creator_of(self.subject))
        parts = self._temporary.parts if config.temporary else QUEUE_PARTS
        self.domain.dispatcher.check_tables(f"queue '{config.name}'", parts)
        return self.domain.create_queue(config)

    def check_creations(self, wanted: int, is_queue: bool = False) -> None:
        """Raise LimitExceeded, and report it, if the user may not have that; see `Sender.check_creations`."""
        try:
            if is_queue:
                self.domain.dispatcher.users.check_queue(self.subject.user)
            if wanted:
                self.domain.creations.check(self.subject, wanted)
        except LimitExceeded as refusal:
            self.domain.events.emit(LimitReached(str(refusal), self.peer))
            raise

    def _check_owner(self, address: Address) -> None:
        """Raise NotAuthorized if a temporary address belongs to another session."""
        if address.owner is not None and address.owner is not self:
            raise NotAuthorized(f"temporary address '{address.name}' belongs to another connection")

    def update_queue(self, name: str, changes: Mapping[str, object]) -> Queue:
        """Change a queue. Raises NotAuthorized, and what Domain.update_queue raises."""
        queue = self.domain.queue(name)
        permission = Permission.CREATE_DURABLE_QUEUE if queue.durable else Permission.CREATE_NON_DURABLE_QUEUE
        self.check(permission, queue.address.name, name)
        self.check_reach(name)
        return self.domain.update_queue(name, changes)

    def delete_queue(self, name: str, force: bool = False, reason: str = "deleted by request") -> None:
        """Delete a queue; with the last one, also its auto-created address unless a delay is set for that.

        Raises NotAuthorized, and what Domain.delete_queue raises.
        """
        queue = self.domain.queue(name)
        self.check_delete(queue)
        self._delete(queue, force, reason)

    def _delete(self, queue: Queue, force: bool, reason: str) -> None:
        self.domain.delete_queue(queue.name, force, reason)
        self._temporary.forget(queue.name)
        address = queue.address
        settings = address.settings
        if (
            address.auto_created
            and not address.is_deleted
            and address.is_unbound
            and settings.auto_delete_addresses
            and settings.auto_delete_addresses_delay == 0
        ):
            self.domain.delete_address(address.name, reason="its last queue was deleted")

    def queue_to_consume(self, name: str) -> Queue:
        """Return the queue for a point-to-point consumer of address `name`, created if allowed (artemis-model §1.3).

        Raises NoSuchAddress, NoSuchQueue, RoutingTypeMismatch, NotAuthorized, LimitExceeded.
        """
        return queue_to_consume(self, name)

    def anycast_queue(self, name: str) -> Queue:
        """Return the queue of this name for a client that asks for a queue, created if allowed; see `anycast_queue`."""
        return anycast_queue(self, name)

    def full_name(self, name: str) -> str:
        """Return the name to send to: a queue of another address has a qualified one."""
        return full_name(self.domain, name)

    def prepare_address(self, name: str, routing_type: RoutingType) -> None:
        """Make sure that an address exists and has a routing type, which is added to it if that is allowed.

        Raises NoSuchAddress, RoutingTypeMismatch, NotAuthorized, LimitExceeded.
        """
        ensure_destination(self.domain, self, name, "", routing_type)

    # -- subscriptions ---------------------------------------------------------------------------------------

    @property
    def subscriptions(self) -> Subscriptions:
        """Subscription rules, applied with the rights of this session."""
        # Made on each use: if it was kept, it and the session would form a cycle that only the garbage collector frees.
        return Subscriptions(self)

    def subscribe(self, spec: SubscriptionSpec) -> Subscription:
        """Find or create the queue of a subscription; see `Subscriptions.subscribe`."""
        return self.subscriptions.subscribe(spec)

    def unsubscribe(self, subscription: Subscription, reason: str) -> None:
        """End a subscription whose consumer is closed; see `Subscriptions.unsubscribe`."""
        self.subscriptions.unsubscribe(subscription, reason)

    # -- temporary resources ---------------------------------------------------------------------------------

    def create_temporary_queue(
        self,
        routing_type: RoutingType,
        address: str | None = None,
        filter: str | None = None,
        ring_size: int | None = None,
    ) -> Queue:
        """Create a queue with a random name that lives as long as this session.

        It is on `address`, or on a new one of the same name as the queue. `ring_size` limits what waits in it; None:
        the settings of the address decide. Raises NotAuthorized, LimitExceeded, NoSuchAddress, RoutingTypeMismatch.
        """
        return self._temporary.create_queue(self, routing_type, address, filter, ring_size)

    def create_temporary_address(self, routing_type: RoutingType) -> Address:
        """Create an address with a random name that lives as long as this session.

        Raises NotAuthorized, LimitExceeded.
        """
        return self._temporary.create_address(self, routing_type, None)

    def create_node(self, routing_type: RoutingType, name: str | None = None) -> TemporaryNode:
        """Create an address, with a random name if none is given, and if it is ANYCAST a queue of the same name.

        Both live as long as this session, unless the protocol decides otherwise. A given name must not be in use.
        Raises NotAuthorized, LimitExceeded.
        """
        if routing_type is RoutingType.ANYCAST:
            return self._temporary.node(
                self._temporary.create_queue(self, routing_type, None, None, None, name).address
            )
        return self._temporary.node(self._temporary.create_address(self, routing_type, name))

    def own_exchange(self, exchange: Exchange) -> None:
        """Have an exchange end with this session."""
        self._temporary.keep_exchange(exchange)

    def owns_temporary(self, name: str) -> bool | None:
        """Tell whether a temporary address is this session's own; None: there is no address of this name.

        Another broker's may be there, as far as its name tells.
        """
        address = self.domain.addresses.get(name)
        if address is None:
            return None if self.domain.temporary_names.find(name) is None else False
        return address.owner is self

    def drop_temporary(self, queue: Queue, reason: str) -> None:
        """Delete a queue that was to end with this session, or with its subscriber; do nothing if it is gone."""
        self._temporary.forget(queue.name)
        if not queue.is_deleted:
            delete_queue(self.domain, queue, reason)
        address = queue.address
        if address.owner is self and address.is_unbound and not address.is_deleted:
            # It was made for this queue, and nobody else can use it.
            self.domain.delete_address(address.name, reason=reason)

    # -- messages --------------------------------------------------------------------------------------------

    def producer(
        self, text: str, routing_type: RoutingType | None = None, new_type: RoutingType | None = None
    ) -> Producer:
        """Open a producer for an address or FQQN; its destination exists when this returns.

        `routing_type` applies to each message and is added to the address if it is missing. `new_type` applies to an
        address that has to be created; after that the address' own types decide. Raises NotAuthorized, NoSuchAddress,
        NoSuchQueue, RoutingTypeMismatch.
        """
        return open_producer(self, self._endpoints, text, routing_type, new_type)

    def consume(
        self,
        queue: Queue,
        sink: Sink,
        filter: Filter | None = None,
        browse: bool = False,
        priority: int = 0,
        presettled: bool = False,
        cursor: Cursor | None = None,
        exclusive: bool = False,
    ) -> Consumer:
        """Attach to a queue, without credit yet; with `presettled`, a delivery is acknowledged when it is handed over.

        An `exclusive` consumer gets all messages of the queue, unless another exclusive one has them.
        A browser with a `RangeReader` as its `cursor` reads that part of the queue by message numbers.
        Raises NotAuthorized, MaxConsumersReached, LimitExceeded.
        """
        self.check_consumer(queue, browse)
        if not browse and queue.settings.max_consumers >= 0:
            count = sum(not consumer.is_browser for consumer in queue.consumers)
            if count >= queue.settings.max_consumers:
                raise MaxConsumersReached(
                    f"queue '{queue.name}' has {count} of at most {queue.settings.max_consumers} consumers"
                )
        parts = TABLES_PARTS if self.consumers else RESERVE_PARTS
        self.domain.dispatcher.check_tables(f"a consumer of '{queue.name}'", parts)
        options = ConsumerOptions(filter, browse, priority, presettled, cursor, exclusive)
        consumer = Consumer(self.domain.new_id(), queue, sink, options, self.subject.name)
        self.consumers[consumer.id] = consumer
        self.domain.meter.work += CONSUMER_UNITS
        attach(consumer)
        tell_consumer_opened(self, consumer)
        return consumer

    def close_consumer(self, consumer: Consumer, failed: bool = False) -> None:
        """Detach a consumer; deliveries that it did not settle go back to the queue."""
        self.domain.meter.work += CONSUMER_UNITS + consumer.outstanding.count + len(consumer.shown)
        is_open = self.consumers.pop(consumer.id, None) is not None
        consumer.close(failed)
        if is_open:
            tell_consumer_closed(self, consumer)

    # -- transactions ----------------------------------------------------------------------------------------

    def begin(self) -> Transaction:
        """Open a transaction."""
        transaction = Transaction(self.domain.new_id(), self.domain.dispatcher.steady_ms)
        self.transactions[transaction.id] = transaction
        return transaction

    def transaction(self, id: int) -> Transaction:
        """Return the open transaction of this number. Raises UnknownTransaction."""
        transaction = self.transactions.get(id)
        if transaction is None:
            raise UnknownTransaction(f"transaction {id} is not open: unknown, ended, or timed out")
        return transaction

    def commit(self, transaction: Transaction) -> None:
        """Commit a transaction. Raises TransactionRolledBack if it could only be rolled back; it is over either way."""
        self.transactions.pop(transaction.id, None)
        self.domain.commit(transaction)

    def rollback(self, transaction: Transaction) -> None:
        """Roll a transaction back."""
        self.transactions.pop(transaction.id, None)
        transaction.rollback()

    # -- end -------------------------------------------------------------------------------------------------

    def close(self, failed: bool = False, done: Callable[[], None] | None = None) -> None:
        """End everything; with `failed`, the connection broke, so unsettled deliveries count as delivery attempts.

        Consumers, producers and temporary resources are closed in slices, the first of them at once. Consumers get no
        further deliveries. `done` is called when all of it is over, at once if it is little.
        """
        if self._opened.pop(self.id, None) is None:
            if done is not None:
                done()
            return
        if self.is_counted:
            self.is_counted = False
            self.domain.dispatcher.users.disconnected(self.subject.user)
        self.farewell = self.farewell or ("connection lost" if failed else "closed")
        for transaction in list(self.transactions.values()):
            transaction.rollback()
        self.transactions.clear()
        self.block()
        self.domain.dispatcher.slices.start(self._close(failed), None if done is None else lambda _: done())
        tell_closed(self)

    def block(self) -> None:
        """Deliver nothing more to any consumer of the session: the client is gone."""
        for consumer in self.consumers.values():
            consumer.block()

    def _close(self, failed: bool) -> Steps:
        meter = self.domain.meter
        end = meter.work + SLICE_UNITS
        for consumer in list(self.consumers.values()):
            self.close_consumer(consumer, failed)
            if meter.work >= end:
                yield None
                end = meter.work + SLICE_UNITS
        for producer in list(self.held_producers):
            producer.let_go()
        yield from self._temporary.delete_all()
        return None


def delete_permission(queue: Queue) -> Permission:
    """Return the permission that is needed to delete a queue."""
    return Permission.DELETE_DURABLE_QUEUE if queue.durable else Permission.DELETE_NON_DURABLE_QUEUE
