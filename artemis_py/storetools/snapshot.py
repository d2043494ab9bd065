"""One moment of a store, read from outside.

Reading needs no lock: LMDB gives every reader a state of its own, even while a broker writes. As long as one reads, the
broker cannot reuse pages of its file, so reading a large store in heavy use makes the file grow a little.

Opening a damaged file with LMDB would end the process, so it is read without LMDB, as far as it can be read
(`DamagedSnapshot`).
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Final

import lmdb

from artemis_py.errors import StoreError
from artemis_py.store import schema
from artemis_py.store.condition import Damage, examine, examine_in_use
from artemis_py.store.condition import is_in_use as has_lock
from artemis_py.store.definitions import queue_name, recovered_address, recovered_queue
from artemis_py.store.environment import FILE_NAME, map_size_for
from artemis_py.store.folder_lock import LOCK_NAME
from artemis_py.store.format import NEWEST
from artemis_py.store.format import is_logged as has_log
from artemis_py.store.inherited import PREFIX, Inherited
from artemis_py.store.moves import Span
from artemis_py.store.page_file import PAGE_HEAD, PageFile
from artemis_py.store.salvage import values

_NEW: Final = frozenset((schema.LAST_VALUES,))
"""Databases that stores of older formats do not have."""

Progress = Callable[[int, int], None]
"""Callback with how much is done, and of how much; it is called often, and should return at once."""


class Snapshot:
    """One moment of a store."""

    problems: Sequence[str] = ()
    """Problems of the file; values are checked by the code that reads them."""

    def __init__(
        self,
        environment: lmdb.Environment,
        transaction: lmdb.Transaction,
        databases: "dict[bytes, lmdb._Database]",
        version: int,
    ) -> None:
        self.environment: Final = environment
        self.format = version
        self._transaction: Final = transaction
        self._databases: Final = databases

    @property
    def used_bytes(self) -> int:
        """Bytes of the file in use; the rest is free for reuse."""
        return int((self.environment.info()["last_pgno"] + 1) * self.environment.stat()["psize"])

    def copy_to(self, folder: Path) -> None:
        """Write the snapshot into a new file, without free space; other threads run meanwhile. Raises lmdb.Error.

        Without the transaction, LMDB would copy what is there now: that may refer to bodies which came later.
        """
        self.environment.copy(str(folder), compact=True, txn=self._transaction)

    def keys(self, database: bytes) -> Iterator[bytes]:
        """Yield all keys of a database, in order."""
        cursor = self._transaction.cursor(db=self._databases[database])
        for key in cursor.iternext(keys=True, values=False):
            yield bytes(key)

    def items(self, database: bytes, prefix: bytes = b"") -> Iterator[tuple[bytes, bytes]]:
        """Yield the keys of a database that begin with `prefix`, in order, with their values."""
        if database not in self._databases:
            return
        cursor = self._transaction.cursor(db=self._databases[database])
        if cursor.set_range(prefix):
            for key, value in cursor:
                if not bytes(key).startswith(prefix):
                    return
                yield bytes(key), bytes(value)

    @cached_property
    def inherited(self) -> Inherited:
        """Ranges of references that belong to another queue than their keys say."""
        return Inherited(self.items(schema.RECORDS, PREFIX))

    def references(self) -> Iterator[tuple[bytes, bytes]]:
        """Yield keys and values of all references, in the order in which the queues have them."""
        spans = sorted(self.inherited.by_source.values(), key=_place_of, reverse=True)
        for key, value in self.items(schema.REFERENCES):
            if key[: schema.U32.size] in self._inherited_ids:
                continue
            while spans and _place_of(spans[-1]) < key:
                yield from self._references_in(spans.pop())
            yield key, value
        while spans:
            yield from self._references_in(spans.pop())

    @cached_property
    def _inherited_ids(self) -> frozenset[bytes]:
        return frozenset(schema.U32.pack(id) for id in self.inherited.by_source)

    def _references_in(self, span: Span) -> Iterator[tuple[bytes, bytes]]:
        return self.items(schema.REFERENCES, schema.rank_key(span.source_id, span.source_rank))

    def stored_ids(self) -> Iterator[int]:
        """Yield the ids under which there are references."""
        cursor = self._transaction.cursor(db=self._databases[schema.REFERENCES])
        found = cursor.first()
        while found:
            prefix = bytes(cursor.key())[: schema.U32.size]
            yield int.from_bytes(prefix)
            # No key of ours has so many octets 0xff after an id.
            found = cursor.set_range(prefix + b"\xff" * schema.U64.size * 2)

    def get(self, database: bytes, key: bytes) -> bytes | None:
        """Return the value under a key; None if there is none."""
        if database not in self._databases:
            return None
        value = self._transaction.get(key, db=self._databases[database])
        return None if value is None else bytes(value)

    def has(self, database: bytes, key: bytes) -> bool:
        """Tell whether there is a value under a key."""
        return self.get(database, key) is not None

    def is_still_there(self, database: bytes, key: bytes) -> bool:
        """Tell whether there is a value under a key now, after the snapshot."""
        with self.environment.begin() as transaction:
            return transaction.get(key, db=self._databases[database]) is not None

    def number(self, database: bytes, key: bytes) -> int | None:
        """Return the number under a key; None if there is none. Raises DamagedValue."""
        value = self.get(database, key)
        if value is None:
            return None
        if self.format == schema.UNSEALED_FORMAT:
            return int.from_bytes(value, "big")
        return schema.read_number(key, value)

    def count(self, database: bytes) -> int:
        """Return how many values a database has."""
        if database not in self._databases:
            return 0
        return int(self._transaction.stat(self._databases[database])["entries"])


class DamagedSnapshot(Snapshot):
    """The readable part of a damaged file that no other process uses."""

    def __init__(self, damage: Damage, file: PageFile) -> None:
        """Read the format and the definitions. Raises StoreError if this release does not read the format."""
        self.problems = damage.problems
        self._damage: Final = damage
        self._file: Final = file
        self._finder: Final = damage.walk(file)
        self._pages: dict[int, list[int]] = {}
        """Numbers of the pages with references, by the ids that they have some of."""
        self._known: dict[bytes, dict[bytes, bytes]] = {}
        """Databases from which single values were read; none with messages."""
        self._recovered: dict[bytes, dict[bytes, bytes]] = {}
        self._recover()
        self.format = _check_format(self.get(schema.META, schema.FORMAT_KEY) or schema.U32.pack(schema.FORMAT_VERSION))

    @property
    def used_bytes(self) -> int:
        """Bytes of the file in use, as far as the file has them."""
        return min(self._file.size, (self._damage.meta.last_page + 1) * self._file.page_size)

    def keys(self, database: bytes) -> Iterator[bytes]:
        """Yield all keys of a database that can be read."""
        for key, _ in self.items(database):
            yield key

    def items(self, database: bytes, prefix: bytes = b"") -> Iterator[tuple[bytes, bytes]]:
        """Yield the readable keys of a database that begin with `prefix`, with their values."""
        found: Iterable[tuple[bytes, bytes]] = values(self._damage.walk(self._file), database)
        if database in self._recovered:
            found = (dict(found) | self._recovered[database]).items()
        for key, value in found:
            if key.startswith(prefix):
                yield key, value

    def _recover(self) -> None:
        """Name queues whose definitions are lost but whose messages are not, as a start does."""
        queues, addresses = dict(self.items(schema.QUEUES)), dict(self.items(schema.ADDRESSES))
        last_address = max(addresses, default=bytes(schema.U32.size))
        self._pages = self._find_pages()
        ids = {schema.U32.pack(self.inherited.owner_of(id, 0)[0]) for id in self._pages}
        for number, id in enumerate(sorted(ids), schema.U32.unpack(last_address)[0] + 1):
            if id not in queues or queue_name(id, queues[id]) is None:
                for database, (key, value) in (
                    (schema.QUEUES, recovered_queue(schema.U32.unpack(id)[0])),
                    (schema.ADDRESSES, recovered_address(schema.U32.unpack(id)[0], number)),
                ):
                    self._recovered.setdefault(database, {})[key] = value

    def stored_ids(self) -> Iterator[int]:
        """Yield the ids under which references can be read."""
        yield from sorted(self._pages)

    def _find_pages(self) -> dict[int, list[int]]:
        """Return the numbers of the pages with references, in their order, by the ids that they have some of."""
        found: dict[int, list[int]] = {}
        name = schema.REFERENCES.decode()
        walk = self._damage.walk(self._file)
        tree = walk.databases.get(name)
        for page in () if tree is None else walk.leaves(name, tree):
            number = PAGE_HEAD.unpack_from(page)[0]
            for id in {int.from_bytes(key[: schema.U32.size]) for key, _ in walk.entries(name, page)}:
                found.setdefault(id, []).append(number)
        return found

    def _references_in(self, span: Span) -> Iterator[tuple[bytes, bytes]]:
        """Yield the references of a range; from its own pages, because there may be thousands of ranges."""
        prefix = schema.rank_key(span.source_id, span.source_rank)
        for number in self._pages.get(span.source_id, ()):
            for key, value in self._finder.entries(schema.REFERENCES.decode(), self._file.page(number)):
                if key.startswith(prefix):
                    yield key, value

    def get(self, database: bytes, key: bytes) -> bytes | None:
        """Return the value under a key; None if there is none, or if it cannot be read."""
        if database in (schema.MESSAGES, schema.REFERENCES):
            return self._finder.find(database.decode(), key)
        if database not in self._known:
            self._known[database] = dict(self.items(database))
        return self._known[database].get(key)

    def is_still_there(self, database: bytes, key: bytes) -> bool:
        """Tell whether there is a value under a key; no other process changes the file."""
        return self.has(database, key)

    def count(self, database: bytes) -> int:
        """Return how many values of a database can be read."""
        return sum(1 for _ in self.items(database))


def _place_of(span: Span) -> bytes:
    """Return the key that the first reference of a range would have in the queue that it belongs to."""
    return schema.position_key(span.target_id, span.target_rank, span.first)


@contextmanager
def opened(folder: Path, holds_lock: bool = False) -> Iterator[Snapshot]:
    """Yield the store in a folder as it is now, whether a broker uses it or not. Raises StoreError.

    `holds_lock` says that the caller has locked the folder, so that no broker can start.
    """
    file = folder / FILE_NAME
    if not file.exists():
        raise StoreError(f"there is no store in {folder}")
    is_in_use = not holds_lock and has_lock(folder / LOCK_NAME)
    damage = examine_in_use(file) if is_in_use else examine(file)
    if damage is not None and not is_in_use and not holds_lock and has_lock(folder / LOCK_NAME):
        # A broker started while the file was checked.
        damage = examine_in_use(file)
    if damage is not None:
        pages = PageFile(file)
        try:
            yield DamagedSnapshot(damage, pages)
        finally:
            pages.close()
        return
    try:
        with lmdb.open(
            str(folder), readonly=True, map_size=map_size_for(file), max_dbs=len(schema.DATABASES)
        ) as environment:
            version = _read_format(environment)
            names = [name for name in schema.DATABASES if version >= schema.FORMAT_VERSION or name not in _NEW]
            databases = {name: environment.open_db(name, create=False) for name in names}
            with environment.begin() as transaction:
                yield Snapshot(environment, transaction, databases, version)
    except lmdb.Error as error:
        raise StoreError(f"the store in {folder} cannot be read: {error}") from error


def is_logged(snapshot: Snapshot) -> bool:
    """Return whether the write-ahead log may have batches that the snapshot does not have."""
    return has_log(snapshot.format)


def _read_format(environment: lmdb.Environment) -> int:
    """Return the format of a store. Raises StoreError if this release does not read it."""
    meta = environment.open_db(schema.META, create=False)
    with environment.begin() as transaction:
        return _check_format(bytes(transaction.get(schema.FORMAT_KEY, b"", db=meta)))


def _check_format(value: bytes) -> int:
    version = int(schema.U32.unpack(value)[0]) if len(value) == schema.U32.size else 0
    if not schema.UNSEALED_FORMAT <= version <= NEWEST:
        raise StoreError(f"it has format {version}, this release of artemis_py reads {schema.HOSTS_FORMAT}")
    return version
