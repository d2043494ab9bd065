"""A non-destructive queue shows every message once to each consumer, wherever its messages are."""

from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any, Final

import pytest
from attrs import define
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from artemis_py.core.messages.builtin_format import plain_message
from artemis_py.core.messages.view import MessageView
from artemis_py.core.queues import bulk
from artemis_py.core.queues.consumer import ACCEPTED, FAILED, REJECTED, RELEASED, Consumer
from artemis_py.core.queues.reference import Shown
from artemis_py.core.routing.transaction import Transaction
from artemis_py.core.selectors.filter import parse_filter
from artemis_py.core.settings.queue_settings import RingEviction
from tests.core_harness import attach, pass_time, settle_down
from tests.examples import examples
from tests.property.test_ring import (
    KINDS,
    Entry,
    MemorySide,
    Operation,
    PagedSide,
    Side,
    SpilledSide,
    body_of,
    folder,
    short_slices,
)

__all__ = ["folder", "short_slices"]

COLOURS: Final = ("red", "green")
OUTCOMES: Final = (ACCEPTED, ACCEPTED, RELEASED, FAILED, REJECTED)

SENDS: Final = st.tuples(
    st.just("send_coloured"),
    st.integers(1, 8),
    st.integers(3, 5),
    st.booleans(),
    st.sampled_from(COLOURS),
    st.sampled_from((0, 0, 0, 5, 20)),
    st.booleans(),
)
COMMON: Final = (
    SENDS,
    st.tuples(st.just("credit"), st.integers(0, 2), st.integers(0, 9)),
    st.tuples(st.just("credit"), st.integers(0, 2), st.integers(1, 3)),
    st.tuples(st.just("settle"), st.integers(0, 2), st.sampled_from(OUTCOMES)),
    st.tuples(st.just("detach"), st.integers(0, 2), st.booleans()),
    st.tuples(st.just("resize"), st.sampled_from((-1, 0, 1, 3, 5, 8, 13)), st.integers(0, 4)),
    st.tuples(st.just("evict"), st.sampled_from(RingEviction)),
    st.tuples(st.just("later"), st.integers(1, 6), st.integers(0, 30)),
    st.tuples(st.just("wait"), st.integers(1, 20)),
    st.tuples(st.just("purge")),
    st.tuples(st.just("cut")),
    st.tuples(st.just("commit")),
    st.tuples(st.just("restart")),
    st.tuples(st.just("crash")),
)
OPERATIONS: Final = st.one_of(
    *COMMON,
    st.tuples(st.just("attach_one"), st.sampled_from(("plain", "red", "green", "presettled", "red presettled"))),
    st.tuples(st.just("drain"), st.integers(0, 2), st.integers(1, 9)),
    st.tuples(st.just("transact"), st.integers(0, 2), st.sampled_from(OUTCOMES), st.booleans()),
    st.tuples(st.just("remove"), st.sampled_from(COLOURS)),
)
TOGGLES: Final = st.one_of(*COMMON, st.tuples(st.just("attach")), st.tuples(st.just("toggle")))


def history(seed: int) -> list[Operation]:
    """A longer one than hypothesis comes to by itself, with deep queues."""
    dice = Random(seed)
    toggles = seed % 2 == 0
    usual: list[Any] = [
        lambda: (
            "send_coloured",
            dice.randint(1, 12),
            dice.choice((3, 4, 4, 5)),
            dice.random() < 0.7,
            dice.choice(COLOURS),
            dice.choice((0, 0, 0, 0, 20)),
            not toggles and dice.random() < 0.2,
        ),
        lambda: ("credit", dice.randint(0, 2), dice.randint(0, 12)),
        lambda: ("credit", dice.randint(0, 2), dice.randint(0, 4)),
        lambda: ("settle", dice.randint(0, 2), dice.choice(OUTCOMES)),
        lambda: ("attach",) if toggles else ("attach_one", dice.choice(("plain", "red", "presettled"))),
        lambda: ("later", dice.randint(1, 4), dice.randint(0, 30)),
        lambda: ("wait", dice.randint(1, 20)),
        lambda: ("cut",),
        lambda: ("commit",),
    ]
    rare: list[Any] = [
        lambda: ("resize", dice.choice((-1, 3, 8, 20)), dice.randint(0, 4)),
        lambda: ("detach", dice.randint(0, 2), dice.random() < 0.3),
        lambda: ("toggle",) if toggles else ("drain", dice.randint(0, 2), dice.randint(1, 20)),
        lambda: ("toggle",) if toggles else ("remove", dice.choice(COLOURS)),
        lambda: ("restart",),
        lambda: ("crash",),
    ]
    return [dice.choice(usual if dice.random() < 0.85 else rare)() for _ in range(80)]


def selective_history(seed: int) -> list[Operation]:
    """Consumers with selectors and little credit have read ahead what others remove."""
    dice = Random(seed)
    made: list[Operation] = [("attach_one", dice.choice(("red", "red", "plain"))) for _ in range(3)]
    made += [("evict", dice.choice(list(RingEviction)))]
    for _ in range(20):
        is_durable, expires_in_ms = dice.random() < 0.8, dice.choice((0, 0, 12))
        made += [
            ("send_coloured", dice.randint(3, 12), 4, is_durable, dice.choice(COLOURS), expires_in_ms, False),
            ("credit", dice.randint(0, 2), dice.randint(0, 3)),
            ("credit", dice.randint(0, 2), 0),
            dice.choice((("remove", dice.choice(COLOURS)), ("wait", 10), ("resize", dice.choice((-1, 5, 20)), 2))),
            ("credit", dice.randint(0, 2), dice.randint(0, 3)),
            ("settle", dice.randint(0, 2), ACCEPTED),
            ("commit",),
        ]
    return made


@define
class Kept(Entry):
    """A message in the model."""

    colour: str = "red"
    expires_ms: int = 0
    is_early: bool = False
    """Whether it is shown only when it is durable, and is not yet."""


class KeepingSide(Side):
    """A queue that keeps its messages; the model knows what each consumer has seen."""

    def __init__(self, *arguments: Any) -> None:
        self.seen: dict[int, set[str]] = {}
        self.colours: dict[int, str | None] = {}
        self.drained: dict[int, int] = {}
        super().__init__(*arguments)
        self.domain.update_queue("q", {"non_destructive": True})
        self.commit()

    @property
    def keeps(self) -> bool:
        return self.queue.keeps_messages

    def expected(self, consumer: Consumer, credit: int) -> list[str]:
        """What the consumer gets next."""
        bodies: list[str] = []
        colour = self.colours[consumer.id]
        for entry in self.model.in_order:
            assert isinstance(entry, Kept)
            if entry.body in self.seen[consumer.id] or (colour is not None and entry.colour != colour):
                continue
            if entry.is_early or len(bodies) >= credit:
                break
            bodies.append(entry.body)
        return bodies

    def collect(self) -> None:
        if not self.keeps:
            super().collect()
            return
        for recorder, consumer, unsettled in self.consumers:
            taken = recorder.take()
            drained = self.drained.pop(consumer.id, None)
            credit = len(taken) + consumer.credit if drained is None else drained
            assert [body_of(reference) for reference in taken] == self.expected(consumer, credit)
            self.seen[consumer.id].update(body_of(reference) for reference in taken)
            if not consumer.presettled:
                unsettled += taken
            assert len(consumer.shown) == sum(isinstance(each, Shown) for each in unsettled)

    def send_coloured(
        self, count: int, priority: int, durable: bool, colour: str, expires_in_ms: int, is_early: bool
    ) -> None:
        for _ in range(count):
            self.number += 1
            entry = Kept(f"m{self.number:04}", priority, durable, colour=colour)
            entry.is_early = is_early and durable and isinstance(self, PagedSide)
            if expires_in_ms:
                entry.expires_ms = self.domain.dispatcher.now_ms + expires_in_ms
            self._route(entry)
            self.model.add(entry)

    def _entry(self, priority: int, durable: bool) -> Entry:
        self.number += 1
        return Kept(f"m{self.number:04}", priority, durable)

    def _route(self, entry: Entry, delivery_time_ms: int = 0) -> None:
        assert isinstance(entry, Kept)
        view = MessageView(body=entry.body, properties={"colour": entry.colour})
        message = plain_message("q", view, entry.durable, entry.priority)
        message.delivery_time_ms = delivery_time_ms
        message.expires_ms = entry.expires_ms
        message.stored_first = entry.is_early
        self.domain.route(message, self.domain.addresses["q"])

    def wait(self, milliseconds: int) -> None:
        """Time passes, and the reaper looks for expired messages before anything is delivered."""
        now_ms = self.domain.dispatcher.now_ms + milliseconds
        self.domain.dispatcher.now_ms = now_ms
        self.expire()
        self.model.fall_due(now_ms)
        pass_time(self.domain, 0)

    def expire(self) -> None:
        now_ms = self.domain.dispatcher.now_ms
        self.queue.expiry.expire_due()
        while not self.queue.expiry.sweep(3):
            pass
        kept = [entry for entry in self.model.waiting if isinstance(entry, Kept)]
        self.model.waiting = [entry for entry in kept if not 0 < entry.expires_ms <= now_ms]

    def attach(self) -> None:
        self.attach_one("plain")

    def attach_one(self, kind: str) -> None:
        if len(self.consumers) < 3:
            colour = next((colour for colour in COLOURS if colour in kind), None)
            selector = None if colour is None else parse_filter(f"colour = '{colour}'")
            recorder, consumer = attach(self.domain, self.queue, 0, filter=selector, presettled="presettled" in kind)
            self.consumers.append((recorder, consumer, []))
            self.seen[consumer.id] = set()
            self.colours[consumer.id] = colour

    def drain(self, index: int, credit: int) -> None:
        """The client learns when nothing more is there."""
        if index < len(self.consumers) and not self._has_early():
            recorder, consumer, _ = self.consumers[index]
            before = recorder.drains
            self.drained[consumer.id] = credit
            consumer.grant(credit, drain=True)
            settle_down(self.domain)
            assert (recorder.drains, consumer.credit) == (before + 1, 0)

    def _has_early(self) -> bool:
        return any(isinstance(entry, Kept) and entry.is_early for entry in self.model.waiting)

    def settle(self, index: int, outcome: int) -> None:
        """Nothing happens if the message stayed in the queue; no outcome is final for the others."""
        if index < len(self.consumers) and self.consumers[index][2]:
            _, consumer, unsettled = self.consumers[index]
            reference = unsettled.pop(self.number % len(unsettled))
            if isinstance(reference, Shown):
                consumer.settle(reference, outcome, here=outcome != RELEASED)
            elif outcome == REJECTED:
                unsettled.append(reference)
            else:
                self.model.settle(body_of(reference), outcome)
                consumer.settle(reference, outcome)

    def transact(self, index: int, outcome: int, is_committed: bool) -> None:
        if index < len(self.consumers) and self.consumers[index][2]:
            transaction = Transaction(1, 0)
            for reference in self.consumers[index][2]:
                assert transaction.settle(reference, outcome)
            self.consumers[index][2].clear()
            if is_committed:
                transaction.commit()
            else:
                transaction.rollback()

    def detach(self, index: int, failed: bool) -> None:
        if index < len(self.consumers):
            _, consumer, unsettled = self.consumers.pop(index)
            for reference in sorted(unsettled, key=lambda each: each.sequence, reverse=True):
                if not isinstance(reference, Shown):
                    self.model.settle(body_of(reference), FAILED if failed else RELEASED)
            consumer.close(failed)

    def _is_idle(self) -> bool:
        return not any(consumer.credit for _, consumer, _ in self.consumers)

    def resize(self, size: int, count: int) -> None:
        """Consumers with credit would see some messages before the ring has shrunk, others not."""
        if self._is_idle():
            super().resize(size, count)

    def remove(self, colour: str) -> None:
        if self._is_idle():
            self.domain.dispatcher.slices.start(bulk.remove(self.queue, parse_filter(f"colour = '{colour}'")))
            settle_down(self.domain)
            self.model.waiting = [e for e in self.model.waiting if isinstance(e, Kept) and e.colour != colour]
            self.model.scheduled = [
                planned
                for planned in self.model.scheduled
                if isinstance(planned[2], Kept) and planned[2].colour != colour
            ]

    def toggle(self) -> None:
        """Consumers stay, and begin again when the queue begins to keep its messages."""
        for _, consumer, unsettled in self.consumers:
            for reference in [each for each in unsettled if isinstance(each, Shown)]:
                if not self.keeps:
                    unsettled.remove(reference)
                    consumer.settle(reference, ACCEPTED)
        self.domain.update_queue("q", {"non_destructive": not self.keeps})
        self.seen = {id: set() for id in self.seen}


class KeptInMemory(KeepingSide, MemorySide):
    """In memory."""


class KeptAndSpilled(KeepingSide, SpilledSide):
    """In scratch files."""


class KeptOnDisk(KeepingSide, PagedSide):
    """On disk, with a window of two messages."""

    def commit(self) -> None:
        self.world.settle()
        for entry in self.model.waiting:
            if isinstance(entry, Kept):
                entry.is_early = False
        super().commit()

    def crash(self) -> None:
        super().crash()
        self.expire()
        self.commit()


def make_side(kind: str, folder: Path) -> KeepingSide:
    for path in sorted(folder.rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    if kind == "memory":
        return KeptInMemory()
    return KeptAndSpilled(folder) if kind == "spilled" else KeptOnDisk(folder, kind == "paged, spilled")


def run(operations: Sequence[Operation], side: KeepingSide) -> None:
    """Apply all; then nothing is left of what consumers had, and the queue can be emptied."""
    try:
        for operation in operations:
            side.apply(operation)
        if side.keeps:
            side.apply(("commit",))
            side.apply(("attach",))
            side.apply(("credit", len(side.consumers) - 1, 1000))
        while side.consumers:
            side.apply(("detach", 0, False))
        side.apply(("purge",))
        side.apply(("commit",))
        address = side.queue.address
        assert (side.domain.account.size_bytes, address.size_bytes, address.message_count) == (0, 0, 0)
        assert (address.paged_count, address.paged_bytes) == (0, 0)
    finally:
        side.end()


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=examples(100), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(operations=st.lists(OPERATIONS, min_size=8, max_size=40))
def test_each_consumer_sees_each_message_once(folder: Path, kind: str, operations: list[Operation]) -> None:
    """In order, whatever it or others settle; messages leave by expiry, removal and a ring's overflow only."""
    run(operations, make_side(kind, folder))


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=examples(60), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(operations=st.lists(TOGGLES, min_size=8, max_size=40))
def test_the_attribute_may_change_while_consumers_are_attached(
    folder: Path, kind: str, operations: list[Operation]
) -> None:
    """What was delivered before a change is settled as it would have been."""
    plain = [(*operation[:-1], False) if operation[0] == "send_coloured" else operation for operation in operations]
    run(plain, make_side(kind, folder))


@pytest.mark.parametrize("kind", KINDS)
def test_long_histories_are_exact_as_well(folder: Path, kind: str) -> None:
    """Always the same histories; hypothesis finds short ones."""
    for seed in range(24):
        run(history(seed), make_side(kind, folder))
        run(selective_history(seed), make_side(kind, folder))
