"""Management of virtual hosts: the resource `virtualhost.<name>`, and the operations of the broker that concern them.

Artemis has no virtual hosts, so the names are ours. The broker's resource in the default host has them all. Each host
has a management address as well, whose `broker` is that host alone.
"""

import json
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Final

from attrs import evolve, frozen

from artemis_py.core.services.services import Services
from artemis_py.core.services.virtual_hosts import HostState, VirtualHosts
from artemis_py.core.settings.declaration import Kind as OptionKind
from artemis_py.core.settings.declaration import Option
from artemis_py.core.settings.virtual_host_config import VIRTUAL_HOST_OPTIONS, VirtualHostConfig
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
    proposal,
    view,
)

if TYPE_CHECKING:
    from artemis_py.management.broker_control import BrokerControl

DEFAULT: Final = "default"
"""Name of the default host in management."""

_OPTIONS: Final = {option.name: option for option in VIRTUAL_HOST_OPTIONS}
_MEMBERS: Final = ("name", *_OPTIONS)


@frozen
class Facts:
    """One host, as management shows it."""

    config: VirtualHostConfig
    state: HostState
    services: Services


HOST_COLUMNS: Final[Mapping[str, Callable[[Facts], object]]] = {
    "name": lambda host: host.config.name,
    "state": lambda host: host.state.value,
    "hostnames": lambda host: list(host.config.hostnames),
    "maxConnections": lambda host: host.config.max_connections,
    "maxQueues": lambda host: host.config.max_queues,
    "roles": lambda host: list(host.config.roles),
    "declared": lambda host: host.config.declared,
    "connectionCount": lambda host: len(host.services.sessions.opened),
    "addressCount": lambda host: len(host.services.sessions.domain.addresses),
    "queueCount": lambda host: len(host.services.sessions.domain.queues),
    "exchangeCount": lambda host: len(list(host.services.sessions.domain.exchanges)),
}
"""Columns of `listVirtualHosts`, and members of the JSON that changes return. None takes long for a full host."""


def _attribute(value: Callable[[Facts], object]) -> Callable[["VirtualHostControl"], object]:
    """Return a column as an attribute of the resource."""
    return lambda control: value(control.host)


class VirtualHostControl(Control):
    """One virtual host, for the duration of one request."""

    def __init__(self, host: Facts) -> None:
        super().__init__(f"virtualhost.{host.config.name}")
        self.host = host

    attributes: ClassVar = {
        **{name[0].upper() + name[1:]: _attribute(value) for name, value in HOST_COLUMNS.items()},
        "TotalMessageCount": lambda control: control.host.services.sessions.totals().messages,
        "TotalMessagesAdded": lambda control: control.host.services.sessions.totals().messages_in,
        "TotalMessagesAcknowledged": lambda control: control.host.services.sessions.totals().messages_out,
    }


def all_hosts(control: "BrokerControl") -> list[Facts]:
    """Return all hosts, the default one first, those that are being deleted last. Raises InvalidRequest."""
    hosts = _hosts(control)
    default = VirtualHostConfig(name=DEFAULT, declared=True)
    return [
        Facts(default, HostState.ACTIVE, control.services),
        *[Facts(each.config, each.state, each.services) for each in (*hosts.all(), *hosts.leaving())],
    ]


def host_names(control: "BrokerControl") -> list[str]:
    """Return the names of all hosts, sorted. Raises InvalidRequest, LimitExceeded beyond MAX_NAMES."""
    names = [each.config.name for each in all_hosts(control) if each.state is not HostState.DELETING]
    return control.seen_names("virtualhost", bounded_names(names, "listVirtualHosts"))


def find_host(control: "BrokerControl", name: str) -> Facts:
    """Return a host by its name, in any case. Raises InvalidRequest; NoSuchResource, which proposes similar names."""
    for each in all_hosts(control):
        if each.state is not HostState.DELETING and each.config.name.lower() == name.lower():
            return each
    raise no_such_host(control, name)


def no_such_host(control: "BrokerControl", name: str) -> NoSuchResource:
    """Return the refusal of a host that does not exist; it proposes similar names."""
    names = [each.config.name for each in all_hosts(control) if each.state is not HostState.DELETING]
    return NoSuchResource(f"virtual host '{name}' does not exist{control.proposed('virtualhost', name, names)}")


def create(control: "BrokerControl", wanted: Mapping[str, object]) -> str:
    """Create the host that a JSON object describes."""
    hosts = _hosts(control)
    values = _values(wanted)
    host = hosts.create(VirtualHostConfig(name=_name(wanted), **values))
    return _described(Facts(host.config, host.state, host.services))


def update(control: "BrokerControl", wanted: Mapping[str, object]) -> str:
    """Change the options that a JSON object has."""
    hosts = _hosts(control)
    values = _values(wanted)
    name = _other(control, _name(wanted))
    host = hosts.update(name, evolve(hosts.host(name).config, **values))
    return _described(Facts(host.config, host.state, host.services))


def start(control: "BrokerControl", name: str) -> bool:
    """Open a stopped host to clients; False if it is active."""
    return _hosts(control).start(_other(control, name))


def stop(control: "BrokerControl", name: str, reason: str = "") -> bool:
    """Close a host to clients, and end their connections; False if it is stopped already."""
    return _hosts(control).stop(_other(control, name), reason)


def delete(control: "BrokerControl", name: str) -> None:
    """Delete a host with its addresses, queues, messages and exchanges; its name is free at once."""
    _hosts(control).delete(_other(control, name))


def _hosts(control: "BrokerControl") -> VirtualHosts:
    if control.hosts is None:
        raise InvalidRequest("virtual hosts are managed in the default host; connect without naming another one")
    return control.hosts


def _other(control: "BrokerControl", name: str) -> str:
    """Return the name of an existing host. Raises InvalidRequest, also for the default host."""
    found = find_host(control, name)
    if found.services is control.services:
        raise InvalidRequest("the default host is the broker itself; it is neither stopped nor changed nor deleted")
    return found.config.name


def _described(host: Facts) -> str:
    return json.dumps({name: value(host) for name, value in HOST_COLUMNS.items()}, ensure_ascii=False)


def _name(wanted: Mapping[str, object]) -> str:
    name = wanted.get("name")
    if not isinstance(name, str) or not name:
        raise InvalidRequest("a text is needed for 'name'")
    return name


def _values(wanted: Mapping[str, object]) -> dict[str, Any]:
    """Return the options that a JSON object has, by attribute. Raises InvalidRequest."""
    values: dict[str, Any] = {}
    for name, value in wanted.items():
        if name not in _MEMBERS:
            text = f"member {name[:200]!r} is unknown{proposal(name, _MEMBERS)}; known: {', '.join(_MEMBERS)}"
            raise InvalidRequest(text)
        if name != "name":
            values[_OPTIONS[name].attribute] = _value(_OPTIONS[name], value)
    return values


def _value(option: Option, value: object) -> object:
    if option.kind is OptionKind.NAMES and isinstance(value, str):
        value = [word.strip() for word in value.split(",") if word.strip()]
    if option.kind is OptionKind.NAMES and isinstance(value, list) and all(isinstance(each, str) for each in value):
        return tuple(value)
    if option.holds(value) and option.kind is not OptionKind.NAMES:
        if isinstance(value, bool) or not isinstance(value, int) or value >= (option.minimum or 0):
            return value
    raise InvalidRequest(f"{option.name!r} cannot be {json.dumps(value, ensure_ascii=False)[:200]}")


_NAME: Final = Parameter("name", Kind.TEXT)
_HOST: Final = Parameter("host", Kind.OBJECT)

HOST_OPERATIONS: Final[Mapping[str, Row]] = {
    "listVirtualHostNames": view(Operation(host_names)),
    "createVirtualHost": edit(Operation(create, _HOST)),
    "updateVirtualHost": edit(Operation(update, _HOST)),
    "startVirtualHost": edit(Operation(start, _NAME)),
    "stopVirtualHost": edit(Operation(stop, _NAME), Operation(stop, _NAME, Parameter("reason", Kind.TEXT))),
    "deleteVirtualHost": edit(Operation(delete, _NAME)),
}
"""Operations of the resource `broker`."""
