"""What a store consists of, in words that do not depend on its keys: the entries of an export, in their order.

Addresses come first, then queues, then messages that several references share, then the references of one queue after
the other, then duplicate ids. So an import never needs anything that comes later, and neither side holds more than one
entry at a time.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Final

from attrs import frozen

from artemis_py.core.message import Message, MessageFormat
from artemis_py.data.snapshot import Snapshot
from artemis_py.store import schema
from artemis_py.store.definitions import AddressRecord, QueueRecord, read_address, read_queue
from artemis_py.store.schema import DamagedValue


@frozen(kw_only=True)
class AddressEntry:
    """An address."""

    record: AddressRecord


@frozen(kw_only=True)
class QueueEntry:
    """A durable queue."""

    record: QueueRecord
    next_sequence: int
    """Sequences below it may have been taken."""


@frozen(kw_only=True)
class MessageEntry:
    """A message that the references after it share, by its id."""

    message: Message


@frozen(kw_only=True)
class ReferenceEntry:
    """A message in its queue."""

    queue: str
    sequence: int
    """0: it waits for its delivery time and has none yet."""
    message: Message | int
    """Itself, or the id of a shared one."""
    delivery_count: int = 0
    due_ms: int = 0
    """When a failed delivery is tried again; 0: at once."""


@frozen(kw_only=True)
class DuplicateEntry:
    """An id under which an address took a message."""

    address: str
    number: int
    id: bytes


Entry = AddressEntry | QueueEntry | MessageEntry | ReferenceEntry | DuplicateEntry


class Entries:
    """All entries of a snapshot. What is damaged is left out and told."""

    def __init__(self, snapshot: Snapshot, formats: Mapping[str, MessageFormat], tell: Callable[[str], None]) -> None:
        """`formats` by name; a message of another one keeps its bytes. `tell` gets a line for each value left out."""
        self._snapshot: Final = snapshot
        self._formats: Final = formats
        self._tell: Final = tell
        self._address_names: dict[bytes, str] = {}
        self._queue_names: dict[int, str] = {}
        self.total: Final = sum(snapshot.count(database) for database in self._readers)
        """How many there are if nothing is damaged."""

    def __iter__(self) -> Iterator[Entry]:
        for database, read in self._readers.items():
            for key, value in self._snapshot.items(database):
                try:
                    yield read(self, key, value)
                except DamagedValue as error:
                    self._tell(f"left out: {database.decode()} {key.hex()}: {error}")

    def _address(self, key: bytes, value: bytes) -> AddressEntry:
        record = read_address(schema.unseal(key, value))
        self._address_names[key] = record.name
        return AddressEntry(record=record)

    def _queue(self, key: bytes, value: bytes) -> QueueEntry:
        record = read_queue(schema.unseal(key, value))
        self._queue_names[schema.U32.unpack(key)[0]] = record.config.name
        mark = self._snapshot.get(schema.MARKS, key)
        return QueueEntry(record=record, next_sequence=1 if mark is None else schema.U64.unpack(mark)[0])

    def _shared_message(self, key: bytes, value: bytes) -> MessageEntry:
        return MessageEntry(message=schema.decode_message(schema.unseal(key, value), self._formats))

    def _reference(self, key: bytes, value: bytes) -> ReferenceEntry:
        content = schema.unseal(key, value)
        queue_id, handle = schema.read_place(key)
        queue = self._queue_names.get(queue_id)
        if queue is None:
            raise DamagedValue("its queue is not there")
        id = schema.shared_id(content)
        message = schema.decode_message(content[1:], self._formats) if id is None else id
        attempts = self._snapshot.get(schema.ATTEMPTS, key)
        delivery_count, due_ms = (0, 0) if attempts is None else schema.read_attempts(key, attempts)
        return ReferenceEntry(
            queue=queue,
            sequence=schema.sequence_in(handle),
            message=message,
            delivery_count=delivery_count,
            due_ms=due_ms,
        )

    def shared(self, id: int) -> Message:
        """A message that several references share. Raises DamagedValue."""
        key = schema.U64.pack(id)
        value = self._snapshot.get(schema.MESSAGES, key)
        if value is None:
            raise DamagedValue(f"its message {id} is missing")
        return schema.decode_message(schema.unseal(key, value), self._formats)

    def _duplicate(self, key: bytes, value: bytes) -> DuplicateEntry:
        address = self._address_names.get(key[: schema.U32.size])
        if address is None:
            raise DamagedValue("its address is not there")
        return DuplicateEntry(address=address, number=schema.duplicate_number(key), id=schema.unseal(key, value))

    _readers: Final[Mapping[bytes, Callable[["Entries", bytes, bytes], Entry]]] = {
        schema.ADDRESSES: _address,
        schema.QUEUES: _queue,
        schema.MESSAGES: _shared_message,
        schema.REFERENCES: _reference,
        schema.DUPLICATES: _duplicate,
    }
