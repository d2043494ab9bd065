"""Commands that are not what they should be: each ends its connection with a text that says why."""

import json
from pathlib import Path
from struct import pack
from typing import Any, Final

import pytest

from artemis_openwire.engine.ack_fields import AckFields
from artemis_openwire.engine.codec import read_frame, write_frame, write_nested
from artemis_openwire.engine.commands import ActiveMQBlobMessage, ConsumerInfo, RemoveInfo
from artemis_openwire.engine.message_fields import MessageFields
from artemis_openwire.engine.structures import (
    ActiveMQQueue,
    BrokerId,
    ConnectionId,
    ConsumerId,
    LocalTransactionId,
    MessageId,
    SessionId,
    XATransactionId,
)
from artemis_openwire.engine.values import write_map
from artemis_py.errors import MalformedFrame
from tests.openwire_harness import CONSUMER, PRODUCER, QUEUE, Conversation, Recorder, message_ack, text_message

VECTORS: Final = [
    json.loads(line) for line in Path(__file__).with_name("vectors.jsonl").read_text(encoding="ascii").splitlines()
]
TRANSACTION: Final = LocalTransactionId(value=3, connection_id=ConnectionId(value="c"))
XA: Final = XATransactionId(format_id=1, global_transaction_id=b"gggg", branch_qualifier=b"b")


@pytest.mark.parametrize("vector", VECTORS[::3], ids=lambda vector: f"{vector['name']}-v{vector['version']}")
def test_a_command_that_is_cut_off_anywhere_is_refused(vector: Any) -> None:
    """So is one with an octet too many."""
    body = bytes.fromhex(vector["hex"])[4:]
    readers: list[Any] = [read_frame]
    if 23 <= body[0] <= 29:
        readers.append(MessageFields().read)
    elif body[0] == 22:
        readers.append(AckFields().read)

    for read in readers:
        for damaged in (body + b"\0", *(body[:size] for size in range(len(body)))):
            with pytest.raises(MalformedFrame):
                read(damaged, vector["version"])


def other_type(structure: Any, wrong: int) -> tuple[bytes, bytes]:
    """A structure as a field, and the same octets with another type in front."""
    field = write_nested(structure, 12)
    return field, field[:1] + bytes((wrong,)) + field[2:]


MESSAGE: Final = text_message(1, transaction_id=TRANSACTION, broker_path=(BrokerId(value="b"),))
ACK: Final = message_ack(1, 2, transaction_id=TRANSACTION)


@pytest.mark.parametrize(
    ("command", "right", "wrong", "reason"),
    [
        (MESSAGE, PRODUCER, 122, "a structure of type 122 in the place of type 123"),
        (MESSAGE, QUEUE, 104, "a structure of type 104 in the place of a destination"),
        (MESSAGE, TRANSACTION, 110, "a structure of type 110 in the place of a transaction"),
        (MESSAGE, TRANSACTION.connection_id, 121, "a structure of type 121 in the place of a connection"),
        (MESSAGE, MessageId(producer_id=PRODUCER, producer_sequence_id=1), 111, "in the place of a message id"),
        (MESSAGE, BrokerId(value="b"), 120, "a structure of type 120 in the place of a broker"),
        (ACK, ConsumerId(connection_id="ID:host-1-2:1", session_id=1, value=2), 123, "in the place of type 122"),
        (ACK, ACK.last_message_id, 120, "in the place of a message id"),
        (ConsumerInfo(destination=QUEUE), QUEUE, 122, "ConsumerId in the place of ActiveMQDestination"),
        (RemoveInfo(object_id=SessionId(connection_id="c")), SessionId(connection_id="c"), 13, "type 13 is not known"),
    ],
)
def test_a_structure_of_another_type_is_refused(command: Any, right: Any, wrong: int, reason: str) -> None:
    """Also where the octets would fit."""
    frame = write_frame(command, 12)
    field, damaged = other_type(right, wrong)
    assert field in frame
    client = Conversation().log_in()
    client.engine.receive_data(frame.replace(field, damaged, 1), 0.0)

    assert client.calls[-1][0] == "failed"
    assert reason in client.calls[-1][1]
    assert client.engine.closed


@pytest.mark.parametrize("size", [-1, 1 << 30])
def test_octets_that_do_not_fit_are_refused(size: int) -> None:
    """In a message, where nothing is decoded."""
    frame = write_frame(text_message(1, transaction_id=XA), 12)
    damaged = frame.replace(pack(">i", 4) + b"gggg", pack(">i", size) + b"gggg", 1)
    client = Conversation().log_in()
    client.engine.receive_data(damaged, 0.0)

    assert client.calls == [("failed", "a field is longer than its frame")]


@pytest.mark.parametrize("count", [-1, 3000])
def test_arrays_that_do_not_fit_are_refused(count: int) -> None:
    """Before anything is allocated for them."""
    frame = write_frame(ConsumerInfo(broker_path=(BrokerId(value="b"),)), 12)
    damaged = frame.replace(b"\1\0\1\1\x7c", b"\1" + pack(">h", count) + b"\1\x7c", 1)
    client = Conversation().log_in()
    client.engine.receive_data(damaged, 0.0)

    assert client.calls[-1][1].startswith(f"an array of {count} elements in")


def test_a_blob_message_of_a_version_without_them_is_refused() -> None:
    """Its type came with version 3."""
    body = write_frame(text_message(1), 2)[4:]
    blob = bytes((ActiveMQBlobMessage.code,)) + body[1:]
    with pytest.raises(MalformedFrame, match="a blob message in version 2"):
        MessageFields().read(blob, 2)


def test_a_message_without_an_id_is_refused() -> None:
    """Nobody could acknowledge it."""
    client = Conversation().log_in()
    client.send(text_message(1).__class__(producer_id=PRODUCER))

    assert client.calls == [("failed", "a message without an id")]


def test_a_name_that_is_no_text_is_refused() -> None:
    """In a command; the texts of a message are not looked at before somebody asks for them."""
    frame = write_frame(ConsumerInfo(consumer_id=CONSUMER, destination=ActiveMQQueue(physical_name="orders")), 12)
    client = Conversation().log_in()
    client.engine.receive_data(frame.replace(b"orders", b"ord\xffrs"), 0.0)

    assert client.calls == [("failed", "a text is not in modified UTF-8")]


class Reads(Recorder):
    """Looks at the properties of messages."""

    def on_message(self, message: MessageFields) -> None:
        self.calls.append(("properties", message.properties))


def test_damage_that_the_handler_finds_ends_the_connection() -> None:
    """Properties are decoded when it asks for them, and not before."""
    damaged = text_message(1, marshalled_properties=write_map({"a": 1})[:-1])
    unread, read = Conversation().log_in(), Conversation(handler=Reads()).log_in()
    unread.send(damaged)
    read.send(text_message(2, marshalled_properties=write_map({"a": 1})), damaged)

    assert [call[0] for call in unread.calls] == ["message"]
    assert read.calls == [("properties", {"a": 1}), ("failed", "a value is longer than what contains it")]


def test_one_connection_ends_and_others_do_not() -> None:
    """They share nothing."""
    broken, other = Conversation().log_in(), Conversation().log_in()
    broken.engine.receive_data(b"\0\0\0\2\x05\0", 0.0)
    other.send(text_message(1))

    assert broken.engine.closed
    assert [call[0] for call in other.calls] == ["message"]
