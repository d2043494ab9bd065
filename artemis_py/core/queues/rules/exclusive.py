"""Exclusive queues: one consumer at a time gets all messages; the others wait until it leaves (artemis-model §2.2)."""

from typing import TYPE_CHECKING

from artemis_py.core.queues.rules.assignment import Assignment

if TYPE_CHECKING:
    from artemis_py.core.queues.consumer import Consumer
    from artemis_py.core.queues.queue import Queue


class Exclusive(Assignment):
    """Pins the first consumer that is ready to take a message."""

    def __init__(self) -> None:
        super().__init__()
        self._pinned: Consumer | None = None

    def may_take(self, queue: "Queue", consumer: "Consumer") -> bool:
        """Tell whether this is the pinned consumer; if none is pinned, pin it."""
        if self._pinned is None:
            self._pinned = consumer
        return self._pinned is consumer

    def left(self, queue: "Queue", consumer: "Consumer") -> None:
        """Let the next consumer be pinned if the pinned one left."""
        if self._pinned is consumer:
            self._pinned = None
