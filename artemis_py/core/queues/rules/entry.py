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
