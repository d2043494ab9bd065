"""PUBLISH (MQTT 5.0 §3.3), which comes per message: its properties as octets, and the packet written in one go.

A message's properties are never decoded on their way. What concerns the hop (Topic Alias, Message Expiry Interval) is
taken out when a packet arrives; the rest is checked, kept as it came, and sent on as it is, as MQTT 5.0 §3.3.2.3 asks
for each of them.
"""

from struct import Struct
from typing import Final

from artemis_mqtt.engine.fields import (
    ONE_BYTE,
    check_text,
    decode_text,
    read_binary,
    read_u16,
    read_u32,
    write_varint,
)
from artemis_mqtt.engine.reasons import TOPIC_ALIAS_INVALID, PacketError, malformed, protocol_error
from artemis_mqtt.engine.topics import check_topic

_PAYLOAD_FORMAT_INDICATOR: Final = 0x01
_MESSAGE_EXPIRY_INTERVAL: Final = 0x02
_CONTENT_TYPE: Final = 0x03
_RESPONSE_TOPIC: Final = 0x08
_CORRELATION_DATA: Final = 0x09
_SUBSCRIPTION_IDENTIFIER: Final = 0x0B
_TOPIC_ALIAS: Final = 0x23
_USER_PROPERTY: Final = 0x26

PUBLISH_BYTE: Final = 0x30
NO_EXPIRY: Final = -1

_EXPIRY: Final = Struct(">BI")
_ALIAS: Final = Struct(">BH")


def split_properties(data: bytes, offset: int, end: int, max_topic_levels: int) -> tuple[bytes, int, int]:
    """Check the properties of a client's PUBLISH in `data[offset:end]`, and take them apart.

    Returns the octets that travel with the message, the expiry interval in seconds (-1: none), and the topic alias
    (0: none; its limit is the caller's). Raises PacketError.
    """
    expiry_s = NO_EXPIRY
    alias = 0
    seen = 0
    kept = b""
    start = offset
    while offset < end:
        at = offset
        code = data[offset]
        offset += 1
        if code == _USER_PROPERTY:
            offset = check_text(data, check_text(data, offset, end), end)
            continue
        if code > 0x2A:
            raise malformed(f"no property has the identifier {code}")
        if seen >> code & 1:
            raise protocol_error(f"property {code} occurs twice in a PUBLISH")
        seen |= 1 << code
        if code == _TOPIC_ALIAS:
            alias, offset = read_u16(data, offset, end)
            if alias == 0:
                raise PacketError(TOPIC_ALIAS_INVALID, "topic alias 0")
            kept += data[start:at]
            start = offset
        elif code == _MESSAGE_EXPIRY_INTERVAL:
            expiry_s, offset = read_u32(data, offset, end)
            kept += data[start:at]
            start = offset
        else:
            offset = _check_kept(code, data, offset, end, max_topic_levels)
    if start == offset:
        return kept, expiry_s, alias
    return kept + data[start:end], expiry_s, alias


def _check_kept(code: int, data: bytes, offset: int, end: int, max_topic_levels: int) -> int:
    """Return where the value of a property ends that travels with the message."""
    if code == _CONTENT_TYPE:
        return check_text(data, offset, end)
    if code == _CORRELATION_DATA:
        return read_binary(data, offset, end)[1]
    if code == _RESPONSE_TOPIC:
        raw, offset = read_binary(data, offset, end)
        # A topic name: no wildcards [MQTT-3.3.2-14].
        check_topic(decode_text(raw), max_topic_levels)
        return offset
    if code == _PAYLOAD_FORMAT_INDICATOR:
        if offset >= end:
            raise malformed("the packet ends within a field")
        if data[offset] > 1:
            raise protocol_error("a payload format indicator is neither 0 nor 1")
        return offset + 1
    if code == _SUBSCRIPTION_IDENTIFIER:
        raise protocol_error("a client's PUBLISH has a subscription identifier")
    raise protocol_error(f"property {code} is not allowed in a PUBLISH")


def expiry_property(expiry_s: int) -> bytes:
    """Encode a Message Expiry Interval to append to a message's properties."""
    return _EXPIRY.pack(_MESSAGE_EXPIRY_INTERVAL, min(expiry_s, 0xFFFFFFFF))


def subscription_identifier_property(identifier: int) -> bytes:
    """Encode a Subscription Identifier to append to a message's properties; one per subscription that matches."""
    return ONE_BYTE[_SUBSCRIPTION_IDENTIFIER] + write_varint(identifier)


def alias_property(alias: int) -> bytes:
    """Encode a Topic Alias to append to a message's properties."""
    return _ALIAS.pack(_TOPIC_ALIAS, alias)


def publish_start(first: int, length: int, topic_field: bytes) -> bytes:
    """Encode a PUBLISH up to its topic; `length` is the Remaining Length: all octets behind it."""
    if length < 0x80:
        return ONE_BYTE[first] + ONE_BYTE[length] + topic_field
    if length < 0x4000:
        return ONE_BYTE[first] + ONE_BYTE[length & 0x7F | 0x80] + ONE_BYTE[length >> 7] + topic_field
    return ONE_BYTE[first] + write_varint(length) + topic_field


def encode_publish(
    is_v5: bool,
    topic_field: bytes,
    payload: bytes,
    qos: int,
    retain: bool,
    dup: bool,
    packet_id: int,
    properties: bytes,
) -> bytes:
    """Encode a whole PUBLISH, without a topic alias; `publish_writer` encodes what goes to one client only."""
    rest = ONE_BYTE[packet_id >> 8] + ONE_BYTE[packet_id & 0xFF] if qos else b""
    if is_v5:
        rest += write_varint(len(properties)) + properties
    rest += payload
    first = PUBLISH_BYTE | (8 if dup else 0) | qos << 1 | (1 if retain else 0)
    return publish_start(first, len(topic_field) + len(rest), topic_field) + rest
