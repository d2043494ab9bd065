"""A session end-point: windows, delivery-ids and the links of one channel (AMQP 1.0 §2.5, reference/amqp10 §6).

Flow and disposition frames are collected while a batch is worked through and written once, by `flush`.
"""

from collections import deque
from struct import Struct
from typing import TYPE_CHECKING, Final

from attrs import evolve

from artemis_amqp import errors
from artemis_amqp.limits import INCOMING_WINDOW
from artemis_amqp.link import MASK, Link, ReceiverLink, SenderLink
from artemis_amqp.performatives import (
    AmqpError,
    Attach,
    Begin,
    Coordinator,
    Detach,
    End,
    Flow,
    Source,
    Target,
    Transfer,
    encode,
    frame,
)
from artemis_amqp.types import Symbol

if TYPE_CHECKING:
    from artemis_amqp.connection import AmqpConnection

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

    __slots__ = ("link", "offset", "payload", "transfer")

    def __init__(self, link: SenderLink, transfer: Transfer, payload: bytes) -> None:
        self.link: SenderLink = link
        self.transfer: Transfer = transfer
        self.payload: bytes = payload
        self.offset: int = 0


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
        self.next_outgoing_id: int = 0
        self.remote_incoming_window: int = 0
        self.remote_outgoing_window: int = 0
        self.next_delivery_id: int = 0
        self.expected_delivery_id: int = -1
        """Of the peer's next delivery; -1 until its first."""
        self.unsettled: dict[int, tuple[SenderLink, object, int]] = {}
        """Our deliveries that are not settled: link, token and number of the delivery-tag, by delivery-id."""
        self.unsettled_in: dict[int, tuple[ReceiverLink, bytes]] = {}
        """The peer's deliveries that it will settle itself (rcv-settle-mode second)."""
        self.waiting: deque[_Waiting] = deque()
        self.links: dict[int, Link] = {}
        """By the peer's handle."""
        self.is_ended: bool = False
        """We sent our end: what still comes is ignored."""
        self._own: dict[int, Link] = {}
        """By our handle."""
        self._ignored: set[int] = set()
        """Peer handles of links that we detached and the peer has not yet."""
        self._awaiting: dict[tuple[str, bool], Link] = {}
        """Links we attached that the peer has not answered, by name and whether we send."""
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
        """Write a frame on our channel, after everything that was collected."""
        if self._pending:
            self._write_pending()
        self.connection.write(frame(self.channel, performative))

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
                assert isinstance(link, (SenderLink, ReceiverLink))
                self._write_flow(link.flow())
        elif self._flow_due:
            self._write_flow(Flow(incoming_window=0, next_outgoing_id=0, outgoing_window=0))
        self._flow_due = False

    def _write_flow(self, flow: Flow) -> None:
        """Write a flow with the session's four fields as they are now (§2.5.6)."""
        self.incoming_window = 0 if self._held else INCOMING_WINDOW
        self.connection.write(
            frame(
                self.channel,
                evolve(
                    flow,
                    next_incoming_id=self.next_incoming_id if self.next_incoming_id >= 0 else None,
                    incoming_window=self.incoming_window,
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
        if not self.is_ended:
            self.write_disposition(True, first, last, settled, state)

    def hold(self, held: bool) -> None:
        """Stop the peer from sending transfers on this session, or let it go on."""
        if self._held != held:
            self._held = held
            self.plan_flow()

    # -- sending deliveries ------------------------------------------------------------------------------------

    def send_later(self, link: SenderLink, transfer: Transfer, payload: bytes) -> None:
        """Queue a delivery that needs several frames, or has to wait."""
        self.waiting.append(_Waiting(link, transfer, payload))
        self.pump()

    def pump(self) -> None:
        """Write waiting transfer frames while window and output limit allow."""
        connection = self.connection
        while self.waiting and self.remote_incoming_window > 0 and not self.is_ended:
            if connection.output_size >= connection.output_limit:
                return
            waiting = self.waiting[0]
            if waiting.link.detach_sent:
                self.waiting.popleft()
                continue
            payload = waiting.payload
            head = encode(evolve(waiting.transfer, more=True) if waiting.offset == 0 else _continuation_of(waiting))
            room = connection.peer_max_frame_size - 8 - len(head)
            stop = waiting.offset + room
            if stop >= len(payload):
                stop = len(payload)
                transfer = waiting.transfer if waiting.offset == 0 else evolve(_continuation_of(waiting), more=False)
                head = encode(transfer)
                self.waiting.popleft()
            chunk = memoryview(payload)[waiting.offset : stop]
            waiting.offset = stop
            self.remote_incoming_window -= 1
            self.next_outgoing_id = (self.next_outgoing_id + 1) & MASK
            if self._pending:
                self._write_pending()
            connection.write(_FRAME_HEADER.pack(8 + len(head) + len(chunk), 2, 0, self.channel) + head)
            connection.write_payload(chunk)

    # -- attaching from our side ---------------------------------------------------------------------------------

    def free_handle(self) -> int:
        """The lowest handle we do not use."""
        handle = 0
        while handle in self._own:
            handle += 1
        return handle

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
        self._own[handle] = link
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
        link = self._awaiting.pop((attach.name, not peer_sends), None)
        if link is not None:
            self._receive_answer(link, attach)
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
        self._own[handle] = link
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
        if detach.handle in self._ignored:
            self._ignored.discard(detach.handle)
            return
        link = self.links.pop(detach.handle, None)
        if link is None:
            self.fail(errors.UNATTACHED_HANDLE, f"detach of handle {detach.handle}, which is not attached")
            return
        self.connection.handler.on_detach(link, detach)
        self._own.pop(link.handle, None)
        self._drop_unsettled(link)
        if link.attach_sent and not link.detach_sent:
            link.is_attached = False
            link.detach_sent = True
            self.write(Detach(handle=link.handle, closed=detach.closed))

    def forget(self, link: Link) -> None:
        """We detached a link: whatever still comes for it is ignored until the peer detached too."""
        self._own.pop(link.handle, None)
        self._awaiting.pop((link.name, isinstance(link, SenderLink)), None)
        if link.peer_handle >= 0 and self.links.pop(link.peer_handle, None) is not None:
            self._ignored.add(link.peer_handle)
        self._drop_unsettled(link)

    def _drop_unsettled(self, link: Link) -> None:
        if isinstance(link, SenderLink):
            for delivery_id in [key for key, entry in self.unsettled.items() if entry[0] is link]:
                del self.unsettled[delivery_id]
        else:
            for delivery_id in [key for key, item in self.unsettled_in.items() if item[0] is link]:
                del self.unsettled_in[delivery_id]

    def receive_transfer(
        self,
        handle: int,
        delivery_id: int,
        tag: bytes | None,
        message_format: int,
        settled: int,
        more: bool,
        state: object,
        resume: bool,
        aborted: bool,
        payload: bytes,
    ) -> None:
        """One transfer frame; see ReceiverLink.receive_transfer."""
        self.next_incoming_id = (self.next_incoming_id + 1) & MASK
        window = self.incoming_window - 1
        if window < 0:
            if not self._held:
                self.fail(errors.WINDOW_VIOLATION, "a transfer beyond the incoming-window")
                return
            window = 0
        self.incoming_window = window
        if window <= INCOMING_WINDOW >> 1 and not self._flow_due and not self._held:
            self.plan_flow()
        link = self.links.get(handle)
        if link is None:
            if handle not in self._ignored:
                self.fail(errors.UNATTACHED_HANDLE, f"a transfer on handle {handle}, which is not attached")
            return
        if not isinstance(link, ReceiverLink):
            self.fail(errors.NOT_ALLOWED, f"a transfer on handle {handle}, whose receiver the peer is")
            return
        link.receive_transfer(
            delivery_id, tag, message_format, settled, more, state, resume, aborted, payload
        )

    def receive_flow(self, flow: Flow) -> None:
        """The peer's view of windows and, perhaps, of one link (§2.5.6)."""
        if flow.next_incoming_id is None:
            base = 0
        else:
            base = flow.next_incoming_id
            ahead = (base - self.next_outgoing_id) & MASK
            if 0 < ahead < _HALF:
                self.fail(errors.WINDOW_VIOLATION, "next-incoming-id is ahead of what was sent")
                return
        if self.next_incoming_id >= 0:
            behind = (self.next_incoming_id - flow.next_outgoing_id) & MASK
            if 0 < behind < _HALF:
                self.fail(errors.WINDOW_VIOLATION, "next-outgoing-id is behind what was received")
                return
        self.next_incoming_id = flow.next_outgoing_id
        self.remote_outgoing_window = flow.outgoing_window
        window = (base + flow.incoming_window - self.next_outgoing_id) & MASK
        was_closed = self.remote_incoming_window <= 0
        # A difference in the upper half is negative: the peer shrank its window while frames were under way.
        self.remote_incoming_window = 0 if window >= _HALF and flow.incoming_window < _HALF else window
        if self.waiting:
            self.pump()
        if flow.handle is not None:
            link = self.links.get(flow.handle)
            if link is None:
                if flow.handle not in self._ignored:
                    self.fail(errors.UNATTACHED_HANDLE, f"a flow on handle {flow.handle}, which is not attached")
                return
            assert isinstance(link, (SenderLink, ReceiverLink))
            link.receive_flow(flow)
        elif flow.echo:
            self.plan_flow()
        if was_closed and self.remote_incoming_window > 0:
            self.connection.tell_senders(self)

    def receive_disposition(self, role: bool, first: int, last: int, settled: bool, state: object) -> None:
        """The peer's word on a range of deliveries; ids that are settled or unknown are passed over (§2.7.6)."""
        if not role:
            self._receive_settlement(first, last, settled)
            return
        unsettled = self.unsettled
        count = ((last - first) & MASK) + 1
        if count > len(unsettled):
            # A range may be 2^32 wide: the cost is that of what is really there.
            ids = [key for key in unsettled if ((key - first) & MASK) < count]
            for delivery_id in ids:
                self._apply(delivery_id, state, settled)
            return
        delivery_id = first
        for _ in range(count):
            entry = unsettled.pop(delivery_id, None) if settled else unsettled.get(delivery_id)
            if entry is not None:
                link = entry[0]
                handler = link.handler
                if handler is not None:
                    handler.on_disposition(link, delivery_id, entry[1], state, settled)
            delivery_id = (delivery_id + 1) & MASK

    def _apply(self, delivery_id: int, state: object, settled: bool) -> None:
        entry = self.unsettled.pop(delivery_id, None) if settled else self.unsettled.get(delivery_id)
        if entry is not None:
            link = entry[0]
            handler = link.handler
            if handler is not None:
                handler.on_disposition(link, delivery_id, entry[1], state, settled)

    def _receive_settlement(self, first: int, last: int, settled: bool) -> None:
        """The peer, as sender, settles what we had answered."""
        if not settled:
            return
        count = ((last - first) & MASK) + 1
        for delivery_id in [key for key in self.unsettled_in if ((key - first) & MASK) < count]:
            link, tag = self.unsettled_in.pop(delivery_id)
            if link.handler is not None:
                link.handler.on_settled(link, delivery_id, tag)

    def senders(self) -> list[SenderLink]:
        """Links on which we send."""
        return [link for link in self.links.values() if isinstance(link, SenderLink)]

    # -- end ---------------------------------------------------------------------------------------------------

    def receive_end(self, end: End) -> None:
        """The peer ends the session; we end our side."""
        if not self.is_ended:
            self.connection.handler.on_end(self, end)
            self.write(End())
            self.is_ended = True
        self._clear()
        self.connection.drop_session(self)

    def end(self, error: AmqpError | None = None) -> None:
        """End the session from our side; what still comes on it is ignored until the peer's end (§2.5.5)."""
        if self.is_ended:
            return
        self.connection.handler.on_end(self, End(error=error))
        self.write(End(error=error))
        self.is_ended = True
        self._clear()

    def fail(self, condition: str, text: str) -> None:
        """The peer broke the rules of this session."""
        self.end(AmqpError(condition, text))

    def _clear(self) -> None:
        for link in self.links.values():
            link.is_attached = False
            link.detach_sent = True
        self.links.clear()
        self._own.clear()
        self.unsettled.clear()
        self.unsettled_in.clear()
        self.waiting.clear()
        self._flows.clear()


def _continuation_of(waiting: _Waiting) -> Transfer:
    """A later frame of a delivery: only the handle is needed (§2.7.5)."""
    return Transfer(handle=waiting.transfer.handle, more=True)

