"""The jobs as commands, killed with all their processes in the middle of their work, and run again.

When to kill is seen at the broker and in the checkpoint; each test makes sure that it came neither too early nor too
late.
"""

import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from proton import Message

from artemis_py.spark.encoding import Encoded, data_section
from artemis_py.spark.options import read_options, write_options
from artemis_py.spark.planning import Planner
from artemis_py.spark.rejected import marked
from artemis_py.spark.sending import Sender
from tests.interop.broker_process import BrokerProcess
from tests.spark.conftest import ask, message_count, receive, send
from tests.spark.kill import kill_session, last_batch
from tests.spark.victim import SETTINGS

pytestmark = [
    pytest.mark.skipif("ARTEMIS_PY_SPARK_KILLS" not in os.environ, reason="takes minutes: set ARTEMIS_PY_SPARK_KILLS"),
    pytest.mark.timeout(1800),
]

WAIT_S: Final = 900.0
"""Spark takes ten seconds to start, and on a busy machine minutes."""
POLL_INTERVAL_S: Final = 0.005


class Job:
    """One command, run in a session of its own."""

    def __init__(self, broker: BrokerProcess, folder: Path, *arguments: object) -> None:
        self._log: Final = folder / "job.log"
        settings = {**SETTINGS, "spark.local.dir": str(folder / "local")}
        master = settings.pop("spark.master")
        command = [sys.executable, "-P", "-m", "artemis_py.cli", "spark", *map(str, arguments)]
        command += ["--url", broker.url, "--master", master]
        for key, value in settings.items():
            command += ["--conf", f"{key}={value}"]
        with open(self._log, "ab") as log:
            self.process: Final = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )

    def kill_when(self, is_time: Callable[[], bool]) -> None:
        """Wait for it and kill."""
        try:
            self._wait_for(is_time)
        finally:
            kill_session(self.process)

    def _wait_for(self, is_time: Callable[[], bool]) -> None:
        deadline = time.monotonic() + WAIT_S
        while not is_time():
            assert self.process.poll() is None, f"it ended before it was killed: {self._log.read_text()}"
            assert time.monotonic() < deadline, self._log.read_text()
            time.sleep(POLL_INTERVAL_S)

    def finish(self) -> None:
        """To its end, which must be a good one."""
        try:
            assert self.process.wait(WAIT_S) == 0, self._log.read_text()
        finally:
            kill_session(self.process)


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
    for batch in (2, 4):
        job = Job(broker, tmp_path, *arguments, "--every", 1)
        job.kill_when(lambda wanted=batch: last_batch(log / "offsets") >= wanted)  # type: ignore[misc]
        killed_within_batch |= last_batch(log / "offsets") > last_batch(log / "commits")
    send(broker, name, numbered(600, 700))

    Job(broker, tmp_path, *arguments).finish()

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
    Job(broker, tmp_path, "archive", "--queue", name, "--out", out).finish()
    target = f"{name}.again"
    arguments = ("replay", "--in", out, "--to", target, "--job-id", name)
    paced = () if rate is None else ("--rate", rate)

    def is_in_the_middle() -> bool:
        names = ask(broker, "broker", "getQueueNames")
        if rate is None:
            return any(queue.startswith("$artemis.staging") for queue in names)
        return target in names and message_count(broker, target) > 0

    Job(broker, tmp_path, *arguments, *paced).kill_when(is_in_the_middle)
    before = message_count(broker, target)
    for _ in range(2):
        # The second run after the kill has nothing left to do.
        Job(broker, tmp_path, *arguments, *(() if rate is None else ("--rate", 5000))).finish()

    assert before < count if rate else before == 0
    once(taken(broker, target), count)


def test_a_redrive_that_is_killed_before_it_acknowledges_doubles_and_loses_nothing(
    broker: BrokerProcess, name: str, tmp_path: Path
) -> None:
    count = 5000
    fill(broker, None, (marked(numbered_message(number), name, "DLQ", None) for number in range(count)))
    ask(broker, "broker", "createQueue", f'{{"name": "{name}", "address": "{name}", "routing-type": "ANYCAST"}}')

    Job(broker, tmp_path, "dlq", "redrive", "--all").kill_when(lambda: message_count(broker, name) > 0)
    at_home, dead = message_count(broker, name), message_count(broker, "DLQ")
    Job(broker, tmp_path, "dlq", "redrive", "--all").finish()

    assert at_home > 0
    assert dead == count
    assert message_count(broker, "DLQ") == 0
    once(map(bytes, taken(broker, name)), count)
