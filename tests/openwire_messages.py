"""Messages of OpenWire as the core keeps them, and what a client reads of a delivery."""

from typing import Any, Final

from artemis_openwire.engine.codec import read_frame, write_frame
from artemis_openwire.engine.commands import ActiveMQTextMessage
from artemis_openwire.engine.commands import Message as Command
from artemis_openwire.engine.message_fields import MessageFields
from artemis_openwire.engine.structures import ActiveMQQueue, MessageId, ProducerId
from artemis_openwire.engine.values import read_map, write_map
from artemis_openwire.messages.arrival import message_of
from artemis_openwire.messages.delivery import delivery_of
from artemis_py.core.messages.message import Message

PRODUCER: Final = ProducerId(connection_id="ID:host-1-2:1", session_id=1, value=1)
RUN: Final = "ID:run"
"""The connection of the producer that is made up for messages of other protocols."""


def command(kind: type[Command] = ActiveMQTextMessage, **fields: Any) -> Command:
    """A message as a client writes it; `properties` as a dict."""
    properties = fields.pop("properties", None)
    given: dict[str, Any] = {
        "producer_id": PRODUCER,
        "message_id": MessageId(producer_id=PRODUCER, producer_sequence_id=5),
        "destination": ActiveMQQueue(physical_name="orders"),
        "priority": 4,
        "marshalled_properties": None if properties is None else write_map(properties),
    }
    return kind(**(given | fields))


def fields_of(sent: Command, version: int = 12) -> MessageFields:
    """What the engine reads of a message."""
    fields = MessageFields()
    fields.read(write_frame(sent, version)[4:], version)
    return fields


def arrived(
    kind: type[Command] = ActiveMQTextMessage, *, version: int = 12, arrived_ms: int = 1000, **fields: Any
) -> Message:
    """A message that a client has sent to `orders`."""
    message = message_of(fields_of(command(kind, **fields), version), arrived_ms, "client")
    message.address = "orders"
    message.id = 77
    return message


def delivered(message: Message, version: int = 12) -> Any:
    """The message as a client of OpenWire gets it, apart from what a delivery itself puts in."""
    return read_frame(delivery_of(message, RUN)[1], version)


def properties(received: Command) -> dict[str, object]:
    """The properties of a message that a client gets."""
    return read_map(received.marshalled_properties)


def text_id(received: Command) -> str | None:
    """The id that a message has in the protocol it comes from."""
    assert received.message_id is not None
    return received.message_id.text_view
