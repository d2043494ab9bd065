"""The data types of MQTT (MQTT 5.0 §1.5) and the fixed header (MQTT 5.0 §2.1): bytes to values and back.

    fixed header   | type 4 bits, flags 4 bits | Remaining Length: 1 to 4 bytes, 7 bits each, low first |
    text, binary   | length: 2 bytes | that many octets |

Readers take (data, offset, end) and return the value and the next offset; what does not fit before `end` is malformed.
The same types serve every version. Compiled: plain functions, no state.
"""

from struct import Struct
from typing import Final

from artemis_mqtt.engine.reasons import malformed

MAX_VARINT: Final = 268_435_455
MAX_FIELD_BYTES: Final = 65535
"""Octets of a text or binary field."""

_U16: Final = Struct(">H")
_U32: Final = Struct(">I")

ONE_BYTE: Final = [bytes((value,)) for value in range(256)]
"""Fixed headers and packet identifiers are put together from these: looking them up is faster than packing."""


# The same for packet identifiers, by their first octet, made when first used: most clients need few of them.
_IDENTIFIERS: Final[list[list[bytes]]] = [[] for _ in range(256)]


# -- reading ---------------------------------------------------------------------------------------------------


def read_u8(data: bytes, offset: int, end: int) -> tuple[int, int]:
    """Read one byte (MQTT 5.0 §1.5.1)."""
    if offset >= end:
        raise malformed("the packet ends within a field")
    return data[offset], offset + 1


def read_u16(data: bytes, offset: int, end: int) -> tuple[int, int]:
    """Read a Two Byte Integer (MQTT 5.0 §1.5.2)."""
    if offset + 2 > end:
        raise malformed("the packet ends within a field")
    return data[offset] << 8 | data[offset + 1], offset + 2


def read_u32(data: bytes, offset: int, end: int) -> tuple[int, int]:
    """Read a Four Byte Integer (MQTT 5.0 §1.5.3)."""
    if offset + 4 > end:
        raise malformed("the packet ends within a field")
    high = data[offset] << 24 | data[offset + 1] << 16
    return high | data[offset + 2] << 8 | data[offset + 3], offset + 4


def read_varint(data: bytes, offset: int, end: int) -> tuple[int, int]:
    """Read a Variable Byte Integer (MQTT 5.0 §1.5.5), in its shortest form only [MQTT-1.5.5-1]."""
    value = 0
    shift = 0
    while True:
        if offset >= end:
            raise malformed("the packet ends within a field")
        byte = data[offset]
        offset += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            if byte == 0 and shift:
                raise malformed("a variable byte integer is longer than it has to be")
            return value, offset
        shift += 7
        if shift > 21:
            raise malformed("a variable byte integer has more than four bytes")


def read_binary(data: bytes, offset: int, end: int) -> tuple[bytes, int]:
    """Read Binary Data (MQTT 5.0 §1.5.6)."""
    if offset + 2 > end:
        raise malformed("the packet ends within a field")
    start = offset + 2
    stop = start + (data[offset] << 8 | data[offset + 1])
    if stop > end:
        raise malformed("a field is longer than what is left of its packet")
    return data[start:stop], stop


def read_text(data: bytes, offset: int, end: int) -> tuple[str, int]:
    """Read a UTF-8 Encoded String (MQTT 5.0 §1.5.4)."""
    raw, offset = read_binary(data, offset, end)
    return decode_text(raw), offset


def decode_text(raw: bytes) -> str:
    """Decode a string field: well-formed UTF-8 without surrogates [MQTT-1.5.4-1] and U+0000 [MQTT-1.5.4-2].

    A byte order mark is a character like any other [MQTT-1.5.4-3]. Control characters and noncharacters, of which the
    standard only says that they should not be sent, are let through as Artemis does.
    """
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError:
        raise malformed("a text is not well-formed UTF-8") from None
    if "\0" in text:
        raise malformed("a text has the character U+0000")
    return text


def check_text(data: bytes, offset: int, end: int) -> int:
    """Return where a valid text field ends; its value is left alone."""
    raw, offset = read_binary(data, offset, end)
    if b"\0" in raw or not raw.isascii():
        decode_text(raw)
    return offset


# -- writing ---------------------------------------------------------------------------------------------------


def write_u8(value: int) -> bytes:
    """Encode one byte."""
    return ONE_BYTE[value]


def write_u16(value: int) -> bytes:
    """Encode a Two Byte Integer."""
    return ONE_BYTE[value >> 8] + ONE_BYTE[value & 0xFF]


def write_packet_id(packet_id: int) -> bytes:
    """Return the two octets of a packet identifier, which nearly always exist already."""
    made = _IDENTIFIERS[packet_id >> 8]
    if not made:
        first = ONE_BYTE[packet_id >> 8]
        made += [first + second for second in ONE_BYTE]
    return made[packet_id & 0xFF]


def write_packet_ids(first: int, count: int) -> list[bytes]:
    """Return consecutive packet identifiers from `first` on, as `write_packet_id`; none of them is above 65535."""
    write_packet_id(first)
    low = first & 0xFF
    found = _IDENTIFIERS[first >> 8][low : low + count]
    while len(found) < count:
        following = first + len(found)
        write_packet_id(following)
        found += _IDENTIFIERS[following >> 8][: count - len(found)]
    return found


def write_u32(value: int) -> bytes:
    """Encode a Four Byte Integer."""
    return _U32.pack(value)


def write_varint(value: int) -> bytes:
    """Encode a Variable Byte Integer in its shortest form; at most `MAX_VARINT`."""
    if value < 0x80:
        return ONE_BYTE[value]
    if value < 0x4000:
        return ONE_BYTE[value & 0x7F | 0x80] + ONE_BYTE[value >> 7]
    assert value <= MAX_VARINT
    encoded = bytearray()
    while value >= 0x80:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def write_binary(value: bytes) -> bytes:
    """Encode Binary Data; at most `MAX_FIELD_BYTES`."""
    return _U16.pack(len(value)) + value


def write_text(value: str) -> bytes:
    """Encode a UTF-8 Encoded String; at most `MAX_FIELD_BYTES` octets."""
    return write_binary(value.encode("utf-8"))


def with_header(first_byte: int, body: bytes) -> bytes:
    """Put a packet together: fixed header and the rest."""
    return ONE_BYTE[first_byte] + write_varint(len(body)) + body
