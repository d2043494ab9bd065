"""Conversion between OpenWire messages and the core's neutral view, for other protocols and for transformers.

What neither side can represent is left out, or becomes text (docs/openwire.md has the tables).
"""

import json
from collections.abc import Callable, Mapping
from typing import Any, Final

from artemis_openwire.engine.bodies import inflate, read_body, write_text
from artemis_openwire.engine.commands import (
    ActiveMQBlobMessage,
    ActiveMQBytesMessage,
    ActiveMQMapMessage,
    ActiveMQMessage,
    ActiveMQObjectMessage,
    ActiveMQStreamMessage,
    ActiveMQTextMessage,
)
from artemis_openwire.engine.message_fields import MessageFields
from artemis_openwire.engine.names import message_id_text
from artemis_openwire.engine.structures import (
    ActiveMQDestination,
    ActiveMQQueue,
    ActiveMQTempQueue,
    ActiveMQTempTopic,
    ActiveMQTopic,
)
from artemis_openwire.engine.text import MAX_TEXT_BYTES, encode_text
from artemis_openwire.engine.values import MAX_NESTING, Byte, Float, Long, Short, write_map, write_values
from artemis_openwire.messages.names import (
    ANNOTATION_PREFIX,
    BYTES_KIND,
    CONTENT_ENCODING,
    CONTENT_TYPE,
    DESTINATION_KIND,
    GROUP_ID,
    GROUP_SEQUENCE,
    JAVA_OBJECT,
    MAP_KIND,
    MESSAGE_KIND,
    OBJECT_KIND,
    PLAIN_KIND,
    REPLY_TO_GROUP_ID,
    REPLY_TO_KIND,
    STREAM_KIND,
    TEXT_KIND,
)
from artemis_py.core.messages.jms_ids import native_id
from artemis_py.core.messages.large_body import LOADED_BODY_LIMIT_BYTES
from artemis_py.core.messages.message import MESSAGE_OVERHEAD_BYTES
from artemis_py.core.messages.view import MessageView
from artemis_py.core.messages.widths import Binary32, Int8, Int16, Int32
from artemis_py.errors import ProtocolError

_KINDS: Final[dict[int, int]] = {
    ActiveMQMessage.code: PLAIN_KIND,
    ActiveMQBlobMessage.code: PLAIN_KIND,
    ActiveMQObjectMessage.code: OBJECT_KIND,
    ActiveMQMapMessage.code: MAP_KIND,
    ActiveMQBytesMessage.code: BYTES_KIND,
    ActiveMQStreamMessage.code: STREAM_KIND,
    ActiveMQTextMessage.code: TEXT_KIND,
}
_CODES_OF_EMPTY: Final[dict[int, int]] = {
    OBJECT_KIND: ActiveMQObjectMessage.code,
    MAP_KIND: ActiveMQMapMessage.code,
    BYTES_KIND: ActiveMQBytesMessage.code,
    STREAM_KIND: ActiveMQStreamMessage.code,
    TEXT_KIND: ActiveMQTextMessage.code,
}
"""Kinds of messages that stay what they are without a body."""

_DESTINATION_KINDS: Final[dict[type[ActiveMQDestination], int]] = {
    ActiveMQQueue: 0,
    ActiveMQTopic: 1,
    ActiveMQTempQueue: 2,
    ActiveMQTempTopic: 3,
}
FREE_BYTES: Final = 1024 * 1024
MAX_RATIO: Final = 100
"""A body of more than `FREE_BYTES` must not be more than this many times as large as it was compressed. Text gives 5 to
20, XML that repeats itself 50; zlib can do 1,000, which is what somebody sends to fill memory and time."""
KEPT_RATIO: Final = 16
"""A view that is this many times as large as the message is made for each reader again."""

_SURELY_FITS: Final = MAX_TEXT_BYTES // 6
"""Characters whose encoding is never too long: none takes more than six octets."""

_JAVA_NULL: Final = b"\xac\xed\x00\x05p"
"""The serialised form of Java's null."""

TOPIC_KINDS: Final = (1, 3)

_WIDTHS: Final[dict[type, Callable[[Any], object]]] = {
    Byte: Int8,
    Short: Int16,
    int: Int32,
    Long: int,
    Float: Binary32,
}
"""Numbers of OpenWire in a neutral view."""
_TYPES: Final[dict[type, Callable[[Any], object]]] = {Int8: Byte, Int16: Short, Int32: int, Binary32: Float}
"""Numbers of a neutral view in OpenWire; those that are not here get the size that they need."""

_OWN_ANNOTATIONS: Final = (DESTINATION_KIND, REPLY_TO_KIND, MESSAGE_KIND)
"""Annotations that are fields of a message here."""


# -- from OpenWire -------------------------------------------------------------------------------------------------


def to_view(fields: MessageFields, address: str, content: bytes | None) -> MessageView:
    """Return a message with this content as a neutral view.

    An object is its octets, and null is what Java writes for it. The address of a blob is left out, and so is the
    subject of an advisory. Raises MalformedFrame if the message is damaged, or decompressed too large. Long because it
    names each of the fields.
    """
    is_kept = True
    if fields.compressed and content is not None:
        limit = min(max(FREE_BYTES, MAX_RATIO * len(content)), LOADED_BODY_LIMIT_BYTES)
        content = inflate(fields.code, content, limit)
        is_kept = len(content) <= KEPT_RATIO * (len(fields.body) + MESSAGE_OVERHEAD_BYTES)
    body = read_body(fields.code, content, False, 0)
    if fields.code == ActiveMQObjectMessage.code and not body:
        body = _JAVA_NULL
    view = MessageView(
        message_id=message_id_text(fields.message_id),
        to=address or None,
        subject=fields.jms_type,
        body=neutral(body),
        annotations={MESSAGE_KIND: _KINDS[fields.code]},
        is_kept=is_kept,
    )
    correlation_id = fields.correlation_id
    if correlation_id is not None:
        view.correlation_id = native_id(correlation_id)
    user_id = fields.user_id
    if user_id is not None:
        view.user_id = user_id.encode()
    if fields.timestamp_ms > 0:
        view.creation_time_ms = fields.timestamp_ms
    destination, reply_to = fields.destination, fields.reply_to
    if destination is not None:
        view.annotations[DESTINATION_KIND] = _DESTINATION_KINDS[type(destination)]
    if reply_to is not None:
        view.reply_to = reply_to.physical_name
        view.annotations[REPLY_TO_KIND] = _DESTINATION_KINDS[type(reply_to)]
    for name, value in fields.properties.items():
        _set_property(view, name, neutral(value))
    if fields.group_id is not None:
        view.group_id = fields.group_id
        view.group_sequence = fields.group_sequence
    if fields.code == ActiveMQObjectMessage.code:
        view.content_type = JAVA_OBJECT
    return view


def _set_property(view: MessageView, name: str, value: object) -> None:
    """Put a property into the view: those that stand for a field of another protocol into that field."""
    if name.startswith(ANNOTATION_PREFIX) and name != ANNOTATION_PREFIX:
        view.annotations.setdefault(name[len(ANNOTATION_PREFIX) :], value)
    elif name == GROUP_SEQUENCE and isinstance(value, int) and not isinstance(value, bool):
        view.group_sequence = value
    elif not isinstance(value, str):
        view.properties[name] = value
    elif name == CONTENT_TYPE:
        view.content_type = value
    elif name == CONTENT_ENCODING:
        view.content_encoding = value
    elif name == REPLY_TO_GROUP_ID:
        view.reply_to_group_id = value
    elif name == GROUP_ID:
        view.group_id = value
    else:
        view.properties[name] = value


def neutral(value: object) -> object:
    """Return a value as a neutral view has it: numbers keep their width, and a character becomes text."""
    width = _WIDTHS.get(type(value))
    if width is not None:
        return width(value)
    if isinstance(value, str):
        return str(value)
    if isinstance(value, dict):
        return {key: neutral(item) for key, item in value.items()}
    if isinstance(value, list):
        return [neutral(item) for item in value]
    return value


# -- to OpenWire ---------------------------------------------------------------------------------------------------


def body_of(view: MessageView) -> tuple[int, bytes | None]:
    """Return the type code and the content of a message of another protocol. Raises ProtocolError if it has none.

    Long because it is the table of bodies.
    """
    body = view.body
    kind = view.annotations.get(MESSAGE_KIND)
    try:
        if body is None:
            # An annotation may be anything, even what no dict can look up.
            code = _CODES_OF_EMPTY.get(kind) if isinstance(kind, int) else None
            return code or ActiveMQMessage.code, None
        if isinstance(body, (bytes, bytearray, memoryview)):
            octets = bytes(body)
            if view.content_type == JAVA_OBJECT:
                return ActiveMQObjectMessage.code, octets
            text = None if kind == BYTES_KIND else _decoded(octets, view)
            if text is None:
                return ActiveMQBytesMessage.code, octets or None
            return ActiveMQTextMessage.code, write_text(text)
        if isinstance(body, Mapping):
            value = to_value(body)
            assert isinstance(value, dict)
            return ActiveMQMapMessage.code, write_map(value)
        if isinstance(body, (list, tuple)):
            return ActiveMQStreamMessage.code, write_values([_element(item) for item in body])
        return ActiveMQTextMessage.code, write_text(_text_of(body))
    except ValueError as error:
        raise ProtocolError(f"the body has no form in OpenWire: {error}") from error


def _decoded(octets: bytes, view: MessageView) -> str | None:
    """Return octets as text if their content type says that they are; None if they are not (artemis-model §4.1.6)."""
    if view.content_type is None or view.content_encoding:
        return None
    charset = _charset_of(view.content_type)
    try:
        return None if charset is None else octets.decode(charset)
    except (LookupError, ValueError):
        return None


_TEXTUAL: Final = ("application/json", "application/xml", "application/javascript", "application/xml-dtd")
_CHARSETS: Final = ("utf-8", "utf8", "us-ascii", "ascii", "iso-8859-1", "latin1", "utf-16", "utf-16be", "utf-16le")
"""Character sets whose decoding costs what the octets have, and gives text."""


def _charset_of(content_type: str) -> str | None:
    """Return the character set of a content type of text; None if it is not one of text."""
    name, _, parameters = content_type.lower().partition(";")
    name = name.strip()
    if not name.startswith("text/") and name not in _TEXTUAL and not name.endswith(("+xml", "+json")):
        return None
    for parameter in parameters.split(";"):
        key, _, value = parameter.partition("=")
        if key.strip() == "charset":
            charset = value.strip().strip('"')
            return charset if charset in _CHARSETS else None
    return "utf-8"


def _text_of(value: object) -> str:
    """Return a single value as Java writes it in a text."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def _element(value: object) -> object:
    """Return an element of a stream: what clients do not read there, lists and maps, becomes JSON."""
    if isinstance(value, (Mapping, list, tuple)):
        return json.dumps(to_value(value, 1), ensure_ascii=False, default=_hexadecimal)
    return to_value(value)


def _hexadecimal(value: bytes) -> str:
    """Return octets, which are all that JSON lacks, as text."""
    return value.hex()


def to_value(value: object, depth: int = 0) -> object:
    """Return a value of a neutral view as `values` encodes it. Raises ValueError for too many maps and lists.

    A whole number of more than 64 bits becomes text, and so does what has no type here. In maps, entries with a name
    that is too long are left out.
    """
    kind = _TYPES.get(type(value))
    if kind is not None:
        return kind(value)
    if value is None or isinstance(value, (bool, float, str, bytes)):
        return value
    if isinstance(value, int):
        return value if -(1 << 63) <= value < 1 << 63 else str(value)
    if isinstance(value, (bytearray, memoryview)):
        return bytes(value)
    if depth == MAX_NESTING and isinstance(value, (Mapping, list, tuple)):
        raise ValueError(f"more than {MAX_NESTING} maps and lists within each other")
    if isinstance(value, Mapping):
        named = {_text_of(key): item for key, item in value.items()}
        return {name: to_value(item, depth + 1) for name, item in named.items() if fits(name)}
    if isinstance(value, (list, tuple)):
        return [to_value(item, depth + 1) for item in value]
    return str(value)


def fits(text: str) -> bool:
    """Tell whether a field of a message, or the name of a value, can be this text."""
    size = len(text)
    return size <= MAX_TEXT_BYTES and (size <= _SURELY_FITS or len(encode_text(text)) <= MAX_TEXT_BYTES)


def properties_of(view: MessageView, extra: Mapping[str, object]) -> dict[str, object]:
    """Return the properties of a message of another protocol, and what the broker adds.

    Fields that OpenWire lacks are among them, and annotations of a simple type.
    """
    found: dict[str, object] = {}
    for name, value in view.annotations.items():
        if name not in _OWN_ANNOTATIONS and not isinstance(value, (Mapping, list, tuple)):
            found[ANNOTATION_PREFIX + name] = to_value(value)
    for name, text in (
        # An object message says by its kind what its content is.
        (CONTENT_TYPE, None if view.content_type == JAVA_OBJECT else view.content_type),
        (CONTENT_ENCODING, view.content_encoding),
        (REPLY_TO_GROUP_ID, view.reply_to_group_id),
    ):
        if text is not None:
            found[name] = text
    for name, value in view.properties.items():
        found[name] = _property(value)
    found |= extra
    return {name: value for name, value in found.items() if name and fits(name)}


def _property(value: object) -> object:
    try:
        return to_value(value, 1)
    except ValueError:
        # Deeper than anyone reads it.
        return None
