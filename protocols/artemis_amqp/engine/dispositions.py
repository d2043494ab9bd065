"""Dispositions of both sides for the deliveries of one session (AMQP 1.0 §2.7.6).

Our dispositions are collected while a batch is processed, and adjacent deliveries with the same state become one
frame. The peer's may name a range of 2**32 deliveries; the cost depends only on those that exist.
"""

from collections.abc import Iterator
from struct import Struct
from typing import TYPE_CHECKING, Final

from attrs import evolve

from artemis_amqp.engine.errors import shortened
from artemis_amqp.engine.link import MASK
from artemis_amqp.engine.performatives import Modified, Rejected, TransactionalState, encode, read_composite
from artemis_amqp.engine.receiver import ReceiverLink
from artemis_amqp.engine.unsettled import Sent

if TYPE_CHECKING:
    from artemis_amqp.engine.session import AmqpSession

SHORT_RANGE: Final = 64
"""Number of deliveries that are settled in one step, whatever is left of the loop iteration's share."""

_FRAME_HEADER: Final = Struct(">IBBH")

# size | doff, type | channel | 00 53 15 c0 size count | role | 70 first | 70 last | settled
_DISPOSITION: Final = Struct(">IHH6sBBIBIB")
_DISPOSITION_SIZE: Final = _DISPOSITION.size
_TRUE: Final = 0x41
_FALSE: Final = 0x42


class Dispositions:
    """The dispositions of one session, ours and the peer's."""

    def __init__(self, session: "AmqpSession") -> None:
        self._session: AmqpSession = session
        # The disposition that is being put together.
        self._pending: bool = False
        self._pending_role: bool = False
        self._pending_first: int = 0
        self._pending_last: int = 0
        self._pending_settled: bool = False
        self._pending_state: bytes = b""

    # -- ours ------------------------------------------------------------------------------------------------

    def collect(self, role: bool, first: int, last: int, settled: bool, state: bytes) -> None:
        """Collect a disposition of ours; adjacent ones with the same state become one frame."""
        if self._pending:
            if (
                (self._pending_last + 1) & MASK == first
                and self._pending_role == role
                and self._pending_settled == settled
                and self._pending_state == state
            ):
                self._pending_last = last
                return
            self._write_pending()
        else:
            self._session.mark_dirty()
        self._pending = True
        self._pending_role = role
        self._pending_first = first
        self._pending_last = last
        self._pending_settled = settled
        self._pending_state = state

    def flush(self) -> None:
        """Write what was collected."""
        if self._pending:
            self._write_pending()

    def _write_pending(self) -> None:
        self._pending = False
        connection = self._session.connection
        channel = self._session.channel
        state = self._pending_state
        if len(state) + _DISPOSITION_SIZE + 6 > connection.peer_max_frame_size:
            state = _without_texts(state)
        size = _DISPOSITION_SIZE + len(state)
        content = size - 8 - 5
        if content > 255:
            # A state with a long error text: the list needs its large form.
            head = b"\x00\x53\x15\xd0" + (content + 3).to_bytes(4, "big") + b"\x00\x00\x00\x05"
            body = (
                bytes((_TRUE if self._pending_role else _FALSE, 0x70))
                + self._pending_first.to_bytes(4, "big")
                + b"\x70"
                + self._pending_last.to_bytes(4, "big")
                + bytes((_TRUE if self._pending_settled else _FALSE,))
                + state
            )
            whole = head + body
            connection.outbox.write(_FRAME_HEADER.pack(8 + len(whole), 2, 0, channel) + whole)
            return
        connection.outbox.write(
            _DISPOSITION.pack(
                size,
                0x0200,
                channel,
                b"\x00\x53\x15\xc0" + bytes((content, 5)),
                _TRUE if self._pending_role else _FALSE,
                0x70,
                self._pending_first,
                0x70,
                self._pending_last,
                _TRUE if self._pending_settled else _FALSE,
            )
            + state
        )

    # -- the peer's -------------------------------------------------------------------------------------------

    def receive(self, role: bool, first: int, last: int, settled: bool, state: object) -> None:
        """Process the peer's disposition of a range of deliveries; ids that are settled or unknown are skipped
        (AMQP 1.0 §2.7.6).
        """
        if not role:
            if settled:
                self._receive_settlement(first, last)
        elif first == last:
            sent = self._session.unsettled.get(first)
            if sent is not None:
                self._apply(sent, state, settled)
        elif settled or state is not None:
            found = self._session.unsettled.between(first, last)
            if len(found) <= SHORT_RANGE:
                self._session.connection.meter.work += len(found)
                for sent in found:
                    self._apply(sent, state, settled)
            else:
                self._session.connection.work_through(self._apply_all(found, state, settled))

    def _apply_all(self, found: list[Sent], state: object, settled: bool) -> Iterator[None]:
        """Apply a disposition to a wide range, in steps; a delivery that is gone before its step is skipped."""
        meter = self._session.connection.meter
        for index, sent in enumerate(found):
            if self._session.is_ended:
                return
            self._apply(sent, state, settled)
            if index % SHORT_RANGE == SHORT_RANGE - 1:
                meter.work += SHORT_RANGE
                yield

    def _apply(self, sent: Sent, state: object, settled: bool) -> None:
        if sent.is_settled:
            return
        link = sent.link
        if settled:
            self._session.unsettled.remove(sent)
            link.unlink(sent)
        handler = link.handler
        if handler is not None:
            handler.on_disposition(link, sent.delivery_id, sent.token, state, settled)

    def _receive_settlement(self, first: int, last: int) -> None:
        """Process a settlement by the peer, as sender, of deliveries that we had answered."""
        for delivery_id, link, tag in self.take_in(first, last):
            if link.handler is not None:
                link.handler.on_settled(link, delivery_id, tag)

    def take_in(self, first: int, last: int) -> list[tuple[int, ReceiverLink, bytes]]:
        """Remove the known deliveries of a range from `unsettled_in`, and return them."""
        unsettled = self._session.unsettled_in
        width = (last - first) & MASK
        if width < len(unsettled):
            ids = [(first + distance) & MASK for distance in range(width + 1)]
        else:
            ids = [key for key in unsettled if (key - first) & MASK <= width]
        taken: list[tuple[int, ReceiverLink, bytes]] = []
        for delivery_id in ids:
            entry = unsettled.pop(delivery_id, None)
            if entry is not None:
                entry[0].unsettled.discard(delivery_id)
                taken.append((delivery_id, entry[0], entry[1]))
        return taken


def _without_texts(state: bytes) -> bytes:
    """Return an encoded delivery state without its texts, for a peer whose frames are too small for it."""
    return encode(_bare_state(read_composite(state, 0, len(state))[0]))


def _bare_state(state: object) -> object:
    if isinstance(state, Rejected) and state.error is not None:
        return Rejected(error=shortened(state.error))
    if isinstance(state, Modified):
        return evolve(state, message_annotations=None)
    if isinstance(state, TransactionalState):
        return evolve(state, outcome=_bare_state(state.outcome))
    return state
