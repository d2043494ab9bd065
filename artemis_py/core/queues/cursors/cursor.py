"""A cursor: how one consumer walks through its queue.

Most consumers have none: they get the head of the queue, which dispatch takes itself. A consumer that may skip messages
has one of the cursors in this package, or one that its creator passed (`ConsumerOptions.cursor`).
"""

from typing import TYPE_CHECKING

from mypy_extensions import mypyc_attr

from artemis_py.core.queues.reference import Reference

if TYPE_CHECKING:
    from artemis_py.core.queues.consumer import Consumer


class ScanBudget:
    """The number of messages that may still be examined for cursors before others are served."""

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
        """Whether its consumer is in no ring: it reads regardless of the queue's state, and removes nothing from it."""
        self.is_unreadable: bool = False
        """Whether the last `next` found nothing because the disk could not be read: a drain has to wait then."""

    def next(self, consumer: "Consumer", budget: ScanBudget) -> Reference | None:
        """Return the message the consumer gets now; None if there is nothing for it, or if the budget is used up.

        Subtracts what it examines from `budget.left`, and stops when that is not above 0. Unless the consumer browses,
        the reference is one that waits in memory (`Backlog.fetch` brings one there); dispatch removes it from the
        queue, or leaves it and asks again.
        """
        raise NotImplementedError

    def came_back(self, consumer: "Consumer", reference: Reference) -> None:
        """Note that a message returned to its place in the queue, which this cursor may have passed."""

    def place(self, priority: int) -> Reference | None:
        """Return a reference near the consumer's place in the list of this priority; None if it remembers none."""
        return None

    def reset(self) -> None:
        """Forget all references, because the queue was emptied or the consumer left."""


def wants(consumer: "Consumer", reference: Reference) -> bool:
    """Tell whether a message is allowed for the consumer and matches its filter."""
    if reference.hidden_from is not None and consumer.id in reference.hidden_from:
        return False
    assignment = consumer.queue.assignment
    if assignment is not None and assignment.is_by_message and not consumer.browse:
        if not assignment.may_have(consumer.queue, consumer, reference):
            return False
    return consumer.filter is None or consumer.filter.matches(reference)
