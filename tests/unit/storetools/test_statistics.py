"""`data stat`: counts of what a store holds."""

from pathlib import Path

import pytest

from artemis_py.errors import StoreError
from artemis_py.store import schema
from artemis_py.store.environment import Environment
from artemis_py.storetools.statistics import statistics
from tests.unit.store.test_damage import spoil
from tests.unit.store.world import SMALL_MAP_BYTES
from tests.unit.storetools.stores import BODY, fill, fill_large


def test_statistics_count_by_queue(tmp_path: Path) -> None:
    """`data stat`."""
    fill_large(tmp_path)

    found = statistics(tmp_path)

    assert [(queue.name, queue.messages, queue.scheduled) for queue in found.queues] == [
        ("q", 3, 1),
        ("t.a", 1, 0),
        ("t.b", 1, 0),
        ("big", 1, 0),
        ("l.a", 1, 0),
        ("l.b", 1, 0),
    ]
    assert (found.messages, found.shared_messages, found.addresses, found.damaged) == (8, 2, 4, 0)
    assert (found.large_messages, found.large_bytes, found.records) == (2, 2 * len(BODY), 1)
    assert all(512 * queue.messages < queue.size_bytes < 1024 * queue.messages for queue in found.queues)
    assert 0 < found.used_bytes <= found.file_bytes


def test_references_are_not_read_unless_a_count_is_damaged(tmp_path: Path) -> None:
    """What is shown is what a start makes of the store."""
    fill(tmp_path)
    before = [queue.messages for queue in statistics(tmp_path).queues]
    with Environment(tmp_path, SMALL_MAP_BYTES) as environment, environment.begin(write=True) as transaction:
        key = schema.rank_key(1, 5)
        transaction.put(key, schema.counts(key, 77, 1), db=environment.database(schema.COUNTS))
    counted = [queue.messages for queue in statistics(tmp_path).queues]
    spoil(tmp_path, schema.COUNTS)

    assert before == [3, 1, 1]
    assert counted == [78, 1, 1]
    assert [queue.messages for queue in statistics(tmp_path).queues] == before


def test_another_format_is_not_read(tmp_path: Path) -> None:
    """Counts of something else would be wrong."""
    fill(tmp_path)
    with Environment(tmp_path, SMALL_MAP_BYTES) as environment, environment.begin(write=True) as transaction:
        transaction.put(schema.FORMAT_KEY, schema.U32.pack(12), db=environment.database(schema.META))

    with pytest.raises(StoreError, match="format 12"):
        statistics(tmp_path)
