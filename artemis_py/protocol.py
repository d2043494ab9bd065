"""The contract between the transport, a protocol manager and the core.

A protocol manager turns one connection's bytes into calls on the core's `Session`, and the core's deliveries
into bytes. It never sees a socket: the transport feeds it bytes and time, and takes its output once per turn of
the loop. Managers are found through the entry points `artemis_py.protocols`; a package of its own can add one.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import Enum
from typing import Final, Protocol

from attrs import frozen

from artemis_py.core.messages.message import Message, MessageFormat
from artemis_py.core.queues.queue import Queue
from artemis_py.core.queues.storage import Storage
from artemis_py.core.routing.domains import Domains
from artemis_py.core.runtime.access import Subject
from artemis_py.core.services.services import Services
from artemis_py.core.settings.declaration import Option

# A connection stops taking deliveries when this much output waits for a slow peer, and its transport stops reading
# from it (reliability §4: 1 MiB per connection, as small as keeps a 1 Gbit/s link busy for 8 ms).
DEFAULT_OUTPUT_LIMIT_BYTES = 1024 * 1024


class LoginOutcome(Enum):
    """How an authentication ended."""

    OK = "ok"
    BAD_CREDENTIALS = "bad credentials"
    BUSY = "too many logins at once"


@frozen
class LoginResult:
    """The end of one authentication exchange."""

    outcome: LoginOutcome
    subject: Subject | None = None
    """Who it is; set if and only if `outcome` is OK."""
    data: bytes = b""
    """What the mechanism still has to say (SCRAM's server-final)."""


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
    """Who may come in: the mechanisms one acceptor offers to one peer."""

    def mechanisms(self, context: "ConnectionContext") -> Sequence[str]:
        """SASL mechanism names for this peer, strongest first; ANONYMOUS only where it is allowed."""

    def begin(self, mechanism: str, context: "ConnectionContext") -> SaslExchange | None:
        """Start an exchange; None if the mechanism is not offered to this peer."""

    def login(
        self, user: str | None, password: str | None, context: "ConnectionContext", done: Callable[[LoginResult], None]
    ) -> None:
        """Check a name and password at once, for protocols without SASL; no user means anonymous."""


@frozen(kw_only=True)
class ConnectionContext:
    """What a connection may know about its surroundings."""

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
    """What the protocol's `read_parameters` made of those of the acceptor. None: all of them have their defaults."""
    wake: Callable[[], None]
    """Tell the transport that there is output, or a new deadline, outside of a call from the transport."""
    read: Callable[[bool], None] = lambda goes_on: None
    """Tell the transport to read nothing from the peer (False), for as long as it fills what is full, or to read on."""
    output_limit_bytes: int = DEFAULT_OUTPUT_LIMIT_BYTES
    idle_timeout_override_ms: int | None = None
    """Silence after which a client counts as gone, instead of what the protocol would have by its own parameters or
    the client's wish; 0: never. None: as the protocol has it."""


class ProtocolConnection(Protocol):
    """One client's conversation: bytes and time in, bytes out. All methods return at once and none raises.

    Times are seconds of the monotonic clock.
    """

    @property
    def closed(self) -> bool:
        """True when nothing more will be said: the transport sends what is left and closes."""

    @property
    def logged_in(self) -> bool:
        """True once the peer is known; until then the transport's one login deadline runs."""

    def receive_data(self, data: bytes, now: float) -> None:
        """Take what the peer sent, in pieces of any size.

        Work in it stops between two packets, or within one that names many things, when `dispatcher.meter.work` reaches
        `dispatcher.meter.end`: this peer has had its share of the turn. What is left is kept, and `has_input` says so.
        """

    @property
    def has_input(self) -> bool:
        """Whether received data is kept that only waits for another turn. The transport then reads nothing more."""

    def work(self, now: float) -> None:
        """Go on with it, as far as the new share allows."""

    def data_to_send(self) -> bytes:
        """Take all collected output (empty: nothing). Deliveries that waited for room go on in the next turn."""

    def next_deadline(self) -> float | None:
        """When `handle_deadline` wants to be called next, or None. Asked after each call of this object."""

    def handle_deadline(self, now: float) -> None:
        """Heartbeats and time-outs."""

    def pause(self) -> None:
        """The peer reads too slowly: take no deliveries until `resume`. The transport reads nothing meanwhile."""

    def resume(self) -> None:
        """The peer caught up."""

    def shutdown(self, reason: str) -> None:
        """The broker (or an administrator) ends this conversation: say so in the protocol's words, then be closed."""

    def connection_lost(self) -> None:
        """The socket is gone: give everything back. Called exactly once, also after an orderly close."""


class ProtocolManager(Protocol):
    """A protocol, as the broker sees it. Constructed once per broker with its `Host`."""

    @property
    def name(self) -> str:
        """As in an acceptor's `protocols` parameter, upper case."""

    @property
    def formats(self) -> Sequence[MessageFormat]:
        """The formats of messages this protocol brings; a restart finds them again by their names."""

    @property
    def parameters(self) -> Sequence[Option]:
        """The acceptor URL parameters this protocol reads, mostly `options_of` the class that holds their values."""

    @property
    def websocket_subprotocols(self) -> Sequence[str]:
        """Names under which this protocol is spoken over WebSocket (RFC 6455 §1.9); empty: it is not."""

    @property
    def greeting(self) -> bytes:
        """What a stranger is told whose first bytes nobody knows, before the socket is closed; empty: nothing."""

    def read_parameters(self, acceptor: str, given: Mapping[str, str]) -> object:
        """Parse the parameters of one acceptor, which may be those of other protocols as well (`wire.parameters`).

        Called for each acceptor that speaks this protocol when it is made, and by `artemis-py check`. What it returns
        is the `parameters` of every `ConnectionContext` of that acceptor. Raises `wire.parameters.InvalidParameter` if
        a parameter is wrong, or contradicts another one or another acceptor: then the broker does not start, and says
        which acceptor and parameter it is.
        """

    def start(self) -> None:
        """The store was read and what happens from now on is stored: take up what an earlier run left.

        Called once, before any connection.
        """

    def matches(self, head: bytes) -> bool | None:
        """Whether these first bytes of a connection are mine; None: not enough bytes to tell."""

    def connect(self, context: ConnectionContext) -> ProtocolConnection:
        """Start a conversation with a new peer."""


class Records:
    """Keeps keys and values of a protocol through restarts, in one space of the store."""

    def __init__(self, storage: Storage, space: str) -> None:
        self._storage: Final = storage
        self._space: Final = space

    def load(self) -> Iterable[tuple[bytes, bytes]]:
        """Return what an earlier run saved; called from `ProtocolManager.start`."""
        return self._storage.load_records(self._space)

    def save(self, key: bytes, value: bytes | None) -> None:
        """Write a record, or remove it (None); durable with what is stored in the same turn."""
        self._storage.save_record(self._space, key, value)


class Host:
    """The broker, as a protocol manager gets it: made once, when everything that it names is there.

    Clients are served through `sessions`, which check permissions; the rest is what a protocol needs for itself.
    """

    def __init__(self, services: Services) -> None:
        self.sessions: Final = services.sessions
        """Opens sessions for those that have logged in."""
        self.postoffice: Final = services.sessions.postoffice
        """The one domain, for what sessions do not offer yet."""
        self.domains: Final = Domains(self.postoffice)
        """Namespaces of addresses, by the host name that a client asks for."""
        self.staging: Final = services.staging
        self.retained: Final = services.retained
        self.events: Final = self.postoffice.events
        self.options: Final = self.postoffice.options
        dispatcher = self.postoffice.dispatcher
        self.timers: Final = dispatcher.timers
        self.background: Final = dispatcher.slices
        """Work that takes many turns."""
        self.meter: Final = dispatcher.meter
        """Work done in this turn; see `ProtocolConnection.receive_data`."""
        self.memory: Final = dispatcher.account
        """Memory that messages take, those included that are received in part."""
        self.storage: Final = dispatcher.storage
        """For answers that wait until something is durable (`when_durable`)."""
        self._dispatcher: Final = dispatcher

    @property
    def now_ms(self) -> int:
        """Milliseconds since 1970, as it was at the start of this turn."""
        return self._dispatcher.now_ms

    def deposit(self, message: Message, queue: Queue) -> None:
        """Put a message into one queue, past routing: the broker's own word to one subscriber, or a retained copy."""
        self.postoffice.deposit(message, queue)

    def records(self, space: str) -> Records:
        """Return the records of one space; its name begins with that of the protocol."""
        return Records(self.storage, space)


ManagerFactory = Callable[[Host], ProtocolManager]
"""What an entry point of the group `artemis_py.protocols` names; called once, before the store is read."""
