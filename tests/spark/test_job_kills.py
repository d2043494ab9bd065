"""The jobs as commands, killed with all their processes in the middle of their work, and run again.

When to kill is seen at the broker and in the checkpoint; each test makes sure that it came neither too early nor too
late.
"""

import os
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from proton import Message

from artemis_py.spark.encoding import Encoded, data_section
from artemis_py.spark.options import read_options, write_options
from artemis_py.spark.planning import Planner
from artemis_py.spark.rejected import marked
from artemis_py.spark.sending import Sender
from tests.interop.broker_process import BrokerProcess
from tests.spark.conftest import ask, message_count, receive, send
from tests.spark.driver import TEST_S, Driver
from tests.spark.kill import last_batch
from tests.spark.victim import SETTINGS

pytestmark = [
    pytest.mark.skipif("ARTEMIS_PY_SPARK_KILLS" not in os.environ, reason="takes minutes: set ARTEMIS_PY_SPARK_KILLS"),
    pytest.mark.timeout(TEST_S),
]


def start_job(broker: BrokerProcess, folder: Path, *arguments: object) -> Driver:
    """Run one command, in a session of its own."""
    settings = {**SETTINGS, "spark.local.dir": str(folder / "local")}
    master = settings.pop("spark.master")
    command = [sys.executable, "-P", "-m", "artemis_py.cli", "spark", *map(str, arguments)]
    command += ["--url", broker.url, "--master", master]
    for key, value in settings.items():
        command += ["--conf", f"{key}={value}"]
    return Driver(command, folder / "job.log")


def kill_when(job: Driver, is_time: Callable[[], bool]) -> None:
    """Wait until it is time, and kill."""
    try:
        job.wait_until(is_time)
    finally:
        job.kill()


def finish(job: Driver) -> None:
    """Let it come to its end, which must be a good one."""
    try:
        job.finish()
    finally:
        job.kill()


def numbered(start: int, stop: int) -> list[Message]:
    return [Message(body=str(number), durable=True) for number in range(start, stop)]


def numbered_message(number: int) -> Encoded:
    """Durable, with the number as its body."""
    return Encoded(None, b"\x00\x53\x70\xc0\x02\x01\x41", data_section(str(number).encode()))


def fill(broker: BrokerProcess, address: str | None, messages: Iterable[Encoded]) -> None:
    """Send many, faster than Proton does."""
    options = {"url": broker.url, "routingType": "anycast", "idempotence": "none"}
    sender = Sender(write_options(options if address is None else {**options, "address": address}))
    sender.send(messages)
    sender.flush()
    sender.close()


def once(bodies: Iterable[Any], count: int) -> None:
    """Each number there, and once."""
    found = Counter(int(body) for body in bodies)
    assert sorted(set(range(count)) - found.keys()) == []
    assert [body for body, times in found.items() if times > 1] == []


def taken(broker: BrokerProcess, queue: str) -> Iterator[Any]:
    return (message.body for message in receive(broker, queue, message_count(broker, queue)))


def test_an_archive_that_is_killed_has_each_message_once(
    spark: Any, broker: BrokerProcess, name: str, tmp_path: Path
) -> None:
    """Killed while it goes on: a batch is planned and not committed."""
    Planner(read_options({"url": broker.url, "address": name, "subscription": "lake"})).heads()
    send(broker, name, numbered(0, 600))
    out = tmp_path / "lake"
    arguments = ("archive", "--address", name, "--subscription", "lake", "--out", out, "--max-messages", 100)
    log = out / "_checkpoint"
    killed_within_batch = False
    for batch in range(1, 6):
        job = start_job(broker, tmp_path, *arguments, "--every", 1)
        kill_when(job, lambda wanted=batch: last_batch(log / "offsets") >= wanted)  # type: ignore[misc]
        killed_within_batch |= last_batch(log / "offsets") > last_batch(log / "commits")
        if killed_within_batch and batch > 1:
            # On a busy machine a kill may come too late, and the next one is needed.
            break
    send(broker, name, numbered(600, 700))

    finish(start_job(broker, tmp_path, *arguments))

    assert killed_within_batch
    once((row.body for row in spark.read.parquet(str(out)).select("body").collect()), 700)
    assert message_count(broker, f"lake.{name}:global") == 0


@pytest.mark.parametrize("rate", [None, 500])
def test_a_replay_that_is_killed_adds_nothing_twice(
    broker: BrokerProcess, name: str, tmp_path: Path, rate: int | None
) -> None:
    """With a rate messages are there already when it is killed; without one they are in stages."""
    count = 20_000 if rate is None else 3000
    fill(broker, name, (numbered_message(number) for number in range(count)))
    out = tmp_path / "lake"
    finish(start_job(broker, tmp_path, "archive", "--queue", name, "--out", out))
    target = f"{name}.again"
    arguments = ("replay", "--in", out, "--to", target, "--job-id", name)
    paced = () if rate is None else ("--rate", rate)

    def is_in_the_middle() -> bool:
        names = ask(broker, "broker", "getQueueNames")
        if rate is None:
            return any(queue.startswith("$artemis.staging") for queue in names)
        return target in names and message_count(broker, target) > 0

    kill_when(start_job(broker, tmp_path, *arguments, *paced), is_in_the_middle)
    before = message_count(broker, target)
    for _ in range(2):
        # The second run after the kill has nothing left to do.
        finish(start_job(broker, tmp_path, *arguments, *(() if rate is None else ("--rate", 5000))))

    assert before < count if rate else before == 0
    once(taken(broker, target), count)


def test_a_redrive_that_is_killed_before_it_acknowledges_doubles_and_loses_nothing(
    broker: BrokerProcess, name: str, tmp_path: Path
) -> None:
    count, sent, dead = 5000, 0, 0
    ask(broker, "broker", "createQueue", f'{{"name": "{name}", "address": "{name}", "routing-type": "ANYCAST"}}')
    while dead == 0:
        # Again if the kill came after the acknowledgement, which is one for all of them.
        assert sent < 5 * count
        numbers = range(sent, sent + count)
        fill(broker, None, (marked(numbered_message(number), name, "DLQ", None) for number in numbers))
        job = start_job(broker, tmp_path, "dlq", "redrive", "--all")
        kill_when(job, lambda before=sent: message_count(broker, name) > before)  # type: ignore[misc]
        at_home, dead = message_count(broker, name) - sent, message_count(broker, "DLQ")
        sent += count
    finish(start_job(broker, tmp_path, "dlq", "redrive", "--all"))

    assert at_home > 0
    assert dead == count
    assert message_count(broker, "DLQ") == 0
    once(map(bytes, taken(broker, name)), sent)
