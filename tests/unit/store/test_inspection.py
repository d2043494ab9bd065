"""A store seen from outside: counts, a check that finds what is wrong, and copies."""

from pathlib import Path

import pytest

from artemis_py.core.consumer import FAILED
from artemis_py.errors import StoreError
from artemis_py.store import inspection, schema
from artemis_py.store.environment import FILE_NAME, LOCK_NAME, Environment, FolderLock
from tests.core_harness import START_MS, attach, settle_down
from tests.unit.store.test_damage import spoil
from tests.unit.store.world import SMALL_MAP_BYTES, World, bodies, multicast


def fill(folder: Path) -> None:
    """Three messages in a queue, one scheduled and one failed once; one in two subscriptions; a duplicate id."""
    with World(folder) as world:
        queue = world.queue()
        world.send("q", "a", "b")
        world.send("q", "later", delivery_time_ms=START_MS + 1000)
        multicast(world, "t", "t.a", "t.b")
        world.send("t", "shared")
        world.office.duplicates(queue.address).add(b"id", durable=True, size=10)
        recorder, consumer = attach(world.office, queue, credit=1)
        settle_down(world.office)
        consumer.settle(recorder.take()[0], FAILED)
        world.stop()


def test_statistics_count_by_queue(tmp_path: Path) -> None:
    """`data stat`."""
    fill(tmp_path)

    found = inspection.statistics(tmp_path)

    assert [(queue.name, queue.messages, queue.scheduled) for queue in found.queues] == [
        ("q", 3, 1),
        ("t.a", 1, 0),
        ("t.b", 1, 0),
    ]
    assert (found.messages, found.shared_messages, found.addresses, found.damaged) == (5, 1, 2, 0)
    assert 0 < found.used_bytes <= found.file_bytes


def test_a_sound_store_has_no_problems(tmp_path: Path) -> None:
    """`data check`: what the broker writes holds together."""
    fill(tmp_path)

    findings = inspection.check(tmp_path)

    assert findings.problems == []
    assert findings.values > 8


@pytest.mark.parametrize(
    ("database", "said"),
    [
        (schema.ADDRESSES, "checksum"),
        (schema.QUEUES, "checksum"),
        (schema.REFERENCES, "checksum"),
        (schema.MESSAGES, "checksum"),
        (schema.ATTEMPTS, "checksum"),
        (schema.DUPLICATES, "checksum"),
        (schema.SHARES, "2 references share the message, 66 were counted"),
    ],
)
def test_a_damaged_value_is_found_and_left(tmp_path: Path, database: bytes, said: str) -> None:
    """R8: named with its database and key."""
    fill(tmp_path)
    key = spoil(tmp_path, database)

    for _ in range(2):
        (problem,) = inspection.check(tmp_path).problems
        assert problem.startswith(f"{database.decode()} {key.hex()}: ")
        assert said in problem


@pytest.mark.parametrize(
    ("database", "expected"),
    [
        (schema.QUEUES, ["its queue is not there"] * 3),
        (schema.ADDRESSES, ["its address is not there"]),
        (schema.MESSAGES, ["its message is missing"]),
        (schema.SHARES, ["the count of a shared message is missing"]),
        (schema.REFERENCES, ["there is no reference at this place"]),
    ],
)
def test_a_missing_value_is_missed(tmp_path: Path, database: bytes, expected: list[str]) -> None:
    """What refers to nothing is a problem, even if every checksum is right."""
    fill(tmp_path)
    with Environment(tmp_path, SMALL_MAP_BYTES) as environment, environment.begin(write=True) as transaction:
        cursor = transaction.cursor(db=environment.database(database))
        assert cursor.first()
        cursor.delete()

    problems = inspection.check(tmp_path).problems

    assert [problem.split(": ")[1] for problem in problems] == expected


def test_values_that_were_set_aside_are_listed(tmp_path: Path) -> None:
    """They stay until somebody looked."""
    fill(tmp_path)
    key = spoil(tmp_path, schema.REFERENCES)
    with World(tmp_path) as world:
        for queue in world.office.queues.values():
            queue.browse_all()
        world.settle()

    assert inspection.check(tmp_path).damaged == [f"references {key.hex()}"]


def test_a_backup_is_a_store(tmp_path: Path) -> None:
    """`data backup`: a broker starts from it."""
    fill(tmp_path / "a")

    size = inspection.back_up(tmp_path / "a", tmp_path / "b")

    assert size == (tmp_path / "b" / FILE_NAME).stat().st_size
    with World(tmp_path / "b") as world:
        assert bodies(world.queue()) == ["a", "b"]


def test_a_backup_overwrites_nothing(tmp_path: Path) -> None:
    """The only copy may be there."""
    fill(tmp_path / "a")

    with pytest.raises(StoreError, match="is not empty"):
        inspection.back_up(tmp_path / "a", tmp_path / "a")


def test_compacting_gives_space_back_and_keeps_the_rest(tmp_path: Path) -> None:
    """`data compact`."""
    with World(tmp_path) as world:
        queue = world.queue()
        world.send("q", *("x" * 10_000 for _ in range(50)))
        world.settle()
        queue.purge()
        world.send("q", "kept")
        world.stop()

    before, after = inspection.compact(tmp_path)

    assert after < before // 2
    assert {path.name for path in tmp_path.iterdir()} == {FILE_NAME, LOCK_NAME, "lock.mdb"}
    with World(tmp_path) as world:
        assert bodies(world.queue()) == ["kept"]


def test_a_store_in_use_is_not_compacted(tmp_path: Path) -> None:
    """The broker would go on writing to the old file."""
    fill(tmp_path)
    lock = FolderLock(tmp_path)

    with pytest.raises(StoreError, match="used by another broker"):
        inspection.compact(tmp_path)
    lock.release()


def test_a_folder_without_a_store_is_told_apart(tmp_path: Path) -> None:
    """And nothing is made in it."""
    for look in (inspection.statistics, inspection.check, inspection.compact):
        with pytest.raises(StoreError, match="there is no store in"):
            look(tmp_path)

    assert not list(tmp_path.iterdir())


def test_another_format_is_not_read(tmp_path: Path) -> None:
    """Counts of something else would be wrong."""
    fill(tmp_path)
    with Environment(tmp_path, SMALL_MAP_BYTES) as environment, environment.begin(write=True) as transaction:
        transaction.put(schema.FORMAT_KEY, schema.U32.pack(7), db=environment.database(schema.META))

    with pytest.raises(StoreError, match="format 7"):
        inspection.statistics(tmp_path)
