"""Jobs `dlq report` and `dlq redrive` on a real session and broker."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from proton import Message
from proton.utils import BlockingConnection

from artemis_py.spark.jobs import redrive as redrive_job
from artemis_py.spark.jobs.clearing import Cleared, ClearingOptions, clear
from artemis_py.spark.jobs.dead_letter_report import render
from artemis_py.spark.jobs.dead_letters import dead_letters, groups
from artemis_py.spark.jobs.redrive import Redriven, RedriveOptions, redrive
from artemis_py.spark.jobs.replay import ReplayOptions, replay
from artemis_py.spark.options import write_options
from tests.interop.broker_process import BrokerProcess
from tests.spark.conftest import message_count, receive, send

pytestmark = pytest.mark.timeout(400)
"""Each test runs several queries; a machine that is busy with others takes seconds to start a worker."""


ATTEMPTS = 10
"""The broker's default of max-delivery-attempts."""


def kill(broker: BrokerProcess, queue: str, number: int) -> None:
    """Have messages die: whoever rejects one sends it to the dead-letter address."""
    connection = BlockingConnection(broker.url, timeout=30)
    receiver = connection.create_receiver(queue, credit=number)
    for _ in range(number):
        receiver.receive(timeout=30)
        receiver.reject()
    connection.close()


def run(spark: Any, broker: BrokerProcess, **options: Any) -> Redriven:
    source = {"url": broker.url, "queue": "DLQ"}
    return redrive(spark, source, write_options({"url": broker.url}), RedriveOptions(**options))


def of(name: str) -> str:
    return f"origin_address = '{name}'"


def test_dead_letters_that_are_alike_are_one_group(spark: Any, broker: BrokerProcess, name: str) -> None:
    orders = [Message(body=f'{{"id": {i}, "to": "x"}}'.encode(), properties={"kind": str(i)}) for i in range(3)]
    send(broker, name, [*orders, Message(body=b"<a/>", properties={"DeadLetterReason": "too old"})])
    kill(broker, name, 4)

    found = groups(dead_letters(spark, {"url": broker.url, "queue": "DLQ"}).where(of(name)))

    assert [(group.count, group.cause, group.shape) for group in found] == [
        (3, "rejected by its consumer", "{id: number, to: text}"),
        (1, "too old", "xml <a>"),
    ]
    assert [group.attempts for group in found] == [0, 0]
    assert {(group.origin_address, group.origin_queue) for group in found} == {(name, name)}
    assert found[0].id in render(["DLQ"], found, datetime(2027, 1, 1, tzinfo=UTC))


def test_rows_that_a_sink_could_not_send_are_dead_letters(spark: Any, broker: BrokerProcess, name: str) -> None:
    """With the reason, whose numbers make no group of their own; and they can be sent home, as if nothing had been."""
    frame = spark.sql("SELECT 'short' AS body UNION ALL SELECT repeat('long', 50) UNION ALL SELECT repeat('long', 60)")
    options = {"url": broker.url, "address": name, "routingType": "anycast", "maxMessageBytes": "100"}
    frame.write.format("amqp").options(**options, onReject="deadletter", errorAddress="DLQ").mode("append").save()

    found = groups(dead_letters(spark, {"url": broker.url, "queue": "DLQ"}).where(of(name)))
    done = run(spark, broker, where=of(name))

    assert [group.count for group in found] == [2]
    assert found[0].cause.endswith("bytes, maxMessageBytes is 100")
    assert (done.sent, done.removed) == (2, 2)
    messages = receive(broker, name, 3)
    assert {message.body for message in messages} == {"short", "long" * 50, "long" * 60}
    assert all("x-opt-reject-reason" not in (message.annotations or {}) for message in messages)


def test_expired_messages_say_so(spark: Any, broker: BrokerProcess, name: str) -> None:
    send(broker, name, [Message(body="late", ttl=0.001)])
    while message_count(broker, "ExpiryQueue") == 0:
        pass

    found = groups(dead_letters(spark, {"url": broker.url, "queue": "ExpiryQueue"}))

    assert [(group.origin_address, group.cause, len(group.hours)) for group in found] == [(name, "expired", 1)]


def test_a_redrive_brings_chosen_messages_home(spark: Any, broker: BrokerProcess, name: str) -> None:
    """In their order, as they were; the others stay. `_AMQ_DUPL_ID` of the first sending does not stop the second."""
    send(broker, name, [Message(body=str(i), properties={"i": i, "_AMQ_DUPL_ID": str(i)}) for i in range(6)])
    kill(broker, name, 6)
    before = message_count(broker, "DLQ")

    done = run(spark, broker, where=f"{of(name)} AND cast(properties['i'] AS int) % 2 = 0")

    assert (done.selected, done.sent, done.removed, done.problems) == (3, 3, 3, {})
    assert message_count(broker, "DLQ") == before - 3
    back = receive(broker, name, 3)
    assert [(message.body, message.properties) for message in back] == [(str(i), {"i": i}) for i in (0, 2, 4)]
    assert {message.annotations["x-opt-redrive-count"] for message in back} == {1}


def test_a_redrive_can_be_tried_with_the_oldest_ones(spark: Any, broker: BrokerProcess, name: str) -> None:
    send(broker, name, [Message(body=str(i)) for i in range(5)])
    kill(broker, name, 5)

    done = run(spark, broker, where=of(name), max_messages=2)

    assert (done.sent, done.removed) == (2, 2)
    assert [message.body for message in receive(broker, name, 2)] == ["0", "1"]


def test_a_message_that_dies_again_and_again_stays(spark: Any, broker: BrokerProcess, name: str) -> None:
    send(broker, name, [Message(body="poison")])
    counts = []
    for _ in range(3):
        kill(broker, name, 1)
        done = run(spark, broker, where=of(name), max_redrives=2)
        counts.append((done.sent, done.looping))

    assert counts == [(1, 0), (1, 0), (0, 1)]
    assert message_count(broker, name) == 0


def test_a_redrive_that_was_killed_before_it_acknowledged_doubles_nothing(
    spark: Any, broker: BrokerProcess, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    send(broker, name, [Message(body=str(i), durable=True) for i in range(5)])
    kill(broker, name, 5)

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(redrive_job, "_acknowledge", killed)
        with pytest.raises(KeyboardInterrupt):
            run(spark, broker, where=of(name))
    assert message_count(broker, name) == 5
    again = run(spark, broker, where=of(name))

    assert (again.sent, again.removed) == (5, 5)
    assert message_count(broker, name) == 5


def test_a_message_goes_back_to_the_queue_it_died_in(spark: Any, broker: BrokerProcess, name: str) -> None:
    """Others that got a copy from the same address do not get it again."""
    connection = BlockingConnection(broker.url, timeout=30)
    for queue in ("one", "two"):
        connection.create_receiver(f"{name}::{name}.{queue}")
    connection.close()
    send(broker, name, [Message(body="x")])
    queues = [f"{name}.{queue}" for queue in ("one", "two")]
    counts = [message_count(broker, queue) for queue in queues]
    died = queues[counts.index(1)]
    kill(broker, f"{name}::{died}", 1)

    done = run(spark, broker, where=of(name))

    assert (done.sent, done.problems) == (1, {})
    assert message_count(broker, died) == 1


def test_what_cannot_go_home_stays_and_is_told(spark: Any, broker: BrokerProcess, name: str) -> None:
    """The broker refuses a queue that belongs to another address."""
    send(broker, name, [Message(body="x")])
    kill(broker, name, 1)
    before = message_count(broker, "DLQ")

    done = run(spark, broker, where=of(name), to=f"{name}::DLQ")

    assert (done.sent, done.removed, list(done.problems)) == (0, 0, [f"{name}::DLQ"])
    assert message_count(broker, "DLQ") == before


def test_a_report_says_why_and_after_how_many_attempts(spark: Any, broker: BrokerProcess, name: str) -> None:
    """What the broker knows; and none of it goes along when the message is sent back."""
    send(broker, name, [Message(body="x", durable=True)])
    connection = BlockingConnection(broker.url, timeout=30)
    receiver = connection.create_receiver(name, credit=1)
    for _ in range(ATTEMPTS):
        receiver.receive(timeout=30)
        receiver.fetcher.unsettled[0].local.failed = True
        receiver.release(delivered=True)
    connection.close()

    while message_count(broker, name):
        pass

    (found,) = groups(dead_letters(spark, {"url": broker.url, "queue": "DLQ"}).where(of(name)))
    done = run(spark, broker, groups=(found.id,))

    assert (found.attempts, found.cause) == (ATTEMPTS, f"{ATTEMPTS} attempts to deliver it failed")
    assert f">{ATTEMPTS}</td>" in render(["DLQ"], [found], datetime(2027, 1, 1, tzinfo=UTC))
    assert done.sent == 1
    (message,) = receive(broker, name, 1)
    assert not [key for key in message.annotations if "DEATH" in str(key)]


def test_a_group_is_exported_and_removed(spark: Any, broker: BrokerProcess, name: str, tmp_path: Path) -> None:
    """The others stay; and what was exported can be sent again."""
    send(broker, name, [Message(body=f'{{"id": {i}}}'.encode(), id=str(i), inferred=True) for i in range(3)])
    send(broker, name, [Message(body=b"<a/>", inferred=True)])
    kill(broker, name, 4)
    source, folder = {"url": broker.url, "queue": "DLQ"}, str(tmp_path / "letters")
    before = message_count(broker, "DLQ")
    group, other = groups(dead_letters(spark, source).where(of(name)))

    counted = clear(spark, source, ClearingOptions(groups=(group.id,)))
    exported = clear(spark, source, ClearingOptions(groups=(other.id,), path=folder))
    assert (counted, exported) == (Cleared(selected=3), Cleared(selected=1, exported=1))
    assert message_count(broker, "DLQ") == before
    purged = clear(spark, source, ClearingOptions(groups=(group.id,), path=folder, removes=True))

    assert purged == Cleared(selected=3, exported=3, removed=3)
    assert message_count(broker, "DLQ") == before - 3
    rows = spark.read.parquet(folder)
    assert sorted(rows.select("cause", "group", "origin_address").distinct().collect()) == sorted(
        [("rejected by its consumer", group.id, name), ("rejected by its consumer", other.id, name)]
    )
    again = ReplayOptions(path=folder, job=name, where="message_id = '1'", to=f"{name}.again")
    assert replay(spark, write_options({"url": broker.url, "routingType": "anycast"}), again).sent == 1
    (message,) = receive(broker, f"{name}.again", 1)
    assert bytes(message.body) == b'{"id": 1}'


def test_a_rehearsal_changes_nothing(spark: Any, broker: BrokerProcess, name: str) -> None:
    send(broker, name, [Message(body="x")])
    kill(broker, name, 1)
    before = message_count(broker, "DLQ")

    done = run(spark, broker, where=of(name), is_rehearsal=True)

    assert (done.selected, done.sent) == (1, 0)
    assert (message_count(broker, "DLQ"), message_count(broker, name)) == (before, 0)
