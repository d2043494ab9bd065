"""Deliveries of subscriptions, as PUBLISH packets to their client.

A `Subscription` is the sink of one queue and belongs to a session; the `Outlet` is the way to the client for as long
as it is connected. Deliveries of QoS 1 and 2 share the session's window, whatever queue they come from: a subscription
that finds it closed hands over the one message it has and waits.
"""

from collections import deque
from typing import TYPE_CHECKING, Final

from artemis_mqtt.broker.copies import CommonPacket
from artemis_mqtt.broker.format import (
    FOREIGN_FLAGS,
    QOS_MASK,
    RETAIN,
    RETAINED_COPY,
    MqttFormat,
    converted,
    marked,
)
from artemis_mqtt.broker.kinds import OWN, SHARED
from artemis_mqtt.broker.sent import SPARE_LIMIT, Sent, sent
from artemis_mqtt.broker.sent_run import run_room, send_run
from artemis_mqtt.engine.delivery import Delivery
from artemis_mqtt.engine.flight import SENT, OutgoingFlight
from artemis_mqtt.engine.publish import expiry_property
from artemis_py.core.messages.message import ROUTING_KEY, Message
from artemis_py.core.queues.consumer import ACCEPTED, REJECTED, RELEASED, Consumer, PassingSink
from artemis_py.core.queues.dispatcher import Dispatcher
from artemis_py.core.queues.queue import Queue
from artemis_py.core.queues.reference import DELIVERING, Reference
from artemis_py.core.runtime.access import Permission
from artemis_py.core.sessions.session import Session
from artemis_py.errors import ProtocolError, StoreError

if TYPE_CHECKING:
    from artemis_mqtt.broker.handler import ClientHandler
    from artemis_mqtt.broker.session import ClientSession
    from artemis_mqtt.engine.connection import MqttConnection
    from artemis_mqtt.engine.publish_writer import PublishWriter
    from artemis_py.core.services.retained import RetainedSearch

# Addresses whose permission is remembered per connection, for subscriptions with wildcards.
ALLOWED_CACHE_LIMIT: Final = 10_000

UNLIMITED_CREDIT: Final = 1 << 60


class Subscription(PassingSink):
    """A topic filter of a session, and the queue that collects for it."""

    def __init__(
        self,
        session: "ClientSession",
        number: int,
        topic_filter: str,
        queue: Queue,
        kind: str,
    ) -> None:
        self.session: ClientSession = session
        self.number: int = number
        """Number of its record."""
        self.topic_filter: str = topic_filter
        self.queue: Queue = queue
        self.kind: str = kind
        self.qos: int = 0
        self.no_local: bool = False
        self.retain_as_published: bool = False
        self.is_wild: bool = False
        """Whether the filter has wildcards: the permission on the filter then does not decide that on each address."""
        self.has_keys: bool = False
        """Whether the queue is bound to an exchange: the routing keys of messages are their topics."""
        self.identifier: bytes = b""
        """The Subscription Identifier as a property; empty: none."""
        self.identifier_number: int = 0
        self.consumer: Consumer | None = None
        """Consumer of the queue; None while the client is away, or once the queue is gone."""
        self.leaving: Consumer | None = None
        """Consumer of an ended connection, until it is closed in a later slice or before a new consumer is created."""
        self.outlet: Outlet | None = None
        self.search: RetainedSearch | None = None
        """Retained messages that are still to be handed over."""

    def deliver(self, reference: Reference) -> None:
        """Write one PUBLISH, or have it wait.

        Long because it is the whole way of a message of QoS 0, which is called per message and receiver.
        """
        outlet = self.outlet
        consumer = self.consumer
        if outlet is None or consumer is None:
            return
        if outlet.claims and self.kind == SHARED and self._is_claimed(outlet.claims, consumer, reference):
            return
        message = reference.message
        if self.is_wild and outlet.is_checked and not outlet.may_read(message.address):
            # The filter may be read, this address may not (MQTT 5.0 §5.4.2): as if it did not match.
            if self.kind == OWN:
                self._drop(consumer, reference)
            else:
                consumer.refuse(reference, RELEASED)
            return
        is_native = message.format is outlet.format
        qos = (message.annotations[0] if is_native else FOREIGN_FLAGS) & QOS_MASK
        if qos > self.qos:
            qos = self.qos
        if qos == 0:
            annotations: bytes
            payload: bytes
            if is_native:
                annotations = message.annotations
                payload = message.data
            else:
                try:
                    annotations, payload = converted(message, outlet.format.syntax)
                except (ProtocolError, StoreError) as error:
                    outlet.unconverted(reference, error)
                    consumer.refuse(reference, REJECTED)
                    return
            if consumer.mark is not None:
                annotations = marked(annotations, consumer.mark)
            if not outlet.send_at_most_once(self, message, annotations, payload):
                outlet.unreadable(self, reference)
            if not consumer.presettled:
                consumer.settle(reference, ACCEPTED)
            if not outlet.engine.can_send:
                consumer.blocked = True
                outlet.blocked.append(self)
            return
        if not outlet.send(self, reference, qos) or not outlet.can_go_on():
            consumer.blocked = True
            outlet.blocked.append(self)

    def pass_on(self, message: Message) -> bool:
        """Write a PUBLISH of QoS 0 without a delivery, unless anything about it is unusual."""
        outlet = self.outlet
        if outlet is None or message.format is not outlet.format:
            return False
        if self.qos > 0 and message.annotations[0] & QOS_MASK > 0:
            return False
        if (self.is_wild and outlet.is_checked) or (outlet.claims and self.kind == SHARED):
            return False
        if not outlet.engine.can_send:
            return False
        common = outlet.common
        if common.message is not message:
            common.begin(message)
        elif common.is_for(outlet, self):
            outlet.writer.send_packets(common.octets)
            return True
        return outlet.send_at_most_once(self, message, message.annotations, message.data)

    def run_room(self, most: int) -> int:
        """Return how many messages may go out as a run; see `sent_run`."""
        outlet = self.outlet
        return 0 if outlet is None else run_room(outlet, self, most)

    def deliver_run(self, messages: list[Message], first: int) -> int:
        """Write messages of QoS 1 or 2 as a run; see `sent_run`."""
        outlet = self.outlet
        consumer = self.consumer
        if outlet is None or consumer is None:
            return 0
        count = send_run(outlet, self, messages, first)
        if count > 0 and not outlet.can_go_on():
            consumer.blocked = True
            outlet.blocked.append(self)
        return count

    @property
    def is_due(self) -> bool:
        """Whether the dispatcher is about to send it messages, and nothing that the connection knows of prevents it."""
        queue = self.queue
        outlet = self.outlet
        consumer = self.consumer
        return (
            queue.dispatch.is_ready
            and queue.backlog.count > 0
            and consumer is not None
            and not consumer.blocked
            and outlet is not None
            and outlet.can_go_on()
        )

    def _is_claimed(self, claims: dict[tuple[int, int], Delivery], consumer: Consumer, reference: Reference) -> bool:
        """Tell whether another member of the group began with this message before a restart [MQTT-4.8.2-4].

        Then it is kept for that member. If that member's session ended, no other member gets it [MQTT-4.8.2-5].
        """
        key = (reference.queue.id, reference.sequence)
        delivery = claims.pop(key, None)
        token = None if delivery is None else sent(delivery)
        if delivery is None or token is None or token.subscription is self:
            return False
        owner = token.subscription
        if owner.session.is_over:
            consumer.refuse(reference, REJECTED)
        elif consumer.presettled:
            # A presettled consumer settles it at once, so it cannot be kept for that member here.
            claims[key] = delivery
            consumer.refuse(reference, RELEASED)
        else:
            del owner.session.awaited[key]
            consumer.relinquish(reference)
            token.reference = reference
            token.was_sent = True
            if owner.consumer is not None and owner.outlet is not None:
                owner.consumer.adopt(reference)
                if token.is_counted:
                    owner.outlet.write(token)
        return True

    def _drop(self, consumer: Consumer, reference: Reference) -> None:
        if not consumer.presettled:
            consumer.settle(reference, ACCEPTED)

    def drained(self) -> None:
        """Do nothing: MQTT has no credit, so nothing is drained."""

    def ended(self, reason: str) -> None:
        """Tell the client that the queue was deleted."""
        self.consumer = None
        self.search = None
        outlet = self.outlet
        if outlet is not None:
            outlet.queue_gone(self, reason)


class Outlet:
    """The way to one connected client."""

    def __init__(self, handler: "ClientHandler", session: "ClientSession", core: Session) -> None:
        self.handler: ClientHandler = handler
        self.engine: MqttConnection = handler.engine
        self.writer: PublishWriter = handler.engine.writer
        self.session: ClientSession = session
        self.outgoing: OutgoingFlight = session.outgoing
        self.format: MqttFormat = handler.manager.format
        self.dispatcher: Dispatcher = handler.host.dispatcher
        self.core: Session = core
        self.is_checked: bool = core.is_checked
        """Whether the rights of clients are checked."""
        self.is_v5: bool = handler.engine.version >= 5
        self.stores: bool = session.is_stored and handler.host.storage.is_durable
        """Whether QoS 2 deliveries are recorded before they go out."""
        self.claims: dict[tuple[int, int], Delivery] = handler.manager.sessions.claims
        self.common: CommonPacket = handler.manager.common
        self.waiting: deque[tuple[Subscription, Reference, int]] = deque()
        """Deliveries that found the window closed, with their QoS."""
        self.is_queueing: bool = False
        """Whether deliveries have to queue behind those in `waiting`."""
        self.spare: list[Sent] = handler.manager.sessions.spare
        self.blocked: list[Subscription] = []
        self.unstored: list[Delivery] = []
        """QoS 2 deliveries that go out when their records are durable."""
        self._allowed: dict[str, bool] = {}
        self._topic_address: str = ""
        self._topic_field: bytes = b""

    # -- rights ----------------------------------------------------------------------------------------------

    def rights_changed(self) -> None:
        """Forget what was allowed before."""
        self._allowed.clear()

    def may_read(self, address: str) -> bool:
        """Tell whether the client may consume from an address that a wildcard led to."""
        allowed = self._allowed.get(address)
        if allowed is None:
            allowed = self.core.may(Permission.CONSUME, address)
            if not allowed:
                self.core.denied(Permission.CONSUME, address)
            if len(self._allowed) >= ALLOWED_CACHE_LIMIT:
                self._allowed.clear()
            self._allowed[address] = allowed
        return allowed

    # -- out -------------------------------------------------------------------------------------------------

    def can_go_on(self) -> bool:
        """Tell whether another delivery of QoS 1 or 2 could go out."""
        return not self.is_queueing and self.outgoing.can_send and self.engine.can_send

    def topic_field(self, address: str) -> bytes:
        """Return the topic of an address as it stands in a PUBLISH; empty if no client could be sent it."""
        if address != self._topic_address:
            self._topic_field = self.handler.manager.topic_field(address)
            self._topic_address = address
        return self._topic_field

    def topic_field_of(self, subscription: Subscription, message: Message) -> bytes:
        """Return the topic of a message for a subscription, as `topic_field`: its routing key, or its address."""
        if subscription.has_keys:
            key = None if message.extra is None else message.extra.get(ROUTING_KEY)
            if isinstance(key, str):
                return self.handler.manager.key_field(key)
        return self.topic_field(message.address)

    def send_at_most_once(
        self, subscription: Subscription, message: Message, annotations: bytes, payload: bytes
    ) -> bool:
        """Send with QoS 0; False: the topic cannot be sent. A message that is too large for the client is left out."""
        if subscription.has_keys:
            field = self.topic_field_of(subscription, message)
        else:
            field = self.topic_field(message.address)
        if not field:
            return False
        retain = self._retain(subscription, message, annotations)
        self.writer.send(field, payload, 0, retain, False, 0, self._properties(subscription, message, annotations))
        return True

    def send(self, subscription: Subscription, reference: Reference, qos: int) -> bool:
        """Send with QoS 1 or 2; False: it waits until the window opens."""
        session = self.session
        awaited = session.awaited
        if awaited:
            earlier = awaited.pop((reference.queue.id, reference.sequence), None)
            if earlier is not None:
                self._take_up(earlier, reference)
                return True
        outgoing = self.outgoing
        if self.is_queueing or not outgoing.can_send:
            self.is_queueing = True
            self.waiting.append((subscription, reference, qos))
            return False
        if self.engine.is_halted:
            # Its acknowledgement has to be read.
            self.handler.read_on()
        spare = self.spare
        if spare:
            delivery = spare.pop()
            delivery.renew(reference, subscription, session.next_order(), qos)
        else:
            delivery = Sent(reference, subscription, session.next_order(), qos)
        if subscription.consumer is not None:
            delivery.mark = subscription.consumer.mark
        outgoing.take(delivery)
        if qos == 2 and self.stores and reference.handle:
            delivery.is_stored = False
            session.save_outgoing(delivery.packet_id, SENT, delivery)
            self.unstored.append(delivery)
            self.handler.wake()
        else:
            self.write(delivery)
        return True

    def write(self, delivery: Sent) -> None:
        """Send a delivery that has its packet identifier, also again."""
        reference = delivery.reference
        assert reference is not None
        message = reference.message
        annotations: bytes
        payload: bytes
        if message.format is self.format:
            annotations = message.annotations
            payload = message.data
        else:
            try:
                annotations, payload = converted(message, self.format.syntax)
            except (ProtocolError, StoreError) as error:
                self.unconverted(reference, error)
                self._give_up(delivery, reference, REJECTED)
                return
        if delivery.mark is not None:
            annotations = marked(annotations, delivery.mark)
        subscription = delivery.subscription
        if subscription.has_keys:
            field = self.topic_field_of(subscription, message)
        else:
            field = self.topic_field(message.address)
        if len(field) > 0 and self.writer.send(
            field,
            payload,
            delivery.qos,
            annotations[0] & (RETAIN | RETAINED_COPY) != 0 and self._retain(subscription, message, annotations),
            delivery.was_sent,
            delivery.packet_id,
            self._properties(subscription, message, annotations),
        ):
            delivery.was_sent = True
            return
        # Too large for the client, or no topic: it counts as delivered [MQTT-3.1.2-25].
        self.unreadable(subscription, reference)
        self._give_up(delivery, reference, ACCEPTED)

    def reuse(self, delivery: Sent) -> None:
        """Keep a delivery that is over for another message, unless something may still refer to it."""
        if len(self.spare) < SPARE_LIMIT and (delivery.qos == 1 or not self.stores):
            self.spare.append(delivery)

    def _give_up(self, delivery: Sent, reference: Reference, outcome: int) -> None:
        """End a delivery that cannot be sent after all."""
        self.outgoing.drop(delivery.packet_id)
        if delivery.qos == 2:
            self.session.forget_outgoing(delivery.packet_id)
        consumer = reference.consumer
        if consumer is not None:
            consumer.settle(reference, outcome)

    def _retain(self, subscription: Subscription, message: Message, annotations: bytes) -> bool:
        """Tell whether RETAIN is set: for what was retained before the subscription began, or as it was published."""
        flags = annotations[0]
        if flags & RETAIN == 0:
            return flags & RETAINED_COPY != 0
        return flags & RETAINED_COPY != 0 or subscription.retain_as_published or subscription.queue.began_with(message)

    def _properties(self, subscription: Subscription, message: Message, annotations: bytes) -> bytes:
        if not self.is_v5:
            return b""
        properties = annotations[1:]
        if message.expires_ms:
            left_ms = message.expires_ms - self.dispatcher.now_ms
            properties += expiry_property(max((left_ms + 999) // 1000, 0))
        if subscription.identifier:
            properties += subscription.identifier
        return properties

    def unreadable(self, subscription: Subscription, reference: Reference) -> None:
        """Log that a message can never be sent to this client."""
        self.handler.left_out(subscription, reference)

    def unconverted(self, reference: Reference, error: Exception) -> None:
        """Log that a message of another protocol has no form in MQTT, or no readable body: it becomes a dead letter."""
        self.handler.unconverted(reference, error)

    # -- going on ----------------------------------------------------------------------------------------------

    def go_on(self) -> None:
        """Send again what an earlier connection did, then what waits: there is room in the window or the output."""
        engine = self.engine
        outgoing = self.outgoing
        while engine.can_send:
            delivery = outgoing.next_resend()
            if delivery is None:
                break
            self._resend(delivery)
        waiting = self.waiting
        while waiting and outgoing.can_send and engine.can_send:
            subscription, reference, qos = waiting.popleft()
            if reference.state == DELIVERING and reference.consumer is subscription.consumer:
                self.is_queueing = False
                self.send(subscription, reference, qos)
        self.is_queueing = len(waiting) > 0
        self._unblock()

    def _unblock(self) -> None:
        if not self.blocked or not self.engine.can_send:
            return
        is_open = self.can_go_on()
        still: list[Subscription] = []
        blocked = self.blocked
        self.blocked = []
        for subscription in blocked:
            consumer = subscription.consumer
            if consumer is None:
                continue
            if is_open or subscription.qos == 0:
                consumer.unblock()
            else:
                still.append(subscription)
        self.blocked += still

    def _resend(self, delivery: Delivery) -> None:
        token = sent(delivery)
        if token is None or token.reference is None:
            # There was a restart since: the queue hands the message over in its order.
            return
        if token.is_stored:
            self.write(token)
        else:
            self.unstored.append(delivery)

    def _take_up(self, delivery: Delivery, reference: Reference) -> None:
        """Send a delivery from before a restart, now that the queue has handed over its message again."""
        token = sent(delivery)
        assert token is not None
        token.reference = reference
        token.was_sent = True
        self.write(token)

    def stored(self, deliveries: list[Delivery]) -> None:
        """Send deliveries whose records are durable now."""
        for delivery in deliveries:
            token = sent(delivery)
            assert token is not None
            token.is_stored = True
            if self.outgoing.deliveries.get(delivery.packet_id) is delivery and token.reference is not None:
                self.write(token)

    def queue_gone(self, subscription: Subscription, reason: str) -> None:
        """Tell the client that the queue of a subscription was deleted."""
        self.handler.queue_gone(subscription, reason)
