"""Finds brokers on the local network, and announces this one there: multicast DNS with DNS-SD (RFC 6762, RFC 6763).

    <node id>._artemis-mesh._tcp.local     SRV: port     TXT: group, host     A, AAAA: addresses of the host

Whoever announces the same group is told. Brokers are dialled at the host in the TXT record, which a certificate can
name. Anybody on the network can announce anything, so what is found here is a hint as what all finders find: who is a
member is decided by the login. Needs the package zeroconf, the extra of that name.
"""

import asyncio
import socket
from collections.abc import Callable
from contextlib import suppress
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any, Final

from attrs import frozen

from artemis_py.cluster.finders.finder import MOST_ENDPOINTS, Endpoint, Finder
from artemis_py.core.settings.cluster_config import DiscoveryConfig
from artemis_py.logs import named_logger

if TYPE_CHECKING:
    from zeroconf.asyncio import AsyncServiceInfo, AsyncZeroconf

LOGGER: Final = named_logger(__name__)

SERVICE: Final = "_artemis-mesh._tcp.local."
GROUP: Final = "group"
HOST: Final = "host"
ASK_MS: Final = 3000
"""Time for the records of a broker that was heard of; RFC 6762 answers within a fraction of a second."""
LAST_PORT: Final = 65_535


@frozen(kw_only=True)
class Announcement:
    """What a broker says of itself."""

    node_id: str
    host: str
    port: int


class ZeroconfFinder(Finder):
    """Listens on the local network, and announces this broker there if there is an announcement."""

    def __init__(
        self,
        config: DiscoveryConfig,
        told: Callable[[frozenset[Endpoint]], None],
        announcement: Announcement | None = None,
    ) -> None:
        """Create a finder that calls `told` whenever the brokers that are announced have changed."""
        super().__init__()
        self._config: Final = config
        self._told: Final = told
        self._announcement: Final = announcement
        self._own: Final = "" if announcement is None else f"{announcement.node_id}.{SERVICE}"
        self._found: Final[dict[str, Endpoint]] = {}
        """Endpoints by the names under which they are announced."""
        self._questions: Final[dict[str, asyncio.Task[None]]] = {}
        """Questions for records, by the names that were heard."""
        self._has_failed = False

    async def run(self) -> None:
        """Announce and listen, until cancelled; then say goodbye. A network that is not there is tried again."""
        from zeroconf import Error

        while True:
            try:
                await self._listen()
            except (OSError, Error) as error:
                if not self._has_failed:
                    self._has_failed = True
                    template = "brokers are not found on the local network: group=%s reason=%s"
                    LOGGER.warning(template, self._config.name, error)
            await asyncio.sleep(self._config.refresh_timeout_ms / 1000)

    async def _listen(self) -> None:
        """Announce and listen, until cancelled, also on networks that come later: a broker may start before they do.

        Raises OSError, or an error of the package, without such a network.
        """
        from zeroconf import InterfaceChoice
        from zeroconf.asyncio import AsyncServiceBrowser, AsyncZeroconf

        interface = self._config.zeroconf_interface
        if interface is not None:
            _check_address(interface)
        known = _own_addresses()
        try:
            network = AsyncZeroconf(interfaces=InterfaceChoice.All if interface is None else [interface])
        except RuntimeError as error:  # what the package raises on a machine without an address
            raise OSError(str(error)) from error
        try:
            browser = AsyncServiceBrowser(network.zeroconf, [SERVICE], handlers=[self._heard])
            try:
                if self._announcement is not None:
                    await self._announce(network, self._announcement)
                self._has_failed = False
                while True:
                    await asyncio.sleep(self._config.refresh_timeout_ms / 1000)
                    addresses = _own_addresses()
                    if addresses == known:
                        continue
                    if interface is not None:
                        _check_address(interface)
                    known = addresses
                    await network.async_update_interfaces()
                    # A browser asks when it begins: brokers of the new network have announced themselves long ago.
                    await browser.async_cancel()
                    browser = AsyncServiceBrowser(network.zeroconf, [SERVICE], handlers=[self._heard])
            finally:
                await browser.async_cancel()
        finally:
            for question in self._questions.values():
                question.cancel()
            await network.async_unregister_all_services()
            await network.async_close()

    async def _announce(self, network: "AsyncZeroconf", announcement: Announcement) -> None:
        from zeroconf import NonUniqueNameException
        from zeroconf.asyncio import AsyncServiceInfo

        info = AsyncServiceInfo(
            SERVICE,
            self._own,
            port=announcement.port,
            properties={GROUP: self._config.zeroconf_group, HOST: announcement.host},
            parsed_addresses=await _addresses(announcement.host),
            server=f"{announcement.node_id}.local.",
        )
        try:
            await (await network.async_register_service(info))
        except NonUniqueNameException:
            template = "another broker with the node id of this one is announced on the local network: group=%s node=%s"
            LOGGER.error(template, self._config.name, announcement.node_id)

    def _heard(self, zeroconf: Any, service_type: str, name: str, state_change: Any) -> None:
        """Note that an announcement came, changed or ended (called by the package, on the loop)."""
        if name == self._own:
            return
        question = self._questions.pop(name, None)
        if question is not None:
            question.cancel()
        if state_change.name == "Removed":
            if self._found.pop(name, None) is not None:
                self._tell()
        elif len(self._questions) < MOST_ENDPOINTS:
            self._questions[name] = asyncio.get_running_loop().create_task(self._ask(zeroconf, name))

    async def _ask(self, zeroconf: Any, name: str) -> None:
        """Ask for the records of a broker that was heard of."""
        from zeroconf import Error
        from zeroconf.asyncio import AsyncServiceInfo

        try:
            info = AsyncServiceInfo(SERVICE, name)
            await info.async_request(zeroconf, ASK_MS)
        except (OSError, Error):
            info = None  # a name that is none, or a network that is gone
        self._questions.pop(name, None)
        if info is None or info.port is None:
            return
        endpoint = self._endpoint(info)
        if endpoint is None:
            if self._found.pop(name, None) is not None:
                self._tell()
        elif self._found.get(name) != endpoint and len(self._found) < MOST_ENDPOINTS:
            self._found[name] = endpoint
            self._tell()

    def _endpoint(self, info: "AsyncServiceInfo") -> Endpoint | None:
        """Return where an announced broker is dialled; None for one of another group, or without a host or port."""
        properties = info.decoded_properties
        host, port = properties.get(HOST), info.port
        if properties.get(GROUP) != self._config.zeroconf_group or not host or not port or port > LAST_PORT:
            return None
        return str(host), int(port)

    def _tell(self) -> None:
        endpoints = frozenset(self._found.values())
        template = "brokers found on the local network: group=%s count=%d"
        LOGGER.info(template, self._config.name, len(endpoints))
        self._told(endpoints)


def _own_addresses() -> frozenset[str]:
    """Return the addresses of this machine, IPv4 and IPv6."""
    from ifaddr import get_adapters

    addresses = (address.ip for adapter in get_adapters() for address in adapter.ips)
    return frozenset(address if isinstance(address, str) else address[0] for address in addresses)


def _check_address(address: str) -> None:
    """Raise OSError if this machine does not have the address: the package would leave a socket open."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        probe.bind((address, 0))


async def _addresses(host: str) -> list[str]:
    """Return the addresses of a host, none if that fails: who dials looks them up by itself."""
    with suppress(ValueError):
        return [str(ip_address(host))]
    with suppress(OSError, ValueError):
        found = await asyncio.get_running_loop().getaddrinfo(host, None, type=socket.SOCK_STREAM)
        return sorted({str(address[0]).partition("%")[0] for *_, address in found})
    return []
