"""`data stat`: what is in a store, counted without reading messages."""

from collections import Counter
from pathlib import Path

from attrs import frozen

from artemis_py.data.snapshot import Snapshot, opened
from artemis_py.store import schema
from artemis_py.store.definitions import read_queue
from artemis_py.store.environment import FILE_NAME
from artemis_py.store.schema import DamagedValue


@frozen(kw_only=True)
class QueueStatistics:
    """One queue in the store."""

    id: int
    name: str
    """Empty if its definition is damaged."""
    address: str
    messages: int
    scheduled: int


@frozen(kw_only=True)
class Statistics:
    """What is in a store."""

    format: int
    file_bytes: int
    used_bytes: int
    """Of the file; the rest is free for reuse, and `compact` gives it back."""
    addresses: int
    shared_messages: int
    duplicates: int
    damaged: int
    queues: tuple[QueueStatistics, ...]

    @property
    def messages(self) -> int:
        """References in all queues."""
        return sum(queue.messages for queue in self.queues)


def statistics(folder: Path) -> Statistics:
    """Count what is in a store. Raises StoreError."""
    with opened(folder) as snapshot:
        messages: Counter[int] = Counter()
        scheduled: Counter[int] = Counter()
        for key in snapshot.keys(schema.REFERENCES):
            queue_id, handle = schema.read_place(key)
            messages[queue_id] += 1
            scheduled[queue_id] += schema.is_scheduled(handle)
        names = _names(snapshot)
        return Statistics(
            format=snapshot.format,
            file_bytes=(folder / FILE_NAME).stat().st_size,
            used_bytes=snapshot.used_bytes,
            addresses=snapshot.count(schema.ADDRESSES),
            shared_messages=snapshot.count(schema.MESSAGES),
            duplicates=snapshot.count(schema.DUPLICATES),
            damaged=snapshot.count(schema.DAMAGED),
            queues=tuple(
                QueueStatistics(
                    id=id,
                    name=names.get(id, ("", ""))[0],
                    address=names.get(id, ("", ""))[1],
                    messages=messages[id],
                    scheduled=scheduled[id],
                )
                for id in sorted(names.keys() | messages.keys())
            ),
        )


def _names(snapshot: Snapshot) -> dict[int, tuple[str, str]]:
    """Name and address of each queue, by its id."""
    names: dict[int, tuple[str, str]] = {}
    for key, value in snapshot.items(schema.QUEUES):
        try:
            config = read_queue(schema.unseal(key, value)).config
            names[schema.U32.unpack(key)[0]] = (config.name, config.address)
        except DamagedValue:
            names[schema.U32.unpack(key)[0]] = ("", "")
    return names
