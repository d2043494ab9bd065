"""The driver that is killed: streams from one address into two others, until it dies or, with `--finish`, is done.

Two queries run side by side, one for each way of writing every message once. Rows are shuffled at random between
reading and writing, so that a batch that runs again has no row where it was. What the tasks read is written down.
"""

import argparse
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

IDEMPOTENCE: Final = ("epoch", "source")
ADDRESS: Final = "in"
MESSAGES_PER_BATCH: Final = 150


def recorder(ledger: str, query: str) -> Callable[[int], int]:
    """Passes numbers on, and appends each to the ledger: a line is one write, which is whole or absent."""

    def record(sequence: int) -> int:
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None
        line = f"{query} {context.getLocalProperty('streaming.sql.batchId')} {sequence}\n"
        file = os.open(ledger, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        try:
            os.write(file, line.encode())
        finally:
            os.close(file)
        return sequence

    return record


def start(spark: Any, url: str, folder: Path, idempotence: str, finish: bool) -> Any:
    """One query."""
    from pyspark.sql.functions import rand, udf

    source = (
        spark.readStream.format("amqp")
        .options(url=url, address=ADDRESS, subscription=idempotence)
        .options(maxMessagesPerTrigger=MESSAGES_PER_BATCH, minPartitions=2)
        .schema("queue string, sequence bigint, body string")
        .load()
    )
    # Evaluated once a row, before the shuffle: what the tasks read.
    recorded = udf(recorder(str(folder / "ledger"), idempotence), "bigint").asNondeterministic()
    writer = (
        source.withColumn("sequence", recorded("sequence"))
        .withColumn("place", rand())
        .repartition(3, "place")
        .drop("place")
        .writeStream.format("amqp")
        .options(url=url, address=f"out.{idempotence}", routingType="anycast", idempotence=idempotence)
        .option("checkpointLocation", str(folder / "checkpoints" / idempotence))
    )
    return (writer.trigger(availableNow=True) if finish else writer).start()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("url")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--finish", action="store_true")
    arguments = parser.parse_args()
    os.environ["PYSPARK_PYTHON"] = sys.executable
    from artemis_py.spark.session import session

    spark = session(
        "victim",
        {
            "spark.master": "local[2]",
            "spark.ui.enabled": "false",
            "spark.sql.shuffle.partitions": "3",
            "spark.local.dir": str(arguments.folder / "local"),
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.driver.host": "127.0.0.1",
        },
    )
    spark.sparkContext.setLogLevel("ERROR")
    queries = [start(spark, arguments.url, arguments.folder, each, arguments.finish) for each in IDEMPOTENCE]
    for query in queries:
        query.awaitTermination()
    spark.stop()


if __name__ == "__main__":
    main()
