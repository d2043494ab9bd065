"""`data import`: a file of entries taken into the store of a broker that does not run.

The whole file is read before anything is written, so a mistake in it changes nothing. Then its entries are written, a
few thousand a commit, and each commit notes how far it came. Whatever interrupts that, the same file goes on behind
the last commit; until it is through, no broker starts on the folder. A file that was taken in is known by its content
and is not taken in again.

The folder may hold a store already. What is new keeps its numbers: a queue that was not there has the same sequences
as before. What is there stays: a queue of the same name keeps its definition, and the messages come behind its own.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO, Final

import lmdb
from attrs import frozen

from artemis_py.core.message import Message, MessageFormat
from artemis_py.data.entries import AddressEntry, DuplicateEntry, Entry, MessageEntry, QueueEntry, ReferenceEntry
from artemis_py.data.export import FileFormat
from artemis_py.data.intake_writer import EntryWriter, Existing, fresh_names, read_names
from artemis_py.data.lines import MalformedLine, read_entries
from artemis_py.data.snapshot import Progress
from artemis_py.data.xml_reader import read_xml
from artemis_py.errors import StoreError
from artemis_py.store import schema
from artemis_py.store.environment import Environment

CHUNK_BYTES: Final = 1 << 20
BATCH_ENTRIES: Final = 5000
BATCH_BYTES: Final = 16 << 20
"""What one commit holds at most, so that memory stays flat; the last entry may go beyond."""


@frozen(kw_only=True)
class Imported:
    """What came of it."""

    entries: int
    resumed_at: int
    """Entries that an interrupted import had written before; `entries` if the whole file was taken in before."""


def import_file(
    folder: Path,
    source: Path,
    file_format: FileFormat,
    formats: Mapping[str, MessageFormat],
    progress: Progress = lambda done, total: None,
) -> Imported:
    """Take a file into the store in `folder`, which is made if it is not there.

    `progress` counts entries twice, once for reading and once for writing. Raises StoreError, with file and line if
    the file is the reason; then the store is as it was, or as an interrupted import left it.
    """
    try:
        with source.open("rb") as stream, Environment(folder, for_import=True) as environment:
            return _Import(environment, source, stream, file_format, formats, progress).run()
    except OSError as error:
        raise StoreError(f"{source} cannot be read: {error.strerror}") from error
    except lmdb.Error as error:
        raise StoreError(f"{folder} cannot be written: {error}; the same import goes on from there") from error


class _Import:
    """One run over one file."""

    def __init__(
        self,
        environment: Environment,
        source: Path,
        stream: BinaryIO,
        file_format: FileFormat,
        formats: Mapping[str, MessageFormat],
        progress: Progress,
    ) -> None:
        self._environment = environment
        self._source = source
        self._stream = stream
        self._read = read_entries if file_format is FileFormat.JSONL else read_xml
        self._formats = formats
        self._progress = progress
        self._there: Final = Existing(environment)

    def run(self) -> Imported:
        """Read it, then write it."""
        digest = self._digest()
        with self._environment.begin() as transaction:
            finished = self._meta(transaction, schema.IMPORTED + digest.encode())
            unfinished = self._meta(transaction, schema.IMPORT)
            stored_map = self._meta(transaction, schema.IMPORT_MAP)
        if finished is not None:
            count = int(schema.U64.unpack(finished)[0])
            return Imported(entries=count, resumed_at=count)
        state: dict[str, Any] = {"digest": digest, "done": 0} if unfinished is None else json.loads(unfinished)
        if state["digest"] != digest:
            raise StoreError(f"an import of another file, {state['file']}, is not finished: run that one again first")
        total = self._verify()
        names = fresh_names(self._environment) if stored_map is None else read_names(stored_map)
        writer = EntryWriter(self._environment, self._there, names)
        for batch in self._batches(state["done"], names.message_base):
            state |= {"file": self._source.name, "done": state["done"] + len(batch)}
            writer.write(batch, json.dumps(state).encode())
            self._progress(total + state["done"], 2 * total)
        self._environment.apply(lambda transaction: self._finish(transaction, digest, total))
        return Imported(entries=total, resumed_at=0 if unfinished is None else json.loads(unfinished)["done"])

    def _digest(self) -> str:
        """The file as a whole."""
        digest = hashlib.sha256()
        while chunk := self._stream.read(CHUNK_BYTES):
            digest.update(chunk)
        return digest.hexdigest()

    def _entries(self) -> Iterator[tuple[int, Entry]]:
        """Raises StoreError with file and line."""
        self._stream.seek(0)
        try:
            yield from self._read(self._stream, self._formats)
        except MalformedLine as error:
            raise StoreError(f"{self._source}:{error.line}: {error}") from error

    def _verify(self) -> int:
        """Read everything, and hold it against what is there; returns the number of entries. Raises StoreError."""
        verifier = _Verifier(self._there)
        count = 0
        for line, entry in self._entries():
            try:
                verifier.take(entry)
            except ValueError as error:
                raise StoreError(f"{self._source}:{line}: {error}") from error
            count += 1
            self._progress(count, 0)
        return count

    def _batches(self, skip: int, message_base: int) -> Iterator[list[Entry]]:
        """What comes behind the first `skip` entries; messages have the ids that they get here."""
        batch: list[Entry] = []
        size = 0
        for number, (_, entry) in enumerate(self._entries(), 1):
            if number <= skip:
                continue
            if isinstance(entry, MessageEntry | ReferenceEntry) and isinstance(entry.message, Message):
                entry.message.id += message_base
            batch.append(entry)
            size += _size(entry)
            if len(batch) >= BATCH_ENTRIES or size >= BATCH_BYTES:
                yield batch
                batch, size = [], 0
        if batch:
            yield batch

    def _finish(self, transaction: lmdb.Transaction, digest: str, count: int) -> None:
        meta = self._environment.database(schema.META)
        transaction.delete(schema.IMPORT, db=meta)
        transaction.delete(schema.IMPORT_MAP, db=meta)
        transaction.put(schema.IMPORTED + digest.encode(), schema.U64.pack(count), db=meta)

    def _meta(self, transaction: lmdb.Transaction, key: bytes) -> bytes | None:
        value = transaction.get(key, db=self._environment.database(schema.META))
        return None if value is None else bytes(value)


class _Verifier:
    """Whether each entry has what it refers to, and does not contradict the store."""

    def __init__(self, there: Existing) -> None:
        self._addresses: set[str] = set()
        self._queues: set[str] = set()
        self._priorities: dict[int, int] = {}
        """Of shared messages, by their ids."""
        self._sequences: dict[tuple[str, int], int] = {}
        """The last one by queue and priority: no two messages may have one place."""
        self._there = there

    def take(self, entry: Entry) -> None:
        """Raises ValueError."""
        match entry:
            case AddressEntry():
                self._addresses.add(entry.record.name)
            case QueueEntry():
                self._take_queue(entry)
            case MessageEntry():
                if entry.message.id in self._priorities:
                    raise ValueError(f"message {entry.message.id} was there before")
                self._priorities[entry.message.id] = entry.message.priority
            case ReferenceEntry():
                self._take_reference(entry)
            case DuplicateEntry():
                if entry.address not in self._addresses:
                    raise ValueError(f"address '{entry.address}' is not in the file before")

    def _take_reference(self, entry: ReferenceEntry) -> None:
        if entry.queue not in self._queues:
            raise ValueError(f"queue '{entry.queue}' is not in the file before")
        if isinstance(entry.message, Message):
            priority = entry.message.priority
        elif entry.message in self._priorities:
            priority = self._priorities[entry.message]
        else:
            raise ValueError(f"message {entry.message} is not in the file before")
        if entry.sequence:
            place = (entry.queue, priority)
            if entry.sequence <= self._sequences.get(place, 0):
                raise ValueError(f"sequence {entry.sequence} of queue '{entry.queue}' is not in its order")
            self._sequences[place] = entry.sequence

    def _take_queue(self, entry: QueueEntry) -> None:
        config = entry.record.config
        if config.name in self._queues:
            raise ValueError(f"queue '{config.name}' was there before")
        if config.address not in self._addresses:
            raise ValueError(f"address '{config.address}' of queue '{config.name}' is not in the file before")
        there = self._there.queue_addresses.get(config.name, config.address)
        if there != config.address:
            raise ValueError(f"queue '{config.name}' is on address '{there}' in the store already")
        self._queues.add(config.name)


def _size(entry: Entry) -> int:
    """About the bytes that it takes."""
    match entry:
        case MessageEntry(message=message) | ReferenceEntry(message=Message() as message):
            return message.size
        case _:
            return 0
