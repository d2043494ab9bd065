"""The contract between broker connections and a protocol that carries messages to other brokers and from them.

    transport                  protocol (AMQP)                           deployment.broker_connections
    dials, reconnects   -->    BridgeCarrier.dial_bridges(terms)   -->   BridgeListener: what became of it
                               BridgeConnection: what we want      <--   Bridge: a queue, and a name at the other broker

The other broker may be of any make: it is a stranger that speaks the protocol, not a member of a mesh. All calls happen
on the loop's thread and return at once. `protocol.BridgeCarrier` is what the transport needs of such a protocol.
"""

from collections.abc import Callable, Iterable
from enum import Enum
from typing import Protocol

from attrs import frozen

from artemis_py.core.runtime.carrier import PeerLogin


class BridgeState(Enum):
    """Whether messages can pass."""

    AWAY = "away"
    """There is no connection to the other broker."""
    OPENING = "opening"
    """The other broker was asked, and has not answered."""
    OPEN = "open"
    REFUSED = "refused"
    """One of the two brokers does not want it, or not now; it is tried again."""


class Bridge:
    """The way of messages between one queue of this broker and another broker; it outlives the connections."""

    def __init__(
        self,
        queue: str,
        remote: str,
        is_sender: bool,
        local: str = "",
        filter: str | None = None,
        detects_duplicates: bool = True,
        is_anycast: bool = True,
    ) -> None:
        self.queue: str = queue
        """Name of the queue of this broker."""
        self.remote: str = remote
        """Address or queue at the other broker, as that one writes it."""
        self.is_sender: bool = is_sender
        """Whether messages of the queue go to the other broker; otherwise they come from there."""
        self.local: str = local
        """What messages from the other broker are sent to here: an address, or a queue by its full name."""
        self.filter: str | None = filter
        """Selector of the messages that go to the other broker; None: all do."""
        self.detects_duplicates: bool = detects_duplicates
        """Whether messages that go to the other broker get an id by which it knows those that it has already."""
        self.is_anycast: bool = is_anycast
        """Whether the queue is one of those whose consumers share the messages."""
        self.state: BridgeState = BridgeState.AWAY
        self.reason: str = ""
        """Why it was refused the last time, or a message was; empty if that never happened."""
        self.passed: int = 0
        """Messages that the other broker has accepted, or that have come from it."""
        self.refused: int = 0
        """Messages that one broker has offered, and the other one did not accept."""
        self.pending: int = 0
        """Messages that the other broker has not answered yet, or that are not stored here yet."""

    @property
    def kind(self) -> str:
        """Name of its element in broker.xml."""
        return "sender" if self.is_sender else "receiver"


class BridgeConnection(Protocol):
    """A connection to another broker, as its owner uses it. After its end all methods do nothing."""

    def attach(self, bridge: Bridge) -> None:
        """Let messages pass from now on."""

    def detach(self, bridge: Bridge, reason: str) -> None:
        """Let no more messages pass; those that are not answered stay where they came from."""

    def close(self, reason: str) -> None:
        """End the connection, and tell the other broker why; `lost` is called before this returns."""


class BridgeListener(Protocol):
    """The owner of a connection, as it is told what happens. None of the methods raises."""

    def opened(self, connection: BridgeConnection) -> None:
        """Note that both sides are logged in."""

    def bridge_opened(self, bridge: Bridge) -> None:
        """Note that both brokers want this bridge: messages pass as there is room."""

    def bridge_refused(self, bridge: Bridge) -> None:
        """Note that a bridge was refused or ended, for `Bridge.reason`; it is tried again."""

    def message_refused(self, bridge: Bridge) -> None:
        """Note that a message was not accepted, for `Bridge.reason`."""

    def lost(self, reason: str) -> None:
        """Note the end of the connection. Called once, whether it was `opened` or not."""


@frozen(kw_only=True)
class BridgeTerms:
    """What a connection to another broker begins with."""

    name: str
    """Name of the connection; with that of this broker the other one shows it beside the connection."""
    node_id: str
    """Identifier of this broker, which is part of the ids of messages that it sends."""
    login: PeerLogin
    """Without a name and a certificate the other broker is asked for an anonymous login."""
    bridges: Callable[[], Iterable[Bridge]]
    """Returns the bridges of the connection, as they are when it is open."""
    listener: BridgeListener
    retry_ms: int = 5_000
    """Time after which a bridge that was refused is tried again."""
    idle_timeout_ms: int = 60_000
    """Silence after which the connection is broken; half of it is announced."""
