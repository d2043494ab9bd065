"""A queue that keeps a tiny window in memory behaves as one that keeps everything there."""

import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Final

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from artemis_py.core.messages.builtin_format import plain_message
from artemis_py.core.messages.view import MessageView
from artemis_py.core.queues import bulk
from artemis_py.core.queues.consumer import ACCEPTED, FAILED, RELEASED, Consumer
from artemis_py.core.queues.queue import Queue
from artemis_py.core.queues.reference import Reference
from artemis_py.core.routing.domain import Domain
from artemis_py.core.selectors.filter import parse_filter
from artemis_py.core.settings.address_settings import AddressSettings
from artemis_py.store.scratch import ScratchStore
from tests.core_harness import Recorder, attach, browse_all, make_domain, make_queue, pass_time, settle_down
from tests.examples import examples
from tests.unit.store.world import SMALL_MAP_BYTES, World

COLOURS: Final = ("red", "green")

STEPS: Final[tuple[st.SearchStrategy[tuple[object, ...]], ...]] = (
    st.tuples(st.just("send"), st.integers(1, 8), st.integers(3, 5), st.sampled_from(COLOURS), st.booleans()),
    st.tuples(st.just("send"), st.integers(1, 8), st.just(4), st.sampled_from(COLOURS), st.just(True)),
    st.tuples(st.just("later"), st.integers(1, 6), st.integers(0, 30)),
    st.tuples(st.just("attach"), st.sampled_from(("plain", "red", "green", "browser", "red browser"))),
    st.tuples(st.just("credit"), st.integers(0, 3), st.integers(1, 6)),
    st.tuples(st.just("settle"), st.integers(0, 3), st.sampled_from((ACCEPTED, ACCEPTED, RELEASED, FAILED))),
    st.tuples(st.just("hide"), st.integers(0, 3)),
    st.tuples(st.just("detach"), st.integers(0, 3)),
    st.tuples(st.just("purge"), st.sampled_from((None, None, "red"))),
    st.tuples(st.just("count"), st.sampled_from(COLOURS)),
    st.tuples(st.just("wait"), st.integers(1, 20)),
    st.tuples(st.just("cut")),
    st.tuples(st.just("commit")),
)
OPERATIONS: Final = st.one_of(*STEPS, st.tuples(st.just("restart")))


def history(seed: int) -> list[tuple[object, ...]]:
    """A longer one, with deeper queues and busier consumers than hypothesis comes to by itself."""
    dice = Random(seed)
    made: list[tuple[object, ...]] = []
    choices: list[Callable[[], tuple[object, ...]]] = [
        lambda: ("send", dice.randint(3, 12), dice.choice((3, 4, 4, 4, 5)), dice.choice(COLOURS), dice.random() < 0.6),
        lambda: ("send", dice.randint(1, 3), 4, dice.choice(COLOURS), dice.random() < 0.6),
        lambda: ("later", dice.randint(1, 6), dice.randint(0, 30)),
        lambda: ("attach", dice.choice(("plain", "red", "green", "red", "browser", "red browser"))),
        lambda: ("credit", dice.randint(0, 3), dice.randint(1, 6)),
        lambda: ("credit", dice.randint(0, 3), dice.randint(1, 3)),
        lambda: ("settle", dice.randint(0, 3), dice.choice((ACCEPTED, ACCEPTED, RELEASED, FAILED))),
        lambda: ("settle", dice.randint(0, 3), dice.choice((ACCEPTED, RELEASED))),
        lambda: ("hide", dice.randint(0, 3)),
        lambda: ("count", dice.choice(COLOURS)),
        lambda: ("wait", dice.randint(1, 20)),
        lambda: ("cut",),
        lambda: ("commit",),
    ]
    rare: list[tuple[object, ...]] = [("purge", None), ("purge", "red"), ("restart",), ("detach", 0), ("detach", 1)]
    for _ in range(60):
        made.append(dice.choice(rare) if dice.random() < 0.07 else dice.choice(choices)())
    return made


class Side:
    """A queue and its consumers."""

    def __init__(self, domain: Domain) -> None:
        self.consumers: list[tuple[Recorder, Consumer, list[Reference]]] = []
        self.seen: list[object] = []
        self.take_over(domain)

    def take_over(self, domain: Domain) -> None:
        self.domain = domain
        self.queue: Queue = domain.queues["q"] if "q" in domain.queues else make_queue(domain)
        self.queue.schedule.window_messages = 2 if self.queue.address.settings.max_read_page_messages >= 0 else 1000

    def apply(self, operation: tuple[object, ...], number: int) -> object:
        """Do it; returns what can be seen of it."""
        name, *arguments = operation
        getattr(self, str(name), lambda *_: None)(*arguments, number)
        settle_down(self.domain)
        for recorder, consumer, unsettled in self.consumers:
            taken = recorder.take()
            self.seen += [(consumer.browse, one.message.view.body, one.delivery_count) for one in taken]
            if not consumer.browse:
                unsettled += taken
        seen, self.seen = self.seen, []
        return seen, self.queue.waiting_count, self.queue.delivering_count, self.queue.scheduled_count

    def send(self, count: int, priority: int, colour: str, durable: bool, number: int) -> None:
        for index in range(count):
            self._route(f"{number}.{index}", colour, priority, durable, 0)

    def later(self, count: int, delay_ms: int, number: int) -> None:
        for index in range(count):
            self._route(f"{number}.{index}", "red", 4, True, self.domain.dispatcher.now_ms + delay_ms + 7 * (index % 3))

    def _route(self, body: str, colour: str, priority: int, durable: bool, delivery_time_ms: int) -> None:
        message = plain_message("q", MessageView(body=body, properties={"colour": colour}), durable, priority)
        message.delivery_time_ms = delivery_time_ms
        self.domain.route(message, self.domain.addresses["q"])

    def attach(self, kind: str, number: int) -> None:
        if len(self.consumers) < 4:
            wanted = next((colour for colour in COLOURS if colour in kind), None)
            selector = None if wanted is None else parse_filter(f"colour = '{wanted}'")
            recorder, consumer = attach(self.domain, self.queue, 1, filter=selector, browse="browser" in kind)
            self.consumers.append((recorder, consumer, []))

    def credit(self, index: int, credit: int, number: int) -> None:
        if index < len(self.consumers):
            self.consumers[index][1].grant(credit)

    def settle(self, index: int, outcome: int, number: int, here: bool = True) -> None:
        if index < len(self.consumers) and self.consumers[index][2]:
            _, consumer, unsettled = self.consumers[index]
            consumer.settle(unsettled.pop(number % len(unsettled)), outcome, here)

    def hide(self, index: int, number: int) -> None:
        self.settle(index, RELEASED, number, False)

    def detach(self, index: int, number: int) -> None:
        if index < len(self.consumers):
            self.consumers.pop(index)[1].close()

    def purge(self, colour: str | None, number: int) -> None:
        if colour is None:
            self.seen.append(self.queue.purge())
        else:
            steps = bulk.remove(self.queue, parse_filter(f"colour = '{colour}'"))
            self.domain.dispatcher.slices.start(steps, self.seen.append)

    def count(self, colour: str, number: int) -> None:
        steps = bulk.count(self.queue, parse_filter(f"colour = '{colour}'"))
        self.domain.dispatcher.slices.start(steps, self.seen.append)

    def wait(self, milliseconds: int, number: int) -> None:
        pass_time(self.domain, milliseconds)

    def leave(self) -> None:
        """The broker goes: consumers are gone, what was not durable too."""
        for _, consumer, _ in self.consumers:
            consumer.close()
        self.consumers = []


class PagedSide(Side):
    """On disk, with a window of two messages; `scratch` takes what is not durable if it is given."""

    SETTINGS: Final = {
        "#": AddressSettings(max_read_page_messages=2, max_delivery_attempts=3, max_size_messages=1),
    }

    def __init__(self, folder: Path, spills: bool) -> None:
        self.folder = folder
        self.scratch = ScratchStore(folder / "scratch", SMALL_MAP_BYTES) if spills else None
        self.world = World(folder / "journal", self.SETTINGS, scratch=self.scratch)
        super().__init__(self.world.domain)

    def cut(self, number: int) -> None:
        """A commit begins, and does not end yet."""
        self.world.hands.turn()

    def commit(self, number: int) -> None:
        self.world.settle()
        self.world.audit()

    def restart(self, number: int) -> None:
        now_ms = self.domain.dispatcher.now_ms
        self.world.settle()
        self.leave()
        self.world.settle()
        self.world.audit()
        self.end()
        self.scratch = None if self.scratch is None else ScratchStore(self.folder / "scratch", SMALL_MAP_BYTES)
        self.world = World(self.folder / "journal", self.SETTINGS, scratch=self.scratch)
        self.world.domain.dispatcher.now_ms = now_ms
        self.take_over(self.world.domain)
        pass_time(self.domain, 0)

    def end(self) -> None:
        self.world.crash()
        if self.scratch is not None:
            self.scratch.close()


class SpilledSide(Side):
    """In memory, with room for one message; everything else goes to scratch files."""

    def __init__(self, folder: Path) -> None:
        self.scratch = ScratchStore(folder, SMALL_MAP_BYTES)
        settings = {"#": AddressSettings(max_delivery_attempts=3, max_size_messages=1)}
        super().__init__(make_domain(settings, scratch=self.scratch))

    def end(self) -> None:
        self.scratch.close()


class PlainSide(Side):
    """In memory."""

    def __init__(self) -> None:
        unlimited = AddressSettings(max_read_page_messages=-1, max_read_page_bytes=-1, max_delivery_attempts=3)
        super().__init__(make_domain({"#": unlimited}))

    def restart(self, number: int) -> None:
        self.leave()
        volatile = _Volatile()
        steps = bulk.remove(self.queue, volatile)  # type: ignore[arg-type]  # it needs nothing else of a filter
        self.domain.dispatcher.slices.start(steps)
        settle_down(self.domain)
        pass_time(self.domain, 0)


class _Volatile:
    """Wants what is not durable."""

    text = ""

    def matches(self, reference: Reference) -> bool:
        return not reference.message.durable


def compare(operations: list[tuple[object, ...]], plain: Side, paged: Side) -> None:
    """Both sides show the same after every operation, and when everything is consumed in the end."""
    for number, operation in enumerate(operations):
        expected, actual = plain.apply(operation, number), paged.apply(operation, number)
        assert actual == expected, (number, operation)
    order = []
    for side in (plain, paged):
        side.leave()
        pass_time(side.domain, 1000)
        order.append([reference.message.view.body for reference in browse_all(side.queue)])
        recorder, consumer = attach(side.domain, side.queue)
        order.append([reference.message.view.body for reference in recorder.deliveries])
        for reference in recorder.take():
            consumer.settle(reference, ACCEPTED)
    assert order[2:] == order[:2]
    assert paged.queue.message_count == 0
    assert (paged.domain.account.message_count, paged.domain.account.size_bytes) == (0, 0) or isinstance(
        paged, PagedSide
    )


@pytest.fixture(autouse=True)
def short_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is done to all of a queue takes many turns, as in a long one."""
    monkeypatch.setattr(bulk, "SLICE_MESSAGES", 3)


@pytest.fixture
def folder() -> Iterator[Path]:
    """One for all examples: hypothesis calls the test often."""
    path = Path(tempfile.mkdtemp())
    yield path
    shutil.rmtree(path)


def check_accounts(side: Side) -> None:
    """An empty queue takes no memory and no disk."""
    address = side.queue.address
    assert (side.domain.account.size_bytes, address.size_bytes, address.message_count) == (0, 0, 0)
    assert (address.paged_count, address.paged_bytes) == (0, 0)


@pytest.mark.parametrize("spills", [False, True])
@settings(max_examples=examples(100), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(operations=st.lists(OPERATIONS, min_size=12, max_size=40))
def test_a_paged_queue_behaves_as_one_in_memory(
    folder: Path, spills: bool, operations: list[tuple[object, ...]]
) -> None:
    """Order, counts and selections are those of a queue that never pages, through commits and restarts."""
    shutil.rmtree(folder)
    paged = PagedSide(folder, spills)
    try:
        compare(operations, PlainSide(), paged)
        paged.world.settle()
        paged.world.audit()
        check_accounts(paged)
    finally:
        paged.end()


@settings(max_examples=examples(100), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(operations=st.lists(st.one_of(*STEPS), min_size=12, max_size=40))
def test_a_queue_that_spills_behaves_as_one_in_memory(folder: Path, operations: list[tuple[object, ...]]) -> None:
    """Without a store as well."""
    spilled = SpilledSide(folder)
    try:
        compare(operations, PlainSide(), spilled)
        check_accounts(spilled)
    finally:
        spilled.end()


@pytest.mark.parametrize("kind", ["stored", "stored, spills", "spills"])
def test_long_histories_are_the_same_as_well(folder: Path, kind: str) -> None:
    """Always the same histories; hypothesis finds short ones."""
    for seed in range(40):
        operations = history(seed)
        shutil.rmtree(folder)
        if kind == "spills":
            spilled = SpilledSide(folder)
            compare([operation for operation in operations if operation[0] != "restart"], PlainSide(), spilled)
            check_accounts(spilled)
            spilled.end()
        else:
            paged = PagedSide(folder, kind == "stored, spills")
            compare(operations, PlainSide(), paged)
            paged.commit(0)
            check_accounts(paged)
            paged.end()
