"""Transaction branches do what a list and a table do, through restarts and crashes at any moment."""

import shutil
import tempfile
from copy import deepcopy
from functools import partial
from pathlib import Path
from random import Random
from typing import Final

import pytest
from attrs import define, evolve, field
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from artemis_py.core.messages.builtin_format import plain_message
from artemis_py.core.messages.view import MessageView
from artemis_py.core.names.routing_type import RoutingType
from artemis_py.core.queues.consumer import ACCEPTED, FAILED, REJECTED, RELEASED, Consumer
from artemis_py.core.queues.queue import Queue
from artemis_py.core.queues.reference import Reference
from artemis_py.core.runtime.access import Subject
from artemis_py.core.services import branch
from artemis_py.core.services.branches import BRANCH_BYTES, ENTRY_BYTES, Branches
from artemis_py.core.services.prepared_messages import PREPARED
from artemis_py.core.services.xid import Xid
from artemis_py.core.sessions.session import Session
from artemis_py.core.settings.address_settings import AddressSettings, FullPolicy
from artemis_py.errors import HeuristicOutcome
from artemis_py.storetools.check import check_folder
from tests.core_harness import Recorder, browse_all, settle_down
from tests.examples import examples
from tests.memory_harness import check_held
from tests.unit.store.world import World

TARGETS: Final = {"a": ("a",), "b": ("b",), "t": ("t1", "t2")}
"""Queues by address; two of them share what is sent to theirs."""
NAMES: Final = ("a", "b", "t1", "t2")
XIDS: Final = [Xid(1, b"global", bytes((number,))) for number in range(4)]
# One address counts what is in memory, the other also what is on disk.
SETTINGS: Final = {
    "#": AddressSettings(max_read_page_messages=2, max_delivery_attempts=-1),
    "b": AddressSettings(max_read_page_messages=2, max_delivery_attempts=-1, address_full_policy=FullPolicy.FAIL),
}

QUEUE = st.sampled_from(NAMES)
ADDRESS = st.sampled_from(tuple(TARGETS))
XID = st.integers(0, len(XIDS) - 1)
DURABLE = st.sampled_from((True, True, True, False))

OPERATIONS: Final = st.one_of(
    st.tuples(st.just("send"), ADDRESS, st.integers(1, 6), DURABLE),
    st.tuples(st.just("send_in"), XID, ADDRESS, st.integers(1, 5), DURABLE),
    st.tuples(st.just("credit"), QUEUE, st.integers(1, 4)),
    st.tuples(st.just("settle"), st.integers(0, 5), st.sampled_from((ACCEPTED, RELEASED, FAILED))),
    st.tuples(
        st.just("settle_in"),
        XID,
        st.integers(0, 5),
        st.sampled_from((ACCEPTED, ACCEPTED, ACCEPTED, RELEASED, FAILED, REJECTED)),
    ),
    st.tuples(st.just("prepare"), XID),
    st.tuples(st.just("prepare"), XID),
    st.tuples(st.just("commit"), XID),
    st.tuples(st.just("rollback"), XID),
    st.tuples(st.just("complete"), XID, st.booleans()),
    st.tuples(st.just("forget"), XID),
    st.tuples(st.just("disconnect")),
    st.tuples(st.just("purge"), QUEUE),
    st.tuples(st.just("cut")),
    st.tuples(st.just("write")),
    st.tuples(st.just("settle_store")),
    st.tuples(st.just("restart")),
    st.tuples(st.just("crash")),
)


def history(seed: int) -> list[tuple[object, ...]]:
    """A longer one than hypothesis makes, in which branches get further."""
    dice = Random(seed)
    made: list[tuple[object, ...]] = []
    for _ in range(80):
        drawn = dice.random()
        name, xid, durable = dice.choice(NAMES), dice.randrange(len(XIDS)), dice.random() < 0.8
        address = dice.choice(tuple(TARGETS))
        if drawn < 0.12:
            made.append(("send", address, dice.randint(1, 6), durable))
        elif drawn < 0.24:
            made.append(("send_in", xid, address, dice.randint(1, 5), durable))
        elif drawn < 0.38:
            made.append(("credit", name, dice.randint(1, 4)))
        elif drawn < 0.55:
            made.append(("settle_in", xid, dice.randint(0, 5), dice.choice((ACCEPTED, ACCEPTED, FAILED, REJECTED))))
        elif drawn < 0.67:
            made.append(("prepare", xid))
        elif drawn < 0.76:
            made.append((dice.choice(("commit", "rollback")), xid))
        elif drawn < 0.8:
            made.append(("complete", xid, dice.random() < 0.5) if dice.random() < 0.5 else ("forget", xid))
        elif drawn < 0.83:
            made.append(("purge", name))
        else:
            made.append((dice.choice(("cut", "cut", "write", "settle_store", "restart", "crash", "disconnect")),))
    return made


@define(eq=False)
class Entry:
    """A message in a queue of the model."""

    body: str
    durable: bool
    where: str = "waiting"
    """waiting, out (at the consumer), or claimed"""
    attempts: int = 0


@define(eq=False)
class ModelBranch:
    """A branch in the model."""

    is_prepared: bool = False
    sends: list[tuple[str, Entry]] = field(factory=list)
    settled: list[tuple[str, Entry, int]] = field(factory=list)


@define(eq=False)
class Model:
    """Queues as lists, branches and outcomes as tables."""

    queues: dict[str, list[Entry]] = field(factory=lambda: {name: [] for name in NAMES})
    branches: dict[int, ModelBranch] = field(factory=dict)
    outcomes: dict[int, bool] = field(factory=dict)

    def after_crash(self) -> "Model":
        """What a crash leaves if everything is durable now."""
        left = deepcopy(self)
        left.branches = {xid: each for xid, each in left.branches.items() if each.is_prepared}
        claimed = set()
        for each in left.branches.values():
            each.sends = [(name, entry) for name, entry in each.sends if entry.durable]
            each.settled = [one for one in each.settled if one[1].durable]
            claimed |= {id(entry) for _, entry, _ in each.settled}
        for name in NAMES:
            left.queues[name] = [entry for entry in left.queues[name] if entry.durable]
            for entry in left.queues[name]:
                entry.where = "claimed" if id(entry) in claimed else "waiting"
        return left

    def add(self, address: str, entry: Entry) -> None:
        for name in TARGETS[address]:
            self.queues[name].append(evolve(entry))

    def commit(self, xid: int) -> None:
        ended = self.branches.pop(xid)
        for address, entry in ended.sends:
            self.add(address, entry)
        for name, entry, outcome in ended.settled:
            if outcome in (ACCEPTED, REJECTED):
                self.queues[name].remove(entry)
            else:
                entry.where = "waiting"
                entry.attempts += outcome == FAILED

    def rollback(self, xid: int) -> None:
        for _, entry, _ in self.branches.pop(xid).settled:
            entry.where = "waiting"
            entry.attempts += 1

    def disconnect(self) -> None:
        for xid in [xid for xid, each in self.branches.items() if not each.is_prepared]:
            self.rollback(xid)
        for entries in self.queues.values():
            for entry in entries:
                if entry.where == "out":
                    entry.where = "waiting"
                    entry.attempts += 1


class Life:
    """The broker and the model, side by side."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.model = Model()
        self.durable = self.model.after_crash()
        self.sent = 0
        self.open()
        for address, names in TARGETS.items():
            kind = RoutingType.ANYCAST if names == (address,) else RoutingType.MULTICAST
            for name in names:
                self.world.queue(name, routing_type=kind, address=address)
        self.connect()
        self.settle_store()

    def open(self) -> None:
        self.world = World(self.folder, SETTINGS)
        self.domain = self.world.domain
        self.branches: Branches = self.world.services.branches
        self.found = self.branches.restore()

    def connect(self) -> None:
        self.session = Session(self.domain, Subject("tester"), "client")
        self.consumers: dict[str, tuple[Recorder, Consumer]] = {}
        for name in NAMES:
            recorder = Recorder()
            self.consumers[name] = recorder, self.session.consume(self.queue(name), recorder)
        self.out: list[tuple[str, Reference, Entry]] = []

    def queue(self, name: str) -> Queue:
        return self.domain.queues[name]

    # -- operations ------------------------------------------------------------------------------------------

    def message(self, name: str, durable: bool) -> Entry:
        self.sent += 1
        return Entry(f"{name}{self.sent}", durable)

    def send(self, name: str, count: int, durable: bool) -> None:
        for _ in range(count):
            entry = self.message(name, durable)
            self.session.producer(name).send(plain_message(name, MessageView(body=entry.body), durable))
            self.model.add(name, entry)

    def working(self, xid: int) -> ModelBranch | None:
        """The active branch of this xid, begun if there is none; None if there is a prepared one, or an outcome."""
        if xid not in self.model.branches and xid not in self.model.outcomes:
            self.branches.start(self.session, XIDS[xid])
            self.model.branches[xid] = ModelBranch()
        found = self.model.branches.get(xid)
        return None if found is None or found.is_prepared else found

    def send_in(self, xid: int, name: str, count: int, durable: bool) -> None:
        working = self.working(xid)
        if working is None:
            return
        transaction = self.branches.join(self.session, XIDS[xid])
        for _ in range(count):
            entry = self.message(name, durable)
            self.session.producer(name).send(plain_message(name, MessageView(body=entry.body), durable), transaction)
            working.sends.append((name, entry))

    def credit(self, name: str, credit: int) -> None:
        self.consumers[name][1].grant(credit)

    def settle(self, index: int, outcome: int) -> None:
        if not self.out:
            return
        name, reference, entry = self.out.pop(index % len(self.out))
        self.consumers[name][1].settle(reference, outcome)
        if outcome == ACCEPTED:
            self.model.queues[name].remove(entry)
        else:
            entry.where = "waiting"
            entry.attempts += outcome == FAILED

    def settle_in(self, xid: int, index: int, outcome: int) -> None:
        working = self.working(xid) if self.out else None
        if working is None:
            return
        name, reference, entry = self.out.pop(index % len(self.out))
        assert self.branches.join(self.session, XIDS[xid]).settle(reference, outcome)
        entry.where = "claimed"
        working.settled.append((name, entry, outcome))

    def prepare(self, xid: int) -> None:
        working = self.model.branches.get(xid)
        if working is None or working.is_prepared:
            return
        has_work = bool(working.sends or working.settled)
        assert self.branches.prepare(self.session, XIDS[xid]) is has_work
        if has_work:
            working.is_prepared = True
        else:
            del self.model.branches[xid]

    def commit(self, xid: int) -> None:
        found = self.model.branches.get(xid)
        if found is not None:
            self.branches.commit(self.session, XIDS[xid], one_phase=not found.is_prepared)
            self.model.commit(xid)
        elif xid in self.model.outcomes:
            with pytest.raises(HeuristicOutcome) as raised:
                self.branches.commit(self.session, XIDS[xid])
            assert raised.value.is_committed is self.model.outcomes[xid]

    def rollback(self, xid: int) -> None:
        if xid in self.model.branches:
            self.branches.rollback(self.session, XIDS[xid])
            self.model.rollback(xid)

    def complete(self, xid: int, is_committed: bool) -> None:
        found = self.model.branches.get(xid)
        is_prepared = found is not None and found.is_prepared
        assert self.branches.complete(XIDS[xid], is_committed) is is_prepared
        if is_prepared:
            self.model.outcomes[xid] = is_committed
            (self.model.commit if is_committed else self.model.rollback)(xid)

    def forget(self, xid: int) -> None:
        if self.model.outcomes.pop(xid, None) is not None:
            self.branches.forget(self.session, XIDS[xid])

    def disconnect(self) -> None:
        self.session.close(failed=True)
        settle_down(self.domain)
        self.model.disconnect()
        self.connect()

    def purge(self, name: str) -> None:
        self.queue(name).purge()
        self.model.queues[name] = [entry for entry in self.model.queues[name] if entry.where != "waiting"]

    # -- the store -------------------------------------------------------------------------------------------

    def cut(self) -> None:
        self.world.hands.turn()

    def write(self) -> None:
        if self.world.hands.jobs:
            self.world.hands.work()

    def settle_store(self) -> None:
        self.world.settle()
        self.observe()
        self.world.settle()
        self.durable = self.model.after_crash()

    def restart(self) -> None:
        self.settle_store()
        self.world.stop()
        self.come_back()

    def crash(self) -> None:
        self.world.crash()
        self.come_back()

    def come_back(self) -> None:
        self.model = self.durable.after_crash()
        self.durable = self.model.after_crash()
        self.open()
        assert (self.found.lost, self.found.missing, self.found.orphans) == (0, 0, 0)
        self.connect()

    # -- comparing -------------------------------------------------------------------------------------------

    def observe(self) -> None:
        """Note in the model what was delivered."""
        for name, (recorder, _) in self.consumers.items():
            for reference in recorder.take():
                waiting = [entry for entry in self.model.queues[name] if entry.where == "waiting"]
                body = reference.message.view.body
                entry = next(entry for entry in waiting if entry.body == body)
                assert reference.delivery_count == entry.attempts
                entry.where = "out"
                self.out.append((name, reference, entry))

    def step(self, operation: tuple[object, ...]) -> None:
        name, *arguments = operation
        getattr(self, str(name))(*arguments)
        settle_down(self.domain)
        self.observe()
        self.compare()
        # Whatever is in the batch of this moment is durable with it.
        self.domain.storage.when_durable(partial(setattr, self, "durable", self.model.after_crash()))

    def compare(self) -> None:
        for name, entries in self.model.queues.items():
            queue = self.queue(name)
            waiting = [entry.body for entry in entries if entry.where == "waiting"]
            assert [reference.message.view.body for reference in browse_all(queue)] == waiting
            assert queue.waiting_count == len(waiting)
            assert queue.delivering_count == len(entries) - len(waiting)
            if name == "b":
                sent = [one for each in self.model.branches.values() for where, one in each.sends if where == name]
                assert queue.address.message_count == len(entries) + len(sent)
        prepared = {xid: each for xid, each in self.model.branches.items() if each.is_prepared}
        known = {XIDS[xid] for xid in [*prepared, *self.model.outcomes]}
        assert set(self.branches.recover(self.session)) == known
        claimed = []
        for each in self.branches.prepared():
            if each.content is not None:
                claimed += [one.reference.message for one in each.content.settlements]
        check_held(self.domain, claimed, sessions=[self.session])
        shelf = self.domain.queues.get(PREPARED)
        assert (0 if shelf is None else shelf.message_count) == sum(len(each.sends) for each in prepared.values())

    def end(self) -> None:
        """End everything, and find nothing left."""
        self.settle_store()
        self.restart()
        self.compare()
        for xid, each in list(self.model.branches.items()):
            assert each.is_prepared
            self.step(("rollback", xid))
        for xid in list(self.model.outcomes):
            self.step(("forget", xid))
        tables_before = self.domain.dispatcher.tables.size_bytes
        self.step(("send_in", 0, "a", 2, True))
        self.step(("prepare", 0))
        self.step(("cut",))
        assert self.domain.dispatcher.tables.size_bytes >= tables_before + BRANCH_BYTES + 2 * ENTRY_BYTES
        self.step(("rollback", 0))
        self.settle_store()
        assert not self.world.store.load_records("branches")
        assert not self.world.store.load_records("heuristics")
        self.world.audit()
        self.world.crash()
        assert check_folder(self.folder) == []


def run(operations: list[tuple[object, ...]]) -> None:
    folder = Path(tempfile.mkdtemp())
    life = Life(folder)
    try:
        for operation in operations:
            life.step(operation)
        life.end()
    finally:
        life.world.crash()
        shutil.rmtree(folder, ignore_errors=True)


@settings(max_examples=examples(60), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(OPERATIONS, max_size=40))
def test_branches_are_whole_or_absent_whatever_happens(operations: list[tuple[object, ...]]) -> None:
    run(operations)


@pytest.mark.parametrize("seed", range(25))
def test_long_histories_of_branches(seed: int) -> None:
    run(history(seed))


def fails() -> bool:
    """Whether any of the long histories notices something."""
    for seed in range(25):
        try:
            run(history(seed))
        except Exception:
            return True
    return False


def test_claims_that_are_not_restored_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """V1: a planted bug, claimed messages wait again after a restart."""
    monkeypatch.setattr(branch, "claim_stored", lambda queue, priority, sequence: None)

    assert fails()


def test_a_record_that_is_not_removed_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """V1: a planted bug, a branch that was committed is there again after a restart."""
    drop = Branches._drop

    def forgetful(self: Branches, *arguments: object) -> None:
        storage = self._domain.storage
        save = storage.save_record
        storage.save_record = lambda *_: None  # type: ignore[method-assign]
        try:
            drop(self, *arguments)  # type: ignore[arg-type]
        finally:
            storage.save_record = save  # type: ignore[method-assign]

    monkeypatch.setattr(Branches, "_drop", forgetful)

    assert fails()
