"""One lane of a connection between two brokers: what goes out on it, and what comes in (mesh §5.3, §5.5).

Each lane is a channel of its own, with its own numbers, claims and mark: copies that wait for a slow peer do not stand
before a message that a consumer there waits for.
"""

from collections import deque
from functools import partial
from typing import TYPE_CHECKING, Final

from mypy_extensions import mypyc_attr

from artemis_py.cluster.blocks import BLOCK_BYTES, Block, read_block
from artemis_py.cluster.claims import OriginChannel
from artemis_py.cluster.duplicate_ids import DuplicateIds
from artemis_py.cluster.envelope import Envelope, encode_envelope, longer_path
from artemis_py.cluster.strict import target_of
from artemis_py.core.addresses.address import Address
from artemis_py.core.queues.reference import Reference
from artemis_py.core.runtime.carrier import Lane
from artemis_py.errors import ProtocolError

if TYPE_CHECKING:
    from artemis_py.cluster.peer import Peer


@mypyc_attr(allow_interpreted_subclasses=True)
class Outgoing:
    """Messages to a peer on one lane, for as long as one connection lasts."""

    def __init__(self, peer: "Peer", lane: Lane) -> None:
        self.lane: Final = lane
        self.channel: OriginChannel | None = None
        self.was_held: bool = False
        """Whether a consumer was held back by something that `may_claim` looks at."""
        self.confirmed: int = 0
        """Number of messages that the peer has confirmed on this connection."""
        self.orders: Final[dict[str, int]] = {}
        """How many claims there are of each queue, or of each address of copies: in the lane of large messages only."""
        # Asked for each message: compiled, a name of an enumeration is looked up each time.
        self._is_of_copies: Final[bool] = lane is Lane.COPIES
        self._peer: Final = peer
        self._window_bytes: Final[int] = peer.mesh.config.confirmation_window_size_bytes
        self._duplicate_ids: Final[DuplicateIds] = peer.mesh.duplicate_ids
        self._begun_path: Final[tuple[str, ...]] = (peer.mesh.node_id,)
        """Path of a message that nobody has handed over before."""
        self._to_send: Final[deque[int]] = deque()
        """Numbers of messages that wait for room in the connection."""
        self._sent = 0
        """Number of the last message that was sent."""

    def begin(self, channel: OriginChannel) -> None:
        """Continue with a channel whose claims are settled."""
        self.channel = channel
        self._sent = channel.next - 1

    def end(self) -> None:
        """Send nothing more: the connection is over."""
        self._to_send.clear()

    @property
    def may_claim(self) -> bool:
        """Whether messages may be claimed now."""
        channel, peer = self.channel, self._peer
        allowed = (
            peer.is_taking
            # Copies are for subscriptions that it still has.
            and (self._is_of_copies or not peer.visit.is_leaving)
            and not self._to_send
            and channel is not None
            and channel.bytes_claimed < self._window_bytes
        )
        if not allowed:
            self.was_held = True
        return allowed

    def review(self) -> None:
        """Let consumers that were held back look again."""
        self.was_held = False
        peer = self._peer
        if self.lane is not Lane.COPIES:
            for local in peer.taking:
                local.changed()
        if self.lane is Lane.BULK or self is peer.forwarding:
            peer.mesh.go_on_forwarding(peer)

    def claim(self, reference: Reference) -> None:
        """Claim a message; it is sent when the claim is in the store."""
        assert self.channel is not None
        if not self.channel.fresh:
            self._peer.mesh.claiming.append(self)
        self.channel.add(reference)

    def save_claims(self) -> None:
        """Store the claims of this iteration, and send the messages after that."""
        channel = self.channel
        if channel is None or not channel.fresh:
            return
        numbers = channel.save_fresh()
        storage = self._peer.mesh.storage
        storage.when_durable(partial(self.send, numbers), self._peer.store_failed)
        # Otherwise the peer would have nothing to do while more is gathered, and then much at once.
        storage.hasten()

    def send(self, numbers: list[int]) -> None:
        """Send claimed messages."""
        if self._peer.is_up:
            self._to_send.extend(numbers)
            self.pump()

    def pump(self) -> None:
        """Send messages while the connection has room."""
        peer, channel = self._peer, self.channel
        if channel is None:
            return
        while self._to_send and peer.can_send:
            if peer.has_blocks:
                content = self._next_block(channel)
            else:
                self._sent = self._to_send.popleft()
                content = encode_envelope(self.envelope_of(channel.claims[self._sent]))
            peer.send(self.lane, self._sent, content)
        if self.was_held and not self._to_send:
            self.review()

    def _next_block(self, channel: OriginChannel) -> bytes:
        """Return the next messages as they go to the peer in one transfer."""
        block = Block()
        to_send, claims = self._to_send, channel.claims
        last: Reference | None = None
        while to_send and block.size_bytes < BLOCK_BYTES:
            self._sent = to_send.popleft()
            reference = claims[self._sent]
            if last is None or not _go_together(last, reference):
                block.surround(self.envelope_of(reference))
                last = reference
            block.add(reference.message)
        return block.octets()

    def envelope_of(self, reference: Reference) -> Envelope:
        """Return what the peer gets with a message."""
        message = reference.message
        path = self._begun_path
        if message.extra is not None:
            self._duplicate_ids.leaves(message)
            path = longer_path(message, path[0])
        address, queue, is_shared = target_of(reference)
        return Envelope(message, address, queue, reference.delivery_count, reference.was_acquired, path, is_shared)

    def accepted(self, number: int) -> None:
        """Remove messages that the peer has. Raises ProtocolError."""
        channel = self.channel
        if channel is None or number > self._sent:
            raise ProtocolError(f"message {number} was confirmed, and never sent")
        count = len(channel.claims)
        channel.free(number)
        count -= len(channel.claims)
        self.confirmed += count
        self._peer.mesh.handed_over += count
        self._peer.mesh.departures.confirmed(self._peer)
        if self.was_held:
            self.review()


def _go_together(one: Reference, other: Reference) -> bool:
    """Tell whether two messages certainly have the same envelope, without making one."""
    return (
        one.queue is other.queue
        and one.message.extra is None
        and other.message.extra is None
        and one.message.durable == other.message.durable
        and one.delivery_count == other.delivery_count
        and one.was_acquired == other.was_acquired
    )


@mypyc_attr(allow_interpreted_subclasses=True)
class Incoming:
    """Messages from a peer on one lane."""

    def __init__(self, peer: "Peer", lane: Lane) -> None:
        self.lane: Final = lane
        self.channel: int | None = None
        """Number of the channel; None: it was not told yet."""
        self.to_confirm: int = 0
        """Number of the last message received; 0 if all are confirmed or about to be."""
        self.is_held: bool = False
        """Whether nothing is confirmed because an address is full."""
        self._mark: int = 0
        """Number of the last message that was taken."""
        self._is_marked: bool = True
        """Whether the store was told of that."""
        self._peer: Final = peer

    def begin(self, id: int, number: int) -> None:
        """Note the channel that messages come on. Raises ProtocolError if it does not continue behind the mark."""
        peer, marks = self._peer, self._peer.mesh.marks
        marks.check(peer.node_id, id)
        mark = marks.get(peer.node_id, id)
        if mark + 1 != number:
            raise ProtocolError(f"the channel continues with {number}, not behind the mark")
        self.channel = id
        self._mark = mark

    def receive(self, number: int, content: bytes) -> None:
        """Take what came in one transfer; its last message has this number. Raises ProtocolError and Refusal."""
        peer = self._peer
        runs = read_block(content, peer.mesh.formats)
        first = number + 1
        for run in runs:
            first -= len(run.messages)
        if self.is_new(first):
            for run in runs:
                peer.mesh.arrivals.take_all(peer, self, run)
        elif number > self._mark:
            raise ProtocolError(f"messages {first} to {number} came after {self._mark}")
        self.to_confirm = number

    def is_new(self, number: int) -> bool:
        """Tell whether a message was not taken before. Raises ProtocolError for one that is out of order."""
        if self.channel is None:
            raise ProtocolError("a message came before its channel")
        if number > self._mark + 1:
            raise ProtocolError(f"message {number} came after {self._mark}")
        return number == self._mark + 1

    def taken_next(self) -> None:
        """Move the mark past the next message; see `taken`."""
        self._mark += 1
        self._is_marked = False

    def taken(self, number: int) -> None:
        """Move the mark; `save_mark` follows before anything else runs, so it is in the commit of the message."""
        self._mark = number
        self._is_marked = False

    def save_mark(self) -> None:
        """Store the mark: once for all messages that came together."""
        if not self._is_marked and self.channel is not None:
            self._is_marked = True
            self._peer.mesh.marks.set(self._peer.node_id, self.channel, self._mark)

    def plan_confirmation(self) -> None:
        """Confirm what has come when it is durable, with its mark."""
        self.save_mark()
        if self.to_confirm and not self.is_held:
            number, self.to_confirm = self.to_confirm, 0
            peer = self._peer
            peer.mesh.storage.when_durable(partial(self.confirm, number), peer.store_failed)

    def hold(self, address: Address) -> None:
        """Confirm nothing until an address has room: soon the peer may send no more.

        So all copies of the peer wait, and not those for this address only: they have one order.
        """
        if not self.is_held:
            self.is_held = True
            address.when_room(self._go_on)

    def _go_on(self) -> None:
        self.is_held = False
        self._peer.mesh.mark(self._peer)

    def confirm(self, number: int) -> None:
        """Tell the peer that everything up to this number is here."""
        self._peer.confirm(self.lane, number)
