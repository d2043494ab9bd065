"""Facts that several events have in common: what a binding is, and who a client is."""

from attrs import frozen


@frozen
class BindingFacts:
    """What a binding is, besides its name."""

    id: int
    """Number of the queue; 0 if it is no queue."""
    routing_name: str
    """Name under which it takes turns with others; its own name if it has no such name."""
    filter: str | None
    is_divert: bool
    is_internal: bool
    """Whether the broker made it for its own use."""


@frozen
class ClientFacts:
    """The client of a session."""

    user: str | None
    """None: the anonymous user."""
    client_id: str
    protocol: str
    peer: str
    """Its network address."""
    certificate: str | None = None
    """Distinguished name of its TLS certificate; None if it has none."""
    is_present: bool = True
    """Whether it is connected; the broker also opens sessions for clients that are not."""
