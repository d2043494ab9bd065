"""The queue that a receiving link reads, found from its source (artemis-model §4.1.4)."""

from typing import TYPE_CHECKING, Final

from attrs import frozen

from artemis_amqp.broker.addressing import (
    GLOBAL,
    SHARED,
    SourceFilters,
    routing_type_of,
    subscription_name,
)
from artemis_amqp.engine import errors
from artemis_amqp.engine.performatives import Attach, Source
from artemis_amqp.engine.types import Symbol
from artemis_py.core.names.routing_type import RoutingType
from artemis_py.core.queues.queue import Queue
from artemis_py.core.runtime.access import Permission
from artemis_py.core.selectors.filter import Filter
from artemis_py.core.sessions.subscriptions import Lifetime, SubscriptionSpec
from artemis_py.core.sessions.subscriptions import Subscription as CoreSubscription
from artemis_py.errors import RoutingTypeMismatch

if TYPE_CHECKING:
    from artemis_amqp.broker.handler import AmqpHandler

COPY: Final = "copy"

_PRIORITIES: Final = ("priority", "rabbitmq:priority")
"""Properties of a link that are the consumer's priority."""


@frozen(kw_only=True)
class Subscription:
    """The queue of a receiving link, and how the link reads it."""

    of: CoreSubscription
    filter: Filter | None = None
    """Filter of the consumer; a subscription's own filter is that of its queue."""
    browse: bool = False
    priority: int = 0

    @property
    def queue(self) -> Queue:
        """The queue."""
        return self.of.queue

    @property
    def is_temporary(self) -> bool:
        """Whether the queue was created for this link and is deleted with it."""
        return self.of.lifetime is Lifetime.TEMPORARY


def open_source(handler: "AmqpHandler", attach: Attach, source: Source, filters: SourceFilters) -> Subscription:
    """Find or create the queue for a source with an address.

    Raises Refusal of any kind, and errors.Condition where the answer is AMQP's own. Long because each part of the
    source narrows the choice for the next one.
    """
    if source.address is None:
        raise errors.Condition(errors.INVALID_FIELD, "a source needs an address, or dynamic=true")
    session = handler.core_session
    text, prefixed, priority = handler.split_source(source.address)
    name, queue_name = session.subscriptions.parse(text)
    routing_type = routing_type_of(source.capabilities)
    if routing_type is None:
        routing_type = prefixed
    priority = link_priority(attach, priority)
    browse = source.distribution_mode == COPY
    is_topic = routing_type is RoutingType.MULTICAST or (
        routing_type is None and session.subscriptions.routing_types(name) == {RoutingType.MULTICAST}
    )
    if queue_name is not None:
        # Checked before anything is looked up: otherwise the client would learn whether the queue exists.
        session.check(Permission.BROWSE if browse else Permission.CONSUME, name, queue_name)
    elif is_topic:
        if filters.range is not None and not browse:
            raise errors.Condition(errors.INVALID_FIELD, "a sequence range is for browsers: distribution-mode copy")
        spec = spec_of(handler, attach, source, name, filters.combined(handler.container_id))
        return Subscription(of=session.subscribe(spec), priority=priority)
    if routing_type is not None and not _is_exempt(handler, name, queue_name, routing_type):
        session.subscriptions.require_address(name, routing_type)
    if filters.range is not None and not browse:
        raise errors.Condition(errors.INVALID_FIELD, "a sequence range is for browsers: distribution-mode copy")
    wanted = filters.combined(handler.container_id)
    if queue_name is None:
        queue = session.queue_to_consume(name)
        if queue.routing_type is not RoutingType.ANYCAST:
            raise RoutingTypeMismatch(f"queue '{queue.name}' is MULTICAST; consume it as '{name}::{queue.name}'")
    else:
        kind = RoutingType.MULTICAST if is_topic else RoutingType.ANYCAST
        queue = session.subscriptions.named_queue(name, queue_name, kind, wanted, browse)
        if is_topic and not browse:
            # The filter is applied by the queue.
            wanted = None
    return Subscription(of=CoreSubscription(queue), filter=wanted, browse=browse, priority=priority)


def _is_exempt(handler: "AmqpHandler", name: str, queue_name: str | None, routing_type: RoutingType) -> bool:
    """Tell whether the address may lack the routing type: any of its queues can be read by its name
    (artemis-model §4.1.4, 5).
    """
    return (
        queue_name is not None
        and routing_type is RoutingType.ANYCAST
        and len(handler.core_session.subscriptions.routing_types(name)) > 0
    )


def spec_of(
    handler: "AmqpHandler", attach: Attach, source: Source, name: str, wanted: Filter | None
) -> SubscriptionSpec:
    """Return the spec of a subscription to a multicast address or an exchange of this name.

    One that is neither durable nor shared has no name.
    """
    is_durable, is_shared = source.durable > 0, SHARED in source.capabilities
    if not is_durable and not is_shared:
        return SubscriptionSpec(name, filter=wanted)
    return SubscriptionSpec(
        name,
        (_subscription_name(handler, attach.name, is_durable, source.capabilities),),
        is_durable,
        is_shared,
        wanted,
        handler.core_session.subject.user if is_durable else None,
        recreates=True,
    )


def _subscription_name(
    handler: "AmqpHandler", link_name: str, is_durable: bool, capabilities: tuple[Symbol, ...]
) -> str:
    return subscription_name(
        handler.container_id,
        link_name,
        is_durable,
        SHARED in capabilities,
        GLOBAL in capabilities,
        handler.host.options.amqp_use_core_subscription_naming,
    )


def link_priority(attach: Attach, default: int) -> int:
    """Return the consumer's priority: a property of the link beats the parameter of the address."""
    for key, value in (attach.properties or {}).items():
        if key in _PRIORITIES and isinstance(value, int) and not isinstance(value, bool):
            return int(value)
    return default


def find_durable(handler: "AmqpHandler", attach: Attach) -> Subscription | None:
    """Find the durable subscription of this link name: a client that sends no source asks what we remember."""
    name = _subscription_name(handler, attach.name, True, attach.desired_capabilities)
    queue = handler.core_session.subscriptions.find(name)
    return None if queue is None else Subscription(of=CoreSubscription(queue, Lifetime.UNTIL_UNSUBSCRIBED))


def open_node(handler: "AmqpHandler", name: str, source: Source, wanted: Filter | None) -> Subscription:
    """Open the dynamic node that was created for a link; for a temporary topic, subscribe the link to it."""
    session = handler.core_session
    if routing_type_of(source.capabilities) is RoutingType.MULTICAST:
        return Subscription(of=session.subscribe(SubscriptionSpec(name)), filter=wanted)
    return Subscription(of=CoreSubscription(session.queue_to_consume(name)), filter=wanted)
