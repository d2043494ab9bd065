"""Parser for an arriving message: header and annotations are read, the rest is only checked (AMQP 1.0 §3.2)."""

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
from artemis_py.wire.integers import read_u32

_DUPLICATE_ID: Final = DUPLICATE_ID.encode()

_HEADER_FIELDS: Final = 5
_PROPERTIES_FIELDS: Final = 13
_EXPIRY_FIELD: Final = 8
_GROUP_FIELD: Final = 10

_MAX_PRIORITY: Final = 9

_U32: Final = Struct(">I")
_I64: Final = Struct(">q")


@mypyc_attr(acyclic=True)
class _Header:
    """A header section and its fields. Not a tuple: compiled, each look-up would make new numbers of them."""

    def __init__(self, octets: bytes, sections: "Sections") -> None:
        self.octets: bytes = octets
        self.durable: bool = sections.durable
        self.priority: int = sections.priority
        self.ttl_ms: int = sections.ttl_ms
        self.first_acquirer: bool = sections.first_acquirer
        self.delivery_count: int = sections.delivery_count


class _Last:
    """The header of the message before: most messages have the same."""

    def __init__(self) -> None:
        self.header: _Header | None = None


_LAST: Final = _Last()

# Headers by their octets. A client that sends a new ttl each time only makes the cache useless: it never exceeds 256
# entries of some 100 octets.
_KNOWN_HEADERS: Final[dict[bytes, _Header]] = {}
_KNOWN_HEADERS_LIMIT: Final = 256
_HEADER_START: Final = b"\x00\x53\x70"


@mypyc_attr(acyclic=True, free_list_len=1)
class Sections:
    """Fields of an arriving message that the broker needs. Created by `split_sections`."""

    # Defaults live on the class: an instance stores only what differs from them.
    has_header: bool = False
    durable: bool = False
    priority: int = DEFAULT_PRIORITY
    """Priority from 0 to 9; a higher one counts as 9."""
    ttl_ms: int = -1
    """Milliseconds to live from now; -1: for ever."""
    first_acquirer: bool = False
    delivery_count: int = 0
    annotations: dict[object, object] | None = None
    """The message annotations, decoded; None if the section is missing."""
    annotations_raw: bytes = b""
    """Octets of the annotations, without those in `NOT_KEPT`; `sections` describes the format."""
    expires_at_ms: int = 0
    """Absolute-expiry-time of the properties, in milliseconds since 1970; 0: none."""
    has_group: bool = False
    """Whether the properties may have a group-id: clients leave out empty fields at the end."""
    duplicate_id: object = None
    """Value of the application property `_AMQ_DUPL_ID` or, without it, of the annotation of that name."""
    bare: bytes = b""
    """The bare message: octets from the properties to the end."""


def _check_body(code: int, data: bytes, offset: int, end: int) -> int:
    """Check the body section or footer whose value is at `offset`; return the offset behind it."""
    if code == DATA:
        if offset >= end or data[offset] & 0xEF != 0xA0:
            raise MalformedValue(f"the data section at octet {offset} is not binary")
        return skip_value(data, offset, end, 1)
    if code == VALUE:
        return skip_value(data, offset, end, 1)
    return items_at(0xC0 if code == SEQUENCE else 0xC1, data, offset, end)[2]


def _take_known_header(sections: Sections, data: bytes, offset: int, end: int) -> int:
    """Read a header from the cache, because producers repeat a few; return the offset behind it, the same if it is new.

    Octets behind the end may be compared, too: a header counts only if it ends there at the latest.
    """
    known = _LAST.header
    if known is None or data[offset : offset + len(known.octets)] != known.octets:
        if end - offset <= 5 or data[offset : offset + 3] != _HEADER_START:
            return offset
        known = _KNOWN_HEADERS.get(data[offset : offset + (5 + data[offset + 4] if data[offset + 3] == 0xC0 else 4)])
        if known is None:
            return offset
        _LAST.header = known
    if offset + len(known.octets) > end:
        return offset
    sections.has_header = True
    sections.durable = known.durable
    sections.priority = known.priority
    sections.ttl_ms = known.ttl_ms
    sections.first_acquirer = known.first_acquirer
    sections.delivery_count = known.delivery_count
    return offset + len(known.octets)


def _check_order(last: int, code: int, offset: int) -> None:
    """Check that a section may follow another one: each once and in order, body sections of one kind only."""
    if code <= last:
        if code != last or code not in (DATA, SEQUENCE):
            raise MalformedValue(f"the section 0x{code:x} at octet {offset} is repeated or out of order")
    elif DATA <= last < code < FOOTER:
        raise MalformedValue(f"the body section 0x{code:x} at octet {offset} follows one of another kind")


def split_sections(payload: bytes) -> Sections:
    """Split a message into sections (AMQP 1.0 §3.2): read header and annotations, check only the outline of the rest.

    A message without a body is accepted, because some clients send it. Raises MalformedValue for a section that is
    unknown, repeated, out of order, or not of its type.
    """
    return _split(payload, 0, len(payload))


def split_sections_at(data: bytes, start: int, end: int) -> Sections:
    """Split the message that is at `start` in `data` and ends before `end`, as `split_sections` does."""
    try:
        return _split(data, start, end)
    except (MalformedValue, InvalidField):
        # Offsets in the text are those in the message.
        return split_sections(data[start:end])


def _split(payload: bytes, start: int, end: int) -> Sections:
    """Do it. Long because the usual forms of the body are read in the loop: a call for each would cost as much."""
    sections = Sections()
    offset = _take_known_header(sections, payload, start, end)
    bare_start = -1
    last = HEADER if offset > start else 0
    while offset < end:
        if offset + 4 > end:
            raise MalformedValue(f"no message section at octet {offset}")
        if payload[offset] == 0x00 and payload[offset + 1] == 0x53:
            code = payload[offset + 2]
            body = offset + 3
        else:
            code, body = section_at(payload, offset, end)
        if code < HEADER or code > FOOTER:
            raise MalformedValue(f"0x{code:x} at octet {offset} is not a message section")
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
                # Messages without the property cost no more than this search, which is in C.
                if payload.find(_DUPLICATE_ID, body, stop) >= 0:
                    _find_duplicate_id(sections, count, payload, body, stop)
            elif code == DATA and body + 4 < end and payload[body] & 0xEF == 0xA0:
                offset = body + (5 + read_u32(payload, body + 1) if payload[body] & 0x10 else 2 + payload[body + 1])
                if offset > end:
                    raise MalformedValue(f"the data section at octet {body} is cut short")
            else:
                offset = _check_body(code, payload, body, end)
        elif code == HEADER:
            header_start = offset
            offset = _read_header(sections, payload, body, end)
            _remember_header(sections, payload[header_start:offset])
        elif code == MESSAGE_ANNOTATIONS:
            offset = _read_annotations(sections, payload, body, end)
        else:
            offset = items_at(0xC1, payload, body, end)[2]
    if bare_start >= 0:
        sections.bare = payload[bare_start:end]
    return sections


def leading_size(data: bytes | bytearray) -> int:
    """Return the number of octets of a message before its body, given its first octets.

    If they are too few, return the number of octets needed to continue, as a negative number. Checks outlines only.
    Raises MalformedValue.
    """
    end = len(data)
    offset = 0
    while True:
        if offset + LONGEST_DESCRIPTOR > end:
            return -(offset + LONGEST_DESCRIPTOR)
        code, body = section_at(bytes(data[offset : offset + LONGEST_DESCRIPTOR]), 0, LONGEST_DESCRIPTOR)
        if code < HEADER or code > FOOTER:
            raise MalformedValue(f"0x{code:x} at octet {offset} is not a message section")
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
    """Add this header to the cache. Only its narrow form is ever found: no client sends the wide one."""
    if len(_KNOWN_HEADERS) >= _KNOWN_HEADERS_LIMIT:
        _KNOWN_HEADERS.clear()
    _KNOWN_HEADERS[octets] = _Header(octets, sections)


def _read_header(sections: Sections, data: bytes, offset: int, end: int) -> int:
    """Read the header's list; return the offset behind it."""
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
    """Read the message annotations' map and keep its octets; return the offset behind it."""
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
        # Either the count is wrong or a key is repeated, which AMQP 1.0 §3.2.10 with §1.6.23 forbids.
        raise MalformedValue(f"{count} keys and values are announced, {len(items)} annotations found")
    sections.annotations = items
    if data.find(_DUPLICATE_ID, start, stop) >= 0:
        sections.duplicate_id = items.get(DUPLICATE_ID)
    kept += data[kept_from:stop]
    if kept:
        sections.annotations_raw = _U32.pack(count - 2 * dropped) + kept
    return stop


def _find_duplicate_id(sections: Sections, count: int, data: bytes, offset: int, stop: int) -> None:
    """Find the duplicate id in application properties that contain the octets of its name, perhaps not as a key."""
    value = find_value(data, count, offset, stop, DUPLICATE_ID)
    if value is not None:
        sections.duplicate_id = value


def _check_properties(sections: Sections, data: bytes, offset: int, end: int) -> int:
    """Check the properties' outline and read absolute-expiry-time; return the offset behind them."""
    stop = offset + 2 + data[offset + 1] if offset + 3 <= end and data[offset] == 0xC0 else -1
    if offset + 3 <= stop <= end:
        count = data[offset + 2]
        offset += 3
    else:
        count, offset, stop = items_at(0xC0, data, offset, end)
    if count > _PROPERTIES_FIELDS:
        raise MalformedValue(f"properties has {_PROPERTIES_FIELDS} fields, not {count}")
    if count > _EXPIRY_FIELD:
        if count > _GROUP_FIELD:
            sections.has_group = True
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
    """Return `stop` if `count` values from `offset` on end there; otherwise a consumer would fail on them."""
    offset = skip_items(count, data, offset, stop)
    if offset != stop:
        raise MalformedValue(f"{stop - offset} octets are left over before octet {stop}")
    return stop
