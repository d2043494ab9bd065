"""Prepared transactions by management: Artemis' operations, what they answer, and who may call them."""

import json

import pytest

from artemis_py.core.messages.builtin_format import plain_message
from artemis_py.core.messages.view import MessageView
from artemis_py.core.runtime.access import Permission
from artemis_py.core.services.xid import Xid
from artemis_py.errors import NotAuthorized
from artemis_py.management import branch_control
from tests.core_harness import browse_all, make_queue
from tests.unit.management.world import MANAGEMENT, NOW_MS, Rules, World

ONE, OTHER = Xid(1, b"global", b"one"), Xid(2, b"\xff", b"")


def made() -> World:
    """A broker with two prepared branches, each with one message for q."""
    world = World()
    make_queue(world.domain, "q")
    for xid in (ONE, OTHER):
        transaction = world.services.branches.start(world.session, xid)
        world.session.producer("q").send(plain_message("q", MessageView(body=str(xid))), transaction)
        world.services.branches.prepare(world.session, xid)
        world.domain.dispatcher.now_ms += 1000
    return world


def waiting(world: World) -> list[object]:
    return [reference.message.view.body for reference in browse_all(world.domain.queues["q"])]


def test_prepared_transactions_are_listed_the_oldest_first() -> None:
    world = made()
    lines = world.call("broker", "listPreparedTransactions")
    rows = json.loads(world.call("broker", "listPreparedTransactionDetailsAsJSON"))

    assert lines == [
        f"2023-11-14 22:13:20 base64: {ONE.text} 1:676c6f62616c:6f6e65",
        f"2023-11-14 22:13:21 base64: {OTHER.text} 2:ff:",
    ]
    assert rows[0] == {
        "creation_time": NOW_MS,
        "prepared_time": NOW_MS,
        "xid_as_base64": ONE.text,
        "xid_format_id": 1,
        "xid_global_txid": "676c6f62616c",
        "xid_branch_qual": "6f6e65",
        "user": "admin",
        "messages": 1,
        "acknowledgements": 0,
        "addresses": ["q"],
    }


def test_prepared_transactions_are_ended_and_their_outcomes_kept_until_they_are_forgotten(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Each end is in the log once."""
    world = made()
    committed = world.call("broker", "commitPreparedTransaction", ONE.text)
    rolled_back = world.call("broker", "rollbackPreparedTransaction", OTHER.text)
    again = [
        world.call("broker", operation, ONE.text)
        for operation in ("commitPreparedTransaction", "rollbackPreparedTransaction")
    ]
    lists = ("listHeuristicCommittedTransactions", "listHeuristicRolledBackTransactions")
    kept = [world.call("broker", operation) for operation in lists]
    forgotten = [world.call("broker", "forgetHeuristicTransaction", ONE.text) for _ in range(2)]

    assert (committed, rolled_back, again) == (True, True, [False, False])
    assert [record.getMessage() for record in caplog.records] == [
        f"prepared transaction ended: xid={ONE} outcome=committed user=admin",
        f"prepared transaction ended: xid={OTHER} outcome=rolled back user=admin",
    ]
    assert waiting(world) == [str(ONE)]
    assert kept == [[ONE.text], [OTHER.text]]
    assert forgotten == [True, False]
    assert [world.call("broker", operation) for operation in lists] == [[], [OTHER.text]]
    assert world.call("broker", "listPreparedTransactions") == []


def test_a_name_that_is_none_is_refused() -> None:
    assert "is not an xid in base64" in made().refusal("broker", "commitPreparedTransaction", "no name!")


def test_only_who_may_manage_ends_a_transaction() -> None:
    world = World(Rules((Permission.MANAGE, MANAGEMENT)))

    with pytest.raises(NotAuthorized):
        world.ask("broker", "listPreparedTransactions")


def test_one_reply_has_a_limited_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(branch_control, "MAX_NAMES", 1)

    assert "more than the 1 of one reply" in made().refusal("broker", "listPreparedTransactions")
