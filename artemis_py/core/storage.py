"""What the core asks of a store.

The core calls the methods below while it works through a batch; none of them waits. What was put before
`when_durable` is on disk when its callback runs; a protocol answers its producers only from there.

A store commits between turns of the loop and never in the middle of one: whatever one call of the core puts and
removes (a message for several queues, a move to a dead-letter address, a transaction) survives a crash as a whole
or not at all. That is why there is no begin and end here.
"""

from collections.abc import Callable
from typing import Protocol

from artemis_py.core.message import Message


class Storage(Protocol):
    """Durable memory for messages and for the queues that refer to them."""

    @property
    def is_durable(self) -> bool:
        """Whether anything survives a restart."""

    def put(self, message: Message, queue_id: int) -> int:
        """Remember that a durable queue refers to this durable message; returns a handle for the calls below.

        Called once for each durable queue the message was routed to; the message itself is stored once.
        """

    def remove(self, handle: int) -> None:
        """Forget a reference; the message goes with its last one."""

    def update(self, handle: int, delivery_count: int, delivery_time_ms: int) -> None:
        """Remember failed attempts, and the time before which the message may not go out again."""

    def when_durable(self, callback: Callable[[], None]) -> None:
        """Run `callback` once everything put so far is durable, at once if it is. Callbacks keep their order."""
