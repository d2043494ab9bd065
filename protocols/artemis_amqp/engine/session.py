"""A session end-point: windows, delivery-ids and the links of one channel (AMQP 1.0 §2.5, reference/amqp10 §6).

Flow and disposition frames are collected while a batch is worked through and written once, by `flush`.
"""

from collections import deque
from collections.abc import Iterator
from heapq import heappop, heappush
from struct import Struct
from typing import TYPE_CHECKING, Final

from attrs import evolve

from artemis_amqp.engine import errors
from artemis_amqp.engine.errors import shortened
from artemis_amqp.engine.handlers import DeliverySource
from artemis_amqp.engine.limits import ERRANT_FRAMES, INCOMING_WINDOW
from artemis_amqp.engine.link import MASK, MIXED, SECOND, Link
from artemis_amqp.engine.performatives import (
    AmqpError,
    Attach,
    Begin,
    Coordinator,
    Detach,
    End,
    Flow,
    Modified,
    Rejected,
    Source,
    Target,
    TransactionalState,
    Transfer,
    encode,
    frame,
    read_composite,
)
from artemis_amqp.engine.receiver import ReceiverLink
from artemis_amqp.engine.sender import SenderLink
from artemis_amqp.engine.transfer_frame import TransferFrame
from artemis_amqp.engine.types import Symbol

if TYPE_CHECKING:
    from artemis_amqp.engine.connection import AmqpConnection

SHORT_RANGE: Final = 64
"""Deliveries that are settled at one go, whatever the share of the turn."""

_FRAME_HEADER: Final = Struct(">IBBH")
_HALF: Final = 0x80000000
_OUTGOING_WINDOW: Final = 0x7FFFFFFF
"""We are bound by the peer's window and by our output limit, never by one of our own."""

# size | doff, type | channel | 00 53 15 c0 size count | role | 70 first | 70 last | settled
_DISPOSITION: Final = Struct(">IHH6sBBIBIB")
_DISPOSITION_SIZE: Final = _DISPOSITION.size
_TRUE: Final = 0x41
_FALSE: Final = 0x42


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
        """Shared with all who wait with the same message: pieces are cut from it, it is never copied."""
        self.source: DeliverySource | None = source
        """Where the octets behind the body come from, frame by frame."""
        self.size: int = len(head) + len(body) + source_size
        self.offset: int = 0
        self.delivery_id: int = transfer.delivery_id or 0

    def pieces(self, start: int, stop: int) -> list[bytes | memoryview] | None:
        """The octets from `start`, which is `offset`, to `stop`; None if the source does not give them."""
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


class AmqpSession:
    """One session."""

    def __init__(self, connection: "AmqpConnection", channel: int) -> None:
        self.connection: AmqpConnection = connection
        self.channel: int = channel
        """The number we use."""
        self.peer_channel: int = -1
        self.handle_max: int = connection.limits.handle_max
        self.peer_handle_max: int = MASK
        self.next_incoming_id: int = -1
        """-1 until the peer began."""
        self.incoming_window: int = INCOMING_WINDOW
        """Transfer frames the peer may still send by the widest window it was told of."""
        self.next_outgoing_id: int = 0
        self.remote_incoming_window: int = 0
        self.remote_outgoing_window: int = 0
        self.next_delivery_id: int = 0
        self.expected_delivery_id: int = -1
        """Of the peer's next delivery; -1 until its first."""
        self.unsettled: dict[int, tuple[SenderLink, object, int]] = {}
        """Our deliveries that are not settled: link, token and number of the delivery-tag, by delivery-id."""
        self._oldest: int = 0
        """No delivery-id in `unsettled` is before this one."""
        self.unsettled_in: dict[int, tuple[ReceiverLink, bytes]] = {}
        """The peer's deliveries that it will settle itself (rcv-settle-mode second)."""
        self.waiting: deque[_Waiting] = deque()
        """In the order of their delivery-ids; the first one may be sent in part."""
        self.streams: deque[_Waiting] = deque()
        """Deliveries from sources, one a link, each sent in part: they take turns, and others go between."""
        self.transfer: TransferFrame = TransferFrame()
        """The transfer that is being read."""
        self.links: dict[int, Link] = {}
        """By the peer's handle."""
        self.is_ended: bool = False
        """We sent our end: what still comes is ignored."""
        self._own: dict[int, Link] = {}
        """By our handle."""
        self._freed: list[int] = []
        """Handles of ours below `len(_own) + len(_freed)` that are not in use; a heap."""
        self._ignored: dict[int, int] = {}
        """Peer handles of links that we detached and the peer has not yet: transfers that came since."""
        self._awaiting: dict[tuple[str, bool], Link] = {}
        """Links we attached that the peer has not answered, by name and whether we send."""
        self._abandoned: set[tuple[str, bool]] = set()
        """Likewise, but we detached them meanwhile."""
        self._flows: dict[int, Link] = {}
        self._flow_due: bool = False
        self._is_dirty: bool = False
        self._held: bool = False
        # The disposition that is being put together.
        self._pending: bool = False
        self._pending_role: bool = False
        self._pending_first: int = 0
        self._pending_last: int = 0
        self._pending_settled: bool = False
        self._pending_state: bytes = b""

    # -- writing ---------------------------------------------------------------------------------------------

    def write(self, performative: object) -> None:
        """Write a frame on our channel, after everything that was collected; nothing follows our end (§2.5.5)."""
        if self.is_ended:
            return
        if self._pending:
            self._write_pending()
        self.connection.write_frame(self.channel, performative)

    def fits(self, performative: object) -> bool:
        """Whether the peer's max-frame-size allows this."""
        return 8 + len(encode(performative)) <= self.connection.peer_max_frame_size

    def _mark_dirty(self) -> None:
        if not self._is_dirty:
            self._is_dirty = True
            self.connection.mark_dirty(self)

    def plan_flow(self, link: Link | None = None) -> None:
        """Have a flow frame written at the end of the batch."""
        if self.is_ended:
            return
        if link is None:
            self._flow_due = True
        elif link.attach_sent and not link.detach_sent:
            self._flows[link.handle] = link
        self._mark_dirty()

    def flush(self) -> None:
        """Write what was collected."""
        self._is_dirty = False
        if self.is_ended:
            return
        if self._pending:
            self._write_pending()
        if self._flows:
            flows, self._flows = self._flows, {}
            for link in flows.values():
                if link.detach_sent:
                    continue
                if isinstance(link, SenderLink):
                    if link.waiting_count:
                        # Its delivery-count includes deliveries that are still to go out: not before them.
                        self._flows[link.handle] = link
                        continue
                    self._write_flow(link.flow())
                else:
                    assert isinstance(link, ReceiverLink)
                    self._write_flow(link.flow())
        if self._flow_due:
            self._write_flow(Flow(incoming_window=0, next_outgoing_id=0, outgoing_window=0))

    def _write_flow(self, flow: Flow) -> None:
        """Write a flow with the session's four fields as they are now (§2.5.6)."""
        window = 0 if self._held else INCOMING_WINDOW
        # A narrower window than before does not make frames wrong that are under way already (§2.5.6).
        self.incoming_window = max(self.incoming_window, window)
        self._flow_due = False
        self.connection.write(
            frame(
                self.channel,
                evolve(
                    flow,
                    next_incoming_id=self.next_incoming_id if self.next_incoming_id >= 0 else None,
                    incoming_window=window,
                    next_outgoing_id=self.next_outgoing_id,
                    outgoing_window=_OUTGOING_WINDOW,
                ),
            )
        )

    def write_disposition(self, role: bool, first: int, last: int, settled: bool, state: bytes) -> None:
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
            self._mark_dirty()
        self._pending = True
        self._pending_role = role
        self._pending_first = first
        self._pending_last = last
        self._pending_settled = settled
        self._pending_state = state

    def _write_pending(self) -> None:
        self._pending = False
        state = self._pending_state
        if len(state) + _DISPOSITION_SIZE + 6 > self.connection.peer_max_frame_size:
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
            self.connection.write(_FRAME_HEADER.pack(8 + len(whole), 2, 0, self.channel) + whole)
            return
        self.connection.write(
            _DISPOSITION.pack(
                size,
                0x0200,
                self.channel,
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

    def settle_incoming(self, first: int, last: int, state: bytes, settled: bool) -> None:
        """Answer deliveries of the peer with an encoded state."""
        if self.is_ended:
            return
        if settled and self.unsettled_in:
            self._take_in(first, last)
        self.write_disposition(True, first, last, settled, state)

    def hold(self, held: bool) -> None:
        """Stop the peer from sending transfers on this session, or let it go on."""
        if self._held != held:
            self._held = held
            self.plan_flow()

    # -- sending deliveries ------------------------------------------------------------------------------------

    def send_later(
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
        connection = self.connection
        while self.remote_incoming_window > 0 and not self.is_ended and not connection.is_paused:
            waiting = self.waiting[0] if self.waiting and not self.waiting[0].link.is_streaming else None
            if waiting is not None and connection.output_size < connection.output_limit:
                self._write_next(waiting)
            elif self.streams and connection.output_size < connection.output_limit >> 1:
                self.streams.rotate(-1)
                self._write_next(self.streams[-1])
            else:
                return

    def _write_next(self, waiting: _Waiting) -> None:
        """The next frame of a delivery: the first one in `waiting`, or the last one in `streams`."""
        connection = self.connection
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
            # Later frames need nothing but the handle (§2.7.5).
            waiting.transfer = Transfer(handle=link.handle)
            waiting.lead = encode(Transfer(handle=link.handle, more=True))
            if waiting.source is not None:
                self.waiting.popleft()
                self._begun(link)
                link.is_streaming = True
                self.streams.append(waiting)
        waiting.offset = stop
        self._count_frame()
        connection.write(_FRAME_HEADER.pack(8 + len(lead) + stop - start, 2, 0, self.channel) + lead)
        for piece in pieces:
            connection.write_payload(piece)

    def _count_frame(self) -> None:
        """A transfer frame goes out now, behind what was collected."""
        self.remote_incoming_window -= 1
        self.next_outgoing_id = (self.next_outgoing_id + 1) & MASK
        if self._pending:
            self._write_pending()

    def _begun(self, link: SenderLink) -> None:
        """A delivery of the link waits no more."""
        link.waiting_count -= 1
        if link.waiting_count == 0 and link.handle in self._flows:
            self._mark_dirty()

    def _sent(self, waiting: _Waiting) -> None:
        """The last frame of a delivery goes out, or the one that aborts it."""
        source = waiting.source
        if source is not None:
            source.close()
        if waiting.offset == 0 or source is None:
            self.waiting.popleft()
            self._begun(waiting.link)
        else:
            self.streams.pop()
            waiting.link.is_streaming = False
            # Its link was held up by it alone, and is told when the output is taken.
            self.connection.someone_waits()

    def _abort(self, waiting: _Waiting) -> None:
        """The rest of a delivery cannot be read: the receiver shall forget what it got, which settles it (§2.7.5)."""
        link = waiting.link
        transfer = waiting.transfer
        delivery_id = waiting.delivery_id
        self._sent(waiting)
        self._count_frame()
        self.connection.write(frame(self.channel, evolve(transfer, aborted=True)))
        entry = self.unsettled.pop(delivery_id, None)
        link.unsettled.pop(delivery_id, None)
        if entry is not None and link.handler is not None:
            link.handler.on_abort(link, entry[1])

    # -- attaching from our side ---------------------------------------------------------------------------------

    def free_handle(self) -> int:
        """A handle we do not use: the lowest."""
        return self._freed[0] if self._freed else len(self._own)

    def _take_handle(self, link: Link) -> None:
        if self._freed:
            heappop(self._freed)
        self._own[link.handle] = link

    def _free(self, link: Link) -> None:
        if self._own.get(link.handle) is link:
            del self._own[link.handle]
            heappush(self._freed, link.handle)

    def attach(
        self,
        name: str,
        source: Source | None,
        target: Target | Coordinator | None,
        is_sender: bool,
        snd_settle_mode: int = 2,
        rcv_settle_mode: int = 0,
        unsettled: dict[bytes, object] | None = None,
        properties: dict[Symbol, object] | None = None,
        max_message_size: int = 0,
    ) -> Link:
        """Attach a link as a client does; the handler hears of the peer's answer."""
        handle = self.free_handle()
        link: Link
        if is_sender:
            link = SenderLink(self, name, handle)
        else:
            receiver = ReceiverLink(self, name, handle)
            receiver.max_message_size = max_message_size
            link = receiver
        link.snd_settle_mode = snd_settle_mode
        link.rcv_settle_mode = rcv_settle_mode
        link.attach_sent = True
        self._take_handle(link)
        self._awaiting[(name, is_sender)] = link
        self.write(
            Attach(
                name=name,
                handle=handle,
                role=not is_sender,
                snd_settle_mode=snd_settle_mode,
                rcv_settle_mode=rcv_settle_mode,
                source=source,
                target=target,
                unsettled=unsettled,
                initial_delivery_count=0 if is_sender else None,
                max_message_size=max_message_size or None,
                properties=properties,
            )
        )
        return link

    # -- reading -----------------------------------------------------------------------------------------------

    def receive_begin(self, begin: Begin) -> None:
        """The peer began its side."""
        self.next_incoming_id = begin.next_outgoing_id
        self.remote_incoming_window = begin.incoming_window
        self.remote_outgoing_window = begin.outgoing_window
        self.peer_handle_max = begin.handle_max

    def receive_attach(self, attach: Attach) -> None:
        """The peer attaches a link, or answers ours."""
        connection = self.connection
        if attach.handle > self.handle_max:
            connection.fail(errors.FRAMING_ERROR, f"handle {attach.handle} is above handle-max {self.handle_max}")
            return
        if attach.handle in self.links or attach.handle in self._ignored:
            self.fail(errors.HANDLE_IN_USE, f"handle {attach.handle} is attached already")
            return
        peer_sends = not attach.role
        key = (attach.name, not peer_sends)
        link = self._awaiting.pop(key, None)
        if link is not None:
            self._receive_answer(link, attach)
            return
        if key in self._abandoned:
            # The answer to an attach of ours that we took back: the peer's detach follows.
            self._abandoned.discard(key)
            self._ignored[attach.handle] = 0
            return
        if peer_sends and attach.initial_delivery_count is None:
            self.fail(errors.INVALID_FIELD, "the attach of a sender needs an initial-delivery-count")
            return
        handle = self.free_handle()
        if handle > self.peer_handle_max:
            self.fail(errors.RESOURCE_LIMIT_EXCEEDED, "the peer's handle-max leaves no handle for another link")
            return
        link = ReceiverLink(self, attach.name, handle) if peer_sends else SenderLink(self, attach.name, handle)
        link.peer_handle = attach.handle
        link.snd_settle_mode = attach.snd_settle_mode
        link.rcv_settle_mode = attach.rcv_settle_mode
        if peer_sends:
            link.delivery_count = attach.initial_delivery_count or 0
        self.links[attach.handle] = link
        self._take_handle(link)
        if attach.snd_settle_mode > MIXED or attach.rcv_settle_mode > SECOND:
            link.refuse(AmqpError(errors.INVALID_FIELD, "there is no such settle mode"))
            return
        connection.handler.on_attach(link, attach)

    def _receive_answer(self, link: Link, attach: Attach) -> None:
        link.peer_handle = attach.handle
        link.is_attached = True
        link.snd_settle_mode = attach.snd_settle_mode
        link.rcv_settle_mode = attach.rcv_settle_mode
        if isinstance(link, ReceiverLink):
            link.delivery_count = attach.initial_delivery_count or 0
        self.links[attach.handle] = link
        self.connection.handler.on_attach(link, attach)

    def receive_detach(self, detach: Detach) -> None:
        """The peer detaches a link, or answers our detach."""
        if self._ignored.pop(detach.handle, None) is not None:
            return
        link = self.links.pop(detach.handle, None)
        if link is None:
            self.fail(errors.UNATTACHED_HANDLE, f"detach of handle {detach.handle}, which is not attached")
            return
        lives = not detach.closed and detach.error is None
        if lives:
            # Its deliveries outlive the link: the peer may go on to speak of them (§2.7.6).
            self.drop_incomplete(link)
        self.connection.handler.on_detach(link, detach)
        if not lives:
            self.drop_deliveries(link)
        if link.attach_sent and not link.detach_sent:
            link.is_attached = False
            link.detach_sent = True
            self.write(Detach(handle=link.handle, closed=detach.closed))
        self._free(link)

    def forget(self, link: Link) -> None:
        """We detached a link: whatever still comes for it is ignored until the peer detached too."""
        self._free(link)
        key = (link.name, isinstance(link, SenderLink))
        if self._awaiting.get(key) is link:
            del self._awaiting[key]
            self._abandoned.add(key)
        if link.peer_handle >= 0 and self.links.pop(link.peer_handle, None) is not None:
            self._ignored[link.peer_handle] = 0
        self.drop_deliveries(link)

    def drop_deliveries(self, link: Link) -> None:
        """Forget what was under way on a link that is gone, and what was not settled on it."""
        self.drop_incomplete(link)
        if isinstance(link, SenderLink):
            for delivery_id in link.unsettled:
                self.unsettled.pop(delivery_id, None)
            link.unsettled.clear()
        elif isinstance(link, ReceiverLink):
            for delivery_id in link.unsettled:
                self.unsettled_in.pop(delivery_id, None)
            link.unsettled.clear()

    def drop_incomplete(self, link: Link) -> None:
        """Forget what was under way on a link that is gone: deliveries that are not complete will never be."""
        if isinstance(link, SenderLink):
            if link.waiting_count or link.is_streaming:
                link.waiting_count = 0
                link.is_streaming = False
                for waiting in (*self.waiting, *self.streams):
                    if waiting.link is link:
                        self.unsettled.pop(waiting.delivery_id, None)
                        link.unsettled.pop(waiting.delivery_id, None)
                        if waiting.source is not None:
                            waiting.source.close()
                self.waiting = deque([waiting for waiting in self.waiting if waiting.link is not link])
                self.streams = deque([waiting for waiting in self.streams if waiting.link is not link])
        elif isinstance(link, ReceiverLink):
            link.drop_partial()

    def receive_transfer(self) -> None:
        """Take the frame that was read into `transfer`; see `ReceiverLink.receive_transfer`."""
        self.next_incoming_id = (self.next_incoming_id + 1) & MASK
        window = self.incoming_window - 1
        if window < 0:
            self.fail(errors.WINDOW_VIOLATION, "a transfer beyond the incoming-window")
            return
        self.incoming_window = window
        if window <= INCOMING_WINDOW >> 1 and not self._flow_due and not self._held:
            self.plan_flow()
        transfer = self.transfer
        link = self.links.get(transfer.handle)
        if link is None:
            self._receive_ignored(transfer.handle, transfer.delivery_id)
            return
        if not isinstance(link, ReceiverLink):
            self.fail(errors.NOT_ALLOWED, f"a transfer on handle {transfer.handle}, whose receiver the peer is")
            return
        link.receive_transfer(transfer)
        # The record outlives the frame: it must not keep the octets of a message that is gone.
        transfer.payload = b""

    def receive_settle_mode(self, handle: int, mode: int) -> None:
        """A transfer says how it wants to be settled; see ReceiverLink.receive_settle_mode."""
        link = self.links.get(handle)
        if isinstance(link, ReceiverLink):
            link.receive_settle_mode(mode)

    def _receive_ignored(self, handle: int, delivery_id: int) -> None:
        """A transfer on a link that we detached: legal until the peer knows, and its delivery-id still counts."""
        frames = self._ignored.get(handle, -1)
        if frames < 0:
            self.fail(errors.UNATTACHED_HANDLE, f"a transfer on handle {handle}, which is not attached")
        elif frames >= ERRANT_FRAMES:
            self.fail(errors.ERRANT_LINK, f"transfers go on on handle {handle}, which was detached long ago")
        else:
            self._ignored[handle] = frames + 1
            if delivery_id >= 0 and self.expected_delivery_id in (delivery_id, -1):
                self.expected_delivery_id = (delivery_id + 1) & MASK

    def receive_flow(self, flow: Flow) -> None:
        """The peer's view of windows and, perhaps, of one link (§2.5.6)."""
        base = flow.next_incoming_id or 0
        in_flight = (self.next_outgoing_id - base) & MASK
        if in_flight >= _HALF:
            self.fail(errors.WINDOW_VIOLATION, "next-incoming-id is ahead of what was sent")
            return
        if self.next_incoming_id >= 0:
            behind = (self.next_incoming_id - flow.next_outgoing_id) & MASK
            if 0 < behind < _HALF:
                self.fail(errors.WINDOW_VIOLATION, "next-outgoing-id is behind what was received")
                return
        self.next_incoming_id = flow.next_outgoing_id
        self.remote_outgoing_window = flow.outgoing_window
        was_closed = self.remote_incoming_window <= 0
        # Less than nothing: the peer shrank its window while frames were under way.
        self.remote_incoming_window = max(0, flow.incoming_window - in_flight)
        if self.waiting or self.streams:
            self.pump()
        if flow.handle is not None:
            link = self.links.get(flow.handle)
            if link is None:
                if flow.handle not in self._ignored:
                    self.fail(errors.UNATTACHED_HANDLE, f"a flow on handle {flow.handle}, which is not attached")
                    return
            elif isinstance(link, SenderLink):
                link.receive_flow(flow)
            else:
                assert isinstance(link, ReceiverLink)
                link.receive_flow(flow)
        elif flow.echo:
            self.plan_flow()
        if was_closed and self.remote_incoming_window > 0:
            self.connection.tell_senders(self)

    def receive_disposition(self, role: bool, first: int, last: int, settled: bool, state: object) -> None:
        """The peer's word on a range of deliveries; ids that are settled or unknown are passed over (§2.7.6)."""
        if not role:
            if settled:
                self._receive_settlement(first, last)
        elif first == last:
            self._apply(first, state, settled)
        elif settled or state is not None:
            known = self._known(first, last)
            if len(known) <= SHORT_RANGE:
                self.connection.meter.work += len(known)
                for delivery_id in known:
                    self._apply(delivery_id, state, settled)
            else:
                self.connection.work_through(self._apply_all(known, state, settled))

    def _apply_all(self, known: list[int], state: object, settled: bool) -> Iterator[None]:
        """A wide range, in steps; what it names and is gone before its step is passed over."""
        meter = self.connection.meter
        for index, delivery_id in enumerate(known):
            if self.is_ended:
                return
            self._apply(delivery_id, state, settled)
            if index % SHORT_RANGE == SHORT_RANGE - 1:
                meter.work += SHORT_RANGE
                yield

    def _apply(self, delivery_id: int, state: object, settled: bool) -> None:
        entry = self.unsettled.pop(delivery_id, None) if settled else self.unsettled.get(delivery_id)
        if entry is not None:
            link = entry[0]
            if settled:
                link.unsettled.pop(delivery_id, None)
            handler = link.handler
            if handler is not None:
                handler.on_disposition(link, delivery_id, entry[1], state, settled)

    def _known(self, first: int, last: int) -> list[int]:
        """The unsettled delivery-ids of a range, in their order.

        A range may be 2**32 wide: the cost is that of what is really there.
        """
        unsettled = self.unsettled
        oldest = self._oldest
        newest = self.next_delivery_id
        while oldest != newest and oldest not in unsettled:
            oldest = (oldest + 1) & MASK
        self._oldest = oldest
        span = (newest - oldest) & MASK
        start = (first - oldest) & MASK
        stop = start + ((last - first) & MASK) + 1
        # In distances from the oldest: the part of the range before the wrap, then the part behind it.
        wrapped = min(span, max(0, stop - MASK - 1))
        stop = min(span, stop)
        if wrapped + max(0, stop - start) > len(unsettled):
            return [key for key in unsettled if (key - first) & MASK <= (last - first) & MASK]
        ids = [(oldest + distance) & MASK for distance in range(wrapped)]
        ids += [(oldest + distance) & MASK for distance in range(start, stop)]
        return [key for key in ids if key in unsettled]

    def _receive_settlement(self, first: int, last: int) -> None:
        """The peer, as sender, settles what we had answered."""
        for delivery_id, link, tag in self._take_in(first, last):
            if link.handler is not None:
                link.handler.on_settled(link, delivery_id, tag)

    def _take_in(self, first: int, last: int) -> list[tuple[int, ReceiverLink, bytes]]:
        """Take the known ones of a range out of `unsettled_in`."""
        unsettled = self.unsettled_in
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

    def senders(self) -> list[SenderLink]:
        """Links on which we send."""
        return [link for link in self.links.values() if isinstance(link, SenderLink)]

    # -- end ---------------------------------------------------------------------------------------------------

    def receive_end(self, end: End) -> None:
        """The peer ends the session; we end our side."""
        if not self.is_ended:
            self.connection.handler.on_end(self, end)
            self.write(End())
            self.silence()
        self._clear()
        self.connection.drop_session(self)

    def end(self, error: AmqpError | None = None) -> None:
        """End the session from our side; what still comes on it is ignored until the peer's end (§2.5.5)."""
        if self.is_ended:
            return
        self.connection.handler.on_end(self, End(error=error))
        self.write(End(error=error))
        self.silence()
        self._clear()

    def silence(self) -> None:
        """Say nothing more on this channel: our end, or the connection's close, is written."""
        self.is_ended = True
        # Without a window, what is sent too late waits, and goes with the session.
        self.remote_incoming_window = 0

    def fail(self, condition: str, text: str) -> None:
        """The peer broke the rules of this session."""
        self.end(AmqpError(condition, text))

    def _clear(self) -> None:
        for link in self.links.values():
            link.is_attached = False
            link.detach_sent = True
            self.drop_deliveries(link)
        self.links.clear()
        self._own.clear()
        self._freed.clear()
        self._awaiting.clear()
        self._abandoned.clear()
        self._ignored.clear()
        self.unsettled.clear()
        self.unsettled_in.clear()
        self.waiting.clear()
        self.streams.clear()
        self._flows.clear()


def _without_texts(state: bytes) -> bytes:
    """An encoded delivery state as small as it gets, for a peer whose frames do not hold it."""
    return encode(_bare_state(read_composite(state, 0, len(state))[0]))


def _bare_state(state: object) -> object:
    if isinstance(state, Rejected) and state.error is not None:
        return Rejected(error=shortened(state.error))
    if isinstance(state, Modified):
        return evolve(state, message_annotations=None)
    if isinstance(state, TransactionalState):
        return evolve(state, outcome=_bare_state(state.outcome))
    return state
