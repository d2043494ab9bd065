"""A store with a log is killed, fails, or loses what it did not sync, at one system call after the other.

The calls are those on LMDB's file, on the files of the log and on their folders: commits, folds, the start.
"""

import random
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.crash.conftest import STATES
from tests.crash.lost_writes import lose_files, read_calls
from tests.crash.test_store_faults import verify
from tests.crash.victim import STEPS
from tests.crash.victims import run_module

CALLS = range(1, 121, 7)
"""The creation of the store and of its log, and all steps."""


def run_victim(folder: Path, environment: dict[str, str], *planted: str) -> list[str]:
    """What it said before it died or ended."""
    variables = environment | {"STORE_FILES": str(folder)}
    return run_module("tests.crash.folding_victim", str(folder), *planted, **variables).stdout.split()


def faults(shim: Path, fault: str, at: int) -> dict[str, str]:
    """The variables that plan one fault."""
    return {"LD_PRELOAD": str(shim), "STORE_FAULT": fault, "STORE_FAULT_AT": str(at)}


@pytest.mark.parametrize("fault", ["kill", "tear"])
def test_a_store_with_a_log_killed_at_any_call_holds_whole_turns_and_all_that_was_confirmed(
    shim: Path, tmp_path: Path, fault: str
) -> None:
    """While a batch is appended, while it is folded, while a file of the log is used again."""
    calls = CALLS if fault == "kill" else CALLS[::2]
    found = {at: verify(tmp_path / str(at), run_victim(tmp_path / str(at), faults(shim, fault, at))) for at in calls}

    assert min(found.values()) == 0
    assert max(found.values()) > STEPS // 2


@pytest.mark.parametrize("fault", ["eio", "enospc"])
def test_a_call_that_fails_ends_all_confirmations(shim: Path, tmp_path: Path, fault: str) -> None:
    """A failed append and a failed fold are never followed by a confirmation, and nothing confirmed is lost."""
    ends = set()
    for at in CALLS[::2]:
        folder = tmp_path / str(at)
        said = run_victim(folder, faults(shim, fault, at))
        verify(folder, [word for word in said if word != "failed" and word != "end"])
        if "failed" in said:
            first = said.index("failed")
            assert set(said[first:]) == {"failed"}
            ends.add(first)

    assert len(ends) >= 3


def test_a_start_killed_at_any_call_writes_every_batch_once(shim: Path, tmp_path: Path) -> None:
    """On what a kill between two folds has left: counts and messages are as if it had not been killed."""
    said = run_victim(tmp_path / "first", faults(shim, "kill", 85))
    assert any(word.isdigit() for word in said)
    for at in range(1, 20, 2):
        folder = tmp_path / str(at)
        shutil.copytree(tmp_path / "first", folder)
        run_victim(folder, faults(shim, "kill", at))
        verify(folder, said)


def crash_states(shim: Path, folder: Path, count: int, *planted: str) -> Iterator[tuple[int, Path]]:
    """How many steps were confirmed, and the store, in states that a loss of power may leave of one run."""
    folder.mkdir()
    run = folder / "run"
    run_victim(run, {"LD_PRELOAD": str(shim), "STORE_LOG": str(folder / "calls")}, *planted)
    calls = read_calls((folder / "calls").read_bytes())
    lots = random.Random(1)
    first = next(index for index, call in enumerate(calls) if call.kind == "A")
    state = folder / "state"
    for _ in range(count):
        stop = lots.randrange(first, len(calls) + 1)
        confirmed = max((call.offset for call in calls[:stop] if call.kind == "A"), default=0)
        (state / "log").mkdir(parents=True)
        for path, content in lose_files([call for call in calls[:stop] if call.kind != "A"], lots).items():
            inside = Path(path).relative_to(run)
            if inside.suffix == ".mdb" and inside.name != "data.mdb":
                continue
            (state / inside).parent.mkdir(exist_ok=True)
            (state / inside).write_bytes(content)
        yield confirmed, state
        shutil.rmtree(state)


def is_right(confirmed: int, state: Path) -> bool:
    """Whether whole steps and nothing else are there, with all that were confirmed."""
    try:
        verify(state, [str(step) for step in range(confirmed)])
    except AssertionError:
        return False
    return True


def test_lost_and_torn_writes_lose_nothing_confirmed(shim: Path, tmp_path: Path) -> None:
    """States of LMDB's file and of the log together."""
    seen = set()
    for confirmed, state in crash_states(shim, tmp_path / "states", STATES):
        verify(state, [str(step) for step in range(confirmed)])
        seen.add(confirmed)

    assert seen >= set(range(2, STEPS))


@pytest.mark.parametrize(
    "planted", ["answer-before-sync", "cut-early", "fold-before-append", "fold-without-number", "fold-without-sync"]
)
def test_planted_faults_are_caught(shim: Path, tmp_path: Path, planted: str) -> None:
    """V1: each of them loses a confirmed step or writes one twice in some state."""
    found = crash_states(shim, tmp_path / "states", STATES, planted)

    assert not all(is_right(*one) for one in found)
