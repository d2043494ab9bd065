"""Streaming queries, `spark.readStream.format("amqp")`: where each batch begins and ends, when what is acknowledged.

Spark calls these methods in one worker beside the driver, except for `read`, which runs in the tasks on a copy made
before any of them was called. Three habits of the engine decide the shape (docs/spark.md):

* `initialOffset` is asked again when the first batch is replayed. So the first batch is always empty: its end is the
  start, written into the checkpoint before any message is read, and cannot move any more.
* `latestOffset(start)` is called when the batch that ends at `start` has its entry in the commit log: everything
  before `start` may be acknowledged. `commit` comes one batch later, and for the last batch of a run not at all.
* An error in the driver's calls ends the query, so they try again themselves.
"""

import logging
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final
from uuid import uuid4

from attrs import evolve
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from artemis_py.spark.errors import InvalidOption, SparkError
from artemis_py.spark.management import Heads
from artemis_py.spark.offsets import (
    Offset,
    ahead,
    count_within,
    cut,
    latest,
    limited,
    lost,
    proven,
    ranges_by_key,
    reached,
    refuse,
    turned_back,
)
from artemis_py.spark.options import ReadOptions
from artemis_py.spark.planning import Planner, Queues
from artemis_py.spark.reading import read_range
from artemis_py.spark.source import RangePartition

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

logger: Final = logging.getLogger(__name__)

LEASE_S: Final = 60.0
"""Beside two triggers: what a slow batch or a busy machine may take longer."""


class RangeStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):  # type: ignore[misc]
    """Reads ranges of queues, and acknowledges what the query is done with."""

    def __init__(self, options: ReadOptions, schema: "StructType", queues: Queues) -> None:
        self._options: Final = options
        self._schema: Final = schema
        self._queues: Final = queues
        self._initial: Offset | None = None
        self._is_begun = False
        """A batch was planned: the beginning is in the checkpoint."""
        self._last_heads: Heads | None = None
        self._until: Heads | None = None
        """Of a run with AvailableNow: where the queues ended when it began."""
        self._acknowledged: Offset | None = None
        self._waiting_since: float | None = None
        """Since when there were fewer messages than the least that a batch shall have."""
        self._held: Offset | None = None
        """Where the query stands that has the queues for itself."""
        self._asked_at: float | None = None
        self._longest_s = 0.0

    # -- in the driver -----------------------------------------------------------------------------------------

    def initialOffset(self) -> dict[str, Any]:
        """Where a new query begins; the same answer however often it is asked."""
        return self._begin().written()

    def _begin(self) -> Offset:
        if self._initial is None:
            heads = self._heads()
            self._initial = evolve(self._queues.start(heads).begun(heads), reader=uuid4().hex)
        return self._initial

    def getDefaultReadLimit(self) -> ReadLimit:
        """What the options say."""
        max_messages, max_bytes = self._options.max_messages_per_trigger, self._options.max_bytes_per_trigger
        if max_messages is not None:
            return ReadMaxRows(max_messages)
        return ReadAllAvailable() if max_bytes is None else ReadMaxBytes(max_bytes)

    def prepareForTriggerAvailableNow(self) -> None:
        """Go no further than what is there now."""
        self._until = self._heads()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """Where the next batch ends; `start` itself if there is nothing for it. Raises SparkError."""
        begin = Offset.read(start)
        if not self._is_begun and begin == self._initial:
            # The first batch of a new query ends where it begins, see the top.
            self._is_begun = True
            self._acknowledged = begin
            return start
        max_messages = limit.max_rows if isinstance(limit, ReadMaxRows) else None
        self._last_heads = heads = self._heads_beyond(begin, max_messages)
        self._held = begin
        self._acknowledge(begin)
        if self._options.fail_on_data_loss:
            refuse(lost(begin, heads))
        target = turned_back(ahead(begin, self._until or heads), heads)
        first = reached(begin, heads)
        if self._is_too_little(first, target):
            return start
        end = limited(first, target, self._count_limit(first, target, limit))
        if end.positions == begin.positions:
            if self._until is not None:
                # The run ends with this: Spark does not say so, and kills the process.
                self._release()
            return start
        kept = self._options.kept_batches
        return (end.remembering(begin, kept) if kept else end).written()

    def _count_limit(self, begin: Offset, target: Offset, limit: ReadLimit) -> int | None:
        """What the engine and the options allow. Spark knows one limit at a time, so that of octets is looked up."""
        if isinstance(limit, ReadAllAvailable):
            return None
        limits = [limit.max_rows] if isinstance(limit, ReadMaxRows) else []
        max_bytes = self._options.max_bytes_per_trigger
        if max_bytes is not None and self._last_heads is not None:
            within = count_within(begin, target, self._last_heads, max_bytes)
            limits += [] if within is None else [within]
        return min(limits, default=None)

    def _heads_beyond(self, begin: Offset, max_messages: int | None) -> Heads:
        """Where the queues stand, for the batch that begins at `begin`. Raises SparkError."""
        return self._queues.heads_for(begin, self._lease_s())

    def _lease_s(self) -> float:
        """How long the query may be silent: Spark does not say how long a trigger is, so twice the longest so far."""
        now = time.monotonic()
        if self._asked_at is not None:
            self._longest_s = max(self._longest_s, now - self._asked_at)
        self._asked_at = now
        return LEASE_S + 2 * self._longest_s

    def _release(self) -> None:
        """Let another query go on. A lease ends by itself too, so that a broker that is away is no error."""
        held, self._held = self._held, None
        if held is not None:
            try:
                self._queues.release(held)
            except SparkError as error:
                logger.info("the lease was not released, it ends by itself: %s", error)

    def stop(self) -> None:
        """Spark calls this after an error only."""
        self._release()

    def _is_too_little(self, begin: Offset, target: Offset) -> bool:
        """Whether to wait for more; never longer than maxTriggerDelay, and not in a run that shall end."""
        if not self._options.min_messages_per_trigger or self._until is not None:
            return False
        count = sum(part.count for part in ranges_by_key(begin, target).values())
        now = time.monotonic()
        if count == 0 or count >= self._options.min_messages_per_trigger:
            self._waiting_since = None
            return False
        if self._waiting_since is None:
            self._waiting_since = now
        if now - self._waiting_since < self._options.max_trigger_delay_s:
            return True
        self._waiting_since = None
        return False

    def _acknowledge(self, offset: Offset) -> None:
        kept = self._options.kept_batches
        if self._options.ack == "eager":
            self._acknowledge_now(offset, offset)
        elif kept and len(offset.before) >= kept:
            self._acknowledge_now(evolve(offset, positions=offset.before[-kept], before=()), offset)

    def _acknowledge_now(self, offset: Offset, end: Offset) -> None:
        """Acknowledge what is before `offset`, of a query that is at `end`, where the queues are those it has read."""
        if self._options.mode != "browse" and offset != self._acknowledged:
            self._queues.acknowledge(proven(offset, self._last_heads or self._heads(), end))
            self._acknowledged = offset

    def reportLatestOffset(self) -> dict[str, Any] | None:
        """For the progress report: how far the queues go. Lag is this less the end of the batch."""
        return None if self._last_heads is None else latest(self._last_heads).written()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        """The ranges of one batch. Raises InvalidOffset."""
        self._is_begun = True
        parts = ranges_by_key(Offset.read(start), Offset.read(end)).values()
        options = self._options
        return [RangePartition(part) for part in cut(parts, options.min_partitions, options.max_messages_per_partition)]

    def commit(self, end: dict[str, Any]) -> None:
        """The query will not ask for anything before `end` again."""
        if self._options.ack == "engine":
            done = Offset.read(end)
            self._acknowledge_now(done, done)

    def _heads(self) -> Heads:
        self._last_heads = self._queues.heads()
        return self._last_heads

    # -- in a task ---------------------------------------------------------------------------------------------

    def read(self, partition: InputPartition) -> "Iterator[pa.RecordBatch]":
        """One range, over a connection of its own."""
        if isinstance(partition, RangePartition):
            yield from read_range(self._options, self._schema, partition.part)


def stream_reader(options: ReadOptions, schema: "StructType") -> RangeStreamReader:
    """The reader of a query on queues whose messages are numbered. Raises InvalidOption for a mode of batches only."""
    if options.mode == "drain":
        raise InvalidOption("mode=drain is for batch queries; a stream uses mode=subscription, browse or spool")
    if options.ending_timestamp_ms is not None or options.ending_offsets != "latest":
        raise InvalidOption("options endingOffsets and endingTimestamp are for batch queries: a stream has no end")
    if options.pushdown:
        raise InvalidOption("option pushdown is for batch queries: Spark pushes no filters into streams")
    return RangeStreamReader(options, schema, Planner(options))
