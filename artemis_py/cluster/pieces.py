"""Large messages between two brokers, in pieces, on a lane of their own (docs/mesh.md).

What the carrier takes for a message of this lane is a frame. Frames of one connection are numbered from 1:

     0      1          9
    +------+----------+-----------
    | u8 1 | u64      | envelope     the message of this number; if it is large, its body follows: the record of the
    |      | number   |              message has its size and checksum
    +------+----------+-----------
    | u8 2 | octets                 the next piece of the body
    +------+----------+
    | u8 3 | u64      |              the message of this number does not come: it is back at the origin
    +------+----------+

The carrier's confirmation of a frame says that the taker has written it: that is the flow control, and no more than
`WINDOW` frames are on their way. The record `BulkTaken` says that messages are in the taker's store; the file of a body
is synced before the commit of its message and the mark.

    origin                                                taker
    claims, and waits until what was claimed before
    in the usual lane has been confirmed
    head, piece, piece, ...      ------------------->     into a file; each frame is confirmed when it is written
                                                          last piece: message and mark, one commit
    removes the message          <-- BulkTaken ------

A body that cannot be read here, or not be kept there (`BulkRefused`), is withdrawn: the claim ends in a commit, and the
taker hears of it after that and moves its mark past the number. After a refusal the taker passes over everything up to
that word, and the origin sends what followed once more. A break ends a body wherever it is; it begins again.

What belongs to a queue, or to an address of copies, stays on this lane as long as a message of it is here: so the order
is that of the usual lane, whose other queues do not wait for a large body.
"""

from struct import Struct
from typing import TYPE_CHECKING, Final, Protocol

from artemis_py.cluster.envelope import Envelope, decode_envelope, encode_envelope
from artemis_py.cluster.events import LargeNotMoved
from artemis_py.cluster.lanes import Incoming, Outgoing
from artemis_py.cluster.records import BulkRecord, BulkRefused, BulkTaken
from artemis_py.cluster.strict import DURABLE, target_of
from artemis_py.core.messages.large_body import LargeBody, LargeReader
from artemis_py.core.queues.outcomes import FAILED, REJECTED, RELEASED
from artemis_py.core.queues.reference import Reference
from artemis_py.core.runtime.carrier import Lane
from artemis_py.errors import ProtocolError, StoreError

if TYPE_CHECKING:
    from artemis_py.cluster.claims import OriginChannel
    from artemis_py.cluster.peer import Peer

PIECE_BYTES: Final = 256 * 1024
"""Octets of a body in one frame: long enough for the cost of a frame not to count, short enough that other lanes, which
share the connection, wait for at most `WINDOW` times as much."""

WINDOW: Final = 4
"""Frames that the taker has not written yet. So 1 MiB of a body is in memory at each side, whatever its size."""

MOST_CLAIMED: Final = 64
"""Claims of this lane from which queues with a message in it wait. Each of them keeps a message from consumers here,
and goes in its turn."""

HEAD: Final = 1
PIECE: Final = 2
WITHDRAWN: Final = 3

_NUMBERED: Final = Struct(">BQ")
_PIECE_HEAD: Final = bytes([PIECE])


class Claimant(Protocol):
    """A consumer that claims messages for a peer."""

    def came_back(self, reference: Reference, is_refused: bool) -> None:
        """Note that a message was withdrawn; with `is_refused` the peer could not keep it."""


class OutgoingBulk(Outgoing):
    """Large messages to a peer, and what must not overtake them, for as long as one connection lasts."""

    def __init__(self, peer: "Peer") -> None:
        super().__init__(peer, Lane.BULK)
        self._claimed: Final[dict[int, tuple[str, Claimant]]] = {}
        """What each number is of, and what has claimed it."""
        self._after: Final[dict[int, tuple[OriginChannel, int]]] = {}
        """A channel that must be confirmed up to a number before the message of this number is sent."""
        self._reader: LargeReader | None = None
        self._left = 0
        """Bytes of the body that are still to be read."""
        self._frame = 0
        self._accepted = 0
        """Numbers of the last frames that were sent and confirmed."""
        self._withdrawals = 0
        """Number of messages that are being withdrawn, until that is in the store; nothing is sent before."""

    # -- claims ------------------------------------------------------------------------------------------------

    @property
    def is_full(self) -> bool:
        """Whether queues that have a message in this lane must wait."""
        channel = self.channel
        is_full = channel is not None and len(channel.claims) >= MOST_CLAIMED
        if is_full:
            self.was_held = True
        return is_full

    def holds_back(self, order: str) -> bool:
        """Tell whether a queue must wait because a message of it is here, and there is no room for more."""
        return order in self.orders and self.is_full

    def claim_for(self, claimant: Claimant, reference: Reference, usual: Outgoing) -> None:
        """Claim a message here if it is large or would overtake one that is here, else in the usual lane."""
        order = order_of(reference)
        channel, other = self.channel, usual.channel
        if reference.message.large is None and order not in self.orders:
            usual.claim(reference)
            return
        assert channel is not None
        assert other is not None
        number = channel.next
        if order not in self.orders:
            self._after[number] = (other, other.next - 1)
        self.orders[order] = self.orders.get(order, 0) + 1
        self._claimed[number] = (order, claimant)
        self.claim(reference)

    def _forget(self, number: int) -> None:
        """Forget a claim, which has ended."""
        order, _ = self._claimed.pop(number)
        self._after.pop(number, None)
        self.orders[order] -= 1
        if not self.orders[order]:
            del self.orders[order]

    # -- out ---------------------------------------------------------------------------------------------------

    def end(self) -> None:
        """Send nothing more: the connection is over."""
        super().end()
        self._close_reader()

    def pump(self) -> None:
        """Send frames while the peer has room for them."""
        peer = self._peer
        while peer.can_send and not self._withdrawals and self._frame - self._accepted < WINDOW:
            content = self._next_frame()
            if content is None:
                return
            self._frame += 1
            peer.send_frame(self._frame, content)

    def _next_frame(self) -> bytes | None:
        channel = self.channel
        if channel is None or (self._reader is None and not self._to_send):
            return None
        if self._reader is not None:
            return self._next_piece(self._reader)
        number = self._to_send[0]
        reference = channel.claims.get(number)
        if reference is None:
            self._sent = self._to_send.popleft()
            return _NUMBERED.pack(WITHDRAWN, number)
        after = self._after.get(number)
        if after is not None and after[0].freed < after[1]:
            return None
        large = reference.message.large
        if large is not None and large.size:
            try:
                self._reader = large.reader()
            except StoreError as error:
                self._cannot_read(number, reference, error)
                return None
            self._left = large.size
        self._sent = self._to_send.popleft()
        return _NUMBERED.pack(HEAD, number) + encode_envelope(self.envelope_of(reference))

    def _next_piece(self, reader: LargeReader) -> bytes | None:
        try:
            piece = reader.read(min(self._left, PIECE_BYTES))
        except StoreError as error:
            assert self.channel is not None
            number = self._sent
            self._close_reader()
            self._to_send.appendleft(number)
            self._cannot_read(number, self.channel.claims[number], error)
            return None
        self._left -= len(piece)
        if not self._left:
            self._close_reader()
        return _PIECE_HEAD + piece

    def _close_reader(self) -> None:
        if self._reader is not None:
            self._reader.close()
            self._reader = None

    # -- what the peer says --------------------------------------------------------------------------------------

    def accepted(self, number: int) -> None:
        """Note that the peer has written the frames up to this number. Raises ProtocolError."""
        if number > self._frame:
            raise ProtocolError(f"frame {number} was confirmed, and never sent")
        self._accepted = number
        self.pump()

    def heard(self, record: BulkRecord) -> None:
        """Note what the peer says of messages. Raises ProtocolError."""
        match record:
            case BulkTaken(number):
                for each in [each for each in self._claimed if each <= number]:
                    self._forget(each)
                super().accepted(number)
            case BulkRefused(number):
                self._refused(number)

    def _refused(self, number: int) -> None:
        channel = self.channel
        if channel is None or number > self._sent:
            raise ProtocolError(f"message {number} was refused, and never sent")
        reference = channel.claims.get(number)
        if reference is None:
            return  # It was withdrawn before this was heard.
        self._close_reader()
        later = [each for each in self._to_send if each > self._sent]
        again = range(number, self._sent + 1)
        self._to_send.clear()
        self._to_send.extend([*again, *later])
        self._sent = number
        self._withdraw(number, reference, RELEASED)

    # -- what does not come ----------------------------------------------------------------------------------------

    def _cannot_read(self, number: int, reference: Reference, error: StoreError) -> None:
        """Withdraw a message whose body is damaged: a failed attempt, as that of a consumer here."""
        mesh = self._peer.mesh
        if reference.queue.internal:
            mesh.not_copied(reference.message, f"its body cannot be read: {error}")
        else:
            event = LargeNotMoved(mesh.config.name, reference.queue.name, self._peer.label, str(error))
            mesh.domain.events.emit(event)
        self._withdraw(number, reference, REJECTED if reference.queue.internal else FAILED)

    def _withdraw(self, number: int, reference: Reference, outcome: int) -> None:
        """Give a message back, and tell the peer so when that is in the store. Its number is the next to be sent."""
        assert self.channel is not None
        claimant = self._claimed[number][1]
        self._forget(number)
        claimant.came_back(reference, outcome == RELEASED)
        self.channel.withdraw(number, outcome)
        self._withdrawals += 1
        self._peer.mesh.storage.when_durable(self._withdrawn, self._peer.store_failed)

    def _withdrawn(self) -> None:
        self._withdrawals -= 1
        self.pump()


class Announced(LargeBody):
    """What the head of a message says of its body."""


class _Expected:
    """Notes the body that a message should have; fulfils `Bodies`."""

    def restore(self, id: int, size: int, checksum: int) -> LargeBody:
        """Return its size and checksum."""
        return Announced(0, size, checksum, 0)


class IncomingBulk(Incoming):
    """Large messages from a peer."""

    def __init__(self, peer: "Peer") -> None:
        super().__init__(peer, Lane.BULK)
        self._frame = 0
        self._confirmed = 0
        """Numbers of the last frames that came and that were confirmed."""
        self._number = 0
        """Number of the message whose body is arriving."""
        self._envelope: Envelope | None = None
        """That message; None if no body is arriving."""
        self._left = 0
        """Bytes of the body that are still to come."""
        self._body: LargeBody | None = None
        """The body; None if it is not needed, because the message has been here before."""
        self._refused = 0
        """Number of a message that could not be kept: all is passed over until it is withdrawn. 0: there is none."""

    def receive(self, frame: int, content: bytes) -> None:
        """Take a frame. Raises ProtocolError."""
        if frame != self._frame + 1:
            raise ProtocolError(f"frame {frame} came after {self._frame}")
        self._frame = frame
        kind = content[0] if content else 0
        if kind == PIECE:
            self._take_piece(content)
        elif kind in (HEAD, WITHDRAWN) and len(content) >= _NUMBERED.size:
            number: int = _NUMBERED.unpack_from(content)[1]
            if kind == HEAD:
                self._begin(number, content[_NUMBERED.size :])
            else:
                self._pass_over(number)
        else:
            raise ProtocolError("a frame of a large message is malformed")

    def end(self) -> None:
        """Delete what has come of a body: the connection is over, or the message does not come."""
        self._envelope = None
        self._left = 0
        if self._body is not None:
            body, self._body = self._body, None
            body.release()

    def _begin(self, number: int, content: bytes) -> None:
        if self._refused:
            return
        if self._envelope is not None:
            raise ProtocolError("a message begins before the body of the one before it has come")
        envelope = decode_envelope(content, self._peer.mesh.formats, _Expected())
        is_new = self.is_new(number)
        large = envelope.message.large
        if large is None or not large.size:
            if is_new:
                body = None if large is None else self._create(number, envelope)
                self._finish(number, envelope, body)
            return
        self._number, self._envelope, self._left = number, envelope, large.size
        if is_new:
            self._body = self._create(number, envelope)

    def _create(self, number: int, envelope: Envelope) -> LargeBody | None:
        message = envelope.message
        durable = message.durable or (message.extra is not None and DURABLE in message.extra)
        try:
            return self._peer.mesh.storage.create_large(durable)
        except StoreError as error:
            self._refuse(number, envelope, error)
            return None

    def _take_piece(self, content: bytes) -> None:
        if self._refused:
            return
        envelope, size = self._envelope, len(content) - len(_PIECE_HEAD)
        if envelope is None or not 0 < size <= self._left:
            raise ProtocolError("a piece came that belongs to no large message")
        body = self._body
        self._left -= size
        if body is not None:
            try:
                body.append(content[len(_PIECE_HEAD) :])
            except StoreError as error:
                self._refuse(self._number, envelope, error)
                return
        if self._left:
            return
        self._envelope = None
        self._body = None
        if body is not None:
            self._finish(self._number, envelope, body)

    def _finish(self, number: int, envelope: Envelope, body: LargeBody | None) -> None:
        """Put a message where it belongs; its mark is in the same commit."""
        peer, message = self._peer, envelope.message
        expected = message.large
        if self._refused:
            return
        try:
            if body is not None and expected is not None:
                if (body.size, body.checksum) != (expected.size, expected.checksum):
                    raise ProtocolError(f"the body of message {number} is not what was announced")
                body.finish()
                message.large = body
            full = peer.mesh.arrivals.take(peer, self.lane, envelope)
        except StoreError as error:
            self._refuse(number, envelope, error)
            return
        finally:
            if body is not None:
                # The queues that have the message hold it now.
                body.release()
        self.taken(number)
        self.to_confirm = number
        if full is not None:
            self.hold(full)
        peer.taken += 1
        peer.mesh.taken += 1

    def _refuse(self, number: int, envelope: Envelope, error: StoreError) -> None:
        """Ask for a message to be withdrawn, because its body cannot be kept."""
        peer = self._peer
        self.end()
        self._refused = number
        peer.say(BulkRefused(number))
        name = envelope.queue or envelope.address
        peer.mesh.domain.events.emit(LargeNotMoved(peer.mesh.config.name, name, peer.label, str(error)))

    def _pass_over(self, number: int) -> None:
        """Move the mark past a message that the origin keeps."""
        if self._refused not in (0, number):
            return
        self.end()
        self._refused = 0
        if self.is_new(number):
            self.taken(number)
            self.to_confirm = number

    # -- at the end of an iteration --------------------------------------------------------------------------------

    def plan_confirmation(self) -> None:
        """Confirm the frames that are written, and the messages when they are in the store."""
        super().plan_confirmation()
        if not self.is_held and self._confirmed != self._frame:
            self._confirmed = self._frame
            self._peer.confirm(Lane.BULK, self._frame)

    def confirm(self, number: int) -> None:
        """Tell the peer that messages up to this number are in the store."""
        self._peer.say(BulkTaken(number))


def order_of(reference: Reference) -> str:
    """Return the queue, or the address of copies and of turns, among whose messages this one keeps its order."""
    if reference.queue.internal:
        return "\n" + target_of(reference)[0]
    return reference.queue.name
