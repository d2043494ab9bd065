"""Writing: `df.write.format("amqp")` and `writeStream`.

Each task sends over a connection of its own and is done when the broker has accepted everything. How a task that runs
twice does not send twice is the option `idempotence`.
"""

import logging
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final
from uuid import uuid4

from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage

from artemis_py.spark.encoding import Encoder, check_columns
from artemis_py.spark.errors import InvalidOption
from artemis_py.spark.options import WriteOptions
from artemis_py.spark.sending import Sender

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

logger: Final = logging.getLogger(__name__)

QUERY_ID: Final = "sql.streaming.queryId"
BATCH_ID: Final = "streaming.sql.batchId"


class Sent(WriterCommitMessage):  # type: ignore[misc]
    """What one task did."""

    def __init__(self, accepted: int, dropped: int) -> None:
        self.accepted: Final = accepted
        self.dropped: Final = dropped


def write_rows(options: WriteOptions, writer: str, batches: "Iterator[pa.RecordBatch]") -> Sent:
    """Send the rows of one task. Raises SparkError."""
    encoder = Encoder(options, writer)
    sender = Sender(options)
    try:
        for batch in batches:
            sender.send(encoder.messages(batch))
        sender.flush()
    finally:
        sender.close()
    return Sent(sender.accepted, sender.dropped)


def _log(messages: Sequence[Sent | None], what: str) -> None:
    done = [message for message in messages if message is not None]
    accepted = sum(message.accepted for message in done)
    dropped = sum(message.dropped for message in done)
    logger.info("%s: tasks=%d accepted=%d dropped=%d", what, len(done), accepted, dropped)


class BatchWriter(DataSourceArrowWriter):  # type: ignore[misc]
    """Of a batch job."""

    def __init__(self, options: WriteOptions) -> None:
        self._options: Final = options
        self._writer: Final = options.job_id or str(uuid4())

    def write(self, iterator: "Iterator[pa.RecordBatch]") -> Sent:
        """In a task."""
        return write_rows(self._options, self._writer, iterator)

    def commit(self, messages: "list[Sent | None]") -> None:
        """Every task is done."""
        _log(messages, "written")

    def abort(self, messages: "list[Sent | None]") -> None:
        """Some task failed for good; what the others sent stays sent."""
        _log(messages, "aborted")


class StreamWriter(DataSourceStreamArrowWriter):  # type: ignore[misc]
    """Of a streaming query."""

    def __init__(self, options: WriteOptions) -> None:
        self._options: Final = options

    def write(self, iterator: "Iterator[pa.RecordBatch]") -> Sent:
        """In a task."""
        context = TaskContext.get()
        query = self._options.job_id or (context.getLocalProperty(QUERY_ID) if context is not None else "")
        return write_rows(self._options, query or "", iterator)

    def commit(self, messages: "list[Sent | None]", batchId: int) -> None:
        """Every task of the batch is done."""
        _log(messages, f"batch {batchId} written")

    def abort(self, messages: "list[Sent | None]", batchId: int) -> None:
        """Some task failed for good."""
        _log(messages, f"batch {batchId} aborted")


def batch_writer(options: WriteOptions, schema: "StructType", overwrite: bool) -> BatchWriter:
    """The writer of a batch job. Raises InvalidOption."""
    if overwrite:
        raise InvalidOption("a queue cannot be overwritten: use mode('append')")
    check_columns(schema, options)
    return BatchWriter(options)


def stream_writer(options: WriteOptions, schema: "StructType") -> StreamWriter:
    """The writer of a streaming query. Raises InvalidOption."""
    check_columns(schema, options)
    return StreamWriter(options)
