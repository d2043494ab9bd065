"""`dlq export` and `dlq purge`: dead letters as files, and their end.

An export has the columns of an archive, so that `replay` can send the messages again, and the facts beside them. A
purge removes exactly the messages that it has read, part by part; one that exports as well removes a part when its file
is complete. A run that is killed in between leaves messages that are in a file already, and the next run writes them a
second time: queue and number tell.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from attrs import define, frozen

from artemis_py.spark.jobs.archive import with_date
from artemis_py.spark.jobs.dead_letters import chosen
from artemis_py.spark.jobs.redrive import acknowledge, chunks, letters_of
from artemis_py.spark.jobs.running import OnProgress, Progress, quiet
from artemis_py.spark.options import read_options
from artemis_py.spark.planning import Planner

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

PARTITION_COLUMNS: Final = ("date", "address")


@frozen(kw_only=True)
class ClearingOptions:
    """Which dead letters are taken, and what happens to them."""

    where: str | None = None
    """A condition in SQL on the columns and facts of `dead_letters`."""
    groups: tuple[str, ...] = ()
    """Ids of groups in a report; empty: all."""
    path: str | None = None
    """Folder of Parquet files to which they are appended; None: none are written."""
    removes: bool = False
    """Whether they leave the queue."""


@define
class Cleared:
    """Result of an export or purge."""

    selected: int = 0
    exported: int = 0
    removed: int = 0
    """Fewer than `selected` if a consumer had some of them."""


def clear(
    spark: "SparkSession", source: Mapping[str, str], options: ClearingOptions, on_progress: OnProgress = quiet
) -> Cleared:
    """Export and remove the dead letters that exist at the beginning; with neither, count them.

    `source` are options of the connector with `queue`. Raises InvalidOption, SparkError from the driver, and the
    engine's exceptions around errors in tasks.
    """
    reading = read_options({**source, "mode": "browse"})
    heads = Planner(reading).heads()
    parts = list(chunks(heads, None))
    total = sum(part.count for part in parts)
    result = Cleared()
    done = 0
    for part in parts:
        # Persisted, so that the messages that are removed are those that were counted and written.
        frame = chosen(letters_of(spark, source, heads, part), options.where, options.groups).persist()
        try:
            sequences = sorted(row["sequence"] for row in frame.select("sequence").collect())
            result.selected += len(sequences)
            if options.path is not None and sequences:
                _append(frame, options.path)
                result.exported += len(sequences)
            if options.removes:
                result.removed += acknowledge(reading, part, sequences)
        finally:
            frame.unpersist()
        done += part.count
        on_progress(Progress(done, total))
    return result


def _append(frame: "DataFrame", path: str) -> None:
    writer = with_date(frame).coalesce(1).write.mode("append").option("compression", "zstd")
    writer.partitionBy(*PARTITION_COLUMNS).parquet(path)
