"""A broker that routes a long epoch is killed at one system call of its store after the other."""

from pathlib import Path

import pytest

from artemis_py.storetools.check import check_folder
from tests.crash.epoch_victim import EVERYTHING, QUEUES, WAYS
from tests.crash.processes import calls_of_store, failing
from tests.crash.victims import run_module
from tests.unit.store.world import World, bodies

# A commit is three calls: three of them create the store, some stage, and five slices are routed.
CALLS = calls_of_store(41)


def run_victim(shim: Path, folder: Path, way: str, fault: str, at: int, *planted: str) -> list[str]:
    """What it said before it died or ended."""
    ended = run_module("tests.crash.epoch_victim", str(folder), way, *planted, **failing(shim, folder, fault, at))
    return ended.stdout.split()


def routed(folder: Path) -> int:
    """How many messages of the epoch were in the queues when it died; all or none are after the next start."""
    if not (folder / "data.mdb").exists():
        return 0
    with World(folder) as world:
        before = len(bodies(world.queue(QUEUES[0]))) if QUEUES[0] in world.domain.queues else 0
        world.services.staging.restore()
        world.settle()
        is_committed = world.services.staging.last_epoch("job", "w") == 0
        there = [name for name in QUEUES if name in world.domain.queues]
        for name in there if is_committed or before else ():
            assert bodies(world.queue(name)) == EVERYTHING
        assert not world.store.load_records("commits")
        assert not is_committed or not world.store.load_records("stages")
        world.audit()
    assert check_folder(folder) == []
    return len(EVERYTHING) if is_committed and not before else before


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("fault", ["kill", "tear"])
def test_an_epoch_is_whole_or_absent_after_the_start_that_follows_any_kill(
    shim: Path, tmp_path: Path, fault: str, way: str
) -> None:
    """R2, P6: whatever call the process dies at, no message is lost, twice, or there without the others."""
    found = set()
    for at in CALLS if fault == "kill" else CALLS[::2]:
        folder = tmp_path / str(at)
        said = run_victim(shim, folder, way, fault, at)
        count = routed(folder)
        assert count == len(EVERYTHING) or "committed" not in said
        found.add(count)

    assert 0 in found
    if way == "inherited":
        # All of it appears in one commit.
        assert found == {0, len(EVERYTHING)}
    else:
        assert len(found) > 4


@pytest.mark.parametrize(
    ("way", "fault"),
    [
        ("routed", "without-decision"),
        ("routed", "decided-last"),
        ("moved", "without-decision"),
        ("moved", "moved-late"),
        ("inherited", "inherited-late"),
        ("inherited", "without-record"),
    ],
)
def test_an_epoch_without_a_decision_is_caught(shim: Path, tmp_path: Path, way: str, fault: str) -> None:
    """V1: the test's own test. Without a word about the rest an epoch is half there after some kill.

    The same if what is moved or inherited is written later than that it was, or not at all.
    """

    def is_whole(at: int) -> bool:
        run_victim(shim, tmp_path / str(at), way, "kill", at, fault)
        try:
            routed(tmp_path / str(at))
        except AssertionError:
            return False
        return True

    assert not all(is_whole(at) for at in reversed(CALLS))
