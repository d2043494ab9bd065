"""Reads the `<connection-routers>` of broker.xml, and finds what cannot work (artemis-model §5.10)."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from attrs import evolve

from artemis_py.config.document import in_core
from artemis_py.config.elements import Elements
from artemis_py.config.mesh_check import MeshParts
from artemis_py.config.report import Place, Report
from artemis_py.config.values import suggest
from artemis_py.core.settings.router_config import (
    CACHE_OPTIONS,
    POOL_OPTIONS,
    ROUTER_OPTIONS,
    CacheConfig,
    KeyType,
    PoolConfig,
    RouterConfig,
    RoutingPolicy,
)
from artemis_py.transport.config import AcceptorConfig, ConnectorConfig

MODULO: Final = "modulo"
"""Name of the one property that a policy has."""


def read_routers(core: Any, elements: Elements, parts: MeshParts) -> tuple[RouterConfig, ...]:
    """Return the routers, and report what keeps them from working with the acceptors and brokers that there are."""
    found = tuple(_Reader(elements, parts).read(core))
    _check_acceptors(found, parts, elements.report)
    return found


class _Reader:
    """Reads one router after the other."""

    def __init__(self, elements: Elements, parts: MeshParts) -> None:
        self._elements: Final = elements
        self._report: Final = elements.report
        self._parts: Final = parts

    def read(self, core: Any) -> Iterator[RouterConfig]:
        """Yield the routers that have a name."""
        names: set[str] = set()
        for element in core.iterfind(f"{in_core('connection-routers')}/{in_core('connection-router')}"):
            name = self._elements.name(element)
            place = self._report.place(element)
            values = self._elements.children(element, ROUTER_OPTIONS)
            for option in ("key_filter", "local_target_filter"):
                self._check_pattern(values.get(option, ""), element, option.replace("_", "-"))
            policy, modulo = self._policy(element.find(in_core("policy")))
            cache = element.find(in_core("cache"))
            config = RouterConfig(
                name=name or "",
                policy=policy,
                modulo=modulo,
                cache=None if cache is None else CacheConfig(**self._elements.children(cache, CACHE_OPTIONS)),
                pool=self._pool(element.find(in_core("pool"))),
                file=place.file,
                line=place.line,
                **values,
            )
            if name in names:
                text = f'there is another connection router called "{name}"; give each its own name'
                self._report.problem(place, text)
            elif name is not None:
                names.add(name)
                if policy is not None or element.find(in_core("policy")) is None:
                    self._check(config, place)
                yield config

    def _check_pattern(self, text: str, element: Any, name: str) -> None:
        try:
            re.compile(text)
        except re.error as error:
            place = self._report.place(element.find(in_core(name)))
            self._report.problem(place, f'"{text}" is no regular expression: {error}')

    def _policy(self, element: Any) -> tuple[RoutingPolicy | None, int]:
        """Return the policy, and the number of groups that it makes of keys."""
        if element is None:
            return None, 0
        name: str = (element.get("name") or "").strip()
        place = self._report.place(element, "attribute name")
        policies = RoutingPolicy.__members__
        if name not in policies:
            self._report.problem(place, f"{name}: {suggest(name, policies)}")
            return None, 0
        policy = policies[name]
        modulo = self._modulo(element, policy)
        if policy is RoutingPolicy.CONSISTENT_HASH_MODULO and modulo is None:
            text = f'needs a number of groups; write <property key="{MODULO}" value="100"/> inside'
            self._report.problem(self._report.place(element), text)
        return policy, modulo or 0

    def _modulo(self, element: Any, policy: RoutingPolicy) -> int | None:
        """Return the number of groups, 0 if it is wrong; None if there is none."""
        modulo: int | None = None
        for each in element.iterfind(in_core("property")):
            key, value = (each.get("key") or "").strip(), (each.get("value") or "").strip()
            place = self._report.place(each)
            if key != MODULO or policy is not RoutingPolicy.CONSISTENT_HASH_MODULO:
                self._report.warning(place, f"has no effect here: {policy.name} has no property {key}")
            elif not (value.isascii() and value.isdigit() and int(value[:9]) > 0 and len(value) < 10):
                self._report.problem(place, f'"{value}" is no number of groups; write one from 1 on')
                modulo = 0
            else:
                modulo = int(value)
        return modulo

    def _pool(self, element: Any) -> PoolConfig | None:
        if element is None:
            return None
        place = self._report.place(element)
        values = self._elements.children(element, POOL_OPTIONS)
        mesh = element.find(in_core("cluster-connection"))
        group = element.find(in_core("discovery-group-ref"))
        static = element.find(in_core("static-connectors"))
        if [mesh is None, group is None, static is None].count(False) != 1:
            text = "has one source of brokers: cluster-connection, static-connectors or discovery-group-ref"
            self._report.problem(place, text)
            return PoolConfig(**values)
        names = [self._named(each, self._parts.connectors) for each in ([] if static is None else static)]
        if values.get("local_connector") is not None:
            self._named(element.find(in_core("local-connector")), self._parts.connectors)
        groups = [each.name for each in self._parts.groups]
        return PoolConfig(
            cluster_connection=self._named(mesh, [each.name for each in self._parts.clusters]),
            static_connectors=tuple([each for each in names if each is not None]),
            discovery_group=self._named(group, groups, "discovery-group-name"),
            **values,
        )

    def _named(self, element: Any, known: Sequence[str] | Mapping[str, object], attribute: str = "") -> str | None:
        """Return the name that an element refers to, if there is something of that name."""
        if element is None:
            return None
        name: str = ((element.get(attribute) if attribute else element.text) or "").strip()
        if name in known:
            return name
        self._report.problem(
            self._report.place(element), f'"{name}" is not there; there is {", ".join(known) or "none"}'
        )
        return None

    def _check(self, config: RouterConfig, place: Place) -> None:
        """Report a router that could not choose, or not as it looks."""
        report, pool, policy = self._report, config.pool, config.policy
        if pool is None and policy is not None:
            report.problem(place, f'"{config.name}" has a policy, and no pool to choose from; write <pool>')
        elif pool is not None and policy is None:
            names = ", ".join(RoutingPolicy.__members__)
            report.problem(place, f'"{config.name}" has a pool, and no way to choose from it; write <policy>: {names}')
        elif pool is None and not config.local_target_filter:
            report.problem(place, f'"{config.name}" would refuse all clients; write <pool>, or <local-target-filter>')
        if pool is None or policy is None:
            return
        if pool.cluster_connection is None:
            if policy is RoutingPolicy.LEAST_CONNECTIONS:
                text = "LEAST_CONNECTIONS needs a pool by cluster-connection: other brokers do not tell their numbers"
                report.problem(place, text)
            if policy.is_hash and pool.local_target_enabled and pool.local_connector is None:
                text = f"{policy.name} needs the name by which other routers know this broker; write <local-connector>"
                report.problem(place, text)
        most = len(pool.static_connectors) + pool.local_target_enabled
        if pool.static_connectors and pool.local_connector in pool.static_connectors and pool.local_target_enabled:
            most -= 1
        if pool.static_connectors and pool.quorum_size > most:
            text = f"quorum-size {pool.quorum_size} is never reached: the pool has {most} brokers"
            report.problem(place, text)


def _check_acceptors(routers: Sequence[RouterConfig], parts: MeshParts, report: Report) -> None:
    """Report acceptors whose clients cannot be routed as they should be."""
    by_name = {each.name: each for each in routers}
    used: set[str] = set()
    for acceptor in parts.acceptors:
        if not acceptor.router:
            continue
        place = Place(file=acceptor.file, line=acceptor.line, element="acceptor", part="parameter router")
        router = by_name.get(acceptor.router)
        if router is None:
            names = ", ".join(by_name) or "none"
            report.problem(
                place, f'there is no connection router "{acceptor.router}"; <connection-routers> has {names}'
            )
            continue
        used.add(router.name)
        if router.key_type is KeyType.SNI_HOST and acceptor.tls is None:
            report.problem(place, f'"{router.name}" asks for the name in the TLS handshake; set sslEnabled')
        if router.pool is not None:
            _check_targets(acceptor, router.pool, parts.connectors, place, report)
            if not acceptor.protocols or "MQTT" in acceptor.protocols:
                text = (
                    "MQTT clients that another broker should serve are refused, and few of them go there by "
                    "themselves: MQTT 5 names it, MQTT 3 has no words for that"
                )
                report.warning(place, text)
    for router in routers:
        if router.name not in used:
            place = Place(file=router.file, line=router.line, element="connection-router")
            report.warning(place, f'no acceptor has the parameter router={router.name}: "{router.name}" does nothing')


def _check_targets(
    acceptor: AcceptorConfig,
    pool: PoolConfig,
    connectors: Mapping[str, ConnectorConfig],
    place: Place,
    report: Report,
) -> None:
    """Report brokers that clients of an acceptor are never sent to, because only one of the two has TLS."""
    for name in pool.static_connectors:
        connector = connectors[name]
        if name != pool.local_connector and (connector.tls is None) != (acceptor.tls is None):
            has, has_not = ("acceptor", "connector") if connector.tls is None else ("connector", "acceptor")
            text = f'clients would never be sent to "{name}": the {has} has TLS, and the {has_not} has not'
            report.problem(evolve(place, part="parameter router"), text)
