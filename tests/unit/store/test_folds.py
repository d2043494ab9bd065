"""How much one fold writes if its changes are in no order: each of them takes a page of its own."""

from functools import partial
from pathlib import Path

import pytest

from artemis_py.core.queues.consumer import ACCEPTED
from artemis_py.store import folding, schema
from artemis_py.store.batch import Batch
from tests.core_harness import START_MS, attach, pass_time, settle_down
from tests.log_switch import SMALL_LOG
from tests.unit.store.test_last_values import keyed, send
from tests.unit.store.world import World

LogWorld = partial(World, log=SMALL_LOG)


def append(world: World) -> Batch:
    """Have everything appended to the log and nothing folded; returns what waits for the fold."""
    settle_down(world.domain)
    world.store._commit()
    world.hands.work()
    assert world.store._folding is not None
    return world.store._folding.batch


def scattered_in(batch: Batch) -> int:
    """Count the changes of a batch that are in no order."""
    puts = [each.key is not None or schema.is_scheduled(batch.puts.handle(each)) for each in batch.puts.all()]
    return sum(puts) + sum(removal[6] is not None for removal in batch.removals)


@pytest.mark.parametrize(("delivery_time_ms", "jobs"), [(0, 0), (START_MS + 1000, 1)])
def test_a_fold_of_scheduled_messages_starts_earlier(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, delivery_time_ms: int, jobs: int
) -> None:
    """LMDB keeps the memory of each page that a transaction has changed; messages in order share their pages."""
    with LogWorld(tmp_path) as world:
        world.queue()
        world.settle()
        monkeypatch.setattr(folding, "FOLD_SCATTERED", 2)
        for body in ("one", "two"):
            world.send("q", body, delivery_time_ms=delivery_time_ms)
        append(world)

        assert len(world.hands.jobs) == jobs


def test_commits_wait_for_a_fold_while_many_changes_are_in_no_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise the next fold would be of everything that came while the disk was slow."""
    confirmed: list[int] = []
    with LogWorld(tmp_path) as world:
        world.queue()
        world.settle()
        monkeypatch.setattr(folding, "FOLD_SCATTERED", 2)
        for number in range(6):
            world.send("q", str(number), delivery_time_ms=START_MS + 1000 + number)
            world.store.when_durable(partial(confirmed.append, number))
            folds = len(world.hands.jobs)
            world.store._commit()
            if len(world.hands.jobs) > folds:
                job = world.hands.jobs.pop()
                job[1](job[0]())
        before = list(confirmed)
        world.settle()

    assert before == [0, 1, 2, 3]
    assert confirmed == list(range(6))


def test_changes_that_disappear_before_the_fold_are_not_counted(tmp_path: Path) -> None:
    """Last values that are replaced all the time are written once per fold, however many there were."""
    with LogWorld(tmp_path) as world:
        keyed(world)
        world.queue("plain")
        world.settle()
        send(world, "q", ("a", "1"), ("b", "1"))
        world.send("plain", "first", "second")
        world.send("plain", "later", "latest", delivery_time_ms=START_MS + 10)
        counts = []
        batch = append(world)
        counts.append((batch.scattered, scattered_in(batch)))
        for number in range(20):
            send(world, "q", ("a", str(number)), ("a", f"{number} again"))
            batch = append(world)
        counts.append((batch.scattered, scattered_in(batch)))
        pass_time(world.domain, 10)
        for name in ("plain", "q"):
            recorder, consumer = attach(world.domain, world.queue(name))
            settle_down(world.domain)
            for reference in recorder.take():
                consumer.settle(reference, ACCEPTED)
        batch = append(world)
        counts.append((batch.scattered, scattered_in(batch)))
        world.settle()
        send(world, "q", ("a", "new"))
        world.settle()
        send(world, "q", ("a", "newest"))
        batch = append(world)
        counts.append((batch.scattered, scattered_in(batch)))
        world.audit()

    assert counts == [(4, 4), (4, 4), (0, 0), (2, 2)]
