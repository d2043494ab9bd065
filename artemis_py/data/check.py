"""`data check`: every value of a store is read, and held against those it belongs with.

    database     each value                        together
    meta         a number of its length
    addresses    checksum, an address              two never have one name
    queues       checksum, a queue                 two never have one name; its id is below next-queue-id
    marks        a number of its length
    references   checksum, a message or the id     its queue is there, its sequence is below the queue's mark, the id
                 of a shared one                   of its message below next-message-id
    messages     checksum, a message               somebody shares it
    shares       a number of its length            so many references share the message, which is there
    attempts     checksum, a count                 there is a reference at this place
    duplicates   checksum                          its address is there

Nothing is changed: a start moves what is damaged out of the way by itself, and keeps it.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from attrs import define, field

from artemis_py.core.message import Message
from artemis_py.data.snapshot import Progress, Snapshot, opened
from artemis_py.store import schema
from artemis_py.store.definitions import read_address, read_queue
from artemis_py.store.schema import DamagedValue

_NO_FORMATS: Final[Mapping[str, schema.MissingFormat]] = {}

_META_SIZES: Final = {
    schema.FORMAT_KEY: schema.U32.size,
    schema.NEXT_MESSAGE_ID: schema.U64.size,
    schema.NEXT_QUEUE_ID: schema.U32.size,
}


@define
class Findings:
    """What a check saw."""

    values: int = 0
    problems: list[str] = field(factory=list)
    """In the words `database key: what is wrong`, keys in hexadecimal."""
    damaged: list[str] = field(factory=list)
    """Values that an earlier start set aside."""


def check(folder: Path, progress: Progress = lambda done, total: None) -> Findings:
    """Read every value and hold them against each other. Raises StoreError if there is no store to read."""
    with opened(folder) as snapshot:
        return _Check(snapshot, progress).run()


def check_folder(folder: Path) -> list[str]:
    """What is wrong with the store in a folder, in words; empty if it is sound. Raises StoreError as `check` does."""
    return check(folder).problems


class _Check:
    """One pass over a snapshot. Memory grows with the number of shared messages only."""

    def __init__(self, snapshot: Snapshot, progress: Progress) -> None:
        self._snapshot = snapshot
        self._progress = progress
        self._total = sum(snapshot.count(database) for database in schema.DATABASES)
        self._findings = Findings()
        self._shares: Counter[bytes] = Counter()
        self._names: set[tuple[bytes, str]] = set()
        self._marks = {key: self._number(schema.MARKS, key) for key in snapshot.keys(schema.MARKS)}
        self._next_message_id = self._number(schema.META, schema.NEXT_MESSAGE_ID)
        self._next_queue_id = self._number(schema.META, schema.NEXT_QUEUE_ID)
        self._readers: Mapping[bytes, Callable[[bytes, bytes], None]] = {
            schema.META: self._meta,
            schema.ADDRESSES: self._address,
            schema.QUEUES: self._queue,
            schema.MARKS: _mark,
            schema.REFERENCES: self._reference,
            schema.MESSAGES: self._message,
            schema.SHARES: self._share,
            schema.ATTEMPTS: self._attempts,
            schema.DUPLICATES: self._duplicate,
            schema.DAMAGED: self._set_aside,
        }

    def run(self) -> Findings:
        """Everything, in the order of `schema.DATABASES`: `shares` come after the references and messages."""
        for database in schema.DATABASES:
            read = self._readers.get(database, _whatever)
            for key, value in self._snapshot.items(database):
                self._findings.values += 1
                self._progress(self._findings.values, self._total)
                try:
                    read(key, value)
                except DamagedValue as error:
                    self._say(database, key, str(error))
        for key in self._shares:
            self._say(schema.SHARES, key, "the count of a shared message is missing")
        return self._findings

    def _meta(self, key: bytes, value: bytes) -> None:
        if key in _META_SIZES and len(value) != _META_SIZES[key]:
            raise DamagedValue("it is no number")

    def _address(self, key: bytes, value: bytes) -> None:
        self._take_name(schema.ADDRESSES, read_address(schema.unseal(key, value)).name)

    def _queue(self, key: bytes, value: bytes) -> None:
        config = read_queue(schema.unseal(key, value)).config
        self._take_name(schema.QUEUES, config.name)
        if schema.U32.unpack(key)[0] >= self._next_queue_id:
            raise DamagedValue("its id may be given again: next-queue-id is not above it")

    def _reference(self, key: bytes, value: bytes) -> None:
        content = schema.unseal(key, value)
        id = schema.shared_id(content)
        if id is None:
            self._known_id(schema.decode_message(content[1:], _NO_FORMATS))
        else:
            self._shares[schema.U64.pack(id)] += 1
        queue_id, handle = schema.read_place(key)
        queue_key = schema.U32.pack(queue_id)
        if not self._snapshot.has(schema.QUEUES, queue_key):
            raise DamagedValue("its queue is not there")
        if schema.sequence_in(handle) >= self._marks.get(queue_key, 1):
            raise DamagedValue("its sequence may be given again: the mark of its queue is not above it")

    def _message(self, key: bytes, value: bytes) -> None:
        self._known_id(schema.decode_message(schema.unseal(key, value), _NO_FORMATS))
        if key not in self._shares:
            raise DamagedValue("no reference shares it")

    def _share(self, key: bytes, value: bytes) -> None:
        counted = self._shares.pop(key, 0)
        stored = int(schema.U32.unpack(value)[0]) if len(value) == schema.U32.size else -1
        if counted != stored:
            self._say(schema.SHARES, key, f"{counted} references share the message, {stored} were counted")
        if not self._snapshot.has(schema.MESSAGES, key):
            raise DamagedValue("its message is missing")

    def _attempts(self, key: bytes, value: bytes) -> None:
        schema.read_attempts(key, value)
        if not self._snapshot.has(schema.REFERENCES, key):
            raise DamagedValue("there is no reference at this place")

    def _duplicate(self, key: bytes, value: bytes) -> None:
        schema.unseal(key, value)
        if not self._snapshot.has(schema.ADDRESSES, key[: schema.U32.size]):
            raise DamagedValue("its address is not there")

    def _set_aside(self, key: bytes, value: bytes) -> None:
        database, _, original = key.partition(b"\x00")
        self._findings.damaged.append(f"{database.decode()} {original.hex()}")

    def _known_id(self, message: Message) -> None:
        if message.id >= self._next_message_id:
            raise DamagedValue("its message id may be given again: next-message-id is not above it")

    def _take_name(self, database: bytes, name: str) -> None:
        if (database, name) in self._names:
            raise DamagedValue(f"there is another one called '{name}'")
        self._names.add((database, name))

    def _number(self, database: bytes, key: bytes) -> int:
        """A number of four or eight octets; 0 if it is missing or none, which is said when its turn comes."""
        value = self._snapshot.get(database, key)
        return int.from_bytes(value, "big") if value is not None and len(value) in (4, 8) else 0

    def _say(self, database: bytes, key: bytes, problem: str) -> None:
        self._findings.problems.append(f"{database.decode()} {key.hex()}: {problem}")


def _mark(key: bytes, value: bytes) -> None:
    if len(value) != schema.U64.size:
        raise DamagedValue("it is no number")


def _whatever(key: bytes, value: bytes) -> None:
    """Nothing is known about it."""
