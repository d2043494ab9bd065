"""Format of messages that the broker itself writes, which is no client protocol's encoding.

Such a message (a management reply, a notification) is built from a `MessageView`; a protocol that delivers it
converts the view as it would convert any message of another protocol. Its bytes are JSON, so that a store can keep it
and a restart can read it. JSON has no bytes, UUIDs or non-text keys; those are written as one-key objects:

    {"$bytes": "<base64>"}   {"$uuid": "<text>"}   {"$map": [[key, value], ...]}   {"$int32": number}

The last one is there for each width that a number of a view may have (`widths`): clients of JMS tell them apart. Every
map is written as `$map`, so no content of a message can be taken for a tag.
"""

import base64
import binascii
import json
from typing import Final
from uuid import UUID

from attrs import evolve

from artemis_py.core.messages.changes import Changes, changed
from artemis_py.core.messages.message import DEFAULT_PRIORITY, Message
from artemis_py.core.messages.view import MessageView
from artemis_py.core.messages.widths import Binary32, Int8, Int16, Int32
from artemis_py.errors import MalformedFrame

# Fields of `MessageView` that are written, in this order.
FIELDS: Final = (
    "message_id",
    "correlation_id",
    "user_id",
    "to",
    "subject",
    "reply_to",
    "content_type",
    "content_encoding",
    "creation_time_ms",
    "group_id",
    "group_sequence",
    "reply_to_group_id",
    "properties",
    "annotations",
    "body",
)

# Names that a selector may use for fields that are not application properties (artemis-model §3.12).
SELECTOR_FIELDS: Final = {
    "AMQUserID": "message_id",
    "JMSMessageID": "message_id",
    "JMSCorrelationID": "correlation_id",
    "AMQTimestamp": "creation_time_ms",
    "JMSTimestamp": "creation_time_ms",
    "JMSType": "subject",
    "JMSReplyTo": "reply_to",
    "AMQGroupID": "group_id",
    "JMSXGroupID": "group_id",
    "JMSXGroupSeq": "group_sequence",
}


_NUMBERS: Final[dict[str, type[int] | type[float]]] = {
    "$int8": Int8,
    "$int16": Int16,
    "$int32": Int32,
    "$float32": Binary32,
}
_TAGS: Final[dict[type, str]] = {kind: tag for tag, kind in _NUMBERS.items()}


class PlainFormat:
    """The broker's own format; `PLAIN_FORMAT` is its only instance."""

    __slots__ = ()

    @property
    def name(self) -> str:
        """Name of the format in the store."""
        return "plain"

    def view(self, message: Message) -> MessageView:
        """Decode `message`; raises MalformedFrame if its bytes are not what `plain_message` wrote."""
        return _decode(message.data)

    def lookup(self, message: Message, name: str) -> object:
        """Return the application property `name`, or the field that selectors call so; None if there is neither."""
        view = message.view
        if name in view.properties:
            return view.properties[name]
        field = SELECTOR_FIELDS.get(name)
        return None if field is None else getattr(view, field)

    def read_properties(self, message: Message) -> dict[str, object]:
        """Return the application properties."""
        return dict(message.view.properties)

    def with_properties(self, message: Message, changes: Changes) -> tuple[bytes, bytes]:
        """Return the message with other application properties; it is small, and written again as a whole."""
        view = message.view
        return _encode(evolve(view, properties=changed(view.properties, changes))), message.annotations


PLAIN_FORMAT: Final = PlainFormat()


def plain_message(
    address: str, view: MessageView, durable: bool = False, priority: int = DEFAULT_PRIORITY, routing_type: int = -1
) -> Message:
    """Return a message for `address` with the content of `view`, which is shared from then on and must not change.

    Raises TypeError for a value that a `MessageView` must not contain.
    """
    message = Message(
        PLAIN_FORMAT, address, _encode(view), durable=durable, priority=priority, routing_type=routing_type
    )
    message.view_cache = view
    message.has_group = view.group_id is not None
    return message


def _encode(view: MessageView) -> bytes:
    written = {name: _to_json(getattr(view, name)) for name in FIELDS if getattr(view, name) is not None}
    return json.dumps(written, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass")


def _decode(data: bytes) -> MessageView:
    try:
        view = MessageView()
        for name, value in json.loads(data.decode("utf-8", "surrogatepass")).items():
            if name not in FIELDS:
                raise ValueError(f"unknown field {name!r}")
            setattr(view, name, _from_json(value))
        if not isinstance(view.properties, dict) or not isinstance(view.annotations, dict):
            raise TypeError("properties and annotations are maps")
        return view
    except (ValueError, TypeError, AttributeError, RecursionError, binascii.Error) as error:
        raise MalformedFrame(f"not a message of the broker's own format: {error}") from error


def _to_json(value: object) -> object:
    tag = _TAGS.get(type(value))
    if tag is not None:
        assert isinstance(value, int | float)
        return {tag: float(value) if isinstance(value, float) else int(value)}
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, bytes | bytearray | memoryview):
        return {"$bytes": base64.b64encode(value).decode("ascii")}
    if isinstance(value, UUID):
        return {"$uuid": str(value)}
    if isinstance(value, dict):
        return {"$map": [[_to_json(key), _to_json(item)] for key, item in value.items()]}
    if isinstance(value, list | tuple):
        return [_to_json(item) for item in value]
    raise TypeError(f"a message cannot hold a value of type {type(value).__name__}")


def _from_json(value: object) -> object:
    if isinstance(value, list):
        return [_from_json(item) for item in value]
    if not isinstance(value, dict):
        return value
    if set(value) == {"$bytes"}:
        return base64.b64decode(value["$bytes"], validate=True)
    if set(value) == {"$uuid"}:
        return UUID(value["$uuid"])
    if set(value) == {"$map"}:
        return {_from_json(key): _from_json(item) for key, item in value["$map"]}
    if len(value) == 1:
        ((tag, number),) = value.items()
        kind = _NUMBERS.get(tag)
        # A damaged one may be too large for a float, or infinite.
        if kind is not None and isinstance(number, float if kind is Binary32 else int):
            return kind(number)
    raise ValueError(f"unknown tag {sorted(value)}")
