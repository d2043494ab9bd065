"""Reading one partition in a task: from a range of a queue to Arrow batches."""

import logging
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from attrs import evolve

from artemis_py.errors import MalformedFrame
from artemis_py.spark.columns import BatchBuilder
from artemis_py.spark.connection import MAX_RETRY_DELAY_S, Broker, Connection
from artemis_py.spark.decoding import Rows
from artemis_py.spark.errors import ConnectionLost, DataLoss, Gone, Refused, Undecodable
from artemis_py.spark.management import Head
from artemis_py.spark.options import ReadOptions
from artemis_py.spark.planning import Planner
from artemis_py.spark.receiving import DrainLink, Range, RangeLink

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

logger: Final = logging.getLogger(__name__)


def read_range(options: ReadOptions, schema: "StructType", part: Range) -> "Iterator[pa.RecordBatch]":
    """The messages of `part`. A broken connection goes on behind the last message that was handed out.

    Raises DataLoss if messages are missing and that is an error, Undecodable, ConnectionLost when the tries are used up
    without a message in between, Refused; each names the queue and the number.
    """
    builder = BatchBuilder(schema, part.address, part.queue)
    broker = Broker(options.connection)
    start = part.start
    gaps: list[tuple[int, int]] = []
    tries = options.connection.retries
    delay_s = options.connection.retry_delay_s
    while start < part.stop:
        try:
            with broker.connect() as connection:
                link = RangeLink(connection, part, start, options.selector, options.credit)
                for payloads in link.batches(options.connection.idle_timeout_s):
                    rows = builder.rows()
                    batch = decoded(builder, rows, payloads, str(part))
                    gaps += gaps_of(start, rows.sequences)
                    start = rows.sequences[-1] + 1
                    tries, delay_s = options.connection.retries, options.connection.retry_delay_s
                    yield batch
            break
        except ConnectionLost as error:
            if tries == 0:
                raise ConnectionLost(f"{part} cannot be read from {start} on: {error}") from None
            tries -= 1
            logger.warning("reading %s broke at %d, trying again in %.1f s: %s", part, start, delay_s, error)
        except Gone as error:
            # Between planning and reading the queue went: the same as messages that went.
            if options.fail_on_data_loss:
                raise DataLoss(f"{part} cannot be read any more: {error}") from None
            logger.warning("passed over: range=%s reason=%s", part, error)
            return
        except Refused as error:
            raise Refused(f"{part} cannot be read from {start} on: {error}") from None
        time.sleep(delay_s)
        delay_s = min(2 * delay_s, MAX_RETRY_DELAY_S)
    if start < part.stop:
        gaps.append((start, part.stop))
    if gaps and options.selector is None:
        _check(options, part, gaps)


def gaps_of(expected: int, sequences: list[int]) -> list[tuple[int, int]]:
    """The ranges of numbers that are missing among these, which are ascending and begin at `expected` or later."""
    if sequences[0] == expected and sequences[-1] - expected + 1 == len(sequences):
        return []
    gaps = []
    for sequence in sequences:
        if sequence > expected:
            gaps.append((expected, sequence))
        expected = sequence + 1
    return gaps


def read_out(options: ReadOptions, schema: "StructType", address: str) -> "Iterator[pa.RecordBatch]":
    """Take the messages of a queue out of it. Nothing is tried again: what was accepted is nowhere else any more.

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
    """One batch; with `first` its messages are numbered from there, whatever the broker says.

    Raises Undecodable with the number of the message, if there is one.
    """
    add = rows.add
    try:
        for payload in payloads:
            add(payload)
    except MalformedFrame as error:
        number = rows.reading if first is None else first + rows.count
        raise Undecodable(f"{where}: {_message(number)} cannot be decoded: {error}") from None
    if first is not None:
        rows.sequences = list(range(first, first + len(payloads)))
    row = builder.row_without_text(rows)
    if row is not None:
        raise Undecodable(
            f"{where}: the body of {_message(rows.sequences[row])} is no UTF-8: declare the column body as binary"
        )
    return builder.build(rows)


def _message(number: int) -> str:
    return "a message" if number < 0 else f"message {number}"


def _check(options: ReadOptions, part: Range, gaps: list[tuple[int, int]]) -> None:
    """Numbers are missing: they were removed or have expired, or were never given. Raises DataLoss."""
    if options.mode == "browse":
        # Its messages belong to others, who may take them at any time.
        logger.info("numbers are missing, others took the messages: range=%s gaps=%d", part, len(gaps))
        return
    heads = [head for head in Planner(options).heads().queues if head.queue_id == part.queue_id]
    missing = sum(_missing(options, part, gap, heads[0]) if heads else gap[1] - gap[0] for gap in gaps)
    if missing == 0:
        return
    text = f"{missing} of {part.count} messages of {part} are gone: they expired or were removed"
    if options.fail_on_data_loss:
        raise DataLoss(f"{text} (failOnDataLoss=false goes on with what is left)")
    logger.warning(text)


def _missing(options: ReadOptions, part: Range, gap: tuple[int, int], head: Head) -> int:
    """How many messages a gap stands for. If it ends with the part, what comes behind says whether it ends at all."""
    start, stop = gap
    end = head.skipped_around(stop)
    if stop == part.stop and end > stop and _is_empty(options, evolve(part, start=stop, stop=end)):
        stop = end
    return stop - start - head.never_given(start, stop)


def _is_empty(options: ReadOptions, part: Range) -> bool:
    """Whether a queue has nothing in this range."""

    def look(connection: Connection) -> bool:
        return not any(RangeLink(connection, part, part.start, None, 1).batches(options.connection.idle_timeout_s))

    return Broker(options.connection).run(look)
