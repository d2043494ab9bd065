"""The queue that a destination means to a consumer (artemis-model §4.3.2)."""

from typing import TYPE_CHECKING

from artemis_openwire.broker.destinations import consumed_address, durable_queue_name, is_wild
from artemis_openwire.broker.exchange_names import ExchangeName, read_exchange_name
from artemis_openwire.broker.refusals import CommandRefused, invalid_destination
from artemis_openwire.engine import errors
from artemis_openwire.engine.commands import ConsumerInfo
from artemis_openwire.engine.structures import (
    ActiveMQDestination,
    ActiveMQQueue,
    ActiveMQTempDestination,
    ActiveMQTempQueue,
)
from artemis_py.core.names.routing_type import RoutingType
from artemis_py.core.names.syntax import FQQN_SEPARATOR
from artemis_py.core.runtime.access import Permission
from artemis_py.core.selectors.filter import Filter, parse_filter
from artemis_py.core.sessions.exchange_subscriptions import (
    SELECTOR,
    binding_keys,
    exchange_type,
    subscribe_to_exchange,
)
from artemis_py.core.sessions.session import Session
from artemis_py.core.sessions.subscriptions import Subscription, SubscriptionSpec, without_own
from artemis_py.core.settings.exchange_config import ExchangeType

if TYPE_CHECKING:
    from artemis_openwire.broker.handler import ClientHandler


class Reading:
    """A queue, and how a consumer reads it."""

    def __init__(
        self,
        subscription: Subscription,
        filter: Filter | None = None,
        is_wild: bool = False,
        redirects: bool = False,
        has_keys: bool = False,
    ) -> None:
        self.subscription: Subscription = subscription
        self.filter: Filter | None = filter
        """Filter of the consumer; a subscription's own filter is that of its queue."""
        self.is_wild: bool = is_wild
        """Whether messages come from many addresses."""
        self.has_keys: bool = has_keys
        """Whether messages come through an exchange, and each names its routing key."""
        self.redirects: bool = redirects
        """Whether messages name the queue in place of the topic that they were sent to."""


def routing_type_of(destination: ActiveMQDestination) -> RoutingType:
    """Return the routing type that a destination stands for."""
    is_queue = isinstance(destination, (ActiveMQQueue, ActiveMQTempQueue))
    return RoutingType.ANYCAST if is_queue else RoutingType.MULTICAST


def filter_of(info: ConsumerInfo, client_id: str) -> Filter | None:
    """Return selector and noLocal as one filter. Raises InvalidFilter."""
    selector = parse_filter(info.selector) if info.selector is not None and info.selector.strip() else None
    if not info.no_local:
        return selector
    others = without_own(client_id)
    return parse_filter(others if selector is None else f"({selector.text}) AND {others}")


def open_reading(handler: "ClientHandler", session: Session, info: ConsumerInfo, part: ActiveMQDestination) -> Reading:
    """Find or create the queue for one destination of a consumer. Raises Refusal."""
    name = part.physical_name or ""
    wanted = filter_of(info, handler.client_id)
    if isinstance(part, ActiveMQTempDestination):
        _check_temporary(session, name)
    bound = read_exchange_name(name)
    if bound is not None:
        return _open_exchange(handler, session, info, part, bound, wanted)
    if FQQN_SEPARATOR in name:
        return _open_named(handler, session, info, part, wanted)
    if routing_type_of(part) is RoutingType.MULTICAST:
        return _open_topic(handler, session, info, name, wanted)
    found = handler.parameters.virtual_topics.find(name)
    if found is None:
        _check(session, info, name, name)
        return Reading(Subscription(session.anycast_queue(name)), wanted)
    address = consumed_address(found.address, handler.host.options.wildcards)
    _check(session, info, address, found.queue)
    of_queue = wanted if found.is_selector_aware else None
    queue = session.subscriptions.find(found.queue)
    if queue is None or queue.address.name != address:
        queue = session.subscriptions.named_queue(address, found.queue, RoutingType.MULTICAST, of_queue, info.browser)
    return Reading(Subscription(queue), wanted, redirects=True)


def _check(session: Session, info: ConsumerInfo, address: str, queue: str | None) -> None:
    """Check the permission before anything is looked up: otherwise the client would learn whether a queue exists."""
    session.check(Permission.BROWSE if info.browser else Permission.CONSUME, address, queue)


def _check_temporary(session: Session, name: str) -> None:
    """Raise CommandRefused unless a temporary destination exists and belongs to this client (openwire §14.1)."""
    is_own = session.owns_temporary(name)
    if is_own is None:
        raise invalid_destination(f"the temporary destination '{name}' does not exist")
    if not is_own:
        raise invalid_destination(f"the temporary destination '{name}' belongs to another connection")


def named_queue(handler: "ClientHandler", session: Session, name: str) -> tuple[str, str]:
    """Return address and queue of a fully qualified name. Raises Refusal."""
    address, queue_name = session.subscriptions.parse(name)
    if not queue_name:
        raise invalid_destination(f"'{name}' names no queue")
    return consumed_address(address, handler.host.options.wildcards), queue_name


def _is_virtual(handler: "ClientHandler", address: str, queue_name: str) -> bool:
    """Tell whether a name without its address means this queue, too, because the address is a virtual topic."""
    found = handler.parameters.virtual_topics.find(queue_name)
    return found is not None and consumed_address(found.address, handler.host.options.wildcards) == address


def _open_named(
    handler: "ClientHandler", session: Session, info: ConsumerInfo, part: ActiveMQDestination, wanted: Filter | None
) -> Reading:
    """Open the queue that a fully qualified name names."""
    address, queue_name = named_queue(handler, session, part.physical_name or "")
    _check(session, info, address, queue_name)
    routing_type = routing_type_of(part)
    is_topic = routing_type is RoutingType.MULTICAST
    existing = session.subscriptions.find(queue_name)
    if existing is not None and existing.address.name == address:
        routing_type = existing.routing_type
    elif session.subscriptions.routing_types(address) == {RoutingType.MULTICAST} or _is_virtual(
        handler, address, queue_name
    ):
        # A queue of a topic is a queue to those that know it by this name.
        routing_type = RoutingType.MULTICAST
    # The filter of a subscription is applied by the queue. Consumers of a queue have one each.
    is_subscription = is_topic and routing_type is RoutingType.MULTICAST and not info.browser
    of_queue = wanted if is_subscription else None
    queue = session.subscriptions.named_queue(address, queue_name, routing_type, of_queue, info.browser)
    from_many = handler.host.options.wildcards.is_wild(address)
    return Reading(Subscription(queue), None if is_subscription else wanted, is_wild=from_many)


def _open_topic(
    handler: "ClientHandler", session: Session, info: ConsumerInfo, name: str, wanted: Filter | None
) -> Reading:
    """Open the queue that collects for a subscriber."""
    address = consumed_address(name, handler.host.options.wildcards)
    if info.browser:
        raise invalid_destination(f"'{name}' is a topic, which has no messages to browse")
    if info.subscription_name is None:
        _check(session, info, address, None)
        session.prepare_address(address, RoutingType.MULTICAST)
        # A subscriber may prefer to miss old messages rather than to fall behind (openwire §14.1).
        limit = info.maximum_pending_message_limit
        temporary = SubscriptionSpec(address, filter=wanted, ring_size=limit if limit > 0 else None)
        return Reading(session.subscribe(temporary), is_wild=is_wild(name))
    queue_name = durable_queue_name(handler.client_id, info.subscription_name)
    _check(session, info, address, queue_name)
    check_inactive(session, handler.client_id, info.subscription_name)
    session.prepare_address(address, RoutingType.MULTICAST)
    spec = SubscriptionSpec(address, (queue_name,), True, False, wanted, session.subject.user, recreates=True)
    return Reading(session.subscribe(spec), is_wild=is_wild(name))


def _open_exchange(
    handler: "ClientHandler",
    session: Session,
    info: ConsumerInfo,
    part: ActiveMQDestination,
    bound: ExchangeName,
    wanted: Filter | None,
) -> Reading:
    """Open the queue that collects for a subscriber of an exchange."""
    if info.browser or routing_type_of(part) is not RoutingType.MULTICAST:
        text = f"'{part.physical_name}' is an exchange, which has no messages: subscribe to it as a topic"
        raise invalid_destination(text)
    kind = exchange_type(session, bound.exchange)
    if kind is ExchangeType.HEADERS and bound.key is None:
        # There is nothing to say which headers: a client that names a key knows that it gets all messages.
        raise invalid_destination(f"a subscription to the headers exchange '{bound.exchange}' needs a key, or a queue")
    keys = binding_keys(bound.exchange, kind, [] if bound.key is None else [bound.key])
    arguments = {} if wanted is None else {SELECTOR: wanted.text}
    limit = info.maximum_pending_message_limit
    spec = SubscriptionSpec(bound.exchange, ring_size=limit if limit > 0 else None)
    if info.subscription_name is not None:
        check_inactive(session, handler.client_id, info.subscription_name)
        names = (durable_queue_name(handler.client_id, info.subscription_name),)
        spec = SubscriptionSpec(bound.exchange, names, True, False, None, session.subject.user, recreates=True)
    return Reading(subscribe_to_exchange(session, spec, keys, arguments), has_keys=True)


def check_inactive(session: Session, client_id: str, subscription: str) -> None:
    """Raise CommandRefused if a durable subscription has a consumer."""
    queue = session.subscriptions.find(durable_queue_name(client_id, subscription))
    if queue is not None and queue.consumers:
        text = f"Durable consumer is in use for client: {client_id} and subscriptionName: {subscription}"
        raise CommandRefused(errors.JMS, text)
