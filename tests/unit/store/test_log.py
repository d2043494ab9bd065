"""A write-ahead log in front of LMDB: what is in it only, what a start makes of it, and what never gets to LMDB."""

import errno
import os
from collections.abc import Callable
from functools import partial
from pathlib import Path

import lmdb
import pytest
from attrs import evolve

from artemis_py.core.queues.consumer import ACCEPTED, FAILED
from artemis_py.core.queues.reference import Reference
from artemis_py.core.settings.address_settings import AddressSettings
from artemis_py.errors import StoreError
from artemis_py.store import folding, log_start, schema
from artemis_py.store.batch import Batch
from artemis_py.store.batch_record import LONG_BYTES, encode_batch
from artemis_py.store.environment import Environment
from artemis_py.store.folding import FOLD_RECORD_BYTES
from artemis_py.store.group_commit import HASTE_CHANGES, LOOK_S, SMALL_CHANGES, UNHURRIED_S
from artemis_py.store.log_start import LogSettings
from artemis_py.storetools.check import check_folder
from artemis_py.storetools.statistics import statistics
from tests.core_harness import attach, browse_all, settle_down
from tests.log_switch import SMALL_LOG
from tests.unit.store.world import World, bodies, multicast

LogWorld = partial(World, log=SMALL_LOG)


def append(world: World) -> None:
    """Have everything appended to the log, and nothing folded."""
    settle_down(world.domain)
    world.store._commit()
    world.hands.work()
    assert not world.hands.jobs


def accept_all(world: World, name: str = "q") -> None:
    """Have a consumer take everything that waits in a queue, and leave."""
    recorder, consumer = attach(world.domain, world.queue(name))
    settle_down(world.domain)
    for reference in recorder.take():
        consumer.settle(reference, ACCEPTED)
    consumer.close()


def test_an_appended_message_is_confirmed_and_survives_a_crash(tmp_path: Path) -> None:
    """It is in no database before the next start, which has it in the queue."""
    confirmed: list[bool] = []
    with LogWorld(tmp_path) as world:
        world.queue()
        world.send("q", "one", "two")
        world.store.when_durable(lambda: confirmed.append(True))
        append(world)
        there = world.count(schema.REFERENCES)

    with LogWorld(tmp_path) as world:
        found = bodies(world.queue())
        world.audit()

    assert (confirmed, there, found) == ([True], 0, ["one", "two"])


def test_what_was_not_appended_is_gone(tmp_path: Path) -> None:
    """The crash comes before the sync of the log."""
    with LogWorld(tmp_path) as world:
        world.queue()
        world.send("q", "one")
        append(world)
        world.send("q", "two")
        world.store._commit()

    with LogWorld(tmp_path) as world:
        assert bodies(world.queue()) == ["one"]


def test_what_one_batch_puts_and_the_next_removes_is_never_written_into_lmdb(tmp_path: Path) -> None:
    """A message that is consumed soon costs two records of the log."""
    written: list[int] = []
    with LogWorld(tmp_path) as world:
        world.queue()
        world.settle()
        world.send("q", "one", "two")
        append(world)
        accept_all(world)
        append(world)
        batch = world.store._folding.batch if world.store._folding is not None else Batch()
        written += [batch.puts.count, len(batch.removals), batch.put_bytes]
        world.settle()
        world.audit()

    assert written == [0, 0, 0]


def test_removals_in_the_log_are_done_by_the_next_start(tmp_path: Path) -> None:
    """A message in LMDB and its removal in the log; the log of the start after that is empty."""
    with LogWorld(tmp_path) as world:
        world.queue()
        world.send("q", "one")
        world.settle()
        accept_all(world)
        append(world)
        there = world.count(schema.REFERENCES)

    for _ in range(2):
        with LogWorld(tmp_path) as world:
            assert bodies(world.queue()) == []
            world.audit()
    assert there == 1


def content(world: World) -> list[tuple[object, ...]]:
    """What is known of each message that waits."""
    found: list[tuple[object, ...]] = []
    for name in ("p", "q"):
        for each in browse_all(world.queue(name)):
            message = each.message
            found.append((name, each.sequence, message.id, message.size, message.priority, message.view.body))
    return found


def test_runs_of_messages_come_back_from_the_log_as_each_was(tmp_path: Path) -> None:
    """Bodies of different sizes, two queues, another priority in between; some are removed again."""
    with LogWorld(tmp_path) as world:
        for name in ("p", "q"):
            world.queue(name)
        world.send("q", *[str(number) for number in range(5)])
        world.send("p", "alone")
        world.send("q", "x" * 300, "", "y", priority=7)
        world.send("q", "z", "zz")
        world.send("p", "another")
        world.send("q", "zzz", "zzzz", "zzzzz")
        append(world)
        recorder, consumer = attach(world.domain, world.queue(), credit=7)
        settle_down(world.domain)
        for reference in recorder.take():
            consumer.settle(reference, ACCEPTED)
        consumer.close()
        append(world)
        before = content(world)

    with LogWorld(tmp_path) as world:
        after = content(world)
        world.audit()

    assert [each[-1] for each in before] == ["alone", "another", "4", "z", "zz", "zzz", "zzzz", "zzzzz"]
    assert after == before


def test_runs_that_the_log_removes_are_gone_from_lmdb(tmp_path: Path) -> None:
    """They were folded before; the start counts what is left."""
    with LogWorld(tmp_path) as world:
        world.queue()
        world.send("q", *[str(number) for number in range(20)])
        world.settle()
        recorder, consumer = attach(world.domain, world.queue(), credit=20)
        settle_down(world.domain)
        for number, reference in enumerate(recorder.take()):
            if number not in (3, 12, 19):
                consumer.settle(reference, ACCEPTED)
        consumer.close()
        append(world)

    with LogWorld(tmp_path) as world:
        assert bodies(world.queue()) == ["3", "12", "19"]
        world.audit()


def test_a_run_takes_little_beside_its_messages(tmp_path: Path) -> None:
    """What they have in common is written once, and a removal is the size of the message."""
    with LogWorld(tmp_path) as world:
        world.queue()
        world.settle()
        world.send("q", *["x" * 100] * 100)
        batch = world.store._gathering
        octets = sum(len(each.message.data) + len(each.message.annotations) for each in batch.puts.all())
        put = sum(len(part) for part in encode_batch(batch))
        append(world)
        accept_all(world)
        removed = sum(len(part) for part in encode_batch(world.store._gathering))

    assert put - octets < 100 * 5
    assert removed < 100 * 5


def test_records_that_are_replaced_before_the_fold_are_not_counted(tmp_path: Path) -> None:
    """Only what a fold is to write makes it due."""
    value = b"x" * (FOLD_RECORD_BYTES // 4)
    counts = []
    with LogWorld(tmp_path) as world:
        for last in (value, None):
            for _ in range(6):
                world.store.save_record("space", b"key", value)
                append(world)
            world.store.save_record("space", b"key", last)
            world.store.save_record("space", b"key", last)
            append(world)
            assert world.store._folding is not None
            counts.append(world.store._folding.batch.defined_bytes)

    # The rest are numbers of the store's own.
    assert counts[0] - counts[1] == len(value) + 4
    assert counts[1] < 100


def test_everything_that_a_batch_can_have_comes_back(tmp_path: Path) -> None:
    """Shared messages, failed attempts, last values, records, duplicate ids, purges, delivery times."""

    def fill(world: World) -> None:
        multicast(world, "t", "t.a", "t.b")
        world.send("t", "shared")
        world.queue("last", last_value=True, last_value_key="k")
        world.queue()
        append(world)
        recorder, consumer = attach(world.domain, world.queue("t.a"))
        settle_down(world.domain)
        consumer.settle(recorder.take()[0], FAILED)
        consumer.close()
        world.store.save_record("space", b"key", b"value")
        world.store.save_record("space", b"gone", b"value")
        append(world)
        world.store.save_record("space", b"gone", None)
        world.send("q", "purged")
        append(world)
        world.queue().purge()
        world.send("q", "later", delivery_time_ms=world.domain.dispatcher.now_ms + 1000)
        append(world)

    found = []
    for stop in (World.crash, World.stop):
        folder = tmp_path / stop.__name__
        with LogWorld(folder) as world:
            fill(world)
            stop(world)
        with LogWorld(folder) as world:
            world.audit()
            attempts = [reference.delivery_count for reference in browse_all(world.queue("t.a"))]
            records = world.store.load_records("space")
            waiting = [queue.message_count for queue in world.domain.queues.values()]
            found.append((bodies(world.queue("t.a")), bodies(world.queue("t.b")), attempts, records, waiting))
            world.stop()
        assert check_folder(folder) == []

    assert found[0] == found[1]
    assert found[0][:4] == (["shared"], ["shared"], [1], [(b"key", b"value")])


def test_a_message_that_waits_for_a_fold_is_read_like_one_on_disk(tmp_path: Path) -> None:
    """A backlog whose beginning is in memory, whose middle is in LMDB and whose end is in the log only."""
    settings = {"#": AddressSettings(max_read_page_messages=2)}
    texts = [str(number) for number in range(60)]
    with LogWorld(tmp_path, settings=settings) as world:
        world.queue()
        world.send("q", *texts[:30])
        world.settle()
        world.send("q", *texts[30:])
        append(world)
        browsed = bodies(world.queue())
        recorder, consumer = attach(world.domain, world.queue())
        taken = []
        settle_down(world.domain)
        while deliveries := recorder.take():
            taken += [reference.message.view.body for reference in deliveries]
            for reference in deliveries:
                consumer.settle(reference, ACCEPTED)
            settle_down(world.domain)
        world.settle()
        world.audit()
        left = world.count(schema.REFERENCES)

    assert browsed == taken == texts
    assert left == 0


def test_a_fold_starts_when_memory_is_tight(tmp_path: Path) -> None:
    """Messages that are to be on disk only leave memory with the fold."""
    with LogWorld(tmp_path) as world:
        world.queue()
        world.settle()
        account = world.domain.dispatcher.account
        account.tight_bytes = 1
        world.send("q", *[str(number) for number in range(10)])
        world.hands.turn()
        world.hands.work()

        assert len(world.hands.jobs) == 1
        before = account.size_bytes
        world.hands.work()
        assert account.size_bytes < before


def looks_of(world: World, monkeypatch: pytest.MonkeyPatch) -> list[Callable[[], object]]:
    """Collect the callbacks that look at the batch again; timers of other kinds never run."""
    looks: list[Callable[[], object]] = []

    def call_later(delay: float, callback: Callable[[], object]) -> None:
        if delay == LOOK_S:
            looks.append(callback)

    monkeypatch.setattr(world.hands, "call_later", call_later)
    return looks


def test_a_small_batch_is_appended_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A lone producer sends nothing until it has its answer."""
    with LogWorld(tmp_path) as world:
        world.queue()
        world.settle()
        looks = looks_of(world, monkeypatch)
        world.send("q", "m")
        world.store.when_durable(lambda: None)
        world.hands.turn()

        assert (len(world.hands.jobs), looks) == (1, [])


def test_a_large_batch_waits_while_more_comes_but_not_for_long(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is consumed in the meantime is never written; after some looks the rest is."""
    confirmed: list[int] = []
    with LogWorld(tmp_path, log=evolve(SMALL_LOG, most_looks=3)) as world:
        world.queue()
        world.settle()
        looks = looks_of(world, monkeypatch)
        jobs = []
        for number in range(4):
            world.send("q", *["m"] * (SMALL_CHANGES + 1))
            world.store.when_durable(partial(confirmed.append, number))
            if number:
                looks.pop()()
            else:
                world.hands.turn()
            jobs.append(len(world.hands.jobs))
        waiting = len(looks)
        world.hands.work()

    assert (jobs, waiting, confirmed) == ([0, 0, 0, 1], 0, [0, 1, 2, 3])


@pytest.mark.parametrize(("count", "jobs"), [(HASTE_CHANGES - 1, 0), (HASTE_CHANGES, 1)])
def test_a_batch_that_is_hastened_is_not_looked_at_if_it_is_large(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, count: int, jobs: int
) -> None:
    """A peer waits for these messages, so nobody consumes them here. A look that was planned leaves the next batch."""
    with LogWorld(tmp_path) as world:
        world.queue()
        world.settle()
        looks = looks_of(world, monkeypatch)
        world.send("q", *["m"] * (count - 1))
        world.store.when_durable(lambda: None)
        world.hands.turn()
        world.store.hasten()
        world.hands.turn()
        appended = len(world.hands.jobs)
        for _ in range(appended):
            world.hands.work()
            world.send("q", *["m"] * (SMALL_CHANGES + 1))
            world.store.when_durable(lambda: None)
            looks.pop()()
        left = len(world.hands.jobs), len(looks)

    assert appended == jobs
    assert left == (0, 1 - jobs)


def test_a_large_batch_is_appended_when_nothing_is_added(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its producers wait for their answers, too."""
    with LogWorld(tmp_path) as world:
        world.queue()
        world.settle()
        looks = looks_of(world, monkeypatch)
        world.send("q", *["m"] * (SMALL_CHANGES + 1))
        world.store.when_durable(lambda: None)
        world.hands.turn()
        before = len(world.hands.jobs)
        looks.pop()()

        assert (before, len(world.hands.jobs), looks) == (0, 1, [])


@pytest.mark.parametrize("earlier", [0, 1])
def test_producers_are_answered_at_once_when_all_was_consumed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, earlier: int
) -> None:
    """Nothing is to be written then. The removal of a message that the log has is to be written, and is waited for."""
    count = SMALL_CHANGES + 1
    confirmed: list[int] = []
    with LogWorld(tmp_path) as world:
        world.queue()
        recorder, consumer = attach(world.domain, world.queue())
        world.send("q", *["old"] * earlier)
        world.settle()
        looks = looks_of(world, monkeypatch)
        world.send("q", *["new"] * count)
        world.store.when_durable(lambda: confirmed.append(len(looks)))
        world.hands.turn()
        settle_down(world.domain)
        deliveries = recorder.take()
        for number, reference in enumerate(deliveries):
            assert confirmed == []
            consumer.settle(reference, ACCEPTED)
            if number == count // 2:
                world.hands.turn()
        world.hands.turn()
        answered, jobs = list(confirmed), [len(world.hands.jobs)]
        looks.pop()()
        world.hands.turn()
        jobs.append(len(world.hands.jobs))

    assert len(deliveries) == count + earlier
    assert answered == ([] if earlier else [1])
    assert jobs == [0, earlier]


def test_a_batch_with_many_bytes_of_records_waits_for_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A flood of retained messages would be in memory as a whole, and then in one fold, whose pages take twice that."""
    with LogWorld(tmp_path) as world:
        world.settle()
        looks = looks_of(world, monkeypatch)
        jobs = []
        for size in (1, FOLD_RECORD_BYTES):
            for number in range(SMALL_CHANGES + 1):
                world.store.save_record("space", b"%d" % number, bytes(1 if number else size))
            world.store.when_durable(lambda: None)
            world.hands.turn()
            jobs.append(len(world.hands.jobs))
            if looks:
                looks.pop()()
                world.settle()

    assert jobs == [0, 1]


def test_a_batch_that_is_due_follows_the_one_in_flight_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is looked at while the other is synced, so a slow disk is never idle; one that is not due waits longer."""
    with LogWorld(tmp_path) as world:
        world.queue()
        world.settle()
        looks = looks_of(world, monkeypatch)
        jobs = []
        for count in (1, 1, SMALL_CHANGES + 1):
            world.send("q", *["m"] * count)
            world.store.when_durable(lambda: None)
            world.hands.turn()
            jobs.append(len(world.hands.jobs))
            if count == 1 and len(jobs) == 2:
                world.hands.work()
                jobs.append(len(world.hands.jobs))
        world.hands.work()
        jobs.append(len(world.hands.jobs))
        looks.pop()()
        jobs.append(len(world.hands.jobs))

    assert jobs == [1, 1, 1, 1, 0, 1]


def test_a_commit_that_nobody_waits_for_leaves_a_batch_alone_that_is_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its timer began with the first message, and would cut most batches before they are due."""
    with LogWorld(tmp_path) as world:
        world.queue()
        world.settle()
        timers: list[tuple[float, Callable[[], object]]] = []
        monkeypatch.setattr(world.hands, "call_later", lambda delay, callback: timers.append((delay, callback)))
        world.send("q", *["m"] * (SMALL_CHANGES + 1))
        world.store.when_durable(lambda: None)
        world.hands.turn()
        unhurried = next(callback for delay, callback in timers if delay == UNHURRIED_S)
        unhurried()
        jobs = [len(world.hands.jobs)]
        next(callback for delay, callback in timers if delay == LOOK_S)()
        jobs.append(len(world.hands.jobs))

    assert jobs == [0, 1]


def test_an_idle_loop_waits_for_a_quick_disk_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No other thread is woken for a lone message; the first append says how long one takes."""
    confirmed: list[int] = []
    with LogWorld(tmp_path, log=LogSettings(files=SMALL_LOG.files, longest_wait_s=60.0)) as world:
        world.queue()
        world.settle()
        monkeypatch.setattr(world.hands, "call_later", lambda delay, callback: None)
        for number in range(3):
            world.send("q", str(number))
            world.store.when_durable(partial(confirmed.append, number))
            world.begin_commit()
            jobs = len(world.hands.jobs)

    with LogWorld(tmp_path) as world:
        found = bodies(world.queue())
    assert (jobs, confirmed, found) == (0, [0, 1, 2], ["0", "1", "2"])


def test_a_worker_that_is_busy_appends_when_it_comes_to_it(tmp_path: Path) -> None:
    """The loop does not wait for a disk that is busy with something else."""
    confirmed: list[bool] = []
    with LogWorld(tmp_path, log=LogSettings(files=SMALL_LOG.files, longest_wait_s=60.0)) as world:
        world.queue()
        world.settle()
        world.hands.submit(lambda: None, lambda _: None)
        world.send("q", "one")
        world.store.when_durable(lambda: confirmed.append(True))
        world.hands.turn()
        waited = len(world.hands.jobs), list(confirmed)
        world.settle()

    assert (waited, confirmed) == ((2, []), [True])


@pytest.mark.parametrize("limit", ["FOLD_CHANGES", "FOLD_BYTES"])
def test_a_fold_starts_when_enough_has_gathered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: str) -> None:
    """Enough changes, or enough bytes."""
    with LogWorld(tmp_path) as world:
        world.queue()
        world.settle()
        monkeypatch.setattr(folding, limit, 2)
        world.send("q", "one", "two")
        world.store._commit()
        world.hands.work()

        assert len(world.hands.jobs) == 1


def test_a_fold_starts_when_records_have_many_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Retained messages and sessions are records: a flood of them is in memory until it is folded."""
    with LogWorld(tmp_path) as world:
        world.settle()
        monkeypatch.setattr(folding, "FOLD_RECORD_BYTES", 1000)
        world.store.save_record("space", b"key", bytes(1000))
        world.store._commit()
        world.hands.work()

        assert len(world.hands.jobs) == 1


def test_commits_wait_for_a_fold_while_many_records_are_in_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No account counts them, so a slow fold must hold up whoever sends them; its end confirms what waits."""
    confirmed: list[int] = []
    with LogWorld(tmp_path) as world:
        world.settle()
        monkeypatch.setattr(folding, "FOLD_RECORD_BYTES", 1000)
        jobs = []
        for number in range(3):
            world.store.save_record("space", b"%d" % number, bytes(1000))
            world.store.when_durable(partial(confirmed.append, number))
            world.store._commit()
            if number < 2:
                job = world.hands.jobs.pop()
                job[1](job[0]())
            jobs.append(len(world.hands.jobs))
        before = list(confirmed)
        world.settle()

    assert (jobs, before, confirmed) == ([1, 1, 1], [0, 1], [0, 1, 2])


@pytest.mark.parametrize("limit", ["FOLD_CHANGES", "FOLD_BYTES"])
def test_commits_wait_for_a_fold_while_many_messages_are_in_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: str
) -> None:
    """A quick producer is faster than LMDB: the end of the fold confirms what waits."""
    confirmed: list[int] = []
    with LogWorld(tmp_path) as world:
        world.queue()
        world.settle()
        jobs = []
        for number in range(4):
            world.send("q", "one", "two")
            if number == 0:
                monkeypatch.setattr(folding, limit, 2 if limit == "FOLD_CHANGES" else world.store._gathering.put_bytes)
            world.store.when_durable(partial(confirmed.append, number))
            world.store._commit()
            if number < 3:
                job = world.hands.jobs.pop()
                job[1](job[0]())
            jobs.append(len(world.hands.jobs))
        before = list(confirmed)
        world.settle()

    assert (jobs, before, confirmed) == ([1, 1, 1, 1], [0, 1, 2], [0, 1, 2, 3])


def test_long_records_are_appended_from_where_they_are(tmp_path: Path) -> None:
    """A flood of retained messages is not copied once more; what is written is the same."""
    value = b"x" * LONG_BYTES
    with LogWorld(tmp_path) as world:
        for number in range(3):
            world.store.save_record("space", b"%d" % number, value if number else b"short")
        values = list(world.store._gathering.definitions.values())
        parts = encode_batch(world.store._gathering)
        append(world)

    with LogWorld(tmp_path) as world:
        assert world.store.load_records("space") == [(b"0", b"short"), (b"1", value), (b"2", value)]
    assert [any(part is each for part in parts) for each in values] == [False, True, True]


def test_commits_wait_for_the_fold_of_a_log_that_is_too_long(tmp_path: Path) -> None:
    """The log stays within twice its limit and one batch; what waits is confirmed when the fold has ended."""
    confirmed: list[int] = []
    with LogWorld(tmp_path, log=evolve(SMALL_LOG, max_bytes=1000)) as world:
        world.queue()
        world.settle()
        for number in range(3):
            world.send("q", "x" * 1000)
            world.store.when_durable(partial(confirmed.append, number))
            world.hands.turn()
            if number < 2:
                job = world.hands.jobs.pop()
                job[1](job[0]())
        fold = world.hands.jobs.pop(0)
        waiting = len(world.hands.jobs)
        before = list(confirmed)
        fold[1](fold[0]())
        world.settle()

    assert (waiting, before, confirmed) == (0, [0, 1], [0, 1, 2])


def test_a_fold_that_fails_ends_all_confirmations_and_loses_nothing(tmp_path: Path) -> None:
    """P15: the log keeps what LMDB did not take, and the next start writes it."""
    told: list[str] = []
    with LogWorld(tmp_path) as world:
        world.queue()
        world.settle()
        world.send("q", "confirmed")
        append(world)
        world.store._fold()
        world.send("q", "under way")
        world.store.when_durable(lambda: told.append("durable"), told.append)
        world.store._commit()
        world.hands.work("disk full")
        world.hands.work()
        world.store.when_durable(lambda: told.append("durable"), told.append)
        failures = list(world.failures)

    with LogWorld(tmp_path) as world:
        found = bodies(world.queue())

    assert (failures, told) == (["disk full"], ["disk full", "disk full"])
    assert found[0] == "confirmed"


def test_an_append_that_fails_ends_all_confirmations(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """P15: the reason reaches all callers that wait."""

    def fail(*_: object) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    told: list[str] = []
    with LogWorld(tmp_path) as world:
        world.queue()
        world.settle()
        world.send("q", "m")
        world.store.when_durable(lambda: told.append("durable"), told.append)
        monkeypatch.setattr(os, "fdatasync", fail)
        world.settle()
        monkeypatch.undo()

        assert told == world.failures
        assert "Input/output error" in told[0]


def test_a_clean_stop_leaves_a_store_that_needs_no_log(tmp_path: Path) -> None:
    """An earlier release opens it again; while the broker runs it does not."""
    with LogWorld(tmp_path) as world:
        world.queue()
        world.send("q", "m")
        with world.environment.begin() as transaction:
            running = schema.U32.unpack(
                transaction.get(schema.FORMAT_KEY, b"", db=world.environment.database(schema.META))
            )[0]
        world.stop()
    stopped = statistics(tmp_path).format

    with World(tmp_path, log=None) as world:
        assert bodies(world.queue()) == ["m"]
        world.stop()

    assert (running, stopped) == (schema.FORMAT_VERSION + schema.LOGGED, schema.FORMAT_VERSION)
    assert not (tmp_path / "log").exists()


def test_a_start_without_a_log_takes_over_what_a_crash_left_there(tmp_path: Path) -> None:
    """The switch may be turned off at any time."""
    with LogWorld(tmp_path) as world:
        world.queue()
        world.send("q", "m")
        append(world)

    with World(tmp_path, log=None) as world:
        assert bodies(world.queue()) == ["m"]
        world.stop()

    assert statistics(tmp_path).format == schema.FORMAT_VERSION
    assert not (tmp_path / "log").exists()


def test_a_store_without_a_log_gets_one(tmp_path: Path) -> None:
    """The switch may be turned on at any time, also after a crash."""
    with World(tmp_path, log=None) as world:
        world.queue()
        world.send("q", "old")
        world.settle()

    with LogWorld(tmp_path) as world:
        world.send("q", "new")
        append(world)

    with LogWorld(tmp_path) as world:
        assert bodies(world.queue()) == ["old", "new"]


@pytest.mark.parametrize("commits", range(4))
def test_a_start_that_is_killed_writes_no_batch_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, commits: int
) -> None:
    """The number of the last batch changes with the batches; the next start continues behind it."""
    with LogWorld(tmp_path) as world:
        multicast(world, "t", "t.a", "t.b")
        for number in range(4):
            world.send("t", str(number))
            append(world)
    monkeypatch.setattr(log_start, "REPLAY_BYTES", 1)
    apply = Environment.apply
    done: list[bool] = []

    def die(self: Environment, change: Callable[[lmdb.Transaction], None]) -> None:
        if len(done) == commits:
            raise StoreError("killed")
        done.append(True)
        apply(self, change)

    monkeypatch.setattr(Environment, "apply", die)
    with pytest.raises(StoreError, match="killed"):
        LogWorld(tmp_path)
    monkeypatch.undo()

    with LogWorld(tmp_path) as world:
        assert bodies(world.queue("t.a")) == bodies(world.queue("t.b")) == ["0", "1", "2", "3"]
        world.audit()


def test_a_missing_log_is_named(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """What LMDB has is served."""
    with LogWorld(tmp_path) as world:
        world.queue()
        world.send("q", "folded")
        world.settle()
        world.send("q", "lost")
        append(world)
    for path in (tmp_path / "log").iterdir():
        path.unlink()
    (tmp_path / "log").rmdir()

    with LogWorld(tmp_path) as world:
        assert bodies(world.queue()) == ["folded"]
    assert "the write-ahead log is missing" in caplog.text


def test_a_log_that_the_store_does_not_know_is_set_aside(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The note of it was damaged; what LMDB has is served."""
    with LogWorld(tmp_path) as world:
        world.queue()
        world.send("q", "folded")
        world.settle()
        with world.environment.begin(write=True) as transaction:
            transaction.delete(schema.LOG, db=world.environment.database(schema.META))

    with LogWorld(tmp_path) as world:
        assert bodies(world.queue()) == ["folded"]
        world.stop()
    assert (tmp_path / "log.damaged-1").is_dir()
    assert "does not know its write-ahead log" in caplog.text


def test_a_copy_of_the_file_does_not_take_batches_of_a_later_run(tmp_path: Path) -> None:
    """What a stop wrote is in no batch: a file of before it must not get what came after it."""
    with LogWorld(tmp_path) as world:
        world.queue()
        world.send("q", "one")
        world.stop()
    copy = (tmp_path / "data.mdb").read_bytes()
    with LogWorld(tmp_path) as world:
        world.send("q", "two")
        world.stop()
    with LogWorld(tmp_path) as world:
        world.send("q", "three")
        append(world)
    (tmp_path / "data.mdb").write_bytes(copy)
    (tmp_path / "lock.mdb").unlink()

    with LogWorld(tmp_path) as world:
        assert bodies(world.queue())[:1] == ["one"]
        assert "three" not in bodies(world.queue())


def test_a_moved_message_is_taken_from_where_it_is(tmp_path: Path) -> None:
    """A staged message is in the log once: its move names its place."""
    with LogWorld(tmp_path) as world:
        world.queue("stage")
        world.queue("target")
        world.send("stage", "x" * 5000)
        append(world)
        sizes = []
        append_to_log = folding.Folding.append

        def measure(self: folding.Folding, batch: Batch, record: list[bytes]) -> str | None:
            sizes.append(sum(map(len, record)))
            return append_to_log(self, batch, record)

        setattr(folding.Folding, "append", measure)  # noqa: B010  mypy forbids assigning to a function
        try:
            source = browse_all(world.queue("stage"))[0]
            target = world.queue("target")
            reference = Reference(source.message, target)
            reference.sequence = target.next_sequence
            target.next_sequence += 1
            world.store.put_stored(reference, source)
            world.store.remove(source)
            append(world)
        finally:
            setattr(folding.Folding, "append", append_to_log)  # noqa: B010

    with LogWorld(tmp_path) as world:
        assert bodies(world.queue("target")) == ["x" * 5000]
        assert bodies(world.queue("stage")) == []
        world.audit()
    assert sizes[0] < 1000
