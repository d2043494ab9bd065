"""Reads a queue that an administrator describes in JSON: from Artemis' attribute names to a `QueueConfig`.

Attributes that this broker does not support are refused by name: a queue must not silently lack what was asked for.
"""

from collections.abc import Mapping
from typing import Any, Final

from attrs import NOTHING

from artemis_py.core.names.routing_type import RoutingType
from artemis_py.core.settings.declaration import Kind as OptionKind
from artemis_py.core.settings.queue_config import QueueConfig
from artemis_py.core.settings.queue_settings import Mutability, QueueAttribute
from artemis_py.errors import InvalidRequest
from artemis_py.management.control import Kind, Parameter, proposal
from artemis_py.management.queue_attributes import ATTRIBUTES

# This is not an attribute of the queue, but says how to create it.
AUTO_CREATE_ADDRESS: Final = "auto-create-address"


def parse_routing_type(text: str) -> RoutingType:
    """Parse ANYCAST or MULTICAST, in upper or lower case. Raises InvalidRequest."""
    try:
        return RoutingType[text.upper()]
    except KeyError:
        raise InvalidRequest(f"routing type {text!r} is unknown; it is ANYCAST or MULTICAST") from None


def queue_config(wanted: Mapping[str, object]) -> QueueConfig:
    """Return the queue that a JSON object describes; without `address` it is bound to the address of its own name.

    Raises InvalidRequest, naming the attribute.
    """
    values = _fields({name: value for name, value in wanted.items() if name != AUTO_CREATE_ADDRESS})
    if not values.get("name"):
        raise InvalidRequest("a queue needs a name")
    values.setdefault("address", values["name"])
    return QueueConfig(**values)


def queue_changes(wanted: Mapping[str, object]) -> tuple[str, dict[str, Any]]:
    """Return the queue's name and the changed `QueueConfig` fields. Raises InvalidRequest, naming the attribute."""
    name = wanted.get("name")
    if not isinstance(name, str) or not name:
        raise InvalidRequest("updateQueue needs the name of the queue")
    changes = {attribute: value for attribute, value in wanted.items() if attribute != "name"}
    for attribute in changes:
        if attribute in ATTRIBUTES and ATTRIBUTES[attribute].mutability is not Mutability.EVERYBODY:
            raise InvalidRequest(f"attribute {attribute!r} of a queue cannot be changed")
    return name, _fields(changes)


def _fields(wanted: Mapping[str, object]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for name, value in wanted.items():
        attribute = ATTRIBUTES.get(name)
        if attribute is None:
            raise InvalidRequest(
                f"a queue has no attribute {name!r}, or it is not supported yet{proposal(name, ATTRIBUTES)}"
            )
        kind = _kind(attribute)
        if not Parameter(name, kind).accepts(value):
            raise InvalidRequest(f"attribute {name!r} must be {kind.value}")
        if isinstance(value, int) and attribute.minimum is not None and value < attribute.minimum:
            raise InvalidRequest(f"attribute {name!r} is {value}; it must be {attribute.minimum:g} or more")
        values[attribute.attribute] = _parsed(attribute, value)
    if values.get("filter") == "":
        values["filter"] = None
    return values


def _parsed(attribute: QueueAttribute, value: object) -> object:
    """Return the value of a field for a value of JSON. Raises InvalidRequest."""
    if attribute.kind is RoutingType:
        return parse_routing_type(str(value))
    if isinstance(attribute.kind, OptionKind):
        return value
    try:
        return attribute.kind[str(value).upper()]
    except KeyError:
        names = " or ".join(attribute.kind.__members__)
        raise InvalidRequest(f"attribute {attribute.json!r} is {value!r}; it must be {names}") from None


def _kind(attribute: QueueAttribute) -> Kind:
    """Return the kind of JSON value for an attribute; an enum is the name of a member."""
    match attribute.kind:
        case OptionKind.BOOLEAN:
            return Kind.FLAG
        case OptionKind.TEXT if attribute.default is not NOTHING:
            return Kind.TEXT_OR_NULL
        case OptionKind.TEXT:
            return Kind.TEXT
        case OptionKind():
            return Kind.NUMBER
        case _:
            return Kind.TEXT
