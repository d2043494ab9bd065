"""Reading one partition in a task: from a range of a queue to Arrow batches."""

import logging
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from artemis_py.errors import MalformedFrame
from artemis_py.spark.columns import BatchBuilder
from artemis_py.spark.connection import MAX_RETRY_DELAY_S, Broker
from artemis_py.spark.decoding import Rows
from artemis_py.spark.errors import ConnectionLost, DataLoss, Elsewhere, Gone, Refused, Undecodable, Withheld
from artemis_py.spark.missing import Missing, gaps_of
from artemis_py.spark.options import ReadOptions
from artemis_py.spark.receiving import DrainLink, Range, RangeLink

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

logger: Final = logging.getLogger(__name__)


def read_range(options: ReadOptions, schema: "StructType", part: Range) -> "Iterator[pa.RecordBatch]":
    """Yield the messages of `part`. After a broken connection, reading continues behind the last one that was yielded.

    The broker is asked about missing numbers before anything behind them is yielded; messages in the queue are read
    again. Raises DataLoss if messages are gone and that is an error, Withheld if the broker has some and does not
    deliver them, Undecodable, ConnectionLost when the retries are used up without a message in between, Refused; each
    names the queue and the number. Long because each kind of error continues the loop in its own way.
    """
    builder = BatchBuilder(schema, part.address, part.queue)
    broker = Broker(options.connection)
    missing = Missing(options, part)
    start = part.start
    tries = options.connection.retries
    delay_s = options.connection.retry_delay_s
    while start < part.stop:
        try:
            with broker.connect() as connection:
                missing.check_queue(connection)
                link = RangeLink(connection, part, start, options.selector, options.credit)
                for payloads in link.batches(options.connection.idle_timeout_s):
                    rows = builder.rows()
                    batch = decoded(builder, rows, payloads, str(part))
                    if builder.has_error and -1 in rows.sequences:
                        raise Undecodable(f"{part}: a message cannot be decoded, and its number is not known")
                    missing.look_up(gaps_of(start, rows.sequences))
                    start = rows.sequences[-1] + 1
                    tries, delay_s = options.connection.retries, options.connection.retry_delay_s
                    yield batch
            if start < part.stop:
                missing.look_up([(start, part.stop)])
            break
        except ConnectionLost as error:
            if tries == 0:
                if not isinstance(error, Withheld) or options.mode != "browse" or options.fail_on_data_loss:
                    raise type(error)(f"{part} cannot be read from {start} on: {error}") from None
                missing.is_lenient = True
                continue
            tries -= 1
            if isinstance(error, Elsewhere):
                broker.pass_over()
            logger.warning("reading %s broke at %d, trying again in %.1f s: %s", part, start, delay_s, error)
        except Gone as error:
            # The queue was deleted between planning and reading: treated like messages that are gone.
            if options.fail_on_data_loss:
                raise DataLoss(f"{part} can no longer be read: {error}") from None
            logger.warning("passed over: range=%s reason=%s", part, error)
            return
        except Refused as error:
            raise Refused(f"{part} cannot be read from {start} on: {error}") from None
        time.sleep(delay_s)
        delay_s = min(2 * delay_s, MAX_RETRY_DELAY_S)
    missing.conclude()


def read_out(options: ReadOptions, schema: "StructType", address: str) -> "Iterator[pa.RecordBatch]":
    """Remove the messages of a queue and yield them. Nothing is retried: a message that was accepted exists only here.

    Raises Undecodable, ConnectionLost, Refused.
    """
    builder = BatchBuilder(schema, address, address)
    with Broker(options.connection).connect() as connection:
        link = DrainLink(connection, address, options.selector, options.credit, options.settle == "before")
        for payloads in link.batches(options.receive_timeout_s):
            yield decoded(builder, builder.rows(), payloads, address)


def decoded(
    builder: BatchBuilder, rows: Rows, payloads: list[bytes], where: str, first: int | None = None
) -> "pa.RecordBatch":
    """Return one batch; with `first` its messages are numbered from there, whatever the broker says.

    With a column `error`, a message that cannot be decoded is a row with the reason. Otherwise raises Undecodable with
    the number of the message, if there is one.
    """
    add = rows.add
    for payload in payloads:
        try:
            add(payload)
        except MalformedFrame as error:
            if builder.has_error:
                rows.add_failed(payload, f"it cannot be decoded: {error}")
                continue
            number = rows.reading if first is None else first + rows.count
            raise Undecodable(f"{where}: {_message(number)} cannot be decoded: {error}") from None
    if first is not None:
        rows.sequences = list(range(first, first + len(payloads)))
    row = builder.row_without_text(rows)
    if row is not None:
        if not builder.has_error:
            raise Undecodable(
                f"{where}: the body of {_message(rows.sequences[row])} is not UTF-8: declare the column body as "
                "binary, or ask for the column error"
            )
        builder.set_aside_text(rows)
    return builder.build(rows)


def _message(number: int) -> str:
    return "a message" if number < 0 else f"message {number}"
