"""Subscriptions through an exchange: a queue for a subscriber, on an address of its own, and its bindings.

Names, lifetimes and permissions of the queue are those of other subscriptions (`subscriptions`). Which messages it gets
is decided by its bindings, which the protocol reads from what the client asks for.
"""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from artemis_py.core.names.routing_type import RoutingType
from artemis_py.core.names.syntax import FQQN_SEPARATOR
from artemis_py.core.queues.dispatcher import QUEUE_PARTS
from artemis_py.core.queues.queue import Queue
from artemis_py.core.routing.creations import creator_of
from artemis_py.core.routing.exchanges.arguments import SELECTOR as SELECTOR
from artemis_py.core.routing.exchanges.arguments import Scalar as Scalar
from artemis_py.core.routing.exchanges.arguments import check_arguments
from artemis_py.core.routing.exchanges.exchange import Exchange
from artemis_py.core.runtime.access import Permission
from artemis_py.core.sessions.subscriptions import Lifetime, Subscription, SubscriptionSpec, config_of, lifetime_of
from artemis_py.core.settings.exchange_config import Destination, ExchangeType
from artemis_py.errors import InvalidRequest, QueueExists, Refusal, RoutingTypeMismatch

if TYPE_CHECKING:
    from artemis_py.core.sessions.session import Session


def exchange_to_consume(
    session: "Session", text: str, wants_topic: bool
) -> tuple[str, ExchangeType, str | None] | None:
    """Return the name and type of the exchange, and the key, that a consumer means by `exchange` or `exchange/key`.

    None if the text means no exchange: a queue or an address of that name comes first, unless the client `wants_topic`.
    """
    domain = session.domain
    if FQQN_SEPARATOR in text or (not wants_topic and (text in domain.queues or text in domain.addresses)):
        return None
    found = domain.exchanges.named_in(text)
    return None if found is None else (found[0].name, found[0].config.type, found[1])


def exchange_type(session: "Session", name: str) -> ExchangeType:
    """Return the type of an exchange. Raises NoSuchExchange."""
    return session.domain.exchanges.exchange(name).config.type


def binding_keys(exchange: str, kind: ExchangeType, keys: list[str]) -> list[str]:
    """Return the binding keys of a subscription that asks for these: to a topic exchange all, if it asks for none.

    Raises InvalidRequest for a subscription to a direct exchange that would never get anything.
    """
    if kind is ExchangeType.TOPIC and not keys:
        return ["#"]
    if kind is ExchangeType.DIRECT and not keys:
        raise InvalidRequest(f"a subscription to the direct exchange '{exchange}' needs a key: '{exchange}/key'")
    return keys


def subscribe_to_exchange(
    session: "Session", spec: SubscriptionSpec, keys: Iterable[str], arguments: Mapping[str, Scalar]
) -> Subscription:
    """Find or create the queue of a subscription to the exchange `spec.address`, bound by each key with the arguments.

    Without keys the name of the queue is its key. An unused queue with other bindings is replaced if `spec.recreates`
    says so; bindings that somebody added do not count. Raises NotAuthorized, NoSuchExchange, LimitExceeded,
    InvalidFilter, InvalidRequest, RoutingTypeMismatch; QueueExists as `Subscriptions.subscribe`. There is no new queue
    then.
    """
    exchanges = session.domain.exchanges
    exchange = exchanges.exchange(spec.address)
    wanted = check_arguments(arguments)
    session.check(Permission.CONSUME, exchange.name)
    wanted_keys = list(keys)
    is_named = False
    for name in spec.names:
        is_named = True
        queue = session.domain.queues.get(name)
        is_fit = queue is not None and _fits(session, queue, spec, exchange, wanted_keys, wanted)
        if queue is not None and not is_fit and not spec.recreates:
            continue
        # Checked first: otherwise the client would learn whether the queue exists.
        own = exchanges.own_address(exchange.name, name)
        session.check(Permission.CONSUME, own, name)
        if queue is not None and is_fit:
            # What is refused must leave no binding behind.
            session.check_consumer(queue)
            if queue.address.name != own and not _is_bound(exchange, queue, wanted_keys, wanted):
                session.check(Permission.SEND, queue.address.name, name)
            _bind(session, exchange, queue, wanted_keys, wanted)
            return Subscription(queue, lifetime_of(spec))
        if queue is not None:
            session.subscriptions.discard(queue)
        queue = _create(session, name, own, spec)
        _bind_new(session, exchange, queue, wanted_keys, wanted)
        return Subscription(queue, lifetime_of(spec), True)
    if is_named:
        raise QueueExists(f"the names for a queue of exchange '{exchange.name}' are taken by other subscriptions")
    text = None if spec.filter is None else spec.filter.text
    queue = session.create_temporary_queue(RoutingType.MULTICAST, None, text, spec.ring_size)
    _bind_new(session, exchange, queue, wanted_keys, wanted)
    return Subscription(queue, Lifetime.TEMPORARY, True)


def subscribed_exchange(session: "Session", queue: Queue) -> str | None:
    """Return the name of the exchange that a subscription collects from; None if it collects from its address."""
    exchange = session.domain.exchanges.subscribed(queue)
    return None if exchange is None else exchange.name


def _fits(
    session: "Session",
    queue: Queue,
    spec: SubscriptionSpec,
    exchange: Exchange,
    keys: list[str],
    arguments: dict[str, Scalar],
) -> bool:
    """Tell whether an existing queue can serve the subscription; one that is not replaced is bound again if needed."""
    own = session.domain.exchanges.own_address(exchange.name, queue.name)
    if spec.recreates:
        if queue.configuration_managed:
            return True
        is_same = queue.address.name == own and queue.filter == spec.filter
        return is_same and _is_bound(exchange, queue, keys, arguments)
    if queue.address.name != own or queue.settings.max_consumers != spec.max_consumers:
        return False
    return session.owns(queue) and (spec.shared or not queue.consumers)


def _is_bound(exchange: Exchange, queue: Queue, keys: list[str], arguments: dict[str, Scalar]) -> bool:
    """Tell whether a queue is bound by all keys, with equal arguments: 1, 1.0 and true are three values."""
    for key in keys or [queue.name]:
        binding = exchange.bindings.get((key, True, queue.name))
        if binding is None or binding.arguments != arguments:
            return False
        for name, value in binding.arguments.items():
            if type(value) is not type(arguments[name]):
                return False
    return True


def _create(session: "Session", name: str, own: str, spec: SubscriptionSpec) -> Queue:
    """Create the queue, and its own address if there is none. Raises a kind of Refusal."""
    domain = session.domain
    address = domain.addresses.get(own)
    if address is not None and RoutingType.MULTICAST not in address.routing_types:
        raise RoutingTypeMismatch(
            f"queue '{name}' of the subscription needs the address '{own}' for topics, and that one is for queues"
        )
    if address is None:
        session.check(Permission.CREATE_ADDRESS, own)
        session.check_reach(own)
        domain.dispatcher.check_tables(f"address '{own}'", QUEUE_PARTS)
        # It counts for no user: it comes and goes with a queue, and the queue of a subscription does not count either.
        domain.create_address(own, frozenset((RoutingType.MULTICAST,)), auto_created=True)
    try:
        return session.create_queue(config_of(name, spec, own, creator_of(session.subject)))
    except Refusal:
        if address is None:
            domain.delete_address(own, reason="its queue was refused")
        raise


def _bind_new(
    session: "Session", exchange: Exchange, queue: Queue, keys: list[str], arguments: dict[str, Scalar]
) -> None:
    """Bind a queue that was created for a subscription. Raises a kind of Refusal; there is no queue then."""
    address = queue.address
    try:
        _bind(session, exchange, queue, keys, arguments)
    except Refusal:
        session.drop_temporary(queue, "it could not be bound")
        # Without a binding nothing tells any more that the address was for this queue.
        if address.auto_created and address.is_unbound and not address.is_deleted:
            session.domain.delete_address(address.name, reason="its queue could not be bound")
        raise


def _bind(session: "Session", exchange: Exchange, queue: Queue, keys: list[str], arguments: dict[str, Scalar]) -> None:
    exchanges = session.domain.exchanges
    destination = Destination(queue.name, is_queue=True)
    for key in keys or [queue.name]:
        session.domain.dispatcher.check_tables(f"a binding of exchange '{exchange.name}'", QUEUE_PARTS)
        exchanges.bind(exchange, key, destination, arguments)
