"""`archive`: the messages of an address, a subscription or a queue into partitioned Parquet files, each once.

A streaming query in every case: its checkpoint knows what is archived already, so that the next run goes on there. The
encoded message is always kept beside the columns, for the columns know fewer types than AMQP: what was archived can be
sent again bit for bit.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from attrs import frozen

from artemis_py.spark.columns import COLUMNS
from artemis_py.spark.errors import InvalidOption
from artemis_py.spark.jobs.running import Consumed, OnProgress, quiet, run, stream

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DATE: Final = "date"
PARTITION_COLUMNS: Final = (DATE, "address", "queue")
KEPT: Final = ("address", "queue", "sequence", "enqueued_time", "creation_time", "durable", "priority", "message")
"""What a replay needs; always in the files."""
# A batch that is repeated must find the same day: the time of archiving would not do.
_DATE: Final = "coalesce(date_format(coalesce(enqueued_time, creation_time), 'yyyy-MM-dd'), 'unknown')"


@frozen(kw_only=True)
class ArchiveOptions:
    """Where an archive is and how it is laid out."""

    path: str
    """A folder that Spark can write to."""
    checkpoint: str | None = None
    """A folder; None: `_checkpoint` in the archive, which readers of the files pass over."""
    partition_by: Sequence[str] = (DATE, "address")
    columns: Sequence[str] = tuple(COLUMNS)
    """Of the source; those in KEPT come along in any case."""
    interval_s: float | None = None
    """Seconds between two batches of a run that goes on; None: up to what is there now."""


def archive(
    spark: "SparkSession", source: Mapping[str, str], options: ArchiveOptions, on_progress: OnProgress = quiet
) -> Consumed:
    """Append what is new to the archive; `source` are options of the connector.

    Raises InvalidOption, and the engine's exceptions around the connector's errors.
    """
    columns, partition_by = planned(options)
    frame = stream(spark, {**source, "columns": ",".join(columns)}).selectExpr("*", f"{_DATE} AS {DATE}")
    writer = frame.writeStream.format("parquet").option("path", options.path).option("compression", "zstd")
    if partition_by:
        writer = writer.partitionBy(*partition_by)
    return run(writer, options.checkpoint or f"{options.path.rstrip('/')}/_checkpoint", options.interval_s, on_progress)


def planned(options: ArchiveOptions) -> tuple[list[str], list[str]]:
    """The columns to read and those to lay the folders out by. Raises InvalidOption."""
    wrong = [name for name in options.partition_by if name not in PARTITION_COLUMNS]
    if wrong:
        raise InvalidOption(f"an archive is partitioned by {', '.join(PARTITION_COLUMNS)}, not {wrong[0]!r}")
    unknown = [name for name in options.columns if name not in COLUMNS]
    if unknown:
        raise InvalidOption(f"there is no column {unknown[0]!r}; there are {', '.join(COLUMNS)}")
    return [name for name in COLUMNS if name in (*options.columns, *KEPT)], list(options.partition_by)
