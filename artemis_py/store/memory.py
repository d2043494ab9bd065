"""A store that keeps nothing: `persistence-enabled=false`, and the embedded broker."""

from collections.abc import Callable

from artemis_py.core.message import Message


class MemoryStore:
    """Fulfils `Storage` without a disk: what was put is as durable at once as it will ever be."""

    is_durable = False

    def put(self, message: Message, queue_id: int) -> int:
        """Nothing to remember; the queue itself holds the message."""
        return 0

    def remove(self, handle: int) -> None:
        """Nothing was remembered."""

    def update(self, handle: int, delivery_count: int, delivery_time_ms: int) -> None:
        """Nothing was remembered."""

    def when_durable(self, callback: Callable[[], None]) -> None:
        """Run `callback` at once."""
        callback()
