"""The kinds of queues: which rules the attributes of a queue ask for.

To add a kind, write a module and append an entry to `KINDS`. A queue may be of several kinds. Its entry rules are asked
in the order of the list, up to one that refuses a message; it has one assignment rule, that of the first kind with one.
"""

from typing import TYPE_CHECKING, Final

from mypy_extensions import mypyc_attr

from artemis_py.core.queues.rules.assignment import Assignment
from artemis_py.core.queues.rules.entry import Entry, EntryRules, rules_of
from artemis_py.core.queues.rules.exclusive import Exclusive
from artemis_py.core.queues.rules.groups import Groups
from artemis_py.core.queues.rules.guard import Guard
from artemis_py.core.queues.rules.last_value import LastValue
from artemis_py.core.queues.rules.ring import Ring, size_of

if TYPE_CHECKING:
    from artemis_py.core.queues.queue import Queue


@mypyc_attr(allow_interpreted_subclasses=True)
class QueueKind:
    """Gives the rules of one kind to the queues that ask for it.

    Called when a queue is created and whenever its attributes change. For a rule that has state, return the instance
    that the queue already has (`rules_of`).
    """

    def entry(self, queue: "Queue") -> Entry | None:
        """Return the entry rule of this queue; None if this kind has none for it."""
        return None

    def assignment(self, queue: "Queue") -> Assignment | None:
        """Return the assignment rule of this queue; None if this kind has none for it."""
        return None

    def keeps_messages(self, queue: "Queue") -> bool:
        """Tell whether deliveries remove nothing from this queue, so that each consumer gets all messages."""
        return False


class LastValueKind(QueueKind):
    """Queues with `last-value` or a `last-value-key`, which are fixed when a queue is created."""

    def entry(self, queue: "Queue") -> Entry | None:
        """Return the rule that the queue has, which knows the messages in memory, or a new one."""
        if not queue.settings.last_value:
            return None
        for rule in rules_of(queue.entry):
            if isinstance(rule, LastValue):
                return rule
        return LastValue(queue.settings.last_value_key)


class RingKind(QueueKind):
    """Queues with a `ring-size`."""

    def entry(self, queue: "Queue") -> Entry | None:
        """Return a new ring of that size; it has no state to keep."""
        size = size_of(queue)
        return Ring(size, queue.settings.ring_eviction) if size >= 0 else None


class NonDestructiveKind(QueueKind):
    """Queues with `non-destructive`."""

    def keeps_messages(self, queue: "Queue") -> bool:
        """Tell whether the attribute is set; queues of the broker itself never keep their messages."""
        return queue.settings.non_destructive and not queue.internal


class ExclusiveKind(QueueKind):
    """Queues with `exclusive`, and those with a consumer that wants all messages for itself."""

    def assignment(self, queue: "Queue") -> Assignment | None:
        """Return the rule that the queue has, so that the pinned consumer stays pinned, or a new one."""
        if not queue.settings.exclusive and queue.exclusive_consumers == 0:
            return None
        return queue.assignment if isinstance(queue.assignment, Exclusive) else Exclusive()


class GroupKind(QueueKind):
    """Queues with messages of groups, unless `group-buckets` is 0. Internal and exclusive ones ignore groups."""

    def assignment(self, queue: "Queue") -> Assignment | None:
        """Return the rule that the queue has, so that groups keep their owners, or a new one."""
        buckets = queue.settings.group_buckets
        is_exclusive = queue.settings.exclusive or queue.exclusive_consumers > 0
        if not queue.has_groups or buckets == 0 or queue.internal or is_exclusive:
            return None
        current = queue.assignment
        return current if isinstance(current, Groups) and current.buckets == buckets else Groups(queue, buckets)


KINDS: Final[list[QueueKind]] = [ExclusiveKind(), LastValueKind(), RingKind(), NonDestructiveKind(), GroupKind()]
"""All kinds. A program that embeds the broker may append more before queues are created.

Last values come before rings: what a newer message replaces makes room in the ring first.
"""


def choose_rules(queue: "Queue") -> None:
    """Give a queue the rules that its attributes ask for; a guard stays around the entry rules."""
    guard = queue.guard
    if guard is not None:
        queue.entry = guard.inner
    entries: list[Entry] = []
    assignment: Assignment | None = None
    keeps_messages = False
    for kind in KINDS:
        rule = kind.entry(queue)
        if rule is not None:
            entries.append(rule)
        if assignment is None:
            assignment = kind.assignment(queue)
        keeps_messages = keeps_messages or kind.keeps_messages(queue)
    entry: Entry | None = EntryRules(entries) if len(entries) > 1 else entries[0] if entries else None
    if entry is not None:
        _unfold_runs(queue)
    queue.entry = entry
    if keeps_messages:
        # Everybody gets everything, so nobody owns a message.
        assignment = None
    else:
        # Consumers take messages again before the rule gives them the cursors that it needs.
        _keep(queue, False)
    if assignment is not queue.assignment:
        queue.dispatch.change_assignment(assignment)
    _keep(queue, keeps_messages)
    if guard is not None:
        guard.inner = entry
        queue.entry = guard


def _unfold_runs(queue: "Queue") -> None:
    """Make references of all deliveries: an entry rule is told of the end of each."""
    for consumer in queue.consumers:
        consumer.outstanding.unfold()


def _keep(queue: "Queue", keeps_messages: bool) -> None:
    queue.keeps_messages = keeps_messages
    for consumer in queue.consumers:
        consumer.follow_queue()


def set_guard(queue: "Queue", guard: Guard | None) -> None:
    """Put a guard around the entry rule of a queue, in place of the one that it has; None: remove it."""
    current = queue.guard
    rule = queue.entry if current is None else current.inner
    _unfold_runs(queue)
    queue.guard = guard
    queue.entry = rule
    if guard is not None:
        guard.inner = rule
        queue.entry = guard
