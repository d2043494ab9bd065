"""An assignment rule: which consumer of a queue gets a message."""

from typing import TYPE_CHECKING

from mypy_extensions import mypyc_attr

from artemis_py.core.queues.reference import Reference

if TYPE_CHECKING:
    from artemis_py.core.queues.consumer import Consumer
    from artemis_py.core.queues.queue import Queue


@mypyc_attr(allow_interpreted_subclasses=True)
class Assignment:
    """Called by dispatch. A queue without such a rule gives each message to the consumer whose turn it is.

    Browsers are exempt, because they remove nothing.
    """

    def __init__(self) -> None:
        self.is_by_message: bool = False
        """Whether messages have owners. Consumers may then have to skip messages, so each has a cursor."""

    def may_take(self, queue: "Queue", consumer: "Consumer") -> bool:
        """Tell whether a consumer with credit, whose turn it is, gets anything at all."""
        return True

    def owner(self, queue: "Queue", reference: Reference) -> "Consumer | None":
        """Return the only consumer that may have this message; None: any. Called if `is_by_message`."""
        return None

    def delivered(self, queue: "Queue", consumer: "Consumer", reference: Reference) -> None:
        """Note that a consumer is about to get this message."""

    def left(self, queue: "Queue", consumer: "Consumer") -> None:
        """Note that a consumer detached. Others find its messages if the rule resets their cursors (`Cursor.reset`)."""
