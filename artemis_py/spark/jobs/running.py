"""Running a streaming query to its end, or until it is interrupted, and counting the messages that it read."""

from collections import Counter
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from attrs import define, field, frozen

from artemis_py.spark.data_source import NAME
from artemis_py.spark.errors import InvalidOption

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import DataStreamWriter, StreamingQuery

POLL_S: Final = 0.5
"""Seconds between two requests for progress; the engine keeps the last hundred reports."""


@frozen
class Progress:
    """Progress of a job."""

    done: int
    """Number of messages so far."""
    total: int | None
    """Number of all messages; None: unknown."""


OnProgress = Callable[[Progress], None]


def quiet(progress: Progress) -> None:
    """Ignore progress."""


@frozen
class Consumed:
    """Result of a streaming query."""

    messages: int
    batches: int
    """Number of batches with messages."""
    is_interrupted: bool
    observed: Mapping[str, int] = field(factory=dict)
    """Sums of the query's observed metrics, by name."""
    late: int = 0
    """Groups of a batch that were dropped because the watermark had passed them."""


@define
class _Count:
    last_batch: int = -1
    messages: int = 0
    batches: int = 0
    observed: Counter[str] = field(factory=Counter)
    late: int = 0

    def add(self, query: "StreamingQuery") -> None:
        for progress in query.recentProgress:
            if progress.batchId > self.last_batch:
                self.last_batch = progress.batchId
                self.messages += progress.numInputRows
                self.batches += progress.numInputRows > 0
                self.late += sum(operator.numRowsDroppedByWatermark for operator in progress.stateOperators)
                for row in progress.observedMetrics.values():
                    self.observed.update(row.asDict())


def stream(spark: "SparkSession", source: Mapping[str, str], schema: str | None = None) -> "DataFrame":
    """Return the messages of a source as a stream; `source` are options of the connector."""
    reader = spark.readStream.format(NAME).options(**source)
    return (reader if schema is None else reader.schema(schema)).load()


def run(
    writer: "DataStreamWriter", checkpoint: str, interval_s: float | None, on_progress: OnProgress = quiet
) -> Consumed:
    """Start the query and wait: until the existing messages are read or, with an interval, until Ctrl-C.

    Raises the exception with which the query fails.
    """
    if interval_s is not None and interval_s <= 0:
        raise InvalidOption("the interval between two batches must be more than 0 seconds")
    trigger: dict[str, Any] = {"availableNow": True}
    if interval_s is not None:
        trigger = {"processingTime": f"{int(interval_s * 1000)} milliseconds"}
    query = writer.option("checkpointLocation", checkpoint).trigger(**trigger).start()
    count = _Count()
    is_interrupted = False
    try:
        while not query.awaitTermination(POLL_S):
            count.add(query)
            on_progress(Progress(count.messages, None))
    except KeyboardInterrupt:
        is_interrupted = True
    finally:
        query.stop()
    count.add(query)
    return Consumed(count.messages, count.batches, is_interrupted, dict(count.observed), count.late)
