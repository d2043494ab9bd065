"""A consumer: credit, what it has and did not settle, and how deliveries end from its side.

A consumer without conditions takes the head of the queue; one that picks (a selector, a browser) keeps a cursor per
priority, so that it examines each message once, however often it asks. Its `Sink` turns deliveries into bytes.
"""

from collections import deque
from typing import TYPE_CHECKING, Final

from mypy_extensions import mypyc_attr

from artemis_py.core.queues.cursors.range_reader import Span
from artemis_py.core.queues.reference import PRIORITIES, Reference
from artemis_py.core.selectors.filter import Filter

if TYPE_CHECKING:
    from artemis_py.core.queues.queue import Queue

# What a delivery ends with. Plain ints: they are compared per message in compiled code.
ACCEPTED: Final = 0
"""Done: the message leaves the queue."""
RELEASED: Final = 1
"""Never looked at: back to its place, the attempt does not count."""
FAILED: Final = 2
"""The attempt failed: it counts, and may lead to the dead-letter address."""
REJECTED: Final = 3
"""Nobody can process it: to the dead-letter address at once."""


@mypyc_attr(allow_interpreted_subclasses=True)
class Sink:
    """Where a consumer's deliveries go: one protocol's half of it.

    A class and not a typing.Protocol, for `deliver` is called per message: compiled sinks are called directly.
    """

    def deliver(self, reference: Reference) -> None:
        """Write the delivery. Called from the queue's dispatch: must not add or remove consumers."""
        raise NotImplementedError

    def drained(self) -> None:
        """There is nothing more for a draining consumer; its credit is gone."""
        raise NotImplementedError

    def ended(self, reason: str) -> None:
        """The queue was deleted: the consumer is closed already."""
        raise NotImplementedError


class Consumer:
    """One taker of messages from one queue, with credit."""

    __slots__ = (
        "accepted",
        "ahead",
        "ahead_end",
        "ahead_last",
        "ahead_priority",
        "blocked",
        "browse",
        "credit",
        "cursors",
        "draining",
        "filter",
        "id",
        "in_ring",
        "is_closed",
        "is_starved",
        "outstanding",
        "picks",
        "presettled",
        "priority",
        "queue",
        "reach",
        "revisit",
        "sink",
        "span",
        "unsettled_bytes",
        "user",
    )

    def __init__(
        self,
        id: int,
        queue: "Queue",
        sink: Sink,
        filter: Filter | None,
        browse: bool,
        priority: int,
        user: str,
        presettled: bool = False,
        span: Span | None = None,
    ) -> None:
        self.id: int = id
        self.queue: Queue = queue
        self.sink: Sink = sink
        self.filter: Filter | None = filter
        self.browse: bool = browse
        self.priority: int = priority
        self.presettled: bool = presettled and not browse
        """Its deliveries are acknowledged when they are handed over."""
        self.span: Span | None = span
        """What it reads by numbers, if it does."""
        self.user: str = user
        """Who consumes, for management."""
        self.credit: int = 0
        """Messages it may still get."""
        self.blocked: bool = False
        """Its connection cannot take more output now."""
        self.draining: bool = False
        self.in_ring: bool = False
        self.is_closed: bool = False
        self.picks: bool = (browse or filter is not None) and span is None
        """Whether it may pass over messages, and hence needs cursors."""
        self.cursors: list[Reference | None] = [None] * PRIORITIES if self.picks else []
        """Per priority the last reference it examined; None: nothing yet."""
        self.reach: list[int] = [0] * PRIORITIES if self.picks else []
        """Per priority the sequence up to which it examined what is on disk; of a browser, also what is in memory."""
        self.ahead: deque[Reference] = deque()
        """What a browser is shown next of what is on disk, of one priority."""
        self.ahead_priority: int = -1
        self.ahead_end: int = 0
        """Up to this sequence there is nothing else on disk."""
        self.ahead_last: int = 0
        """The last of what was read, whether it wants it or not."""
        self.revisit: list[tuple[int, int, Reference]] = []
        """Messages that came back behind a cursor: a heap of (9 - priority, sequence, reference)."""
        self.outstanding: dict[int, Reference] = {}
        """What it has and did not settle, by sequence."""
        self.unsettled_bytes: int = 0
        """Size of that."""
        self.is_starved: bool = False
        """It gets nothing until it settles something or memory is free."""
        self.accepted: int = 0
        """Deliveries it acknowledged."""

    def grant(self, credit: int, drain: bool = False) -> None:
        """Set the credit (absolute). With `drain`, what cannot be used at once is given up (`Sink.drained`)."""
        self.credit = credit
        self.draining = drain
        if credit > 0 or drain:
            self.queue.consumer_ready(self)

    def block(self) -> None:
        """Deliver nothing until `unblock`."""
        self.blocked = True

    def unblock(self) -> None:
        """Deliveries may go on."""
        if self.blocked:
            self.blocked = False
            if self.credit > 0 or self.draining:
                self.queue.consumer_ready(self)

    def settle(self, reference: Reference, outcome: int, here: bool = True) -> None:
        """End a delivery with one of the outcomes above; `here` false: never again to this consumer."""
        outstanding = self.outstanding
        sequence = reference.sequence
        if sequence not in outstanding:
            return
        del outstanding[sequence]
        self.unsettled_bytes -= reference.message.size
        if self.is_starved:
            self.feed()
        if outcome == ACCEPTED:
            self.accepted += 1
            self.queue.acknowledge(reference)
        else:
            if not here:
                self.hide(reference)
            self.queue.give_back(reference, outcome)

    def refuse(self, reference: Reference, outcome: int) -> None:
        """The sink cannot send what it was just handed: the credit is unused, and it shall not come here again."""
        self.credit += 1
        if not self.browse:
            self.relinquish(reference)
            self.hide(reference)
            self.queue.give_back(reference, outcome)

    def relinquish(self, reference: Reference) -> None:
        """Let go of a delivery without settling it; whoever adopts it is answerable for it."""
        if self.outstanding.pop(reference.sequence, None) is not None:
            self.unsettled_bytes -= reference.message.size

    def adopt(self, reference: Reference) -> None:
        """Take over a delivery that another consumer of this queue relinquished."""
        reference.consumer = self
        self.outstanding[reference.sequence] = reference
        self.unsettled_bytes += reference.message.size

    def feed(self) -> None:
        """Deliveries may go on, as far as memory is concerned."""
        if self.is_starved and not self.is_closed:
            self.is_starved = False
            self.queue.hub.starved.discard(self)
            if self.credit > 0 or self.draining:
                self.queue.consumer_ready(self)

    def hide(self, reference: Reference) -> None:
        """Never offer this reference to this consumer again."""
        if reference.hidden_from is None:
            reference.hidden_from = set()
        reference.hidden_from.add(self.id)
        if not self.picks:
            self.picks = True
            self.cursors = [None] * PRIORITIES
            self.reach = [0] * PRIORITIES
            self.queue.picking_count += 1

    def close(self, failed: bool = False) -> None:
        """Leave the queue; unsettled deliveries go back, as failed attempts if the connection broke."""
        if not self.is_closed:
            self.queue.remove_consumer(self, failed)


class Level:
    """Consumers of one priority that take turns."""

    __slots__ = ("priority", "ring")

    def __init__(self, priority: int) -> None:
        self.priority: int = priority
        self.ring: deque[Consumer] = deque()
        """Those with credit, next one first; who turns out to have none is taken out when its turn comes."""
