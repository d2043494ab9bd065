"""A link on which the peer sends: credit, deliveries in one frame or many, settlement (AMQP 1.0 §2.6, §2.7.5)."""

from typing import TYPE_CHECKING

from artemis_amqp.engine import errors
from artemis_amqp.engine.handlers import DeliveryStream, ReceiverLinkHandler
from artemis_amqp.engine.limits import FRAGMENT_OVERHEAD, MAX_DELIVERY_FRAMES
from artemis_amqp.engine.link import HALF, MASK, SECOND, SETTLED, Link
from artemis_amqp.engine.performatives import Attach, Coordinator, Flow, Source, Target, TransactionalState
from artemis_amqp.engine.transfer_frame import TransferFrame
from artemis_amqp.engine.types import Symbol

if TYPE_CHECKING:
    from artemis_amqp.engine.session import AmqpSession


class _Partial:
    """A delivery of which more frames are to come."""

    __slots__ = (
        "chunks",
        "cost",
        "delivery_id",
        "frames",
        "is_settled",
        "message_format",
        "resume",
        "size",
        "state",
        "stream",
        "tag",
    )

    def __init__(self, first: TransferFrame) -> None:
        self.delivery_id: int = first.delivery_id
        self.tag: bytes = first.delivery_tag
        self.message_format: int = max(first.message_format, 0)
        self.is_settled: bool = first.is_settled
        self.state: object = first.state
        self.resume: bool = first.resume
        self.chunks: list[bytes] = []
        self.stream: DeliveryStream | None = None
        """Stream for the octets, once they are too many for `chunks`."""
        self.cost: int = 0
        """Share of the delivery in the connection's `incomplete_bytes`."""
        self.size: int = 0
        self.frames: int = 0

    def fill(self, delivery: TransferFrame) -> None:
        """Copy the fields of the whole delivery, without its octets, to the record of the last frame."""
        delivery.delivery_id = self.delivery_id
        delivery.tag = self.tag
        delivery.message_format = self.message_format
        delivery.settled = int(self.is_settled)
        delivery.state = self.state
        delivery.resume = self.resume


class ReceiverLink(Link):
    """A link on which the peer sends."""

    def __init__(self, session: "AmqpSession", name: str, handle: int) -> None:
        super().__init__(session, name, handle, is_receiver=True)
        self.handler: ReceiverLinkHandler | None = None
        self.max_message_size: int = 0
        self.large_size: int = 0
        """Size in bytes from which a delivery is streamed; 0: never."""
        self._partial: _Partial | None = None
        self.drain: bool = False
        self.available: int = -1
        """Number of deliveries that the peer says it could send; -1: unknown."""
        self.unsettled: set[int] = set()
        """Delivery-ids in the session's `unsettled_in`."""
        self.lowers: bool = False
        """Whether the arriving delivery asks for rcv-settle-mode first on a link whose mode is second."""
        self._revoked: int = 0
        """Credit that was revoked: deliveries sent before the peer knew may still use it."""
        self.granting: int = -1
        """Credit that the next flow frame will grant, of which the peer cannot know yet; -1: none."""
        self._unused: int = 0
        """Credit that aborted deliveries used, and that the next flow frame gives back."""
        self.properties: dict[Symbol, object] | None = None
        """Properties of the link's state, which the flow frames carry (AMQP 1.0 §2.7.4)."""
        self.returned: int = 0
        """Credit that the peer returned with its flow frames since the attach, without credit that deliveries used."""
        self.aborted: int = 0
        """Number of deliveries since the attach that the peer began and aborted."""

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
        """Octets received so far of a delivery whose last frame has not arrived; -1: there is no such delivery.

        Such a delivery has used its credit and is in `delivery_count` already (AMQP 1.0 §2.6.7).
        """
        partial = self._partial
        return -1 if partial is None else partial.size

    def grant(self, credit: int, drain: bool = False) -> None:
        """Let the peer send `credit` deliveries (absolute, not added), from the end of this batch on."""
        self.granting = credit
        self.drain = drain
        self.session.plan_flow(self)

    def receive_transfer(self, transfer: TransferFrame) -> None:
        """Process one transfer frame; one that breaks the rules ends the link or the session.

        Long because nearly all deliveries are one frame and pass through here without a further call.
        """
        partial = self._partial
        if partial is not None:
            self._continue(partial, transfer)
            return
        delivery_id = transfer.delivery_id
        if delivery_id < 0 or transfer.tag is None:
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
        if transfer.more or transfer.aborted:
            self._begin(transfer)
            return
        if self.max_message_size and transfer.size > self.max_message_size:
            self._too_large()
            return
        if transfer.settled != 1:
            if not self._may_be_unsettled(delivery_id, transfer.delivery_tag):
                return
            transfer.settled = 0
        if transfer.message_format < 0:
            transfer.message_format = 0
        handler = self.handler
        if handler is not None:
            handler.on_transfer(self, transfer)

    def _begin(self, transfer: TransferFrame) -> None:
        """Process the first frame of a delivery that has more frames, or that is aborted already."""
        if transfer.aborted:
            self._aborted()
            return
        partial = self._partial = _Partial(transfer)
        if transfer.state is not None:
            self.session.connection.posting[self] = transfer.state
        self._gather(partial, transfer)

    def _continue(self, partial: _Partial, transfer: TransferFrame) -> None:
        """Process a further frame: the fields that it repeats must agree with the first one (AMQP 1.0 §2.7.5)."""
        if transfer.aborted:
            self.drop_partial()
            self._aborted()
            return
        if (
            (transfer.delivery_id >= 0 and transfer.delivery_id != partial.delivery_id)
            or (transfer.tag is not None and transfer.tag != partial.tag)
            or (transfer.message_format >= 0 and transfer.message_format != partial.message_format)
        ):
            self.fail(errors.INVALID_FIELD, "the frames of a delivery disagree; deliveries must not interleave")
            return
        if transfer.settled == 1:
            partial.is_settled = True
        elif transfer.settled == 0 and partial.is_settled:
            self.fail(errors.INVALID_FIELD, "a delivery that was settled is unsettled again")
            return
        state = transfer.state
        if state is not None:
            if not _same_transaction(partial.state, state):
                self.fail(errors.INVALID_FIELD, "the frames of a delivery belong to different transactions")
                return
            partial.state = state
            self.session.connection.posting[self] = state
        self._gather(partial, transfer)

    def _gather(self, partial: _Partial, transfer: TransferFrame) -> None:
        """Keep or stream the octets of one frame, within the limits of size, frames and memory."""
        payload = transfer.payload
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
        if not transfer.more:
            self._complete(partial, transfer)
            return
        if stream is None:
            self._hold(partial, size + FRAGMENT_OVERHEAD)
            if 0 < self.large_size <= partial.size:
                self._begin_stream(partial)
        connection = self.session.connection
        if connection.incomplete_bytes > connection.limits.max_incomplete_bytes:
            self.fail(errors.RESOURCE_LIMIT_EXCEEDED, "too many unfinished messages on this connection")

    def _complete(self, partial: _Partial, transfer: TransferFrame) -> None:
        """Hand over to the handler a delivery whose last frame has arrived."""
        self._end_partial(partial)
        if partial.is_settled:
            self.lowers = False
        elif not self._may_be_unsettled(partial.delivery_id, partial.tag):
            return
        handler = self.handler
        if handler is None:
            return
        partial.fill(transfer)
        stream = partial.stream
        if stream is not None:
            transfer.let_go()
            handler.on_stream(self, transfer, stream)
        else:
            payload = b"".join(partial.chunks)
            transfer.carry(payload, 0, len(payload))
            handler.on_transfer(self, transfer)

    def _begin_stream(self, partial: _Partial) -> None:
        """Open a stream for the delivery, and move the octets received so far into it."""
        handler = self.handler
        if handler is not None:
            stream = partial.stream = handler.open_stream(self)
            held = stream.append(b"".join(partial.chunks))
            partial.chunks = []
            self._hold(partial, held - partial.cost)

    def _hold(self, partial: _Partial, more: int) -> None:
        """Count `more` bytes, perhaps negative, for an unfinished delivery."""
        partial.cost += more
        self.session.connection.incomplete_bytes += more

    def _end_partial(self, partial: _Partial) -> None:
        """Forget an unfinished delivery that is now complete or never will be."""
        self._partial = None
        self._hold(partial, -partial.cost)
        if partial.state is not None:
            self.session.connection.posting.pop(self, None)

    def _may_be_unsettled(self, delivery_id: int, tag: bytes) -> bool:
        """Record a delivery that was sent unsettled; False, with the link ended, if the link allows none."""
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
        """Process the rcv-settle-mode of a transfer: it may lower the link's mode, not raise it (AMQP 1.0 §2.7.5)."""
        if mode > SECOND or mode > self.rcv_settle_mode:
            self.fail(errors.INVALID_FIELD, f"rcv-settle-mode {mode} on a link of mode {self.rcv_settle_mode}")
        elif mode < self.rcv_settle_mode:
            self.lowers = True

    def settles_at_once(self, delivery_id: int) -> bool:
        """Tell whether our answer to this delivery settles it (rcv-settle-mode first)."""
        return delivery_id not in self.unsettled

    def drop_partial(self) -> None:
        """Forget the incomplete delivery: it will never be complete."""
        partial = self._partial
        if partial is not None:
            self._end_partial(partial)
            if partial.stream is not None:
                partial.stream.abandon()

    def _aborted(self) -> None:
        """Plan to return the credit that an aborted delivery used (amqp10 §8.1); a drain stays in force."""
        self.lowers = False
        self.aborted += 1
        self._unused += 1
        self.session.plan_flow(self)

    def _too_large(self) -> None:
        self.fail(errors.MESSAGE_SIZE_EXCEEDED, f"a message of more than {self.max_message_size} bytes")

    def receive_flow(self, flow: Flow) -> None:
        """Process a flow: the peer's delivery-count and available deliveries (AMQP 1.0 §2.6.7)."""
        if flow.delivery_count is not None:
            jump = (flow.delivery_count - self.delivery_count) & MASK
            if 0 < jump < HALF:
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
        """Return our side of the link's flow state, which is written now; the session completes it."""
        if self.granting < 0 and self._unused > 0:
            self.granting = self.credit + self._unused
        self._unused = 0
        if self.granting >= 0:
            # Deliveries under earlier credit may be on their way: only one beyond the most we ever granted is an error.
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
            properties=self.properties,
        )


def _same_transaction(state: object, other: object) -> bool:
    """Tell whether frames of one delivery may have these two states (AMQP 1.0 §4.4.1)."""
    if type(state) is TransactionalState and type(other) is TransactionalState:
        return state.txn_id == other.txn_id
    return True
