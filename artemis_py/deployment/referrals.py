"""Clients of a mesh: which brokers they are told of, and how those of this one are sent to the others.

What others tell their clients about this broker is configured: the addresses of `<client-connectors>`, or that of the
mesh itself (`<connector-ref>`). Whatever stands between clients and brokers, a proxy or a forwarded port, is not known
here, so its address belongs into a connector of its own.
"""

from collections.abc import Callable, Sequence
from typing import Final

from artemis_py.cluster.clients import others_for_clients, read_urls
from artemis_py.cluster.events import PeerDown, PeerParting, PeerUp
from artemis_py.cluster.mesh import Mesh
from artemis_py.cluster.records import Load
from artemis_py.config.broker_config import BrokerConfig
from artemis_py.core.runtime.background import SLICE_UNITS, Steps
from artemis_py.core.runtime.events import Event
from artemis_py.core.runtime.meter import LINK_UNITS
from artemis_py.core.runtime.referrals import Alternative
from artemis_py.core.runtime.timers import Timer
from artemis_py.core.settings.cluster_config import ClusterConfig
from artemis_py.protocol import Host, ProtocolManager
from artemis_py.transport.acceptor import managers_of
from artemis_py.transport.config import ConnectorConfig

LOAD_MS: Final = 5_000
"""How often other brokers are told the number of clients, if it has changed: as often as Artemis asks for it."""

Changed = Callable[[Mesh, list[Alternative], list[Alternative]], None]
"""Takes the mesh, the addresses of the other brokers that are up, and those of this one."""


class ClientReferrals:
    """The clients of a broker that belongs to a mesh."""

    def __init__(self, host: Host, mesh: Callable[[], Mesh]) -> None:
        """Keep the list for clients up to date; `mesh` is asked when a broker comes or goes."""
        self._host: Final = host
        self._mesh: Final = mesh
        self._is_over = False
        self._load = 0
        self._timer: Timer | None = None
        self.when_changed: Final[list[Changed]] = []
        """Functions that are told which brokers there are now."""
        host.events.subscribe(self._heard, PeerUp, PeerDown, PeerParting)

    def start(self) -> None:
        """Tell other brokers, now and then, how many clients this one has, if their routers may want to know."""
        self._learn()
        self._tell_load()

    def stop(self) -> None:
        """Leave the list as it is: clients may be told it while the broker stops, and its connections end."""
        self._is_over = True
        if self._timer is not None:
            self._timer.cancel()

    def _heard(self, event: Event) -> None:
        if self._is_over:
            return
        self._learn()
        if isinstance(event, PeerUp):
            peer = self._mesh().peers.get(event.node_id)
            if peer is not None:
                peer.tell(Load(self._load))

    def _learn(self) -> None:
        mesh = self._mesh()
        others, itself = others_for_clients(mesh), read_urls(mesh.node_id, mesh.node_name, mesh.clients)
        self._host.referrals.told(others, itself)
        for changed in self.when_changed:
            changed(mesh, others, itself)

    def _tell_load(self) -> None:
        host, load = self._host, len(self._host.sessions.opened)
        if load != self._load:
            self._load = load
            for peer in self._mesh().peers.values():
                peer.tell(Load(load))
        self._timer = host.dispatcher.after(LOAD_MS, self._tell_load)

    def send_away(self, for_good: bool = False) -> None:
        """Send clients to the other brokers, because this one is about to stop; for a drain.

        Clients that connect from now on are sent on at their login, and those that are known to follow at once, a slice
        of them in each turn, but not those that operate this broker. All others are served until they are said goodbye
        to, and told then. If no other broker is up, or none that a client can use, that client is served as before.
        `for_good`: this broker will not come back.
        """
        self._host.referrals.leave(for_good)
        self._host.background.start(self._refer_all())

    def keep(self) -> None:
        """Serve clients here again, because the drain was given up."""
        self._host.referrals.stay()

    def _refer_all(self) -> Steps:
        host = self._host
        end = host.meter.work + SLICE_UNITS
        for session in list(host.sessions.opened.values()):
            if not host.referrals.is_leaving:
                break
            if host.meter.work >= end:
                yield None
                end = host.meter.work + SLICE_UNITS
            host.meter.work += LINK_UNITS
            if session.client is not None and not session.is_operator:
                session.client.refer(only_followers=True)
        return None


def own_addresses(
    config: BrokerConfig, cluster: ClusterConfig, managers: Sequence[ProtocolManager], node_id: str
) -> list[Alternative]:
    """Return this broker as clients reach it, as its configuration says."""
    connectors = {each.name: each for each in config.connectors}
    names = cluster.client_connectors or (cluster.connector,)
    return [address_of(connectors[name], config, managers, node_id) for name in names]


def address_of(
    connector: ConnectorConfig, config: BrokerConfig, managers: Sequence[ProtocolManager], node_id: str
) -> Alternative:
    """Return what a connector to this broker leads to: the protocols of its acceptors on that port.

    No acceptor has the port if it is forwarded; what is spoken there is not known then.
    """
    is_encrypted = connector.tls is not None
    there = [
        each for each in config.acceptors if each.port == connector.port and (each.tls is not None) == is_encrypted
    ]
    return Alternative(
        node_id=node_id,
        name=config.settings.name,
        host=connector.host,
        port=connector.port,
        protocols=frozenset([manager.name for each in there for manager in managers_of(each, managers)]),
        is_encrypted=is_encrypted,
    )
