"""A guard: an entry rule that a service puts around the one that a queue has, for as long as it is needed."""

from typing import TYPE_CHECKING

from mypy_extensions import mypyc_attr

from artemis_py.core.queues.reference import Reference
from artemis_py.core.queues.rules.entry import Entry

if TYPE_CHECKING:
    from artemis_py.core.queues.queue import Queue


@mypyc_attr(allow_interpreted_subclasses=True)
class Guard(Entry):
    """Passes everything on to the rule inside it; a subclass overrides `admit`."""

    def __init__(self) -> None:
        self.inner: Entry | None = None
        """The rule that the attributes of the queue ask for; `kinds.choose_rules` keeps it up to date."""

    def admit(self, queue: "Queue", reference: Reference) -> bool:
        """Ask the rule inside; without one everything comes in."""
        return self.inner is None or self.inner.admit(queue, reference)

    def readmit(self, queue: "Queue", reference: Reference) -> bool:
        """Ask the rule inside; without one everything returns."""
        return self.inner is None or self.inner.readmit(queue, reference)

    def emptied(self, queue: "Queue") -> int:
        """Note that everything is being removed from the queue; return how many messages the guard removes with it."""
        return 0

    def may_return(self, queue: "Queue", reference: Reference) -> bool:
        """Ask the rule inside; without one every failed delivery may wait."""
        return self.inner is None or self.inner.may_return(queue, reference)

    def unloaded(self, queue: "Queue", reference: Reference) -> None:
        """Tell the rule inside."""
        if self.inner is not None:
            self.inner.unloaded(queue, reference)

    def loaded(self, queue: "Queue", reference: Reference) -> None:
        """Tell the rule inside."""
        if self.inner is not None:
            self.inner.loaded(queue, reference)

    def ended(self, queue: "Queue", reference: Reference) -> None:
        """Tell the rule inside."""
        if self.inner is not None:
            self.inner.ended(queue, reference)

    def may_go(self, reference: Reference) -> bool:
        """Tell whether a message that is too much may be removed now."""
        return True
