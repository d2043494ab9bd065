"""The data types of MQTT, topics, and properties."""

import struct
from collections.abc import Callable
from typing import Any

import pytest

from artemis_mqtt.engine.fields import (
    MAX_VARINT,
    check_text,
    decode_text,
    read_binary,
    read_text,
    read_u8,
    read_u16,
    read_u32,
    read_varint,
    write_packet_id,
    write_text,
    write_varint,
)
from artemis_mqtt.engine.packets import PacketType
from artemis_mqtt.engine.properties import ALLOWED, KINDS, WILL, Properties, Property, read_properties, write_properties
from artemis_mqtt.engine.publish import split_properties
from artemis_mqtt.engine.reasons import (
    MALFORMED_PACKET,
    PROTOCOL_ERROR,
    TOPIC_ALIAS_INVALID,
    TOPIC_FILTER_INVALID,
    TOPIC_NAME_INVALID,
    PacketError,
)
from artemis_mqtt.engine.topics import check_filter, check_topic, split_shared, topic_field

FULL = Properties(
    payload_format_indicator=1,
    message_expiry_interval=7,
    content_type="text/plain",
    response_topic="a/b",
    correlation_data=b"\x00\xff",
    subscription_identifiers=(1, MAX_VARINT),
    topic_alias=3,
    user_properties=(("a", "1"), ("a", "2")),
)


def reason_of(call: Callable[[], object]) -> int:
    """Why `call` fails."""
    with pytest.raises(PacketError) as error:
        call()
    return error.value.reason


@pytest.mark.parametrize(
    ("value", "octets"),
    [
        (0, "00"),
        (127, "7f"),
        (128, "8001"),
        (16383, "ff7f"),
        (16384, "808001"),
        (2097151, "ffff7f"),
        (2097152, "80808001"),
        (MAX_VARINT, "ffffff7f"),
    ],
)
def test_variable_byte_integers_at_every_change_of_size(value: int, octets: str) -> None:
    """[MQTT-1.5.5-1] the fewest bytes (MQTT 5.0 §1.5.5, table 1-1)."""
    assert write_varint(value).hex() == octets
    assert read_varint(bytes.fromhex(octets), 0, len(octets) // 2) == (value, len(octets) // 2)


@pytest.mark.parametrize("octets", ["8000", "808000", "80808080", "ffffffff01", "80", ""])
def test_a_variable_byte_integer_in_a_longer_form_is_malformed(octets: str) -> None:
    """[MQTT-1.5.5-1] not the fewest bytes, more than four, or an end within it."""
    data = bytes.fromhex(octets)

    assert reason_of(lambda: read_varint(data, 0, len(data))) == MALFORMED_PACKET


@pytest.mark.parametrize("text", ["", "a", "Ä", "漢字", "\U0002a6d4", "\ufeffa", "a" * 65535])
def test_text_survives(text: str) -> None:
    """[MQTT-1.5.4-3] a byte order mark is a character like others, wherever it stands."""
    data = write_text(text)

    assert read_text(data, 0, len(data)) == (text, len(data))
    assert check_text(data, 0, len(data)) == len(data)


@pytest.mark.parametrize("octets", ["ff", "c0af", "eda080", "edbfbf", "f4908080", "c3"])
def test_text_that_is_not_well_formed_is_malformed(octets: str) -> None:
    """[MQTT-1.5.4-1] no surrogates, overlong forms, or code points that are none."""
    raw = bytes.fromhex(octets)
    field = len(raw).to_bytes(2, "big") + raw

    assert reason_of(lambda: decode_text(raw)) == MALFORMED_PACKET
    assert reason_of(lambda: check_text(field, 0, len(field))) == MALFORMED_PACKET


def test_text_with_the_null_character_is_malformed() -> None:
    """[MQTT-1.5.4-2] [MQTT-4.7.3-2] topics and filters are texts like others."""
    assert reason_of(lambda: decode_text(b"a\0b")) == MALFORMED_PACKET
    assert reason_of(lambda: check_text(b"\0\x01\0", 0, 3)) == MALFORMED_PACKET


@pytest.mark.parametrize(
    ("read", "size"), [(read_u8, 1), (read_u16, 2), (read_u32, 4), (read_varint, 1), (read_text, 2), (read_binary, 2)]
)
def test_a_field_that_does_not_fit_its_packet_is_malformed(read: Callable[[bytes, int, int], Any], size: int) -> None:
    """[MQTT-4.13.1-1] whatever the type, and however much of it there is."""
    data = b"\0\0\0\0\0"
    for end in range(size):
        assert reason_of(lambda end=end: read(data, 0, end)) == MALFORMED_PACKET  # type: ignore[misc]


def test_a_length_above_what_is_left_is_malformed() -> None:
    """A length is checked before anything is taken."""
    assert reason_of(lambda: read_binary(b"\0\x03ab", 0, 4)) == MALFORMED_PACKET


# -- topics ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("topic", ["a", "/", "a/", "/a", "a//b", "$SYS/x", " ", "a b/c", "Ä/漢"])
def test_valid_topic_names(topic: str) -> None:
    """[MQTT-4.7.3-1] MQTT 5.0 §4.7.3: empty levels and spaces are legal."""
    check_topic(topic, 128)


@pytest.mark.parametrize("topic", ["", "+", "#", "a/+", "a/#", "a+b", "#a"])
def test_wildcards_and_nothing_are_no_topic_names(topic: str) -> None:
    """[MQTT-3.3.2-2] [MQTT-4.7.3-1] [MQTT-4.7.0-1]"""
    assert reason_of(lambda: check_topic(topic, 128)) == MALFORMED_PACKET


@pytest.mark.parametrize(
    "topic_filter",
    ["#", "+", "a/#", "+/#", "a/+/b", "/+", "+/", "//", "$SYS/#", "$share/g/a", "$share/g/#", "$share/g//a", "$shared"],
)
def test_valid_topic_filters(topic_filter: str) -> None:
    """[MQTT-4.7.1-1] [MQTT-4.7.1-2] [MQTT-4.8.2-1] [MQTT-4.8.2-2]"""
    check_filter(topic_filter, 128)


@pytest.mark.parametrize("topic_filter", ["", "##", "a#", "#/a", "a/#/b", "a+", "+a", "a/b+/c", "+#"])
def test_wildcards_fill_whole_levels(topic_filter: str) -> None:
    """[MQTT-4.7.1-1] [MQTT-4.7.1-2] [MQTT-4.7.3-1]"""
    assert reason_of(lambda: check_filter(topic_filter, 128)) == MALFORMED_PACKET


@pytest.mark.parametrize("topic_filter", ["$share", "$share/", "$share/g", "$share/g/", "$share//a", "$share/+/a"])
def test_a_shared_filter_has_a_group_and_a_filter(topic_filter: str) -> None:
    """[MQTT-4.8.2-1] a name of at least one character without wildcards, [MQTT-4.8.2-2] a slash and a filter."""
    assert reason_of(lambda: check_filter(topic_filter, 128)) == MALFORMED_PACKET


def test_levels_are_limited() -> None:
    """A limit of ours, so with the code that says the name is well-formed and not taken (MQTT 5.0 §4.13)."""
    check_topic("a/b/c", 3)
    check_filter("$share/g/a/b/c", 3)

    assert reason_of(lambda: check_topic("a/b/c/d", 3)) == TOPIC_NAME_INVALID
    assert reason_of(lambda: check_filter("a/b/c/#", 3)) == TOPIC_FILTER_INVALID


def test_a_shared_filter_is_taken_apart() -> None:
    """MQTT 5.0 §4.8.2"""
    assert split_shared("$share/g/a/#") == ("g", "a/#")
    assert split_shared("$share/g//a") == ("g", "/a")
    assert split_shared("$shared/a") == ("", "$shared/a")


def test_a_topic_is_as_long_as_a_field_may_be() -> None:
    """[MQTT-4.7.3-3] at most 65535 octets."""
    assert topic_field("ä" * 32767 + "a") == b"\xff\xff" + "ä".encode() * 32767 + b"a"
    with pytest.raises(ValueError, match="65536 octets"):
        topic_field("ä" * 32768)


# -- properties --------------------------------------------------------------------------------------------------


def test_every_property_of_a_message_survives() -> None:
    """MQTT 5.0 §2.2.2.2, table 2-4; user properties keep their order [MQTT-3.3.2-18]."""
    data = write_properties(FULL)

    assert read_properties(data, 0, len(data), PacketType.PUBLISH) == FULL


@pytest.mark.parametrize("where", sorted(ALLOWED))
def test_a_packet_carries_its_own_properties_and_no_others(where: int) -> None:
    """MQTT 5.0 §2.2.2.2, table 2-4: anything else is a protocol error."""
    for code, kind in KINDS.items():
        name = {0x0B: "subscription_identifiers", 0x26: "user_properties"}.get(code, code.name.lower())
        value: Any = {0x0B: (1,), 0x26: (("a", "b"),)}.get(code)
        if value is None:
            value = {KINDS[Property.CONTENT_TYPE]: "a", KINDS[Property.CORRELATION_DATA]: b"a"}.get(kind, 1)
        properties = Properties(**{name: value})
        data = write_properties(properties)
        if code in ALLOWED[where]:
            assert read_properties(data, 0, len(data), where) == properties
        else:
            assert reason_of(lambda data=data: read_properties(data, 0, len(data), where)) == PROTOCOL_ERROR  # type: ignore[misc]


@pytest.mark.parametrize("octets", ["00", "04", "2b", "7f", "8001", "ff"])
def test_an_unknown_property_is_malformed(octets: str) -> None:
    """MQTT 5.0 §2.2.2.2: nothing says how long it is."""
    data = bytes.fromhex(octets) + b"\0\0"

    assert reason_of(lambda: read_properties(data, 0, len(data), PacketType.CONNECT)) == MALFORMED_PACKET
    assert reason_of(lambda: split_properties(data, 0, len(data), 9)) in (MALFORMED_PACKET, PROTOCOL_ERROR)


@pytest.mark.parametrize(
    ("where", "octets"),
    [
        (PacketType.CONNECT, "1100000001 1100000001"),
        (PacketType.CONNECT, "210001 210001"),
        (PacketType.SUBSCRIBE, "0b01 0b02"),
        (PacketType.DISCONNECT, "1f000161 1f000161"),
        (PacketType.AUTH, "15000161 15000161"),
        (WILL, "0100 0100"),
    ],
)
def test_a_property_stands_once(where: int, octets: str) -> None:
    """MQTT 5.0 §3.1.2.11 and its kin: twice is a protocol error; only user properties may repeat."""
    data = bytes.fromhex(octets)

    assert reason_of(lambda: read_properties(data, 0, len(data), where)) == PROTOCOL_ERROR


@pytest.mark.parametrize(
    ("where", "octets"),
    [
        (PacketType.CONNECT, "210000"),
        (PacketType.CONNECT, "2700000000"),
        (PacketType.CONNECT, "1702"),
        (PacketType.CONNECT, "1902"),
        (PacketType.SUBSCRIBE, "0b00"),
        (WILL, "0102"),
    ],
)
def test_values_that_mean_nothing_are_protocol_errors(where: int, octets: str) -> None:
    """MQTT 5.0 §3.1.2.11.3, §3.1.2.11.4, §3.1.2.11.6, §3.1.2.11.7, §3.8.2.1.2, §3.1.3.2.3"""
    data = bytes.fromhex(octets)

    assert reason_of(lambda: read_properties(data, 0, len(data), where)) == PROTOCOL_ERROR


def test_many_user_properties_cost_no_more_than_their_size() -> None:
    """Nothing limits their number but the packet's size."""
    one = bytes.fromhex("26 0000 0000")

    assert len(read_properties(one * 20000, 0, len(one) * 20000, PacketType.CONNECT).user_properties) == 20000


# -- properties of a message on their way ---------------------------------------------------------------------------


def split(properties: Properties) -> tuple[bytes, int, int]:
    """As PUBLISH is read."""
    data = write_properties(properties)
    return split_properties(data, 0, len(data), 128)


@pytest.mark.parametrize(
    "kept",
    [
        Properties(),
        Properties(user_properties=(("a", "ä"), ("a", "2"))),
        Properties(payload_format_indicator=0, content_type="ä", response_topic="r", correlation_data=b""),
    ],
)
def test_what_travels_with_a_message_stays_as_it_came(kept: Properties) -> None:
    """[MQTT-3.3.2-4] [MQTT-3.3.2-15] [MQTT-3.3.2-16] [MQTT-3.3.2-17] [MQTT-3.3.2-18] [MQTT-3.3.2-20] unaltered."""
    octets = write_properties(kept)
    alias = bytes.fromhex("230005")
    expiry = bytes.fromhex("0200000007")

    for data in (alias + octets + expiry, expiry + alias + octets, octets + alias + expiry):
        assert split_properties(data, 0, len(data), 128) == (octets, 7, 5)


def test_what_is_between_alias_and_expiry_travels() -> None:
    """Both are taken out, whatever their order."""
    content = write_properties(Properties(content_type="a"))
    user = write_properties(Properties(user_properties=(("b", "c"),)))
    data = user + bytes.fromhex("230005") + content + bytes.fromhex("0200000007") + user

    assert split_properties(data, 0, len(data), 128) == (user + content + user, 7, 5)


@pytest.mark.parametrize(
    ("octets", "reason"),
    [
        ("230000", TOPIC_ALIAS_INVALID),
        ("230001 230001", PROTOCOL_ERROR),
        ("0200000001 0200000001", PROTOCOL_ERROR),
        ("03000161 03000161", PROTOCOL_ERROR),
        ("0102", PROTOCOL_ERROR),
        ("01", MALFORMED_PACKET),
        ("0b01", PROTOCOL_ERROR),
        ("210001", PROTOCOL_ERROR),
        ("08 0001 2b", MALFORMED_PACKET),
        ("08 0000", MALFORMED_PACKET),
        ("26 0001 61", MALFORMED_PACKET),
        ("08 0001 ff", MALFORMED_PACKET),
        ("03 0001 ff", MALFORMED_PACKET),
        ("03 0001 00", MALFORMED_PACKET),
        ("26 0001 61 0001 ff", MALFORMED_PACKET),
        ("09 0005 61", MALFORMED_PACKET),
        ("2300", MALFORMED_PACKET),
    ],
)
def test_what_a_client_may_not_say_beside_a_message(octets: str, reason: int) -> None:
    """[MQTT-3.3.2-8] no alias 0, [MQTT-3.3.2-13] [MQTT-3.3.2-14] no wildcards in a response topic,
    [MQTT-3.3.4-6] no subscription identifier, [MQTT-1.5.7-1] [MQTT-3.3.2-19] texts that are valid, nothing twice."""
    data = bytes.fromhex(octets)

    assert reason_of(lambda: split_properties(data, 0, len(data), 128)) == reason


def test_a_user_property_may_come_more_than_once() -> None:
    """MQTT 5.0 §3.3.2.3.7"""
    properties = Properties(user_properties=(("a", "1"), ("a", "1")))

    assert split(properties) == (write_properties(properties), -1, 0)


def test_packet_identifiers_in_two_octets() -> None:
    """MQTT 5.0 §1.5.2, §2.2.1: the higher octet first, whichever identifiers were asked for before."""
    identifiers = [0xFFFF, 1, 0x0100, 0xFF, 0x00FF, 0x1234, 1, *range(1, 0x10000)]

    assert b"".join(map(write_packet_id, identifiers)) == struct.pack(f">{len(identifiers)}H", *identifiers)
