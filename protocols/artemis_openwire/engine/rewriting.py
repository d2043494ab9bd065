"""A message with other fields: for consumers of another version, and for messages that the broker sends elsewhere.

Only the octets of the fields that change are written; everything else is copied.
"""

from typing import Final

from attrs import frozen

from artemis_openwire.engine.codec import bytes_field, read_nested, string_field, write_nested
from artemis_openwire.engine.fields import I64, skip_string
from artemis_openwire.engine.message_fields import HEADER, MessageFields
from artemis_openwire.engine.structures import ActiveMQDestination, MessageId

_BLOB: Final = 29
_PLAIN: Final = 23
_NULL: Final = b"\0"
_LAYOUTS: Final = (0, 1, 2, 3, 3, 3, 3, 3, 3, 3, 10, 10, 10)
"""Versions in which a message has the same fields, by the first of them."""


def layout_of(version: int) -> int:
    """Return the first version in which messages have the fields that they have in this one."""
    return _LAYOUTS[version]


@frozen(kw_only=True)
class Changes:
    """Fields to change; None: leave it as it is."""

    destination: ActiveMQDestination | None = None
    original_destination: ActiveMQDestination | None = None
    message_id: MessageId | None = None
    persistent: bool | None = None
    expiration_ms: int | None = None
    priority: int | None = None
    timestamp_ms: int | None = None
    properties: bytes | None = None
    """Encoded properties; empty for none."""
    user_id: str | None = None
    drops_user: bool = False
    drops_transaction: bool = False


def rewrite(header: bytes, body: bytes, changes: Changes) -> tuple[bytes, bytes]:
    """Return a kept message and its header with some fields changed. Raises MalformedFrame if it is damaged."""
    version, _, _, _, _, arrived_ms = HEADER.unpack(header)
    fields = MessageFields()
    fields.read(body, version)
    pieces: list[bytes] = []
    done = 0
    user_at = fields.arrival_at + 8
    for start, end, value in (
        (fields.destination_at, fields.transaction_at, _nested(changes.destination)),
        (fields.transaction_at, fields.original_destination_at, _NULL if changes.drops_transaction else None),
        (fields.original_destination_at, fields.message_id_at, _nested(changes.original_destination)),
        (fields.message_id_at, fields.original_transaction_at, _id(changes.message_id, version)),
        (fields.expiration_at - 1, fields.expiration_at, _octet(changes.persistent)),
        (fields.expiration_at, fields.expiration_at + 8, _number(changes.expiration_ms)),
        (fields.reply_to_at - 1, fields.reply_to_at, _octet(changes.priority)),
        (fields.timestamp_at, fields.timestamp_at + 8, _number(changes.timestamp_ms)),
        (fields.properties_at, fields.structure_at, _octets(changes.properties)),
        (user_at, skip_string(body, user_at), _NULL if changes.drops_user else _text(changes.user_id)),
    ):
        if value is not None:
            pieces += [body[done:start], value]
            done = end
    pieces.append(body[done:])
    return _with_header(b"".join(pieces), version, arrived_ms)


def transcode(header: bytes, body: bytes, version: int) -> tuple[bytes, bytes]:
    """Return a kept message and its header for clients of another version. Raises MalformedFrame if it is damaged.

    What the version has no fields for is left out: the text of a message id before version 10, before version 3 the
    address of a blob, which leaves a message without a body, and the subject of an advisory of a type that it does not
    have.
    """
    old, _, _, _, _, arrived_ms = HEADER.unpack(header)
    fields = MessageFields()
    fields.read(body, old)
    text_at = fields.message_id_at + 2
    is_blob = body[0] == _BLOB and version >= 3
    pieces = [bytes((_PLAIN if body[0] == _BLOB and not is_blob else body[0],)), body[1:text_at]]
    if version >= 10:
        pieces.append(body[text_at : fields.id_producer_at] or _NULL)
    pieces.append(body[fields.id_producer_at : fields.structure_at])
    pieces.append(_structure(body[fields.structure_at : fields.target_at], old, version))
    pieces.append(body[fields.target_at : fields.droppable_at])
    if version >= 2:
        pieces.append(body[fields.droppable_at : fields.droppable_at + 1] if old >= 2 else _NULL)
    if version >= 3:
        pieces.append(body[fields.droppable_at + 1 : fields.times_at + 16] if old >= 3 else bytes(17))
    if version >= 10:
        pieces.append(body[fields.first_at : fields.first_at + 1] if old >= 10 else _NULL)
    if is_blob:
        pieces.append(fields.blob_fields)
    return _with_header(b"".join(pieces), version, arrived_ms)


def _structure(field: bytes, old: int, version: int) -> bytes:
    """Return the subject of an advisory for another version."""
    if field == _NULL:
        return field
    try:
        return write_nested(read_nested(field, old), version)
    except ValueError:
        return _NULL


def _with_header(body: bytes, version: int, arrived_ms: int) -> tuple[bytes, bytes]:
    fields = MessageFields()
    fields.read(body, version)
    return fields.header(arrived_ms), body


def _nested(destination: ActiveMQDestination | None) -> bytes | None:
    # Destinations have the same fields in all versions.
    return None if destination is None else write_nested(destination, 1)


def _id(id: MessageId | None, version: int) -> bytes | None:
    return None if id is None else write_nested(id, version)


def _number(value: int | None) -> bytes | None:
    return None if value is None else I64.pack(value)


def _octet(value: int | None) -> bytes | None:
    return None if value is None else bytes((value,))


def _octets(value: bytes | None) -> bytes | None:
    return None if value is None else bytes_field(value or None)


def _text(value: str | None) -> bytes | None:
    return None if value is None else string_field(value)
