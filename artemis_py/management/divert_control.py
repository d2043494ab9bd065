"""Management of diverts: the resource `divert.<name>`, and the operations of the broker that concern them.

Names follow Artemis (artemis-model §6.1). What administrators make is kept in the store (artemis-model §3.2).
"""

import json
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, ClassVar, Final

from artemis_py.core.routing.circles import circles
from artemis_py.core.routing.divert import Divert
from artemis_py.core.routing.undeliverable import BOTH_TYPES
from artemis_py.core.settings.divert_config import DivertConfig
from artemis_py.errors import InvalidRequest
from artemis_py.management.control import (
    Control,
    Kind,
    NoSuchResource,
    Operation,
    Parameter,
    Row,
    bounded_names,
    edit,
    view,
)
from artemis_py.management.divert_request import changed_config, divert_config, divert_type, transformer

if TYPE_CHECKING:
    from artemis_py.management.broker_control import BrokerControl


def _class_name(divert: Divert) -> str | None:
    config = divert.config.transformer
    return None if config is None else config.name


def _properties(divert: Divert) -> dict[str, str]:
    config = divert.config.transformer
    return {} if config is None else dict(config.properties)


DIVERT_COLUMNS: Final[Mapping[str, Callable[[Divert], object]]] = {
    "name": lambda divert: divert.name,
    "routingName": lambda divert: divert.config.routing_name,
    "address": lambda divert: divert.address.name,
    "forwardingAddress": lambda divert: ",".join(divert.forwarding_addresses),
    "exclusive": lambda divert: divert.supersedes,
    "filter": lambda divert: divert.config.filter,
    "routingType": lambda divert: divert.copy_type.name,
    "transformerClassName": _class_name,
    "transformerProperties": _properties,
    "managed": lambda divert: divert.keeper is not None,
    "copies": lambda divert: divert.forwarded,
    "unchanged": lambda divert: divert.unchanged,
    "failed": lambda divert: divert.failed,
    "lastTime": lambda divert: divert.last_ms,
}
"""Columns of `listDiverts`, and members of the JSON that changes return."""


class DivertControl(Control):
    """One divert, for the duration of one request."""

    def __init__(self, divert: Divert, internal_prefix: str) -> None:
        super().__init__(f"divert.{divert.name}")
        self.divert = divert
        self.internal_prefix = internal_prefix

    attributes: ClassVar = {
        "UniqueName": lambda control: control.divert.name,
        "RoutingName": lambda control: control.divert.config.routing_name,
        "Address": lambda control: control.divert.address.name,
        "ForwardingAddress": lambda control: ",".join(control.divert.forwarding_addresses),
        "Exclusive": lambda control: control.divert.supersedes,
        "Filter": lambda control: control.divert.config.filter,
        "RoutingType": lambda control: control.divert.copy_type.name,
        "TransformerClassName": lambda control: _class_name(control.divert),
        "TransformerProperties": lambda control: _properties(control.divert),
        "TransformerPropertiesAsJSON": lambda control: json.dumps(_properties(control.divert), ensure_ascii=False),
        "RetroactiveResource": lambda control: control.divert.name.startswith(control.internal_prefix),
        "Managed": lambda control: control.divert.keeper is not None,
        "MessagesDiverted": lambda control: control.divert.forwarded,
        "MessagesUnchanged": lambda control: control.divert.unchanged,
        "MessagesFailed": lambda control: control.divert.failed,
        "LastTime": lambda control: control.divert.last_ms,
    }


# -- operations of the broker --------------------------------------------------------------------------------------


def all_diverts(control: "BrokerControl") -> list[Divert]:
    """Return the diverts of the domain."""
    return [binding for binding in control.domain.others.values() if isinstance(binding, Divert)]


def divert_names(control: "BrokerControl") -> list[str]:
    """Return the names of all diverts, sorted. Raises LimitExceeded beyond MAX_NAMES."""
    names = bounded_names([divert.name for divert in all_diverts(control)], "listDiverts")
    return control.seen_names("divert", names)


def find_divert(control: "BrokerControl", name: str) -> Divert:
    """Return a divert. Raises NoSuchResource, which proposes similar names."""
    divert = control.domain.others.get(name)
    if not isinstance(divert, Divert):
        raise no_such_divert(control, name)
    return divert


def no_such_divert(control: "BrokerControl", name: str) -> NoSuchResource:
    """Return the refusal of a divert that does not exist; it proposes similar names."""
    near = control.proposed("divert", name, [each.name for each in all_diverts(control)])
    return NoSuchResource(f"divert '{name}' does not exist{near}")


def _create(control: "BrokerControl", config: DivertConfig) -> str:
    """Create a divert, and its address if the client may do that; return the divert as JSON text."""
    if config.address not in control.domain.addresses:
        # Refuse the divert before its address is created for nothing.
        control.domain.check_unused(config.name)
        control.diverts.check(config)
        control.session.create_address(config.address, BOTH_TYPES)
    return _described(control, control.diverts.create(config))


def create_from(control: "BrokerControl", wanted: Mapping[str, object]) -> str:
    """Create the divert that a JSON object describes."""
    return _create(control, divert_config(wanted))


# Long because it has the parameters of Artemis' operation, by position.
def create_by_position(
    control: "BrokerControl",
    name: str,
    routing_name: str | None,
    address: str,
    forwarding_address: str,
    exclusive: bool,
    filter: str | None,
    transformer_class: str | None,
    properties: object = None,
    routing_type: str | None = None,
) -> str:
    """Create a divert: the forms with seven, eight and nine parameters."""
    config = DivertConfig(
        name=name,
        routing_name=routing_name or None,
        address=address,
        forwarding_address=forwarding_address,
        exclusive=exclusive,
        filter=filter or None,
        transformer=transformer(transformer_class, properties),
        routing_type=divert_type(routing_type),
    )
    return _create(control, config)


def update_from(control: "BrokerControl", wanted: Mapping[str, object]) -> str:
    """Change the members that a JSON object has."""
    name = wanted.get("name")
    if not isinstance(name, str) or not name:
        raise InvalidRequest("updateDivert needs the name of the divert")
    divert = find_divert(control, name)
    return _update(control, divert, changed_config(divert.config, wanted))


def update_by_position(
    control: "BrokerControl",
    name: str,
    forwarding_address: str,
    filter: str | None,
    transformer_class: str | None,
    properties: object,
    routing_type: str | None,
) -> str:
    """Change a divert: the form with six parameters, all of which count."""
    divert = find_divert(control, name)
    config = DivertConfig(
        name=name,
        routing_name=divert.config.routing_name,
        address=divert.config.address,
        forwarding_address=forwarding_address,
        exclusive=divert.config.exclusive,
        filter=filter or None,
        transformer=transformer(transformer_class, properties),
        routing_type=divert_type(routing_type),
    )
    return _update(control, divert, config)


def _update(control: "BrokerControl", divert: Divert, config: DivertConfig) -> str:
    if config.address not in control.domain.addresses:
        control.diverts.check(config)
        control.session.create_address(config.address, BOTH_TYPES)
    return _described(control, control.diverts.update(divert, config))


def destroy(control: "BrokerControl", name: str) -> None:
    """Remove a divert."""
    control.diverts.remove(find_divert(control, name))


def _described(control: "BrokerControl", divert: Divert) -> str:
    """Return a divert as JSON text, with the circle that leads back to it, or null."""
    others = [each.config for each in all_diverts(control) if each is not divert]
    found = circles([divert.config, *others], control.domain.options.wildcards)
    ways = [way for way in found if way[0] == divert.name]
    row = {column: value(divert) for column, value in DIVERT_COLUMNS.items()}
    return json.dumps(row | {"circle": ways[0] if ways else None}, ensure_ascii=False)


_NAME: Final = Parameter("name", Kind.TEXT)
_FILTER: Final = Parameter("filter", Kind.TEXT_OR_NULL)
_CLASS: Final = Parameter("transformerClassName", Kind.TEXT_OR_NULL)
_PROPERTIES: Final = Parameter("transformerProperties", Kind.OBJECT)
_NO_PROPERTIES: Final = Parameter("transformerProperties", Kind.TEXT_OR_NULL)
_TYPE: Final = Parameter("routingType", Kind.TEXT_OR_NULL)
_DIVERT: Final = Parameter("divert", Kind.OBJECT)
_TO: Final = Parameter("forwardingAddress", Kind.TEXT)
_SEVEN: Final = (
    _NAME,
    Parameter("routingName", Kind.TEXT_OR_NULL),
    Parameter("address", Kind.TEXT),
    _TO,
    Parameter("exclusive", Kind.FLAG),
    _FILTER,
    _CLASS,
)

OPERATIONS: Final[Mapping[str, Row]] = {
    "listDivertNames": view(Operation(divert_names)),
    "createDivert": edit(
        Operation(create_from, _DIVERT),
        Operation(create_by_position, *_SEVEN),
        Operation(
            lambda control, name, routing_name, address, to, exclusive, filter, class_name, kind: create_by_position(
                control, name, routing_name, address, to, exclusive, filter, class_name, None, kind
            ),
            *_SEVEN,
            _TYPE,
        ),
        Operation(create_by_position, *_SEVEN, _PROPERTIES, _TYPE),
        Operation(create_by_position, *_SEVEN, _NO_PROPERTIES, _TYPE),
    ),
    "updateDivert": edit(
        Operation(update_from, _DIVERT),
        Operation(update_by_position, _NAME, _TO, _FILTER, _CLASS, _PROPERTIES, _TYPE),
        Operation(update_by_position, _NAME, _TO, _FILTER, _CLASS, _NO_PROPERTIES, _TYPE),
    ),
    "destroyDivert": edit(Operation(destroy, _NAME)),
}
"""Operations of the resource `broker`."""
