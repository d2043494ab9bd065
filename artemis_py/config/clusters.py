"""Reads the `<cluster-connections>` and `<discovery-groups>` of broker.xml (mesh §2.1 to §2.4)."""

from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from ipaddress import ip_address
from typing import Any, Final

from artemis_py.config.document import in_core
from artemis_py.config.elements import Elements
from artemis_py.config.report import Place, Report
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

LONGEST_GROUP: Final = 200
"""Octets of the name of a group on the local network: a string of a TXT record has 255 with its key (RFC 6763)."""
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
        source = _read_source(element, elements)
        if source is None:
            continue
        if name in names:
            text = f'there is another discovery group called "{name}"; give each its own name'
            report.problem(report.place(element), text)
        elif name is not None:
            names.add(name)
            yield DiscoveryConfig(name=name, **source, **values)


def _read_source(element: Any, elements: Elements) -> dict[str, Any] | None:
    """Return where a discovery group looks; None, with a problem in the report, if that is not clear."""
    report = elements.report
    dns, zeroconf = element.find(in_core("dns")), element.find(in_core("zeroconf"))
    if dns is None and zeroconf is None:
        text = (
            "names nothing to look up; write <dns>_artemis._tcp.example.org</dns> or <zeroconf>a name of your own"
            "</zeroconf>, or list <static-connectors>"
        )
        report.problem(report.place(element), text)
        return None
    if dns is not None and zeroconf is not None:
        report.problem(report.place(zeroconf), "stands beside dns; keep one of the two")
        return None
    return _read_zeroconf(zeroconf, report) if dns is None else _read_dns(dns, elements)


def _read_dns(dns: Any, elements: Elements) -> dict[str, Any] | None:
    report = elements.report
    name = (dns.text or "").strip()
    given = elements.attributes(dns, (_PORT,)).get("port")
    if not name:
        report.problem(report.place(dns), "is empty; write the name of SRV records, or a name with addresses")
        return None
    if not name.startswith("_"):
        return {"dns_name": name, "dns_port": given or DEFAULT_PORT}
    if given is not None:
        report.problem(report.place(dns, "attribute port"), "SRV records have ports of their own; remove it")
        return None
    return {"dns_name": name} if _is_there("dns", "SRV records need dnspython", report.place(dns), report) else None


def _read_zeroconf(zeroconf: Any, report: Report) -> dict[str, Any] | None:
    place = report.place(zeroconf)
    group, interface = (zeroconf.text or "").strip(), (zeroconf.get("interface") or "").strip() or None
    if not 0 < len(group.encode()) <= LONGEST_GROUP:
        text = f"write a name that the brokers of this mesh have in common, of up to {LONGEST_GROUP} octets"
        report.problem(place, text)
        return None
    if interface is not None:
        try:
            ip_address(interface)
        except ValueError:
            text = f'"{interface}" is no address; write one of this machine, such as 192.168.1.5'
            report.problem(report.place(zeroconf, "attribute interface"), text)
            return None
    if not _is_there("zeroconf", "it needs the package zeroconf", place, report):
        return None
    return {"zeroconf_group": group, "zeroconf_interface": interface}


def _is_there(package: str, need: str, place: Place, report: Report) -> bool:
    """Tell whether an optional package is installed; if not, the extra of that name is what to install."""
    if find_spec(package) is not None:
        return True
    report.problem(place, f"{need}: pip install 'artemis-py-broker[{package}]'")
    return False


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
