"""Streams of a broker without sequence numbers: messages are moved to files, and read from there (`mode=spool`).

The driver consumes over one connection when Spark asks how far the next batch can go, and accepts messages when their
file is on disk. From then on they have numbers, those of the spool, and the stream is like any other: offsets, limits,
cuts, and acknowledgements, which here delete files. After a crash between file and acceptance, the messages of one file
come twice: delivery is at least once, and a planned batch always reads the same messages.
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
"""Messages per trigger if no limit is set: some seconds' worth, so that a long backlog becomes many batches."""


class Intake:
    """Mover of messages from a broker's queues to a spool."""

    def __init__(self, options: ReadOptions, spool: Spool) -> None:
        self._options: Final = options
        self._broker: Final = Broker(options.connection)
        self._spool: Final = spool
        self._left = 0

    def take(self, names: list[str], max_messages: int) -> list[str]:
        """Take up to `max_messages`, shared among the queues; return the queues that were empty.

        A queue gets more if others leave some of their share. After a broken connection, messages whose acceptance
        the broker did not receive come twice. Raises SparkError.
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
    """Files as the queues of a stream."""

    def __init__(self, spool: Spool) -> None:
        self._spool: Final = spool

    def heads(self) -> Heads:
        """Return the heads of the files. Raises SpoolFailed."""
        return self._spool.heads()

    def heads_for(self, begin: Offset, lease_s: float) -> Heads:
        """Return the heads, with the folder locked: it belongs to the query for ever. Raises SpoolFailed."""
        self._spool.claim(begin)
        return self._spool.heads()

    def release(self, begin: Offset) -> None:
        """Do nothing: the lock is released with the process."""

    def start(self, heads: Heads) -> Offset:
        """Return the beginning of a new query. Raises SpoolFailed if the folder belongs to another one."""
        self._spool.check_free()
        return earliest(heads)

    def acknowledge(self, offset: Offset) -> None:
        """Delete the files before `offset`. Raises SpoolFailed."""
        self._spool.acknowledge(offset)


class SpoolStreamReader(RangeStreamReader):
    """Stream reader that moves messages to files and reads them from there."""

    def __init__(self, options: ReadOptions, schema: "StructType") -> None:
        assert options.spool_dir is not None
        self._folder: Final = Path(options.spool_dir)
        self._names: Final = list(options.queues or options.addresses)
        self._spool: Final = Spool(self._folder, self._names)
        self._intake: Final = Intake(options, self._spool)
        self._wanted: list[str] | None = None
        """Queues that a run with AvailableNow has not seen empty; None in other runs."""
        super().__init__(options, schema, SpooledQueues(self._spool))

    def prepareForTriggerAvailableNow(self) -> None:
        """Plan to read until each queue was empty once, because only the broker knows how many messages there are."""
        self._wanted = list(self._names)

    def _heads_beyond(self, begin: Offset, max_messages: int | None) -> Heads:
        """Move as many messages to the files as are missing for the next batch."""
        before = super()._heads_beyond(begin, max_messages)
        if self._options.fail_on_data_loss:
            # Checked before messages are moved from the broker to a folder that is not the one of the checkpoint.
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
        """Return the ranges of one batch that are in the files. Raises InvalidOffset, DataLoss if some are missing.

        The driver reports missing messages, because it wrote the files: a task without files may have another folder.
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
        """Read a range; runs in the task, which needs no broker."""
        if isinstance(partition, RangePartition):
            yield from _read(self._schema, self._folder, partition.part)


def _read(schema: "StructType", folder: Path, part: Range) -> "Iterator[pa.RecordBatch]":
    """Yield the messages of a range. Raises Undecodable, SpoolFailed, also for files that existed during planning."""
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
