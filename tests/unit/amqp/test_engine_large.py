"""The engine with deliveries that are streamed: in to where there is room for them, out from where they are."""

import pytest

from artemis_amqp.engine.connection import AmqpConnection
from artemis_amqp.engine.handlers import DeliverySource, DeliveryStream
from artemis_amqp.engine.limits import ConnectionLimits
from artemis_amqp.engine.performatives import Detach, Transfer
from artemis_amqp.engine.receiver import ReceiverLink
from artemis_amqp.engine.sender import SenderLink
from artemis_amqp.engine.transfer_frame import TransferFrame
from tests.amqp_harness import Conversation, Frame, Receiving, Sending, transfer


class Stream(DeliveryStream):
    """Keeps what it gets, and says that it holds a part of it in memory."""

    def __init__(self, held: int = 0) -> None:
        self.data = b""
        self.held = held
        self.is_abandoned = False

    def append(self, data: bytes) -> int:
        self.data += data
        return self.held

    def abandon(self) -> None:
        self.is_abandoned = True


class Streaming(Receiving):
    """Takes deliveries as streams."""

    def __init__(self, calls: list[tuple[object, ...]]) -> None:
        super().__init__(calls)
        self.streams: list[Stream] = []
        self.held = 0

    def open_stream(self, link: ReceiverLink) -> Stream:
        self.streams.append(Stream(self.held))
        return self.streams[-1]

    def on_stream(self, link: ReceiverLink, delivery: TransferFrame, stream: DeliveryStream) -> None:
        assert isinstance(stream, Stream)
        self.calls.append(
            (
                "stream",
                delivery.delivery_id,
                delivery.tag,
                stream.data,
                delivery.is_settled,
                delivery.message_format,
                delivery.resume,
            )
        )


class Source(DeliverySource):
    """Gives octets; fewer than asked for once it `fails_at` an offset."""

    def __init__(self, data: bytes, fails_at: int = 1 << 30) -> None:
        self.data = data
        self.offset = 0
        self.fails_at = fails_at
        self.is_closed = False

    def read(self, size: int) -> bytes:
        assert not self.is_closed
        if self.offset + size > self.fails_at:
            return b""
        piece = self.data[self.offset : self.offset + size]
        self.offset += size
        return piece

    def close(self) -> None:
        self.is_closed = True


class Aborting(Sending):
    """Notes aborted deliveries too."""

    def on_abort(self, link: SenderLink, token: object) -> None:
        self.calls.append(("abort", link.name, token))


def receiving(large_size: int = 10, limits: ConnectionLimits | None = None) -> tuple[Conversation, Streaming]:
    """A link on which the test sends, and that streams from this size on."""
    conversation = Conversation(limits).open()
    conversation.begin()
    link = conversation.attach_sender("in", 0)
    streaming = Streaming(conversation.calls)
    link.handler = streaming
    link.large_size = large_size
    conversation.calls.clear()
    return conversation, streaming


def sending(
    *credits: int, limits: ConnectionLimits | None = None, window: int = 1000
) -> tuple[Conversation, list[SenderLink]]:
    """Links on which the engine sends, each with credit."""
    conversation = Conversation(limits).open()
    conversation.begin(window=window)
    links = []
    for handle, credit in enumerate(credits):
        link = conversation.attach_receiver(f"out{handle}", handle, credit)
        link.handler = Aborting(conversation.calls)
        links.append(link)
    conversation.handler.sessions[0].remote_incoming_window = window
    return conversation, links


def transfers(frames: list[Frame]) -> list[tuple[int, int | None, bool, int]]:
    """Handle, delivery-id, more and payload size of all transfers."""
    return [
        (each.handle, each.delivery_id, each.more, len(payload))
        for _, each, payload in frames
        if isinstance(each, Transfer)
    ]


# -- in ------------------------------------------------------------------------------------------------------


def test_a_delivery_is_streamed_from_the_size_on() -> None:
    """What came before goes to the stream first; memory is freed at once."""
    conversation, streaming = receiving()
    conversation.feed(transfer(0, b"12345", more=True))
    before = conversation.engine.incomplete_bytes
    conversation.feed(transfer(None, b"67890", more=True))
    held = conversation.engine.incomplete_bytes
    conversation.feed(transfer(None, b"abc", more=True), transfer(None, b"d", settled=True))

    assert (before > 0, held) == (True, 0)
    assert conversation.calls == [("stream", 0, b"0", b"1234567890abcd", True, 0, False)]
    assert not streaming.streams[0].is_abandoned


def test_a_smaller_one_is_not() -> None:
    """One octet less."""
    conversation, streaming = receiving()
    conversation.feed(transfer(0, b"12345", more=True), transfer(None, b"6789"))

    assert streaming.streams == []
    assert conversation.calls[0][:5] == ("transfer", "in", 0, b"0", b"123456789")


def test_frames_of_a_streamed_delivery_are_not_counted() -> None:
    """A message of many GiB has more than 65,535 frames; none of them is kept."""
    conversation, streaming = receiving(large_size=1)
    frame = transfer(None, b"x", more=True)
    conversation.feed(transfer(0, b"x", more=True))
    for _ in range(70):
        conversation.feed(frame * 1000)
    conversation.feed(transfer(None, b"x"))

    assert len(streaming.streams[0].data) == 70_002
    assert len(conversation.calls) == 1


def test_what_a_stream_holds_in_memory_counts() -> None:
    """All unfinished deliveries of a connection share one limit."""
    conversation, streaming = receiving(limits=ConnectionLimits(max_incomplete_bytes=1000))
    streaming.held = 900
    conversation.feed(transfer(0, bytes(20), more=True))
    held = conversation.engine.incomplete_bytes
    streaming.streams[0].held = 1001
    frames = conversation.feed(transfer(None, bytes(20), more=True))

    assert held == 900
    assert conversation.error_of(frames, Detach) == "amqp:resource-limit-exceeded"
    assert streaming.streams[0].is_abandoned
    assert conversation.engine.incomplete_bytes == 0


@pytest.mark.parametrize("end", ["aborted", "detach", "end", "too large", "disagree"])
def test_a_stream_that_will_not_end_is_abandoned(end: str) -> None:
    """AMQP 1.0 §2.7.5, and everything else that ends a link."""
    conversation, streaming = receiving()
    link = conversation.handler.links["in"]
    assert isinstance(link, ReceiverLink)
    link.max_message_size = 100
    conversation.feed(transfer(0, bytes(50), more=True))
    match end:
        case "aborted":
            conversation.feed(transfer(None, b"", aborted=True), transfer(1, b"next"))
        case "detach":
            conversation.feed(Detach(handle=0, closed=True))
        case "end":
            conversation.handler.sessions[0].end()
        case "too large":
            conversation.feed(transfer(None, bytes(51), more=True))
        case "disagree":
            conversation.feed(transfer(7, bytes(1), more=True))

    assert streaming.streams[0].is_abandoned
    assert [call[:3] for call in conversation.calls if call[0] in ("stream", "transfer")] == (
        [("transfer", "in", 1)] if end == "aborted" else []
    )


# -- out -----------------------------------------------------------------------------------------------------


def test_a_source_is_read_frame_by_frame() -> None:
    """Head, body and source are one delivery; nothing is read before there is room for it."""
    limits = ConnectionLimits(max_frame_size=512, output_limit_bytes=4096)
    conversation, (link,) = sending(1, limits=limits)
    data = bytes(range(256)) * 40
    source = Source(data)
    link.send(b"head", b"body", "token", False, source=source, source_size=len(data))
    ahead = source.offset
    payload = b""
    while frames := conversation.output():
        assert all(len(piece) <= 512 for _, _, piece in frames)
        payload += b"".join(piece for _, _, piece in frames)

    assert 0 < ahead <= 2048
    assert payload == b"headbody" + data
    assert source.is_closed
    assert [sent.delivery_id for sent in link.unsettled()] == [0]


def test_other_links_send_between_the_frames_of_a_large_delivery() -> None:
    """Delivery-ids are in the order in which deliveries begin (AMQP 1.0 §2.7.5), and the large one gets its half."""
    limits = ConnectionLimits(max_frame_size=512, output_limit_bytes=8192)
    conversation, (large, small) = sending(2, 10, limits=limits)
    large.send(b"", b"", "large", False, source=Source(bytes(20_000)), source_size=20_000)
    can_send = large.can_send, small.can_send
    small.send(b"", bytes(700), "small", False)
    first = transfers(conversation.output())
    small.send(b"", bytes(10), "smaller", False)
    rest: list[tuple[int, int | None, bool, int]] = []
    while frames := conversation.output():
        rest += transfers(frames)

    assert can_send == (False, True)
    assert [one[:3] for one in first if one[1] is not None] == [(0, 0, True), (1, 1, True)]
    assert (1, None, False) in [one[:3] for one in first]
    assert (0, None, False) not in [one[:3] for one in first]
    assert [one[:3] for one in rest if one[1] is not None] == [(1, 2, False)]
    assert sum(one[3] for one in first + rest if one[0] == 0) == 20_000


def test_large_deliveries_of_several_links_take_turns() -> None:
    """Each of them a frame."""
    limits = ConnectionLimits(max_frame_size=512, output_limit_bytes=16_384)
    conversation, links = sending(1, 1, 1, limits=limits)
    for link in links:
        link.send(b"", b"", link.name, False, source=Source(bytes(20_000)), source_size=20_000)
    handles = []
    while frames := conversation.output():
        handles += [one[0] for one in transfers(frames)]

    assert handles[:3] == [0, 0, 0]
    assert all(set(handles[at : at + 3]) == {0, 1, 2} for at in range(24, 60, 3))
    assert handles.count(0) == handles.count(1) == handles.count(2)


def test_the_next_delivery_of_the_link_comes_behind() -> None:
    """Deliveries of one link do not interleave (AMQP 1.0 §2.7.5), also if nobody asked `can_send`."""
    limits = ConnectionLimits(max_frame_size=512, output_limit_bytes=4096)
    conversation, (link,) = sending(5, limits=limits)
    link.send(b"", b"", "large", False, source=Source(bytes(5000)), source_size=5000)
    link.send(b"", b"small", "small", False)
    seen = []
    while frames := conversation.output():
        seen += [one[1:3] for one in transfers(frames)]

    assert seen[0] == (0, True)
    assert seen[-2:] == [(None, False), (1, False)]


def test_who_waited_for_the_end_of_a_large_delivery_is_told() -> None:
    """The handler hears that it may go on, once."""
    limits = ConnectionLimits(max_frame_size=512)
    conversation, (link,) = sending(5, limits=limits, window=3)
    link.send(b"", b"", "large", False, source=Source(bytes(2000)), source_size=2000)
    conversation.output()
    waiting = link.can_send
    conversation.calls.clear()
    conversation.feed(conversation.flow(handle=None))
    conversation.output()

    assert not waiting
    assert ("writable",) in conversation.calls
    assert link.can_send


def test_a_source_that_fails_aborts_its_delivery() -> None:
    """AMQP 1.0 §2.7.5 aborted: it is settled for both sides, and the handler decides what becomes of it."""
    limits = ConnectionLimits(max_frame_size=512)
    conversation, (link,) = sending(5, limits=limits)
    source = Source(bytes(5000), fails_at=2000)
    link.send(b"", b"", "token", False, source=source, source_size=5000)
    link.send(b"", b"next", "next", False)
    seen = [each for _, each, _ in conversation.output() if isinstance(each, Transfer)]

    assert [(each.delivery_id, each.more, each.aborted) for each in seen[-2:]] == [
        (None, False, True),
        (1, False, False),
    ]
    assert ("abort", "out0", "token") in conversation.calls
    assert source.is_closed
    assert [sent.delivery_id for sent in link.unsettled()] == [1]


def test_a_source_that_fails_at_once_aborts_its_delivery() -> None:
    """One frame says both."""
    conversation, (link,) = sending(5)
    link.send(b"", b"", "token", False, source=Source(bytes(5000), fails_at=0), source_size=5000)
    (sent,) = [each for _, each, _ in conversation.output() if isinstance(each, Transfer)]

    assert (sent.delivery_id, sent.aborted) == (0, True)
    assert ("abort", "out0", "token") in conversation.calls


@pytest.mark.parametrize("end", ["detach", "end", "waiting"])
def test_sources_are_closed_with_their_link(end: str) -> None:
    """Begun or still waiting."""
    limits = ConnectionLimits(max_frame_size=512)
    conversation, (link,) = sending(5, limits=limits, window=0 if end == "waiting" else 2)
    sources = [Source(bytes(5000)) for _ in range(2)]
    for source in sources:
        link.send(b"", b"", source, False, source=source, source_size=5000)
    if end == "end":
        conversation.handler.sessions[0].end()
    else:
        conversation.feed(Detach(handle=0, closed=True))

    assert [source.is_closed for source in sources] == [True, True]
    assert transfers(conversation.output())[2:] == []


def test_a_small_source_takes_one_frame() -> None:
    """Nothing is left to take turns."""
    conversation, (link,) = sending(5)
    source = Source(b"small")
    link.send(b"head ", b"", "token", True, source=source, source_size=5)
    (frame,) = [each for each in conversation.output() if isinstance(each[1], Transfer)]

    assert frame[2] == b"head small"
    assert source.is_closed
    assert link.can_send


def test_a_pause_stops_large_deliveries() -> None:
    """The peer does not read: nothing is brought into memory for it."""
    conversation, (link,) = sending(5)
    engine: AmqpConnection = conversation.engine
    engine.pause()
    source = Source(bytes(5_000_000))
    link.send(b"", b"", "token", False, source=source, source_size=5_000_000)
    paused = source.offset
    engine.resume()

    assert paused == 0
    assert 0 < source.offset <= engine.outbox.limit
