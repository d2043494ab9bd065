"""A consumer: its credit, its unsettled deliveries, and how it settles them.

A consumer without conditions takes the head of the queue; one that may skip messages has a cursor (`cursors`). Its
`Sink` turns deliveries into bytes.
"""

from typing import TYPE_CHECKING

from mypy_extensions import mypyc_attr

from artemis_py.core.messages.message import Message
from artemis_py.core.queues.attaching import detach
from artemis_py.core.queues.cursors.browsing import BrowsingCursor
from artemis_py.core.queues.cursors.cursor import Cursor
from artemis_py.core.queues.cursors.keeping import KeepingCursor
from artemis_py.core.queues.cursors.selective import SelectiveCursor
from artemis_py.core.queues.outcomes import ACCEPTED as ACCEPTED
from artemis_py.core.queues.outcomes import EXPIRED as EXPIRED
from artemis_py.core.queues.outcomes import FAILED as FAILED
from artemis_py.core.queues.outcomes import REJECTED as REJECTED
from artemis_py.core.queues.outcomes import RELEASED as RELEASED
from artemis_py.core.queues.outstanding import Outstanding
from artemis_py.core.queues.reference import Reference, Shown
from artemis_py.core.queues.settlement import acknowledge, end_shown, give_back
from artemis_py.core.selectors.filter import Filter

if TYPE_CHECKING:
    from artemis_py.core.queues.queue import Queue


@mypyc_attr(allow_interpreted_subclasses=True)
class Sink:
    """Takes a consumer's deliveries: the half of a consumer that a protocol writes.

    A class and not a typing.Protocol, because `deliver` is called per message: compiled sinks are called directly.
    """

    def deliver(self, reference: Reference) -> None:
        """Write the delivery. Called from the queue's dispatch, so it must not add or remove consumers."""
        raise NotImplementedError

    def drained(self) -> None:
        """Report that there is nothing more for a draining consumer; its credit is now 0."""
        raise NotImplementedError

    def ended(self, reason: str) -> None:
        """Report that the queue was deleted; the consumer is closed already."""
        raise NotImplementedError

    def forced(self, condition: str, reason: str) -> None:
        """Report that the broker ends the consumer, which is closed already, though the queue stays.

        `condition` is what the client is told in a protocol that has conditions; others do as if the queue were gone.
        """
        self.ended(reason)


@mypyc_attr(allow_interpreted_subclasses=True)
class PassingSink(Sink):
    """A sink that can also take messages that no queue has held.

    A queue with nothing waiting passes them on to its only consumer, if they need not be settled: they need no
    reference, no place in the backlog and no visit of the dispatcher (`passing`).
    """

    def pass_on(self, message: Message) -> bool:
        """Write a message that was just routed; False: the queue has to take it. As `deliver`, changes no consumers.

        If the consumer is not presettled, the sink must refuse a message that it would settle later.
        """
        raise NotImplementedError

    def run_room(self, most: int) -> int:
        """Return how many messages it could take in a run now (`run`), at most so many; 0: it takes them one by one."""
        return 0

    def deliver_run(self, messages: list[Message], first: int) -> int:
        """Write the first of these messages, and add them to a run of the consumer; return how many, perhaps none.

        They are no more than `run_room` said, `first` is the sequence of the first one, and the list never changes.
        """
        raise NotImplementedError


class ConsumerOptions:
    """Options of a consumer when it attaches."""

    __slots__ = ("browse", "cursor", "exclusive", "filter", "presettled", "priority")

    def __init__(
        self,
        filter: Filter | None = None,
        browse: bool = False,
        priority: int = 0,
        presettled: bool = False,
        cursor: Cursor | None = None,
        exclusive: bool = False,
    ) -> None:
        self.filter: Filter | None = filter
        self.browse: bool = browse
        """Whether it looks at messages without taking them."""
        self.priority: int = priority
        """Priority among the consumers of the queue: the highest is served first."""
        self.presettled: bool = presettled
        """Whether its deliveries are acknowledged when they are handed over."""
        self.cursor: Cursor | None = cursor
        """The cursor that walks through the queue; None: chosen by `filter` and `browse`."""
        self.exclusive: bool = exclusive
        """Whether it wants all messages of the queue for itself."""


class Consumer:
    """One consumer of one queue, with credit."""

    __slots__ = (
        "accepted",
        "blocked",
        "browse",
        "credit",
        "cursor",
        "draining",
        "extra_turns",
        "filter",
        "id",
        "in_ring",
        "is_browser",
        "is_closed",
        "is_exclusive",
        "is_first_of_group",
        "is_starved",
        "mark",
        "outstanding",
        "passing",
        "presettled",
        "priority",
        "queue",
        "shown",
        "sink",
        "turns_left",
        "unsettled_bytes",
        "user",
    )

    def __init__(self, id: int, queue: "Queue", sink: Sink, options: ConsumerOptions, user: str) -> None:
        self.id: int = id
        self.queue: Queue = queue
        self.sink: Sink = sink
        self.filter: Filter | None = options.filter
        self.is_browser: bool = options.browse
        """Whether its client asked to look at messages without taking them."""
        self.browse: bool = options.browse or queue.keeps_messages
        """Whether it takes no messages: it is a browser, or its queue keeps them."""
        self.is_exclusive: bool = options.exclusive and not options.browse
        """Whether it gets all messages while it is attached; of several such consumers, one does."""
        self.priority: int = options.priority
        self.presettled: bool = options.presettled and not options.browse
        """Whether its deliveries are acknowledged when they are handed over."""
        self.passing: PassingSink | None = sink if isinstance(sink, PassingSink) else None
        """Its sink, if it may take messages that the queue does not hold."""
        self.user: str = user
        """The user of its client, for management."""
        self.cursor: Cursor | None = options.cursor
        """The cursor that walks through the queue; None: it takes the head."""
        if self.cursor is None and options.browse:
            self.cursor = BrowsingCursor()
        elif self.cursor is None and self.browse:
            self.cursor = KeepingCursor()
        elif self.cursor is None and self.filter is not None:
            self.cursor = SelectiveCursor()
        self.credit: int = 0
        """Number of messages it may still get."""
        self.blocked: bool = False
        """Whether its connection cannot take more output now."""
        self.draining: bool = False
        self.in_ring: bool = False
        self.extra_turns: int = 0
        """Messages that it gets in a row beyond the first, when consumers take turns."""
        self.turns_left: int = 0
        """Those that are left of its present turn."""
        self.is_closed: bool = False
        self.outstanding: Outstanding = Outstanding()
        """Unsettled deliveries."""
        self.shown: dict[int, Shown] = {}
        """Unsettled deliveries of messages that stay in the queue, by sequence."""
        self.unsettled_bytes: int = 0
        """Size of the messages in `outstanding` and `shown`, in bytes."""
        self.is_starved: bool = False
        """Whether it gets nothing until it settles something or memory is free."""
        self.mark: str | None = None
        """Name of a property that the next delivery is to have, with the value true (`group-first-key`)."""
        self.is_first_of_group: bool = False
        """Whether the next delivery is the first of its group that this consumer gets."""
        self.accepted: int = 0
        """Number of deliveries it acknowledged."""

    @property
    def reads_apart(self) -> bool:
        """Whether it reads regardless of the queue's state, for example a range of sequences."""
        return self.cursor is not None and self.cursor.is_apart

    def grant(self, credit: int, drain: bool = False) -> None:
        """Set the credit (absolute). With `drain`, credit that cannot be used at once is given up (`Sink.drained`)."""
        self.credit = credit
        self.draining = drain
        if credit > 0 or drain:
            self.queue.dispatch.consumer_ready(self)

    def block(self) -> None:
        """Deliver nothing until `unblock`."""
        self.blocked = True

    def unblock(self) -> None:
        """Continue deliveries."""
        if self.blocked:
            self.blocked = False
            if self.credit > 0 or self.draining:
                self.queue.dispatch.consumer_ready(self)

    def settle(self, reference: Reference, outcome: int, here: bool = True) -> None:
        """Settle a delivery with one of `outcomes`; `here` false: never deliver it to this consumer again."""
        outstanding = self.outstanding
        if reference.outstanding is not outstanding:
            if isinstance(reference, Shown):
                self._settle_shown(reference, outcome)
            return
        outstanding.remove(reference)
        self.unsettled_bytes -= reference.message.size
        if self.is_starved:
            self.feed()
        if outcome == ACCEPTED:
            self.accepted += 1
            acknowledge(reference)
        else:
            if not here:
                self.hide(reference)
            give_back(reference, outcome)

    def _settle_shown(self, shown: Shown, outcome: int) -> None:
        """End a delivery of a message that stays in the queue; the outcome makes no difference there."""
        if self.shown.get(shown.sequence) is not shown:
            return
        end_shown(shown)
        if self.is_starved:
            self.feed()
        if outcome == ACCEPTED:
            self.accepted += 1

    def unsettled(self) -> list[Reference]:
        """Return all unsettled deliveries."""
        found = self.outstanding.all()
        if self.shown:
            found.extend(self.shown.values())
        return found

    def refuse(self, reference: Reference, outcome: int) -> None:
        """Give back a message that the sink cannot send: its credit is restored, and it never comes here again."""
        self.credit += 1
        if isinstance(reference, Shown):
            end_shown(reference)
        elif not self.browse:
            self.relinquish(reference)
            self.hide(reference)
            give_back(reference, outcome)

    def relinquish(self, reference: Reference) -> None:
        """Give up a delivery without settling it; the consumer that adopts it settles it."""
        if isinstance(reference, Shown):
            if self.shown.get(reference.sequence) is reference:
                del self.shown[reference.sequence]
                self.unsettled_bytes -= reference.message.size
        elif reference.outstanding is self.outstanding:
            self.outstanding.remove(reference)
            self.unsettled_bytes -= reference.message.size

    def adopt(self, reference: Reference) -> None:
        """Take over a delivery that another consumer of this queue relinquished."""
        reference.consumer = self
        if isinstance(reference, Shown):
            self.shown[reference.sequence] = reference
        else:
            self.outstanding.add(reference)
        self.unsettled_bytes += reference.message.size
        if self.queue.assignment is not None:
            self.queue.assignment.adopted(self.queue, self, reference)

    def feed(self) -> None:
        """Continue deliveries that were stopped because memory was short."""
        if self.is_starved and not self.is_closed:
            self.is_starved = False
            self.queue.dispatcher.starved.discard(self)
            if self.credit > 0 or self.draining:
                self.queue.dispatch.consumer_ready(self)

    def hide(self, reference: Reference) -> None:
        """Never offer this reference to this consumer again."""
        if reference.hidden_from is None:
            reference.hidden_from = set()
        reference.hidden_from.add(self.id)
        self.keep_cursor()

    def keep_cursor(self) -> None:
        """Use a cursor from now on, because the consumer has to skip messages."""
        if self.cursor is None:
            self.cursor = SelectiveCursor()
            self.queue.dispatch.cursor_count += 1

    def follow_queue(self) -> None:
        """Take messages from now on, or no longer, if the queue has become one of the other sort.

        When the queue begins to keep its messages, the consumer sees all that wait, from the first. It settles what it
        has already as it would have before.
        """
        keeps = self.queue.keeps_messages
        if self.is_browser or self.browse == keeps:
            return
        self.browse = keeps
        dispatch = self.queue.dispatch
        if self.cursor is None:
            dispatch.cursor_count += 1
        elif isinstance(self.cursor, (SelectiveCursor, KeepingCursor)):
            self.cursor.reset()
        else:
            # Its creator chose how it walks.
            return
        # As a consumer it may have to skip messages: it has a filter, or some were hidden from it.
        self.cursor = KeepingCursor() if keeps else SelectiveCursor()

    def close(self, failed: bool = False) -> None:
        """Leave the queue; unsettled deliveries go back, as failed attempts if `failed` (the connection broke)."""
        if not self.is_closed:
            detach(self, failed)
