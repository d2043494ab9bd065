"""Frames that the genuine client wrote are read as it meant them, and written octet by octet as it wrote them.

`vectors.jsonl` holds frames of the client library of ActiveMQ 5.17.2 in loose encoding, one a line, with the fields it
was given: every command of the list, in versions 1, 6, 9, 10 and 12.
"""

import json
from pathlib import Path
from typing import Any, Final

import pytest

from artemis_amqp.messages.conversion import to_view
from artemis_amqp.messages.encoding import encoded
from artemis_mqtt.broker.format import converted
from artemis_openwire.engine.ack_fields import AckFields
from artemis_openwire.engine.bodies import read_body
from artemis_openwire.engine.codec import TYPES, fields_of, read_frame, write_frame, write_nested
from artemis_openwire.engine.commands import Message, MessageAck
from artemis_openwire.engine.message_fields import MessageFields
from artemis_openwire.engine.structure import Structure, Throwable
from artemis_openwire.engine.values import Byte, Char, Float, Long, Short, read_map, write_map, write_values
from artemis_openwire.messages.arrival import message_of
from artemis_openwire.messages.delivery import delivery_of
from artemis_py.core.names.syntax import WildcardSyntax

VECTORS: Final = [
    json.loads(line) for line in Path(__file__).with_name("vectors.jsonl").read_text(encoding="ascii").splitlines()
]
MESSAGES: Final = [vector for vector in VECTORS if vector["name"].startswith("ActiveMQ")]
ACKS: Final = [vector for vector in VECTORS if vector["name"].startswith("MessageAck")]
MISSPELT: Final = {"recievedByDFBridge": "receivedByDFBridge"}
VALUES: Final[dict[int, Any]] = {
    2: Byte,
    3: lambda unit: Char(chr(unit)),
    4: Short,
    6: Long,
    8: Float,
    10: bytes.fromhex,
}


def name_of(vector: Any) -> str:
    """The name of a test."""
    return f"{vector['name']}-v{vector['version']}"


def as_told(value: object, version: int) -> object:
    """A record in the form that the vectors have."""
    if isinstance(value, Structure):
        told = {wire.name: as_told(getattr(value, name), version) for name, wire, _ in fields_of(type(value), version)}
        return {"@type": type(value).__name__} | told
    if isinstance(value, Throwable):
        return {"class": value.class_name, "message": value.message}
    if isinstance(value, tuple):
        return [as_told(element, version) for element in value]
    return value.hex() if isinstance(value, bytes) else value


def expected(value: Any) -> Any:
    """The fields of a vector, without the misspelling of its origin."""
    if isinstance(value, dict):
        return {MISSPELT.get(key, key): expected(element) for key, element in value.items()}
    return [expected(element) for element in value] if isinstance(value, list) else value


@pytest.mark.parametrize("vector", VECTORS, ids=name_of)
def test_a_frame_is_read_and_written_as_the_client_meant_it(vector: Any) -> None:
    """Both directions, all fields."""
    frame = bytes.fromhex(vector["hex"])
    version = vector["version"]

    command = read_frame(frame[4:], version)

    assert as_told(command, version) == expected(vector["fields"])
    assert write_frame(command, version) == frame


def test_every_command_that_may_be_sent_has_a_vector() -> None:
    """A type without one would be tested against ourselves only. Structures are inside of commands."""
    seen = {vector["fields"]["@type"] for vector in VECTORS}

    assert {found.__name__ for code, found in TYPES.items() if code < 100} - seen == {"NetworkBridgeFilter"}


@pytest.mark.parametrize("vector", MESSAGES, ids=name_of)
def test_the_offsets_of_a_message_lead_to_its_fields(vector: Any) -> None:
    """What is read from octets is what the record has."""
    body = bytes.fromhex(vector["hex"])[4:]
    version = vector["version"]
    record = read_frame(body, version)
    assert isinstance(record, Message)
    assert record.message_id is not None
    fields = MessageFields()
    fields.read(body, version)

    assert fields.code == record.code
    assert fields.answer_id == record.command_id
    assert fields.producer_key == write_nested(record.producer_id, version)
    assert fields.destination == record.destination
    assert fields.transaction == record.transaction_id
    assert fields.transaction_key == (write_nested(record.transaction_id, version) if record.transaction_id else b"")
    assert fields.original_destination == record.original_destination
    assert fields.message_id == record.message_id
    assert fields.producer_number == record.message_id.producer_sequence_id
    number = record.message_id.producer_sequence_id.to_bytes(8, signed=True)
    assert fields.message_key == write_nested(record.message_id.producer_id, version) + number
    assert fields.group_id == record.group_id
    assert fields.group_sequence == record.group_sequence
    assert fields.correlation_id == record.correlation_id
    assert fields.persistent == record.persistent
    assert fields.expiration_ms == record.expiration
    assert fields.priority == record.priority
    assert fields.reply_to == record.reply_to
    assert fields.timestamp_ms == record.timestamp
    assert fields.jms_type == record.type
    assert fields.content == record.content
    assert fields.marshalled_properties == record.marshalled_properties
    assert fields.data_structure == record.data_structure
    assert fields.compressed == record.compressed
    assert fields.redelivery_counter == record.redelivery_counter
    assert fields.user_id == record.user_id
    assert fields.window_size == 1024 + len(record.content or b"") + len(record.marshalled_properties or b"")


@pytest.mark.parametrize("vector", ACKS, ids=name_of)
def test_the_offsets_of_an_acknowledgement_lead_to_its_fields(vector: Any) -> None:
    """What is read from octets is what the record has."""
    body = bytes.fromhex(vector["hex"])[4:]
    version = vector["version"]
    record = read_frame(body, version)
    assert isinstance(record, MessageAck)
    fields = AckFields()
    fields.read(body, version)
    first, last = record.first_message_id, record.last_message_id

    assert fields.type == record.ack_type
    assert fields.destination == record.destination
    assert fields.transaction == record.transaction_id
    assert fields.transaction_key == (write_nested(record.transaction_id, version) if record.transaction_id else b"")
    assert fields.consumer_key == write_nested(record.consumer_id, version)
    assert fields.count == record.message_count
    assert fields.poison_cause == record.poison_cause
    assert fields.has_first == (first is not None)
    assert fields.first_sequence == (-1 if first is None else first.broker_sequence_id)
    assert fields.last_sequence == (-1 if last is None else last.broker_sequence_id)
    for found, named in ((fields.first_key, first), (fields.last_key, last)):
        number = b"" if named is None else named.producer_sequence_id.to_bytes(8, signed=True)
        assert found == (b"" if named is None else write_nested(named.producer_id, version) + number)


def value_of(told: Any) -> object:
    """A value that a vector tells with its type."""
    code, value = told
    if code == 11:
        return {key: value_of(inner) for key, inner in value}
    if code == 12:
        return [value_of(inner) for inner in value]
    return VALUES[code](value) if code in VALUES and value is not None else value


def typed(value: object) -> object:
    """A value together with its type, which equality does not see."""
    if isinstance(value, dict):
        return {key: typed(inner) for key, inner in value.items()}
    return [typed(inner) for inner in value] if isinstance(value, list) else (type(value), value)


@pytest.mark.parametrize("vector", [v for v in MESSAGES if "properties" in v], ids=name_of)
def test_properties_keep_their_types(vector: Any) -> None:
    """Read, and written again."""
    fields = MessageFields()
    fields.read(bytes.fromhex(vector["hex"])[4:], vector["version"])
    told = {key: value_of(value) for key, value in vector["properties"]}

    assert typed(fields.properties) == typed(told)
    assert write_map(fields.properties) == fields.marshalled_properties


@pytest.mark.parametrize("vector", [v for v in VECTORS if v["name"].startswith("WireF")], ids=name_of)
def test_the_offer_of_a_client_is_read(vector: Any) -> None:
    """The properties of WireFormatInfo."""
    raw = bytes.fromhex(vector["fields"]["marshalledProperties"])

    assert typed(read_map(raw)) == typed({key: value_of(value) for key, value in vector["properties"]})


@pytest.mark.parametrize("vector", MESSAGES, ids=name_of)
def test_bodies_are_decoded(vector: Any) -> None:
    """All kinds, compressed and not."""
    fields = MessageFields()
    fields.read(bytes.fromhex(vector["hex"])[4:], vector["version"])

    body = read_body(fields.code, fields.content, fields.compressed, 100_000)

    if "map" in vector:
        told: object = {key: value_of(value) for key, value in vector["map"]}
        assert typed(body) == typed(told)
        assert fields.compressed or not body or write_map(body) == fields.content  # type: ignore[arg-type]
    elif "stream" in vector:
        assert typed(body) == typed([value_of(value) for value in vector["stream"]])
        assert write_values(body) == fields.content  # type: ignore[arg-type]
    elif "bytes" in vector:
        assert body == bytes.fromhex(vector["bytes"])
    elif "text" in vector:
        assert body == vector["text"]
    else:
        assert body == fields.content


@pytest.mark.parametrize("vector", MESSAGES, ids=name_of)
def test_messages_of_the_client_can_be_converted(vector: Any) -> None:
    """And those that are not converted stay octet by octet as they came."""
    fields = MessageFields()
    fields.read(bytes.fromhex(vector["hex"])[4:], vector["version"])
    message = message_of(fields, 1000, "client")

    view = message.view
    _, bare = encoded(message)
    converted(message, WildcardSyntax())

    assert delivery_of(message, "ID:run") == (message.annotations, message.data)
    assert to_view(b"", bare).body == view.body
    for name in view.properties:
        assert message.lookup(name) == view.properties[name]
    assert message.lookup("JMSMessageID") == view.message_id
