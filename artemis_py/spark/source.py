"""Batch queries: `spark.read.format("amqp")`."""

import logging
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Final

from attrs import evolve
from pyspark.sql.datasource import DataSourceReader, InputPartition

from artemis_py.spark.errors import InvalidOption, Refused
from artemis_py.spark.management import Heads
from artemis_py.spark.offsets import cut, lost, ranges_by_key, refuse
from artemis_py.spark.options import ReadOptions
from artemis_py.spark.planning import Planner
from artemis_py.spark.pushdown import Cut
from artemis_py.spark.reading import read_out, read_range
from artemis_py.spark.receiving import Range

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.datasource import Filter
    from pyspark.sql.types import StructType


logger: Final = logging.getLogger(__name__)


class RangePartition(InputPartition):  # type: ignore[misc]
    """Range that one task reads."""

    def __init__(self, part: Range) -> None:
        super().__init__(str(part))
        self.part: Final = part


class RangeReader(DataSourceReader):  # type: ignore[misc]
    """Reader of ranges of queues; leaves everything in them."""

    def __init__(self, options: ReadOptions, schema: "StructType") -> None:
        self._options: Final = options
        self._schema: Final = schema

    def partitions(self) -> list[InputPartition]:
        """Ask the broker for the heads of the queues, and cut the messages into partitions. Raises SparkError."""
        options = self._options
        planner = Planner(options)
        heads = planner.heads()
        start = planner.start(heads)
        if options.fail_on_data_loss:
            refuse(lost(start, heads))
        parts = self._wanted(planner, heads, list(ranges_by_key(start, planner.end(heads)).values()))
        return [RangePartition(part) for part in cut(parts, options.min_partitions, options.max_messages_per_partition)]

    def _wanted(self, planner: Planner, heads: Heads, parts: list[Range]) -> list[Range]:
        """Return all of the ranges; subclasses may leave some out."""
        return parts

    def read(self, partition: InputPartition) -> "Iterator[pa.RecordBatch]":
        """Read a range; runs in the task. An empty plan still gets one partition, without a value."""
        if isinstance(partition, RangePartition):
            yield from read_range(self._options, self._schema, partition.part)


class PushdownRangeReader(RangeReader):
    """Reader that leaves out what the query's filters exclude. Spark refuses this class unless it pushes filters."""

    def __init__(self, options: ReadOptions, schema: "StructType") -> None:
        super().__init__(options, schema)
        self._cut = Cut()

    def pushFilters(self, filters: "list[Filter]") -> "Iterable[Filter]":
        """Record all filters, and return them too, so that Spark applies them to what is read."""
        for filter in filters:
            self._cut = self._cut.narrowed(filter)
        return filters

    def _wanted(self, planner: Planner, heads: Heads, parts: list[Range]) -> list[Range]:
        parts = self._cut.apply(parts)
        if self._cut.start_ms is not None:
            firsts = self._firsts(planner, heads, parts, self._cut.start_ms)
            parts = [evolve(part, start=max(part.start, firsts.get(part.queue_id, part.start))) for part in parts]
        if self._cut.stop_ms is not None:
            firsts = self._firsts(planner, heads, parts, self._cut.stop_ms)
            parts = [evolve(part, stop=min(part.stop, firsts.get(part.queue_id, part.stop))) for part in parts]
        return [part for part in parts if part.start < part.stop]

    def _firsts(self, planner: Planner, heads: Heads, parts: list[Range], time_ms: int) -> dict[int, int]:
        """Return, by queue id, the first message of a time; empty if the broker does not record arrival times."""
        wanted = {part.queue_id for part in parts}
        told = evolve(heads, queues=tuple(head for head in heads.queues if head.queue_id in wanted))
        try:
            return {position.queue_id: position.next for position in planner.since(told, time_ms).positions.values()}
        except Refused as error:
            logger.info("ranges are not narrowed by time: %s", error)
            return {}


class DrainReader(DataSourceReader):  # type: ignore[misc]
    """Reader that removes messages from queues: each is in one query's result, so a repeated action gets others."""

    def __init__(self, options: ReadOptions, schema: "StructType") -> None:
        self._options: Final = options
        self._schema: Final = schema

    def partitions(self) -> list[InputPartition]:
        """Return at least one partition per queue; several partitions share a queue as consumers do."""
        names = self._options.queues or self._options.addresses
        logger.warning("mode=drain removes what it reads: a failed query does not bring it back")
        return [InputPartition(name) for name in names] * max(1, self._options.min_partitions // len(names))

    def read(self, partition: InputPartition) -> "Iterator[pa.RecordBatch]":
        """Read a queue; runs in the task."""
        yield from read_out(self._options, self._schema, partition.value)


def batch_reader(options: ReadOptions, schema: "StructType") -> DataSourceReader:
    """Return the reader for the mode of a query. Raises InvalidOption for a mode that is for streams only."""
    if options.mode == "spool":
        raise InvalidOption("mode=spool is for streams; a batch query takes messages out with mode=drain")
    if options.mode == "drain":
        return DrainReader(options, schema)
    return PushdownRangeReader(options, schema) if options.pushdown else RangeReader(options, schema)
