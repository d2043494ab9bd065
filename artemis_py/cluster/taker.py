"""A taker: a peer as a consumer of one queue here (mesh §3.5, §5.5).

It takes turns with the consumers of this broker. What it gets is claimed in the channel to the peer and sent once the
claim is in the store. Its credit is what the peer has granted and not used.
"""

from heapq import heappop, heappush
from typing import TYPE_CHECKING, Final

from artemis_py.cluster.envelope import path_of
from artemis_py.cluster.records import Demand
from artemis_py.core.messages.message import Message, MessageFormat
from artemis_py.core.queues.attaching import attach, detach
from artemis_py.core.queues.consumer import Consumer, ConsumerOptions, Sink
from artemis_py.core.queues.cursors.cursor import ScanBudget
from artemis_py.core.queues.cursors.selective import SelectiveCursor
from artemis_py.core.queues.reference import Reference
from artemis_py.core.selectors.filter import Filter, Lookup, parse_filter
from artemis_py.errors import InvalidFilter

if TYPE_CHECKING:
    from artemis_py.cluster.local_queue import LocalQueue
    from artemis_py.cluster.peer import Peer
    from artemis_py.cluster.remote_queue import RemoteQueue

MAX_WEIGHT: Final = 64
"""Consumers at a peer that count when its taker takes turns with others."""

SCAN_MESSAGES: Final = 500
"""Messages that are examined at a time to tell whether any is left for a taker without a grant."""

FREE_MOVES: Final = 4
"""Times that a message may be handed over without a wait."""
FIRST_WAIT_MS: Final = 100
LONGEST_WAIT_MS: Final = 60_000
REFUSED_MS: Final = 60_000
"""Time after which a peer is asked again to take a large message that it had no room for."""
MAX_WAITING: Final = 10_000
"""Messages of one taker that are remembered because they had to wait before they move again."""


class TakerCursor(SelectiveCursor):
    """The cursor of a taker: asks it without the detour over a filter, which is made for selectors and not compiled."""

    def __init__(self, taker: "Taker") -> None:
        super().__init__()
        self._taker: Final = taker

    def wants(self, consumer: Consumer, reference: Reference) -> bool:
        """Tell whether the taker may have a message; as the filter of its consumer does."""
        if reference.hidden_from is not None or consumer.queue.assignment is not None:
            return super().wants(consumer, reference)
        return self._taker.wants(reference)


class Taker(Sink):
    """One peer that takes messages of one queue."""

    def __init__(self, local: "LocalQueue", peer: "Peer", remote: "RemoteQueue") -> None:
        self.local: Final = local
        self.peer: Final = peer
        self.remote: Final = remote
        self.demand: Demand = remote.demand
        self.is_ready: bool = False
        """Whether messages wait for it that it has no grant for."""
        self._wanted: list[tuple[Filter | None, int]] = _parse(self.demand)
        """What the peer's consumers want (None: everything), and how far away they are."""
        self._formats: Final[frozenset[str]] = peer.formats
        self._readable: MessageFormat | None = None
        """Format of the last message that was examined, if the peer can read it."""
        self._cursor: Final[TakerCursor] = TakerCursor(self)
        self._waits: Final[dict[int, int]] = {}
        """Time at which a message may move again, by its sequence."""
        self._refused: Final[set[int]] = set()
        """Sequences of large messages that the peer had no room for."""
        self._due: Final[list[tuple[int, int]]] = []
        """The same as a heap of (time, sequence)."""
        self._takes_groups = False
        """Whether it gets messages of groups too: it is the only one that is to get what is left here."""
        self._unmatched_only = False
        """Whether it gets only what no consumer here wants."""
        self._after = 0
        """It gets messages with a higher sequence only."""
        self._below = 0
        """It gets messages with a lower sequence only; 0: no limit."""
        self.consumer: Final = self._attach()

    def _attach(self) -> Consumer:
        queue = self.local.queue
        options = ConsumerOptions(
            filter=Filter("wanted by a peer", self._wants),
            priority=self.local.mesh.config.consumer_priority_adjustment + 1 - self.demand.distance,
            cursor=self._cursor,
        )
        consumer = Consumer(self.local.mesh.domain.new_id(), queue, self, options, self.peer.label)
        consumer.extra_turns = _extra_turns(self.demand)
        attach(consumer)
        return consumer

    def close(self) -> None:
        """Detach from the queue; messages that are claimed stay claimed."""
        if not self.consumer.is_closed:
            detach(self.consumer, False)
        self._waits.clear()
        self._due.clear()

    # -- what the peer says ------------------------------------------------------------------------------------

    def update(self) -> None:
        """Note what the peer's consumers want now."""
        demand = self.remote.demand
        changed = demand.wants != self.demand.wants
        self.demand = demand
        self.consumer.extra_turns = _extra_turns(demand)
        if changed:
            before, self._wanted = self._wanted, _parse(demand)
            if not set(self._wanted) <= set(before):
                self.examine_again()

    @property
    def unused(self) -> int:
        """Number of messages that may still be claimed."""
        return self.remote.granted - self.remote.handed

    # -- what happens here -------------------------------------------------------------------------------------

    def restrict(self, unmatched_only: bool, after: int, below: int) -> None:
        """Take only what no consumer here wants, or only messages between two sequences (`below` 0: no limit)."""
        if (unmatched_only, after, below) == (self._unmatched_only, self._after, self._below):
            return
        widens = (unmatched_only, after, -below) < (self._unmatched_only, self._after, -self._below)
        self._unmatched_only, self._after, self._below = unmatched_only, after, below
        if widens or below:
            self.examine_again()

    def take_groups(self, is_wanted: bool) -> None:
        """Take messages of groups, or leave them here."""
        if is_wanted != self._takes_groups:
            self._takes_groups = is_wanted
            if is_wanted:
                self.examine_again()

    @property
    def is_idle(self) -> bool:
        """Whether it could have more messages, and nothing of what is left here is for it."""
        is_busy = self.local.queue.dispatch.is_ready or bool(self._due)
        return self.consumer.credit > 0 and self.may_claim and not is_busy

    def examine_again(self) -> None:
        """Walk through the queue from its head, because something it did not want before may be wanted now."""
        self._waits.clear()
        self._due.clear()
        self._walk_again()

    def _walk_again(self) -> None:
        self._cursor.reset()
        self.consumer.queue.dispatch.consumer_ready(self.consumer)

    def refresh(self, is_open: bool, now_ms: int) -> bool:
        """Use the grant, or find out whether messages wait for one; True: examine more in the next iteration."""
        self._let_go(now_ms)
        credit = max(self.unused, 0) if is_open else 0
        if is_open:
            self.consumer.unblock()
        if credit != self.consumer.credit:
            self.consumer.grant(credit)
        if credit > 0 or not is_open:
            if not self.consumer.queue.dispatch.is_ready:
                self.is_ready = False
            return False
        budget = ScanBudget(SCAN_MESSAGES)
        self.is_ready = self._cursor.has_next(self.consumer, budget)
        return not self.is_ready and budget.left <= 0

    @property
    def next_due_ms(self) -> int | None:
        """Time at which a message may move again; None if none waits for that."""
        return self._due[0][0] if self._due else None

    def _let_go(self, now_ms: int) -> None:
        """Examine the queue again if messages may move that had to wait. They may be on disk only."""
        if self._due and self._due[0][0] <= now_ms:
            while self._due and self._due[0][0] <= now_ms:
                heappop(self._due)
            self._walk_again()

    def _wants(self, source: Lookup) -> bool:
        """Tell whether the peer may have a message, and has a consumer for it."""
        if isinstance(source, Reference):
            return self.wants(source)
        return isinstance(source, Message) and self._may_have(source, source)

    def _may_have(self, message: Message, source: Lookup) -> bool:
        """Tell whether a message may leave, and the peer has a consumer for it."""
        return (
            self._can_move(message)
            and self._distance(source) > 0
            and not (self._unmatched_only and self.local.has_own_consumer_for(source))
        )

    def wants(self, source: Reference) -> bool:
        """Tell whether the peer may have a message of this queue now."""
        message = source.message
        sequence = source.sequence
        if sequence <= self._after or (self._below and sequence >= self._below):
            return False
        if not self._may_have(message, source):
            return False
        if message.large is not None and self._waits.get(source.sequence, 0) > self.local.queue.dispatcher.steady_ms:
            return False
        if message.extra is None:
            return True
        path = path_of(message)
        return not path or self._may_move(source, path)

    def _can_move(self, message: Message) -> bool:
        """Tell whether a message may leave this broker at all, and whether the peer can read it."""
        if message.has_group and not self._takes_groups and self.local.group_taker is not self.peer:
            return False
        if message.large is not None and not self.peer.has_bulk:
            return False
        if message.format is self._readable:
            return True
        is_readable = message.format.name in self._formats
        self._readable = message.format if is_readable else None
        return is_readable

    def has_consumer_for(self, reference: Reference) -> bool:
        """Tell whether the peer could have a message, if no delay kept it here."""
        return self._can_move(reference.message) and self._distance(reference) > 0

    def rests(self, reference: Reference) -> bool:
        """Tell whether a message waits before it moves again, because it has moved often or had no room there."""
        return self._waits.get(reference.sequence, 0) > self.local.queue.dispatcher.steady_ms

    def _distance(self, source: Lookup) -> int:
        """Return how far away the nearest consumer is that wants a message; 0: nobody does."""
        found = 0
        for selector, distance in self._wanted:
            if (not found or distance < found) and (selector is None or selector.matches(source)):
                found = distance
        return found

    def _may_move(self, reference: Reference, path: tuple[str, ...]) -> bool:
        """Tell whether a message that was handed over before may move now: it must not run in circles.

        A way back is not refused, however far the consumer is: in a chain it may be the only one.
        """
        if self.peer.node_id not in path and len(path) <= FREE_MOVES:
            return True
        now_ms = self.local.queue.dispatcher.steady_ms
        due_ms = self._waits.get(reference.sequence)
        if due_ms is None:
            exponent = min(max(len(path) - FREE_MOVES, 0), 10)
            due_ms = now_ms + min(FIRST_WAIT_MS << exponent, LONGEST_WAIT_MS)
            self._rest(reference.sequence, due_ms)
        return due_ms <= now_ms

    def _rest(self, sequence: int, due_ms: int) -> None:
        """Let a message wait before it moves."""
        if len(self._waits) >= MAX_WAITING:
            # Most of them are gone; those that are not wait once more.
            self._waits.clear()
            self._due.clear()
        self._waits[sequence] = due_ms
        heappush(self._due, (due_ms, sequence))
        self.local.wake_at(due_ms)

    # -- deliveries --------------------------------------------------------------------------------------------

    def deliver(self, reference: Reference) -> None:
        """Claim a message for the peer."""
        self.remote.handed += 1
        if self._waits:
            self._waits.pop(reference.sequence, None)
        if self._refused:
            self._refused.discard(reference.sequence)
        peer = self.peer
        if reference.message.large is None and not peer.bulk.orders:
            peer.handover.claim(reference)
        else:
            peer.bulk.claim_for(self, reference, peer.handover)
        if not self.may_claim:
            self.consumer.block()
        if self.consumer.credit <= 0:
            self.local.stir_taker(self)

    @property
    def may_claim(self) -> bool:
        """Whether the connection takes more of this queue now."""
        peer = self.peer
        return peer.handover.may_claim and not (peer.bulk.orders and peer.bulk.holds_back(self.local.queue.name))

    @property
    def has_refused(self) -> bool:
        """Whether messages wait that the peer had no room for."""
        return not self._refused.isdisjoint(self._waits)

    def came_back(self, reference: Reference, is_refused: bool) -> None:
        """Note that a large message was withdrawn; see `Claimant`. One that the peer could not keep waits."""
        self.remote.handed -= 1
        if is_refused:
            self._refused.add(reference.sequence)
            self._rest(reference.sequence, self.local.queue.dispatcher.steady_ms + REFUSED_MS)
        self.local.changed()

    def drained(self) -> None:
        """Do nothing: a taker never drains."""

    def ended(self, reason: str) -> None:
        """Note that the queue was deleted."""
        self.local.end_taker(self)


def _parse(demand: Demand) -> list[tuple[Filter | None, int]]:
    """Return what a demand wants. A selector that this broker does not understand counts as "everything"."""
    wanted: list[tuple[Filter | None, int]] = []
    for text, distance, _ in demand.wants:
        try:
            wanted.append((parse_filter(text) if text else None, distance))
        except InvalidFilter:
            wanted.append((None, distance))
    return wanted


def _extra_turns(demand: Demand) -> int:
    return min(max(demand.consumers, 1), MAX_WEIGHT) - 1
