"""Moves a range of a queue's stored messages into another queue, within one transaction and without decoding them.

A move needs everything that was put into its range to be in LMDB, in this transaction or before it; then its outcome
depends on nothing but its span, which is what a write-ahead log records. A log folds a move with everything that was
put before it, and at once: nobody can read the messages before that (`Queue.arrived`).
"""

from struct import Struct
from typing import Any, Final
from zlib import crc32

from artemis_py.core.queues.arrival import Arrival
from artemis_py.core.queues.reference import PRIORITIES
from artemis_py.store import schema

# Bytes that are in memory between the old places and the new ones, approximately.
CHUNK_BYTES: Final = 4 << 20

_PLACE: Final = Struct(">IQ")


class Span:
    """References of one rank that become references of another queue, in the same order."""

    __slots__ = ("after", "count", "first", "size_bytes", "source_id", "source_rank", "target_id", "target_rank")

    # Long because it has both sides.
    def __init__(
        self,
        source_id: int,
        source_rank: int,
        after: int,
        target_id: int,
        target_rank: int,
        first: int,
        count: int,
        size_bytes: int,
    ) -> None:
        self.source_id: int = source_id
        self.source_rank: int = source_rank
        self.after: int = after
        """Sequence before the first one; `count` consecutive ones follow."""
        self.target_id: int = target_id
        self.target_rank: int = target_rank
        self.first: int = first
        """Sequence that the first one gets."""
        self.count: int = count
        self.size_bytes: int = size_bytes
        """Their size in memory (`Message.size`)."""


class Move:
    """A span, and the arrival that the core made of it."""

    __slots__ = ("arrival", "inherits", "span")

    def __init__(self, source_id: int, source_rank: int, after: int, arrival: Arrival, inherits: bool = False) -> None:
        self.arrival: Arrival = arrival
        self.inherits: bool = inherits
        """Whether the references stay where they are (`inherited`); they are all that the source has."""
        rank = PRIORITIES - 1 - arrival.priority
        count, size_bytes = arrival.count, arrival.size_bytes
        self.span: Span = Span(source_id, source_rank, after, arrival.queue.id, rank, arrival.first, count, size_bytes)


class Moved:
    """What became of a span."""

    __slots__ = ("count", "damaged", "gone", "size_bytes")

    def __init__(self) -> None:
        self.count: int = 0
        """Number of references that have a new place."""
        self.gone: int = 0
        """Number of references that left the old places: these, and the damaged ones."""
        self.damaged: list[tuple[bytes, bytes]] = []
        """Keys and values of references whose checksum is wrong; their new places stay empty."""
        self.size_bytes: int = 0
        """Bytes of all values."""


def carry_out(transaction: Any, references: Any, span: Span) -> Moved:
    """Move a span in the database of references. Long because it runs once per message."""
    moved = Moved()
    pack, unpack = _PLACE.pack, _PLACE.unpack
    seal, checksum = schema.U32.pack, schema.U32.unpack_from
    source_id, target_id = span.source_id, span.target_id
    handle: int = schema.handle_of(PRIORITIES - 1 - span.source_rank, span.after)
    last: int = handle + span.count
    distance: int = schema.handle_of(PRIORITIES - 1 - span.target_rank, span.first) - handle - 1
    cursor = transaction.cursor(db=references)
    while cursor.set_range(pack(source_id, handle + 1)):
        first_key = cursor.key()
        pairs: list[tuple[bytes, bytes]] = []
        gone = chunk_bytes = 0
        for key, value in cursor:
            if len(key) != _PLACE.size:
                break
            queue_id, at = unpack(key)
            if queue_id != source_id or at > last or chunk_bytes >= CHUNK_BYTES:
                break
            gone += 1
            handle = at
            chunk_bytes += len(value)
            content = value[4:]
            if checksum(value)[0] != crc32(content, crc32(key)):
                moved.damaged.append((key, value))
                continue
            new_key = pack(target_id, at + distance)
            pairs.append((new_key, seal(crc32(content, crc32(new_key))) + content))
        if gone == 0:
            break
        cursor.set_key(first_key)
        for _ in range(gone):
            cursor.delete()
        # In one call, which finds the place of most keys beside the one before.
        cursor.putmulti(pairs)
        moved.count += len(pairs)
        moved.gone += gone
        moved.size_bytes += chunk_bytes
    return moved
