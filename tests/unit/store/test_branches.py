"""Prepared branches on a real store: nothing of them is lost, seen or done twice, through restarts and crashes."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from artemis_py.core.names.routing_type import RoutingType
from artemis_py.core.queues.consumer import ACCEPTED, RELEASED
from artemis_py.core.runtime.access import Subject
from artemis_py.core.services.prepared_messages import PAGE_MESSAGES, PREPARED
from artemis_py.core.sessions.session import Session
from artemis_py.errors import HeuristicOutcome, StoreError, UnknownBranch
from artemis_py.store.recovery import restore_branches
from artemis_py.storetools.check import check_folder
from tests.core_harness import settle_down
from tests.unit.store.branch_world import ONE, OTHER, SETTINGS, Life
from tests.unit.store.world import World


@pytest.fixture
def life(tmp_path: Path) -> Iterator[Life]:
    life = Life(tmp_path)
    life.world.queue("q")
    life.world.queue("p")
    yield life
    life.world.settle()
    life.world.audit()
    life.world.crash()
    assert check_folder(tmp_path) == []


@pytest.mark.parametrize("end", ["restart", "crash", "none"])
def test_a_prepared_branch_is_committed_after_the_start_that_follows(life: Life, end: str) -> None:
    life.send(None, "1", "2", "3", "4", "5", to="p")
    life.prepare(ONE, "a", "b", "c", "d", settle=3)
    before = life.bodies("q"), life.bodies("p"), life.world.queue("p").message_count
    if end != "none":
        getattr(life, end)()
    after = life.bodies("q"), life.bodies("p"), life.world.queue("p").message_count
    delivered = [reference.message.view.body for reference in life.receive("p", 10)]
    life.session.close()
    recovered = life.branches.recover(life.session)
    life.commit(ONE)

    assert before == after == ([], ["4", "5"], 5)
    assert delivered == ["4", "5"]
    assert recovered == [ONE]
    assert (life.bodies("q"), life.bodies("p"), life.world.queue("p").message_count) == (
        ["a", "b", "c", "d"],
        ["4", "5"],
        2,
    )
    assert life.left() == (0, 0, 0)
    life.crash()
    assert (life.bodies("q"), life.bodies("p"), life.left()) == (["a", "b", "c", "d"], ["4", "5"], (0, 0, 0))


@pytest.mark.parametrize("end", ["restart", "crash", "none"])
def test_a_prepared_branch_is_rolled_back_after_the_start_that_follows(life: Life, end: str) -> None:
    life.send(None, "1", "2", "3", "4", "5", to="p")
    life.prepare(ONE, "a", "b", "c", "d", settle=3)
    if end != "none":
        getattr(life, end)()
    life.rollback(ONE)
    came_back = life.receive("p", 3)

    assert [reference.message.view.body for reference in came_back] == ["1", "2", "3"]
    assert [reference.delivery_count for reference in came_back] == [1, 1, 1]
    assert life.left() == (0, 0, 0)
    life.crash()
    assert (life.bodies("q"), life.bodies("p")) == ([], ["1", "2", "3", "4", "5"])


def test_what_was_not_prepared_before_a_crash_never_was(life: Life) -> None:
    life.send(None, "1", to="p")
    life.world.settle()
    transaction = life.branches.start(life.session, ONE)
    life.send(transaction, "a")
    transaction.settle(life.receive("p", 1)[0], ACCEPTED)
    life.branches.prepare(life.session, ONE)
    life.world.crash()
    life.open()

    assert (life.bodies("q"), life.bodies("p"), life.branches.recover(life.session)) == ([], ["1"], [])


def test_a_commit_that_was_not_written_is_repeated(life: Life) -> None:
    life.send(None, "1", to="p")
    life.prepare(ONE, "a", settle=1)
    life.branches.commit(life.session, ONE)
    life.world.crash()
    life.open()
    again = life.branches.recover(life.session)
    life.commit(ONE)

    assert again == [ONE]
    assert (life.bodies("q"), life.bodies("p")) == (["a"], [])


def test_branches_are_independent_of_each_other(life: Life) -> None:
    life.send(None, "1", "2", "3", to="p")
    life.prepare(ONE, *[f"a{number}" for number in range(20)], settle=1)
    life.prepare(OTHER, *[f"b{number}" for number in range(20)], settle=1)
    life.crash()
    life.commit(OTHER)
    middle = life.bodies("q"), life.bodies("p")
    life.crash()
    life.rollback(ONE)

    assert middle == ([f"b{number}" for number in range(20)], ["3"])
    assert (life.bodies("q"), life.bodies("p")) == ([f"b{number}" for number in range(20)], ["1", "3"])


def test_messages_reach_each_queue_they_were_routed_to_and_no_later_one(life: Life) -> None:
    for name in ("s1", "s2"):
        life.world.queue(name, routing_type=RoutingType.MULTICAST, address="news")
    transaction = life.branches.start(life.session, ONE)
    life.send(transaction, "a", "b", to="news")
    life.branches.prepare(life.session, ONE)
    life.restart()
    life.world.queue("s3", routing_type=RoutingType.MULTICAST, address="news")
    life.commit(ONE)

    assert [life.bodies(name) for name in ("s1", "s2", "s3")] == [["a", "b"], ["a", "b"], []]


def test_what_is_not_durable_is_gone_after_a_restart_and_the_rest_is_there(life: Life) -> None:
    transaction = life.branches.start(life.session, ONE)
    life.send(transaction, "a")
    life.send(transaction, "volatile", durable=False)
    life.send(transaction, "b")
    life.branches.prepare(life.session, ONE)
    life.restart()
    life.commit(ONE)

    assert life.bodies("q") == ["a", "b"]
    assert life.left() == (0, 0, 0)


def test_without_a_restart_messages_that_are_not_durable_are_sent(life: Life) -> None:
    transaction = life.branches.start(life.session, ONE)
    life.send(transaction, "a")
    life.send(transaction, "volatile", durable=False)
    life.send(transaction, "b", "c", "d")
    life.branches.prepare(life.session, ONE)
    life.world.settle()
    life.commit(ONE)

    assert life.bodies("q") == ["a", "volatile", "b", "c", "d"]


def test_what_a_consumer_changed_is_kept_for_the_commit(life: Life) -> None:
    life.send(None, "1", to="p")
    transaction = life.branches.start(life.session, ONE)
    reference = life.receive("p", 1)[0]
    transaction.settle(reference, RELEASED, amended=reference.message.amended(b"note", {"seen": True}))
    life.branches.prepare(life.session, ONE)
    life.crash()
    life.commit(ONE)
    came_back = life.receive("p", 1)[0]

    assert (came_back.message.annotations, came_back.message.extra, came_back.delivery_count) == (
        b"note",
        {"seen": True},
        0,
    )


def test_the_outcome_of_management_is_kept_until_it_is_forgotten(life: Life) -> None:
    life.prepare(ONE, "a")
    life.prepare(OTHER, "b")
    completed = (
        life.branches.complete(ONE, True),
        life.branches.complete(OTHER, False),
        life.branches.complete(ONE, True),
    )
    life.crash()
    outcomes = []
    for xid in (ONE, OTHER):
        with pytest.raises(HeuristicOutcome) as raised:
            life.branches.commit(life.session, xid)
        outcomes.append(raised.value.is_committed)
    recovered = life.branches.recover(life.session)
    life.branches.forget(life.session, ONE)
    life.crash()

    assert (completed, outcomes, recovered) == ((True, True, False), [True, False], [ONE, OTHER])
    assert life.branches.recover(life.session) == [OTHER]
    assert life.bodies("q") == ["a"]
    with pytest.raises(UnknownBranch):
        life.branches.commit(life.session, ONE)


def test_a_store_that_failed_decides_nothing(life: Life) -> None:
    life.prepare(ONE, "a")
    life.branches.start(life.session, OTHER)
    transaction = life.branches.join(life.session, OTHER)
    life.send(transaction, "b")
    life.world.domain.storage_failed("no disk")
    for refused in (
        lambda: life.branches.commit(life.session, ONE),
        lambda: life.branches.rollback(life.session, ONE),
        lambda: life.branches.prepare(life.session, OTHER),
    ):
        with pytest.raises(StoreError):
            refused()
    life.world.crash()
    life.open()

    assert life.branches.recover(life.session) == [ONE]


def test_messages_without_a_record_stay_and_are_counted(life: Life) -> None:
    life.prepare(ONE, "a", "b")
    life.world.store.save_record("branches", ONE.key, None)
    life.restart()

    assert (life.found.orphans, life.found.prepared) == (2, 0)
    assert life.bodies(PREPARED) == ["a", "b"]


def test_a_record_that_is_not_one_is_passed_over(life: Life) -> None:
    life.send(None, "1", to="p")
    life.prepare(ONE, "a", settle=1)
    life.world.store.save_record("branches", ONE.key, b'{"user": null}')
    life.restart()

    assert (life.found.lost, life.bodies("p"), life.branches.recover(life.session)) == (1, ["1"], [])
    life.world.store.save_record("branches", ONE.key, None)


def test_an_emptied_queue_of_prepared_messages_is_a_commit_without_them(life: Life) -> None:
    life.send(None, "1", to="p")
    life.prepare(ONE, "a", "b", "c", settle=1)
    life.world.domain.queues[PREPARED].purge()
    settle_down(life.world.domain)
    life.commit(ONE)

    assert (life.bodies("q"), life.bodies("p"), life.left()) == ([], [], (0, 0, 0))


@pytest.mark.parametrize("is_committed", [True, False])
def test_a_shared_message_is_settled_for_one_queue(life: Life, is_committed: bool) -> None:
    for name in ("s1", "s2"):
        life.world.queue(name, routing_type=RoutingType.MULTICAST, address="news")
    life.send(None, "a", "b", to="news")
    transaction = life.branches.start(life.session, ONE)
    for reference in life.receive("s1", 2):
        transaction.settle(reference, ACCEPTED)
    life.branches.prepare(life.session, ONE)
    life.session.close()
    life.crash()
    life.session = Session(life.world.domain, Subject("tester"), "client")
    (life.commit if is_committed else life.rollback)(ONE)

    assert (life.bodies("s1"), life.bodies("s2")) == ([] if is_committed else ["a", "b"], ["a", "b"])


def test_more_than_a_page_is_committed_in_order(life: Life) -> None:
    texts = [str(number) for number in range(PAGE_MESSAGES * 2 + 5)]
    life.prepare(ONE, *texts)
    life.crash()
    life.commit(ONE)

    assert life.bodies("q") == texts


def test_messages_that_cannot_be_read_leave_the_branch_prepared(life: Life, monkeypatch: pytest.MonkeyPatch) -> None:
    life.send(None, "1", to="p")
    life.prepare(ONE, "a", "b", "c", settle=1)
    life.restart()
    monkeypatch.setattr(life.world.store, "read", lambda queue, request: None)
    for refused in (life.branches.commit, life.branches.rollback):
        with pytest.raises(StoreError):
            refused(life.session, ONE)
    monkeypatch.undo()
    recovered = life.branches.recover(life.session)
    life.commit(ONE)

    assert (recovered, life.bodies("q"), life.bodies("p")) == ([ONE], ["a", "b", "c"], [])


def test_the_log_says_what_was_found(life: Life, caplog: pytest.LogCaptureFixture) -> None:
    life.send(None, "1", "2", to="p")
    life.prepare(ONE, "a", settle=1)
    life.prepare(OTHER, "b", settle=1)
    life.world.domain.delete_queue("p", force=True)
    life.world.store.save_record("branches", OTHER.key, b"{}")
    life.world.settle()
    life.world.crash()
    life.world = World(life.folder, SETTINGS)
    caplog.set_level("INFO")
    restore_branches(life.branches)
    life.world.store.save_record("branches", OTHER.key, None)

    assert "prepared transaction branches found: count=1 ended_by_management=0 deliveries_gone=1" in caplog.text
    assert "records of transaction branches cannot be read, their deliveries wait again: count=1" in caplog.text
    assert "stay where they are: queue=$artemis.prepared count=1" in caplog.text
