"""A spooling stream is killed: nothing is lost, a batch that runs again is the same, and little comes twice."""

import json
import os
import random
import time
from collections import Counter
from pathlib import Path
from typing import Any, Final

import pytest

from tests.crash.processes import command_of
from tests.interop.broker_process import BrokerProcess
from tests.spark.conftest import message_count, send
from tests.spark.driver import TEST_S, Driver
from tests.spark.spool_victim import MESSAGES_PER_BATCH, QUEUE
from tests.spark.test_stream import numbered

MESSAGES_PER_LIFE: Final = 2000


class Victim:
    """A driver and what it leaves behind."""

    def __init__(self, broker: BrokerProcess, folder: Path) -> None:
        self._broker: Final = broker
        self._folder: Final = folder
        self._driver: Driver | None = None

    def start(self, *arguments: str) -> Driver:
        command = command_of("tests.spark.spool_victim", self._broker.url, str(self._folder), *arguments)
        self._driver = Driver(command, self._folder / "driver.log")
        return self._driver

    def kill(self) -> None:
        if self._driver is not None:
            self._driver.kill()

    def batches(self) -> list[tuple[int, Any]]:
        """What the ledger has; a line may be cut short by a kill."""
        path = self._folder / "ledger"
        lines = path.read_text(encoding="ascii").splitlines() if path.exists() else []
        return [tuple(json.loads(line)) for line in lines if line.endswith("]]]")]

    def spooled(self) -> list[str]:
        """Files of messages, finished or not."""
        return sorted(path.name for path in (self._folder / "spool").glob("*/0*"))


@pytest.mark.timeout(TEST_S)
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
            driver = victim.start()
            seen = len(victim.batches())
            driver.wait_until(lambda seen=seen: len(victim.batches()) >= seen + 2)  # type: ignore[misc]
            if moment == "file":
                before = victim.spooled()
                driver.wait_until(lambda before=before: victim.spooled() != before)  # type: ignore[misc]
            time.sleep(dice.uniform(0.0, 0.05))
            victim.kill()
            kills += 1
        victim.start("--finish").finish()
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
