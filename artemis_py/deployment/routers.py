"""Makes the connection routers of a configuration, and finds out which brokers of their pools are there.

pool by cluster connection   told by the mesh, as its members come and go
pool by static connectors    each is dialled every check-period: one that accepts a connection is there
pool by discovery group      the same for what the DNS names, with the TLS of the local connector
"""

import asyncio
from collections.abc import Iterable, Sequence
from typing import Final

from attrs import evolve

from artemis_py.cluster.finders.choice import finder_of
from artemis_py.cluster.finders.finder import Endpoint, Finder
from artemis_py.cluster.mesh import Mesh
from artemis_py.cluster.routers.cache import RouteCache
from artemis_py.cluster.routers.policies import policy_of
from artemis_py.cluster.routers.pools import DialledPool, MeshPool
from artemis_py.cluster.routers.router import ConnectionRouter
from artemis_py.config.broker_config import BrokerConfig
from artemis_py.core.runtime.referrals import Alternative, Router
from artemis_py.core.settings.cluster_config import DiscoveryConfig
from artemis_py.core.settings.router_config import PoolConfig, RouterConfig
from artemis_py.logs import named_logger
from artemis_py.protocol import Host
from artemis_py.transport.config import AcceptorConfig, ConnectorConfig
from artemis_py.transport.tls import client_context
from artemis_py.transport.turn import Turn

LOGGER: Final = named_logger(__name__)

MOST_AT_ONCE: Final = 20
"""Brokers of a pool that are dialled at the same time."""


class BrokerRouters:
    """The connection routers of a broker, by name."""

    def __init__(self, config: BrokerConfig, host: Host, turn: Turn) -> None:
        """Make them from a valid configuration. Raises ConfigError for files of TLS."""
        self._host: Final = host
        self._mesh_pools: Final[list[MeshPool]] = []
        self._caches: Final[list[RouteCache]] = []
        self._lookouts: Final[list[Lookout]] = []
        self._routers: Final[dict[str, ConnectionRouter]] = {}
        connectors = {each.name: each for each in config.connectors}
        groups = {each.name: each for each in config.discovery_groups}
        for each in config.routers:
            self._routers[each.name] = self._make(each, connectors, groups, turn)

    def of(self, acceptor: AcceptorConfig) -> Router | None:
        """Return the router of an acceptor; None if it has none."""
        return self._routers.get(acceptor.router)

    def mesh_changed(self, mesh: Mesh, others: list[Alternative], itself: list[Alternative]) -> None:
        """Note which brokers of the mesh there are now."""
        for pool in self._mesh_pools:
            pool.told(mesh, others, itself)
        for router in self._routers.values():
            router.pool_changed()

    def start(self) -> None:
        """Begin: the store has been read, and no client is connected."""
        for cache in self._caches:
            cache.load()
        for lookout in self._lookouts:
            lookout.start()

    async def stop(self) -> None:
        """End."""
        for lookout in self._lookouts:
            lookout.stop()
        for lookout in self._lookouts:
            await lookout.wait_stopped()

    def _make(
        self,
        config: RouterConfig,
        connectors: dict[str, ConnectorConfig],
        groups: dict[str, DiscoveryConfig],
        turn: Turn,
    ) -> ConnectionRouter:
        host, wanted = self._host, config.pool
        pool: MeshPool | DialledPool | None = None
        if wanted is not None and wanted.cluster_connection is not None:
            pool = MeshPool(wanted.local_target_enabled, self._count_clients)
            self._mesh_pools.append(pool)
        elif wanted is not None:
            pool = DialledPool(_own(wanted, connectors), wanted.local_target_enabled)
        random = host.services.sessions.domain.entropy.random
        choose = None
        if pool is not None and config.policy is not None:
            choose = policy_of(config.policy, pool.connections, int(random() * 1_000_000))
        cache = None
        if config.cache is not None:
            cache = RouteCache(config.name, config.cache, host.storage, self._now_ms)
            self._caches.append(cache)
        router = ConnectionRouter(config, pool, choose, cache, host.dispatcher.after)
        if wanted is not None and isinstance(pool, DialledPool):
            self._lookouts.append(Lookout(router, pool, wanted, connectors, groups, turn))
        return router

    def _count_clients(self) -> int:
        return len(self._host.sessions.opened)

    def _now_ms(self) -> int:
        return self._host.now_ms


class Lookout:
    """Dials the brokers of one pool, again and again."""

    def __init__(
        self,
        router: ConnectionRouter,
        pool: DialledPool,
        config: PoolConfig,
        connectors: dict[str, ConnectorConfig],
        groups: dict[str, DiscoveryConfig],
        turn: Turn,
    ) -> None:
        """Create it, idle. Raises ConfigError for files of TLS."""
        self._router: Final = router
        self._pool: Final = pool
        self._config: Final = config
        self._turn: Final = turn
        self._like: Final = None if config.local_connector is None else connectors[config.local_connector]
        self._task: asyncio.Task[None] | None = None
        self._finder: Finder | None = None
        self._targets: dict[str, ConnectorConfig] = {}
        self._tls: Final = {each.name: client_context(each) for each in connectors.values()}
        self._want([connectors[name] for name in config.static_connectors])
        if config.discovery_group is not None:
            self._finder = finder_of(groups[config.discovery_group], self._found, None)

    def start(self) -> None:
        """Begin, on the running loop."""
        if self._finder is not None:
            self._finder.start()
        self._task = asyncio.get_running_loop().create_task(self._run())

    def stop(self) -> None:
        """End."""
        if self._finder is not None:
            self._finder.stop()
        if self._task is not None:
            self._task.cancel()

    async def wait_stopped(self) -> None:
        """Wait until the finder has ended, and the sockets of brokers that were being looked at are closed."""
        if self._finder is not None:
            await self._finder.wait_stopped()
        if self._task is not None:
            await asyncio.wait((self._task,))

    def _found(self, endpoints: frozenset[Endpoint]) -> None:
        like = self._like
        if like is None:
            self._want([ConnectorConfig(name="", host=host, port=port) for host, port in sorted(endpoints)])
        else:
            self._want([evolve(like, host=host, port=port) for host, port in sorted(endpoints)])

    def _want(self, connectors: Iterable[ConnectorConfig]) -> None:
        self._targets = {each.endpoint.lower(): each for each in connectors}
        self._pool.want([_alternative(each) for each in self._targets.values()])

    async def _run(self) -> None:
        while True:
            wanted = self._pool.wanted
            for offset in range(0, len(wanted), MOST_AT_ONCE):
                await self._look_at(wanted[offset : offset + MOST_AT_ONCE])
            await asyncio.sleep(self._config.check_period_ms / 1000)

    async def _look_at(self, brokers: Sequence[Alternative]) -> None:
        answers = await asyncio.gather(*[self._answers(each) for each in brokers])
        self._turn.enter()
        is_news = False
        for broker, is_there in zip(brokers, answers, strict=True):
            if self._pool.answered(broker, is_there):
                is_news = True
                template = "broker of a pool %s: router=%s address=%s"
                what = "answers" if is_there else "does not answer"
                LOGGER.info(template, what, self._router.config.name, broker.endpoint)
        if is_news:
            self._router.pool_changed()
            self._turn.plan()

    async def _answers(self, broker: Alternative) -> bool:
        """Tell whether a broker accepts a connection."""
        target = self._targets.get(broker.node_id)
        if target is None:
            return False
        tls = None if target.tls is None else self._tls.get(target.name)
        name = None if target.tls is None else target.tls.sni_host or target.host
        try:
            async with asyncio.timeout(target.connect_timeout_ms / 1000):
                _, writer = await asyncio.open_connection(target.host, target.port, ssl=tls, server_hostname=name)
        except (OSError, TimeoutError):
            return False
        writer.transport.abort()
        return True


def _own(config: PoolConfig, connectors: dict[str, ConnectorConfig]) -> Alternative | None:
    """Return this broker as the routers of others know it; None if it is not known, and not needed."""
    if config.local_connector is not None:
        return _alternative(connectors[config.local_connector])
    return Alternative(node_id="", name="", host="", port=0) if config.local_target_enabled else None


def _alternative(connector: ConnectorConfig) -> Alternative:
    """Return what clients are told of a connector, whose endpoint stands for the node."""
    return Alternative(
        node_id=connector.endpoint.lower(),
        name=connector.name,
        host=connector.host,
        port=connector.port,
        is_encrypted=connector.tls is not None,
    )
