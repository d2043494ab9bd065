"""A broker whose bindings come and go is killed at one system call of its store after the other (P6)."""

from pathlib import Path

import pytest

from artemis_py.storetools.check import check_folder
from tests.crash.exchange_victim import STEPS, state, steps
from tests.crash.processes import calls_of_store, failing
from tests.crash.victims import run_module
from tests.unit.store.world import World

CALLS = calls_of_store(90)


@pytest.fixture(scope="module")
def states(tmp_path_factory: pytest.TempPathFactory) -> list[object]:
    """What there is before the first step and after each."""
    with World(tmp_path_factory.mktemp("undisturbed")) as world:
        found = [state(world)]
        for _ in steps(world):
            world.settle()
            found.append(state(world))
    return found


def run_victim(shim: Path, folder: Path, fault: str, at: int, *planted: str) -> list[str]:
    """What it said before it died or ended."""
    ended = run_module("tests.crash.exchange_victim", str(folder), *planted, **failing(shim, folder, fault, at))
    return ended.stdout.split()


def kept(folder: Path, said: list[str], states: list[object]) -> int:
    """How many steps are there after the next start: whole ones, and all that were said to be durable."""
    if not (folder / "data.mdb").exists():
        assert said == []
        return 0
    with World(folder) as world:
        assert world.domain.exchanges.restore() == []
        found = states.index(state(world))
        assert found >= len(said)
        world.audit()
    assert check_folder(folder) == []
    return found


@pytest.mark.parametrize("fault", ["kill", "tear"])
def test_each_step_is_there_as_a_whole_or_not_at_all(
    shim: Path, tmp_path: Path, states: list[object], fault: str
) -> None:
    """Bindings with their ends and with the messages of the same commit, whatever call the process dies at."""
    found = set()
    for at in CALLS if fault == "kill" else CALLS[::3]:
        folder = tmp_path / str(at)
        found.add(kept(folder, run_victim(shim, folder, fault, at), states))

    assert {0, STEPS} <= found
    assert len(found) > 8


def test_a_binding_that_goes_later_is_caught(shim: Path, tmp_path: Path, states: list[object]) -> None:
    """V1: the test's own test."""

    def is_whole(at: int) -> bool:
        said = run_victim(shim, tmp_path / str(at), "kill", at, "late-bindings")
        try:
            kept(tmp_path / str(at), said, states)
        except (AssertionError, ValueError):
            return False
        return True

    assert not all(is_whole(at) for at in reversed(CALLS))
