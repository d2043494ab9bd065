"""Jobs `archive` and `replay` on a real session and broker."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from proton import Message

from artemis_py.spark.jobs.archive import ArchiveOptions, archive
from artemis_py.spark.jobs.replay import Replayed, ReplayOptions, preview, replay
from artemis_py.spark.options import write_options
from tests.interop.broker_process import BrokerProcess
from tests.spark.conftest import message_count, receive, send

pytestmark = pytest.mark.timeout(400)
"""Each test runs several queries; a machine that is busy with others takes seconds to start a worker."""


@pytest.fixture
def archived(spark: Any, broker: BrokerProcess, name: str, tmp_path: Path) -> Callable[[], Any]:
    """Archives the queue of the test; what the run read."""
    options = ArchiveOptions(path=str(tmp_path / "archive"))
    return lambda: archive(spark, {"url": broker.url, "mode": "browse", "queue": name}, options)


def test_an_archive_gets_each_message_once(
    spark: Any, broker: BrokerProcess, name: str, tmp_path: Path, archived: Callable[[], Any]
) -> None:
    """The second run goes on where the first one ended; messages stay in the queue that is browsed."""
    send(broker, name, [Message(body=str(i), creation_time=1_800_000_000.0 + 86400 * i) for i in range(3)])
    first = archived()
    send(broker, name, [Message(body="3")])
    second = archived()

    rows = spark.read.parquet(str(tmp_path / "archive")).orderBy("sequence").collect()
    assert (first.messages, second.messages) == (3, 1)
    assert [bytes(row.body) for row in rows] == [b"0", b"1", b"2", b"3"]
    folders = {path.parent.parent.name for path in (tmp_path / "archive").rglob("*.parquet")}
    assert folders == {"date=2027-01-15", "date=2027-01-16", "date=2027-01-17", "date=unknown"}
    assert message_count(broker, name) == 4


def test_a_subscription_is_empty_when_it_is_archived(
    spark: Any, broker: BrokerProcess, name: str, tmp_path: Path
) -> None:
    source = {"url": broker.url, "address": name, "subscription": "lake"}
    options = ArchiveOptions(path=str(tmp_path / "archive"), columns=("body",), partition_by=())
    archive(spark, source, options)
    send(broker, name, [Message(body="x")])

    run = archive(spark, source, options)

    assert run.messages == 1
    assert message_count(broker, f"lake.{name}:global") == 0


def test_a_replay_brings_messages_back_as_they_were(
    spark: Any, broker: BrokerProcess, name: str, tmp_path: Path, archived: Callable[[], Any]
) -> None:
    """All that the columns cannot hold as well: types of properties, of bodies and ids, and JMS' kind of message."""
    sent = Message(body={"a": [1, 2.5]}, id=7, properties={"n": 5, "_AMQ_DUPL_ID": "first"}, durable=True, priority=7)
    sent.creation_time = 1_800_000_000.0
    sent.annotations = {"x-opt-jms-msg-type": 5, "x-opt-mine": "kept"}
    send(broker, name, [sent])
    archived()
    receive(broker, name, 1)
    options = ReplayOptions(path=str(tmp_path / "archive"), job=name, where=f"address = '{name}'")

    done = replay(spark, write_options({"url": broker.url}), options)

    (back,) = receive(broker, name, 1)
    assert done == Replayed(sent=1, rejected=0, was_done_before=False, problems=())
    assert (back.body, back.id, back.properties) == ({"a": [1, 2.5]}, 7, {"n": 5})
    assert (back.durable, back.priority, back.creation_time) == (True, 7, 1_800_000_000.0)
    kept = {str(key): value for key, value in back.annotations.items()}
    assert (kept["x-opt-mine"], int(kept["x-opt-jms-msg-type"])) == ("kept", 5)
    assert kept["x-opt-replayed-from"] == f"{name}::{name}"


@pytest.mark.parametrize("rate", [None, 200.0])
def test_a_replay_of_the_same_name_adds_nothing(
    spark: Any, broker: BrokerProcess, name: str, tmp_path: Path, archived: Callable[[], Any], rate: float | None
) -> None:
    send(broker, name, [Message(body=str(i)) for i in range(20)])
    archived()
    options = ReplayOptions(path=str(tmp_path / "archive"), job=name, to=f"{name}.again", rate=rate, new_times=True)
    sink = write_options({"url": broker.url})

    replay(spark, sink, options)
    again = replay(spark, sink, options)

    assert again.was_done_before == (rate is None)
    assert preview(spark, options) == [(name, "unknown", 20)]
    messages = receive(broker, f"{name}.again", 20)
    assert [message.body for message in messages] == [str(i) for i in range(20)]
    assert all(message.creation_time > 1_700_000_000 for message in messages)
    assert message_count(broker, f"{name}.again") == 0
