"""A rule at the entry of a queue: what happens when a message is about to become visible in it."""

from typing import TYPE_CHECKING

from mypy_extensions import mypyc_attr

from artemis_py.core.queues.reference import Reference

if TYPE_CHECKING:
    from artemis_py.core.queues.queue import Queue


@mypyc_attr(allow_interpreted_subclasses=True)
class Entry:
    """Asked about each message of its queue. A queue without such a rule pays one test for it."""

    def admit(self, queue: "Queue", reference: Reference) -> bool:
        """Whether a message comes in; if not, it is gone.

        Called when the message is about to get its number: when it was sent, or when its delivery time has come. The
        rule may take other waiting messages out (`settlement.replace`).
        """
        raise NotImplementedError

    def readmit(self, queue: "Queue", reference: Reference) -> bool:
        """Whether a message that a consumer gave back returns to its place; if not, it is gone."""
        return True
