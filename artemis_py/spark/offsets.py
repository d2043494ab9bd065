"""Offsets: the content of a checkpoint, the end of the next batch, and the ranges into which it is cut.

    {"v": 1, "q": {"<node>|<address>::<queue>": [queue id, next number], ...}, "reader": "<id>", "before": [{...}, ...],
     "passed": {...}}

The number is that of the first message not yet read. The queue id changes when a queue is deleted and created again, so
that an old offset cannot silently mean other messages. The reader identifies the query that has the checkpoint: Spark
tells a source nothing about its query, so a stream draws an id when it begins and finds it again in each offset that it
gets. `before` contains earlier positions, oldest first, if some batches must not be acknowledged yet. If the query
began behind messages that existed, `passed` has that position: it has not read them, and never acknowledges them.
Pure: knows neither connection nor Spark.
"""

import json
from collections.abc import Iterable, Mapping
from itertools import pairwise
from typing import Any, Final, Self

from attrs import evolve, field, frozen

from artemis_py.spark.errors import DataLoss, InvalidOffset
from artemis_py.spark.management import Heads
from artemis_py.spark.receiving import Range

VERSION: Final = 1


@frozen
class Position:
    """Position of a query in one queue."""

    queue_id: int
    next: int


@frozen
class Offset:
    """Positions of a query in all its queues."""

    positions: Mapping[str, Position] = field(factory=dict)
    """Positions by `node|address::queue`."""
    reader: str = ""
    """Id of the stream whose checkpoint this is; empty in a batch query and in an offset that a user wrote."""
    before: tuple[Mapping[str, Position], ...] = ()
    """Positions at which the last batches began."""
    passed: Mapping[str, Position] = field(factory=dict)
    """Positions at which the query began, in queues that had messages before that."""

    @classmethod
    def read(cls, value: Any) -> Self:
        """Return the offset of a value from `written`, or of its JSON text. Raises InvalidOffset."""
        try:
            content = json.loads(value) if isinstance(value, str) else value
            if content["v"] != VERSION:
                raise InvalidOffset(f"an offset of version {content['v']}; this is version {VERSION}")
            before = tuple(_positions(earlier) for earlier in content.get("before", ()))
            passed = _positions(content.get("passed", {}))
            return cls(_positions(content["q"]), str(content.get("reader", "")), before, passed)
        except (ValueError, TypeError, KeyError, AttributeError):
            raise InvalidOffset(
                f"this is not an offset of this source: {str(value)[:200]}; one in a checkpoint has 'q' and 'v'"
            ) from None

    def written(self) -> dict[str, Any]:
        """Return the offset for a checkpoint; equal offsets give equal JSON."""
        content: dict[str, Any] = {"q": _written(self.positions), "v": VERSION}
        if self.reader:
            content["reader"] = self.reader
        if self.before:
            content["before"] = [_written(positions) for positions in self.before]
        if self.passed:
            content["passed"] = _written(self.passed)
        return content

    def since(self, key: str) -> int:
        """Return the first number of a queue that the query has read or will; 0 if it began at the first message."""
        position, passed = self.positions.get(key), self.passed.get(key)
        return passed.next if position and passed and position.queue_id == passed.queue_id else 0

    def begun(self, heads: Heads) -> Self:
        """Return this offset as the beginning of a query, which skips what these queues have before it."""
        first = {key_of(heads.node, head.address, head.queue): head for head in heads.queues}
        passed = {
            key: position
            for key, position in self.positions.items()
            if key in first and first[key].queue_id == position.queue_id and first[key].first < position.next
        }
        return evolve(self, passed=passed)

    def remembering(self, start: Self, count: int) -> Self:
        """Return this end of a batch that began at `start`, with the beginnings of the last `count` batches."""
        return evolve(self, before=(*start.before, start.positions)[-count:])


def _positions(queues: Mapping[str, tuple[int, int]]) -> dict[str, Position]:
    return {key: Position(int(queue_id), int(number)) for key, (queue_id, number) in queues.items()}


def _written(positions: Mapping[str, Position]) -> dict[str, list[int]]:
    return {key: [position.queue_id, position.next] for key, position in sorted(positions.items())}


def key_of(node: str, address: str, queue: str) -> str:
    """Return the name of a queue in an offset."""
    return f"{node}|{address}::{queue}"


def names_of(key: str) -> tuple[str, str]:
    """Return address and queue of a name in an offset."""
    address, _, queue = key.partition("|")[2].partition("::")
    return address, queue


def earliest(heads: Heads) -> Offset:
    """Return the offset before all messages in the queues."""
    return Offset(
        {key_of(heads.node, head.address, head.queue): Position(head.queue_id, head.first) for head in heads.queues}
    )


def latest(heads: Heads) -> Offset:
    """Return the offset behind all messages in the queues."""
    return Offset(
        {key_of(heads.node, head.address, head.queue): Position(head.queue_id, head.next) for head in heads.queues}
    )


def lost(start: Offset, heads: Heads) -> list[str]:
    """Return what `start` promises and the broker does not have any more, one line of text per queue."""
    now = {key_of(heads.node, head.address, head.queue): head for head in heads.queues}
    losses = []
    for key, position in start.positions.items():
        head = now.get(key)
        if head is None:
            losses.append(f"{key} is gone")
        elif head.queue_id != position.queue_id:
            losses.append(f"{key} was created again: its id is {head.queue_id}, it was {position.queue_id}")
        elif head.next < position.next:
            losses.append(f"{key} ends at {head.next}, the offset is {position.next}")
        elif (missing := head.first - position.next - head.never_given(position.next, head.first)) > 0:
            losses.append(f"{key}: {missing} messages from {position.next} up to {head.first - 1} are gone")
    return losses


def ahead(start: Offset, heads: Heads) -> Offset:
    """Return the offset up to which a query could read from `start`; queues that are gone are left out.

    A queue that `start` does not know is added at its first message and read from the next batch on: its beginning
    is then in the checkpoint, and a replayed batch begins where the first attempt did.
    """
    positions = {}
    for head in heads.queues:
        key = key_of(heads.node, head.address, head.queue)
        known = start.positions.get(key)
        if known is not None and known.queue_id == head.queue_id:
            positions[key] = Position(head.queue_id, max(known.next, head.next))
        else:
            positions[key] = Position(head.queue_id, head.first)
    return evolve(start, positions=positions, before=())


def proven(offset: Offset, heads: Heads, end: Offset) -> Offset:
    """Return `offset`, no further than `end`, with only the queues that can have delivered the messages before it.

    A queue that is another one now, or ends before its position, has other messages under these numbers than those that
    were read: its broker was restored from a copy of its store, or keeps nothing when it stops.
    """
    now = {key_of(heads.node, head.address, head.queue): head for head in heads.queues}
    positions = {}
    for key, position in offset.positions.items():
        head, last = now.get(key), end.positions.get(key)
        if head is None or last is None or not head.queue_id == position.queue_id == last.queue_id:
            continue
        number = min(position.next, last.next)
        if number <= head.next:
            positions[key] = Position(head.queue_id, number)
    return evolve(offset, positions=positions)


def turned_back(end: Offset, heads: Heads) -> Offset:
    """Return `end`, but at the first message of a queue that ends before it: none of its messages was read."""
    now = {key_of(heads.node, head.address, head.queue): head for head in heads.queues}
    positions, passed = dict(end.positions), dict(end.passed)
    for key, position in end.positions.items():
        head = now.get(key)
        if head is not None and head.queue_id == position.queue_id and head.next < position.next:
            positions[key] = Position(head.queue_id, head.first)
            passed.pop(key, None)
    return evolve(end, positions=positions, passed=passed)


def reached(start: Offset, heads: Heads) -> Offset:
    """Return `start`, moved up to the first existing messages: numbers that a crash skipped do not count."""
    first = {key_of(heads.node, head.address, head.queue): (head.queue_id, head.first) for head in heads.queues}
    return evolve(
        start,
        positions={
            key: Position(position.queue_id, max(position.next, number) if id == position.queue_id else position.next)
            for key, position in start.positions.items()
            for id, number in (first.get(key, (position.queue_id, 0)),)
        },
        before=(),
    )


def limited(start: Offset, end: Offset, limit: int | None) -> Offset:
    """Return the offset `limit` messages towards `end`, shared among the queues in proportion to their backlog.

    A limit below the number of queues moves some queues only, those with the longest backlog first.
    """
    backlog = dict.fromkeys(end.positions, 0) | {key: part.count for key, part in ranges_by_key(start, end).items()}
    total = sum(backlog.values())
    if limit is None or total <= limit:
        return end
    shares = {key: limit * count // total for key, count in backlog.items()}
    left = limit - sum(shares.values())
    for key in sorted(backlog, key=lambda key: (shares[key] - limit * backlog[key] / total, key)):
        if left <= 0:
            break
        if shares[key] < backlog[key]:
            shares[key] += 1
            left -= 1
    return evolve(
        end,
        positions={
            key: Position(position.queue_id, position.next - backlog[key] + shares[key])
            for key, position in end.positions.items()
        },
    )


def count_within(start: Offset, end: Offset, heads: Heads, max_bytes: int) -> int | None:
    """Return about how many messages between two offsets fit into `max_bytes`, at least 1; None: all of them."""
    averages = {key_of(heads.node, head.address, head.queue): head.average_bytes for head in heads.queues}
    counts = {key: part.count for key, part in ranges_by_key(start, end).items()}
    size = sum(count * averages.get(key, 0) for key, count in counts.items())
    return None if size <= max_bytes else max(1, sum(counts.values()) * max_bytes // size)


def ranges_by_key(start: Offset, end: Offset) -> dict[str, Range]:
    """Return the ranges between two offsets, one per queue; queues that did not move, or are new, have none."""
    found = {}
    for key, position in sorted(end.positions.items()):
        begin = start.positions.get(key)
        if begin is not None and begin.queue_id == position.queue_id and begin.next < position.next:
            address, queue = names_of(key)
            found[key] = Range(
                address=address,
                queue=queue,
                queue_id=position.queue_id,
                start=begin.next,
                stop=position.next,
                node=key.partition("|")[0],
            )
    return found


def cut(parts: Iterable[Range], min_partitions: int, max_messages: int | None) -> list[Range]:
    """Cut ranges into about `min_partitions` of similar size, none longer than `max_messages`; 0 leaves them whole."""
    whole = list(parts)
    total = sum(part.count for part in whole)
    pieces = []
    for part in whole:
        number = max(1, round(min_partitions * part.count / total)) if total and min_partitions > len(whole) else 1
        if max_messages is not None:
            number = max(number, -(-part.count // max_messages))
        number = min(number, part.count)
        bounds = [part.start + part.count * index // number for index in range(number + 1)]
        for begin, stop in pairwise(bounds):
            pieces.append(evolve(part, start=begin, stop=stop))
    return pieces


def refuse(losses: Iterable[str]) -> None:
    """Raise DataLoss that names every loss, if there is one."""
    lines = list(losses)
    if lines:
        raise DataLoss(
            "messages were lost before the query read them: "
            + "; ".join(lines)
            + " (failOnDataLoss=false continues with what is left; what is in the queue stays there until it was read)"
        )
