"""A broker with prepared transaction branches is killed at one system call of its store after the other."""

from pathlib import Path

import pytest

from artemis_py.core.runtime.access import Subject
from artemis_py.core.sessions.session import Session
from artemis_py.storetools.check import check_folder
from tests.crash.branch_victim import BRANCHES, sent, xid_of
from tests.crash.processes import calls_of_store, failing
from tests.crash.victims import run_module
from tests.unit.store.branch_world import SETTINGS
from tests.unit.store.world import World, bodies

# A commit is three calls: four of them create the store and fill it, ten prepare and end branches.
CALLS = calls_of_store(61)


def run_victim(shim: Path, folder: Path, fault: str, at: int, *planted: str) -> set[str]:
    """What it said before it died or ended."""
    ended = run_module("tests.crash.branch_victim", str(folder), *planted, **failing(shim, folder, fault, at))
    return set(ended.stdout.splitlines())


def judge(folder: Path, said: set[str]) -> int:
    """Check what is there after the next start, then commit what is prepared; how many branches that were."""
    if not (folder / "data.mdb").exists():
        assert not said
        return 0
    with World(folder, SETTINGS) as world:
        branches = world.services.branches
        found = branches.restore()
        assert (found.lost, found.missing, found.orphans) == (0, 0, 0)
        if "p" not in world.domain.queues or "q" not in world.domain.queues:
            assert not said
            return 0
        session = Session(world.domain, Subject("tester"), "client")
        prepared = [number for number in range(BRANCHES) if xid_of(number) in branches.recover(session)]
        in_q, in_p = bodies(world.queue("q")), bodies(world.queue("p"))
        committed = []
        for number in range(BRANCHES):
            there = [body in in_q for body in sent(number)]
            assert there[0] is there[1]
            ended = {f"committed {number}", f"rolled-back {number}"} & said
            assert not (ended and number in prepared)
            assert number in prepared or ended or f"prepared {number}" not in said or there[0] or f"p{number}" in in_p
            assert there[0] or f"committed {number}" not in said
            if there[0]:
                committed.append(number)
            assert not (there[0] and number in prepared)
            assert said == set() or (f"p{number}" in in_p) is (number not in prepared and number not in committed)
        for number in prepared:
            branches.commit(session, xid_of(number))
        world.settle()
        everything = [body for number in sorted({*committed, *prepared}) for body in sent(number)]
        assert sorted(map(str, bodies(world.queue("q")))) == sorted(everything)
        world.audit()
    assert check_folder(folder) == []
    return len(prepared)


@pytest.mark.parametrize("fault", ["kill", "tear"])
def test_a_prepared_branch_is_there_after_any_kill_and_is_committed_once(
    shim: Path, tmp_path: Path, fault: str
) -> None:
    """Whatever call the process dies at: what was said is so, and nothing is there in part."""
    found = set()
    for at in CALLS if fault == "kill" else CALLS[::3]:
        folder = tmp_path / str(at)
        found.add(judge(folder, run_victim(shim, folder, fault, at)))

    assert found >= {0, 1, 2}


@pytest.mark.parametrize("fault", ["prepared-in-memory", "messages-removed-later"])
def test_a_fault_in_a_branch_is_caught(shim: Path, tmp_path: Path, fault: str) -> None:
    """V1: the test's own test."""

    def is_sound(at: int) -> bool:
        try:
            judge(tmp_path / str(at), run_victim(shim, tmp_path / str(at), "kill", at, fault))
        except AssertionError:
            return False
        return True

    assert not all(is_sound(at) for at in reversed(CALLS))
