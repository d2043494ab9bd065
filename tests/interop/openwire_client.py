"""A blocking OpenWire client over a socket, with our own client engine: for tests that need no Java."""

import socket
import time
from contextlib import suppress
from types import TracebackType
from typing import Any, Final

from artemis_openwire.client.connection import ClientConnection, ClientHandler
from artemis_openwire.client.frames import Dispatch
from artemis_openwire.engine.codec import read_frame
from artemis_openwire.engine.commands import (
    ActiveMQTextMessage,
    BaseCommand,
    ConnectionInfo,
    ConsumerInfo,
    ExceptionResponse,
    Message,
    MessageAck,
    MessageDispatch,
    ProducerInfo,
    RemoveInfo,
    Response,
    SessionInfo,
)
from artemis_openwire.engine.negotiation import Agreement
from artemis_openwire.engine.structures import (
    ActiveMQDestination,
    ConnectionId,
    ConsumerId,
    MessageId,
    ProducerId,
    SessionId,
    TransactionId,
)

ACCEPTED: Final = 2
POISON: Final = 1
"""Kinds of acknowledgement."""

TIMEOUT_S: Final = 60.0
"""How long an expected event may take; nothing waits for it to pass."""


class Gone(ConnectionError):
    """The broker closed the connection."""


class OpenWireClient(ClientHandler):
    """One connection with one session and one producer."""

    def __init__(self, host: str, port: int, name: str = "ID:test-1:1", **login: Any) -> None:
        """`login`: fields of ConnectionInfo."""
        self.name: Final = name
        self.producer: Final = ProducerId(connection_id=name, session_id=1, value=1)
        self.socket: Final = socket.create_connection((host, port), TIMEOUT_S)
        self._engine: Final = ClientConnection(self)
        self._responses: dict[int, Response] = {}
        self._dispatches: list[MessageDispatch] = []
        self._is_negotiated = False
        self._sent = 0
        try:
            self._wait(lambda: self._is_negotiated)
            connection = ConnectionId(value=name)
            self.done(ConnectionInfo(connection_id=connection, client_id=name, **login))
            self.done(SessionInfo(session_id=SessionId(connection_id=name, value=1)))
            self.done(ProducerInfo(producer_id=self.producer))
        except BaseException:
            self.socket.close()
            raise

    def __enter__(self) -> "OpenWireClient":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._engine.close()
        with suppress(OSError):
            self._flush()
        self.socket.close()

    # -- what the engine calls -----------------------------------------------------------------------------------

    def on_negotiated(self, agreement: Agreement) -> None:
        self._is_negotiated = True

    def on_response(self, command_id: int, response: Response) -> None:
        self._responses[command_id] = response

    def on_dispatch(self, dispatch: Dispatch) -> None:
        found = read_frame(dispatch.body, self._engine.version)
        assert isinstance(found, MessageDispatch)
        self._dispatches.append(found)

    # -- what tests call -----------------------------------------------------------------------------------------

    def begin(self, command: BaseCommand) -> int:
        """Send a command; return its number, for `answer`."""
        number = self._engine.request(command)
        self._flush()
        return number

    def answer(self, number: int) -> Response:
        """Wait for the answer to a command. Raises Gone."""
        self._wait(lambda: number in self._responses)
        return self._responses.pop(number)

    def done(self, command: BaseCommand) -> None:
        """Send a command that must succeed."""
        response = self.answer(self.begin(command))
        assert not isinstance(response, ExceptionResponse), response

    def consume(self, destination: ActiveMQDestination, value: int = 1, prefetch: int = 100, **fields: Any) -> None:
        """Open a consumer."""
        id = ConsumerId(connection_id=self.name, session_id=1, value=value)
        self.done(ConsumerInfo(consumer_id=id, destination=destination, prefetch_size=prefetch, **fields))

    def leave(self, value: int = 1) -> None:
        """Close a consumer."""
        id = ConsumerId(connection_id=self.name, session_id=1, value=value)
        self.done(RemoveInfo(object_id=id, last_delivered_sequence_id=-1))

    def send(
        self,
        destination: ActiveMQDestination,
        content: bytes,
        kind: type[Message] = ActiveMQTextMessage,
        **fields: Any,
    ) -> None:
        """Send a durable message, and wait until the broker has it."""
        self._sent += 1
        self.done(self.message(destination, content, self._sent, kind, **fields))

    def message(
        self,
        destination: ActiveMQDestination,
        content: bytes,
        number: int,
        kind: type[Message] = ActiveMQTextMessage,
        **fields: Any,
    ) -> Message:
        """A durable message, the producer's `number`th."""
        id = MessageId(producer_id=self.producer, producer_sequence_id=number)
        given: dict[str, Any] = {"persistent": True, "priority": 4, "content": content}
        return kind(producer_id=self.producer, destination=destination, message_id=id, **(given | fields))

    def receive(self, ack_type: int = ACCEPTED) -> Message:
        """Wait for the next message, and acknowledge it or give it up."""
        dispatch = self.next_dispatch()
        assert dispatch is not None
        assert dispatch.message is not None
        self.done(acknowledgement(dispatch, ack_type=ack_type))
        return dispatch.message

    def next_dispatch(self, timeout_s: float = TIMEOUT_S) -> MessageDispatch | None:
        """Wait for the next delivery; None if there is none in time. Raises Gone."""
        self.socket.settimeout(timeout_s)
        try:
            self._wait(lambda: len(self._dispatches) > 0)
        except TimeoutError:
            return None
        finally:
            self.socket.settimeout(TIMEOUT_S)
        return self._dispatches.pop(0)

    def _flush(self) -> None:
        data = self._engine.data_to_send()
        if data:
            self.socket.sendall(data)

    def _wait(self, condition: Any) -> None:
        deadline = time.monotonic() + TIMEOUT_S
        while not condition():
            self._flush()
            if condition():
                return
            assert time.monotonic() < deadline, "the broker did not answer in time"
            data = self.socket.recv(65536)
            if not data:
                raise Gone("the broker closed the connection")
            self._engine.receive_data(data, time.monotonic())


def acknowledgement(
    dispatch: MessageDispatch, transaction: TransactionId | None = None, ack_type: int = ACCEPTED
) -> MessageAck:
    """An acknowledgement of one delivery, the standard one unless it says otherwise."""
    assert dispatch.message is not None
    id = dispatch.message.message_id
    return MessageAck(
        destination=dispatch.destination,
        consumer_id=dispatch.consumer_id,
        ack_type=ack_type,
        first_message_id=id,
        last_message_id=id,
        message_count=1,
        transaction_id=transaction,
    )


def text_content(text: str) -> bytes:
    """The content of a text message, for a text without special characters."""
    data = text.encode("ascii")
    return len(data).to_bytes(4, "big") + data
