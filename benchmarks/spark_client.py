"""What a message costs the Spark connector's client, in CPU microseconds: encode, send, receive, decode, Arrow.

python -m benchmarks.spark_client [amqp://host:port]

Without Spark. Needs pyarrow, and a broker whose address `spark-client` is empty. Messages of 256 bytes with an id, two
more text fields and three application properties.
"""

import sys
import time
from collections.abc import Callable

import pyarrow as pa

from artemis_py.spark.batches import Encoder
from artemis_py.spark.columns import COLUMNS, NOT_BY_DEFAULT
from artemis_py.spark.connection import Broker
from artemis_py.spark.decoding import Rows
from artemis_py.spark.offsets import earliest, latest, ranges_by_key
from artemis_py.spark.options import read_options, write_options
from artemis_py.spark.planning import Planner
from artemis_py.spark.receiving import RangeLink
from artemis_py.spark.sending import Sender

ROWS = 10_000
BATCHES = 6


def rows() -> pa.RecordBatch:
    """One batch."""
    maps = pa.map_(pa.string(), pa.string())
    columns = {
        "body": pa.array([b"x" * 256] * ROWS, pa.binary()),
        "message_id": pa.array([str(number) for number in range(ROWS)]),
        "subject": pa.array(["subject"] * ROWS),
        "content_type": pa.array(["text/plain"] * ROWS),
        "properties": pa.array([[("a", "1"), ("b", "2"), ("c", "3")]] * ROWS, maps),
    }
    return pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))


def measure(what: str, count: int, work: Callable[[], object]) -> None:
    """Print the CPU of this process and the rate."""
    cpu, wall = time.process_time(), time.perf_counter()
    work()
    cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
    print(f"{what:24} {cpu / count * 1e6:7.2f} us {count / wall:12,.0f}/s")


def decode(payloads: list[bytes], names: frozenset[str]) -> None:
    """As a task does, in batches."""
    for start in range(0, len(payloads), ROWS):
        columns = Rows(names)
        for payload in payloads[start : start + ROWS]:
            columns.add(payload)


def main(url: str = "amqp://127.0.0.1:61616") -> None:
    """Everything once."""
    batch = rows()
    options = write_options({"url": url, "address": "spark-client", "routingType": "anycast"})
    measure("encode, all columns", ROWS, lambda: list(Encoder(options, "w").messages(batch)))
    measure("encode, body", ROWS, lambda: list(Encoder(options, "w").messages(batch.select(["body"]))))
    messages = list(Encoder(options, "w").messages(batch))
    sender = Sender(options)

    def send() -> None:
        for _ in range(BATCHES):
            sender.send(messages)
        sender.flush()

    measure("send, durable", ROWS * BATCHES, send)
    sender.close()
    heads = Planner(read_options({"url": url, "mode": "browse", "queue": "spark-client"})).heads()
    (part,) = ranges_by_key(earliest(heads), latest(heads)).values()
    payloads: list[bytes] = []

    def receive() -> None:
        with Broker(options.connection).connect() as connection:
            for arrived in RangeLink(connection, part, part.start, None, 1000).batches(30):
                payloads.extend(arrived)

    measure("receive", part.count, receive)
    usual = frozenset(name for name in COLUMNS if name not in NOT_BY_DEFAULT) - {"address", "queue", "sequence"}
    measure("decode, all columns", len(payloads), lambda: decode(payloads, usual))
    measure("decode, body", len(payloads), lambda: decode(payloads, frozenset(("body",))))


if __name__ == "__main__":
    main(*sys.argv[1:])
