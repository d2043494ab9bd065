"""A link on which messages of one of our queues go to another broker.

queue --deliver--> transfer --> the other broker
  accepted:  the message leaves the queue
  anything else:  a failed attempt, after which the queue delivers it again or makes it a dead letter
  no room there (`amqp:resource-limit-exceeded`):  back to its place, and nothing is sent for a while
  no answer, because link or connection ended:  back to its place, as if it had not been sent
"""

from typing import TYPE_CHECKING, Final

from artemis_amqp.engine import errors
from artemis_amqp.engine.handlers import SenderLinkHandler
from artemis_amqp.engine.performatives import (
    Accepted,
    Attach,
    Modified,
    Received,
    Rejected,
    Released,
    Source,
    Target,
    encode,
)
from artemis_amqp.engine.sender import SenderLink
from artemis_amqp.engine.types import Symbol
from artemis_amqp.messages.delivery import forwarded_annotations, header_bytes, with_property
from artemis_amqp.messages.encoding import encoded
from artemis_amqp.messages.format import AMQP_FORMAT
from artemis_amqp.messages.large import OutgoingBody
from artemis_amqp.messages.sections import read_annotation, read_application_property
from artemis_py.core.queues.consumer import ACCEPTED, FAILED, REJECTED, RELEASED, Consumer, Sink
from artemis_py.core.queues.reference import Reference
from artemis_py.core.routing.duplicates import DUPLICATE_ID
from artemis_py.core.runtime.bridging import Bridge
from artemis_py.core.runtime.timers import Timer
from artemis_py.core.selectors.filter import parse_filter
from artemis_py.core.sessions.session import Session
from artemis_py.errors import InvalidRequest, NoSuchQueue, ProtocolError, StoreError

if TYPE_CHECKING:
    from artemis_amqp.bridge.connection import BrokerEnd

MOST_PENDING: Final = 1000
"""Messages of a queue that may wait for answers, whatever credit the other broker gives: they are in memory. With 30 ms
to the other broker and back that is 33,000 messages in a second."""

OUTCOMES: Final = tuple([Symbol(f"amqp:{name}:list") for name in ("accepted", "rejected", "released", "modified")])
_DUPLICATE_ID: Final = DUPLICATE_ID.encode()
_ACCEPTED: Final = encode(Accepted())


class _Deliveries(Sink):
    """The core's side: deliveries become transfers."""

    def __init__(self, end: "OutgoingEnd") -> None:
        self._end: Final = end

    def deliver(self, reference: Reference) -> None:
        """Write one transfer."""
        self._end.send(reference)

    def drained(self) -> None:
        """Return the credit of the other broker, which wants to know whether there is more."""
        self._end.drained()

    def ended(self, reason: str) -> None:
        """Detach: the queue was deleted."""
        self._end.queue_ended(reason)

    def forced(self, condition: str, reason: str) -> None:
        """Try again later: the broker ended the consumer, though the queue stays."""
        self._end.forced(condition, reason)


class OutgoingEnd(SenderLinkHandler):
    """Our half of the link."""

    def __init__(self, connection: "BrokerEnd", bridge: Bridge, session: Session) -> None:
        self.bridge: Final = bridge
        self._connection: Final = connection
        self._session: Final = session
        self._dispatcher: Final = connection.host.dispatcher
        self._link: SenderLink | None = None
        self._consumer: Consumer | None = None
        self._id_prefix = ""
        """Beginning of the ids that messages get; empty: they get none."""
        self._max_message_size = 0
        self._body: OutgoingBody | None = None
        """Source of the large message that is being sent, or was the last one."""
        self._rest: Timer | None = None
        """Set while nothing is sent because the other broker has no room."""

    # -- attach, detach ------------------------------------------------------------------------------------------

    def source(self) -> Source:
        """Return our terminus."""
        return Source(address=self.bridge.queue, outcomes=OUTCOMES)

    def target(self) -> Target:
        """Return the terminus that is wanted. It asks for no routing type: that is the other broker's to decide."""
        return Target(address=self.bridge.remote)

    def open(self, link: SenderLink, attach: Attach) -> None:
        """Consume from the queue. Raises a kind of Refusal."""
        bridge = self.bridge
        queue = self._connection.host.sessions.find_queue(bridge.queue)
        if queue is None:
            raise NoSuchQueue(f"there is no queue '{bridge.queue}'")
        if queue.keeps_messages:
            raise InvalidRequest(f"queue '{queue.name}' is non-destructive: its messages would be sent again and again")
        self._link = link
        self._max_message_size = attach.max_message_size or 0
        if bridge.detects_duplicates and queue.is_stored:
            # Of a queue that is not stored, a later run of the broker would use the same numbers again.
            self._id_prefix = f"{self._connection.terms.node_id}:{queue.id}:"
        selector = None if bridge.filter is None else parse_filter(bridge.filter)
        self._consumer = self._session.consume(queue, _Deliveries(self), selector)
        link.handler = self
        self.on_credit(link)

    def stop(self) -> None:
        """Let the queue have back what is not answered: the link is gone."""
        consumer, self._consumer = self._consumer, None
        self._link = None
        if self._rest is not None:
            self._rest.cancel()
        if self._body is not None:
            self._body.close()
        if consumer is not None:
            self._session.close_consumer(consumer)

    def queue_ended(self, reason: str) -> None:
        """Detach the link: its queue was deleted."""
        self._connection.detach(self.bridge, f"the queue was removed: {reason}")

    def forced(self, condition: str, reason: str) -> None:
        """Detach the link for a while: its consumer was ended."""
        self._connection.give_up(self.bridge, errors.Condition(condition, reason))

    # -- messages ------------------------------------------------------------------------------------------------

    def send(self, reference: Reference) -> None:
        """Send a message of the queue."""
        consumer, link = self._consumer, self._link
        if consumer is None or link is None:
            return
        message = reference.message
        try:
            annotations, bare = encoded(message)
            front = b""
            if self._id_prefix and not _has_id(annotations, bare):
                front, bare = with_property(bare, DUPLICATE_ID, f"{self._id_prefix}{reference.sequence}")
        except (ProtocolError, StoreError) as error:
            self._told(f"a message has no form in AMQP: {error}")
            consumer.refuse(reference, REJECTED)
            return
        ttl_ms = max(0, message.expires_ms - self._dispatcher.now_ms) if message.expires_ms else -1
        # As from a producer: what happened to the message in this broker is no business of the other one.
        head = header_bytes(message.durable, message.priority, ttl_ms, False, 0)
        head += forwarded_annotations(annotations, message.extra) + front
        large = message.large if message.format is AMQP_FORMAT else None
        rest_size = 0 if large is None else large.size
        size = len(head) + len(bare) + rest_size
        if self._max_message_size and size > self._max_message_size:
            self._told(f"a message of {size} bytes is larger than the other broker takes ({self._max_message_size})")
            consumer.refuse(reference, RELEASED)
            return
        body: OutgoingBody | None = None
        if large is not None:
            try:
                body = self._body = OutgoingBody(large)
            except StoreError as error:
                self._told(f"a large message cannot be read: {error}")
                consumer.refuse(reference, FAILED)
                return
        self.bridge.pending += 1
        link.send(head, bare, reference, False, source=body, source_size=rest_size)
        if consumer.credit > 0 and not link.can_send:
            consumer.blocked = True

    def on_credit(self, link: SenderLink) -> None:
        """Pass the credit of the other broker on: it changed, or there is room for output again."""
        consumer = self._consumer
        if consumer is None:
            return
        consumer.blocked = link.credit > 0 and not link.can_send
        self._grant()

    def _grant(self) -> None:
        """Let the queue deliver what the other broker takes, and what may wait for answers."""
        consumer, link = self._consumer, self._link
        if consumer is None or link is None or self._rest is not None:
            return
        room = max(0, min(link.credit, MOST_PENDING - self.bridge.pending))
        consumer.grant(room, link.drain)

    def drained(self) -> None:
        """Tell the other broker that there are no more messages."""
        if self._link is not None:
            self._link.drained()

    def on_disposition(self, link: SenderLink, delivery_id: int, token: object, state: object, settled: bool) -> None:
        """Settle a message as the other broker says."""
        consumer = self._consumer
        if consumer is None or ((state is None or isinstance(state, Received)) and not settled):
            return
        assert isinstance(token, Reference)
        bridge = self.bridge
        bridge.pending -= 1
        if type(state) is int:
            bridge.passed += 1
            consumer.settle(token, ACCEPTED)
            answer = _ACCEPTED
        else:
            bridge.refused += 1
            answer = encode(state if isinstance(state, (Rejected, Released, Modified)) else Released())
            error = state.error if isinstance(state, Rejected) else None
            if error is not None and error.condition == errors.RESOURCE_LIMIT_EXCEEDED:
                self._rest_for_a_while(consumer)
                consumer.settle(token, RELEASED)
            else:
                consumer.settle(token, FAILED)
            self._told(_said(state))
        if not settled:
            # Not asked for (rcv-settle-mode first), but the other broker waits for it.
            link.settle(delivery_id, answer)
        if consumer.credit <= 0 and link.credit > 0 and bridge.pending <= MOST_PENDING // 2:
            self._grant()

    def on_abort(self, link: SenderLink, token: object) -> None:
        """Count a failed attempt: the body of a large message could not be read. Another attempt may succeed."""
        consumer = self._consumer
        if consumer is not None and isinstance(token, Reference):
            self.bridge.pending -= 1
            self._told("a large message cannot be read")
            consumer.settle(token, FAILED)

    def _rest_for_a_while(self, consumer: Consumer) -> None:
        """Send nothing until the other broker may have room again."""
        if self._rest is None:
            consumer.grant(0)
            self._rest = self._connection.host.after(self._connection.terms.retry_ms, self._continue)

    def _continue(self) -> None:
        self._rest = None
        self._grant()

    def _told(self, reason: str) -> None:
        self.bridge.reason = reason
        self._connection.terms.listener.message_refused(self.bridge)


def _has_id(annotations: bytes, bare: bytes) -> bool:
    """Tell whether a message has an id by which brokers know it; nearly always a search in C says that it has not."""
    in_annotations, in_bare = _DUPLICATE_ID in annotations, _DUPLICATE_ID in bare
    return (in_bare and read_application_property(bare, DUPLICATE_ID) is not None) or (
        in_annotations and read_annotation(annotations, DUPLICATE_ID) is not None
    )


def _said(state: object) -> str:
    """Return what the other broker says of a message that it does not accept."""
    if isinstance(state, Rejected) and state.error is not None:
        said = state.error
        return f"rejected: {said.condition}: {said.description}" if said.description else f"rejected: {said.condition}"
    return "settled without an outcome" if state is None else type(state).__name__.lower()
