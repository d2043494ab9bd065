"""The sections of an AMQP 1.0 message (AMQP 1.0 §3.2): their offsets, and single values in them.

    header | delivery-annotations | message-annotations | properties | application-properties | body | footer
           '---- hop by hop, dropped                    '---- the bare message: its octets are never changed

`arrival` reads header and annotations of an arriving message and checks the outline of the rest, `delivery` writes a
new header and the annotations, `conversion` converts between AMQP and the core's neutral view. The items of the
annotations are kept as octets:

    annotations_raw = u32 count of keys and values | key | value | key | value ...      (empty if there are none)
"""

from typing import Final

from artemis_amqp.engine.codec import read_compound_header, read_value, skip_value
from artemis_amqp.engine.extensions import ADDRESS, DELIVERY_DELAY, SEQUENCE_NUMBER, VALIDATED_USER
from artemis_amqp.engine.performatives import Properties, read_composite
from artemis_amqp.engine.types import InvalidField, MalformedValue, Symbol, ULong
from artemis_py.wire.integers import read_u32

NOT_KEPT: Final = (SEQUENCE_NUMBER, ADDRESS, DELIVERY_DELAY, VALIDATED_USER)
"""Annotations that are removed on arrival: the broker sets them itself, or they are meant for it alone."""

HEADER: Final = 0x70
DELIVERY_ANNOTATIONS: Final = 0x71
MESSAGE_ANNOTATIONS: Final = 0x72
PROPERTIES: Final = 0x73
APPLICATION_PROPERTIES: Final = 0x74
DATA: Final = 0x75
SEQUENCE: Final = 0x76
VALUE: Final = 0x77
FOOTER: Final = 0x78

_SECTION_CODES: Final[dict[str, int]] = {
    "amqp:header:list": HEADER,
    "amqp:delivery-annotations:map": DELIVERY_ANNOTATIONS,
    "amqp:message-annotations:map": MESSAGE_ANNOTATIONS,
    "amqp:properties:list": PROPERTIES,
    "amqp:application-properties:map": APPLICATION_PROPERTIES,
    "amqp:data:binary": DATA,
    "amqp:amqp-sequence:list": SEQUENCE,
    "amqp:amqp-value:*": VALUE,
    "amqp:footer:map": FOOTER,
}

TO_FIELD: Final = 2
SUBJECT_FIELD: Final = 3

# The longest name of a section takes 31 octets, and three more around it.
LONGEST_DESCRIPTOR: Final = 34

# Keys and values up to which the keys of a map are compared one by one: eight properties.
_FEW_ITEMS: Final = 16


# --- outline ---


def section_at(data: bytes, offset: int, end: int) -> tuple[int, int]:
    """Return the code of the section at `offset` and the offset of its value."""
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


def items_at(kind: int, data: bytes, offset: int, end: int) -> tuple[int, int, int]:
    """Return count, start and stop of the list (0xC0) or map (0xC1) at `offset`."""
    if offset >= end:
        raise MalformedValue(f"the value at octet {offset} is cut short")
    code = data[offset]
    if code == 0x45 and kind == 0xC0:
        return 0, offset + 1, offset + 1
    if code == kind:
        # The narrow form, by far the most frequent one, is read without a call.
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


def skip_items(count: int, data: bytes, offset: int, stop: int) -> int:
    """Return the offset behind `count` values. JMS clients send long properties, so their types take no call."""
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
    """Return the offset of the value of section `wanted`, -1 if there is none. Not for body sections."""
    end = len(bare)
    offset = 0
    while offset < end:
        code, body = section_at(bare, offset, end)
        if code < PROPERTIES:
            raise MalformedValue(f"0x{code:x} at octet {offset} is not a section of a bare message")
        if code == wanted:
            return body
        if code > wanted:
            return -1
        offset = skip_value(bare, body, end, 1)
    return -1


def read_property(bare: bytes, index: int) -> object:
    """Return field `index` of the properties section, None if it is missing. Raises MalformedValue."""
    offset = _find_section(bare, PROPERTIES)
    if offset < 0:
        return None
    count, offset, stop = items_at(0xC0, bare, offset, len(bare))
    if index >= count:
        return None
    return read_value(bare, skip_items(index, bare, offset, stop), stop, 2)[0]


def read_to(bare: bytes) -> str | None:
    """Return the properties' `to`. Raises MalformedValue, InvalidField for an address that is no string."""
    to = read_property(bare, TO_FIELD)
    if to is None or type(to) is str:
        return to
    raise InvalidField("properties.to: string expected")


def read_properties(bare: bytes) -> Properties:
    """Return the properties section, all defaults if there is none. Raises MalformedValue."""
    body = _find_section(bare, PROPERTIES)
    if body < 0:
        return Properties()
    properties, _ = read_composite(bare, 0, len(bare))
    assert isinstance(properties, Properties)
    return properties


def read_application_properties(bare: bytes) -> dict[object, object]:
    """Return the application properties as they are on the wire, empty if there are none. Raises MalformedValue."""
    offset = _find_section(bare, APPLICATION_PROPERTIES)
    if offset < 0:
        return {}
    return read_map(bare, offset, len(bare))


def read_map(data: bytes, offset: int, end: int) -> dict[object, object]:
    items_at(0xC1, data, offset, end)
    value, _ = read_value(data, offset, end, 1)
    assert isinstance(value, dict)
    return value


def read_application_property(bare: bytes, name: str) -> object:
    """Return one application property, None if it is missing; decodes no other. Raises MalformedValue."""
    offset = _find_section(bare, APPLICATION_PROPERTIES)
    if offset < 0:
        return None
    count, offset, stop = items_at(0xC1, bare, offset, len(bare))
    return find_value(bare, count, offset, stop, name)


def read_annotation(annotations_raw: bytes, name: str) -> object:
    """Return one message annotation, None if it is missing; decodes no other. Raises MalformedValue."""
    if not annotations_raw:
        return None
    return find_value(annotations_raw, count_of(annotations_raw), 4, len(annotations_raw), name)


def count_of(annotations_raw: bytes) -> int:
    if len(annotations_raw) < 4:
        raise MalformedValue("the kept annotations are cut short")
    count = read_u32(annotations_raw, 0)
    if count & 1 or count > len(annotations_raw) - 4:
        raise MalformedValue("the count of the kept annotations is wrong")
    return count


def find_value(data: bytes, count: int, offset: int, stop: int, name: str) -> object:
    """Return the value of the string or symbol `name` among the keys and values from `offset` to `stop`."""
    wanted = _octets_of(name)
    # Selectors often ask for a name that no message has. Among many keys, a search in C tells that sooner.
    if count > _FEW_ITEMS and data.find(wanted, offset, stop) < 0:
        return None
    size = len(wanted)
    for _ in range(count >> 1):
        if offset + 1 < stop and (data[offset] == 0xA1 or data[offset] == 0xA3):
            # A short string or symbol, which nearly all names are, is neither decoded nor passed to a call.
            value_offset = offset + 2 + data[offset + 1]
            if value_offset > stop:
                raise MalformedValue("a list or map is cut short")
            is_wanted = value_offset - size == offset + 2 and data[offset + 2 : value_offset] == wanted
        else:
            value_offset = skip_items(1, data, offset, stop)
            is_wanted = read_value(data, offset, stop, 2)[0] == name
        if is_wanted:
            return read_value(data, value_offset, stop, 2)[0]
        offset = skip_items(1, data, value_offset, stop)
    return None


def _octets_of(name: str) -> bytes:
    """Return a name in UTF-8; what UTF-8 cannot write is in no message."""
    try:
        return name.encode()
    except UnicodeEncodeError:
        return name.encode(errors="replace")
