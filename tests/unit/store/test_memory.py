"""The store that keeps nothing."""

from artemis_py.core.queues.storage import Storage
from artemis_py.store.memory import MemoryStore


def test_it_says_that_nothing_survives() -> None:
    """`persistence-enabled=false`: protocols need not wait for it."""
    store: Storage = MemoryStore()

    assert not store.is_durable
