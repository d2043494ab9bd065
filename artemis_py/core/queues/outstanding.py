"""The unsettled deliveries of one consumer, in the order in which it got them.

A doubly linked list through the references themselves, which are in no other list while they are delivered: adding and
removing one takes a few assignments and no memory. A reference knows the list it is in, so that one comparison
tells whether the consumer has the delivery.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from artemis_py.core.queues.reference import Reference


class Outstanding:
    """Unsettled deliveries; `reference.outstanding is consumer.outstanding` tells whether a consumer has one."""

    __slots__ = ("_head", "_tail", "count")

    def __init__(self) -> None:
        self._head: Reference | None = None
        self._tail: Reference | None = None
        self.count: int = 0

    def add(self, reference: "Reference") -> None:
        """Add a reference, which must be in no list."""
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

    def all(self) -> "list[Reference]":
        """Return all references; removing them does not change what was returned."""
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
