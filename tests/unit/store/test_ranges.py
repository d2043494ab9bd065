"""Epochs that the store moves in ranges: what becomes of a queue while messages arrive in it, and which queues they
reach one by one."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from artemis_py.core.messages.builtin_format import plain_message
from artemis_py.core.messages.message import Message
from artemis_py.core.messages.view import MessageView
from artemis_py.core.names.routing_type import RoutingType
from artemis_py.core.queues import bulk
from artemis_py.core.queues.consumer import ACCEPTED, Consumer
from artemis_py.core.queues.cursors.range_reader import first_sequence, first_since, there
from artemis_py.core.queues.queue import Queue
from artemis_py.core.runtime.access import Subject
from artemis_py.core.selectors.filter import parse_filter
from artemis_py.core.services.staging import STAGING_ADDRESS
from artemis_py.core.sessions.session import Session
from artemis_py.core.settings.address_settings import AddressSettings, FullPolicy
from artemis_py.errors import StoreError
from artemis_py.store import moves, schema
from artemis_py.store.log_start import LogSettings
from artemis_py.store.moves import Move
from tests.core_harness import Recorder, attach, browse_all, make_queue, settle_down
from tests.log_switch import SMALL_LOG
from tests.unit.store.world import World, bodies

BATCH = [f"m{number}" for number in range(10)]

MOVED = pytest.mark.parametrize("way", ["moved"], indirect=True)
INHERITED = pytest.mark.parametrize("way", ["inherited"], indirect=True)


@pytest.fixture(autouse=True, params=["moved", "inherited"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the store does with a stage: it moves the messages, or the queue inherits them where they are."""
    monkeypatch.setattr(World, "inherited_messages", 1 if request.param == "inherited" else 1000)


class Holder:
    def stolen(self) -> None: ...


Change = Callable[[Message], None]


def stage(world: World, *bodies: str, address: str = "q", attempt: str = "a", change: Change | None = None) -> Queue:
    """Stage durable messages; the queue of their stage."""
    world.domain.addresses.get(address) or world.queue(address)
    session = Session(world.domain, Subject("job"), "job-1")
    producer = session.producer(address)
    staged = world.services.staging.open("job", "w", 0, attempt, address, Holder())
    world.services.staging.plug(staged, producer)
    for body in bodies:
        message = plain_message(address, MessageView(body=body), True)
        if change is not None:
            change(message)
        producer.send(message)
    world.settle()
    return staged.queue


def commit(world: World, **attempts: int) -> list[object]:
    """Ask for the commit and let the loop, but not the store, do its part; what it answers."""
    answers: list[object] = []
    session = Session(world.domain, Subject("job"), "job-1")
    steps = world.services.staging.commit(session, "w", 0, attempts)
    world.domain.dispatcher.slices.start(steps, answers.append, answers.append)
    return answers


def gathered(world: World) -> list[Move]:
    """The moves of the next commit."""
    return world.store._gathering.moves


def arriving(world: World) -> Queue:
    """A queue with two messages, ten that arrive and one behind them."""
    queue = world.queue()
    world.send("q", "first", "second")
    stage(world, *BATCH)
    commit(world, a=len(BATCH))
    world.send("q", "last")
    assert [(move.span.after, move.span.first, move.span.count) for move in gathered(world)] == [(0, 3, 10)]
    return queue


EVERYTHING = ["first", "second", *BATCH, "last"]


def drain(world: World, recorder: Recorder, consumer: Consumer) -> list[object]:
    """What a consumer gets, accepted as it comes."""
    got = []
    for _ in range(100):
        world.settle()
        for reference in recorder.take():
            got.append(reference.message.view.body)
            consumer.settle(reference, ACCEPTED)
    return got


# -- while messages arrive ---------------------------------------------------------------------------------------


def test_what_arrives_counts_at_once_and_is_there_after_the_commit(tmp_path: Path) -> None:
    with World(tmp_path) as world:
        queue = arriving(world)

        assert (queue.message_count, queue.messages_added) == (13, 13)
        assert bodies(queue) == ["first", "second"]
        world.settle()
        assert bodies(queue) == EVERYTHING
        assert world.domain.addresses["q"].routed == 13
        world.audit()
    with World(tmp_path) as world:
        assert bodies(world.queue()) == EVERYTHING


@pytest.mark.parametrize(
    "options", [{}, {"filter": parse_filter("AMQPriority = 4")}, {"browse": True}], ids=["plain", "selector", "browser"]
)
@pytest.mark.parametrize("early", [True, False])
def test_a_consumer_gets_everything_once_and_in_order(tmp_path: Path, options: dict[str, Any], early: bool) -> None:
    """Whether it attached before the messages arrive or while they do."""
    with World(tmp_path, {"#": AddressSettings(max_read_page_messages=4)}) as world:
        if early:
            recorder, consumer = attach(world.domain, world.queue(), **options)
            queue = arriving(world)
        else:
            queue = arriving(world)
            recorder, consumer = attach(world.domain, queue, **options)
        settle_down(world.domain)

        assert [reference.message.view.body for reference in recorder.deliveries] == ["first", "second"]
        if options.get("browse"):
            world.settle()
            assert [reference.message.view.body for reference in recorder.take()] == EVERYTHING
        else:
            assert drain(world, recorder, consumer) == EVERYTHING
            assert queue.message_count == 0
            world.audit()


@pytest.mark.parametrize("options", [{"non_destructive": True}, {"group_rebalance": True}])
def test_a_queue_with_a_rule_for_its_consumers_takes_ranges(tmp_path: Path, options: dict[str, Any]) -> None:
    with World(tmp_path) as world:
        world.queue(**options)
        recorder, _ = attach(world.domain, world.queue())
        arriving(world)
        settle_down(world.domain)

        assert len(recorder.deliveries) == 2
        world.settle()
        assert [reference.message.view.body for reference in recorder.take()] == EVERYTHING


def test_consumers_of_groups_get_what_arrived(tmp_path: Path) -> None:
    """The scan that they share stops before what arrives, and goes on behind it."""

    def grouped(message: Message) -> None:
        message.has_group = True

    with World(tmp_path) as world:
        queue = world.queue()
        grouped_message = plain_message("q", MessageView(body="g", group_id="a"), True)
        grouped(grouped_message)
        world.domain.route(grouped_message, world.domain.addresses["q"])
        recorder, consumer = attach(world.domain, queue)
        assert queue.has_groups
        stage(world, *BATCH)
        commit(world, a=len(BATCH))
        assert len(gathered(world)) == 1

        assert drain(world, recorder, consumer) == ["g", *BATCH]


def test_readers_by_number_wait_for_what_arrives(tmp_path: Path) -> None:
    with World(tmp_path) as world:
        queue = arriving(world)

        assert first_sequence(queue) == 1
        assert first_since(queue, 0) <= 3
        found, complete = there(queue, 1, 14, 100)
        assert ([reference.sequence for reference in found], complete) == ([1, 2], 3)
        world.settle()
        found, complete = there(queue, 1, 14, 100)
        assert ([reference.message.view.body for reference in found], complete) == (EVERYTHING, 14)


def test_the_first_number_is_that_of_what_arrives_in_an_empty_queue(tmp_path: Path) -> None:
    with World(tmp_path) as world:
        queue = world.queue()
        stage(world, *BATCH)
        commit(world, a=len(BATCH))
        world.send("q", "last")

        assert first_sequence(queue) == 1
        assert there(queue, 1, 12, 100) == ([], 1)


def test_what_arrives_is_neither_counted_nor_removed_by_a_filter(tmp_path: Path) -> None:
    with World(tmp_path) as world:
        queue = arriving(world)
        results: list[object] = []
        filter = parse_filter("AMQPriority = 4")

        world.domain.dispatcher.slices.start(bulk.count(queue, filter), results.append)
        world.domain.dispatcher.slices.start(bulk.remove(queue, filter), results.append)
        settle_down(world.domain)

        assert results == [2, 2]
        world.settle()
        assert bodies(queue) == EVERYTHING[2:]
        world.audit()


@pytest.mark.parametrize("is_cut", [False, True])
def test_a_purge_removes_what_arrives(tmp_path: Path, is_cut: bool) -> None:
    """Whether the move is still to be committed, or under way."""
    with World(tmp_path) as world:
        queue = arriving(world)
        if is_cut:
            world.hands.turn()

        assert queue.purge() == 13
        world.send("q", "new")
        world.settle()

        assert bodies(queue) == ["new"]
        assert queue.message_count == 1
        world.audit()
        address = world.domain.addresses["q"]
        queue.purge()
        world.settle()
        assert (address.account.message_count, address.paged_count, address.paged_bytes) == (0, 0, 0)


def test_a_queue_may_be_deleted_while_messages_arrive(tmp_path: Path) -> None:
    with World(tmp_path) as world:
        arriving(world)
        world.hands.turn()
        world.domain.delete_queue("q", force=True)
        world.settle()

        world.audit()
        assert world.count(schema.REFERENCES) == 0


@MOVED
def test_a_queue_that_gets_a_second_one_beside_it_gets_the_rest_one_by_one(tmp_path: Path) -> None:
    """And so does the second, from then on."""
    with World(tmp_path) as world:
        world.services.staging.epochs.range_messages = 4
        world.queue("one", address="news", routing_type=RoutingType.MULTICAST)
        stage(world, *BATCH, address="news")
        commit(world, a=len(BATCH))
        make_queue(world.domain, "two", RoutingType.MULTICAST, address="news")
        world.settle()

        assert bodies(world.queue("one")) == BATCH
        assert bodies(world.queue("two")) == BATCH[4:]
        world.audit()


def test_sequences_are_reserved_before_a_range_needs_them(tmp_path: Path) -> None:
    with World(tmp_path) as world:
        queue = world.queue()
        stage(world, *BATCH)
        queue.sequence_limit = 5
        commit(world, a=len(BATCH))
        world.settle()

        assert queue.sequence_limit > 11


# -- in the store ------------------------------------------------------------------------------------------------


@MOVED
def test_a_range_is_moved_in_pieces_that_fit_into_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(moves, "CHUNK_BYTES", 200)
    with World(tmp_path) as world:
        queue = arriving(world)
        world.settle()

        assert bodies(queue) == EVERYTHING
        world.audit()


@MOVED
def test_long_messages_count_as_several(tmp_path: Path) -> None:
    with World(tmp_path) as world:
        world.services.staging.epochs.range_messages = 9
        stage(world, *("x" * 3000 for _ in range(6)))
        commit(world, a=6)

        assert sum(move.arrival.count for move in gathered(world)) == 3
        world.settle()
        assert world.queue().message_count == 6


@MOVED
def test_a_damaged_message_does_not_arrive(tmp_path: Path) -> None:
    """It is set aside, and the others get their places and are counted."""
    with World(tmp_path) as world:
        staged = stage(world, *BATCH)
        key = schema.place_key(staged.id, schema.handle_of(4, 3), 0)
        with world.environment.begin(write=True) as transaction:
            assert transaction.replace(key, b"damaged", db=world.environment.databases[schema.REFERENCES])
        commit(world, a=len(BATCH))
        world.settle()
        queue = world.queue()

        assert bodies(queue) == BATCH[:2] + BATCH[3:]
        assert queue.message_count == 9
        assert world.count(schema.DAMAGED) == 1
        world.audit()


def test_what_is_on_disk_only_is_moved_without_being_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with World(tmp_path) as world:
        world.services.staging.memory_bytes = 2000
        staged = stage(world, *BATCH)
        assert 0 < staged.backlog.cold_count < 10
        with monkeypatch.context() as patch:
            patch.setattr(world.store, "read", lambda *_: pytest.fail("it was read"))
            commit(world, a=len(BATCH))
            world.settle()

        assert bodies(world.queue()) == BATCH
        for name in ("q", STAGING_ADDRESS):
            address = world.domain.addresses[name]
            assert address.account.message_count == 0
            assert address.paged_count == (10 if name == "q" else 0)


def test_what_the_store_has_not_written_yet_is_moved_with_it(tmp_path: Path) -> None:
    """Messages whose commit is under way, or still to come, when the epoch is decided."""
    with World(tmp_path) as world:
        world.services.staging.memory_bytes = 1000
        world.queue()
        session = Session(world.domain, Subject("job"), "job-1")
        producer = session.producer("q")
        world.services.staging.plug(world.services.staging.open("job", "w", 0, "a", "q", Holder()), producer)
        for body in BATCH:
            producer.send(plain_message("q", MessageView(body=body), True))
            if body == BATCH[6]:
                world.hands.turn()
        answers = commit(world, a=len(BATCH))
        world.settle()

        assert answers == [True]
        assert bodies(world.queue()) == BATCH
        world.audit()
        assert world.domain.account.message_count == 0


@pytest.mark.parametrize("log", [SMALL_LOG, None])
def test_a_move_that_only_the_log_has_is_made_by_the_next_start(tmp_path: Path, log: LogSettings | None) -> None:
    """Whether that has a log or not. Until it is in LMDB, the queue cannot be read there, and nobody gets an answer."""
    with World(tmp_path, log=SMALL_LOG) as world:
        queue = world.queue()
        stage(world, *BATCH)
        answers = commit(world, a=len(BATCH))
        world.hands.turn()
        world.hands.work()
        settle_down(world.domain)

        assert (queue.message_count, bodies(queue), answers) == (10, [], [])
    with World(tmp_path, log=log) as world:
        world.services.staging.restore()
        world.settle()

        assert bodies(world.queue()) == BATCH
        world.audit()


@pytest.mark.parametrize("log", [SMALL_LOG, None])
def test_a_store_that_fails_ends_a_commit(tmp_path: Path, log: LogSettings | None) -> None:
    """Whatever step fails: the next start has the epoch as a whole."""
    for step in range(3):
        folder = tmp_path / str(step)
        with World(folder, log=log) as world:
            stage(world, *BATCH)
            answers = commit(world, a=len(BATCH))
            for _ in range(step):
                world.hands.turn()
                if world.hands.jobs:
                    world.hands.work()
            world.hands.turn()
            if world.hands.jobs:
                world.hands.work("disk full")
                settle_down(world.domain)
                assert [type(answer) for answer in answers] in ([StoreError], [bool])
        with World(folder, log=log) as world:
            world.services.staging.restore()
            world.settle()
            assert bodies(world.queue()) in ([], BATCH)
            world.audit()


# -- who gets messages one by one ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "options",
    [
        {"filter": "1 = 1"},
        {"ring_size": 100},
        {"last_value": True, "last_value_key": "key"},
        {"purge_on_no_consumers": True},
        {"enabled": False},
        {"durable": False},
    ],
)
def test_a_queue_that_looks_at_each_message_gets_them_one_by_one(tmp_path: Path, options: dict[str, Any]) -> None:
    with World(tmp_path) as world:
        world.queue(**options)
        stage(world, *BATCH)
        commit(world, a=len(BATCH))

        assert not gathered(world)


@pytest.mark.parametrize("policy", [FullPolicy.BLOCK, FullPolicy.FAIL, FullPolicy.DROP])
def test_an_address_that_limits_what_is_there_gets_messages_one_by_one(tmp_path: Path, policy: FullPolicy) -> None:
    with World(tmp_path, {"q": AddressSettings(address_full_policy=policy)}) as world:
        stage(world, *BATCH)
        commit(world, a=len(BATCH))

        assert not gathered(world)


def lower(message: Message) -> None:
    message.priority = 3 if message.view.body == "m5" else 4


def late(message: Message) -> None:
    message.delivery_time_ms = 2_000_000


def short(message: Message) -> None:
    message.expires_ms = 2_000_000


def fleeting(message: Message) -> None:
    message.durable = message.view.body != "m5"


def of_a_group(message: Message) -> None:
    message.has_group = True


def for_topics(message: Message) -> None:
    message.routing_type = 0 if message.view.body == "m5" else -1


@pytest.mark.parametrize("change", [lower, late, short, fleeting, of_a_group, for_topics])
def test_messages_that_differ_are_routed_one_by_one(tmp_path: Path, change: Change) -> None:
    with World(tmp_path) as world:
        stage(world, *BATCH, change=change)
        commit(world, a=len(BATCH))

        assert not gathered(world)


def test_all_messages_of_another_priority_are_moved(tmp_path: Path) -> None:
    def higher(message: Message) -> None:
        message.priority = 7

    with World(tmp_path) as world:
        stage(world, *BATCH, change=higher)
        world.send("q", "before")
        commit(world, a=len(BATCH))

        assert len(gathered(world)) == 1
        world.settle()
        assert bodies(world.queue()) == [*BATCH, "before"]
        assert {reference.message.priority for reference in browse_all(world.queue())} == {4, 7}
        world.audit()


def test_the_only_subscription_of_a_topic_gets_a_range(tmp_path: Path) -> None:
    with World(tmp_path) as world:
        subscription = make_queue(world.domain, "sub", RoutingType.MULTICAST, address="news")
        stage(world, *BATCH, address="news")
        commit(world, a=len(BATCH))

        assert len(gathered(world)) == 1
        world.settle()
        assert bodies(subscription) == BATCH
