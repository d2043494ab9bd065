"""Messages of one client that was accepted, in both directions, and their answers.

Answers that promise something (PUBACK, PUBREC, PUBCOMP, PUBREL, SUBACK, UNSUBACK) are gathered while packets are read,
and go out when the store has what they promise: first the answers, in the order of their causes, then PUBRELs (see
`pubrels`), then deliveries of QoS 2 whose records had to be durable.
"""

import logging
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from artemis_mqtt.broker.deliveries import Outlet
from artemis_mqtt.broker.errors import to_reason
from artemis_mqtt.broker.publishing import Publisher
from artemis_mqtt.broker.pubrels import Pubrels
from artemis_mqtt.broker.sent import Sent, sent
from artemis_mqtt.broker.sent_run import as_sent_run
from artemis_mqtt.broker.session import ClientSession
from artemis_mqtt.engine import packets, reasons
from artemis_mqtt.engine.acknowledgements import PendingAcks
from artemis_mqtt.engine.connection import MqttConnection
from artemis_mqtt.engine.delivery import Delivery
from artemis_mqtt.engine.delivery_run import DeliveryRun
from artemis_mqtt.engine.handler import MessageHandler
from artemis_py.core.addresses.address import Address
from artemis_py.core.queues.consumer import ACCEPTED, REJECTED
from artemis_py.errors import NotAuthorized, Refusal
from artemis_py.wire.answers import Answers

if TYPE_CHECKING:
    from artemis_mqtt.broker.handler import ClientHandler


class Exchange(MessageHandler):
    """Messages and acknowledgements of one connection."""

    def __init__(self, handler: "ClientHandler", session: ClientSession, publisher: Publisher, outlet: Outlet) -> None:
        super().__init__(session.incoming, session.outgoing)
        self.publisher: Publisher = publisher
        self.outlet: Outlet = outlet
        self._handler: ClientHandler = handler
        self._engine: MqttConnection = handler.engine
        self._answers: Answers = handler.answers
        self._session: ClientSession = session
        self._acks: PendingAcks | None = None
        """Collects the answers that follow each other; None: the next one begins a new collection."""
        self._pubrels: Pubrels = Pubrels(handler, handler.manager.deferred_pubrels)
        for delivery in session.releases():
            self._pubrels.add_one(delivery.packet_id)
        self._full: Address | None = None
        """Full address that this client waits for while it is not read from."""

    # -- answers that wait for the store -----------------------------------------------------------------------

    def _collect(self) -> PendingAcks:
        acks = self._acks = self._engine.acks.collect()
        self._answers.when_durable(acks.send)
        return acks

    def answer_later(self, answer: Callable[[], None]) -> None:
        """Call `answer` behind the answers that were gathered before it."""
        self._acks = None
        self._answers.when_durable(answer)

    def gather(self) -> None:
        """Add what goes out behind the answers, before the store is asked for all of them."""
        self._acks = None
        self._pubrels.gather()
        outlet = self.outlet
        if outlet.unstored:
            unstored = outlet.unstored
            outlet.unstored = []
            self._answers.when_durable(partial(outlet.stored, unstored))

    # -- messages from the client --------------------------------------------------------------------------------

    def on_publish(
        self,
        topic: str,
        payload: bytes,
        qos: int,
        retain: bool,
        dup: bool,
        packet_id: int,
        properties: bytes,
        expiry_s: int,
    ) -> None:
        """Route it; the answer waits for the store."""
        publisher = self.publisher
        try:
            count = publisher.publish(topic, payload, qos, retain, properties, expiry_s)
        except Refusal as refusal:
            self._refuse(topic, qos, packet_id, refusal)
            return
        if publisher.full is not None:
            self._halt(publisher.full)
            publisher.full = None
        if qos == 0:
            return
        acks = self._acks
        if acks is None:
            acks = self._collect()
        reason = 0 if count else reasons.NO_MATCHING_SUBSCRIBERS
        if qos == 1:
            acks.puback(packet_id, reason)
        else:
            self._session.save_incoming(packet_id)
            acks.pubrec(packet_id, reason)

    def _refuse(self, topic: str, qos: int, packet_id: int, refusal: Refusal) -> None:
        """Say no in version 5; in 3.x, which has no word for it, close or keep silent as configured."""
        handler = self._handler
        level = logging.WARNING if isinstance(refusal, NotAuthorized) else logging.INFO
        template = "message refused: peer=%s client=%s reason=%s"
        handler.brake.log(level, handler.source, template, handler.context.peer, handler.client_id, refusal)
        reason = to_reason(refusal)
        is_v5 = self._engine.version >= packets.MQTT_5
        if not is_v5 and handler.parameters.closes_on_refusal:
            handler.end(reason, str(refusal))
        elif qos == 1:
            (self._acks or self._collect()).puback(packet_id, reason)
        elif qos == 2:
            if not is_v5:
                self._session.save_incoming(packet_id)
            (self._acks or self._collect()).pubrec(packet_id, reason)

    def on_duplicate(self, packet_id: int) -> None:
        """Answer again: it was routed before, and its answer got lost or is still to come."""
        (self._acks or self._collect()).pubrec(packet_id)

    def on_pubrel(self, packet_id: int) -> None:
        """Forget the identifier; the client may use it again once its record is deleted."""
        self._session.forget_incoming(packet_id)
        (self._acks or self._collect()).pubcomp(packet_id)

    # -- a client that fills what is full ------------------------------------------------------------------------

    def _halt(self, full: Address) -> None:
        """Read nothing more from a client that fills an address whose producers must wait: MQTT has no credit.

        A client that owes us acknowledgements is still read: they arrive behind its messages, and may free the
        memory. Beyond the last limit it is refused like any client.
        """
        if self._full is None and self.outgoing.deliveries.count == 0:
            self._full = full
            self._engine.halt()
            self._handler.context.read(False)
            full.when_room(self.read_on)

    def read_on(self) -> None:
        """Read from the client again, if it was not read.

        May be called while memory is being given back, so no message is routed here: the transport reads later.
        """
        if self._full is None:
            return
        self.forget_room()
        if not self._handler.is_over():
            self._engine.proceed()
            self._handler.context.read(True)

    def forget_room(self) -> None:
        """Stop waiting for room."""
        if self._full is not None:
            self._full.forget(self.read_on)
            self._full = None

    # -- the client's answers ------------------------------------------------------------------------------------

    def on_puback(self, delivery: Delivery, reason: int) -> None:
        """Settle a delivery of QoS 1: the client has it, or refuses it."""
        token = sent(delivery)
        if token is not None:
            self._settle(token, reason)
            self.outlet.reuse(token)

    def on_pubrec(self, delivery: Delivery, reason: int) -> None:
        """Settle a delivery of QoS 2: the client has it, or refuses it."""
        session = self._session
        if reason >= 0x80:
            token = sent(delivery)
            if token is not None:
                self._settle(token, reason)
            session.forget_outgoing(delivery.packet_id)
            return
        session.received(delivery)
        self._pubrels.add_one(delivery.packet_id)

    def on_pubacks(self, run: DeliveryRun, count: int) -> None:
        """Settle deliveries of QoS 1: the client has them."""
        sent_run = as_sent_run(run)
        if sent_run is not None:
            sent_run.kept.settle(count)

    def on_pubrecs(self, run: DeliveryRun, first_id: int, count: int) -> None:
        """Settle deliveries of QoS 2: the client has them. None of them has a record."""
        sent_run = as_sent_run(run)
        if sent_run is not None:
            sent_run.kept.settle(count)
            self._pubrels.add_run(sent_run.subscription, first_id, count)

    def on_pubcomp(self, delivery: Delivery) -> None:
        """Forget a delivery of QoS 2."""
        self._session.forget_outgoing(delivery.packet_id)
        token = sent(delivery)
        if token is not None:
            self.outlet.reuse(token)

    def _settle(self, token: Sent, reason: int) -> None:
        reference = token.reference
        if reference is not None:
            token.reference = None
            consumer = reference.consumer
            if consumer is not None:
                consumer.settle(reference, ACCEPTED if reason < 0x80 else REJECTED)
