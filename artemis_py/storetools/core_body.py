"""Bodies of Artemis' Core messages, byte by byte, as in its export (seen in 2.40; all numbers big-endian).

text       nullable string
map        u8 1, i32 count, count times: string, value                      (u8 0: no map)
stream     value after value until the end, with short strings for strings
bytes      the octets;  object: i32 length, Java's serialized form (left as it is);  default: nothing

string            i32 length in octets, UTF-16 little-endian
nullable string   u8 0, or u8 1 and a string
short string      u8 0, or u8 1 and i32 count of UTF-16 units n, then: n < 9: n times u16;
                  n < 4095: u16 length, modified UTF-8; else a string
value             u8 type, then: 0 null; 2 boolean u8; 3 byte i8; 4 bytes i32 length, octets; 5 short i16;
                  6 int i32; 7 long i64; 8 float; 9 double; 10 string; 11 char u16
"""

from collections.abc import Callable
from enum import IntEnum
from struct import Struct
from struct import error as StructError
from typing import Final

_U8: Final = Struct(">B")
_I8: Final = Struct(">b")
_I16: Final = Struct(">h")
_U16: Final = Struct(">H")
_I32: Final = Struct(">i")
_I64: Final = Struct(">q")
_F32: Final = Struct(">f")
_F64: Final = Struct(">d")

_UNITS_IN_PLACE: Final = 9
_UNITS_IN_UTF8: Final = 0xFFF


class BodyType(IntEnum):
    """Kinds of messages, whose names the XML has in lower case."""

    DEFAULT = 0
    OBJECT = 2
    TEXT = 3
    BYTES = 4
    MAP = 5
    STREAM = 6


class Tag(IntEnum):
    """Type of a value."""

    NULL = 0
    BOOLEAN = 2
    BYTE = 3
    BYTES = 4
    SHORT = 5
    INT = 6
    LONG = 7
    FLOAT = 8
    DOUBLE = 9
    STRING = 10
    CHAR = 11


_NUMBERS: Final = {
    Tag.BYTE: _I8,
    Tag.SHORT: _I16,
    Tag.INT: _I32,
    Tag.LONG: _I64,
    Tag.FLOAT: _F32,
    Tag.DOUBLE: _F64,
}


def fits_int(value: int) -> bool:
    """Tell whether a number is an int in Java."""
    return -(1 << 31) <= value < 1 << 31


def write_body(body: object) -> tuple[BodyType, bytes]:
    """Return type and octets of a view's body. Raises ValueError for a list or map inside another, unknown to Core."""
    match body:
        case None:
            return BodyType.DEFAULT, b""
        case str():
            return BodyType.TEXT, b"\x01" + _string(body)
        case bytes():
            return BodyType.BYTES, body
        case dict():
            items = (_string(str(key)) + _value(value, _string) for key, value in body.items())
            return BodyType.MAP, b"\x01" + _I32.pack(len(body)) + b"".join(items)
        case list() | tuple():
            return BodyType.STREAM, b"".join(_value(value, _short_string) for value in body)
        case _:
            return BodyType.STREAM, _value(body, _short_string)


def read_body(kind: BodyType, content: bytes) -> object:
    """Return the body as a neutral view has it. Raises ValueError."""
    reader = _Reader(content)
    match kind:
        case BodyType.DEFAULT:
            return None
        case BodyType.TEXT:
            return reader.string() if content and reader.take(1) != b"\x00" else None
        case BodyType.MAP:
            count = reader.number(_I32) if content and reader.take(1) != b"\x00" else 0
            return {reader.string(): reader.value(reader.string) for _ in range(int(count))}
        case BodyType.STREAM:
            values: list[object] = []
            while not reader.is_at_end:
                values.append(reader.value(reader.short_string))
            return values
        case BodyType.BYTES | BodyType.OBJECT:
            return content


def _string(text: str) -> bytes:
    encoded = text.encode("utf-16-le", "surrogatepass")
    return _I32.pack(len(encoded)) + encoded


def _short_string(text: str) -> bytes:
    """Return a text as a short string; even its longest form has the count by which readers choose the form."""
    units = text.encode("utf-16-be", "surrogatepass")
    count = len(units) // 2
    if count < _UNITS_IN_PLACE:
        return b"\x01" + _I32.pack(count) + units
    if count < _UNITS_IN_UTF8:
        encoded = _modified_utf8(text)
        return b"\x01" + _I32.pack(count) + _U16.pack(len(encoded)) + encoded
    return b"\x01" + _I32.pack(count) + _string(text)


def _modified_utf8(text: str) -> bytes:
    """Return a text in Java's UTF-8: each UTF-16 unit by itself, NUL in two octets."""
    units = text.encode("utf-16-be", "surrogatepass")
    characters = (chr(_U16.unpack_from(units, offset)[0]) for offset in range(0, len(units), 2))
    return b"".join(b"\xc0\x80" if each == "\0" else each.encode("utf-8", "surrogatepass") for each in characters)


def _value(value: object, string: Callable[[str], bytes]) -> bytes:
    match value:
        case None:
            return _U8.pack(Tag.NULL) if string is _string else _U8.pack(Tag.STRING) + b"\x00"
        case bool():
            return _U8.pack(Tag.BOOLEAN) + _U8.pack(value)
        case int() if fits_int(value):
            return _U8.pack(Tag.INT) + _I32.pack(value)
        case int() if -(1 << 63) <= value < 1 << 63:
            return _U8.pack(Tag.LONG) + _I64.pack(value)
        case float():
            return _U8.pack(Tag.DOUBLE) + _F64.pack(value)
        case bytes():
            return _U8.pack(Tag.BYTES) + _I32.pack(len(value)) + value
        case str():
            return _U8.pack(Tag.STRING) + string(value)
        case dict() | list() | tuple():
            raise ValueError("its body has a list or map inside of another, which Artemis' format cannot hold")
        case _:
            return _U8.pack(Tag.STRING) + string(str(value))


class _Reader:
    """Reader of a body from its beginning to its end."""

    def __init__(self, content: bytes) -> None:
        self._content = content
        self._offset = 0

    @property
    def is_at_end(self) -> bool:
        return self._offset >= len(self._content)

    def take(self, length: int) -> bytes:
        if not 0 <= length <= len(self._content) - self._offset:
            raise ValueError("its body ends too early")
        self._offset += length
        return self._content[self._offset - length : self._offset]

    def number(self, kind: Struct) -> int | float:
        try:
            value: int | float = kind.unpack(self.take(kind.size))[0]
        except StructError as error:
            raise ValueError("its body ends too early") from error
        return value

    def string(self) -> str:
        return self.take(int(self.number(_I32))).decode("utf-16-le", "surrogatepass")

    def short_string(self) -> str | None:
        if self.take(1) == b"\x00":
            return None
        count = int(self.number(_I32))
        if count < _UNITS_IN_PLACE:
            return self.take(2 * count).decode("utf-16-be", "surrogatepass")
        if count < _UNITS_IN_UTF8:
            encoded = self.take(int(self.number(_U16))).replace(b"\xc0\x80", b"\x00")
            units = encoded.decode("utf-8", "surrogatepass").encode("utf-16-be", "surrogatepass")
            return units.decode("utf-16-be", "surrogatepass")
        return self.string()

    def value(self, string: Callable[[], str | None]) -> object:
        tag = int(self.number(_U8))
        if tag not in Tag.__members__.values():
            raise ValueError(f"its body has a value of unknown type {tag}")
        if tag in _NUMBERS:
            return self.number(_NUMBERS[Tag(tag)])
        match Tag(tag):
            case Tag.BOOLEAN:
                return self.take(1) != b"\x00"
            case Tag.BYTES:
                return self.take(int(self.number(_I32)))
            case Tag.STRING:
                return string()
            case Tag.CHAR:
                return chr(int(self.number(_U16)))
            case _:
                return None
