"""An entry rule: what happens when a message is about to become visible in a queue."""

from typing import TYPE_CHECKING

from mypy_extensions import mypyc_attr

from artemis_py.core.queues.reference import Reference

if TYPE_CHECKING:
    from artemis_py.core.queues.queue import Queue


@mypyc_attr(allow_interpreted_subclasses=True)
class Entry:
    """Called for each message of its queue. A queue without such a rule only tests that it has none."""

    def admit(self, queue: "Queue", reference: Reference) -> bool:
        """Tell whether a message comes in; if not, it is discarded.

        Called when the message is about to get its sequence: when it is sent, or when its delivery time has come. The
        rule may remove other waiting messages (`settlement.replace`).
        """
        raise NotImplementedError

    def readmit(self, queue: "Queue", reference: Reference) -> bool:
        """Tell whether a message that a consumer gave back returns to its place; if not, it is discarded."""
        return True

    def may_return(self, queue: "Queue", reference: Reference) -> bool:
        """Tell whether a failed delivery may wait for its redelivery; if not, it is discarded.

        `readmit` is called when its time comes.
        """
        return True

    def unloaded(self, queue: "Queue", reference: Reference) -> None:
        """Note that a message is on disk only from now on; this reference to it will be forgotten."""

    def loaded(self, queue: "Queue", reference: Reference) -> None:
        """Note that a message was brought into memory from the disk; this is the reference to it from now on."""

    def ended(self, queue: "Queue", reference: Reference) -> None:
        """Note that a message in memory left the queue for good, or that `admit` or `readmit` refused it."""


class EntryRules(Entry):
    """Several rules for one queue: a message comes in if all admit it, and each is asked after those before it."""

    def __init__(self, rules: list[Entry]) -> None:
        self.rules: list[Entry] = rules

    def admit(self, queue: "Queue", reference: Reference) -> bool:
        """Ask the rules in order, up to one that refuses."""
        return all(rule.admit(queue, reference) for rule in self.rules)

    def readmit(self, queue: "Queue", reference: Reference) -> bool:
        """Ask the rules in order, up to one that refuses."""
        return all(rule.readmit(queue, reference) for rule in self.rules)

    def may_return(self, queue: "Queue", reference: Reference) -> bool:
        """Ask the rules in order, up to one that refuses."""
        return all(rule.may_return(queue, reference) for rule in self.rules)

    def unloaded(self, queue: "Queue", reference: Reference) -> None:
        """Tell each rule."""
        for rule in self.rules:
            rule.unloaded(queue, reference)

    def loaded(self, queue: "Queue", reference: Reference) -> None:
        """Tell each rule."""
        for rule in self.rules:
            rule.loaded(queue, reference)

    def ended(self, queue: "Queue", reference: Reference) -> None:
        """Tell each rule."""
        for rule in self.rules:
            rule.ended(queue, reference)


def rules_of(entry: Entry | None) -> list[Entry]:
    """Return the single rules of a queue's entry rule."""
    if entry is None:
        return []
    return entry.rules if isinstance(entry, EntryRules) else [entry]
