"""Streaming queries: batches, limits, restarts, acknowledgement, and writing exactly once."""

import json
import re
import time
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from proton import Message, symbol

from artemis_py.cli import main
from artemis_py.spark.options import read_options
from artemis_py.spark.planning import Planner
from tests.interop.broker_process import BrokerProcess
from tests.spark.conftest import Reader, message_count, receive, send


def source(spark: Any, broker: BrokerProcess, address: str, **options: object) -> Any:
    """A stream of the subscription `lake`."""
    reader = spark.readStream.format("amqp").option("url", broker.url).option("address", address)
    for key, value in {"subscription": "lake", **options}.items():
        reader = reader.option(key, str(value))
    return reader.schema("sequence bigint, body string").load()


def subscribe(broker: BrokerProcess, address: str) -> str:
    """Make the subscription before anything is sent; its queue."""
    options = read_options({"url": broker.url, "address": address, "subscription": "lake"})
    return Planner(options).heads().queues[0].queue


def finish(writer: Any, checkpoint: str) -> list[int]:
    """Run until nothing is left; rows of each batch."""
    query = writer.option("checkpointLocation", checkpoint).trigger(availableNow=True).start()
    query.awaitTermination()
    return [progress.numInputRows for progress in query.recentProgress]


def to_files(frame: Any, folder: Path) -> Any:
    return frame.writeStream.format("parquet").option("path", str(folder / "out"))


def to_queue(frame: Any, broker: BrokerProcess, address: str) -> Any:
    writer = frame.writeStream.format("amqp").option("url", broker.url).option("address", address)
    return writer.option("routingType", "anycast")


def numbered(start: int, stop: int) -> list[Message]:
    return [Message(body=str(i), durable=True) for i in range(start, stop)]


def test_the_backlog_is_reported_while_a_query_runs_and_from_its_checkpoint(
    spark: Any, broker: BrokerProcess, name: str, tmp_path: Path, checkpoint: str
) -> None:
    """By a listener after each batch, and by a command that needs no session."""
    from artemis_py.spark.listener import BacklogListener

    queue = subscribe(broker, name)
    send(broker, name, numbered(0, 5))
    told: list[tuple[str, str, int]] = []
    listener = BacklogListener(lambda query, found: told.extend((query, one.queue, one.behind) for one in found))
    spark.streams.addListener(listener)
    try:
        frame = source(spark, broker, name, maxMessagesPerTrigger=2, ack="none")
        finish(to_files(frame, tmp_path).queryName("lake"), checkpoint)
        deadline = time.monotonic() + 60
        while ("lake", queue, 0) not in told:
            assert time.monotonic() < deadline, told
            time.sleep(0.05)
    finally:
        spark.streams.removeListener(listener)
    assert [behind for query, _, behind in told if query == "lake"][-3:] == [3, 1, 0]

    send(broker, name, numbered(5, 9))
    runner = CliRunner()
    asked = runner.invoke(main, ["spark", "lag", "--checkpoint", checkpoint, "--url", broker.url, "--json"])
    late = runner.invoke(main, ["spark", "lag", "--checkpoint", checkpoint, "--url", broker.url, "--max-behind", "3"])
    all_of_it = runner.invoke(
        main, ["spark", "lag", "--address", name, "--subscription", "lake", "--url", broker.url, "--json"]
    )
    unknown = runner.invoke(main, ["spark", "lag", "--queue", "nowhere", "--url", broker.url])

    (row,) = json.loads(asked.stdout)
    assert (row["queue"], row["position"], row["end"], row["behind"], row["waiting"]) == (queue, 6, 10, 4, 9)
    assert (asked.exit_code, late.exit_code, unknown.exit_code) == (0, 1, 1)
    assert json.loads(all_of_it.stdout)[0]["behind"] == 9
    assert "1 of 1 queues are not at this broker" in unknown.stderr


def test_batches_keep_the_limit_and_the_backlog_shrinks(
    spark: Any, broker: BrokerProcess, name: str, tmp_path: Path, checkpoint: str
) -> None:
    """All of it acknowledged by the end of the run, the last batch as well."""
    queue = subscribe(broker, name)
    send(broker, name, numbered(0, 100))

    batches = finish(to_files(source(spark, broker, name, maxMessagesPerTrigger=40), tmp_path), checkpoint)

    assert [rows for rows in batches if rows] == [40, 40, 20]
    assert message_count(broker, queue) == 0
    rows = spark.read.parquet(str(tmp_path / "out")).collect()
    assert sorted(int(row.body) for row in rows) == list(range(100))


def test_a_query_goes_on_where_it_stopped(
    spark: Any, broker: BrokerProcess, name: str, tmp_path: Path, checkpoint: str
) -> None:
    subscribe(broker, name)
    for start in (0, 10):
        send(broker, name, numbered(start, start + 10))
        finish(to_files(source(spark, broker, name), tmp_path), checkpoint)
    assert sum(finish(to_files(source(spark, broker, name), tmp_path), checkpoint)) == 0

    rows = spark.read.parquet(str(tmp_path / "out")).collect()
    assert sorted(int(row.body) for row in rows) == list(range(20))


def test_without_acknowledgement_everything_stays(
    spark: Any, broker: BrokerProcess, name: str, tmp_path: Path, checkpoint: str
) -> None:
    queue = subscribe(broker, name)
    send(broker, name, numbered(0, 10))

    finish(to_files(source(spark, broker, name, ack="none"), tmp_path), checkpoint)

    assert message_count(broker, queue) == 10


def test_octets_limit_a_batch(spark: Any, broker: BrokerProcess, name: str, tmp_path: Path, checkpoint: str) -> None:
    """By the average size, also for messages that wait on disk."""
    subscribe(broker, name)
    send(broker, name, [Message(body=1000 * "x", durable=True) for _ in range(40)])

    batches = finish(to_files(source(spark, broker, name, maxBytesPerTrigger="12k"), tmp_path), checkpoint)

    counts = [rows for rows in batches if rows]
    assert sum(counts) == 40
    assert all(9 <= rows <= 12 for rows in counts[:-1])


def test_batches_can_stay_behind(spark: Any, broker: BrokerProcess, name: str, tmp_path: Path, checkpoint: str) -> None:
    """Also of a query that ends and is started again: what it keeps is in its checkpoint."""
    queue = subscribe(broker, name)
    left = []
    for start in range(0, 50, 10):
        send(broker, name, numbered(start, start + 10))
        finish(to_files(source(spark, broker, name, ack="keep=2"), tmp_path), checkpoint)
        left.append(message_count(broker, queue))

    assert left == [10, 20, 20, 20, 20]


def test_a_batch_that_is_replayed_is_not_written_again(
    spark: Any, broker: BrokerProcess, read: Reader, name: str, checkpoint: str
) -> None:
    """A crash between the sink's commit and Spark's commit log leaves no entry for the batch: it runs again.

    The plan shuffles at random, so that no row is at the place it had before.
    """
    subscribe(broker, name)
    send(broker, name, numbered(0, 60))

    def shuffled() -> Any:
        frame = source(spark, broker, name, maxMessagesPerTrigger=30, ack="none").selectExpr("body", "rand() AS place")
        return to_queue(frame.repartition(3, "place").select("body"), broker, f"{name}.out")

    finish(shuffled(), checkpoint)
    commits = sorted((Path(checkpoint) / "commits").glob("[0-9]*"), key=lambda path: int(path.name))
    commits[-1].unlink()
    (commits[-1].parent / f".{commits[-1].name}.crc").unlink(missing_ok=True)
    finish(shuffled(), checkpoint)

    rows = read("body string", mode="browse", queue=f"{name}.out").collect()
    assert sorted(int(row.body) for row in rows) == list(range(60))


def test_messages_that_expired_before_they_were_read_fail_the_query(
    spark: Any, broker: BrokerProcess, name: str, tmp_path: Path, checkpoint: str
) -> None:
    """What an offset promises and the broker does not have is never passed over in silence."""
    queue = subscribe(broker, name)
    send(broker, name, numbered(0, 10))
    finish(to_files(source(spark, broker, name, ack="none"), tmp_path), checkpoint)
    send(broker, name, numbered(10, 20))
    Planner(read_options({"url": broker.url, "mode": "browse", "queue": queue})).acknowledge(
        _ahead(broker, queue, by=-5)
    )

    with pytest.raises(Exception, match="messages from 11 up to 15 are gone"):
        finish(to_files(source(spark, broker, name), tmp_path), checkpoint)
    finish(to_files(source(spark, broker, name, failOnDataLoss="false"), tmp_path), checkpoint)

    bodies = sorted(int(row.body) for row in spark.read.parquet(str(tmp_path / "out")).collect())
    assert bodies == [*range(10), *range(15, 20)]


def _ahead(broker: BrokerProcess, queue: str, by: int) -> Any:
    from artemis_py.spark.offsets import Offset, Position, latest

    heads = Planner(read_options({"url": broker.url, "mode": "browse", "queue": queue})).heads()
    return Offset({key: Position(at.queue_id, at.next + by) for key, at in latest(heads).positions.items()})


def test_a_stream_from_the_end_reads_only_what_comes(
    spark: Any, broker: BrokerProcess, name: str, tmp_path: Path, checkpoint: str
) -> None:
    subscribe(broker, name)
    send(broker, name, numbered(0, 10))
    options = {"startingOffsets": "latest"}
    assert sum(finish(to_files(source(spark, broker, name, **options), tmp_path), checkpoint)) == 0
    send(broker, name, numbered(10, 13))

    assert sum(finish(to_files(source(spark, broker, name, **options), tmp_path), checkpoint)) == 3


def test_a_subscription_on_a_pattern_has_every_address_that_fits(
    spark: Any, broker: BrokerProcess, name: str, tmp_path: Path, checkpoint: str
) -> None:
    """Also those that come later, from their first message on; each row says where its message was sent to."""

    def frame() -> Any:
        reader = spark.readStream.format("amqp").option("url", broker.url).option("addressPattern", f"{name}.#")
        return reader.option("subscription", "lake").schema("address string, queue string, body string").load()

    finish(to_files(frame(), tmp_path), checkpoint)
    for number, word in enumerate(("a", "b.c", "a")):
        send(broker, f"{name}.{word}", [Message(body=str(number), annotations={symbol("x-opt-address"): "forged"})])
    send(broker, f"{name}x", [Message(body="no")])
    finish(to_files(frame(), tmp_path), checkpoint)

    rows = spark.read.parquet(str(tmp_path / "out")).collect()
    assert sorted((row.body, row.address) for row in rows) == [
        ("0", f"{name}.a"),
        ("1", f"{name}.b.c"),
        ("2", f"{name}.a"),
    ]
    assert {row.queue for row in rows} == {f"lake.{name}.#:global"}


def test_draining_is_not_for_streams(
    spark: Any, broker: BrokerProcess, name: str, tmp_path: Path, checkpoint: str
) -> None:
    reader = spark.readStream.format("amqp").option("url", broker.url).option("mode", "drain").option("queue", name)

    with pytest.raises(Exception, match="mode=drain is for batch queries"):
        finish(to_files(reader.load(), tmp_path), checkpoint)


PAGE = (Path(__file__).resolve().parents[2] / "docs" / "spark.md").read_text(encoding="utf-8")


def example(first_line: str, broker: BrokerProcess, folder: Path) -> str:
    """The example of the manual that begins with this line, for this broker and folder."""
    blocks: list[str] = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    (block,) = [block for block in blocks if block.startswith(first_line)]
    return block.replace("amqp://127.0.0.1:61616", broker.url).replace("lake/", f"{folder}/")


def test_the_examples_of_the_manual_write(spark: Any, broker: BrokerProcess, name: str, tmp_path: Path) -> None:
    """As printed: a batch, rows as JSON, a stream, and a batch of a stream that comes twice."""
    subscribe(broker, name)
    send(broker, name, numbered(1, 4))
    subscribe(broker, f"{name}.answers")
    for queue in ("bills", "orders"):
        send(broker, queue, [Message(body="first")])
    reader = spark.readStream.format("amqp").option("url", broker.url).option("address", name)
    scope: dict[str, Any] = {"spark": spark, "orders": reader.option("subscription", "lake").load()}

    for first_line in ("bills = spark.sql", "(\n    spark.sql("):
        for _ in range(2):
            exec(example(first_line, broker, tmp_path), scope)
    exec(example("query = (\n    orders.selectExpr", broker, tmp_path), scope)
    scope["query"].processAllAvailable()
    scope["query"].stop()
    exec(example("def answer(", broker, tmp_path), scope)

    def twice(batch: Any, number: int) -> None:
        for _ in range(2):
            scope["answer"](batch, number)

    send(broker, f"{name}.queue", [Message(body="4", reply_to=f"{name}.answers", durable=True)])
    reader = spark.readStream.format("amqp").option("url", broker.url).option("mode", "browse")
    frame = reader.option("queue", f"{name}.queue").load()
    query = frame.writeStream.foreachBatch(twice).option("checkpointLocation", str(tmp_path / "twice")).start()
    query.processAllAvailable()
    query.stop()

    bodies = [message.body for message in receive(broker, "bills", message_count(broker, "bills"))]
    assert sorted(bodies) == ["bill for 1", "bill for 2", "bill for 3", "bill for order 7", "first"]
    objects = receive(broker, "orders", message_count(broker, "orders"))[1:]
    assert [json.loads(bytes(one.body)) for one in objects] == 2 * [
        {"id": 7, "price": 19.9, "tags": ["a", "b"], "priority": "high"}
    ]
    answers = f"lake.{name}.answers:global"
    assert message_count(broker, answers) == 1
