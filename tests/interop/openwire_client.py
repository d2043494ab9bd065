"""A blocking OpenWire client over a socket, with our own client engine: for tests that need no Java."""

import socket
import time
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
)

TIMEOUT_S: Final = 20.0
"""How long an expected event may take; nothing waits for it to pass."""


class OpenWireClient(ClientHandler):
    """One connection with one session and one producer."""

    def __init__(self, host: str, port: int, name: str = "ID:test-1:1") -> None:
        self.name: Final = name
        self.producer: Final = ProducerId(connection_id=name, session_id=1, value=1)
        self._socket: Final = socket.create_connection((host, port), TIMEOUT_S)
        self._engine: Final = ClientConnection(self)
        self._responses: dict[int, Response] = {}
        self._dispatches: list[MessageDispatch] = []
        self._is_negotiated = False
        self._sent = 0
        self._wait(lambda: self._is_negotiated)
        connection = ConnectionId(value=name)
        self.done(ConnectionInfo(connection_id=connection, client_id=name))
        self.done(SessionInfo(session_id=SessionId(connection_id=name, value=1)))
        self.done(ProducerInfo(producer_id=self.producer))

    def __enter__(self) -> "OpenWireClient":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._engine.close()
        self._flush()
        self._socket.close()

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

    def done(self, command: BaseCommand) -> None:
        """Send a command that must succeed."""
        number = self._engine.request(command)
        self._wait(lambda: number in self._responses)
        response = self._responses.pop(number)
        assert not isinstance(response, ExceptionResponse), response

    def consume(self, destination: ActiveMQDestination, value: int = 1, **fields: Any) -> None:
        """Open a consumer."""
        id = ConsumerId(connection_id=self.name, session_id=1, value=value)
        self.done(ConsumerInfo(consumer_id=id, destination=destination, prefetch_size=100, **fields))

    def send(
        self,
        destination: ActiveMQDestination,
        content: bytes,
        kind: type[Message] = ActiveMQTextMessage,
        **fields: Any,
    ) -> None:
        """Send a durable message, and wait until the broker has it."""
        self._sent += 1
        id = MessageId(producer_id=self.producer, producer_sequence_id=self._sent)
        given: dict[str, Any] = {"persistent": True, "priority": 4, "content": content}
        self.done(kind(producer_id=self.producer, destination=destination, message_id=id, **(given | fields)))

    def receive(self) -> Message:
        """Wait for the next message, and acknowledge it."""
        self._wait(lambda: len(self._dispatches) > 0)
        dispatch = self._dispatches.pop(0)
        message = dispatch.message
        assert message is not None
        self.done(
            MessageAck(
                destination=dispatch.destination,
                consumer_id=dispatch.consumer_id,
                ack_type=2,
                first_message_id=message.message_id,
                last_message_id=message.message_id,
                message_count=1,
            )
        )
        return message

    def _flush(self) -> None:
        data = self._engine.data_to_send()
        if data:
            self._socket.sendall(data)

    def _wait(self, condition: Any) -> None:
        deadline = time.monotonic() + TIMEOUT_S
        while not condition():
            self._flush()
            if condition():
                return
            assert time.monotonic() < deadline, "the broker did not answer in time"
            data = self._socket.recv(65536)
            assert data, "the broker closed the connection"
            self._engine.receive_data(data, time.monotonic())


def text_content(text: str) -> bytes:
    """The content of a text message, for a text without special characters."""
    data = text.encode("ascii")
    return len(data).to_bytes(4, "big") + data
