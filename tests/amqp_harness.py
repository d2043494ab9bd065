"""A scripted peer for the AMQP engine: frames in, frames out, every call of the engine in a list."""

from struct import Struct
from typing import Any

from attrs import evolve

from artemis_amqp.engine.connection import AmqpConnection
from artemis_amqp.engine.handlers import ReceiverLinkHandler, SenderLinkHandler
from artemis_amqp.engine.limits import ConnectionLimits
from artemis_amqp.engine.link import Link
from artemis_amqp.engine.performatives import (
    Accepted,
    AmqpError,
    Attach,
    Begin,
    Close,
    Detach,
    End,
    Flow,
    Open,
    Source,
    Target,
    Transfer,
    encode,
    frame,
    read_performative,
)
from artemis_amqp.engine.receiver import ReceiverLink
from artemis_amqp.engine.sender import SenderLink
from artemis_amqp.engine.session import AmqpSession
from artemis_amqp.engine.states import AMQP_HEADER
from artemis_amqp.engine.transfer_frame import TransferFrame

HEADER = Struct(">IBBH")
ACCEPTED = encode(Accepted())

Frame = tuple[int, object, bytes]
"""Channel, performative (None: a heartbeat), payload."""


def frame_with(channel: int, performative: object, payload: bytes = b"", frame_type: int = 0) -> bytes:
    """A frame with payload."""
    head = frame(channel, performative, frame_type)
    return (len(head) + len(payload)).to_bytes(4, "big") + head[4:] + payload


def read_frames(data: bytes) -> list[Frame]:
    """All frames in octets that end with one; protocol headers come as bytes in the performative's place."""
    frames: list[Frame] = []
    offset = 0
    while offset < len(data):
        if data[offset : offset + 4] == b"AMQP":
            frames.append((0, data[offset : offset + 8], b""))
            offset += 8
            continue
        size, data_offset, frame_type, channel = HEADER.unpack_from(data, offset)
        assert size >= 8
        assert offset + size <= len(data)
        assert data_offset == 2
        assert frame_type in (0, 1)
        if size == 8:
            frames.append((channel, None, b""))
        else:
            performative, stop = read_performative(data, offset + 8, offset + size)
            frames.append((channel, performative, data[stop : offset + size]))
        offset += size
    return frames


class Receiving(ReceiverLinkHandler):
    """Notes deliveries."""

    def __init__(self, calls: list[tuple[object, ...]]) -> None:
        self.calls = calls
        self.raises: Exception | None = None

    def on_transfer(self, link: ReceiverLink, delivery: TransferFrame) -> None:
        """One complete delivery."""
        if self.raises is not None:
            raise self.raises
        self.calls.append(
            (
                "transfer",
                link.name,
                delivery.delivery_id,
                delivery.tag,
                delivery.payload,
                delivery.is_settled,
                delivery.message_format,
                delivery.state,
                delivery.resume,
            )
        )

    def on_settled(self, link: ReceiverLink, delivery_id: int, tag: bytes) -> None:
        """The peer settled."""
        self.calls.append(("settled", link.name, delivery_id, tag))


class Sending(SenderLinkHandler):
    """Notes credit and outcomes."""

    def __init__(self, calls: list[tuple[object, ...]]) -> None:
        self.calls = calls

    def on_credit(self, link: SenderLink) -> None:
        """Credit, drain or room."""
        self.calls.append(("credit", link.name, link.credit, link.drain))

    def on_disposition(self, link: SenderLink, delivery_id: int, token: object, state: object, settled: bool) -> None:
        """An outcome."""
        self.calls.append(("disposition", link.name, delivery_id, token, state, settled))


class Recorder:
    """A `ConnectionHandler` that agrees to everything and writes it down."""

    def __init__(self) -> None:
        self.calls: list[tuple[object, ...]] = []
        self.links: dict[str, Link] = {}
        self.sessions: list[AmqpSession] = []
        self.credit = 10
        self.answers_open = True
        self.answers_attach = True
        self.max_message_size = 0
        self.receiving = Receiving(self.calls)
        self.sending = Sending(self.calls)
        self.woken = 0
        self.engine: AmqpConnection

    def names(self) -> list[object]:
        """What was called, without the details."""
        return [call[0] for call in self.calls]

    def wake(self) -> None:
        """There is output."""
        self.woken += 1

    def on_sasl_header(self) -> None:
        """Offer one mechanism."""
        self.calls.append(("sasl header",))
        self.engine.login.offer(["PLAIN"])

    def on_sasl_init(self, mechanism: str, initial_response: bytes | None, hostname: str | None) -> None:
        """Wait for the test."""
        self.calls.append(("init", mechanism, initial_response, hostname))

    def on_sasl_response(self, data: bytes) -> None:
        """Wait for the test."""
        self.calls.append(("response", data))

    def on_open(self, opening: Open) -> None:
        """Open as well."""
        self.calls.append(("open", opening.container_id))
        if self.answers_open and not self.engine.is_client:
            self.engine.send_open(self.engine.our_open("ours"))

    def on_begin(self, session: AmqpSession, begin: Begin) -> None:
        """A session."""
        self.calls.append(("begin", session.channel))
        self.sessions.append(session)

    def on_attach(self, link: Link, attach: Attach) -> None:
        """A link: accepted, with the usual credit."""
        self.calls.append(("attach", link.name, attach.role))
        self.links[link.name] = link
        if isinstance(link, ReceiverLink):
            link.handler = self.receiving
        elif isinstance(link, SenderLink):
            link.handler = self.sending
        if self.engine.is_client or not self.answers_attach:
            return
        if isinstance(link, ReceiverLink):
            link.accept(attach.source, attach.target, self.max_message_size)
            if self.credit:
                link.grant(self.credit)
        elif isinstance(link, SenderLink):
            assert not isinstance(attach.target, str)
            link.accept(attach.source, Target())

    def on_detach(self, link: Link, detach: Detach) -> None:
        """A link is gone."""
        condition = None if detach.error is None else detach.error.condition
        self.calls.append(("detach", link.name, detach.closed, condition))

    def on_end(self, session: AmqpSession, end: End) -> None:
        """A session is gone."""
        self.calls.append(("end", session.channel, None if end.error is None else end.error.condition))

    def on_close(self, close: Close | None) -> None:
        """The peer closed."""
        self.calls.append(("close",))

    def on_error(self, error: AmqpError) -> None:
        """The peer broke the protocol."""
        self.calls.append(("error", error.condition))

    def on_writable(self) -> None:
        """There is room."""
        self.calls.append(("writable",))


class Conversation:
    """An engine in the server's role, and the test as its client."""

    def __init__(self, limits: ConnectionLimits | None = None) -> None:
        self.handler = Recorder()
        self.engine = AmqpConnection(self.handler, limits or ConnectionLimits(), is_client=False, container_id="ours")
        self.handler.engine = self.engine
        self.now = 0.0

    @property
    def calls(self) -> list[tuple[object, ...]]:
        """What the engine called."""
        return self.handler.calls

    def feed(self, *parts: bytes | object, channel: int = 0) -> list[Frame]:
        """Let the engine read octets and frames, in one read; returns what it wrote."""
        data = b"".join(part if isinstance(part, bytes) else frame(channel, part) for part in parts)
        self.engine.receive_data(data, self.now)
        return self.output()

    def output(self) -> list[Frame]:
        """What the engine wrote since."""
        return read_frames(self.engine.data_to_send())

    def error_of(self, frames: list[Frame], kind: type) -> str:
        """The condition in the only frame of a kind."""
        (found,) = [performative for _, performative, _ in frames if type(performative) is kind]
        assert isinstance(found, (Close, End, Detach))
        assert found.error is not None
        return found.error.condition

    def open(self, opening: Open | None = None) -> "Conversation":
        """Past the headers and both opens."""
        self.feed(AMQP_HEADER, opening or Open(container_id="peer"))
        self.calls.clear()
        return self

    def begin(self, channel: int = 0, window: int = 1000, **others: Any) -> AmqpSession:
        """A session on this channel."""
        begin = Begin(next_outgoing_id=0, incoming_window=window, outgoing_window=1000)
        self.feed(evolve(begin, **others), channel=channel)
        self.calls.clear()
        return self.handler.sessions[-1]

    def attach_sender(self, name: str, handle: int, channel: int = 0, **fields: Any) -> ReceiverLink:
        """The test sends."""
        attach = Attach(
            name=name, handle=handle, role=False, source=Source(), target=Target(address="q"), initial_delivery_count=0
        )
        self.feed(evolve(attach, **fields), channel=channel)
        self.calls.clear()
        link = self.handler.links[name]
        assert isinstance(link, ReceiverLink)
        return link

    def attach_receiver(self, name: str, handle: int, credit: int = 0, channel: int = 0, **fields: Any) -> SenderLink:
        """The test receives."""
        attach = Attach(name=name, handle=handle, role=True, source=Source(address="q"), target=Target())
        self.feed(evolve(attach, **fields), channel=channel)
        link = self.handler.links[name]
        assert isinstance(link, SenderLink)
        if credit:
            self.feed(self.flow(handle=handle, delivery_count=0, link_credit=credit), channel=channel)
        self.calls.clear()
        return link

    def flow(self, **fields: Any) -> Flow:
        """A flow of the test's, with windows that change nothing."""
        session = self.handler.sessions[-1]
        plain = Flow(
            next_incoming_id=session.next_outgoing_id,
            incoming_window=1000,
            next_outgoing_id=max(0, session.next_incoming_id),
            outgoing_window=1000,
        )
        return evolve(plain, **fields)


def transfer(delivery_id: int | None, payload: bytes = b"x", handle: int = 0, channel: int = 0, **more: Any) -> bytes:
    """A transfer frame of the test's; the delivery-tag is the number's."""
    tag = None if delivery_id is None else b"%d" % delivery_id
    plain = Transfer(handle=handle, delivery_id=delivery_id, delivery_tag=tag)
    return frame_with(channel, evolve(plain, **more), payload)


def kinds(frames: list[Frame]) -> list[type]:
    """The frames' types."""
    return [type(performative) for _, performative, _ in frames]
