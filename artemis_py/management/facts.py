"""What management shows but the core does not know: the process and its listening sockets."""

from collections.abc import Callable, Iterable, Sequence
from importlib.metadata import PackageNotFoundError, version

from attrs import frozen

from artemis_py.transport.acceptor import Acceptor


@frozen
class AcceptorFacts:
    """One socket that listens now."""

    name: str
    host: str
    port: int
    """The real one, also where the configuration said 0."""
    protocols: tuple[str, ...]


def facts_of(acceptors: Iterable[Acceptor]) -> list[AcceptorFacts]:
    """List those that listen."""
    return [
        AcceptorFacts(each.config.name, each.config.host, each.port, tuple(each.protocols))
        for each in acceptors
        if each.is_listening
    ]


@frozen(kw_only=True)
class BrokerFacts:
    """What the broker tells about itself."""

    version: str
    node_id: str
    started_ms: int
    """Milliseconds since 1970."""
    acceptors: Callable[[], Sequence[AcceptorFacts]]
    """Asked at each request: acceptors get their port when they start."""
    disk_usage: Callable[[], float]
    """The used part of the disk that the store is on, from 0 to 1; -1 without a store."""


def installed_version() -> str:
    """Return the version of this package; `unknown` if it runs from a source tree that is not installed."""
    try:
        return version("artemis_py")
    except PackageNotFoundError:
        return "unknown"
