"""A last-value queue behaves as a dictionary, whatever is in memory and on disk, over restarts and crashes."""

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Final

import pytest
from attrs import define, evolve
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from artemis_py.core.messages.builtin_format import plain_message
from artemis_py.core.messages.message import Message
from artemis_py.core.messages.view import MessageView
from artemis_py.core.queues import bulk, delays
from artemis_py.core.queues.consumer import ACCEPTED, FAILED, REJECTED, RELEASED, Consumer
from artemis_py.core.queues.reference import Reference
from artemis_py.core.routing.domain import Domain
from artemis_py.core.routing.transaction import Transaction
from artemis_py.core.runtime.accounts import KEY_BYTES, TAIL_BYTES
from artemis_py.core.settings.address_settings import AddressSettings
from artemis_py.store import last_values, schema
from artemis_py.store.scratch import ScratchStore
from artemis_py.storetools.check import check_folder
from tests.core_harness import Recorder, attach, browse_all, make_domain, make_queue, pass_time, settle_down
from tests.examples import examples
from tests.unit.store.world import SMALL_MAP_BYTES, World

DELAY_MS: Final = 5

KEYS: Final = (None, "a", "b", "c", "d" * 70)

SETTINGS: Final = {
    "#": AddressSettings(
        max_read_page_messages=2, max_size_messages=1, max_delivery_attempts=-1, redelivery_delay=DELAY_MS
    )
}

MESSAGES: Final = st.tuples(st.sampled_from(KEYS), st.sampled_from((3, 4, 4, 4, 5)), st.booleans())

OPERATIONS: Final = st.one_of(
    st.tuples(st.just("send"), st.lists(MESSAGES, min_size=1, max_size=8)),
    st.tuples(st.just("send"), st.lists(MESSAGES, min_size=1, max_size=8)),
    st.tuples(st.just("later"), st.sampled_from(KEYS), st.booleans(), st.integers(1, 12)),
    st.tuples(st.just("credit"), st.integers(1, 4)),
    st.tuples(st.just("settle"), st.integers(0, 5), st.sampled_from((ACCEPTED, RELEASED, FAILED, REJECTED))),
    st.tuples(st.just("send_in_transaction"), MESSAGES),
    st.tuples(st.just("settle_in_transaction"), st.integers(0, 5), st.sampled_from((ACCEPTED, RELEASED, FAILED))),
    st.tuples(st.just("end_transaction"), st.booleans()),
    st.tuples(st.just("detach")),
    st.tuples(st.just("purge"), st.lists(MESSAGES, max_size=3)),
    st.tuples(st.just("remove"), st.sampled_from(KEYS[1:])),
    st.tuples(st.just("wait"), st.integers(1, 8)),
    st.tuples(st.just("cut")),
    st.tuples(st.just("write")),
    st.tuples(st.just("settle_store")),
    st.tuples(st.just("restart")),
    st.tuples(st.just("crash")),
)


def history(seed: int) -> list[tuple[object, ...]]:
    """A longer one than hypothesis makes, with more sends and deliveries, and fewer purges and restarts."""
    dice = Random(seed)

    def message() -> tuple[object, ...]:
        return dice.choice(KEYS), dice.choice((3, 4, 4, 4, 5)), dice.random() < 0.6

    made: list[tuple[object, ...]] = []
    for _ in range(70):
        drawn = dice.random()
        if drawn < 0.35:
            made.append(("send", [message() for _ in range(dice.randint(1, 8))]))
        elif drawn < 0.5:
            made.append(("credit", dice.randint(1, 4)))
        elif drawn < 0.7:
            made.append(("settle", dice.randint(0, 5), dice.choice((ACCEPTED, RELEASED, RELEASED, FAILED))))
        elif drawn < 0.75:
            made.append(("send_in_transaction", message()))
        elif drawn < 0.8:
            made.append(("settle_in_transaction", dice.randint(0, 5), dice.choice((ACCEPTED, RELEASED, FAILED))))
        elif drawn < 0.83:
            made.append(("end_transaction", dice.random() < 0.7))
        elif drawn < 0.87:
            made.append(("later", dice.choice(KEYS), dice.random() < 0.7, dice.randint(1, 12)))
        else:
            names = ("cut", "cut", "write", "settle_store", "settle_store", "wait", "wait", "restart", "crash", "purge")
            name = dice.choice((*names, "remove", "detach"))
            arguments = {
                "wait": (dice.randint(1, 8),), "purge": ([message()],), "remove": (dice.choice(KEYS[1:]),)
            }  # fmt: skip
            made.append((name, *arguments.get(name, ())))
    return made


@define(eq=False)
class Entry:
    """A message in the model."""

    body: str
    key: str | None
    priority: int
    durable: bool
    sequence: int = 0
    """Place in the queue; 0 while it waits for its delivery time."""
    due_ms: int = 0
    where: str = "waiting"
    """waiting, scheduled, delayed, out (at the consumer), claimed"""
    is_superseded: bool = False
    is_early: bool = False
    """Whether it was sent in a transaction that is not known to be durable yet."""
    is_unread: bool = False
    """Whether an earlier run delayed it: until it is read from disk it counts as waiting."""


class Model:
    """A dictionary, the messages without a key, and what is at the consumer."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self._sequence = 0

    def snapshot(self) -> list[Entry]:
        """What a crash would bring back if all of it were durable now."""
        kept = []
        for entry in self.entries:
            if entry.durable and not entry.is_superseded:
                entry = evolve(entry, is_early=False)
                if entry.where in ("out", "claimed"):
                    entry.where = "waiting"
                kept.append(entry)
        return kept

    def come_back(self, snapshot: list[Entry]) -> None:
        self.entries = [evolve(entry, is_unread=entry.where == "delayed") for entry in snapshot]

    def send(self, entry: Entry) -> None:
        self.entries.append(entry)
        self.make_visible(entry)

    def make_visible(self, entry: Entry) -> None:
        if entry.key is not None:
            for older in [one for one in self.entries if one.key == entry.key and one is not entry and one.sequence]:
                if older.where in ("waiting", "delayed"):
                    self.entries.remove(older)
                else:
                    older.is_superseded = True
        self._sequence += 1
        entry.sequence = self._sequence
        entry.where = "waiting"

    def waiting(self) -> list[Entry]:
        found = [entry for entry in self.entries if entry.where == "waiting"]
        return sorted(found, key=lambda entry: (-entry.priority, entry.sequence))

    def give_back(self, entry: Entry, outcome: int, now_ms: int) -> None:
        if outcome in (ACCEPTED, REJECTED) or entry.is_superseded:
            self.entries.remove(entry)
        elif outcome == FAILED:
            entry.where, entry.due_ms = "delayed", now_ms + DELAY_MS
        else:
            entry.where = "waiting"

    def pass_to(self, now_ms: int) -> None:
        due = [entry for entry in self.entries if entry.where in ("scheduled", "delayed") and entry.due_ms <= now_ms]
        # Delayed ones have their places, so only the order of the scheduled ones among each other counts.
        for entry in sorted(due, key=lambda entry: entry.due_ms):
            if entry not in self.entries:
                continue
            if entry.where == "scheduled":
                self.make_visible(entry)
            else:
                entry.where = "waiting"
                entry.is_unread = False

    def count(self, *where: str) -> int:
        return sum(entry.where in where for entry in self.entries)


class Run:
    """The queue and the model beside it."""

    def __init__(self, folder: Path, kind: str) -> None:
        self.folder = folder
        self.kind = kind
        self.model = Model()
        self.durable: list[Entry] = []
        """What is committed."""
        self.in_flight: list[Entry] = []
        """What the commit that is under way will make durable."""
        self.number = 0
        self.now_ms = 0
        self.world: World | None = None
        self.scratch: ScratchStore | None = None
        self.start()

    # -- its life ----------------------------------------------------------------------------------------------

    def start(self) -> None:
        self.scratch = ScratchStore(self.folder / "scratch", SMALL_MAP_BYTES) if "scratch" in self.kind else None
        if "lmdb" in self.kind:
            self.world = World(self.folder / "journal", SETTINGS, scratch=self.scratch)
            self.domain: Domain = self.world.domain
        else:
            self.domain = make_domain(SETTINGS, scratch=self.scratch)
        if self.now_ms:
            self.domain.dispatcher.now_ms = self.now_ms
        self.now_ms = self.domain.dispatcher.now_ms
        queues = self.domain.queues
        self.queue = queues["q"] if "q" in queues else make_queue(self.domain, last_value_key="key")
        self.transaction: Transaction | None = None
        self.sends: list[Entry] = []
        self.settlements: list[tuple[Entry, int]] = []
        self.unsettled: list[tuple[Reference, Entry]] = []
        self.recorder: Recorder
        self.consumer: Consumer
        self.recorder, self.consumer = attach(self.domain, self.queue, 0)
        self.base_bytes = self.domain.dispatcher.tables.size_bytes - TAIL_BYTES * self._tails()
        if self.world is not None and self.number == 0:
            self.world.settle()

    def _tails(self) -> int:
        return sum(tail is not None for tail in self.queue.backlog.tails)

    def end(self) -> None:
        if self.world is not None:
            self.world.crash()
        if self.scratch is not None:
            self.scratch.close()

    def restart(self) -> None:
        if self.world is None:
            return
        self.world.settle()
        self._die(self.model.snapshot())

    def crash(self) -> None:
        if self.world is not None:
            self._die(self.durable)

    def _die(self, left: list[Entry]) -> None:
        self.end()
        self.durable = left
        self.model.come_back(left)
        self.start()
        pass_time(self.domain, 0)
        self.model.pass_to(self.now_ms)

    # -- the store ---------------------------------------------------------------------------------------------

    def cut(self) -> None:
        """A commit begins, and does not end yet."""
        if self.world is not None and not self.world.hands.jobs:
            snapshot = self.model.snapshot()
            self.world.hands.turn()
            if self.world.hands.jobs:
                self.in_flight = snapshot

    def write(self) -> None:
        """The commit that is under way ends; another one may begin."""
        if self.world is not None and self.world.hands.jobs:
            following = self.model.snapshot()
            self.world.hands.work()
            self.durable = self.in_flight
            self.in_flight = following

    def settle_store(self) -> None:
        if self.world is not None:
            self.world.settle()
            self.durable = self.model.snapshot()
            for entry in self.model.entries:
                entry.is_early = False
            audit(self.world)

    # -- clients -----------------------------------------------------------------------------------------------

    def _message(self, key: str | None, priority: int, durable: bool, due_ms: int = 0) -> tuple[Message, Entry]:
        self.number += 1
        body = str(self.number)
        properties: dict[str, object] = {} if key is None else {"key": key}
        message = plain_message("q", MessageView(body=body, properties=properties), durable, priority)
        message.delivery_time_ms = due_ms
        stays = durable and self.world is not None
        return message, Entry(body, key, priority, stays)

    def send(self, messages: list[tuple[str | None, int, bool]]) -> None:
        for key, priority, durable in messages:
            message, entry = self._message(key, priority, durable)
            self.domain.route(message, self.domain.addresses["q"])
            self.model.send(entry)

    def later(self, key: str | None, durable: bool, delay_ms: int) -> None:
        message, entry = self._message(key, 4, durable, self.now_ms + delay_ms)
        entry.where, entry.due_ms = "scheduled", self.now_ms + delay_ms
        self.domain.route(message, self.domain.addresses["q"])
        self.model.entries.append(entry)

    def credit(self, count: int) -> None:
        self.consumer.grant(count)

    def settle(self, index: int, outcome: int) -> None:
        if self.unsettled:
            reference, entry = self.unsettled.pop(index % len(self.unsettled))
            self.consumer.settle(reference, outcome)
            self.model.give_back(entry, outcome, self.now_ms)

    def _open(self) -> Transaction:
        if self.transaction is None:
            self.transaction = Transaction(1, self.now_ms)
        return self.transaction

    def send_in_transaction(self, wanted: tuple[str | None, int, bool]) -> None:
        message, entry = self._message(*wanted)
        self._open().send(message, [self.queue])
        self.sends.append(entry)

    def settle_in_transaction(self, index: int, outcome: int) -> None:
        if self.unsettled:
            reference, entry = self.unsettled.pop(index % len(self.unsettled))
            assert self._open().settle(reference, outcome)
            entry.where = "claimed"
            self.settlements.append((entry, outcome))

    def end_transaction(self, commits: bool) -> None:
        transaction, sends, settlements = self.transaction, self.sends, self.settlements
        self.transaction, self.sends, self.settlements = None, [], []
        if transaction is None:
            return
        if commits:
            transaction.commit()
            for entry in sends:
                entry.is_early = entry.durable
                self.model.send(entry)
            for entry, outcome in settlements:
                self.model.give_back(entry, outcome, self.now_ms)
        else:
            transaction.rollback()
            for entry, _ in settlements:
                self.model.give_back(entry, FAILED, self.now_ms)

    def detach(self) -> None:
        self.consumer.close()
        settle_down(self.domain)
        for _, entry in self.unsettled:
            self.model.give_back(entry, RELEASED, self.now_ms)
        self.unsettled = []
        self.recorder, self.consumer = attach(self.domain, self.queue, 0)

    def purge(self, messages: list[tuple[str | None, int, bool]]) -> None:
        """Everything waiting goes; messages that come before the slices have freed it all are not disturbed."""
        self.queue.purge()
        gone = ("waiting", "scheduled", "delayed")
        self.model.entries = [entry for entry in self.model.entries if entry.where not in gone]
        self.send(messages)

    def remove(self, key: str) -> None:
        """As an operator does it, with a filter."""
        self.domain.dispatcher.slices.start(bulk.remove(self.queue, _Wanted(key)))  # type: ignore[arg-type]
        settle_down(self.domain)
        for entry in [one for one in self.model.entries if one.key == key]:
            if entry.where in ("waiting", "scheduled", "delayed"):
                self.model.entries.remove(entry)

    def wait(self, milliseconds: int) -> None:
        self.now_ms += milliseconds
        self.model.pass_to(self.now_ms)
        pass_time(self.domain, milliseconds)

    # -- comparing ---------------------------------------------------------------------------------------------

    def apply(self, operation: tuple[object, ...]) -> None:
        name, *arguments = operation
        getattr(self, str(name))(*arguments)
        settle_down(self.domain)
        self.take_deliveries()
        self.compare()

    def take_deliveries(self) -> None:
        for reference in self.recorder.take():
            head = self.model.waiting()[0]
            assert reference.message.view.body == head.body
            head.where = "out"
            head.is_early = False
            self.unsettled.append((reference, head))
        waiting = self.model.waiting()
        assert not waiting or self.consumer.credit == 0 or waiting[0].is_early

    def compare(self) -> None:
        queue, model = self.queue, self.model
        unread = {entry.body for entry in model.entries if entry.is_unread}
        shown = [reference.message.view.body for reference in browse_all(queue)]
        waiting = [entry.body for entry in model.waiting()]
        assert [body for body in shown if body not in unread] == waiting
        assert queue.waiting_count == len(shown)
        assert queue.delivering_count == model.count("out", "claimed")
        assert queue.message_count == len(model.entries)
        if not unread:
            assert queue.scheduled_count == model.count("scheduled", "delayed")
        keyed = self.domain.dispatcher.tables.size_bytes - self.base_bytes - TAIL_BYTES * self._tails()
        assert keyed % KEY_BYTES == 0
        assert 0 <= keyed <= KEY_BYTES * len(KEYS)

    def finish(self) -> None:
        """Everything is consumed, and nothing is left anywhere."""
        self.end_transaction(False)
        self.apply(("detach",))
        self.apply(("settle_store",))
        self.apply(("wait", 100))
        self.apply(("settle_store",))
        self.apply(("credit", 1000))
        while self.unsettled:
            self.apply(("settle", 0, ACCEPTED))
        self.apply(("settle_store",))
        assert self.queue.message_count == 0
        address = self.queue.address
        assert (address.size_bytes, address.message_count, address.paged_count, address.paged_bytes) == (0, 0, 0, 0)
        assert self.domain.dispatcher.tables.size_bytes == self.base_bytes
        if self.world is not None:
            assert self.world.count(schema.LAST_VALUES) == 0
            assert self.world.count(schema.REFERENCES) == 0
        if self.scratch is not None and self.scratch._env is not None:
            self.scratch._write()
            while self.scratch.sweep():
                pass
            with self.scratch._env.begin() as transaction:
                assert transaction.stat()["entries"] == 0


class _Wanted:
    """Wants the messages of one key; it has what `bulk.remove` needs of a filter."""

    text = ""

    def __init__(self, key: str) -> None:
        self._key = key

    def matches(self, reference: Reference) -> bool:
        return reference.lookup("key") == self._key


def audit(world: World) -> None:
    """Each stored message with a key is in the index, and nothing else is."""
    world.audit()
    found: dict[bytes, int] = {}
    with world.environment.begin() as transaction:
        for key, value in transaction.cursor(db=world.environment.database(schema.REFERENCES)):
            last_key = schema.last_key_in(bytes(value))
            if last_key is not None:
                queue_id, handle = schema.read_place(bytes(key))
                found[last_values.entry_key(queue_id, last_key)] = handle
        index = {
            bytes(key): last_values.read_entry(bytes(key), bytes(value))[0]
            for key, value in transaction.cursor(db=world.environment.database(schema.LAST_VALUES))
        }
    assert index == found


@pytest.fixture(autouse=True)
def short_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is done to all of a queue takes many turns, as in a long one."""
    monkeypatch.setattr(bulk, "SLICE_MESSAGES", 3)
    monkeypatch.setattr(delays, "LEAST_DISCARDED", 1)


@pytest.fixture
def folder() -> Iterator[Path]:
    """One for all examples: hypothesis calls the test often."""
    path = Path(tempfile.mkdtemp())
    yield path
    shutil.rmtree(path, ignore_errors=True)


KINDS: Final = ("memory", "scratch", "lmdb", "lmdb and scratch")


def play(folder: Path, kind: str, operations: list[tuple[object, ...]]) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    run = Run(folder, kind)
    try:
        for operation in operations:
            run.apply(operation)
        run.finish()
    finally:
        run.end()
    if run.world is not None:
        assert check_folder(folder / "journal") == []


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=examples(100), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(operations=st.lists(OPERATIONS, min_size=8, max_size=40))
def test_a_last_value_queue_is_a_dictionary(folder: Path, kind: str, operations: list[tuple[object, ...]]) -> None:
    """Contents, order and counts are exact after every step."""
    play(folder, kind, operations)


@pytest.mark.parametrize("kind", KINDS)
def test_long_histories_are_exact_as_well(folder: Path, kind: str) -> None:
    """Always the same histories; hypothesis finds short ones."""
    for seed in range(40):
        play(folder, kind, history(seed))
