"""The driver that is killed: streams from one address into two others, until it dies or, with `--finish`, is done.

Two queries run side by side, one for each way of writing every message once. Rows are shuffled at random between
reading and writing, so that a batch that runs again has no row where it was. What the tasks read, and what they sent,
is written down.

`FAULT` in the environment plants a fault into the query `epoch`, so that the checks of `kill` can be seen to fail. It
is planted here and nowhere else: classes of the main module travel to Spark's workers by value, in place of the
connector's own.
"""

import argparse
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from artemis_py.spark.data_source import AmqpDataSource
from artemis_py.spark.offsets import Offset
from artemis_py.spark.options import read_options
from artemis_py.spark.planning import Planner
from artemis_py.spark.sink import BATCH_ID, Sent, StreamWriter
from artemis_py.spark.stream_source import RangeStreamReader

if TYPE_CHECKING:
    import pyarrow as pa

IDEMPOTENCE: Final = ("epoch", "source")
ADDRESS: Final = "in"
MESSAGES_PER_BATCH: Final = 150
FAULT: Final = "ARTEMIS_PY_KILL_FAULT"
FAULTS: Final = ("pause", "doubles", "hasty")
"""`pause` only waits before the commit of the first batch with rows is over, to be killed there: the others do, too.
`doubles` writes without idempotence. `hasty` acknowledges a batch before its rows are committed."""
PAUSE_S: Final = 600.0
"""Far more than it takes to be killed."""
FOLDER: Final = "ARTEMIS_PY_KILL_FOLDER"
"""Where everything is written down; workers inherit it."""


class RecordingSource(AmqpDataSource):
    """The source and sink of the connector, which tell what their tasks do."""

    def streamReader(self, schema: Any) -> Any:
        """The connector's, recording."""
        reader = super().streamReader(schema)
        reader.__class__ = RecordingReader
        return reader

    def streamWriter(self, schema: Any, overwrite: bool) -> Any:
        """The connector's, recording."""
        writer = super().streamWriter(schema, overwrite)
        writer.__class__ = RecordingWriter
        return writer


class RecordingReader(RangeStreamReader):
    """Writes down what is read, when it is handed to Spark."""

    def read(self, partition: Any) -> "Iterator[pa.RecordBatch]":
        """A range."""
        for batch in super().read(partition):
            query = self._options.subscription
            lines = [f"{query} {batch_id()} {sequence}\n" for sequence in batch.column("sequence").to_pylist()]
            record("ledger", "".join(lines))
            yield batch


class RecordingWriter(StreamWriter):
    """Writes down what the broker took, and does what it was told to do wrong."""

    def write(self, iterator: "Iterator[pa.RecordBatch]") -> Sent:
        """In a task."""
        sent = super().write(iterator)
        record("sent", f"{self._query()} {batch_id()} {sent.accepted}\n")
        return sent

    def commit(self, messages: "list[Sent | None]", batchId: int) -> None:
        """Beside the driver, before the batch is in the commit log."""
        fault = os.environ.get(FAULT) if self._query() == "epoch" else None
        if fault == "hasty":
            self._acknowledge(batchId)
            pause(messages)
        super().commit(messages, batchId)
        if fault is not None:
            pause(messages)

    def _query(self) -> str:
        assert self._options.address is not None
        return self._options.address.removeprefix("out.")

    def _acknowledge(self, batch: int) -> None:
        """The end of a batch as the offset log has it."""
        query = self._query()
        log = Path(os.environ[FOLDER]) / "checkpoints" / query / "offsets" / str(batch)
        url = str(self._options.connection.servers[0])
        options = read_options({"url": url, "address": ADDRESS, "subscription": query})
        Planner(options).acknowledge(Offset.read(log.read_text(encoding="utf-8").splitlines()[2]))


def batch_id() -> str:
    """Of the task that runs."""
    from pyspark import TaskContext

    context = TaskContext.get()
    assert context is not None
    return str(context.getLocalProperty(BATCH_ID))


def record(name: str, lines: str) -> None:
    """One write, which is whole or absent."""
    file = os.open(Path(os.environ[FOLDER]) / name, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    try:
        os.write(file, lines.encode())
    finally:
        os.close(file)


def pause(messages: "list[Sent | None]") -> None:
    """At the first batch that has rows: say that it is time to be killed, and wait for it."""
    if any(message is not None and message.accepted for message in messages):
        mark = Path(os.environ[FOLDER]) / "marked"
        if not mark.exists():
            mark.touch()
            time.sleep(PAUSE_S)


def start(spark: Any, url: str, folder: Path, query: str, finish: bool) -> Any:
    """One query."""
    from pyspark.sql.functions import rand

    fault = os.environ.get(FAULT) if query == "epoch" else None
    source = (
        spark.readStream.format("amqp")
        .options(url=url, address=ADDRESS, subscription=query)
        .options(maxMessagesPerTrigger=MESSAGES_PER_BATCH, minPartitions=2, failOnDataLoss=fault != "hasty")
        .schema("queue string, sequence bigint, body string")
        .load()
    )
    writer = (
        source.withColumn("place", rand())
        .repartition(3, "place")
        .drop("place")
        .writeStream.format("amqp")
        .options(url=url, address=f"out.{query}", routingType="anycast")
        .options(idempotence="none" if fault == "doubles" else query)
        .option("checkpointLocation", str(folder / "checkpoints" / query))
    )
    return (writer.trigger(availableNow=True) if finish else writer).start()


SETTINGS: Final = {
    "spark.master": "local[2]",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": "3",
    # What the checks look at must still be there at the end.
    "spark.sql.streaming.minBatchesToRetain": "100000",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    # Time for a worker in Python to start: on a busy machine the 15 seconds are too short.
    "spark.python.authenticate.socketTimeout": "300s",
    # A driver lives for seconds: what it compiles well it will not use again.
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xshare:auto",
}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("url")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--finish", action="store_true")
    arguments = parser.parse_args()
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ[FOLDER] = str(arguments.folder)
    from artemis_py.spark.session import session

    spark = session("victim", {**SETTINGS, "spark.local.dir": str(arguments.folder / "local")})
    spark.sparkContext.setLogLevel("ERROR")
    spark.dataSource.register(RecordingSource)
    queries = [start(spark, arguments.url, arguments.folder, each, arguments.finish) for each in IDEMPOTENCE]
    for query in queries:
        query.awaitTermination()
    spark.stop()


if __name__ == "__main__":
    main()
