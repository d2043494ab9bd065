"""What goes wrong while a query runs, and what it is told: the queue and the number, and what to do.

Readers and writers are called as a task calls them, without a session: what Spark adds is its own traceback.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve
from proton import Message

from tests.interop.broker_process import BrokerProcess, Instance, launch, start_broker
from tests.spark.conftest import ask, message_count, send

pytest.importorskip("pyspark")
pytest.importorskip("pyarrow")

import pyarrow as pa
from pyspark.sql.streaming.datasource import ReadAllAvailable
from pyspark.sql.types import BinaryType, LongType, MapType, StringType, StructField, StructType

from artemis_amqp.messages.delivery import annotations_bytes
from artemis_py.spark.columns import BatchBuilder
from artemis_py.spark.encoding import Encoded
from artemis_py.spark.errors import ConnectionLost, DataLoss, Refused, SendFailed, Undecodable
from artemis_py.spark.management import Heads
from artemis_py.spark.options import ReadOptions, read_options, write_options
from artemis_py.spark.planning import Planner
from artemis_py.spark.reading import decoded, read_range
from artemis_py.spark.receiving import Range
from artemis_py.spark.sending import Sender, StageName
from artemis_py.spark.sink import write_rows
from artemis_py.spark.stream_source import stream_reader

TEXT = StructType([StructField("sequence", LongType()), StructField("body", StringType())])
OCTETS = StructType([StructField("sequence", LongType()), StructField("body", BinaryType())])

SETTINGS = """
<address-setting match="full.#">
  <max-size-messages>10</max-size-messages>
  <address-full-policy>{policy}</address-full-policy>
</address-setting>
"""


def browse(broker: BrokerProcess, queue: str, **options: str) -> ReadOptions:
    return read_options({"url": broker.url, "mode": "browse", "queue": queue, "retryDelay": "100ms", **options})


def whole(options: ReadOptions) -> Range:
    """All of the one queue."""
    (head,) = Planner(options).heads().queues
    return Range(address=head.address, queue=head.queue, queue_id=head.queue_id, start=head.first, stop=head.next)


def bodies(batches: Iterator[Any]) -> list[Any]:
    return [body for batch in batches for body in batch.column("body").to_pylist()]


def rows(count: int) -> Iterator[Any]:
    yield pa.RecordBatch.from_pydict({"body": [f"b{number}" for number in range(count)]})


def start(directory: Path, policy: str = "BLOCK") -> BrokerProcess:
    """A durable broker of its own, which keeps its port when it is started again."""
    broker = start_broker(Instance(persistence="true", settings=SETTINGS.format(policy=policy)), directory)
    path = directory / "etc" / "broker.xml"
    path.write_text(path.read_text().replace("127.0.0.1:0?", f"127.0.0.1:{broker.port}?"))
    return broker


BROKEN = b"\x00\x53\x74\xc1\x05\x02\xa1\x01k\xff" + b"\x00\x53\x77\xa1\x01x"
"""A property of a type that does not exist."""


def test_a_message_that_is_none_does_not_get_in(broker: BrokerProcess, name: str) -> None:
    sender = Sender(write_options({"url": broker.url, "address": name, "idempotence": "none"}))
    try:
        sender.send([Encoded(address=None, head=b"", bare=BROKEN)])
        with pytest.raises(SendFailed, match=f"rejected a message for {name}: 0xff at octet 9 is not a format code"):
            sender.flush()
    finally:
        sender.close()


def test_a_message_that_is_none_is_named() -> None:
    """Other brokers may let it pass."""
    numbered = annotations_bytes(b"", 7, None)
    builder = BatchBuilder(StructType([StructField("properties", MapType(StringType(), StringType()))]), "a", "q")

    with pytest.raises(Undecodable, match=r"^a::q: message 7 cannot be decoded: 0xff"):
        decoded(builder, builder.rows(), [numbered + BROKEN], "a::q")


def test_a_column_of_errors_keeps_a_query_running() -> None:
    """It has a row for each message, and the octets of those that cannot be decoded."""
    fields = [StructField(name, StringType()) for name in ("body", "subject", "error")]
    properties = StructField("properties", MapType(StringType(), StringType()))
    builder = BatchBuilder(StructType([StructField("sequence", LongType()), properties, *fields]), "a", "q")
    texts = [
        bytes(Message(body="x", subject="s").encode()),
        BROKEN,
        b"\x00\x53\x75\xa0\x02\xff\xfe",
        b"\x00\x53\x75\xa0\x01y",
    ]
    payloads = [annotations_bytes(b"", 5 + number, None) + text for number, text in enumerate(texts)]

    found = decoded(builder, builder.rows(), payloads, "a::q").to_pylist()

    assert [(row["sequence"], row["body"], row["subject"]) for row in found] == [
        (5, "x", "s"),
        (6, None, None),
        (7, None, None),
        (8, "y", None),
    ]
    assert [row["error"] for row in found[::3]] == [None, None]
    assert found[1]["error"].startswith("it cannot be decoded: 0xff at octet")
    assert found[2]["error"] == "the body is not UTF-8"


def test_a_body_that_is_no_text_is_named(broker: BrokerProcess, name: str) -> None:
    """The schema says `body string`."""
    send(broker, name, [Message(body="first"), Message(body=b"\xff\xfe", inferred=True)])
    options = browse(broker, name)

    with pytest.raises(Undecodable, match=rf"{name}::{name} .*the body of message 2 is not UTF-8.*binary"):
        list(read_range(options, TEXT, whole(options)))
    assert bodies(read_range(options, OCTETS, whole(options))) == [b"first", b"\xff\xfe"]


def test_a_body_of_another_type_is_read_as_it_is_encoded(broker: BrokerProcess, name: str) -> None:
    send(broker, name, [Message(body={"k": 5}), Message(body=None), Message(body="text")])
    options = browse(broker, name)

    values = bodies(read_range(options, OCTETS, whole(options)))

    assert values[0][:1] in (b"\xc1", b"\xd1")
    assert values[1:] == [None, b"text"]


def test_a_queue_that_goes_between_plan_and_read_is_a_loss(broker: BrokerProcess, name: str) -> None:
    send(broker, name, [Message(body="x", durable=True)])
    options = browse(broker, name)
    part = whole(options)
    ask(broker, "broker", "destroyQueue", name)

    with pytest.raises(DataLoss, match=rf"{name}::{name} \(queue id {part.queue_id}\) \[1, 2\) can no longer be read"):
        list(read_range(options, TEXT, part))
    assert list(read_range(evolve(options, fail_on_data_loss=False), TEXT, part)) == []


def test_a_queue_that_was_made_anew_is_not_taken_for_the_old_one(broker: BrokerProcess, name: str) -> None:
    send(broker, name, [Message(body="old", durable=True)])
    options = browse(broker, name)
    part = whole(options)
    ask(broker, "broker", "destroyQueue", name)
    send(broker, name, [Message(body="new", durable=True)])

    with pytest.raises(DataLoss, match=rf"{name}::{name} \(queue id {part.queue_id}\)"):
        list(read_range(options, TEXT, part))


def test_a_checkpoint_of_another_query_is_refused(broker: BrokerProcess, name: str) -> None:
    """Its offset names queues that this query does not read."""
    heads: dict[str, Heads] = {}
    options = {"url": broker.url, "address": name}
    for subscription in ("one", "two"):
        heads[subscription] = Planner(read_options({**options, "subscription": subscription})).heads()
    first = stream_reader(read_options({**options, "subscription": "one"}), TEXT)
    second = stream_reader(read_options({**options, "subscription": "two"}), TEXT)

    with pytest.raises(DataLoss, match=rf"{name}::one\.{name}:global is gone"):
        second.latestOffset(first.initialOffset(), ReadAllAvailable())


def test_reading_goes_on_when_the_broker_is_started_again(tmp_path: Path) -> None:
    """Behind the last message that was handed out: none is missing, none comes twice."""
    broker = start(tmp_path)
    try:
        texts = [f"{number:06d}" + 500 * "x" for number in range(20_000)]
        target = write_options({"url": broker.url, "address": "q", "routingType": "anycast", "idempotence": "none"})
        write_rows(target, "w", 0, iter([pa.RecordBatch.from_pydict({"body": texts})]))
        options = browse(broker, "q", retries="20")
        batches = read_range(options, TEXT, whole(options))
        found = bodies(iter([next(batches)]))
        broker.kill()
        broker = launch(tmp_path)
        found += bodies(batches)
    finally:
        broker.stop()

    assert found == texts


def test_a_broker_that_stays_away_is_named_with_the_place(tmp_path: Path) -> None:
    broker = start(tmp_path)
    send(broker, "q", [Message(body="x", durable=True)])
    options = browse(broker, "q", retries="1")
    part = whole(options)
    broker.stop()

    with pytest.raises(ConnectionLost, match=r"q::q \(queue id \d+\) \[1, 2\) cannot be read from 1 on: amqp://127"):
        list(read_range(options, TEXT, part))


def test_a_full_address_that_blocks_is_named(tmp_path: Path) -> None:
    """The broker gives no more credit: the job does not wait for ever."""
    broker = start(tmp_path)
    try:
        options = {"url": broker.url, "address": "full.q", "routingType": "anycast", "sendTimeout": "1s"}
        with pytest.raises(SendFailed, match=r"gave credit .*sendTimeout.* wait for full\.q: is the address full\?"):
            write_rows(write_options({**options, "idempotence": "none", "maxInFlight": "5"}), "w", 0, rows(5000))
    finally:
        broker.stop()


def test_a_full_address_that_fails_is_named(tmp_path: Path) -> None:
    broker = start(tmp_path, policy="FAIL")
    try:
        options = {"url": broker.url, "address": "full.q", "routingType": "anycast", "idempotence": "none"}
        with pytest.raises((SendFailed, Refused), match=r"full\.q"):
            write_rows(write_options(options), "w", 0, rows(5000))
    finally:
        broker.stop()


SECURITY = """
<security-settings>
  <security-setting match="#">
    <permission type="send" roles="spark"/>
    <permission type="browse" roles="spark"/>
    <permission type="consume" roles="spark"/>
    <permission type="createNonDurableQueue" roles="spark"/>
    <permission type="createDurableQueue" roles="spark"/>
    <permission type="createAddress" roles="spark"/>
  </security-setting>
</security-settings>
"""


def test_a_user_who_may_no_longer_read_is_told_where(tmp_path: Path) -> None:
    """The password is changed between plan and read, as for a query that has run for a month."""
    instance = Instance(persistence="true", core=SECURITY, users="u = secret-1\n", roles="spark = u\n")
    broker = start_broker(instance, tmp_path)
    try:
        options = browse(broker, "q", user="u", password="secret-1")
        sender = Sender(
            write_options(
                {"url": broker.url, "address": "q", "routingType": "anycast", "user": "u", "password": "secret-1"}
            )
        )
        sender.send([Encoded(address=None, head=b"", bare=b"\x00\x53\x75\xa0\x01x")])
        sender.flush()
        sender.close()
        part = whole(options)
        wrong = evolve(options, connection=evolve(options.connection, password="secret-2"))

        with pytest.raises(Refused, match=r"q::q .*cannot be read from 1 on: .*login failed") as caught:
            list(read_range(wrong, TEXT, part))
    finally:
        broker.stop()
    assert not re.search("secret", str(caught.value))


def test_a_stage_that_is_not_committed_leaves_the_queue_empty(broker: BrokerProcess, name: str) -> None:
    """A task that died after it had sent everything."""
    options = write_options({"url": broker.url, "address": name, "routingType": "anycast"})
    sender = Sender(options, StageName("writer", 1, name))
    sender.send([Encoded(address=None, head=b"", bare=b"\x00\x53\x75\xa0\x01x")])
    sender.flush()
    sender.close()

    assert message_count(broker, name) == 0
