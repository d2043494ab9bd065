"""A broker whose virtual hosts come and go is killed at one system call of its store after the other (P6, P10)."""

from pathlib import Path

import pytest

from artemis_py.store import schema
from artemis_py.storetools.check import check_folder
from tests.crash.host_victim import STEPS, state, steps
from tests.crash.processes import calls_of_store, failing
from tests.crash.victims import run_module
from tests.unit.store.test_virtual_hosts import records_of_hosts
from tests.unit.store.world import World

CALLS = calls_of_store(136)


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
    ended = run_module("tests.crash.host_victim", str(folder), *planted, **failing(shim, folder, fault, at))
    return ended.stdout.split()


def kept(folder: Path, said: list[str], states: list[object]) -> tuple[int, int]:
    """How many steps are there after the next start, and how many hosts it had to go on deleting.

    The steps are whole ones, and all that were said to be durable. Afterwards nothing of a deleted host is left.
    """
    if not (folder / "data.mdb").exists():
        assert said == []
        return 0, 0
    if said:
        assert check_folder(folder) == []
    with World(folder) as world:
        found = states.index(state(world))
        assert found >= len(said)
        leaving = len(world.hosts.leaving())
        world.hosts.begin()
        world.settle()
        assert world.hosts.leaving() == []
        assert states.index(state(world)) == found
        there = {f"@{host.id}:".encode() for host in world.hosts.all()}
        assert [key for key in records_of_hosts(world) if key.partition(b":")[0] + b":" not in there] == []
        assert world.count(schema.QUEUES) == sum(len(each.sessions.domain.queues) for each in world.hosts.restored())
        world.audit()
    assert check_folder(folder) == []
    return found, leaving


@pytest.mark.parametrize("fault", ["kill", "tear"])
def test_each_step_is_there_as_a_whole_or_not_at_all(
    shim: Path, tmp_path: Path, states: list[object], fault: str
) -> None:
    """Hosts with their queues and messages; and a deletion that was begun is finished by the next start."""
    found, leaving = set(), 0
    for at in CALLS[::5] if fault == "kill" else CALLS[3::12]:
        folder = tmp_path / str(at)
        step, begun = kept(folder, run_victim(shim, folder, fault, at), states)
        found.add(step)
        leaving += begun

    assert {0, STEPS} <= found
    assert len(found) > 5
    assert leaving > 0


def test_a_record_that_goes_too_early_is_caught(shim: Path, tmp_path: Path, states: list[object]) -> None:
    """V1: the test's own test."""

    def is_whole(at: int) -> bool:
        said = run_victim(shim, tmp_path / str(at), "kill", at, "early-record")
        try:
            kept(tmp_path / str(at), said, states)
        except (AssertionError, ValueError):
            return False
        return True

    assert not all(is_whole(at) for at in calls_of_store(32)[13::3])
