"""What all finders are to those who use them, and which one a discovery group asks for."""

from collections.abc import Callable
from typing import Protocol

from artemis_py.cluster.finders.dns import DnsFinder, Endpoint
from artemis_py.cluster.finders.zeroconf import Announcement, ZeroconfFinder
from artemis_py.core.settings.cluster_config import DiscoveryConfig


class Finder(Protocol):
    """Finds brokers from its start to its stop, and tells of them whenever they change."""

    def start(self) -> None:
        """Begin, on the running loop."""

    def stop(self) -> None:
        """End; what was told stays true."""

    async def wait_stopped(self) -> None:
        """Wait until everything that `stop` ends has ended."""


def finder_of(
    config: DiscoveryConfig, told: Callable[[frozenset[Endpoint]], None], announcement: Announcement | None
) -> Finder:
    """Return the finder of a discovery group. Only one on the local network can announce this broker there."""
    if config.zeroconf_group is None:
        return DnsFinder(config, told)
    return ZeroconfFinder(config, told, announcement)
