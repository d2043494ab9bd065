"""Which finder a discovery group asks for."""

from collections.abc import Callable

from artemis_py.cluster.finders.dns import DnsFinder
from artemis_py.cluster.finders.finder import Endpoint, Finder
from artemis_py.cluster.finders.zeroconf import Announcement, ZeroconfFinder
from artemis_py.core.settings.cluster_config import DiscoveryConfig


def finder_of(
    config: DiscoveryConfig, told: Callable[[frozenset[Endpoint]], None], announcement: Announcement | None
) -> Finder:
    """Return the finder of a discovery group. Only one on the local network can announce this broker there."""
    if config.zeroconf_group is None:
        return DnsFinder(config, told)
    return ZeroconfFinder(config, told, announcement)
