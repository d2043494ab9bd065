"""MQTT messages in the eyes of the core and of other protocols, and theirs in MQTT's."""

from typing import Any
from uuid import UUID

import pytest

from artemis_mqtt.broker.format import MqttFormat, from_view, retained_copy
from artemis_mqtt.engine.packets import PacketType
from artemis_mqtt.engine.properties import Properties, read_properties, write_properties
from artemis_py.core.messages.message import Message
from artemis_py.core.messages.view import MessageView
from artemis_py.core.names.syntax import WildcardSyntax
from artemis_py.errors import ProtocolError

SYNTAX = WildcardSyntax()
FORMAT = MqttFormat(SYNTAX)


def message(payload: bytes = b"m", flags: int = 1, **properties: Any) -> Message:
    encoded = write_properties(Properties(**properties))
    return Message(FORMAT, "a.b", payload, bytes((flags,)) + encoded)


def properties_of(view: MessageView) -> Properties:
    annotations, _ = from_view(view, SYNTAX)
    return read_properties(annotations, 1, len(annotations), PacketType.PUBLISH)


def test_a_view_has_all_properties() -> None:
    """Response topics are addresses; of a name that comes twice the first value counts."""
    view = message(
        b"text",
        flags=6,
        payload_format_indicator=1,
        content_type="text/plain",
        response_topic="r/s.t",
        correlation_data=b"\x00id",
        user_properties=(("k", "1"), ("k", "2")),
    ).view

    assert view == MessageView(
        to="a.b",
        content_type="text/plain",
        reply_to="r.s\\.t",
        correlation_id=b"\x00id",
        properties={"k": "1"},
        # A reply-to is a topic, which clients of JMS are to know: a queue of this name would be another place.
        annotations={"x-opt-mqtt-qos": 2, "x-opt-mqtt-retain": True, "x-opt-jms-reply-to": 1},
        body="text",
    )


@pytest.mark.parametrize(
    ("data", "expected"), [(b"id", "id"), ("ä".encode(), "ä"), (b"\xff", b"\xff"), (b"\x01", b"\x01"), (b"", "")]
)
def test_correlation_data_is_text_where_it_is_text(data: bytes, expected: object) -> None:
    """And comes back as the same octets, whatever another protocol echoes."""
    view = message(correlation_data=data).view

    assert view.correlation_id == expected
    assert properties_of(view).correlation_data == data


@pytest.mark.parametrize(("payload", "properties"), [(b"\xff", {"payload_format_indicator": 1}), (b"text", {})])
def test_a_payload_is_text_if_it_says_so_and_is(payload: bytes, properties: dict[str, Any]) -> None:
    """Everything else is octets."""
    assert message(payload, **properties).view.body == payload


def test_selectors_see_user_properties_and_what_jms_calls_them() -> None:
    """A missing one is NULL."""
    made = message(user_properties=(("k", "1"),), response_topic="r", correlation_data=b"id")

    assert [made.lookup(name) for name in ("k", "JMSReplyTo", "JMSCorrelationID", "other")] == ["1", "r", "id", None]


@pytest.mark.parametrize(
    ("body", "payload", "indicator", "content_type"),
    [
        (None, b"", None, None),
        (b"\x00", b"\x00", None, None),
        ("täxt", "täxt".encode(), 1, None),
        ({"k": [1, b"\xff"]}, b'{"k": [1, "ff"]}', 1, "application/json"),
        (7, b"7", 1, "application/json"),
    ],
)
def test_bodies_become_payloads(body: object, payload: bytes, indicator: int | None, content_type: str | None) -> None:
    """Octets as they are, text as UTF-8, everything else as JSON."""
    view = MessageView(body=body)

    assert from_view(view, SYNTAX)[1] == payload
    given = properties_of(view)
    assert (given.payload_format_indicator, given.content_type) == (indicator, content_type)


def test_properties_become_texts() -> None:
    """MQTT has no other type."""
    view = MessageView(
        reply_to="r.*",
        correlation_id=UUID(int=1),
        properties={"i": 1, "t": True, "b": b"\xff", "none": None, "nul": "\0", "f": 1.5},
    )

    given = properties_of(view)

    assert given.user_properties == (("i", "1"), ("t", "true"), ("b", "ff"), ("none", ""), ("f", "1.5"))
    assert given.correlation_data == b"00000000-0000-0000-0000-000000000001"
    assert given.response_topic == "r/*"


def test_a_body_that_cannot_be_written_is_refused() -> None:
    """The message goes to the dead-letter address, not to the client."""
    with pytest.raises(ProtocolError):
        from_view(MessageView(body={"k": object()}), SYNTAX)


def test_a_retained_copy_shares_its_octets() -> None:
    """A million of them must not cost a million payloads."""
    made = message(bytes(1000))

    copy = retained_copy(made)

    assert copy.data is made.data
    assert copy.annotations[0] == 1 | 8


@pytest.mark.parametrize(("sequence", "expected"), [(5, "5"), (2**32 - 1, "-1"), (-1, "-1"), (2**31, str(-(2**31)))])
def test_numbers_of_a_group_have_a_sign(sequence: int, expected: str) -> None:
    """Whether the other protocol's have one or not: -1 closes the group."""
    assert properties_of(MessageView(group_sequence=sequence)).user_properties == (("JMSXGroupSeq", expected),)


def test_maps_and_lists_in_properties_are_json() -> None:
    """OpenWire has them."""
    view = MessageView(properties={"map": {"a": [1, b"\xff"]}, "list": [True, None]})

    assert properties_of(view).user_properties == (("map", '{"a": [1, "ff"]}'), ("list", "[true, null]"))
