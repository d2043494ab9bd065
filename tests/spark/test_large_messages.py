"""Messages of many frames between small ones: each reading brings all of them, and what did not come is asked about.

Readers are called as a task and the driver call them, against a real broker; the commands run through Spark at the end.
"""

import logging
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from proton import Message

from tests.interop.broker_process import BrokerProcess, Instance, launch, start_broker
from tests.spark.conftest import ask, message_count, receive, send
from tests.spark.proxy import Proxy

pytest.importorskip("pyspark")
pytest.importorskip("pyarrow")

from pyspark.sql.streaming.datasource import ReadAllAvailable
from pyspark.sql.types import BinaryType, LongType, StructField, StructType

from artemis_py.spark.errors import DataLoss, Elsewhere, Withheld
from artemis_py.spark.offsets import Offset
from artemis_py.spark.options import ReadOptions, read_options
from artemis_py.spark.planning import Planner
from artemis_py.spark.reading import read_out, read_range
from artemis_py.spark.receiving import Range
from artemis_py.spark.spool_source import SpoolStreamReader
from artemis_py.spark.stream_source import RangeStreamReader, stream_reader

ROWS: Final = StructType([StructField("sequence", LongType()), StructField("body", BinaryType())])

SIZES: Final = (10, 60_000, 20, 300_000, 65_536, 30, 2_000_000, 40, 66_000, 300_000, 50, 1_000_000)
"""Some fit into a frame, some are kept in files of their own by the broker."""


def body(index: int, size: int) -> bytes:
    """Tells a piece that is missing, or comes twice."""
    return (b"%08d" % index * (size // 8 + 1))[:size]


BODIES: Final = [body(index, size) for index, size in enumerate(SIZES)]


def messages(bodies: list[bytes]) -> list[Message]:
    return [Message(body=octets, inferred=True, durable=True) for octets in bodies]


def fill(broker: BrokerProcess, address: str) -> None:
    send(broker, address, messages(BODIES))


def of(batches: Iterator[Any]) -> list[tuple[int, bytes]]:
    """Number and body of what a reader brings."""
    return [(row["sequence"], row["body"]) for batch in batches for row in batch.to_pylist()]


def browsing(broker: BrokerProcess, queue: str, **options: str) -> tuple[ReadOptions, Range]:
    """How to read the one queue, and all of it."""
    read = read_options({"url": broker.url, "mode": "browse", "queue": queue, "retryDelay": "10ms", **options})
    (head,) = Planner(read).heads().queues
    return read, Range(address=head.address, queue=head.queue, queue_id=head.queue_id, start=head.first, stop=head.next)


@pytest.mark.parametrize("frame_size", ["512", "4096", "64k", "1m"])
@pytest.mark.parametrize("credit", ["1", "3", "1000"])
def test_browsing_brings_all_sizes(broker: BrokerProcess, name: str, frame_size: str, credit: str) -> None:
    fill(broker, name)
    options, part = browsing(broker, name, **{"amqp.maxFrameSize": frame_size, "credit": credit})

    assert of(read_range(options, ROWS, part)) == list(enumerate(BODIES, part.start))


@pytest.mark.parametrize("piece", [700, 5000])
def test_browsing_over_a_line_that_cuts_brings_all_sizes(broker: BrokerProcess, name: str, piece: int) -> None:
    fill(broker, name)
    _, part = browsing(broker, name)
    proxy = Proxy(broker.port, piece)
    try:
        slow = read_options({"url": proxy.url, "mode": "browse", "queue": name})
        found = of(read_range(slow, ROWS, part))
    finally:
        proxy.close()

    assert found == list(enumerate(BODIES, part.start))


@pytest.mark.parametrize("frame_size", ["512", "64k"])
@pytest.mark.parametrize("settle", ["before", "after"])
def test_a_drain_takes_all_sizes(broker: BrokerProcess, name: str, frame_size: str, settle: str) -> None:
    fill(broker, name)
    given = {"url": broker.url, "mode": "drain", "queue": name, "settle": settle, "amqp.maxFrameSize": frame_size}

    found = of(read_out(read_options({**given, "credit": "5"}), ROWS, name))

    assert [octets for _, octets in found] == BODIES
    assert message_count(broker, name) == 0


def subscribed(broker: BrokerProcess, address: str, **options: str) -> RangeStreamReader:
    """The source of a stream as the driver has it."""
    given = {"url": broker.url, "address": address, "subscription": "lake", "retryDelay": "10ms", **options}
    return stream_reader(read_options(given), ROWS)


def begun(source: RangeStreamReader) -> dict[str, Any]:
    """Behind the first batch, which is empty."""
    start = source.initialOffset()
    assert source.latestOffset(start, ReadAllAvailable()) == start
    return start


def batch(source: RangeStreamReader, start: dict[str, Any], end: dict[str, Any]) -> list[bytes]:
    return [octets for part in source.partitions(start, end) for _, octets in of(source.read(part))]


def queue_of(broker: BrokerProcess, address: str) -> str:
    return f"lake.{address}:global"


def test_a_subscription_brings_all_sizes_and_is_empty_then(broker: BrokerProcess, name: str) -> None:
    source = subscribed(broker, name, minPartitions="3")
    start = begun(source)
    fill(broker, name)
    end = source.latestOffset(start, ReadAllAvailable())

    assert batch(source, start, end) == BODIES
    assert message_count(broker, queue_of(broker, name)) == len(BODIES)
    assert source.latestOffset(end, ReadAllAvailable()) == end
    assert message_count(broker, queue_of(broker, name)) == 0


def test_a_spool_takes_all_sizes(broker: BrokerProcess, name: str, tmp_path: Path) -> None:
    fill(broker, name)
    given = {"url": broker.url, "mode": "spool", "queue": name, "spoolDir": str(tmp_path), "amqp.maxFrameSize": "4096"}
    source = SpoolStreamReader(read_options(given), ROWS)
    start = begun(source)
    end = source.latestOffset(start, ReadAllAvailable())

    assert batch(source, start, end) == BODIES
    assert message_count(broker, name) == 0


# -- what did not come -------------------------------------------------------------------------------------------------


def test_what_is_gone_is_told_by_the_queue(broker: BrokerProcess, name: str) -> None:
    """Which numbers, and which ways messages left the queue: nothing is said that was not asked."""
    source = subscribed(broker, name)
    start = begun(source)
    fill(broker, name)
    end = source.latestOffset(start, ReadAllAvailable())
    (first,) = source.partitions(start, end)
    number = first.part.start
    receive(broker, f"{name}::{queue_of(broker, name)}", 2)

    with pytest.raises(
        DataLoss,
        match=rf"2 of 12 messages .* are gone: asked for {number} to {number + 1}, the queue no longer has them; "
        r"of this queue's messages 2 were acknowledged, 0 expired .*what is in the queue stays there",
    ):
        batch(source, start, end)
    assert batch(subscribed(broker, name, failOnDataLoss="false"), start, end) == BODIES[2:]
    assert message_count(broker, queue_of(broker, name)) == 10


def test_numbers_that_a_crash_skipped_are_asked_about_and_no_loss(tmp_path: Path) -> None:
    """Between the messages, at the end of a batch, and in a batch that has nothing else."""
    broker = start_broker(Instance(persistence="true"), tmp_path)
    path = tmp_path / "etc" / "broker.xml"
    path.write_text(path.read_text().replace("127.0.0.1:0?", f"127.0.0.1:{broker.port}?"))
    try:
        source = subscribed(broker, "a", minPartitions="4")
        start = begun(source)
        send(broker, "a", messages(BODIES[:4]))
        found, lengths = [], []
        for bodies in (BODIES[4:6], [], BODIES[6:8]):
            broker.kill()
            broker = launch(tmp_path)
            send(broker, "a", messages(bodies))
            end = source.latestOffset(start, ReadAllAvailable())
            found.append(batch(source, start, end))
            lengths.append(sum(part.part.count for part in source.partitions(start, end)))
            start = end

        assert found == [BODIES[:6], [], BODIES[6:8]]
        assert min(lengths) > 1000
    finally:
        broker.stop()


def test_a_selector_does_not_hide_what_is_there(broker: BrokerProcess, name: str) -> None:
    """What it does not want is not asked for; nothing is missing."""
    texts = [Message(body=octets, inferred=True, durable=True, properties={"n": n}) for n, octets in enumerate(BODIES)]
    send(broker, name, texts)
    options, part = browsing(broker, name, selector="n <> 3")

    found = of(read_range(options, ROWS, part))

    assert [octets for _, octets in found] == [octets for number, octets in enumerate(BODIES) if number != 3]


@pytest.fixture
def unreadable(tmp_path: Path) -> Iterator[tuple[BrokerProcess, dict[str, Any], dict[str, Any]]]:
    """A broker that lost the body of one large message, and a batch of a stream that has it."""
    broker = start_broker(Instance(persistence="true"), tmp_path)
    try:
        source = subscribed(broker, "a")
        start = begun(source)
        send(broker, "a", messages([BODIES[0], BODIES[9], BODIES[1]]))
        end = source.latestOffset(start, ReadAllAvailable())
        (file,) = [path for path in (tmp_path / "data").rglob("*.body") if path.stat().st_size > 250_000]
        file.write_bytes(file.read_bytes()[:1000])
        yield broker, start, end
    finally:
        broker.kill()


@pytest.mark.parametrize("fails", ["true", "false"])
def test_a_message_that_cannot_be_read_is_not_lost(
    unreadable: tuple[BrokerProcess, dict[str, Any], dict[str, Any]], fails: str
) -> None:
    """Its delivery is aborted again and again: the query fails and says so, and nothing of the batch is removed."""
    broker, start, end = unreadable
    source = subscribed(broker, "a", failOnDataLoss=fails, retries="1")

    with pytest.raises(Withheld, match=r"read from 1 on: 1 messages did not arrive and are in .*: 2 \(waiting\)"):
        batch(source, start, end)
    assert message_count(broker, "lake.a:global") == 3


def test_a_browser_may_pass_over_what_cannot_be_read(
    unreadable: tuple[BrokerProcess, dict[str, Any], dict[str, Any]], caplog: pytest.LogCaptureFixture
) -> None:
    """It removes nothing; with failOnDataLoss it fails as well."""
    broker, _, _ = unreadable
    options, part = browsing(broker, "a::lake.a:global", retries="1")
    with pytest.raises(Withheld, match=r"2 \(waiting\)"):
        of(read_range(options, ROWS, part))

    lenient, _ = browsing(broker, "a::lake.a:global", retries="1", failOnDataLoss="false")
    with caplog.at_level(logging.WARNING):
        assert of(read_range(lenient, ROWS, part)) == [(1, BODIES[0]), (3, BODIES[1])]
    assert "passed over, nothing is removed" in caplog.text


# -- what was not read is not acknowledged -----------------------------------------------------------------------------


def test_a_broker_that_was_set_back_keeps_what_nobody_has_read(tmp_path: Path) -> None:
    """A copy of its store is older than the checkpoint: new messages have numbers that the query was done with."""
    broker = start_broker(Instance(persistence="true"), tmp_path / "broker")
    path = tmp_path / "broker" / "etc" / "broker.xml"
    path.write_text(path.read_text().replace("127.0.0.1:0?", f"127.0.0.1:{broker.port}?"))
    source = subscribed(broker, "a")
    start = begun(source)
    broker.stop()
    shutil.copytree(tmp_path / "broker" / "data", tmp_path / "copy")
    broker = launch(tmp_path / "broker")
    try:
        send(broker, "a", messages(BODIES))
        end = source.latestOffset(start, ReadAllAvailable())
        assert batch(source, start, end) == BODIES
        broker.stop()
        shutil.rmtree(tmp_path / "broker" / "data")
        shutil.copytree(tmp_path / "copy", tmp_path / "broker" / "data")
        broker = launch(tmp_path / "broker")
        send(broker, "a", messages([b"new 1", b"new 2"]))

        with pytest.raises(DataLoss, match="ends at 3, the offset is 13"):
            subscribed(broker, "a").latestOffset(end, ReadAllAvailable())
        going_on = subscribed(broker, "a", failOnDataLoss="false")
        back = going_on.latestOffset(end, ReadAllAvailable())
        last = going_on.latestOffset(back, ReadAllAvailable())
        assert batch(going_on, end, back) == []
        assert batch(going_on, back, last) == [b"new 1", b"new 2"]
        assert message_count(broker, "lake.a:global") == 2
        going_on.latestOffset(last, ReadAllAvailable())
        assert message_count(broker, "lake.a:global") == 0
    finally:
        broker.stop()


def test_a_broker_that_keeps_nothing_is_another_one_when_it_starts_again(tmp_path: Path) -> None:
    """Its queues have the same names and ids, and messages that nobody has read."""
    broker = start_broker(Instance(), tmp_path)
    path = tmp_path / "etc" / "broker.xml"
    path.write_text(path.read_text().replace("127.0.0.1:0?", f"127.0.0.1:{broker.port}?"))
    try:
        source = subscribed(broker, "a")
        start = begun(source)
        send(broker, "a", messages(BODIES))
        end = source.latestOffset(start, ReadAllAvailable())
        assert batch(source, start, end) == BODIES
        broker.kill()
        broker = launch(tmp_path)
        going_on = subscribed(broker, "a", failOnDataLoss="false")
        Planner(read_options({"url": broker.url, "address": "a", "subscription": "lake"})).heads()
        send(broker, "a", messages([b"new"] * 20))

        going_on.latestOffset(end, ReadAllAvailable())
        assert message_count(broker, "lake.a:global") == 20
        # A driver of before the restart, whose checkpoint has the other node.
        Planner(read_options({"url": broker.url, "mode": "browse", "queue": "a"})).acknowledge(Offset.read(end))
        assert message_count(broker, "lake.a:global") == 20
    finally:
        broker.stop()


def test_another_broker_of_the_list_is_not_taken_for_the_one_that_gave_the_numbers(
    broker: BrokerProcess, name: str, tmp_path: Path
) -> None:
    """Its queue has the same name, perhaps the same id, and other messages; what it does not have is not gone."""
    other = start_broker(Instance(persistence="true"), tmp_path)
    try:
        source = subscribed(broker, name)
        start = begun(source)
        send(broker, name, messages(BODIES[:3]))
        end = source.latestOffset(start, ReadAllAvailable())
        Planner(read_options({"url": other.url, "address": name, "subscription": "lake"})).heads()
        send(other, name, messages([b"other"] * 3))

        both = subscribed(broker, name, url=f"{other.url},{broker.url}", failOnDataLoss="false")
        assert batch(both, start, end) == BODIES[:3]
        alone = subscribed(other, name, failOnDataLoss="false", retries="1")
        with pytest.raises(Elsewhere, match="cannot be read from 1 on: this is broker"):
            batch(alone, start, end)
    finally:
        other.stop()


@pytest.mark.parametrize("ack", ["eager", "keep=1"])
def test_what_a_query_begins_behind_stays_in_the_subscription(broker: BrokerProcess, name: str, ack: str) -> None:
    """It was not read: with startingOffsets=latest it went with the first batch."""
    source = subscribed(broker, name, startingOffsets="latest", ack=ack)
    Planner(read_options({"url": broker.url, "address": name, "subscription": "lake"})).heads()
    send(broker, name, messages([b"old 1", b"old 2"]))
    start = begun(source)
    send(broker, name, messages(BODIES[:3]))
    end = source.latestOffset(start, ReadAllAvailable())
    assert batch(source, start, end) == BODIES[:3]

    again = subscribed(broker, name, ack=ack)
    send(broker, name, messages(BODIES[3:5]))
    last = again.latestOffset(end, ReadAllAvailable())
    assert batch(again, end, last) == BODIES[3:5]
    again.latestOffset(last, ReadAllAvailable())

    rest = 2 if ack == "eager" else 4
    assert message_count(broker, queue_of(broker, name)) == rest
    assert receive(broker, f"{name}::{queue_of(broker, name)}", 2)[0].body == b"old 1"


# -- through Spark -----------------------------------------------------------------------------------------------------


@pytest.mark.timeout(400)
def test_the_commands_bring_all_sizes(spark: Any, broker: BrokerProcess, name: str, tmp_path: Path) -> None:
    """Archive of a queue, replay, report of dead letters and redrive."""
    from tests.spark.test_jobs_commands import run
    from tests.spark.test_jobs_dead_letters import kill

    folder = tmp_path / "lake"
    fill(broker, name)
    archived = run("archive", "--url", broker.url, "--queue", name, "--out", folder, "--json")
    assert archived.exit_code == 0, archived.output
    rows = spark.read.parquet(str(folder)).orderBy("sequence").select("body").collect()
    assert [bytes(row.body) for row in rows] == BODIES

    replayed = run("replay", "--url", broker.url, "--in", folder, "--to", f"{name}.b", "--job-id", name)
    assert replayed.exit_code == 0, replayed.output
    assert [bytes(message.body) for message in receive(broker, f"{name}.b", len(BODIES))] == BODIES

    kill(broker, name, len(BODIES))
    where = f"origin_address = '{name}'"
    told = run("dlq", "report", "--url", broker.url, "--where", where, "--out", tmp_path / "r.html", "--json")
    sent = run("dlq", "redrive", "--url", broker.url, "--where", where, "--json")
    assert (told.exit_code, sent.exit_code) == (0, 0), told.output + sent.output
    assert sorted(bytes(message.body) for message in receive(broker, name, len(BODIES))) == sorted(BODIES)
    assert ask(broker, "queue.DLQ", "countMessages", f"_AMQ_ORIG_ADDRESS = '{name}'") == 0


@pytest.mark.timeout(400)
def test_tables_and_streams_bring_all_sizes(spark: Any, broker: BrokerProcess, name: str, tmp_path: Path) -> None:
    """Twelve messages were three, and the stream failed and advised to give up the other nine."""
    from tests.spark.test_stream import finish, source, subscribe, to_files

    fill(broker, f"{name}.q")
    frame = spark.read.format("amqp").options(url=broker.url, mode="browse", queue=f"{name}.q").load()
    assert [bytes(row.body) for row in frame.orderBy("sequence").select("body").collect()] == BODIES

    queue = subscribe(broker, name)
    texts = [octets.decode() for octets in BODIES]
    send(broker, name, [Message(body=text, durable=True) for text in texts])
    finish(to_files(source(spark, broker, name, maxMessagesPerTrigger=5), tmp_path), str(tmp_path / "checkpoint"))
    rows = spark.read.parquet(str(tmp_path / "out")).orderBy("sequence").select("body").collect()
    assert [row.body for row in rows] == texts
    assert message_count(broker, queue) == 0
