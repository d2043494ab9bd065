"""A rule of assignment: which consumer of a queue gets a message."""

from typing import TYPE_CHECKING

from mypy_extensions import mypyc_attr

from artemis_py.core.queues.reference import Reference

if TYPE_CHECKING:
    from artemis_py.core.queues.consumer import Consumer
    from artemis_py.core.queues.queue import Queue


@mypyc_attr(allow_interpreted_subclasses=True)
class Assignment:
    """Asked by dispatch. A queue without such a rule gives each message to the consumer whose turn it is.

    Browsers are not asked about: they take nothing.
    """

    def __init__(self) -> None:
        self.is_by_message: bool = False
        """Messages have owners, so consumers may have to pass messages over: each walks with a cursor."""

    def may_take(self, queue: "Queue", consumer: "Consumer") -> bool:
        """Whether a consumer with credit, whose turn it is, gets anything at all."""
        return True

    def owner(self, queue: "Queue", reference: Reference) -> "Consumer | None":
        """The only consumer that may have this message; None: any. Asked if `is_by_message`."""
        return None

    def delivered(self, queue: "Queue", consumer: "Consumer", reference: Reference) -> None:
        """A consumer is about to be handed this message."""

    def left(self, queue: "Queue", consumer: "Consumer") -> None:
        """A consumer detached. What it owned finds others if the rule resets their cursors (`Cursor.reset`)."""
