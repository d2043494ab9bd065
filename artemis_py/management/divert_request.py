"""Reads a divert that an administrator describes in JSON: from Artemis' names of its members to a `DivertConfig`."""

from collections.abc import Mapping
from typing import Any, Final

from attrs import evolve

from artemis_py.core.settings.divert_config import DivertConfig, DivertType, TransformerConfig
from artemis_py.errors import InvalidRequest
from artemis_py.management.control import Kind, Parameter, parse_json, proposal
from artemis_py.transformers.installed import transformer_name

TRANSFORMER: Final = "transformer-configuration"
CLASS_NAME: Final = "class-name"

MEMBERS: Final[Mapping[str, tuple[str, Kind]]] = {
    "name": ("name", Kind.TEXT),
    "routing-name": ("routing_name", Kind.TEXT_OR_NULL),
    "address": ("address", Kind.TEXT),
    "forwarding-address": ("forwarding_address", Kind.TEXT),
    "exclusive": ("exclusive", Kind.FLAG),
    "filter-string": ("filter", Kind.TEXT_OR_NULL),
    "routing-type": ("routing_type", Kind.TEXT_OR_NULL),
    TRANSFORMER: ("transformer", Kind.OBJECT),
}
"""Members of the JSON object: the field of `DivertConfig`, and the kind of value."""

_REQUIRED: Final = ("name", "address", "forwarding-address")


def divert_config(wanted: Mapping[str, object]) -> DivertConfig:
    """Return the divert that a JSON object describes. Raises InvalidRequest, naming the member."""
    values = _fields(wanted)
    for name in _REQUIRED:
        if not values.get(MEMBERS[name][0]):
            raise InvalidRequest(f"a divert needs a value for {name!r}")
    return DivertConfig(**values)


def changed_config(before: DivertConfig, wanted: Mapping[str, object]) -> DivertConfig:
    """Return a divert with the members that a JSON object has; the others stay. Raises InvalidRequest."""
    values = _fields(wanted)
    for name in _REQUIRED:
        if values.get(MEMBERS[name][0]) == "":
            raise InvalidRequest(f"a divert needs a value for {name!r}")
    return evolve(before, **values)


def transformer(name: str | None, properties: object = None) -> TransformerConfig | None:
    """Return the transformer of this name, with properties as an object or its text; None for no or an empty name."""
    if isinstance(properties, str) and properties:
        properties = parse_json(properties, "the properties of a transformer")
    if properties is None or properties == "":
        properties = {}
    if not isinstance(properties, dict) or not all(isinstance(value, str) for value in properties.values()):
        raise InvalidRequest("the properties of a transformer must be a JSON object of texts")
    if not name:
        if properties:
            raise InvalidRequest(f"properties of a transformer need its {CLASS_NAME}")
        return None
    return TransformerConfig(transformer_name(name), tuple(properties.items()))


def divert_type(text: str | None) -> DivertType:
    """Return the routing type for copies; STRIP if there is none. Raises InvalidRequest."""
    if not text:
        return DivertType.STRIP
    try:
        return DivertType[text.upper()]
    except KeyError:
        names = " or ".join(DivertType.__members__)
        raise InvalidRequest(f"routing type {text!r} is unknown; for a divert it is {names}") from None


def _fields(wanted: Mapping[str, object]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for name, value in wanted.items():
        known = MEMBERS.get(name)
        if known is None:
            raise InvalidRequest(f"a divert has no member {name!r}{proposal(name, MEMBERS)}")
        field, kind = known
        if name == TRANSFORMER and value is None:
            values[field] = None
            continue
        if not Parameter(name, kind).accepts(value):
            raise InvalidRequest(f"member {name!r} must be {kind.value}")
        values[field] = _value(name, value)
    return values


def _value(name: str, value: Any) -> object:
    if name == "routing-type":
        return divert_type(value)
    if name == TRANSFORMER:
        described = Parameter(name, Kind.OBJECT).convert(value)
        assert isinstance(described, dict)
        unknown = [each for each in described if each not in (CLASS_NAME, "properties")]
        class_name = described.get(CLASS_NAME)
        if unknown or not isinstance(class_name, str) or not class_name:
            raise InvalidRequest(f"{TRANSFORMER} has a {CLASS_NAME} and perhaps properties, and nothing else")
        return transformer(class_name, described.get("properties"))
    return None if value == "" and name in ("routing-name", "filter-string") else value
