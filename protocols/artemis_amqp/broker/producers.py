"""A link on which a client sends: transfers become messages, and each gets its outcome.

The outcome of a durable message is written when it is stored, that of any other message in the same iteration of the
loop. Credit is topped up as answers go out, and withheld while the address is full.
"""

from functools import partial
from typing import TYPE_CHECKING, Final

from artemis_amqp.broker.exchanges import relay
from artemis_amqp.engine import errors
from artemis_amqp.engine.extensions import JMS_DESTINATION, WAITS_FOR
from artemis_amqp.engine.handlers import DeliveryStream, ReceiverLinkHandler
from artemis_amqp.engine.link import MASK
from artemis_amqp.engine.performatives import (
    Accepted,
    AmqpError,
    Modified,
    Rejected,
    Released,
    TransactionalState,
    encode,
)
from artemis_amqp.engine.receiver import ReceiverLink
from artemis_amqp.engine.transfer_frame import TransferFrame
from artemis_amqp.engine.types import MalformedValue, Symbol
from artemis_amqp.messages.arrival import Sections, split_sections_at
from artemis_amqp.messages.incoming import read_message
from artemis_amqp.messages.large import ARRIVING_LIMIT, NO_SECTION, IncomingBody
from artemis_amqp.messages.sections import read_annotation, read_to
from artemis_py.core.addresses.address import Address
from artemis_py.core.messages.large_body import LargeBody
from artemis_py.core.messages.message import Message
from artemis_py.core.names.routing_type import RoutingType
from artemis_py.core.queues.dispatcher import Dispatcher
from artemis_py.core.routing.duplicates import duplicate_id
from artemis_py.core.routing.routes import NO_TYPE
from artemis_py.core.routing.transaction import Transaction
from artemis_py.core.runtime.access import Permission
from artemis_py.core.sessions.producer import Producer
from artemis_py.core.sessions.session import Session
from artemis_py.errors import AddressFull, InvalidRequest, LimitExceeded, MalformedFrame, NoRoute, Refusal
from artemis_py.logs import named_logger
from artemis_py.wire.answers import Answers

if TYPE_CHECKING:
    from artemis_amqp.broker.handler import AmqpHandler

logger = named_logger(__name__)

ACCEPTED_STATE: Final = encode(Accepted())
RELEASED_STATE: Final = encode(Released())

_DELIVERY_TAG: Final = Symbol("delivery-tag")

# x-opt-jms-dest: 0 queue, 1 topic, 2 temporary queue, 3 temporary topic (amqp10 §17).
_JMS_TYPES: Final = {0: RoutingType.ANYCAST, 1: RoutingType.MULTICAST, 2: RoutingType.ANYCAST, 3: RoutingType.MULTICAST}

NEVER_LARGE: Final = 1 << 60
"""A size in bytes that no message reaches."""

# Producers that an anonymous link caches, by address. Each costs about 1 KiB and saves a permission check per message.
RELAY_CACHE_LIMIT: Final = 256


class Unstored:
    """Deliveries of one link that wait for the same answer of the store.

    Those that our answer settles are kept as ranges of delivery-ids: thousands may wait, which then cost no memory, and
    are answered at once.
    """

    __slots__ = ("count", "first", "last", "ranges", "tagged")

    def __init__(self) -> None:
        self.count: int = 0
        """Number of all deliveries."""
        self.first: int = -1
        """First delivery-id of the newest range; -1: there is none."""
        self.last: int = -1
        self.ranges: list[tuple[int, int]] = []
        """First and last delivery-id of the ranges before it."""
        self.tagged: list[tuple[int, bytes]] = []
        """Delivery-id and delivery-tag of the deliveries that the client settles (rcv-settle-mode second)."""

    def add(self, delivery_id: int) -> None:
        """Add a delivery that our answer settles."""
        self.count += 1
        if self.first < 0:
            self.first = delivery_id
        elif delivery_id != (self.last + 1) & MASK:
            self.ranges.append((self.first, self.last))
            self.first = delivery_id
        self.last = delivery_id

    def add_tagged(self, delivery_id: int, tag: bytes) -> None:
        """Add a delivery that the client settles."""
        self.count += 1
        self.tagged.append((delivery_id, tag))


class IncomingLink(ReceiverLinkHandler):
    """The deliveries of one producing link, handled by the broker."""

    def __init__(
        self,
        handler: "AmqpHandler",
        link: ReceiverLink,
        producer: Producer | None,
        supports_rejected: bool,
        wish: bool | None,
    ):
        self._handler: AmqpHandler = handler
        self._link: ReceiverLink = link
        self._producer: Producer | None = producer
        """Producer for the target; None for an anonymous terminus, where each message names its address."""
        self._relayed: dict[tuple[str, int], Producer] = {}
        self._supports_rejected: bool = supports_rejected
        self._wish: bool | None = wish
        """Whether messages that reach no queue are refused; None: the exchange decides."""
        self._releases: bool = handler.parameters.has_rabbit_addresses and wish is not True
        """Whether such messages are released, as in RabbitMQ, unless their exchange wants them to be rejected."""
        self._session: Session = handler.core_session
        self._dispatcher: Dispatcher = handler.host.dispatcher
        self._container_id: str = handler.container_id
        self._stores: bool = handler.stores
        self._credit: int = handler.parameters.credits
        self._detects_duplicates: bool = handler.parameters.detects_duplicates
        self._low_credit: int = handler.parameters.low_credits
        self._large_size: int = handler.parameters.large_size
        """Messages of this many bytes or more are kept outside of memory."""
        self._stream: IncomingBody | None = None
        """The large message that is arriving; no other delivery of the link comes in between."""
        self._unanswered: int = 0
        """Number of deliveries that wait for the store."""
        self._answers: Answers = handler.answers
        self._asked: int = -1
        self._unstored: Unstored = Unstored()
        """Deliveries since the store was asked for the `_asked`th time."""
        self._is_waiting: bool = False
        """Whether credit is withheld until the address has room."""
        self.unsettled: dict[bytes, bytes] = {}
        """Outcomes that the client has not settled yet (rcv-settle-mode second), by delivery-tag."""

    def start(self) -> None:
        """Let the client send."""
        self._link.large_size = 0 if self._large_size == NEVER_LARGE else self._large_size
        self._top_up()

    @property
    def has_unsettled(self) -> bool:
        """Whether there are or will be outcomes that the client has to settle (rcv-settle-mode second)."""
        return len(self.unsettled) > 0 or (self._unanswered > 0 and self._link.rcv_settle_mode != 0)

    def check_rights(self) -> None:
        """Raise NotAuthorized if the client's new rights do not let it send to the link's target."""
        self._relayed.clear()
        producer = self._producer
        if producer is not None:
            self._session.check(Permission.SEND, producer.name, producer.queue_name or None)

    def stop(self) -> None:
        """Abandon an unfinished delivery and let go of the producer: the link is gone."""
        if self._stream is not None:
            self._stream.abandon()
        if self._producer is not None:
            self._producer.let_go()

    # -- deliveries ------------------------------------------------------------------------------------------

    def on_transfer(self, link: ReceiverLink, delivery: TransferFrame) -> None:
        """Route one complete delivery, and answer it."""
        if delivery.resume:
            self._resumed(delivery)
            return
        if delivery.size >= self._large_size:
            stream = self.open_stream(link)
            stream.append(delivery.payload)
            self.on_stream(link, delivery, stream)
            return
        transaction: Transaction | None = None
        try:
            if delivery.message_format != 0 or delivery.state is not None:
                transaction = self._transaction(delivery)
            if delivery.size == 0:
                raise MalformedValue(NO_SECTION)
            sections = split_sections_at(delivery.data, delivery.start, delivery.stop)
            message = self._send(sections, None, transaction)
        except (Refusal, MalformedFrame, errors.Condition) as error:
            self._refuse(delivery, error, transaction)
            return
        self._accept(link, delivery, message.durable, transaction)

    def open_stream(self, link: ReceiverLink) -> DeliveryStream:
        """Return the stream for a large message that begins to arrive."""
        handler = self._handler
        refusal: Refusal | None = None
        if handler.links.arriving_count >= ARRIVING_LIMIT:
            refusal = LimitExceeded(f"{ARRIVING_LIMIT} large messages arrive on this connection")
        stream = self._stream = IncomingBody(handler.host.storage, refusal)
        return stream

    @property
    def is_receiving(self) -> bool:
        """Whether part of a large message has arrived."""
        return self._stream is not None and self._stream.is_open

    def on_stream(self, link: ReceiverLink, delivery: TransferFrame, stream: DeliveryStream) -> None:
        """Route one complete delivery whose body is outside of memory, and answer it."""
        assert isinstance(stream, IncomingBody)
        if delivery.resume:
            stream.abandon()
            self._resumed(delivery)
            return
        transaction: Transaction | None = None
        body: LargeBody | None = None
        try:
            transaction = self._transaction(delivery)
            sections, body = stream.finish()
            message = self._send(sections, body, transaction)
        except (Refusal, MalformedFrame, errors.Condition) as error:
            stream.abandon()
            self._refuse(delivery, error, transaction)
            return
        finally:
            # Our reference ends here; the queues that took the message have their own.
            if body is not None:
                body.release()
        self._accept(link, delivery, message.durable, transaction)

    def _transaction(self, delivery: TransferFrame) -> Transaction | None:
        """Return a delivery's transaction, if any. Raises Condition for a format that is not AMQP's, Refusal."""
        if delivery.message_format != 0:
            text = f"message-format {delivery.message_format} is not supported"
            raise errors.Condition(errors.NOT_IMPLEMENTED, text)
        state = delivery.state
        if state is not None and type(state) is TransactionalState:
            return self._handler.transactions.find(state.txn_id)
        return None

    def _send(self, sections: Sections, body: LargeBody | None, transaction: Transaction | None) -> Message:
        """Route a message. Raises Refusal, MalformedFrame, Condition."""
        message = read_message(sections, self._dispatcher.now_ms, self._container_id)
        if body is not None:
            message.large = body
        producer = self._producer
        if producer is None:
            producer = self._relay(message)
        if sections.duplicate_id is None or not self._detects_duplicates:
            producer.send(message, transaction)
        else:
            producer.send(message, transaction, duplicate_id(sections.duplicate_id))
        return message

    def _accept(
        self, link: ReceiverLink, delivery: TransferFrame, durable: bool, transaction: Transaction | None
    ) -> None:
        """Accept a message that was routed, now or when it is stored, and top up the client's credit."""
        if delivery.settled == 0:
            delivery_id = delivery.delivery_id
            if transaction is not None:
                txn_id = self._handler.transactions.id_of(transaction)
                outcome = encode(TransactionalState(txn_id=txn_id, outcome=Accepted()))
                self._answer(delivery_id, delivery.delivery_tag, outcome)
            elif durable and self._stores:
                self._unanswered += 1
                answers = self._answers
                if self._asked != answers.asked:
                    # One callback for all that the store is asked for together, not one per message.
                    self._asked = answers.asked
                    self._unstored = Unstored()
                    answers.when_durable(partial(self._stored, self._unstored))
                if link.rcv_settle_mode == 0:
                    self._unstored.add(delivery_id)
                else:
                    self._unstored.add_tagged(delivery_id, delivery.delivery_tag)
            elif link.rcv_settle_mode == 0:
                link.session.settle_incoming(delivery_id, delivery_id, ACCEPTED_STATE, True)
            else:
                self._answer(delivery_id, delivery.delivery_tag, ACCEPTED_STATE)
        if link.credit <= self._low_credit and link.granting < 0:
            self._top_up()

    def _stored(self, deliveries: Unstored) -> None:
        self._unanswered -= deliveries.count
        session = self._link.session
        for first, last in deliveries.ranges:
            session.settle_incoming(first, last, ACCEPTED_STATE, True)
        if deliveries.first >= 0:
            session.settle_incoming(deliveries.first, deliveries.last, ACCEPTED_STATE, True)
        for delivery_id, tag in deliveries.tagged:
            self._answer(delivery_id, tag, ACCEPTED_STATE)
        self._top_up()

    def _answer(self, delivery_id: int, tag: bytes, state: bytes) -> None:
        settles = self._link.settles_at_once(delivery_id)
        if not settles:
            self.unsettled[tag] = state
        self._link.session.settle_incoming(delivery_id, delivery_id, state, settles)

    def on_settled(self, link: ReceiverLink, delivery_id: int, tag: bytes) -> None:
        """Forget an outcome that the client has settled (rcv-settle-mode second)."""
        self.unsettled.pop(tag, None)
        self._top_up()

    def _resumed(self, delivery: TransferFrame) -> None:
        """Repeat the outcome of a delivery from before the link was re-attached; the message is not routed again.

        An unknown delivery is released: its client may send it as a new one (amqp10 §9).
        """
        tag = delivery.delivery_tag
        state = self.unsettled.get(tag)
        if delivery.is_settled:
            self.unsettled.pop(tag, None)
        elif state is None:
            self._link.session.settle_incoming(delivery.delivery_id, delivery.delivery_id, RELEASED_STATE, True)
        else:
            self._answer(delivery.delivery_id, tag, state)

    def _refuse(self, delivery: TransferFrame, error: Exception, transaction: Transaction | None) -> None:
        tag = delivery.delivery_tag
        settled = delivery.is_settled
        amqp_error = errors.to_amqp(error)
        if self._producer is None:
            # Each message names its own address, so every form of the answer says which delivery it is about.
            amqp_error = _with_tag(amqp_error, tag)
        logger.debug("message refused: link=%s reason=%s", self._link.name, error)
        if self._producer is not None:
            self._producer.refused()
        if transaction is not None:
            transaction.fail(error if isinstance(error, Refusal) else InvalidRequest(str(error)))
        is_released = self._releases and isinstance(error, NoRoute) and not error.is_policy
        if not settled and (self._supports_rejected or is_released):
            outcome: object = Released() if is_released else Rejected(error=amqp_error)
            if isinstance(error, AddressFull) and self._handler.parameters.modified_when_full:
                outcome = Modified(delivery_failed=True)
            if transaction is not None:
                outcome = TransactionalState(txn_id=self._handler.transactions.id_of(transaction), outcome=outcome)
            self._answer(delivery.delivery_id, tag, encode(outcome))
            self._top_up()
        elif settled and (transaction is not None or is_released or isinstance(error, AddressFull)):
            # A settled delivery cannot be answered: its transaction fails, the full address discards it, or no queue
            # wants it.
            self._top_up()
        else:
            self._handler.links.detach(self._link, _with_tag(amqp_error, tag))

    # -- anonymous terminus ----------------------------------------------------------------------------------

    def _relay(self, message: Message) -> Producer:
        """Return the producer for the message's `to`. Raises Refusal (amqp10 §15.1)."""
        to = read_to(message.data)
        if not to:
            raise errors.Condition(errors.PRECONDITION_FAILED, "a message on an anonymous link needs a 'to' address")
        name, routing_type = self._handler.prefixes.strip(to)
        is_prefixed = routing_type is not None
        if routing_type is None and message.routing_type == NO_TYPE:
            kind = read_annotation(message.annotations, JMS_DESTINATION)
            if isinstance(kind, int):
                routing_type = _JMS_TYPES.get(kind)
        elif routing_type is None:
            routing_type = RoutingType(message.routing_type)
        key = (name, NO_TYPE if routing_type is None else int(routing_type))
        producer = self._relayed.get(key)
        if producer is None:
            producer = relay(self._handler, name, routing_type, is_prefixed, self._wish)
            if len(self._relayed) >= RELAY_CACHE_LIMIT:
                self._relayed.clear()
            self._relayed[key] = producer
        elif producer.address is not None and producer.address.is_deleted:
            producer.prepare()
        return producer

    # -- credit ----------------------------------------------------------------------------------------------

    def _top_up(self) -> None:
        """Grant credit unless enough is granted, waits for an answer or is unsettled, or the address is full."""
        link = self._link
        under_way = self._unanswered + len(self.unsettled)
        if not link.is_attached or link.granting >= 0 or link.credit + under_way > self._low_credit or self._is_waiting:
            return
        full = self._full_address()
        if full is not None:
            self._is_waiting = True
            full.when_room(self._has_room)
            # Nothing else tells the client why it gets no credit.
            link.properties = {WAITS_FOR: full.wait_reason}
            link.session.plan_flow(link)
            return
        link.grant(self._credit - under_way)

    def _full_address(self) -> Address | None:
        producers = self._relayed.values() if self._producer is None else (self._producer,)
        for producer in producers:
            if producer.must_wait:
                return producer.address
        return None

    def _has_room(self) -> None:
        self._is_waiting = False
        self._link.properties = None
        if self._link.is_attached:
            self._top_up()
            self._handler.wake()


def _with_tag(error: AmqpError, tag: bytes) -> AmqpError:
    """Return the error with the tag of its delivery added (AMQP Anonymous Terminus 1.0 §2.2, amqp10 §15.1)."""
    info = dict(error.info or {})
    info[_DELIVERY_TAG] = tag
    return AmqpError(error.condition, error.description, info)
