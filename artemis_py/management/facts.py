"""Facts that management shows and the core does not know: the process and its listening sockets."""

from collections.abc import Callable, Iterable, Sequence

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
