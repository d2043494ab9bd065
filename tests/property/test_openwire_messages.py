"""Messages between OpenWire and other protocols: what both have is kept, and damage is refused."""

import zlib
from contextlib import suppress
from typing import Any

import proton
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from artemis_amqp.messages.arrival import split_sections
from artemis_amqp.messages.delivery import annotations_bytes, header_bytes
from artemis_amqp.messages.encoding import encoded
from artemis_amqp.messages.format import AMQP_FORMAT
from artemis_mqtt.broker.format import converted
from artemis_mqtt.engine.packets import PacketType
from artemis_mqtt.engine.properties import read_properties
from artemis_openwire.engine.bodies import read_body, write_text
from artemis_openwire.engine.codec import read_frame
from artemis_openwire.engine.commands import (
    ActiveMQBytesMessage,
    ActiveMQMapMessage,
    ActiveMQMessage,
    ActiveMQObjectMessage,
    ActiveMQStreamMessage,
    ActiveMQTextMessage,
)
from artemis_openwire.engine.commands import Message as Command
from artemis_openwire.engine.rewriting import transcode
from artemis_openwire.engine.structures import ActiveMQQueue, ActiveMQTopic
from artemis_openwire.engine.values import Byte, Char, Float, Long, Short, read_map, write_map, write_values
from artemis_openwire.messages.delivery import delivery_of
from artemis_openwire.messages.layout import find_property, properties_offset
from artemis_py.core.messages.builtin_format import plain_message
from artemis_py.core.messages.message import Message
from artemis_py.core.names.syntax import WildcardSyntax
from artemis_py.errors import ProtocolError
from tests.examples import examples
from tests.openwire_messages import RUN, arrived, delivered, properties
from tests.property.test_amqp_codec import messages as amqp_messages

SYNTAX = WildcardSyntax()
LIMIT = 1_000_000

texts = st.text(st.characters(codec="utf-8"), max_size=6)
simple = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-128, 127).map(Byte),
    st.integers(-(1 << 15), (1 << 15) - 1).map(Short),
    st.integers(-(1 << 31), (1 << 31) - 1),
    st.integers(-(1 << 63), (1 << 63) - 1).map(Long),
    st.floats(width=32, allow_nan=False).map(Float),
    st.floats(allow_nan=False),
    st.characters(max_codepoint=0xD7FF).map(Char),
    texts,
    st.binary(max_size=6),
)
nested = st.recursive(
    simple, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3), max_leaves=6
)
names = texts.filter(bool)
optional = st.none() | texts
destinations = st.builds(ActiveMQQueue, physical_name=names) | st.builds(ActiveMQTopic, physical_name=names)

bodies: st.SearchStrategy[tuple[type[Command], bytes | None]] = st.one_of(
    st.just((ActiveMQMessage, None)),
    st.tuples(st.just(ActiveMQBytesMessage), st.binary(max_size=20)),
    st.tuples(st.just(ActiveMQTextMessage), optional.map(write_text)),
    st.tuples(st.just(ActiveMQMapMessage), st.dictionaries(texts, nested, max_size=4).map(write_map)),
    st.tuples(st.just(ActiveMQStreamMessage), st.lists(simple, max_size=4).map(write_values)),
    st.tuples(st.just(ActiveMQObjectMessage), st.binary(min_size=1, max_size=20)),
)


@st.composite
def sent(draw: st.DrawFn) -> Message:
    """A message that a client of OpenWire has sent."""
    kind, content = draw(bodies)
    compressed = content is not None and draw(st.booleans())
    if compressed and content is not None:
        prefix = len(content).to_bytes(4, "big") if kind is ActiveMQBytesMessage else b""
        content = prefix + zlib.compress(content)
    group_id = draw(optional)
    return arrived(
        kind,
        version=draw(st.integers(1, 12)),
        content=content,
        compressed=compressed,
        destination=draw(destinations),
        reply_to=draw(st.none() | destinations),
        correlation_id=draw(optional),
        type=draw(optional),
        group_id=group_id,
        group_sequence=0 if group_id is None else draw(st.integers(-(1 << 31), (1 << 31) - 1)),
        timestamp=draw(st.integers(0, 1 << 40)),
        expiration=draw(st.integers(0, 1 << 40)),
        priority=draw(st.integers(0, 9)),
        persistent=draw(st.booleans()),
        properties=draw(st.none() | st.dictionaries(names, nested, max_size=4)),
    )


def plain(value: object) -> object:
    """A value without the width of its numbers; a character is a text."""
    if isinstance(value, dict):
        return {key: plain(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [plain(inner) for inner in value]
    return (isinstance(value, bool), value)


def body_of(message: Any) -> object:
    """The decoded body of a message."""
    return plain(read_body(message.code, message.content, message.compressed, LIMIT))


FIELDS = ("correlation_id", "type", "group_id", "group_sequence", "timestamp", "expiration", "priority", "persistent")


@given(sent())
@settings(max_examples=examples(200))
def test_untouched(message: Message) -> None:
    """A client of the same version gets the octets of the producer."""
    assert delivery_of(message, RUN) == (message.annotations, message.data)


@given(sent())
@settings(max_examples=examples(200))
def test_view_keeps_what_both_have(message: Message) -> None:
    """A message that was written again in between differs in its id, and in what is documented."""
    before = read_frame(message.data, message.annotations[0])
    assert isinstance(before, Command)
    message.address = (before.destination and before.destination.physical_name) or ""
    again = plain_message(message.address, message.view, message.durable, message.priority)
    again.expires_ms = message.expires_ms

    after = delivered(again)

    assert type(after) is type(before)
    assert body_of(after) == body_of(before)
    assert {name: getattr(after, name) for name in FIELDS} == {name: getattr(before, name) for name in FIELDS}
    assert after.destination == before.destination
    if before.reply_to is None or before.reply_to.physical_name:
        assert after.reply_to == before.reply_to
    assert plain(properties(after)) == plain(read_map(before.marshalled_properties))


@given(sent())
@settings(max_examples=examples(200))
def test_numbers_keep_their_width(message: Message) -> None:
    """As far as the view itself is passed on: a long may become as narrow as it is."""
    copy = Message(AMQP_FORMAT, message.address, b"")
    copy.view_cache = message.view
    before = read_map(read_frame(message.data, message.annotations[0]).marshalled_properties)  # type: ignore[attr-defined]

    for name, value in properties(delivered(copy)).items():
        assert type(value) is {Long: Long if type(value) is Long else int, Char: str}.get(
            type(before[name]), type(before[name])
        )


@given(sent())
@settings(max_examples=examples(200))
def test_selectors_find_each_property(message: Message) -> None:
    """The search in the octets agrees with the decoded map."""
    decoded = read_map(read_frame(message.data, message.annotations[0]).marshalled_properties)  # type: ignore[attr-defined]

    for name, value in decoded.items():
        assert plain(message.lookup(name)) == plain(value)
    assert message.lookup("none of them") is None


@given(sent())
@settings(max_examples=examples(200))
def test_clients_of_amqp_can_read_it(message: Message) -> None:
    """Proton decodes all of it."""
    annotations, bare = encoded(message)

    received = proton.Message()
    received.decode(header_bytes(True, 4, -1, True, 0) + annotations_bytes(annotations, 1, None) + bare)

    # Proton ends a subject at its first U+0000.
    assert (received.subject or "") == (message.view.subject or "").partition("\0")[0]


@given(sent())
@settings(max_examples=examples(200))
def test_clients_of_mqtt_can_read_it(message: Message) -> None:
    """Its properties are valid, and octets stay octets."""
    annotations, payload = converted(message, SYNTAX)

    fields = read_properties(annotations, 1, len(annotations), PacketType.PUBLISH)

    if fields.payload_format_indicator == 1:
        payload.decode()
    if isinstance(message.view.body, bytes):
        assert payload == message.view.body


@given(amqp_messages)
@settings(max_examples=examples(200))
def test_every_message_of_amqp_is_one_of_openwire(message: proton.Message) -> None:
    """For clients of every version."""
    sections = split_sections(bytes(message.encode()))
    found = Message(AMQP_FORMAT, "orders", sections.bare, sections.annotations_raw)
    header, body = delivery_of(found, RUN)

    for version in range(1, 13):
        _, octets = transcode(header, body, version)
        received = read_frame(octets, version)
        assert isinstance(received, Command)
        read_map(received.marshalled_properties)
        read_body(type(received).code, received.content, received.compressed, LIMIT)
    assert isinstance(received, Command)
    assert (received.type, received.group_id) == (found.view.subject, found.view.group_id)
    named = read_map(received.marshalled_properties)
    for name, value in found.view.properties.items():
        if name and isinstance(value, str | bool | bytes):
            assert named[name] == value


@given(st.data())
@settings(max_examples=examples(300))
def test_damage_is_refused(data: st.DataObject) -> None:
    """Octets that were overwritten, in whatever field: nothing but a ProtocolError, and selectors find nothing."""
    message = data.draw(sent())
    octets = bytearray(message.data)
    for _ in range(data.draw(st.integers(1, 4))):
        octets[data.draw(st.integers(0, len(octets) - 1))] = data.draw(st.integers(0, 255))
    damaged = Message(message.format, "orders", bytes(octets), message.annotations)

    for name in ("a", "JMSType", "JMSMessageID", "JMSReplyTo", "JMSDestination", "JMSXGroupID"):
        damaged.lookup(name)
    with suppress(ProtocolError):
        _ = damaged.view
    with suppress(ProtocolError, IndexError):
        find_property(damaged.data, properties_offset(damaged.annotations, damaged.data), b"a")
    damaged.extra = {"_AMQ_ORIG_ADDRESS": "orders"}
    with suppress(ProtocolError):
        delivery_of(damaged, RUN)


@given(sent(), st.binary(max_size=30))
@settings(max_examples=examples(200))
def test_damaged_content_is_refused(message: Message, content: bytes) -> None:
    """Any octets in the place of properties and body."""
    odd = arrived(ActiveMQMapMessage, content=content, marshalled_properties=content)

    for name in ("a", "", "JMSXGroupID"):
        odd.lookup(name)
    try:
        view = odd.view
    except ProtocolError:
        return
    assert isinstance(view.body, dict)


@pytest.mark.parametrize("version", range(1, 13))
@given(st.data())
@settings(max_examples=examples(20))
def test_dead_letters_keep_the_rest(version: int, data: st.DataObject) -> None:
    """What the broker adds changes nothing else."""
    message = data.draw(sent())
    before = read_frame(message.data, message.annotations[0])
    assert isinstance(before, Command)
    copy = message.copy("DLQ")
    copy.extra = {"_AMQ_ORIG_ADDRESS": "orders"}

    _, octets = transcode(*delivery_of(copy, RUN), version)

    after = read_frame(octets, version)
    assert isinstance(after, Command)
    assert (after.content, after.compressed) == (before.content, before.compressed)
    assert (after.destination, after.original_destination) == (ActiveMQQueue(physical_name="DLQ"), before.destination)
    found = read_map(after.marshalled_properties)
    assert found.pop("_AMQ_ORIG_ADDRESS") == "orders"
    assert plain(found) == plain(read_map(before.marshalled_properties))
