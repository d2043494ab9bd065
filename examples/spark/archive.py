"""Append everything that an address has got since the last run to Parquet files, each message once.

python archive.py FOLDER [amqp://host:port]

Needs `pip install 'artemis-py-broker[spark]'` and Java 17. The first run makes the subscription; run it again after
sending something to `orders`.
"""

import os
import sys
from pathlib import Path

from pyspark.sql import SparkSession

URL = "amqp://127.0.0.1:61616"


def main(folder: str, url: str = URL) -> None:
    """One run: until nothing is left that was there when it began."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
    orders = (
        spark.readStream.format("amqp")
        .option("url", url)
        .option("address", "orders")
        .option("subscription", "archive")
        .schema("sequence bigint, message_id string, body string, properties map<string,string>")
        .load()
    )
    query = (
        orders.writeStream.format("parquet")
        .option("path", str(Path(folder) / "orders"))
        .option("checkpointLocation", str(Path(folder) / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    print(f"archived: {sum(progress.numInputRows for progress in query.recentProgress)}")
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
