"""What may have been delivered before a crash does not claim to be new, if it had waited for its time.

A message gets its place in the queue when it is due, and may be delivered before that place is committed. After a crash
it waits for its time again, and looks as if nobody had seen it.
"""

from pathlib import Path

import pytest

from artemis_py.core.queues.consumer import ACCEPTED, RELEASED
from artemis_py.core.queues.queue import Queue
from artemis_py.core.queues.reference import Reference
from artemis_py.core.settings.address_settings import AddressSettings
from tests.core_harness import START_MS, attach, browse_all, pass_time, settle_down
from tests.unit.store.world import World, plain_bodies

ON_DISK = {"q": AddressSettings(max_read_page_messages=0)}
"""Hardly anything of the queue stays in memory."""


def is_new(references: list[Reference]) -> dict[object, bool]:
    """By body, whether a delivery claims first-acquirer."""
    claims = [not reference.was_acquired for reference in references]
    return dict(zip(plain_bodies(references), claims, strict=True))


def deliver_and_crash(tmp_path: Path, *, commits: bool) -> None:
    """A scheduled message is stored, falls due and is delivered; then the broker is killed."""
    with World(tmp_path) as world:
        recorder, _ = attach(world.domain, world.queue())
        world.send("q", "m", delivery_time_ms=START_MS + 10)
        world.settle()
        pass_time(world.domain, 10)
        if commits:
            world.settle()
        assert is_new(recorder.take()) == {"m": True}


def wake(world: World, *, after_ms: int = 100) -> Queue:
    """Let the scheduled messages of an earlier run be due."""
    pass_time(world.domain, after_ms)
    return world.queue()


@pytest.mark.parametrize("commits", [False, True])
@pytest.mark.parametrize("settings", [{}, ON_DISK])
@pytest.mark.parametrize("attaches_first", [False, True])
def test_a_delivery_just_before_a_kill_is_not_new_after_it(
    tmp_path: Path, settings: dict[str, AddressSettings], attaches_first: bool, commits: bool
) -> None:
    """Whether its new place was committed, and whether it waits in memory or on disk until somebody comes."""
    deliver_and_crash(tmp_path, commits=commits)

    with World(tmp_path, settings) as world:
        recorder = attach(world.domain, world.queue())[0] if attaches_first else None
        queue = wake(world)
        world.settle()
        if recorder is None:
            recorder, _ = attach(world.domain, queue)

        assert is_new(recorder.take()) == {"m": False}


def test_the_third_life_is_not_new_either(tmp_path: Path) -> None:
    """The broker is killed again before the place is committed."""
    deliver_and_crash(tmp_path, commits=False)
    for _ in range(2):
        with World(tmp_path) as world:
            recorder, _ = attach(world.domain, world.queue())
            wake(world)

            assert is_new(recorder.take()) == {"m": False}


def test_a_browser_is_told_the_same(tmp_path: Path) -> None:
    """Of what is on disk only."""
    deliver_and_crash(tmp_path, commits=False)

    with World(tmp_path, ON_DISK) as world:
        queue = wake(world)
        world.settle()

        assert is_new(browse_all(queue)) == {"m": False}


def test_a_selector_is_told_the_same(tmp_path: Path) -> None:
    """It looks ahead on the disk."""
    deliver_and_crash(tmp_path, commits=False)

    with World(tmp_path, ON_DISK) as world:
        queue = wake(world)
        world.settle()
        recorder, _ = attach(world.domain, queue, browse=True)

        assert is_new(recorder.take()) == {"m": False}


@pytest.mark.parametrize("settings", [{}, ON_DISK])
def test_what_comes_after_the_restart_is_new(tmp_path: Path, settings: dict[str, AddressSettings]) -> None:
    """Scheduled or not, in the same queue: nobody had it."""
    deliver_and_crash(tmp_path, commits=False)

    with World(tmp_path, settings) as world:
        queue = wake(world, after_ms=20)
        world.send("q", "at once")
        world.send("q", "later", delivery_time_ms=START_MS + 30)
        world.settle()
        pass_time(world.domain, 30)
        world.settle()
        recorder, consumer = attach(world.domain, queue)
        came = recorder.take()
        for reference in came:
            consumer.settle(reference, ACCEPTED)
        world.settle()

        assert is_new(came) == {"m": False, "at once": True, "later": True}


def test_what_was_released_is_not_new_in_the_same_life(tmp_path: Path) -> None:
    """Nothing of a restart is needed for that."""
    with World(tmp_path) as world:
        recorder, consumer = attach(world.domain, world.queue())
        world.send("q", "m", delivery_time_ms=START_MS + 10)
        world.settle()
        pass_time(world.domain, 10)
        consumer.settle(recorder.take()[0], RELEASED)
        settle_down(world.domain)

        assert is_new(recorder.take()) == {"m": False}
