"""Epochs that take many turns: all of each, once, in order, through any crash."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from artemis_py.core.messages.builtin_format import plain_message
from artemis_py.core.messages.view import MessageView
from artemis_py.core.queues.queue import Queue
from artemis_py.core.runtime.access import Subject
from artemis_py.core.services.epochs import MAX_WAITING
from artemis_py.core.services.staging import DROPPED_STAGES, STAGING_ADDRESS
from artemis_py.core.sessions.session import Session
from artemis_py.core.settings.address_settings import AddressSettings, FullPolicy
from artemis_py.errors import AddressFull, Refusal, StoreError
from artemis_py.store import schema
from tests.core_harness import browse_all, settle_down
from tests.unit.store.world import World as StoreWorld
from tests.unit.store.world import bodies

SETTINGS = {"#": AddressSettings(max_read_page_messages=4)}


class World(StoreWorld):
    """One in which every epoch is a long one, and has only some of its messages in memory."""

    def __init__(self, folder: Path, settings: dict[str, AddressSettings] | None = None) -> None:
        super().__init__(folder, settings)
        self.services.staging.epochs.slice_messages = 3
        self.services.staging.epochs.range_messages = 3
        self.services.staging.epochs.unstored_messages = 6
        self.services.staging.memory_bytes = 2500


class Holder:
    def stolen(self) -> None: ...


class Job:
    """A writer of epochs."""

    def __init__(self, world: StoreWorld, user: str = "job") -> None:
        self.world = world
        self.session = Session(world.domain, Subject(user), "job-1")
        self.answers: list[object] = []

    def stage(self, epoch: int, attempt: str, *bodies: str, durable: bool = True, address: str = "q") -> None:
        self.world.queue(address)
        producer = self.session.producer(address)
        user = self.session.subject.name
        staging = self.world.services.staging
        staging.plug(staging.open(user, "w", epoch, attempt, address, Holder()), producer)
        for body in bodies:
            message = plain_message(address, MessageView(body=body), durable)
            producer.send(message)

    def commit(self, epoch: int, **attempts: int) -> None:
        """Ask for it: the first slice is done, and the answer is given when it would go out."""
        domain = self.world.domain

        def answer(outcome: object) -> None:
            domain.storage.when_durable(
                lambda: self.answers.append(outcome), lambda reason: self.answers.append(StoreError(reason))
            )

        domain.dispatcher.slices.start(
            self.world.services.staging.commit(self.session, "w", epoch, attempts), answer, answer
        )


def numbers(first: int, count: int) -> list[str]:
    return [str(number) for number in range(first, first + count)]


def events(world: StoreWorld) -> Iterator[None]:
    """All that happens until nothing is left to do, one event at a time."""
    while world.domain.dispatcher.slices.has_work or world.hands.planned or world.hands.jobs:
        if world.domain.dispatcher.slices.has_work:
            world.domain.dispatcher.run()
            yield
        elif world.hands.planned:
            world.hands.turn()
            yield
        else:
            world.hands.work()
            yield


@pytest.mark.parametrize("filter", [None, "1 = 1"])
def test_an_epoch_is_routed_whole_or_not_at_all_whatever_moment_a_crash_chooses(
    tmp_path: Path, filter: str | None
) -> None:
    """From the first commit that has the decision on, the next start routes the rest; before, nothing was routed.

    A queue with a filter gets the messages one by one, and one without in ranges.
    """
    everything = numbers(0, 20)
    outcomes = set()
    moment = 0
    while True:
        folder = tmp_path / str(moment)
        with World(folder, SETTINGS) as world:
            world.queue(filter=filter)
            job = Job(world)
            job.stage(0, "a", *everything[:13])
            job.stage(0, "b", *everything[13:])
            job.stage(0, "c", "of a task that ran twice")
            world.settle()
            job.commit(0, a=13, b=7)
            happened = sum(1 for _ in zip(range(moment), events(world), strict=False))
            answered, waiting = list(job.answers), bodies(world.queue())
        with World(folder, SETTINGS) as world:
            world.services.staging.restore()
            world.settle()
            world.audit()
            there = bodies(world.queue())
            last = world.services.staging.last_epoch("job", "w")
            assert (there, last) in (([], -1), (everything, 0))
            assert there[: len(waiting)] == waiting or there == []
            assert answered in ([], [True])
            assert there == everything or not answered
            stages = len(world.domain.addresses[STAGING_ADDRESS].bindings)
            records = {name: len(world.store.load_records(name)) for name in ("stages", "commits", "epochs")}
            assert stages == (3 if last < 0 else 0)
            assert records == {"stages": stages, "commits": 0, "epochs": 1 + last}
            outcomes.add((last, bool(answered), len(waiting) < len(everything)))
        if happened < moment:
            break
        moment += 1

    assert moment > 8
    assert {(-1, False, True), (0, False, True), (0, True, False)} <= outcomes


def test_an_epoch_waits_for_those_before_it_and_a_repetition_for_the_first(tmp_path: Path) -> None:
    """One answer is True, that of the request which routed it; each comes when all is routed."""
    with World(tmp_path, SETTINGS) as world:
        job = Job(world)
        job.stage(1, "a", *numbers(0, 10))
        job.stage(2, "a", *numbers(10, 10))
        job.commit(1, a=10)
        job.commit(1, a=10)
        job.commit(2, a=10)

        seen: list[int] = []
        for _ in events(world):
            if len(job.answers) > len(seen):
                seen.append(len(bodies(world.queue())))

        assert job.answers == [True, False, True]
        assert seen[0] >= 10
        assert seen[-1] == 20
        assert bodies(world.queue()) == numbers(0, 20)


def test_stages_without_number_are_dropped_in_slices(tmp_path: Path) -> None:
    """They are closed at once; what a crash leaves of them goes at the next start, for their epoch is over."""
    with World(tmp_path, SETTINGS) as world:
        job = Job(world)
        for number in range(2 * DROPPED_STAGES):
            job.stage(0, str(number), "m")
        world.settle()
        job.commit(0, **{"0": 1})
        assert len(world.domain.addresses[STAGING_ADDRESS].bindings) == DROPPED_STAGES + 1
        assert world.services.staging.open("job", "w", 0, "1", "q", Holder()).count == 0
        world.hands.turn()
        world.hands.work()
    with World(tmp_path, SETTINGS) as world:
        world.services.staging.restore()
        world.settle()

        assert not world.domain.addresses[STAGING_ADDRESS].bindings
        assert bodies(world.queue()) == ["m"]


def test_another_writer_does_not_wait(tmp_path: Path) -> None:
    with World(tmp_path, SETTINGS) as world:
        long, short = Job(world), Job(world, "other")
        long.stage(1, "a", *numbers(0, 30))
        short.stage(1, "a", "x")
        long.commit(1, a=30)
        short.commit(1, a=1)
        while not short.answers:
            next(iter(events(world)))

        assert (long.answers, short.answers) == ([], [True])
        world.settle()
        assert long.answers == [True]


def test_what_is_staged_is_routed_as_it_was_sent(tmp_path: Path) -> None:
    """Delivery time and expiry count from the commit on; the staged message itself is not touched."""
    with World(tmp_path, SETTINGS) as world:
        job = Job(world)
        job.stage(0, "a")
        stage = world.services.staging.open("job", "w", 0, "a", "q", Holder())
        now_ms = world.domain.dispatcher.now_ms
        for index in range(9):
            message = plain_message("q", MessageView(body=str(index)), True)
            message.delivery_time_ms = now_ms + 100 if index % 3 == 0 else 0
            message.expires_ms = now_ms + 1000 if index % 3 == 1 else 0
            message.routing_type = 1
            world.services.staging.take(stage, message, world.domain.addresses["q"])
        job.commit(0, a=9)
        world.settle()
        queue = world.queue()

        assert queue.scheduled_count == 3
        waiting = [reference.message for reference in browse_all(queue)]
        assert [(one.view.body, one.expires_ms > 0, one.extra) for one in waiting] == [
            ("1", True, None), ("2", False, None), ("4", True, None),
            ("5", False, None), ("7", True, None), ("8", False, None),
        ]  # fmt: skip
        assert {one.routing_type for one in waiting} == {1}
        world.domain.dispatcher.now_ms += 100
        world.domain.dispatcher.handle_deadlines()
        assert queue.scheduled_count == 0
        world.settle()
        world.audit()


def test_what_is_not_durable_is_routed_too(tmp_path: Path) -> None:
    with World(tmp_path, SETTINGS) as world:
        job = Job(world)
        job.stage(0, "a", *numbers(0, 10), durable=False)
        job.commit(0, a=10)
        world.settle()

        assert bodies(world.queue()) == numbers(0, 10)


def test_what_is_left_is_dropped_with_its_address(tmp_path: Path) -> None:
    """As it would have been, had it been routed a moment before; other addresses get theirs."""
    with World(tmp_path, SETTINGS) as world:
        job = Job(world)
        job.stage(0, "a", *numbers(0, 10))
        job.stage(0, "b", "1", "2", address="other")
        job.commit(0, a=10, b=2)
        world.domain.delete_address("q", force=True)
        world.settle()

        assert job.answers == [True]
        assert bodies(world.queue("other")) == ["1", "2"]
        assert "q" not in world.domain.addresses
        assert not world.services.staging.awaits("q")
        world.audit()


def test_a_store_that_fails_ends_the_routing_and_the_next_start_goes_on(tmp_path: Path) -> None:
    with World(tmp_path, SETTINGS) as world:
        job = Job(world)
        job.stage(0, "a", *numbers(0, 40))
        world.settle()
        job.commit(0, a=40)
        settle_down(world.domain)
        world.hands.turn()
        world.hands.work()
        settle_down(world.domain)
        world.hands.turn()
        world.hands.work("disk full")
        settle_down(world.domain)
        there = bodies(world.queue())
        job.commit(0, a=40)
        settle_down(world.domain)

        assert bodies(world.queue()) == there
        assert len(job.answers) == 2
        assert all(isinstance(answer, StoreError) for answer in job.answers)
        assert len(bodies(world.queue())) < 40
    with World(tmp_path, SETTINGS) as world:
        world.services.staging.restore()
        world.settle()

        assert bodies(world.queue()) == numbers(0, 40)
        world.audit()


# -- limits --------------------------------------------------------------------------------------------------


def limited(policy: FullPolicy, max_bytes: int = 10_000, **more: object) -> dict[str, AddressSettings]:
    settings = AddressSettings(address_full_policy=policy, max_size_bytes=max_bytes, **more)
    return {"q": settings}


@pytest.mark.parametrize("durable", [True, False])
def test_an_epoch_larger_than_a_blocked_address_flows_through_it(tmp_path: Path, durable: bool) -> None:
    """It does not fill the address while it is staged; it is routed as far as there is room."""
    with World(tmp_path, limited(FullPolicy.BLOCK)) as world:
        job = Job(world)
        job.stage(0, "a", *numbers(0, 300), durable=durable)
        world.settle()
        address = world.domain.addresses["q"]
        assert (address.must_wait, address.size_bytes) == (False, 0)

        job.commit(0, a=300)
        world.settle()
        assert job.answers == []
        assert address.must_wait
        assert 10_000 <= address.account.size_bytes < 12_000
        taken: list[object] = []
        while not job.answers:
            before = bodies(world.queue())
            assert before
            taken += before
            world.queue().purge()
            world.settle()
        taken += bodies(world.queue())

        assert job.answers == [True]
        assert taken == numbers(0, 300)


def test_what_is_staged_for_a_blocked_address_has_a_limit_of_its_own(tmp_path: Path) -> None:
    """Nobody can make room in a stage: who goes beyond it is refused, and does not wait for ever."""
    with World(tmp_path, limited(FullPolicy.BLOCK)) as world:
        world.services.staging.max_staged_bytes = 5_000
        job = Job(world)
        with pytest.raises(AddressFull, match="5000 are allowed"):
            job.stage(0, "a", *numbers(0, 20))
        staged = world.services.staging.open("job", "w", 0, "a", "q", Holder()).count
        assert 5 < staged < 10
        world.domain.dispatcher.slices.start(world.services.staging.abort(job.session, "w", 0))
        job.stage(1, "a", "1")


def test_what_is_staged_counts_for_an_address_that_refuses(tmp_path: Path) -> None:
    """FAIL: an epoch that does not fit is refused while it is written, not at its commit."""
    with World(tmp_path, limited(FullPolicy.FAIL)) as world:
        job = Job(world)
        with pytest.raises(AddressFull):
            job.stage(0, "a", *numbers(0, 100))
        count = world.services.staging.open("job", "w", 0, "a", "q", Holder()).count
        assert 10 < count < 30
        job.commit(0, a=count)
        world.settle()

        assert job.answers == [True]
        assert len(bodies(world.queue())) == count


def test_an_address_that_drops_takes_what_it_has_room_for(tmp_path: Path) -> None:
    """A client was told that all was accepted, and commits as many; a crash forgets nothing of that."""
    with World(tmp_path, limited(FullPolicy.DROP)) as world:
        Job(world).stage(0, "a", *numbers(0, 100))
        world.settle()
    with World(tmp_path, limited(FullPolicy.DROP)) as world:
        world.services.staging.restore()
        job = Job(world)
        assert world.services.staging.open("job", "w", 0, "a", "q", Holder()).count == 100
        job.commit(0, a=100)
        world.settle()

        assert job.answers == [True]
        taken = bodies(world.queue())
        assert 10 < len(taken) < 30
        assert taken == numbers(0, len(taken))


def test_page_limits_are_about_what_is_staged_too(tmp_path: Path) -> None:
    with World(tmp_path, limited(FullPolicy.PAGE, 10_000, page_limit_messages=20)) as world:
        job = Job(world)
        with pytest.raises(AddressFull):
            job.stage(0, "a", *numbers(0, 100))

        assert world.services.staging.open("job", "w", 0, "a", "q", Holder()).count == 20


@pytest.mark.parametrize("policy", list(FullPolicy))
def test_accounts_are_even_when_all_is_consumed(tmp_path: Path, policy: FullPolicy) -> None:
    """What was in memory counted for the stage, then for the address."""
    with World(tmp_path, limited(policy, 1_000_000)) as world:
        job = Job(world)
        for durable in (True, False):
            job.stage(int(durable), "a", *numbers(0, 10), durable=durable)
        job.commit(0, a=10)
        job.commit(1, a=10)
        world.settle()
        assert len(bodies(world.queue())) == 20
        world.queue().purge()
        world.settle()
        address = world.domain.addresses["q"]

        for each in (address, world.domain.addresses[STAGING_ADDRESS]):
            assert (each.account.size_bytes, each.account.message_count, each.paged_count) == (0, 0, 0)
        assert world.domain.account.size_bytes == 0


def test_requests_of_a_writer_are_limited(tmp_path: Path) -> None:
    with World(tmp_path, SETTINGS) as world:
        job = Job(world)
        job.stage(0, "a", *numbers(0, 10))
        for _ in range(MAX_WAITING + 2):
            job.commit(0, a=10)
        world.settle()

        (refusal,) = [answer for answer in job.answers if isinstance(answer, Refusal)]
        assert str(refusal) == f"{MAX_WAITING} requests of writer 'w' are waiting already"
        assert (job.answers.count(True), job.answers.count(False)) == (1, MAX_WAITING)


def test_a_staged_message_is_stored_once(tmp_path: Path) -> None:
    """Its commit moves what is stored, whatever the memory has: nothing is encoded again, and nothing is read."""
    with StoreWorld(tmp_path) as world:
        job = Job(world)
        job.stage(0, "a", *numbers(0, 10))
        world.settle()
        (stage,) = world.domain.addresses[STAGING_ADDRESS].bindings
        assert isinstance(stage, Queue)
        assert stage.backlog.cold_count == 0
        for reference in browse_all(stage):
            reference.message.data = b"not this"
        job.commit(0, a=10)
        world.settle()
    with StoreWorld(tmp_path) as world:
        assert bodies(world.queue()) == numbers(0, 10)
        world.audit()


def test_what_left_a_stage_is_removed_as_a_range(tmp_path: Path) -> None:
    """One entry for a slice instead of one for each message."""
    with World(tmp_path, SETTINGS) as world:
        world.queue(filter="1 = 1")
        job = Job(world)
        job.stage(0, "a", *numbers(0, 10))
        world.settle()
        job.commit(0, a=10)

        batch = world.store._gathering
        assert len(batch.removals) == 0
        assert [(drop.after, drop.upto, drop.count) for drop in batch.drops][:1] == [(0, 3, 3)]
        world.settle()
        world.audit()


def test_a_damaged_value_is_routed_as_the_memory_has_it(tmp_path: Path) -> None:
    with StoreWorld(tmp_path) as world:
        world.queue(filter="1 = 1")
        job = Job(world)
        job.stage(0, "a", "x", "y")
        world.settle()
        (stage,) = world.domain.addresses[STAGING_ADDRESS].bindings
        assert isinstance(stage, Queue)
        damage(world, stage, 1)
        job.commit(0, a=2)
        world.settle()
    with StoreWorld(tmp_path) as world:
        assert bodies(world.queue()) == ["x", "y"]


def damage(world: StoreWorld, queue: Queue, sequence: int) -> None:
    """Overwrite the value of a reference."""
    environment = world.store._environment
    assert environment is not None
    key = schema.place_key(queue.id, schema.handle_of(4, sequence), 0)
    with environment.begin(write=True) as transaction:
        assert transaction.replace(key, b"damaged", db=environment.databases[schema.REFERENCES])


def test_a_queue_that_keeps_nothing_gets_nothing(tmp_path: Path) -> None:
    """And what a ring has no room for is not stored either."""
    with StoreWorld(tmp_path) as world:
        job = Job(world)
        job.stage(0, "a", *numbers(0, 5))
        queue = world.queue()
        queue.enabled = False
        world.settle()
        job.commit(0, a=5)
        world.settle()

        assert queue.message_count == 0
        world.audit()
    with StoreWorld(tmp_path) as world:
        assert bodies(world.queue()) == []
