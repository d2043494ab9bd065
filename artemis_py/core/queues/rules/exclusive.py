"""Exclusive queues: one consumer gets all messages; the others wait until it leaves (artemis-model §3.6.1).

The first consumer that gets a message is pinned. When it has left, and all that it had is settled or back in the queue,
the next one is pinned: of those that can take a message now, the one with the highest priority, and of those the one
that has been attached longest.

A consumer may ask for all messages of a queue that is not exclusive. While such consumers are attached, one of them is
pinned, and the others on the queue get nothing.
"""

from typing import TYPE_CHECKING

from artemis_py.core.queues.reference import Reference
from artemis_py.core.queues.rules.assignment import Assignment

if TYPE_CHECKING:
    from artemis_py.core.queues.consumer import Consumer
    from artemis_py.core.queues.queue import Queue


class Exclusive(Assignment):
    """Gives all messages to one consumer."""

    def __init__(self) -> None:
        super().__init__()
        self.takes_turns = False
        self._pinned: Consumer | None = None

    def begin(self, queue: "Queue") -> None:
        """Let the pinned consumer be asked first; if none is pinned, ask in the order in which they attached."""
        pinned = self._pinned
        for ring in queue.dispatch.rings:
            if ring.count < 2:
                continue
            if pinned is None:
                waiting = [consumer for consumer in queue.consumers if consumer.in_ring]
                ring.arrange([consumer for consumer in waiting if consumer.priority == ring.priority])
            elif pinned.in_ring and pinned.priority == ring.priority:
                ring.prefer(pinned)

    def may_take(self, queue: "Queue", consumer: "Consumer") -> bool:
        """Tell whether this is the pinned consumer; if none is pinned, whether it may be.

        It may if no other has anything unsettled: a consumer that left, a link that was detached, a transaction.
        """
        if queue.exclusive_consumers > 0 and not consumer.is_exclusive:
            return False
        if self._pinned is not None and (self._pinned.is_exclusive or queue.exclusive_consumers == 0):
            return self._pinned is consumer
        return queue.delivering_count == 0 or queue.delivering_count == consumer.outstanding.count

    def delivered(self, queue: "Queue", consumer: "Consumer", reference: Reference) -> None:
        """Pin the consumer if none is pinned, and mark its first message."""
        if self._pinned is not consumer:
            self._pinned = consumer
            consumer.mark = queue.settings.group_first_key
        else:
            consumer.mark = None

    def settled(self, queue: "Queue", reference: Reference) -> None:
        """Let dispatch choose the next consumer if the last one has left and this was its last delivery."""
        if self._pinned is None:
            queue.dispatch.mark_ready()

    def left(self, queue: "Queue", consumer: "Consumer") -> None:
        """Let the next consumer be pinned if the pinned one left."""
        if self._pinned is consumer:
            self._pinned = None
