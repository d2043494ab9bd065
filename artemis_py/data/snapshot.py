"""One moment of a store, read from outside.

Reading needs no lock: LMDB gives every reader a state of its own, also while a broker writes. As long as one reads,
the broker's file cannot reuse pages, so a look at a large store in heavy use makes the file grow a little.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import lmdb

from artemis_py.errors import StoreError
from artemis_py.store import schema
from artemis_py.store.environment import FILE_NAME, map_size_for

Progress = Callable[[int, int], None]
"""Told how much is done, and of how much; called often, and should return at once."""


class Snapshot:
    """One moment of a store."""

    def __init__(
        self,
        environment: lmdb.Environment,
        transaction: lmdb.Transaction,
        databases: "dict[bytes, lmdb._Database]",
        version: int,
    ) -> None:
        self.environment: Final = environment
        self.format: Final = version
        self._transaction: Final = transaction
        self._databases: Final = databases

    @property
    def used_bytes(self) -> int:
        """Of the file; the rest is free for reuse."""
        return int((self.environment.info()["last_pgno"] + 1) * self.environment.stat()["psize"])

    def keys(self, database: bytes) -> Iterator[bytes]:
        """All keys of a database, in order."""
        cursor = self._transaction.cursor(db=self._databases[database])
        for key in cursor.iternext(keys=True, values=False):
            yield bytes(key)

    def items(self, database: bytes, prefix: bytes = b"") -> Iterator[tuple[bytes, bytes]]:
        """Keys that begin so and values of a database, in order."""
        cursor = self._transaction.cursor(db=self._databases[database])
        if cursor.set_range(prefix):
            for key, value in cursor:
                if not bytes(key).startswith(prefix):
                    return
                yield bytes(key), bytes(value)

    def get(self, database: bytes, key: bytes) -> bytes | None:
        """The value under a key; None if there is none."""
        value = self._transaction.get(key, db=self._databases[database])
        return None if value is None else bytes(value)

    def has(self, database: bytes, key: bytes) -> bool:
        """Whether there is a value under a key."""
        return self.get(database, key) is not None

    def is_still_there(self, database: bytes, key: bytes) -> bool:
        """Whether there is a value under a key by now."""
        with self.environment.begin() as transaction:
            return transaction.get(key, db=self._databases[database]) is not None

    def number(self, database: bytes, key: bytes) -> int | None:
        """The number under a key; None if there is none. Raises DamagedValue."""
        value = self.get(database, key)
        if value is None:
            return None
        if self.format == schema.UNSEALED_FORMAT:
            return int.from_bytes(value, "big")
        return schema.read_number(key, value)

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
        with lmdb.open(
            str(folder), readonly=True, map_size=map_size_for(file), max_dbs=len(schema.DATABASES)
        ) as environment:
            version = _read_format(environment)
            databases = {name: environment.open_db(name, create=False) for name in schema.DATABASES}
            with environment.begin() as transaction:
                yield Snapshot(environment, transaction, databases, version)
    except lmdb.Error as error:
        raise StoreError(f"the store in {folder} cannot be read: {error}") from error


def _read_format(environment: lmdb.Environment) -> int:
    """Raises StoreError if this release does not read it."""
    meta = environment.open_db(schema.META, create=False)
    with environment.begin() as transaction:
        value = transaction.get(schema.FORMAT_KEY, db=meta)
    version = 0 if value is None or len(value) != schema.U32.size else int(schema.U32.unpack(value)[0])
    if version not in (schema.UNSEALED_FORMAT, schema.FORMAT_VERSION):
        raise StoreError(f"it has format {version}, this release of artemis_py reads {schema.FORMAT_VERSION}")
    return version
