"""The properties of MQTT 5.0 (MQTT 5.0 §2.2.2): their identifiers, types, and where each may stand.

One class holds them all, because their names mean the same everywhere; `ALLOWED` says which packet may carry which. A
property that may stand once and occurs twice is a protocol error, as is one in a packet that must not carry it.
PUBLISH is read by `publish` on its hot path; this module reads and writes what the other packets carry, and a message's
properties when they are needed.
"""

from collections.abc import Callable
from enum import IntEnum
from typing import Any, Final

from attrs import frozen

from artemis_mqtt.engine.fields import (
    read_binary,
    read_text,
    read_u8,
    read_u16,
    read_u32,
    read_varint,
    write_binary,
    write_text,
    write_u8,
    write_u16,
    write_u32,
    write_varint,
)
from artemis_mqtt.engine.reasons import TOPIC_ALIAS_INVALID, PacketError, malformed, protocol_error


class Property(IntEnum):
    """Property identifiers (MQTT 5.0 §2.2.2.2)."""

    PAYLOAD_FORMAT_INDICATOR = 0x01
    MESSAGE_EXPIRY_INTERVAL = 0x02
    CONTENT_TYPE = 0x03
    RESPONSE_TOPIC = 0x08
    CORRELATION_DATA = 0x09
    SUBSCRIPTION_IDENTIFIER = 0x0B
    SESSION_EXPIRY_INTERVAL = 0x11
    ASSIGNED_CLIENT_IDENTIFIER = 0x12
    SERVER_KEEP_ALIVE = 0x13
    AUTHENTICATION_METHOD = 0x15
    AUTHENTICATION_DATA = 0x16
    REQUEST_PROBLEM_INFORMATION = 0x17
    WILL_DELAY_INTERVAL = 0x18
    REQUEST_RESPONSE_INFORMATION = 0x19
    RESPONSE_INFORMATION = 0x1A
    SERVER_REFERENCE = 0x1C
    REASON_STRING = 0x1F
    RECEIVE_MAXIMUM = 0x21
    TOPIC_ALIAS_MAXIMUM = 0x22
    TOPIC_ALIAS = 0x23
    MAXIMUM_QOS = 0x24
    RETAIN_AVAILABLE = 0x25
    USER_PROPERTY = 0x26
    MAXIMUM_PACKET_SIZE = 0x27
    WILDCARD_SUBSCRIPTION_AVAILABLE = 0x28
    SUBSCRIPTION_IDENTIFIER_AVAILABLE = 0x29
    SHARED_SUBSCRIPTION_AVAILABLE = 0x2A


@frozen(kw_only=True)
class Properties:
    """Properties of a packet; None: it does not have this one. Values as on the wire, intervals in seconds."""

    payload_format_indicator: int | None = None
    message_expiry_interval: int | None = None
    content_type: str | None = None
    response_topic: str | None = None
    correlation_data: bytes | None = None
    subscription_identifiers: tuple[int, ...] = ()
    session_expiry_interval: int | None = None
    assigned_client_identifier: str | None = None
    server_keep_alive: int | None = None
    authentication_method: str | None = None
    authentication_data: bytes | None = None
    request_problem_information: int | None = None
    will_delay_interval: int | None = None
    request_response_information: int | None = None
    response_information: str | None = None
    server_reference: str | None = None
    reason_string: str | None = None
    receive_maximum: int | None = None
    topic_alias_maximum: int | None = None
    topic_alias: int | None = None
    maximum_qos: int | None = None
    retain_available: int | None = None
    user_properties: tuple[tuple[str, str], ...] = ()
    """In wire order; a name may come more than once."""
    maximum_packet_size: int | None = None
    wildcard_subscription_available: int | None = None
    subscription_identifier_available: int | None = None
    shared_subscription_available: int | None = None


NO_PROPERTIES: Final = Properties()

# --- types ---


class Kind:
    """A type of value (MQTT 5.0 §1.5): how it is read and written."""

    def __init__(self, read: Callable[[bytes, int, int], tuple[Any, int]], write: Callable[[Any], bytes]) -> None:
        self.read: Final = read
        self.write: Final = write


_BYTE: Final = Kind(read_u8, write_u8)
_TWO_BYTES: Final = Kind(read_u16, write_u16)
_FOUR_BYTES: Final = Kind(read_u32, write_u32)
_VARINT: Final = Kind(read_varint, write_varint)
_TEXT: Final = Kind(read_text, write_text)
_BINARY: Final = Kind(read_binary, write_binary)

KINDS: Final = {
    Property.PAYLOAD_FORMAT_INDICATOR: _BYTE,
    Property.MESSAGE_EXPIRY_INTERVAL: _FOUR_BYTES,
    Property.CONTENT_TYPE: _TEXT,
    Property.RESPONSE_TOPIC: _TEXT,
    Property.CORRELATION_DATA: _BINARY,
    Property.SUBSCRIPTION_IDENTIFIER: _VARINT,
    Property.SESSION_EXPIRY_INTERVAL: _FOUR_BYTES,
    Property.ASSIGNED_CLIENT_IDENTIFIER: _TEXT,
    Property.SERVER_KEEP_ALIVE: _TWO_BYTES,
    Property.AUTHENTICATION_METHOD: _TEXT,
    Property.AUTHENTICATION_DATA: _BINARY,
    Property.REQUEST_PROBLEM_INFORMATION: _BYTE,
    Property.WILL_DELAY_INTERVAL: _FOUR_BYTES,
    Property.REQUEST_RESPONSE_INFORMATION: _BYTE,
    Property.RESPONSE_INFORMATION: _TEXT,
    Property.SERVER_REFERENCE: _TEXT,
    Property.REASON_STRING: _TEXT,
    Property.RECEIVE_MAXIMUM: _TWO_BYTES,
    Property.TOPIC_ALIAS_MAXIMUM: _TWO_BYTES,
    Property.TOPIC_ALIAS: _TWO_BYTES,
    Property.MAXIMUM_QOS: _BYTE,
    Property.RETAIN_AVAILABLE: _BYTE,
    Property.USER_PROPERTY: _TEXT,
    Property.MAXIMUM_PACKET_SIZE: _FOUR_BYTES,
    Property.WILDCARD_SUBSCRIPTION_AVAILABLE: _BYTE,
    Property.SUBSCRIPTION_IDENTIFIER_AVAILABLE: _BYTE,
    Property.SHARED_SUBSCRIPTION_AVAILABLE: _BYTE,
}
"""A user property is two texts."""

_NAMES: Final = {
    code: {
        Property.SUBSCRIPTION_IDENTIFIER: "subscription_identifiers",
        Property.USER_PROPERTY: "user_properties",
    }.get(code, code.name.lower())
    for code in Property
}
"""Field of `Properties` by identifier."""

# Bytes that are truth values, and numbers that must not be 0 (MQTT 5.0 §3.1.2.11, §3.2.2.3, §3.3.2.3).
_TRUTH_VALUES: Final = frozenset(code for code, kind in KINDS.items() if kind is _BYTE)
_NEVER_ZERO: Final = frozenset(
    (Property.RECEIVE_MAXIMUM, Property.MAXIMUM_PACKET_SIZE, Property.SUBSCRIPTION_IDENTIFIER)
)

# --- where they stand (MQTT 5.0 §2.2.2.2, table 2-4) ---

WILL: Final = 0
"""Stands for the will in `ALLOWED`; every other key is a packet type (MQTT 5.0 §2.1.2)."""

_MESSAGE: Final = frozenset(
    (
        Property.PAYLOAD_FORMAT_INDICATOR,
        Property.MESSAGE_EXPIRY_INTERVAL,
        Property.CONTENT_TYPE,
        Property.RESPONSE_TOPIC,
        Property.CORRELATION_DATA,
        Property.USER_PROPERTY,
    )
)
_PUBLISH: Final = 3
_ANSWER: Final = frozenset((Property.REASON_STRING, Property.USER_PROPERTY))

ALLOWED: Final = {
    WILL: _MESSAGE | {Property.WILL_DELAY_INTERVAL},
    1: frozenset(
        (
            Property.SESSION_EXPIRY_INTERVAL,
            Property.AUTHENTICATION_METHOD,
            Property.AUTHENTICATION_DATA,
            Property.REQUEST_PROBLEM_INFORMATION,
            Property.REQUEST_RESPONSE_INFORMATION,
            Property.RECEIVE_MAXIMUM,
            Property.TOPIC_ALIAS_MAXIMUM,
            Property.USER_PROPERTY,
            Property.MAXIMUM_PACKET_SIZE,
        )
    ),
    2: frozenset(
        (
            Property.SESSION_EXPIRY_INTERVAL,
            Property.ASSIGNED_CLIENT_IDENTIFIER,
            Property.SERVER_KEEP_ALIVE,
            Property.AUTHENTICATION_METHOD,
            Property.AUTHENTICATION_DATA,
            Property.RESPONSE_INFORMATION,
            Property.SERVER_REFERENCE,
            Property.REASON_STRING,
            Property.RECEIVE_MAXIMUM,
            Property.TOPIC_ALIAS_MAXIMUM,
            Property.MAXIMUM_QOS,
            Property.RETAIN_AVAILABLE,
            Property.USER_PROPERTY,
            Property.MAXIMUM_PACKET_SIZE,
            Property.WILDCARD_SUBSCRIPTION_AVAILABLE,
            Property.SUBSCRIPTION_IDENTIFIER_AVAILABLE,
            Property.SHARED_SUBSCRIPTION_AVAILABLE,
        )
    ),
    3: _MESSAGE | {Property.SUBSCRIPTION_IDENTIFIER, Property.TOPIC_ALIAS},
    4: _ANSWER,
    5: _ANSWER,
    6: _ANSWER,
    7: _ANSWER,
    8: frozenset((Property.SUBSCRIPTION_IDENTIFIER, Property.USER_PROPERTY)),
    9: _ANSWER,
    10: frozenset((Property.USER_PROPERTY,)),
    11: _ANSWER,
    14: _ANSWER | {Property.SESSION_EXPIRY_INTERVAL, Property.SERVER_REFERENCE},
    15: _ANSWER | {Property.AUTHENTICATION_METHOD, Property.AUTHENTICATION_DATA},
}


# --- reading and writing ---


def read_properties(data: bytes, offset: int, end: int, where: int) -> Properties:
    """Read the properties in `data[offset:end]` of a packet of type `where`, or of a `WILL`. Raises PacketError."""
    if offset == end:
        return NO_PROPERTIES
    allowed = ALLOWED[where]
    values: dict[str, Any] = {}
    user_properties: list[tuple[str, str]] = []
    identifiers: list[int] = []
    while offset < end:
        code, offset = read_varint(data, offset, end)
        if code not in KINDS:
            raise malformed(f"no property has the identifier {code}")
        if code not in allowed:
            raise protocol_error(f"property {Property(code).name} is not allowed here")
        value, offset = KINDS[Property(code)].read(data, offset, end)
        if code == Property.USER_PROPERTY:
            other, offset = read_text(data, offset, end)
            user_properties.append((value, other))
            continue
        _check(code, value)
        if code == Property.SUBSCRIPTION_IDENTIFIER and (where == _PUBLISH or not identifiers):
            identifiers.append(value)
            continue
        name = _NAMES[Property(code)]
        if name in values or code == Property.SUBSCRIPTION_IDENTIFIER:
            raise protocol_error(f"property {Property(code).name} occurs twice")
        values[name] = value
    return Properties(**values, user_properties=tuple(user_properties), subscription_identifiers=tuple(identifiers))


def _check(code: int, value: Any) -> None:
    if code in _TRUTH_VALUES and value > 1:
        raise protocol_error(f"property {Property(code).name} is neither 0 nor 1")
    if code in _NEVER_ZERO and value == 0:
        raise protocol_error(f"property {Property(code).name} is 0")
    if code == Property.TOPIC_ALIAS and value == 0:
        raise PacketError(TOPIC_ALIAS_INVALID, "topic alias 0")


def write_properties(properties: Properties) -> bytes:
    """Encode properties, without their length, by ascending identifier."""
    if properties is NO_PROPERTIES:
        return b""
    out = bytearray()
    for code, kind in KINDS.items():
        value = getattr(properties, _NAMES[code])
        if value is None:
            continue
        if code == Property.USER_PROPERTY:
            for name, text in value:
                out += write_u8(code) + write_text(name) + write_text(text)
        elif code == Property.SUBSCRIPTION_IDENTIFIER:
            for identifier in value:
                out += write_u8(code) + write_varint(identifier)
        else:
            out += write_u8(code) + kind.write(value)
    return bytes(out)
