"""The store is killed, fails, or loses what it did not sync, at one system call after the other."""

import random
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from artemis_py.storetools.check import check_folder
from tests.crash.conftest import STATES
from tests.crash.lost_writes import lose_writes, read_calls
from tests.crash.victim import STEPS
from tests.crash.victims import run_module
from tests.interop.broker_process import REPOSITORY
from tests.unit.store.world import World, bodies

# A commit is three calls (pages, sync, meta page): this is the creation of the store and more than half of the steps.
CALLS = range(1, 31)

COUNT = """
import sys
from pathlib import Path
sys.path.append(sys.argv[2])
from tests.crash.test_store_faults import count_whole_steps
print(count_whole_steps(Path(sys.argv[1])))
"""


def run_victim(shim: Path, folder: Path, fault: str, at: int, *planted: str) -> list[str]:
    """What it said before it died or ended."""
    variables = {"LD_PRELOAD": str(shim), "STORE_FAULT": fault, "STORE_FAULT_AT": str(at)}
    return run_module("tests.crash.victim", str(folder), *planted, **variables).stdout.split()


def verify(folder: Path, said: list[str]) -> int:
    """Whole steps and nothing else are there, and all that were confirmed; returns how many."""
    if not (folder / "data.mdb").exists():
        assert said == []
        return 0
    there = count_whole_steps(folder)
    confirmed = [int(word) for word in said if word.isdigit()]
    assert confirmed == list(range(len(confirmed)))
    assert there >= len(confirmed)
    assert check_folder(folder) == []
    return there


def count_whole_steps(folder: Path) -> int:
    """How many steps are in the store, in all its queues."""
    with World(folder) as world:
        assert world.found.damaged == 0
        source, target = bodies(world.queue("source")), bodies(world.queue("target"))
        news = [bodies(world.queue(name)) if name in world.domain.queues else [] for name in ("news.a", "news.b")]
        there = len(news[0])
    everything = [f"m{step}" for step in range(there)]
    assert news == [everything, everything]
    assert [*target, *source] == everything
    assert len(source) == min(there, 1)
    return there


@pytest.mark.parametrize("fault", ["kill", "tear"])
def test_a_store_killed_at_any_call_holds_whole_turns_and_all_that_was_confirmed(
    shim: Path, tmp_path: Path, fault: str
) -> None:
    """R2: before the call, or in the middle of it; never half a turn, never a confirmed one less."""
    calls = CALLS if fault == "kill" else CALLS[::2]
    found = {at: verify(tmp_path / str(at), run_victim(shim, tmp_path / str(at), fault, at)) for at in calls}

    assert min(found.values()) == 0
    assert 3 < max(found.values()) < STEPS


@pytest.mark.parametrize("fault", ["eio", "enospc"])
def test_a_call_that_fails_ends_all_confirmations(shim: Path, tmp_path: Path, fault: str) -> None:
    """R5, R6, P15: a failed write or sync is never followed by a confirmation, and nothing confirmed is lost."""
    ends = set()
    for at in CALLS[::3]:
        folder = tmp_path / str(at)
        said = run_victim(shim, folder, fault, at)
        verify(folder, said)
        assert "end" not in said
        if said:
            first = said.index("failed")
            assert set(said[first:]) == {"failed"}
            ends.add(first)

    assert len(ends) > 3


def test_a_move_in_two_steps_is_caught(shim: Path, tmp_path: Path) -> None:
    """V1: a dead letter copied before it is removed is in both queues or in none after some kill."""

    def is_whole(at: int) -> bool:
        said = run_victim(shim, tmp_path / str(at), "kill", at, "in-two-steps")
        try:
            verify(tmp_path / str(at), said)
        except AssertionError:
            return False
        return True

    assert not all(is_whole(at) for at in reversed(CALLS))


def crash_states(shim: Path, folder: Path, count: int, *faults: str) -> Iterator[tuple[int, Path]]:
    """How many steps were confirmed, and the store, in states that a loss of power may leave of one run.

    A state is a moment of the run: what was synced before it is there, of the rest any subset, with torn writes.
    """
    folder.mkdir()
    variables = {"LD_PRELOAD": str(shim), "STORE_LOG": str(folder / "log")}
    assert run_module("tests.crash.victim", str(folder / "run"), *faults, **variables).code == 0
    calls = read_calls((folder / "log").read_bytes())
    lots = random.Random(1)
    first = next(index for index, call in enumerate(calls) if call.kind == "A")
    for number in range(count):
        stop = lots.randrange(first, len(calls) + 1)
        state = folder / str(number)
        state.mkdir()
        (state / "data.mdb").write_bytes(lose_writes(calls[:stop], lots))
        yield max((call.offset for call in calls[:stop] if call.kind == "A"), default=0), state
        shutil.rmtree(state)


def test_lost_and_torn_writes_lose_nothing_confirmed(shim: Path, tmp_path: Path) -> None:
    """R3: hundreds of states of one run, each opened and checked."""
    seen = set()
    for confirmed, state in crash_states(shim, tmp_path / "states", STATES):
        assert count_whole_steps(state) >= confirmed
        assert check_folder(state) == []
        seen.add(confirmed)

    assert seen >= set(range(2, STEPS))


def test_a_store_that_does_not_sync_is_caught(shim: Path, tmp_path: Path) -> None:
    """V1: the states' own test. Such a state may kill whoever maps it, so each is opened by a process of its own."""

    def is_wrong(confirmed: int, state: Path) -> bool:
        command = [sys.executable, "-P", "-c", COUNT, str(state), str(REPOSITORY)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
        return done.returncode != 0 or int(done.stdout) < confirmed

    assert any(is_wrong(*state) for state in crash_states(shim, tmp_path / "states", STATES, "without-sync"))
