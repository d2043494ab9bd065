"""What management shows but the core does not know: the process, its sockets and its peers."""

from collections.abc import Callable, Sequence

from attrs import field, frozen


@frozen(kw_only=True)
class AcceptorFacts:
    """One listening socket."""

    name: str
    host: str
    port: int
    """The real one, also where the configuration said 0."""
    protocols: tuple[str, ...] = field(converter=tuple)
    started: bool = True


@frozen(kw_only=True)
class ConnectionFacts:
    """One client that is connected now."""

    connection_id: str
    peer: str
    protocol: str
    created_ms: int
    """Milliseconds since 1970."""
    user: str | None = None
    """None while it has not logged in, and for the anonymous user."""
    client_id: str | None = None


@frozen(kw_only=True)
class BrokerFacts:
    """What the broker tells about itself."""

    version: str
    node_id: str
    started_ms: int
    """Milliseconds since 1970."""
    acceptors: Callable[[], Sequence[AcceptorFacts]]
    connections: Callable[[], Sequence[ConnectionFacts]]
