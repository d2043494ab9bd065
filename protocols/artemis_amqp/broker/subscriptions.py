"""Which queue a receiving link gets, and what becomes of it when the link goes (reference/artemis-model §4.1.4)."""

from enum import Enum
from typing import TYPE_CHECKING, Final

from attrs import frozen

from artemis_amqp.broker.addressing import (
    GLOBAL,
    SHARED,
    SourceFilters,
    cut_parameters,
    routing_type_of,
    subscription_name,
)
from artemis_amqp.engine import errors
from artemis_amqp.engine.performatives import Attach, Source
from artemis_amqp.engine.types import Symbol
from artemis_py.core.names.routing_type import RoutingType
from artemis_py.core.names.syntax import parse_fqqn
from artemis_py.core.queues.queue import Queue
from artemis_py.core.runtime.access import Permission
from artemis_py.core.selectors.filter import Filter
from artemis_py.core.settings.options import QueueConfig
from artemis_py.errors import NoSuchAddress, NoSuchQueue, NotAuthorized, RoutingTypeMismatch

if TYPE_CHECKING:
    from artemis_amqp.broker.handler import AmqpHandler

COPY: Final = "copy"


class Afterlife(Enum):
    """What happens to the queue when its link goes."""

    KEEP = "keep"
    """It is nobody's in particular."""
    UNSUBSCRIBE = "unsubscribe"
    """A durable subscription: closing the link deletes it, detaching keeps it."""
    LAST_ONE = "last one"
    """A shared volatile subscription: deleted with its last consumer."""
    TEMPORARY = "temporary"
    """Made for this link: deleted with it."""


@frozen(kw_only=True)
class Subscription:
    """What a receiving link reads from."""

    queue: Queue
    filter: Filter | None = None
    """Of the consumer; a subscription's own filter is its queue's."""
    browse: bool = False
    priority: int = 0
    afterlife: Afterlife = Afterlife.KEEP


def open_source(handler: "AmqpHandler", attach: Attach, source: Source, filters: SourceFilters) -> Subscription:
    """Find or create the queue for a source with an address.

    Raises Refusal of any kind, and errors.Condition where the answer is AMQP's own.
    """
    if source.address is None:
        raise errors.Condition(errors.INVALID_FIELD, "a source needs an address, or dynamic=true")
    session = handler.core_session
    office = handler.postoffice
    text, priority = cut_parameters(source.address)
    text, prefixed = handler.prefixes.strip(text)
    name, queue_name = parse_fqqn(text)
    if queue_name is not None and not name:
        name = office.queue(queue_name).address.name
    routing_type = routing_type_of(source.capabilities)
    if routing_type is None:
        routing_type = prefixed
    priority = _link_priority(attach, priority)
    existing = office.addresses.get(name)
    browse = source.distribution_mode == COPY
    is_topic = routing_type is RoutingType.MULTICAST or (
        routing_type is None and existing is not None and existing.routing_types == {RoutingType.MULTICAST}
    )
    _check_rights(handler, attach, source, name, queue_name, is_topic, browse)
    if routing_type is not None:
        _require(handler, name, routing_type, is_fqqn=queue_name is not None)
    else:
        routing_type = RoutingType.MULTICAST if is_topic else RoutingType.ANYCAST
    if filters.range is not None and not browse:
        raise errors.Condition(errors.INVALID_FIELD, "a sequence range is for browsers: distribution-mode copy")
    if routing_type is RoutingType.ANYCAST:
        if queue_name is None:
            queue = session.queue_to_consume(name)
        else:
            queue = _named_queue(handler, name, queue_name, routing_type, None)
        if queue.routing_type is not RoutingType.ANYCAST and queue_name is None:
            raise RoutingTypeMismatch(f"queue '{queue.name}' is MULTICAST; consume it as '{name}::{queue.name}'")
        consumer_filter = filters.combined(handler.container_id)
        return Subscription(queue=queue, filter=consumer_filter, browse=browse, priority=priority)
    if queue_name is not None:
        return _open_named(handler, name, queue_name, filters, browse, priority)
    return _subscribe(handler, attach, source, name, filters, priority)


def _check_rights(
    handler: "AmqpHandler",
    attach: Attach,
    source: Source,
    name: str,
    queue_name: str | None,
    is_topic: bool,
    browse: bool,
) -> None:
    """Ask first whether the client may read a queue that has a name: else it would learn whether it is there.

    Raises NotAuthorized.
    """
    permission = Permission.BROWSE if browse else Permission.CONSUME
    if queue_name is None:
        if not is_topic or not _has_name(source):
            # Which queue it is depends on what is there.
            return
        queue_name = _subscription_name(handler, attach.name, source.durable > 0, source.capabilities)
        permission = Permission.CONSUME
    handler.core_session.check(permission, name, queue_name)


def _has_name(source: Source) -> bool:
    """Whether a subscription is one that can be found again."""
    return source.durable > 0 or SHARED in source.capabilities


def _subscription_name(
    handler: "AmqpHandler", link_name: str, is_durable: bool, capabilities: tuple[Symbol, ...]
) -> str:
    return subscription_name(
        handler.container_id,
        link_name,
        is_durable,
        SHARED in capabilities,
        GLOBAL in capabilities,
        handler.postoffice.options.amqp_use_core_subscription_naming,
    )


def _link_priority(attach: Attach, default: int) -> int:
    """The link property `priority` beats the address' parameter."""
    for key, value in (attach.properties or {}).items():
        if key == "priority" and isinstance(value, int) and not isinstance(value, bool):
            return int(value)
    return default


def _require(handler: "AmqpHandler", name: str, routing_type: RoutingType, is_fqqn: bool) -> None:
    """The address must support what the client asks for; an unknown one is created with that type.

    A receiver never widens an address that is there (reference/artemis-model §1.4, asymmetry).
    """
    office = handler.postoffice
    address = office.addresses.get(name)
    if address is None:
        if not office.settings.resolve(name).auto_create_addresses:
            raise NoSuchAddress(f"address '{name}' does not exist and auto-create-addresses is off for it")
        handler.core_session.create_address(name, frozenset((routing_type,)), auto_created=True)
    elif routing_type not in address.routing_types and not (is_fqqn and routing_type is RoutingType.ANYCAST):
        kind, other = ("queue", "topic") if routing_type is RoutingType.ANYCAST else ("topic", "queue")
        raise RoutingTypeMismatch(
            f"address '{name}' is not configured for {kind} support: it is {address_types(address.routing_types)}. "
            f"Attach with the capability '{other}', or give the address {routing_type.name} as well"
        )


def address_types(routing_types: frozenset[RoutingType]) -> str:
    """For error texts."""
    return " and ".join(sorted(routing_type.name for routing_type in routing_types))


def _named_queue(
    handler: "AmqpHandler", name: str, queue_name: str, routing_type: RoutingType, queue_filter: str | None
) -> Queue:
    """The queue an FQQN names, created if allowed. Raises NoSuchQueue, NoSuchAddress, NotAuthorized."""
    office = handler.postoffice
    queue = office.queues.get(queue_name)
    if queue is not None:
        if queue.address.name != name:
            raise NoSuchQueue(f"queue '{queue_name}' is bound to address '{queue.address.name}', not to '{name}'")
        return queue
    settings = office.settings.resolve(name)
    if not settings.auto_create_queues:
        raise NoSuchQueue(f"queue '{queue_name}' does not exist and auto-create-queues is off for '{name}'")
    _require(handler, name, routing_type, is_fqqn=False)
    return handler.core_session.create_queue(
        QueueConfig(
            name=queue_name,
            address=name,
            routing_type=routing_type,
            filter=queue_filter,
            # A subscription misses what is sent while it is not there; nobody makes it again but its consumer.
            auto_delete=False if routing_type is RoutingType.MULTICAST else None,
            auto_created=True,
        )
    )


def _open_named(
    handler: "AmqpHandler", name: str, queue_name: str, filters: SourceFilters, browse: bool, priority: int
) -> Subscription:
    """Multicast and FQQN: that queue; a selector is its filter, unless the client only browses."""
    if browse:
        queue = _named_queue(handler, name, queue_name, RoutingType.MULTICAST, None)
        return Subscription(queue=queue, filter=filters.combined(handler.container_id), browse=True, priority=priority)
    wanted = filters.combined(handler.container_id)
    queue = _named_queue(handler, name, queue_name, RoutingType.MULTICAST, None if wanted is None else wanted.text)
    if wanted is not None and queue.filter != wanted:
        raise errors.Condition(
            errors.ILLEGAL_STATE,
            f"queue '{queue_name}' exists with {_filter_text(queue.filter)}; it cannot be read with another",
        )
    return Subscription(queue=queue, priority=priority)


def _filter_text(queue_filter: Filter | None) -> str:
    return "no filter" if queue_filter is None else f"the filter {queue_filter.text}"


def _subscribe(
    handler: "AmqpHandler", attach: Attach, source: Source, name: str, filters: SourceFilters, priority: int
) -> Subscription:
    """A subscription of a multicast address."""
    session = handler.core_session
    wanted = filters.combined(handler.container_id)
    text = None if wanted is None else wanted.text
    is_durable = source.durable > 0
    is_shared = SHARED in source.capabilities
    if not _has_name(source):
        queue = session.create_temporary_queue(RoutingType.MULTICAST, name, text)
        return Subscription(queue=queue, priority=priority, afterlife=Afterlife.TEMPORARY)
    queue_name = _subscription_name(handler, attach.name, is_durable, source.capabilities)
    existing = handler.postoffice.queues.get(queue_name)
    if existing is not None and not existing.configuration_managed:
        if existing.address.name != name or existing.filter != wanted:
            if existing.consumers:
                raise errors.Condition(
                    errors.ILLEGAL_STATE,
                    f"subscription '{queue_name}' is in use on address '{existing.address.name}' with "
                    f"{_filter_text(existing.filter)}; it can be changed when nobody consumes from it",
                )
            session.delete_queue(queue_name)
            existing = None
            if name not in handler.postoffice.addresses:
                _require(handler, name, RoutingType.MULTICAST, is_fqqn=False)
    if existing is None:
        existing = session.create_queue(
            QueueConfig(
                name=queue_name,
                address=name,
                routing_type=RoutingType.MULTICAST,
                durable=is_durable,
                filter=text,
                max_consumers=-1 if is_shared else 1,
                auto_delete=False,
                user=session.subject.user if is_durable else None,
            )
        )
    afterlife = Afterlife.UNSUBSCRIBE if is_durable else Afterlife.LAST_ONE
    return Subscription(queue=existing, priority=priority, afterlife=afterlife)


def find_durable(handler: "AmqpHandler", attach: Attach) -> Queue | None:
    """The durable subscription of this link name: how a client without a source asks what we remember.

    One that the client may not read is not there for it.
    """
    queue_name = _subscription_name(handler, attach.name, True, attach.desired_capabilities)
    queue = handler.postoffice.queues.get(queue_name)
    if queue is not None:
        try:
            handler.core_session.check(Permission.CONSUME, queue.address.name, queue.name)
        except NotAuthorized:
            return None
    return queue
