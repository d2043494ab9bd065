"""Transaction branches: their life, who may finish them, and their limits."""

from collections.abc import Callable

import pytest

from artemis_py.core.names.routing_type import RoutingType
from artemis_py.core.queues.consumer import ACCEPTED
from artemis_py.core.queues.reference import Reference
from artemis_py.core.routing.duplicates import duplicate_id
from artemis_py.core.routing.transaction import Transaction
from artemis_py.core.runtime.access import Permission, Subject
from artemis_py.core.services import branches as module
from artemis_py.core.services.prepared_messages import PREPARED
from artemis_py.core.services.reaper import Reaper
from artemis_py.core.services.services import Services
from artemis_py.core.services.xid import MAX_ID_BYTES, Xid, xid_of_key, xid_of_text
from artemis_py.core.sessions.session import Session
from artemis_py.core.settings.address_settings import AddressSettings
from artemis_py.core.settings.broker_settings import BrokerSettings
from artemis_py.core.settings.queue_config import QueueConfig
from artemis_py.errors import (
    BranchMisused,
    DuplicateBranch,
    HeuristicOutcome,
    InvalidRequest,
    LimitExceeded,
    NotAuthorized,
    Refusal,
    TransactionRolledBack,
    UnknownBranch,
)
from tests.core_harness import Recorder, attach, make_domain, make_message, make_queue, make_services, settle_down

XID = Xid(1, b"global", b"branch")
OTHER = Xid(1, b"global", b"other")


class ManagersOnly:
    """Rules that let everybody do everything, but only `root` manage."""

    def allows(self, subject: Subject, permission: Permission, address: str, queue: str | None = None) -> bool:
        return permission is not Permission.MANAGE or subject.user == "root"


class Scene:
    """A broker in memory with a queue, and clients."""

    def __init__(self) -> None:
        options = BrokerSettings(transaction_timeout_ms=1000)
        self.domain = make_domain({"#": AddressSettings(max_delivery_attempts=-1)}, options)
        self.domain.access = ManagersOnly()
        self.services: Services = make_services(self.domain)
        self.branches = self.services.branches
        self.queue = make_queue(self.domain)
        self.session = self.client("tester")

    def client(self, user: str | None) -> Session:
        return self.services.sessions.open(Subject(user), "client", "test")

    def start(self, *bodies: str, xid: Xid = XID) -> Transaction:
        transaction = self.branches.start(self.session, xid)
        for body in bodies:
            self.session.producer("q").send(make_message(body), transaction)
        return transaction

    def deliver(self, *bodies: str) -> list[Reference]:
        """Deliveries to a consumer of the session."""
        for body in bodies:
            self.session.producer("q").send(make_message(body))
        recorder = Recorder()
        self.session.consume(self.queue, recorder).grant(len(bodies))
        settle_down(self.domain)
        return recorder.take()

    def prepare(self, *bodies: str, xid: Xid = XID) -> None:
        self.start(*bodies, xid=xid)
        assert self.branches.prepare(self.session, xid)

    def bodies(self) -> list[str]:
        recorder, consumer = attach(self.domain, self.queue)
        consumer.close()
        return recorder.bodies()


@pytest.fixture
def scene() -> Scene:
    return Scene()


def test_a_branch_is_committed_in_two_phases(scene: Scene) -> None:
    reference = scene.deliver("received")[0]
    transaction = scene.start("a", "b")
    transaction.settle(reference, ACCEPTED)
    has_work = scene.branches.prepare(scene.session, XID)
    between = scene.queue.waiting_count, scene.queue.delivering_count
    scene.branches.commit(scene.session, XID)

    assert (has_work, between) == (True, (0, 1))
    assert (scene.bodies(), scene.queue.messages_acknowledged) == (["a", "b"], 1)
    assert scene.branches.recover(scene.session) == []


def test_a_branch_is_committed_in_one_phase(scene: Scene) -> None:
    scene.start("a")
    scene.branches.commit(scene.session, XID, one_phase=True)

    assert (scene.bodies(), scene.session.transactions) == (["a"], {})
    with pytest.raises(UnknownBranch):
        scene.branches.commit(scene.session, XID, one_phase=True)


def test_a_branch_that_failed_is_rolled_back_by_its_commit_in_one_phase(scene: Scene) -> None:
    scene.start("a")
    scene.branches.end(scene.session, XID, failed=True)
    raises(TransactionRolledBack, lambda: scene.branches.commit(scene.session, XID, one_phase=True))

    raises(UnknownBranch, lambda: scene.branches.rollback(scene.session, XID))
    assert (scene.session.transactions, scene.bodies()) == ({}, [])


def test_a_branch_without_work_is_read_only_and_forgotten(scene: Scene) -> None:
    scene.start()

    assert not scene.branches.prepare(scene.session, XID)
    assert scene.session.transactions == {}
    with pytest.raises(UnknownBranch):
        scene.branches.commit(scene.session, XID)


def test_a_rollback_before_the_prepare_undoes_everything(scene: Scene) -> None:
    reference = scene.deliver("received")[0]
    scene.start("a").settle(reference, ACCEPTED)
    scene.branches.rollback(scene.session, XID)

    assert (scene.queue.message_count, scene.queue.delivering_count) == (1, 0)
    assert scene.session.transactions == {}
    scene.start(xid=XID)


@pytest.mark.parametrize("end", ["close", "fail", "time out"])
def test_a_branch_that_is_not_prepared_ends_with_its_session_or_its_time(scene: Scene, end: str) -> None:
    scene.start("a")
    if end == "time out":
        scene.domain.dispatcher.steady_ms += 1000
        Reaper(scene.services.sessions).end_transactions()
    else:
        scene.session.close(failed=end == "fail")
    settle_down(scene.domain)

    with pytest.raises(UnknownBranch):
        scene.branches.prepare(scene.client("tester"), XID)
    assert (scene.queue.message_count, scene.domain.account.size_bytes) == (0, 0)


def test_a_prepared_branch_outlives_its_session_and_the_transaction_timeout(scene: Scene) -> None:
    reference = scene.deliver("received")[0]
    scene.start("a").settle(reference, ACCEPTED)
    scene.branches.prepare(scene.session, XID)
    scene.session.close(failed=True)
    scene.domain.dispatcher.steady_ms += 10_000
    Reaper(scene.services.sessions).end_transactions()
    settle_down(scene.domain)
    other = scene.client("tester")
    recovered = scene.branches.recover(other)
    scene.branches.commit(other, XID)

    assert (recovered, scene.bodies()) == ([XID], ["a"])


def test_a_rollback_hands_a_delivery_back_to_a_client_that_keeps_it(scene: Scene) -> None:
    reference = scene.deliver("received")[0]
    consumer = reference.consumer
    assert consumer is not None
    scene.start().settle(reference, ACCEPTED, is_final=False)
    scene.branches.prepare(scene.session, XID)
    scene.branches.rollback(scene.session, XID)

    assert consumer.unsettled() == [reference]
    assert reference.delivery_count == 0


def test_a_branch_can_be_joined_by_another_session_of_its_user(scene: Scene) -> None:
    transaction = scene.start("a")
    other = scene.client("tester")
    scene.branches.end(scene.session, XID)

    assert scene.branches.join(other, XID) is transaction


def test_a_branch_that_ended_as_failed_can_only_be_rolled_back(scene: Scene) -> None:
    scene.start("a")
    scene.branches.end(scene.session, XID, failed=True)

    with pytest.raises(TransactionRolledBack):
        scene.branches.prepare(scene.session, XID)
    with pytest.raises(UnknownBranch):
        scene.branches.rollback(scene.session, XID)
    assert (scene.session.transactions, scene.domain.account.size_bytes) == ({}, 0)


def test_a_branch_whose_id_another_message_took_is_rolled_back_by_its_prepare(scene: Scene) -> None:
    """And one that is prepared keeps its id: the other message is the duplicate."""
    first, second = duplicate_id("1"), duplicate_id("2")
    producer = scene.session.producer("q")
    for id, xid in ((first, XID), (second, OTHER)):
        producer.send(make_message("in a branch"), scene.branches.start(scene.session, xid), id)
    producer.send(make_message("early"), None, first)
    scene.branches.prepare(scene.session, OTHER)
    producer.send(make_message("late"), None, second)
    with pytest.raises(TransactionRolledBack):
        scene.branches.prepare(scene.session, XID)
    scene.branches.commit(scene.session, OTHER)

    assert scene.bodies() == ["early", "in a branch"]


def test_misuse_is_named(scene: Scene) -> None:
    scene.start("a")
    branches, session = scene.branches, scene.session
    raises(DuplicateBranch, lambda: branches.start(session, XID))
    raises(BranchMisused, lambda: branches.commit(session, XID))
    raises(BranchMisused, lambda: branches.forget(session, XID))
    branches.prepare(session, XID)
    raises(DuplicateBranch, lambda: branches.start(session, XID))
    raises(BranchMisused, lambda: branches.prepare(session, XID))
    raises(BranchMisused, lambda: branches.join(session, XID))
    raises(BranchMisused, lambda: branches.end(session, XID))
    raises(BranchMisused, lambda: branches.commit(session, XID, one_phase=True))
    raises(BranchMisused, lambda: branches.forget(session, XID))
    for call in (branches.prepare, branches.commit, branches.rollback, branches.forget, branches.join, branches.end):
        raises(UnknownBranch, lambda call=call: call(session, OTHER))  # type: ignore[misc]
    branches.complete(XID, True)
    raises(DuplicateBranch, lambda: branches.start(session, XID))
    for call in (branches.prepare, branches.commit, branches.rollback):
        raises(HeuristicOutcome, lambda call=call: call(session, XID))  # type: ignore[misc]


def raises(refusal: type[Refusal], call: Callable[[], object]) -> None:
    with pytest.raises(refusal):
        call()


def test_only_its_user_and_managers_may_see_and_finish_a_branch(scene: Scene) -> None:
    scene.prepare("a")
    scene.prepare("b", xid=OTHER)
    stranger, manager, nobody = scene.client("other"), scene.client("root"), scene.client(None)
    for client in (stranger, nobody):
        for call in (scene.branches.commit, scene.branches.rollback, scene.branches.prepare, scene.branches.join):
            raises(NotAuthorized, lambda call=call, client=client: call(client, XID))  # type: ignore[misc]
    recovered = [scene.branches.recover(client) for client in (stranger, nobody, manager)]
    scene.branches.commit(manager, XID)
    scene.branches.complete(OTHER, False)

    assert recovered == [[], [], [XID, OTHER]]
    raises(NotAuthorized, lambda: scene.branches.commit(stranger, OTHER))
    raises(NotAuthorized, lambda: scene.branches.forget(stranger, OTHER))
    assert [scene.branches.recover(client) for client in (stranger, scene.session)] == [[], [OTHER]]
    scene.branches.forget(scene.session, OTHER)
    assert scene.bodies() == ["a"]


def test_no_client_reaches_the_queue_of_prepared_messages(scene: Scene) -> None:
    """Neither before it exists nor later: not even a manager sends there, consumes, creates or deletes it."""
    manager = scene.client("root")
    config = QueueConfig(name=PREPARED, address="q", routing_type=RoutingType.ANYCAST)
    raises(NotAuthorized, lambda: manager.create_queue(config))
    raises(NotAuthorized, lambda: manager.create_address(PREPARED, frozenset(RoutingType)))
    scene.prepare("a")
    queue = scene.domain.queues[PREPARED]
    raises(NotAuthorized, lambda: manager.producer(PREPARED))
    raises(NotAuthorized, lambda: manager.consume(queue, Recorder()))
    raises(NotAuthorized, lambda: manager.delete_queue(PREPARED, force=True))
    raises(NotAuthorized, lambda: manager.delete_address(PREPARED, force=True))
    raises(NotAuthorized, lambda: manager.update_queue(PREPARED, {"max_consumers": 1}))
    scene.branches.commit(scene.session, XID)

    assert scene.bodies() == ["a"]


@pytest.mark.parametrize(
    ("limit", "value"), [("MAX_PREPARED", 1), ("MAX_ENTRIES", 1), ("MAX_BYTES", 600), ("MAX_STARTED", 1)]
)
def test_limits_are_named_and_leave_a_branch_as_it_was(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, limit: str, value: int
) -> None:
    scene.prepare("a", xid=OTHER)
    monkeypatch.setattr(module, limit, value)
    if limit == "MAX_STARTED":
        scene.session.begin()
        raises(LimitExceeded, lambda: scene.start("b", "c"))
        return
    scene.start("b", "c")
    with pytest.raises(LimitExceeded, match=str(value)):
        scene.branches.prepare(scene.session, XID)
    monkeypatch.undo()
    scene.branches.prepare(scene.session, XID)
    scene.branches.commit(scene.session, XID)

    assert scene.bodies() == ["b", "c"]


def test_tables_count_prepared_branches_and_outcomes_and_refuse_one_too_many(scene: Scene) -> None:
    scene.prepare("a", "b")
    tables = scene.domain.dispatcher.tables
    prepared = tables.size_bytes
    scene.branches.complete(XID, True)
    completed = tables.size_bytes
    scene.branches.forget(scene.session, XID)
    forgotten = tables.size_bytes
    scene.start("c")
    tables.max_bytes = tables.size_bytes

    assert prepared - completed == 2 * module.ENTRY_BYTES
    assert completed - forgotten == module.BRANCH_BYTES
    raises(LimitExceeded, lambda: scene.branches.prepare(scene.session, XID))


def test_outcomes_are_limited(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_OUTCOMES", 1)
    scene.prepare("a")
    scene.prepare("b", xid=OTHER)
    scene.branches.complete(XID, True)

    raises(LimitExceeded, lambda: scene.branches.complete(OTHER, True))
    assert scene.branches.forget_outcome(XID)
    assert not scene.branches.forget_outcome(XID)
    assert scene.branches.complete(OTHER, True)
    assert scene.bodies() == ["a", "b"]


@pytest.mark.parametrize(
    ("format_id", "global_id", "qualifier"),
    [
        (-1, b"g", b""),
        (1 << 31, b"g", b""),
        (0, b"", b"b"),
        (0, bytes(MAX_ID_BYTES + 1), b""),
        (0, b"g", bytes(MAX_ID_BYTES + 1)),
    ],
)
def test_an_xid_that_xa_does_not_allow_is_refused(format_id: int, global_id: bytes, qualifier: bytes) -> None:
    raises(InvalidRequest, lambda: Xid(format_id, global_id, qualifier))


@pytest.mark.parametrize("xid", [XID, Xid(-(1 << 31), bytes(64), bytes(64)), Xid(0, b"gb", b""), Xid(0, b"g", b"b")])
def test_an_xid_is_found_by_its_key_and_its_text(xid: Xid) -> None:
    assert xid_of_key(xid.key) == xid == xid_of_text(xid.text)
    assert (xid_of_key(xid.key).format_id, len({xid, xid_of_text(xid.text)})) == (xid.format_id, 1)
    assert xid != Xid(0, b"g", b"bb")


@pytest.mark.parametrize("text", ["", "no base64!", "AAAA", "AAAAAAA="])
def test_a_text_that_names_no_xid_is_refused(text: str) -> None:
    raises(InvalidRequest, lambda: xid_of_text(text))
