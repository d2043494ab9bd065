"""One connection router: from a client to its key, and from the key to a broker (artemis-model §5.10).

    client --key-type, key-filter--> key --local-target-filter--> served here
                                      '--cache, policy--> a broker of the pool: here, or the client is sent there

A client is routed when it has logged in, whatever its key: nobody else learns where brokers are. If fewer brokers are
there than the quorum, it waits for them, and is refused when that has taken too long.
"""

import re
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from attrs import define, field

from artemis_py.cluster.routers.cache import RouteCache
from artemis_py.cluster.routers.policies import Choose, group_of
from artemis_py.cluster.routers.pools import Pool
from artemis_py.core.runtime.referrals import HERE, Alternative, Newcomer, Route
from artemis_py.core.runtime.timers import Timer
from artemis_py.core.settings.router_config import KeyType, RouterConfig

NULL: Final = "NULL"
"""Key of a client that has none."""


@define(eq=False)
class _Waiting:
    """A client for which there are too few brokers."""

    newcomer: Newcomer
    key: str
    decided: Callable[[Route], None]
    timer: Timer | None = field(default=None)


class ConnectionRouter:
    """Fulfils `core.runtime.referrals.Router` for the acceptors that name it."""

    def __init__(
        self,
        config: RouterConfig,
        pool: Pool | None,
        choose: Choose | None,
        cache: RouteCache | None,
        after: Callable[[int, Callable[[], None]], Timer],
    ) -> None:
        """Create it; `choose` is its policy, and `after` plans a call in some milliseconds.

        Both expressions of the configuration are valid.
        """
        self.config: Final = config
        self._pool: Final = pool
        self._choose: Final = choose
        self._cache: Final = cache
        self._after: Final = after
        self._key_filter: Final = re.compile(config.key_filter) if config.key_filter else None
        self._local: Final = re.compile(config.local_target_filter) if config.local_target_filter else None
        self._waiting: Final[dict[_Waiting, None]] = {}

    def key_of(self, newcomer: Newcomer) -> str:
        """Return the key of a client."""
        match self.config.key_type:
            case KeyType.CLIENT_ID:
                return self._filtered([newcomer.client_id])
            case KeyType.SNI_HOST:
                return self._filtered([newcomer.server_name or ""])
            case KeyType.SOURCE_IP:
                return self._filtered([newcomer.peer.rpartition(":")[0].strip("[]") or newcomer.peer])
            case KeyType.USER_NAME:
                return self._filtered([newcomer.subject.user or ""])
            case KeyType.ROLE_NAME:
                return self._filtered(sorted(newcomer.subject.roles))

    def _filtered(self, candidates: Sequence[str]) -> str:
        """Return the first candidate that has something for the filter, or what the filter finds in it."""
        for each in candidates:
            if self._key_filter is None:
                if each:
                    return each
            elif each:
                found = self._key_filter.search(each)
                if found is not None:
                    return found[0]
        return NULL

    def route(self, newcomer: Newcomer, decided: Callable[[Route], None]) -> None:
        """Decide which broker serves a client; see `Router`."""
        key = self.key_of(newcomer)
        if self.config.modulo and key != NULL:
            key = group_of(key, self.config.modulo)
        if self._local is not None and self._local.fullmatch(key):
            decided(HERE)
        elif self._pool is None or self._choose is None:
            decided(Route(refusal="this broker does not serve this client: use another one"))
        else:
            route = self._find(newcomer, key, self._pool, self._choose)
            if route is None:
                self._wait(newcomer, key, decided)
            else:
                decided(route)

    def pool_changed(self) -> None:
        """Look again for clients that wait, because a broker more may be there."""
        for waiting in list(self._waiting):
            if self._pool is None or self._choose is None:
                continue
            route = self._find(waiting.newcomer, waiting.key, self._pool, self._choose)
            if route is not None:
                self._end_waiting(waiting, route)

    def _find(self, newcomer: Newcomer, key: str, pool: Pool, choose: Choose) -> Route | None:
        """Return what becomes of a client now; None: there are too few brokers."""
        brokers = pool.brokers()
        wanted = self.config.pool
        if wanted is not None and len({each.node_id for each in brokers}) < wanted.quorum_size:
            return None
        fit = [each for each in brokers if pool.is_local(each) or self._serves(each, newcomer)]
        fit = list({each.node_id: each for each in reversed(fit)}.values())[::-1]
        if not fit:
            return Route(refusal="none of the brokers that are there serves clients of this kind")
        broker = self._choice(fit, key, choose)
        pool.chosen(broker)
        return HERE if pool.is_local(broker) else Route((broker,))

    def _serves(self, broker: Alternative, newcomer: Newcomer) -> bool:
        return broker.serves(newcomer.protocol, newcomer.is_encrypted)

    def _choice(self, brokers: Sequence[Alternative], key: str, choose: Choose) -> Alternative:
        """Return the broker that the cache has for a key, if it is there; otherwise that of the policy."""
        if self._cache is None:
            return choose(brokers, key)
        node_id = self._cache.get(key)
        for each in brokers:
            if each.node_id == node_id:
                return each
        broker = choose(brokers, key)
        self._cache.put(key, broker.node_id)
        return broker

    def _wait(self, newcomer: Newcomer, key: str, decided: Callable[[Route], None]) -> None:
        pool = self.config.pool
        assert pool is not None
        waiting = _Waiting(newcomer, key, decided)
        refusal = Route(refusal=f"fewer than {pool.quorum_size} brokers are there: try again later")
        self._waiting[waiting] = None
        waiting.timer = self._after(pool.quorum_timeout_ms, partial(self._end_waiting, waiting, refusal))

    def _end_waiting(self, waiting: _Waiting, route: Route) -> None:
        del self._waiting[waiting]
        if waiting.timer is not None:
            waiting.timer.cancel()
        waiting.decided(route)
