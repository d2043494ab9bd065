"""Facts that management shows and the core does not know: the process, its listening sockets, its mesh."""

from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

from attrs import frozen

from artemis_py.core.runtime.bridging import Bridge
from artemis_py.core.settings.broker_connection_config import BrokerConnectionConfig
from artemis_py.core.settings.cluster_config import ClusterConfig
from artemis_py.security.tokens import Tokens
from artemis_py.transport.acceptor import Acceptor


@frozen
class AcceptorFacts:
    """One socket that is listening."""

    name: str
    host: str
    port: int
    """Actual TCP port, even if the configuration says 0."""
    protocols: tuple[str, ...]


def facts_of(acceptors: Iterable[Acceptor]) -> list[AcceptorFacts]:
    """Return the facts of the acceptors that are listening."""
    return [
        AcceptorFacts(each.config.name, each.config.host, each.port, tuple(each.protocols))
        for each in acceptors
        if each.is_listening
    ]


class MemberFacts(Protocol):
    """Another broker of the mesh."""

    @property
    def node_id(self) -> str:
        """Identifier of the broker, as long as it has its store."""

    @property
    def name(self) -> str:
        """Name of the broker."""

    @property
    def state(self) -> str:
        """Its connection: `up`, `suspect`, a state on the way there, or `away`."""

    @property
    def urls(self) -> tuple[str, ...]:
        """Where others reach it."""

    @property
    def claimed(self) -> int:
        """Number of messages on their way to it."""

    @property
    def waiting(self) -> int:
        """Number of messages that wait for it."""

    @property
    def handed_over(self) -> int:
        """Number of messages that it has taken since it was connected."""

    @property
    def taken(self) -> int:
        """Number of messages that it has handed over since it was connected."""

    @property
    def resyncs(self) -> int:
        """How often both brokers did not know the same."""

    @property
    def since_ms(self) -> int:
        """Time since which it is connected, in milliseconds since 1970; 0 while it is not."""

    @property
    def is_dialled(self) -> bool:
        """Whether this broker made the connection."""

    @property
    def version(self) -> int:
        """Version of the mesh that it speaks; 0 while it is away."""

    @property
    def clock_difference_ms(self) -> int:
        """How far its clock was ahead of this broker's when it connected."""


class ShareFacts(Protocol):
    """What one other broker has to do with a queue of this one."""

    @property
    def name(self) -> str:
        """Name of the broker."""

    @property
    def node_id(self) -> str:
        """Identifier of the broker."""

    @property
    def has_queue(self) -> bool:
        """Whether it has a queue of this name."""

    @property
    def is_kept(self) -> bool:
        """Whether messages in that queue stay there, because it needs one broker."""

    @property
    def consumers(self) -> int:
        """Number of consumers that it tells of."""

    @property
    def granted(self) -> int:
        """Number of messages that it would take now."""

    @property
    def handed_over(self) -> int:
        """Number of messages of the queue that went there since it was connected."""

    @property
    def taken(self) -> int:
        """Number of messages of the queue that came from there since it was connected."""

    @property
    def last_taken_ms(self) -> int:
        """Time at which the last one came, in milliseconds since 1970; 0: none did."""


class RestFacts(Protocol):
    """A queue with messages in a broker that is being drained."""

    @property
    def queue(self) -> str:
        """Name of the queue."""

    @property
    def messages(self) -> int:
        """Number of its messages."""

    @property
    def reason(self) -> str:
        """Why they are still here."""

    @property
    def moves(self) -> bool:
        """Whether they are about to move, or will when something that is named has happened."""


class OwnFacts(Protocol):
    """What this broker is doing in its mesh."""

    @property
    def cluster(self) -> str:
        """Name of the mesh."""

    @property
    def node_id(self) -> str:
        """Identifier of this broker."""

    @property
    def name(self) -> str:
        """Name of this broker."""

    @property
    def state(self) -> str:
        """`stays`, or how far a drain is: `draining`, `empty`, `left`."""

    @property
    def incarnation(self) -> int:
        """How often this broker has been started."""

    @property
    def handed_over(self) -> int:
        """Number of messages that others have taken since the start."""

    @property
    def taken(self) -> int:
        """Number of messages that others have handed over since the start."""

    @property
    def drained(self) -> int:
        """Number of messages that others have taken since the drain began."""

    @property
    def clients(self) -> int:
        """Number of clients, without those that operate the broker."""

    @property
    def remaining(self) -> int:
        """Number of messages that are left; only counted during a drain."""

    @property
    def rest(self) -> Sequence[RestFacts]:
        """Queues that have them; only during a drain."""


class MeshFacts(Protocol):
    """The mesh that the broker belongs to."""

    @property
    def config(self) -> ClusterConfig:
        """What broker.xml says about it."""

    @property
    def is_started(self) -> bool:
        """Whether this broker connects to others, and lets them in."""

    def suspend(self) -> None:
        """End all connections, and make and take none until `start_again`; what is on its way is in doubt."""

    def start_again(self) -> None:
        """Connect again."""

    def members(self) -> Sequence[MemberFacts]:
        """Return the other brokers."""

    def explain(self, queue: str) -> list[str]:
        """Return why messages of a queue wait here, a sentence for each reason."""

    def shares(self, queue: str) -> Sequence[ShareFacts]:
        """Return where messages of a queue went, and where they came from. Raises InvalidRequest."""

    def stranded(self) -> int:
        """Return how many messages wait although a consumer elsewhere has had room for them for seconds."""

    def status(self) -> OwnFacts:
        """Return what this broker is doing."""

    def topology(self) -> dict[str, object]:
        """Return the brokers of the mesh, and who is connected with whom as far as this one has heard; JSON values."""

    def drain(self, grace_ms: int | None) -> None:
        """Give all messages to other brokers, and refuse clients; those that are connected have a time to leave.

        None: the time that broker.xml gives them when the broker stops. Below 0: they may stay. Raises InvalidRequest.
        """

    def stop_drain(self) -> None:
        """Stay after all. Raises InvalidRequest."""

    def forget(self, member: str) -> int:
        """Forget a member, by name or id, that will not come back; return how many messages were on their way to it.

        Raises InvalidRequest.
        """

    def accept(self, member: str) -> None:
        """Let a member come back, by name or id, whose store is older than it was. Raises InvalidRequest."""


class BrokerConnectionFacts(Protocol):
    """A connection of this broker to another one that is no member of its mesh."""

    @property
    def options(self) -> BrokerConnectionConfig:
        """What broker.xml says about it."""

    @property
    def uri(self) -> str:
        """Where the other broker is, without parameters; `#` separates alternatives."""

    @property
    def is_started(self) -> bool:
        """Whether it is made, and made again when it is lost."""

    @property
    def is_connected(self) -> bool:
        """Whether both brokers are logged in."""

    @property
    def state(self) -> str:
        """State in one word: `open`, `waiting`, `given_up` and others."""

    @property
    def last_error(self) -> str:
        """Why it is not connected; empty while it is, or if nothing failed."""

    @property
    def connected_since_ms(self) -> int:
        """Time since which it is connected, in milliseconds since 1970; 0 while it is not."""

    @property
    def bridges(self) -> Sequence[Bridge]:
        """Return its senders and receivers, one for each queue."""

    def passed(self, is_sender: bool) -> int:
        """Return how many messages it has sent, or received, since it was configured or the broker started."""

    def start(self) -> None:
        """Make it, and make it again when it is lost."""

    def stop(self) -> None:
        """End it until `start`, or until the broker starts again."""


@frozen(kw_only=True)
class BrokerFacts:
    """Facts that the broker shows about itself."""

    version: str
    node_id: str
    started_steady_ms: int
    """Time of the start, as `Dispatcher.steady_ms` counts."""
    acceptors: Callable[[], Sequence[AcceptorFacts]]
    """Returns the listening acceptors. Called at each request, because acceptors get their port when they start."""
    disk_usage: Callable[[], float]
    """Returns the used part of the store's disk, from 0 to 1; -1 without a store."""
    mesh: MeshFacts | None = None
    """The mesh that the broker belongs to; None if it belongs to none."""
    broker_connections: Callable[[], Sequence[BrokerConnectionFacts]] = tuple
    """Returns the connections to other brokers, which a reload may change."""
    bridged: Callable[[bool], int] = lambda is_sender: 0
    """Returns how many messages they have sent, or received, since the start, those that are gone included."""
    tokens: Tokens | None = None
    """Tokens of programs that ask over HTTP; None where they are not managed."""
