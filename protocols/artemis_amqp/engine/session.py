"""A session end-point: windows, delivery-ids and the links of one channel (AMQP 1.0 §2.5, amqp10 §6).

Flow and disposition frames are collected while a batch is worked through and written once, by `flush`.
"""

from heapq import heappop, heappush
from typing import TYPE_CHECKING, Final

from attrs import evolve

from artemis_amqp.engine import errors
from artemis_amqp.engine.dispositions import Dispositions
from artemis_amqp.engine.limits import ERRANT_FRAMES, INCOMING_WINDOW
from artemis_amqp.engine.link import HALF, MASK, MIXED, SECOND, Link
from artemis_amqp.engine.outgoing import OutgoingDeliveries
from artemis_amqp.engine.performatives import (
    AmqpError,
    Attach,
    Begin,
    Coordinator,
    Detach,
    End,
    Flow,
    Source,
    Target,
    encode,
    frame,
)
from artemis_amqp.engine.receiver import ReceiverLink
from artemis_amqp.engine.sender import SenderLink
from artemis_amqp.engine.transfer_frame import TransferFrame
from artemis_amqp.engine.types import Symbol
from artemis_amqp.engine.unsettled import Unsettled

if TYPE_CHECKING:
    from artemis_amqp.engine.connection import AmqpConnection

_OUTGOING_WINDOW: Final = 0x7FFFFFFF
"""Our outgoing window: only the peer's window and our output limit bind us, so it is the largest."""


class AmqpSession:
    """One session."""

    # Long because all state of a session is declared here, with its meaning.
    def __init__(self, connection: "AmqpConnection", channel: int) -> None:
        self.connection: AmqpConnection = connection
        self.channel: int = channel
        """Number of our channel."""
        self.peer_channel: int = -1
        self.handle_max: int = connection.limits.handle_max
        self.peer_handle_max: int = MASK
        self.next_incoming_id: int = -1
        """Transfer-id of the peer's next transfer frame; -1 until the peer began."""
        self.incoming_window: int = INCOMING_WINDOW
        """Transfer frames that the peer may still send within the widest window that we announced."""
        self.next_outgoing_id: int = 0
        self.remote_incoming_window: int = 0
        self.remote_outgoing_window: int = 0
        self.next_delivery_id: int = 0
        self.expected_delivery_id: int = -1
        """Delivery-id of the peer's next delivery; -1 until its first."""
        self.unsettled: Unsettled = Unsettled()
        """Our deliveries that are not settled, by delivery-id."""
        self.unsettled_in: dict[int, tuple[ReceiverLink, bytes]] = {}
        """The peer's deliveries that it will settle itself (rcv-settle-mode second)."""
        self.transfer: TransferFrame = TransferFrame()
        """Record of the transfer that is being read."""
        self.links: dict[int, Link] = {}
        """Links by the peer's handle."""
        self._receiver: ReceiverLink | None = None
        """The one of `links` on which the peer sent last: it mostly sends on it again."""
        self.is_ended: bool = False
        """Whether we sent our end; frames that still arrive are ignored."""
        self._own: dict[int, Link] = {}
        """Links by our handle."""
        self._freed: list[int] = []
        """Handles of ours below `len(_own) + len(_freed)` that are not in use; a heap."""
        self._ignored: dict[int, int] = {}
        """Number of transfers since our detach, by peer handle, of links that the peer has not detached yet."""
        self._awaiting: dict[tuple[str, bool], Link] = {}
        """Links we attached that the peer has not answered, by name and whether we send."""
        self._abandoned: set[tuple[str, bool]] = set()
        """Likewise, but we have detached them since then."""
        self._flows: dict[int, Link] = {}
        self._flow_due: bool = False
        self._is_dirty: bool = False
        self._held: bool = False
        self.dispositions: Dispositions = Dispositions(self)
        self.outgoing: OutgoingDeliveries = OutgoingDeliveries(self)

    # -- writing ---------------------------------------------------------------------------------------------

    def write(self, performative: object) -> None:
        """Write a frame on our channel, after everything that was collected; nothing follows our end
        (AMQP 1.0 §2.5.5).
        """
        if self.is_ended:
            return
        self.dispositions.flush()
        self.connection.write_frame(self.channel, performative)

    def fits(self, performative: object) -> bool:
        """Tell whether the peer's max-frame-size allows this frame."""
        return 8 + len(encode(performative)) <= self.connection.peer_max_frame_size

    def mark_dirty(self) -> None:
        """Have `flush` called at the end of the batch."""
        if not self._is_dirty:
            self._is_dirty = True
            self.connection.mark_dirty(self)

    def sends_flow_of(self, link: Link) -> bool:
        """Tell whether a flow of this link is to be written."""
        return link.handle in self._flows

    def plan_flow(self, link: Link | None = None) -> None:
        """Have a flow frame written at the end of the batch."""
        if self.is_ended:
            return
        if link is None:
            self._flow_due = True
        elif link.attach_sent and not link.detach_sent:
            self._flows[link.handle] = link
        self.mark_dirty()

    def flush(self) -> None:
        """Write what was collected."""
        self._is_dirty = False
        if self.is_ended:
            return
        self.dispositions.flush()
        if self._flows:
            flows, self._flows = self._flows, {}
            for link in flows.values():
                if link.detach_sent:
                    continue
                if isinstance(link, SenderLink):
                    if link.waiting_count:
                        # Its delivery-count includes deliveries that are not sent yet: it must not precede them.
                        self._flows[link.handle] = link
                        continue
                    self._write_flow(link.flow())
                else:
                    assert isinstance(link, ReceiverLink)
                    self._write_flow(link.flow())
        if self._flow_due:
            self._write_flow(Flow(incoming_window=0, next_outgoing_id=0, outgoing_window=0))

    def _write_flow(self, flow: Flow) -> None:
        """Write a flow with the session's four fields as they are now (AMQP 1.0 §2.5.6)."""
        window = 0 if self._held else INCOMING_WINDOW
        # Frames that are under way already stay legal when the window gets narrower (AMQP 1.0 §2.5.6).
        self.incoming_window = max(self.incoming_window, window)
        self._flow_due = False
        self.connection.outbox.write(
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

    def settle_incoming(self, first: int, last: int, state: bytes, settled: bool) -> None:
        """Answer deliveries of the peer with an encoded state."""
        if self.is_ended:
            return
        if settled and self.unsettled_in:
            self.dispositions.take_in(first, last)
        self.dispositions.collect(True, first, last, settled, state)

    def hold(self, held: bool) -> None:
        """Stop the peer from sending transfers on this session, or let it continue."""
        if self._held != held:
            self._held = held
            self.plan_flow()

    # -- attaching from our side ---------------------------------------------------------------------------------

    def free_handle(self) -> int:
        """Return the lowest handle that we do not use."""
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
        """Attach a link as a client does; `on_attach` of the handler is called with the peer's answer."""
        handle = self.free_handle()
        link: Link = SenderLink(self, name, handle) if is_sender else ReceiverLink(self, name, handle)
        if isinstance(link, ReceiverLink):
            link.max_message_size = max_message_size
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
        """Take over the peer's side from its begin."""
        self.next_incoming_id = begin.next_outgoing_id
        self.remote_incoming_window = begin.incoming_window
        self.remote_outgoing_window = begin.outgoing_window
        self.peer_handle_max = begin.handle_max

    def receive_attach(self, attach: Attach) -> None:
        """Process an attach: of a new link, or the peer's answer to ours."""
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
            # The answer to an attach of ours that we have detached since then: the peer's detach follows.
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
        """Process a detach: of an attached link, or the peer's answer to ours."""
        if self._ignored.pop(detach.handle, None) is not None:
            return
        self._receiver = None
        link = self.links.pop(detach.handle, None)
        if link is None:
            self.fail(errors.UNATTACHED_HANDLE, f"detach of handle {detach.handle}, which is not attached")
            return
        lives = not detach.closed and detach.error is None
        if lives:
            # Its deliveries outlive the link: the peer may still send dispositions of them (AMQP 1.0 §2.7.6).
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
        """Forget a link that we detached; frames that still arrive for it are ignored until the peer detached too."""
        self._free(link)
        self._receiver = None
        key = (link.name, isinstance(link, SenderLink))
        if self._awaiting.get(key) is link:
            del self._awaiting[key]
            self._abandoned.add(key)
        if link.peer_handle >= 0 and self.links.pop(link.peer_handle, None) is not None:
            self._ignored[link.peer_handle] = 0
        self.drop_deliveries(link)

    def drop_deliveries(self, link: Link) -> None:
        """Forget the incomplete and the unsettled deliveries of a link that is gone."""
        self.drop_incomplete(link)
        if isinstance(link, SenderLink):
            for sent in link.unsettled():
                if not sent.is_settled:
                    self.unsettled.remove(sent)
                link.unlink(sent)
        elif isinstance(link, ReceiverLink):
            for delivery_id in link.unsettled:
                self.unsettled_in.pop(delivery_id, None)
            link.unsettled.clear()

    def drop_incomplete(self, link: Link) -> None:
        """Forget the incomplete deliveries of a link that is gone: they will never be complete."""
        if isinstance(link, SenderLink):
            self.outgoing.drop(link)
        elif isinstance(link, ReceiverLink):
            link.drop_partial()

    def receive_transfer(self) -> None:
        """Process the frame that was read into `transfer`; see `ReceiverLink.receive_transfer`."""
        self.next_incoming_id = (self.next_incoming_id + 1) & MASK
        window = self.incoming_window - 1
        if window < 0:
            self.fail(errors.WINDOW_VIOLATION, "a transfer beyond the incoming-window")
            return
        self.incoming_window = window
        if window <= INCOMING_WINDOW >> 1 and not self._flow_due and not self._held:
            self.plan_flow()
        transfer = self.transfer
        receiver = self._receiver
        if receiver is None or receiver.peer_handle != transfer.handle:
            link = self.links.get(transfer.handle)
            if link is None:
                self._receive_ignored(transfer.handle, transfer.delivery_id)
                return
            if not isinstance(link, ReceiverLink):
                text = f"a transfer on handle {transfer.handle}, on which the peer is the receiver"
                self.fail(errors.NOT_ALLOWED, text)
                return
            self._receiver = receiver = link
        receiver.receive_transfer(transfer)

    def receive_settle_mode(self, handle: int, mode: int) -> None:
        """Process the rcv-settle-mode of a transfer; see `ReceiverLink.receive_settle_mode`."""
        link = self.links.get(handle)
        if isinstance(link, ReceiverLink):
            link.receive_settle_mode(mode)

    def _receive_ignored(self, handle: int, delivery_id: int) -> None:
        """Count a transfer on a link that we detached: legal until the peer knows, and its delivery-id still counts."""
        frames = self._ignored.get(handle, -1)
        if frames < 0:
            self.fail(errors.UNATTACHED_HANDLE, f"a transfer on handle {handle}, which is not attached")
        elif frames >= ERRANT_FRAMES:
            self.fail(errors.ERRANT_LINK, f"transfers continue on handle {handle}, which was detached long ago")
        else:
            self._ignored[handle] = frames + 1
            if delivery_id >= 0 and self.expected_delivery_id in (delivery_id, -1):
                self.expected_delivery_id = (delivery_id + 1) & MASK

    def receive_flow(self, flow: Flow) -> None:
        """Process a flow: the peer's view of the windows and perhaps of one link (AMQP 1.0 §2.5.6)."""
        base = flow.next_incoming_id or 0
        in_flight = (self.next_outgoing_id - base) & MASK
        if in_flight >= HALF:
            self.fail(errors.WINDOW_VIOLATION, "next-incoming-id is ahead of what was sent")
            return
        if self.next_incoming_id >= 0:
            behind = (self.next_incoming_id - flow.next_outgoing_id) & MASK
            if 0 < behind < HALF:
                self.fail(errors.WINDOW_VIOLATION, "next-outgoing-id is behind what was received")
                return
        self.next_incoming_id = flow.next_outgoing_id
        self.remote_outgoing_window = flow.outgoing_window
        was_closed = self.remote_incoming_window <= 0
        # Negative if the peer shrank its window while frames were under way.
        self.remote_incoming_window = max(0, flow.incoming_window - in_flight)
        self.outgoing.pump()
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
            self.tell_senders()

    def tell_senders(self) -> None:
        """Tell the links on which we send that there is room again, so that they use their credit."""
        for link in list(self.links.values()):
            if isinstance(link, SenderLink) and link.handler is not None and link.is_attached:
                link.handler.on_credit(link)

    # -- end ---------------------------------------------------------------------------------------------------

    def receive_end(self, end: End) -> None:
        """Process the peer's end, and end our side."""
        if not self.is_ended:
            self.connection.handler.on_end(self, end)
            self.write(End())
            self.silence()
        self._clear()
        self.connection.channels.drop(self)

    def end(self, error: AmqpError | None = None) -> None:
        """End the session from our side; later frames are ignored until the peer's end (AMQP 1.0 §2.5.5)."""
        if self.is_ended:
            return
        self.connection.handler.on_end(self, End(error=error))
        self.write(End(error=error))
        self.silence()
        self._clear()

    def silence(self) -> None:
        """Send nothing more on this channel: our end, or the connection's close, is written."""
        self.is_ended = True
        # Without a window, a late delivery waits, and is dropped with the session.
        self.remote_incoming_window = 0

    def fail(self, condition: str, text: str) -> None:
        """End the session with an error because the peer broke its rules."""
        self.end(AmqpError(condition, text))

    def _clear(self) -> None:
        for link in self.links.values():
            link.is_attached = False
            link.detach_sent = True
            self.drop_deliveries(link)
        self._receiver = None
        self.links.clear()
        self._own.clear()
        self._freed.clear()
        self._awaiting.clear()
        self._abandoned.clear()
        self._ignored.clear()
        self.unsettled.clear()
        self.unsettled_in.clear()
        self.outgoing.clear()
        self._flows.clear()
