"""Reads the `<cluster-connections>` and `<discovery-groups>` of broker.xml (mesh §2.1 to §2.4)."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from artemis_py.config.document import in_core
from artemis_py.config.elements import Elements
from artemis_py.core.settings.cluster_config import (
    CLUSTER_OPTIONS,
    DISCOVERY_OPTIONS,
    ClusterConfig,
    DiscoveryConfig,
    LoadBalancing,
    Scope,
    parse_scope,
)
from artemis_py.core.settings.declaration import Kind, Option
from artemis_py.transport.config import DEFAULT_PORT, ConnectorConfig

_TRUTH: Final = ("true", "false")
_PORT: Final = Option(
    name="port", attribute="port", kind=Kind.COUNT, default=None, minimum=1, maximum=65535, help="", since=""
)


def read_discovery_groups(core: Any, elements: Elements) -> Iterator[DiscoveryConfig]:
    """Yield the discovery groups that name what to look up."""
    report = elements.report
    names: set[str] = set()
    for element in core.iterfind(f"{in_core('discovery-groups')}/{in_core('discovery-group')}"):
        name = elements.name(element)
        values = elements.children(element, DISCOVERY_OPTIONS)
        dns = element.find(in_core("dns"))
        if dns is None:
            text = "names nothing to look up; write <dns>_artemis._tcp.example.org</dns>, or list <static-connectors>"
            report.problem(report.place(element), text)
            continue
        place = report.place(dns)
        dns_name = (dns.text or "").strip()
        given = elements.attributes(dns, (_PORT,)).get("port")
        if not dns_name:
            report.problem(place, "is empty; write the name of SRV records, or a name with addresses")
        elif dns_name.startswith("_") and given is not None:
            report.problem(report.place(dns, "attribute port"), "SRV records have ports of their own; remove it")
        elif name in names:
            text = f'there is another discovery group called "{name}"; give each its own name'
            report.problem(report.place(element), text)
        elif name is not None:
            names.add(name)
            port = None if dns_name.startswith("_") else given or DEFAULT_PORT
            yield DiscoveryConfig(name=name, dns_name=dns_name, dns_port=port, **values)


def read_clusters(
    core: Any, elements: Elements, connectors: Mapping[str, ConnectorConfig], groups: Mapping[str, DiscoveryConfig]
) -> tuple[ClusterConfig, ...]:
    """Return the cluster connections; what they name must be among `connectors` and `groups`."""
    return tuple(_Reader(elements, connectors, groups).read(core))


class _Reader:
    """Reads one cluster connection after the other."""

    def __init__(
        self, elements: Elements, connectors: Mapping[str, ConnectorConfig], groups: Mapping[str, DiscoveryConfig]
    ) -> None:
        self._elements: Final = elements
        self._report: Final = elements.report
        self._connectors: Final = connectors
        self._groups: Final = groups
        self._seen: Final[list[ClusterConfig]] = []

    def read(self, core: Any) -> Iterator[ClusterConfig]:
        """Yield the cluster connections that are complete."""
        for element in core.iterfind(f"{in_core('cluster-connections')}/{in_core('cluster-connection')}"):
            name = self._elements.name(element)
            values = self._elements.children(element, CLUSTER_OPTIONS)
            self._read_forward(element, values)
            connector = self._connector(element.find(in_core("connector-ref")))
            static = element.find(in_core("static-connectors"))
            names = [] if static is None else [self._connector(each) for each in static]
            clients = element.find(in_core("client-connectors"))
            told = [] if clients is None else [self._connector(each) for each in clients]
            config = ClusterConfig(
                name=name or "",
                connector=connector or "",
                static_connectors=tuple(dict.fromkeys(each for each in names if each is not None)),
                client_connectors=tuple(dict.fromkeys(each for each in told if each is not None)),
                direct_connections_only=static is not None and self._truth(static, "allow-direct-connections-only"),
                discovery_group=self._group(element, static),
                scope=self._scope(element),
                **values,
            )
            if name is not None and connector is not None:
                self._check(element, config)
                self._seen.append(config)
                yield config

    def _read_forward(self, element: Any, values: dict[str, Any]) -> None:
        """Read the old form of message-load-balancing, which counts if both are there."""
        old = element.find(in_core("forward-when-no-consumers"))
        if old is None:
            return
        text = (old.text or "").strip()
        place = self._report.place(old)
        if text not in _TRUTH:
            self._report.problem(place, f'"{text}" is neither true nor false; write one of the two in lower case')
            return
        kind = LoadBalancing.STRICT if text == "true" else LoadBalancing.ON_DEMAND
        values["load_balancing"] = kind
        wins = ", which it replaces" if element.find(in_core("message-load-balancing")) is not None else ""
        self._report.warning(place, f"is an old form; write {kind.name} into message-load-balancing{wins}")

    def _truth(self, element: Any, attribute: str) -> bool:
        text = element.get(attribute, "false").strip()
        if text not in _TRUTH:
            place = self._report.place(element, f"attribute {attribute}")
            self._report.problem(place, f'"{text}" is neither true nor false; write one of the two in lower case')
        return bool(text == "true")

    def _connector(self, element: Any) -> str | None:
        """Return the name that a `<connector-ref>` has, if there is such a connector."""
        if element is None:
            return None
        name = (element.text or "").strip()
        if name in self._connectors:
            return name
        names = ", ".join(self._connectors) or "none"
        self._report.problem(self._report.place(element), f'there is no connector "{name}"; <connectors> has {names}')
        return None

    def _group(self, element: Any, static: Any) -> str | None:
        """Return the name of the discovery group, if there is such a group and no static list."""
        reference = element.find(in_core("discovery-group-ref"))
        if reference is None:
            return None
        place = self._report.place(reference)
        name: str = (reference.get("discovery-group-name") or "").strip()
        if static is not None:
            self._report.problem(place, "stands beside static-connectors; keep one of the two")
        if name in self._groups:
            return name
        names = ", ".join(self._groups) or "none"
        self._report.problem(place, f'there is no discovery group "{name}"; <discovery-groups> has {names}')
        return None

    def _scope(self, element: Any) -> Scope:
        address = element.find(in_core("address"))
        if address is None:
            return Scope()
        try:
            return parse_scope(address.text or "")
        except ValueError as error:
            self._report.problem(self._report.place(address), str(error))
            return Scope()

    def _check(self, element: Any, config: ClusterConfig) -> None:
        """Report what cannot work, or not as it looks."""
        place = self._report.place(element)
        if self._seen:
            text = "is a second mesh, and a broker belongs to one; widen its address list, or use another broker"
            self._report.problem(place, text)
        for other in self._seen:
            if other.name == config.name:
                text = f'there is another cluster connection called "{config.name}"; give each its own name'
                self._report.problem(place, text)
            shared = other.scope.overlap(config.scope)
            if shared is not None:
                both = f'"{other.name}" and "{config.name}"'
                what = f'addresses such as "{shared}x"' if shared else "all addresses"
                text = f"{both} share {what}, whose messages would be delivered twice; give each prefixes of its own"
                self._report.problem(place, text)
        if config.discovery_group is None and element.find(in_core("discovery-group-ref")) is None:
            if not set(config.static_connectors) - {config.connector}:
                text = "names no other broker: this one waits until others name it"
                self._report.warning(place, text)
        if config.connection_ttl_ms <= config.check_period_ms:
            text = "connection-ttl is not above check-period: silent brokers are cut off before they are suspect"
            self._report.warning(place, text)
        for attempts, name in (
            (config.initial_connect_attempts, "initial-connect-attempts"),
            (config.reconnect_attempts, "reconnect-attempts"),
        ):
            if attempts >= 0:
                at = self._report.place(element.find(in_core(name)))
                self._report.warning(at, "then the broker is not dialled until this one restarts; -1 goes on")
