"""Messages of OpenWire for clients of AMQP and MQTT, and theirs for clients of OpenWire."""

from typing import Any
from uuid import UUID

import proton
import pytest

from artemis_amqp.engine.codec import encode_value
from artemis_amqp.engine.types import (
    Array,
    Byte,
    Char,
    Described,
    Float32,
    Int,
    Short,
    Symbol,
    Timestamp,
    UByte,
    UInt,
    ULong,
    UShort,
)
from artemis_amqp.messages.arrival import split_sections
from artemis_amqp.messages.delivery import annotations_bytes, header_bytes
from artemis_amqp.messages.encoding import encoded
from artemis_amqp.messages.format import AMQP_FORMAT
from artemis_mqtt.broker.format import MqttFormat, converted
from artemis_mqtt.engine.packets import PacketType
from artemis_mqtt.engine.properties import Properties, read_properties, write_properties
from artemis_openwire.engine import values
from artemis_openwire.engine.bodies import read_body, write_text
from artemis_openwire.engine.commands import (
    ActiveMQBytesMessage,
    ActiveMQMapMessage,
    ActiveMQMessage,
    ActiveMQObjectMessage,
    ActiveMQStreamMessage,
    ActiveMQTextMessage,
)
from artemis_openwire.engine.commands import Message as Command
from artemis_openwire.engine.structures import ActiveMQQueue, ActiveMQTempTopic, ActiveMQTopic
from artemis_openwire.engine.values import write_map, write_values
from artemis_py.core.messages.message import Message
from artemis_py.core.names.syntax import WildcardSyntax
from artemis_py.errors import ProtocolError
from tests.openwire_messages import arrived, delivered, properties, text_id

SYNTAX = WildcardSyntax()
AN_UUID = UUID("00112233-4455-6677-8899-aabbccddeeff")
OBJECT = b"\xac\xed\x00\x05t\x00\x01a"


# --- from OpenWire to AMQP ---


def at_proton(message: Message) -> proton.Message:
    """The message as a client of AMQP reads it."""
    annotations, bare = encoded(message)
    received = proton.Message()
    received.decode(header_bytes(True, 4, -1, True, 0) + annotations_bytes(annotations, 1, None) + bare)
    return received


def octets(value: object) -> object:
    """A value in which octets are bytes, as Proton has them in several forms."""
    return bytes(value) if isinstance(value, memoryview) else value


def annotation(message: proton.Message, name: str) -> Any:
    """An annotation; None if there is none."""
    return message.annotations.get(proton.symbol(name))


@pytest.mark.parametrize(
    ("kind", "content", "body", "number"),
    [
        (ActiveMQMessage, None, None, 0),
        (ActiveMQMapMessage, write_map({"a": 1, "b": {"c": [True]}}), {"a": 1, "b": {"c": [True]}}, 2),
        (ActiveMQMapMessage, None, {}, 2),
        (ActiveMQBytesMessage, b"\0\1", b"\0\1", 3),
        (ActiveMQBytesMessage, None, b"", 3),
        (ActiveMQStreamMessage, write_values([1, "a", b"\0"]), [1, "a", b"\0"], 4),
        (ActiveMQTextMessage, write_text("hällo 😀"), "hällo 😀", 5),
        (ActiveMQTextMessage, None, None, 5),
        (ActiveMQObjectMessage, OBJECT, OBJECT, 1),
    ],
)
def test_amqp_bodies(kind: type[Command], content: bytes | None, body: object, number: int) -> None:
    """amqp10 §17: octets are a data section, everything else an amqp-value; the annotation is a byte."""
    received = at_proton(arrived(kind, content=content))

    assert received.body == body
    assert received.inferred is isinstance(body, bytes)
    found = annotation(received, "x-opt-jms-msg-type")
    assert (type(found), found) == (proton.byte, number)
    is_object = kind is ActiveMQObjectMessage
    # Proton reads a missing one as 'None'.
    assert str(received.content_type) == ("application/x-java-serialized-object" if is_object else "None")


def test_amqp_fields() -> None:
    """artemis-model §4.1.6."""
    received = at_proton(
        arrived(
            destination=ActiveMQTopic(physical_name="orders"),
            reply_to=ActiveMQTempTopic(physical_name="ID:h:1"),
            correlation_id="c",
            type="t",
            group_id="g",
            group_sequence=-1,
            timestamp=12_000,
            user_id="user",
            properties={"a": 1, "JMS_AMQP_ContentEncoding": "gzip", "JMS_AMQP_MA_x-opt-a": 7},
        )
    )

    assert (received.id, received.correlation_id, received.subject) == ("ID:host-1-2:1:1:1:5", "c", "t")
    assert (received.address, received.reply_to, received.user_id) == ("orders", "ID:h:1", b"user")
    assert (received.group_id, received.group_sequence, received.creation_time) == ("g", 2**32 - 1, 12.0)
    assert received.content_encoding == "gzip"
    for name, number in (("x-opt-jms-dest", 1), ("x-opt-jms-reply-to", 3)):
        assert (type(annotation(received, name)), annotation(received, name)) == (proton.byte, number)
    assert annotation(received, "x-opt-a") == 7
    assert received.properties == {"a": 1}


@pytest.mark.parametrize(
    ("value", "expected", "kind"),
    [
        (None, None, type(None)),
        (True, True, bool),
        (values.Byte(-1), -1, proton.byte),
        (values.Short(-300), -300, proton.short),
        (5, 5, proton.int32),
        (values.Long(5), 5, int),
        (values.Float(0.5), 0.5, proton.float32),
        (1.5, 1.5, float),
        (values.Char("ä"), "ä", str),
        ("text", "text", str),
        (b"\xff", b"\xff", bytes),
    ],
)
def test_amqp_types(value: object, expected: object, kind: type) -> None:
    """A JMS client of AMQP reads with `getInt` what one of OpenWire wrote with `setInt`."""
    received = at_proton(arrived(ActiveMQMapMessage, properties={"p": value}, content=write_map({"b": [value]})))

    assert isinstance(received.body, dict)
    for found in (received.properties["p"], received.body["b"][0]):
        assert found == expected
        assert isinstance(octets(found), kind)


def test_amqp_has_no_maps_in_properties() -> None:
    """Only these are lost (AMQP 1.0 §3.2.5)."""
    assert at_proton(arrived(properties={"map": {"a": 1}, "list": [1], "b": 2})).properties == {"b": 2}


@pytest.mark.parametrize("id", ["a", "ID:a", AN_UUID, proton.ulong(42), b"\x0a"])
def test_amqp_correlation(id: object) -> None:
    """A requester of AMQP finds its own id in the answer of a client of OpenWire."""
    request = proton.Message(id=id, body="text")

    question = delivered(from_proton(request))
    answer = at_proton(arrived(correlation_id=text_id(question)))

    assert answer.correlation_id == id
    assert isinstance(octets(answer.correlation_id), int if isinstance(id, proton.ulong) else type(id))


@pytest.mark.parametrize(
    ("kind", "content"), [(ActiveMQTextMessage, b"\0\0\0\5hi"), (ActiveMQMapMessage, b"\0\0\0\1\0")]
)
def test_damaged_bodies_are_refused(kind: type[Command], content: bytes) -> None:
    """By both protocols, which then make dead letters of them."""
    message = arrived(kind, content=content)

    with pytest.raises(ProtocolError):
        encoded(message)
    with pytest.raises(ProtocolError):
        converted(message, SYNTAX)


def test_amqp_nesting() -> None:
    """What AMQP's limit does not allow cannot be delivered to its clients, and hurts nobody else."""
    value: object = 1
    for _ in range(31):
        value = [value]
    message = arrived(ActiveMQMapMessage, content=write_map({"a": value}), properties={"JMS_AMQP_MA_x-opt-a": value})

    with pytest.raises(ProtocolError, match="no form in AMQP"):
        encoded(deeper(message))


def deeper(message: Message) -> Message:
    """The same message with a body that is one level deeper."""
    message.view.body = {"a": message.view.body}
    return message


# --- from AMQP to OpenWire ---


def from_amqp(payload: bytes, **fields: Any) -> Message:
    """A message that a client of AMQP has sent to `orders`."""
    sections = split_sections(payload)
    message = Message(AMQP_FORMAT, "orders", sections.bare, sections.annotations_raw, **fields)
    message.id = 9
    return message


def from_proton(message: proton.Message) -> Message:
    """A message as a client of AMQP writes it."""
    return from_amqp(bytes(message.encode()))


def test_openwire_fields_of_amqp() -> None:
    """artemis-model §4.1.6."""
    sent = proton.Message(
        id="ID:1",
        address="elsewhere",
        subject="type",
        reply_to="answers",
        correlation_id="c",
        user_id=b"user",
        content_type=proton.symbol("a/b"),
        content_encoding=proton.symbol("gzip"),
        creation_time=12.0,
        group_id="g",
        group_sequence=3,
        reply_to_group_id="rg",
        properties={"a": "x"},
        annotations={
            proton.symbol("x-opt-jms-reply-to"): proton.byte(1),
            proton.symbol("x-opt-jms-dest"): proton.byte(0),
            proton.symbol("x-opt-a"): "note",
        },
        body="text",
    )

    received = delivered(from_proton(sent))

    assert isinstance(received, ActiveMQTextMessage)
    assert text_id(received) == "ID:1"
    assert (received.type, received.correlation_id, received.user_id) == ("type", "c", "user")
    assert (received.group_id, received.group_sequence, received.timestamp) == ("g", 3, 12_000)
    assert received.reply_to == ActiveMQTopic(physical_name="answers")
    assert received.destination == ActiveMQQueue(physical_name="orders")
    assert properties(received) == {
        "a": "x",
        "JMS_AMQP_ContentType": "a/b",
        "JMS_AMQP_ContentEncoding": "gzip",
        "JMS_AMQP_REPLYTO_GROUP_ID": "rg",
        "JMS_AMQP_MA_x-opt-a": "note",
    }


@pytest.mark.parametrize(
    ("value", "expected", "kind"),
    [
        (UByte(255), 255, values.Short),
        (UShort(65535), 65535, int),
        (UInt(2**32 - 1), 2**32 - 1, values.Long),
        (ULong(2**63), str(2**63), str),
        (Byte(-1), -1, values.Byte),
        (Short(-1), -1, values.Short),
        (Int(-1), -1, int),
        (5, 5, int),
        (2**40, 2**40, values.Long),
        (Float32(0.5), 0.5, values.Float),
        (0.1, 0.1, float),
        (Timestamp(5), 5, int),
        (Char("ä"), "ä", str),
        (Symbol("s"), "s", str),
        (AN_UUID, str(AN_UUID), str),
        (b"\xff", b"\xff", bytes),
        (True, True, bool),
        (None, None, type(None)),
    ],
)
def test_openwire_types_of_amqp(value: object, expected: object, kind: type) -> None:
    """openwire §9.4: unsigned numbers get the next type that has room, or become text."""
    payload = b"\x00\x53\x74" + encode_value({"p": value}) + b"\x00\x53\x77" + encode_value({"b": [value]})

    received = delivered(from_amqp(payload))

    body = read_body(received.code, received.content, False, 1000)
    assert isinstance(body, dict)
    for found in (properties(received)["p"], body["b"][0]):
        assert found == expected
        assert type(found) is kind


@pytest.mark.parametrize(
    ("sections", "kind", "expected"),
    [
        (b"\x00\x53\x77" + encode_value("text"), ActiveMQTextMessage, "text"),
        (b"\x00\x53\x77" + encode_value(b"\xff"), ActiveMQBytesMessage, b"\xff"),
        (b"\x00\x53\x77" + encode_value(None), ActiveMQMessage, None),
        (b"\x00\x53\x77" + encode_value({"a": 1, Symbol("b"): "x"}), ActiveMQMapMessage, {"a": 1, "b": "x"}),
        (b"\x00\x53\x77" + encode_value({AN_UUID: 1, True: 2}), ActiveMQMapMessage, {str(AN_UUID): 1, "true": 2}),
        (b"\x00\x53\x77" + encode_value([1, "a"]), ActiveMQStreamMessage, [1, "a"]),
        (b"\x00\x53\x77" + encode_value(Array(0x71, [Int(1), Int(2)])), ActiveMQStreamMessage, [1, 2]),
        (b"\x00\x53\x77" + encode_value(Described(ULong(5), "x")), ActiveMQTextMessage, "x"),
        (b"\x00\x53\x77" + encode_value(ULong(5)), ActiveMQTextMessage, "5"),
        (b"\x00\x53\x77" + encode_value(True), ActiveMQTextMessage, "true"),
        (b"\x00\x53\x76" + encode_value([1]) + b"\x00\x53\x76" + encode_value(["a"]), ActiveMQStreamMessage, [1, "a"]),
        (b"\x00\x53\x75" + encode_value(b"\0") + b"\x00\x53\x75" + encode_value(b"\1"), ActiveMQBytesMessage, b"\0\1"),
        (b"\x00\x53\x75" + encode_value(b""), ActiveMQBytesMessage, b""),
    ],
)
def test_openwire_bodies_of_amqp(sections: bytes, kind: type[Command], expected: object) -> None:
    """artemis-model §4.1.6."""
    received = delivered(from_amqp(sections))

    assert type(received) is kind
    assert read_body(received.code, received.content, False, 1000) == expected


# --- MQTT ---


def at_mqtt(message: Message) -> tuple[bytes, Properties]:
    """The payload and the properties that a client of MQTT gets."""
    annotations, payload = converted(message, SYNTAX)
    return payload, read_properties(annotations, 1, len(annotations), PacketType.PUBLISH)


@pytest.mark.parametrize(
    ("kind", "content", "payload", "is_text", "content_type"),
    [
        (ActiveMQMessage, None, b"", None, None),
        (ActiveMQTextMessage, write_text("hällo 😀"), "hällo 😀".encode(), 1, None),
        (ActiveMQTextMessage, None, b"", None, None),
        (ActiveMQBytesMessage, b"\0\xff", b"\0\xff", None, None),
        (ActiveMQMapMessage, write_map({"a": [1, "ä"]}), '{"a": [1, "ä"]}'.encode(), 1, "application/json"),
        (ActiveMQStreamMessage, write_values([1, b"\xff"]), b'[1, "ff"]', 1, "application/json"),
        (ActiveMQObjectMessage, OBJECT, OBJECT, None, "application/x-java-serialized-object"),
    ],
)
def test_mqtt_payloads(
    kind: type[Command], content: bytes | None, payload: bytes, is_text: int | None, content_type: str | None
) -> None:
    """artemis-model §4.2.5: text is UTF-8, octets stay octets."""
    found, fields = at_mqtt(arrived(kind, content=content))

    assert found == payload
    assert (fields.payload_format_indicator, fields.content_type) == (is_text, content_type)


def test_mqtt_fields() -> None:
    """All properties are texts there."""
    _, fields = at_mqtt(
        arrived(
            reply_to=ActiveMQQueue(physical_name="a.b"),
            correlation_id="ID:AMQP_BINARY:00FF",
            group_id="g",
            group_sequence=-1,
            properties={"int": 5, "yes": True, "text": "ä", "map": {"a": [1, b"\xff"]}, "list": [1], "b": b"\xff"},
        )
    )

    assert (fields.response_topic, fields.correlation_data) == ("a/b", b"\0\xff")
    assert dict(fields.user_properties) == {
        "int": "5",
        "yes": "true",
        "text": "ä",
        "map": '{"a": [1, "ff"]}',
        "list": "[1]",
        "b": "ff",
        "JMSXGroupID": "g",
        "JMSXGroupSeq": "-1",
    }


def from_mqtt(payload: bytes, **fields: Any) -> Message:
    """A message that a client of MQTT has published on `orders`."""
    message = Message(MqttFormat(SYNTAX), "orders", payload, b"\1" + write_properties(Properties(**fields)))
    message.routing_type = 0
    message.id = 9
    return message


@pytest.mark.parametrize(
    ("payload", "fields", "kind", "expected"),
    [
        (b"text", {}, ActiveMQBytesMessage, b"text"),
        ("ä".encode(), {"payload_format_indicator": 1}, ActiveMQTextMessage, "ä"),
        (b"\xff", {"payload_format_indicator": 1}, ActiveMQBytesMessage, b"\xff"),
        (b"{}", {"content_type": "application/json"}, ActiveMQTextMessage, "{}"),
        (b"", {}, ActiveMQBytesMessage, b""),
    ],
)
def test_openwire_bodies_of_mqtt(payload: bytes, fields: dict[str, Any], kind: type[Command], expected: object) -> None:
    """Octets, unless the message says that it is text."""
    received = delivered(from_mqtt(payload, **fields))

    assert type(received) is kind
    assert read_body(received.code, received.content, False, 1000) == expected


def test_openwire_fields_of_mqtt() -> None:
    """User properties are properties, and both topics are topics."""
    received = delivered(
        from_mqtt(
            b"m",
            response_topic="a/b",
            correlation_data=b"\0\xff",
            content_type="a/b",
            user_properties=(("k", "1"), ("k", "2"), ("JMSXGroupID", "g"), ("JMSXGroupSeq", "4")),
        )
    )

    assert received.destination == ActiveMQTopic(physical_name="orders")
    assert received.reply_to == ActiveMQTopic(physical_name="a.b")
    assert received.correlation_id == "ID:AMQP_BINARY:00FF"
    assert (received.group_id, received.group_sequence) == ("g", 4)
    found = properties(received)
    assert (found["k"], found["JMS_AMQP_ContentType"]) == ("1", "a/b")
