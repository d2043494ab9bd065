"""Messages that management moves: in one queue or the other, whatever moment a crash chooses."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from artemis_py.core.queues import treating
from artemis_py.core.settings.address_settings import AddressSettings
from artemis_py.management.message_treatments import Move
from tests.unit.store.world import World, bodies

SETTINGS = {"#": AddressSettings(max_read_page_messages=4)}
BODIES = [f"m{number}" for number in range(8)]


@pytest.fixture(autouse=True)
def short_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every move is a long one."""
    monkeypatch.setattr(treating, "SLICE_MESSAGES", 3)


def events(world: World) -> Iterator[None]:
    """Whatever can happen, one thing after the other."""
    while world.domain.dispatcher.slices.has_work or world.hands.planned or world.hands.jobs:
        if world.domain.dispatcher.slices.has_work:
            world.domain.dispatcher.slices.run()
            yield
        if world.hands.planned:
            world.hands.turn()
            yield
        if world.hands.jobs:
            world.hands.work()
            yield


def test_a_moved_message_is_in_one_of_two_queues_after_a_crash(tmp_path: Path) -> None:
    splits = set()
    moment = 0
    while True:
        folder = tmp_path / str(moment)
        with World(folder, SETTINGS) as world:
            source, target = world.queue("a"), world.queue("b")
            world.send("a", *BODIES)
            world.settle()
            selection = treating.whole(source, None)
            steps = treating.treat(source, selection, Move(world.domain, target))
            world.domain.dispatcher.slices.start(steps)
            happened = sum(1 for _ in zip(range(moment), events(world), strict=False))
        with World(folder, SETTINGS) as world:
            world.settle()
            world.audit()
            left, moved = bodies(world.queue("a")), bodies(world.queue("b"))
            assert moved + left == BODIES
            splits.add(len(moved))
        if happened < moment:
            break
        moment += 1

    assert {0, len(BODIES)} < splits
