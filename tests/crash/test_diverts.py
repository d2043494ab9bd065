"""A broker whose diverts copy is killed at one system call of its store after the other."""

from pathlib import Path

import pytest

from artemis_py.core.routing.divert import Divert
from artemis_py.storetools.check import check_folder
from tests.crash.divert_victim import DIVERTS, QUEUES
from tests.crash.processes import calls_of_store, failing
from tests.crash.victims import run_module
from tests.unit.store.world import World, bodies

CALLS = calls_of_store(40)


def run_victim(shim: Path, folder: Path, fault: str, at: int, *planted: str) -> list[str]:
    """What it said before it died or ended."""
    ended = run_module("tests.crash.divert_victim", str(folder), *planted, **failing(shim, folder, fault, at))
    return ended.stdout.split()


def kept(folder: Path, said: list[str]) -> int:
    """How many messages there are after the next start; each has all of its copies, and the diverts are there."""
    if not (folder / "data.mdb").exists():
        assert said == []
        return 0
    with World(folder) as world:
        assert world.services.diverts.restore() == []
        diverts = [each.config for each in world.domain.others.values() if isinstance(each, Divert)]
        assert diverts == list(DIVERTS) or (diverts == [] and not said)
        found = [bodies(world.queue(name)) if name in world.domain.queues else [] for name in QUEUES]
        assert found[0] == found[1] == found[2]
        assert set(said) - {"made"} <= set(found[0])
        assert "c" not in world.domain.queues or bodies(world.queue("c")) == []
        world.audit()
    assert check_folder(folder) == []
    return len(found[0])


@pytest.mark.parametrize("fault", ["kill", "tear"])
def test_all_copies_of_a_message_are_there_or_none(shim: Path, tmp_path: Path, fault: str) -> None:
    """P6, P9: whatever call the process dies at. What the sender heard of is there, and so are the diverts."""
    found = set()
    for at in CALLS if fault == "kill" else CALLS[::3]:
        folder = tmp_path / str(at)
        found.add(kept(folder, run_victim(shim, folder, fault, at)))

    assert 0 in found
    assert len(found) > 3


def test_a_copy_that_comes_later_is_caught(shim: Path, tmp_path: Path) -> None:
    """V1: the test's own test."""

    def is_whole(at: int) -> bool:
        said = run_victim(shim, tmp_path / str(at), "kill", at, "late-copies")
        try:
            kept(tmp_path / str(at), said)
        except AssertionError:
            return False
        return True

    assert not all(is_whole(at) for at in reversed(CALLS))
