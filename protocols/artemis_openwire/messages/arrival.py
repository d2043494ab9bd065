"""A message as it arrives: what the core has to know about it, and its octets (openwire §9.1)."""

from typing import Final

from artemis_openwire.engine.message_fields import MessageFields
from artemis_openwire.engine.rewriting import Changes, rewrite
from artemis_openwire.engine.structures import ActiveMQDestination
from artemis_openwire.messages.format import OPENWIRE_FORMAT
from artemis_openwire.messages.layout import find_property
from artemis_openwire.messages.names import GROUP_ID, SCHEDULED_PREFIX
from artemis_py.core.messages.message import Message
from artemis_py.core.routing.duplicates import DUPLICATE_ID, duplicate_id
from artemis_py.errors import MalformedFrame

_MAX_PRIORITY: Final = 9
_EMPTY: Final = 9
"""Octets of a field of properties in which there are none: present, its size, their number."""
_SCHEDULED_OCTETS: Final = SCHEDULED_PREFIX.encode()
_GROUP_OCTETS: Final = GROUP_ID.encode()
_DUPLICATE_OCTETS: Final = DUPLICATE_ID.encode()


def message_of(
    fields: MessageFields, arrived_ms: int, producer: str, target: ActiveMQDestination | None = None
) -> Message:
    """Return the message that `fields` has read, without address and routing type.

    `producer` is the client id, for consumers that want nothing from their own connection. A `target` replaces the
    destination, which stays in the message as the original one: for each destination of a list.
    """
    body = fields.body
    header = fields.header(arrived_ms)
    properties_at = fields.properties_at
    structure_at = fields.structure_at
    if target is not None:
        original = fields.original_destination or fields.destination
        header, body = rewrite(header, body, Changes(destination=target, original_destination=original))
    message = Message(
        OPENWIRE_FORMAT,
        "",
        body,
        header,
        fields.persistent,
        min(max(fields.priority, 0), _MAX_PRIORITY),
        max(fields.expiration_ms, 0),
        0,
        -1,
        producer,
    )
    if fields.body[fields.group_id_at] != 0 or (
        structure_at - properties_at > _EMPTY and body.find(_GROUP_OCTETS, properties_at, structure_at) >= 0
    ):
        message.has_group = True
    return message


def asks_for_time(fields: MessageFields) -> bool:
    """Tell whether a message may say when it is to be sent; `timing.timing_of` finds out."""
    properties_at = fields.properties_at
    structure_at = fields.structure_at
    return (
        structure_at - properties_at > _EMPTY and fields.body.find(_SCHEDULED_OCTETS, properties_at, structure_at) >= 0
    )


def duplicate_id_of(fields: MessageFields) -> bytes:
    """Return the id under which the address takes the message once, as `Producer.send` wants it; empty without one.

    Raises MalformedFrame if the properties are damaged.
    """
    properties_at = fields.properties_at
    structure_at = fields.structure_at
    if structure_at - properties_at <= _EMPTY or fields.body.find(_DUPLICATE_OCTETS, properties_at, structure_at) < 0:
        return b""
    return duplicate_id(_property(fields, _DUPLICATE_OCTETS))


def _property(fields: MessageFields, name: bytes) -> object:
    """Return the value of a property by its encoded name."""
    try:
        return find_property(fields.body, fields.properties_at, name)
    except IndexError:
        raise MalformedFrame("the properties of a message are shorter than their entries") from None
