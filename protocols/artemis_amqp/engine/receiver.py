"""A link on which the peer sends: credit, deliveries in one frame or many, settlement (AMQP 1.0 §2.6, §2.7.5)."""

from typing import TYPE_CHECKING

from artemis_amqp.engine import errors
from artemis_amqp.engine.handlers import DeliveryStream, ReceiverLinkHandler
from artemis_amqp.engine.limits import FRAGMENT_OVERHEAD, MAX_DELIVERY_FRAMES
from artemis_amqp.engine.link import HALF, MASK, SECOND, SETTLED, Link
from artemis_amqp.engine.performatives import Attach, Coordinator, Flow, Source, Target, TransactionalState
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
        super().__init__(session, name, handle, is_receiver=True)
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
