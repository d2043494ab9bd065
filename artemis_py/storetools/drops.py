"""References that no client sees any more and that only wait to be deleted: after a purge, or the end of a queue."""

from typing import Final

from artemis_py.errors import DamagedValue
from artemis_py.store import schema
from artemis_py.store.schema import Drop
from artemis_py.store.writer import goes
from artemis_py.storetools.snapshot import Snapshot


class Drops:
    """All drops of a snapshot; a damaged one covers no references, as for the next start."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._by_queue: Final[dict[int, list[Drop]]] = {}
        for key, value in snapshot.items(schema.DROPS):
            try:
                drop = schema.read_drop(key, value)
            except DamagedValue:
                continue
            self._by_queue.setdefault(drop.queue_id, []).append(drop)

    def have_all(self, id: int) -> bool:
        """Tell whether everything under this id is to be deleted."""
        return any(drop.rank == schema.ALL_RANKS for drop in self._by_queue.get(id, ()))

    def have(self, key: bytes) -> bool:
        """Tell whether the reference of this key is to be deleted."""
        queue_id, handle = schema.read_place(key)
        return any(
            drop.rank == schema.ALL_RANKS or (drop.rank == schema.rank_in(handle) and _covers(drop, key))
            for drop in self._by_queue.get(queue_id, ())
        )


def _covers(drop: Drop, key: bytes) -> bool:
    position = schema.read_position(key)
    return drop.after < position <= drop.upto and goes(drop, key, position)
