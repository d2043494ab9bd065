"""What management shows of one message: its header and properties, never its body."""

from collections.abc import Mapping
from typing import Final

from artemis_py.core.names.routing_type import RoutingType
from artemis_py.core.queues.reference import Reference
from artemis_py.core.routing.routes import NO_TYPE
from artemis_py.errors import ProtocolError, StoreError

MAX_TEXT: Final = 256
"""Characters of a value that are shown."""
MAX_PROPERTIES: Final = 100


def message_facts(reference: Reference) -> dict[str, object]:
    """Return a row about a message; `messageID` is its sequence in the queue."""
    message = reference.message
    facts: dict[str, object] = {
        "messageID": reference.sequence,
        "address": message.address,
        "routingType": None if message.routing_type == NO_TYPE else RoutingType(message.routing_type).name,
        "durable": message.durable,
        "priority": message.priority,
        "expiration": message.expires_ms,
        "deliveryCount": reference.delivery_count,
        "redelivered": reference.delivery_count > 0,
        "size": message.content_size,
        "largeMessage": message.large is not None,
    }
    had_view = message.view_cache is not None
    if message.large is not None:
        # Decoding would load the body.
        return facts | {
            "userID": None,
            "timestamp": 0,
            "properties": {},
            "annotations": _properties(message.extra or {}),
        }
    try:
        view = message.view
    except (ProtocolError, StoreError) as error:
        # It is listed nevertheless, because it can be moved and removed.
        facts |= {"userID": None, "timestamp": 0, "properties": {}, "unreadable": str(error)}
    else:
        facts |= {
            "userID": None if view.message_id is None else _plain(view.message_id),
            "timestamp": view.creation_time_ms or 0,
            "properties": _properties(view.properties),
        }
        if not had_view:
            # Nothing counts the memory of decoded messages, and a list may have a thousand.
            message.view_cache = None
    facts["annotations"] = _properties(message.extra or {})
    return facts


def _properties(found: Mapping[str, object]) -> dict[str, object]:
    return {str(name)[:MAX_TEXT]: _plain(value) for name, value in list(found.items())[:MAX_PROPERTIES]}


def _plain(value: object) -> object:
    """Return a value in JSON's types; text is cut."""
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, float) and value == value and abs(value) != float("inf"):
        return value
    if isinstance(value, bytes):
        return value[:MAX_TEXT].hex()
    return str(value)[:MAX_TEXT]
