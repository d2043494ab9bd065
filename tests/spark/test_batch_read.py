"""`spark.read.format("amqp")`."""

from typing import Any

import pytest
from proton import Message

from tests.interop.broker_process import BrokerProcess
from tests.spark.conftest import Reader, message_count, send


def test_a_queue_is_a_table_and_keeps_its_messages(broker: BrokerProcess, read: Reader, name: str) -> None:
    messages = [Message(id=f"m{i}", body=f"b{i}", durable=True, properties={"n": i}) for i in range(20)]
    send(broker, name, messages)

    rows = read(mode="browse", queue=name, minPartitions=3).orderBy("sequence").collect()

    assert [(row.message_id, bytes(row.body), row.properties, row.durable) for row in rows] == [
        (f"m{i}", f"b{i}".encode(), {"n": str(i)}, True) for i in range(20)
    ]
    assert {(row.address, row.queue) for row in rows} == {(name, name)}
    assert [row.sequence for row in rows] == list(range(rows[0].sequence, rows[0].sequence + 20))
    assert message_count(broker, name) == 20


def test_messages_of_different_priorities_come_once_each(broker: BrokerProcess, read: Reader, name: str) -> None:
    """The queue delivers by priority, a range is read by numbers."""
    send(broker, name, [Message(body="x", priority=i % 10) for i in range(30)])

    rows = read(mode="browse", queue=name, minPartitions=4, columns="sequence,priority").collect()

    assert sorted(row.sequence - min(r.sequence for r in rows) for row in rows) == list(range(30))


def test_a_schema_chooses_columns_and_reads_bodies_as_text(broker: BrokerProcess, read: Reader, name: str) -> None:
    send(broker, name, [Message(body="grüße", subject="s")])

    frame = read("body string, subject string", mode="browse", queue=name)

    assert frame.columns == ["body", "subject"]
    assert [tuple(row) for row in frame.collect()] == [("grüße", "s")]


def test_sql_reads_a_queue(broker: BrokerProcess, spark: Any, name: str) -> None:
    send(broker, name, [Message(body=b"1", inferred=True), Message(body=b"2", inferred=True)])
    view = name.replace("-", "_")

    spark.sql(
        f"CREATE TEMP VIEW {view} USING amqp OPTIONS (url '{broker.url}', mode 'browse', queue '{name}', "
        "columns 'body,body_type')"
    )

    assert [
        tuple(row) for row in spark.sql(f"SELECT sum(cast(body AS string)), max(body_type) FROM {view}").collect()
    ] == [(3.0, "data")]


def test_a_selector_chooses_messages(broker: BrokerProcess, read: Reader, name: str) -> None:
    send(broker, name, [Message(body="x", properties={"n": i}) for i in range(10)])

    assert read(mode="browse", queue=name, selector="n >= 7", columns="sequence").count() == 3


def test_a_drained_queue_is_empty(broker: BrokerProcess, read: Reader, name: str) -> None:
    send(broker, name, [Message(body=f"b{i}", durable=True) for i in range(50)])

    rows = read("body string", mode="drain", queue=name).collect()

    assert sorted(row.body for row in rows) == sorted(f"b{i}" for i in range(50))
    assert message_count(broker, name) == 0


def test_an_empty_queue_is_an_empty_table(broker: BrokerProcess, read: Reader, name: str) -> None:
    send(broker, name, [Message(body="x")])
    assert read(mode="drain", queue=name, columns="body").count() == 1

    assert read(mode="browse", queue=name).count() == 0


def test_an_offset_on_messages_that_are_gone_fails_by_name(broker: BrokerProcess, read: Reader, name: str) -> None:
    offset = f'{{"v": 1, "q": {{"node|{name}::{name}": [1, 1]}}}}'
    send(broker, name, [Message(body="x")])

    with pytest.raises(Exception, match=rf"node\|{name}::{name} is gone.*failOnDataLoss"):
        read(mode="browse", queue=name, startingOffsets=offset).count()
    assert read(mode="browse", queue=name, startingOffsets=offset, failOnDataLoss=False).count() == 0


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"mode": "browse", "queue": "q", "minPartition": 3}, "did you mean minPartitions"),
        ({"mode": "browse", "queue": "q", "columns": "bodies"}, "there is no column 'bodies'"),
        ({"address": "a"}, "needs the option subscription"),
    ],
)
def test_a_wrong_option_fails_before_anything_is_read(read: Reader, options: dict[str, object], reason: str) -> None:
    with pytest.raises(Exception, match=reason):
        read(**options)


def test_a_queue_that_is_not_there_fails_with_the_brokers_words(read: Reader) -> None:
    with pytest.raises(Exception, match="queue 'no-such-queue' does not exist"):
        read(mode="browse", queue="no-such-queue").count()


def test_no_plan_shows_a_password(broker: BrokerProcess, read: Reader, name: str) -> None:
    send(broker, name, [Message(body="x")])
    frame = read(mode="browse", queue=name, user="u", password="geheim-17")

    assert frame.count() == 1
    assert "geheim-17" not in frame._jdf.queryExecution().toString()
