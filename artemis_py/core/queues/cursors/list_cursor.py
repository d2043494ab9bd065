"""The base of selective and browsing cursors: a place in the list of each priority, and a position on disk."""

from typing import Final

from artemis_py.core.queues.cursors.cursor import Cursor
from artemis_py.core.queues.reference import PRIORITIES, Reference

# How many messages are read from disk for one cursor at a time, and what examining one of them costs of the scan
# budget, because it has to be decoded.
SCAN_PAGE_MESSAGES: Final = 100
DISK_COST: Final = 4


class ListCursor(Cursor):
    """A place per priority. A reference knows the cursors on it, which step back when it leaves its list."""

    def __init__(self) -> None:
        super().__init__()
        self.places: list[Reference | None] = [None] * PRIORITIES
        """The last reference it examined, per priority; None: nothing yet."""
        self.reach: list[int] = [0] * PRIORITIES
        """The sequence up to which it examined the disk, per priority; for a browser, memory as well."""

    def move(self, priority: int, to: Reference | None) -> None:
        """Move the place to the reference that was examined last."""
        place = self.places[priority]
        if place is not None and place.cursors is not None:
            place.cursors.discard(self)
        self.places[priority] = to
        if to is not None:
            if to.cursors is None:
                to.cursors = set()
            to.cursors.add(self)

    def place(self, priority: int) -> Reference | None:
        """Return the last reference it examined."""
        return self.places[priority]

    def go_back(self, to: "ListCursor | None") -> None:
        """Examine everything again that is behind the places of another cursor; None: everything."""
        for priority in range(PRIORITIES):
            place = self.places[priority]
            other = None if to is None else to.places[priority]
            if place is not None and (other is None or other.sequence < place.sequence):
                self.move(priority, other)
            self.reach[priority] = 0 if to is None else min(self.reach[priority], to.reach[priority])

    def reset(self) -> None:
        """Forget all references."""
        for priority in range(PRIORITIES):
            self.move(priority, None)
