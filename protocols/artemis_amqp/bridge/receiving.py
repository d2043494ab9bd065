"""A link on which messages of another broker come to an address of ours.

Each message is accepted, and thereby leaves the other broker, when it is stored here. While the address is full, the
other broker gets no credit, and what it has sent already is released: it stays there.
"""

from functools import partial
from typing import TYPE_CHECKING, Final

from artemis_amqp.engine import errors
from artemis_amqp.engine.handlers import DeliveryStream, ReceiverLinkHandler
from artemis_amqp.engine.link import MASK
from artemis_amqp.engine.performatives import Accepted, Rejected, Released, Source, Target, encode
from artemis_amqp.engine.receiver import ReceiverLink
from artemis_amqp.engine.transfer_frame import TransferFrame
from artemis_amqp.engine.types import MalformedValue, Symbol
from artemis_amqp.messages.arrival import Sections, split_sections_at
from artemis_amqp.messages.incoming import read_message
from artemis_amqp.messages.large import ARRIVING_LIMIT, NO_SECTION, IncomingBody
from artemis_py.core.messages.large_body import DEFAULT_MIN_LARGE_BYTES, LargeBody
from artemis_py.core.routing.duplicates import duplicate_id
from artemis_py.core.runtime.bridging import Bridge
from artemis_py.core.sessions.producer import Producer
from artemis_py.core.sessions.session import Session
from artemis_py.errors import AddressFull, LimitExceeded, MalformedFrame, Refusal

if TYPE_CHECKING:
    from artemis_amqp.bridge.connection import BrokerEnd

CREDIT: Final = 1000
"""Messages that the other broker may send ahead, as clients may (`amqpCredits`)."""
LOW_CREDIT: Final = 300
"""Credit is topped up when this few are left."""

_ACCEPTED: Final = encode(Accepted())
_RELEASED: Final = encode(Released())
_QUEUE: Final = Symbol("queue")


class IncomingEnd(ReceiverLinkHandler):
    """Our half of the link."""

    def __init__(self, connection: "BrokerEnd", bridge: Bridge, session: Session) -> None:
        self.bridge: Final = bridge
        self._connection: Final = connection
        self._session: Final = session
        self._link: ReceiverLink | None = None
        self._producer: Producer | None = None
        self._stream: IncomingBody | None = None
        """The large message that is arriving."""
        self._stores: Final = connection.host.storage.is_durable
        self._asked = -1
        self._unstored: list[int] = []
        """Delivery-ids since the store was asked for the `_asked`th time."""
        self._is_waiting = False
        """Whether credit is withheld until the address has room."""

    # -- attach, detach ------------------------------------------------------------------------------------------

    def source(self) -> Source:
        """Return the terminus that is wanted."""
        # Without the capability some brokers take an address that they do not know for a topic.
        capabilities = (_QUEUE,) if self.bridge.is_anycast else ()
        return Source(address=self.bridge.remote, capabilities=capabilities)

    def target(self) -> Target:
        """Return our terminus."""
        return Target(address=self.bridge.local)

    def open(self, link: ReceiverLink) -> None:
        """Let the other broker send. Raises a kind of Refusal."""
        self._link = link
        producer = self._producer = self._session.producer(self.bridge.local)
        producer.hold()
        link.handler = self
        link.large_size = DEFAULT_MIN_LARGE_BYTES
        self._top_up()

    def stop(self) -> None:
        """Abandon an unfinished message: the link is gone."""
        self._link = None
        if self._stream is not None:
            self._stream.abandon()
        if self._producer is not None:
            self._producer.let_go()

    # -- messages ------------------------------------------------------------------------------------------------

    @property
    def is_receiving(self) -> bool:
        """Whether part of a large message has arrived."""
        return self._stream is not None and self._stream.is_open

    def on_transfer(self, link: ReceiverLink, delivery: TransferFrame) -> None:
        """Take one complete message, and answer it."""
        if delivery.size >= DEFAULT_MIN_LARGE_BYTES:
            stream = self.open_stream(link)
            stream.append(delivery.payload)
            self.on_stream(link, delivery, stream)
            return
        try:
            if delivery.message_format != 0:
                text = f"message-format {delivery.message_format} is not supported"
                raise errors.Condition(errors.NOT_IMPLEMENTED, text)
            if delivery.size == 0:
                raise MalformedValue(NO_SECTION)
            durable = self._take(split_sections_at(delivery.data, delivery.start, delivery.stop), None)
        except (Refusal, MalformedFrame, errors.Condition) as error:
            self._refuse(link, delivery, error)
            return
        self._accept(link, delivery, durable)

    def open_stream(self, link: ReceiverLink) -> DeliveryStream:
        """Return the stream for a large message that begins to arrive."""
        refusal: Refusal | None = None
        if self._connection.arriving_count >= ARRIVING_LIMIT:
            refusal = LimitExceeded(f"{ARRIVING_LIMIT} large messages arrive on this connection")
        stream = self._stream = IncomingBody(self._connection.host.storage, refusal)
        return stream

    def on_stream(self, link: ReceiverLink, delivery: TransferFrame, stream: DeliveryStream) -> None:
        """Take one complete message whose body is outside of memory, and answer it."""
        assert isinstance(stream, IncomingBody)
        body: LargeBody | None = None
        try:
            sections, body = stream.finish()
            durable = self._take(sections, body)
        except (Refusal, MalformedFrame, errors.Condition) as error:
            stream.abandon()
            self._refuse(link, delivery, error)
            return
        finally:
            if body is not None:
                body.release()
        self._accept(link, delivery, durable)

    def _take(self, sections: Sections, body: LargeBody | None) -> bool:
        """Route a message; return whether it is durable. Raises Refusal, MalformedFrame."""
        assert self._producer is not None
        message = read_message(sections, self._connection.host.dispatcher.now_ms, self._connection.terms.name)
        message.large = body
        if sections.duplicate_id is None:
            self._producer.send(message)
        else:
            self._producer.send(message, None, duplicate_id(sections.duplicate_id))
        return message.durable

    def _accept(self, link: ReceiverLink, delivery: TransferFrame, durable: bool) -> None:
        """Accept a message that was routed, when it is stored, and top up the credit."""
        bridge = self.bridge
        bridge.passed += 1
        if delivery.is_settled:
            pass
        elif durable and self._stores:
            answers = self._connection.answers
            if self._asked != answers.asked:
                # One callback for all that the store is asked for together, not one per message.
                self._asked = answers.asked
                self._unstored = []
                answers.when_durable(partial(self._stored, link, self._unstored))
            self._unstored.append(delivery.delivery_id)
            bridge.pending += 1
        else:
            link.session.settle_incoming(delivery.delivery_id, delivery.delivery_id, _ACCEPTED, True)
        if link.credit <= LOW_CREDIT and link.granting < 0:
            self._top_up()

    def _stored(self, link: ReceiverLink, delivery_ids: list[int]) -> None:
        """Accept messages that are stored, in ranges of their numbers; also if the link is detached by now."""
        if self._link is link:
            self.bridge.pending -= len(delivery_ids)
        first = last = delivery_ids[0]
        for delivery_id in delivery_ids[1:]:
            if delivery_id != (last + 1) & MASK:
                link.session.settle_incoming(first, last, _ACCEPTED, True)
                first = delivery_id
            last = delivery_id
        link.session.settle_incoming(first, last, _ACCEPTED, True)
        self._top_up()

    def on_settled(self, link: ReceiverLink, delivery_id: int, tag: bytes) -> None:
        """Do nothing: our answer settles."""

    def _refuse(self, link: ReceiverLink, delivery: TransferFrame, error: Exception) -> None:
        """Leave a message with the other broker, or reject one that no broker could take."""
        bridge = self.bridge
        bridge.refused += 1
        bridge.reason = str(error)
        self._connection.terms.listener.message_refused(bridge)
        is_bad = not isinstance(error, Refusal)
        if not delivery.is_settled:
            state = encode(Rejected(error=errors.to_amqp(error))) if is_bad else _RELEASED
            link.session.settle_incoming(delivery.delivery_id, delivery.delivery_id, state, True)
        if is_bad or isinstance(error, AddressFull):
            self._top_up()
        else:
            # The other broker would send it again at once, and we would refuse it again.
            self._connection.give_up(bridge, error)

    # -- credit --------------------------------------------------------------------------------------------------

    def _top_up(self) -> None:
        """Grant credit unless enough is granted or waits for the store, or the address is full."""
        link, producer = self._link, self._producer
        if link is None or producer is None or not link.is_attached or link.granting >= 0 or self._is_waiting:
            return
        under_way = self.bridge.pending
        if link.credit + under_way > LOW_CREDIT:
            return
        if producer.must_wait:
            self._is_waiting = True
            producer.when_room(self._has_room)
        else:
            link.grant(CREDIT - under_way)

    def _has_room(self) -> None:
        self._is_waiting = False
        if self._link is not None:
            self._top_up()
            self._connection.wake()
