"""A message on its arrival: header and annotations are read, all else is checked in outline only (AMQP 1.0 §3.2)."""

from struct import Struct
from typing import Final

from mypy_extensions import mypyc_attr

from artemis_amqp.engine.codec import read_value, skip_value
from artemis_amqp.engine.types import InvalidField, MalformedValue, UInt, ULong
from artemis_amqp.messages.sections import (
    APPLICATION_PROPERTIES,
    DATA,
    FOOTER,
    HEADER,
    LONGEST_DESCRIPTOR,
    MESSAGE_ANNOTATIONS,
    NOT_KEPT,
    PROPERTIES,
    SEQUENCE,
    VALUE,
    find_value,
    items_at,
    section_at,
    skip_items,
)
from artemis_py.core.messages.message import DEFAULT_PRIORITY
from artemis_py.core.routing.duplicates import DUPLICATE_ID

_DUPLICATE_ID: Final = DUPLICATE_ID.encode()

_HEADER_FIELDS: Final = 5
_PROPERTIES_FIELDS: Final = 13
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


def _check_body(code: int, data: bytes, offset: int, end: int) -> int:
    """The offset behind the body section or footer whose value is at `offset`."""
    if code == DATA:
        if offset >= end or data[offset] & 0xEF != 0xA0:
            raise MalformedValue(f"the data section at octet {offset} is not binary")
        return skip_value(data, offset, end, 1)
    if code == VALUE:
        return skip_value(data, offset, end, 1)
    return items_at(0xC0 if code == SEQUENCE else 0xC1, data, offset, end)[2]


def _take_known_header(sections: Sections, payload: bytes, end: int) -> int:
    """Read a header that came before, as a producer writes the same few again and again; 0 for another one."""
    if end <= 5 or not payload.startswith(_HEADER_START):
        return 0
    offset = 5 + payload[4] if payload[3] == 0xC0 else 4
    known = _KNOWN_HEADERS.get(payload[:offset])
    if known is None:
        return 0
    sections.has_header = True
    sections.durable, sections.priority, sections.ttl_ms = known[0], known[1], known[2]
    sections.first_acquirer, sections.delivery_count = known[3], known[4]
    return offset


def _check_order(last: int, code: int, offset: int) -> None:
    """Check that a section may follow another one: each once and in order, bodies of one kind only."""
    if code <= last:
        if code != last or code not in (DATA, SEQUENCE):
            raise MalformedValue(f"the section 0x{code:x} at octet {offset} is repeated or out of order")
    elif DATA <= last < code < FOOTER:
        raise MalformedValue(f"the body section 0x{code:x} at octet {offset} follows one of another kind")


def split_sections(payload: bytes) -> Sections:
    """Take a message apart (AMQP 1.0 §3.2): header and annotations read, all else checked in outline only.

    A message without a body is taken, some clients send it. Raises MalformedValue for a section that is unknown,
    repeated, out of order, or not of its type.

    One loop over the sections, with the usual forms of the body in it: a call for each would cost what reading does.
    """
    sections = Sections()
    end = len(payload)
    offset = _take_known_header(sections, payload, end)
    bare_start = -1
    last = HEADER if offset else 0
    while offset < end:
        if offset + 4 > end:
            raise MalformedValue(f"no message section at octet {offset}")
        if payload[offset] == 0x00 and payload[offset + 1] == 0x53:
            code = payload[offset + 2]
            body = offset + 3
        else:
            code, body = section_at(payload, offset, end)
        if code < HEADER or code > FOOTER:
            raise MalformedValue(f"0x{code:x} at octet {offset} is no message section")
        if code <= last or last >= DATA:
            _check_order(last, code, offset)
        last = code
        if code >= PROPERTIES:
            if bare_start < 0:
                bare_start = offset
            if code == PROPERTIES:
                offset = _check_properties(sections, payload, body, end)
            elif code == APPLICATION_PROPERTIES:
                count, body, stop = items_at(0xC1, payload, body, end)
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
        elif code == HEADER:
            start = offset
            offset = _read_header(sections, payload, body, end)
            _remember_header(sections, payload[start:offset])
        elif code == MESSAGE_ANNOTATIONS:
            offset = _read_annotations(sections, payload, body, end)
        else:
            offset = items_at(0xC1, payload, body, end)[2]
    if bare_start >= 0:
        sections.bare = payload[bare_start:]
    return sections


def leading_size(data: bytes | bytearray) -> int:
    """How many octets of a message stand before its body, given its first octets.

    If they do not tell, how many octets are needed to go on, as a negative number. Only outlines are looked at. Raises
    MalformedValue.
    """
    end = len(data)
    offset = 0
    while True:
        if offset + LONGEST_DESCRIPTOR > end:
            return -(offset + LONGEST_DESCRIPTOR)
        code, body = section_at(bytes(data[offset : offset + LONGEST_DESCRIPTOR]), 0, LONGEST_DESCRIPTOR)
        if code < HEADER or code > FOOTER:
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
    count, offset, stop = items_at(0xC0, data, offset, end)
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
    count, offset, stop = items_at(0xC1, data, offset, end)
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
        # Either the count lies or a key comes twice, which AMQP 1.0 §3.2.10 with §1.6.23 forbids.
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
    value = find_value(data, count, offset, stop, DUPLICATE_ID)
    if value is not None:
        sections.duplicate_id = value


def _check_properties(sections: Sections, data: bytes, offset: int, end: int) -> int:
    """Check the properties' outline and find absolute-expiry-time; the offset behind them."""
    stop = offset + 2 + data[offset + 1] if offset + 3 <= end and data[offset] == 0xC0 else -1
    if offset + 3 <= stop <= end:
        count = data[offset + 2]
        offset += 3
    else:
        count, offset, stop = items_at(0xC0, data, offset, end)
    if count > _PROPERTIES_FIELDS:
        raise MalformedValue(f"properties has {_PROPERTIES_FIELDS} fields, not {count}")
    if count > _EXPIRY_FIELD:
        offset = skip_items(_EXPIRY_FIELD, data, offset, stop)
        if offset >= stop:
            raise MalformedValue("the properties are cut short")
        if data[offset] == 0x83 and offset + 9 <= stop:
            expires_at_ms: int = _I64.unpack_from(data, offset + 1)[0]
            if expires_at_ms > 0:
                sections.expires_at_ms = expires_at_ms
        elif data[offset] != 0x40:
            raise InvalidField("properties.absolute-expiry-time: timestamp expected")
        count -= _EXPIRY_FIELD
    if skip_items(count, data, offset, stop) != stop:
        raise MalformedValue(f"the properties do not end at octet {stop}")
    return stop


def _check_items(count: int, data: bytes, offset: int, stop: int) -> int:
    """`stop`, to which `count` values starting at `offset` must reach: a consumer fails on what does not add up."""
    offset = skip_items(count, data, offset, stop)
    if offset != stop:
        raise MalformedValue(f"{stop - offset} octets are left over before octet {stop}")
    return stop
