"""Sums over the references and messages of a store, compared with the counts that the store keeps of them.

    counts    how many references a queue has of each rank, and their size in memory; those that are to be dropped are
              no longer counted
    shares    how many references share a message, to be dropped or not
    bodies    how many messages have a large body

Memory grows with the number of shared messages and large bodies, not with that of references.
"""

from collections import Counter
from collections.abc import Iterator
from typing import Final

from artemis_py.core.messages.message import Message
from artemis_py.core.messages.record import body_id, decode_message
from artemis_py.errors import DamagedValue
from artemis_py.store import schema
from artemis_py.store.writer import SHARED_OFFSET
from artemis_py.storetools.bodies import UnseenBodies
from artemis_py.storetools.snapshot import Snapshot


class Tallies:
    """Counts made again, reference by reference; each is removed when it was compared with the store's."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot: Final = snapshot
        self._references: Counter[bytes] = Counter()
        self._bytes: Counter[bytes] = Counter()
        self._shares: Counter[bytes] = Counter()
        self._shared_sizes: dict[int, int | None] = {}
        """Sizes of shared messages, by id; None if the message cannot be read."""
        self._bodies: Counter[bytes] = Counter()
        self.body_sizes: Final[dict[bytes, tuple[int, int]]] = {}
        """Size and checksum of large bodies, by their keys."""
        self._has_exact_sizes = not snapshot.count(schema.DAMAGED)
        """Whether sizes can be compared: counts leave out values set aside, whose sizes are not known."""
        for key, value in snapshot.items(schema.DAMAGED):
            self._add_set_aside(key, value)

    def add_reference(self, key: bytes, size: int | None) -> None:
        """Count a reference.

        `size` is None if it is not known, because the message or its checksum is damaged.
        """
        rank = key[: schema.RANK_KEY_BYTES]
        self._references[rank] += 1
        self._bytes[rank] += size or 0
        self._has_exact_sizes = self._has_exact_sizes and size is not None

    def add_share(self, id: int) -> int | None:
        """Count a reference to a shared message; return the message's size, if the message can be read."""
        self._shares[schema.U64.pack(id)] += 1
        if id not in self._shared_sizes:
            self._shared_sizes[id] = self._size_of(id)
        return self._shared_sizes[id]

    def _size_of(self, id: int) -> int | None:
        key = schema.U64.pack(id)
        value = self._snapshot.get(schema.MESSAGES, key)
        try:
            return None if value is None else read_message(schema.unseal(key, value)).size
        except DamagedValue:
            return None

    def add_body(self, message: Message) -> None:
        """Count the large body of a stored message, if it has one.

        Raises DamagedValue if other messages state another size or checksum of the body.
        """
        body = message.large
        if body is not None:
            key = schema.U64.pack(body.id)
            self._bodies[key] += 1
            if self.body_sizes.setdefault(key, (body.size, body.checksum)) != (body.size, body.checksum):
                raise DamagedValue(f"large body {body.id} has another size or checksum in other messages")

    def _add_set_aside(self, key: bytes, value: bytes) -> None:
        """Count the large body of a message that was set aside: it stays, so that the message can be repaired."""
        database = key.partition(b"\x00")[0]
        if database in (schema.REFERENCES, schema.MESSAGES):
            is_reference = database == schema.REFERENCES
            id = body_id(value, schema.content_offset(value) + 1 if is_reference else SHARED_OFFSET)
            if id is not None:
                self._bodies[schema.U64.pack(id)] += 1

    def is_shared(self, key: bytes) -> bool:
        """Tell whether any reference shares the message of this key."""
        return key in self._shares

    def take_counts(self, key: bytes, count: int, size_bytes: int) -> None:
        """Compare the store's count of a rank with the references found. Raises DamagedValue if they differ."""
        found, found_bytes = self._references.pop(key, 0), self._bytes.pop(key, 0)
        if found != count:
            raise DamagedValue(f"{found} references are there, {count} were counted")
        if found_bytes != size_bytes and self._has_exact_sizes:
            raise DamagedValue(f"its references take {found_bytes} bytes, {size_bytes} were counted")

    def forget_counts(self, key: bytes) -> None:
        """Leave out the count of a rank, which is there but damaged."""
        self._references.pop(key, None)

    def take_shares(self, key: bytes, count: int) -> None:
        """Compare the store's count of a message's references with those found. Raises DamagedValue if they differ."""
        found = self._shares.pop(key, 0)
        if found != count:
            raise DamagedValue(f"{found} references share the message, {count} were counted")

    def forget_shares(self, key: bytes) -> None:
        """Leave out the count of a shared message, which is there but damaged."""
        self._shares.pop(key, None)

    def forget_bodies(self, key: bytes) -> None:
        """Leave out the count of a large body, which is there but damaged."""
        self._bodies.pop(key, None)

    def take_bodies(self, key: bytes, count: int) -> None:
        """Compare the store's count of a large body with the messages found. Raises DamagedValue if they differ."""
        found = self._bodies.pop(key, 0)
        if found != count:
            raise DamagedValue(f"{found} messages have this body, {count} were counted")

    def not_taken(self) -> Iterator[tuple[bytes, bytes, str]]:
        """Yield database, key and problem of each count that the store does not have."""
        for rank in self._references:
            yield schema.COUNTS, rank, "the count of its references is missing"
        for key in self._shares:
            yield schema.SHARES, key, "the count of a shared message is missing"
        for key in self._bodies:
            yield schema.BODIES, key, "the count of a large body is missing"


def read_message(content: bytes) -> Message:
    """Return a message with what it states about its body, whether that exists or not. Raises DamagedValue."""
    return decode_message(content, {}, UnseenBodies())
