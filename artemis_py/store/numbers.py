"""Numbers that must not be used twice, made again where the store's own note of them is damaged or too old.

What is stored shows only which numbers are certainly used. How many more were used and deleted is not known, so a
number continues far above: a queue that uses 30,000 sequences a second reaches `FAR` after a year.
"""

from typing import Any, Final

from artemis_py.core.queues.page import SCHEDULED_RANK
from artemis_py.core.services.virtual_hosts import SPACE as VIRTUAL_HOSTS
from artemis_py.errors import DamagedValue
from artemis_py.store import schema

FAR: Final = 1 << 40
FAR_QUEUES: Final = 1 << 20
"""Distance for ids of queues, which have 32 bits only."""

_RANKS: Final = range(SCHEDULED_RANK + 1)


class Numbers:
    """The used numbers that one transaction shows; `databases` by name."""

    def __init__(self, databases: dict[bytes, Any], transaction: Any) -> None:
        self._databases: Final = databases
        self._transaction: Final = transaction

    def last_sequence(self, queue_id: int) -> int:
        """Return the highest stored sequence of a queue; 0 if there is none."""
        return max(self.last_sequence_of(queue_id, rank) for rank in range(SCHEDULED_RANK))

    def next_number(self, name: bytes, above: int = 0) -> int:
        """Return where the number of this name continues: far above what is stored, and above `above`.

        The names are `schema.NUMBERS`.
        """
        if name == schema.NEXT_QUEUE_ID:
            return max(self._highest_queue_id(), above) + FAR_QUEUES
        if name == schema.NEXT_SCHEDULED:
            return max(self._highest_scheduled(), above) + FAR
        return max(self._highest_message_id(), above) + FAR

    def _last(self, database: bytes, prefix: bytes = b"") -> tuple[bytes, bytes] | None:
        """Return the last key that begins with `prefix`, with its value; None if there is none."""
        cursor = self._transaction.cursor(db=self._databases[database])
        # No key of ours has so many octets 0xff after such a prefix.
        found = cursor.prev() if prefix and cursor.set_range(prefix + b"\xff" * 17) else cursor.last()
        if not found or not bytes(cursor.key()).startswith(prefix):
            return None
        return bytes(cursor.key()), bytes(cursor.value())

    def last_sequence_of(self, queue_id: int, rank: int) -> int:
        """Return the highest stored sequence of a queue and rank; 0 if there is none."""
        last = self._last(schema.REFERENCES, schema.rank_key(queue_id, rank))
        return 0 if last is None else schema.number_in(schema.read_place(last[0])[1])

    def _highest_queue_id(self) -> int:
        ids = [0]
        for database in (schema.QUEUES, schema.MARKS, schema.COUNTS, schema.REFERENCES):
            last = self._last(database)
            if last is not None:
                ids.append(int(schema.U32.unpack_from(last[0])[0]))
        return max(ids)

    def _queue_ids(self) -> list[int]:
        """Return the ids of all queues that have references."""
        found: list[int] = []
        cursor = self._transaction.cursor(db=self._databases[schema.REFERENCES])
        has_more = cursor.first()
        while has_more:
            found.append(int(schema.U32.unpack_from(bytes(cursor.key()))[0]))
            has_more = cursor.set_range(schema.U32.pack(found[-1] + 1))
        return found

    def _highest_message_id(self) -> int:
        """Return the highest id of shared messages, and of the last message of each queue and rank."""
        shared = self._last(schema.MESSAGES)
        ids = [0 if shared is None else int(schema.U64.unpack(shared[0])[0])]
        for queue_id in self._queue_ids():
            for rank in _RANKS:
                last = self._last(schema.REFERENCES, schema.rank_key(queue_id, rank))
                if last is not None:
                    ids.append(_message_id(*last))
        return max(ids)

    def _highest_scheduled(self) -> int:
        numbers = [0]
        for queue_id in self._queue_ids():
            last = self._last(schema.REFERENCES, schema.rank_key(queue_id, SCHEDULED_RANK))
            if last is not None:
                numbers.append(schema.number_in(schema.read_place(last[0])[1]))
        return max(numbers)


def _message_id(key: bytes, value: bytes) -> int:
    try:
        _, content = schema.split_key(schema.unseal(key, value))
        shared_id = schema.shared_id(content)
    except DamagedValue:
        return 0
    return int(schema.U64.unpack_from(content, 1)[0]) if shared_id is None else shared_id


def format_of(transaction: Any, records: Any) -> bytes:
    """Return the format of a store whose own note of it is lost; `records` is the database of records."""
    prefix = schema.record_key(VIRTUAL_HOSTS, b"")
    cursor = transaction.cursor(db=records)
    has_hosts = cursor.set_range(prefix) and bytes(cursor.key()).startswith(prefix)
    return schema.U32.pack(schema.HOSTS_FORMAT if has_hosts else schema.FORMAT_VERSION)
