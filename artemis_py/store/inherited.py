"""Inherited ranges: references of one queue that belong to another one, and stay where they are.

An epoch's messages lie under the id of their stage. A queue that gets all of them inherits them: one record says which
sequences they have from then on. So a commit costs the same for ten messages and for a million, and nothing is written
twice:

    place in the store    7 | 1 | 2 | 3 | ... | n        7: id of the stage, whose definition is deleted
    in the queue          2 | 6 | 7 | 8 | ... | n + 5    2: id of the queue, whose next sequence was 6

The store's own code translates in both directions. What is kept for each reference (its count, its failed attempts, a
drop, a value set aside) has the place in the store, so all these agree with each other without a translation. A range
ends with its last reference.

Record in the space "inherited", by u32 id of the stage:

    u8 rank, u64 sequence before the first reference; u32 queue id, u8 rank, u64 first sequence there; u64 references

One table belongs to one environment. Only the writing thread changes it; others see it before or after a change.
"""

from bisect import bisect_right
from collections.abc import Iterable
from struct import Struct
from typing import Final

from artemis_py.errors import DamagedValue
from artemis_py.store import schema
from artemis_py.store.moves import Span

INHERITED: Final = "inherited"
PREFIX: Final[bytes] = schema.record_key(INHERITED, b"")

_RECORD: Final = Struct(">BQIBQQ")
_NOTHING: Final[list[Span]] = []


class Inherited:
    """All inherited ranges of a store."""

    def __init__(self, records: Iterable[tuple[bytes, bytes]] = ()) -> None:
        """Read these records, with their keys; others, and damaged ones, are passed over."""
        self.by_source: Final[dict[int, Span]] = {}
        """Ranges by the id under which their references are."""
        self.targets: Final[dict[int, int]] = {}
        """Number of ranges, by the id of the queue that inherited them."""
        self._by_rank: Final[dict[int, list[Span]]] = {}
        """Ranges by id and rank of the queue, in one number; in the order of their sequences."""
        for key, value in records:
            try:
                self.add(read_record(bytes(key), schema.unseal(bytes(key), bytes(value))))
            except DamagedValue:
                continue

    def add(self, span: Span) -> None:
        """Add a range, unless it is there."""
        if span.source_id in self.by_source:
            return
        both = span.target_id << 8 | span.target_rank
        spans = [*self._by_rank.get(both, _NOTHING), span]
        if len(spans) > 1 and spans[len(spans) - 2].first > span.first:
            spans.sort(key=_first)
        # Not changed in place: another thread may be reading the list.
        self._by_rank[both] = spans
        self.by_source[span.source_id] = span
        self.targets[span.target_id] = self.targets.get(span.target_id, 0) + 1

    def forget(self, source_id: int) -> None:
        """Remove a range, if it is there."""
        span = self.by_source.pop(source_id, None)
        if span is None:
            return
        both = span.target_id << 8 | span.target_rank
        spans = [each for each in self._by_rank[both] if each is not span]
        if spans:
            self._by_rank[both] = spans
        else:
            del self._by_rank[both]
        left = self.targets[span.target_id] - 1
        if left:
            self.targets[span.target_id] = left
        else:
            del self.targets[span.target_id]

    def of_rank(self, queue_id: int, rank: int) -> list[Span]:
        """Return the ranges that a queue inherited in a rank, in order; the list must not be changed."""
        return self._by_rank.get(queue_id << 8 | rank, _NOTHING)

    def of_queue(self, queue_id: int) -> list[Span]:
        """Return all ranges that a queue inherited."""
        if queue_id not in self.targets:
            return _NOTHING
        return [span for span in self.by_source.values() if span.target_id == queue_id]

    def place_of(self, queue_id: int, handle: int) -> tuple[int, int]:
        """Return the queue id and handle under which the store has a reference; flags of the handle stay."""
        if queue_id not in self.targets:
            return queue_id, handle
        plain = schema.plain_handle(handle)
        sequence = schema.number_in(plain)
        spans = self.of_rank(queue_id, schema.rank_in(plain))
        index = bisect_right(spans, sequence, key=_first) - 1
        if index < 0 or sequence >= spans[index].first + spans[index].count:
            return queue_id, handle
        span = spans[index]
        there = span.source_rank << 56 | span.after + 1 + sequence - span.first
        return span.source_id, handle - plain + there

    def owner_of(self, queue_id: int, handle: int) -> tuple[int, int]:
        """Return the queue that a stored reference belongs to, and its handle there: the reverse of `place_of`."""
        span = self.by_source.get(queue_id)
        if span is None:
            return queue_id, handle
        return span.target_id, span.target_rank << 56 | schema.number_in(handle) - span.after - 1 + span.first


class Part:
    """References of a rank of a queue that the store has in one range of keys."""

    __slots__ = ("after", "distance", "queue_id", "rank", "upto")

    def __init__(self, queue_id: int, rank: int, after: int, upto: int, distance: int) -> None:
        self.queue_id: int = queue_id
        self.rank: int = rank
        self.after: int = after
        """Position in the store behind which the range begins."""
        self.upto: int = upto
        self.distance: int = distance
        """Difference of the position in the queue and that in the store."""


def parts_of(spans: list[Span], queue_id: int, rank: int, after: int, upto: int) -> list[Part]:
    """Cut the positions of a queue between two ends into ranges of keys, in order."""
    parts: list[Part] = []
    index = max(0, bisect_right(spans, after, key=_first) - 1)
    while index < len(spans) and spans[index].first <= upto:
        span = spans[index]
        index += 1
        last = span.first + span.count - 1
        if last <= after:
            continue
        if span.first - 1 > after:
            parts.append(Part(queue_id, rank, after, span.first - 1, 0))
            after = span.first - 1
        end = min(last, upto)
        distance = span.first - span.after - 1
        parts.append(Part(span.source_id, span.source_rank, after - distance, end - distance, distance))
        after = end
    if after < upto:
        parts.append(Part(queue_id, rank, after, upto, 0))
    return parts


def record_of(span: Span) -> tuple[bytes, bytes]:
    """Return the key and the value of the record of a range."""
    key = schema.record_key(INHERITED, schema.U32.pack(span.source_id))
    target = (span.target_id, span.target_rank, span.first)
    return key, schema.seal(key, _RECORD.pack(span.source_rank, span.after, *target, span.count))


def read_record(key: bytes, content: bytes) -> Span:
    """Return the range of a record. Raises DamagedValue."""
    name = key[len(PREFIX) :]
    if not key.startswith(PREFIX) or len(name) != schema.U32.size or len(content) != _RECORD.size:
        raise DamagedValue("it is not an inherited range")
    source_id: int = schema.U32.unpack(name)[0]
    source_rank, after, target_id, target_rank, first, count = _RECORD.unpack(content)
    return Span(source_id, source_rank, after, target_id, target_rank, first, count, 0)


def _first(span: Span) -> int:
    return span.first
