"""Commands and structures in loose encoding: octets to records and back (openwire §4).

    frame       | size: 4 octets | code: 1 octet | fields |
    text        | 0, or 1 and a length of 2 octets and that many octets |
    octets      | 0, or 1 and a length of 4 octets and that many octets |
    structure   | 0, or 1 and its code and its fields |
    array       | 0, or 1 and a count of 2 octets and that many structures |
    throwable   | 0, or 1 and two texts: class and message |

Nothing in a frame says where a field begins, so a field that is read wrongly spoils all that follow: every length is
compared with the end of the frame, and a frame that is longer than its fields is refused.

Tight encoding, the cache and stack traces are never agreed on (`negotiation`), and not implemented.
"""

from collections.abc import Callable
from struct import Struct
from typing import Any, Final

from attrs import fields

from artemis_openwire.engine import commands, structures
from artemis_openwire.engine.structure import (
    ARRAY,
    BOOLEAN,
    BYTE,
    BYTES,
    INT,
    LONG,
    NESTED,
    OCTETS_8,
    STRING,
    THROWABLE,
    Structure,
    Throwable,
    Wire,
)
from artemis_openwire.engine.text import MAX_TEXT_BYTES, decode_name, decode_text, encode_text
from artemis_py.errors import MalformedFrame

MAX_DEPTH: Final = 8
"""Structures within structures. A dispatched advisory about a consumer of a bridge, the deepest known, has five."""

MAX_STRUCTURES: Final = 4096
"""Structures in one frame, and elements of arrays that are null. The longest array known, the brokers that a message
came through, has some ten elements; reading 4,096 consumers took 0.04 s."""

_MAX_THROWABLE_TEXT: Final = 1024
"""Characters of a class name or a message that we send: all that some versions of the Java client read."""

_U16: Final = Struct(">H")
_I16: Final = Struct(">h")
_I32: Final = Struct(">i")
_I64: Final = Struct(">q")
_NULL: Final = b"\0"
_PRESENT: Final = b"\1"


class Reader:
    """One frame's body, and how far it has been read."""

    __slots__ = ("_structures", "data", "depth", "end", "offset", "version")

    def __init__(self, data: bytes, version: int) -> None:
        self.data: bytes = data
        self.offset: int = 0
        self.end: int = len(data)
        self.version: int = version
        self.depth: int = 0
        self._structures: int = 0

    def count(self) -> None:
        """Count a structure, or an element that is null. Raises MalformedFrame above the limit."""
        self._structures += 1
        if self._structures > MAX_STRUCTURES:
            raise MalformedFrame(f"more than {MAX_STRUCTURES} structures in a frame")

    def take(self, size: int) -> bytes:
        """Return the next octets."""
        start = self.offset
        stop = start + size
        if size < 0 or stop > self.end:
            raise MalformedFrame("a field is longer than what is left of its frame")
        self.offset = stop
        return self.data[start:stop]

    def boolean(self) -> bool:
        """Read a boolean: anything but 0 is true."""
        return self.take(1) != _NULL

    def number(self, form: Struct) -> int:
        """Read a number of a fixed size."""
        value: int = form.unpack(self.take(form.size))[0]
        return value


def read_frame(body: bytes, version: int) -> Structure:
    """Read a command: the code and what follows it, without the size. Raises MalformedFrame."""
    reader = Reader(body, version)
    found = _read_structure(reader, Structure)
    if reader.offset != reader.end:
        raise MalformedFrame(f"{type(found).__name__} is longer than its fields")
    return found


def write_frame(command: Structure, version: int) -> bytes:
    """Encode a command with its size. Raises ValueError if it does not fit its encoding."""
    pieces: list[bytes] = []
    _write_structure(pieces, command, version)
    body = b"".join(pieces)
    return _I32.pack(len(body)) + body


def read_nested(field: bytes, version: int) -> Structure | None:
    """Read a field with a structure, which may be null. Raises MalformedFrame."""
    reader = Reader(field, version)
    found = _read_nested(reader, Structure)
    if reader.offset != reader.end:
        raise MalformedFrame("a structure is longer than its fields")
    return found


def skip_nested(data: bytes, offset: int, version: int) -> int:
    """Return where a field with a structure ends. Raises MalformedFrame."""
    reader = Reader(data, version)
    reader.offset = offset
    _read_nested(reader, Structure)
    return reader.offset


def read_throwable(field: bytes, version: int) -> Throwable | None:
    """Read a field with a throwable, which may be null. Raises MalformedFrame."""
    return _read_throwable(Reader(field, version), Structure)


def write_nested(structure: Structure | None, version: int) -> bytes:
    """Encode a field with a structure."""
    pieces: list[bytes] = []
    _write_nested(pieces, structure, version)
    return b"".join(pieces)


# -- kinds of fields -----------------------------------------------------------------------------------------------


def _read_string(reader: Reader, of: type[Structure]) -> str | None:
    return decode_name(reader.take(reader.number(_U16))) if reader.boolean() else None


def _write_string(pieces: list[bytes], value: str | None, version: int) -> None:
    pieces.append(string_field(value))


def string_field(value: str | None) -> bytes:
    """Encode a text, or null. Raises ValueError if it has more than 65,535 octets."""
    if value is None:
        return _NULL
    raw = encode_text(value)
    if len(raw) > MAX_TEXT_BYTES:
        raise ValueError(f"a text of {len(raw)} octets; {MAX_TEXT_BYTES} is the most")
    return _PRESENT + _U16.pack(len(raw)) + raw


def _read_bytes(reader: Reader, of: type[Structure]) -> bytes | None:
    return reader.take(reader.number(_I32)) if reader.boolean() else None


def bytes_field(value: bytes | None) -> bytes:
    """Encode octets, or null."""
    return _NULL if value is None else _PRESENT + _I32.pack(len(value)) + value


def _read_throwable(reader: Reader, of: type[Structure]) -> Throwable | None:
    """Read the names of a class and of what happened; neither is looked up anywhere."""
    if not reader.boolean():
        return None
    name = decode_text(reader.take(reader.number(_U16))) if reader.boolean() else None
    message = decode_text(reader.take(reader.number(_U16))) if reader.boolean() else None
    return Throwable(name, message)


def _write_throwable(pieces: list[bytes], value: Throwable | None, version: int) -> None:
    if value is None:
        pieces.append(_NULL)
        return
    pieces.append(_PRESENT)
    for text in (value.class_name, value.message):
        pieces.append(string_field(text if text is None else text[:_MAX_THROWABLE_TEXT]))


def _read_nested(reader: Reader, of: type[Structure]) -> Structure | None:
    return _read_structure(reader, of) if reader.boolean() else None


def _write_nested(pieces: list[bytes], value: Structure | None, version: int) -> None:
    if value is None:
        pieces.append(_NULL)
        return
    pieces.append(_PRESENT)
    _write_structure(pieces, value, version)


def _read_array(reader: Reader, of: type[Structure]) -> tuple[Structure | None, ...] | None:
    if not reader.boolean():
        return None
    count = reader.number(_I16)
    # Each element has an octet at least.
    if count < 0 or count > reader.end - reader.offset:
        raise MalformedFrame(f"an array of {count} elements in {reader.end - reader.offset} octets")
    return tuple([_read_element(reader, of) for _ in range(count)])


def _read_element(reader: Reader, of: type[Structure]) -> Structure | None:
    if reader.boolean():
        return _read_structure(reader, of)
    reader.count()
    return None


def _write_array(pieces: list[bytes], value: tuple[Structure | None, ...] | None, version: int) -> None:
    if value is None:
        pieces.append(_NULL)
        return
    pieces.append(_PRESENT + _I16.pack(len(value)))
    for element in value:
        _write_nested(pieces, element, version)


READERS: Final[dict[str, Callable[[Reader, type[Structure]], object]]] = {
    BOOLEAN: lambda reader, of: reader.boolean(),
    BYTE: lambda reader, of: int.from_bytes(reader.take(1), signed=True),
    INT: lambda reader, of: reader.number(_I32),
    LONG: lambda reader, of: reader.number(_I64),
    STRING: _read_string,
    BYTES: _read_bytes,
    OCTETS_8: lambda reader, of: reader.take(8),
    THROWABLE: _read_throwable,
    NESTED: _read_nested,
    ARRAY: _read_array,
}
WRITERS: Final[dict[str, Callable[[list[bytes], Any, int], None]]] = {
    BOOLEAN: lambda pieces, value, version: pieces.append(_PRESENT if value else _NULL),
    BYTE: lambda pieces, value, version: pieces.append(value.to_bytes(1, signed=True)),
    INT: lambda pieces, value, version: pieces.append(_I32.pack(value)),
    LONG: lambda pieces, value, version: pieces.append(_I64.pack(value)),
    STRING: _write_string,
    BYTES: lambda pieces, value, version: pieces.append(bytes_field(value)),
    OCTETS_8: lambda pieces, value, version: pieces.append(value),
    THROWABLE: _write_throwable,
    NESTED: _write_nested,
    ARRAY: _write_array,
}


# -- structures ----------------------------------------------------------------------------------------------------

_BY_NAME: Final[dict[str, type[Structure]]] = {
    name: found
    for module in (structures, commands)
    for name, found in vars(module).items()
    if isinstance(found, type) and issubclass(found, Structure)
}
TYPES: Final[dict[int, type[Structure]]] = {found.code: found for found in _BY_NAME.values() if found.code >= 0}
"""Types that are sent, by code. A client chooses among these, and by number only."""

FieldPlan = tuple[str, Wire, type[Structure]]
"""An attribute, its declaration, and the type of a structure in it."""
_plans: Final[dict[tuple[type[Structure], int], list[FieldPlan]]] = {}


def fields_of(found: type[Structure], version: int) -> list[FieldPlan]:
    """Return the fields of a type in a version, in order; worked out once."""
    plan = _plans.get((found, version))
    if plan is None:
        declared = [(field.name, field.metadata[Wire]) for field in fields(found)]
        plan = [(name, wire, _BY_NAME.get(wire.of, Structure)) for name, wire in declared if wire.is_in(version)]
        _plans[found, version] = plan
    return plan


def _read_structure(reader: Reader, of: type[Structure]) -> Structure:
    """Read a code and the fields of its type, which has to be `of` or extend it."""
    code = reader.take(1)[0]
    found = TYPES.get(code)
    if found is None or found.since > reader.version:
        raise MalformedFrame(f"type {code} is not known in version {reader.version}")
    if not issubclass(found, of):
        raise MalformedFrame(f"{found.__name__} in the place of {of.__name__}")
    if reader.depth > MAX_DEPTH:
        raise MalformedFrame(f"more than {MAX_DEPTH} structures within each other")
    reader.count()
    reader.depth += 1
    values = {name: READERS[wire.kind](reader, type_) for name, wire, type_ in fields_of(found, reader.version)}
    reader.depth -= 1
    return found(**values)


def _write_structure(pieces: list[bytes], value: Structure, version: int) -> None:
    """Encode a code and the fields that a version has."""
    found = type(value)
    if found.code < 0 or found.since > version:
        raise ValueError(f"{found.__name__} cannot be sent in version {version}")
    pieces.append(bytes((found.code,)))
    for name, wire, _ in fields_of(found, version):
        WRITERS[wire.kind](pieces, getattr(value, name), version)
