"""Streaming queries, `spark.readStream.format("amqp")`: the bounds of each batch, and when messages are acknowledged.

Spark calls these methods in one worker beside the driver, except for `read`, which runs in the tasks on a copy made
before any of them was called. Three properties of the engine determine the design (docs/spark.md):

* `initialOffset` is called again when the first batch is replayed. So the first batch is always empty: its end is the
  start, written into the checkpoint before any message is read, and cannot move any more.
* `latestOffset(start)` is called when the batch that ends at `start` has its entry in the commit log: everything
  before `start` may be acknowledged. `commit` is called one batch later, and for the last batch of a run not at all.
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
"""Seconds of a lease beyond two triggers, for a slow batch or a busy machine."""


class RangeStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):  # type: ignore[misc]
    """Stream reader of ranges of queues; acknowledges messages with which the query is done."""

    def __init__(self, options: ReadOptions, schema: "StructType", queues: Queues) -> None:
        self._options: Final = options
        self._schema: Final = schema
        self._queues: Final = queues
        self._initial: Offset | None = None
        self._is_begun = False
        """Whether a batch was planned: the beginning is then in the checkpoint."""
        self._last_heads: Heads | None = None
        self._until: Heads | None = None
        """Heads of the queues when a run with AvailableNow began; None in other runs."""
        self._acknowledged: Offset | None = None
        self._waiting_since: float | None = None
        """Time since which there have been fewer messages than a batch should have at least."""
        self._held: Offset | None = None
        """Position of this query while it has a lease of the queues."""
        self._asked_at: float | None = None
        self._longest_s = 0.0

    # -- in the driver -----------------------------------------------------------------------------------------

    def initialOffset(self) -> dict[str, Any]:
        """Return where a new query begins; each call gives the same answer."""
        return self._begin().written()

    def _begin(self) -> Offset:
        if self._initial is None:
            heads = self._heads()
            self._initial = evolve(self._queues.start(heads).begun(heads), reader=uuid4().hex)
        return self._initial

    def getDefaultReadLimit(self) -> ReadLimit:
        """Return the limit that the options set."""
        max_messages, max_bytes = self._options.max_messages_per_trigger, self._options.max_bytes_per_trigger
        if max_messages is not None:
            return ReadMaxRows(max_messages)
        return ReadAllAvailable() if max_bytes is None else ReadMaxBytes(max_bytes)

    def prepareForTriggerAvailableNow(self) -> None:
        """Read no further than the messages that are in the queues now."""
        self._until = self._heads()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """Return where the next batch ends; `start` itself if there are no messages for it. Raises SparkError."""
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
                # The run ends here: Spark does not say so, and kills the process.
                self._release()
            return start
        kept = self._options.kept_batches
        return (end.remembering(begin, kept) if kept else end).written()

    def _count_limit(self, begin: Offset, target: Offset, limit: ReadLimit) -> int | None:
        """Return the largest number of messages that both engine and options allow; None: no limit.

        Spark passes only one limit, so that of octets is taken from the options.
        """
        if isinstance(limit, ReadAllAvailable):
            return None
        limits = [limit.max_rows] if isinstance(limit, ReadMaxRows) else []
        max_bytes = self._options.max_bytes_per_trigger
        if max_bytes is not None and self._last_heads is not None:
            within = count_within(begin, target, self._last_heads, max_bytes)
            limits += [] if within is None else [within]
        return min(limits, default=None)

    def _heads_beyond(self, begin: Offset, max_messages: int | None) -> Heads:
        """Return the heads of the queues for the batch that begins at `begin`. Raises SparkError."""
        return self._queues.heads_for(begin, self._lease_s())

    def _lease_s(self) -> float:
        """Return the seconds of silence that a lease allows: LEASE_S and twice the longest trigger so far.

        Spark does not say how long a trigger is.
        """
        now = time.monotonic()
        if self._asked_at is not None:
            self._longest_s = max(self._longest_s, now - self._asked_at)
        self._asked_at = now
        return LEASE_S + 2 * self._longest_s

    def _release(self) -> None:
        """Release the queues for another query. A lease also ends by itself, so an unreachable broker is no error."""
        held, self._held = self._held, None
        if held is not None:
            try:
                self._queues.release(held)
            except SparkError as error:
                logger.info("the lease was not released, it expires by itself: %s", error)

    def stop(self) -> None:
        """Release the queues. Spark calls this only after an error."""
        self._release()

    def _is_too_little(self, begin: Offset, target: Offset) -> bool:
        """Tell whether to wait for more messages; never longer than maxTriggerDelay, and not with AvailableNow."""
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
        """Acknowledge messages before `offset`, for a query at `end`, in queues that are still those that it read."""
        if self._options.mode != "browse" and offset != self._acknowledged:
            self._queues.acknowledge(proven(offset, self._last_heads or self._heads(), end))
            self._acknowledged = offset

    def reportLatestOffset(self) -> dict[str, Any] | None:
        """Return the ends of the queues for the progress report; the lag is this minus the end of the batch."""
        return None if self._last_heads is None else latest(self._last_heads).written()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        """Return the ranges of one batch. Raises InvalidOffset."""
        self._is_begun = True
        parts = ranges_by_key(Offset.read(start), Offset.read(end)).values()
        options = self._options
        return [RangePartition(part) for part in cut(parts, options.min_partitions, options.max_messages_per_partition)]

    def commit(self, end: dict[str, Any]) -> None:
        """Acknowledge, with ack=engine: the query will not ask for anything before `end` again."""
        if self._options.ack == "engine":
            done = Offset.read(end)
            self._acknowledge_now(done, done)

    def _heads(self) -> Heads:
        self._last_heads = self._queues.heads()
        return self._last_heads

    # -- in a task ---------------------------------------------------------------------------------------------

    def read(self, partition: InputPartition) -> "Iterator[pa.RecordBatch]":
        """Read one range over its own connection; runs in the task."""
        if isinstance(partition, RangePartition):
            yield from read_range(self._options, self._schema, partition.part)


def stream_reader(options: ReadOptions, schema: "StructType") -> RangeStreamReader:
    """Return the reader for queues with sequence numbers. Raises InvalidOption for a mode that is for batches only."""
    if options.mode == "drain":
        raise InvalidOption("mode=drain is for batch queries; a stream uses mode=subscription, browse or spool")
    if options.ending_timestamp_ms is not None or options.ending_offsets != "latest":
        raise InvalidOption("options endingOffsets and endingTimestamp are for batch queries: a stream has no end")
    if options.pushdown:
        raise InvalidOption("option pushdown is for batch queries: Spark pushes no filters into streams")
    return RangeStreamReader(options, schema, Planner(options))
