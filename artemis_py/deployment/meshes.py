"""Combines a mesh with what carries it: whom this broker dials, when, and whom it lets in.

    static connectors, finders, members that peers name  -->  one dial for each host and port
    a dial  -->  connector -->  connection -->  Peer of the mesh
    a broker that connects  -->  welcome  -->  Peer of the mesh

A host and port is a hint. Whose it is turns out at the hello: a dial rests while that broker is connected in another
way, and ends if it is this broker itself.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

from attrs import evolve, frozen

from artemis_py.cluster.clients import write_url
from artemis_py.cluster.drain import Parting
from artemis_py.cluster.entry import introduction
from artemis_py.cluster.events import MemberForgotten, MeshStarted, MeshStopped
from artemis_py.cluster.finders.choice import finder_of
from artemis_py.cluster.finders.finder import Endpoint, Finder
from artemis_py.cluster.finders.zeroconf import Announcement
from artemis_py.cluster.mesh import KnownMember, Mesh
from artemis_py.cluster.peer import Peer
from artemis_py.cluster.report import (
    MemberStatus,
    OwnStatus,
    Share,
    explain,
    members_of,
    own_status,
    shares,
    stranded,
    topology,
)
from artemis_py.config.broker_config import BrokerConfig
from artemis_py.core.messages.builtin_format import PLAIN_FORMAT
from artemis_py.core.routing.domain import Domain
from artemis_py.core.runtime.access import Permission, Subject
from artemis_py.core.runtime.carrier import CONNECTION_LOST, Greeting, PeerLimits, PeerLogin, PeerRefused, Welcome
from artemis_py.core.runtime.events import Event
from artemis_py.core.sessions.sessions import Sessions
from artemis_py.core.settings.cluster_config import ClusterConfig
from artemis_py.deployment.clients import Clients
from artemis_py.deployment.mesh_log import MeshLog
from artemis_py.deployment.mesh_rights import MeshRights
from artemis_py.deployment.referrals import ClientReferrals, own_addresses
from artemis_py.errors import ConfigError, Problem
from artemis_py.logs import LogBrake, named_logger
from artemis_py.protocol import OutgoingContext, PeerCarrier, ProtocolConnection, ProtocolManager
from artemis_py.security.permissions import MESH_ROLE
from artemis_py.transport.backoff import RetryPolicy
from artemis_py.transport.config import ConnectorConfig
from artemis_py.transport.connections import Connections
from artemis_py.transport.connector import Connector
from artemis_py.transport.outgoing import ConnectorContext
from artemis_py.transport.turn import Turn

LOGGER: Final = named_logger(__name__)

JOIN_ADDRESS: Final = "$artemis.mesh.control"
"""A broker must have the permission mesh on this address to join."""

LONGEST_REST_S: Final = 60.0
"""Seconds between two attempts at a broker that refuses this one: someone has to act first."""

MOST_DIALS: Final = 1000
"""Hosts and ports that are dialled: finders and peers may name any number."""


@frozen(kw_only=True)
class Surroundings:
    """Parts of the broker that its mesh works with."""

    sessions: Sessions
    managers: tuple[ProtocolManager, ...]
    turn: Turn
    connections: Connections

    @property
    def domain(self) -> Domain:
        """Addresses and queues that the mesh shares."""
        return self.sessions.domain


class BrokerMesh:
    """The mesh that this broker belongs to; fulfils `core.runtime.carrier.Mesh`."""

    def __init__(self, config: BrokerConfig, cluster: ClusterConfig, surroundings: Surroundings) -> None:
        """Make the parts that need no store. Raises ConfigError for files of TLS, or if no protocol can carry it."""
        self.config: Final = cluster
        self._broker: Final = config
        self._connectors: Final = {each.name: each for each in config.connectors}
        self._groups: Final = {each.name: each for each in config.discovery_groups}
        self._login: Final = config.cluster_login
        self._name: Final = config.settings.name
        self.surroundings: Final = surroundings
        self._brake: Final = LogBrake(LOGGER)
        self.own: Final = self._connectors[cluster.connector]
        carriers = [each for each in surroundings.managers if isinstance(each, PeerCarrier)]
        if not carriers:
            text = "no installed protocol connects brokers; install artemis_amqp"
            raise ConfigError([Problem(self.own.file, self.own.line, "cluster-connection", text)])
        self._carrier: Final[PeerCarrier] = carriers[0]
        self._dials: Final[dict[Endpoint, Dial]] = {}
        self._finder: Finder | None = None
        self._mesh: Mesh | None = None
        self._is_dialling = False
        self._is_stopped = False
        self.is_started = True
        """Whether this broker connects to others and lets them in; see `MeshFacts`."""
        self._clients: Final = Clients(surroundings.sessions)
        self.referrals: ClientReferrals | None = None
        """What clients are told of the other brokers."""
        self._grace_ms: Final = config.graceful_shutdown_timeout_ms if config.graceful_shutdown_enabled else 0
        surroundings.domain.events.subscribe(MeshLog().heard)
        surroundings.domain.events.subscribe(self._forgotten, MemberForgotten)
        for each in self._static():
            self._add(each)

    @property
    def mesh(self) -> Mesh:
        """The mesh itself, which exists once the store has been read."""
        assert self._mesh is not None
        return self._mesh

    @property
    def dials(self) -> Mapping[Endpoint, "Dial"]:
        """What is dialled, by host and port."""
        return self._dials

    # -- life --------------------------------------------------------------------------------------------------

    def restore(self, node_id: str) -> None:
        """Make the mesh from what an earlier run left; addresses and queues exist, and nothing is delivered yet."""
        managers = self.surroundings.managers
        formats = {PLAIN_FORMAT.name: PLAIN_FORMAT} | {each.name: each for one in managers for each in one.formats}
        domain = self.surroundings.domain
        clients = tuple([write_url(each) for each in own_addresses(self._broker, self.config, managers, node_id)])
        mesh = self._mesh = Mesh(domain, self.config, node_id, self._name, formats, (self.own.url,), clients)
        missing = mesh.restore()
        if missing:
            template = "messages that were on their way to other brokers are gone: mesh=%s count=%d"
            LOGGER.error(template, self.config.name, missing)

    def start(self) -> None:
        """Connect, as soon as this run is in the store."""
        self.mesh.on_member = self._learn
        for member in list(self.mesh.members.values()):
            self._learn(member)
        self.mesh.start(self._start_dialling)
        self.surroundings.domain.events.emit(MeshStarted(self.config.name))

    def _start_dialling(self) -> None:
        if self._is_stopped:
            return
        self._is_dialling = True
        for dial in self._dials.values():
            dial.start()
        group = self._groups.get(self.config.discovery_group or "")
        if group is not None:
            announcement = Announcement(node_id=self.mesh.node_id, host=self.own.host, port=self.own.port)
            self._finder = finder_of(group, self._found, announcement)
            self._finder.start()

    async def stop(self) -> None:
        """End all connections, before clients are said goodbye to."""
        self._is_dialling, self._is_stopped = False, True
        if self._finder is not None:
            self._finder.stop()
        for dial in self._dials.values():
            dial.connector.stop("the broker stops")
        if self._mesh is not None:
            self._mesh.close("the broker stops")
            self.surroundings.domain.events.emit(MeshStopped(self.config.name))
        for dial in self._dials.values():
            await dial.connector.wait_stopped()
        if self._finder is not None:
            await self._finder.wait_stopped()

    def renew_certificates(self) -> None:
        """Read the files of TLS again. Raises ConfigError; the old certificates stay in use then."""
        for dial in self._dials.values():
            dial.connector.renew_certificates()

    # -- for operators -------------------------------------------------------------------------------------------

    def members(self) -> list[MemberStatus]:
        """Return the other brokers; see `MeshFacts`."""
        return members_of(self.mesh)

    def explain(self, queue: str) -> list[str]:
        """Return why messages of a queue wait here; see `MeshFacts`."""
        return explain(self.mesh, queue)

    def shares(self, queue: str) -> list[Share]:
        """Return where messages of a queue went and came from; see `MeshFacts`."""
        return shares(self.mesh, queue)

    def stranded(self) -> int:
        """Return how many messages are stranded; see `MeshFacts`."""
        return stranded(self.mesh, self.mesh.dispatcher.steady_ms)

    def status(self) -> OwnStatus:
        """Return what this broker is doing; see `MeshFacts`."""
        return own_status(self.mesh, self._clients.count)

    def topology(self) -> dict[str, object]:
        """Return who is connected with whom; see `MeshFacts`."""
        return topology(self.mesh)

    def drain(self, grace_ms: int | None) -> None:
        """Give all messages to other brokers; see `MeshFacts`."""
        self.mesh.departures.begin()
        if self.referrals is not None:
            self.referrals.send_away()
        self._clients.send_away(self._grace_ms if grace_ms is None else grace_ms)

    def stop_drain(self) -> None:
        """Stay after all; see `MeshFacts`."""
        self.mesh.departures.end()
        self._clients.let_in()
        if self.referrals is not None:
            self.referrals.keep()

    def suspend(self) -> None:
        """End all connections for a time; see `MeshFacts`."""
        self.is_started = False
        self.mesh.close("stopped by an administrator")
        self.surroundings.domain.events.emit(MeshStopped(self.config.name))

    def start_again(self) -> None:
        """Connect again; see `MeshFacts`."""
        self.is_started = True
        self.surroundings.domain.events.emit(MeshStarted(self.config.name))

    def forget(self, member: str) -> int:
        """Forget a member for good; see `MeshFacts`."""
        return self.mesh.departures.forget(self.mesh.members.find(member).node_id)

    def accept(self, member: str) -> None:
        """Accept a member whose store is older than it was; see `MeshFacts`."""
        self.mesh.members.accept(self.mesh.members.find(member))

    # -- who may come in -----------------------------------------------------------------------------------------

    def welcome(self, hello: Mapping[str, object], subject: Subject) -> Welcome:
        """Answer another broker that has logged in. Raises PeerRefused."""
        if not self.surroundings.domain.access.allows(subject, Permission.MESH, JOIN_ADDRESS):
            raise PeerRefused(f"user '{subject.name}' has not the permission mesh on {JOIN_ADDRESS}")
        if not self.is_started:
            raise PeerRefused("the mesh is stopped at this broker by an administrator")
        if hello.get("cluster") != self.config.name:
            raise PeerRefused(f"this broker is in mesh '{self.config.name}', the other one is not")
        own, peer = self.mesh.connect(str(hello.get("node-id")))
        peer.may_share = MeshRights(self.surroundings.domain, subject).may_share
        return Welcome(hello=own.as_map(), listener=peer, limits=self.limits())

    def limits(self) -> PeerLimits:
        """Return the limits of a connection to another broker."""
        return PeerLimits(
            idle_timeout_ms=self.config.connection_ttl_ms, window_bytes=self.config.producer_window_size_bytes
        )

    # -- whom to dial --------------------------------------------------------------------------------------------

    def _static(self) -> Iterator[ConnectorConfig]:
        for name in self.config.static_connectors:
            if name != self.own.name:
                yield self._connectors[name]

    def _add(self, connector: ConnectorConfig) -> None:
        """Dial a host and port, unless that is this broker, or is being done."""
        endpoint = (connector.host.lower(), connector.port)
        if endpoint in self._dials or endpoint == (self.own.host.lower(), self.own.port):
            return
        if len(self._dials) >= MOST_DIALS:
            template = "too many brokers to dial, one is left out: mesh=%s address=%s"
            self._brake.warning(self.config.name, template, self.config.name, connector.endpoint)
            return
        dial = self._dials[endpoint] = Dial(self, connector)
        if self._is_dialling:
            dial.start()

    def _like_own(self, endpoint: Endpoint) -> ConnectorConfig:
        """Return a connector to a host and port with the TLS of this broker's own: all brokers have the same."""
        host, port = endpoint
        tls = self.own.tls
        return evolve(
            self.own,
            name=f"{self.config.name}-{host}-{port}",
            host=host,
            port=port,
            tls=None if tls is None else evolve(tls, sni_host=None),
        )

    def _found(self, endpoints: frozenset[Endpoint]) -> None:
        """Dial what the finder says now; a hint that is gone is dialled no longer, unless a broker answered there."""
        for endpoint in sorted(endpoints):
            self._add(self._like_own(endpoint))
        named = {(host.lower(), port) for host, port in endpoints}
        fixed = {(each.host.lower(), each.port) for each in self._static()}
        for endpoint, dial in list(self._dials.items()):
            if endpoint not in named and endpoint not in fixed and not dial.node_id:
                dial.connector.stop("no longer in the DNS")
                del self._dials[endpoint]

    def _learn(self, member: KnownMember) -> None:
        """Dial a member that a peer has named."""
        is_known = any(dial.node_id == member.node_id for dial in self._dials.values())
        if is_known or self.config.direct_connections_only or member.node_id == self.mesh.node_id:
            return
        for url in member.urls:
            endpoint = endpoint_of(url)
            if endpoint is not None:
                self._add(self._like_own(endpoint))
                dial = self._dials.get((endpoint[0].lower(), endpoint[1]))
                if dial is not None and not dial.node_id:
                    dial.node_id = member.node_id
                return

    def _forgotten(self, event: Event) -> None:
        """Dial a member no more that was forgotten, unless broker.xml names it."""
        fixed = {(each.host.lower(), each.port) for each in self._static()}
        for endpoint, dial in list(self._dials.items()):
            if isinstance(event, MemberForgotten) and dial.node_id == event.node_id:
                dial.node_id = ""
                if endpoint not in fixed:
                    dial.connector.stop("the member was forgotten")
                    del self._dials[endpoint]

    # -- for dials -----------------------------------------------------------------------------------------------

    def greeting(self, told: Callable[[str], None]) -> tuple[Peer, Greeting]:
        """Return the mesh's side of a new connection; `told` hears why it ended. Raises PeerRefused at the start."""
        hello, peer = self.mesh.connect()
        login = PeerLogin(user=self._login.user or None, password=self._login.password or None)
        peer.may_share = MeshRights(self.surroundings.domain, self._dialled_subject()).may_share
        listener = _Told(peer, told)
        greeting = Greeting(
            hello=lambda: introduction(hello, peer).as_map(),
            listener=listener,
            client_id=self.config.client_id,
            login=login,
            limits=self.limits(),
        )
        return peer, greeting

    def _dialled_subject(self) -> Subject:
        """Return whom a broker counts as that is dialled, and so does not log in here.

        All brokers of a mesh log in as the same user. One that is no user of this broker has the role of the mesh.
        """
        subject = self.surroundings.domain.subject_now(Subject(self._login.user or None))
        return subject if subject.roles else Subject(None, frozenset({MESH_ROLE}))

    def dial(self, context: OutgoingContext, greeting: Greeting) -> ProtocolConnection:
        """Begin our side of a connection."""
        return self._carrier.dial(context, greeting)


def mesh_of(
    config: BrokerConfig,
    sessions: Sessions,
    managers: Sequence[ProtocolManager],
    turn: Turn,
    connections: Connections,
) -> BrokerMesh | None:
    """Return the mesh of a configuration; None if it has none. Raises ConfigError as `BrokerMesh` does."""
    for cluster in config.clusters:
        surroundings = Surroundings(sessions=sessions, managers=tuple(managers), turn=turn, connections=connections)
        return BrokerMesh(config, cluster, surroundings)
    return None


class Dial:
    """One host and port, and what is known of the broker there."""

    def __init__(self, mesh: BrokerMesh, config: ConnectorConfig) -> None:
        """Make an idle dial. Raises ConfigError for files of TLS."""
        self._mesh: Final = mesh
        self.node_id = ""
        """Identifier of the broker that answered there, or is said to be there; empty: not known."""
        self.refusal = ""
        """Why the last connection was refused; empty if it was not."""
        self._refusals = 0
        self._peer: Peer | None = None
        cluster, surroundings = mesh.config, mesh.surroundings
        context = ConnectorContext(
            config=config,
            protocol="AMQP",
            connect=self._connect,
            login_timeout_s=cluster.call_timeout_ms / 1000,
            turn=surroundings.turn,
            connections=surroundings.connections,
            events=surroundings.domain.events,
            may_dial=self._may_dial,
        )
        policy = RetryPolicy(
            first_s=cluster.retry_interval_ms / 1000,
            multiplier=cluster.retry_interval_multiplier,
            longest_s=max(cluster.max_retry_interval_ms, cluster.retry_interval_ms) / 1000,
            first_attempts=cluster.initial_connect_attempts,
            later_attempts=cluster.reconnect_attempts,
        )
        self.connector: Final = Connector(context, policy, surroundings.domain.entropy.random)

    def start(self) -> None:
        """Begin to dial."""
        self.connector.start()

    def _may_dial(self) -> bool:
        """Tell whether the broker there is not connected already, perhaps because it has dialled this one."""
        mesh = self._mesh.mesh
        if not self._mesh.is_started or mesh.departures.parting is Parting.LEFT:
            return False
        return not self.node_id or self.node_id not in mesh.peers

    def _connect(self, context: OutgoingContext) -> ProtocolConnection:
        self._peer, greeting = self._mesh.greeting(self._lost)
        return self._mesh.dial(context, greeting)

    def _lost(self, reason: str) -> None:
        """Learn from the end of a connection (called by the carrier, before the connector hears of it)."""
        peer, self._peer = self._peer, None
        mesh = self._mesh.mesh
        if peer is None:
            return
        if peer.hello is not None:
            self.node_id = peer.node_id
            if peer.node_id == mesh.node_id and peer.hello.run == mesh.run:
                self._is_ourselves()
                return
        if peer.handover.channel is not None or (self.node_id and self.node_id in mesh.peers):
            self._refusals = 0
            self.refusal = ""
            return
        if reason == CONNECTION_LOST:
            return
        self._refusals += 1
        self.connector.rest(min(2.0 ** min(self._refusals, 10), LONGEST_REST_S))
        if reason != self.refusal:
            self.refusal = reason
            LOGGER.warning(
                "another broker refuses this one, or is refused: mesh=%s address=%s reason=%s",
                self._mesh.config.name,
                self.connector.config.endpoint,
                reason,
            )

    def _is_ourselves(self) -> None:
        template = "a connector leads to this broker itself, and is left out: mesh=%s connector=%s address=%s"
        config = self.connector.config
        LOGGER.warning(template, self._mesh.config.name, config.name, config.endpoint)
        self.connector.stop("this broker itself")


class _Told:
    """A peer as its listener, and one more that hears of the end; all other calls go straight to the peer."""

    def __init__(self, peer: Peer, told: Callable[[str], None]) -> None:
        self.opened: Final = peer.opened
        self.control: Final = peer.control
        self.message: Final = peer.message
        self.has_read: Final = peer.has_read
        self.accepted: Final = peer.accepted
        self.has_room: Final = peer.has_room
        self._peer: Final = peer
        self._told: Final = told

    def lost(self, reason: str) -> None:
        """Tell both."""
        self._peer.lost(reason)
        self._told(reason)


def endpoint_of(url: str) -> Endpoint | None:
    """Return host and port of a URL that another broker has told; None if it makes no sense."""
    scheme, separator, rest = url.partition("://")
    host, colon, port = rest.rpartition(":")
    host = host.strip("[]")
    if scheme != "tcp" or not separator or not colon or not host or len(host) > 255:
        return None
    if not (port.isascii() and port.isdigit() and 0 < int(port[:6]) < 65536):
        return None
    return host, int(port)
