"""A message of AMQP 1.0 (part 3, §3.2): what the broker reads of it on arrival, what it writes in front on delivery.

    header | delivery-annotations | message-annotations | properties | application-properties | body | footer
           '---- hop by hop, dropped                    '---- the bare message: its octets are never changed

Arrival reads header and annotations, and looks at no more than the outline of the rest. Delivery writes a new header
and the annotations, whose items are kept as octets:

    annotations_raw = u32 count of keys and values | key | value | key | value ...      (empty if there are none)
"""

from struct import Struct
from typing import Final
from uuid import UUID

from mypy_extensions import mypyc_attr

from artemis_amqp.engine.codec import (
    encode_value,
    read_compound_header,
    read_value,
    skip_value,
    write_compound,
    write_value,
)
from artemis_amqp.engine.performatives import Properties, encode, read_composite
from artemis_amqp.engine.types import (
    Array,
    Byte,
    Decimal32,
    Decimal64,
    Decimal128,
    Described,
    InvalidField,
    MalformedValue,
    Symbol,
    Timestamp,
    UByte,
    UInt,
    ULong,
)
from artemis_amqp.extensions import ADDRESS, DELIVERY_DELAY, DELIVERY_TIME, INGRESS_TIME, ROUTING_TYPE, SEQUENCE_NUMBER
from artemis_py.core.messages.message import DEFAULT_PRIORITY
from artemis_py.core.messages.view import MessageView
from artemis_py.core.routing.duplicates import DUPLICATE_ID

AMENDED: Final = "m."
"""What an AMQP consumer adds to a message of another protocol is a property of the broker's under this and the
annotation's name: as selectors call it."""

NOT_KEPT: Final = (SEQUENCE_NUMBER, ADDRESS, DELIVERY_DELAY)
"""What the broker sets itself, or must not hand on to the next one."""

_DUPLICATE_ID: Final = DUPLICATE_ID.encode()

_HEADER: Final = 0x70
_DELIVERY_ANNOTATIONS: Final = 0x71
_MESSAGE_ANNOTATIONS: Final = 0x72
_PROPERTIES: Final = 0x73
_APPLICATION_PROPERTIES: Final = 0x74
DATA: Final = 0x75
SEQUENCE: Final = 0x76
VALUE: Final = 0x77
FOOTER: Final = 0x78

_SECTION_CODES: Final[dict[str, int]] = {
    "amqp:header:list": _HEADER,
    "amqp:delivery-annotations:map": _DELIVERY_ANNOTATIONS,
    "amqp:message-annotations:map": _MESSAGE_ANNOTATIONS,
    "amqp:properties:list": _PROPERTIES,
    "amqp:application-properties:map": _APPLICATION_PROPERTIES,
    "amqp:data:binary": DATA,
    "amqp:amqp-sequence:list": SEQUENCE,
    "amqp:amqp-value:*": VALUE,
    "amqp:footer:map": FOOTER,
}

_HEADER_FIELDS: Final = 5
_PROPERTIES_FIELDS: Final = 13
TO_FIELD: Final = 2
_EXPIRY_FIELD: Final = 8

_MAX_PRIORITY: Final = 9

_U32: Final = Struct(">I")
_I64: Final = Struct(">q")


# Headers as they came, with what they say: durable, priority, ttl, first-acquirer, delivery-count. A client that
# sends a new ttl each time only makes the cache useless: 256 entries of some 30 octets are all it gets.
_KNOWN_HEADERS: Final[dict[bytes, tuple[bool, int, int, bool, int]]] = {}
_KNOWN_HEADERS_LIMIT: Final = 256
_HEADER_START: Final = b"\x00\x53\x70"


@mypyc_attr(acyclic=True, free_list_len=1)
class Sections:
    """What the broker wants to know of an arriving message. Made by `split_sections`."""

    # Defaults live on the class: an instance costs what differs from them.
    has_header: bool = False
    durable: bool = False
    priority: int = DEFAULT_PRIORITY
    """0 to 9: what is higher counts as 9."""
    ttl_ms: int = -1
    """Milliseconds to live from now; -1: for ever."""
    first_acquirer: bool = False
    delivery_count: int = 0
    annotations: dict[object, object] | None = None
    """The message annotations, decoded; None if the section is missing."""
    annotations_raw: bytes = b""
    """Their octets without those that must not travel on; see the top of the module."""
    expires_at_ms: int = 0
    """The properties' absolute-expiry-time in milliseconds since 1970; 0: none."""
    duplicate_id: object = None
    """What the annotation or, before it, the application property `_AMQ_DUPL_ID` says."""
    bare: bytes = b""
    """From the properties to the end."""


# --- outline ---


def section_at(data: bytes, offset: int, end: int) -> tuple[int, int]:
    """The code of the section at `offset` and the offset of its value."""
    if offset + 4 > end or data[offset] != 0x00:
        raise MalformedValue(f"no message section at octet {offset}")
    if data[offset + 1] == 0x53:
        return data[offset + 2], offset + 3
    descriptor, body = read_value(data, offset + 1, end, 1)
    if type(descriptor) is ULong:
        return int(descriptor), body
    if type(descriptor) is Symbol:
        return _SECTION_CODES.get(descriptor, 0), body
    raise MalformedValue(f"the section at octet {offset} has neither a number nor a name")


def _items_at(kind: int, data: bytes, offset: int, end: int) -> tuple[int, int, int]:
    """Count, start and stop of the list (0xC0) or map (0xC1) at `offset`."""
    if offset >= end:
        raise MalformedValue(f"the value at octet {offset} is cut short")
    code = data[offset]
    if code == 0x45 and kind == 0xC0:
        return 0, offset + 1, offset + 1
    if code == kind:
        # The narrow form, by far the most frequent one, without a call.
        start = offset + 3
        if start > end:
            raise MalformedValue(f"the value at octet {offset} is cut short")
        stop = offset + 2 + data[offset + 1]
        count = data[offset + 2]
        if stop > end or stop < start:
            raise MalformedValue(f"the size at octet {offset + 1} is not that of its content")
    elif code == kind | 0x10:
        count, start, stop = read_compound_header(code, data, offset + 1, end)
    else:
        raise MalformedValue(f"format code 0x{code:02x} at octet {offset} does not fit its section")
    if count > stop - start:
        raise MalformedValue(f"{count} items at octet {start} do not fit into {stop - start} octets")
    if kind == 0xC1 and count & 1:
        raise MalformedValue(f"the map at octet {offset} has a key without a value")
    return count, start, stop


def _check_body(code: int, data: bytes, offset: int, end: int) -> int:
    """The offset behind the body section or footer whose value is at `offset`."""
    if code == DATA:
        if offset >= end or data[offset] & 0xEF != 0xA0:
            raise MalformedValue(f"the data section at octet {offset} is not binary")
        return skip_value(data, offset, end, 1)
    if code == VALUE:
        return skip_value(data, offset, end, 1)
    return _items_at(0xC0 if code == SEQUENCE else 0xC1, data, offset, end)[2]


def split_sections(payload: bytes) -> Sections:
    """Take a message apart (§3.2): header and annotations read, all else checked in outline only.

    A message without a body is taken, some clients send it. Raises MalformedValue for a section that is unknown,
    repeated, out of order, or not of its type.
    """
    sections = Sections()
    end = len(payload)
    offset = 0
    bare_start = -1
    last = 0
    if end > 5 and payload.startswith(_HEADER_START):
        # A producer writes the same few headers again and again.
        offset = 5 + payload[4] if payload[3] == 0xC0 else 4
        known = _KNOWN_HEADERS.get(payload[:offset])
        if known is None:
            offset = 0
        else:
            last = _HEADER
            sections.has_header = True
            sections.durable, sections.priority, sections.ttl_ms = known[0], known[1], known[2]
            sections.first_acquirer, sections.delivery_count = known[3], known[4]
    while offset < end:
        if offset + 4 > end:
            raise MalformedValue(f"no message section at octet {offset}")
        if payload[offset] == 0x00 and payload[offset + 1] == 0x53:
            code = payload[offset + 2]
            body = offset + 3
        else:
            code, body = section_at(payload, offset, end)
        if code < _HEADER or code > FOOTER:
            raise MalformedValue(f"0x{code:x} at octet {offset} is no message section")
        if code <= last:
            if code != last or code not in (DATA, SEQUENCE):
                raise MalformedValue(f"the section 0x{code:x} at octet {offset} is repeated or out of order")
        elif DATA <= last < code < FOOTER:
            raise MalformedValue(f"the body section 0x{code:x} at octet {offset} follows one of another kind")
        last = code
        if code >= _PROPERTIES:
            if bare_start < 0:
                bare_start = offset
            if code == _PROPERTIES:
                offset = _check_properties(sections, payload, body, end)
            elif code == _APPLICATION_PROPERTIES:
                count, body, stop = _items_at(0xC1, payload, body, end)
                offset = _check_items(count, payload, body, stop)
                # A search in C is all that it costs the messages without.
                if payload.find(_DUPLICATE_ID, body, stop) >= 0:
                    _find_duplicate_id(sections, count, payload, body, stop)
            elif code == DATA and body + 1 < end and payload[body] == 0xA0:
                offset = body + 2 + payload[body + 1]
                if offset > end:
                    raise MalformedValue(f"the data section at octet {body} is cut short")
            else:
                offset = _check_body(code, payload, body, end)
        elif code == _HEADER:
            start = offset
            offset = _read_header(sections, payload, body, end)
            _remember_header(sections, payload[start:offset])
        elif code == _MESSAGE_ANNOTATIONS:
            offset = _read_annotations(sections, payload, body, end)
        else:
            offset = _items_at(0xC1, payload, body, end)[2]
    if bare_start >= 0:
        sections.bare = payload[bare_start:]
    return sections


# The longest name of a section takes 31 octets and three more around it.
_LONGEST_DESCRIPTOR: Final = 34


def leading_size(data: bytes | bytearray) -> int:
    """How many octets of a message stand before its body, given its first octets.

    If they do not tell, how many octets are needed to go on, as a negative number. Only outlines are looked at. Raises
    MalformedValue.
    """
    end = len(data)
    offset = 0
    while True:
        if offset + _LONGEST_DESCRIPTOR > end:
            return -(offset + _LONGEST_DESCRIPTOR)
        code, body = section_at(bytes(data[offset : offset + _LONGEST_DESCRIPTOR]), 0, _LONGEST_DESCRIPTOR)
        if code < _HEADER or code > FOOTER:
            raise MalformedValue(f"0x{code:x} at octet {offset} is no message section")
        if code >= DATA:
            return offset
        offset += body
        if offset + 5 > end:
            return -(offset + 5)
        constructor = data[offset]
        if constructor == 0x45:
            offset += 1
        elif constructor == 0xC0 or constructor == 0xC1:
            offset += 2 + data[offset + 1]
        elif constructor == 0xD0 or constructor == 0xD1:
            offset += 5 + int.from_bytes(data[offset + 1 : offset + 5], "big")
        else:
            raise MalformedValue(f"format code 0x{constructor:02x} at octet {offset} does not fit its section")


def _remember_header(sections: Sections, octets: bytes) -> None:
    """Know this header the next time. Only the narrow form: nobody sends the wide one for five fields."""
    if len(_KNOWN_HEADERS) >= _KNOWN_HEADERS_LIMIT:
        _KNOWN_HEADERS.clear()
    _KNOWN_HEADERS[octets] = (
        sections.durable,
        sections.priority,
        sections.ttl_ms,
        sections.first_acquirer,
        sections.delivery_count,
    )


def _read_header(sections: Sections, data: bytes, offset: int, end: int) -> int:
    """Read the header's list; the offset behind it."""
    sections.has_header = True
    count, offset, stop = _items_at(0xC0, data, offset, end)
    if count > _HEADER_FIELDS:
        raise MalformedValue(f"header has {_HEADER_FIELDS} fields, not {count}")
    for index in range(count):
        if offset >= stop:
            raise MalformedValue("the header is cut short")
        code = data[offset]
        if code == 0x40:
            offset += 1
        elif index == 0 or index == 3:
            flag, offset = _read_flag(code, data, offset, stop)
            if index == 0:
                sections.durable = flag
            else:
                sections.first_acquirer = flag
        elif index == 1:
            if code != 0x50:
                raise InvalidField("header.priority: ubyte expected")
            if offset + 2 > stop:
                raise MalformedValue("the header is cut short")
            sections.priority = min(data[offset + 1], _MAX_PRIORITY)
            offset += 2
        else:
            number, offset = read_value(data, offset, stop, 2)
            if not isinstance(number, UInt):
                raise InvalidField("header.ttl and header.delivery-count: uint expected")
            if index == 2:
                sections.ttl_ms = int(number)
            else:
                sections.delivery_count = int(number)
    if offset != stop:
        raise MalformedValue(f"{stop - offset} octets are left over in the header")
    return stop


def _read_flag(code: int, data: bytes, offset: int, end: int) -> tuple[bool, int]:
    if code == 0x41:
        return True, offset + 1
    if code == 0x42:
        return False, offset + 1
    value, offset = read_value(data, offset, end, 2)
    if value is True or value is False:
        return value is True, offset
    raise InvalidField("header.durable and header.first-acquirer: boolean expected")


def _read_annotations(sections: Sections, data: bytes, offset: int, end: int) -> int:
    """Read the message annotations' map and keep its octets; the offset behind it."""
    count, offset, stop = _items_at(0xC1, data, offset, end)
    start = offset
    items: dict[object, object] = {}
    kept = bytearray()
    kept_from = start
    dropped = 0
    while offset < stop:
        key_offset = offset
        key, offset = read_value(data, offset, stop, 2)
        value, offset = read_value(data, offset, stop, 2)
        if not isinstance(key, (str, ULong)):
            raise InvalidField(f"an annotation's key is a symbol, not {type(key).__name__}")
        items[key] = value
        if key in NOT_KEPT:
            kept += data[kept_from:key_offset]
            kept_from = offset
            dropped += 1
    if 2 * len(items) != count:
        # Either the count lies or a key comes twice, which §3.2.10 with §1.6.23 forbids.
        raise MalformedValue(f"{count} keys and values are announced, {len(items)} annotations found")
    sections.annotations = items
    if data.find(_DUPLICATE_ID, start, stop) >= 0:
        sections.duplicate_id = items.get(DUPLICATE_ID)
    kept += data[kept_from:stop]
    if kept:
        sections.annotations_raw = _U32.pack(count - 2 * dropped) + kept
    return stop


def _find_duplicate_id(sections: Sections, count: int, data: bytes, offset: int, stop: int) -> None:
    """The octets of its name are in the application properties: perhaps as a key."""
    value = _find_value(data, count, offset, stop, DUPLICATE_ID)
    if value is not None:
        sections.duplicate_id = value


def _check_properties(sections: Sections, data: bytes, offset: int, end: int) -> int:
    """Check the properties' outline and find absolute-expiry-time; the offset behind them."""
    stop = offset + 2 + data[offset + 1] if offset + 3 <= end and data[offset] == 0xC0 else -1
    if offset + 3 <= stop <= end:
        count = data[offset + 2]
        offset += 3
    else:
        count, offset, stop = _items_at(0xC0, data, offset, end)
    if count > _PROPERTIES_FIELDS:
        raise MalformedValue(f"properties has {_PROPERTIES_FIELDS} fields, not {count}")
    if count > _EXPIRY_FIELD:
        offset = _skip_items(_EXPIRY_FIELD, data, offset, stop)
        if offset >= stop:
            raise MalformedValue("the properties are cut short")
        if data[offset] == 0x83 and offset + 9 <= stop:
            expires_at_ms: int = _I64.unpack_from(data, offset + 1)[0]
            if expires_at_ms > 0:
                sections.expires_at_ms = expires_at_ms
        elif data[offset] != 0x40:
            raise InvalidField("properties.absolute-expiry-time: timestamp expected")
        count -= _EXPIRY_FIELD
    if _skip_items(count, data, offset, stop) != stop:
        raise MalformedValue(f"the properties do not end at octet {stop}")
    return stop


def _check_items(count: int, data: bytes, offset: int, stop: int) -> int:
    """`stop`, to which `count` values starting at `offset` must reach: a consumer fails on what does not add up."""
    offset = _skip_items(count, data, offset, stop)
    if offset != stop:
        raise MalformedValue(f"{stop - offset} octets are left over before octet {stop}")
    return stop


def _skip_items(count: int, data: bytes, offset: int, stop: int) -> int:
    """The offset behind `count` values. JMS clients send long properties: what they consist of takes no call."""
    for _ in range(count):
        if offset >= stop:
            raise MalformedValue("a list or map is cut short")
        code = data[offset]
        if code == 0x40:
            offset += 1
        elif (code == 0xA1 or code == 0xA3 or code == 0xA0) and offset + 1 < stop:
            offset += 2 + data[offset + 1]
        else:
            offset = skip_value(data, offset, stop, 2)
    if offset > stop:
        raise MalformedValue("a list or map is cut short")
    return offset


# --- parts of a bare message ---


def _find_section(bare: bytes, wanted: int) -> int:
    """The offset of the value of section `wanted`, -1 if there is none. Not for body sections."""
    end = len(bare)
    offset = 0
    while offset < end:
        code, body = section_at(bare, offset, end)
        if code < _PROPERTIES:
            raise MalformedValue(f"0x{code:x} at octet {offset} is no section of a bare message")
        if code == wanted:
            return body
        if code > wanted:
            return -1
        offset = skip_value(bare, body, end, 1)
    return -1


def read_property(bare: bytes, index: int) -> object:
    """Field `index` of the properties section, None if it is not there. Raises MalformedValue."""
    offset = _find_section(bare, _PROPERTIES)
    if offset < 0:
        return None
    count, offset, stop = _items_at(0xC0, bare, offset, len(bare))
    if index >= count:
        return None
    return read_value(bare, _skip_items(index, bare, offset, stop), stop, 2)[0]


def read_to(bare: bytes) -> str | None:
    """The properties' `to`. Raises MalformedValue, InvalidField for an address that is no string."""
    to = read_property(bare, TO_FIELD)
    if to is None or type(to) is str:
        return to
    raise InvalidField("properties.to: string expected")


def read_properties(bare: bytes) -> Properties:
    """The properties section, all defaults if there is none. Raises MalformedValue."""
    body = _find_section(bare, _PROPERTIES)
    if body < 0:
        return Properties()
    properties, _ = read_composite(bare, 0, len(bare))
    assert isinstance(properties, Properties)
    return properties


def read_application_properties(bare: bytes) -> dict[object, object]:
    """The application properties as they are on the wire, empty if there are none. Raises MalformedValue."""
    offset = _find_section(bare, _APPLICATION_PROPERTIES)
    if offset < 0:
        return {}
    return _read_map(bare, offset, len(bare))


def _read_map(data: bytes, offset: int, end: int) -> dict[object, object]:
    _items_at(0xC1, data, offset, end)
    value, _ = read_value(data, offset, end, 1)
    assert isinstance(value, dict)
    return value


def read_application_property(bare: bytes, name: str) -> object:
    """One application property, None if it is not there; decodes no other. Raises MalformedValue."""
    offset = _find_section(bare, _APPLICATION_PROPERTIES)
    if offset < 0:
        return None
    count, offset, stop = _items_at(0xC1, bare, offset, len(bare))
    return _find_value(bare, count, offset, stop, name)


def read_annotation(annotations_raw: bytes, name: str) -> object:
    """One message annotation, None if it is not there; decodes no other. Raises MalformedValue."""
    if not annotations_raw:
        return None
    return _find_value(annotations_raw, _raw_count(annotations_raw), 4, len(annotations_raw), name)


def _raw_count(annotations_raw: bytes) -> int:
    if len(annotations_raw) < 4:
        raise MalformedValue("the kept annotations are cut short")
    count: int = _U32.unpack_from(annotations_raw, 0)[0]
    if count & 1 or count > len(annotations_raw) - 4:
        raise MalformedValue("the count of the kept annotations is wrong")
    return count


def _find_value(data: bytes, count: int, offset: int, stop: int, name: str) -> object:
    """The value under the string or symbol `name` among the keys and values from `offset` to `stop`."""
    wanted = name.encode(errors="replace")
    # Most names that a selector asks for are in no or in every message: a search in C settles the first case.
    if data.find(wanted, offset, stop) < 0:
        return None
    for _ in range(count >> 1):
        value_offset = _skip_items(1, data, offset, stop)
        # Never a negative index: compiled, such a slice of bytes fails.
        if value_offset - len(wanted) >= offset and data[value_offset - len(wanted) : value_offset] == wanted:
            key, _ = read_value(data, offset, stop, 2)
            if key == name:
                return read_value(data, value_offset, stop, 2)[0]
        offset = _skip_items(1, data, value_offset, stop)
    return None


# --- delivery ---


def _encode_header(durable: bool, priority: int, ttl_ms: int, first_acquirer: bool, delivery_count: int) -> bytes:
    fields: list[object] = [
        True if durable else None,
        None if priority == DEFAULT_PRIORITY else UByte(priority),
        UInt(min(ttl_ms, 0xFFFFFFFF)) if ttl_ms >= 0 else None,
        True if first_acquirer else None,
        UInt(delivery_count) if delivery_count > 0 else None,
    ]
    while fields and fields[-1] is None:
        fields.pop()
    return b"\x00\x53\x70" + encode_value(fields)


# Without ttl and earlier attempts a header is one of these 40: priority, then first-acquirer, then durable.
_HEADERS: Final = [_encode_header(index >= 20, index % 10, -1, index // 10 % 2 == 1, 0) for index in range(40)]


def header_bytes(durable: bool, priority: int, ttl_ms: int, first_acquirer: bool, delivery_count: int) -> bytes:
    """The header section of a delivery. `priority` 0 to 9; `ttl_ms` what is left of it, -1 for ever.

    `delivery_count` is the number of earlier attempts: 0 on the first delivery.
    """
    if ttl_ms < 0 and delivery_count == 0:
        return _HEADERS[priority + (10 if first_acquirer else 0) + (20 if durable else 0)]
    return _encode_header(durable, priority, ttl_ms, first_acquirer, delivery_count)


_ANNOTATIONS_DESCRIPTOR: Final = b"\x00\x53\x72"
_SEQUENCE_KEY: Final = encode_value(SEQUENCE_NUMBER) + b"\x81"
_SEQUENCE_SIZE: Final = len(_SEQUENCE_KEY) + 8
_ONLY_SEQUENCE: Final = _ANNOTATIONS_DESCRIPTOR + bytes((0xC1, 1 + _SEQUENCE_SIZE, 2)) + _SEQUENCE_KEY

# The broker's own names that do not follow the rule _AMQ_FOO_BAR -> x-opt-FOO-BAR.
_ANNOTATION_NAMES: Final[dict[str, str]] = {
    "_AMQ_INGRESS_TIMESTAMP": INGRESS_TIME,
    "_AMQ_ROUTING_TYPE": ROUTING_TYPE,
    "_AMQ_SCHED_DELIVERY": DELIVERY_TIME,
}
# Artemis' clients expect these as a byte.
_BYTE_ANNOTATIONS: Final = ("_AMQ_ROUTING_TYPE", "_AMQ_ORIG_ROUTING_TYPE")


def annotation_name(name: str) -> str | None:
    """What AMQP clients call the broker's property `name`; None for what is not shown to them."""
    known = _ANNOTATION_NAMES.get(name)
    if known is not None:
        return known
    if name.startswith("_AMQ_"):
        return "x-opt-" + name[5:].replace("_", "-")
    if name.startswith("x-opt-"):
        return name
    if name.startswith(AMENDED):
        return name[len(AMENDED) :]
    return None


def annotations_bytes(annotations_raw: bytes, sequence: int, extra: dict[str, object] | None) -> bytes:
    """The message annotations section of a delivery: what came in, the position in the queue, what the broker added.

    `extra` has the broker's names; those that AMQP has no word for stay here, the others replace what came in.
    """
    if not annotations_raw and not extra:
        return _ONLY_SEQUENCE + _I64.pack(sequence)
    added = _extra_annotations(extra) if extra else {}
    count = 2
    content = bytearray(_SEQUENCE_KEY)
    content += _I64.pack(sequence)
    if annotations_raw:
        raw = _without(annotations_raw, added) if added else annotations_raw
        count += _raw_count(raw)
        content += raw[4:]
    for key, value in added.items():
        write_value(content, Symbol(key))
        write_value(content, value)
        count += 2
    out = bytearray(_ANNOTATIONS_DESCRIPTOR)
    write_compound(out, 0xC1, count, content)
    return bytes(out)


def _extra_annotations(extra: dict[str, object]) -> dict[str, object]:
    result: dict[str, object] = {}
    for name, value in extra.items():
        key = annotation_name(name)
        if key is not None and key != SEQUENCE_NUMBER and key.isascii():
            if name in _BYTE_ANNOTATIONS and isinstance(value, int):
                result[key] = Byte(int(value))
            else:
                result[key] = value
    return result


def merge_annotations(annotations_raw: bytes, added: dict[str, object]) -> bytes:
    """Kept annotations with others in addition, or in place of those of the same name."""
    raw = _without(annotations_raw, added) if annotations_raw else b""
    content = bytearray(raw[4:])
    count = _raw_count(raw) if raw else 0
    for key, value in added.items():
        if key not in NOT_KEPT:
            write_value(content, Symbol(key))
            write_value(content, value)
            count += 2
    return _U32.pack(count) + bytes(content) if count else b""


def _without(annotations_raw: bytes, names: dict[str, object]) -> bytes:
    """Kept annotations but those of `names`."""
    count = _raw_count(annotations_raw)
    end = len(annotations_raw)
    offset = 4
    kept = bytearray()
    left = 0
    for _ in range(count >> 1):
        key, value_offset = read_value(annotations_raw, offset, end, 2)
        stop = skip_value(annotations_raw, value_offset, end, 2)
        if not isinstance(key, str) or str(key) not in names:
            kept += annotations_raw[offset:stop]
            left += 2
        offset = stop
    return _U32.pack(left) + bytes(kept)


# --- the neutral view ---


def plain(value: object) -> object:
    """`value` as the Python value that other protocols and selectors work with: no AMQP class is left in it.

    Whole numbers and timestamps become int, decimals float, symbols and characters str, an array a list; of a
    described value its value stays.
    """
    kind = type(value)
    if value is None or kind is str or kind is int or kind is bool or kind is bytes or kind is float:
        return value
    if isinstance(value, int):
        return int(value)
    if isinstance(value, str):
        return str(value)
    if isinstance(value, float):
        return float(value)
    if isinstance(value, (Decimal32, Decimal64, Decimal128)):
        return float(value.to_decimal())
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, dict):
        return {_plain_key(key): plain(item) for key, item in value.items()}
    if isinstance(value, Array):
        return [plain(item) for item in value.items]
    if isinstance(value, Described):
        return plain(value.value)
    return value


def _plain_key(key: object) -> object:
    """A map key stays hashable: lists within it are tuples."""
    result = plain(key)
    return _frozen(result) if isinstance(result, list) else result


def _frozen(items: list[object]) -> tuple[object, ...]:
    return tuple([_frozen(item) if isinstance(item, list) else item for item in items])


def _plain_map(items: dict[object, object]) -> dict[str, object]:
    return {str(key): plain(value) for key, value in items.items()}


def to_view(annotations_raw: bytes, bare: bytes) -> MessageView:
    """The whole message in no protocol's words. Raises MalformedValue.

    The body is the octets of all data sections, the amqp-value, or the items of all sequences as one list. A footer
    has no place in it.
    """
    view = MessageView()
    if annotations_raw:
        count = _raw_count(annotations_raw)
        offset = 4
        for _ in range(count >> 1):
            key, offset = read_value(annotations_raw, offset, len(annotations_raw), 2)
            value, offset = read_value(annotations_raw, offset, len(annotations_raw), 2)
            view.annotations[str(key)] = plain(value)
    data: list[bytes] = []
    items: list[object] = []
    end = len(bare)
    offset = 0
    while offset < end:
        code, body = section_at(bare, offset, end)
        if code == _PROPERTIES:
            properties, _ = read_composite(bare, offset, end)
            assert isinstance(properties, Properties)
            _view_properties(view, properties)
        elif code == _APPLICATION_PROPERTIES:
            view.properties = _plain_map(_read_map(bare, body, end))
        elif code != FOOTER:
            value, _ = read_value(bare, body, end, 1)
            if code == DATA and isinstance(value, bytes):
                data.append(value)
                view.body = value
            elif code == SEQUENCE and isinstance(value, list):
                items += value
                view.body = items
            elif code == VALUE:
                view.body = plain(value)
            else:
                raise MalformedValue(f"0x{code:x} at octet {offset} is no body section, or not of its type")
        offset = skip_value(bare, body, end, 1)
    if len(data) > 1:
        view.body = b"".join(data)
    elif view.body is items:
        view.body = plain(items)
    return view


def _view_properties(view: MessageView, properties: Properties) -> None:
    view.message_id = plain(properties.message_id)
    view.correlation_id = plain(properties.correlation_id)
    view.user_id = properties.user_id
    view.to = properties.to
    view.subject = properties.subject
    view.reply_to = properties.reply_to
    if properties.content_type is not None:
        view.content_type = str(properties.content_type)
    if properties.content_encoding is not None:
        view.content_encoding = str(properties.content_encoding)
    if properties.creation_time is not None:
        view.creation_time_ms = int(properties.creation_time)
    view.group_id = properties.group_id
    if properties.group_sequence is not None:
        view.group_sequence = int(properties.group_sequence)
    view.reply_to_group_id = properties.reply_to_group_id


def from_view(view: MessageView) -> tuple[bytes, bytes]:
    """Kept annotations and bare message for AMQP clients of a message that another protocol brought.

    Octets become a data section, anything else an amqp-value. AMQP has no room for three things, which are left
    out: non-ASCII text in content-type, content-encoding and annotation names, properties that are maps or lists, and
    integers beyond 64 bits. Raises TypeError or ValueError for a body that no AMQP value can carry.
    """
    content = bytearray()
    count = 0
    for name, value in view.annotations.items():
        if name.isascii() and name not in NOT_KEPT:
            write_value(content, Symbol(name))
            write_value(content, value)
            count += 2
    annotations_raw = _U32.pack(count) + bytes(content) if count else b""
    bare = bytearray()
    properties = _properties_of(view)
    if properties != Properties():
        bare += encode(properties)
    content = bytearray()
    count = 0
    for name, value in view.properties.items():
        if _is_simple(value):
            write_value(content, name)
            write_value(content, value)
            count += 2
    if count:
        bare += b"\x00\x53\x74"
        write_compound(bare, 0xC1, count, content)
    bare += b"\x00\x53\x75" if isinstance(view.body, bytes) else b"\x00\x53\x77"
    write_value(bare, view.body)
    return annotations_raw, bytes(bare)


def _properties_of(view: MessageView) -> Properties:
    return Properties(
        message_id=_id_of(view.message_id),
        user_id=view.user_id,
        to=view.to,
        subject=view.subject,
        reply_to=view.reply_to,
        correlation_id=_id_of(view.correlation_id),
        content_type=_ascii(view.content_type),
        content_encoding=_ascii(view.content_encoding),
        creation_time=None if view.creation_time_ms is None else Timestamp(view.creation_time_ms),
        group_id=view.group_id,
        # Other protocols number the messages of a group with signed integers.
        group_sequence=None if view.group_sequence is None else view.group_sequence & 0xFFFFFFFF,
        reply_to_group_id=view.reply_to_group_id,
    )


def _id_of(value: object) -> object:
    """A message or correlation id: a number becomes a ulong if it can, what has no AMQP type its text."""
    if value is None or isinstance(value, (str, bytes, UUID)):
        return value
    if isinstance(value, int) and 0 <= value < 2**64:
        return ULong(value)
    return str(value)


def _ascii(value: str | None) -> str | None:
    return value if value is not None and value.isascii() else None


def _is_simple(value: object) -> bool:
    """Whether an application property may have this value (§3.2.5)."""
    if type(value) is int:
        return -(2**63) <= value < 2**63
    return value is None or type(value) in (str, bool, float, bytes, UUID)
