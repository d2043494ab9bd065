"""Values with a type of their own in front: properties of messages, MapMessage and StreamMessage (openwire §8).

    map     | count: 4 octets | key: a length of 2 octets and that many octets | value | ...
    value   | type: 1 octet | its octets |

Java's boolean, int, double, String, byte[], Map and List are Python's bool, int, float, str, bytes, dict and list. The
other types have a class here, a subclass of the Python type that they behave like: `Long(5) == 5`, yet it is written as
a long again. An int of Python that needs more than 32 bits is written as a long, too.
"""

from collections.abc import Callable, Collection, Mapping
from struct import Struct
from typing import Any, Final

from artemis_openwire.engine.text import MAX_TEXT_BYTES, decode_text, encode_text, utf16_length
from artemis_py.errors import MalformedFrame

MAX_NESTING: Final = 32
"""Maps and lists within each other (reliability §4)."""
MAX_PROPERTIES: Final = 65_536
"""Values in the properties of a message, those in nested maps and lists included."""
MAX_BODY_VALUES: Final = 262_144
"""Values in the body of a message. Decoded, one takes up to 150 octets of memory (tracemalloc, CPython 3.11)."""

_BIG_STRING: Final = 8191
"""From this length on Java writes a text as a big one."""

_NULL: Final = 0
_BOOLEAN: Final = 1
_BYTE: Final = 2
_CHAR: Final = 3
_SHORT: Final = 4
_INT: Final = 5
_LONG: Final = 6
_DOUBLE: Final = 7
_FLOAT: Final = 8
_TEXT: Final = 9
_BYTES: Final = 10
_MAP: Final = 11
_LIST: Final = 12
_BIG_TEXT: Final = 13

_U16: Final = Struct(">H")
_I32: Final = Struct(">i")


class Byte(int):
    """An integer from -2**7 to 2**7 - 1."""

    __slots__ = ()


class Short(int):
    """An integer from -2**15 to 2**15 - 1."""

    __slots__ = ()


class Long(int):
    """An integer from -2**63 to 2**63 - 1."""

    __slots__ = ()


class Float(float):
    """A number of 32 bits. A float of Python is Java's double."""

    __slots__ = ()


class Char(str):
    """One UTF-16 unit."""

    __slots__ = ()


_NUMBERS: Final[dict[int, tuple[Struct, Callable[[Any], object]]]] = {
    _BYTE: (Struct(">b"), Byte),
    _SHORT: (Struct(">h"), Short),
    _INT: (_I32, int),
    _LONG: (Struct(">q"), Long),
    _DOUBLE: (Struct(">d"), float),
    _FLOAT: (Struct(">f"), Float),
}


# -- reading -------------------------------------------------------------------------------------------------------


class ValueReader:
    """Values in a row, and how many more may come."""

    __slots__ = ("_budget", "_nesting", "data", "offset")

    def __init__(self, data: bytes, max_values: int) -> None:
        self.data: bytes = data
        self.offset: int = 0
        self._budget: int = max_values
        self._nesting: int = 0

    @property
    def is_at_end(self) -> bool:
        """Whether everything was read."""
        return self.offset == len(self.data)

    def _take(self, size: int) -> bytes:
        start = self.offset
        stop = start + size
        if size < 0 or stop > len(self.data):
            raise MalformedFrame("a value is longer than what contains it")
        self.offset = stop
        return self.data[start:stop]

    def _number(self, form: Struct) -> int:
        value: int = form.unpack(self._take(form.size))[0]
        return value

    def count(self) -> int:
        """Read how many entries a map has; one that is null has none."""
        count = self._number(_I32)
        if count < -1:
            raise MalformedFrame(f"a map of {count} entries")
        return max(count, 0)

    def key(self) -> str:
        """Read the name of an entry."""
        return decode_text(self._take(self._number(_U16)))

    def value(self) -> object:
        """Read one value. Raises MalformedFrame."""
        self._budget -= 1
        if self._budget < 0:
            raise MalformedFrame("more values in a message than the broker decodes")
        code = self._take(1)[0]
        if code in _NUMBERS:
            form, kind = _NUMBERS[code]
            return kind(form.unpack(self._take(form.size))[0])
        match code:
            case 0:
                return None
            case 1:
                return self._take(1) != b"\0"
            case 3:
                return Char(chr(self._number(_U16)))
            case 9:
                return decode_text(self._take(self._number(_U16)))
            case 10:
                return self._take(self._number(_I32))
            case 11:
                return self.map()
            case 12:
                return self._list()
            case 13:
                return decode_text(self._take(self._number(_I32)))
        raise MalformedFrame(f"a value of type {code}")

    def map(self) -> dict[str, object] | None:
        """Read a map, or null. Raises MalformedFrame."""
        count = self._number(_I32)
        if count == -1:
            return None
        self._enter(count, 3)
        found = {}
        for _ in range(count):
            key = self.key()
            found[key] = self.value()
        self._nesting -= 1
        return found

    def _list(self) -> list[object]:
        count = self._number(_I32)
        self._enter(count, 1)
        found = [self.value() for _ in range(count)]
        self._nesting -= 1
        return found

    def _enter(self, count: int, smallest: int) -> None:
        """Go into a map or list of `count` entries, each of at least `smallest` octets."""
        if count < 0 or count * smallest > len(self.data) - self.offset:
            raise MalformedFrame(f"{count} entries in {len(self.data) - self.offset} octets")
        self._nesting += 1
        if self._nesting > MAX_NESTING:
            raise MalformedFrame(f"more than {MAX_NESTING} maps and lists within each other")


def read_map(data: bytes | None, max_values: int = MAX_PROPERTIES) -> dict[str, object]:
    """Decode a map; null and nothing at all are an empty one. Raises MalformedFrame."""
    if not data:
        return {}
    reader = ValueReader(data, max_values)
    found = reader.map()
    if not reader.is_at_end:
        raise MalformedFrame("a map is longer than its entries")
    return found or {}


def read_values(data: bytes | None, max_values: int = MAX_BODY_VALUES) -> list[object]:
    """Decode values that follow each other without a count. Raises MalformedFrame."""
    reader = ValueReader(data or b"", max_values)
    found = []
    while not reader.is_at_end:
        found.append(reader.value())
    return found


# -- writing -------------------------------------------------------------------------------------------------------


def write_map(entries: Mapping[str, object]) -> bytes:
    """Encode a map. Raises ValueError for a value that has no type here, or that does not fit its type."""
    pieces = [_I32.pack(len(entries))]
    for key, value in entries.items():
        pieces.append(_entry(key, value))
    return b"".join(pieces)


def write_values(values: Collection[object]) -> bytes:
    """Encode values that follow each other without a count. Raises ValueError as `write_map` does."""
    return b"".join([write_value(value) for value in values])


def amend_map(data: bytes | None, removed: Collection[str], added: Mapping[str, object]) -> bytes:
    """Return an encoded map without some entries and with others; the octets of the rest stay as they are.

    Raises MalformedFrame if the map is damaged, and ValueError as `write_map` does.
    """
    pieces = []
    if data:
        reader = ValueReader(data, MAX_PROPERTIES)
        for _ in range(reader.count()):
            start = reader.offset
            key = reader.key()
            reader.value()
            if key not in removed and key not in added:
                pieces.append(data[start : reader.offset])
        if not reader.is_at_end:
            raise MalformedFrame("a map is longer than its entries")
    pieces += [_entry(key, value) for key, value in added.items()]
    return _I32.pack(len(pieces)) + b"".join(pieces)


def _entry(key: str, value: object) -> bytes:
    raw = encode_text(key)
    if len(raw) > MAX_TEXT_BYTES:
        raise ValueError(f"a name of {len(raw)} octets; {MAX_TEXT_BYTES} is the most")
    return _U16.pack(len(raw)) + raw + write_value(value)


def write_value(value: object) -> bytes:
    """Encode one value with its type. Raises ValueError as `write_map` does.

    Long because it is the table of types, the narrower ones first.
    """
    match value:
        case None:
            return bytes((_NULL,))
        case bool():
            return bytes((_BOOLEAN, value))
        case Byte():
            return _number(_BYTE, value)
        case Short():
            return _number(_SHORT, value)
        case Long():
            return _number(_LONG, value)
        case int():
            return _number(_INT if -(1 << 31) <= value < 1 << 31 else _LONG, value)
        case Float():
            return _number(_FLOAT, value)
        case float():
            return _number(_DOUBLE, value)
        case Char() if len(value) == 1 and value <= "\uffff":
            return bytes((_CHAR,)) + _U16.pack(ord(value))
        case str():
            return _text(value)
        case bytes():
            return bytes((_BYTES,)) + _I32.pack(len(value)) + value
        case Mapping():
            return bytes((_MAP,)) + write_map(value)
        case list() | tuple():
            return bytes((_LIST,)) + _I32.pack(len(value)) + write_values(value)
    raise ValueError(f"{type(value).__name__} is no type of OpenWire")


def _number(code: int, value: object) -> bytes:
    form = _NUMBERS[code][0]
    try:
        return bytes((code,)) + form.pack(value)
    except Exception as error:  # struct.error, and OverflowError of a float
        raise ValueError(f"{value!r} does not fit its type: {error}") from None


def _text(value: str) -> bytes:
    raw = encode_text(value)
    if utf16_length(value) < _BIG_STRING:
        return bytes((_TEXT,)) + _U16.pack(len(raw)) + raw
    return bytes((_BIG_TEXT,)) + _I32.pack(len(raw)) + raw
