"""Batch queries: `spark.read.format("amqp")`."""

import logging
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from pyspark.sql.datasource import DataSourceReader, InputPartition

from artemis_py.spark.errors import InvalidOption
from artemis_py.spark.offsets import cut, lost, ranges_by_key, refuse
from artemis_py.spark.options import ReadOptions
from artemis_py.spark.planning import Planner
from artemis_py.spark.reading import read_out, read_range
from artemis_py.spark.receiving import Range

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType


logger: Final = logging.getLogger(__name__)


class RangePartition(InputPartition):  # type: ignore[misc]
    """What one task reads."""

    def __init__(self, part: Range) -> None:
        super().__init__(str(part))
        self.part: Final = part


class RangeReader(DataSourceReader):  # type: ignore[misc]
    """Reads ranges of queues and leaves everything in them."""

    def __init__(self, options: ReadOptions, schema: "StructType") -> None:
        self._options: Final = options
        self._schema: Final = schema

    def partitions(self) -> list[InputPartition]:
        """Ask where the queues stand, and cut what is there. Raises SparkError."""
        options = self._options
        planner = Planner(options)
        heads = planner.heads()
        start = planner.start(heads)
        if options.fail_on_data_loss:
            refuse(lost(start, heads))
        parts = ranges_by_key(start, planner.end(heads)).values()
        return [RangePartition(part) for part in cut(parts, options.min_partitions, options.max_messages_per_partition)]

    def read(self, partition: InputPartition) -> "Iterator[pa.RecordBatch]":
        """In a task. An empty plan still gets one partition, without a value."""
        if isinstance(partition, RangePartition):
            yield from read_range(self._options, self._schema, partition.part)


class DrainReader(DataSourceReader):  # type: ignore[misc]
    """Takes messages out of queues: each is in the result of one query, and an action that runs twice reads twice."""

    def __init__(self, options: ReadOptions, schema: "StructType") -> None:
        self._options: Final = options
        self._schema: Final = schema

    def partitions(self) -> list[InputPartition]:
        """Every queue at least once; more partitions than queues share them, as consumers do."""
        names = self._options.queues or self._options.addresses
        logger.warning("mode=drain removes what it reads: a failed query does not bring it back")
        return [InputPartition(name) for name in names] * max(1, self._options.min_partitions // len(names))

    def read(self, partition: InputPartition) -> "Iterator[pa.RecordBatch]":
        """In a task."""
        yield from read_out(self._options, self._schema, partition.value)


def batch_reader(options: ReadOptions, schema: "StructType") -> DataSourceReader:
    """The reader for the mode of a query. Raises InvalidOption for a mode of streams only."""
    if options.mode == "spool":
        raise InvalidOption("mode=spool is for streams; a batch query takes messages out with mode=drain")
    return DrainReader(options, schema) if options.mode == "drain" else RangeReader(options, schema)
