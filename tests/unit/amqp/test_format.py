"""What selectors find in a message of AMQP (amqp10 §11.1, artemis-model §3.12)."""

from uuid import UUID

import pytest

from artemis_amqp.engine.codec import encode_value
from artemis_amqp.engine.performatives import Properties, encode
from artemis_amqp.engine.types import Byte, MalformedValue, Symbol, Timestamp, UInt, ULong
from artemis_amqp.messages.arrival import split_sections
from artemis_amqp.messages.format import AMQP_FORMAT
from artemis_py.core.messages.jms_ids import jms_id, native_id
from artemis_py.core.messages.message import Message

AN_UUID = UUID("00112233-4455-6677-8899-aabbccddeeff")


def _message(
    properties: Properties | None = None,
    application: dict[object, object] | None = None,
    annotations: dict[object, object] | None = None,
) -> Message:
    payload = b""
    if annotations is not None:
        payload += b"\x00\x53\x72" + encode_value(annotations)
    if properties is not None:
        payload += encode(properties)
    if application is not None:
        payload += b"\x00\x53\x74" + encode_value(application)
    sections = split_sections(payload + b"\x00\x53\x77\x40")
    return Message(AMQP_FORMAT, "address", sections.bare, sections.annotations_raw, durable=True, priority=6)


FULL = _message(
    Properties(
        message_id="ID:1",
        user_id=b"user",
        to="to",
        subject="subject",
        reply_to="reply",
        correlation_id="correlation",
        content_type="text/plain",
        content_encoding="gzip",
        absolute_expiry_time=11,
        creation_time=Timestamp(12),
        group_id="group",
        group_sequence=13,
        reply_to_group_id="reply-group",
    ),
    {"price": UInt(5), "color": Symbol("red"), "at": Timestamp(14), "null": None, "m": True, "amqp.own": 15},
    {Symbol("x-opt-a"): Byte(16), Symbol("plain"): "p"},
)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("AMQUserID", "ID:1"),
        ("JMSMessageID", "ID:1"),
        ("JMSCorrelationID", "correlation"),
        ("JMSType", "subject"),
        ("JMSReplyTo", "reply"),
        ("JMSXUserID", "user"),
        ("JMSXGroupID", "group"),
        ("AMQGroupID", "group"),
        ("JMSXGroupSeq", 13),
        ("JMSTimestamp", 12),
        ("AMQTimestamp", 12),
        ("amqp.message_id", "ID:1"),
        ("amqp.user_id", "user"),
        ("amqp.to", "to"),
        ("amqp.subject", "subject"),
        ("amqp.reply_to", "reply"),
        ("amqp.correlation_id", "correlation"),
        ("amqp.content_type", "text/plain"),
        ("amqp.content_encoding", "gzip"),
        ("amqp.absolute_expiry_time", 11),
        ("amqp.creation_time", 12),
        ("amqp.group_id", "group"),
        ("amqp.group_sequence", 13),
        ("amqp.reply_to_group_id", "reply-group"),
        ("amqp.durable", True),
        ("amqp.priority", 6),
        ("amqp.own", 15),
        ("amqp.nothing", None),
        ("m.x-opt-a", 16),
        ("m.plain", "p"),
        ("m.nothing", None),
        ("amqp.annotation.x-opt-a", 16),
        ("amqp.annotation.nothing", None),
        ("m", True),
        ("price", 5),
        ("color", "red"),
        ("at", 14),
        ("null", None),
        ("nothing", None),
        ("", None),
        ("JMSPriority", 6),
        ("JMSDeliveryMode", "PERSISTENT"),
    ],
)
def test_name_is_found(name: str, expected: object) -> None:
    """Every family of names; the message itself answers for what the broker knows."""
    value = FULL.lookup(name)

    assert value == expected
    assert type(value) is type(expected)


@pytest.mark.parametrize(
    "name",
    ["JMSMessageID", "JMSCorrelationID", "JMSType", "JMSTimestamp", "amqp.subject", "m.a", "a", "amqp.annotation.a"],
)
def test_missing_section_means_null(name: str) -> None:
    """SQL NULL, so that the selector is unknown and the message does not match."""
    assert _message().lookup(name) is None


@pytest.mark.parametrize(
    "octets", [b"\x00", b"\xff" * 10, b"\x00\x53\x73\xc0\x09", b"\x00\x53\x74\xc1\x05\x02\xa1\xff", b"\x00\x53\x10\x45"]
)
@pytest.mark.parametrize("name", ["JMSMessageID", "amqp.to", "m.\xff", "m.x", "a", "\xa1", "amqp.annotation.\x00"])
def test_damaged_message_means_null(octets: bytes, name: str) -> None:
    """A selector never fails on a message; asking for its view does."""
    message = Message(AMQP_FORMAT, "address", octets, octets)

    assert message.lookup(name) is None
    with pytest.raises(MalformedValue):
        _ = message.view


def test_text_that_is_not_utf8_means_null() -> None:
    """A user id is octets to AMQP and text to JMS."""
    assert _message(Properties(user_id=b"\xff")).lookup("JMSXUserID") is None


@pytest.mark.parametrize(
    ("value", "message_id", "correlation_id"),
    [
        ("ID:a", "ID:a", "ID:a"),
        ("a", "ID:AMQP_NO_PREFIX:a", "a"),
        ("", "ID:AMQP_NO_PREFIX:", ""),
        ("ID:AMQP_UUID:a", "ID:AMQP_STRING:ID:AMQP_UUID:a", "ID:AMQP_STRING:ID:AMQP_UUID:a"),
        ("ID:AMQP_NO_PREFIX:a", "ID:AMQP_STRING:ID:AMQP_NO_PREFIX:a", "ID:AMQP_STRING:ID:AMQP_NO_PREFIX:a"),
        (AN_UUID, f"ID:AMQP_UUID:{AN_UUID}", f"ID:AMQP_UUID:{AN_UUID}"),
        (ULong(42), "ID:AMQP_ULONG:42", "ID:AMQP_ULONG:42"),
        (b"\x0a\xff", "ID:AMQP_BINARY:0AFF", "ID:AMQP_BINARY:0AFF"),
        (None, None, None),
    ],
)
def test_ids_have_their_jms_form(value: object, message_id: str | None, correlation_id: str | None) -> None:
    """amqp10 §17: the form tells the type, so that a client gets the AMQP id back."""
    message = _message(Properties(message_id=value, correlation_id=value))

    assert message.lookup("JMSMessageID") == message_id
    assert message.lookup("JMSCorrelationID") == correlation_id
    assert jms_id(value) == message_id
    if message_id is not None and correlation_id is not None:
        assert native_id(message_id) == value
        assert native_id(correlation_id) == value


@pytest.mark.parametrize("text", ["", "a", "ID:a", "ID:AMQP_UUID:a", "ID:AMQP_BINARY:A", "ID:AMQP_ULONG:-1"])
def test_other_texts_are_ids_themselves(text: str) -> None:
    """An application may write anything into a correlation id."""
    assert native_id(text) == text


def test_amqp_names_have_the_plain_id() -> None:
    """`amqp.message_id` is the field, not its JMS form."""
    assert _message(Properties(message_id="a")).lookup("amqp.message_id") == "a"
    assert _message(Properties(message_id=ULong(5))).lookup("amqp.message_id") == 5
    assert _message(Properties(message_id=AN_UUID)).lookup("amqp.message_id") == str(AN_UUID)


def test_view_comes_from_both_parts() -> None:
    """Annotations and bare message are kept apart and seen together."""
    view = FULL.view

    assert AMQP_FORMAT.name == "amqp"
    assert view.subject == "subject"
    assert view.annotations == {"x-opt-a": 16, "plain": "p"}
    assert view.properties["price"] == 5


def test_destination_is_the_address() -> None:
    """A message of AMQP does not say of which kind its destination is."""
    assert FULL.lookup("JMSDestination") == FULL.lookup("AMQAddress") == "address"
