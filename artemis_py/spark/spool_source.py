"""Streams of a broker that numbers nothing: its messages are taken into files, and read from there (`mode=spool`).

The driver consumes over one connection when Spark asks how far the next batch can go, and accepts messages when their
file is on disk. From then on they have numbers, those of the spool, and the stream is like any other: offsets, limits,
cuts, and acknowledging, which here is deleting files. A crash between file and acceptance brings the messages of one
file twice: at least once, and a batch that is planned is the same whenever it is read.
"""

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from attrs import evolve
from pyspark.sql.datasource import InputPartition

from artemis_py.spark.columns import BatchBuilder
from artemis_py.spark.connection import Broker, Connection
from artemis_py.spark.errors import SpoolFailed
from artemis_py.spark.management import Heads
from artemis_py.spark.offsets import Offset, cut, earliest, key_of, lost, ranges_by_key, refuse
from artemis_py.spark.options import ReadOptions
from artemis_py.spark.reading import decoded
from artemis_py.spark.receiving import DrainLink, Range
from artemis_py.spark.source import RangePartition
from artemis_py.spark.spool import NODE, Spool, kept_of, read_spool
from artemis_py.spark.stream_source import RangeStreamReader

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

logger: Final = logging.getLogger(__name__)

MAX_SPOOLED: Final = 100_000
"""Messages taken in per trigger without a limit: some seconds, so that a long backlog becomes many batches."""


class Intake:
    """Takes messages out of a broker's queues into a spool."""

    def __init__(self, options: ReadOptions, spool: Spool) -> None:
        self._options: Final = options
        self._broker: Final = Broker(options.connection)
        self._spool: Final = spool
        self._left = 0

    def take(self, names: list[str], max_messages: int) -> list[str]:
        """Take up to so many, of each queue a like share or what others leave; the queues that were empty.

        A broken connection is made again: what its broker did not hear to be accepted comes twice. Raises SparkError.
        """
        self._left = max_messages
        return self._broker.run(lambda connection: self._take(connection, names)) if max_messages > 0 else []

    def _take(self, connection: Connection, names: list[str]) -> list[str]:
        empty = []
        for index, name in enumerate(names):
            share = -(-self._left // (len(names) - index))
            if share <= 0:
                break
            options = self._options
            link = DrainLink(connection, name, options.selector, options.credit, False, share)
            for messages in link.batches(options.receive_timeout_s):
                self._spool.append(name, messages)
                self._left -= len(messages)
            link.detach()
            if link.is_empty:
                empty.append(name)
        return empty


class SpooledQueues:
    """The files as the queues of a stream."""

    def __init__(self, spool: Spool) -> None:
        self._spool: Final = spool

    def heads(self) -> Heads:
        """What is in the files. Raises SpoolFailed."""
        return self._spool.heads()

    def heads_for(self, begin: Offset, lease_s: float) -> Heads:
        """The folder belongs to a query for ever, and to its process while that lives. Raises SpoolFailed."""
        self._spool.claim(begin)
        return self._spool.heads()

    def release(self, begin: Offset) -> None:
        """The lock goes with the process."""

    def start(self, heads: Heads) -> Offset:
        """A new query begins with what is there; another's messages are not. Raises SpoolFailed."""
        self._spool.check_free()
        return earliest(heads)

    def acknowledge(self, offset: Offset) -> None:
        """Delete files. Raises SpoolFailed."""
        self._spool.acknowledge(offset)


class SpoolStreamReader(RangeStreamReader):
    """Reads what it has taken into files."""

    def __init__(self, options: ReadOptions, schema: "StructType") -> None:
        assert options.spool_dir is not None
        self._folder: Final = Path(options.spool_dir)
        self._names: Final = list(options.queues or options.addresses)
        self._spool: Final = Spool(self._folder, self._names)
        self._intake: Final = Intake(options, self._spool)
        self._wanted: list[str] | None = None
        """Of a run with AvailableNow: the queues that it has not seen empty."""
        super().__init__(options, schema, SpooledQueues(self._spool))

    def prepareForTriggerAvailableNow(self) -> None:
        """Only the broker knows how much there is: a queue that was found empty is not looked at again."""
        self._wanted = list(self._names)

    def _heads_beyond(self, begin: Offset, max_messages: int | None) -> Heads:
        """Take in as many as are missing for the next batch."""
        before = super()._heads_beyond(begin, max_messages)
        if self._options.fail_on_data_loss:
            # Before anything is taken out of the broker into a folder that is not the one of the checkpoint.
            refuse(lost(begin, before))
        names = self._names if self._wanted is None else self._wanted
        waiting = sum(
            head.next - begin.positions[key].next
            for head in before.queues
            if (key := key_of(NODE, head.address, head.queue)) in begin.positions
        )
        empty = self._intake.take(names, (max_messages or MAX_SPOOLED) - waiting)
        after = self._spool.heads()
        if self._wanted is not None:
            self._wanted = [name for name in self._wanted if name not in empty]
            self._until = after
        return after

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        """The ranges of one batch that are in the files. Raises InvalidOffset, DataLoss if that is not all of it.

        What is not there is told by the driver, that wrote the files: a task that finds none may look elsewhere.
        """
        self._is_begun = True
        options = self._options
        parts, losses = [], []
        for key, part in ranges_by_key(Offset.read(start), Offset.read(end)).items():
            kept = kept_of(self._folder, part.address, part.queue, part.start, part.stop)
            parts += [evolve(part, start=begin, stop=stop) for begin, stop in kept]
            count = part.count - sum(stop - begin for begin, stop in kept)
            if count:
                losses.append(f"{key}: {count} of the {part.count} messages from {part.start} on are not in the files")
        if options.fail_on_data_loss:
            refuse(losses)
        for loss in losses:
            logger.warning("passed over: %s", loss)
        return [RangePartition(part) for part in cut(parts, options.min_partitions, options.max_messages_per_partition)]

    def read(self, partition: InputPartition) -> "Iterator[pa.RecordBatch]":
        """In a task, which needs no broker."""
        if isinstance(partition, RangePartition):
            yield from _read(self._schema, self._folder, partition.part)


def _read(schema: "StructType", folder: Path, part: Range) -> "Iterator[pa.RecordBatch]":
    """Raises Undecodable, and SpoolFailed, also if files are missing: the driver had them when it planned."""
    builder = BatchBuilder(schema, part.address, part.queue)
    count = 0
    for first, messages in read_spool(folder, part.address, part.queue, part.start, part.stop):
        count += len(messages)
        yield decoded(builder, builder.rows(), messages, str(part), first)
    if count < part.count:
        raise SpoolFailed(
            f"{part.count - count} of {part.count} messages of {part} are not in {folder}, where the driver has them: "
            "do all tasks share it?"
        )
