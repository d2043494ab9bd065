"""Deliveries of ours that need several frames, or have to wait for the peer's window or for room in the output.

They are sent in the order of their delivery-ids. Deliveries whose octets come from a source alternate once they have
begun, and other deliveries are sent between their frames.
"""

from collections import deque
from struct import Struct
from typing import TYPE_CHECKING, Final

from attrs import evolve

from artemis_amqp.engine import errors
from artemis_amqp.engine.handlers import DeliverySource
from artemis_amqp.engine.link import MASK
from artemis_amqp.engine.performatives import Transfer, encode, frame
from artemis_amqp.engine.sender import SenderLink

if TYPE_CHECKING:
    from artemis_amqp.engine.session import AmqpSession

_FRAME_HEADER: Final = Struct(">IBBH")


class _Waiting:
    """A delivery, or the rest of one, that has to wait for window or output."""

    __slots__ = ("body", "delivery_id", "head", "lead", "link", "offset", "size", "source", "transfer")

    def __init__(
        self,
        link: SenderLink,
        transfer: Transfer,
        head: bytes,
        body: bytes,
        source: DeliverySource | None,
        source_size: int,
    ) -> None:
        self.link: SenderLink = link
        self.transfer: Transfer = transfer
        self.lead: bytes = encode(evolve(transfer, more=True))
        """The performative of the next frame, if it is not the last."""
        self.head: bytes = head
        self.body: memoryview = memoryview(body)
        """Shared by all waiting deliveries of the same message: frames are slices of it, it is never copied."""
        self.source: DeliverySource | None = source
        """Source of the octets behind the body, read frame by frame."""
        self.size: int = len(head) + len(body) + source_size
        self.offset: int = 0
        self.delivery_id: int = transfer.delivery_id or 0

    def pieces(self, start: int, stop: int) -> list[bytes | memoryview] | None:
        """Return the octets from `start`, which is `offset`, to `stop`; None if the source cannot read them."""
        pieces: list[bytes | memoryview] = []
        head_size = len(self.head)
        body_stop = head_size + len(self.body)
        if start < head_size:
            pieces.append(self.head[start:stop])
            start = head_size
        if start < stop and start < body_stop:
            pieces.append(self.body[start - head_size : stop - head_size])
            start = body_stop
        if start < stop and self.source is not None:
            piece = self.source.read(stop - start)
            if len(piece) != stop - start:
                return None
            pieces.append(piece)
        return pieces


class OutgoingDeliveries:
    """Deliveries that one session still has to send."""

    def __init__(self, session: "AmqpSession") -> None:
        self._session: AmqpSession = session
        self.waiting: deque[_Waiting] = deque()
        """Waiting deliveries in the order of their delivery-ids; the first one may be partly sent."""
        self.streams: deque[_Waiting] = deque()
        """Deliveries from sources, one per link, each partly sent: they alternate, and others are sent in between."""

    def add(
        self,
        link: SenderLink,
        transfer: Transfer,
        head: bytes,
        body: bytes,
        source: DeliverySource | None = None,
        source_size: int = 0,
    ) -> None:
        """Queue a delivery that needs several frames, or has to wait."""
        self.waiting.append(_Waiting(link, transfer, head, body, source, source_size))
        link.waiting_count += 1
        self.pump()

    def pump(self) -> None:
        """Write waiting transfer frames while window and output limit allow.

        Deliveries from sources, once begun, get half of the output at most: other links send between their frames.
        """
        outbox = self._session.connection.outbox
        while self._session.remote_incoming_window > 0 and not self._session.is_ended and not outbox.is_paused:
            waiting = self.waiting[0] if self.waiting and not self.waiting[0].link.is_streaming else None
            if waiting is not None and outbox.size < outbox.limit:
                self._write_next(waiting)
            elif self.streams and outbox.size < outbox.limit >> 1:
                self.streams.rotate(-1)
                self._write_next(self.streams[-1])
            else:
                return

    def _write_next(self, waiting: _Waiting) -> None:
        """Write the next frame of a delivery, which is the first one in `waiting` or the last one in `streams`."""
        connection = self._session.connection
        link = waiting.link
        lead = waiting.lead
        start = waiting.offset
        stop = start + connection.peer_max_frame_size - 8 - len(lead)
        if stop <= start:
            link.fail(errors.FRAME_SIZE_TOO_SMALL, "the state of a delivery does not fit into a frame")
            return
        is_last = stop >= waiting.size
        if is_last:
            stop = waiting.size
            lead = encode(waiting.transfer)
        pieces = waiting.pieces(start, stop)
        if pieces is None:
            self._abort(waiting)
            return
        if is_last:
            self._sent(waiting)
        elif start == 0:
            # Later frames need nothing but the handle (AMQP 1.0 §2.7.5).
            waiting.transfer = Transfer(handle=link.handle)
            waiting.lead = encode(Transfer(handle=link.handle, more=True))
            if waiting.source is not None:
                self.waiting.popleft()
                self._begun(link)
                link.is_streaming = True
                self.streams.append(waiting)
        waiting.offset = stop
        self._count_frame()
        connection.outbox.write(_FRAME_HEADER.pack(8 + len(lead) + stop - start, 2, 0, self._session.channel) + lead)
        for piece in pieces:
            connection.outbox.write(piece)

    def _count_frame(self) -> None:
        """Count a transfer frame that is about to be written, and write the dispositions that were collected first."""
        session = self._session
        session.remote_incoming_window -= 1
        session.next_outgoing_id = (session.next_outgoing_id + 1) & MASK
        session.dispositions.flush()

    def _begun(self, link: SenderLink) -> None:
        """Count that a delivery of the link no longer waits."""
        link.waiting_count -= 1
        if link.waiting_count == 0 and self._session.sends_flow_of(link):
            self._session.mark_dirty()

    def _sent(self, waiting: _Waiting) -> None:
        """Remove a delivery whose last or aborting frame is about to be written."""
        source = waiting.source
        if source is not None:
            source.close()
        if waiting.offset == 0 or source is None:
            self.waiting.popleft()
            self._begun(waiting.link)
        else:
            self.streams.pop()
            waiting.link.is_streaming = False
            # The link waited only for this delivery, and is told when the output is taken.
            self._session.connection.outbox.was_full = True

    def _abort(self, waiting: _Waiting) -> None:
        """Abort a delivery whose rest cannot be read: the receiver discards its part, and the delivery is settled
        (AMQP 1.0 §2.7.5).
        """
        link = waiting.link
        transfer = waiting.transfer
        delivery_id = waiting.delivery_id
        self._sent(waiting)
        self._count_frame()
        self._session.connection.outbox.write(frame(self._session.channel, evolve(transfer, aborted=True)))
        sent = link.forget(delivery_id)
        if sent is not None and link.handler is not None:
            link.handler.on_abort(link, sent.token)

    def drop(self, link: SenderLink) -> None:
        """Forget the incomplete deliveries of a link that is gone."""
        if not link.waiting_count and not link.is_streaming:
            return
        link.waiting_count = 0
        link.is_streaming = False
        for waiting in (*self.waiting, *self.streams):
            if waiting.link is link:
                link.forget(waiting.delivery_id)
                if waiting.source is not None:
                    waiting.source.close()
        self.waiting = deque([waiting for waiting in self.waiting if waiting.link is not link])
        self.streams = deque([waiting for waiting in self.streams if waiting.link is not link])

    def clear(self) -> None:
        """Forget everything: the session is over, and its links have dropped their deliveries."""
        self.waiting.clear()
        self.streams.clear()
