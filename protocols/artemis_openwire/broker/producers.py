"""Messages from one client: each is routed, and answered when it is as durable as it asks to be (openwire §13)."""

from functools import partial
from typing import TYPE_CHECKING, Final

from artemis_openwire.broker.exchange_names import open_exchange, read_exchange_name
from artemis_openwire.broker.refusals import illegal_state, invalid_destination, told
from artemis_openwire.broker.subscriptions import routing_type_of
from artemis_openwire.broker.transactions import ClientTransaction
from artemis_openwire.engine.codec import write_nested
from artemis_openwire.engine.commands import ProducerInfo
from artemis_openwire.engine.fields import NO_ANSWER
from artemis_openwire.engine.message_fields import MessageFields
from artemis_openwire.engine.names import destinations_of, message_id_text
from artemis_openwire.engine.structures import ActiveMQDestination, ActiveMQTempDestination, ProducerId
from artemis_openwire.messages.arrival import asks_for_time, duplicate_id_of, message_of
from artemis_openwire.messages.occurrences import timing_of
from artemis_py.core.addresses.address import Address
from artemis_py.core.messages.large_body import LargeBody
from artemis_py.core.messages.message import Message
from artemis_py.core.names.syntax import FQQN_SEPARATOR
from artemis_py.core.queues.dispatcher import Dispatcher
from artemis_py.core.routing.duplicates import duplicate_id
from artemis_py.core.routing.transaction import Transaction
from artemis_py.core.sessions.exchanges import ExchangeInlet
from artemis_py.core.sessions.producer import Producer
from artemis_py.errors import InvalidRequest, LimitExceeded, MalformedFrame, Refusal
from artemis_py.wire.answers import Answers

if TYPE_CHECKING:
    from artemis_openwire.broker.exchange import Exchange

# Producers of one connection.
MAX_PRODUCERS: Final = 16_384

PRODUCER_BYTES: Final = 1024
"""What a producer counts in the account of tables."""

# Destinations whose producers of the core are kept. Each costs about 1 KiB and saves a look-up for each message.
KEPT_TARGETS: Final = 256


class ClientProducer:
    """One producer of a client."""

    __slots__ = ("id", "info", "key", "target", "window_size")

    def __init__(self, info: ProducerInfo, id: ProducerId, key: bytes, target: "Target | None") -> None:
        self.info: ProducerInfo = info
        self.id: ProducerId = id
        self.key: bytes = key
        self.window_size: int = max(info.window_size, 0)
        """Octets that the client sends ahead of ProducerAck; 0: there is no window."""
        self.target: Target | None = target
        """Its destination; None: each message names its own."""


class Target:
    """Where the messages of one destination go: one producer of the core for each destination that the name lists."""

    __slots__ = ("is_list", "is_temporary", "parts")

    def __init__(self, parts: list[tuple[ActiveMQDestination, Producer]], is_list: bool) -> None:
        self.parts: list[tuple[ActiveMQDestination, Producer]] = parts
        self.is_list: bool = is_list
        """Whether messages are to name the part that they go to."""
        self.is_temporary: bool = any(isinstance(part, ActiveMQTempDestination) for part, _ in parts)

    @property
    def fullest(self) -> Producer:
        """Return the producer that the client has to wait for; the first one if it need not wait."""
        first = self.parts[0][1]
        if not self.is_list or first.must_wait:
            return first
        return next((producer for _, producer in self.parts if producer.must_wait), first)


class Producers:
    """The producers of one connection, and the messages of all of them."""

    def __init__(self, exchange: "Exchange") -> None:
        handler = exchange.handler
        self._exchange: Final = exchange
        self._dispatcher: Final[Dispatcher] = handler.host.dispatcher
        self._answers: Final[Answers] = handler.answers
        self._stores: Final[bool] = handler.host.storage.is_durable
        self._resends: Final[bool] = exchange.info.fault_tolerant and handler.parameters.detects_duplicates
        """Whether the client sends messages again after it has connected again."""
        self._by_key: dict[bytes, ClientProducer] = {}
        self._targets: dict[ActiveMQDestination, Target] = {}
        self._named: ActiveMQDestination | None = None
        """Destination of the last message, and its target; both None: look it up."""
        self._target: Target | None = None
        self._body: LargeBody | None = None
        """Content of the message at hand, if it is large."""
        self._refusal: Refusal | None = None
        """Why that could not be kept."""
        self._full: Address | None = None
        """Full address that the client waits for while it is not read from."""
        self._asked: int = -1
        self._unstored: list[tuple[int, bytes, int, Producer]] = []
        """Answers that wait for the store since it was asked for the `_asked`th time."""

    # -- producers -------------------------------------------------------------------------------------------------

    def open(self, info: ProducerInfo) -> None:
        """Open a producer; one that is open stays. Raises Refusal."""
        exchange = self._exchange
        if info.producer_id is None:
            raise illegal_state("a producer needs an id")
        key = write_nested(info.producer_id, exchange.handler.engine.version)
        if key in self._by_key:
            return
        exchange.check_session(info.producer_id)
        if len(self._by_key) >= MAX_PRODUCERS:
            raise LimitExceeded(f"{MAX_PRODUCERS} producers are open on this connection")
        handler = exchange.handler
        handler.host.check_tables("a producer")
        target: Target | None = None
        if info.destination is not None:
            target = self._open_target(info.destination)
            for _, producer in target.parts:
                producer.hold()
        self._by_key[key] = ClientProducer(info, info.producer_id, key, target)
        handler.host.tables.occupy(PRODUCER_BYTES)
        handler.manager.advisories.producer_added(info, info.producer_id)

    def close(self, id: ProducerId) -> None:
        """Close a producer, if it is open."""
        producer = self._by_key.pop(write_nested(id, self._exchange.handler.engine.version), None)
        if producer is None:
            return
        if producer.target is not None:
            for _, each in producer.target.parts:
                each.let_go()
        self._exchange.handler.host.tables.vacate(PRODUCER_BYTES)
        self._exchange.handler.manager.advisories.producer_removed(producer.info, id)

    def close_session(self, session_id: int) -> None:
        """Close the producers of a session."""
        for producer in [one for one in self._by_key.values() if one.id.session_id == session_id]:
            self.close(producer.id)

    def forget_rights(self) -> None:
        """Check the permission again for the next message of each destination."""
        self._targets.clear()
        self._named = self._target = None

    def stop(self) -> None:
        """Tell others that they are gone; the session of the core lets go of their addresses."""
        self._forget_room()
        self._exchange.handler.host.tables.vacate(PRODUCER_BYTES * len(self._by_key))
        for producer in self._by_key.values():
            self._exchange.handler.manager.advisories.producer_removed(producer.info, producer.id)

    def _open_target(self, destination: ActiveMQDestination) -> Target:
        """Open producers of the core for a destination. Raises Refusal."""
        try:
            parts = destinations_of(destination)
        except ValueError as error:
            raise LimitExceeded(str(error)) from None
        if not parts:
            raise invalid_destination("a destination needs a name")
        is_list = parts != [destination]
        return Target([(part, self._open_part(part)) for part in parts], is_list)

    def _open_part(self, part: ActiveMQDestination) -> Producer:
        core = self._exchange.core
        name = part.physical_name or ""
        if isinstance(part, ActiveMQTempDestination) and core.owns_temporary(name) is None:
            raise invalid_destination(f"the temporary destination '{name}' does not exist")
        wanted = read_exchange_name(name)
        if wanted is not None:
            return open_exchange(core, wanted)
        if name.endswith(FQQN_SEPARATOR):
            raise invalid_destination(f"'{name}' names no queue")
        return core.producer(core.full_name(name), routing_type_of(part))

    def _find_target(self, message: MessageFields) -> Target:
        """Return where a message goes. Raises Refusal."""
        destination = message.destination
        if destination is None:
            producer = self._by_key.get(message.producer_key)
            destination = None if producer is None else producer.info.destination
            if destination is None:
                raise invalid_destination("a message without a destination")
        if destination is self._named and self._target is not None:
            return self._target
        target = self._targets.get(destination)
        if target is None:
            target = self._open_target(destination)
            if len(self._targets) >= KEPT_TARGETS:
                self._targets.clear()
            self._targets[destination] = target
        self._named, self._target = destination, target
        return target

    # -- messages --------------------------------------------------------------------------------------------------

    def on_message(self, fields: MessageFields) -> None:
        """Route a message, and answer it."""
        answer_id = fields.answer_id
        transaction: ClientTransaction | None = None
        try:
            key = fields.transaction_key
            if key:
                transaction = self._exchange.transactions.find(key)
            target = self._find_target(fields)
            if transaction is None or not transaction.is_replay:
                self._send(fields, target, transaction)
        except (Refusal, MalformedFrame) as error:
            self._refuse(answer_id, error, transaction)
            return
        self._accept(fields, answer_id, target, transaction)

    def on_large_message(self, fields: MessageFields, body: LargeBody | None, refusal: Refusal | None) -> None:
        """Route a message whose content is in `body`, or refuse it if that could not be kept."""
        self._body, self._refusal = body, refusal
        try:
            self.on_message(fields)
        finally:
            self._body = self._refusal = None

    def _send(self, fields: MessageFields, target: Target, transaction: ClientTransaction | None) -> None:
        if self._refusal is not None:
            raise self._refusal
        of = None if transaction is None else transaction.of
        id = duplicate_id_of(fields)
        if not id and self._resends and fields.persistent and not target.is_temporary:
            id = duplicate_id(fields.message_key)
        now_ms, client_id = self._dispatcher.now_ms, self._exchange.handler.client_id
        timing = timing_of(fields) if asks_for_time(fields) else None
        for part, producer in target.parts:
            message = message_of(fields, now_ms, client_id, part if target.is_list else None)
            if self._body is not None:
                message.large = self._body
            if timing is None:
                self._route(message, part, producer, of, id)
            else:
                _check_temporary(part, producer)
                if isinstance(producer.inlet, ExchangeInlet):
                    raise InvalidRequest("a message to an exchange is not sent later: schedule it for a queue or topic")
                job_id = message_id_text(fields.message_id)
                self._exchange.handler.services.jobs.schedule(producer, message, timing, job_id, of, id)

    def _route(
        self,
        message: Message,
        part: ActiveMQDestination,
        producer: Producer,
        transaction: Transaction | None,
        id: bytes,
    ) -> None:
        _check_temporary(part, producer)
        producer.send(message, transaction, id)

    def _accept(
        self, fields: MessageFields, answer_id: int, target: Target, transaction: ClientTransaction | None
    ) -> None:
        """Answer a message that was routed, now or when it is stored; a full address delays the answer."""
        size = 0
        key = b""
        producer = target.fullest
        if answer_id == NO_ANSWER:
            client = self._by_key.get(fields.producer_key)
            if client is None or client.window_size == 0:
                if producer.must_wait:
                    self._halt(producer)
                return
            size, key = fields.window_size, client.key
            if self._body is not None:
                size += self._body.size
        if transaction is None and fields.persistent and self._stores:
            answers = self._answers
            if self._asked != answers.asked:
                # One callback for all that the store is asked for together, not one for each message.
                self._asked = answers.asked
                self._unstored = []
                answers.when_durable(partial(self._stored, self._unstored))
            self._unstored.append((answer_id, key, size, producer))
        else:
            self._answer(answer_id, key, size, producer)

    def _stored(self, answers: list[tuple[int, bytes, int, Producer]]) -> None:
        for answer in answers:
            self._answer(*answer)

    def _answer(self, answer_id: int, key: bytes, size: int, producer: Producer) -> None:
        handler = self._exchange.handler
        if handler.is_over():
            return
        if producer.must_wait:
            producer.when_room(partial(self._answer, answer_id, key, size, producer))
            return
        if answer_id != NO_ANSWER:
            handler.engine.respond(answer_id)
        else:
            handler.engine.send_producer_ack(key, size)

    # -- a client that fills what is full --------------------------------------------------------------------------

    def _halt(self, producer: Producer) -> None:
        """Read nothing more from a client that fills a full address and waits neither for answers nor for a window.

        A client that owes us acknowledgements is still read: they come behind its messages, and may make room.
        """
        exchange = self._exchange
        if self._full is None and producer.address is not None and not exchange.consumers.has_unacknowledged:
            self._full = producer.address
            exchange.handler.engine.halt()
            exchange.handler.context.read(False)
            self._full.when_room(self.read_on)

    def read_on(self) -> None:
        """Read from the client again, if it was not read; no message is routed before the transport reads."""
        if self._full is None:
            return
        self._forget_room()
        handler = self._exchange.handler
        if not handler.is_over():
            handler.engine.proceed()
            handler.context.read(True)

    def _forget_room(self) -> None:
        if self._full is not None:
            self._full.forget(self.read_on)
            self._full = None

    def _refuse(self, answer_id: int, error: Exception, transaction: ClientTransaction | None) -> None:
        """Say why a message was refused. Its transaction can only be rolled back."""
        refusal = error if isinstance(error, Refusal) else InvalidRequest(str(error))
        handler = self._exchange.handler
        template = "message refused: peer=%s client=%s reason=%s"
        handler.brake.info(handler.source, template, handler.context.peer, handler.client_id, refusal)
        if transaction is not None:
            transaction.of.fail(refusal)
        handler.engine.fail(answer_id, told(refusal))


def _check_temporary(part: ActiveMQDestination, producer: Producer) -> None:
    """Raise CommandRefused for a temporary destination that is gone."""
    if isinstance(part, ActiveMQTempDestination):
        address = producer.address
        if address is None or address.is_deleted:
            raise invalid_destination(f"the temporary destination '{part.physical_name}' was deleted")
