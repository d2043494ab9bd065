"""Messages that the broker had to discard or to bury: each is counted, and the operator is told at a limited rate."""

from typing import Final

from artemis_py.core.queues.dispatcher import Dispatcher
from artemis_py.core.runtime.events import DeadLettered, Dropped, Events
from artemis_py.core.runtime.timers import Timer

# A client decides how many of its messages cannot be delivered. To keep the log readable, there is one line for each
# queue and reason every ten seconds, for no more than twenty of them; the counts in the lines add up to all discards.
REPORT_PERIOD_MS: Final = 10_000
MAX_LINES: Final = 20
OTHERS: Final = ("(others)", "various")
"""Stands for the queues and reasons beyond `MAX_LINES`."""


class Discards:
    """All discarded messages of a broker."""

    def __init__(self, dispatcher: Dispatcher, events: Events) -> None:
        self.count: int = 0
        """Number of messages discarded since the start."""
        self._dispatcher: Dispatcher = dispatcher
        self._events: Events = events
        self._untold: dict[tuple[str, str], int] = {}
        self._timer: Timer | None = None

    def add(self, queue: str, reason: str, count: int = 1) -> None:
        """Count messages that were discarded. The first are reported at once, those of the next seconds together."""
        self.count += count
        if self._timer is None:
            self.report(queue, reason, count)
            self._plan()
            return
        key = (queue, reason)
        if key not in self._untold and len(self._untold) >= MAX_LINES:
            key = OTHERS
        self._untold[key] = self._untold.get(key, 0) + count

    def tell(self) -> None:
        """Report the discards that were not reported yet."""
        untold, self._untold = self._untold, {}
        for (queue, reason), count in untold.items():
            self.report(queue, reason, count)

    def report(self, queue: str, reason: str, count: int) -> None:
        """Emit the event of one line."""
        self._events.emit(Dropped(queue, reason, count))

    def _plan(self) -> None:
        self._timer = self._dispatcher.after(REPORT_PERIOD_MS, self._run)

    def _run(self) -> None:
        self._timer = None
        if self._untold:
            self.tell()
            self._plan()


class DeadLetters(Discards):
    """All messages that went to a dead-letter address."""

    def report(self, queue: str, reason: str, count: int) -> None:
        """Emit the event of one line."""
        self._events.emit(DeadLettered(queue, reason, count))
