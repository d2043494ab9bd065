"""`data import`: takes a file of entries into the store of a broker that does not run.

The whole file is read before anything is written, so a mistake in it changes nothing. Then its entries are written, a
few thousand a commit, and each commit notes how far it has come. After an interruption, an import of the same file
continues after the last commit; until it is finished, no broker starts on the folder. A file that was imported is
recognized by its content and is not imported again.

The folder may have a store already. New entries keep their numbers: a queue that did not exist has the same sequences
as before. Existing entries stay: a queue of the same name keeps its definition, and the messages come after its own.
Records name queues and sequences by their numbers, so only an empty store takes them.

A large body is written to its file as it is read, and the file is synced before the commit of the first message that
has it. Bodies that an interrupted import wrote since its last commit are written again.
"""

import hashlib
import json
import os
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO, Final

import lmdb
from attrs import frozen

from artemis_py.core.messages.large_body import LargeBody
from artemis_py.core.messages.message import Message, MessageFormat
from artemis_py.errors import StoreError
from artemis_py.store import schema
from artemis_py.store.environment import FILE_NAME, Environment, sync_folder
from artemis_py.store.failure import reason_of
from artemis_py.store.large import body_path
from artemis_py.storetools.bodies import bodies_folder
from artemis_py.storetools.entries import (
    AddressEntry,
    BodyEntry,
    DuplicateEntry,
    Entry,
    MessageEntry,
    QueueEntry,
    RecordEntry,
    ReferenceEntry,
    qualified,
)
from artemis_py.storetools.export import FileFormat
from artemis_py.storetools.intake_writer import EntryWriter, Existing, Names, fresh_names, read_names
from artemis_py.storetools.lines import MalformedLine, read_entries
from artemis_py.storetools.mesh import SPACES as MESH_SPACES
from artemis_py.storetools.snapshot import Progress
from artemis_py.storetools.xml_reader import read_xml

CHUNK_BYTES: Final = 1 << 20
BATCH_ENTRIES: Final = 5000
BATCH_BYTES: Final = 16 << 20
"""Limits of one commit, so that memory stays flat; its last entry may exceed this one."""
LAST_MS: Final = (1 << 56) - 1
"""Latest time that a message can name."""


@frozen(kw_only=True)
class Imported:
    """Result of an import."""

    entries: int
    resumed_at: int
    """Entries that an interrupted import had written before; `entries` if the whole file was imported before."""
    left_out: tuple[str, ...] = ()
    """Entries that the store could not take: one line each."""


def import_file(
    folder: Path,
    source: Path,
    file_format: FileFormat,
    formats: Mapping[str, MessageFormat],
    progress: Progress = lambda done, total: None,
    large_messages_folder: Path | None = None,
) -> Imported:
    """Import a file into the store in `folder`, which is made if it is missing.

    Large bodies come below it unless their folder is named. `progress` counts entries twice, once for reading and once
    for writing. Raises StoreError, with file and line if the file is the reason; then the store is as it was, or as an
    interrupted import left it.
    """
    try:
        bodies = bodies_folder(folder, large_messages_folder)
        with (
            source.open("rb") as stream,
            Environment(folder, large_messages_folder=bodies, for_import=True) as environment,
        ):
            environment.drop_all()
            return _Import(environment, bodies, source, stream, file_format, formats, progress).run()
    except OSError as error:
        raise StoreError(
            f"{error.filename or source}: {error.strerror}; the same import continues from there"
        ) from error
    except lmdb.Error as error:
        reason = reason_of(error, folder / FILE_NAME)
        raise StoreError(f"{folder} cannot be written: {reason}; the same import continues from there") from error


class _Import:
    """One run over one file."""

    def __init__(
        self,
        environment: Environment,
        bodies: Path,
        source: Path,
        stream: BinaryIO,
        file_format: FileFormat,
        formats: Mapping[str, MessageFormat],
        progress: Progress,
    ) -> None:
        self._environment = environment
        self._bodies = bodies
        self._source = source
        self._stream = stream
        self._read = read_entries if file_format is FileFormat.JSONL else read_xml
        self._formats = formats
        self._progress = progress
        self._there: Final = Existing(environment)

    def run(self) -> Imported:
        """Read the file, then write its entries."""
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
        names = fresh_names(self._environment, self._bodies) if stored_map is None else read_names(stored_map)
        verifier = _Verifier(self._there, names.takes_records)
        total = self._verify(verifier)
        writer = EntryWriter(self._environment, self._there, names, self._formats)
        resumed_at = state["done"]
        for batch in self._batches(resumed_at, names, verifier.unshared):
            if any(isinstance(entry, BodyEntry) for entry in batch):
                sync_folder(self._bodies)
                # The folder itself may be new with this import.
                sync_folder(self._bodies.parent)
            state |= {"file": self._source.name, "done": state["done"] + len(batch)}
            writer.write(batch, json.dumps(state).encode())
            self._progress(total + state["done"], 2 * total)
        self._environment.apply(lambda transaction: self._finish(transaction, digest, total))
        left_out = tuple(verifier.records_left_out(names.takes_records))
        return Imported(entries=total, resumed_at=resumed_at, left_out=left_out)

    def _digest(self) -> str:
        """Return the SHA-256 of the file in hexadecimal."""
        digest = hashlib.sha256()
        while chunk := self._stream.read(CHUNK_BYTES):
            digest.update(chunk)
        return digest.hexdigest()

    def _entries(self) -> Iterator[tuple[int, Entry]]:
        """Yield entries with the numbers of their lines. Raises StoreError with file and line."""
        self._stream.seek(0)
        try:
            yield from self._read(self._stream, self._formats)
        except MalformedLine as error:
            raise StoreError(f"{self._source}:{error.line}: {error}") from error

    def _verify(self, verifier: "_Verifier") -> int:
        """Read everything, and compare it with the store; return the number of entries. Raises StoreError."""
        count = 0
        for line, entry in self._entries():
            try:
                verifier.take(entry)
            except ValueError as error:
                raise StoreError(f"{self._source}:{line}: {error}") from error
            count += 1
            self._progress(count, 0)
        return count

    def _batches(self, skip: int, names: Names, unshared: set[int]) -> Iterator[list[Entry]]:
        """Yield batches of the entries after the first `skip`; messages and bodies have their new ids.

        The files of the bodies are written and synced. A message that no reference shares would stay forever: it gets
        the id 0, so it is not stored.
        """
        batch: list[Entry] = []
        size = 0
        for number, (_, entry) in enumerate(self._entries(), 1):
            if number <= skip:
                continue
            if isinstance(entry, MessageEntry | ReferenceEntry) and isinstance(entry.message, Message):
                is_unshared = isinstance(entry, MessageEntry) and entry.message.id in unshared
                entry.message.id = 0 if is_unshared else entry.message.id + names.message_base
                _move_body(entry.message, names.body_base)
            elif isinstance(entry, BodyEntry):
                self._write_body(body_path(self._bodies, names.body_base + entry.id), entry.pieces)
            batch.append(entry)
            size += _size(entry)
            if len(batch) >= BATCH_ENTRIES or size >= BATCH_BYTES:
                yield batch
                batch, size = [], 0
        if batch:
            yield batch

    def _write_body(self, path: Path, pieces: Iterator[bytes]) -> None:
        """Make the octets of a body durable; the file's name is not durable yet."""
        with path.open("wb") as file:
            for piece in pieces:
                file.write(piece)
            file.flush()
            os.fsync(file.fileno())

    def _finish(self, transaction: lmdb.Transaction, digest: str, count: int) -> None:
        meta = self._environment.database(schema.META)
        transaction.delete(schema.IMPORT, db=meta)
        transaction.delete(schema.IMPORT_MAP, db=meta)
        transaction.put(schema.IMPORTED + digest.encode(), schema.U64.pack(count), db=meta)

    def _meta(self, transaction: lmdb.Transaction, key: bytes) -> bytes | None:
        value = transaction.get(key, db=self._environment.database(schema.META))
        return None if value is None else bytes(value)


class _Verifier:
    """Checks that each entry has what it refers to, and does not contradict the store."""

    def __init__(self, there: Existing, takes_hosts: bool) -> None:
        """Create it; `takes_hosts`: the store is empty, so that the numbers of virtual hosts mean nothing else."""
        self._takes_hosts = takes_hosts
        self._addresses: set[str] = set()
        self._queues: set[str] = set()
        self._queue_ids: set[int] = set()
        self._records: Counter[str] = Counter()
        """Numbers of records, by space."""
        self._priorities: dict[int, int] = {}
        """Priorities of shared messages, by their ids."""
        self._sequences: dict[tuple[str, int], int] = {}
        """Last sequences, by queue and priority: no two messages may have the same place."""
        self.unshared: Final[set[int]] = set()
        """Ids of messages without references, which were damaged, or dropped, when the file was written."""
        self._there = there

    def take(self, entry: Entry) -> None:
        """Check an entry, and note it for the entries after it. Raises ValueError."""
        match entry:
            case AddressEntry():
                self._check_host(entry.record.host)
                self._addresses.add(qualified(entry.record.host, entry.record.name))
            case QueueEntry():
                self._take_queue(entry)
            case MessageEntry():
                if entry.message.id in self._priorities:
                    raise ValueError(f"message {entry.message.id} was there before")
                _check_times(entry.message)
                self._priorities[entry.message.id] = entry.message.priority
                self.unshared.add(entry.message.id)
            case ReferenceEntry():
                self._take_reference(entry)
            case DuplicateEntry():
                if qualified(entry.host, entry.address) not in self._addresses:
                    raise ValueError(f"address '{entry.address}' is not in the file before this")
            case RecordEntry():
                self._records[entry.space] += 1

    def _check_host(self, host: int) -> None:
        if host and not self._takes_hosts:
            raise ValueError("it belongs to a virtual host: only a store that holds nothing yet can take those")

    def records_left_out(self, takes_records: bool) -> Iterator[str]:
        """Yield lines for records that are not imported; with `takes_records`, an empty store takes most of them."""
        for space, count in sorted(self._records.items()):
            if space in MESH_SPACES:
                yield f"left out: {count} records of '{space}': they belong to the broker that was exported"
            elif not takes_records:
                yield f"left out: {count} records of '{space}': only a store that holds nothing yet can take them"

    def _take_reference(self, entry: ReferenceEntry) -> None:
        queue = qualified(entry.host, entry.queue)
        if queue not in self._queues:
            raise ValueError(f"queue '{entry.queue}' is not in the file before this")
        if isinstance(entry.message, Message):
            _check_times(entry.message)
            priority = entry.message.priority
        elif entry.message in self._priorities:
            priority = self._priorities[entry.message]
            self.unshared.discard(entry.message)
        else:
            raise ValueError(f"message {entry.message} is not in the file before this")
        if entry.sequence:
            place = (queue, priority)
            if entry.sequence <= self._sequences.get(place, 0):
                raise ValueError(f"sequence {entry.sequence} of queue '{entry.queue}' is not in its order")
            self._sequences[place] = entry.sequence

    def _take_queue(self, entry: QueueEntry) -> None:
        config, host = entry.record.config, entry.record.host
        self._check_host(host)
        name = qualified(host, config.name)
        if name in self._queues:
            raise ValueError(f"queue '{config.name}' was there before")
        if entry.id in self._queue_ids:
            raise ValueError(f"another queue has the id {entry.id}")
        if qualified(host, config.address) not in self._addresses:
            raise ValueError(f"address '{config.address}' of queue '{config.name}' is not in the file before this")
        there = self._there.queue_addresses.get(name, config.address)
        if there != config.address:
            raise ValueError(f"queue '{config.name}' is on address '{there}' in the store already")
        self._queues.add(name)
        self._queue_ids.add(entry.id)


def _check_times(message: Message) -> None:
    """Raise ValueError if a time of the message is out of range."""
    if not 0 <= message.delivery_time_ms <= LAST_MS or not 0 <= message.expires_ms <= LAST_MS:
        raise ValueError("the message names a time that does not exist")


def _move_body(message: Message, base: int) -> None:
    if message.large is not None:
        large = message.large
        message.large = LargeBody(base + large.id, large.size, large.checksum, holders=0)


def _size(entry: Entry) -> int:
    """Return about how many bytes an entry takes."""
    match entry:
        case MessageEntry(message=message) | ReferenceEntry(message=Message() as message):
            return message.size
        case RecordEntry():
            return len(entry.value)
        case _:
            return 0
