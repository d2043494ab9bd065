"""`archive`: writes the messages of an address, a subscription or a queue to partitioned Parquet files, each once.

It is always a streaming query: its checkpoint records what is archived already, and the next run continues there. The
encoded message is always kept beside the columns, because the columns have fewer types than AMQP: an archived message
can be sent again bit for bit.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from attrs import frozen

from artemis_py.spark.columns import COLUMNS, DERIVED
from artemis_py.spark.errors import InvalidOption
from artemis_py.spark.jobs.running import Consumed, OnProgress, quiet, run, stream

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

DATE: Final = "date"
PARTITION_COLUMNS: Final = (DATE, "address", "queue")
KEPT: Final = ("address", "queue", "sequence", "enqueued_time", "creation_time", "durable", "priority", "message")
"""Columns that a replay needs; they are always in the files."""
# A repeated batch must get the same day, so the time of archiving cannot be used.
_DATE: Final = "coalesce(date_format(coalesce(enqueued_time, creation_time), 'yyyy-MM-dd'), 'unknown')"


@frozen(kw_only=True)
class ArchiveOptions:
    """Place and layout of an archive."""

    path: str
    """Folder that Spark can write to."""
    checkpoint: str | None = None
    """Folder of the checkpoint; None: `_checkpoint` in the archive, which readers of the files ignore."""
    partition_by: Sequence[str] = (DATE, "address")
    columns: Sequence[str] = tuple(name for name in COLUMNS if name not in DERIVED)
    """Columns of the source; those in KEPT are always added."""
    interval_s: float | None = None
    """Seconds between two batches of a continuous run; None: stop at the messages that exist now."""


def archive(
    spark: "SparkSession", source: Mapping[str, str], options: ArchiveOptions, on_progress: OnProgress = quiet
) -> Consumed:
    """Append new messages to the archive; `source` are options of the connector.

    Raises InvalidOption, and the engine's exceptions around the connector's errors.
    """
    columns, partition_by = planned(options)
    frame = with_date(stream(spark, {**source, "columns": ",".join(columns)}))
    writer = frame.writeStream.format("parquet").option("path", options.path).option("compression", "zstd")
    if partition_by:
        writer = writer.partitionBy(*partition_by)
    return run(writer, options.checkpoint or f"{options.path.rstrip('/')}/_checkpoint", options.interval_s, on_progress)


def with_date(frame: "DataFrame") -> "DataFrame":
    """Return a frame of messages with the day by which an archive is partitioned."""
    return frame.selectExpr("*", f"{_DATE} AS {DATE}")


def planned(options: ArchiveOptions) -> tuple[list[str], list[str]]:
    """Return the columns to read and those that partition the folders. Raises InvalidOption."""
    wrong = [name for name in options.partition_by if name not in PARTITION_COLUMNS]
    if wrong:
        raise InvalidOption(f"an archive is partitioned by {', '.join(PARTITION_COLUMNS)}, not {wrong[0]!r}")
    unknown = [name for name in options.columns if name not in COLUMNS]
    if unknown:
        raise InvalidOption(f"there is no column {unknown[0]!r}; there are {', '.join(COLUMNS)}")
    return [name for name in COLUMNS if name in (*options.columns, *KEPT)], list(options.partition_by)
