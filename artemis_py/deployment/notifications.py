"""Notifications of a broker: those of the default host and of each virtual host, each on an address of its own.

A host reports what is in it and who uses it. What concerns the whole broker is reported in the default host only:
acceptors, failed logins, the store and its disk, the mesh, the configuration.
"""

from collections.abc import Callable, Mapping
from typing import Final

from artemis_py.cluster.events import MeshStarted, MeshStopped, PeerDown, PeerUp
from artemis_py.core.runtime.events import Event
from artemis_py.core.services.services import Services
from artemis_py.core.services.virtual_hosts import HostState, VirtualHost, VirtualHosts
from artemis_py.deployment.events import ConfigurationApplied, ConfigurationRejected
from artemis_py.management.notification_facts import COUNT, REASON, REMOTE_ADDRESS, Maker, Notification
from artemis_py.management.notifications import Notifications

_MESH: Final = "artemis_py_Mesh"
_NODE: Final = "artemis_py_Node"
_NAME: Final = "artemis_py_Name"


class BrokerNotifications:
    """The notifications of each host of a broker, while it runs."""

    def __init__(self, hosts: VirtualHosts, plan: Callable[[], None]) -> None:
        """Create it; `plan` makes sure that a turn is coming."""
        self._hosts: Final = hosts
        self._plan: Final = plan
        self._node_id = ""
        self._by_host: Final[dict[Services, Notifications]] = {}

    def start(self, node_id: str) -> None:
        """Report from now on, in all hosts that there are and in those that are created later."""
        self._node_id = node_id
        for services in self._hosts.restored():
            self._add(services, OF_BROKER if services is self._hosts.domains.default else {})
        self._hosts.when_added.append(lambda host: self._add(host.services, {}))
        self._hosts.when_changed.append(self._host_changed)

    def stop(self) -> None:
        """Report nothing more."""
        for each in self._by_host.values():
            each.stop()
        self._by_host.clear()

    def _add(self, services: Services, makers: Mapping[type[Event], Maker]) -> None:
        found = Notifications(services.sessions.domain, self._node_id, self._plan)
        for kind, maker in makers.items():
            found.add(kind, maker)
        found.start()
        self._by_host[services] = found

    def _host_changed(self, host: VirtualHost) -> None:
        """Report nothing more of a host that is being deleted."""
        if host.state is HostState.DELETING:
            found = self._by_host.pop(host.services, None)
            if found is not None:
                found.stop()


def _peer_up(event: PeerUp) -> list[Notification]:
    properties = {_MESH: event.cluster, _NODE: event.node_id, _NAME: event.name, REMOTE_ADDRESS: event.peer}
    return [Notification("PEER_UP", properties)]


def _peer_down(event: PeerDown) -> list[Notification]:
    properties = {
        _MESH: event.cluster,
        _NODE: event.node_id,
        _NAME: event.name,
        REASON: event.reason,
        COUNT: event.in_doubt,
    }
    return [Notification("PEER_DOWN", properties)]


def _applied(event: ConfigurationApplied) -> list[Notification]:
    properties = {
        "artemis_py_Changes": event.changes,
        "artemis_py_Waiting": event.waiting,
        "artemis_py_Problems": len(event.problems),
        REASON: "; ".join(event.problems[:MOST_PROBLEMS]) or None,
    }
    return [Notification("CONFIGURATION_APPLIED", properties)]


def _rejected(event: ConfigurationRejected) -> list[Notification]:
    properties = {
        "artemis_py_Problems": len(event.problems),
        REASON: "; ".join(event.problems[:MOST_PROBLEMS]),
    }
    return [Notification("CONFIGURATION_REJECTED", properties)]


MOST_PROBLEMS: Final = 10
"""Problems of a configuration that a notification has in words; the log has all of them."""

OF_BROKER: Final[Mapping[type[Event], Maker]] = {
    MeshStarted: lambda event: [Notification("CLUSTER_CONNECTION_STARTED", {"name": event.cluster})],
    MeshStopped: lambda event: [Notification("CLUSTER_CONNECTION_STOPPED", {"name": event.cluster})],
    PeerUp: _peer_up,
    PeerDown: _peer_down,
    ConfigurationApplied: _applied,
    ConfigurationRejected: _rejected,
}
"""What is reported of the whole broker, besides what `NotificationFacts` knows."""
