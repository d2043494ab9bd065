"""Conversion between AMQP messages and the core's neutral view, for other protocols and for selectors."""

from collections.abc import Callable
from struct import Struct
from typing import Any, Final
from uuid import UUID

from artemis_amqp.engine.codec import read_value, skip_value, write_compound, write_value
from artemis_amqp.engine.extensions import JMS_ANNOTATIONS
from artemis_amqp.engine.performatives import Properties, encode, read_composite
from artemis_amqp.engine.types import (
    Array,
    Byte,
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
    ULong,
    UShort,
)
from artemis_amqp.messages.sections import (
    APPLICATION_PROPERTIES,
    DATA,
    FOOTER,
    NOT_KEPT,
    PROPERTIES,
    SEQUENCE,
    VALUE,
    count_of,
    read_map,
    section_at,
)
from artemis_py.core.messages.view import MessageView
from artemis_py.core.messages.widths import Binary32, Int8, Int16, Int32

_U32: Final = Struct(">I")

_WIDTHS: Final[dict[type, Callable[[Any], object]]] = {
    Byte: Int8,
    UByte: Int16,
    Short: Int16,
    UShort: Int32,
    Int: Int32,
    Float32: Binary32,
}
"""Numbers of AMQP in a neutral view; those that are not here are plain int and float."""
_TYPES: Final[dict[type, Callable[[Any], object]]] = {Int8: Byte, Int16: Short, Int32: Int, Binary32: Float32}
"""Numbers of a neutral view in AMQP."""


def plain(value: object) -> object:
    """Return `value` without AMQP classes, as other protocols and selectors use it.

    Whole numbers and timestamps become int, decimals float, symbols and characters str, an array a list; a described
    value is replaced by its value.
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


def portable(value: object) -> object:
    """Return `value` as a neutral view has it: as `plain` does, and numbers keep their width."""
    width = _WIDTHS.get(type(value))
    if width is not None:
        return width(value)
    if isinstance(value, (list, tuple)):
        return [portable(item) for item in value]
    if isinstance(value, dict):
        return {_plain_key(key): portable(item) for key, item in value.items()}
    if isinstance(value, Array):
        return [portable(item) for item in value.items]
    if isinstance(value, Described):
        return portable(value.value)
    return plain(value)


def typed(value: object) -> object:
    """Return `value` of a neutral view with the AMQP types of its numbers."""
    kind = _TYPES.get(type(value))
    if kind is not None:
        return kind(value)
    if isinstance(value, (list, tuple)):
        return [typed(item) for item in value]
    if isinstance(value, dict):
        return {typed(key): typed(item) for key, item in value.items()}
    return value


def _plain_key(key: object) -> object:
    """Return a map key without AMQP classes; it stays hashable, so lists within it become tuples."""
    result = plain(key)
    return _frozen(result) if isinstance(result, list) else result


def _frozen(items: list[object]) -> tuple[object, ...]:
    return tuple([_frozen(item) if isinstance(item, list) else item for item in items])


def _plain_map(items: dict[object, object]) -> dict[str, object]:
    return {str(key): portable(value) for key, value in items.items()}


def to_view(annotations_raw: bytes, bare: bytes) -> MessageView:
    """Return the whole message as a neutral view. Raises MalformedValue.

    The body is the octets of all data sections, the amqp-value, or the items of all sequences as one list. The footer
    is left out. Long because it has one branch per kind of section, in one pass.
    """
    view = MessageView()
    if annotations_raw:
        count = count_of(annotations_raw)
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
        if code == PROPERTIES:
            properties, _ = read_composite(bare, offset, end)
            assert isinstance(properties, Properties)
            _view_properties(view, properties)
        elif code == APPLICATION_PROPERTIES:
            view.properties = _plain_map(read_map(bare, body, end))
        elif code != FOOTER:
            value, _ = read_value(bare, body, end, 1)
            if code == DATA and isinstance(value, bytes):
                data.append(value)
                view.body = value
            elif code == SEQUENCE and isinstance(value, list):
                items += value
                view.body = items
            elif code == VALUE:
                view.body = portable(value)
            else:
                raise MalformedValue(f"0x{code:x} at octet {offset} is not a body section, or not of its type")
        offset = skip_value(bare, body, end, 1)
    if len(data) > 1:
        view.body = b"".join(data)
    elif view.body is items:
        view.body = portable(items)
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
    """Return kept annotations and bare message, for AMQP clients, of a message that another protocol brought.

    Octets become a data section, anything else an amqp-value. AMQP cannot represent three things, which are left
    out: non-ASCII text in content-type, content-encoding and annotation names, properties that are maps or lists, and
    integers beyond 64 bits. Raises TypeError or ValueError for a body that no AMQP value can carry.
    """
    content = bytearray()
    count = 0
    for name, value in view.annotations.items():
        if name.isascii() and name not in NOT_KEPT:
            write_value(content, Symbol(name))
            write_value(content, _annotation(name, value))
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
            write_value(content, typed(value))
            count += 2
    if count:
        bare += b"\x00\x53\x74"
        write_compound(bare, 0xC1, count, content)
    bare += b"\x00\x53\x75" if isinstance(view.body, bytes) else b"\x00\x53\x77"
    write_value(bare, typed(view.body))
    return annotations_raw, bytes(bare)


def _annotation(name: str, value: object) -> object:
    """Return an annotation's value; JMS clients want theirs as bytes (amqp10 §17)."""
    if name in JMS_ANNOTATIONS and isinstance(value, int) and 0 <= value < 128:
        return Byte(value)
    return typed(value)


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
    """Return a message or correlation id: a number becomes a ulong if it fits, a value of no AMQP type its text."""
    if value is None or isinstance(value, (str, bytes, UUID)):
        return value
    if isinstance(value, int) and 0 <= value < 2**64:
        return ULong(value)
    return str(value)


def _ascii(value: str | None) -> str | None:
    return value if value is not None and value.isascii() else None


def _is_simple(value: object) -> bool:
    """Tell whether an application property may have this value (AMQP 1.0 §3.2.5)."""
    if type(value) is int:
        return -(2**63) <= value < 2**63
    return value is None or type(value) in (str, bool, float, bytes, UUID) or type(value) in _TYPES
