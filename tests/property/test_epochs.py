"""An epoch that is routed in slices leaves what one that is routed in a turn leaves."""

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from artemis_py.core.messages.builtin_format import plain_message
from artemis_py.core.messages.view import MessageView
from artemis_py.core.names.routing_type import RoutingType
from artemis_py.core.queues.consumer import ACCEPTED
from artemis_py.core.runtime.access import Subject
from artemis_py.core.sessions.session import Session
from artemis_py.core.settings.address_settings import AddressSettings
from tests.core_harness import attach, browse_all, pass_time
from tests.examples import examples
from tests.unit.store.world import World, multicast

ATTEMPTS = ("a", "b", "c")
ADDRESSES = ("orders", "news")
QUEUES = ("orders", "news.1", "news.2")

MESSAGES = st.tuples(
    st.sampled_from(ATTEMPTS),
    st.integers(3, 5),  # priority
    st.booleans(),  # durable
    st.sampled_from((0, 0, 0, 5, 10)),  # delivery time
    st.sampled_from((0, 0, 3, 1000)),  # expiry
)
EPOCHS = st.lists(
    st.tuples(st.lists(MESSAGES, max_size=25), st.sets(st.sampled_from(ATTEMPTS)), st.booleans()),
    min_size=1,
    max_size=4,
)

Epoch = tuple[list[tuple[str, int, bool, int, int]], set[str], bool]


class _Holder:
    def stolen(self) -> None: ...


def world_of(folder: Path, slice_messages: int, memory_bytes: int, inherited_messages: int) -> World:
    """A world with short slices, whose stages have only some messages in memory."""
    world = World(folder, {"#": AddressSettings(max_read_page_messages=4)})
    world.services.staging.epochs.inherited_messages = inherited_messages
    world.services.staging.epochs.slice_messages = slice_messages
    world.services.staging.epochs.unstored_messages = 4
    world.services.staging.epochs.range_messages = slice_messages
    world.services.staging.memory_bytes = memory_bytes
    return world


def run(folder: Path, history: list[Epoch], slice_messages: int, memory_bytes: int, inherited_messages: int) -> object:
    """What is in the queues after some epochs, and what comes to a consumer in the end.

    Each epoch has its messages, the attempts that are committed, and whether a crash follows the request, by when the
    store has all that was staged and decided.
    """
    world = world_of(folder, slice_messages, memory_bytes, inherited_messages)
    world.queue("orders")
    multicast(world, "news", *QUEUES[1:])
    seen: list[object] = []
    for number, (messages, chosen, crashes) in enumerate(history):
        domain = world.domain
        session = Session(domain, Subject("job"), "job")
        counts = dict.fromkeys(ATTEMPTS, 0)
        producers = {}
        for index, attempt in enumerate(ATTEMPTS):
            address = ADDRESSES[index % 2]
            producers[attempt] = session.producer(address)
            stage = world.services.staging.open("job", "w", number, attempt, address, _Holder())
            world.services.staging.plug(stage, producers[attempt])
        for index, (attempt, priority, durable, due_ms, expires_ms) in enumerate(messages):
            message = plain_message("", MessageView(body=f"{number}.{index}"), durable or crashes, priority)
            message.delivery_time_ms = domain.dispatcher.now_ms + due_ms if due_ms else 0
            message.expires_ms = domain.dispatcher.now_ms + expires_ms if expires_ms else 0
            message.routing_type = RoutingType.ANYCAST if ADDRESSES[ATTEMPTS.index(attempt) % 2] == "orders" else -1
            producers[attempt].send(message)
            counts[attempt] += 1
        committed = {attempt: counts[attempt] for attempt in sorted(chosen)}
        if crashes:
            world.settle()
            domain.dispatcher.slices.start(world.services.staging.commit(session, "w", number, committed))
            world.hands.turn()
            while world.hands.jobs:
                world.hands.work()
            now_ms = domain.dispatcher.now_ms
            world.crash()
            world = world_of(folder, slice_messages, memory_bytes, inherited_messages)
            world.domain.dispatcher.now_ms = now_ms
            world.services.staging.restore()
        else:
            domain.dispatcher.slices.start(world.services.staging.commit(session, "w", number, committed), seen.append)
        world.settle()
        for name in QUEUES:
            queue = world.domain.queues[name]
            seen.append([reference.message.view.body for reference in browse_all(queue)])
            seen.append((queue.message_count, queue.scheduled_count))
    for name in QUEUES:
        recorder, consumer = attach(world.domain, world.domain.queues[name])
        for _ in range(4):
            pass_time(world.domain, 5)
            world.settle()
            for reference in recorder.take():
                seen.append((name, reference.message.view.body, reference.message.priority))
                consumer.settle(reference, ACCEPTED)
    world.settle()
    world.audit()
    world.crash()
    return seen


@pytest.fixture
def folder() -> Iterator[Path]:
    """One for all examples."""
    path = Path(tempfile.mkdtemp())
    yield path
    shutil.rmtree(path)


SIZES = ((2, 3000, 1000), (1 << 30, 1 << 30, 1000), (2, 3000, 3), (1 << 30, 1 << 30, 1))
"""Messages of a slice, bytes of the stages that stay in memory, and messages from which on a queue inherits a stage."""


@settings(max_examples=examples(30), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(history=EPOCHS)
def test_slices_leave_what_one_turn_leaves(folder: Path, history: list[Epoch]) -> None:
    """Through crashes as well: what was decided is routed by the next start."""
    results = []
    for sizes in SIZES:
        shutil.rmtree(folder)
        results.append(run(folder, history, *sizes))

    assert results == results[:1] * len(SIZES)


def long_history(seed: int) -> list[Epoch]:
    """A longer one than hypothesis comes to by itself."""
    dice = Random(seed)
    history: list[Epoch] = []
    for _ in range(3):
        messages = [
            (
                dice.choice(ATTEMPTS),
                dice.choice((4, 4, 5)),
                dice.random() < 0.8,
                dice.choice((0, 0, 0, 5)),
                dice.choice((0, 0, 1000)),
            )
            for _ in range(dice.randint(10, 30))
        ]
        history.append((messages, set(dice.sample(ATTEMPTS, dice.randint(2, 3))), dice.random() < 0.6))
    return history


def test_long_histories_leave_the_same(folder: Path) -> None:
    """Always the same ones."""
    for seed in range(8):
        results = []
        for sizes in SIZES:
            shutil.rmtree(folder)
            results.append(run(folder, long_history(seed), *sizes))

        assert results == results[:1] * len(SIZES)
