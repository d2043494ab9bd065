"""Writing: `df.write.format("amqp")` and `writeStream`.

Each task sends over its own connection and is done when the broker has accepted all messages. The option `idempotence`
decides how a task that runs twice does not send twice.
"""

import logging
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Final
from uuid import uuid4

from attrs import evolve
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage

from artemis_amqp.engine.extensions import STAGE
from artemis_py.spark.batches import PAYLOAD_COLUMNS, Encoder, check_columns
from artemis_py.spark.connection import Broker, Connection
from artemis_py.spark.errors import InvalidOption, Refused, SparkError
from artemis_py.spark.management import Management
from artemis_py.spark.options import WriteOptions
from artemis_py.spark.sending import Sender, StageName

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

logger: Final = logging.getLogger(__name__)

STAGED: Final = (None, "epoch")
"""Values of `idempotence` that write into stages, if the broker has them."""

QUERY_ID: Final = "sql.streaming.queryId"
BATCH_ID: Final = "streaming.sql.batchId"


class Sent(WriterCommitMessage):  # type: ignore[misc]
    """Result of one task."""

    def __init__(self, writer: str, accepted: int, dropped: int, staged: dict[str, int], diverted: int = 0) -> None:
        self.writer: Final = writer
        self.accepted: Final = accepted
        self.dropped: Final = dropped
        self.diverted: Final = diverted
        """Number of accepted messages that went to the error address."""
        self.staged: Final = staged
        """Messages that wait for the commit, by attempt; empty if the broker or the options have no stages."""


def write_rows(options: WriteOptions, writer: str, epoch: int, batches: "Iterator[pa.RecordBatch]") -> Sent:
    """Send the rows of one task. Raises SparkError."""
    stage = None
    if options.idempotence in STAGED:
        # Each run of a task has another name: only the run that is reported is committed.
        stage = StageName(writer, epoch, str(uuid4()))
    encoder = Encoder(options, writer)
    sender = Sender(options, stage)
    try:
        for batch in batches:
            sender.send(encoder.messages(batch))
        sender.flush()
    except Exception:
        if sender.staged:
            _drop_stages(options, lambda management: management.abort_attempts(writer, epoch, sender.staged))
        raise
    finally:
        sender.close()
    return Sent(writer, sender.accepted, sender.dropped, sender.staged, sender.diverted)


def check_commit(options: WriteOptions, writer: str) -> None:
    """Check that an epoch of this writer can be committed, before any row is sent.

    The commit is the last step of a job: a permission that it lacks would else be known after hours of work. Raises
    Refused, ConnectionLost.
    """
    if options.idempotence in STAGED:
        Broker(options.connection).run(lambda connection: _check_commit(connection, options, writer))


def _check_commit(connection: Connection, options: WriteOptions, writer: str) -> None:
    if STAGE not in connection.offered:
        if options.idempotence == "epoch":
            raise Refused("the broker has no staged writes: idempotence=epoch is not possible with it")
        return
    try:
        _management(connection, options).last_epoch(writer)
    except Refused as error:
        raise Refused(f"nothing was sent, because no epoch could be committed: {error}") from None


def commit_epoch(options: WriteOptions, epoch: int, messages: "Sequence[Sent | None]") -> bool:
    """Commit an epoch: the broker routes the messages that the tasks staged; the others are routed already.

    False if the broker had committed the epoch before. Raises SparkError.
    """
    done = [message for message in messages if message is not None]
    attempts = {attempt: count for message in done for attempt, count in message.staged.items()}
    is_new = True
    if attempts:
        writer = done[0].writer
        try:
            is_new = Broker(options.connection).run(
                lambda connection: _management(connection, options).commit_epoch(writer, epoch, attempts)
            )
        except Refused as error:
            raise Refused(f"epoch {epoch} of writer {writer} cannot be committed: {error}") from None
    accepted = sum(message.accepted for message in done)
    dropped = sum(message.dropped for message in done)
    diverted = sum(message.diverted for message in done)
    again = "" if is_new else ", which the broker already had"
    text = "written: epoch=%d%s tasks=%d accepted=%d dropped=%d diverted=%d"
    logger.info(text, epoch, again, len(done), accepted, dropped, diverted)
    if diverted:
        logger.warning("messages were rejected: epoch=%d diverted=%d to=%s", epoch, diverted, options.error_address)
    return is_new


def abort_epoch(options: WriteOptions, writer: str, epoch: int) -> None:
    """Abort an epoch: the broker drops the messages staged for it. A task that failed has dropped its own, one that was
    killed has not."""
    if options.idempotence in STAGED:
        _drop_stages(options, lambda management: management.abort_epoch(writer, epoch))


def _drop_stages(options: WriteOptions, drop: Callable[[Management], None]) -> None:
    """Drop stages; errors are only logged: the job has failed already, and the broker drops forgotten stages itself."""
    try:
        with Broker(options.connection).connect() as connection:
            if STAGE in connection.offered:
                drop(_management(connection, options))
    except SparkError as error:
        logger.warning("what a failed job has staged is left to the broker's timeout: %s", error)


def _management(connection: Connection, options: WriteOptions) -> Management:
    return Management(connection, options.connection.idle_timeout_s)


class BatchWriter(DataSourceArrowWriter):  # type: ignore[misc]
    """Writer of a batch job: one epoch of a writer named `jobId`, so that a second job of that name adds nothing.

    With the option `epoch`, jobs of one name have numbers, like the batches of a stream.
    """

    def __init__(self, options: WriteOptions) -> None:
        self._options: Final = options
        self.writer: Final = options.job_id or str(uuid4())
        self._epoch: Final = options.epoch or 0

    def write(self, iterator: "Iterator[pa.RecordBatch]") -> Sent:
        """Send the rows of one task; runs in the task."""
        return write_rows(self._options, self.writer, self._epoch, iterator)

    def commit(self, messages: "list[Sent | None]") -> None:
        """Commit the epoch: every task is done."""
        commit_epoch(self._options, self._epoch, messages)

    def abort(self, messages: "list[Sent | None]") -> None:
        """Abort the epoch: a task has finally failed."""
        abort_epoch(self._options, self.writer, self._epoch)


class StreamWriter(DataSourceStreamArrowWriter):  # type: ignore[misc]
    """Writer of a streaming query: the query's id is the writer, the number of the batch is the epoch."""

    def __init__(self, options: WriteOptions) -> None:
        self._options: Final = options

    def write(self, iterator: "Iterator[pa.RecordBatch]") -> Sent:
        """Send the rows of one task; runs in the task, the only place that knows the id of the query."""
        context = TaskContext.get()
        assert context is not None
        writer = self._options.job_id or context.getLocalProperty(QUERY_ID)
        return write_rows(self._options, writer, int(context.getLocalProperty(BATCH_ID)), iterator)

    def commit(self, messages: "list[Sent | None]", batchId: int) -> None:
        """Commit the epoch: every task of the batch is done."""
        commit_epoch(self._options, batchId, messages)

    def abort(self, messages: "list[Sent | None]", batchId: int) -> None:
        """Abort the epoch: a task has finally failed."""
        writer = self._options.job_id or next((message.writer for message in messages if message is not None), None)
        if writer is not None:
            abort_epoch(self._options, writer, batchId)


def batch_writer(options: WriteOptions, schema: "StructType", overwrite: bool) -> BatchWriter:
    """Return the writer of a batch job, after `check_commit`. Raises InvalidOption, Refused, ConnectionLost."""
    if overwrite:
        raise InvalidOption("a queue cannot be overwritten: use mode('append')")
    options = _completed(options, schema)
    writer = BatchWriter(options)
    check_commit(options, writer.writer)
    return writer


def stream_writer(options: WriteOptions, schema: "StructType") -> StreamWriter:
    """Return the writer of a streaming query, as `batch_writer` does. The id of the query is not known here."""
    if options.epoch is not None:
        raise InvalidOption("option epoch is for batch jobs: the epochs of a stream are its batches")
    options = _completed(options, schema)
    check_commit(options, options.job_id or "any")
    return StreamWriter(options)


def _completed(options: WriteOptions, schema: "StructType") -> WriteOptions:
    """Return the options, with `idempotence` set to use a column of ids if there is one. Raises InvalidOption.

    In an object, or in Arrow, a column of that name is one of many: its values may be repeated.
    """
    has_ids = "duplicate_id" in (schema.names if options.payload in PAYLOAD_COLUMNS else options.fields)
    if options.idempotence is None and options.epoch is None and has_ids:
        options = evolve(options, idempotence="column")
    check_columns(schema, options)
    return options
