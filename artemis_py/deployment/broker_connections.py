"""The connections of `<broker-connections>` and `<bridges>`: which queues have a bridge, and what is logged of them.

    queues that exist, come and go  -->  a Bridge for each that a sender or receiver is about
    connector  -->  connection of a protocol  -->  it attaches the bridges

A bridge lives as long as its queue and its element in broker.xml; connections come and go.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Final

from attrs import frozen

from artemis_py.config.broker_config import BrokerConnectionSection
from artemis_py.core.names.routing_type import RoutingType
from artemis_py.core.names.syntax import FQQN_SEPARATOR, WildcardTrie
from artemis_py.core.queues.queue import Queue
from artemis_py.core.routing.domain import Domain
from artemis_py.core.runtime.bridging import Bridge, BridgeConnection, BridgeState, BridgeTerms
from artemis_py.core.runtime.carrier import CONNECTION_LOST, PeerLogin
from artemis_py.core.runtime.events import Event, QueueAdded, QueueRemoved
from artemis_py.core.settings.broker_connection_config import BridgeConfig, BrokerConnectionConfig
from artemis_py.deployment.changes import ChangeBrokerConnection
from artemis_py.errors import ConfigError, Problem
from artemis_py.logs import LogBrake, named_logger
from artemis_py.protocol import BridgeCarrier, OutgoingContext, ProtocolConnection, ProtocolManager
from artemis_py.transport.backoff import RetryPolicy
from artemis_py.transport.connections import Connections
from artemis_py.transport.connector import Connector, ConnectorState
from artemis_py.transport.outgoing import ConnectorContext
from artemis_py.transport.turn import Turn

LOGGER: Final = named_logger(__name__)

LOGIN_TIMEOUT_S: Final = 30.0
"""Time from the connection to a login that both brokers have finished; `call-timeout` of Artemis."""


@frozen(kw_only=True)
class Surroundings:
    """Parts of the broker that its connections work with."""

    domain: Domain
    managers: Sequence[ProtocolManager]
    turn: Turn
    connections: Connections


class BrokerConnections:
    """All connections of this broker to others that are no members of its mesh."""

    def __init__(self, surroundings: Surroundings) -> None:
        self.surroundings: Final = surroundings
        self.node_id = ""
        """Identifier of this broker, set before the connections start."""
        self._connections: Final[dict[str, BrokerConnection]] = {}
        self._news: Final[dict[str, None]] = {}
        """Names of queues that came or went, and that nobody has looked at yet."""
        self._gone: Final = {True: 0, False: 0}
        """Messages that connections which are gone have sent and received."""
        self._is_running = False
        self._ending: Final[list[BrokerConnection]] = []
        """Connections that are no longer wanted, and perhaps still close a socket."""

    @property
    def facts(self) -> Sequence["BrokerConnection"]:
        """The connections, for management."""
        return tuple(self._connections.values())

    def passed(self, is_sender: bool) -> int:
        """Return how many messages all of them have sent or received since the start; it never falls."""
        return self._gone[is_sender] + sum(each.passed(is_sender) for each in self._connections.values())

    # -- life --------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Make the connections that start with the broker."""
        self._is_running = True
        self._listen()
        for each in self._connections.values():
            self._begin(each)

    async def stop(self) -> None:
        """End all connections."""
        self._is_running = False
        self._listen()
        for each in self._connections.values():
            each.end("the broker stops")
        for each in [*self._connections.values(), *self._ending]:
            await each.connector.wait_stopped()

    def _begin(self, connection: "BrokerConnection") -> None:
        for queue in self.surroundings.domain.queues.values():
            connection.look_at(queue)
        if connection.options.auto_start:
            connection.start()

    def renew_certificates(self) -> None:
        """Read the files of TLS again. Raises ConfigError; the old certificates stay in use then."""
        for each in self._connections.values():
            each.connector.renew_certificates()

    def change(self, change: ChangeBrokerConnection) -> None:
        """Follow the configuration; see `apply.ConnectionsFollower`."""
        made = None if change.after is None else BrokerConnection(self, change.after)
        old = self._connections.pop(change.name, None)
        if old is not None:
            for is_sender in self._gone:
                self._gone[is_sender] += old.passed(is_sender)
            old.end("it is no longer in the configuration" if made is None else "its configuration has changed")
            self._ending[:] = [each for each in self._ending if each.connector.is_attempting]
            self._ending.append(old)
        if made is not None:
            self._connections[change.name] = made
            if self._is_running:
                self._begin(made)
        self._listen()

    # -- queues ------------------------------------------------------------------------------------------------

    def _listen(self) -> None:
        """Hear of queues that come and go while there are connections: a broker without one has no work with it."""
        events = self.surroundings.domain.events
        events.unsubscribe(self._heard)
        if self._is_running and self._connections:
            events.subscribe(self._heard, QueueAdded, QueueRemoved)

    def _heard(self, event: Event) -> None:
        """Note a queue that came or went; a listener of events must not change anything at once."""
        assert isinstance(event, QueueAdded | QueueRemoved)
        if not self._news:
            self.surroundings.domain.dispatcher.after(0, self._follow)
        self._news[event.name] = None

    def _follow(self) -> None:
        """Make and end bridges of queues that came or went."""
        names = list(self._news)
        self._news.clear()
        if not self._is_running:
            return
        for name in names:
            queue = self.surroundings.domain.queues.get(name)
            for connection in self._connections.values():
                if queue is None:
                    connection.forget(name)
                else:
                    connection.look_at(queue)


class BrokerConnection:
    """One connection with its bridges; fulfils `BridgeListener` and `management.facts.BrokerConnectionFacts`."""

    def __init__(self, owner: BrokerConnections, section: BrokerConnectionSection) -> None:
        """Make an idle one. Raises ConfigError for files of TLS, or if no protocol can carry it."""
        self.options: Final[BrokerConnectionConfig] = section.options
        self.uri: Final[str] = section.uri
        self.is_started = False
        self.connected_since_ms = 0
        self._owner: Final = owner
        surroundings = owner.surroundings
        self._domain: Final = surroundings.domain
        carriers = [each for each in surroundings.managers if isinstance(each, BridgeCarrier)]
        if not carriers:
            text = "no installed protocol connects brokers; install artemis_amqp"
            raise ConfigError([Problem(section.file, section.line, "amqp-connection", text)])
        self._carrier: Final[BridgeCarrier] = carriers[0]
        self._bridges: Final[dict[tuple[BridgeConfig, str], Bridge]] = {}
        """By their element in broker.xml and the name of their queue."""
        self._of_addresses: Final[dict[str, list[Bridge]]] = {}
        """The same by the addresses of the queues, if there are both senders and receivers."""
        self._is_mixed: Final = len({each.is_sender for each in section.options.bridges}) == 2
        self._matches: Final = WildcardTrie[BridgeConfig](surroundings.domain.options.wildcards)
        for each in section.options.bridges:
            if each.address_match:
                self._matches.add(each.address_match, each)
        self._gone: Final = {True: 0, False: 0}
        """Messages that bridges which are gone have passed on."""
        self._barred: Final[set[Bridge]] = set()
        """Receivers whose messages would go straight back; they are never attached."""
        self._connection: BridgeConnection | None = None
        self._told: Final[dict[Bridge, str]] = {}
        """Reasons of refused bridges that the log has."""
        self._brake: Final = LogBrake(LOGGER)
        options = section.options
        context = ConnectorContext(
            config=section.ways[0],
            protocol="AMQP",
            connect=self._connect,
            login_timeout_s=LOGIN_TIMEOUT_S,
            turn=surroundings.turn,
            connections=surroundings.connections,
            events=surroundings.domain.events,
        )
        first_attempts = options.initial_connect_attempts
        policy = RetryPolicy(
            first_s=options.retry_interval_ms / 1000,
            multiplier=options.retry_interval_multiplier,
            longest_s=max(options.max_retry_interval_ms, options.retry_interval_ms) / 1000,
            first_attempts=options.reconnect_attempts if first_attempts is None else first_attempts,
            later_attempts=options.reconnect_attempts,
        )
        self.connector: Final = Connector(context, policy, surroundings.domain.entropy.random, section.ways[1:])

    # -- for operators -----------------------------------------------------------------------------------------

    @property
    def is_connected(self) -> bool:
        """Whether both brokers are logged in."""
        return self._connection is not None

    @property
    def state(self) -> str:
        """State of the connector."""
        return self.connector.state.name.lower()

    @property
    def last_error(self) -> str:
        """Why it is not connected."""
        return self.connector.last_failure

    @property
    def bridges(self) -> Sequence[Bridge]:
        """Its senders and receivers."""
        return tuple(self._bridges.values())

    def passed(self, is_sender: bool) -> int:
        """Return how many messages it has sent or received; see `BrokerConnectionFacts`."""
        live = sum(each.passed for each in self._bridges.values() if each.is_sender == is_sender)
        return self._gone[is_sender] + live

    def start(self) -> None:
        """Make it; see `BrokerConnectionFacts`."""
        if not self.is_started or self.connector.state is ConnectorState.GIVEN_UP:
            self.is_started = True
            self.connector.start()

    def stop(self) -> None:
        """End it; see `BrokerConnectionFacts`."""
        self.end("stopped by an administrator")

    def end(self, reason: str) -> None:
        """End the connection, and dial no more."""
        self.is_started = False
        self.connector.stop(reason)

    # -- bridges -----------------------------------------------------------------------------------------------

    def look_at(self, queue: Queue) -> None:
        """Make the bridges of a queue that exists, unless they are there."""
        for config in self._configs_of(queue):
            bridge = self._bridges.get((config, queue.name))
            if bridge is None:
                bridge = self._bridges[config, queue.name] = _bridge(config, queue)
                self._bar_circles(bridge)
            if self._connection is not None and bridge not in self._barred:
                self._connection.attach(bridge)

    def forget(self, name: str) -> None:
        """End the bridges of a queue that is gone."""
        for config in self.options.bridges:
            bridge = self._bridges.pop((config, name), None)
            if bridge is None:
                continue
            self._gone[bridge.is_sender] += bridge.passed
            self._told.pop(bridge, None)
            self._barred.discard(bridge)
            if self._is_mixed:
                self._of_addresses[_address_of(bridge)].remove(bridge)
            if self._connection is not None:
                self._connection.detach(bridge, "the queue was removed")

    def _configs_of(self, queue: Queue) -> Iterator[BridgeConfig]:
        """Yield the senders and receivers that are about a queue."""
        if queue.internal or queue.temporary:
            return
        for config in self.options.bridges:
            if config.queue_name == queue.name:
                yield config
        # The other multicast queues are subscriptions of clients: their messages are for those clients.
        if queue.routing_type is RoutingType.ANYCAST or queue.configuration_managed:
            yield from self._matches.match(queue.address.name)

    def _bar_circles(self, made: Bridge) -> None:
        """Bar the receivers of an address from which messages are sent: they would come and go without end."""
        if not self._is_mixed:
            return
        same = self._of_addresses.setdefault(_address_of(made), [])
        same.append(made)
        if any(each.is_sender for each in same):
            for each in same:
                if not each.is_sender:
                    self._bar(each)

    def _bar(self, bridge: Bridge) -> None:
        if bridge in self._barred:
            return
        self._barred.add(bridge)
        if self._connection is not None:
            self._connection.detach(bridge, "its address is sent on the same connection")
        bridge.state = BridgeState.REFUSED
        bridge.reason = "the same connection sends the messages of its address: they would come and go without end"
        self._log_refusal(bridge)

    def _wanted(self) -> Iterator[Bridge]:
        return iter([each for each in self._bridges.values() if each not in self._barred])

    # -- connection --------------------------------------------------------------------------------------------

    def _connect(self, context: OutgoingContext) -> ProtocolConnection:
        options = self.options
        terms = BridgeTerms(
            name=options.name,
            node_id=self._owner.node_id,
            login=PeerLogin(user=options.user or None, password=options.password or None),
            bridges=self._wanted,
            listener=self,
            retry_ms=options.retry_interval_ms,
        )
        return self._carrier.dial_bridges(context, terms)

    def opened(self, connection: BridgeConnection) -> None:
        """Note that both brokers are logged in."""
        self._connection = connection
        self.connected_since_ms = self._domain.dispatcher.now_ms

    def lost(self, reason: str) -> None:
        """Note that the connection is over; the connector logs it, and dials again."""
        self._connection = None
        self.connected_since_ms = 0
        if reason != CONNECTION_LOST:
            self.connector.explain(reason)

    def bridge_opened(self, bridge: Bridge) -> None:
        """Log that a bridge works again."""
        if self._told.pop(bridge, None) is not None:
            template = "bridge works again: connection=%s %s=%s remote=%s"
            self._tell(self._brake.info, template, bridge)

    def bridge_refused(self, bridge: Bridge) -> None:
        """Log that a bridge is refused, once for each reason."""
        self._log_refusal(bridge)

    def message_refused(self, bridge: Bridge) -> None:
        """Log that a message was not accepted."""
        template = "message of a bridge not accepted: connection=%s %s=%s remote=%s reason=%s"
        self._tell(self._brake.warning, template, bridge, bridge.reason)

    def _log_refusal(self, bridge: Bridge) -> None:
        if self._told.get(bridge) != bridge.reason:
            self._told[bridge] = bridge.reason
            template = "bridge refused: connection=%s %s=%s remote=%s reason=%s"
            self._tell(self._brake.warning, template, bridge, bridge.reason)

    def _tell(self, log: Callable[..., None], template: str, bridge: Bridge, *more: str) -> None:
        name = self.options.name
        log(name, template, name, bridge.kind, bridge.queue, bridge.remote, *more)


def _address_of(bridge: Bridge) -> str:
    return bridge.local.partition(FQQN_SEPARATOR)[0]


def _bridge(config: BridgeConfig, queue: Queue) -> Bridge:
    """Return the bridge of a queue that a sender or receiver is about."""
    address = queue.address.name
    # A queue with the name of its address is what every broker takes the address for.
    full_name = address if queue.name == address else f"{address}{FQQN_SEPARATOR}{queue.name}"
    remote = config.remote_address.replace("{address}", address).replace("{queue}", queue.name)
    return Bridge(
        queue=queue.name,
        remote=remote or (address if config.is_sender else full_name),
        is_sender=config.is_sender,
        local=full_name,
        filter=config.filter,
        detects_duplicates=config.use_duplicate_detection,
        is_anycast=queue.routing_type is RoutingType.ANYCAST,
    )
