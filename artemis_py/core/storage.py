"""What the core asks of a store.

The core calls the methods below while it works through a batch; none of them waits. What was put before
`when_durable` is on disk when its callback runs; a protocol answers its producers only from there.
"""

from collections.abc import Callable
from typing import Protocol

from artemis_py.core.message import Message


class Storage(Protocol):
    """Durable memory for messages and for the queues that refer to them."""

    @property
    def is_durable(self) -> bool:
        """Whether anything survives a restart."""

    def put_message(self, message: Message, queue_id: int, sequence: int) -> None:
        """Remember that the queue refers to this durable message under `sequence`.

        Called once for each durable queue the message was routed to; the message itself is stored once.
        """

    def remove(self, queue_id: int, sequence: int) -> None:
        """Forget a reference; the message goes with its last one."""

    def update_delivery(self, queue_id: int, sequence: int, delivery_count: int, delivery_time_ms: int) -> None:
        """Remember failed attempts and the time before which the message may not go out again."""

    def begin(self) -> None:
        """What follows up to `end` is one unit: all of it or nothing survives a crash."""

    def end(self) -> None:
        """Close the unit that `begin` opened."""

    def when_durable(self, callback: Callable[[], None]) -> None:
        """Run `callback` once everything put so far is durable, at once if it is. Callbacks keep their order."""


class VolatileStorage:
    """Storage that keeps nothing: `persistence-enabled=false`, and every non-durable queue."""

    is_durable = False

    def put_message(self, message: Message, queue_id: int, sequence: int) -> None: ...

    def remove(self, queue_id: int, sequence: int) -> None: ...

    def update_delivery(self, queue_id: int, sequence: int, delivery_count: int, delivery_time_ms: int) -> None: ...

    def begin(self) -> None: ...

    def end(self) -> None: ...

    def when_durable(self, callback: Callable[[], None]) -> None:
        callback()
