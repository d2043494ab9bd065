"""`mode=spool`: a stream from a broker that numbers nothing. Ours is asked for nothing but to give its messages."""

import json
import logging
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from proton import Message

from tests.interop.broker_process import BrokerProcess
from tests.spark.conftest import message_count, receive, send
from tests.spark.test_stream import finish, numbered, to_files

pytest.importorskip("pyspark")
pytest.importorskip("pyarrow")

from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows
from pyspark.sql.types import LongType, StringType, StructField, StructType

from artemis_py.spark.connection import Broker
from artemis_py.spark.errors import DataLoss, InvalidOption, SpoolFailed
from artemis_py.spark.options import read_options
from artemis_py.spark.receiving import DrainLink
from artemis_py.spark.spool import Spool, files_of
from artemis_py.spark.spool_source import SpoolStreamReader

SCHEMA = StructType([StructField("sequence", LongType()), StructField("body", StringType())])


def reader(broker: BrokerProcess, folder: Path, names: str, **options: str) -> SpoolStreamReader:
    """The source as the driver has it."""
    given = {"url": broker.url, "mode": "spool", "queue": names, "spoolDir": str(folder), **options}
    return SpoolStreamReader(read_options(given), SCHEMA)


def begun(source: SpoolStreamReader) -> dict[str, Any]:
    """Behind the first batch, which is empty."""
    start = source.initialOffset()
    assert source.latestOffset(start, ReadAllAvailable()) == start
    return start


def rows(source: SpoolStreamReader, start: dict[str, Any], end: dict[str, Any]) -> list[tuple[int, str]]:
    found = [row for part in source.partitions(start, end) for batch in source.read(part) for row in batch.to_pylist()]
    return [(row["sequence"], row["body"]) for row in found]


def bodies(source: SpoolStreamReader, start: dict[str, Any], end: dict[str, Any]) -> list[int]:
    return [int(body) for _, body in rows(source, start, end)]


def ended(source: SpoolStreamReader) -> None:
    """The process dies: of what it had, only the lock is not on disk."""
    if source._spool._lock is not None:
        os.close(source._spool._lock)


def test_a_stream_takes_a_queue_in_limits_and_leaves_neither_messages_nor_files(
    spark: Any, broker: BrokerProcess, name: str, tmp_path: Path, checkpoint: str
) -> None:
    send(broker, name, numbered(0, 100))
    source = spark.readStream.format("amqp").options(url=broker.url, mode="spool", queue=name)
    source = source.options(spoolDir=f"file://{tmp_path}/spool", maxMessagesPerTrigger=40).schema(
        "queue string, sequence bigint, body string"
    )

    batches = finish(to_files(source.load(), tmp_path), checkpoint)
    send(broker, name, numbered(100, 110))
    later = finish(to_files(source.load(), tmp_path), checkpoint)

    assert [count for count in batches if count] == [40, 40, 20]
    assert sum(later) == 10
    table = spark.read.parquet(str(tmp_path / "out")).collect()
    assert sorted((row.sequence, int(row.body)) for row in table) == [(i, i) for i in range(110)]
    assert {row.queue for row in table} == {name}
    assert message_count(broker, name) == 0
    assert list((tmp_path / "spool").glob("*/*.messages")) == []


def test_no_more_is_taken_than_a_batch_may_have(broker: BrokerProcess, name: str, tmp_path: Path) -> None:
    """Of two queues the longer one fills what the other leaves."""
    send(broker, f"{name}.a", numbered(0, 5))
    send(broker, f"{name}.b", numbered(5, 50))
    source = reader(broker, tmp_path, f"{name}.a,{name}.b")
    start = begun(source)

    end = source.latestOffset(start, ReadMaxRows(30))

    assert sorted(bodies(source, start, end)) == list(range(30))
    assert message_count(broker, f"{name}.a") + message_count(broker, f"{name}.b") == 20


def test_a_batch_that_is_replayed_has_the_same_rows(broker: BrokerProcess, name: str, tmp_path: Path) -> None:
    """In another process, which is asked for the old range before anything else, while new messages wait."""
    send(broker, name, numbered(0, 20))
    first = reader(broker, tmp_path, name)
    start = begun(first)
    end = first.latestOffset(start, ReadMaxRows(10))
    before = rows(first, start, end)
    ended(first)
    send(broker, name, numbered(20, 30))

    again = reader(broker, tmp_path, name, minPartitions="3")
    replayed = rows(again, start, end)
    rest = again.latestOffset(end, ReadAllAvailable())

    assert replayed == before
    assert rows(again, end, rest) == [(i, str(i)) for i in range(10, 30)]


def test_a_crash_before_the_acceptance_brings_one_file_twice(broker: BrokerProcess, name: str, tmp_path: Path) -> None:
    """The file is on disk, the broker did not hear of it: at least once, and never fewer."""
    send(broker, name, numbered(0, 10))
    first = reader(broker, tmp_path, name)
    start = begun(first)
    end = first.latestOffset(start, ReadMaxRows(4))
    options = read_options({"url": broker.url, "mode": "drain", "queue": name})
    connection = Broker(options.connection).connect()
    messages = next(iter(DrainLink(connection, name, None, 3, False, 3).batches(5.0)))
    first._spool.append(name, messages)
    connection.close()
    ended(first)

    again = reader(broker, tmp_path, name)
    rest = again.latestOffset(end, ReadAllAvailable())

    assert bodies(again, end, rest) == [4, 5, 6, *range(4, 10)]
    assert message_count(broker, name) == 0


def test_an_unfinished_file_is_set_aside_and_named(
    broker: BrokerProcess, name: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    send(broker, name, numbered(0, 4))
    first = reader(broker, tmp_path, name)
    start = begun(first)
    end = first.latestOffset(start, ReadMaxRows(2))
    (file,) = files_of(tmp_path, name, name)
    torn = file.path.with_name(f"{2:020d}.part")
    torn.write_bytes(file.path.read_bytes()[:-1])
    ended(first)

    with caplog.at_level(logging.WARNING):
        again = reader(broker, tmp_path, name)
        rest = again.latestOffset(end, ReadAllAvailable())

    assert bodies(again, end, rest) == [2, 3]
    assert str(torn.with_suffix(".unfinished")) in caplog.text
    assert torn.with_suffix(".unfinished").exists()


def test_files_go_when_their_batch_is_committed_and_numbers_go_on(
    broker: BrokerProcess, name: str, tmp_path: Path
) -> None:
    """Also in a new process that finds no file: the checkpoint says where numbers were."""
    send(broker, name, numbered(0, 3))
    first = reader(broker, tmp_path, name)
    start = begun(first)
    end = first.latestOffset(start, ReadAllAvailable())
    assert len(files_of(tmp_path, name, name)) == 1
    assert first.latestOffset(end, ReadAllAvailable()) == end
    assert files_of(tmp_path, name, name) == []
    ended(first)
    send(broker, name, numbered(3, 5))

    again = reader(broker, tmp_path, name)
    later = again.latestOffset(end, ReadAllAvailable())

    assert rows(again, end, later) == [(3, "3"), (4, "4")]


@pytest.mark.parametrize("is_running", [True, False])
def test_a_second_query_on_the_folder_is_refused(
    broker: BrokerProcess, name: str, tmp_path: Path, is_running: bool
) -> None:
    send(broker, name, numbered(0, 3))
    first = reader(broker, tmp_path, name)
    start = begun(first)
    first.latestOffset(start, ReadAllAvailable())
    if not is_running:
        ended(first)

    with pytest.raises(SpoolFailed, match=f"belongs to the query with the reader {start['reader']}"):
        reader(broker, tmp_path, name).initialOffset()


def test_two_new_queries_do_not_share_a_folder(broker: BrokerProcess, name: str, tmp_path: Path) -> None:
    """Both begin before one of them has taken anything: the second to take is refused, and takes nothing."""
    send(broker, name, numbered(0, 3))
    one, two = (reader(broker, tmp_path, name) for _ in range(2))
    starts = [begun(one), begun(two)]
    ended(one)
    one.latestOffset(starts[0], ReadMaxRows(1))
    ended(one)

    with pytest.raises(
        SpoolFailed, match=f"belongs to .* {starts[0]['reader']} .* this query is {starts[1]['reader']}"
    ):
        two.latestOffset(starts[1], ReadAllAvailable())
    assert [str(message.body) for message in receive(broker, name, 2)] == ["1", "2"]


def test_a_copy_of_the_checkpoint_is_refused_while_the_query_runs(
    broker: BrokerProcess, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same reader twice: the lock tells them apart."""
    monkeypatch.setattr("artemis_py.spark.spool.LOCK_TIMEOUT_S", 0.0)
    source = reader(broker, tmp_path, name)
    start = begun(source)
    source.latestOffset(start, ReadAllAvailable())

    with pytest.raises(SpoolFailed, match=f"is in use by the query with the reader {start['reader']}"):
        reader(broker, tmp_path, name).latestOffset(start, ReadAllAvailable())
    ended(source)
    reader(broker, tmp_path, name).latestOffset(start, ReadAllAvailable())


def test_a_missing_file_is_a_loss(broker: BrokerProcess, name: str, tmp_path: Path) -> None:
    """Somebody deleted it; the driver says so, that wrote it."""
    send(broker, name, numbered(0, 6))
    source = reader(broker, tmp_path, name, ack="engine")
    start = begun(source)
    middle = source.latestOffset(start, ReadMaxRows(3))
    end = source.latestOffset(middle, ReadMaxRows(3))
    first, second = files_of(tmp_path, name, name)
    first.path.unlink()

    with pytest.raises(DataLoss, match=rf"{name}::{name}: 3 of the 6 messages from 0 on are not in the files"):
        source.partitions(start, end)
    ended(source)
    going_on = reader(broker, tmp_path, name, failOnDataLoss="false")
    assert rows(going_on, start, end) == [(3, "3"), (4, "4"), (5, "5")]
    assert rows(going_on, start, middle) == []
    assert second.path.exists()


@pytest.mark.parametrize("fails", ["true", "false"])
def test_a_task_that_does_not_share_the_folder_fails(
    broker: BrokerProcess, name: str, tmp_path: Path, fails: str
) -> None:
    """The driver has the files: a batch that reads none of them would have them deleted when it is committed."""
    send(broker, name, numbered(0, 3))
    source = reader(broker, tmp_path, name, failOnDataLoss=fails)
    start = begun(source)
    end = source.latestOffset(start, ReadAllAvailable())
    (part,) = source.partitions(start, end)
    (file,) = files_of(tmp_path, name, name)
    elsewhere = file.path.rename(tmp_path / "elsewhere")

    with pytest.raises(SpoolFailed, match=rf"3 of 3 messages of {name}::{name} .*do all tasks share it"):
        list(source.read(part))
    elsewhere.rename(file.path)
    assert len(rows(source, start, end)) == 3


def test_another_folder_is_not_taken_for_the_old_one(broker: BrokerProcess, name: str, tmp_path: Path) -> None:
    source = reader(broker, tmp_path / "spool", name)
    send(broker, name, numbered(0, 3))
    start = begun(source)
    end = source.latestOffset(start, ReadMaxRows(1))
    shutil.rmtree(tmp_path / "spool")

    with pytest.raises(DataLoss, match="was created again"):
        reader(broker, tmp_path / "spool", name).latestOffset(end, ReadAllAvailable())
    assert message_count(broker, name) == 2


def test_a_damaged_file_is_named(broker: BrokerProcess, name: str, tmp_path: Path) -> None:
    send(broker, name, [Message(body="x", durable=True)])
    source = reader(broker, tmp_path, name)
    start = begun(source)
    end = source.latestOffset(start, ReadAllAvailable())
    (file,) = files_of(tmp_path, name, name)
    data = bytearray(file.path.read_bytes())
    data[-1] ^= 1
    file.path.write_bytes(data)

    with pytest.raises(SpoolFailed, match=r"-1\.messages: message 0 is damaged"):
        rows(source, start, end)


def test_a_folder_that_cannot_be_written_leaves_the_messages_in_the_queue(
    broker: BrokerProcess, name: str, tmp_path: Path
) -> None:
    send(broker, name, numbered(0, 3))
    source = reader(broker, tmp_path, name)
    start = begun(source)
    (tmp_path / f"{name}::{name}").write_text("a file where the folder should be")

    with pytest.raises(SpoolFailed, match="cannot be written"):
        source.latestOffset(start, ReadAllAvailable())
    assert len(receive(broker, name, 3)) == 3


def test_offsets_name_the_query(broker: BrokerProcess, name: str, tmp_path: Path) -> None:
    source = reader(broker, tmp_path, name)

    offset = begun(source)

    assert json.loads((tmp_path / "spool.json").read_text())["reader"] == ""
    source.latestOffset(offset, ReadAllAvailable())
    assert json.loads((tmp_path / "spool.json").read_text())["reader"] == offset["reader"]


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({}, "needs the option spoolDir"),
        ({"spoolDir": "relative/path"}, "must be the whole path"),
        ({"spoolDir": "s3://bucket/spool"}, "object stores"),
        ({"spoolDir": "/spool", "startingOffsets": "latest"}, "can only be earliest"),
        ({"spoolDir": "/spool", "settle": "before"}, "settle can only be after"),
        ({"spoolDir": "/spool", "mode": "drain"}, "option spoolDir is for mode=spool"),
    ],
)
def test_what_a_spool_cannot_be_is_refused(given: dict[str, str], reason: str) -> None:
    with pytest.raises(InvalidOption, match=reason):
        read_options({"mode": "spool", "queue": "q", **given})


def test_a_batch_query_does_not_spool(broker: BrokerProcess, spark: Any, tmp_path: Path) -> None:
    frame = spark.read.format("amqp").options(url=broker.url, mode="spool", queue="q", spoolDir=str(tmp_path)).load()

    with pytest.raises(Exception, match="mode=spool is for streams"):
        frame.count()


def test_names_of_queues_are_names_of_folders(tmp_path: Path) -> None:
    """Whatever characters they have."""
    spool = Spool(tmp_path, ["a/../b::q*"])
    spool.append("a/../b::q*", [b"m"])

    assert [file.messages() for file in files_of(tmp_path, "a/../b", "q*")] == [[b"m"]]
    assert [path.name for path in tmp_path.iterdir()] == ["a%2F..%2Fb::q%2A"]
