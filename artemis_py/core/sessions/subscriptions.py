"""Subscriptions: which queue collects for a subscriber, when it is created and when deleted, for all protocols.

A protocol describes what it wants (`SubscriptionSpec`). It chooses the names of queues; the rules and the permissions
are here. It consumes from the queue that it gets (`Session.consume`), and says when the client disconnects
(`Subscriptions.leave`) or unsubscribes (`Session.unsubscribe`).
"""

from collections.abc import Iterable
from enum import Enum
from typing import TYPE_CHECKING, Final

from artemis_py.core.names.routing_type import RoutingType
from artemis_py.core.names.syntax import parse_fqqn
from artemis_py.core.queues.queue import Queue
from artemis_py.core.routing.creations import creator_of
from artemis_py.core.routing.domain import Domain
from artemis_py.core.runtime.access import Permission
from artemis_py.core.selectors.filter import Filter
from artemis_py.core.settings.queue_config import QueueConfig
from artemis_py.errors import NoSuchAddress, NoSuchQueue, NotAuthorized, QueueExists, RoutingTypeMismatch

if TYPE_CHECKING:
    from artemis_py.core.sessions.session import Session


class Lifetime(Enum):
    """Time at which the queue of a subscription is deleted; a configured queue never is."""

    KEPT = "kept"
    """The queue belongs to no subscriber."""
    UNTIL_UNSUBSCRIBED = "until unsubscribed"
    """The queue is durable: it is deleted when the client unsubscribes, and kept when the client disconnects."""
    WHILE_CONSUMED = "while consumed"
    """The queue is deleted with the last of the subscribers that share it."""
    TEMPORARY = "temporary"
    """The queue is deleted with its subscriber, which needs no permission for that."""


class SubscriptionSpec:
    """Describes what a subscriber of a multicast address wants."""

    def __init__(
        self,
        address: str,
        names: Iterable[str] = (),
        durable: bool = False,
        shared: bool = False,
        filter: Filter | None = None,
        user: str | None = None,
        recreates: bool = False,
        ring_size: int | None = None,
    ) -> None:
        self.address: Final = address
        self.names: Final = names
        """Names that the queue may have, the best one first; none: a temporary queue of a random name."""
        self.durable: Final = durable
        self.shared: Final = shared
        """Whether any number of subscribers share the queue."""
        self.filter: Final = filter
        """Filter of the queue: messages that do not match never enter it."""
        self.user: Final = user
        """User that the queue belongs to; None: no particular user."""
        self.recreates: Final = recreates
        """Whether an unused queue with another address or filter is replaced. If not, an existing queue keeps its
        filter, and the next name is tried when a queue does not fit in another way."""
        self.ring_size: Final = ring_size
        """Messages that may wait in a temporary queue, the newest ones; None: the settings of the address decide."""

    @property
    def max_consumers(self) -> int:
        """Consumers that the queue may have; -1: no limit."""
        return -1 if self.shared else 1


class Subscription:
    """A queue that collects for a subscriber."""

    def __init__(self, queue: Queue, lifetime: Lifetime = Lifetime.KEPT, is_new: bool = False) -> None:
        self.queue: Final = queue
        self.lifetime: Final = lifetime
        self.is_new: Final = is_new
        """Whether the queue was created by this call of `subscribe`."""


def without_own(client_id: str) -> str:
    """Return the selector that leaves out what this client sent ("no local")."""
    quoted = client_id.replace("'", "''")
    return f"__AMQ_CID <> '{quoted}'"


class Subscriptions:
    """Applies the rules with the rights of one session."""

    def __init__(self, session: "Session") -> None:
        self._session: Session = session
        self._domain: Domain = session.domain

    def parse(self, text: str) -> tuple[str, str | None]:
        """Split an address or FQQN; for `::q` look up the address of queue `q`. Raises NoSuchQueue."""
        name, queue_name = parse_fqqn(text)
        if not name and queue_name is not None:
            name = self._domain.queue(queue_name).address.name
        return name, queue_name

    def routing_types(self, name: str) -> frozenset[RoutingType]:
        """Return the routing types of an address; none if it does not exist."""
        address = self._domain.addresses.get(name)
        return frozenset() if address is None else address.routing_types

    def require_address(self, name: str, routing_type: RoutingType) -> None:
        """Create the address with this routing type if it does not exist and that is allowed.

        A receiver never adds a routing type to an existing address (artemis-model §1.4). Raises NoSuchAddress,
        RoutingTypeMismatch, NotAuthorized, LimitExceeded.
        """
        address = self._domain.addresses.get(name)
        if address is None:
            if not self._domain.settings.resolve(name).auto_create_addresses:
                raise NoSuchAddress(f"address '{name}' does not exist and auto-create-addresses is off for it")
            self._session.create_address(name, frozenset((routing_type,)), auto_created=True)
        elif routing_type not in address.routing_types:
            kind, other = ("queue", "topic") if routing_type is RoutingType.ANYCAST else ("topic", "queue")
            types = " and ".join(sorted(each.name for each in address.routing_types))
            raise RoutingTypeMismatch(
                f"address '{name}' is not configured for {kind} support: it is {types}. "
                f"Ask for it as a {other}, or give the address {routing_type.name} as well"
            )

    def named_queue(
        self, address: str, name: str, routing_type: RoutingType, filter: Filter | None = None, browse: bool = False
    ) -> Queue:
        """Find the queue that an FQQN names, or create it if that is allowed.

        For consumers of a multicast address the filter belongs to the queue, and an existing queue must have the same
        one; otherwise it belongs to the consumer. Raises NoSuchQueue, NoSuchAddress, RoutingTypeMismatch, QueueExists,
        NotAuthorized, LimitExceeded.
        """
        is_subscription = routing_type is RoutingType.MULTICAST and not browse
        queue = self._domain.queues.get(name)
        if queue is None:
            if not self._domain.settings.resolve(address).auto_create_queues:
                raise NoSuchQueue(f"queue '{name}' does not exist and auto-create-queues is off for '{address}'")
            self.require_address(address, routing_type)
            return self._session.create_queue(
                QueueConfig(
                    name=name,
                    address=address,
                    routing_type=routing_type,
                    filter=filter.text if filter is not None and is_subscription else None,
                    # A deleted subscription misses messages until its consumer comes back and creates it again.
                    auto_delete=False if routing_type is RoutingType.MULTICAST else None,
                    auto_created=True,
                )
            )
        if queue.address.name != address:
            raise NoSuchQueue(f"queue '{name}' is bound to address '{queue.address.name}', not to '{address}'")
        if filter is not None and is_subscription and queue.filter != filter:
            raise QueueExists(f"queue '{name}' exists with {_described(queue.filter)}; it cannot be read with another")
        return queue

    def subscribe(self, spec: SubscriptionSpec) -> Subscription:
        """Find or create the queue of a subscription, or replace it if its address or filter has changed.

        Raises NotAuthorized, NoSuchAddress, RoutingTypeMismatch, LimitExceeded; QueueExists if the queue is in use with
        another address or filter, or if all names are taken.
        """
        session = self._session
        is_named = False
        for name in spec.names:
            is_named = True
            queue = self._domain.queues.get(name)
            is_fit = queue is not None and self._fits(queue, spec)
            if queue is not None and not is_fit and not spec.recreates:
                continue
            # Checked first: otherwise the client would learn whether the queue exists.
            session.check(Permission.CONSUME, spec.address, name)
            if queue is not None and is_fit:
                return Subscription(queue, lifetime_of(spec))
            if queue is not None:
                self.discard(queue)
            session.check_creations(0, is_queue=True)
            self.require_address(spec.address, RoutingType.MULTICAST)
            config = config_of(name, spec, spec.address, creator_of(session.subject))
            return Subscription(session.create_queue(config), lifetime_of(spec), True)
        if is_named:
            raise QueueExists(f"the names for a queue of '{spec.address}' are taken by other subscriptions")
        session.check_creations(0, is_queue=True)
        self.require_address(spec.address, RoutingType.MULTICAST)
        text = None if spec.filter is None else spec.filter.text
        queue = session.create_temporary_queue(RoutingType.MULTICAST, spec.address, text, spec.ring_size)
        return Subscription(queue, Lifetime.TEMPORARY, True)

    def _fits(self, queue: Queue, spec: SubscriptionSpec) -> bool:
        """Tell whether an existing queue can serve the subscription."""
        if spec.recreates:
            # A configured queue stays as it is. Consumers above its limit are refused when they attach.
            is_same = queue.address.name == spec.address and queue.filter == spec.filter
            return queue.configuration_managed or is_same
        if queue.address.name != spec.address or queue.settings.max_consumers != spec.max_consumers:
            return False
        return self._session.owns(queue) and (spec.shared or not queue.consumers)

    def discard(self, queue: Queue) -> None:
        """Delete the queue of a subscription that has changed. Raises QueueExists if it is in use, NotAuthorized."""
        if queue.consumers:
            raise QueueExists(
                f"subscription '{queue.name}' is in use on address '{queue.address.name}' with "
                f"{_described(queue.filter)}; it can be changed when nobody consumes from it"
            )
        # Forced, here and below: it has no consumers, and that something else needs it does not keep a subscription.
        self._session.delete_queue(queue.name, force=True)

    def find(self, name: str) -> Queue | None:
        """Find the queue of a durable subscription; None if there is none or the client may not consume from it."""
        queue = self._domain.queues.get(name)
        if queue is None:
            return None
        try:
            self._session.check(Permission.CONSUME, queue.address.name, name)
        except NotAuthorized:
            return None
        return queue

    def unsubscribe(self, subscription: Subscription, reason: str, force: bool = False) -> None:
        """End a subscription whose consumer is closed; delete its queue, unless others consume from it.

        With `force` the queue is deleted even then, and its address is left to the reaper. Raises NotAuthorized and
        changes nothing if the client may not delete the queue.
        """
        queue = subscription.queue
        if subscription.lifetime is Lifetime.TEMPORARY:
            self._session.drop_temporary(queue, reason)
        elif ends(subscription, force):
            self._session.check_delete(queue)
            if force:
                delete_queue(self._domain, queue, reason)
            else:
                self._session.delete_queue(queue.name, force=True, reason=reason)

    def leave(self, subscription: Subscription, reason: str) -> None:
        """Note that a client disconnects without unsubscribing: its queue stays if it is durable.

        Raises NotAuthorized and changes nothing if a queue has to be deleted and the client may not do that.
        """
        if subscription.lifetime is not Lifetime.UNTIL_UNSUBSCRIBED:
            self.unsubscribe(subscription, reason)

    def withdraw(self, subscription: Subscription, reason: str) -> None:
        """Delete a queue that was just created for a client that cannot consume from it after all."""
        if subscription.is_new and not subscription.queue.is_deleted:
            self._session.drop_temporary(subscription.queue, reason)


def delete_queue(domain: Domain, queue: Queue, reason: str) -> None:
    """Delete the queue of a subscription, and its address if it has one for itself.

    Any other address is left to the reaper.
    """
    has_own = domain.exchanges.subscribed(queue) is not None
    domain.delete_queue(queue.name, force=True, reason=reason)
    address = queue.address
    if has_own and address.auto_created and address.is_unbound and not address.is_deleted:
        domain.delete_address(address.name, reason=reason)


def ends(subscription: Subscription, force: bool) -> bool:
    """End a subscription here; return whether its queue is to be deleted, and not kept for other nodes of a mesh."""
    queue = subscription.queue
    if queue.is_deleted or queue.configuration_managed or subscription.lifetime is Lifetime.KEPT:
        return False
    watcher = queue.dispatch.watcher
    if watcher is not None and watcher.gives_up(force):
        return False
    return force or not queue.consumers


def lifetime_of(spec: SubscriptionSpec) -> Lifetime:
    """Return when the queue of a subscription is deleted."""
    if spec.durable:
        return Lifetime.UNTIL_UNSUBSCRIBED
    return Lifetime.WHILE_CONSUMED if spec.shared else Lifetime.TEMPORARY


def config_of(name: str, spec: SubscriptionSpec, address: str, creator: str) -> QueueConfig:
    """Return the queue to be created for a subscription of a client; `creator` is its user."""
    return QueueConfig(
        name=name,
        address=address,
        routing_type=RoutingType.MULTICAST,
        durable=spec.durable,
        filter=None if spec.filter is None else spec.filter.text,
        max_consumers=spec.max_consumers,
        auto_delete=False,
        user=spec.user,
        creator=creator,
    )


def _described(filter: Filter | None) -> str:
    return "no filter" if filter is None else f"the filter {filter.text}"
