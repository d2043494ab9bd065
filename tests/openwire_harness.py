"""A scripted OpenWire client: commands as a client writes them, what a server wrote as records, calls in a list."""

from collections.abc import Iterable
from struct import unpack_from
from typing import Any, Final

from artemis_openwire.engine.ack_fields import AckFields
from artemis_openwire.engine.codec import read_frame, write_frame
from artemis_openwire.engine.commands import (
    ActiveMQTextMessage,
    BaseCommand,
    BrokerInfo,
    ConnectionInfo,
    MessageAck,
    WireFormatInfo,
)
from artemis_openwire.engine.connection import OpenWireConnection
from artemis_openwire.engine.handler import OpenWireHandler
from artemis_openwire.engine.limits import ConnectionLimits
from artemis_openwire.engine.message_fields import MessageFields
from artemis_openwire.engine.negotiation import Agreement
from artemis_openwire.engine.structure import Structure
from artemis_openwire.engine.structures import (
    ActiveMQQueue,
    BrokerId,
    ConnectionId,
    ConsumerId,
    MessageId,
    ProducerId,
)
from artemis_openwire.engine.values import Long, write_map

VERSIONS: Final = tuple(range(1, 13))
CONNECTION: Final = ConnectionId(value="ID:host-1-2:1")
CONSUMER: Final = ConsumerId(connection_id="ID:host-1-2:1", session_id=1, value=2)
PRODUCER: Final = ProducerId(connection_id="ID:host-1-2:1", session_id=1, value=1)
QUEUE: Final = ActiveMQQueue(physical_name="orders")
BROKER: Final = BrokerInfo(broker_id=BrokerId(value="b1"), broker_name="broker", broker_url="tcp://b")


def wire_format(version: int, **properties: object) -> WireFormatInfo:
    """A client's offer: that of the Java client, with other values where the caller gives them."""
    offered: dict[str, object] = {
        "TightEncodingEnabled": True,
        "CacheEnabled": True,
        "CacheSize": 1024,
        "StackTraceEnabled": True,
        "MaxInactivityDuration": Long(30_000),
        "MaxInactivityDurationInitalDelay": Long(10_000),
        "MaxFrameSize": Long((1 << 63) - 1),
        "ProviderName": "ActiveMQ",
        "ProviderVersion": "5.17.2",
    }
    return WireFormatInfo(version=version, marshalled_properties=write_map(offered | properties))


def text_message(number: int, *, command_id: int = 10, answered: bool = False, **fields: Any) -> ActiveMQTextMessage:
    """A message of the one producer."""
    given: dict[str, Any] = {"destination": QUEUE, "content": b"\0\0\0\2hi"}
    return ActiveMQTextMessage(
        command_id=command_id,
        response_required=answered,
        producer_id=PRODUCER,
        message_id=MessageId(producer_id=PRODUCER, producer_sequence_id=number),
        **(given | fields),
    )


def message_ack(number: int, sequence: int, *, kind: int = 2, **fields: Any) -> MessageAck:
    """A standard acknowledgement of one message to the one consumer."""
    named = MessageId(producer_id=PRODUCER, producer_sequence_id=number, broker_sequence_id=sequence)
    given: dict[str, Any] = {
        "destination": QUEUE,
        "consumer_id": CONSUMER,
        "ack_type": kind,
        "first_message_id": named,
        "last_message_id": named,
        "message_count": 1,
    }
    return MessageAck(**(given | fields))


def frames(data: bytes) -> Iterable[bytes]:
    """Frames without their sizes, of octets that end with one."""
    offset = 0
    while offset < len(data):
        (size,) = unpack_from(">i", data, offset)
        body = data[offset + 4 : offset + 4 + size]
        assert len(body) == size, "the server wrote a part of a frame"
        yield body
        offset += 4 + size


class Recorder(OpenWireHandler):
    """Keeps what it is told; logs in every client and answers everything at once unless told otherwise."""

    def __init__(self) -> None:
        self.calls: list[tuple[Any, ...]] = []
        self.engine: OpenWireConnection
        self.accepts = True
        self.answers = True
        self.wakes = 0

    def wake(self) -> None:
        self.wakes += 1

    def on_negotiated(self, agreement: Agreement) -> None:
        self.calls.append(("negotiated", agreement))

    def on_connection_info(self, info: ConnectionInfo) -> None:
        self.calls.append(("login", info))
        if self.accepts:
            self.engine.accept()

    def on_command(self, command: BaseCommand, answer_id: int) -> None:
        self.calls.append(("command", command))
        if self.answers:
            self.engine.respond(answer_id)

    def on_step(self, key: bytes, step: int, answer_id: int) -> None:
        self.calls.append(("step", key, step))
        if self.answers:
            self.engine.respond(answer_id)

    def on_message(self, message: MessageFields) -> None:
        record = read_frame(message.body, message.version)
        self.calls.append(("message", record, message.header(7), message.body))
        if self.answers:
            self.engine.respond(message.answer_id)

    def on_ack(self, ack: AckFields) -> None:
        self.calls.append(("ack", read_frame(ack.body, ack.version)))
        if self.answers:
            self.engine.respond(ack.answer_id)

    def on_shutdown(self) -> None:
        self.calls.append(("shutdown",))

    def on_failed(self, text: str) -> None:
        self.calls.append(("failed", text))

    def on_writable(self) -> None:
        self.calls.append(("writable",))


class Conversation:
    """A client, and the engine that it talks to."""

    def __init__(
        self, version: int = 12, limits: ConnectionLimits | None = None, handler: Recorder | None = None
    ) -> None:
        self.version = version
        self.handler = handler or Recorder()
        self.engine = OpenWireConnection(self.handler, BROKER, limits or ConnectionLimits())
        self.handler.engine = self.engine
        self.now = 0.0

    @property
    def calls(self) -> list[tuple[Any, ...]]:
        """What the handler was told."""
        return self.handler.calls

    def send(self, *commands: Structure) -> None:
        """Let the engine read commands, all at once."""
        self.engine.receive_data(b"".join([write_frame(command, self.version) for command in commands]), self.now)

    def received(self) -> list[Any]:
        """What the engine wrote since."""
        return [read_frame(body, self.version) for body in frames(self.engine.data_to_send())]

    def negotiate(self, **properties: object) -> "Conversation":
        """Send the client's offer, and take ours."""
        self.send(wire_format(self.version, **properties))
        self.received()
        return self

    def log_in(self, **properties: object) -> "Conversation":
        """Do everything up to the answer to ConnectionInfo, and forget it."""
        self.negotiate(**properties)
        self.send(ConnectionInfo(command_id=1, response_required=True, connection_id=CONNECTION, client_id="c"))
        self.received()
        self.calls.clear()
        return self
