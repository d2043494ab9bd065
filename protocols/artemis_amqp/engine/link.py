"""A link end-point: credit, deliveries and their settlement (AMQP 1.0 §2.6, reference/amqp10 §7-8).

Wire order only: no broker. What a delivery means is the link handler's business. A `SenderLink` is one on which we
send, a `ReceiverLink` one on which the peer sends.
"""

from struct import Struct
from typing import TYPE_CHECKING, Final

from mypy_extensions import mypyc_attr

from artemis_amqp.engine import errors
from artemis_amqp.engine.limits import FRAGMENT_OVERHEAD, MAX_DELIVERY_FRAMES
from artemis_amqp.engine.performatives import (
    AmqpError,
    Attach,
    Coordinator,
    Detach,
    Flow,
    Source,
    Target,
    TransactionalState,
    Transfer,
)
from artemis_amqp.engine.types import Symbol

if TYPE_CHECKING:
    from artemis_amqp.engine.session import AmqpSession

MASK: Final = 0xFFFFFFFF
_HALF: Final = 0x80000000
TXN_ID: Final = Symbol("txn-id")
"""Of a flow's properties: the transaction in which its credit acquires messages."""

# Values of snd-settle-mode and rcv-settle-mode (AMQP 1.0 §2.8.2, §2.8.3).
SETTLED: Final = 1
MIXED: Final = 2
FIRST: Final = 0
SECOND: Final = 1

# size | doff 2, type 0 | channel | 00 53 14 c0 13 05 70 handle 70 | delivery-id | a0 04 | tag | format 0, settled
_TRANSFER: Final = Struct(">IHH12sIHIH")
TRANSFER_SIZE: Final = _TRANSFER.size
_TAG_HEAD: Final = 0xA004
_UNSETTLED: Final = 0x4342
_SETTLED: Final = 0x4341
_U32: Final = Struct(">I")


def tag_after(number: int) -> int:
    """The delivery-tag behind this one. Tags are ASCII: Proton's Python takes them for text, and raises otherwise.

    2**28 of them come before one comes again.
    """
    number += 1
    for bit in (0x80, 0x8000, 0x800000):
        if number & bit:
            # The octet is full: it is zero again, and the next one is larger by one.
            number += bit
    return 0 if number & 0x80000000 else number


@mypyc_attr(allow_interpreted_subclasses=True)
class DeliveryStream:
    """Takes a delivery while it arrives: one that is too large to wait in memory for its end."""

    def append(self, data: bytes) -> int:
        """Take the next octets; returns how many bytes of the delivery are in memory now. Never raises."""
        raise NotImplementedError

    def abandon(self) -> None:
        """The rest will never come; harmless the second time, and after the end."""
        raise NotImplementedError


@mypyc_attr(allow_interpreted_subclasses=True)
class DeliverySource:
    """Gives the octets of a delivery that is too large for memory, while it is sent."""

    def read(self, size: int) -> bytes:
        """The next octets, exactly `size` of them; fewer if they cannot be read any more."""
        raise NotImplementedError

    def close(self) -> None:
        """Everything was read, or the rest is not wanted; harmless the second time."""
        raise NotImplementedError


@mypyc_attr(allow_interpreted_subclasses=True)
class ReceiverLinkHandler:
    """What a peer's deliveries are for."""

    def open_stream(self, link: "ReceiverLink") -> DeliveryStream:
        """A delivery grows beyond the link's `large_size`: its octets, those that came first included, go there."""
        raise NotImplementedError

    def on_stream(
        self,
        link: "ReceiverLink",
        delivery_id: int,
        tag: bytes,
        stream: DeliveryStream,
        settled: bool,
        message_format: int,
        state: object,
        resume: bool,
    ) -> None:
        """One complete delivery, all of it in the stream that was opened for it."""
        raise NotImplementedError

    def on_transfer(
        self,
        link: "ReceiverLink",
        delivery_id: int,
        tag: bytes,
        payload: bytes,
        settled: bool,
        message_format: int,
        state: object,
        resume: bool,
    ) -> None:
        """One complete delivery."""
        raise NotImplementedError

    def on_settled(self, link: "ReceiverLink", delivery_id: int, tag: bytes) -> None:
        """The peer settled a delivery that we had answered without settling."""
        raise NotImplementedError


@mypyc_attr(allow_interpreted_subclasses=True)
class SenderLinkHandler:
    """What becomes of our deliveries."""

    def on_credit(self, link: "SenderLink") -> None:
        """Credit, drain or the room for output changed."""
        raise NotImplementedError

    def on_disposition(self, link: "SenderLink", delivery_id: int, token: object, state: object, settled: bool) -> None:
        """The peer's word on a delivery; `state` is 0x24 for accepted, else a performative or None."""
        raise NotImplementedError

    def on_abort(self, link: "SenderLink", token: object) -> None:
        """The source of a delivery failed, so it was aborted; it is settled."""
        raise NotImplementedError


class Link:
    """What both directions share."""

    def __init__(self, session: "AmqpSession", name: str, handle: int) -> None:
        self.session: AmqpSession = session
        self.name: str = name
        self.handle: int = handle
        """The number we use."""
        self.peer_handle: int = -1
        """The number the peer uses; -1 until it attached."""
        self.is_attached: bool = False
        """Both sides attached, neither detached."""
        self.attach_sent: bool = False
        self.detach_sent: bool = False
        self.snd_settle_mode: int = 2
        self.rcv_settle_mode: int = 0
        self.credit: int = 0
        self.delivery_count: int = 0

    def _answer(self, attach: Attach) -> None:
        """Answer the peer's attach."""
        if not self.session.fits(attach):
            self.fail(errors.FRAME_SIZE_TOO_SMALL, "the answer to this attach is larger than max-frame-size")
            return
        self.attach_sent = True
        self.is_attached = True
        self.session.write(attach)

    def detach(self, error: AmqpError | None = None, closed: bool = True) -> None:
        """End the link from our side; what the peer still sends on it is ignored until it answers."""
        if self.detach_sent or not self.attach_sent:
            return
        self.is_attached = False
        self.detach_sent = True
        self.session.forget(self)
        self.session.write(Detach(handle=self.handle, closed=closed, error=error))

    def fail(self, condition: str, text: str) -> None:
        """The peer broke the rules of this link: let the handler clean up, and detach."""
        error = AmqpError(condition, text)
        self.session.connection.handler.on_detach(self, Detach(handle=self.peer_handle, closed=True, error=error))
        self.refuse(error)

    def refuse(self, error: AmqpError) -> None:
        """Answer an attach with a null terminus and a detach that says why (AMQP 1.0 §2.6.3)."""
        if self.attach_sent:
            self.detach(error)
            return
        is_receiver = isinstance(self, ReceiverLink)
        self.session.write(
            Attach(
                name=self.name,
                handle=self.handle,
                role=is_receiver,
                initial_delivery_count=None if is_receiver else 0,
            )
        )
        self.attach_sent = True
        self.detach(error)


class SenderLink(Link):
    """A link on which we send."""

    def __init__(self, session: "AmqpSession", name: str, handle: int) -> None:
        super().__init__(session, name, handle)
        self.handler: SenderLinkHandler | None = None
        self.drain: bool = False
        self.next_tag: int = 0
        """Delivery-tags are numbers of four octets, none of which has its highest bit: see `tag_after`."""
        self.unsettled: dict[int, tuple[SenderLink, object, int]] = {}
        """This link's part of the session's `unsettled`."""
        self.waiting_count: int = 0
        """Deliveries that were not begun, or are not complete and not streamed."""
        self.is_streaming: bool = False
        """A delivery is under way whose octets come from a source: the next one has to wait for its end."""
        self._lead: bytes = b"\x00\x53\x14\xc0\x13\x05\x70" + _U32.pack(handle) + b"\x70"
        self._drain_answered: bool = True

    @property
    def can_send(self) -> bool:
        """Whether a delivery given to `send` now would go out at once."""
        session = self.session
        connection = session.connection
        return (
            self.credit > 0
            and self.is_attached
            and session.remote_incoming_window > 0
            and not session.waiting
            and not self.is_streaming
            and connection.output_size < connection.output_limit
            and not connection.is_paused
        )

    def accept(
        self,
        source: Source | None,
        target: Target | None,
        unsettled: dict[bytes, object] | None = None,
        offered_capabilities: tuple[Symbol, ...] = (),
    ) -> None:
        """Answer the peer's attach. `unsettled` is what we remember of a former life of the link."""
        self._answer(
            Attach(
                name=self.name,
                handle=self.handle,
                role=False,
                snd_settle_mode=self.snd_settle_mode,
                rcv_settle_mode=self.rcv_settle_mode,
                source=source,
                target=target,
                unsettled=unsettled,
                initial_delivery_count=self.delivery_count,
                max_message_size=self.session.connection.limits.max_message_size,
                offered_capabilities=offered_capabilities,
            )
        )

    def send(
        self,
        head: bytes,
        body: bytes,
        token: object,
        settled: bool,
        message_format: int = 0,
        state: object = None,
        tag: bytes | None = None,
        resume: bool = False,
        source: DeliverySource | None = None,
        source_size: int = 0,
    ) -> int:
        """Send one delivery, whose octets are `head`, `body` and `source_size` from `source`; returns its delivery-id.

        It takes one credit. What the peer's window or the output limit does not allow yet waits in the session.
        `token` comes back with the peer's disposition; a settled delivery is forgotten at once.
        """
        session = self.session
        self.credit -= 1
        self.delivery_count = (self.delivery_count + 1) & MASK
        delivery_id = session.next_delivery_id
        session.next_delivery_id = (delivery_id + 1) & MASK
        number = self.next_tag
        if tag is None:
            self.next_tag = tag_after(number) if (number + 1) & 0x80 else number + 1
            if not settled:
                session.unsettled[delivery_id] = self.unsettled[delivery_id] = (self, token, number)
            size = TRANSFER_SIZE + len(head) + len(body)
            connection = session.connection
            if (
                size <= connection.peer_max_frame_size
                and session.remote_incoming_window > 0
                and state is None
                and message_format == 0
                and source is None
                and not self.is_streaming
                and not session.waiting
            ):
                session.remote_incoming_window -= 1
                session.next_outgoing_id = (session.next_outgoing_id + 1) & MASK
                out = connection.out
                if not out:
                    connection.handler.wake()
                out.append(
                    _TRANSFER.pack(
                        size,
                        0x0200,
                        session.channel,
                        self._lead,
                        delivery_id,
                        _TAG_HEAD,
                        number,
                        _SETTLED if settled else _UNSETTLED,
                    )
                )
                out.append(head)
                out.append(body)
                connection.output_size += size
                return delivery_id
            tag = _U32.pack(number)
        elif not settled:
            number = _U32.unpack(tag)[0] if len(tag) == 4 else -1
            # A delivery of the link's former life: no new one may get its tag while it is unsettled.
            if number >= self.next_tag:
                self.next_tag = tag_after(number)
            session.unsettled[delivery_id] = self.unsettled[delivery_id] = (self, token, number)
        session.send_later(
            self,
            Transfer(
                handle=self.handle,
                delivery_id=delivery_id,
                delivery_tag=tag,
                message_format=message_format,
                settled=settled,
                state=state,
                resume=resume,
            ),
            head,
            body,
            source,
            source_size,
        )
        return delivery_id

    def settle(self, delivery_id: int, state: bytes) -> None:
        """Settle a delivery from our side, after the peer said what it wants to become of it."""
        session = self.session
        if self.unsettled.pop(delivery_id, None) is not None:
            session.unsettled.pop(delivery_id, None)
            session.write_disposition(False, delivery_id, delivery_id, True, state)

    def drained(self) -> None:
        """There is nothing more to send: give the credit back (AMQP 1.0 §2.6.7)."""
        if not self.is_attached:
            return
        self.delivery_count = (self.delivery_count + max(self.credit, 0)) & MASK
        self.credit = 0
        self._drain_answered = True
        self.session.plan_flow(self)

    def receive_flow(self, flow: Flow) -> None:
        """The peer grants credit. It is absolute, and counted from the peer's view of delivery-count (§2.6.7)."""
        if flow.properties is not None and TXN_ID in flow.properties:
            # What is sent outside of the transaction could not be undone with it (§4.4.3).
            self.fail(errors.NOT_IMPLEMENTED, "a flow with a txn-id: acquiring in a transaction is not supported")
            return
        base = 0 if flow.delivery_count is None else flow.delivery_count
        if flow.link_credit is not None:
            in_flight = (self.delivery_count - base) & MASK
            if in_flight >= _HALF:
                in_flight -= MASK + 1
            self.credit = max(0, flow.link_credit - in_flight)
        self.drain = flow.drain
        if flow.drain and self.credit == 0:
            # Receivers wait for the answer even when there is nothing to give back.
            self.session.plan_flow(self)
        elif flow.echo:
            self.session.plan_flow(self)
        handler = self.handler
        if handler is not None and self.is_attached:
            handler.on_credit(self)

    def unsettled_tokens(self) -> dict[bytes, object]:
        """Tokens of deliveries that are not settled, by delivery-tag."""
        return {_U32.pack(number): token for _, token, number in self.unsettled.values() if number >= 0}

    def flow(self) -> Flow:
        """Our side of the link's flow state; the session completes it."""
        return Flow(
            incoming_window=0,
            next_outgoing_id=0,
            outgoing_window=0,
            handle=self.handle,
            delivery_count=self.delivery_count,
            link_credit=max(self.credit, 0),
            drain=self.drain,
        )


class _Partial:
    """A delivery of which more frames are to come."""

    __slots__ = (
        "chunks",
        "cost",
        "delivery_id",
        "frames",
        "message_format",
        "resume",
        "settled",
        "size",
        "state",
        "stream",
        "tag",
    )

    def __init__(
        self, delivery_id: int, tag: bytes, message_format: int, settled: bool, state: object, resume: bool
    ) -> None:
        self.delivery_id: int = delivery_id
        self.tag: bytes = tag
        self.message_format: int = message_format
        self.settled: bool = settled
        self.state: object = state
        self.resume: bool = resume
        self.chunks: list[bytes] = []
        self.stream: DeliveryStream | None = None
        """Where the octets go once they are too many for `chunks`."""
        self.cost: int = 0
        """Its share of the connection's `incomplete_bytes`."""
        self.size: int = 0
        self.frames: int = 0


class ReceiverLink(Link):
    """A link on which the peer sends."""

    def __init__(self, session: "AmqpSession", name: str, handle: int) -> None:
        super().__init__(session, name, handle)
        self.handler: ReceiverLinkHandler | None = None
        self.max_message_size: int = 0
        self.large_size: int = 0
        """A delivery that grows to this many bytes is streamed; 0: none is."""
        self._partial: _Partial | None = None
        self.drain: bool = False
        self.available: int = -1
        """What the peer says it could send; -1: unknown."""
        self.unsettled: set[int] = set()
        """Delivery-ids in the session's `unsettled_in`."""
        self.lowers: bool = False
        """The delivery that arrives asks for rcv-settle-mode first, on a link of the second."""
        self._revoked: int = 0
        """Credit that was taken back: deliveries of before the peer knew may still use it."""
        self.granting: int = -1
        """Credit that the next flow frame will grant; -1: none. Until then the peer cannot know of it."""
        self._unused: int = 0
        """Credit that aborted deliveries used, and that the next flow frame gives back."""
        self.returned: int = 0
        """Credit that the peer gave back with its flow frames since the attach; what a delivery used is not in it."""

    def accept(
        self,
        source: Source | None,
        target: Target | Coordinator | None,
        max_message_size: int = 0,
        offered_capabilities: tuple[Symbol, ...] = (),
        unsettled: dict[bytes, object] | None = None,
        properties: dict[Symbol, object] | None = None,
    ) -> None:
        """Answer the peer's attach."""
        self.max_message_size = max_message_size
        self._answer(
            Attach(
                name=self.name,
                handle=self.handle,
                role=True,
                snd_settle_mode=self.snd_settle_mode,
                rcv_settle_mode=self.rcv_settle_mode,
                source=source,
                target=target,
                unsettled=unsettled,
                max_message_size=max_message_size or None,
                offered_capabilities=offered_capabilities,
                properties=properties,
            )
        )

    @property
    def arriving(self) -> int:
        """Octets that came so far of a delivery whose last frame did not; -1: no delivery is on its way.

        Such a delivery has used its credit and is in `delivery_count` already (AMQP 1.0 §2.6.7).
        """
        partial = self._partial
        return -1 if partial is None else partial.size

    def grant(self, credit: int, drain: bool = False) -> None:
        """Let the peer send so many deliveries (absolute), from the end of this batch on."""
        self.granting = credit
        self.drain = drain
        self.session.plan_flow(self)

    def receive_transfer(
        self,
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
        """One transfer frame. -1 stands for a field that is null; `settled` is 0, 1 or -1."""
        partial = self._partial
        if partial is None:
            if delivery_id < 0 or tag is None:
                self.fail(errors.INVALID_FIELD, "the first frame of a delivery needs a delivery-id and a delivery-tag")
                return
            session = self.session
            expected = session.expected_delivery_id
            if expected >= 0 and delivery_id != expected:
                session.fail(errors.INVALID_FIELD, f"delivery-id {delivery_id} where {expected} was due")
                return
            session.expected_delivery_id = (delivery_id + 1) & MASK
            credit = self.credit
            if credit > 0:
                self.credit = credit - 1
            elif self._revoked > 0:
                self._revoked -= 1
            else:
                self.fail(errors.TRANSFER_LIMIT_EXCEEDED, "a delivery without credit")
                return
            self.delivery_count = (self.delivery_count + 1) & MASK
            if not more and not aborted:
                if self.max_message_size and len(payload) > self.max_message_size:
                    self._too_large()
                    return
                if settled != 1 and not self._may_be_unsettled(delivery_id, tag):
                    return
                handler = self.handler
                if handler is not None:
                    handler.on_transfer(
                        self, delivery_id, tag, payload, settled == 1, max(message_format, 0), state, resume
                    )
                return
            if aborted:
                self._aborted()
                return
            partial = self._partial = _Partial(delivery_id, tag, max(message_format, 0), settled == 1, state, resume)
            if state is not None:
                session.connection.posting[self] = state
        else:
            if aborted:
                self.drop_partial()
                self._aborted()
                return
            if (
                (delivery_id >= 0 and delivery_id != partial.delivery_id)
                or (tag is not None and tag != partial.tag)
                or (message_format >= 0 and message_format != partial.message_format)
            ):
                self.fail(errors.INVALID_FIELD, "the frames of a delivery disagree; deliveries must not interleave")
                return
            if settled == 1:
                partial.settled = True
            elif settled == 0 and partial.settled:
                self.fail(errors.INVALID_FIELD, "a delivery that was settled is unsettled again")
                return
            if state is not None:
                if not _same_transaction(partial.state, state):
                    self.fail(errors.INVALID_FIELD, "the frames of a delivery belong to different transactions")
                    return
                partial.state = state
                self.session.connection.posting[self] = state
        size = len(payload)
        partial.size += size
        partial.frames += 1
        if self.max_message_size and partial.size > self.max_message_size:
            self._too_large()
            return
        stream = partial.stream
        if stream is None and partial.frames > MAX_DELIVERY_FRAMES:
            self.fail(errors.TRANSFER_LIMIT_EXCEEDED, f"a delivery of more than {MAX_DELIVERY_FRAMES} frames")
            return
        if size:
            if stream is not None:
                self._hold(partial, stream.append(payload) - partial.cost)
            else:
                partial.chunks.append(payload)
        if more:
            if stream is None:
                self._hold(partial, size + FRAGMENT_OVERHEAD)
                if 0 < self.large_size <= partial.size:
                    self._begin_stream(partial)
            connection = self.session.connection
            if connection.incomplete_bytes > connection.limits.max_incomplete_bytes:
                self.fail(errors.RESOURCE_LIMIT_EXCEEDED, "too many unfinished messages on this connection")
            return
        self._end_partial(partial)
        if partial.settled:
            self.lowers = False
        elif not self._may_be_unsettled(partial.delivery_id, partial.tag):
            return
        handler = self.handler
        if handler is None:
            return
        if stream is not None:
            handler.on_stream(
                self,
                partial.delivery_id,
                partial.tag,
                stream,
                partial.settled,
                partial.message_format,
                partial.state,
                partial.resume,
            )
        else:
            handler.on_transfer(
                self,
                partial.delivery_id,
                partial.tag,
                b"".join(partial.chunks),
                partial.settled,
                partial.message_format,
                partial.state,
                partial.resume,
            )

    def _begin_stream(self, partial: _Partial) -> None:
        """From now on the delivery goes where there is room for it, with what came of it already."""
        handler = self.handler
        if handler is not None:
            stream = partial.stream = handler.open_stream(self)
            held = stream.append(b"".join(partial.chunks))
            partial.chunks = []
            self._hold(partial, held - partial.cost)

    def _hold(self, partial: _Partial, more: int) -> None:
        """An unfinished delivery takes so many bytes more of memory, or less."""
        partial.cost += more
        self.session.connection.incomplete_bytes += more

    def _end_partial(self, partial: _Partial) -> None:
        """A delivery is complete, or never will be."""
        self._partial = None
        self._hold(partial, -partial.cost)
        if partial.state is not None:
            self.session.connection.posting.pop(self, None)

    def _may_be_unsettled(self, delivery_id: int, tag: bytes) -> bool:
        """Take note of a delivery that came unsettled; false if the link has no such deliveries."""
        if self.snd_settle_mode == SETTLED:
            self.fail(errors.INVALID_FIELD, "an unsettled delivery on a link that settles all of its own")
            return False
        if self.rcv_settle_mode == SECOND:
            if self.lowers:
                self.lowers = False
            else:
                self.unsettled.add(delivery_id)
                self.session.unsettled_in[delivery_id] = (self, tag)
        return True

    def receive_settle_mode(self, mode: int) -> None:
        """A transfer with a rcv-settle-mode of its own: it may lower the link's, not raise it (§2.7.5)."""
        if mode > SECOND or mode > self.rcv_settle_mode:
            self.fail(errors.INVALID_FIELD, f"rcv-settle-mode {mode} on a link of mode {self.rcv_settle_mode}")
        elif mode < self.rcv_settle_mode:
            self.lowers = True

    def settles_at_once(self, delivery_id: int) -> bool:
        """Whether our answer to this delivery settles it (rcv-settle-mode first)."""
        return delivery_id not in self.unsettled

    def drop_partial(self) -> None:
        """The delivery that arrived in pieces will never be complete."""
        partial = self._partial
        if partial is not None:
            self._end_partial(partial)
            if partial.stream is not None:
                partial.stream.abandon()

    def _aborted(self) -> None:
        """An aborted delivery used a credit; it is given back (reference/amqp10 §8.1), and a drain stays one."""
        self.lowers = False
        self._unused += 1
        self.session.plan_flow(self)

    def _too_large(self) -> None:
        self.fail(errors.MESSAGE_SIZE_EXCEEDED, f"a message of more than {self.max_message_size} bytes")

    def receive_flow(self, flow: Flow) -> None:
        """The peer reports its side: how far it is, and what it has (AMQP 1.0 §2.6.7)."""
        if flow.delivery_count is not None:
            jump = (flow.delivery_count - self.delivery_count) & MASK
            if 0 < jump < _HALF:
                self.delivery_count = flow.delivery_count
                self.returned += jump
                beyond = jump - self.credit
                if beyond > 0:
                    self._revoked = max(0, self._revoked - beyond)
                self.credit = max(0, -beyond)
        self.available = -1 if flow.available is None else flow.available
        if flow.echo:
            self.session.plan_flow(self)

    def flow(self) -> Flow:
        """Our side of the link's flow state, now to be written; the session completes it."""
        if self.granting < 0 and self._unused > 0:
            self.granting = self.credit + self._unused
        self._unused = 0
        if self.granting >= 0:
            # What was granted before may be on its way: a delivery is wrong only beyond the most we ever allowed.
            self._revoked = max(0, self.credit + self._revoked - self.granting)
            self.credit = self.granting
            self.granting = -1
        return Flow(
            incoming_window=0,
            next_outgoing_id=0,
            outgoing_window=0,
            handle=self.handle,
            delivery_count=self.delivery_count,
            link_credit=max(self.credit, 0),
            drain=self.drain,
        )


def _same_transaction(state: object, other: object) -> bool:
    """Whether a delivery may have both states, one frame after the other (§4.4.1)."""
    if type(state) is TransactionalState and type(other) is TransactionalState:
        return state.txn_id == other.txn_id
    return True
