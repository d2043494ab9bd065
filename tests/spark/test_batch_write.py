"""`df.write.format("amqp")`."""

import json
from collections.abc import Callable
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest
from proton import Message

from artemis_py.spark.errors import InvalidOption, SendFailed
from artemis_py.spark.options import write_options
from tests.interop.broker_process import BrokerProcess
from tests.spark.conftest import Reader, ask, message_count, receive, send

pytest.importorskip("pyspark", reason="pip install 'artemis-py-broker[spark]'")
pa = pytest.importorskip("pyarrow", reason="pip install 'artemis-py-broker[spark]'")

from pyspark.sql.types import StringType, StructField, StructType  # noqa: E402

from artemis_py.spark.batches import check_columns  # noqa: E402
from artemis_py.spark.sink import BatchWriter, _completed  # noqa: E402

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


def test_batches_of_a_stream_that_are_written_as_jobs_are_written_once(
    broker: BrokerProcess, spark: Any, write: Write, name: str
) -> None:
    """`foreachBatch` may call its function again with a batch that it had."""
    frame = spark.range(5).selectExpr("cast(id AS string) AS body")

    for epoch in (0, 0, 1, 1, 0):
        write(frame, address=name, routingType="anycast", jobId=name, epoch=epoch)

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


EVERY_TYPE = """
    1 AS a, array('x', 'ü', null) AS b, named_struct('c', 2.5D, 'gone', cast(null AS int)) AS d, 'mine' AS subject,
    'mine' AS address, 9 AS priority, 3 AS sequence, 'mine' AS queue, cast(null AS string) AS nothing, true AS flag,
    1.50BD AS price, cast(0.0000000001 AS decimal(20, 12)) AS tiny, 12345678901234567890BD AS large,
    double('NaN') AS nan, double('-Infinity') AS low, float('Infinity') AS high, float(0.1) AS f, float(16777216) AS g,
    1e10D AS h, -0.0D AS z, binary('ab') AS octets, date'2027-01-02' AS day, timestamp'2027-07-02 03:04:05.123456' AS t,
    timestamp_ntz'2027-01-02 03:04:05.9' AS ntz, map('k"', 1, 'n', null) AS m, map(1, 'x') AS by_number,
    map(true, 1) AS by_flag, map(date'2027-01-02', 1) AS by_day, 'quote " line \\n control \\u0001 /' AS text,
    named_struct('empty', cast(null AS int)) AS hollow, array(map('k', array(1.0D))) AS deep, null AS untyped,
    array() AS no_items, map() AS no_pairs, array(null) AS nulls, 'mine' AS duplicate_id
"""


@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin", "America/New_York"])
def test_rows_are_the_json_that_spark_writes(
    broker: BrokerProcess, spark: Any, write: Write, name: str, zone: str
) -> None:
    """As `to_json` does, all columns and each type included."""
    before = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", zone)
    try:
        frame = spark.sql(f"SELECT {EVERY_TYPE}")
        (wanted,) = frame.selectExpr("to_json(struct(*))").first()
        write(frame, address=name, routingType="anycast", payload="json")
    finally:
        spark.conf.set("spark.sql.session.timeZone", before)
    (message,) = receive(broker, name, 1)

    found = json.loads(bytes(message.body), parse_float=Decimal)
    assert found == json.loads(wanted, parse_float=Decimal)
    assert (message.subject, message.content_type) == (None, "application/json")
    assert not message.properties


@pytest.mark.parametrize(
    ("options", "idempotence"),
    [
        ({}, "column"),
        ({"payload": "json"}, None),
        ({"payload": "arrow"}, None),
        ({"payload": "json", "fields": "duplicate_id"}, "column"),
        ({"payload": "json", "idempotence": "column"}, "column"),
    ],
)
def test_a_column_of_ids_is_one_only_as_a_field_of_the_message(
    options: dict[str, str], idempotence: str | None
) -> None:
    """Rows of an object may have such a column with the same value in all of them."""
    schema = StructType([StructField("body", StringType()), StructField("duplicate_id", StringType())])

    assert _completed(write_options({"address": "a", **options}), schema).idempotence == idempotence


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


@pytest.mark.parametrize(
    ("columns", "options", "reason"),
    [
        ("a int", {"fields": "subject"}, "option fields: there is no column 'subject'"),
        ("a int", {"fields": "a"}, "option fields: a message has no field 'a'"),
        ("a int, subject int", {"fields": "subject"}, "column 'subject' must be string, not int"),
        ("a struct<x: array<interval day to second>>", {}, "cannot write column 'a': JSON has no interval"),
        ("a map<double, int>", {}, "JSON has no map with keys of type double"),
        ("a variant", {}, "JSON has no variant"),
        ("a int", {"payload": "arrow", "idempotence": "source"}, "is for rows; with payload=arrow"),
        ("key string, value string", {"payload": "body"}, "what Kafka calls value is body"),
        ("body string, topic string", {"payload": "body"}, "what Kafka calls topic is address"),
    ],
)
def test_a_schema_that_cannot_be_written_is_refused(
    spark: Any, columns: str, options: dict[str, str], reason: str
) -> None:
    with pytest.raises(InvalidOption) as raised:
        check_columns(StructType.fromDDL(columns), write_options({"address": "a", "payload": "json", **options}))

    assert reason in str(raised.value)


def test_an_arrow_batch_goes_to_one_address(spark: Any) -> None:
    """It is one message, so that a column cannot say where its rows go."""
    with pytest.raises(InvalidOption, match=r"say where to send: the option address \(Spark"):
        check_columns(StructType.fromDDL("address string"), write_options({"payload": "arrow"}))


def test_a_queue_is_a_view_and_a_table_in_sql(broker: BrokerProcess, spark: Any, name: str) -> None:
    """CREATE TABLE adds options of Spark's own to ours, and forgets ours when the table is read."""
    send(broker, name, [Message(body="x")])
    where = f"(url '{broker.url}', mode 'browse', queue '{name}')"

    spark.sql(f"CREATE TEMPORARY VIEW seen USING amqp OPTIONS {where}")
    spark.sql(f"CREATE TABLE letters USING amqp OPTIONS {where}")
    try:
        assert spark.sql("SELECT cast(body AS string) FROM seen").first() == ("x",)
        again = where.replace("url ", "url = ").replace("mode ", "mode = ").replace("queue ", "queue = ")
        assert spark.sql(f"SELECT cast(body AS string) FROM letters WITH {again}").first() == ("x",)
        with pytest.raises(Exception, match="there are no options at all"):
            spark.sql("SELECT * FROM letters").first()
        spark.sql(f"CREATE TABLE written (body string) USING amqp OPTIONS {where} TBLPROPERTIES ('mine' = 'x')")
        to = f"(url = '{broker.url}', address = '{name}.written', routingType = 'anycast')"
        spark.sql(f"INSERT INTO written WITH {to} SELECT 'y'")
        assert message_count(broker, f"{name}.written") == 1
        with pytest.raises(Exception, match="use INSERT INTO table WITH"):
            spark.sql("INSERT INTO written SELECT 'y'")
    finally:
        spark.sql("DROP TABLE letters")
        spark.sql("DROP TABLE IF EXISTS written")


def test_a_queue_is_not_overwritten(spark: Any, write: Write, name: str) -> None:
    with pytest.raises(Exception, match="cannot be overwritten"):
        write(spark.sql("SELECT 'b' AS body"), mode="overwrite", address=name)
