"""Events by which the core reports its decisions, and the transport its connections. The core never logs by itself.

The log is the first listener; notifications and metrics listen in the same way. An event reports that something was
created, ended or refused, never that a message was routed or delivered as usual. Events that clients cause often and
few listeners want are created only if there is a listener (`Events.wants`).
"""

from collections.abc import Callable
from enum import Enum
from typing import Final

from attrs import frozen

from artemis_py.core.names.routing_type import RoutingType
from artemis_py.core.runtime.access import Permission, Subject
from artemis_py.core.runtime.event_facts import BindingFacts, ClientFacts


@frozen
class Event:
    """Base class of all events."""


@frozen
class AddressAdded(Event):
    """An address was created."""

    name: str
    auto_created: bool


@frozen
class AddressRemoved(Event):
    """An address was deleted."""

    name: str
    reason: str
    routing_types: frozenset[RoutingType] = frozenset()
    """The types that it had."""


@frozen
class RemoteTemporaryAdded(Event):
    """A client of another broker has made a temporary address, under a name that it chose."""

    name: str
    is_queue: bool


@frozen
class RemoteTemporaryRemoved(Event):
    """It is gone."""

    name: str
    is_queue: bool


@frozen
class QueueAdded(Event):
    """A queue was created, or restored at a restart."""

    name: str
    address: str
    auto_created: bool


@frozen
class QueueRemoved(Event):
    """A queue was deleted."""

    name: str
    address: str
    reason: str


@frozen
class BindingAdded(Event):
    """A queue, or anything else that takes messages of an address, was bound to it."""

    name: str
    address: str
    routing_type: RoutingType
    facts: BindingFacts


@frozen
class BindingRemoved(Event):
    """A binding ended."""

    name: str
    address: str
    routing_type: RoutingType
    facts: BindingFacts


@frozen
class BindingUpdated(Event):
    """A queue has another filter, or a divert another configuration."""

    name: str
    address: str
    routing_type: RoutingType
    facts: BindingFacts


@frozen
class ExchangeAdded(Event):
    """An exchange was declared, or restored at a restart; there is none for predeclared ones."""

    name: str
    type: str


@frozen
class ExchangeRemoved(Event):
    """An exchange was deleted."""

    name: str
    reason: str


@frozen
class ExchangeBound(Event):
    """A queue or an exchange was bound to an exchange."""

    exchange: str
    key: str
    destination: str
    is_queue: bool


@frozen
class ExchangeUnbound(Event):
    """A binding of an exchange ended: by request, with one of its ends, or because another one replaces it."""

    exchange: str
    key: str
    destination: str
    is_queue: bool


@frozen
class ConsumerOpened(Event):
    """A consumer or browser attached to a queue."""

    id: int
    queue: str
    address: str
    session_id: int
    browse: bool
    filter: str | None
    count: int
    """Consumers and browsers that the queue has now."""
    client: ClientFacts


@frozen
class ConsumerClosed(Event):
    """A consumer or browser detached."""

    id: int
    queue: str
    address: str
    session_id: int
    browse: bool
    filter: str | None
    count: int
    """Consumers and browsers that the queue has now."""
    client: ClientFacts
    reason: str
    """In words: `closed`, `connection lost`, what the broker told the client, or that the queue was deleted."""


@frozen
class ConsumerSlow(Event):
    """A consumer acknowledges fewer messages than the settings of its address demand."""

    id: int
    queue: str
    address: str
    session_id: int
    count: int
    """Consumers and browsers that the queue has."""
    client: ClientFacts
    acknowledged: int
    """Messages that it acknowledged in the time that was looked at."""
    span_ms: int
    """That time."""
    demand: str
    """What was demanded, in words: `10 messages per second`."""
    is_disconnected: bool
    """Whether its connection is ended for it."""


@frozen
class ProducerOpened(Event):
    """A client attached a sender to an address, where it stays until `ProducerClosed`."""

    id: int
    address: str
    session_id: int


@frozen
class ProducerClosed(Event):
    """A sender was detached, or its session ended."""

    id: int
    address: str
    session_id: int


@frozen
class SessionOpened(Event):
    """A client that has logged in opened a session."""

    id: int
    client: ClientFacts


@frozen
class SessionClosed(Event):
    """A client disconnected, or was disconnected."""

    id: int
    client: ClientFacts
    reason: str
    """In words: `closed`, `connection lost`, or what the broker told the client."""


@frozen
class ConnectionOpened(Event):
    """The protocol of a connection was recognised. Nothing is known yet about its user.

    A connection that never gets this far has no event, or only `ConnectionRefused`.
    """

    id: int
    """Number of the connection; no other connection of this run of the broker has it."""
    protocol: str
    acceptor: str
    peer: str


@frozen
class ConnectionClosed(Event):
    """A connection that was opened ended; there is one such event for each `ConnectionOpened`.

    Its session ends at about the same time: `SessionClosed` may come before or after this event.
    """

    id: int
    protocol: str
    acceptor: str
    peer: str
    reason: str
    """In words: `closed by peer`, `closed`, `connection lost`, the error of the socket, the cause of a refusal, what
    the broker said as it stopped, or where a protocol failed."""


class RefusalCause(Enum):
    """Why the transport turned a connection away."""

    NO_ROOM = "no room"
    """A limit of connections is reached."""
    DISPLACED = "displaced"
    """It was not logged in, and made room for another connection."""
    TLS_FAILED = "TLS failed"
    UNKNOWN_PROTOCOL = "unknown protocol"
    LOGIN_TIMEOUT = "login timeout"
    """It was not logged in within the handshake timeout."""


@frozen
class ConnectionRefused(Event):
    """The transport turned a connection away. If it was open, `ConnectionClosed` follows."""

    id: int
    """0 if it got no number, because there was no room for it."""
    protocol: str
    """Empty if it was not recognised."""
    acceptor: str
    peer: str
    cause: RefusalCause
    detail: str
    """The limit, the error of TLS, the first bytes and what they seem to be, or the timeout in seconds."""


@frozen
class Unrouted(Event):
    """No queue of an address accepted a message; reported once until its bindings change."""

    address: str


@frozen
class Dropped(Event):
    """Messages were discarded: by policy, or because there is no dead-letter or expiry queue (`Discards`)."""

    queue: str
    reason: str
    count: int


@frozen
class DeadLettered(Event):
    """Messages went to the dead-letter address of their queue (`DeadLetters`)."""

    queue: str
    cause: str
    count: int


@frozen
class DivertLoop(Event):
    """A message came to a divert for the second time, and was not sent on again; once for each divert."""

    divert: str
    way: tuple[str, ...]
    """Names of the diverts on the way, in order; the first and the last is this one."""


@frozen
class TransformerFailed(Event):
    """The transformer of a divert failed, and the message was not sent on; once until the divert is changed."""

    divert: str
    reason: str


@frozen
class Duplicate(Event):
    """A message was not routed, because its address had already accepted one with the same duplicate id."""

    address: str
    id: str


@frozen
class AddressIsFull(Event):
    """An address went over its limit; reported once until it has room again."""

    address: str
    policy: str
    size_bytes: int


@frozen
class AddressHasRoom(Event):
    """An address is below its limit again, and has been for some time."""

    address: str


@frozen
class LimitReached(Event):
    """A client was refused because of a limit."""

    text: str
    """Names the user and the limit."""
    peer: str


@frozen
class Denied(Event):
    """A client was refused because its user lacks a permission."""

    subject: Subject
    permission: Permission
    address: str
    queue: str | None
    peer: str


@frozen
class HistoryRefused(Event):
    """An address is to be retroactive, and what it needs for that cannot be created."""

    address: str
    reason: str


@frozen
class JobRefused(Event):
    """A message that was scheduled could not be sent, and is tried again later."""

    job: str
    address: str
    reason: str


@frozen
class BranchEnded(Event):
    """An administrator has ended a prepared transaction branch."""

    key: bytes
    """Name of the branch: the key of its xid."""
    is_committed: bool


@frozen
class StoreFailed(Event):
    """Nothing becomes durable any more."""

    reason: str


@frozen
class ListenerFailed(Event):
    """A listener raised an exception; the others still got the event."""

    listener: str
    event: Event
    error: Exception


Listener = Callable[[Event], object]
"""Called in the middle of the core's work: it must return at once, and change nothing in the core in this turn."""


class Events:
    """The listeners of one broker."""

    def __init__(self) -> None:
        self._listeners: Final[list[tuple[Listener, frozenset[type[Event]]]]] = []

    def subscribe(self, listener: Listener, *kinds: type[Event]) -> None:
        """Call `listener` for every event of these kinds, or for all events if none are named, from now on."""
        self._listeners.append((listener, frozenset(kinds)))

    def unsubscribe(self, listener: Listener) -> None:
        """Stop calling `listener`; harmless if it is not subscribed."""
        self._listeners[:] = [each for each in self._listeners if each[0] != listener]

    def wants(self, kind: type[Event]) -> bool:
        """Tell whether there is a listener for this kind; without one the event need not be created."""
        return any(not kinds or kind in kinds for _, kinds in self._listeners)

    def emit(self, event: Event) -> None:
        """Call the listeners, in the order in which they subscribed. Raises nothing, whatever they do."""
        if not self._listeners:
            return
        for listener, kinds in tuple(self._listeners):
            if not kinds or type(event) in kinds:
                try:
                    listener(event)
                except Exception as error:  # an external listener must not stop the core in the middle of its work
                    self._tell_failure(listener, event, error)

    def _tell_failure(self, listener: Listener, event: Event, error: Exception) -> None:
        """Report the failure to all listeners. One that fails on that report too is not reported again."""
        if not isinstance(event, ListenerFailed):
            self.emit(ListenerFailed(_name_of(listener), event, error))


def _name_of(listener: Listener) -> str:
    """Return the name of a listener for the log: that of the function or of the class."""
    name = getattr(listener, "__qualname__", type(listener).__qualname__)
    return f"{getattr(listener, '__module__', type(listener).__module__)}.{name}"
