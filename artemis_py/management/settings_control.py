"""Management of address settings: which ones apply to an address, and which match each of them comes from."""

import json
from collections.abc import Mapping
from enum import Enum
from typing import TYPE_CHECKING, Final

from artemis_py.core.settings.address_settings import ADDRESS_SETTINGS
from artemis_py.management.control import Kind, Operation, Parameter, Row, view

if TYPE_CHECKING:
    from artemis_py.management.broker_control import BrokerControl


def _settings(control: "BrokerControl", address: str) -> str:
    """Return the values that apply to an address, by the names of `broker.xml`, as JSON text."""
    values = control.domain.settings.values(address)
    return json.dumps({each.name: _plain(values[each.attribute][0]) for each in ADDRESS_SETTINGS}, ensure_ascii=False)


def _origins(control: "BrokerControl", address: str) -> str:
    """Return `{name: {"value", "match"}}` as JSON text; the match is null where the default applies."""
    values = control.domain.settings.values(address)
    found = {}
    for each in ADDRESS_SETTINGS:
        value, match = values[each.attribute]
        found[each.name] = {"value": _plain(value), "match": match}
    return json.dumps(found, ensure_ascii=False)


def _plain(value: object) -> object:
    return value.name if isinstance(value, Enum) else value


SETTINGS_OPERATIONS: Final[Mapping[str, Row]] = {
    "getAddressSettingsAsJSON": view(Operation(_settings, Parameter("address", Kind.TEXT))),
    "listAddressSettingOrigins": view(Operation(_origins, Parameter("address", Kind.TEXT))),
}
"""Operations of the resource `broker`; `listAddressSettingOrigins` is ours."""
