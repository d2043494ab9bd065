"""An arrival: messages that the store moves into a queue, from where another queue has them, without reading them.

They have their places in the queue, and count there, from the moment in which the move is gathered. They can be read
when it is committed (`Queue.arrived`); until then nothing behind them is read from disk either, so the order stays.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from artemis_py.core.queues.queue import Queue


class Arrival:
    """Stored messages of one priority that get consecutive sequences."""

    __slots__ = ("_failure", "_has_arrived", "_waiting", "count", "first", "missing", "priority", "queue", "size_bytes")

    def __init__(self, queue: "Queue", priority: int, first: int, count: int, size_bytes: int) -> None:
        self.queue: Queue = queue
        self.priority: int = priority
        self.first: int = first
        """Sequence of the first message."""
        self.count: int = count
        self.size_bytes: int = size_bytes
        """Size of the messages in memory (`Message.size`)."""
        self.missing: int = 0
        """Number of messages that were damaged and did not come; set by the store before `Queue.arrived`."""
        self._has_arrived: bool = False
        self._failure: str | None = None
        self._waiting: list[tuple[Callable[[], None], Callable[[str], None]]] = []

    def when_arrived(self, callback: Callable[[], None], failed: Callable[[str], None]) -> None:
        """Run `callback` when the messages can be read, or `failed` with the reason if the store fails before."""
        if self._has_arrived:
            callback()
        elif self._failure is not None:
            failed(self._failure)
        else:
            self._waiting.append((callback, failed))

    def arrive(self) -> None:
        """Tell everybody who waits that the messages can be read."""
        self._has_arrived = True
        waiting, self._waiting = self._waiting, []
        for callback, _ in waiting:
            callback()

    def fail(self, reason: str) -> None:
        """Tell everybody who waits that the store has failed; the messages may or may not be moved after a restart."""
        self._failure = reason
        waiting, self._waiting = self._waiting, []
        for _, failed in waiting:
            failed(reason)
