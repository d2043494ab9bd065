"""Messages as Artemis' export has them, and back: a type, a body, and properties that each have a type of their own.

When Artemis turns an AMQP message into one of its own, it keeps the fields as properties under the names below; here
they become fields again. An imported message has the broker's own format, which every protocol delivers.
"""

import base64
from collections.abc import Mapping
from typing import Final
from uuid import UUID

from attrs import frozen

from artemis_py.core.messages.builtin_format import plain_message
from artemis_py.core.messages.message import Message, validated_user
from artemis_py.core.messages.view import MessageView
from artemis_py.storetools.core_body import BodyType, fits_int, read_body, write_body

NULL_VALUE: Final = "_AMQ_NULL"

_ROUTING_TYPE: Final = "_AMQ_ROUTING_TYPE"
_DELIVERY_TIME: Final = "_AMQ_SCHED_DELIVERY"
_CLIENT_ID: Final = "__AMQ_CID"
_MESSAGE_ID: Final = "NATIVE_MESSAGE_ID"
_CORRELATION_ID: Final = "JMSCorrelationID"
_REPLY_TO: Final = "JMSReplyTo"
_USER: Final = "_AMQ_VALIDATED_USER"
_GROUP_SEQUENCE: Final = "_AMQ_GROUP_SEQUENCE"
_ANNOTATION: Final = "JMS_AMQP_MA_"

_TEXT_FIELDS: Final = {
    "JMSType": "subject",
    "_AMQ_GROUP_ID": "group_id",
    "JMS_AMQP_ContentType": "content_type",
    "JMS_AMQP_ContentEncoding": "content_encoding",
    "JMS_AMQP_REPLYTO_GROUP_ID": "reply_to_group_id",
}
"""Fields of a view that are texts on both sides."""

_EXTRA: Final = frozenset(
    (
        "_AMQ_ORIG_ADDRESS",
        "_AMQ_ORIG_QUEUE",
        "_AMQ_ORIG_MESSAGE_ID",
        "_AMQ_ORIG_ROUTING_TYPE",
        "_AMQ_ACTUAL_EXPIRY",
        "_AMQ_INGRESS_TIMESTAMP",
    )
)
"""Properties that the broker itself notes on a message, under the same names in both."""

_TRACES: Final = ("JMS_AMQP_HEADER", "JMS_AMQP_ORIGINAL_ENCODING", "_AMQ_ROUTE_TO", "_AMQ_LARGE_SIZE")
"""Prefixes of the properties in which Artemis notes what a message was; its producer did not write them."""

_ID_KINDS: Final = {UUID: "ID:AMQP_UUID:", bytes: "ID:AMQP_BINARY:", int: "ID:AMQP_ULONG:"}
_ID_TEXT: Final = "ID:AMQP_NO_PREFIX:"
_DESTINATIONS: Final = ("queue://", "topic://", "temp-queue://", "temp-topic://")


@frozen(kw_only=True)
class Property:
    """One property, with its value as written in the XML."""

    name: str
    type: str
    value: str


@frozen(kw_only=True)
class CoreMessage:
    """A message of the XML."""

    type: BodyType
    body: bytes
    priority: int
    expires_ms: int
    timestamp_ms: int
    user_id: str
    """A UUID, or empty."""
    properties: tuple[Property, ...]


def to_core(message: Message) -> CoreMessage:
    """Return a message as Artemis has it.

    Raises ValueError for values that Core has no type for, ProtocolError if the message's protocol is missing or its
    octets are damaged.
    """
    view = message.view
    type, body = write_body(view.body)
    values: dict[str, object] = dict(view.properties)
    values |= {_ANNOTATION + name: value for name, value in view.annotations.items()}
    for name, field in _TEXT_FIELDS.items():
        values[name] = getattr(view, field)
    values[_MESSAGE_ID] = _id_text(view.message_id)
    values[_CORRELATION_ID] = (
        view.correlation_id if isinstance(view.correlation_id, str) else _id_text(view.correlation_id)
    )
    values[_REPLY_TO] = view.reply_to
    values[_USER] = validated_user(message)
    if values[_USER] is None and view.user_id is not None:
        values[_USER] = view.user_id.decode("utf-8", "replace")
    values[_CLIENT_ID] = message.producer or None
    fields = {name: value for name, value in values.items() if value is not None or name in view.properties}
    properties = [write_property(name, value) for name, value in fields.items()]
    properties += [write_property(name, value) for name, value in (message.extra or {}).items() if name in _EXTRA]
    if view.group_sequence is not None:
        properties.append(Property(name=_GROUP_SEQUENCE, type="integer", value=str(view.group_sequence)))
    if message.routing_type >= 0:
        properties.append(Property(name=_ROUTING_TYPE, type="byte", value=str(message.routing_type)))
    if message.delivery_time_ms:
        properties.append(Property(name=_DELIVERY_TIME, type="long", value=str(message.delivery_time_ms)))
    return CoreMessage(
        type=type,
        body=body,
        priority=message.priority,
        expires_ms=message.expires_ms,
        timestamp_ms=view.creation_time_ms or 0,
        user_id=str(view.message_id) if isinstance(view.message_id, UUID) else "",
        properties=tuple(properties),
    )


def from_core(core: CoreMessage, address: str) -> Message:
    """Return a message of the broker's own format. Raises ValueError."""
    values = {each.name: read_property(each) for each in core.properties if not each.name.startswith(_TRACES)}
    view = MessageView(body=read_body(core.type, core.body), creation_time_ms=core.timestamp_ms or None)
    for name, field in _TEXT_FIELDS.items():
        setattr(view, field, _text(values.pop(name, None)))
    message_id = values.pop(_MESSAGE_ID, None)
    view.message_id = (
        _read_id(message_id) if message_id is not None else (f"ID:{core.user_id}" if core.user_id else None)
    )
    view.correlation_id = _read_id(values.pop(_CORRELATION_ID, None))
    view.reply_to = _without_kind(_text(values.pop(_REPLY_TO, None)))
    user = _text(values.pop(_USER, None))
    view.user_id = None if user is None else user.encode()
    view.group_sequence = _number(values.pop(_GROUP_SEQUENCE, None))
    producer = _text(values.pop(_CLIENT_ID, None)) or ""
    routing_type = _number(values.pop(_ROUTING_TYPE, None))
    delivery_time_ms = _number(values.pop(_DELIVERY_TIME, None)) or 0
    extra = {name: values.pop(name) for name in _EXTRA if name in values}
    view.annotations = _annotations(values)
    view.properties = {name: value for name, value in values.items() if not name.startswith(_ANNOTATION)}
    message = plain_message(address, view, durable=True, priority=min(max(core.priority, 0), 9))
    message.expires_ms = core.expires_ms
    message.delivery_time_ms = delivery_time_ms
    message.producer = producer
    message.routing_type = routing_type if routing_type in (0, 1) else -1
    message.extra = extra or None
    return message


def write_property(name: str, value: object) -> Property:
    """Return a property. Raises ValueError for a list, a map or a number beyond 64 bits."""
    match value:
        case None:
            return Property(name=name, type="bytes", value=NULL_VALUE)
        case bool():
            return Property(name=name, type="boolean", value=str(value).lower())
        case int() if -(1 << 63) <= value < 1 << 63:
            # JMS reads an int as a long, but not the other way.
            return Property(name=name, type="integer" if fits_int(value) else "long", value=str(int(value)))
        case float():
            return Property(name=name, type="double", value=_double(value))
        case bytes():
            return Property(name=name, type="bytes", value=base64.urlsafe_b64encode(value).decode())
        case str() | UUID():
            return Property(name=name, type="simple-string", value=str(value))
        case _:
            raise ValueError(f"its property '{name}' has a value that Artemis' format cannot hold")


def read_property(written: Property) -> object:
    """Return the value of a property. Raises ValueError."""
    if written.value == NULL_VALUE:
        return None
    match written.type:
        case "boolean":
            return written.value == "true"
        case "byte" | "short" | "integer" | "long":
            return int(written.value)
        case "float" | "double":
            return float(written.value)
        case "string" | "simple-string":
            return written.value
        case "bytes":
            return decode_base64(written.value)
        case _:
            raise ValueError(f"its property '{written.name}' has the unknown type '{written.type}'")


def decode_base64(text: str) -> bytes:
    """Decode one text, or several in a row, in either alphabet. Raises ValueError."""
    joined = "".join(text.split()).replace("-", "+").replace("_", "/")
    pieces: list[bytes] = []
    while joined:
        end = joined.find("=")
        stop = len(joined) if end < 0 else end + 1 + joined.startswith("=", end + 1)
        pieces.append(base64.b64decode(joined[:stop], validate=True))
        joined = joined[stop:]
    return b"".join(pieces)


def _double(value: float) -> str:
    return {"inf": "Infinity", "-inf": "-Infinity", "nan": "NaN"}.get(repr(value), repr(value))


def _annotations(values: Mapping[str, object]) -> dict[str, object]:
    return {name[len(_ANNOTATION) :]: value for name, value in values.items() if name.startswith(_ANNOTATION)}


def _id_text(id: object) -> str | None:
    """Return an id as JMS clients of AMQP spell it; None if there is none."""
    if isinstance(id, str):
        return id if id.startswith("ID:") else _ID_TEXT + id
    for kind, prefix in _ID_KINDS.items():
        if isinstance(id, kind):
            return prefix + (id.hex().upper() if isinstance(id, bytes) else str(id))
    return None


def _read_id(text: object) -> object:
    """Return the id that `_id_text` wrote; a damaged one stays a text."""
    if not isinstance(text, str):
        return text
    try:
        if text.startswith(_ID_KINDS[UUID]):
            return UUID(text.removeprefix(_ID_KINDS[UUID]))
        if text.startswith(_ID_KINDS[bytes]):
            return bytes.fromhex(text.removeprefix(_ID_KINDS[bytes]))
        if text.startswith(_ID_KINDS[int]):
            return int(text.removeprefix(_ID_KINDS[int]))
    except ValueError:
        return text
    return text.removeprefix(_ID_TEXT).removeprefix("ID:AMQP_STRING:")


def _without_kind(name: str | None) -> str | None:
    if name is not None:
        for prefix in _DESTINATIONS:
            name = name.removeprefix(prefix)
    return name


def _text(value: object) -> str | None:
    return None if value is None else str(value)


def _number(value: object) -> int | None:
    return value if isinstance(value, int) else None
