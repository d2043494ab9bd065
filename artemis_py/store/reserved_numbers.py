"""Message ids and running numbers, reserved ahead of their use, so that a restart never uses one again.

A shared message is stored under its id, and a scheduled reference under its running number. Only a mark is stored: the
numbers below it may be taken. `numbers` finds a mark again that is damaged; sequences of queues have marks of their own
(`Storage.reserve`).
"""

from typing import Final

from artemis_py.store import schema
from artemis_py.store.batch import Batch

# Message ids are reserved ahead like sequences, see `core.queues.storage`.
RESERVED_MESSAGE_IDS: Final = 65536


class ReservedNumbers:
    """The highest numbers in use, and the marks that are stored above them."""

    def __init__(self) -> None:
        self.highest_message_id: int = 0
        """Highest id of a message that was put."""
        self.next_scheduled: int = 1
        """Running number for the next scheduled reference."""
        self._message_id_mark: int = 0
        self._scheduled_mark: int = 0

    def know_message_id(self, next_id: int) -> None:
        """Note that ids below `next_id` may be taken; the mark only goes up, even if nothing is put in this run."""
        self.highest_message_id = next_id - 1

    def know_scheduled(self, number: int) -> None:
        """Note that running numbers below this one may be taken."""
        self.next_scheduled = max(self.next_scheduled, number)

    def reserve(self, batch: Batch) -> None:
        """Have the batch store new marks if those of earlier batches are too low for what it puts."""
        if self.highest_message_id + RESERVED_MESSAGE_IDS // 2 > self._message_id_mark:
            self._message_id_mark = self.highest_message_id + RESERVED_MESSAGE_IDS
            mark = schema.number_value(schema.NEXT_MESSAGE_ID, self._message_id_mark)
            batch.definitions[(schema.META, schema.NEXT_MESSAGE_ID)] = mark
        if self.next_scheduled > self._scheduled_mark:
            self._scheduled_mark = self.next_scheduled + RESERVED_MESSAGE_IDS
            mark = schema.number_value(schema.NEXT_SCHEDULED, self._scheduled_mark)
            batch.definitions[(schema.META, schema.NEXT_SCHEDULED)] = mark
