"""The contract between the transport, a protocol manager and the core.

A protocol manager turns one connection's bytes into calls on the core's `Session`, and the core's deliveries
into bytes. It never sees a socket: the transport feeds it bytes and time, and takes its output once per turn of
the loop. Managers are found through the entry point group `artemis_py.protocols`; another package can add one.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import Enum
from typing import Final, Generic, Protocol, TypeVar, runtime_checkable

from attrs import frozen

from artemis_py.core.messages.message import Message, MessageFormat
from artemis_py.core.queues.dispatcher import RESERVE_PARTS, TABLES_PARTS
from artemis_py.core.queues.queue import Queue
from artemis_py.core.queues.storage import RecordStorage
from artemis_py.core.runtime.access import Subject
from artemis_py.core.runtime.bridging import BridgeTerms
from artemis_py.core.runtime.carrier import Greeting, Mesh
from artemis_py.core.runtime.referrals import Newcomer, Referrals, Route, Router
from artemis_py.core.runtime.timers import Timer
from artemis_py.core.services.domains import Domains
from artemis_py.core.services.services import Services
from artemis_py.core.services.virtual_hosts import VirtualHost, VirtualHosts
from artemis_py.core.settings.broker_settings import BrokerSettings
from artemis_py.core.settings.declaration import Option

# When this much output waits for a slow peer, the connection takes no more deliveries and its transport stops reading
# (reliability §4: 1 MiB per connection, as small as keeps a 1 Gbit/s link busy for 8 ms).
DEFAULT_OUTPUT_LIMIT_BYTES = 1024 * 1024


class LoginOutcome(Enum):
    """Outcome of an authentication."""

    OK = "ok"
    BAD_CREDENTIALS = "bad credentials"
    BUSY = "too many logins at once"


@frozen
class LoginResult:
    """Result of one authentication exchange."""

    outcome: LoginOutcome
    subject: Subject | None = None
    """The authenticated user; set if and only if `outcome` is OK."""
    data: bytes = b""
    """Final data of the mechanism for the client (SCRAM's server-final)."""


class SaslExchange(Protocol):
    """One authentication, server side. Exactly one of `challenge` or `done` follows each call of `respond`."""

    def respond(
        self,
        data: bytes | None,
        challenge: Callable[[bytes], None],
        done: Callable[[LoginResult], None],
    ) -> None:
        """Take the client's response (None: it sent none) and answer through one of the two callbacks.

        The callback may run before this returns, or in a later turn of the loop: passwords are hashed elsewhere.
        """


class Authenticator(Protocol):
    """Decides who may log in: offers the mechanisms of one acceptor to its peers."""

    def mechanisms(self, context: "ConnectionContext") -> Sequence[str]:
        """Return SASL mechanism names for this peer, strongest first; ANONYMOUS only where it is allowed."""

    def begin(self, mechanism: str, context: "ConnectionContext") -> SaslExchange | None:
        """Start an exchange; None if the mechanism is not offered to this peer."""

    def login(
        self, user: str | None, password: str | None, context: "ConnectionContext", done: Callable[[LoginResult], None]
    ) -> None:
        """Check a name and password in one step, for protocols without SASL; no user means anonymous."""


@frozen(kw_only=True)
class ConnectionContext:
    """Surroundings of a connection: its peer, its acceptor and the callbacks of its transport."""

    connection_id: int
    """Unique while the broker runs; appears in the log and in management."""
    peer: str
    """The other side's address as text, for the log."""
    is_loopback: bool
    is_encrypted: bool = False
    certificate_subject: str | None = None
    """Distinguished name of the verified TLS client certificate."""
    authenticator: Authenticator
    parameters: object = None
    """Result of the protocol's `read_parameters` for the acceptor. None: all parameters have their defaults."""
    virtual_host: str = ""
    """Virtual host of a client that names none, or that names a host which is no virtual one; empty: the default."""
    server_name: str | None = None
    """Name that the client asked for in the TLS handshake (SNI)."""
    router: Router | None = None
    """Decides which broker serves the clients of the acceptor; None: this one."""
    wake: Callable[[], None]
    """Tells the transport that there is output, or a new deadline, outside of a call from the transport."""
    read: Callable[[bool], None] = lambda goes_on: None
    """Tells the transport to read nothing from the peer while what it fills is full (False), or to read on (True)."""
    output_limit_bytes: int = DEFAULT_OUTPUT_LIMIT_BYTES
    idle_timeout_override_ms: int | None = None
    """Silence after which a client counts as gone, in place of the value that the protocol takes from its parameters or
    from the client; 0: never. None: the protocol's own value applies."""


class ProtocolConnection(Protocol):
    """One client's conversation: bytes and time in, bytes out. All methods return at once and none raises.

    Times are seconds of the monotonic clock.
    """

    @property
    def closed(self) -> bool:
        """Whether the conversation is over: the transport sends what is left and closes."""

    @property
    def logged_in(self) -> bool:
        """Whether the peer has logged in; until then the transport's one login deadline runs."""

    def receive_data(self, data: bytes, now: float) -> None:
        """Process data from the peer, in pieces of any size.

        Processing stops between two packets, or within one that names many things, when `dispatcher.meter.work` reaches
        `dispatcher.meter.end`: this peer has used its share of the turn. The rest is kept, and `has_input` is true.
        """

    @property
    def has_input(self) -> bool:
        """Whether received data waits only for the next turn. In that case the transport reads nothing more."""

    def work(self, now: float) -> None:
        """Process the data that was kept, as far as the new share allows."""

    def data_to_send(self) -> bytes:
        """Take all collected output, which may be empty. Deliveries that waited for room continue in the next turn."""

    def next_deadline(self) -> float | None:
        """Return the time at which to call `handle_deadline` next, or None. Asked after each call of this object."""

    def handle_deadline(self, now: float) -> None:
        """Send heartbeats and act on time-outs that are due."""

    def pause(self) -> None:
        """Take no deliveries until `resume`: the peer reads too slowly. Until then the transport reads nothing."""

    def resume(self) -> None:
        """Take deliveries again: the peer caught up."""

    def shutdown(self, reason: str) -> None:
        """End the conversation for the broker or an administrator: say so in the protocol's words, then be closed."""

    def connection_lost(self) -> None:
        """Give everything back, because the socket is gone. Called exactly once, also after an orderly close."""


class ProtocolManager(Protocol):
    """A protocol, as the broker sees it. Constructed once per broker with its `Host`."""

    @property
    def name(self) -> str:
        """Name in an acceptor's `protocols` parameter, in upper case."""

    @property
    def formats(self) -> Sequence[MessageFormat]:
        """Message formats of this protocol; a restart finds them by their names."""

    @property
    def parameters(self) -> Sequence[Option]:
        """Parameters of an acceptor URL that this protocol reads, usually `options_of` the class of their values."""

    @property
    def websocket_subprotocols(self) -> Sequence[str]:
        """Names of this protocol over WebSocket (RFC 6455 §1.9); empty: it is not spoken there."""

    @property
    def greeting(self) -> bytes:
        """Bytes for a peer whose first bytes match no protocol, sent before the socket is closed; empty: nothing."""

    def read_parameters(self, acceptor: str, given: Mapping[str, str]) -> object:
        """Parse the parameters of one acceptor, which may be those of other protocols as well (`wire.parameters`).

        Called for each acceptor that speaks this protocol when it is made, and by `artemis-py check`. The result is
        the `parameters` of every `ConnectionContext` of that acceptor. Raises `wire.parameters.InvalidParameter` if
        a parameter is wrong, or contradicts another one or another acceptor: then the broker does not start, and names
        the acceptor and the parameter.
        """

    def start(self) -> None:
        """Restore what an earlier run left.

        Called once, before any connection. The store has been read, and changes are stored from now on.
        """

    def matches(self, head: bytes) -> bool | None:
        """Tell whether these first bytes of a connection belong to this protocol; None: more bytes are needed."""

    def connect(self, context: ConnectionContext) -> ProtocolConnection:
        """Start a conversation with a new peer."""


@frozen(kw_only=True)
class OutgoingContext:
    """Surroundings of a connection that this broker makes."""

    connection_id: int
    """Unique while the broker runs."""
    peer: str
    """Host and port of the other side, for the log."""
    host: str
    """Name of the other side as it is written in the connector."""
    is_loopback: bool
    is_encrypted: bool
    has_certificate: bool
    """Whether the other side can ask for a certificate of this broker."""
    mechanisms: tuple[str, ...] = ()
    """SASL mechanisms that may be used; empty: all that are safe on this connection."""
    wake: Callable[[], None]
    """Tells the transport that there is output, or a new deadline, outside of a call from the transport."""
    output_limit_bytes: int = DEFAULT_OUTPUT_LIMIT_BYTES


@runtime_checkable
class PeerCarrier(Protocol):
    """A protocol manager whose protocol carries the mesh."""

    def dial(self, context: OutgoingContext, greeting: Greeting) -> ProtocolConnection:
        """Return our side of a new connection."""


@runtime_checkable
class BridgeCarrier(Protocol):
    """A protocol manager whose protocol carries messages to other brokers, of any make, and from them."""

    def dial_bridges(self, context: OutgoingContext, terms: BridgeTerms) -> ProtocolConnection:
        """Return our side of a new connection."""


class Records:
    """Keeps keys and values of a protocol through restarts, in one space of the store."""

    def __init__(self, storage: RecordStorage, space: str) -> None:
        self._storage: Final = storage
        self._space: Final = space

    def load(self) -> Iterable[tuple[bytes, bytes]]:
        """Return the records that an earlier run saved; called from `ProtocolManager.start`."""
        return self._storage.load_records(self._space)

    def save(self, key: bytes, value: bytes | None) -> None:
        """Write a record, or remove it (None); it becomes durable with everything stored in the same turn."""
        self._storage.save_record(self._space, key, value)


class Host:
    """The broker as a protocol manager sees it: made once, when all of its parts exist.

    Clients are served through `sessions`, which check permissions; the protocol needs the rest for itself.
    """

    def __init__(self, domains: Domains, hosts: VirtualHosts | None = None, services: Services | None = None) -> None:
        """Create it for the default domain, or for that of other `services`; see `Siblings`."""
        self.domains: Final = domains
        """Services of each namespace of addresses, by the host name that a client asks for."""
        self.hosts: Final = hosts
        """The virtual hosts; None if there is only what `domains` has."""
        services = domains.default if services is None else services
        self.services: Final = services
        """Services of the domain that the other attributes belong to."""
        domain = self._domain = services.sessions.domain
        dispatcher = domain.dispatcher
        self.sessions: Final = services.sessions
        """Opens sessions for clients that have logged in."""
        self.staging: Final = services.staging
        self.branches: Final = services.branches
        """Transaction branches (XA), which are prepared before they are committed."""
        self.retained: Final = services.retained
        self.jobs: Final = services.jobs
        """Messages that are sent later, or several times."""
        self.events: Final = domain.events
        self.dispatcher: Final = dispatcher
        """The clock (`now_ms`) and the shared limits, for code that reads them for every message."""
        self.background: Final = dispatcher.slices
        """Work that takes many turns."""
        self.meter: Final = dispatcher.meter
        """Work done in this turn; see `ProtocolConnection.receive_data`."""
        self.memory: Final = dispatcher.account
        """Account of the memory that messages take, including messages received in part."""
        self.tables: Final = dispatcher.tables
        """Account of the memory that links and sessions take."""
        self.storage: Final = dispatcher.storage
        """The store, for answers that wait until something is durable (`when_durable`)."""
        self.record_storage: Final = domain.records
        """The records of this domain in the store."""
        self.mesh: Mesh | None = None
        """The meshes that this broker belongs to; set before the first connection. None: it belongs to none."""
        self.referrals: Final = Referrals()
        """Other brokers that clients of this domain may use."""

    @property
    def options(self) -> BrokerSettings:
        """Settings of the whole broker, as they are now."""
        return self._domain.options

    @property
    def now_ms(self) -> int:
        """Time at the start of this turn, in milliseconds since 1970."""
        return self.dispatcher.now_ms

    def after(self, delay_ms: int, callback: Callable[[], None]) -> Timer:
        """Plan a call in `delay_ms`, even if the wall clock is set in between."""
        return self.dispatcher.after(delay_ms, callback)

    def check_tables(self, what: str, is_first: bool = False) -> None:
        """Raise LimitExceeded if there is no memory left for one more of `what`, for example a link.

        `is_first`: it is among the first of its connection, without which a client cannot even ask for management.
        """
        self.dispatcher.check_tables(what, RESERVE_PARTS if is_first else TABLES_PARTS)

    def route(
        self,
        context: ConnectionContext,
        protocol: str,
        client_id: str,
        subject: Subject,
        decided: Callable[[Route], None],
    ) -> None:
        """Decide whether a client that has logged in is served here; `decided` is called now or in a later turn."""
        newcomer = Newcomer(
            protocol=protocol,
            client_id=client_id,
            subject=subject,
            peer=context.peer,
            is_encrypted=context.is_encrypted,
            server_name=context.server_name,
        )
        self.referrals.route(newcomer, context.router, decided)

    def deposit(self, message: Message, queue: Queue) -> None:
        """Put a message into one queue, past routing: the broker's message for one subscriber, or a retained copy."""
        self._domain.deposit(message, queue)

    def records(self, space: str) -> Records:
        """Return the records of one space; its name begins with that of the protocol."""
        return Records(self.record_storage, space)


Manager = TypeVar("Manager")


class Siblings(Generic[Manager]):
    """What a protocol has for each domain: a manager, whose clients know nothing of those of other domains.

    The manager that the transport knows is that of the default domain; a connection uses the one of its own domain as
    soon as it has named it.
    """

    def __init__(self, manager: Manager, host: Host, make: Callable[[Host], Manager]) -> None:
        """Create it with the manager of the default domain; `make` makes the others when they are first needed."""
        self._host: Final = host
        self._make: Final = make
        self._managers: Final[dict[Services, Manager]] = {host.services: manager}
        if host.hosts is not None:
            host.hosts.when_gone.append(self._forget)

    def of(self, services: Services) -> Manager:
        """Return the manager of a domain."""
        manager = self._managers.get(services)
        if manager is None:
            host = self._host
            manager = self._managers[services] = self._make(Host(host.domains, None, services))
        return manager

    def find(self, hostname: str | None, otherwise: str) -> Manager:
        """Return the manager of the domain that `Domains.find` returns. Raises NoSuchHost."""
        return self.of(self._host.domains.find(hostname, otherwise))

    def named(self, name: str) -> Manager | None:
        """Return the manager of the virtual host that has this name; None if there is none."""
        services = self._host.domains.get(name)
        return None if services is None else self.of(services)

    def all(self) -> list[Manager]:
        """Return the managers of all domains, that of the default domain first."""
        return [self.of(services) for services in self._host.domains.all()]

    def _forget(self, gone: VirtualHost) -> None:
        self._managers.pop(gone.services, None)


ManagerFactory = Callable[[Host], ProtocolManager]
"""Type of an entry point in the group `artemis_py.protocols`; called once, before the store is read."""
