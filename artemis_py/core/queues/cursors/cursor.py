"""A cursor: how one consumer walks through its queue.

Most consumers have none: they get the head of the queue, which dispatch takes itself. A consumer that may pass messages
over has one of the cursors in this package, or one of its own: a caller that makes a consumer may pass a
cursor (`ConsumerOptions.cursor`).
"""

from typing import TYPE_CHECKING

from mypy_extensions import mypyc_attr

from artemis_py.core.queues.reference import Reference

if TYPE_CHECKING:
    from artemis_py.core.queues.consumer import Consumer


class ScanBudget:
    """A count of messages that may still be examined for cursors before others get their turn."""

    __slots__ = ("left",)

    def __init__(self, left: int) -> None:
        self.left: int = left


@mypyc_attr(allow_interpreted_subclasses=True)
class Cursor:
    """Chooses what its consumer gets next.

    A class and not a typing.Protocol, because `next` is called per message: compiled cursors are called directly.
    """

    def __init__(self) -> None:
        self.is_apart: bool = False
        """Its consumer stands in no ring: it reads whatever the queue's state, and takes nothing out of it."""
        self.is_unreadable: bool = False
        """The last `next` found nothing because the disk could not be read: a drain has to wait."""

    def next(self, consumer: "Consumer", budget: ScanBudget) -> Reference | None:
        """Return what the consumer gets now; None if there is nothing for it, or if the budget is used up.

        Counts what it examines in `budget.left`, and stops when that is not above 0. Unless the consumer browses, the
        reference is one that waits in memory (`Backlog.fetch` brings one there); dispatch takes it out of the queue, or
        leaves it and asks again.
        """
        raise NotImplementedError

    def came_back(self, consumer: "Consumer", reference: Reference) -> None:
        """A message returned to its place in the queue, which may be behind this cursor."""

    def place(self, priority: int) -> Reference | None:
        """A reference in the list of this priority near which the consumer is; None if it remembers none."""
        return None

    def reset(self) -> None:
        """Forget all references: the queue was emptied, or the consumer left."""


def wants(consumer: "Consumer", reference: Reference) -> bool:
    """Whether the consumer may and would take a message."""
    if reference.hidden_from is not None and consumer.id in reference.hidden_from:
        return False
    assignment = consumer.queue.assignment
    if assignment is not None and assignment.is_by_message and not consumer.browse:
        owner = assignment.owner(consumer.queue, reference)
        if owner is not None and owner is not consumer:
            return False
    return consumer.filter is None or consumer.filter.matches(reference)
