"""Events: what the core tells about its decisions. It never logs by itself.

The log is the first listener; notifications and metrics listen in the same way. An event is about something that was
made, ended or refused, and never about a single message that went its way. Events that clients cause often and few
listeners want are made only if somebody listens (`Events.wants`).
"""

from collections.abc import Callable
from typing import Final

from attrs import frozen

from artemis_py.core.names.routing_type import RoutingType
from artemis_py.core.runtime.access import Permission, Subject


@frozen
class Event:
    """Anything that a listener is told."""


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


@frozen
class QueueAdded(Event):
    """A queue was created, or came back with a restart."""

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


@frozen
class BindingRemoved(Event):
    """A binding ended."""

    name: str
    address: str
    routing_type: RoutingType


@frozen
class ConsumerOpened(Event):
    """A consumer or browser attached to a queue."""

    id: int
    queue: str
    address: str
    session_id: int
    browse: bool


@frozen
class ConsumerClosed(Event):
    """A consumer or browser detached."""

    id: int
    queue: str
    address: str
    session_id: int
    browse: bool


@frozen
class SessionOpened(Event):
    """A client that was let in began to use the broker."""

    id: int
    user: str
    client_id: str
    protocol: str
    peer: str


@frozen
class SessionClosed(Event):
    """A client left, or was cut off."""

    id: int
    user: str
    client_id: str
    protocol: str
    peer: str


@frozen
class Unrouted(Event):
    """No queue of an address wanted a message; told once until its bindings change."""

    address: str


@frozen
class Dropped(Event):
    """Messages were discarded: by policy, or because there is no dead-letter or expiry queue (`Discards`)."""

    queue: str
    reason: str
    count: int


@frozen
class Duplicate(Event):
    """A message was not routed: its address had taken one under the same id."""

    address: str
    id: str


@frozen
class AddressIsFull(Event):
    """An address went over its limit; told once until it has room again."""

    address: str
    policy: str
    size_bytes: int


@frozen
class AddressHasRoom(Event):
    """An address is below its limit again, and has been for some time."""

    address: str


@frozen
class LimitReached(Event):
    """A client was refused what a limit does not allow."""

    text: str
    """Names the user and the limit."""
    peer: str


@frozen
class Denied(Event):
    """A client was refused what its user has no permission for."""

    subject: Subject
    permission: Permission
    address: str
    queue: str | None
    peer: str


@frozen
class StoreFailed(Event):
    """Nothing becomes durable any more."""

    reason: str


@frozen
class ListenerFailed(Event):
    """A listener raised an exception; the others were told all the same."""

    listener: str
    event: Event
    error: Exception


Listener = Callable[[Event], object]
"""Called in the middle of the core's work: it returns at once, and changes nothing of the core before the next turn."""


class Events:
    """The listeners of one broker."""

    def __init__(self) -> None:
        self._listeners: Final[list[tuple[Listener, frozenset[type[Event]]]]] = []

    def subscribe(self, listener: Listener, *kinds: type[Event]) -> None:
        """Tell `listener` of every event of these kinds, or of all if none are named, from now on."""
        self._listeners.append((listener, frozenset(kinds)))

    def unsubscribe(self, listener: Listener) -> None:
        """Tell it nothing more; harmless if it does not listen."""
        self._listeners[:] = [each for each in self._listeners if each[0] != listener]

    def wants(self, kind: type[Event]) -> bool:
        """Whether anybody listens to this kind: an event that would reach nobody need not be made."""
        return any(not kinds or kind in kinds for _, kinds in self._listeners)

    def emit(self, event: Event) -> None:
        """Tell the listeners, in the order in which they subscribed. Raises nothing, whatever they do."""
        if not self._listeners:
            return
        for listener, kinds in tuple(self._listeners):
            if not kinds or type(event) in kinds:
                try:
                    listener(event)
                except Exception as error:  # a listener from outside must not stop the core in the middle of its work
                    self._tell_failure(listener, event, error)

    def _tell_failure(self, listener: Listener, event: Event, error: Exception) -> None:
        """Tell the others. A listener that cannot take this event either is left alone."""
        if not isinstance(event, ListenerFailed):
            self.emit(ListenerFailed(_name_of(listener), event, error))


def _name_of(listener: Listener) -> str:
    """The name of a listener, for the log: a function's own, or that of the class."""
    name = getattr(listener, "__qualname__", type(listener).__qualname__)
    return f"{getattr(listener, '__module__', type(listener).__module__)}.{name}"
