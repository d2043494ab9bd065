"""References that a batch stores, in the order in which they were put.

Each reference knows its place in the list, so adding, finding and removing one needs no hash. With some thousand
messages under way, the table of a dict would not stay in the processor's caches.

A reference is put only once, and a batch that was merged into another is not used any more. So a reference needs to
know one place only, the one in the batch that it was merged into last.
"""

from typing import Final

from artemis_py.core.queues.reference import Reference
from artemis_py.store.schema import SHARED

MOST_EMPTY: Final = 1024
"""Places that may be empty, however few references there are; otherwise at most every second one is."""


class Puts:
    """The references to store in one batch, and their handles."""

    __slots__ = ("_handles", "_places", "count")

    def __init__(self) -> None:
        self._places: list[Reference | None] = []
        self._handles: dict[Reference, int] = {}
        """Handles of references with a last-value key, whose own handle is reset when a newer message replaces them."""
        self.count: int = 0
        """Number of references."""

    def add(self, reference: Reference, handle: int) -> None:
        """Add a reference that is in no batch yet; `handle` will be its own."""
        places = self._places
        if len(places) > 2 * self.count + MOST_EMPTY:
            self._close_up()
            places = self._places
        reference.put_at = len(places)
        places.append(reference)
        self.count += 1
        if reference.key is not None:
            self._handles[reference] = handle

    def has(self, reference: Reference) -> bool:
        """Tell whether a reference is here."""
        place = reference.put_at
        places = self._places
        return place < len(places) and places[place] is reference

    def handle(self, reference: Reference) -> int:
        """Return the handle under which a reference, which must be here, is to be stored."""
        return reference.handle if reference.key is None else self._handles[reference]

    def share(self, reference: Reference) -> None:
        """Note that a reference, which must be here, shares its message."""
        reference.handle |= SHARED
        if reference.key is not None:
            self._handles[reference] |= SHARED

    def remove(self, reference: Reference) -> None:
        """Remove a reference, which must be here."""
        self._places[reference.put_at] = None
        self.count -= 1
        if reference.key is not None:
            del self._handles[reference]

    def all(self) -> list[Reference]:
        """Return the references, in the order in which they were put."""
        return [reference for reference in self._places if reference is not None]

    def take_over(self, later: "Puts") -> None:
        """Add all that a later batch has, which must not be used any more."""
        for reference in later._places:
            if reference is not None:
                self.add(reference, later.handle(reference))

    def _close_up(self) -> None:
        """Remove the empty places."""
        places: list[Reference | None] = []
        for reference in self._places:
            if reference is not None:
                reference.put_at = len(places)
                places.append(reference)
        self._places = places
