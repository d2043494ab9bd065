"""Writes the entries of a file into a store that may have others: gives them their ids, sequences and keys.

All numbers of the file are moved by a fixed amount: the ids of messages, queues and large bodies by the highest that
the store has used, the sequences of a queue by those that the queue of the same name has used, or not at all if it is
new. Only scheduled references get new numbers, in their order. So placing an entry needs no memory of the entries
before it, except for names.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import lmdb
from attrs import asdict, define, evolve, field

from artemis_py.core.messages.message import DEFAULT_PRIORITY, Message, MessageFormat
from artemis_py.core.messages.record import decode_message, encode_message
from artemis_py.core.queues.rules.last_value import LAST_VALUE_PROPERTY, key_of
from artemis_py.core.services.virtual_hosts import SPACE as VIRTUAL_HOSTS
from artemis_py.core.settings.queue_config import QueueConfig
from artemis_py.errors import DamagedValue, StoreError
from artemis_py.store import last_values, schema
from artemis_py.store.batch import Batch
from artemis_py.store.definitions import read_address, read_queue, write_address, write_queue
from artemis_py.store.environment import Environment
from artemis_py.store.large import body_files
from artemis_py.store.writer import DROP_SLICE, Writer
from artemis_py.storetools.bodies import UnseenBodies
from artemis_py.storetools.entries import (
    AddressEntry,
    DuplicateEntry,
    Entry,
    MessageEntry,
    QueueEntry,
    RecordEntry,
    ReferenceEntry,
    qualified,
)
from artemis_py.storetools.mesh import SPACES as MESH_SPACES


@define
class QueueNumbers:
    """Numbers of a queue of the file in the store."""

    id: int
    base: int
    """Amount to add to its sequences."""
    internal: bool
    last_value_key: str | None = None
    """Property with the key of a message, if the queue in the store keeps last values."""


@define
class AddressNumbers:
    """Numbers of an address of the file in the store."""

    id: int
    base: int
    """Amount to add to the numbers of its duplicate ids."""


@define
class Names:
    """Names and numbers of the file, as they are in the store.

    Stored with the progress of an import, because they cannot be found again.
    """

    message_base: int = 0
    queue_base: int = 0
    body_base: int = 0
    next_address_id: int = 1
    next_scheduled: int = 1
    takes_records: bool = True
    """Whether the store was empty before, so that records can be imported."""
    queues: dict[str, QueueNumbers] = field(factory=dict)
    addresses: dict[str, AddressNumbers] = field(factory=dict)


class Existing:
    """Names that were in a store before; damaged definitions have none."""

    def __init__(self, environment: Environment) -> None:
        """Read the names. Raises StoreError if the store is damaged so that references cannot be added."""
        for key, value in environment.read_all(schema.COUNTS, b""):
            try:
                schema.read_counts(key, value)
            except DamagedValue as error:
                reason = f"the store is damaged: counts {key.hex()}: {error}; start a broker on it, which counts again"
                raise StoreError(reason) from error
        self.addresses: Final[dict[str, int]] = {}
        self.queues: Final[dict[str, int]] = {}
        self.queue_addresses: Final[dict[str, str]] = {}
        self.last_value_keys: Final[dict[str, str | None]] = {}
        for key, value in environment.read_all(schema.ADDRESSES, b""):
            try:
                address = read_address(schema.unseal(key, value))
                self.addresses[qualified(address.host, address.name)] = schema.U32.unpack(key)[0]
            except DamagedValue:
                continue
        for key, value in environment.read_all(schema.QUEUES, b""):
            try:
                queue = read_queue(schema.unseal(key, value))
                name = qualified(queue.host, queue.config.name)
                self.queues[name] = schema.U32.unpack(key)[0]
                self.queue_addresses[name] = queue.config.address
                self.last_value_keys[name] = _last_value_key(queue.config)
            except DamagedValue:
                continue


def _last_value_key(config: QueueConfig) -> str | None:
    """Return the property with the keys of a stored queue; None if it is no last-value queue."""
    return (config.last_value_key or LAST_VALUE_PROPERTY) if config.last_value else None


def fresh_names(environment: Environment, bodies: Path) -> Names:
    """Return the names at the beginning of an import; `bodies` is the folder of the large bodies."""
    with environment.begin() as transaction:
        meta = environment.database(schema.META)
        next_message_id = _number(schema.NEXT_MESSAGE_ID, transaction.get(schema.NEXT_MESSAGE_ID, db=meta))
        next_queue_id = _number(schema.NEXT_QUEUE_ID, transaction.get(schema.NEXT_QUEUE_ID, db=meta))
        addresses = transaction.cursor(db=environment.database(schema.ADDRESSES))
        last_address_id = schema.U32.unpack(addresses.key())[0] if addresses.last() else 0
        next_scheduled = _number(schema.NEXT_SCHEDULED, transaction.get(schema.NEXT_SCHEDULED, db=meta))
        records = transaction.stat(environment.database(schema.RECORDS))["entries"]
    return Names(
        message_base=0 if next_message_id is None else next_message_id - 1,
        queue_base=0 if next_queue_id is None else next_queue_id - 1,
        body_base=max((id for id, _ in body_files(bodies)), default=0),
        next_address_id=last_address_id + 1,
        next_scheduled=1 if next_scheduled is None else next_scheduled,
        takes_records=next_queue_id is None and last_address_id == 0 and records == 0,
    )


def _number(key: bytes, value: "bytes | memoryview[int] | None") -> int | None:
    """Return a number of the store; None if it has none. Raises StoreError."""
    try:
        return None if value is None else schema.read_number(key, bytes(value))
    except DamagedValue as error:
        raise StoreError(
            f"the store is damaged: the number {key.decode('ascii', 'replace')}: {error}; start a broker on it, which "
            "makes a new one"
        ) from error


def read_names(content: bytes) -> Names:
    """Return the names with which an interrupted import continues."""
    values = json.loads(content)
    values["queues"] = {name: QueueNumbers(**numbers) for name, numbers in values["queues"].items()}
    values["addresses"] = {name: AddressNumbers(**numbers) for name, numbers in values["addresses"].items()}
    return Names(**values)


class EntryWriter:
    """Writer of entries, one batch a commit."""

    def __init__(
        self, environment: Environment, there: Existing, names: Names, formats: Mapping[str, MessageFormat]
    ) -> None:
        self._environment: Final = environment
        self._there: Final = there
        self._names = names
        self._formats: Final = formats

    def write(self, batch: list[Entry], note: bytes) -> None:
        """Make a batch durable, with the note of how far the import has come. Raises lmdb.Error."""
        latest = self._names

        def change(transaction: lmdb.Transaction) -> None:
            # This may be called again, so it changes a copy.
            nonlocal latest
            latest = evolve(
                self._names,
                queues={name: evolve(numbers) for name, numbers in self._names.queues.items()},
                addresses=dict(self._names.addresses),
            )
            _BatchWriter(self._environment, transaction, self._there, latest, self._formats).write(batch)
            meta = self._environment.database(schema.META)
            transaction.put(schema.IMPORT, note, db=meta)
            if latest != self._names or transaction.get(schema.IMPORT_MAP, db=meta) is None:
                transaction.put(schema.IMPORT_MAP, json.dumps(asdict(latest)).encode(), db=meta)

        self._environment.apply(change)
        self._names = latest


class _BatchWriter:
    """One batch and the transaction that it is written in."""

    def __init__(
        self,
        environment: Environment,
        transaction: lmdb.Transaction,
        there: Existing,
        names: Names,
        formats: Mapping[str, MessageFormat],
    ) -> None:
        self._environment = environment
        self._formats = formats
        self._transaction = transaction
        self._there = there
        self._names = names
        self._marks: dict[int, int] = {}
        self._shares: dict[int, int] = {}
        self._counts: dict[bytes, tuple[int, int]] = {}
        """Numbers of references and their bytes, by rank."""
        self._bodies: dict[int, int] = {}
        self._highest_queue_id = 0
        self._highest_message_id = 0
        self._superseded = Batch()
        """Removals of messages that are not the last of their key."""

    def write(self, batch: list[Entry]) -> None:
        for entry in batch:
            match entry:
                case AddressEntry():
                    self._address(entry)
                case QueueEntry():
                    self._queue(entry)
                case MessageEntry(message=message) if message.id:
                    key = schema.U64.pack(self._known(message).id)
                    self._put(schema.MESSAGES, key, schema.seal(key, encode_message(message)))
                case ReferenceEntry():
                    self._reference(entry)
                case DuplicateEntry():
                    address = self._names.addresses[qualified(entry.host, entry.address)]
                    key = schema.duplicate_key(address.id, address.base + entry.number)
                    self._put(schema.DUPLICATES, key, schema.seal(key, entry.id))
                case RecordEntry() if self._names.takes_records and entry.space not in MESH_SPACES:
                    self._mark_hosts(entry.space == VIRTUAL_HOSTS)
                    key = schema.record_key(entry.space, entry.key)
                    self._put(schema.RECORDS, key, schema.seal(key, entry.value))
        self._write_numbers()
        if self._superseded.removals:
            inherited = self._environment.inherited
            Writer(self._environment.databases, self._transaction, DROP_SLICE, inherited).write(self._superseded)
        self._environment.mark_inheriting(self._transaction, set())

    def _mark_hosts(self, has_hosts: bool) -> None:
        """Have earlier releases refuse a store with virtual hosts."""
        if has_hosts:
            self._put(schema.META, schema.FORMAT_KEY, schema.U32.pack(schema.HOSTS_FORMAT))

    def _address(self, entry: AddressEntry) -> None:
        """Write an address; an existing one of the same name stays as it is."""
        name = qualified(entry.record.host, entry.record.name)
        self._mark_hosts(entry.record.host > 0)
        id = self._there.addresses.get(name)
        if id is not None:
            last = self._last_key(schema.DUPLICATES, id)
            self._names.addresses[name] = AddressNumbers(
                id=id, base=0 if last is None else schema.duplicate_number(last)
            )
            return
        id = self._names.next_address_id
        self._names.next_address_id += 1
        self._names.addresses[name] = AddressNumbers(id=id, base=0)
        key = schema.U32.pack(id)
        self._put(schema.ADDRESSES, key, schema.seal(key, write_address(entry.record)))

    def _queue(self, entry: QueueEntry) -> None:
        """Write a queue; an existing one of the same name stays as it is, and new messages come after its own."""
        config = entry.record.config
        name = qualified(entry.record.host, config.name)
        id = self._there.queues.get(name)
        if id is not None:
            queue = self._existing_queue(id, config.internal)
            queue.last_value_key = self._there.last_value_keys[name]
        else:
            id = self._names.queue_base + entry.id
            queue = QueueNumbers(id=id, base=0, internal=config.internal, last_value_key=_last_value_key(config))
            self._highest_queue_id = max(self._highest_queue_id, queue.id)
            key = schema.U32.pack(queue.id)
            self._put(schema.QUEUES, key, schema.seal(key, write_queue(entry.record)))
        self._names.queues[name] = queue
        self._mark(queue, entry.next_sequence)

    def _existing_queue(self, id: int, internal: bool) -> QueueNumbers:
        key = schema.U32.pack(id)
        mark = _number(key, self._get(schema.MARKS, key))
        return QueueNumbers(id=id, base=0 if mark is None else mark - 1, internal=internal)

    def _reference(self, entry: ReferenceEntry) -> None:
        queue = self._names.queues[qualified(entry.host, entry.queue)]
        message = entry.message if isinstance(entry.message, Message) else self._shared(entry.message)
        if entry.sequence:
            priority = DEFAULT_PRIORITY if queue.internal else message.priority
            handle = schema.handle_of(priority, queue.base + entry.sequence)
            self._mark(queue, entry.sequence + 1)
        else:
            handle = schema.scheduled_handle(self._names.next_scheduled)
            self._names.next_scheduled += 1
        key = schema.place_key(queue.id, handle, message.delivery_time_ms)
        self._count(schema.rank_key(queue.id, schema.rank_in(handle)), 1, message.size)
        last_key: bytes | None = None
        if entry.sequence and queue.last_value_key is not None:
            last_key = key_of(message, queue.last_value_key)
        if message is entry.message:
            self._known(message)
            self._put(schema.REFERENCES, key, schema.alone(key, message, last_key))
        else:
            self._shares[message.id] = self._shares.get(message.id, 0) + 1
            self._put(schema.REFERENCES, key, schema.sharing(key, message.id, last_key))
        if last_key is not None:
            self._note_last(queue.id, last_key, handle, message.size)
        if entry.delivery_count or entry.due_ms or entry.amendment:
            attempts = schema.attempts(key, entry.delivery_count, entry.due_ms, entry.amendment)
            self._put(schema.ATTEMPTS, key, attempts)

    def _note_last(self, queue_id: int, last_key: bytes, handle: int, size_bytes: int) -> None:
        """Note which message is the last of its key; the other one is removed at the end of this batch."""
        key = last_values.entry_key(queue_id, last_key)
        value = self._get(schema.LAST_VALUES, key)
        if value is not None:
            before, size_before = last_values.read_entry(key, value)
            if schema.number_in(before) > schema.number_in(handle):
                self._superseded.remove_unread(queue_id, handle, size_bytes, last_key)
                return
            self._superseded.remove_unread(queue_id, before, size_before, last_key)
        self._put(schema.LAST_VALUES, key, last_values.entry_value(key, handle, size_bytes))

    def _shared(self, id: int) -> Message:
        key = schema.U64.pack(self._names.message_base + id)
        value = self._get(schema.MESSAGES, key)
        assert value is not None, "a reference to a message that the file does not have was verified"
        return decode_message(schema.unseal(key, value), self._formats, UnseenBodies())

    def _known(self, message: Message) -> Message:
        """Note id and large body of a stored message, and return it; each call counts the body once more."""
        self._highest_message_id = max(self._highest_message_id, message.id)
        if message.large is not None:
            self._bodies[message.large.id] = self._bodies.get(message.large.id, 0) + 1
        return message

    def _count(self, rank: bytes, count: int, size_bytes: int) -> None:
        before, bytes_before = self._counts.get(rank, (0, 0))
        self._counts[rank] = (before + count, bytes_before + size_bytes)

    def _mark(self, queue: QueueNumbers, next_sequence: int) -> None:
        self._marks[queue.id] = max(self._marks.get(queue.id, 0), queue.base + next_sequence)

    def _write_numbers(self) -> None:
        """Write the numbers that must not be used again, and the counts."""
        for queue_id, mark in self._marks.items():
            key = schema.U32.pack(queue_id)
            before = _number(key, self._get(schema.MARKS, key)) or 0
            self._put(schema.MARKS, key, schema.number_value(key, max(before, mark)))
        for database, counted in ((schema.SHARES, self._shares), (schema.BODIES, self._bodies)):
            for id, count in counted.items():
                key = schema.U64.pack(id)
                value = self._get(database, key)
                before = 0 if value is None else schema.count_or_unknown(key, value)
                self._put(database, key, schema.count_value(key, before + count))
        for rank, (count, size_bytes) in self._counts.items():
            value = self._get(schema.COUNTS, rank)
            before, bytes_before = (0, 0) if value is None else schema.read_counts(rank, value)
            self._put(schema.COUNTS, rank, schema.counts(rank, before + count, bytes_before + size_bytes))
        self._raise_number(schema.NEXT_MESSAGE_ID, self._highest_message_id + 1)
        self._raise_number(schema.NEXT_QUEUE_ID, self._highest_queue_id + 1)
        self._raise_number(schema.NEXT_SCHEDULED, self._names.next_scheduled)

    def _raise_number(self, name: bytes, number: int) -> None:
        before = _number(name, self._get(schema.META, name)) or 1
        self._put(schema.META, name, schema.number_value(name, max(before, number)))

    def _last_key(self, database: bytes, id: int) -> bytes | None:
        """Return the last key that begins with an id; None if there is none."""
        cursor = self._transaction.cursor(db=self._environment.database(database))
        found = cursor.prev() if cursor.set_range(schema.U32.pack(id + 1)) else cursor.last()
        key = bytes(cursor.key()) if found else b""
        return key if key.startswith(schema.U32.pack(id)) else None

    def _get(self, database: bytes, key: bytes) -> bytes | None:
        value = self._transaction.get(key, db=self._environment.database(database))
        return None if value is None else bytes(value)

    def _put(self, database: bytes, key: bytes, value: bytes) -> None:
        self._transaction.put(key, value, db=self._environment.database(database))
