"""Finds what keeps brokers of a mesh from reaching each other, as far as the file of one of them shows it."""

from collections.abc import Mapping, Sequence
from ipaddress import ip_address
from typing import Final

from attrs import frozen

from artemis_py.config.broker_config import BrokerConfig
from artemis_py.config.report import Place, Report
from artemis_py.core.names.routing_type import RoutingType
from artemis_py.core.settings.address_settings import AddressSettings, merge
from artemis_py.core.settings.cluster_config import ClusterConfig, ClusterLogin, DiscoveryConfig, need_of_one_broker
from artemis_py.transport.config import AcceptorConfig, ConnectorConfig

_AMQP: Final = "AMQP"
_SCRAM: Final = "SCRAM-SHA-256"


@frozen(kw_only=True)
class MeshParts:
    """The parts of a configuration that a mesh consists of."""

    clusters: tuple[ClusterConfig, ...]
    connectors: Mapping[str, ConnectorConfig]
    acceptors: Sequence[AcceptorConfig]
    login: ClusterLogin
    groups: tuple[DiscoveryConfig, ...] = ()


def check_mesh(parts: MeshParts, report: Report) -> None:
    """Report these things at the connectors that they are about."""
    for cluster in parts.clusters:
        own = parts.connectors[cluster.connector]
        others = [parts.connectors[name] for name in cluster.static_connectors if name != own.name]
        _check_own(own, others, parts, report)
        if own.name in cluster.static_connectors or any(_same_place(own, each) for each in others):
            text = f'"{own.name}" is this broker itself, and is left out of the static connectors of "{cluster.name}"'
            report.warning(_place(own), text)
        if not parts.login.is_complete and not _has_certificate(own):
            text = (
                f'"{cluster.name}" has nothing to log in with: set cluster-user and cluster-password, or sslEnabled '
                f'and keyStorePath on connector "{own.name}"'
            )
            report.problem(_place(own), text)
        for each in others:
            _check_login(each, parts, report)
        for each in [parts.connectors[name] for name in cluster.client_connectors if name != own.name]:
            if _is_any(each.host):
                text = f"clients are told {each.endpoint}, which is no address of a machine; write a host name"
                report.problem(_place(each), text)


def _check_own(own: ConnectorConfig, others: list[ConnectorConfig], parts: MeshParts, report: Report) -> None:
    """Report an address of this broker that others cannot use."""
    place = _place(own)
    if _is_any(own.host):
        report.problem(place, f"others are told {own.endpoint}, which is no address of a machine; write a host name")
    elif is_local(own.host) and any(not is_local(each.host) for each in others):
        text = f"others are told {own.endpoint}, which means their own machine to them; write a host name"
        report.problem(place, text)
    speaking = [each for each in parts.acceptors if not each.protocols or _AMQP in each.protocols]
    there = [each for each in speaking if each.port == own.port]
    if not there and not any(each.port == 0 for each in speaking):
        text = f"others are told port {own.port}, on which no acceptor speaks AMQP, unless something forwards it"
        report.warning(place, text)
    elif there and not any((each.tls is None) == (own.tls is None) for each in there):
        has, has_not = ("connector", "acceptor") if own.tls is not None else ("acceptor", "connector")
        report.problem(place, f"the {has} has TLS, and the {has_not} of port {own.port} has not")


def _check_login(other: ConnectorConfig, parts: MeshParts, report: Report) -> None:
    """Warn of a password that would not be sent: this broker offers to others what they offer to it."""
    offers_scram = any(_SCRAM in each.sasl_mechanisms for each in parts.acceptors)
    if other.tls is None and not is_local(other.host) and not offers_scram:
        text = (
            "a password is not sent to another machine without TLS: set sslEnabled, or have the brokers offer "
            f"{_SCRAM} (saslMechanisms of their acceptors)"
        )
        report.warning(_place(other), text)


def warn_of_waiting(
    settings: Mapping[str, AddressSettings], places: Mapping[str, tuple[str, int]], report: Report
) -> None:
    """Warn of matches with a `redistribution-delay` of -1, which was the default of Artemis and strands messages."""
    for match, each in settings.items():
        if each.redistribution_delay == -1:
            file, line = places[match]
            place = Place(file=file, line=line, element="address-setting")
            text = f'match "{match}": redistribution-delay -1: messages that wait stay at their broker for ever'
            report.warning(place, f"{text}, even if only another one has consumers; remove it")


def warn_of_kept(config: BrokerConfig, report: Report) -> None:
    """Warn of queues whose messages stay at their broker, although the address is in the scope of a mesh."""
    text = "its messages stay at their broker, and consumers at other brokers of the mesh get nothing of it"
    for match, each in config.address_settings.items():
        kind = need_of_one_broker(merge([each]).queue_defaults)
        if kind and (match in ("#", "*") or any(_may_cover(cluster, match) for cluster in config.clusters)):
            file, line = config.places[match]
            place = Place(file=file, line=line, element="address-setting")
            report.warning(place, f'match "{match}": a queue that {kind} needs one broker: {text}')
    connectors = {each.name: each for each in config.connectors}
    for cluster in config.clusters:
        for address in config.addresses:
            for queue in address.queues:
                kind = need_of_one_broker(queue.resolved(merge([])))
                if kind and cluster.scope.covers(address.name) and queue.routing_type is not RoutingType.MULTICAST:
                    own = connectors[cluster.connector]
                    report.warning(
                        Place(file=own.file, line=own.line, element="cluster-connection"),
                        f'queue "{queue.name}" {kind}, and needs one broker: {text}',
                    )


def _may_cover(cluster: ClusterConfig, match: str) -> bool:
    """Tell whether a mesh has addresses of a match, as far as the words before its first wildcard say."""
    fixed = match.partition("#")[0].partition("*")[0]
    return cluster.scope.covers(fixed) or any(name.startswith(fixed) for name in cluster.scope.includes)


def _has_certificate(connector: ConnectorConfig) -> bool:
    return connector.tls is not None and connector.tls.key_store_path is not None


def _same_place(one: ConnectorConfig, other: ConnectorConfig) -> bool:
    return (one.host.lower(), one.port) == (other.host.lower(), other.port)


def is_local(host: str) -> bool:
    """Tell whether a host name means the machine of whoever uses it."""
    if host.lower() in ("localhost", "localhost.localdomain"):
        return True
    try:
        address = ip_address(host.partition("%")[0])
    except ValueError:
        return False
    return address.is_loopback or address.is_unspecified


def _is_any(host: str) -> bool:
    return host in ("0.0.0.0", "::")


def _place(connector: ConnectorConfig) -> Place:
    return Place(file=connector.file, line=connector.line, element="connector")
