"""A queue as an administrator writes it in JSON: from Artemis' attribute names to a `QueueConfig`.

The names are those of reference §2.2, with dashes, as Artemis' own `createQueue` and `updateQueue` take them.
Those that this broker cannot honour are refused by name: a queue must not silently lack what was asked for.
"""

from collections.abc import Mapping
from typing import Any, Final

from attrs import frozen

from artemis_py.core.names.routing_type import RoutingType
from artemis_py.core.settings.options import QueueConfig
from artemis_py.errors import InvalidRequest
from artemis_py.management.control import Kind, Parameter, proposal


@frozen
class Attribute:
    """Where the value of one JSON name goes."""

    field: str
    """Of `QueueConfig`."""
    kind: Kind
    is_mutable: bool = True


ATTRIBUTES: Final[Mapping[str, Attribute]] = {
    "name": Attribute("name", Kind.TEXT, is_mutable=False),
    "address": Attribute("address", Kind.TEXT, is_mutable=False),
    "routing-type": Attribute("routing_type", Kind.TEXT),
    "filter-string": Attribute("filter", Kind.TEXT_OR_NULL),
    "durable": Attribute("durable", Kind.FLAG, is_mutable=False),
    "user": Attribute("user", Kind.TEXT_OR_NULL),
    "max-consumers": Attribute("max_consumers", Kind.NUMBER),
    "exclusive": Attribute("exclusive", Kind.FLAG),
    "purge-on-no-consumers": Attribute("purge_on_no_consumers", Kind.FLAG),
    "consumers-before-dispatch": Attribute("consumers_before_dispatch", Kind.NUMBER),
    "delay-before-dispatch": Attribute("delay_before_dispatch_ms", Kind.NUMBER),
    "enabled": Attribute("enabled", Kind.FLAG),
    "auto-delete": Attribute("auto_delete", Kind.FLAG, is_mutable=False),
    "auto-delete-delay": Attribute("auto_delete_delay_ms", Kind.NUMBER, is_mutable=False),
    "auto-delete-message-count": Attribute("auto_delete_message_count", Kind.NUMBER, is_mutable=False),
}

# Not attributes of the queue, but of how it is created.
AUTO_CREATE_ADDRESS: Final = "auto-create-address"


def parse_routing_type(text: str) -> RoutingType:
    """ANYCAST or MULTICAST, in any case. Raises InvalidRequest."""
    try:
        return RoutingType[text.upper()]
    except KeyError:
        raise InvalidRequest(f"routing type {text!r} is unknown; it is ANYCAST or MULTICAST") from None


def queue_config(wanted: Mapping[str, object]) -> QueueConfig:
    """The queue that a JSON object describes; without `address` it is bound to the address of its own name.

    Raises InvalidRequest, naming the attribute.
    """
    values = _fields({name: value for name, value in wanted.items() if name != AUTO_CREATE_ADDRESS})
    if not values.get("name"):
        raise InvalidRequest("a queue needs a name")
    values.setdefault("address", values["name"])
    return QueueConfig(**values)


def queue_changes(wanted: Mapping[str, object]) -> tuple[str, dict[str, Any]]:
    """The queue's name, and the changed fields of its `QueueConfig`. Raises InvalidRequest, naming the attribute."""
    name = wanted.get("name")
    if not isinstance(name, str) or not name:
        raise InvalidRequest("updateQueue needs the name of the queue")
    changes = {attribute: value for attribute, value in wanted.items() if attribute != "name"}
    for attribute in changes:
        if attribute in ATTRIBUTES and not ATTRIBUTES[attribute].is_mutable:
            raise InvalidRequest(f"attribute {attribute!r} of a queue cannot change")
    return name, _fields(changes)


def _fields(wanted: Mapping[str, object]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for name, value in wanted.items():
        attribute = ATTRIBUTES.get(name)
        if attribute is None:
            raise InvalidRequest(f"a queue has no attribute {name!r}, or not yet{proposal(name, ATTRIBUTES)}")
        if not Parameter(name, attribute.kind).accepts(value):
            raise InvalidRequest(f"attribute {name!r} must be {attribute.kind.value}")
        values[attribute.field] = value
    if "routing_type" in values:
        values["routing_type"] = parse_routing_type(values["routing_type"])
    if values.get("filter") == "":
        values["filter"] = None
    return values
