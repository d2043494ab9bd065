"""The store that keeps nothing."""

from artemis_py.core.message import Message
from artemis_py.core.plain import PLAIN_FORMAT
from artemis_py.core.storage import Storage
from artemis_py.store.memory import MemoryStore


def test_what_was_put_is_confirmed_at_once_and_in_order() -> None:
    """`persistence-enabled=false`: producers are answered without waiting, in the order they asked."""
    store: Storage = MemoryStore()
    done: list[int] = []
    store.put(Message(PLAIN_FORMAT, "a", b"{}", durable=True), queue_id=1)
    store.when_durable(lambda: done.append(1))
    store.when_durable(lambda: done.append(2))

    assert done == [1, 2]
    assert not store.is_durable
