"""The contract between the mesh and a protocol that carries it from broker to broker.

    transport                  protocol (AMQP)                        mesh (artemis_py.cluster)
    dials, reconnects   -->    PeerCarrier.dial(Greeting)       -->   PeerListener: what the peer says
                               a broker connects                -->   Mesh.welcome -> PeerListener
                               PeerConnection: what we say      <--

The protocol knows neither records nor messages of the mesh: it carries octets, in order, with flow control. The mesh
knows neither links nor frames. All calls happen on the loop's thread and return at once. `protocol.PeerCarrier` is what
the transport needs of such a protocol.
"""

from collections.abc import Callable, Mapping
from enum import Enum
from typing import Final, Protocol

from attrs import field, frozen

from artemis_py.core.runtime.access import Subject
from artemis_py.errors import ArtemisError

CONNECTION_LOST: Final = "connection lost"
"""Reason that `PeerListener.lost` gets if the network broke: nobody refused anything."""


class PeerRefused(ArtemisError):
    """A broker may not join, or not with this connection."""

    def __init__(self, text: str, is_duplicate: bool = False) -> None:
        super().__init__(text)
        self.is_duplicate = is_duplicate
        """Whether another connection between the same two brokers stays."""


class Lane(Enum):
    """A sequence of numbered messages from one broker to another (mesh §5.3)."""

    HANDOVER = "handover"
    COPIES = "copies"
    BULK = "bulk"
    """Large messages of both kinds."""

    # A lane is looked up for each message, and that of an enumeration calls Python.
    __hash__ = object.__hash__


class PeerConnection(Protocol):
    """A connection to another broker, as the mesh uses it. After its end all methods do nothing."""

    @property
    def peer(self) -> str:
        """Host and port of the other side, for the log."""

    @property
    def is_dialled(self) -> bool:
        """Whether this broker made the connection."""

    def send_control(self, records: bytes) -> bool:
        """Send records, in order; False: nothing more should follow until `PeerListener.has_room`."""

    def send(self, lane: Lane, number: int, message: bytes) -> bool:
        """Send a message under its number in the lane; False: nothing more should follow until `has_room`."""

    def accept(self, lane: Lane, number: int) -> None:
        """Confirm all received messages of a lane up to this number."""

    def close(self, reason: str, is_duplicate: bool = False) -> None:
        """End the connection and tell the other broker why; `lost` is called before this returns."""


class PeerListener(Protocol):
    """The mesh's side of one connection; called in wire order. None of the methods raises but `opened`."""

    def opened(self, connection: PeerConnection, hello: Mapping[str, object]) -> None:
        """Begin: the other broker is logged in and said who it is. Raises PeerRefused to end the connection."""

    def control(self, records: bytes) -> None:
        """Process records, in one piece as they were sent."""

    def message(self, lane: Lane, number: int, message: bytes) -> None:
        """Process a message; it is sent again after a break unless it was confirmed."""

    def has_read(self) -> None:
        """Note that all octets which came together are processed: called after messages, before anything else runs."""

    def accepted(self, lane: Lane, number: int) -> None:
        """Note that the other broker has confirmed all messages of a lane up to this number."""

    def has_room(self) -> None:
        """Continue to send: the other broker caught up."""

    def lost(self, reason: str) -> None:
        """End: nothing more arrives or is sent. Called once for each listener, whether it was `opened` or not."""


@frozen(kw_only=True)
class PeerLimits:
    """Limits of a connection between brokers."""

    idle_timeout_ms: int = 60_000
    """Silence after which the connection is broken; half of it is announced."""
    window_bytes: int = 1024 * 1024
    """Bytes of unconfirmed messages of a lane from which the other broker gets no credit; below 0: no limit."""


@frozen(kw_only=True)
class Welcome:
    """The answer to a broker that may join."""

    hello: Mapping[str, object]
    """What this broker says of itself."""
    listener: PeerListener
    limits: PeerLimits = PeerLimits()


class Mesh(Protocol):
    """The meshes that a broker belongs to, as its protocols see them."""

    def welcome(self, hello: Mapping[str, object], subject: Subject) -> Welcome:
        """Answer a broker that has logged in as `subject` and says `hello`. Raises PeerRefused."""


@frozen(kw_only=True)
class PeerLogin:
    """Credentials of this broker for others."""

    user: str | None = None
    """Name for SCRAM-SHA-256 and PLAIN; None: only the certificate counts."""
    password: str | None = field(default=None, repr=False)


@frozen(kw_only=True)
class Greeting:
    """What a broker brings along when it dials another."""

    hello: Callable[[], Mapping[str, object]]
    """Returns what it says of itself. Called after the login: the other broker may have connected meanwhile."""
    listener: PeerListener
    client_id: str = ""
    """Text that the other broker shows beside the connection; empty: the name of this broker."""
    login: PeerLogin = PeerLogin()
    limits: PeerLimits = PeerLimits()
