"""Reading one partition in a task: from a range of a queue to Arrow batches."""

import logging
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from artemis_py.spark.columns import BatchBuilder
from artemis_py.spark.connection import MAX_RETRY_DELAY_S, Broker
from artemis_py.spark.decoding import Rows
from artemis_py.spark.errors import ConnectionLost, DataLoss, Refused
from artemis_py.spark.options import ReadOptions
from artemis_py.spark.receiving import DrainLink, Range, RangeLink

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

logger: Final = logging.getLogger(__name__)


def read_range(options: ReadOptions, schema: "StructType", part: Range) -> "Iterator[pa.RecordBatch]":
    """The messages of `part`. A broken connection goes on behind the last message that was handed out.

    Raises DataLoss if messages are missing and that is an error, ConnectionLost when the tries are used up, Refused.
    """
    builder = BatchBuilder(schema, part.address, part.queue)
    broker = Broker(options.connection)
    start = part.start
    count = 0
    is_ordered = True
    tries = options.connection.retries
    delay_s = options.connection.retry_delay_s
    while start < part.stop:
        try:
            with broker.connect() as connection:
                link = RangeLink(connection, part, start, options.selector, options.credit)
                for payloads in link.batches(options.connection.idle_timeout_s):
                    rows = builder.rows()
                    _decode(rows, payloads)
                    # A broker may deliver by priority. Then nobody can say where to go on.
                    is_ordered = is_ordered and rows.sequences == sorted(rows.sequences)
                    start = rows.sequences[-1] + 1
                    count += rows.count
                    yield builder.build(rows)
                break
        except ConnectionLost as error:
            if tries == 0 or (count and not is_ordered):
                raise
            tries -= 1
            logger.warning("reading %s broke at %d, trying again in %.1f s: %s", part, start, delay_s, error)
        except Refused as error:
            # Between planning and reading the queue went: the same as messages that went.
            if options.fail_on_data_loss:
                raise DataLoss(f"{part} cannot be read any more: {error}") from None
            logger.warning("passed over: range=%s reason=%s", part, error)
            return
        time.sleep(delay_s)
        delay_s = min(2 * delay_s, MAX_RETRY_DELAY_S)
    _check_count(options, part, count)


def read_out(options: ReadOptions, schema: "StructType", address: str) -> "Iterator[pa.RecordBatch]":
    """Take the messages of a queue out of it. Nothing is tried again: what was accepted is nowhere else any more.

    Raises ConnectionLost, Refused.
    """
    builder = BatchBuilder(schema, address, address)
    with Broker(options.connection).connect() as connection:
        link = DrainLink(connection, address, options.selector, options.credit, options.settle == "before")
        for payloads in link.batches(options.receive_timeout_s):
            rows = builder.rows()
            _decode(rows, payloads)
            yield builder.build(rows)


def _decode(rows: Rows, payloads: list[bytes]) -> None:
    add = rows.add
    for payload in payloads:
        add(payload)


def _check_count(options: ReadOptions, part: Range, count: int) -> None:
    """Numbers are dense: what is missing was removed or has expired. With a selector nobody can tell."""
    missing = part.count - count
    if missing <= 0 or options.selector is not None:
        return
    if options.mode == "browse":
        # Its messages belong to others, who may take them at any time.
        logger.info("messages were taken meanwhile: range=%s missing=%d", part, missing)
        return
    text = f"{missing} of {part.count} messages of {part} are gone: they expired or were removed"
    if options.fail_on_data_loss:
        raise DataLoss(f"{text} (failOnDataLoss=false goes on with what is left)")
    logger.warning(text)
