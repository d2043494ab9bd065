"""Queues that inherit what a stage left in the store: where the store finds it, and what a start and the tools make
of it."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from artemis_py.core.messages.builtin_format import PLAIN_FORMAT
from artemis_py.core.queues.consumer import ACCEPTED, FAILED
from artemis_py.core.settings.address_settings import AddressSettings
from artemis_py.errors import DamagedValue
from artemis_py.store import schema
from artemis_py.store.environment import Environment
from artemis_py.store.format import is_logged, mark, read_format
from artemis_py.store.inherited import INHERITED, Inherited, parts_of, read_record, record_of
from artemis_py.store.moves import Span
from artemis_py.storetools.check import check_folder
from artemis_py.storetools.export import FileFormat, export_folder
from artemis_py.storetools.intake import import_file
from artemis_py.storetools.snapshot import opened
from artemis_py.storetools.statistics import statistics
from tests.core_harness import attach, browse_all, settle_down
from tests.log_switch import SMALL_LOG
from tests.unit.store.test_ranges import commit, stage
from tests.unit.store.world import SMALL_MAP_BYTES, World, bodies

FIRST = [f"a{number}" for number in range(6)]
SECOND = [f"b{number}" for number in range(4)]
EVERYTHING = ["before", *FIRST, *SECOND, "after"]
FORMATS = {PLAIN_FORMAT.name: PLAIN_FORMAT}


@pytest.fixture(autouse=True)
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """A stage is never too small."""
    monkeypatch.setattr(World, "inherited_messages", 1)


def fill(world: World) -> None:
    """A message, two inherited ranges, and a message."""
    world.queue()
    world.send("q", "before")
    stage(world, *FIRST, attempt="a")
    stage(world, *SECOND, attempt="b")
    commit(world, a=len(FIRST), b=len(SECOND))
    world.send("q", "after")
    world.settle()


def smash(environment: Environment, database: bytes, key: bytes) -> None:
    """Make a value a damaged one."""
    with environment.begin(write=True) as transaction:
        assert transaction.replace(key, b"damaged", db=environment.database(database))


def flags(world: World) -> int:
    """What the format says besides its number."""
    with world.environment.begin() as transaction:
        return (read_format(world.environment.databases, transaction) - schema.FORMAT_VERSION) & ~schema.LOGGED


# -- where references are ------------------------------------------------------------------------------------------


SPANS = st.lists(st.tuples(st.integers(0, 4), st.integers(1, 5), st.integers(0, 3)), max_size=5)
"""Gap before a range, its length, and the sequences that its stage skips."""


@given(SPANS, st.integers(0, 30), st.integers(0, 30))
def test_places_are_translated_there_and_back(shape: list[tuple[int, int, int]], after: int, upto: int) -> None:
    """One by one, and as parts, which cover the positions between two ends once and in order."""
    inherited = Inherited()
    owners: dict[int, tuple[int, int]] = {}
    position = 1
    for source_id, (gap, count, skipped) in enumerate(shape, 10):
        position += gap
        inherited.add(Span(source_id, 5, skipped, 2, 3, position, count, 0))
        owners.update({position + index: (source_id, skipped + 1 + index) for index in range(count)})
        position += count

    for sequence in range(1, position + 3):
        handle = schema.handle_of(6, sequence)
        source_id, number = owners.get(sequence, (2, sequence))
        place = (source_id, schema.handle_of(4 if source_id > 2 else 6, number))
        assert inherited.place_of(2, handle) == place
        assert inherited.place_of(2, handle | schema.LARGE) == (place[0], place[1] | schema.LARGE)
        assert inherited.owner_of(*place) == (2, handle)
    assert inherited.place_of(3, 7) == (3, 7)
    assert inherited.owner_of(3, 7) == (3, 7)
    found = [
        (part.queue_id, position, position + part.distance)
        for part in parts_of(inherited.of_rank(2, 3), 2, 3, after, upto)
        for position in range(part.after + 1, part.upto + 1)
    ]
    assert found == [(*owners.get(number, (2, number)), number) for number in range(after + 1, upto + 1)]
    for source_id in list(inherited.by_source):
        inherited.forget(source_id)
        inherited.forget(source_id)
    assert (inherited.targets, inherited.of_rank(2, 3), inherited.of_queue(2)) == ({}, [], [])


def test_a_record_says_what_it_was_made_of() -> None:
    key, value = record_of(Span(7, 5, 3, 2, 1, 9, 4, 0))
    other = schema.record_key("other", b"7")

    found = Inherited([(other, schema.seal(other, b"")), (key, value), (key + b"x", value)]).by_source
    assert list(found) == [7]
    span = found[7]
    assert (span.source_rank, span.after, span.count) == (5, 3, 4)
    assert (span.target_id, span.target_rank, span.first) == (2, 1, 9)
    with pytest.raises(DamagedValue, match="not an inherited range"):
        read_record(key, b"")


# -- in the store --------------------------------------------------------------------------------------------------


def test_nothing_is_written_twice(tmp_path: Path) -> None:
    """The references keep their keys; one record says whose they are."""
    with World(tmp_path) as world:
        staged = stage(world, *FIRST)
        with world.environment.begin() as transaction:
            before = list(transaction.cursor(db=world.environment.database(schema.REFERENCES)))
        commit(world, a=len(FIRST))
        world.settle()
        with world.environment.begin() as transaction:
            after = list(transaction.cursor(db=world.environment.database(schema.REFERENCES)))

        assert after == before
        assert staged.id not in {queue.id for queue in world.domain.queues.values()}
        assert [span.target_id for span in world.environment.inherited.by_source.values()] == [world.queue().id]
        assert bodies(world.queue()) == FIRST


def test_a_queue_consists_of_ranges_through_restarts(tmp_path: Path) -> None:
    with World(tmp_path) as world:
        fill(world)
        assert bodies(world.queue()) == EVERYTHING
        assert flags(world) == schema.INHERITING
        sequences = [reference.sequence for reference in browse_all(world.queue())]
    with World(tmp_path) as world:
        queue = world.queue()
        assert (queue.message_count, bodies(queue)) == (12, EVERYTHING)
        assert [reference.sequence for reference in browse_all(queue)] == sequences
        assert world.found.references == 12
        recorder, consumer = attach(world.domain, queue)
        settle_down(world.domain)
        for reference in recorder.take():
            consumer.settle(reference, ACCEPTED)
        world.settle()
        assert queue.message_count == 0
        assert not world.store.load_records(INHERITED)
        assert flags(world) == 0
        world.audit()
    assert check_folder(tmp_path) == []


def test_a_damaged_message_is_found_when_it_is_read(tmp_path: Path) -> None:
    with World(tmp_path) as world:
        staged = stage(world, *FIRST)
        commit(world, a=len(FIRST))
        world.settle()
        smash(world.environment, schema.REFERENCES, schema.place_key(staged.id, schema.handle_of(4, 3), 0))
        queue = world.queue()

        assert bodies(queue) == FIRST[:2] + FIRST[3:]
        world.settle()
        assert (queue.message_count, world.count(schema.DAMAGED)) == (5, 1)
        world.audit()


def test_what_fails_goes_from_a_range_to_the_dead_letters(tmp_path: Path) -> None:
    """Its message is taken from the place where the store has it."""
    settings = {"q": AddressSettings(max_delivery_attempts=1, dead_letter_address="dead")}
    with World(tmp_path, settings) as world:
        world.queue("dead")
        fill(world)
        recorder, consumer = attach(world.domain, world.queue())
        settle_down(world.domain)
        for reference in recorder.take():
            consumer.settle(reference, FAILED)
        world.settle()
        world.audit()
    with World(tmp_path, settings) as world:
        assert bodies(world.queue("dead")) == EVERYTHING
        assert bodies(world.queue()) == []
    assert check_folder(tmp_path) == []


@pytest.mark.parametrize("restarts", [False, True])
def test_a_range_ends_with_its_queue(tmp_path: Path, restarts: bool) -> None:
    """Also if the broker ends before everything is deleted."""
    with World(tmp_path) as world:
        fill(world)
        world.environment.drop_slice = 3
        world.domain.delete_queue("q", force=True)
        if restarts:
            world.begin_commit()
            world.hands.work()
        else:
            world.settle()
            assert world.count(schema.REFERENCES) == 0
    assert not [problem for problem in check_folder(tmp_path) if "records" in problem]
    with World(tmp_path) as world:
        world.settle()
        assert world.count(schema.REFERENCES) == 0
        assert not world.store.load_records(INHERITED)
        assert flags(world) == 0
        world.audit()


# -- at a start ------------------------------------------------------------------------------------------------------


def test_a_damaged_count_of_a_range_is_counted_again(tmp_path: Path) -> None:
    with World(tmp_path) as world:
        fill(world)
        source_id = next(iter(world.environment.inherited.by_source))
        smash(world.environment, schema.COUNTS, schema.rank_key(source_id, 5))
    with World(tmp_path) as world:
        assert (world.queue().message_count, bodies(world.queue())) == (12, EVERYTHING)


def test_a_damaged_mark_continues_behind_the_ranges(tmp_path: Path) -> None:
    with World(tmp_path) as world:
        world.queue()
        stage(world, *FIRST)
        commit(world, a=len(FIRST))
        world.settle()
        smash(world.environment, schema.MARKS, schema.U32.pack(world.queue().id))
    with World(tmp_path) as world:
        assert world.queue().next_sequence > len(FIRST)
        world.send("q", "after")
        assert bodies(world.queue()) == [*FIRST, "after"]


def test_messages_of_a_lost_queue_are_together_with_its_ranges(tmp_path: Path) -> None:
    with World(tmp_path) as world:
        fill(world)
        smash(world.environment, schema.QUEUES, schema.U32.pack(world.queue().id))
    with World(tmp_path) as world:
        assert world.found.lost_queues == 1
        assert [bodies(queue) for queue in world.domain.queues.values() if queue.message_count] == [EVERYTHING]


def test_messages_of_a_lost_record_have_a_queue_of_their_own(tmp_path: Path) -> None:
    with World(tmp_path) as world:
        fill(world)
        source_id = next(iter(world.environment.inherited.by_source))
        smash(world.environment, schema.RECORDS, schema.record_key(INHERITED, schema.U32.pack(source_id)))
    with World(tmp_path) as world:
        left = [bodies(queue) for queue in world.domain.queues.values() if queue.message_count]
        assert sorted(left, key=str) == [FIRST, ["before", *SECOND, "after"]]
    assert check_folder(tmp_path) == []


def test_a_range_whose_references_are_lost_is_forgotten(tmp_path: Path) -> None:
    with World(tmp_path) as world:
        world.queue()
        with world.environment.begin(write=True) as transaction:
            key, value = record_of(Span(999, 5, 0, world.queue().id, 5, 1, 4, 0))
            transaction.put(key, value, db=world.environment.database(schema.RECORDS))
    with World(tmp_path) as world:
        assert not world.environment.inherited.by_source
        assert not world.store.load_records(INHERITED)
        assert flags(world) == 0


@pytest.mark.parametrize("log", [SMALL_LOG, None])
def test_ranges_that_only_the_log_has_are_there_after_a_start(tmp_path: Path, log: object) -> None:
    with World(tmp_path, log=SMALL_LOG) as world:
        world.queue()
        stage(world, *FIRST)
        commit(world, a=len(FIRST))
        world.begin_commit()
        world.hands.work()
    with World(tmp_path, log=log) as world:  # type: ignore[arg-type]
        world.services.staging.restore()
        world.settle()
        assert bodies(world.queue()) == FIRST
        assert flags(world) == schema.INHERITING
        world.audit()
    assert check_folder(tmp_path) == []


# -- the format ------------------------------------------------------------------------------------------------------


def test_releases_without_ranges_refuse_the_store_as_long_as_there_are_some(tmp_path: Path) -> None:
    """Whatever else the format says."""
    with Environment(tmp_path, SMALL_MAP_BYTES) as environment, environment.begin(write=True) as transaction:
        databases = environment.databases
        found = []
        for flag, is_set in (
            (schema.INHERITING, True),
            (schema.LOGGED, True),
            (schema.INHERITING, True),
            (schema.INHERITING, False),
            (schema.LOGGED, False),
        ):
            mark(databases, transaction, flag, is_set)
            version = read_format(databases, transaction)
            found.append((version, is_logged(version)))

    assert found == [(8, False), (10, True), (10, True), (6, True), (4, False)]
    assert not is_logged(schema.HOSTS_FORMAT)


def test_the_first_virtual_host_leaves_what_the_format_says(tmp_path: Path) -> None:
    with World(tmp_path) as world:
        fill(world)
        world.store.mark_hosts()
        world.settle()

        assert flags(world) == schema.INHERITING | schema.HOSTS_FORMAT - schema.FORMAT_VERSION


# -- the tools -------------------------------------------------------------------------------------------------------


def test_the_tools_see_one_queue(tmp_path: Path) -> None:
    """Check, stat, export in the order of the queue, and import."""
    with World(tmp_path / "a") as world:
        fill(world)
        world.queue("r")
        world.send("r", "other")
        world.stop()

    assert check_folder(tmp_path / "a") == []
    assert {queue.name: queue.messages for queue in statistics(tmp_path / "a").queues if queue.messages} == {
        "q": 12,
        "r": 1,
    }
    with opened(tmp_path / "a") as snapshot:
        owners = [snapshot.inherited.owner_of(*schema.read_place(key)) for key, _ in snapshot.references()]
        assert owners == sorted(owners)
    exported = export_folder(tmp_path / "a", tmp_path / "lines", FileFormat.JSONL, FORMATS)
    assert exported.left_out == []
    import_file(tmp_path / "b", tmp_path / "lines", FileFormat.JSONL, FORMATS)
    assert check_folder(tmp_path / "b") == []
    with World(tmp_path / "b") as world:
        assert bodies(world.queue()) == EVERYTHING
        assert flags(world) == 0


def test_an_import_adds_to_a_queue_with_ranges(tmp_path: Path) -> None:
    with World(tmp_path / "a") as world:
        fill(world)
        world.stop()
    export_folder(tmp_path / "a", tmp_path / "lines", FileFormat.JSONL, FORMATS)
    import_file(tmp_path / "a", tmp_path / "lines", FileFormat.JSONL, FORMATS)

    assert check_folder(tmp_path / "a") == []
    with World(tmp_path / "a") as world:
        assert bodies(world.queue()) == EVERYTHING * 2


def test_a_check_names_a_record_that_is_none(tmp_path: Path) -> None:
    with World(tmp_path) as world:
        world.store.save_record(INHERITED, b"1234", b"?")
        world.settle()

    assert [problem for problem in check_folder(tmp_path) if "not an inherited range" in problem]
