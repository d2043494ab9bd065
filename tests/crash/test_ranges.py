"""A broker whose queue has inherited ranges is killed at one system call of its store after the other."""

from functools import cache
from pathlib import Path

import pytest

from artemis_py.storetools.check import check_folder
from tests.crash.processes import calls_of_store, failing
from tests.crash.victims import run_module
from tests.unit.store.range_steps import SETTINGS, State, Steps, state_of
from tests.unit.store.world import World

# A commit is three calls: three of them create the store, and each step is one commit or a few.
CALLS = calls_of_store(136, 2)


@cache
def bodies_after_steps(folder: Path) -> list[dict[str, list[tuple[object, int]]]]:
    """What the queues have before the first step and after each, if the messages are sent one by one."""
    found = [without_sequences({})]
    with World(folder / "expected", SETTINGS) as world:
        for step in Steps(inherits=False).all:
            step(world)
            world.settle()
            found.append(without_sequences(state_of(world)))
    return found


def without_sequences(state: State) -> dict[str, list[tuple[object, int]]]:
    """Without the numbers that a crash skips."""
    return {name: [(body, count) for body, count, _ in messages] for name, messages in state.items()}


def verify(folder: Path, expected: list[dict[str, list[tuple[object, int]]]], said: list[str]) -> int:
    """The number of the last step that is there as a whole, which is the last one that was confirmed or a later one."""
    if not (folder / "data.mdb").exists():
        assert not said
        return -1
    confirmed = int(said[-1]) if said else -1
    with World(folder, SETTINGS) as world:
        world.services.staging.epochs.inherited_messages = 1
        world.services.staging.restore()
        world.settle()
        found = without_sequences(state_of(world))
        world.audit()
        world.stop()
    assert check_folder(folder) == []
    assert found in expected[confirmed + 1 :], (confirmed, found)
    return max(number for number, state in enumerate(expected) if state == found) - 1


@pytest.mark.parametrize("fault", ["kill", "tear"])
def test_a_queue_with_ranges_is_what_a_step_left_whatever_call_the_broker_dies_at(
    shim: Path, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, fault: str
) -> None:
    """R2: taken, failed, moved, copied, expired, purged, deleted: each is done as a whole, and once if it was said."""
    expected = bodies_after_steps(tmp_path_factory.getbasetemp())
    found = set()
    for at in CALLS if fault == "kill" else CALLS[::2]:
        folder = tmp_path / str(at)
        ended = run_module("tests.crash.range_victim", str(folder), **failing(shim, folder, fault, at))
        found.add(verify(folder, expected, ended.stdout.split()))

    assert min(found) == -1
    assert max(found) == len(expected) - 2
    assert len(found) > len(expected) // 2


def test_a_range_that_is_forgotten_early_is_caught(
    shim: Path, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """V1: the test's own test. Half consumed, a range has its record still."""
    expected = bodies_after_steps(tmp_path_factory.getbasetemp())

    def is_whole(at: int) -> bool:
        folder = tmp_path / str(at)
        variables = failing(shim, folder, "kill", at)
        ended = run_module("tests.crash.range_victim", str(folder), "forget-early", **variables)
        try:
            verify(folder, expected, ended.stdout.split())
        except AssertionError:
            return False
        return True

    assert not all(is_whole(at) for at in CALLS)
