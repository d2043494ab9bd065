"""A message as it arrives: what the core has to know about it, and its octets (openwire §9.1)."""

from typing import Final

from artemis_openwire.engine.message_fields import MessageFields
from artemis_openwire.engine.rewriting import Changes, rewrite
from artemis_openwire.engine.structures import ActiveMQDestination
from artemis_openwire.engine.values import amend_map
from artemis_openwire.messages.format import OPENWIRE_FORMAT
from artemis_openwire.messages.layout import find_property
from artemis_openwire.messages.names import DELAY, GROUP_ID
from artemis_py.core.messages.message import LATEST_MS, Message
from artemis_py.core.routing.duplicates import DUPLICATE_ID, duplicate_id
from artemis_py.errors import MalformedFrame

_MAX_PRIORITY: Final = 9
_EMPTY: Final = 9
"""Octets of a field of properties in which there are none: present, its size, their number."""
_DELAY_OCTETS: Final = DELAY.encode()
_GROUP_OCTETS: Final = GROUP_ID.encode()
_DUPLICATE_OCTETS: Final = DUPLICATE_ID.encode()


def message_of(
    fields: MessageFields, arrived_ms: int, producer: str, target: ActiveMQDestination | None = None
) -> Message:
    """Return the message that `fields` has read, without address and routing type.

    `producer` is the client id, for consumers that want nothing from their own connection. A `target` replaces the
    destination, which stays in the message as the original one: for each destination of a list. A message with a delay
    loses the property, so that a client that sends on what it received does not ask for the delay again. Raises
    MalformedFrame if its properties are damaged and something in them matters. Long because it names each fact.
    """
    body = fields.body
    header = fields.header(arrived_ms)
    properties_at = fields.properties_at
    structure_at = fields.structure_at
    delivery_time_ms = 0
    properties: bytes | None = None
    has_properties = structure_at - properties_at > _EMPTY
    if has_properties and body.find(_DELAY_OCTETS, properties_at, structure_at) >= 0:
        delay_ms = _property(fields, _DELAY_OCTETS)
        if isinstance(delay_ms, int) and not isinstance(delay_ms, bool) and delay_ms > 0:
            delivery_time_ms = min(arrived_ms + delay_ms, LATEST_MS)
            properties = amend_map(fields.marshalled_properties, (DELAY,), {})
    if properties is not None or target is not None:
        original = fields.original_destination or fields.destination
        changes = Changes(
            destination=target,
            original_destination=None if target is None else original,
            properties=properties,
        )
        header, body = rewrite(header, body, changes)
    message = Message(
        OPENWIRE_FORMAT,
        "",
        body,
        header,
        fields.persistent,
        min(max(fields.priority, 0), _MAX_PRIORITY),
        max(fields.expiration_ms, 0),
        delivery_time_ms,
        -1,
        producer,
    )
    if fields.body[fields.group_id_at] != 0 or (
        has_properties and fields.body.find(_GROUP_OCTETS, properties_at, structure_at) >= 0
    ):
        message.has_group = True
    return message


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
