"""`df.write.format("amqp")`."""

import json
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from proton import Message

from artemis_py.spark.errors import SendFailed
from artemis_py.spark.options import write_options
from tests.interop.broker_process import BrokerProcess
from tests.spark.conftest import Reader, ask, message_count, receive, send

pytest.importorskip("pyspark", reason="pip install 'artemis-py-broker[spark]'")
pa = pytest.importorskip("pyarrow", reason="pip install 'artemis-py-broker[spark]'")

from artemis_py.spark.sink import BatchWriter  # noqa: E402

Write = Callable[..., None]


def stages(broker: BrokerProcess) -> list[str]:
    """Queues of what was staged and neither committed nor dropped."""
    return [queue for queue in ask(broker, "broker", "getQueueNames") if queue.startswith("$artemis.staging")]


def test_a_row_is_a_message(broker: BrokerProcess, spark: Any, write: Write, name: str) -> None:
    frame = spark.createDataFrame(
        [("text", "id-1", "subject", "me", 5, 7, datetime(2026, 1, 2, tzinfo=UTC), {"k": "v"})],
        "body string, message_id string, subject string, user_id string, group_sequence int, priority int, "
        "creation_time timestamp, properties map<string,string>",
    )

    write(frame, address=name, routingType="anycast")
    (message,) = receive(broker, name, 1)

    assert (message.body, message.id, message.subject, bytes(message.user_id)) == ("text", "id-1", "subject", b"me")
    assert (message.group_sequence, message.priority, message.durable) == (5, 7, True)
    assert (message.creation_time, message.properties) == (datetime(2026, 1, 2, tzinfo=UTC).timestamp(), {"k": "v"})


def test_every_row_arrives_once(broker: BrokerProcess, spark: Any, write: Write, read: Reader, name: str) -> None:
    """More than the broker takes on credit, and more than one write of the socket."""
    frame = spark.range(0, 20_000, 1, 3).selectExpr("cast(cast(id AS string) AS binary) AS body")

    write(frame, address=name, routingType="anycast", maxInFlight=3000)

    found = read("body string, sequence bigint", mode="browse", queue=name, minPartitions=2)
    assert found.selectExpr("count(*)", "count(DISTINCT body)", "count(DISTINCT sequence)").first() == (20_000,) * 3


def test_a_column_says_where_each_row_goes(broker: BrokerProcess, spark: Any, write: Write, name: str) -> None:
    frame = spark.range(6).selectExpr(f"concat('{name}.', id % 2) AS address", "cast(id AS string) AS body")

    write(frame, routingType="anycast")

    assert [message_count(broker, f"{name}.{i}") for i in (0, 1)] == [3, 3]


def test_a_job_of_the_same_name_adds_nothing(broker: BrokerProcess, spark: Any, write: Write, name: str) -> None:
    frame = spark.range(10).selectExpr("cast(id AS string) AS body")

    for _ in range(2):
        write(frame, address=name, routingType="anycast", jobId=name)

    assert message_count(broker, name) == 10


def test_a_task_that_fails_takes_back_what_it_staged(broker: BrokerProcess, name: str) -> None:
    """Nobody else knows it, and another try of the task has a stage of its own."""
    options = write_options({"url": broker.url, "address": name, "routingType": "anycast"})

    with pytest.raises(SendFailed, match="has no body"):
        BatchWriter(options).write(iter([pa.RecordBatch.from_pydict({"body": ["x"] * 1000 + [None]})]))

    assert stages(broker) == []


def test_an_abort_drops_what_a_task_staged_that_did_not_report(broker: BrokerProcess, name: str) -> None:
    """Spark kills the other tasks of a job that fails, and reports nothing of them."""
    writer = BatchWriter(write_options({"url": broker.url, "address": name, "routingType": "anycast"}))

    writer.write(iter([pa.RecordBatch.from_pydict({"body": ["x"]})]))
    assert len(stages(broker)) == 1
    writer.abort([None, None])

    assert stages(broker) == []


def test_a_failed_job_leaves_nothing_behind(broker: BrokerProcess, spark: Any, write: Write, name: str) -> None:
    """Of ten thousand rows the last one of a task cannot be sent."""
    frame = spark.range(0, 10_000, 1, 2).selectExpr("if(id = 9999, null, 'x') AS body")

    with pytest.raises(Exception, match="has no body"):
        write(frame, address=name, routingType="anycast")

    assert message_count(broker, name) == 0


def test_ids_of_a_column_are_taken_once(broker: BrokerProcess, spark: Any, write: Write, name: str) -> None:
    frame = spark.range(10).selectExpr("cast(id AS string) AS body", "cast(id % 4 AS string) AS duplicate_id")

    write(frame, address=name, routingType="anycast")

    assert message_count(broker, name) == 4


def test_rows_as_json(broker: BrokerProcess, spark: Any, write: Write, name: str) -> None:
    frame = spark.sql("SELECT 1 AS a, array('x', 'ü') AS b, struct(2.5D AS c) AS d, 'subject' AS subject")

    write(frame, address=name, routingType="anycast", payload="json")
    (message,) = receive(broker, name, 1)

    assert json.loads(bytes(message.body)) == {"a": 1, "b": ["x", "ü"], "d": {"c": 2.5}}
    assert (message.subject, message.content_type) == ("subject", "application/json")


def test_batches_as_arrow(broker: BrokerProcess, spark: Any, write: Write, name: str) -> None:
    write(spark.range(0, 1000, 1, 1), address=name, routingType="anycast", payload="arrow")
    messages = receive(broker, name, message_count(broker, name))

    tables = [pa.ipc.open_stream(bytes(message.body)).read_all() for message in messages]
    assert sorted(value for table in tables for value in table["id"].to_pylist()) == list(range(1000))


def test_a_message_is_copied_without_a_change(broker: BrokerProcess, write: Write, read: Reader, name: str) -> None:
    """Types that a map of text would lose included."""
    sent = Message(id="m", body={"a": [1, 2.5, None]}, properties={"n": 5, "t": True}, durable=True)
    send(broker, name, [sent])

    write(
        read("message binary", mode="browse", queue=name),
        address=f"{name}.copy",
        routingType="anycast",
        payload="message",
    )
    (copy,) = receive(broker, f"{name}.copy", 1)

    assert (copy.id, copy.body, copy.properties) == ("m", {"a": [1, 2.5, None]}, {"n": 5, "t": True})


def test_a_source_can_be_written_back(broker: BrokerProcess, write: Write, read: Reader, name: str) -> None:
    send(broker, name, [Message(id="m", body=b"x", inferred=True, properties={"k": "v"})])

    write(
        read(mode="browse", queue=name), address=f"{name}.copy", routingType="anycast", idempotence="source", jobId="j"
    )
    (copy,) = receive(broker, f"{name}.copy", 1)

    assert (copy.id, bytes(copy.body), copy.properties["k"]) == ("m", b"x", "v")


@pytest.mark.parametrize(
    ("columns", "options", "reason"),
    [
        ("1 AS x", {"address": "a"}, "needs a column 'body'"),
        ("'b' AS body, 1 AS xyz", {"address": "a"}, "no use for the column 'xyz'"),
        ("'b' AS body", {}, "say where to send"),
        ("'b' AS body, 'high' AS priority", {"address": "a"}, "column 'priority' must be bigint or int"),
        ("'b' AS body", {"address": "a", "adress": "b"}, "did you mean address"),
    ],
)
def test_a_frame_that_cannot_be_written_is_refused(
    spark: Any, write: Write, columns: str, options: dict[str, str], reason: str
) -> None:
    with pytest.raises(Exception, match=reason):
        write(spark.sql(f"SELECT {columns}"), **options)


def test_a_queue_is_not_overwritten(spark: Any, write: Write, name: str) -> None:
    with pytest.raises(Exception, match="cannot be overwritten"):
        write(spark.sql("SELECT 'b' AS body"), mode="overwrite", address=name)
