"""Storms of real processes: nothing is lost, doubled, out of order or stranded.

`ARTEMIS_PY_MESH_STORM=600` adds storms of three and of five brokers, for so many seconds in all.
"""

import os
import time
from pathlib import Path
from typing import Final

import pytest

from tests.interop.mesh.storm import storm

LONG_S: Final = float(os.environ.get("ARTEMIS_PY_MESH_STORM", "0"))
FAULTS: Final = 15
"""Of one of the long runs."""


@pytest.mark.timeout(240)
def test_a_storm_over_three_brokers(tmp_path: Path) -> None:
    """SIGKILL, SIGSTOP, a partition, silent connections and broken ones, each once."""
    outcome = storm(tmp_path, seed=1, nodes=3, faults=5)

    assert len(outcome.faults) == 5
    assert len(outcome.verdict.acknowledged) > 100, "hardly any load"
    assert outcome.is_clean, outcome


@pytest.mark.skipif(LONG_S == 0, reason="set ARTEMIS_PY_MESH_STORM to a number of seconds")
@pytest.mark.timeout(LONG_S + 600)
@pytest.mark.parametrize("nodes", [3, 5])
def test_storms_for_a_long_time(tmp_path: Path, nodes: int) -> None:
    """A seed after the other, for half of the time each."""
    end = time.monotonic() + LONG_S / 2
    seed = 1000
    while time.monotonic() < end:
        outcome = storm(tmp_path / str(seed), seed, nodes, FAULTS)
        assert outcome.is_clean, f"seed {seed}, {nodes} brokers\n{outcome}"
        seed += 1
