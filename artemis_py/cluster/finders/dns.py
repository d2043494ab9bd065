"""Finds brokers in the DNS: SRV records with their ports, or addresses and one port (mesh §2.4).

Addresses are looked up as all programs of this machine do it, so search lists and the hosts file count; how long an
answer is good is not known then. SRV records need dnspython, the extra `dns`: the standard library cannot ask for them.

    lookup --answer--> told, if it differs from the last one --wait: time to live, refresh-timeout at most--> lookup
       '--fails--> what was told stays: a name server that is away takes no broker away
"""

import asyncio
import socket
from collections.abc import Awaitable, Callable
from typing import Final

from attrs import frozen

from artemis_py.cluster.finders.finder import MOST_ENDPOINTS, Endpoint, Finder
from artemis_py.core.settings.cluster_config import DiscoveryConfig
from artemis_py.errors import ArtemisError
from artemis_py.logs import named_logger

LOGGER: Final = named_logger(__name__)

# A record without a time to live must not make a loop that does nothing else.
SHORTEST_WAIT_S: Final = 1.0


class LookupFailed(ArtemisError):
    """The DNS gave no answer; an answer without records is one."""


@frozen
class Answer:
    """One answer of the DNS."""

    endpoints: frozenset[Endpoint]
    time_to_live_s: float
    """Seconds for which the answer is good; infinity if that is not known."""


Lookup = Callable[[], Awaitable[Answer]]
"""Asks the DNS once. Raises LookupFailed."""


class DnsFinder(Finder):
    """Looks one name up, again and again."""

    def __init__(
        self,
        config: DiscoveryConfig,
        told: Callable[[frozenset[Endpoint]], None],
        lookup: Lookup | None = None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        """Create a finder that calls `told` with each answer that differs from the last one, even if it is empty."""
        super().__init__()
        self._config: Final = config
        self._told: Final = told
        self._lookup: Final = lookup_of(config) if lookup is None else lookup
        self._sleep: Final = sleep
        self._known: frozenset[Endpoint] | None = None
        self._has_failed = False

    async def run(self) -> None:
        """Look up and wait, until cancelled."""
        while True:
            await self._sleep(await self._ask())

    async def _ask(self) -> float:
        """Look up once; return the seconds until the next time."""
        longest = self._config.refresh_timeout_ms / 1000
        try:
            answer = await self._lookup()
        except LookupFailed as failure:
            if not self._has_failed:
                self._has_failed = True
                template = "brokers are not found in the DNS: group=%s name=%s reason=%s"
                LOGGER.warning(template, self._config.name, self._config.dns_name, failure)
            return longest
        self._has_failed = False
        if answer.endpoints != self._known:
            self._known = answer.endpoints
            LOGGER.info(
                "brokers found in the DNS: group=%s name=%s count=%d",
                self._config.name,
                self._config.dns_name,
                len(answer.endpoints),
            )
            self._told(answer.endpoints)
        return min(max(answer.time_to_live_s, SHORTEST_WAIT_S), longest)


def lookup_of(config: DiscoveryConfig) -> Lookup:
    """Return the way to look up what a discovery group names. Raises LookupFailed if SRV records cannot be read."""
    if config.dns_port is not None:
        return _Addresses(config.dns_name, config.dns_port)
    return _Services(config.dns_name)


class _Addresses:
    """Looks up the addresses of a host name, IPv4 and IPv6."""

    def __init__(self, name: str, port: int) -> None:
        self._name: Final = name
        self._port: Final = port

    async def __call__(self) -> Answer:
        loop = asyncio.get_running_loop()
        try:
            found = await loop.getaddrinfo(self._name, self._port, type=socket.SOCK_STREAM)
        except (OSError, ValueError) as error:
            if isinstance(error, socket.gaierror) and error.errno in (socket.EAI_NONAME, socket.EAI_NODATA):
                return Answer(frozenset(), float("inf"))
            raise LookupFailed(str(error)) from error
        endpoints = sorted({(str(address[0]), self._port) for *_, address in found})
        return Answer(frozenset(endpoints[:MOST_ENDPOINTS]), float("inf"))


class _Services:
    """Looks up SRV records; priorities and weights make no difference to a mesh."""

    def __init__(self, name: str) -> None:
        try:
            import dns.asyncresolver
        except ImportError:
            raise LookupFailed("SRV records need dnspython: pip install 'artemis-py-broker[dns]'") from None
        self._name: Final = name
        self._resolver: Final = dns.asyncresolver.Resolver()

    async def __call__(self) -> Answer:
        import dns.exception
        import dns.resolver

        try:
            answer = await self._resolver.resolve(self._name, "SRV", raise_on_no_answer=False)
        except dns.resolver.NXDOMAIN:
            return Answer(frozenset(), float("inf"))
        except (dns.exception.DNSException, OSError) as error:
            raise LookupFailed(str(error)) from error
        if answer.rrset is None:
            return Answer(frozenset(), float("inf"))
        # A record for "." says that the service is not there (RFC 2782).
        endpoints = sorted({(str(each.target).rstrip("."), int(each.port)) for each in answer.rrset})
        return Answer(frozenset([each for each in endpoints if each[0]][:MOST_ENDPOINTS]), float(answer.rrset.ttl))
