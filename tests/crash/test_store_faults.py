"""The store is killed, fails, or loses what it did not sync, at one system call after the other."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from artemis_py.store import inspection
from tests.crash.victim import STEPS
from tests.interop.broker_process import REPOSITORY
from tests.unit.store.world import World, bodies

# A commit is three calls (pages, sync, meta page): this is the creation of the store and more than half of the steps.
CALLS = range(1, 31)


@pytest.fixture(scope="module")
def shim(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The compiled library."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None or not sys.platform.startswith("linux"):
        pytest.skip("faults are injected by a C library on Linux: there is no compiler here")
    library = tmp_path_factory.mktemp("shim") / "store_faults.so"
    source = Path(__file__).with_name("store_faults.c")
    subprocess.run([compiler, "-shared", "-fPIC", "-O1", "-o", str(library), str(source), "-ldl"], check=True)
    return library


def run_victim(shim: Path, folder: Path, fault: str, at: int) -> list[str]:
    """What it said before it died or ended."""
    environment = os.environ | {"LD_PRELOAD": str(shim), "STORE_FAULT": fault, "STORE_FAULT_AT": str(at)}
    command = [sys.executable, "-m", "tests.crash.victim", str(folder)]
    done = subprocess.run(command, env=environment, cwd=REPOSITORY, capture_output=True, text=True, timeout=60)
    return done.stdout.split()


def verify(folder: Path, said: list[str]) -> int:
    """Whole steps and nothing else are there, and all that were confirmed; returns how many."""
    if not (folder / "data.mdb").exists():
        assert said == []
        return 0
    with World(folder) as world:
        assert world.found.damaged == 0
        source, target = bodies(world.queue("source")), bodies(world.queue("target"))
        news = [bodies(world.queue(name)) if name in world.office.queues else [] for name in ("news.a", "news.b")]
        there = len(news[0])
    everything = [f"m{step}" for step in range(there)]
    assert news == [everything, everything]
    assert [*target, *source] == everything
    assert len(source) == min(there, 1)
    confirmed = [int(word) for word in said if word.isdigit()]
    assert confirmed == list(range(len(confirmed)))
    assert there >= len(confirmed)
    assert inspection.check(folder).problems == []
    return there


@pytest.mark.parametrize("fault", ["kill", "tear"])
def test_a_store_killed_at_any_call_holds_whole_turns_and_all_that_was_confirmed(
    shim: Path, tmp_path: Path, fault: str
) -> None:
    """R2: before the call, or in the middle of it; never half a turn, never a confirmed one less."""
    found = {at: verify(tmp_path / str(at), run_victim(shim, tmp_path / str(at), fault, at)) for at in CALLS}

    assert min(found.values()) == 0
    assert 3 < max(found.values()) < STEPS


@pytest.mark.parametrize("fault", ["eio", "enospc"])
def test_a_call_that_fails_ends_all_confirmations(shim: Path, tmp_path: Path, fault: str) -> None:
    """R5, R6, P15: a failed write or sync is never followed by a confirmation, and nothing confirmed is lost."""
    ends = set()
    for at in CALLS:
        folder = tmp_path / str(at)
        said = run_victim(shim, folder, fault, at)
        verify(folder, said)
        assert "end" not in said
        if said:
            first = said.index("failed")
            assert set(said[first:]) == {"failed"}
            ends.add(first)

    assert len(ends) > 3
