"""A ring queue behaves as a list that is cut to size, wherever its messages are."""

import shutil
import tempfile
from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from random import Random
from typing import Any, Final

import pytest
from attrs import define
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from artemis_py.core.messages.builtin_format import plain_message
from artemis_py.core.messages.view import MessageView
from artemis_py.core.queues.consumer import ACCEPTED, FAILED, RELEASED, Consumer
from artemis_py.core.queues.reference import Reference
from artemis_py.core.queues.rules import ring
from artemis_py.core.routing.domain import Domain
from artemis_py.core.settings.address_settings import AddressSettings
from artemis_py.core.settings.queue_settings import RingEviction
from artemis_py.store.scratch import ScratchStore
from tests.core_harness import Recorder, attach, browse_all, make_domain, make_queue, pass_time, settle_down
from tests.examples import examples
from tests.unit.store.world import SMALL_MAP_BYTES, World

MAX_ATTEMPTS: Final = 3
SIZES: Final = (-1, 0, 1, 2, 3, 5, 8, 13)
OUTCOMES: Final = (ACCEPTED, ACCEPTED, RELEASED, RELEASED, FAILED)
Operation = tuple[Any, ...]

OPERATIONS: Final = st.one_of(
    st.tuples(st.just("send"), st.integers(1, 8), st.integers(3, 5), st.booleans()),
    st.tuples(st.just("send"), st.integers(1, 12), st.just(4), st.just(True)),
    st.tuples(st.just("later"), st.integers(1, 6), st.integers(0, 30)),
    st.tuples(st.just("attach")),
    st.tuples(st.just("credit"), st.integers(0, 2), st.integers(0, 6)),
    st.tuples(st.just("settle"), st.integers(0, 2), st.sampled_from(OUTCOMES)),
    st.tuples(st.just("detach"), st.integers(0, 2), st.booleans()),
    st.tuples(st.just("resize"), st.sampled_from(SIZES), st.integers(0, 4)),
    st.tuples(st.just("evict"), st.sampled_from(RingEviction)),
    st.tuples(st.just("wait"), st.integers(1, 20)),
    st.tuples(st.just("purge")),
    st.tuples(st.just("cut")),
    st.tuples(st.just("commit")),
    st.tuples(st.just("restart")),
    st.tuples(st.just("crash")),
)


def history(seed: int) -> list[Operation]:
    """A longer one than hypothesis comes to by itself, with deep queues."""
    dice = Random(seed)
    made: list[Operation] = [("resize", dice.choice((3, 5, 8, 13)), 0), ("evict", dice.choice(list(RingEviction)))]
    for _ in range(70):
        made.append(
            dice.choice(
                (
                    ("send", dice.randint(1, 12), dice.choice((3, 4, 4, 5)), dice.random() < 0.7),
                    ("send", dice.randint(1, 12), 4, True),
                    ("later", dice.randint(1, 4), dice.randint(0, 30)),
                    ("attach",),
                    ("credit", dice.randint(0, 2), dice.randint(0, 6)),
                    ("settle", dice.randint(0, 2), dice.choice(OUTCOMES)),
                    ("settle", dice.randint(0, 2), dice.choice(OUTCOMES)),
                    ("wait", dice.randint(1, 20)),
                    ("cut",),
                    ("commit",),
                )
            )
            if dice.random() < 0.85
            else dice.choice(
                (
                    ("resize", dice.choice(SIZES), dice.randint(0, 4)),
                    ("evict", dice.choice(list(RingEviction))),
                    ("detach", dice.randint(0, 2), dice.random() < 0.3),
                    ("restart",),
                    ("crash",),
                )
            )
        )
    return made


def body_of(reference: Reference) -> str:
    return str(reference.message.view.body)


@define
class Entry:
    """A message in the model."""

    body: str
    priority: int
    durable: bool
    sequence: int = 0
    attempts: int = 0


class Model:
    """A queue as a list, with what consumers have and what is scheduled."""

    def __init__(self) -> None:
        self.waiting: list[Entry] = []
        self.scheduled: list[tuple[int, int, Entry]] = []
        self.size = -1
        self.eviction = RingEviction.OLDEST
        self.replaced = 0
        self._last = 0
        self.with_consumers: list[Entry] = []
        """What consumers have; the harness knows which."""

    @property
    def in_order(self) -> list[Entry]:
        return sorted(self.waiting, key=lambda entry: (-entry.priority, entry.sequence))

    def add(self, entry: Entry) -> None:
        self._last += 1
        entry.sequence = self._last
        self.waiting.append(entry)
        self.cut()

    def schedule(self, entry: Entry, due_ms: int) -> None:
        self._last += 1
        self.scheduled.append((due_ms, self._last, entry))

    def fall_due(self, now_ms: int) -> None:
        self.scheduled.sort(key=lambda planned: planned[:2])
        while self.scheduled and self.scheduled[0][0] <= now_ms:
            self.add(self.scheduled.pop(0)[2])

    def cut(self) -> None:
        while 0 <= self.size < len(self.waiting):
            if self.eviction is RingEviction.HEAD:
                self.waiting.remove(self.in_order[0])
            else:
                self.waiting.remove(min(self.waiting, key=lambda entry: entry.sequence))
            self.replaced += 1

    def deliver(self, bodies: set[str]) -> None:
        taken = [entry for entry in self.waiting if entry.body in bodies]
        self.waiting = [entry for entry in self.waiting if entry.body not in bodies]
        self.with_consumers += taken

    def settle(self, body: str, outcome: int) -> None:
        (entry,) = (entry for entry in self.with_consumers if entry.body == body)
        self.with_consumers.remove(entry)
        if outcome == ACCEPTED:
            return
        entry.attempts += outcome == FAILED
        if entry.attempts >= MAX_ATTEMPTS:
            return
        if 0 <= self.size <= len(self.waiting) and self.eviction is RingEviction.HEAD:
            self.replaced += 1
            return
        self.waiting.append(entry)
        self.cut()

    def after_crash(self) -> "Model":
        """What is left of this state when the broker was killed and is started again."""
        left = deepcopy(self)
        left.waiting = [entry for entry in left.waiting + left.with_consumers if entry.durable]
        left.with_consumers = []
        left.replaced = 0
        left.cut()
        return left


class Side:
    """A queue and its consumers, beside the model of it."""

    def __init__(self) -> None:
        self.model = Model()
        self.consumers: list[tuple[Recorder, Consumer, list[Reference]]] = []
        self.number = 0
        self.domain = self.make()
        self.queue = make_queue(self.domain)

    def make(self) -> Domain:
        raise NotImplementedError

    def end(self) -> None:
        """Close what is open."""

    def apply(self, operation: Operation) -> None:
        """Do it on both sides, and compare."""
        name, *arguments = operation
        getattr(self, name)(*arguments)
        settle_down(self.domain)
        self.collect()
        self.check()

    def collect(self) -> None:
        """Consumers together got the head of the queue, as much as they had credit for."""
        waiting = self.model.in_order
        delivered: list[str] = []
        credit = 0
        for recorder, consumer, unsettled in self.consumers:
            taken = recorder.take()
            credit += len(taken) + consumer.credit
            unsettled += taken
            delivered += [body_of(reference) for reference in taken]
        assert sorted(delivered) == sorted(entry.body for entry in waiting[:credit])
        self.model.deliver(set(delivered))

    def check(self) -> None:
        model, queue = self.model, self.queue
        assert [body_of(reference) for reference in browse_all(queue)] == [one.body for one in model.in_order]
        assert (queue.waiting_count, queue.delivering_count, queue.scheduled_count, queue.messages_replaced) == (
            len(model.waiting),
            len(model.with_consumers),
            len(model.scheduled),
            model.replaced,
        )

    def _route(self, entry: Entry, delivery_time_ms: int = 0) -> None:
        message = plain_message("q", MessageView(body=entry.body), entry.durable, entry.priority)
        message.delivery_time_ms = delivery_time_ms
        self.domain.route(message, self.domain.addresses["q"])

    def _entry(self, priority: int, durable: bool) -> Entry:
        self.number += 1
        return Entry(f"m{self.number:04}", priority, durable)

    def send(self, count: int, priority: int, durable: bool) -> None:
        for _ in range(count):
            entry = self._entry(priority, durable)
            self._route(entry)
            self.model.add(entry)

    def later(self, count: int, delay_ms: int) -> None:
        for index in range(count):
            entry = self._entry(4, True)
            due_ms = self.domain.dispatcher.now_ms + delay_ms + 7 * (index % 3) + 1
            self._route(entry, due_ms)
            self.model.schedule(entry, due_ms)

    def wait(self, milliseconds: int) -> None:
        self.model.fall_due(self.domain.dispatcher.now_ms + milliseconds)
        pass_time(self.domain, milliseconds)

    def attach(self) -> None:
        if len(self.consumers) < 3:
            recorder, consumer = attach(self.domain, self.queue, 0)
            self.consumers.append((recorder, consumer, []))

    def credit(self, index: int, credit: int) -> None:
        if index < len(self.consumers):
            self.consumers[index][1].grant(credit)

    def settle(self, index: int, outcome: int) -> None:
        if index < len(self.consumers) and self.consumers[index][2]:
            _, consumer, unsettled = self.consumers[index]
            reference = unsettled.pop(self.number % len(unsettled))
            self.model.settle(body_of(reference), outcome)
            consumer.settle(reference, outcome)

    def detach(self, index: int, failed: bool) -> None:
        if index < len(self.consumers):
            _, consumer, unsettled = self.consumers.pop(index)
            for reference in sorted(unsettled, key=lambda each: each.sequence, reverse=True):
                self.model.settle(body_of(reference), FAILED if failed else RELEASED)
            consumer.close(failed)

    def resize(self, size: int, count: int) -> None:
        """With messages that come while the queue shrinks: it never grows."""
        self.model.size = size
        self.model.cut()
        self.domain.update_queue("q", {"ring_size": size})
        if self.model.eviction is RingEviction.OLDEST and not any(consumer.credit for _, consumer, _ in self.consumers):
            for _ in range(count):
                before = self.queue.waiting_count
                self.send(1, 4, True)
                assert size < 0 or self.queue.waiting_count <= max(before, size)

    def evict(self, eviction: RingEviction) -> None:
        self.model.eviction = eviction
        self.domain.update_queue("q", {"ring_eviction": eviction})

    def purge(self) -> None:
        self.queue.purge()
        self.model.waiting = []
        self.model.scheduled = []

    def cut(self) -> None:
        """Without a store there are no commits."""

    commit = cut

    def restart(self) -> None:
        """Without a store nothing is left to start with."""

    crash = restart


class MemorySide(Side):
    """In memory."""

    def make(self) -> Domain:
        return make_domain({"#": AddressSettings(max_read_page_messages=-1, max_delivery_attempts=MAX_ATTEMPTS)})


class SpilledSide(Side):
    """In memory, with room for one message; everything else goes to scratch files."""

    def __init__(self, folder: Path) -> None:
        self.scratch = ScratchStore(folder, SMALL_MAP_BYTES)
        super().__init__()

    def make(self) -> Domain:
        settings = {"#": AddressSettings(max_delivery_attempts=MAX_ATTEMPTS, max_size_messages=1)}
        return make_domain(settings, scratch=self.scratch)

    def end(self) -> None:
        self.scratch.close()


class PagedSide(Side):
    """On disk, with a window of two messages; what is not durable is in scratch files, or in memory."""

    def __init__(self, folder: Path, spills: bool) -> None:
        self.folder = folder
        self.spills = spills
        super().__init__()
        self.world.settle()
        self.committed = deepcopy(self.model)

    def make(self) -> Domain:
        self.scratch = ScratchStore(self.folder / "scratch", SMALL_MAP_BYTES) if self.spills else None
        values = AddressSettings(max_read_page_messages=2, max_delivery_attempts=MAX_ATTEMPTS)
        values = values.changed(max_size_messages=1 if self.spills else -1)
        self.world = World(self.folder / "journal", {"#": values}, scratch=self.scratch)
        return self.world.domain

    def end(self) -> None:
        self.world.crash()
        if self.scratch is not None:
            self.scratch.close()

    def cut(self) -> None:
        """A commit begins, and does not end yet."""
        self.world.hands.turn()

    def commit(self) -> None:
        self.world.settle()
        self.world.audit()
        self.collect()
        self.committed = deepcopy(self.model)

    def restart(self) -> None:
        """Consumers leave first."""
        while self.consumers:
            self.detach(0, False)
        self.commit()
        self.crash()

    def crash(self) -> None:
        """What was not committed is gone, and consumers lose what they have."""
        now_ms = self.domain.dispatcher.now_ms
        self.end()
        self.consumers = []
        self.model = self.committed.after_crash()
        self.domain = self.make()
        self.domain.dispatcher.now_ms = now_ms
        self.queue = self.domain.queues["q"]
        self.model.fall_due(now_ms)
        pass_time(self.domain, 0)
        self.commit()


def run(operations: list[Operation], side: Side) -> None:
    """Apply all; then everything that is left can be consumed."""
    try:
        for operation in operations:
            side.apply(operation)
        side.apply(("attach",))
        for index in range(len(side.consumers)):
            side.apply(("credit", index, 1000))
        assert side.queue.waiting_count == 0
    finally:
        side.end()


@pytest.fixture(autouse=True)
def short_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    """A ring shrinks in many turns of the loop."""
    monkeypatch.setattr(ring, "SLICE_MESSAGES", 3)


@pytest.fixture
def folder() -> Iterator[Path]:
    """One for all examples: hypothesis calls the test often."""
    path = Path(tempfile.mkdtemp())
    yield path
    shutil.rmtree(path)


def make_side(kind: str, folder: Path) -> Side:
    shutil.rmtree(folder)
    folder.mkdir()
    if kind == "memory":
        return MemorySide()
    return SpilledSide(folder) if kind == "spilled" else PagedSide(folder, kind == "paged, spilled")


KINDS: Final = ("memory", "spilled", "paged", "paged, spilled")


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=examples(100), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(operations=st.lists(OPERATIONS, min_size=8, max_size=40))
def test_a_ring_is_a_list_that_is_cut_to_size(folder: Path, kind: str, operations: list[Operation]) -> None:
    """Contents, order and counts after each step."""
    run([("resize", 5, 0), *operations], make_side(kind, folder))


@pytest.mark.parametrize("kind", KINDS)
def test_long_histories_of_rings_are_exact_as_well(folder: Path, kind: str) -> None:
    """Always the same histories; hypothesis finds short ones."""
    for seed in range(40):
        run(history(seed), make_side(kind, folder))
