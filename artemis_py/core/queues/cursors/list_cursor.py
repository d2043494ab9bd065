"""The base of selective and browsing cursors: a place in the list of each priority, and how far they are on disk."""

from typing import Final

from artemis_py.core.queues.cursors.cursor import Cursor
from artemis_py.core.queues.reference import PRIORITIES, Reference

# What is read from disk for one of them at a time, and what examining one there costs of the scan budget: it is
# decoded first.
SCAN_PAGE_MESSAGES: Final = 100
DISK_COST: Final = 4


class ListCursor(Cursor):
    """A place per priority. A reference knows the cursors that are on it, and moves them when it leaves its list."""

    def __init__(self) -> None:
        super().__init__()
        self.places: list[Reference | None] = [None] * PRIORITIES
        """Per priority the last reference it examined; None: nothing yet."""
        self.reach: list[int] = [0] * PRIORITIES
        """Per priority the sequence up to which it examined what is on disk; of a browser, also what is in memory."""

    def move(self, priority: int, to: Reference | None) -> None:
        """Remember what was examined last."""
        place = self.places[priority]
        if place is not None and place.cursors is not None:
            place.cursors.discard(self)
        self.places[priority] = to
        if to is not None:
            if to.cursors is None:
                to.cursors = set()
            to.cursors.add(self)

    def place(self, priority: int) -> Reference | None:
        """The last reference it examined."""
        return self.places[priority]

    def reset(self) -> None:
        """Forget all references."""
        for priority in range(PRIORITIES):
            self.move(priority, None)
