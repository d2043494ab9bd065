"""Exactly once, whoever dies; `python -m tests.spark.kill` is the long form."""

import os
from pathlib import Path
from typing import Any

import pytest

from tests.spark.driver import TEST_S
from tests.spark.kill import DEATHS, KillRun, self_check

pytestmark = [
    pytest.mark.skipif("ARTEMIS_PY_SPARK_KILLS" not in os.environ, reason="takes minutes: set ARTEMIS_PY_SPARK_KILLS"),
    pytest.mark.timeout(TEST_S),
]


def test_every_message_is_written_once_whoever_is_killed(spark: Any, tmp_path: Path) -> None:
    """Driver, broker and both, at moments that the seed chooses; K1 to K6. `spark` is there to skip without Java."""
    run = KillRun(tmp_path, seed=1)

    run.run(rounds=len(DEATHS))

    assert run.violations == []
    assert sum(run.kills.values()) == len(DEATHS)


def test_what_is_planted_is_found(spark: Any, tmp_path: Path) -> None:
    """Duplicates of a sink without idempotence, the loss that a hasty acknowledgement makes; and nothing without."""
    assert self_check(tmp_path, seed=1) == []
