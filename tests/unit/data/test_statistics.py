"""`data stat`: counts of what a store holds."""

from pathlib import Path

import pytest

from artemis_py.data.statistics import statistics
from artemis_py.errors import StoreError
from artemis_py.store import schema
from artemis_py.store.environment import Environment
from tests.unit.data.stores import fill
from tests.unit.store.world import SMALL_MAP_BYTES


def test_statistics_count_by_queue(tmp_path: Path) -> None:
    """`data stat`."""
    fill(tmp_path)

    found = statistics(tmp_path)

    assert [(queue.name, queue.messages, queue.scheduled) for queue in found.queues] == [
        ("q", 3, 1),
        ("t.a", 1, 0),
        ("t.b", 1, 0),
    ]
    assert (found.messages, found.shared_messages, found.addresses, found.damaged) == (5, 1, 2, 0)
    assert 0 < found.used_bytes <= found.file_bytes


def test_another_format_is_not_read(tmp_path: Path) -> None:
    """Counts of something else would be wrong."""
    fill(tmp_path)
    with Environment(tmp_path, SMALL_MAP_BYTES) as environment, environment.begin(write=True) as transaction:
        transaction.put(schema.FORMAT_KEY, schema.U32.pack(7), db=environment.database(schema.META))

    with pytest.raises(StoreError, match="format 7"):
        statistics(tmp_path)
