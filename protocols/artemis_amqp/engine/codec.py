"""AMQP 1.0 values: bytes to Python and back (AMQP 1.0 §1.2 and §1.6). Knows neither frames nor fields.

A value is one format code and its data; the code's high nibble is the layout:

    0x4_            nothing                     0xA_ / 0xB_   u8 / u32 size | octets
    0x5_ .. 0x9_    1, 2, 4, 8, 16 octets       0xC_ / 0xD_   u8 / u32 size | u8 / u32 count | items
    0x00            descriptor | value          0xE_ / 0xF_   u8 / u32 size | u8 / u32 count | one code | count x data

A size counts everything behind itself. Reading takes every form of every type; writing picks the smallest.
`data`, `offset`, `end`: the value starts at `offset` and may use the octets before `end`, which lie within `data`.
A reader raises nothing but MalformedValue (a MalformedFrame), whatever the octets.
"""

from struct import Struct
from typing import Final
from uuid import UUID as Uuid

from artemis_amqp.engine.types import (
    ARRAY,
    BINARY,
    BOOLEAN,
    BYTE,
    CHAR,
    DECIMAL32,
    DECIMAL64,
    DECIMAL128,
    DOUBLE,
    FLOAT,
    INT,
    LIST,
    LONG,
    MAP,
    NULL,
    SHORT,
    STRING,
    SYMBOL,
    TIMESTAMP,
    UBYTE,
    UINT,
    ULONG,
    USHORT,
    UUID,
    Array,
    Byte,
    Char,
    Decimal32,
    Decimal64,
    Decimal128,
    Described,
    Float32,
    Int,
    MalformedValue,
    Short,
    Symbol,
    Timestamp,
    UByte,
    UInt,
    ULong,
    UShort,
)
from artemis_py.wire.integers import read_u32

MAX_DEPTH: Final = 32
"""Levels of nested values, descriptors included. Artemis has the same limit; clients nest 5 deep at most."""

MAX_ZERO_WIDTH_ELEMENTS: Final = 256
"""Elements of an array whose elements have no octets, so that its size does not bound its count. The limit is low
because a frame before login may contain 400 such arrays, and no client writes them."""

_U16: Final = Struct(">H")
_U32: Final = Struct(">I")
_U64: Final = Struct(">Q")
_I8: Final = Struct(">b")
_I16: Final = Struct(">h")
_I32: Final = Struct(">i")
_I64: Final = Struct(">q")
_F32: Final = Struct(">f")
_F64: Final = Struct(">d")

# Most uint and ulong values on the wire are small: counters, codes, credit.
_SMALL_UINTS: Final = [UInt(value) for value in range(256)]
_SMALL_ULONGS: Final = [ULong(value) for value in range(256)]

# The element type that an array's constructor names, whatever its width.
_ELEMENT_TYPES: Final[dict[int, int]] = {
    0x40: NULL,
    0x41: BOOLEAN,
    0x42: BOOLEAN,
    0x43: UINT,
    0x44: ULONG,
    0x45: LIST,
    0x50: UBYTE,
    0x51: BYTE,
    0x52: UINT,
    0x53: ULONG,
    0x54: INT,
    0x55: LONG,
    0x56: BOOLEAN,
    0x60: USHORT,
    0x61: SHORT,
    0x70: UINT,
    0x71: INT,
    0x72: FLOAT,
    0x73: CHAR,
    0x74: DECIMAL32,
    0x80: ULONG,
    0x81: LONG,
    0x82: DOUBLE,
    0x83: TIMESTAMP,
    0x84: DECIMAL64,
    0x94: DECIMAL128,
    0x98: UUID,
    0xA0: BINARY,
    0xA1: STRING,
    0xA3: SYMBOL,
    0xB0: BINARY,
    0xB1: STRING,
    0xB3: SYMBOL,
    0xC0: LIST,
    0xC1: MAP,
    0xD0: LIST,
    0xD1: MAP,
    0xE0: ARRAY,
    0xF0: ARRAY,
}

# Types with a narrower form for small numbers, few octets or little content.
_NARROW_CODES: Final[dict[int, int]] = {
    UINT: 0x52,
    ULONG: 0x53,
    INT: 0x54,
    LONG: 0x55,
    BINARY: 0xA0,
    STRING: 0xA1,
    SYMBOL: 0xA3,
    LIST: 0xC0,
    MAP: 0xC1,
    ARRAY: 0xE0,
}

_PYTHON_TYPES: Final[dict[int, type]] = {
    NULL: type(None),
    BOOLEAN: bool,
    UBYTE: UByte,
    USHORT: UShort,
    UINT: UInt,
    ULONG: ULong,
    BYTE: Byte,
    SHORT: Short,
    INT: Int,
    LONG: int,
    FLOAT: Float32,
    DOUBLE: float,
    DECIMAL32: Decimal32,
    DECIMAL64: Decimal64,
    DECIMAL128: Decimal128,
    CHAR: Char,
    TIMESTAMP: Timestamp,
    UUID: Uuid,
    BINARY: bytes,
    STRING: str,
    SYMBOL: Symbol,
    LIST: list,
    MAP: dict,
    ARRAY: Array,
}


# --- reading ---


def _overrun(offset: int) -> MalformedValue:
    return MalformedValue(f"the value at octet {offset} is cut short")


def _unknown_code(code: int, offset: int) -> MalformedValue:
    return MalformedValue(f"0x{code:02x} at octet {offset - 1} is not a format code")


def read_value(data: bytes, offset: int, end: int, depth: int = 0) -> tuple[object, int]:
    """Return the value at `offset` and the offset behind it.

    A repeated map key keeps its last value. A list used as a map key comes back as a tuple.
    """
    if offset >= end:
        raise _overrun(offset)
    code = data[offset]
    offset += 1
    if code == 0xA1:
        if offset >= end:
            raise _overrun(offset)
        stop = offset + 1 + data[offset]
        if stop > end:
            raise _overrun(offset)
        return _text(data, offset + 1, stop), stop
    if code == 0x00:
        if depth >= MAX_DEPTH:
            raise MalformedValue(f"values nest deeper than {MAX_DEPTH}")
        descriptor, offset = read_value(data, offset, end, depth + 1)
        value, offset = read_value(data, offset, end, depth + 1)
        return Described(descriptor, value), offset
    return _read_data(code, data, offset, end, depth)


def _text(data: bytes, start: int, stop: int) -> str:
    try:
        return data[start:stop].decode()
    except UnicodeDecodeError:
        raise MalformedValue(f"the string at octet {start} is not UTF-8") from None


def _symbol(data: bytes, start: int, stop: int) -> Symbol:
    try:
        return Symbol(data[start:stop].decode("ascii"))
    except UnicodeDecodeError:
        raise MalformedValue(f"the symbol at octet {start} is not ASCII") from None


def _read_data(code: int, data: bytes, offset: int, end: int, depth: int) -> tuple[object, int]:
    """Return the value of format code `code`, whose data starts at `offset`, and the offset behind it."""
    layout = code >> 4
    if layout == 0x4:
        return _read_empty(code, offset), offset
    if layout == 0x5:
        if offset >= end:
            raise _overrun(offset)
        return _read_octet(code, data[offset], offset), offset + 1
    if layout == 0xA:
        if offset >= end:
            raise _overrun(offset)
        start = offset + 1
        return _read_octets(code, data, start, start + data[offset], end)
    if layout == 0xB:
        start = offset + 4
        if start > end:
            raise _overrun(offset)
        size = read_u32(data, offset)
        return _read_octets(code, data, start, start + size, end)
    if layout >= 0xC:
        return _read_compound(code, data, offset, end, depth)
    return _read_fixed(code, data, offset, end)


def _read_empty(code: int, offset: int) -> object:
    if code == 0x40:
        return None
    if code == 0x41:
        return True
    if code == 0x42:
        return False
    if code == 0x43:
        return _SMALL_UINTS[0]
    if code == 0x44:
        return _SMALL_ULONGS[0]
    if code == 0x45:
        return []
    raise _unknown_code(code, offset)


def _read_octet(code: int, octet: int, offset: int) -> object:
    if code == 0x52:
        return _SMALL_UINTS[octet]
    if code == 0x53:
        return _SMALL_ULONGS[octet]
    if code == 0x50:
        return UByte(octet)
    if code == 0x56:
        if octet > 1:
            raise MalformedValue(f"0x{octet:02x} at octet {offset} is not a boolean")
        return octet == 1
    signed = octet - 256 if octet > 127 else octet
    if code == 0x55:
        return signed
    if code == 0x54:
        return Int(signed)
    if code == 0x51:
        return Byte(signed)
    raise _unknown_code(code, offset)


def _read_octets(code: int, data: bytes, start: int, stop: int, end: int) -> tuple[object, int]:
    """Return the string, symbol or binary of the octets from `start` to `stop`, and `stop`."""
    if stop > end:
        raise _overrun(start)
    kind = code & 0xF
    if kind == 1:
        return _text(data, start, stop), stop
    if kind == 3:
        return _symbol(data, start, stop), stop
    if kind == 0:
        return data[start:stop], stop
    raise _unknown_code(code, start)


def _read_fixed(code: int, data: bytes, offset: int, end: int) -> tuple[object, int]:
    """Return a value of 2, 4, 8 or 16 octets, and the offset behind it."""
    layout = code >> 4
    if layout < 0x6 or code not in _ELEMENT_TYPES:
        raise _unknown_code(code, offset)
    stop = offset + (1 << (layout - 5))
    if stop > end:
        raise _overrun(offset)
    if code == 0x70:
        return UInt(read_u32(data, offset)), stop
    if code == 0x83:
        return Timestamp(_I64.unpack_from(data, offset)[0]), stop
    if code == 0x81:
        return _I64.unpack_from(data, offset)[0], stop
    if code == 0x71:
        return Int(_I32.unpack_from(data, offset)[0]), stop
    if code == 0x80:
        return ULong(_U64.unpack_from(data, offset)[0]), stop
    if code == 0x60:
        return UShort(_U16.unpack_from(data, offset)[0]), stop
    if code == 0x82:
        return _F64.unpack_from(data, offset)[0], stop
    if code == 0x98:
        return Uuid(bytes=data[offset:stop]), stop
    if code == 0x61:
        return Short(_I16.unpack_from(data, offset)[0]), stop
    if code == 0x72:
        return Float32(_F32.unpack_from(data, offset)[0]), stop
    if code == 0x73:
        point = read_u32(data, offset)
        if point > 0x10FFFF or 0xD800 <= point <= 0xDFFF:
            raise MalformedValue(f"0x{point:x} at octet {offset} is not a Unicode character")
        return Char(chr(point)), stop
    if code == 0x74:
        return Decimal32(data[offset:stop]), stop
    if code == 0x84:
        return Decimal64(data[offset:stop]), stop
    return Decimal128(data[offset:stop]), stop


def read_compound_header(code: int, data: bytes, offset: int, end: int) -> tuple[int, int, int]:
    """Return count, offset of the first item and offset behind the last, of a compound value with its size at `offset`.

    Takes the codes 0xC0 and above, list, map and array. Checks the size against `end`, but not the count.
    """
    count: int
    size: int
    if code & 0x10:
        start = offset + 8
        if start > end:
            raise _overrun(offset)
        size = read_u32(data, offset)
        count = read_u32(data, offset + 4)
        stop = offset + 4 + size
    else:
        start = offset + 2
        if start > end:
            raise _overrun(offset)
        size = data[offset]
        count = data[offset + 1]
        stop = offset + 1 + size
    if stop > end or stop < start:
        raise MalformedValue(f"the size {size} at octet {offset} is not that of its content")
    return count, start, stop


def _read_compound(code: int, data: bytes, offset: int, end: int, depth: int) -> tuple[object, int]:
    kind = code & 0xEF
    if kind != 0xC0 and kind != 0xC1 and kind != 0xE0:
        raise _unknown_code(code, offset)
    if depth >= MAX_DEPTH:
        raise MalformedValue(f"values nest deeper than {MAX_DEPTH}")
    count, start, stop = read_compound_header(code, data, offset, end)
    if kind == 0xE0:
        return _read_array(count, data, start, stop, depth + 1), stop
    if count > stop - start:
        raise MalformedValue(f"{count} items at octet {start} do not fit into {stop - start} octets")
    if kind == 0xC0:
        return _read_list(count, data, start, stop, depth + 1), stop
    return read_map_items(count, data, start, stop, depth + 1, False), stop


def _read_list(count: int, data: bytes, offset: int, stop: int, depth: int) -> list[object]:
    items: list[object] = []
    for _ in range(count):
        item, offset = read_value(data, offset, stop, depth)
        items.append(item)
    if offset != stop:
        raise MalformedValue(f"{stop - offset} octets at octet {offset} are left over in a list")
    return items


def read_map_items(
    count: int, data: bytes, offset: int, stop: int, depth: int, is_unique: bool
) -> dict[object, object]:
    """Return the map of `count` keys and values that fill the octets from `offset` to `stop`.

    `is_unique`: a repeated key is malformed. Protocol fields require that; applications may repeat keys.
    """
    if count & 1:
        raise MalformedValue(f"the map at octet {offset} has a key without a value")
    items: dict[object, object] = {}
    for _ in range(count >> 1):
        key, offset = read_value(data, offset, stop, depth)
        value, offset = read_value(data, offset, stop, depth)
        try:
            items[key] = value
        except TypeError:
            items[_hashable(key)] = value
    if offset != stop:
        raise MalformedValue(f"{stop - offset} octets at octet {offset} are left over in a map")
    if is_unique and len(items) != count >> 1:
        raise MalformedValue(f"the map at octet {stop - 1} repeats a key")
    return items


def _hashable(key: object) -> object:
    """Return a map key in a hashable form: lists become tuples. A map within a key is refused."""
    if type(key) is list:
        key = tuple([_hashable(item) for item in key])
    elif type(key) is Described:
        key = Described(_hashable(key.descriptor), _hashable(key.value))
    elif type(key) is Array:
        key = Array(key.code, [_hashable(item) for item in key.items], [_hashable(item) for item in key.descriptors])
    try:
        hash(key)
    except TypeError:
        raise MalformedValue("a map cannot be a key of a map here") from None
    return key


def _read_array(count: int, data: bytes, offset: int, stop: int, depth: int) -> Array:
    descriptors: list[object] = []
    while offset < stop and data[offset] == 0x00:
        # Each descriptor adds a level of nesting to every element.
        depth += 1
        if depth > MAX_DEPTH:
            raise MalformedValue(f"values nest deeper than {MAX_DEPTH}")
        descriptor, offset = read_value(data, offset + 1, stop, depth)
        descriptors.append(descriptor)
    if offset >= stop:
        raise _overrun(offset)
    code = data[offset]
    offset += 1
    element_type = _ELEMENT_TYPES.get(code)
    if element_type is None:
        raise _unknown_code(code, offset)
    if code >> 4 == 0x4:
        if count > MAX_ZERO_WIDTH_ELEMENTS:
            raise MalformedValue(f"{count} elements without octets, at most {MAX_ZERO_WIDTH_ELEMENTS} are taken")
    elif count > stop - offset:
        raise MalformedValue(f"{count} elements at octet {offset} do not fit into {stop - offset} octets")
    items: list[object] = []
    for _ in range(count):
        item, offset = _read_data(code, data, offset, stop, depth)
        items.append(item)
    if offset != stop:
        raise MalformedValue(f"{stop - offset} octets at octet {offset} are left over in an array")
    return Array(element_type, items, descriptors)


def skip_value(data: bytes, offset: int, end: int, depth: int = 0) -> int:
    """Return the offset behind the value at `offset`, looking only at its size and not at what it contains."""
    if offset >= end:
        raise _overrun(offset)
    code = data[offset]
    layout = code >> 4
    if layout == 0x0:
        if code != 0x00:
            raise _unknown_code(code, offset + 1)
        if depth >= MAX_DEPTH:
            raise MalformedValue(f"values nest deeper than {MAX_DEPTH}")
        return skip_value(data, skip_value(data, offset + 1, end, depth + 1), end, depth + 1)
    if code not in _ELEMENT_TYPES:
        raise _unknown_code(code, offset + 1)
    if layout == 0x4:
        return offset + 1
    if layout < 0xA:
        stop = offset + 1 + (1 << (layout - 5))
    elif layout >= 0xC:
        return read_compound_header(code, data, offset + 1, end)[2]
    elif layout == 0xA:
        if offset + 2 > end:
            raise _overrun(offset)
        stop = offset + 2 + data[offset + 1]
    else:
        if offset + 5 > end:
            raise _overrun(offset)
        stop = offset + 5 + read_u32(data, offset + 1)
    if stop > end:
        raise _overrun(offset)
    return stop


# --- writing ---


def encode_value(value: object) -> bytes:
    """Return `value` in its smallest form; raises as `write_value` does."""
    out = bytearray()
    write_value(out, value)
    return bytes(out)


def write_value(out: bytearray, value: object) -> None:
    """Append `value` in its smallest form.

    Raises TypeError for a Python type that is no AMQP type, ValueError for a value outside of the range of its type;
    `out` then has an incomplete value at its end.
    """
    _write(out, value, 0)


# Long because it has one branch per AMQP type.
def _write(out: bytearray, value: object, depth: int) -> None:
    kind = type(value)
    if value is None:
        out.append(0x40)
    elif kind is str:
        assert isinstance(value, str)
        _write_octets(out, 0xA1, value.encode())
    elif kind is Symbol:
        assert isinstance(value, str)
        _write_octets(out, 0xA3, value.encode("ascii"))
    elif kind is bytes:
        assert isinstance(value, bytes)
        _write_octets(out, 0xA0, value)
    elif value is True:
        out.append(0x41)
    elif value is False:
        out.append(0x42)
    elif isinstance(value, int):
        _write_integer(out, kind, value)
    elif isinstance(value, float):
        if kind is float:
            out.append(0x82)
            out += _F64.pack(value)
        elif kind is Float32:
            out.append(0x72)
            out += _pack_float32(value)
        else:
            raise _not_amqp(kind)
    elif kind is list or kind is tuple:
        assert isinstance(value, (list, tuple))
        _write_list(out, value, depth)
    elif kind is dict:
        assert isinstance(value, dict)
        _write_map(out, value, depth)
    elif isinstance(value, Described):
        _check_depth(depth)
        out.append(0x00)
        _write(out, value.descriptor, depth + 1)
        _write(out, value.value, depth + 1)
    elif isinstance(value, Array):
        _write_array(out, value, depth)
    else:
        _write_rare(out, kind, value)


def _check_depth(depth: int) -> None:
    if depth >= MAX_DEPTH:
        raise ValueError(f"values nest deeper than {MAX_DEPTH}")


def _not_amqp(kind: type) -> TypeError:
    return TypeError(f"{kind.__name__} is not an AMQP type")


def _pack_float32(value: float) -> bytes:
    try:
        return _F32.pack(value)
    except OverflowError:
        raise ValueError(f"{value!r} is not a 32-bit float") from None


def _write_octets(out: bytearray, code: int, octets: bytes) -> None:
    size = len(octets)
    if size < 256:
        out.append(code)
        out.append(size)
    else:
        out.append(code + 0x10)
        out += _U32.pack(size)
    out += octets


def _check_range(kind: type, value: int, low: int, high: int) -> None:
    if value < low or value > high:
        raise ValueError(f"{kind.__name__} cannot be {int(value)}")


def _write_integer(out: bytearray, kind: type, value: int) -> None:
    if kind is int:
        if -128 <= value <= 127:
            out.append(0x55)
            out.append(value & 0xFF)
        else:
            _check_range(kind, value, -(2**63), 2**63 - 1)
            out.append(0x81)
            out += _I64.pack(value)
    elif kind is UInt:
        _check_range(kind, value, 0, 0xFFFFFFFF)
        if value == 0:
            out.append(0x43)
        elif value < 256:
            out.append(0x52)
            out.append(value)
        else:
            out.append(0x70)
            out += _U32.pack(value)
    elif kind is ULong:
        _check_range(kind, value, 0, 2**64 - 1)
        if value == 0:
            out.append(0x44)
        elif value < 256:
            out.append(0x53)
            out.append(value)
        else:
            out.append(0x80)
            out += _U64.pack(value)
    elif kind is Int:
        _check_range(kind, value, -(2**31), 2**31 - 1)
        if -128 <= value <= 127:
            out.append(0x54)
            out.append(value & 0xFF)
        else:
            out.append(0x71)
            out += _I32.pack(value)
    else:
        _write_fixed_integer(out, kind, value)


def _write_fixed_integer(out: bytearray, kind: type, value: int) -> None:
    if kind is UByte:
        _check_range(kind, value, 0, 0xFF)
        out.append(0x50)
        out.append(value)
    elif kind is Byte:
        _check_range(kind, value, -128, 127)
        out.append(0x51)
        out.append(value & 0xFF)
    elif kind is UShort:
        _check_range(kind, value, 0, 0xFFFF)
        out.append(0x60)
        out += _U16.pack(value)
    elif kind is Short:
        _check_range(kind, value, -(2**15), 2**15 - 1)
        out.append(0x61)
        out += _I16.pack(value)
    elif kind is Timestamp:
        _check_range(kind, value, -(2**63), 2**63 - 1)
        out.append(0x83)
        out += _I64.pack(value)
    else:
        raise _not_amqp(kind)


def _write_rare(out: bytearray, kind: type, value: object) -> None:
    if kind is Uuid:
        assert isinstance(value, Uuid)
        out.append(0x98)
        out += value.bytes
    elif kind is Char:
        assert isinstance(value, str)
        out.append(0x73)
        out += _pack_char(value)
    elif kind is Decimal32 or kind is Decimal64 or kind is Decimal128:
        assert isinstance(value, bytes)
        out.append(DECIMAL32 if kind is Decimal32 else DECIMAL64 if kind is Decimal64 else DECIMAL128)
        out += _decimal_octets(kind, value)
    else:
        raise _not_amqp(kind)


def _pack_char(value: str) -> bytes:
    if len(value) != 1 or 0xD800 <= ord(value) <= 0xDFFF:
        raise ValueError(f"{value!r} is not a Unicode character")
    return _U32.pack(ord(value))


def _decimal_octets(kind: type, value: bytes) -> bytes:
    size = 4 if kind is Decimal32 else 8 if kind is Decimal64 else 16
    if len(value) != size:
        raise ValueError(f"{kind.__name__} has {size} octets, not {len(value)}")
    return value


def _write_list(out: bytearray, items: list[object] | tuple[object, ...], depth: int) -> None:
    if not items:
        out.append(0x45)
        return
    _check_depth(depth)
    content = bytearray()
    for item in items:
        _write(content, item, depth + 1)
    write_compound(out, 0xC0, len(items), content)


def _write_map(out: bytearray, items: dict[object, object], depth: int) -> None:
    _check_depth(depth)
    content = bytearray()
    for key, value in items.items():
        _write(content, key, depth + 1)
        _write(content, value, depth + 1)
    write_compound(out, 0xC1, 2 * len(items), content)


def write_compound(out: bytearray, code: int, count: int, content: bytearray | bytes) -> None:
    """Append the list (0xC0), map (0xC1) or array (0xE0) of `count` items that `content` already holds."""
    size = len(content)
    if size < 255 and count < 256:
        out.append(code)
        out.append(size + 1)
        out.append(count)
    else:
        out.append(code + 0x10)
        out += _U32.pack(size + 4)
        out += _U32.pack(count)
    out += content


def _write_array(out: bytearray, array: Array, depth: int) -> None:
    expected = _PYTHON_TYPES.get(array.code)
    if expected is None:
        raise ValueError(f"0x{array.code:02x} does not name an element type")
    if array.code == NULL and len(array.items) > MAX_ZERO_WIDTH_ELEMENTS:
        raise ValueError(f"an array of more than {MAX_ZERO_WIDTH_ELEMENTS} nulls")
    _check_depth(depth)
    content = bytearray()
    for descriptor in array.descriptors:
        depth += 1
        _check_depth(depth)
        content.append(0x00)
        _write(content, descriptor, depth)
    code = _NARROW_CODES.get(array.code, array.code)
    elements: list[bytearray] = []
    for item in array.items:
        if type(item) is not expected:
            raise TypeError(f"{type(item).__name__} in an array of {expected.__name__}")
        element = bytearray()
        _write(element, item, depth + 1)
        elements.append(element)
        if element[0] == array.code:
            # One element that needs the wide form makes all of them wide.
            code = array.code
    content.append(code)
    for element in elements:
        _write_element(content, code, element)
    write_compound(out, 0xE0, len(elements), content)


def _write_element(out: bytearray, code: int, element: bytearray) -> None:
    """Append a value, given in its smallest encoding, as an element of an array whose constructor is `code`."""
    own = element[0]
    if own == code:
        out += element[1:]
    elif code == BOOLEAN:
        out.append(1 if own == 0x41 else 0)
    elif code == 0xC0:
        # 0x45, the empty list, has no content: write size and count.
        out += b"\x01\x00"
    elif code >= LIST:
        if own == 0x45:
            element = bytearray(b"\x45\x01\x00")
        out += _U32.pack(element[1] + 3)
        out += _U32.pack(element[2])
        out += element[3:]
    elif code >= BINARY:
        out += _U32.pack(element[1])
        out += element[2:]
    else:
        _write_integer_element(out, code, element)


def _write_integer_element(out: bytearray, code: int, element: bytearray) -> None:
    """Append a uint, ulong, int or long of no or one octet, widened to the form of `code`."""
    octet = element[1] if len(element) > 1 else 0
    if code < UINT:
        out.append(octet)
        return
    if code in (INT, LONG) and octet > 127:
        out += b"\xff" * (3 if code == INT else 7)
    else:
        out += bytes(3 if code in (UINT, INT) else 7)
    out.append(octet)
