"""A link on which we send: credit, deliveries and their delivery-tags (AMQP 1.0 §2.6.7, amqp10 §7, §8)."""

from struct import Struct
from typing import TYPE_CHECKING, Final

from artemis_amqp.engine import errors
from artemis_amqp.engine.handlers import DeliverySource, SenderLinkHandler
from artemis_amqp.engine.link import HALF, MASK, Link
from artemis_amqp.engine.performatives import Attach, Flow, Source, Target, Transfer
from artemis_amqp.engine.types import Symbol
from artemis_amqp.engine.unsettled import Sent
from artemis_py.wire.integers import OCTETS

if TYPE_CHECKING:
    from artemis_amqp.engine.session import AmqpSession

TXN_ID: Final = Symbol("txn-id")
"""Property of a flow: the transaction in which its credit acquires messages."""

# size | doff 2, type 0 | channel | 00 53 14 c0 13 05 70 handle 70 | delivery-id, then a0 04 tag | format 0, settled
_TRANSFER: Final = b"\x00\x53\x14\xc0\x13\x05\x70"
_FRONT: Final = Struct(">IHH7sIcI")
_TAG: Final = Struct(">HI")
TRANSFER_SIZE: Final = _FRONT.size + _TAG.size + 2
_UNSETTLED_ENDS: Final = [octet + b"\x43\x42" for octet in OCTETS]
_SETTLED_ENDS: Final = [octet + b"\x43\x41" for octet in OCTETS]
_U32: Final = Struct(">I")


def tag_after(number: int) -> int:
    """Return the delivery-tag after this one. Tags are ASCII: Proton's Python decodes them as text, or raises.

    A tag repeats after 2**28 others.
    """
    number += 1
    for bit in (0x80, 0x8000, 0x800000):
        if number & bit:
            # The octet is full: carry into the next one.
            number += bit
    return 0 if number & 0x80000000 else number


class SenderLink(Link):
    """A link on which we send."""

    def __init__(self, session: "AmqpSession", name: str, handle: int) -> None:
        super().__init__(session, name, handle, is_receiver=False)
        self.handler: SenderLinkHandler | None = None
        self.drain: bool = False
        self.peer_properties: dict[Symbol, object] | None = None
        """Properties of the link's state in the peer's last flow (AMQP 1.0 §2.7.4)."""
        self.next_tag: int = 0
        """Next delivery-tag, a number of four octets, none of which has its highest bit set: see `tag_after`."""
        self._newest: Sent | None = None
        """The one of the session's `unsettled` that was sent last on this link; the others follow by `older`."""
        self.waiting_count: int = 0
        """Number of deliveries that are not begun, or begun and not complete and not streamed."""
        self.is_streaming: bool = False
        """Whether a delivery whose octets come from a source is being sent: the next one has to wait for its end."""
        # Transfer frames are put together from parts that stay the same for many of them: all up to the last octet of
        # the delivery-id, and the tag up to its last octet.
        self._front: bytes = b""
        self._front_size: int = 0
        """Size of the frame that `_front` is of."""
        self._front_ids: int = 0
        """Delivery-id, without its last octet, that `_front` is of."""
        self._tag: bytes = b""
        self._tags: int = -1
        """Number, without its last octet, that `_tag` is of."""
        self._drain_answered: bool = True

    @property
    def can_send(self) -> bool:
        """Whether a delivery given to `send` now would go out at once."""
        session = self.session
        return (
            self.credit > 0
            and self.is_attached
            and session.remote_incoming_window > 0
            and not session.outgoing.waiting
            and not self.is_streaming
            and session.connection.outbox.has_room
        )

    def accept(
        self,
        source: Source | None,
        target: Target | None,
        unsettled: dict[bytes, object] | None = None,
        offered_capabilities: tuple[Symbol, ...] = (),
        properties: dict[Symbol, object] | None = None,
    ) -> None:
        """Answer the peer's attach. `unsettled` is what we remember from before the link was re-attached."""
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
                properties=properties,
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
        """Send one delivery, whose octets are `head`, `body` and `source_size` from `source`; return its delivery-id.

        It uses one credit. Frames that the peer's window or the output limit does not allow yet wait in the session.
        `token` is passed back with the peer's disposition; a settled delivery is forgotten at once.

        Long because all unusual cases are handled here, so that `_send_at_once` has none to check.
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
                self._keep(Sent(self, delivery_id, token, number))
            if state is None and message_format == 0 and source is None:
                if self._send_at_once(head, body, delivery_id, number, settled):
                    return delivery_id
            tag = _U32.pack(number)
        elif not settled:
            number = _U32.unpack(tag)[0] if len(tag) == 4 else -1
            # A resumed delivery: no new one may get its tag while it is unsettled.
            if number >= self.next_tag:
                self.next_tag = tag_after(number)
            self._keep(Sent(self, delivery_id, token, number))
        transfer = Transfer(
            handle=self.handle,
            delivery_id=delivery_id,
            delivery_tag=tag,
            message_format=message_format,
            settled=settled,
            state=state,
            resume=resume,
        )
        session.outgoing.add(self, transfer, head, body, source, source_size)
        return delivery_id

    def _keep(self, sent: Sent) -> None:
        """Note an unsettled delivery."""
        self.session.unsettled.add(sent)
        older = self._newest
        if older is not None:
            older.newer = sent
            sent.older = older
        self._newest = sent

    def unlink(self, sent: Sent) -> None:
        """Take a delivery out of the list of this link: it has left the session's `unsettled`."""
        older = sent.older
        newer = sent.newer
        if older is not None:
            older.newer = newer
            sent.older = None
        if newer is not None:
            newer.older = older
            sent.newer = None
        else:
            self._newest = older

    def forget(self, delivery_id: int) -> Sent | None:
        """Forget an unsettled delivery and return it; None if it is settled already."""
        unsettled = self.session.unsettled
        sent = unsettled.get(delivery_id)
        if sent is not None:
            unsettled.remove(sent)
            self.unlink(sent)
        return sent

    @property
    def has_unsettled(self) -> bool:
        """Whether any delivery is not settled."""
        return self._newest is not None

    def unsettled(self) -> list[Sent]:
        """Return the unsettled deliveries, the oldest first."""
        found: list[Sent] = []
        sent = self._newest
        while sent is not None:
            found.append(sent)
            sent = sent.older
        found.reverse()
        return found

    def _send_at_once(self, head: bytes, body: bytes, delivery_id: int, number: int, settled: bool) -> bool:
        """Write an ordinary delivery in one frame, without an object; False if it does not fit or has to wait."""
        session = self.session
        connection = session.connection
        size = TRANSFER_SIZE + len(head) + len(body)
        if (
            size > connection.peer_max_frame_size
            or session.remote_incoming_window <= 0
            or self.is_streaming
            or session.outgoing.waiting
        ):
            return False
        session.remote_incoming_window -= 1
        session.next_outgoing_id = (session.next_outgoing_id + 1) & MASK
        outbox = connection.outbox
        chunks = outbox.chunks
        if not chunks:
            outbox.wake()
        # In pieces, which are joined when all output is taken: joined here, each would be copied three times more.
        ids = delivery_id >> 8
        if size != self._front_size or ids != self._front_ids:
            self._front_size = size
            self._front_ids = ids
            front = _FRONT.pack(size, 0x0200, self.session.channel, _TRANSFER, self.handle, b"\x70", delivery_id)
            self._front = front[:-1]
        tags = number >> 8
        if tags != self._tags:
            self._tags = tags
            self._tag = _TAG.pack(0xA004, number)[:-1]
        chunks.append(self._front)
        chunks.append(OCTETS[delivery_id & 0xFF])
        chunks.append(self._tag)
        chunks.append(_SETTLED_ENDS[number & 0xFF] if settled else _UNSETTLED_ENDS[number & 0xFF])
        chunks.append(head)
        chunks.append(body)
        outbox.size += size
        return True

    def settle(self, delivery_id: int, state: bytes) -> None:
        """Settle a delivery from our side, after the peer sent its outcome unsettled."""
        if self.forget(delivery_id) is not None:
            self.session.dispositions.collect(False, delivery_id, delivery_id, True, state)

    def drained(self) -> None:
        """Return the credit of a draining peer: there is nothing more to send (AMQP 1.0 §2.6.7)."""
        if not self.is_attached:
            return
        self.delivery_count = (self.delivery_count + max(self.credit, 0)) & MASK
        self.credit = 0
        self._drain_answered = True
        self.session.plan_flow(self)

    def receive_flow(self, flow: Flow) -> None:
        """Process a flow: the credit is absolute, and counted from the peer's view of delivery-count
        (AMQP 1.0 §2.6.7).
        """
        if flow.properties is not None and TXN_ID in flow.properties:
            # Deliveries sent outside of the transaction could not be undone with it (AMQP 1.0 §4.4.3).
            self.fail(errors.NOT_IMPLEMENTED, "a flow with a txn-id: acquiring in a transaction is not supported")
            return
        base = 0 if flow.delivery_count is None else flow.delivery_count
        if flow.link_credit is not None:
            in_flight = (self.delivery_count - base) & MASK
            if in_flight >= HALF:
                in_flight -= MASK + 1
            self.credit = max(0, flow.link_credit - in_flight)
        self.drain = flow.drain
        self.peer_properties = flow.properties
        if flow.drain and self.credit == 0:
            # Receivers wait for the answer even when there is no credit to return.
            self.session.plan_flow(self)
        elif flow.echo:
            self.session.plan_flow(self)
        handler = self.handler
        if handler is not None and self.is_attached:
            handler.on_credit(self)

    def unsettled_tokens(self) -> dict[bytes, object]:
        """Return the tokens of unsettled deliveries, by delivery-tag."""
        return {_U32.pack(sent.number): sent.token for sent in self.unsettled() if sent.number >= 0}

    def flow(self) -> Flow:
        """Return our side of the link's flow state; the session completes it."""
        return Flow(
            incoming_window=0,
            next_outgoing_id=0,
            outgoing_window=0,
            handle=self.handle,
            delivery_count=self.delivery_count,
            link_credit=max(self.credit, 0),
            drain=self.drain,
        )
