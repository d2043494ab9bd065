"""The driver that is killed while it spools; with `--finish` it ends when the queue is empty.

Of each batch one line with its number and its rows goes to the ledger, before Spark writes it into the commit log.
"""

import argparse
import json
import os
import sys
from pathlib import Path
from typing import Any, Final

QUEUE: Final = "in"
MESSAGES_PER_BATCH: Final = 150


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("url")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--finish", action="store_true")
    arguments = parser.parse_args()
    os.environ["PYSPARK_PYTHON"] = sys.executable
    from artemis_py.spark.session import session

    spark = session(
        "spool victim",
        {
            "spark.master": "local[2]",
            "spark.ui.enabled": "false",
            "spark.local.dir": str(arguments.folder / "local"),
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.driver.host": "127.0.0.1",
            "spark.python.authenticate.socketTimeout": "300s",
        },
    )
    spark.sparkContext.setLogLevel("ERROR")
    frame = (
        spark.readStream.format("amqp")
        .options(url=arguments.url, mode="spool", queue=QUEUE, spoolDir=str(arguments.folder / "spool"))
        .options(maxMessagesPerTrigger=MESSAGES_PER_BATCH, minPartitions=2)
        .schema("sequence bigint, body string")
        .load()
    )

    def record(rows: Any, batch: int) -> None:
        line = json.dumps([batch, sorted([row.sequence, row.body] for row in rows.collect())])
        with open(arguments.folder / "ledger", "a", encoding="ascii") as ledger:
            ledger.write(line + "\n")

    writer = frame.writeStream.foreachBatch(record).option("checkpointLocation", str(arguments.folder / "checkpoint"))
    (writer.trigger(availableNow=True) if arguments.finish else writer).start().awaitTermination()
    spark.stop()


if __name__ == "__main__":
    main()
