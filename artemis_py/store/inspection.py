"""Looking at a store from outside of a broker: what is in it, whether it is sound, and copies of it.

Reading needs no lock: LMDB gives every reader a state of its own, also while a broker writes. As long as one reads,
the broker's file cannot reuse pages, so a look at a large store in heavy use makes the file grow a little.
"""

import os
import shutil
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import lmdb
from attrs import define, field, frozen

from artemis_py.errors import StoreError
from artemis_py.store import schema
from artemis_py.store.definitions import read_address, read_queue
from artemis_py.store.environment import FILE_NAME, NEW_NAME, FolderLock, map_size_for, sync_folder
from artemis_py.store.schema import DamagedValue

_NO_FORMATS: Final[Mapping[str, schema.MissingFormat]] = {}


@frozen(kw_only=True)
class QueueStatistics:
    """One queue in the store."""

    id: int
    name: str
    """Empty if its definition is damaged."""
    address: str
    messages: int
    scheduled: int


@frozen(kw_only=True)
class Statistics:
    """What is in a store."""

    format: int
    file_bytes: int
    used_bytes: int
    """Of the file; the rest is free for reuse, and `compact` gives it back."""
    addresses: int
    shared_messages: int
    damaged: int
    queues: tuple[QueueStatistics, ...]

    @property
    def messages(self) -> int:
        """References in all queues."""
        return sum(queue.messages for queue in self.queues)


@define
class Findings:
    """What a check saw."""

    values: int = 0
    problems: list[str] = field(factory=list)
    damaged: list[str] = field(factory=list)
    """Values that an earlier start set aside."""


class Snapshot:
    """One moment of a store."""

    def __init__(self, environment: lmdb.Environment, transaction: lmdb.Transaction) -> None:
        self.environment: Final = environment
        self._transaction: Final = transaction
        self._databases: Final = {
            name: environment.open_db(name, txn=transaction, create=False) for name in schema.DATABASES
        }

    @property
    def format(self) -> int:
        """The version it was written with. Raises StoreError if this release does not read it."""
        value = self._transaction.get(schema.FORMAT_KEY, db=self._databases[schema.META])
        version = 0 if value is None or len(value) != schema.U32.size else int(schema.U32.unpack(value)[0])
        if version != schema.FORMAT_VERSION:
            raise StoreError(f"it has format {version}, this release of artemis_py reads {schema.FORMAT_VERSION}")
        return version

    def keys(self, database: bytes) -> Iterator[bytes]:
        """All keys of a database, in order."""
        cursor = self._transaction.cursor(db=self._databases[database])
        for key in cursor.iternext(keys=True, values=False):
            yield bytes(key)

    def items(self, database: bytes) -> Iterator[tuple[bytes, bytes]]:
        """All keys and values of a database, in order."""
        for key, value in self._transaction.cursor(db=self._databases[database]):
            yield bytes(key), bytes(value)

    def has(self, database: bytes, key: bytes) -> bool:
        """Whether there is a value under a key."""
        return self._transaction.get(key, db=self._databases[database]) is not None

    def count(self, database: bytes) -> int:
        """How many values a database has."""
        return int(self._transaction.stat(self._databases[database])["entries"])


@contextmanager
def opened(folder: Path) -> Iterator[Snapshot]:
    """The store in a folder as it is now, whether a broker uses it or not. Raises StoreError."""
    file = folder / FILE_NAME
    if not file.exists():
        raise StoreError(f"there is no store in {folder}")
    try:
        with (
            lmdb.open(
                str(folder), readonly=True, map_size=map_size_for(file), max_dbs=len(schema.DATABASES)
            ) as environment,
            environment.begin() as transaction,
        ):
            yield Snapshot(environment, transaction)
    except lmdb.Error as error:
        raise StoreError(f"the store in {folder} cannot be read: {error}") from error


def statistics(folder: Path) -> Statistics:
    """Count what is in a store; messages are not read. Raises StoreError."""
    with opened(folder) as snapshot:
        version = snapshot.format
        messages: Counter[int] = Counter()
        scheduled: Counter[int] = Counter()
        for key in snapshot.keys(schema.REFERENCES):
            queue_id, handle = schema.read_place(key)
            messages[queue_id] += 1
            scheduled[queue_id] += schema.is_scheduled(handle)
        names: dict[int, tuple[str, str]] = {}
        for key, value in snapshot.items(schema.QUEUES):
            try:
                config = read_queue(schema.unseal(key, value)).config
                names[schema.U32.unpack(key)[0]] = (config.name, config.address)
            except DamagedValue:
                names[schema.U32.unpack(key)[0]] = ("", "")
        info = snapshot.environment.info()
        page_bytes = snapshot.environment.stat()["psize"]
        return Statistics(
            format=version,
            file_bytes=(folder / FILE_NAME).stat().st_size,
            used_bytes=(info["last_pgno"] + 1) * page_bytes,
            addresses=snapshot.count(schema.ADDRESSES),
            shared_messages=snapshot.count(schema.MESSAGES),
            damaged=snapshot.count(schema.DAMAGED),
            queues=tuple(
                QueueStatistics(
                    id=id,
                    name=names.get(id, ("", ""))[0],
                    address=names.get(id, ("", ""))[1],
                    messages=messages[id],
                    scheduled=scheduled[id],
                )
                for id in sorted(names.keys() | messages.keys())
            ),
        )


def check(folder: Path) -> Findings:
    """Read every value and hold them against each other; nothing is changed. Raises StoreError."""
    with opened(folder) as snapshot:
        _ = snapshot.format
        return _Check(snapshot).run()


class _Check:
    """One pass over a snapshot."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self._findings = Findings()

    def run(self) -> Findings:
        """Everything."""
        for key, value in self._read(schema.ADDRESSES):
            self._attempt(schema.ADDRESSES, key, lambda key=key, value=value: read_address(schema.unseal(key, value)))  # type: ignore[misc]
        for key, value in self._read(schema.QUEUES):
            self._attempt(schema.QUEUES, key, lambda key=key, value=value: read_queue(schema.unseal(key, value)))  # type: ignore[misc]
        for key, value in self._read(schema.MESSAGES):
            self._attempt(
                schema.MESSAGES,
                key,
                lambda key=key, value=value: schema.decode_message(schema.unseal(key, value), _NO_FORMATS),  # type: ignore[misc]
            )
        self._references()
        for key, value in self._read(schema.ATTEMPTS):
            self._attempt(schema.ATTEMPTS, key, lambda key=key, value=value: schema.read_attempts(key, value))  # type: ignore[misc]
            if not self._snapshot.has(schema.REFERENCES, key):
                self._say(schema.ATTEMPTS, key, "there is no reference at this place")
        for key, value in self._read(schema.DUPLICATES):
            self._attempt(schema.DUPLICATES, key, lambda key=key, value=value: schema.unseal(key, value))  # type: ignore[misc]
            if not self._snapshot.has(schema.ADDRESSES, key[: schema.U32.size]):
                self._say(schema.DUPLICATES, key, "its address is not there")
        for key, value in self._read(schema.RECORDS):
            self._attempt(schema.RECORDS, key, lambda key=key, value=value: schema.unseal(key, value))  # type: ignore[misc]
        for key in self._snapshot.keys(schema.DAMAGED):
            database, _, original = key.partition(b"\x00")
            self._findings.damaged.append(f"{database.decode()} {original.hex()}")
        return self._findings

    def _references(self) -> None:
        shares: Counter[bytes] = Counter()
        for key, value in self._read(schema.REFERENCES):
            self._attempt(schema.REFERENCES, key, lambda key=key, value=value: self._reference(key, value, shares))  # type: ignore[misc]
        for key, value in self._read(schema.SHARES):
            counted, stored = shares.pop(key, 0), int(schema.U32.unpack(value)[0])
            if counted != stored:
                self._say(schema.SHARES, key, f"{counted} references share the message, {stored} were counted")
            if not self._snapshot.has(schema.MESSAGES, key):
                self._say(schema.SHARES, key, "its message is missing")
        for key in shares:
            self._say(schema.SHARES, key, "the count of a shared message is missing")

    def _reference(self, key: bytes, value: bytes, shares: Counter[bytes]) -> None:
        content = schema.unseal(key, value)
        id = schema.shared_id(content)
        if id is None:
            schema.decode_message(content[1:], _NO_FORMATS)
        else:
            shares[schema.U64.pack(id)] += 1
        if not self._snapshot.has(schema.QUEUES, key[: schema.U32.size]):
            raise DamagedValue("its queue is not there")

    def _read(self, database: bytes) -> Iterator[tuple[bytes, bytes]]:
        for item in self._snapshot.items(database):
            self._findings.values += 1
            yield item

    def _attempt(self, database: bytes, key: bytes, read: Callable[[], object]) -> None:
        try:
            read()
        except DamagedValue as error:
            self._say(database, key, str(error))

    def _say(self, database: bytes, key: bytes, problem: str) -> None:
        self._findings.problems.append(f"{database.decode()} {key.hex()}: {problem}")


def back_up(folder: Path, target: Path) -> int:
    """Copy a store as it is at this moment, without its free space, also while a broker uses it.

    `target` must be empty or missing. Returns the size of the copy in bytes. Raises StoreError.
    """
    if target.exists() and any(target.iterdir()):
        raise StoreError(f"{target} is not empty; a backup needs a folder of its own")
    with opened(folder) as snapshot:
        _ = snapshot.format
        try:
            target.mkdir(parents=True, exist_ok=True)
            snapshot.environment.copy(str(target), compact=True)
            return _sync(target)
        except OSError as error:
            raise StoreError(f"{target} cannot be written: {error.strerror}") from error


def compact(folder: Path) -> tuple[int, int]:
    """Give back the free space of a store that no broker uses; returns its size before and after. Raises StoreError.

    The new file takes the place of the old one in one step: an interruption leaves one or the other.
    """
    file = folder / FILE_NAME
    if not file.exists():
        raise StoreError(f"there is no store in {folder}")
    lock = FolderLock(folder)
    new = folder / NEW_NAME
    try:
        shutil.rmtree(new, ignore_errors=True)
        before = file.stat().st_size
        after = back_up(folder, new)
        (new / FILE_NAME).replace(file)
        shutil.rmtree(new)
        sync_folder(folder)
        return before, after
    except OSError as error:
        raise StoreError(f"{error.filename}: {error.strerror}") from error
    finally:
        lock.release()


def _sync(folder: Path) -> int:
    with (folder / FILE_NAME).open("rb") as file:
        os.fsync(file.fileno())
        size = os.fstat(file.fileno()).st_size
    sync_folder(folder)
    return size
