"""A link on which a client receives: deliveries become transfers, and the client's states become outcomes."""

from functools import partial
from logging import ERROR
from typing import TYPE_CHECKING, Final

from artemis_amqp.engine import errors
from artemis_amqp.engine.extensions import ADDRESS
from artemis_amqp.engine.handlers import SenderLinkHandler
from artemis_amqp.engine.link import SETTLED
from artemis_amqp.engine.performatives import (
    Accepted,
    AmqpError,
    Modified,
    Received,
    Rejected,
    Released,
    TransactionalState,
    encode,
)
from artemis_amqp.engine.sender import SenderLink
from artemis_amqp.messages.amendments import amended
from artemis_amqp.messages.delivery import AMENDED, PlainHeads, annotations_bytes, header_bytes, marked
from artemis_amqp.messages.encoding import encoded
from artemis_amqp.messages.format import AMQP_FORMAT
from artemis_amqp.messages.large import OutgoingBody
from artemis_py.core.messages.message import ROUTING_KEY, Message
from artemis_py.core.queues.consumer import ACCEPTED, FAILED, REJECTED, RELEASED, Consumer, Sink
from artemis_py.core.queues.dispatcher import Dispatcher
from artemis_py.core.queues.outcomes import CLIENT_CAUSE
from artemis_py.core.queues.reference import Reference
from artemis_py.errors import LimitExceeded, ProtocolError, StoreError, UnknownTransaction

if TYPE_CHECKING:
    from artemis_amqp.broker.handler import AmqpHandler

ACCEPTED_STATE: Final = encode(Accepted())

_ORIGINAL_ADDRESS: Final = "_AMQ_ORIG_ADDRESS"
"""Property of a dead letter: what it was sent to."""

CAUSE_CHARS: Final = 1024
"""Characters that are kept of what a client says about a message that it rejects."""


class Deliveries(Sink):
    """The core's side of one consuming link: deliveries become transfers."""

    def __init__(self, handler: "AmqpHandler", link: SenderLink, max_message_size: int) -> None:
        self._handler: AmqpHandler = handler
        self._link: SenderLink = link
        self._dispatcher: Dispatcher = handler.host.dispatcher
        self._max_message_size: int = max_message_size
        """Largest message in bytes that the client accepts; 0: any size."""
        self._settled: bool = link.snd_settle_mode == SETTLED
        """Whether the link's deliveries are sent settled, a browser's too (AMQP 1.0 §2.8.2)."""
        self._plain_heads: PlainHeads = PlainHeads()
        self.consumer: Consumer | None = None
        """Consumer of the core; None once the link or the queue is gone."""
        self._source: OutgoingBody | None = None
        """Source of the large message that the link is sending or sent last."""
        self.names_address: bool = False
        """Whether deliveries name the address of each message: for a range reader of a wildcard queue."""
        self._names_exchange: bool = handler.parameters.has_rabbit_addresses
        """Whether deliveries name exchange and routing key as RabbitMQ does."""
        self.adds_names: bool = self._names_exchange
        """Whether deliveries have any of these names."""

    def deliver(self, reference: Reference) -> None:
        """Write one transfer."""
        consumer = self.consumer
        if consumer is None:
            return
        message = reference.message
        link = self._link
        annotations: bytes
        bare: bytes
        if message.format is AMQP_FORMAT:
            if message.large is not None:
                self._deliver_large(reference, consumer)
                return
            annotations = message.annotations
            bare = message.data
        else:
            try:
                annotations, bare = encoded(message)
            except (ProtocolError, StoreError):
                # No AMQP client can read it: it goes to the dead-letter address (artemis-model §4.1.6).
                consumer.refuse(reference, REJECTED)
                return
        head = self.head(reference, annotations)
        if consumer.mark is not None:
            front, bare = marked(bare, consumer.mark)
            head += front
        if self._max_message_size and len(head) + len(bare) > self._max_message_size:
            # It must not be sent on this link (AMQP 1.0 §2.7.3, max-message-size); another consumer may take it.
            consumer.refuse(reference, RELEASED)
            return
        link.send(head, bare, reference, self._settled)
        if consumer.credit > 0 and not link.can_send:
            consumer.blocked = True

    def log_damage(self, reference: Reference, error: StoreError) -> None:
        """Log that a large body cannot be read."""
        template = "large message not delivered: queue=%s reason=%s"
        self._handler.brake.log(ERROR, self._handler.source, template, reference.queue.name, error)

    def _deliver_large(self, reference: Reference, consumer: Consumer) -> None:
        message = reference.message
        head = self.head(reference, message.annotations)
        leading = message.data
        if consumer.mark is not None:
            front, leading = marked(leading, consumer.mark)
            head += front
        if (
            self._max_message_size
            and len(head) + len(leading) + message.content_size - len(message.data) > self._max_message_size
        ):
            consumer.refuse(reference, RELEASED)
            return
        try:
            self.send_large(reference, head, leading, self._settled, None)
        except StoreError as error:
            self.log_damage(reference, error)
            consumer.refuse(reference, FAILED)
            return
        if consumer.credit > 0 and not self._link.can_send:
            consumer.blocked = True

    def send_large(
        self, reference: Reference, head: bytes, leading: bytes, settled: bool, resumed_tag: bytes | None
    ) -> None:
        """Begin to send a large message that AMQP brought; with `resumed_tag` as the resumed delivery of that tag.

        `leading` is what stands between `head` and the body.
        Raises StoreError if the body cannot be read.
        """
        message = reference.message
        body = message.large
        assert body is not None
        source = self._source = OutgoingBody(body)
        self._link.send(
            head,
            leading,
            reference,
            settled,
            tag=resumed_tag,
            resume=resumed_tag is not None,
            source=source,
            source_size=body.size,
        )

    def stop(self) -> None:
        """Deliver nothing more and close the body that is being sent: the link is gone."""
        self.consumer = None
        if self._source is not None:
            self._source.close()

    def head(self, reference: Reference, annotations: bytes) -> bytes:
        """Return what is written in front of the bare message: a new header and the message annotations."""
        message = reference.message
        extra = message.extra
        if self.adds_names:
            extra = self._with_names(reference, message, extra or {})
        durable = message.durable
        priority = message.priority
        is_new = not reference.was_acquired
        if not annotations and not extra and not message.expires_ms and reference.delivery_count == 0:
            return self._plain_heads.head(durable, priority, is_new, reference.sequence)
        ttl_ms = max(0, message.expires_ms - self._dispatcher.now_ms) if message.expires_ms else -1
        return header_bytes(durable, priority, ttl_ms, is_new, reference.delivery_count) + annotations_bytes(
            annotations, reference.sequence, extra
        )

    def _with_names(self, reference: Reference, message: Message, extra: dict[str, object]) -> dict[str, object]:
        """Return what the broker adds to a delivery, with the names that its client wants."""
        added = dict(extra)
        if self.names_address:
            added[ADDRESS] = message.address
        if self._names_exchange:
            key = extra.get(ROUTING_KEY)
            # A message that came through no exchange came through the default one, as RabbitMQ sees it.
            came_to = extra.get(_ORIGINAL_ADDRESS, message.address)
            added[AMENDED + "x-exchange"] = "" if key is None else came_to
            added[AMENDED + "x-routing-key"] = reference.queue.name if key is None else key
        return added

    def drained(self) -> None:
        """Tell a draining client that there are no more messages."""
        self._link.drained()

    def ended(self, reason: str) -> None:
        """Detach the link: its queue was deleted."""
        self.forced(errors.RESOURCE_DELETED, f"the queue was removed: {reason}")

    def forced(self, condition: str, reason: str) -> None:
        """Detach the link with this condition."""
        self.consumer = None
        self._handler.links.detach(self._link, AmqpError(condition, reason))
        self._handler.wake()


class OutgoingLink(SenderLinkHandler):
    """The client's side of one consuming link: credit and outcomes."""

    def __init__(
        self, handler: "AmqpHandler", link: SenderLink, default_outcome: object, max_message_size: int
    ) -> None:
        self._handler: AmqpHandler = handler
        self._link: SenderLink = link
        self._default_outcome: object = default_outcome
        """Outcome of a delivery that is settled without a state."""
        self._resuming: list[tuple[bytes, Reference, object]] = []
        """Deliveries from before a re-attach that are to be resumed: (delivery-tag, reference, the client's state)."""
        self.deliveries: Deliveries = Deliveries(handler, link, max_message_size)

    @property
    def consumer(self) -> Consumer | None:
        """Consumer of the core; None once the link or the queue is gone."""
        return self.deliveries.consumer

    def start(self, consumer: Consumer) -> None:
        """Begin to deliver to the link from `consumer`."""
        self.deliveries.consumer = consumer
        wildcards = self._handler.host.options.wildcards
        deliveries = self.deliveries
        deliveries.names_address = consumer.reads_apart and wildcards.is_wild(consumer.queue.address.name)
        deliveries.adds_names = deliveries.adds_names or deliveries.names_address

    def stop(self) -> None:
        """Deliver nothing more: the link is gone."""
        self.deliveries.stop()

    # -- from the client -------------------------------------------------------------------------------------

    def on_credit(self, link: SenderLink) -> None:
        """Pass the client's credit to the consumer: it changed, or there is room for output again."""
        consumer = self.deliveries.consumer
        if consumer is None:
            return
        if self._resuming:
            self._resume()
        consumer.blocked = link.credit > 0 and not link.can_send
        consumer.grant(link.credit, link.drain)

    def go_on(self) -> None:
        """Continue to deliver: there is room for output again."""
        self.on_credit(self._link)

    def on_disposition(self, link: SenderLink, delivery_id: int, token: object, state: object, settled: bool) -> None:
        """Apply the client's disposition of one delivery."""
        consumer = self.deliveries.consumer
        if consumer is None:
            return
        assert isinstance(token, Reference)
        reference: Reference = token
        if type(state) is int:
            durable = reference.handle != 0
            consumer.settle(reference, ACCEPTED)
            if not settled:
                self._confirm(delivery_id, ACCEPTED_STATE, durable)
            return
        if type(state) is TransactionalState:
            self._settle_in_transaction(delivery_id, reference, state, settled)
            return
        if state is None or type(state) is Received:
            if not settled:
                return
            # Settled without a state: the source's default outcome applies (AMQP 1.0 §3.4).
            state = self._default_outcome
        durable = reference.handle != 0
        if not self._settle(consumer, reference, state):
            return
        if not settled:
            self._confirm(delivery_id, encode(state), durable)

    def on_abort(self, link: SenderLink, token: object) -> None:
        """Count a failed attempt: the body of a large message could not be read. Another attempt may succeed."""
        consumer = self.deliveries.consumer
        if consumer is not None and isinstance(token, Reference):
            consumer.settle(token, FAILED, here=False)

    def _confirm(self, delivery_id: int, state: bytes, durable: bool) -> None:
        """Settle a delivery that the client left for us to settle, once its effect is durable."""
        if durable and self._handler.stores:
            self._handler.answers.when_durable(partial(self._link.settle, delivery_id, state))
        else:
            self._link.settle(delivery_id, state)

    def _settle(self, consumer: Consumer, reference: Reference, state: object) -> bool:
        """Settle a delivery with the client's outcome; False if that ended the link."""
        outcome, here = self._outcome(state)
        if type(state) is Modified and state.message_annotations:
            if reference.outstanding is consumer.outstanding:
                try:
                    reference.queue.amend(reference, amended(reference.message, state.message_annotations))
                except LimitExceeded as error:
                    self._handler.links.detach(self._link, errors.to_amqp(error))
                    return False
        elif type(state) is Rejected and state.error is not None and outcome == REJECTED:
            if reference.outstanding is consumer.outstanding:
                said = state.error
                text = f"{said.condition}: {said.description}" if said.description else str(said.condition)
                message = reference.message
                extra = {**(message.extra or {}), CLIENT_CAUSE: text[:CAUSE_CHARS]}
                reference.queue.amend(reference, message.amended(message.annotations, extra))
        consumer.settle(reference, outcome, here)
        return True

    def _outcome(self, state: object) -> tuple[int, bool]:
        """Return the queue's outcome for a terminal state, and whether the message may come to this link again."""
        if isinstance(state, Accepted):
            return ACCEPTED, True
        if isinstance(state, Rejected):
            return (FAILED if self._handler.parameters.reject_counts_as_failed else REJECTED), True
        if isinstance(state, Modified):
            return (FAILED if state.delivery_failed else RELEASED), not state.undeliverable_here
        if isinstance(state, Released):
            return RELEASED, True
        return FAILED, True

    def _settle_in_transaction(
        self, delivery_id: int, reference: Reference, state: TransactionalState, settled: bool
    ) -> None:
        coordinator = self._handler.transactions
        try:
            transaction = coordinator.find(state.txn_id)
        except UnknownTransaction as error:
            self._handler.links.detach(self._link, errors.to_amqp(error))
            return
        wanted = self._default_outcome if state.outcome is None else state.outcome
        outcome, here = self._outcome(wanted)
        changed: Message | None = None
        if type(wanted) is Modified and wanted.message_annotations:
            try:
                changed = amended(reference.message, wanted.message_annotations)
            except LimitExceeded as error:
                self._handler.links.detach(self._link, errors.to_amqp(error))
                return
        if transaction.settle(reference, outcome, here, settled, changed) and not settled:
            coordinator.settle_at_end(transaction, self._link, delivery_id, encode(state.outcome or Accepted()))

    # -- resuming --------------------------------------------------------------------------------------------

    def plan_resumption(self, tag: bytes, reference: Reference, state: object) -> None:
        """Resume a delivery that the client still knows, as soon as the client gives credit (amqp10 §9)."""
        self._resuming.append((tag, reference, state))

    def _resume(self) -> None:
        link = self._link
        consumer = self.consumer
        while self._resuming and consumer is not None and link.can_send:
            tag, reference, state = self._resuming.pop(0)
            if state is None or isinstance(state, Received):
                message = reference.message
                if message.large is not None and message.format is AMQP_FORMAT:
                    self._resume_large(tag, reference, consumer)
                    continue
                annotations, bare = encoded(message)
                head = self.deliveries.head(reference, annotations)
                link.send(head, bare, reference, False, tag=tag, resume=True)
            else:
                # The client had decided: its outcome stands, and the resumed transfer confirms it.
                if self._settle(consumer, reference, state):
                    link.send(b"", b"", reference, True, state=encode(state), tag=tag, resume=True)

    def _resume_large(self, tag: bytes, reference: Reference, consumer: Consumer) -> None:
        head = self.deliveries.head(reference, reference.message.annotations)
        try:
            self.deliveries.send_large(reference, head, reference.message.data, False, tag)
        except StoreError as error:
            self.deliveries.log_damage(reference, error)
            consumer.settle(reference, FAILED, here=False)
