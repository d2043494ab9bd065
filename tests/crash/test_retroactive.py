"""A broker that copies a long history is killed at one system call of its store after the other."""

from pathlib import Path

import pytest

from artemis_py.storetools.check import check_folder
from tests.crash.processes import calls_of_store, failing
from tests.crash.retroactive_victim import HISTORY, LATER, RING, open_world
from tests.crash.victims import run_module
from tests.unit.store.world import bodies

# A commit is three calls: three of them create the store, and some ten copy. Every second call is each part of a
# commit in turn.
CALLS = calls_of_store(61, 2)


def run_victim(shim: Path, folder: Path, fault: str, at: int, *planted: str) -> list[str]:
    """What it said before it died or ended."""
    ended = run_module("tests.crash.retroactive_victim", str(folder), *planted, **failing(shim, folder, fault, at))
    return ended.stdout.split()


def copied(folder: Path) -> int | None:
    """How many messages the queue had when the broker died; None: there is no queue.

    After the next start it has what the ring has, each message once and in order.
    """
    if not (folder / "data.mdb").exists():
        return None
    with open_world(folder) as world:
        queue = world.domain.queues.get("late")
        before = None if queue is None else len(bodies(queue))
        world.settle()
        if queue is not None:
            sent = bodies(world.domain.queues[RING])
            assert len(sent) >= HISTORY
            assert sent == [f"m{number}" for number in range(len(sent))]
            assert bodies(queue) == sent
        assert world.services.retroactive.catching_up == 0
        assert not world.store.load_records("retroactive")
        assert len(world.domain.queues) in (0, 1, 2, 3)
        world.audit()
    assert check_folder(folder) == []
    return before


@pytest.mark.parametrize("fault", ["kill", "tear"])
def test_a_history_is_exact_after_the_start_that_follows_any_kill(shim: Path, tmp_path: Path, fault: str) -> None:
    """R2, P6: whatever call the process dies at, no message of the history is missing, twice, or out of order."""
    found = set()
    for at in CALLS if fault == "kill" else CALLS[::2]:
        folder = tmp_path / str(at)
        said = run_victim(shim, folder, fault, at)
        count = copied(folder)
        assert count == HISTORY + LATER or "copied" not in said
        found.add(count)

    assert None in found
    assert len(found) > 4


@pytest.mark.parametrize("fault", ["without-record", "record-first"])
def test_a_wrong_record_is_caught(shim: Path, tmp_path: Path, fault: str) -> None:
    """V1: the test's own test."""

    def is_exact(at: int) -> bool:
        run_victim(shim, tmp_path / str(at), "kill", at, fault)
        try:
            copied(tmp_path / str(at))
        except AssertionError:
            return False
        return True

    assert not all(is_exact(at) for at in CALLS)
