"""The kinds of queues: which rules the attributes of a queue ask for.

A further kind is a module of its own and an entry in `KINDS`. A queue may be of several kinds as long as only one of
them has a rule for its entry, and one a rule of assignment: the first in the list that gives one is asked.
"""

from typing import TYPE_CHECKING, Final

from mypy_extensions import mypyc_attr

from artemis_py.core.queues.rules.assignment import Assignment
from artemis_py.core.queues.rules.entry import Entry
from artemis_py.core.queues.rules.exclusive import Exclusive
from artemis_py.core.queues.rules.ring import Ring

if TYPE_CHECKING:
    from artemis_py.core.queues.queue import Queue


@mypyc_attr(allow_interpreted_subclasses=True)
class QueueKind:
    """Gives the rules of one kind to the queues that ask for it.

    Asked when a queue is made and whenever its attributes change. A rule that remembers something gives itself back:
    the queue still has it then.
    """

    def entry(self, queue: "Queue") -> Entry | None:
        """The rule at the entry of this queue; None: this kind has none for it."""
        return None

    def assignment(self, queue: "Queue") -> Assignment | None:
        """The rule of assignment of this queue; None: this kind has none for it."""
        return None

    def keeps_messages(self, queue: "Queue") -> bool:
        """Whether deliveries take nothing out of this queue: each consumer gets all messages, as a browser does."""
        return False


class RingKind(QueueKind):
    """Queues with a `ring-size`."""

    def entry(self, queue: "Queue") -> Entry | None:
        """A ring of that size; it remembers nothing."""
        size = queue.settings.ring_size
        return Ring(size) if size >= 0 else None


class ExclusiveKind(QueueKind):
    """Queues with `exclusive`."""

    def assignment(self, queue: "Queue") -> Assignment | None:
        """The rule that it has, so that the pinned consumer stays pinned, or a new one."""
        if not queue.settings.exclusive:
            return None
        return queue.assignment if isinstance(queue.assignment, Exclusive) else Exclusive()


KINDS: Final[list[QueueKind]] = [ExclusiveKind(), RingKind()]
"""All kinds. A program that embeds the broker may append more before queues are made."""


def choose_rules(queue: "Queue") -> None:
    """Give a queue the rules that its attributes ask for."""
    entry: Entry | None = None
    assignment: Assignment | None = None
    keeps_messages = False
    for kind in KINDS:
        if entry is None:
            entry = kind.entry(queue)
        if assignment is None:
            assignment = kind.assignment(queue)
        keeps_messages = keeps_messages or kind.keeps_messages(queue)
    queue.entry = entry
    queue.assignment = assignment
    queue.keeps_messages = keeps_messages
