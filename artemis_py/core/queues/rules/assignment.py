"""An assignment rule: which consumer of a queue gets a message."""

from typing import TYPE_CHECKING

from mypy_extensions import mypyc_attr

from artemis_py.core.queues.cursors.cursor import Cursor
from artemis_py.core.queues.cursors.selective import SelectiveCursor
from artemis_py.core.queues.reference import Reference

if TYPE_CHECKING:
    from artemis_py.core.queues.consumer import Consumer
    from artemis_py.core.queues.queue import Queue


@mypyc_attr(allow_interpreted_subclasses=True)
class Assignment:
    """Called by dispatch. A queue without such a rule gives each message to the consumer whose turn it is.

    Browsers are exempt, because they remove nothing. Most methods tell the rule what happens; a rule overrides those
    that it needs.
    """

    def __init__(self) -> None:
        self.is_by_message: bool = False
        """Whether messages have owners. Consumers may then have to skip messages, so each has a cursor."""
        self.takes_turns: bool = True
        """Whether the next consumer gets the next message; if not, a consumer continues until nothing is left."""

    # -- which consumer ----------------------------------------------------------------------------------------

    def begin(self, queue: "Queue") -> None:
        """Prepare for a visit of dispatch to the queue."""

    def may_take(self, queue: "Queue", consumer: "Consumer") -> bool:
        """Tell whether a consumer with credit, whose turn it is, gets anything at all."""
        return True

    def may_have(self, queue: "Queue", consumer: "Consumer", reference: Reference) -> bool:
        """Tell whether a consumer may have this message. Called if `is_by_message`."""
        return True

    def make_cursor(self, consumer: "Consumer") -> Cursor:
        """Return the cursor of a consumer. Called if `is_by_message`."""
        return SelectiveCursor()

    def rests(self, queue: "Queue", consumer: "Consumer") -> bool:
        """Tell whether a consumer, for which its cursor found nothing, leaves its ring; the rule puts it back."""
        return False

    # -- what happens ------------------------------------------------------------------------------------------

    def joined(self, queue: "Queue", consumer: "Consumer") -> None:
        """Note that a consumer attached."""

    def left(self, queue: "Queue", consumer: "Consumer") -> None:
        """Note that a consumer detached; its deliveries are still to be given back.

        Others find what was kept for it if the rule resets their cursors (`Cursor.reset`).
        """

    def delivered(self, queue: "Queue", consumer: "Consumer", reference: Reference) -> None:
        """Note that a consumer is about to get this message."""

    def adopted(self, queue: "Queue", consumer: "Consumer", reference: Reference) -> None:
        """Note that a consumer took over a delivery of another one."""

    def settled(self, queue: "Queue", reference: Reference) -> None:
        """Note that a delivery ended: it was acknowledged, or is about to be given back."""

    def came_back(self, queue: "Queue", reference: Reference) -> None:
        """Note that a message returned to its place in the queue."""
        tell_cursors(queue, reference)

    def entered(self, queue: "Queue", reference: Reference) -> None:
        """Note that a waiting message was brought from disk into memory."""

    def removed(self, queue: "Queue", reference: Reference) -> None:
        """Note that a message left the queue without being acknowledged by a consumer."""

    def emptied(self, queue: "Queue") -> None:
        """Note that all waiting messages were removed."""

    def began(self, queue: "Queue") -> None:
        """Note that the rule applies to the queue from now on."""

    def ended(self, queue: "Queue") -> None:
        """Note that the rule no longer applies to the queue."""


def tell_cursors(queue: "Queue", reference: Reference) -> None:
    """Tell the cursors of all consumers that a message returned to its place."""
    if queue.dispatch.cursor_count > 0:
        for consumer in queue.consumers:
            if consumer.cursor is not None:
                consumer.cursor.came_back(consumer, reference)
