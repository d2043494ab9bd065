"""Copies what can be read of a damaged store into a new one beside it.

    values of a page that is not readable       are lost; for each queue the log says how many messages are left
    counts of references, sharers and bodies    are made again from what was copied
    the index of last-value queues              is made again in the same way
    numbers that must not be used twice         continue far above, if the page with them is lost (`numbers`)
    references whose queue is lost              stay; the start gives them a queue of their own (`recovery`)
    shared messages without references          move to `damaged`: their queues are not known
    large bodies without references             stay, now and at later starts: the messages with them may be lost

A value with a wrong checksum is copied as it is; it is set aside when it is read, as in any other store.
"""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import lmdb

from artemis_py.core.messages.message import MESSAGE_OVERHEAD_BYTES
from artemis_py.core.messages.record import body_id, message_size
from artemis_py.errors import DamagedValue
from artemis_py.store import last_values, schema
from artemis_py.store.condition import Damage
from artemis_py.store.definitions import queue_name
from artemis_py.store.inherited import PREFIX, Inherited
from artemis_py.store.numbers import Numbers, format_of
from artemis_py.store.page_file import PageFile
from artemis_py.store.structure import Walk
from artemis_py.store.writer import DROP_SLICE, SHARED_OFFSET, Writer

# Most octets in one commit of the copy, so that memory stays flat.
COMMIT_BYTES: Final = 64 << 20

U32_BYTES: Final = schema.U32.size


class Salvage:
    """Copy of one damaged file into a new environment."""

    def __init__(self, damage: Damage, file: PageFile, environment: lmdb.Environment, next_body_id: int) -> None:
        """Prepare the copy; large bodies below `next_body_id` stay, even without references."""
        self._environment: Final = environment
        self._next_body_id: Final = next_body_id
        self._walk: Final = damage.walk(file)
        self._is_older: Final = damage.is_older
        with environment.begin(write=True) as transaction:
            self._databases: Final[dict[bytes, Any]] = {
                name: environment.open_db(name, txn=transaction) for name in schema.DATABASES
            }

    def run(self) -> list[str]:
        """Copy; return what was lost, in words."""
        for name in schema.DATABASES:
            self._copy(name)
        with self._environment.begin(write=True) as transaction:
            self._clear(transaction, schema.SHARES, schema.BODIES)
            expected = self._expected(transaction)
        self._count_shares()
        self._drop_all()
        with self._environment.begin(write=True) as transaction:
            self._clear(transaction, schema.COUNTS, schema.LAST_VALUES)
            found = self._count_references(transaction)
            self._forget_orphans(transaction)
            self._set_numbers(transaction)
            return list(self._losses(transaction, expected, found))

    # -- copying -------------------------------------------------------------------------------------------------

    def _copy(self, name: bytes) -> None:
        """Copy everything that can be read of a database."""
        tree = self._walk.databases.get(name.decode())
        if tree is None:
            self._walk.damaged.add(name.decode())
            return
        transaction = self._environment.begin(write=True)
        size = 0
        for key, value in values(self._walk, name):
            transaction.put(key, value, db=self._databases[name])
            size += len(key) + len(value)
            if size > COMMIT_BYTES:
                transaction.commit()
                transaction = self._environment.begin(write=True)
                size = 0
        transaction.commit()

    def _is_lost(self, name: bytes) -> bool:
        """Tell whether something of a database may be missing."""
        return name.decode() in self._walk.damaged

    def _expected(self, transaction: Any) -> dict[bytes, int]:
        """Return how many references there were, by rank; without ranks whose count is damaged."""
        expected = {}
        for key, value in transaction.cursor(db=self._databases[schema.COUNTS]):
            try:
                expected[bytes(key)] = schema.read_counts(bytes(key), bytes(value))[0]
            except DamagedValue:
                continue
        return expected

    def _clear(self, transaction: Any, *names: bytes) -> None:
        for name in names:
            transaction.drop(self._databases[name], delete=False)

    # -- counting ------------------------------------------------------------------------------------------------

    def _count_shares(self) -> None:
        """Count the references to each shared message and the messages with each large body, dropped ones included."""
        shares: Counter[bytes] = Counter()
        large: Counter[int] = Counter()
        with self._environment.begin(write=True) as transaction:
            for _, value in transaction.cursor(db=self._databases[schema.REFERENCES]):
                content = bytes(value)
                offset = schema.content_offset(content)
                if content[offset : offset + 1] == schema.SHARING:
                    shares[content[offset + 1 :]] += 1
                else:
                    _count_body(large, content, offset + 1)
            messages = self._databases[schema.MESSAGES]
            unshared = []
            for key, value in transaction.cursor(db=messages):
                _count_body(large, bytes(value), SHARED_OFFSET)
                if bytes(key) in shares:
                    transaction.put(key, schema.count_value(bytes(key), shares[bytes(key)]), db=self._share_counts)
                else:
                    unshared.append(bytes(key))
            for lone in unshared:
                value = transaction.get(lone, b"", db=messages)
                transaction.put(schema.MESSAGES + b"\x00" + lone, bytes(value), db=self._databases[schema.DAMAGED])
                transaction.delete(lone, db=messages)
            self.unshared = len(unshared)
            for id, count in large.items():
                body_key = schema.U64.pack(id)
                transaction.put(body_key, schema.count_value(body_key, count), db=self._databases[schema.BODIES])

    @property
    def _share_counts(self) -> Any:
        return self._databases[schema.SHARES]

    def _drop_all(self) -> None:
        """Delete the references that were to be deleted, so that they are not counted."""
        while True:
            with self._environment.begin(write=True) as transaction:
                if not Writer(self._databases, transaction, DROP_SLICE).drop_some():
                    return

    def _count_references(self, transaction: Any) -> dict[bytes, int]:
        """Count the references of each rank; store the counts and return them."""
        found: Counter[bytes] = Counter()
        sizes: Counter[bytes] = Counter()
        shared: dict[bytes, int] = {}
        for key, value in transaction.cursor(db=self._databases[schema.REFERENCES]):
            rank = bytes(key[: schema.RANK_KEY_BYTES])
            content = bytes(value)
            found[rank] += 1
            offset = schema.content_offset(content)
            size = 0
            if content[offset : offset + 1] != schema.SHARING:
                size = _message_size(content, offset + 1)
            else:
                id = content[offset + 1 :]
                if id not in shared:
                    message = transaction.get(id, b"", db=self._databases[schema.MESSAGES]) if len(id) == 8 else b""
                    shared[id] = _message_size(bytes(message), SHARED_OFFSET)
                size = shared[id]
            sizes[rank] += size
            last_key = schema.last_key_in(content)
            if last_key is not None:
                self._note_last(transaction, bytes(key), last_key, size)
        for rank, count in found.items():
            transaction.put(rank, schema.counts(rank, count, sizes[rank]), db=self._databases[schema.COUNTS])
        return dict(found)

    def _note_last(self, transaction: Any, key: bytes, last_key: bytes, size_bytes: int) -> None:
        """Note the newest reference of a last-value key again; there are more if an older commit is read."""
        queue_id, handle = schema.read_place(key)
        index_key = last_values.entry_key(queue_id, last_key)
        there = transaction.get(index_key, db=self._databases[schema.LAST_VALUES])
        if there is not None:
            before = last_values.read_entry(index_key, bytes(there))[0]
            if schema.number_in(before) > schema.number_in(handle):
                return
        value = last_values.entry_value(index_key, handle, size_bytes)
        transaction.put(index_key, value, db=self._databases[schema.LAST_VALUES])

    def _forget_orphans(self, transaction: Any) -> None:
        """Delete delivery counts and duplicate ids whose reference or address is missing."""
        references, addresses = self._databases[schema.REFERENCES], self._databases[schema.ADDRESSES]
        for name, owners, length in ((schema.ATTEMPTS, references, None), (schema.DUPLICATES, addresses, U32_BYTES)):
            cursor = transaction.cursor(db=self._databases[name])
            found = cursor.first()
            while found:
                if transaction.get(bytes(cursor.key())[:length], db=owners) is not None:
                    found = cursor.next()
                else:
                    cursor.delete()
                    found = bool(cursor.key())

    # -- definitions and numbers ---------------------------------------------------------------------------------

    def _set_numbers(self, transaction: Any) -> None:
        """Make lost numbers again, and have the large bodies kept."""
        numbers = Numbers(self._databases, transaction)
        meta = self._databases[schema.META]
        for name in (schema.NEXT_MESSAGE_ID, schema.NEXT_QUEUE_ID, schema.NEXT_SCHEDULED):
            if self._is_lost(schema.META) and transaction.get(name, db=meta) is None:
                transaction.put(name, schema.number_value(name, numbers.next_number(name)), db=meta)
        if transaction.get(schema.FORMAT_KEY, db=meta) is None:
            version = format_of(transaction, self._databases[schema.RECORDS])
            transaction.put(schema.FORMAT_KEY, version, db=meta)
        kept = schema.number_value(schema.KEPT_BODIES, self._next_body_id)
        transaction.put(schema.KEPT_BODIES, kept, db=meta)
        if not self._is_lost(schema.MARKS):
            return
        marks = self._databases[schema.MARKS]
        for key, _ in transaction.cursor(db=self._databases[schema.QUEUES]):
            if transaction.get(key, db=marks) is None:
                # A start takes a value that is no number for damaged, and continues far above.
                transaction.put(key, b"", db=marks)

    def _inherited(self, transaction: Any) -> Iterator[tuple[bytes, bytes]]:
        """Yield the records of inherited ranges."""
        cursor = transaction.cursor(db=self._databases[schema.RECORDS])
        if cursor.set_range(PREFIX):
            for key, value in cursor:
                if not bytes(key).startswith(PREFIX):
                    return
                yield bytes(key), bytes(value)

    # -- what to say ---------------------------------------------------------------------------------------------

    def _losses(self, transaction: Any, expected: dict[bytes, int], found: dict[bytes, int]) -> Iterator[str]:
        names = {}
        for key, value in transaction.cursor(db=self._databases[schema.QUEUES]):
            id = schema.U32.unpack(key)[0]
            names[id] = queue_name(bytes(key), bytes(value)) or str(id)
        was, left = Counter[int](), Counter[int]()
        inherited = Inherited(self._inherited(transaction))
        for counted, total in ((expected, was), (found, left)):
            for rank, count in counted.items():
                total[inherited.owner_of(schema.read_rank(rank)[0], 0)[0]] += count
        for id in sorted(names.keys() | was.keys() | left.keys()):
            name = names.get(id, f"{id} (its name is lost)")
            if left[id] < was[id]:
                yield f"queue {name}: {was[id] - left[id]} of {was[id]} messages are lost"
            elif left[id] > was[id] and self._is_lost(schema.COUNTS):
                yield f"queue {name}: {left[id]} messages are there, how many there were is not known"
        if self._is_older:
            yield "the last commit cannot be read: what it stored is lost, and what it removed is there again"
        if self.unshared:
            yield f"{self.unshared} shared messages were set aside: their queues are not known"
        for database in sorted(self._walk.damaged & {one.decode() for one in _LOST_WORDS}):
            yield f"{_LOST_WORDS[database.encode()]} were damaged, some may be lost"


_LOST_WORDS: Final = {
    schema.ADDRESSES: "addresses",
    schema.QUEUES: "queues",
    schema.DROPS: "notes of what was purged",
    schema.MESSAGES: "shared messages",
    schema.ATTEMPTS: "delivery counts",
    schema.DUPLICATES: "duplicate ids",
    schema.RECORDS: "records of protocols (sessions, retained messages, positions of readers)",
}


def values(walk: Walk, name: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Yield what can be read of a database, in the order of the keys as far as its pages are in order."""
    tree = walk.databases.get(name.decode())
    if tree is None:
        return
    for page in walk.leaves(name.decode(), tree):
        yield from walk.entries(name.decode(), page)


def copy_readable(damage: Damage, target: Path, map_bytes: int, next_body_id: int) -> list[str]:
    """Make a synced store in the folder `target`; return what was lost, in words. Raises lmdb.Error, OSError."""
    file = PageFile(damage.path)
    try:
        with lmdb.open(str(target), map_size=map_bytes, max_dbs=len(schema.DATABASES), sync=False) as environment:
            losses = Salvage(damage, file, environment, next_body_id).run()
            environment.sync(True)
        return losses
    finally:
        file.close()


def _count_body(large: "Counter[int]", value: bytes, offset: int) -> None:
    id = body_id(value, offset)
    if id is not None:
        large[id] += 1


def _message_size(value: bytes, offset: int) -> int:
    """Return a message's size in memory; an estimate if the message is damaged."""
    size = message_size(value, offset)
    return len(value) + MESSAGE_OVERHEAD_BYTES if size is None else size
