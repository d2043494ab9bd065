"""Recovers what it can from a file in which no page leads to the data: page by page, value by value.

A store whose list of databases is lost, as in most files that were cut, still has most of its values, and each has a
checksum of its key and content. So every leaf page is read, wherever it stands, and each value is recognized by the
length of its key and by its content. What cannot be told is which values are still wanted: LMDB never writes over a
page that a reader may see, so a page of an earlier commit looks like one of the last. Messages that were consumed, and
queues that were deleted, may be among what is found. No broker starts on such a store; an export may contain it, and
says so.
"""

from collections.abc import Iterator
from mmap import PAGESIZE
from pathlib import Path
from typing import Any, Final

import lmdb

from artemis_py.core.messages.record import message_size
from artemis_py.errors import DamagedValue
from artemis_py.store import last_values, schema
from artemis_py.store.definitions import (
    queue_name,
    read_address,
    read_queue,
    recovered_address,
    recovered_queue,
)
from artemis_py.store.inherited import Inherited
from artemis_py.store.numbers import format_of
from artemis_py.store.page_file import META_BYTES, Meta, PageFile
from artemis_py.store.structure import Walk

# Most octets in one commit of the copy, so that memory stays flat.
COMMIT_BYTES: Final = 64 << 20

_ATTEMPTS_BYTES: Final = 12


def scan(path: Path, target: Path, map_bytes: int) -> int:
    """Make a store in the folder `target` from all values anywhere in the file; return how many were found.

    Raises lmdb.Error, OSError.
    """
    file = PageFile(path)
    try:
        with lmdb.open(str(target), map_size=map_bytes, max_dbs=len(schema.DATABASES), sync=False) as environment:
            return _Scan(environment).run(_values(file))
    finally:
        file.close()


def _values(file: PageFile) -> Iterator[tuple[bytes, bytes]]:
    """Yield keys and values of all leaf pages, in the order of the pages."""
    if not file.page_size:
        file.page_size = PAGESIZE
    meta = Meta(bytes(META_BYTES))
    meta.last_page = file.size // file.page_size
    walk = Walk(file, meta, {})
    for page in walk.stray_leaves():
        yield from walk.entries("", page)


class _Scan:
    """The new store, while it is filled."""

    def __init__(self, environment: lmdb.Environment) -> None:
        self._environment: Final = environment
        with environment.begin(write=True) as transaction:
            self._databases: Final[dict[bytes, Any]] = {
                name: environment.open_db(name, txn=transaction) for name in schema.DATABASES
            }

    def run(self, values: Iterator[tuple[bytes, bytes]]) -> int:
        """Put each value into its database, then complete the store; return how many values were found."""
        transaction = self._environment.begin(write=True)
        found = size = 0
        for key, value in values:
            name = _database_of(key, value)
            if name is None:
                continue
            transaction.put(key, self._newer(transaction, name, key, value), db=self._databases[name])
            found += 1
            size += len(key) + len(value)
            if size > COMMIT_BYTES:
                transaction.commit()
                transaction = self._environment.begin(write=True)
                size = 0
        transaction.commit()
        with self._environment.begin(write=True) as transaction:
            self._part_attempts(transaction)
            self._name_queues(transaction)
            version = format_of(transaction, self._databases[schema.RECORDS])
            transaction.put(schema.FORMAT_KEY, version, db=self._databases[schema.META])
        return found

    def _newer(self, transaction: Any, name: bytes, key: bytes, value: bytes) -> bytes:
        """Return the value to keep for a key: the higher of two numbers, which only go up; else the one found last."""
        there = transaction.get(key, db=self._databases[name])
        if there is None or name not in (schema.MARKS, schema.META):
            return value
        return max(value, bytes(there), key=lambda one: schema.read_number(key, one))

    def _part_attempts(self, transaction: Any) -> None:
        """Move duplicate ids of twelve octets out of the delivery counts, which have a reference at their place."""
        references = self._databases[schema.REFERENCES]
        cursor = transaction.cursor(db=self._databases[schema.ATTEMPTS])
        found = cursor.first()
        while found:
            key, value = bytes(cursor.key()), bytes(cursor.value())
            if transaction.get(key, db=references) is not None:
                found = cursor.next()
                continue
            if len(key) in schema.KEY_LENGTHS[schema.DUPLICATES]:
                transaction.put(key, value, db=self._databases[schema.DUPLICATES])
            cursor.delete()
            found = bool(cursor.key())

    def _name_queues(self, transaction: Any) -> None:
        """Make queues for messages without one, and rename queues whose name another one has."""
        queues, addresses = self._databases[schema.QUEUES], self._databases[schema.ADDRESSES]
        ids: dict[str, bytes] = {}
        unnamed: set[bytes] = set()
        for key, value in list(transaction.cursor(db=queues)):
            name = queue_name(key, value)
            assert name is not None, "it was read before"
            if name in ids:
                unnamed.add(ids[name])
            ids[name] = key
        inherited = Inherited(transaction.cursor(db=self._databases[schema.RECORDS]))
        cursor = transaction.cursor(db=self._databases[schema.REFERENCES])
        found = cursor.first()
        while found:
            key = bytes(cursor.key())[: schema.U32.size]
            owner = schema.U32.pack(inherited.owner_of(schema.U32.unpack(key)[0], 0)[0])
            if transaction.get(owner, db=queues) is None:
                unnamed.add(owner)
            found = cursor.set_range(schema.U32.pack(schema.U32.unpack(key)[0] + 1))
        last = transaction.cursor(db=addresses)
        next_id = schema.U32.unpack(last.key())[0] + 1 if last.last() else 1
        for address_id, key in enumerate(sorted(unnamed), next_id):
            id = schema.U32.unpack(key)[0]
            transaction.put(*recovered_queue(id), db=queues)
            transaction.put(*recovered_address(id, address_id), db=addresses)


def _database_of(key: bytes, value: bytes) -> bytes | None:
    """Return the database of a value; None if it is damaged, or not needed by any export."""
    try:
        content = schema.unseal(key, value)
    except DamagedValue:
        return None
    if content.startswith(last_values.MARK):
        # References have their last-value keys themselves.
        return None
    if key in schema.NUMBERS:
        return schema.META
    if len(key) == schema.U32.size:
        return _definition(content)
    if len(key) == schema.U64.size and message_size(content) is not None:
        return schema.MESSAGES
    if len(key) in schema.KEY_LENGTHS[schema.REFERENCES]:
        return _of_queue(key, content)
    return schema.RECORDS if b"\x00" in key and len(key) > schema.RANK_KEY_BYTES else None


def _definition(content: bytes) -> bytes | None:
    if len(content) == schema.U64.size:
        return schema.MARKS
    for name, read in ((schema.QUEUES, read_queue), (schema.ADDRESSES, read_address)):
        try:
            read(content)
        except DamagedValue:
            continue
        return name
    return None


def _of_queue(key: bytes, content: bytes) -> bytes | None:
    try:
        plain = schema.split_key(content)[1]
        if schema.shared_id(plain) is not None or message_size(plain, 1) is not None:
            return schema.REFERENCES
    except DamagedValue:
        pass
    if len(content) == _ATTEMPTS_BYTES:
        return schema.ATTEMPTS
    return schema.DUPLICATES if len(key) in schema.KEY_LENGTHS[schema.DUPLICATES] else None
