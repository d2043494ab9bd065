"""The Node.js client rhea: one test per scenario of `scenarios.js`."""

import re
import subprocess
from pathlib import Path
from typing import Final

import pytest

from tests.interop.broker_process import BrokerProcess

HERE: Final = Path(__file__).parent
SCENARIO: Final = re.compile(r"^  async (\w+)\(port, address\)", re.MULTILINE)
NAMES: Final = SCENARIO.findall((HERE / "scenarios.js").read_text(encoding="utf-8"))
RUN_TIMEOUT_S: Final = 90


def test_every_scenario_has_a_test(project: Path) -> None:
    """The names read from the source are the ones that run."""
    listed = subprocess.run(
        ["node", "scenarios.js", "--list"],
        cwd=project,
        check=True,
        capture_output=True,
        text=True,
        timeout=RUN_TIMEOUT_S,
    )

    assert listed.stdout.split() == NAMES


@pytest.mark.parametrize("scenario", NAMES)
def test_rhea(broker: BrokerProcess, project: Path, name: str, scenario: str) -> None:
    """One scenario in a process of its own."""
    result = subprocess.run(
        ["node", "scenarios.js", scenario, str(broker.port), name],
        cwd=project,
        capture_output=True,
        text=True,
        timeout=RUN_TIMEOUT_S,
    )

    assert result.returncode == 0, result.stderr
