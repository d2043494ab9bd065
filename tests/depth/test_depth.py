"""Deep queues and greedy clients, at a hundredth and a tenth of the size of `benchmarks/depth.py` and `memory.py`."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import pytest

BENCHMARKS: Final = Path(__file__).resolve().parents[2] / "benchmarks"

pytestmark = pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="memory is read from /proc")


def run(script: str, *arguments: str) -> dict[str, Any]:
    """What a script reports."""
    command = [sys.executable, str(BENCHMARKS / script), *arguments]
    finished = subprocess.run(command, check=True, capture_output=True, text=True, timeout=110)
    found: dict[str, Any] = json.loads(finished.stdout)
    return found


@pytest.mark.parametrize("log", [True, False])
def test_a_deep_queue_takes_no_more_memory_and_comes_back_in_order(log: bool) -> None:
    """The script fails if a message is missing, comes twice or out of order, also across its restart."""
    figures = run("depth.py", "--messages", "100000", *([] if log else ["--no-log"]))

    assert figures["log"] == log
    assert figures["messages"] == 100_000
    # Python and the modules take 30 MiB; in memory these messages would be 100 MiB.
    assert figures["rss_highest_mib"] < 90


@pytest.mark.parametrize(("scenario", "count"), [("unsettled", 100_000), ("unread", 100_000), ("scheduled", 100_000)])
def test_memory_is_bounded(scenario: str, count: int) -> None:
    """P14; the limit for messages is 64 MiB, and what is not counted stays small."""
    figures = run("memory.py", "--messages", str(count), "--scenario", scenario)

    assert figures["log"]
    assert figures["messages"] == count
    assert figures["rss_highest_mib"] - figures["rss_before_mib"] < 64 * 1.5


def test_idle_queues_take_little_memory() -> None:
    """A thousand of them, with ten messages each."""
    figures = run("memory.py", "--messages", "100000", "--scenario", "idle")

    assert figures["messages"] == 10_000
    assert figures["rss_highest_mib"] - figures["rss_before_mib"] < 40
