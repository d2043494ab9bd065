"""The write-ahead log is killed, fails, or loses what it did not sync, at one system call after the other."""

import random
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
from attrs import frozen

from artemis_py.store.log.log import WriteAheadLog
from artemis_py.store.log.reading import find_segments
from artemis_py.store.log.segment import DAMAGED_SUFFIX
from tests.crash.conftest import STATES
from tests.crash.log_victim import OPTIONS, STORE, folded, payload
from tests.crash.lost_writes import lose_files, read_calls
from tests.crash.victims import run_module

STEPS: Final = 16
MORE_STEPS: Final = 19
"""A second run begins where the first ended."""
CALLS: Final = range(1, 80)
"""All of the first run: it makes files, lets them grow, uses some of them again, and deletes one."""
FIRST_CALLS: Final = range(1, 22)
"""Of the second run: its start, and its first batches."""


@frozen
class Said:
    """What a victim said before it died or ended."""

    appended: int
    cut: int
    errors: list[str]


def run_victim(folder: Path, last: int, environment: dict[str, str], *planted: str) -> Said:
    """Start it on a folder."""
    folder.mkdir(exist_ok=True)
    variables = environment | {"STORE_FILES": str(folder / "log")}
    done = run_module("tests.crash.log_victim", str(folder), str(last), *planted, **variables)
    assert "Traceback" not in done.stderr or "Errno" in done.stderr, done.stderr
    appended = cut = 0
    errors: list[str] = []
    for line in done.stdout.splitlines():
        if line.startswith("append"):
            assert errors == []
            appended = int(line.split()[1])
        elif line.startswith("cut"):
            cut = int(line.split()[1])
        else:
            errors.append(line)
    return Said(appended, cut, errors)


def verify(folder: Path, after: int, appended: int, may_set_aside: bool = False) -> int:
    """All that was appended is there, in order and nothing else; returns the number of the last batch."""
    log = WriteAheadLog.open(folder / "log", STORE, OPTIONS)
    last = after
    for number, data in log.read(after):
        assert (number, data) == (last + 1, b"".join(payload(number)))
        last = number
    assert last >= appended
    assert may_set_aside or log.set_aside == []
    log.append(last + 1, [b"one more"])
    log.close()
    again = WriteAheadLog.open(folder / "log", STORE, OPTIONS)
    assert [number for number, _ in again.read(after)] == list(range(after + 1, last + 2))
    again.close()
    return last


def faults(shim: Path, fault: str, at: int) -> dict[str, str]:
    """The variables that plan one fault."""
    return {"LD_PRELOAD": str(shim), "STORE_FAULT": fault, "STORE_FAULT_AT": str(at)}


@pytest.mark.parametrize("fault", ["kill", "tear"])
def test_a_log_killed_at_any_call_holds_all_that_was_appended(shim: Path, tmp_path: Path, fault: str) -> None:
    """Before the call or in the middle of it: writing, syncing, making a file, using one again, cutting."""
    found = set()
    for at in CALLS if fault == "kill" else CALLS[::2]:
        folder = tmp_path / str(at)
        said = run_victim(folder, STEPS, faults(shim, fault, at))
        found.add(verify(folder, folded(folder), said.appended))
        assert said.errors == []

    assert found >= set(range(STEPS)) if fault == "kill" else len(found) > STEPS // 2


def test_a_start_killed_at_any_call_loses_nothing(shim: Path, tmp_path: Path) -> None:
    """On what a whole run has left, without its last bytes."""
    said = run_victim(tmp_path / "first", STEPS, {})
    for at in FIRST_CALLS:
        folder = tmp_path / str(at)
        shutil.copytree(tmp_path / "first", folder)
        later = run_victim(folder, MORE_STEPS, faults(shim, "kill", at))
        assert later.errors == []
        assert verify(folder, folded(folder), max(said.appended, later.appended)) <= MORE_STEPS


def test_a_start_on_damage_killed_at_any_call_keeps_what_is_damaged(shim: Path, tmp_path: Path) -> None:
    """Batch 13 of 16 is damaged: it and the newer ones are set aside, and the log continues with another 13."""
    run_victim(tmp_path / "first", STEPS, {})
    (path,) = (each.path for each in find_segments(tmp_path / "first" / "log", STORE)[0] if each.first == 13)
    damaged = bytearray(path.read_bytes())
    damaged[50_000] ^= 1
    path.write_bytes(damaged)
    ends = set()
    for at in FIRST_CALLS:
        folder = tmp_path / str(at)
        shutil.copytree(tmp_path / "first", folder)
        said = run_victim(folder, MORE_STEPS, faults(shim, "kill", at))
        assert verify(folder, folded(folder), said.appended, may_set_aside=True) <= MORE_STEPS
        kept = [path.read_bytes() for path in (folder / "log").glob(f"*{DAMAGED_SUFFIX}*")]
        assert damaged in kept
        assert any(b"".join(payload(STEPS)) in content for content in kept)
        ends.add(said.appended)

    assert min(ends) == 0 < max(ends)


@pytest.mark.parametrize("fault", ["eio", "eio-once", "enospc"])
def test_a_call_that_fails_is_the_last_of_the_log(shim: Path, tmp_path: Path, fault: str) -> None:
    """A failed write or sync is never followed by a confirmation, and nothing appended is lost."""
    ends = set()
    for at in CALLS[1::3]:
        folder = tmp_path / str(at)
        said = run_victim(folder, STEPS, faults(shim, fault, at))
        assert verify(folder, folded(folder), said.appended) <= said.appended + 1
        ends.add(said.appended)

    assert len(ends) > 8


def test_a_log_that_forgets_a_failure_is_caught(shim: Path, tmp_path: Path) -> None:
    """A planted fault; the disk fails once and recovers."""
    with pytest.raises(AssertionError):
        run_victim(tmp_path, STEPS, faults(shim, "eio-once", 20), "forgetful")


def crash_states(shim: Path, folder: Path, count: int, *planted: str) -> Iterator[tuple[int, int, Path]]:
    """What LMDB has, what was appended, and the log, in states that a loss of power may leave of one run."""
    folder.mkdir()
    environment = {"LD_PRELOAD": str(shim), "STORE_LOG": str(folder / "calls")}
    run_victim(folder / "run", STEPS, environment, *planted)
    calls = read_calls((folder / "calls").read_bytes())
    lots = random.Random(1)
    state = folder / "state"
    for _ in range(count):
        stop = lots.randrange(1, len(calls) + 1)
        said = {kind: max((call.offset for call in calls[:stop] if call.kind == kind), default=0) for kind in "AC"}
        (state / "log").mkdir(parents=True)
        for path, content in lose_files([call for call in calls[:stop] if call.kind not in "AC"], lots).items():
            (state / "log" / Path(path).name).write_bytes(content)
        yield said["C"], said["A"], state
        shutil.rmtree(state)


def test_lost_and_torn_writes_lose_nothing_appended(shim: Path, tmp_path: Path) -> None:
    """Hundreds of states of one run, each opened, checked and continued."""
    seen = set()
    for after, appended, state in crash_states(shim, tmp_path / "states", STATES):
        verify(state, after, appended)
        assert list((state / "log").glob(f"*{DAMAGED_SUFFIX}*")) == []
        seen.add(appended)

    assert seen == set(range(STEPS + 1))


@pytest.mark.parametrize("planted", ["late-sync", "early-cut", "no-folder-sync"])
def test_planted_faults_are_caught(shim: Path, tmp_path: Path, planted: str) -> None:
    """An answer before the sync, a file that is given up too early, a file whose name is not on the disk."""

    def is_wrong(after: int, appended: int, state: Path) -> bool:
        try:
            verify(state, after, appended)
        except AssertionError:
            return True
        return False

    assert any(is_wrong(*found) for found in crash_states(shim, tmp_path / "states", STATES, planted))
