"""The unsettled deliveries of one consumer, in the order in which it got them.

A doubly linked list through the references themselves, which are in no other list while they are delivered: adding and
removing one takes a few assignments and no memory. A reference knows the list it is in, so that one comparison
tells whether the consumer has the delivery.

The newest deliveries may be runs, which have no references (`run`). Whatever looks at the list, or adds to it, makes
references of them before.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from artemis_py.core.queues.reference import Reference
    from artemis_py.core.queues.run import Run


class Outstanding:
    """Unsettled deliveries; `reference.outstanding is consumer.outstanding` tells whether a consumer has one."""

    __slots__ = ("_head", "_runs", "_tail", "count")

    def __init__(self) -> None:
        self._head: Reference | None = None
        self._tail: Reference | None = None
        self._runs: list[Run] = []
        """Deliveries behind the list that have no references."""
        self.count: int = 0
        """Number of all deliveries."""

    def add(self, reference: "Reference") -> None:
        """Add a reference, which must be in no list."""
        if self._runs:
            self.unfold()
        self.append(reference)

    def append(self, reference: "Reference") -> None:
        """Add a reference to the list, whatever runs there are: it comes from the first of them, or there is none."""
        tail = self._tail
        reference.outstanding = self
        reference.previous = tail
        if tail is None:
            self._head = reference
        else:
            tail.next = reference
        self._tail = reference
        self.count += 1

    def remove(self, reference: "Reference") -> None:
        """Remove a reference, which must be in this list."""
        previous = reference.previous
        following = reference.next
        if previous is None:
            self._head = following
        else:
            previous.next = following
            reference.previous = None
        if following is None:
            self._tail = previous
        else:
            following.previous = previous
            reference.next = None
        reference.outstanding = None
        self.count -= 1

    @property
    def oldest(self) -> "Reference | None":
        """The first reference in the list; None if there is none, or nothing but runs."""
        return self._head

    # -- runs --------------------------------------------------------------------------------------------------

    def add_run(self, run: "Run") -> None:
        """Add a run behind everything else; it counts its deliveries here by itself."""
        self._runs.append(run)

    def remove_run(self, run: "Run") -> None:
        """Remove a run that has no delivery any more, or whose deliveries become references."""
        self._runs.remove(run)

    def unfold(self) -> None:
        """Make references of all runs."""
        while self._runs:
            self._runs[0].unfold()

    # -- all ---------------------------------------------------------------------------------------------------

    def all(self) -> "list[Reference]":
        """Return references to all deliveries; removing them does not change what was returned."""
        if self._runs:
            self.unfold()
        found: list[Reference] = []
        reference = self._head
        while reference is not None:
            found.append(reference)
            reference = reference.next
        return found

    def take_all(self) -> "list[Reference]":
        """Remove all references and return them."""
        found = self.all()
        for reference in found:
            reference.outstanding = None
            reference.previous = None
            reference.next = None
        self._head = None
        self._tail = None
        self.count = 0
        return found
