"""Reading a queue by numbers shows what is there, wherever it is, and acknowledging by numbers takes just that away."""

import shutil
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from artemis_py.core.messages.builtin_format import plain_message
from artemis_py.core.messages.view import MessageView
from artemis_py.core.queues.acknowledging import acknowledge_below, acknowledge_numbers
from artemis_py.core.queues.cursors.range_reader import RangeReader, first_sequence, first_since
from artemis_py.core.queues.reference import Reference
from artemis_py.core.settings.address_settings import AddressSettings
from tests.core_harness import Recorder, attach, browse_all, make_session, settle_down
from tests.examples import examples
from tests.property.test_paging import OPERATIONS, PagedSide, PlainSide, Side, SpilledSide, compare, folder
from tests.unit.store.world import World

__all__ = ["folder"]

RANGES: Final = st.tuples(
    st.just("span"), st.integers(0, 10), st.integers(0, 20), st.integers(1, 5), st.sampled_from((None, None, 3))
)
BELOW: Final = st.tuples(
    st.just("acknowledge"), st.integers(0, 6), st.integers(1, 4), st.sampled_from((0, 0, 1, 3))
) | st.tuples(st.just("acknowledge_some"), st.integers(0, 6), st.integers(1, 3))


@pytest.fixture(autouse=True)
def small_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    """A range is gathered in pages: here of two messages, so that a few of them make several."""
    monkeypatch.setattr("artemis_py.core.queues.cursors.range_reader.PAGE_MESSAGES", 2)


class Numbered(Side):
    """A queue that is also read and acknowledged by numbers."""

    def there(self) -> list[Reference]:
        """What waits and what is delivered, by number."""
        delivered = [one for consumer in self.queue.consumers for one in consumer.outstanding.all()]
        return sorted(browse_all(self.queue) + delivered, key=lambda reference: reference.sequence)

    def span(self, start: int, length: int, credit: int, cut: int | None, number: int) -> None:
        """Read from the message at `start` so many numbers further, `credit` at a time; perhaps while a commit runs."""
        there = self.there()
        assert first_sequence(self.queue) == (there[0].sequence if there else self.queue.next_sequence)
        begin = there[start].sequence if start < len(there) else 1
        wanted = [one for one in there if begin <= one.sequence < begin + length]
        recorder = Recorder()
        reader = RangeReader(begin, begin + length)
        consumer = make_session(self.domain).consume(self.queue, recorder, browse=True, cursor=reader)
        found: list[Reference] = []
        for _ in range(len(wanted) + 2):
            consumer.grant(credit, True)
            settle_down(self.domain)
            found += recorder.take()
            if cut is not None and len(found) >= cut:
                getattr(self, "cut", lambda number: None)(number)
                cut = None
        assert recorder.drains == len(wanted) + 2
        consumer.close()
        assert [one.sequence for one in found] == [one.sequence for one in wanted]
        bodies = [one.message.view.body for one in found]
        assert bodies == [one.message.view.body for one in wanted]
        self.seen.append(len(there))

    def acknowledge(self, index: int, limit: int, first: int, number: int) -> None:
        """Acknowledge below the message at `index`, a few at a time; perhaps only from the message at `first` on."""
        there = self.there()
        below = there[index].sequence if index < len(there) else self.queue.next_sequence
        start = there[first].sequence if 0 < first < len(there) else 0
        waiting = {one.sequence for one in browse_all(self.queue) if start <= one.sequence < below}
        older = [one.sequence for one in browse_all(self.queue) if one.sequence < min(start, below)]
        before, total = self.queue.messages_acknowledged, 0
        while (count := acknowledge_below(self.queue, below, limit, start)) == limit:
            total += count
        total += count
        assert total == len(waiting)
        assert self.queue.messages_acknowledged - before == total
        assert [one.sequence for one in browse_all(self.queue) if one.sequence < below] == older
        self.seen.append(total)

    def acknowledge_some(self, first: int, step: int, number: int) -> None:
        """Acknowledge every so many messages from the one at `first`, among them some that are delivered or gone."""
        chosen = {one.sequence for one in self.there()[first::step]} | {self.queue.next_sequence}
        waiting = [one.sequence for one in browse_all(self.queue)]
        before = self.queue.messages_acknowledged
        count = acknowledge_numbers(self.queue, chosen)
        assert count == len(chosen.intersection(waiting)) == self.queue.messages_acknowledged - before
        left = sorted(one.sequence for one in browse_all(self.queue))
        assert left == sorted(set(waiting) - chosen)
        self.seen.append(count)


class NumberedInMemory(Numbered, PlainSide):
    """In memory."""


class NumberedOnDisk(Numbered, PagedSide):
    """On disk, two messages in memory."""


class NumberedInScratch(Numbered, SpilledSide):
    """In scratch files, one message in memory."""


@pytest.mark.parametrize("spills", [False, True])
@settings(max_examples=examples(100), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(operations=st.lists(OPERATIONS | RANGES | BELOW | RANGES, max_size=25))
def test_numbers_mean_the_same_in_memory_and_on_disk(
    folder: Path, spills: bool, operations: list[tuple[object, ...]]
) -> None:
    """Through commits, restarts, deliveries and purges; and the store's counts stay right."""
    shutil.rmtree(folder)
    paged = NumberedOnDisk(folder, spills)
    try:
        compare(operations, NumberedInMemory(), paged)
        paged.world.settle()
        paged.world.audit()
    finally:
        paged.end()


@settings(max_examples=examples(100), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(operations=st.lists(OPERATIONS.filter(lambda one: one[0] != "restart") | RANGES | BELOW, max_size=25))
def test_numbers_mean_the_same_in_scratch_files(folder: Path, operations: list[tuple[object, ...]]) -> None:
    spilled = NumberedInScratch(folder)
    try:
        compare(operations, NumberedInMemory(), spilled)
    finally:
        spilled.end()


STEPS: Final = st.one_of(
    st.tuples(st.just("send"), st.integers(1, 12), st.integers(3, 5)),
    st.tuples(st.just("send"), st.integers(1, 12), st.just(4)),
    st.tuples(st.just("wait"), st.integers(1, 50)),
    st.tuples(st.just("commit")),
    st.tuples(st.just("restart")),
    st.tuples(st.just("take"), st.integers(1, 3)),
    st.tuples(st.just("remove"), st.integers(0, 5), st.integers(1, 3)),
)


@settings(max_examples=examples(150), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=st.lists(STEPS, max_size=25), is_noted_late=st.booleans())
def test_a_time_is_found_wherever_its_messages_are(
    folder: Path, steps: list[tuple[Any, ...]], is_noted_late: bool
) -> None:
    """In memory, on disk or with a consumer; those that came before times were noted count as older."""
    shutil.rmtree(folder)
    noted = {"#": AddressSettings(max_read_page_messages=2, enable_ingress_timestamp=True)}
    unnoted = {"#": AddressSettings(max_read_page_messages=2)}
    world = World(folder, unnoted if is_noted_late else noted)
    queue = world.queue()
    times: dict[int, int] = {}
    try:
        for name, *arguments in steps:
            if name == "send":
                for _ in range(arguments[0]):
                    times[queue.next_sequence] = -1 if is_noted_late else world.domain.dispatcher.now_ms
                    message = plain_message("q", MessageView(body="x"), True, arguments[1])
                    world.domain.route(message, world.domain.addresses["q"])
                    settle_down(world.domain)
            elif name == "wait":
                world.domain.dispatcher.now_ms += arguments[0]
            elif name == "commit":
                world.settle()
            elif name == "restart":
                world.settle()
                now_ms = world.domain.dispatcher.now_ms
                world.stop()
                world = World(folder, noted)
                world.domain.dispatcher.now_ms = now_ms
                queue = world.queue()
                is_noted_late = False
            elif name == "take":
                attach(world.domain, queue, arguments[0])
                settle_down(world.domain)
            else:
                chosen = {one.sequence for one in browse_all(queue)[arguments[0] :: arguments[1]]}
                acknowledge_numbers(queue, chosen | {queue.next_sequence})
            held = [one for consumer in queue.consumers for one in consumer.outstanding.all()]
            there = sorted(one.sequence for one in browse_all(queue) + held)
            for time_ms in {0, *(at + late for at in set(times.values()) for late in (0, 1))}:
                expected = next((one for one in there if times[one] >= time_ms), queue.next_sequence)
                assert first_since(queue, time_ms) == expected
    finally:
        world.crash()
