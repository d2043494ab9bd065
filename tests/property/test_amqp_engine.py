"""The AMQP engine under any fragmentation, any damage, and against itself and a model."""

from collections import deque
from collections.abc import Sequence
from functools import cache

from hypothesis import example, given, settings
from hypothesis import strategies as st

from artemis_amqp.engine.connection import AmqpConnection
from artemis_amqp.engine.limits import ConnectionLimits
from artemis_amqp.engine.link import MASK, Link
from artemis_amqp.engine.performatives import (
    Accepted,
    Attach,
    Begin,
    Close,
    Detach,
    Disposition,
    End,
    Flow,
    Open,
    Released,
    SaslInit,
    SaslOutcome,
    Source,
    Target,
    Transfer,
    frame,
    read_performative,
)
from artemis_amqp.engine.receiver import ReceiverLink
from artemis_amqp.engine.sender import SenderLink
from artemis_amqp.engine.states import AMQP_HEADER, SASL_HEADER
from artemis_amqp.engine.types import Symbol
from tests.amqp_harness import ACCEPTED, Conversation, Recorder, frame_with, read_frames, transfer
from tests.examples import examples

LIMITS = ConnectionLimits(max_frame_size=1024, output_limit_bytes=2048, max_message_size=5000, handle_max=7)


class Server(Conversation):
    """A server, and all that it wrote."""

    def __init__(self) -> None:
        super().__init__(LIMITS)
        self.handler.max_message_size = 5000
        self.written = bytearray()

    def read(self, data: bytes) -> None:
        """One read, and what a transport would do behind it."""
        self.engine.receive_data(data, self.now)
        while data := self.engine.data_to_send():
            self.written += data


class Eager(Recorder):
    """Answers from within the calls, so that output does not depend on where reads end."""

    def on_sasl_init(self, mechanism: str, initial_response: bytes | None, hostname: str | None) -> None:
        """Welcome."""
        super().on_sasl_init(mechanism, initial_response, hostname)
        self.engine.login.finish(0, b"")

    def on_attach(self, link: Link, attach: Attach) -> None:
        """Credit counts at once: a peer that did not wait for it would be wrong or right by where a read ends."""
        super().on_attach(link, attach)
        if isinstance(link, ReceiverLink):
            link.credit = self.credit


def server() -> Server:
    """A server whose handler answers at once."""
    new = Server()
    handler = Eager()
    handler.engine = new.engine
    handler.max_message_size = 5000
    new.handler = handler
    new.engine.handler = handler
    return new


def flow(handle: int | None = None, **fields: int) -> Flow:
    """A flow of a peer that received nothing."""
    return Flow(
        next_incoming_id=fields.get("seen", 0),
        incoming_window=fields.get("window", 100),
        next_outgoing_id=fields.get("sent", 0),
        outgoing_window=100,
        handle=handle,
        delivery_count=None if handle is None else fields.get("count", 0),
        link_credit=None if handle is None else fields.get("credit", 5),
        drain=bool(fields.get("drain", 0)),
        echo=bool(fields.get("echo", 0)),
    )


@cache
def conversation() -> tuple[bytes, ...]:
    """A client's side of a long conversation, in frames: every performative, both link directions, two sessions."""
    outcomes = (Symbol("amqp:accepted:list"), Symbol("amqp:rejected:list"))
    parts: list[bytes] = [
        SASL_HEADER,
        frame(0, SaslInit(mechanism="PLAIN", initial_response=b"\0u\0p"), 1),
        AMQP_HEADER,
        frame(0, Open(container_id="c", max_frame_size=1024, idle_time_out=60000, properties={Symbol("a"): 1})),
        frame(0, Begin(next_outgoing_id=0, incoming_window=100, outgoing_window=100)),
        frame(1, Begin(next_outgoing_id=0, incoming_window=100, outgoing_window=100)),
        frame(
            0,
            Attach(
                name="s",
                handle=0,
                role=False,
                initial_delivery_count=0,
                source=Source(outcomes=outcomes),
                target=Target(address="q"),
            ),
        ),
        frame(0, Attach(name="r", handle=1, role=True, source=Source(address="q"), target=Target())),
        frame(1, Attach(name="second", handle=2, role=False, rcv_settle_mode=1, initial_delivery_count=7)),
        b"\0\0\0\x08\x02\0\0\0",
        frame(0, flow(1, credit=10)),
        transfer(0, b"first"),
        transfer(1, b"a" * 900, more=True),
        transfer(0, b"other session", 2, 1),
        transfer(None, b"b" * 900, more=True),
        transfer(None, b"c"),
        transfer(2, b"presettled", settled=True, message_format=0),
        transfer(3, b"", more=True),
        transfer(None, b"", aborted=True),
        frame(0, Disposition(role=True, first=0, last=3, settled=True, state=Accepted())),
        frame(0, Disposition(role=True, first=1, settled=False, state=Released())),
        frame(1, Disposition(role=False, first=0, last=0, settled=True, state=Accepted())),
        frame(0, flow(1, sent=7, credit=3, drain=1, echo=1)),
        frame(0, flow(None, sent=7, window=50, echo=1)),
        frame(0, Detach(handle=1, closed=True)),
        frame(0, Attach(name="r2", handle=1, role=True, source=Source(address="q"))),
        frame(0, Detach(handle=1)),
        frame(1, End()),
        transfer(4, b"last"),
        frame(0, Detach(handle=0, closed=True)),
        frame(0, End()),
        frame(0, Close()),
    ]
    return tuple(parts)


def replay(parts: Sequence[bytes]) -> tuple[Server, list[tuple[object, ...]]]:
    """A server that read these, one after the other."""
    new = server()
    for part in parts:
        new.read(part)
    return new, new.calls


def told(data: bytes) -> list[tuple[int, object, bytes]]:
    """What was written, but for how often windows, credit and outcomes were gathered into one frame."""
    return [one for one in read_frames(data) if not isinstance(one[1], (Flow, Disposition))]


@given(st.data())
def test_fragmentation_changes_nothing(data: st.DataObject) -> None:
    """Wherever TCP cuts the stream: the same calls in the same order, and the same octets if every frame is flushed."""
    stream = b"".join(conversation())
    expected, calls = replay(conversation())
    cuts = sorted(data.draw(st.sets(st.integers(1, len(stream) - 1), max_size=40)))
    pieces = [stream[start:stop] for start, stop in zip([0, *cuts], [*cuts, len(stream)], strict=True)]

    cut, cut_calls = replay(pieces)

    assert cut_calls == calls
    assert told(bytes(cut.written)) == told(bytes(expected.written))
    assert cut.engine.closed


@settings(max_examples=5)
@given(st.integers(1, 3))
def test_tiny_reads_write_the_same_octets(size: int) -> None:
    """Octet by octet there is one flush per frame: not one octet differs from a frame per read."""
    expected, calls = replay(conversation())
    pieces: list[bytes] = []
    for part in conversation():
        pieces += [part[at : at + size] for at in range(0, len(part), size)]

    cut, cut_calls = replay(pieces)

    assert cut_calls == calls
    assert bytes(cut.written) == bytes(expected.written)


# -- damage ----------------------------------------------------------------------------------------------------

edits = st.one_of(
    st.tuples(st.just("overwrite"), st.integers(0, 10_000), st.binary(min_size=1, max_size=4)),
    st.tuples(st.just("cut"), st.integers(0, 10_000), st.integers(1, 40)),
    st.tuples(st.just("drop"), st.integers(0, 100), st.just(0)),
    st.tuples(st.just("double"), st.integers(0, 100), st.just(0)),
    st.tuples(st.just("swap"), st.integers(0, 100), st.integers(0, 100)),
    st.tuples(st.just("again"), st.integers(0, 100), st.integers(0, 100)),
)


def damaged(changes: Sequence[tuple[str, int, object]]) -> bytes:
    """The conversation after these changes; frames first, then octets."""
    parts = list(conversation())
    for kind, at, other in changes:
        index = 3 + at % (len(parts) - 3)
        if kind == "drop":
            del parts[index]
        elif kind == "double":
            parts.insert(index, parts[index])
        elif kind == "swap" and isinstance(other, int):
            second = 3 + other % (len(parts) - 3)
            parts[index], parts[second] = parts[second], parts[index]
        elif kind == "again" and isinstance(other, int):
            parts.insert(index, parts[other % len(parts)])
    stream = bytearray(b"".join(parts))
    for kind, at, other in changes:
        offset = at % len(stream)
        if kind == "overwrite" and isinstance(other, bytes):
            stream[offset : offset + len(other)] = other
        elif kind == "cut" and isinstance(other, int):
            del stream[offset : offset + other]
    return bytes(stream)


def check_outcome(new: Server) -> None:
    """Whatever came in: what went out can be read, and an end is an end."""
    frames = read_frames(bytes(new.written))
    last = [type(performative) for _, performative, _ in frames if performative is not None][-1:]
    names = new.handler.names()
    assert names.count("error") <= 1
    assert names.count("close") <= 1
    if "error" in names:
        assert new.engine.closed
        assert last in ([Close], [SaslOutcome], [bytes])
    if new.engine.closed:
        assert "error" in names or "close" in names
    assert [type(performative) for _, performative, _ in frames].count(Close) <= 1
    assert new.engine.incomplete_bytes >= 0


@settings(max_examples=examples(400))
@given(st.lists(edits, min_size=1, max_size=4), st.integers(1, 4000))
def test_damage_never_raises_and_ends_well(changes: list[tuple[str, int, object]], read_size: int) -> None:
    """The machine never raises for anything a peer can send; either it goes on, or it ends with a reason."""
    stream = damaged(changes)
    new = server()
    for at in range(0, len(stream), read_size):
        new.read(stream[at : at + read_size])

    check_outcome(new)


@settings(max_examples=examples(150))
@given(st.lists(edits, min_size=1, max_size=3), st.integers(1, 500))
def test_damage_means_the_same_however_it_is_cut(changes: list[tuple[str, int, object]], read_size: int) -> None:
    """What was legal before an error counts, wherever reads end."""
    stream = damaged(changes)
    whole, pieces = server(), server()
    whole.read(stream)
    for at in range(0, len(stream), read_size):
        pieces.read(stream[at : at + read_size])

    assert pieces.calls == whole.calls
    assert pieces.engine.closed == whole.engine.closed


# -- the fast readers read what the tables read ----------------------------------------------------------------

UINTS = ("43", "5200", "5201", "52ff", "7000000000", "7000000001", "70ffffffff", "40", "5000", "52", "70")
BOOLEANS = ("40", "41", "42", "5600", "5601", "43", "")
TRANSFER = (
    ("43", "5200", "7000000000", "5207", "40", "80", ""),
    UINTS,
    ("a00161", "a000", "a004", "40", "a041" + "61" * 65, "b00000000161", "a0", ""),
    ("43", "5200", "5207", "40", "7000000000", "52", ""),
    BOOLEANS,
    BOOLEANS,
    ("40", "5000", "5001", "", "41"),
    ("40", "00532445", "", "41"),
    BOOLEANS,
    BOOLEANS,
    BOOLEANS,
)
DISPOSITION = (
    ("41", "42", "5601", "40"),
    UINTS,
    ("40", *UINTS),
    ("41", "42", "40", "5601", "43", ""),
    ("00532445", "0053244540", "005324c00100", "00532645", "40", "", "0053"),
    ("40", "41", "42", "50", "5601", ""),
)


@st.composite
def octets_of(draw: st.DrawFn, table: Sequence[Sequence[str]]) -> tuple[str, int]:
    """The fields of a performative, the usual ones but for a few, and how many of them it claims to have."""
    fields = [draw(st.sampled_from(row[:2])) for row in table]
    for index in draw(st.lists(st.integers(0, len(table) - 1), max_size=2)):
        fields[index] = draw(st.sampled_from(table[index]))
    present = draw(st.one_of(st.just(len(table)), st.integers(0, len(table))))
    return "".join(fields[:present]), present + draw(st.sampled_from((0, 0, 0, 0, 1, 2, -1)))


def both_ways(code: int, fields: tuple[str, int], lie: int) -> tuple[list[tuple[object, ...]], ...]:
    """What the engine makes of a performative: in its usual form, and in one that only the tables read."""
    body, count = bytes.fromhex(fields[0]), max(0, fields[1])
    results = []
    for shape in ("list8", "list32"):
        peer = Conversation().open()
        peer.begin()
        peer.handler.credit = 100
        peer.attach_sender("s", 0)
        out = peer.attach_receiver("r", 1, credit=3)
        for number in range(3):
            out.send(b"", b"x", number, False)
        peer.output()
        size = len(body) + 1 + lie
        if not 0 <= size <= 255:
            size = len(body) + 1
        if shape == "list8":
            head = bytes((0, 0x53, code, 0xC0, size, count))
        else:
            head = bytes((0, 0x53, code, 0xD0)) + (size + 3).to_bytes(4, "big") + count.to_bytes(4, "big")
        peer.engine.receive_data((8 + len(head) + len(body)).to_bytes(4, "big") + b"\x02\0\0\0" + head + body, 0.0)
        results.append([*peer.calls, (peer.engine.closed,)])
    return results[0], results[1]


@settings(max_examples=examples(500))
@given(octets_of(TRANSFER), st.sampled_from([0, 0, 0, 0, 1, -1, 3]))
@example(("7000000000" + "52", 3), 0)
@example(("5200" + "7000000000" + "a0", 3), 0)
@example(("4343" + "a041" + "61" * 65, 3), 0)
def test_transfers_mean_the_same_to_both_readers(fields: tuple[str, int], lie: int) -> None:
    """AMQP 1.0 §1.6: any width and any form, also with a size or a count that is not true."""
    fast, tables = both_ways(0x14, fields, lie)

    assert fast == tables


@settings(max_examples=examples(500))
@given(octets_of(DISPOSITION), st.sampled_from([0, 0, 0, 0, 1, -1]))
@example(("41" + "5200" + "40" + "41" + "00532445" + "50", 6), 0)
def test_dispositions_mean_the_same_to_both_readers(fields: tuple[str, int], lie: int) -> None:
    """Likewise."""
    fast, tables = both_ways(0x15, fields, lie)

    assert fast == tables


# -- two engines and a model -----------------------------------------------------------------------------------


class Pair:
    """A client and a server of ours, with a link in each direction, and bytes that take their time."""

    def __init__(self, client_limits: ConnectionLimits, server_limits: ConnectionLimits) -> None:
        self.client_handler, self.server_handler = Recorder(), Recorder()
        self.client = AmqpConnection(self.client_handler, client_limits, is_client=True)
        self.server = AmqpConnection(self.server_handler, server_limits, is_client=False)
        self.client_handler.engine, self.server_handler.engine = self.client, self.server
        self.server_handler.credit = 0
        self.client.login.start(None, None)
        self.exchange()
        self.client.send_open(self.client.our_open("client"))
        self.session = self.client.channels.begin()
        up = self.session.attach("up", Source(), Target(address="q"), is_sender=True)
        down = self.session.attach("down", Source(address="q"), Target(), is_sender=False)
        self.exchange()
        assert isinstance(up, SenderLink)
        assert isinstance(down, ReceiverLink)
        server_up, server_down = self.server_handler.links["up"], self.server_handler.links["down"]
        assert isinstance(server_up, ReceiverLink)
        assert isinstance(server_down, SenderLink)
        self.ways: tuple[Way, Way] = (
            Way(up, server_up, self.server_handler),
            Way(server_down, down, self.client_handler),
        )

    def carry(self, to_server: bool) -> bool:
        """Bring what one side wrote to the other; whether there was anything."""
        source, target = (self.client, self.server) if to_server else (self.server, self.client)
        data = source.data_to_send()
        if data:
            target.receive_data(data, 0.0)
        return bool(data)

    def exchange(self) -> None:
        """Until nobody has anything to say."""
        while self.carry(True) or self.carry(False):
            pass


class Way:
    """One direction, and what must be true of it."""

    def __init__(self, sender: SenderLink, receiver: ReceiverLink, handler: Recorder) -> None:
        self.sender = sender
        self.receiver = receiver
        self.handler = handler
        self.sent: deque[tuple[bytes, bool]] = deque()
        self.unsettled: set[int] = set()
        self.counted = 0

    def check_arrivals(self) -> None:
        """Deliveries arrive whole, once, in order."""
        while self.counted < len(self.handler.calls):
            call = self.handler.calls[self.counted]
            self.counted += 1
            if call[0] == "transfer":
                assert (call[4], call[5]) == self.sent.popleft()
                if not call[5]:
                    assert isinstance(call[2], int)
                    self.unsettled.add(call[2])


operations = st.lists(
    st.one_of(
        st.tuples(st.just("grant"), st.booleans(), st.integers(0, 12)),
        st.tuples(st.just("drain"), st.booleans(), st.integers(0, 5)),
        st.tuples(st.just("send"), st.booleans(), st.integers(0, 3000)),
        st.tuples(st.just("presettled"), st.booleans(), st.integers(0, 3000)),
        st.tuples(st.just("settle"), st.booleans(), st.integers(0, 20)),
        st.tuples(st.just("hold"), st.booleans(), st.integers(0, 1)),
        st.tuples(st.just("pause"), st.booleans(), st.integers(0, 1)),
        st.tuples(st.just("carry"), st.booleans(), st.just(0)),
    ),
    max_size=60,
)


@settings(max_examples=examples(200))
@given(operations, st.sampled_from([512, 700, 131072]), st.sampled_from([600, 5000, 2**20]))
def test_two_engines_agree(steps: list[tuple[str, bool, int]], frame_size: int, output_limit: int) -> None:
    """AMQP 1.0 §2.5.6, §2.6.7: whatever is granted, revoked, drained, held and paused, both sides count alike in the
    end.
    """
    limits = ConnectionLimits(max_frame_size=frame_size, output_limit_bytes=output_limit)
    pair = Pair(limits, limits)
    for number, (kind, is_up, amount) in enumerate(steps):
        way = pair.ways[0 if is_up else 1]
        if kind in ("grant", "drain"):
            way.receiver.grant(amount, drain=kind == "drain")
        elif kind in ("send", "presettled"):
            for _ in range(1 + amount % 7):
                if way.sender.can_send:
                    body = bytes((number & 0xFF,)) * amount
                    way.sent.append((b"h" + body, kind == "presettled"))
                    way.sender.send(b"h", body, number, kind == "presettled")
        elif kind == "settle":
            for delivery_id in sorted(way.unsettled)[:amount]:
                way.unsettled.discard(delivery_id)
                way.receiver.session.settle_incoming(delivery_id, delivery_id, ACCEPTED, True)
        elif kind == "hold":
            way.receiver.session.hold(bool(amount))
        elif kind == "pause":
            (way.sender.session.connection.pause if amount else way.sender.session.connection.resume)()
        elif kind == "carry":
            pair.carry(is_up)
        for each in pair.ways:
            if each.sender.drain and each.sender.credit:
                each.sender.drained()
            each.check_arrivals()
    for way in pair.ways:
        way.receiver.session.hold(False)
        way.sender.session.connection.resume()
    pair.exchange()
    for way in pair.ways:
        way.check_arrivals()
        sender, receiver = way.sender, way.receiver
        assert not way.sent
        assert sender.delivery_count == receiver.delivery_count
        assert sender.credit == receiver.credit
        assert {sent.delivery_id for sent in sender.unsettled()} == way.unsettled
        assert {sent.delivery_id for sent in sender.session.unsettled.all()} == way.unsettled
        assert sender.session.next_outgoing_id == receiver.session.next_incoming_id
        assert sender.session.remote_incoming_window <= receiver.session.incoming_window & MASK
        assert sender.session.remote_incoming_window > 0
    assert "error" not in pair.client_handler.names() + pair.server_handler.names()
    assert "detach" not in pair.client_handler.names() + pair.server_handler.names()


def test_every_frame_of_the_conversation_is_whole() -> None:
    """The stream that is damaged above is a good one."""
    new, calls = replay(conversation())

    assert calls[-1] == ("close",)
    assert "error" not in new.handler.names()
    assert {
        type(read_performative(part, 8, len(part))[0])
        for part in conversation()
        if part[:4] != b"AMQP" and len(part) > 8
    } >= {
        Transfer,
        Attach,
        Disposition,
    }
    assert frame_with(0, Close()) == conversation()[-1]


@given(st.data())
def test_shares_change_nothing(data: st.DataObject) -> None:
    """However little of it is done in a turn, and wherever TCP cuts the stream: the same calls, the same octets."""
    stream = b"".join(conversation())
    expected, calls = replay(conversation())
    cuts = sorted(data.draw(st.sets(st.integers(1, len(stream) - 1), max_size=20)))
    shares = data.draw(st.lists(st.integers(1, 4), min_size=1, max_size=5))
    patience = data.draw(st.integers(0, 3))
    new = server()
    meter = new.engine.meter
    count = 0
    for start, stop in zip([0, *cuts], [*cuts, len(stream)], strict=True):
        meter.end = meter.work + shares[count % len(shares)]
        new.read(stream[start:stop])
        for _ in range(patience):
            count += 1
            meter.end = meter.work + shares[count % len(shares)]
            new.engine.work(0.0)
    while new.engine.has_input:
        count += 1
        meter.end = meter.work + shares[count % len(shares)]
        new.engine.work(0.0)
    new.read(b"")

    assert new.calls == calls
    assert told(bytes(new.written)) == told(bytes(expected.written))
    assert new.engine.closed
