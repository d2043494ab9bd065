"""SUBSCRIBE and UNSUBSCRIBE of one connection: each filter is a step of its own, and gets its own answer."""

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING

from artemis_mqtt.broker.deliveries import Outlet, Subscription
from artemis_mqtt.broker.errors import to_reason, to_subscribe_reason
from artemis_mqtt.broker.ownership import check_unsubscribe
from artemis_mqtt.broker.subscriptions import subscribe, unsubscribe
from artemis_mqtt.broker.system_topics import is_system_topic
from artemis_mqtt.engine import packets, reasons
from artemis_mqtt.engine.topics import split_shared
from artemis_py.core.sessions.session import Session
from artemis_py.errors import NotAuthorized, Refusal

if TYPE_CHECKING:
    from artemis_mqtt.broker.handler import ClientHandler


def subscribe_steps(handler: "ClientHandler", request: packets.Subscribe) -> Iterator[None]:
    """Subscribe to one filter after the other, then answer."""
    codes: list[int] = []
    for wanted in request.subscriptions:
        exchange, core = handler.exchange, handler.core
        if exchange is None or core is None:
            return
        codes.append(_subscribe_to(handler, wanted, request.identifier, exchange.outlet, core))
        yield
    handler.answer_later(partial(handler.engine.send_suback, request.packet_id, codes))


def _subscribe_to(
    handler: "ClientHandler", wanted: packets.Subscription, identifier: int, outlet: Outlet, core: Session
) -> int:
    """Subscribe to one filter; returns its reason code."""
    is_system = is_system_topic(split_shared(wanted.topic_filter)[1])
    try:
        if is_system:
            _check_system_topics(handler, outlet)
        limit = handler.parameters.max_subscriptions
        qos = subscribe(handler.manager.sessions, outlet, core, wanted, identifier, limit)
        if is_system:
            handler.manager.system_topics.wanted(outlet.session.subscriptions[wanted.topic_filter].queue)
    except Refusal as refusal:
        handler.brake.warning(
            handler.source,
            "subscription refused: peer=%s client=%s filter=%s reason=%s",
            handler.context.peer,
            handler.client_id,
            wanted.topic_filter,
            refusal,
        )
        return to_subscribe_reason(refusal)
    return qos


def _check_system_topics(handler: "ClientHandler", outlet: Outlet) -> None:
    """Raise NotAuthorized for a client without a name, unless the acceptor lets it see them."""
    if outlet.is_checked and outlet.core.subject.user is None and not handler.parameters.shows_system_topics:
        raise NotAuthorized("anonymous clients do not see what is below $SYS")


def unsubscribe_steps(handler: "ClientHandler", request: packets.Unsubscribe) -> Iterator[None]:
    """End the subscription of one filter after the other, then answer, though 3.x cannot be told."""
    codes: list[int] = []
    for topic_filter in request.topic_filters:
        session = handler.session
        if session is None:
            return
        subscription = session.subscriptions.get(topic_filter)
        if subscription is None:
            codes.append(reasons.NO_SUBSCRIPTION_EXISTED)
        else:
            codes.append(_unsubscribe(handler, subscription, topic_filter))
        yield
    handler.answer_later(partial(handler.engine.send_unsuback, request.packet_id, codes))


def _unsubscribe(handler: "ClientHandler", subscription: Subscription, topic_filter: str) -> int:
    """End one subscription, if the client may; returns its reason code."""
    assert handler.core is not None
    sessions = handler.manager.sessions
    try:
        check_unsubscribe(sessions, subscription, handler.core)
    except NotAuthorized as refusal:
        # It stays, in 3.x too: what the client may not delete does not go because it cannot be told.
        template = "unsubscribe refused: peer=%s client=%s filter=%s reason=%s"
        handler.brake.warning(handler.source, template, handler.context.peer, handler.client_id, topic_filter, refusal)
        return to_reason(refusal)
    unsubscribe(sessions, subscription, handler.core, "the client unsubscribed")
    return reasons.SUCCESS
