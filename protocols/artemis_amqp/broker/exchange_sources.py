"""Links that receive through an exchange: a queue for the link, bound as the source asks for (qpid-exchanges §13)."""

from typing import TYPE_CHECKING, Final

from attrs import frozen

from artemis_amqp.broker.addressing import routing_type_of
from artemis_amqp.broker.subscriptions import spec_of
from artemis_amqp.engine.performatives import Attach, Source
from artemis_amqp.engine.types import Described, Symbol
from artemis_py.core.names.routing_type import RoutingType
from artemis_py.core.selectors.filter import Filter
from artemis_py.core.sessions.exchange_subscriptions import (
    SELECTOR,
    Scalar,
    binding_keys,
    exchange_to_consume,
    subscribe_to_exchange,
)
from artemis_py.core.sessions.session import Session
from artemis_py.core.sessions.subscriptions import Subscription
from artemis_py.core.settings.exchange_config import ExchangeType
from artemis_py.errors import InvalidRequest

if TYPE_CHECKING:
    from artemis_amqp.broker.handler import AmqpHandler

# Filters of a source that are about the binding, by their descriptors, and the type of exchange that each is for.
_KEY_FILTERS: Final = {
    0x468C00000000: ExchangeType.DIRECT,
    "apache.org:legacy-amqp-direct-binding:string": ExchangeType.DIRECT,
    0x468C00000001: ExchangeType.TOPIC,
    "apache.org:legacy-amqp-topic-binding:string": ExchangeType.TOPIC,
}
_HEADERS_FILTERS: Final = (0x468C00000002, "apache.org:legacy-amqp-headers-binding:map")


@frozen
class ExchangeSource:
    """What a source that means an exchange asks for."""

    exchange: str
    keys: tuple[str, ...]
    """Binding keys; none: the name of the queue."""
    arguments: dict[str, Scalar]
    """What the binding compares with the headers of messages."""
    applied: dict[Symbol, object]
    """Filters about the binding that are in force."""


def read_exchange_source(session: Session, source: Source, name: str) -> ExchangeSource | None:
    """Return what a source asks for, if its address means an exchange.

    Raises InvalidRequest for a subscription that would never get anything.
    """
    routing_type = routing_type_of(source.capabilities)
    if routing_type is RoutingType.ANYCAST:
        return None
    found = exchange_to_consume(session, name, routing_type is RoutingType.MULTICAST)
    if found is None:
        return None
    exchange, kind, key = found
    keys = [] if key is None else [key]
    arguments: dict[str, Scalar] = {}
    applied: dict[Symbol, object] = {}
    for entry, value in (source.filter or {}).items():
        descriptor = value.descriptor if isinstance(value, Described) else None
        content = value.value if isinstance(value, Described) else None
        if _KEY_FILTERS.get(descriptor) is kind and isinstance(content, str):
            keys.append(str(content))
            applied[entry] = value
        elif descriptor in _HEADERS_FILTERS and kind is ExchangeType.HEADERS and isinstance(content, dict):
            # Arguments that cannot be used are refused when the queue is bound.
            arguments.update({str(each): one for each, one in content.items()})
            applied[entry] = value
    keys = binding_keys(exchange, kind, keys)
    if kind is ExchangeType.HEADERS and key is None and not applied:
        raise InvalidRequest(f"a subscription to the headers exchange '{exchange}' needs a filter with the headers")
    return ExchangeSource(exchange, tuple(dict.fromkeys(keys)), arguments, applied)


def open_exchange_source(
    handler: "AmqpHandler", attach: Attach, source: Source, wanted: ExchangeSource, selector: Filter | None
) -> Subscription:
    """Find or create the queue of a subscription, bound as the source asks for. Raises a kind of Refusal.

    The selector belongs to the binding, so that a changed one is a changed subscription.
    """
    arguments = dict(wanted.arguments)
    if selector is not None:
        arguments[SELECTOR] = selector.text
    spec = spec_of(handler, attach, source, wanted.exchange, None)
    return subscribe_to_exchange(handler.core_session, spec, wanted.keys, arguments)
