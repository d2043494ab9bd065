"""Facts that management shows and the core does not know: the process, its listening sockets, its mesh."""

from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

from attrs import frozen

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


class MeshFacts(Protocol):
    """The mesh that the broker belongs to."""

    def members(self) -> Sequence[MemberFacts]:
        """Return the other brokers."""

    def explain(self, queue: str) -> list[str]:
        """Return why messages of a queue wait here, a sentence for each reason."""

    def stranded(self) -> int:
        """Return how many messages wait although a consumer elsewhere has had room for them for seconds."""


@frozen(kw_only=True)
class BrokerFacts:
    """Facts that the broker shows about itself."""

    version: str
    node_id: str
    started_ms: int
    """Time of the start, in milliseconds since 1970."""
    acceptors: Callable[[], Sequence[AcceptorFacts]]
    """Returns the listening acceptors. Called at each request, because acceptors get their port when they start."""
    disk_usage: Callable[[], float]
    """Returns the used part of the store's disk, from 0 to 1; -1 without a store."""
    mesh: MeshFacts | None = None
    """The mesh that the broker belongs to; None if it belongs to none."""
