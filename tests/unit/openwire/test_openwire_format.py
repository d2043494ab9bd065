"""What selectors, transformers and other protocols find in a message of OpenWire."""

import zlib
from collections.abc import Callable
from random import Random
from struct import pack
from typing import Any

import pytest

from artemis_amqp.messages.encoding import encoded
from artemis_mqtt.broker.format import converted
from artemis_openwire.engine.bodies import write_text
from artemis_openwire.engine.commands import (
    ActiveMQBlobMessage,
    ActiveMQBytesMessage,
    ActiveMQMapMessage,
    ActiveMQMessage,
    ActiveMQObjectMessage,
    ActiveMQStreamMessage,
    ActiveMQTextMessage,
)
from artemis_openwire.engine.commands import Message as Command
from artemis_openwire.engine.structures import (
    ActiveMQQueue,
    ActiveMQTempQueue,
    ActiveMQTempTopic,
    ActiveMQTopic,
    LocalTransactionId,
)
from artemis_openwire.engine.values import Byte, Char, Float, Long, Short, read_map, write_map, write_values
from artemis_openwire.messages.format import OPENWIRE_FORMAT
from artemis_py.core.messages.changes import REMOVED, PropertiesFormat
from artemis_py.core.messages.draft import Draft
from artemis_py.core.messages.large_body import LOADED_BODY_LIMIT_BYTES
from artemis_py.core.messages.message import Message
from artemis_py.core.messages.widths import Binary32, Int8, Int16, Int32
from artemis_py.core.names.syntax import WildcardSyntax
from artemis_py.core.selectors.filter import parse_filter
from artemis_py.errors import MalformedFrame, ProtocolError
from tests.openwire_harness import CONNECTION
from tests.openwire_messages import arrived, delivered, text_id

OBJECT = b"\xac\xed\x00\x05t\x00\x01a"
NESTED = {"list": [1, "two", {"deep": Long(3)}], "none": None}
VALUES = {
    "null": None,
    "yes": True,
    "byte": Byte(-1),
    "char": Char("ä"),
    "short": Short(-300),
    "int": -70_000,
    "long": Long(5),
    "double": 1.5,
    "float": Float(0.25),
    "text": "ümläut\0",
    "big": "x" * 9000,
    "octets": b"\0\xff",
    "map": NESTED,
}

# --- selectors ---


FULL = arrived(
    timestamp=12,
    reply_to=ActiveMQTempQueue(physical_name="ID:h:1"),
    correlation_id="correlation",
    type="type",
    group_id="group",
    group_sequence=-1,
    user_id="user",
    priority=7,
    persistent=True,
    expiration=99,
    properties={"price": 5, "JMSXGroupID": "hidden"},
    content=b"\0\0\0\2hi",
    transaction_id=LocalTransactionId(value=3, connection_id=CONNECTION),
)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("AMQUserID", "ID:host-1-2:1:1:1:5"),
        ("JMSMessageID", "ID:host-1-2:1:1:1:5"),
        ("JMSCorrelationID", "correlation"),
        ("JMSType", "type"),
        ("JMSReplyTo", "temp-queue://ID:h:1"),
        ("JMSDestination", "queue://orders"),
        ("AMQAddress", "orders"),
        ("JMSTimestamp", 12),
        ("AMQTimestamp", 12),
        ("JMSXGroupID", "group"),
        ("AMQGroupID", "group"),
        ("JMSXGroupSeq", -1),
        ("JMSXUserID", "user"),
        ("JMSPriority", 7),
        ("JMSDeliveryMode", "PERSISTENT"),
        ("JMSExpiration", 99),
        ("__AMQ_CID", "client"),
        ("price", 5),
        ("other", None),
        ("", None),
    ],
)
def test_selectors_find_fields(name: str, expected: object) -> None:
    """openwire §9.1."""
    assert FULL.lookup(name) == expected


@pytest.mark.parametrize(
    "name",
    ["JMSCorrelationID", "JMSType", "JMSReplyTo", "JMSXGroupID", "AMQGroupID", "JMSXGroupSeq", "JMSXUserID", "x"],
)
@pytest.mark.parametrize("version", range(1, 13))
def test_fields_that_are_not_set(name: str, version: int) -> None:
    """They are unknown, for every version."""
    assert arrived(version=version).lookup(name) is None


def test_group_may_be_a_property() -> None:
    """Clients that are not written in Java set it so."""
    message = arrived(properties={"JMSXGroupID": "g", "JMSXGroupSeq": 3})

    assert message.lookup("JMSXGroupID") == message.lookup("AMQGroupID") == "g"
    assert message.lookup("JMSXGroupSeq") == 3
    assert (message.view.group_id, message.view.group_sequence, message.view.properties) == ("g", 3, {})


def test_destination_is_the_original_one() -> None:
    """openwire §9.1: what a broker has sent elsewhere is selected by where it was sent."""
    message = arrived(original_destination=ActiveMQTopic(physical_name="news"))

    assert message.lookup("JMSDestination") == "topic://news"


@pytest.mark.parametrize("name", VALUES)
@pytest.mark.parametrize("version", [1, 3, 12])
def test_property_of_each_type(name: str, version: int) -> None:
    """Found among the others, without the class of its type."""
    message = arrived(version=version, properties=VALUES, reply_to=ActiveMQQueue(physical_name="r"), content=b"abc")

    found = message.lookup(name)

    assert found == VALUES[name]
    assert type(found) in (type(None), bool, int, float, str, bytes, dict)


def test_last_of_equal_names_counts() -> None:
    """As when the map is decoded."""
    twice = b"\0\0\0\2" + 2 * b"\0\1a\x05\0\0\0\1"
    twice = twice[:-1] + b"\2"
    message = arrived(marshalled_properties=twice)

    assert message.lookup("a") == message.view.properties["a"] == 2


@pytest.mark.parametrize(
    "properties",
    [
        write_map(VALUES)[:-1],
        b"\0\0\0\2\0\1a\x05\0\0\0\1",
        b"\0\0\0\1\0\1b\x63",
        b"\0\0\0\1\0\xffb\5",
        b"\0\0\0\1\0\1b\x0a\xff\xff\xff\xff",
        b"\0\0\0\1\0\1b\x0d\x7f\xff\xff\xff",
        b"\0\0\0\1\0\1b\x0b\x7f\xff\xff\xff",
        b"\x7f\xff\xff\xff",
        b"\0\0",
        # A length that leads back to where the entry begins, many times.
        b"\x7f\xff\xff\xff\0\1b\x0a\xff\xff\xff\xf8",
    ],
)
def test_damaged_properties_are_unknown(properties: bytes) -> None:
    """A selector does not match; whoever has to convert the message is told."""
    message = arrived(marshalled_properties=properties)

    assert message.lookup("b") is None
    assert message.lookup("JMSType") is None
    with pytest.raises(ProtocolError):
        _ = message.view


def test_no_properties() -> None:
    """Null, nothing, and a map that is null."""
    for octets in (None, b"", b"\xff\xff\xff\xff", b"\0\0\0\0"):
        message = arrived(marshalled_properties=octets)
        assert message.lookup("a") is None
        assert message.view.properties == {}


def test_selectors_do_not_look_into_bodies() -> None:
    """A body that is damaged, or that would be large without its compression, costs nothing."""
    message = arrived(content=b"\xff", compressed=True, properties={"a": 1})

    assert parse_filter("a = 1 AND JMSType IS NULL AND JMSDestination = 'queue://orders'").matches(message)


# --- the view ---


def test_view_has_all_fields() -> None:
    """For other protocols."""
    view = FULL.view

    assert view.message_id == "ID:host-1-2:1:1:1:5"
    assert (view.correlation_id, view.user_id, view.to, view.subject) == ("correlation", b"user", "orders", "type")
    assert (view.reply_to, view.creation_time_ms) == ("ID:h:1", 12)
    assert (view.group_id, view.group_sequence) == ("group", -1)
    assert view.body == "hi"
    assert view.annotations == {"x-opt-jms-msg-type": 5, "x-opt-jms-dest": 0, "x-opt-jms-reply-to": 2}


@pytest.mark.parametrize(
    ("kind", "content", "body", "number", "content_type"),
    [
        (ActiveMQMessage, None, None, 0, None),
        (ActiveMQObjectMessage, OBJECT, OBJECT, 1, "application/x-java-serialized-object"),
        (ActiveMQObjectMessage, None, b"\xac\xed\0\5p", 1, "application/x-java-serialized-object"),
        (ActiveMQMapMessage, write_map(VALUES), VALUES, 2, None),
        (ActiveMQMapMessage, None, {}, 2, None),
        (ActiveMQBytesMessage, b"\0\1", b"\0\1", 3, None),
        (ActiveMQBytesMessage, None, b"", 3, None),
        (ActiveMQStreamMessage, write_values(list(VALUES.values())), list(VALUES.values()), 4, None),
        (ActiveMQStreamMessage, None, [], 4, None),
        (ActiveMQTextMessage, write_text("hällo 😀\0"), "hällo 😀\0", 5, None),
        (ActiveMQTextMessage, write_text(""), "", 5, None),
        (ActiveMQTextMessage, None, None, 5, None),
        (ActiveMQBlobMessage, None, None, 0, None),
    ],
)
@pytest.mark.parametrize("compressed", [False, True])
def test_bodies(
    kind: type[Command], content: bytes | None, body: object, number: int, content_type: str | None, compressed: bool
) -> None:
    """openwire §9.3, and the kinds of amqp10 §17."""
    if compressed and content is not None:
        size = pack(">i", len(content)) if kind is ActiveMQBytesMessage else b""
        content = size + zlib.compress(content)

    view = arrived(kind, content=content, compressed=compressed).view

    assert view.body == body
    assert view.annotations["x-opt-jms-msg-type"] == number
    assert view.content_type == content_type


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (Byte(1), Int8),
        (Short(1), Int16),
        (1, Int32),
        (Long(1), int),
        (Float(1.5), Binary32),
        (1.5, float),
        (Char("a"), str),
        (True, bool),
    ],
)
def test_numbers_keep_their_width(value: object, kind: type) -> None:
    """JMS clients of other protocols must be able to read an int as one."""
    view = arrived(ActiveMQMapMessage, properties={"p": value}, content=write_map({"b": [value]})).view

    assert isinstance(view.body, dict)
    for found in (view.properties["p"], view.body["b"][0]):
        assert found == value
        assert type(found) is kind


@pytest.mark.parametrize(
    ("kind", "content"),
    [
        (ActiveMQTextMessage, b"\0\0\0\5hi"),
        (ActiveMQTextMessage, b"\0\0"),
        (ActiveMQTextMessage, b"\0\0\0\1\xff"),
        (ActiveMQMapMessage, write_map(VALUES)[:-1]),
        (ActiveMQMapMessage, b"\x7f\xff\xff\xff"),
        (ActiveMQStreamMessage, b"\x63"),
        (ActiveMQStreamMessage, b"\x0c" + b"\0\0\0\1\x0c" * 40),
    ],
)
@pytest.mark.parametrize("compressed", [False, True])
def test_damaged_bodies(kind: type[Command], content: bytes, compressed: bool) -> None:
    """The message can still be passed on and selected."""
    octets = zlib.compress(content) if compressed else content
    message = arrived(kind, content=octets, compressed=compressed, properties={"a": 1})

    with pytest.raises(ProtocolError):
        _ = message.view
    assert message.lookup("a") == 1
    assert delivered(message).content == octets


def compressed_text(size: int, noise: int = 0) -> Message:
    """A text message of this size, the first part of which is not easy to compress."""
    text = Random(0).randbytes(noise // 2).hex().ljust(size, "x")
    return arrived(content=zlib.compress(write_text(text) or b"", 9), compressed=True)


def test_compressed_bodies_have_a_limit() -> None:
    """However well they can be compressed."""
    content = zlib.compress(Random(0).randbytes(700_000) + bytes(LOADED_BODY_LIMIT_BYTES - 700_000 + 1), 1)
    message = arrived(ActiveMQObjectMessage, content=content, compressed=True)

    with pytest.raises(MalformedFrame, match=f"more than {LOADED_BODY_LIMIT_BYTES}"):
        _ = message.view


def test_compressed_bodies_have_a_ratio() -> None:
    """Beyond 1 MiB nobody sends what can be compressed to a thousandth, but for harm."""
    assert len(str(compressed_text(1024 * 1024 - 4).view.body)) == 1024 * 1024 - 4
    assert len(str(compressed_text(2_000_000, noise=80_000).view.body)) == 2_000_000
    with pytest.raises(MalformedFrame, match="more than 1048576"):
        _ = compressed_text(1024 * 1024).view


def test_view_that_is_much_larger_is_not_kept() -> None:
    """The message is counted as it came; what other protocols make of it is not kept either."""
    usual, harmful = compressed_text(20_000, noise=8_000), compressed_text(200_000)

    for message, is_kept in ((usual, True), (harmful, False)):
        encoded(message)
        converted(message, WildcardSyntax())
        assert message.view.is_kept is is_kept
        assert (message.view_cache is not None) is is_kept
        assert bool(message.encodings) is is_kept


@pytest.mark.parametrize("destination", [ActiveMQQueue, ActiveMQTopic, ActiveMQTempQueue, ActiveMQTempTopic])
def test_kinds_of_destinations(destination: Callable[..., Any]) -> None:
    """0 queue, 1 topic, 2 temporary queue, 3 temporary topic (amqp10 §17)."""
    view = arrived(destination=destination(physical_name="d"), reply_to=destination(physical_name="r")).view

    number = [ActiveMQQueue, ActiveMQTopic, ActiveMQTempQueue, ActiveMQTempTopic].index(destination)  # type: ignore[arg-type]
    assert view.annotations["x-opt-jms-dest"] == view.annotations["x-opt-jms-reply-to"] == number
    assert view.reply_to == "r"


def test_properties_that_stand_for_fields() -> None:
    """artemis-model §4.1.6, the other way round."""
    view = arrived(
        properties={
            "JMS_AMQP_ContentType": "a/b",
            "JMS_AMQP_ContentEncoding": "gzip",
            "JMS_AMQP_REPLYTO_GROUP_ID": "rg",
            "JMS_AMQP_MA_x-opt-a": 5,
            "JMS_AMQP_MA_x-opt-jms-msg-type": 1,
            "JMS_AMQP_MA_": "odd",
            "own": "p",
        }
    ).view

    assert (view.content_type, view.content_encoding, view.reply_to_group_id) == ("a/b", "gzip", "rg")
    assert view.annotations == {"x-opt-jms-msg-type": 5, "x-opt-jms-dest": 0, "x-opt-a": 5}
    assert view.properties == {"JMS_AMQP_MA_": "odd", "own": "p"}


def test_fields_of_another_type_stay_properties() -> None:
    """Nothing is lost because of a type."""
    odd = {"JMS_AMQP_ContentType": 5, "JMSXGroupID": 6, "JMSXGroupSeq": "x", "JMS_AMQP_ContentEncoding": None}

    assert arrived(properties=odd).view.properties == odd
    assert arrived(properties={"JMSXGroupSeq": True}).view.properties == {"JMSXGroupSeq": True}


def test_times_that_are_not_set() -> None:
    """0 is what a client sends that switched timestamps off."""
    assert arrived(timestamp=0).view.creation_time_ms is None
    assert arrived(timestamp=-1).view.creation_time_ms is None


# --- transformers ---


def test_properties_change_without_the_body() -> None:
    """Everything else keeps its octets, even types that are unusual."""
    message = arrived(ActiveMQBytesMessage, properties=VALUES, content=b"body", type="t", group_id="g", priority=6)
    before = delivered(message)
    assert isinstance(OPENWIRE_FORMAT, PropertiesFormat)

    message.data, message.annotations = OPENWIRE_FORMAT.with_properties(
        message, {"byte": REMOVED, "null": REMOVED, "text": "new", "added": 2**40, "moved": VALUES["map"]}
    )
    after = delivered(message)

    expected = {name: value for name, value in VALUES.items() if name not in ("byte", "null")}
    expected |= {"text": "new", "added": Long(2**40), "moved": NESTED}
    found = read_map(after.marshalled_properties)
    assert found == expected
    assert {name: type(value) for name, value in found.items()} == {
        name: type(value) for name, value in expected.items()
    }
    unchanged = {"content": b"body", "type": "t", "group_id": "g", "priority": 6}
    assert {name: getattr(after, name) for name in unchanged} == unchanged
    assert after.message_id == before.message_id


def test_read_properties_have_their_types() -> None:
    """A transformer may move them to another name."""
    found = OPENWIRE_FORMAT.read_properties(arrived(properties=VALUES))

    assert found == VALUES
    assert [type(value) for value in found.values()] == [type(value) for value in VALUES.values()]


def test_damaged_properties_do_not_change() -> None:
    """A transformer fails, and its message becomes a dead letter."""
    message = arrived(marshalled_properties=b"\0\0\0\5")

    with pytest.raises(MalformedFrame):
        OPENWIRE_FORMAT.read_properties(message)
    with pytest.raises(MalformedFrame):
        OPENWIRE_FORMAT.with_properties(message, {"a": 1})


def test_draft() -> None:
    """The whole way of a transformer, with a priority and a time of expiry."""
    message = arrived(properties={"a": 1}, content=b"\0\0\0\2hi")
    draft = Draft(message, 0)
    draft.properties["b"] = "new"
    draft.priority = 9
    draft.expires_ms = 12345

    draft.apply()

    received = delivered(message)
    assert read_map(received.marshalled_properties) == {"a": 1, "b": "new"}
    assert (received.priority, received.expiration, received.content) == (9, 12345, b"\0\0\0\2hi")


def test_draft_with_a_new_body() -> None:
    """Written again, in the broker's own format; clients of OpenWire get it all the same."""
    message = arrived(
        properties={"a": 1},
        content=b"\0\0\0\2hi",
        type="t",
        reply_to=ActiveMQTopic(physical_name="r"),
        correlation_id="c",
        destination=ActiveMQTopic(physical_name="orders"),
        timestamp=5,
        group_id="g",
        group_sequence=-1,
    )
    draft = Draft(message, 0)
    draft.body = "new"

    draft.apply()

    received = delivered(message)
    assert isinstance(received, ActiveMQTextMessage)
    assert received.content == b"\0\0\0\3new"
    assert read_map(received.marshalled_properties) == {"a": 1}
    assert (received.type, received.correlation_id, received.timestamp) == ("t", "c", 5)
    assert (received.group_id, received.group_sequence) == ("g", -1)
    assert received.reply_to == ActiveMQTopic(physical_name="r")
    assert received.destination == ActiveMQTopic(physical_name="orders")
    assert text_id(received) == "ID:host-1-2:1:1:1:5"


def test_damaged_octets_are_an_error() -> None:
    """What a store gives back should be what it was given; if not, only this message suffers."""
    message = arrived(properties={"a": 1})
    damaged = Message(OPENWIRE_FORMAT, "orders", message.data[:-30], message.annotations)

    assert damaged.lookup("JMSType") is None
    assert damaged.lookup("JMSDestination") == "orders"
    with pytest.raises(ProtocolError):
        _ = damaged.view


@pytest.mark.parametrize(
    ("data", "annotations"), [(b"", FULL.annotations), (FULL.data, b""), (FULL.data, FULL.annotations[:-1])]
)
def test_parts_that_are_missing_are_an_error(data: bytes, annotations: bytes) -> None:
    """As other damage."""
    damaged = Message(OPENWIRE_FORMAT, "orders", data, annotations)

    assert damaged.lookup("JMSType") is None
    with pytest.raises(ProtocolError):
        _ = damaged.view
