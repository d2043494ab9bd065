"""Counts events that nothing else counts: connections, denied permissions, duplicates."""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Final

from artemis_py.core.runtime.access import Permission
from artemis_py.core.runtime.events import (
    ConnectionClosed,
    ConnectionOpened,
    ConnectionRefused,
    Denied,
    Duplicate,
    Event,
    Events,
    RefusalCause,
)
from artemis_py.management.facts import AcceptorFacts
from artemis_py.management.metrics import catalogue
from artemis_py.management.metrics.exposition import Family
from artemis_py.management.metrics.sums import by_label

OTHER: Final = "other"
"""Label of connections that this broker makes, whose names have the address of the peer, and of further acceptors."""

# An acceptor has up to five series of refusals, a pair has three: 85 and 123 series at most, with those of `other`. All
# other metrics together have about 120, so that there are fewer than 400.
MAX_ACCEPTORS: Final = 16
MAX_PAIRS: Final = 40
"""Pairs of a protocol and an acceptor."""


class EventCounts:
    """Listens to the events of any number of domains."""

    def __init__(self, acceptors: Callable[[], Sequence[AcceptorFacts]]) -> None:
        self._acceptors: Final = acceptors
        self._known: Final[set[str]] = set()
        self._opened: Final[Counter[tuple[str, ...]]] = Counter()
        self._closed: Final[Counter[tuple[str, ...]]] = Counter()
        self._refused: Final[Counter[tuple[str, ...]]] = Counter()
        self._denied: Final = Counter({each.value: 0 for each in Permission})
        self._duplicates = 0

    def listen(self, events: Events) -> None:
        """Subscribe to what is counted."""
        kinds = (ConnectionOpened, ConnectionClosed, ConnectionRefused, Denied, Duplicate)
        events.subscribe(self.count, *kinds)

    def count(self, event: Event) -> None:
        """Count an event."""
        match event:
            case ConnectionOpened():
                pair = self._pair(event.protocol, event.acceptor)
                self._opened[pair] += 1
                self._closed[pair] += 0
            case ConnectionClosed():
                self._closed[self._pair(event.protocol, event.acceptor)] += 1
            case ConnectionRefused():
                self._refuse(self._acceptor(event.acceptor), event.cause)
            case Denied():
                self._denied[event.permission.value] += 1
            case Duplicate():
                self._duplicates += 1

    def _refuse(self, acceptor: str, cause: RefusalCause) -> None:
        self._refused[(acceptor, cause.value.lower().replace(" ", "-"))] += 1

    def _pair(self, protocol: str, acceptor: str) -> tuple[str, ...]:
        """Return the labels of a connection, the same when it is opened and closed."""
        pair = (protocol, self._acceptor(acceptor))
        return pair if pair in self._opened or len(self._opened) < MAX_PAIRS else (OTHER, OTHER)

    def _acceptor(self, name: str) -> str:
        """Return a name that is sure to be that of an acceptor, and remember it: acceptors end before connections."""
        if name in self._known:
            return name
        if len(self._known) < MAX_ACCEPTORS and any(each.name == name for each in self._acceptors()):
            self._known.add(name)
            return name
        return OTHER

    def families(self) -> list[Family]:
        """Return the counts as metrics."""
        opened, closed = self._opened, self._closed
        return [
            catalogue.CONNECTIONS.by([(pair, count - closed[pair]) for pair, count in opened.items()]),
            catalogue.CONNECTIONS_OPENED.by(opened.items()),
            catalogue.CONNECTIONS_CLOSED.by(closed.items()),
            catalogue.CONNECTIONS_REFUSED.by(self._refused.items()),
            catalogue.DENIALS.by(by_label(self._denied)),
            catalogue.DUPLICATES.of(self._duplicates),
        ]
