"""Treating the waiting messages of a queue that a selector matches, a part of the queue at a time: to list, copy, move
or expire them.

What happens to a message is a `Treatment`. A `Selection` remembers how far it has come, so that a client can treat a
long queue with many short requests, stop between two of them, and see the progress. Messages that arrive after the
first request are left alone, and so are those that a consumer, a transaction or a redelivery delay has.
"""

from typing import TYPE_CHECKING

from mypy_extensions import mypyc_attr

from artemis_py.core.queues.bulk import Place
from artemis_py.core.queues.reference import PRIORITIES, Reference
from artemis_py.core.runtime.background import SLICE_MESSAGES, Steps
from artemis_py.core.selectors.filter import Filter

if TYPE_CHECKING:
    from artemis_py.core.queues.queue import Queue


@mypyc_attr(allow_interpreted_subclasses=True)
class Treatment:
    """What happens to each of the selected messages."""

    def __init__(self, removes: bool) -> None:
        self.removes: bool = removes
        """Whether the messages leave the queue."""

    def begin(self, reference: Reference) -> bool:
        """Do it, before the message leaves; False: the message stays as it is. Raises a kind of Refusal.

        What this does and the end of the message are in one commit of the store.
        """
        raise NotImplementedError

    def end(self, reference: Reference) -> None:
        """End a message that has left the backlog."""
        raise NotImplementedError


class Selection:
    """Which messages of a queue are treated, and how far that has come."""

    def __init__(self, filter: Filter | None, priority: int, position: int, upto: int) -> None:
        self.filter: Filter | None = filter
        self.priority: int = priority
        """Priority that is searched now; they are searched from 9 to 0, in the order of delivery."""
        self.position: int = position
        """Everything up to this sequence was examined in that priority."""
        self.upto: int = upto
        """The last sequence that is examined."""
        self.first: int = position
        """Where the search begins in the other priorities."""
        self.examined: int = 0
        self.treated: int = 0
        self.left_alone: int = 0
        """Messages that were selected, and that the treatment did not want."""

    @property
    def is_complete(self) -> bool:
        """Whether everything was examined."""
        return self.priority < 0


def whole(queue: "Queue", filter: Filter | None) -> Selection:
    """Return a selection among all messages that are in a queue now."""
    return Selection(filter, PRIORITIES - 1, 0, queue.next_sequence - 1)


def treat(
    queue: "Queue", selection: Selection, treatment: Treatment, max_examined: int = -1, max_treated: int = -1
) -> Steps:
    """Treat messages until everything or `max_examined` were examined, or `max_treated` were treated; -1: no limit.

    The selection says how far it has come, also if a refusal ends it. Raises StoreError if messages cannot be read.
    """
    left = SLICE_MESSAGES
    while selection.priority >= 0:
        place = Place(queue, selection.priority, selection.upto)
        place.position = selection.position
        place.step = SLICE_MESSAGES
        while place.move():
            before = selection.examined
            if not _treat_found(queue, place, selection, treatment, max_treated):
                return None
            selection.position = place.position
            if 0 <= max_examined <= selection.examined:
                return None
            left -= selection.examined - before
            if left <= 0:
                left = SLICE_MESSAGES
                yield None
        selection.priority -= 1
        selection.position = selection.first
    return None


def _treat_found(queue: "Queue", place: Place, selection: Selection, treatment: Treatment, max_treated: int) -> bool:
    """Treat the messages that `place` found, in their order; False if the limit was reached before all were examined.

    What is not durable, and what a consumer has given back, is in memory although messages before it are on disk.
    """
    warm, cold = place.warm, place.cold
    at_warm = at_cold = 0
    try:
        while at_warm < len(warm) or at_cold < len(cold):
            if 0 <= max_treated <= selection.treated:
                return False
            if at_cold == len(cold) or (at_warm < len(warm) and warm[at_warm].sequence < cold[at_cold].sequence):
                reference = warm[at_warm]
                at_warm += 1
                _treat_one(queue, reference, False, selection, treatment)
            else:
                reference = cold[at_cold]
                at_cold += 1
                _treat_one(queue, reference, True, selection, treatment)
            selection.position = reference.sequence
            selection.examined += 1
    finally:
        tail = queue.backlog.tails[selection.priority]
        if tail is not None:
            queue.backlog.close(tail, selection.priority)
    return True


def _treat_one(queue: "Queue", reference: Reference, is_cold: bool, selection: Selection, treatment: Treatment) -> None:
    if selection.filter is not None and not selection.filter.matches(reference):
        return
    if not treatment.begin(reference):
        selection.left_alone += 1
        return
    selection.treated += 1
    if not treatment.removes:
        return
    tail = queue.backlog.tails[selection.priority]
    if is_cold:
        assert tail is not None, "it was read from there in this slice"
        queue.backlog.pull(tail, reference)
    else:
        queue.backlog.unlink(reference)
    treatment.end(reference)
