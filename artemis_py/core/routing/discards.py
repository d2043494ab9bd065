"""Messages that the broker had to discard or to bury: each is counted, and the operator is told at a limited rate."""

from enum import Enum
from typing import Final, Generic, TypeVar

from artemis_py.core.queues.dispatcher import Dispatcher
from artemis_py.core.runtime.events import DeadLettered, Dropped, Events
from artemis_py.core.runtime.timers import Timer

# A client decides how many of its messages cannot be delivered. To keep the log readable, there is one line for each
# queue and reason every ten seconds, for no more than twenty of them; the counts in the lines add up to all discards.
REPORT_PERIOD_MS: Final = 10_000
MAX_LINES: Final = 20
OTHERS: Final = ("(others)", "various")
"""Stands for the queues and reasons beyond `MAX_LINES`."""


class DiscardCause(Enum):
    """Why messages were discarded: the text of a discard has details, and no two need be the same."""

    NO_DEAD_LETTER_ADDRESS = "no-dead-letter-address"
    NO_EXPIRY_ADDRESS = "no-expiry-address"
    NO_QUEUE = "no-queue"
    """Nothing takes messages at the dead-letter or expiry address, or under a key of the default exchange."""
    DIVERT = "divert"
    """A copy of a divert was refused, or not made."""
    MESH = "mesh"
    """A copy from or for another broker was refused, or had nowhere to go."""
    STAGE = "stage"
    """The address of an epoch was full, or deleted before the epoch was routed."""
    BRANCH = "branch"
    """The queues of a prepared transaction branch were deleted."""


class DeathCause(Enum):
    """Why messages went to a dead-letter address."""

    REJECTED = "rejected"
    ATTEMPTS = "attempts"
    """Too many attempts to deliver it failed."""
    ADMINISTRATOR = "administrator"


Cause = TypeVar("Cause", bound=Enum)


class Losses(Generic[Cause]):
    """Counts messages by cause, and reports them at a limited rate."""

    def __init__(self, dispatcher: Dispatcher, events: Events) -> None:
        self.by_cause: Final[dict[Cause, int]] = {}
        """Number of messages since the start, for each cause that there was."""
        self._dispatcher: Dispatcher = dispatcher
        self._events: Events = events
        self._untold: dict[tuple[str, str], int] = {}
        self._timer: Timer | None = None

    @property
    def count(self) -> int:
        """Number of messages since the start."""
        return sum(self.by_cause.values())

    def add(self, queue: str, cause: Cause, reason: str, count: int = 1) -> None:
        """Count messages; `reason` is for the log. The first are reported at once, those of the next seconds together.

        Reports show the reason only.
        """
        self.by_cause[cause] = self.by_cause.get(cause, 0) + count
        if self._timer is None:
            self.report(queue, reason, count)
            self._plan()
            return
        key = (queue, reason)
        if key not in self._untold and len(self._untold) >= MAX_LINES:
            key = OTHERS
        self._untold[key] = self._untold.get(key, 0) + count

    def tell(self) -> None:
        """Report what was not reported yet."""
        untold, self._untold = self._untold, {}
        for (queue, reason), count in untold.items():
            self.report(queue, reason, count)

    def report(self, queue: str, reason: str, count: int) -> None:
        """Emit the event of one line."""
        raise NotImplementedError

    def _plan(self) -> None:
        self._timer = self._dispatcher.after(REPORT_PERIOD_MS, self._run)

    def _run(self) -> None:
        self._timer = None
        if self._untold:
            self.tell()
            self._plan()


class Discards(Losses[DiscardCause]):
    """All discarded messages of a domain."""

    def report(self, queue: str, reason: str, count: int) -> None:
        """Emit the event of one line."""
        self._events.emit(Dropped(queue, reason, count))


class DeadLetters(Losses[DeathCause]):
    """All messages that went to a dead-letter address."""

    def report(self, queue: str, reason: str, count: int) -> None:
        """Emit the event of one line."""
        self._events.emit(DeadLettered(queue, reason, count))
