"""What the tools make of inherited ranges in a store that is damaged."""

from collections import Counter
from pathlib import Path

import pytest

from artemis_py.core.messages.builtin_format import PLAIN_FORMAT
from artemis_py.store import schema
from artemis_py.store.inherited import INHERITED
from artemis_py.storetools.check import check_folder
from artemis_py.storetools.export import FileFormat, export_folder
from artemis_py.storetools.intake import import_file
from artemis_py.storetools.statistics import statistics
from tests.unit.store.test_condition import pages_of, walks, zero
from tests.unit.store.test_inherited import EVERYTHING, FIRST, SECOND, fill, smash
from tests.unit.store.test_ranges import commit, stage
from tests.unit.store.world import World, bodies

__all__ = ["walks"]

FORMATS = {PLAIN_FORMAT.name: PLAIN_FORMAT}


@pytest.fixture(autouse=True)
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """A stage is never too small."""
    monkeypatch.setattr(World, "inherited_messages", 1)


def there(folder: Path) -> dict[str, list[object]]:
    """What a start serves, by queue."""
    with World(folder) as world:
        found = {name: bodies(queue) for name, queue in world.domain.queues.items() if queue.message_count}
        world.settle()
        world.audit()
        world.stop()
    assert check_folder(folder) == []
    return found


def exported(folder: Path) -> tuple[dict[str, list[object]], list[str]]:
    """What a broker serves that imports an export of it, and what the export said."""
    aside = folder.with_name(f"{folder.name}-exported")
    lines = folder.with_name(f"{folder.name}.jsonl")
    left_out = export_folder(folder, lines, FileFormat.JSONL, FORMATS).left_out
    import_file(aside, lines, FileFormat.JSONL, FORMATS)
    return there(aside), left_out


def test_an_export_has_the_messages_of_a_damaged_range_record(tmp_path: Path) -> None:
    """In a queue of their own, which is the one that a start makes."""
    folder = tmp_path / "a"
    with World(folder) as world:
        fill(world)
        source_id = next(iter(world.environment.inherited.by_source))
        smash(world.environment, schema.RECORDS, schema.record_key(INHERITED, schema.U32.pack(source_id)))
        world.stop()

    found, left_out = exported(folder)
    expected = {f"recovered-{source_id}": FIRST, "q": ["before", *SECOND, "after"]}
    assert found == expected
    assert [line for line in left_out if f"recovered-{source_id}" in line]
    assert there(folder) == expected


def test_an_export_makes_no_queue_for_what_is_to_be_deleted(tmp_path: Path) -> None:
    folder = tmp_path / "a"
    with World(folder) as world:
        fill(world)
        sources = list(world.environment.inherited.by_source)
        world.environment.drop_slice = 1
        world.domain.delete_queue("q", force=True)
        world.begin_commit()
        world.hands.work()
        world.stop()

    assert sources
    assert exported(folder)[0] == {}
    assert there(folder) == {}


def test_a_damaged_store_is_read_once_and_not_once_a_range(tmp_path: Path, walks: list[str]) -> None:
    counts = []
    for ranges in (1, 20):
        folder = tmp_path / str(ranges)
        with World(folder) as world:
            world.queue()
            for number in range(ranges):
                stage(world, f"m{number}", attempt=f"a{number}")
            commit(world, **{f"a{number}": 1 for number in range(ranges)})
            world.settle()
            assert len(world.environment.inherited.by_source) == ranges
            world.stop()
        zero(folder, *pages_of(folder, schema.COUNTS))
        walks.clear()
        export_folder(folder, folder / "lines", FileFormat.JSONL, FORMATS)
        counts.append(len(walks))
        assert exported(folder)[0] == {"q": [f"m{number}" for number in range(ranges)]}

    assert counts[0] == counts[1]


@pytest.mark.parametrize(
    "database",
    [schema.COUNTS, schema.RECORDS, schema.QUEUES, schema.MARKS, schema.ADDRESSES, schema.META, schema.ATTEMPTS],
)
def test_messages_of_ranges_outlive_any_page_but_their_own(tmp_path: Path, database: bytes) -> None:
    folder = tmp_path / "a"
    with World(folder) as world:
        fill(world)
        world.stop()
    pages = pages_of(folder, database)
    zero(folder, *pages)

    if pages:
        assert check_folder(folder)
        assert sum(queue.messages for queue in statistics(folder).queues) == len(EVERYTHING)
    for found in (exported(folder)[0], there(folder)):
        assert Counter(body for messages in found.values() for body in messages) == Counter(EVERYTHING)
        assert [messages for messages in found.values() if messages != EVERYTHING] == [] or database == schema.RECORDS
