"""A spooling stream is killed: nothing is lost, a batch that runs again is the same, and little comes twice."""

import json
import os
import random
import subprocess
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest

from tests.crash.processes import command_of
from tests.interop.broker_process import BrokerProcess
from tests.spark.conftest import message_count, send
from tests.spark.kill import POLL_INTERVAL_S, WAIT_S, kill_session
from tests.spark.spool_victim import MESSAGES_PER_BATCH, QUEUE
from tests.spark.test_stream import numbered

MESSAGES_PER_LIFE: Final = 2000


class Victim:
    """A driver and what it leaves behind."""

    def __init__(self, broker: BrokerProcess, folder: Path) -> None:
        self._broker: Final = broker
        self._folder: Final = folder
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, *arguments: str) -> None:
        command = command_of("tests.spark.spool_victim", self._broker.url, str(self._folder), *arguments)
        with open(self._folder / "driver.log", "ab") as log:
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )

    def kill(self) -> None:
        if self._process is not None:
            kill_session(self._process)

    def finish(self) -> None:
        self.start("--finish")
        assert self._process is not None
        assert self._process.wait(WAIT_S) == 0, self._complaint()

    def wait_until(self, is_so: Callable[[], bool]) -> None:
        deadline = time.monotonic() + WAIT_S
        while not is_so():
            assert self._process is not None
            assert self._process.poll() is None, self._complaint()
            assert time.monotonic() < deadline, self._complaint()
            time.sleep(POLL_INTERVAL_S)

    def batches(self) -> list[tuple[int, Any]]:
        """What the ledger has; a line may be cut short by a kill."""
        path = self._folder / "ledger"
        lines = path.read_text(encoding="ascii").splitlines() if path.exists() else []
        return [tuple(json.loads(line)) for line in lines if line.endswith("]]]")]

    def spooled(self) -> list[str]:
        """Files of messages, finished or not."""
        return sorted(path.name for path in (self._folder / "spool").glob("*/0*"))

    def _complaint(self) -> str:
        return (self._folder / "driver.log").read_text(encoding="utf-8", errors="replace")[-4000:]


@pytest.mark.timeout(1800)
@pytest.mark.skipif("ARTEMIS_PY_SPARK_KILLS" not in os.environ, reason="takes minutes: set ARTEMIS_PY_SPARK_KILLS")
def test_nothing_is_lost_when_the_driver_is_killed(spark: Any, broker: BrokerProcess, tmp_path: Path) -> None:
    """While it takes messages in, while a batch runs, or between. `spark` is there to skip without Java."""
    dice = random.Random(1)
    victim = Victim(broker, tmp_path)
    sent = kills = 0
    try:
        for moment in ("batch", "file", "batch"):
            send(broker, QUEUE, numbered(sent, sent + MESSAGES_PER_LIFE))
            sent += MESSAGES_PER_LIFE
            victim.start()
            seen = len(victim.batches())
            victim.wait_until(lambda seen=seen: len(victim.batches()) >= seen + 2)  # type: ignore[misc]
            if moment == "file":
                before = victim.spooled()
                victim.wait_until(lambda before=before: victim.spooled() != before)  # type: ignore[misc]
            time.sleep(dice.uniform(0.0, 0.05))
            victim.kill()
            kills += 1
        victim.finish()
    finally:
        victim.kill()

    by_number: dict[int, Any] = {}
    for number, rows in victim.batches():
        assert by_number.setdefault(number, rows) == rows, f"batch {number} is another one when it runs again"
    bodies = Counter(int(body) for rows in by_number.values() for _, body in rows)
    assert set(bodies) == set(range(sent))
    assert sum(bodies.values()) - sent <= kills * MESSAGES_PER_BATCH
    sequences = sorted(sequence for rows in by_number.values() for sequence, _ in rows)
    assert sequences == list(range(sum(bodies.values())))
    assert message_count(broker, QUEUE) == 0
