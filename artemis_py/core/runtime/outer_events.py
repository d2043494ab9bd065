"""Events of the parts around the core: those that listen, check logins, and watch the disk."""

from attrs import frozen

from artemis_py.core.runtime.events import Event


@frozen
class AcceptorStarted(Event):
    """The broker listens."""

    name: str
    host: str
    port: int
    """Actual TCP port, even if the configuration says 0."""
    protocols: tuple[str, ...]


@frozen
class AcceptorStopped(Event):
    """The broker no longer listens there. Connections stay."""

    name: str
    host: str
    port: int


@frozen
class LoginFailed(Event):
    """A client could not log in."""

    user: str | None
    """Name that it gave; None if it gave none."""
    peer: str
    mechanism: str
    reason: str


@frozen
class DiskChanged(Event):
    """The disk of the store is nearly full, or has room again."""

    is_full: bool
    used_part: float
    """Used part of the disk, from 0 to 1; -1 if it is not known."""
