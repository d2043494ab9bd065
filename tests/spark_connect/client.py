"""A program of somebody who has no Java: everything happens at the server of Spark Connect. Run by the tests.

python client.py sc://host:port amqp://host:port ADDRESS FOLDER
"""

import sys
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession


def main(server: str, url: str, address: str, folder: str) -> None:
    """Write, read and stream in both directions, and make a mistake."""
    spark = SparkSession.builder.remote(server).getOrCreate()
    broker = {"url": url}

    def count(queue: str) -> Any:
        return spark.read.format("amqp").options(**broker, mode="browse", queue=queue).load().count()

    def run(writer: Any, checkpoint: str) -> None:
        query = writer.option("checkpointLocation", str(Path(folder) / checkpoint)).trigger(availableNow=True).start()
        query.awaitTermination()

    def archive() -> Any:
        source = spark.readStream.format("amqp").options(**broker, address=f"{address}.topic", subscription="lake")
        rows = source.load().select("sequence", "body")
        run(rows.writeStream.format("parquet").option("path", str(Path(folder) / "rows")), "in")
        return spark.read.schema("sequence bigint, body binary").parquet(str(Path(folder) / "rows")).count()

    rows = spark.range(10).selectExpr("cast(id AS string) AS body")
    sink = rows.write.format("amqp").options(**broker, routingType="anycast").mode("append")
    sink.options(address=address).save()
    print("written and read:", count(address))

    print("streamed before:", archive())
    rows.write.format("amqp").options(**broker, address=f"{address}.topic").mode("append").save()
    print("streamed after:", archive())

    again = spark.readStream.schema("sequence bigint, body binary").parquet(str(Path(folder) / "rows")).select("body")
    back = again.writeStream.format("amqp").options(**broker, address=f"{address}.back", routingType="anycast")
    run(back, "out")
    print("streamed back:", count(f"{address}.back"))

    try:
        spark.read.format("amqp").options(**broker, mode="browse", qeue=address).load().count()
    except Exception as error:
        print("refused:", "the amqp source has no option 'qeue'; did you mean queue?" in str(error))
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
