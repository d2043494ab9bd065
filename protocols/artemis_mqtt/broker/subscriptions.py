"""Queues of topic filters: subscribing, suspending, resuming and unsubscribing (artemis-model §4.2.2, §4.2.3)."""

from collections.abc import Callable, Container, Iterator
from functools import partial
from typing import TYPE_CHECKING, Final

from artemis_mqtt.broker.addressing import is_wild, queue_names, to_address, to_key
from artemis_mqtt.broker.deliveries import UNLIMITED_CREDIT, Outlet, Subscription
from artemis_mqtt.broker.format import retained_copy
from artemis_mqtt.broker.kinds import BORROWED, OWN, SHARED
from artemis_mqtt.broker.parameters import exchange_of
from artemis_mqtt.broker.sent import sent
from artemis_mqtt.broker.session import ClientSession
from artemis_mqtt.engine import packets
from artemis_mqtt.engine.flight import SENT
from artemis_mqtt.engine.publish import subscription_identifier_property
from artemis_mqtt.engine.topics import split_shared
from artemis_py.core.messages.message import Message
from artemis_py.core.names.routing_type import RoutingType
from artemis_py.core.queues.consumer import REJECTED, RELEASED
from artemis_py.core.queues.reference import Reference
from artemis_py.core.runtime.access import Permission
from artemis_py.core.runtime.background import Steps
from artemis_py.core.selectors.filter import parse_filter
from artemis_py.core.services.retained import Newcomer
from artemis_py.core.sessions.exchange_subscriptions import subscribe_to_exchange
from artemis_py.core.sessions.exchanges import check_topic_exchange
from artemis_py.core.sessions.session import Session
from artemis_py.core.sessions.subscriptions import Lifetime, SubscriptionSpec, without_own
from artemis_py.core.sessions.subscriptions import Subscription as CoreSubscription
from artemis_py.errors import LimitExceeded, NoSuchQueue, Refusal
from artemis_py.protocol import Host

if TYPE_CHECKING:
    from artemis_mqtt.broker.sessions import Sessions
    from artemis_py.core.services.retained import RetainedSearch

# Retained messages are deposited in slices of a few ms (pure Python); other connections are served in between.
RETAINED_SLICE: Final = 200
RETAINED_STEPS: Final = 2000
# Retained messages that wait in a subscription's queue at most: the broker does not keep them all for a slow client.
RETAINED_AHEAD: Final = 2000
# Milliseconds that the next slice waits while the queue has that many.
RETAINED_PAUSE_MS: Final = 20

# Retain Handling (MQTT 5.0 §3.8.3.1).
_SEND_ALWAYS: Final = 0
_SEND_IF_NEW: Final = 1


def subscribe(
    sessions: "Sessions", outlet: Outlet, core: Session, request: packets.Subscription, identifier: int, limit: int
) -> int:
    """Create or change one subscription; return the QoS that it got. Raises Refusal.

    `limit` is the number of subscriptions that one session may have.
    """
    session = outlet.session
    group, topic_filter = split_shared(request.topic_filter)
    address = to_address(topic_filter, sessions.host.options.wildcards)
    exchange = exchange_of(outlet.handler.parameters, topic_filter)
    core.check(Permission.CONSUME, exchange or address)
    subscription = session.subscriptions.get(request.topic_filter)
    is_new = subscription is None
    if subscription is None:
        if len(session.subscriptions) >= limit:
            raise LimitExceeded(f"the session has {limit} subscriptions, which is the limit")
        if exchange:
            found, kind = _find_bound(sessions, session, core, group, topic_filter, exchange, request.no_local)
        else:
            found, kind = _find(sessions, session, core, group, address, request.no_local)
        subscription = Subscription(session, session.next_subscription(), request.topic_filter, found.queue, kind)
        subscription.has_keys = bool(exchange)
        _apply(subscription, request, identifier)
        try:
            attach(subscription, outlet, core)
        except Refusal:
            core.subscriptions.withdraw(found, "its subscription was refused")
            raise
        session.subscriptions[request.topic_filter] = subscription
        sessions.joined(subscription)
    else:
        _change(subscription, outlet, core, request, identifier)
        # From now on retained messages are sent whether or not the history had them.
        subscription.queue.history_ids = None
    session.save_subscription(subscription)
    if not group and (request.retain_handling == _SEND_ALWAYS or (is_new and request.retain_handling == _SEND_IF_NEW)):
        sessions.host.retained.introduce(_NewSubscription(subscription, address, sessions.host))
    return request.qos


def _apply(subscription: Subscription, request: packets.Subscription, identifier: int) -> None:
    subscription.qos = request.qos
    subscription.no_local = request.no_local
    subscription.retain_as_published = request.retain_as_published
    subscription.is_wild = is_wild(request.topic_filter)
    subscription.identifier_number = identifier
    subscription.identifier = subscription_identifier_property(identifier) if identifier else b""


def _change(
    subscription: Subscription, outlet: Outlet, core: Session, request: packets.Subscription, identifier: int
) -> None:
    """Replace the options of a subscription to the same filter; no message is lost [MQTT-3.8.4-3]."""
    if request.no_local != subscription.no_local and subscription.kind == OWN:
        text = without_own(subscription.session.client_id) if request.no_local else None
        core.update_queue(subscription.queue.name, {"filter": text})
    was_presettled = subscription.qos == 0
    _apply(subscription, request, identifier)
    consumer = subscription.consumer
    if consumer is None:
        # It was suspended, because the client had lost the permission.
        resume(subscription, outlet, core, under_way(subscription.session).get(subscription, []))
        outlet.go_on()
    elif was_presettled != (request.qos == 0):
        kept = consumer.unsettled()
        for reference in kept:
            consumer.relinquish(reference)
        core.close_consumer(consumer)
        attach(subscription, outlet, core)
        assert subscription.consumer is not None
        for reference in kept:
            subscription.consumer.adopt(reference)


def _find(
    sessions: "Sessions", session: ClientSession, core: Session, group: str, address: str, no_local: bool
) -> tuple[CoreSubscription, str]:
    """Find or create the queue of a new subscription. Raises Refusal."""
    types = core.subscriptions.routing_types(address)
    if types and RoutingType.MULTICAST not in types:
        return CoreSubscription(core.queue_to_consume(address)), BORROWED
    spec = _spec(sessions, session, core, group, address, address, no_local)
    return core.subscribe(spec), SHARED if group else OWN


def _find_bound(
    sessions: "Sessions",
    session: ClientSession,
    core: Session,
    group: str,
    topic_filter: str,
    exchange: str,
    no_local: bool,
) -> tuple[CoreSubscription, str]:
    """Find or create the queue of a new subscription to a filter that is a binding key. Raises Refusal."""
    check_topic_exchange(core, exchange)
    address = to_address(topic_filter, sessions.host.options.wildcards)
    spec = _spec(sessions, session, core, group, address, exchange, no_local)
    return subscribe_to_exchange(core, spec, [to_key(topic_filter)], {}), SHARED if group else OWN


def _spec(
    sessions: "Sessions", session: ClientSession, core: Session, group: str, filter: str, address: str, no_local: bool
) -> SubscriptionSpec:
    """Describe the queue of a subscription to an address or exchange; its name has the filter, as an address."""
    return SubscriptionSpec(
        address,
        _free_names(sessions, queue_names(session.client_id, group, filter)),
        durable=session.is_stored or bool(group),
        shared=bool(group),
        filter=parse_filter(without_own(session.client_id)) if no_local else None,
        user=None if group else core.subject.user,
    )


def _free_names(sessions: "Sessions", names: tuple[str, ...]) -> Iterator[str]:
    """Yield the names one by one; if a queue of an ended session still has one, that queue is deleted first."""
    for name in names:
        sessions.finish(name)
        yield name


def attach(subscription: Subscription, outlet: Outlet, core: Session) -> None:
    """Create the consumer of a subscription, so that deliveries begin. Raises Refusal."""
    leaving = subscription.leaving
    if leaving is not None:
        subscription.leaving = None
        leaving.close()
    consumer = core.consume(subscription.queue, subscription, presettled=subscription.qos == 0)
    subscription.consumer = consumer
    subscription.outlet = outlet
    consumer.grant(UNLIMITED_CREDIT)


def under_way(session: ClientSession) -> dict[Subscription, list[Reference]]:
    """Return the unsettled deliveries of a session, by subscription."""
    found: dict[Subscription, list[Reference]] = {}
    for delivery in session.outgoing.deliveries.in_order():
        token = sent(delivery)
        if token is not None and token.reference is not None:
            found.setdefault(token.subscription, []).append(token.reference)
    return found


def resume(subscription: Subscription, outlet: Outlet, core: Session, under_way: list[Reference]) -> None:
    """Attach a subscription whose client is back, and give it the deliveries under way. Raises Refusal.

    Nothing new is delivered until `Outlet.go_on`, because the CONNACK has not been sent yet.
    """
    queue = subscription.queue
    if queue.is_deleted:
        raise NoSuchQueue(f"queue '{queue.name}' was deleted while its client was away")
    attach(subscription, outlet, core)
    consumer = subscription.consumer
    assert consumer is not None
    for reference in under_way:
        consumer.adopt(reference)
    consumer.block()
    outlet.blocked.append(subscription)


def suspend(session: ClientSession) -> None:
    """Suspend the subscriptions of a session whose client is gone: it keeps deliveries under way, the rest is returned.

    For a shared subscription it keeps only QoS 2 [MQTT-4.8.2-4]; other members of the group get the rest.
    """
    outgoing = session.outgoing
    for delivery in outgoing.deliveries.in_order():
        token = sent(delivery)
        if token is None or token.reference is None:
            continue
        subscription = token.subscription
        if session.subscriptions.get(subscription.topic_filter) is not subscription:
            continue
        if subscription.kind == OWN or delivery.qos == 2:
            if subscription.consumer is not None:
                subscription.consumer.relinquish(token.reference)
        else:
            outgoing.drop(delivery.packet_id)
    for subscription in session.subscriptions.values():
        subscription.leaving = subscription.consumer
        subscription.consumer = None
        subscription.outlet = None


def unsubscribe(sessions: "Sessions", subscription: Subscription, core: Session | None, reason: str) -> None:
    """End a subscription; its queue is deleted if no other subscription has it.

    `core` is the session of the client that asks for it, which must have the permission
    (`ownership.check_unsubscribe`); None if the broker itself ends the subscription.
    """
    session = subscription.session
    consumer = subscription.consumer
    subscription.consumer = None
    subscription.outlet = None
    subscription.search = None
    session.subscriptions.pop(subscription.topic_filter, None)
    session.forget_subscription(subscription)
    if consumer is not None and core is not None:
        core.close_consumer(consumer)
    is_last = sessions.left(subscription)
    if subscription.kind == OWN or (subscription.kind == SHARED and is_last):
        lifetime = Lifetime.UNTIL_UNSUBSCRIBED if subscription.queue.durable else Lifetime.TEMPORARY
        ended = CoreSubscription(subscription.queue, lifetime)
        if core is None:
            sessions.host.sessions.end_subscription(ended, reason)
        else:
            core.subscriptions.unsubscribe(ended, reason, force=True)


def abandon(subscription: Subscription) -> None:
    """Drop deliveries under way that must not be sent again: the client may not have them any more, or is gone."""
    session = subscription.session
    for delivery in session.outgoing.deliveries.in_order():
        token = sent(delivery)
        if token is not None and token.subscription is subscription and delivery.state == SENT:
            session.outgoing.drop(delivery.packet_id)
            if delivery.qos == 2:
                session.forget_outgoing(delivery.packet_id)
            if token.reference is not None:
                token.reference.queue.give_back(token.reference, RELEASED)
                token.reference = None
            else:
                session.awaited = {key: each for key, each in session.awaited.items() if each is not delivery}


def give_back(session: ClientSession) -> None:
    """Return what waited for the client of an ended session to the queues that are left.

    A message that a member of a group may have seen goes to no other member [MQTT-4.8.2-5]: it becomes a dead letter.
    """
    for delivery in session.outgoing.deliveries.in_order():
        token = sent(delivery)
        if token is not None and token.reference is not None:
            reference = token.reference
            consumer = reference.consumer
            if consumer is not None and reference.outstanding is not consumer.outstanding:
                is_seen = token.was_sent and token.subscription.kind == SHARED
                reference.queue.give_back(reference, REJECTED if is_seen else RELEASED)
            token.reference = None
    session.outgoing.deliveries.clear()


class _NewSubscription(Newcomer):
    """A subscription that begins with retained messages."""

    def __init__(self, subscription: Subscription, address: str, host: Host) -> None:
        self.pattern: str = address
        self._subscription: Subscription = subscription
        self._host: Host = host

    def look_up(self, live: Container[str]) -> None:
        """Hand over what is retained; a client that has left gets it when it is back."""
        retained, subscription = self._host.retained, self._subscription
        if retained.count and self._is_there():
            subscription.search = retained.search(self.pattern, live)
            hand_over_retained(subscription, self._host)

    def give(self, message: Message) -> None:
        """Hand over a message that came later."""
        queue = self._subscription.queue
        if self._is_there() and queue.accepts(message) and not queue.began_with(message):
            self._host.deposit(retained_copy(message), queue)

    def _is_there(self) -> bool:
        """Tell whether the client has not unsubscribed in the meantime."""
        subscription = self._subscription
        is_current = subscription.session.subscriptions.get(subscription.topic_filter) is subscription
        return is_current and not subscription.queue.is_deleted


def hand_over_retained(subscription: Subscription, host: Host) -> None:
    """Deposit the retained messages for a subscription in its queue: a slice now, the rest in later loop iterations."""
    if subscription.search is not None:
        host.background.start(_hand_over(subscription, subscription.search, host))


def _hand_over(subscription: Subscription, search: "RetainedSearch", host: Host) -> Steps:
    queue = subscription.queue
    # If the client leaves, this stops, and starts again when it is back.
    while subscription.search is search and not queue.is_deleted and subscription.outlet is not None:
        if queue.waiting_count >= RETAINED_AHEAD and not queue.keeps_messages:
            yield partial(_wait, host)
            continue
        found = search.next(RETAINED_SLICE, RETAINED_STEPS)
        host.meter.work += len(found) + 1
        for message in found:
            # A message in the history of a retroactive address is on its way, with RETAIN set.
            if queue.accepts(message) and not queue.began_with(message):
                host.deposit(retained_copy(message), queue)
        if search.is_done:
            subscription.search = None
            break
        yield None
    return None


def _wait(host: Host, go_on: Callable[[], None], failed: Callable[[str], None]) -> None:
    """Wait, so that the client can read some of its queue."""
    host.after(RETAINED_PAUSE_MS, go_on)
