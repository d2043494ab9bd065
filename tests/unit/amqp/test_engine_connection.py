"""Headers, login, open, close and idle time-outs (AMQP 1.0 §2.2, §2.3, §2.4, §5.3)."""

from itertools import pairwise

import pytest
from attrs import evolve

from artemis_amqp.engine.connection import AmqpConnection
from artemis_amqp.engine.limits import ConnectionLimits
from artemis_amqp.engine.performatives import (
    AmqpError,
    Attach,
    Begin,
    Close,
    Detach,
    Disposition,
    End,
    Flow,
    Open,
    SaslChallenge,
    SaslInit,
    SaslMechanisms,
    SaslOutcome,
    SaslResponse,
    frame,
)
from artemis_amqp.engine.states import AMQP_HEADER, SASL_HEADER, State
from artemis_amqp.engine.types import Symbol
from artemis_py.errors import AddressFull, MalformedFrame, NoSuchQueue
from tests.amqp_harness import Conversation, Recorder, frame_with, kinds, read_frames, transfer

OPEN = Open(container_id="peer")
BEGIN = Begin(next_outgoing_id=0, incoming_window=10, outgoing_window=10)
HEARTBEAT = bytes.fromhex("0000000802000000")


def sasl(performative: object) -> bytes:
    return frame(0, performative, 1)


INIT = sasl(SaslInit(mechanism="PLAIN", initial_response=b"\0u\0p", hostname="h"))


# -- headers (AMQP 1.0 §2.2)
# --------------------------------------------------------------------------------------------


def test_the_header_is_answered_and_may_be_followed_by_frames_at_once() -> None:
    """AMQP 1.0 §2.2, §2.4.6: a client may pipeline header, open and begin."""
    peer = Conversation()

    frames = peer.feed(AMQP_HEADER, OPEN, BEGIN)

    assert frames[0][1] == AMQP_HEADER
    assert kinds(frames[1:]) == [Open, Begin]


@pytest.mark.parametrize(
    "header",
    [b"AMQP\x02\x01\x00\x00", b"AMQP\x01\x01\x00\x0a", b"AMQP\x00\x01\x01\x00", b"AMQP\x00\x00\x09\x01", b"GET / HT"],
)
def test_an_unknown_header_is_answered_with_ours_and_the_end(header: bytes) -> None:
    """AMQP 1.0 §2.2: the server writes a header it supports and closes."""
    peer = Conversation()

    frames = peer.feed(header)

    assert [performative for _, performative, _ in frames] == [SASL_HEADER]
    assert peer.engine.closed
    assert peer.handler.names() == ["close"]


def test_after_the_login_only_the_amqp_header_may_follow() -> None:
    """AMQP 1.0 §5.3.2: both sides start again with the AMQP header."""
    peer = Conversation()
    peer.feed(SASL_HEADER, INIT)
    peer.engine.login.finish(0, b"")
    peer.output()

    frames = peer.feed(SASL_HEADER)

    assert frames[0][1] == AMQP_HEADER
    assert peer.engine.closed


# -- SASL (AMQP 1.0 §5.3)
# -----------------------------------------------------------------------------------------------


def test_a_login_with_a_challenge() -> None:
    """AMQP 1.0 §5.3.2: mechanisms, init, challenge, response, outcome, in this order."""
    peer = Conversation()

    offered = peer.feed(SASL_HEADER)
    peer.feed(INIT)
    peer.engine.login.challenge(b"who?")
    asked = peer.output()
    peer.feed(sasl(SaslResponse(b"me")))
    peer.engine.login.finish(0, b"bye")
    done = peer.output()
    frames = peer.feed(AMQP_HEADER, OPEN)

    assert [one for _, one, _ in offered] == [SASL_HEADER, SaslMechanisms((Symbol("PLAIN"),))]
    assert [one for _, one, _ in asked] == [SaslChallenge(b"who?")]
    assert [one for _, one, _ in done] == [SaslOutcome(0, b"bye")]
    assert peer.calls[1:] == [("init", "PLAIN", b"\0u\0p", "h"), ("response", b"me"), ("open", "peer")]
    assert frames[0][1] == AMQP_HEADER


def test_a_failed_login_ends_the_connection_with_its_outcome() -> None:
    """AMQP 1.0 §5.3.2: any code but ok is the last word."""
    peer = Conversation()
    peer.feed(SASL_HEADER, INIT)

    peer.engine.login.finish(1, b"")

    assert [one for _, one, _ in peer.output()] == [SaslOutcome(1)]
    assert peer.engine.closed


def test_what_arrives_while_a_login_is_decided_is_kept() -> None:
    """AMQP 1.0 §2.2: nothing pipelined behind sasl-init is lost, however late the outcome is."""
    peer = Conversation()
    peer.feed(SASL_HEADER, INIT, AMQP_HEADER)
    peer.feed(frame(0, OPEN)[:9])
    peer.feed(frame(0, OPEN)[9:])
    assert peer.handler.names() == ["sasl header", "init"]

    peer.engine.login.finish(0, b"")

    assert peer.handler.names() == ["sasl header", "init", "open"]
    assert kinds(peer.output()) == [SaslOutcome, bytes, Open]


def test_bytes_that_wait_for_a_login_are_limited() -> None:
    """Limits (amqp10 §21): a stranger cannot fill memory."""
    peer = Conversation()
    peer.feed(SASL_HEADER, INIT)
    for _ in range(16):
        peer.feed(b"\0" * 4096)
    assert not peer.engine.closed

    frames = peer.feed(b"\0")

    assert [one for _, one, _ in frames] == [SaslOutcome(2)]
    assert peer.calls[-1] == ("error", "amqp:resource-limit-exceeded")
    assert peer.engine.closed


def test_a_single_read_that_waits_for_a_login_is_limited() -> None:
    """Likewise when everything comes at once."""
    peer = Conversation()

    peer.feed(SASL_HEADER, INIT, b"\0" * 65537)

    assert peer.calls[-1] == ("error", "amqp:resource-limit-exceeded")
    assert peer.engine.closed


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(sasl(SaslResponse(b"")), id="a response without a challenge"),
        pytest.param(sasl(SaslOutcome(0)), id="an outcome"),
        pytest.param(sasl(SaslMechanisms(())), id="mechanisms"),
        pytest.param(frame(0, OPEN), id="an AMQP frame"),
        pytest.param(frame_with(0, SaslResponse(b""), b"x", 1), id="octets behind a frame"),
        pytest.param(sasl(OPEN), id="an open in a SASL frame"),
        pytest.param(HEARTBEAT, id="a heartbeat"),
        pytest.param(b"\0\0\x10\x01\x02\x01\0\0", id="a frame of 4097 bytes"),
        pytest.param(b"\0\0\0\x09\x02\x01\0\0\0", id="no frame body"),
    ],
)
def test_what_is_not_due_in_a_login_ends_it_with_an_outcome(data: bytes) -> None:
    """AMQP 1.0 §5.3.2: there is no close before open, so the outcome says that it failed."""
    peer = Conversation()
    peer.feed(SASL_HEADER)

    frames = peer.feed(data)

    assert [one for _, one, _ in frames] == [SaslOutcome(2)]
    assert peer.handler.names() == ["sasl header", "error"]
    assert peer.engine.closed


def test_a_second_init_is_refused() -> None:
    """AMQP 1.0 §5.3.2: one init per login."""
    peer = Conversation()
    peer.feed(SASL_HEADER, INIT)
    peer.engine.login.challenge(b"")
    peer.output()

    frames = peer.feed(INIT)

    assert [one for _, one, _ in frames] == [SaslOutcome(2)]


def test_a_login_frame_may_have_4096_octets() -> None:
    """Tokens exceed the standard's 512 (amqp10 §3)."""
    peer = Conversation()
    init = sasl(SaslInit(mechanism="PLAIN", initial_response=b"t" * 4000))

    peer.feed(SASL_HEADER, init)

    assert peer.calls[-1] == ("init", "PLAIN", b"t" * 4000, None)


# -- open and close (AMQP 1.0 §2.4)
# -------------------------------------------------------------------------------------


def test_an_open_may_be_answered_later() -> None:
    """AMQP 1.0 §2.4.1: what follows the open waits for our answer."""
    peer = Conversation()
    peer.handler.answers_open = False

    assert kinds(peer.feed(AMQP_HEADER, OPEN, BEGIN)) == [bytes]
    assert peer.handler.names() == ["open"]
    peer.engine.send_open(peer.engine.our_open("ours"))

    assert kinds(peer.output()) == [Open, Begin]


@pytest.mark.parametrize("first", [BEGIN, Close(), Flow(incoming_window=1, next_outgoing_id=0, outgoing_window=1)])
def test_nothing_may_come_before_open(first: object) -> None:
    """AMQP 1.0 §2.4.1: our open comes first all the same, a close without one is illegal."""
    peer = Conversation()

    frames = peer.feed(AMQP_HEADER, first)

    assert kinds(frames) == [bytes, Open, Close]
    assert peer.error_of(frames, Close) == "amqp:illegal-state"
    assert peer.engine.closed


@pytest.mark.parametrize(
    ("opening", "channel", "condition"),
    [
        (OPEN, 1, "amqp:connection:framing-error"),
        (Open(container_id="c", max_frame_size=511), 0, "amqp:connection:framing-error"),
        (Open(container_id="c", idle_time_out=99), 0, "amqp:not-allowed"),
    ],
)
def test_an_open_we_cannot_live_with(opening: Open, channel: int, condition: str) -> None:
    """AMQP 1.0 §2.7.1: channel 0, max-frame-size of at least 512, an idle time-out that can be kept."""
    peer = Conversation()

    frames = peer.feed(AMQP_HEADER, frame(channel, opening))

    assert peer.error_of(frames, Close) == condition


def test_a_second_open_is_refused() -> None:
    """AMQP 1.0 §2.4.1: one open each."""
    peer = Conversation().open()

    assert peer.error_of(peer.feed(OPEN), Close) == "amqp:illegal-state"


def test_before_open_frames_are_small() -> None:
    """AMQP 1.0 §2.4.1: the standard allows 512, we 4096; afterwards our max-frame-size counts."""
    large = Open(container_id="c", properties={Symbol("p"): "x" * 5000})
    peer = Conversation()

    assert peer.error_of(peer.feed(AMQP_HEADER, large), Close) == "amqp:connection:framing-error"
    later = Conversation().open()
    assert kinds(later.feed(evolve(BEGIN, properties={Symbol("p"): "x" * 5000}))) == [Begin]


def test_close_is_answered() -> None:
    """AMQP 1.0 §2.4.3."""
    peer = Conversation().open()

    assert kinds(peer.feed(Close())) == [Close]
    assert peer.handler.names() == ["close"]
    assert peer.engine.closed


def test_after_our_close_everything_but_the_peers_is_ignored() -> None:
    """AMQP 1.0 §2.4.6, DISCARDING: frames under way are no errors."""
    peer = Conversation().open()
    peer.begin()
    peer.engine.close(AmqpError("amqp:connection:forced", "bye"))
    assert peer.error_of(peer.output(), Close) == "amqp:connection:forced"

    assert peer.feed(transfer(0), OPEN, End(), Detach(handle=7), HEARTBEAT) == []
    assert not peer.engine.closed
    assert peer.feed(Close()) == []

    assert peer.engine.closed
    assert peer.calls == []


def test_our_close_is_written_once() -> None:
    """AMQP 1.0 §2.4.3: nothing may follow close."""
    peer = Conversation().open()
    session = peer.begin()
    link = peer.attach_receiver("r", 0, credit=1)

    peer.engine.close()
    peer.engine.close()
    link.drained()
    session.hold(True)
    session.settle_incoming(0, 0, b"\0\x53\x24\x45", True)

    assert kinds(peer.output()) == [Close]


def test_a_closed_engine_reads_nothing() -> None:
    """After close."""
    peer = Conversation().open()
    peer.feed(Close())

    assert peer.feed(OPEN) == []
    assert peer.handler.names() == ["close"]


def test_a_close_before_the_headers_says_nothing() -> None:
    """AMQP 1.0 §2.4.3: there is nothing to close yet."""
    peer = Conversation()

    peer.engine.close(AmqpError("amqp:connection:forced"))

    assert peer.output() == []
    assert peer.engine.closed


def test_an_open_whose_properties_fill_the_frame_is_read() -> None:
    """AMQP 1.0 §2.7.1: properties are unlimited but for the frame."""
    peer = Conversation()
    properties: dict[Symbol, object] = {Symbol(f"p{number}"): number for number in range(300)}

    peer.feed(AMQP_HEADER, Open(container_id="c", properties=properties))

    assert peer.calls == [("open", "c")]


# -- frames (AMQP 1.0 §2.3)
# ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("octets", "condition"),
    [
        ("00000007 02000000", "amqp:connection:framing-error"),
        ("00000008 01000000", "amqp:connection:framing-error"),
        ("00000008 03000000", "amqp:connection:framing-error"),
        ("00020001 02000000", "amqp:connection:framing-error"),
        ("00000008 02020000", "amqp:connection:framing-error"),
        ("00000008 02010000", "amqp:connection:framing-error"),
        ("0000000d 02000000 00 5318 45 00", "amqp:connection:framing-error"),
        ("0000000c 02000000 00 5399 45", "amqp:decode-error"),
        ("0000000c 02000000 00 5324 45", "amqp:decode-error"),
        ("00000009 02000000 40", "amqp:decode-error"),
        ("0000000b 02000000 00 5310", "amqp:decode-error"),
        ("00000010 02000000 00 5316 c00302 4041", "amqp:decode-error"),
        ("00000011 02000000 00 5316 c00402 a00041", "amqp:invalid-field"),
    ],
)
def test_a_bad_frame_ends_the_connection(octets: str, condition: str) -> None:
    """AMQP 1.0 §2.3: size, data-offset, type and body; the connection cannot go on."""
    peer = Conversation().open()
    peer.begin()

    frames = peer.feed(bytes.fromhex(octets))

    assert peer.error_of(frames, Close) == condition
    assert peer.engine.closed
    assert peer.calls[-1][0] == "error"


def test_an_extended_header_is_skipped() -> None:
    """AMQP 1.0 §2.3.1: the body starts where data-offset says."""
    peer = Conversation().open()
    body = frame(0, BEGIN)[8:]

    frames = peer.feed((12 + len(body)).to_bytes(4, "big") + b"\x03\0\0\0" + b"\xff\xff\xff\xff" + body)

    assert kinds(frames) == [Begin]


def test_a_heartbeat_on_any_channel_means_nothing() -> None:
    """AMQP 1.0 §2.4.5."""
    peer = Conversation().open()

    assert peer.feed(HEARTBEAT, HEARTBEAT[:6] + b"\xff\xff") == []
    assert not peer.engine.closed


@pytest.mark.parametrize("performative", [End(), Detach(handle=0), Disposition(role=True, first=0)])
def test_a_frame_without_a_session_ends_the_connection(performative: object) -> None:
    """AMQP 1.0 §2.5.1: the channel is not in use."""
    peer = Conversation().open()

    assert peer.error_of(peer.feed(performative, channel=3), Close) == "amqp:connection:framing-error"


def test_a_sasl_body_after_the_login_is_refused() -> None:
    """AMQP 1.0 §5.3: not on an open connection."""
    peer = Conversation().open()
    peer.begin()

    assert peer.error_of(peer.feed(SaslResponse(b"")), Close) == "amqp:not-allowed"


@pytest.mark.parametrize(
    ("error", "condition"),
    [
        (MalformedFrame("bad"), "amqp:decode-error"),
        (NoSuchQueue("gone"), "amqp:not-found"),
        (AddressFull("full"), "amqp:resource-limit-exceeded"),
    ],
)
def test_an_error_that_nobody_handled_ends_the_connection(error: Exception, condition: str) -> None:
    """`receive_data` never raises for what a peer can cause."""
    peer = Conversation().open()
    peer.begin()
    peer.attach_sender("s", 0)
    peer.handler.receiving.raises = error

    assert peer.error_of(peer.feed(transfer(0)), Close) == condition
    assert peer.engine.closed


# -- channels --------------------------------------------------------------------------------------------------


def test_channels_up_to_channel_max() -> None:
    """AMQP 1.0 §2.7.1: a higher one is a framing error."""
    peer = Conversation(ConnectionLimits(channel_max=1)).open()

    assert kinds(peer.feed(frame(0, BEGIN), frame(1, BEGIN))) == [Begin, Begin]
    assert peer.error_of(peer.feed(frame(2, BEGIN)), Close) == "amqp:connection:framing-error"


def test_the_peers_channel_max_binds_us() -> None:
    """AMQP 1.0 §2.7.1: we may not answer on a channel that the peer does not have."""
    peer = Conversation().open(Open(container_id="c", channel_max=0))
    peer.begin()

    assert peer.error_of(peer.feed(BEGIN, channel=1), Close) == "amqp:resource-limit-exceeded"


def test_a_channel_in_use_cannot_begin_again() -> None:
    """AMQP 1.0 §2.5.1."""
    peer = Conversation().open()
    peer.begin()

    assert peer.error_of(peer.feed(BEGIN), Close) == "amqp:illegal-state"


def test_a_begin_that_answers_nothing_is_refused() -> None:
    """AMQP 1.0 §2.7.2: remote-channel must be one on which we began."""
    peer = Conversation().open()

    begin = Begin(remote_channel=9, next_outgoing_id=0, incoming_window=1, outgoing_window=1)

    assert peer.error_of(peer.feed(begin), Close) == "amqp:connection:framing-error"


def test_channels_are_free_again_after_both_ends() -> None:
    """AMQP 1.0 §2.5.2: the lowest free number is used."""
    peer = Conversation().open()
    for channel in range(3):
        peer.begin(channel)
    peer.feed(End(), channel=1)

    session = peer.begin(7)

    assert session.channel == 1
    assert peer.begin(1).channel == 3


# -- idle time-outs (AMQP 1.0 §2.4.5)
# -----------------------------------------------------------------------------------


def test_half_of_our_idle_time_out_is_announced() -> None:
    """AMQP 1.0 §2.4.5: so that a peer that uses all of it is still in time."""
    peer = Conversation(ConnectionLimits(idle_timeout_s=10))

    (opening,) = [one for _, one, _ in peer.feed(AMQP_HEADER, OPEN) if isinstance(one, Open)]

    assert opening.idle_time_out == 5000


def test_no_idle_time_out_is_none() -> None:
    """AMQP 1.0 §2.7.1: absent means no limit."""
    peer = Conversation(ConnectionLimits(idle_timeout_s=0))

    (opening,) = [one for _, one, _ in peer.feed(AMQP_HEADER, OPEN) if isinstance(one, Open)]

    assert opening.idle_time_out is None
    assert peer.engine.next_deadline() is None


def test_a_silent_peer_is_given_up() -> None:
    """AMQP 1.0 §2.4.5: close with an error, and do not wait for the answer."""
    peer = Conversation(ConnectionLimits(idle_timeout_s=10))
    peer.now = 100.0
    peer.open()
    peer.now = 105.0
    peer.feed(HEARTBEAT)
    assert peer.engine.next_deadline() == 115.0

    peer.engine.handle_deadline(114.9)
    assert not peer.engine.closed
    peer.engine.handle_deadline(115.0)

    assert peer.error_of(peer.output(), Close) == "amqp:resource-limit-exceeded"
    assert peer.engine.closed
    assert peer.engine.next_deadline() is None


@pytest.mark.parametrize("write_offsets", [[], [0.0], [0.4, 2.6], [0.1, 0.2, 0.9, 1.1], [0.99, 1.98]])
def test_our_silence_never_lasts_longer_than_half_of_the_peers_time_out(write_offsets: list[float]) -> None:
    """AMQP 1.0 §2.4.5, amqp10 §5.3: whatever else is written, and whenever."""
    peer = Conversation(ConnectionLimits(idle_timeout_s=0))
    peer.open(Open(container_id="c", idle_time_out=4000))
    session = peer.begin()
    due = [(offset, "write") for offset in write_offsets]
    written = [0.0]
    while written[-1] < 10.0:
        deadline = peer.engine.next_deadline()
        assert deadline is not None
        if due and due[0][0] < deadline:
            peer.now = due.pop(0)[0]
            session.plan_flow()
        else:
            peer.now = deadline
            peer.engine.handle_deadline(deadline)
        if peer.engine.data_to_send():
            written.append(peer.now)

    assert max(later - earlier for earlier, later in pairwise(written)) <= 2.0


def test_a_busy_connection_writes_no_heartbeats() -> None:
    """AMQP 1.0 §2.4.5: any frame counts."""
    peer = Conversation(ConnectionLimits(idle_timeout_s=0))
    peer.open(Open(container_id="c", idle_time_out=4000))
    session = peer.begin()
    seen: list[type] = []
    for tick in range(1, 20):
        session.plan_flow()
        seen += kinds(peer.output())
        peer.engine.handle_deadline(float(tick))
        seen += kinds(peer.output())

    assert set(seen) == {Flow}


def test_after_close_there_are_no_heartbeats() -> None:
    """AMQP 1.0 §2.4.3: nothing may follow close."""
    peer = Conversation(ConnectionLimits(idle_timeout_s=0))
    peer.open(Open(container_id="c", idle_time_out=1000))
    peer.engine.close()
    peer.output()

    assert peer.engine.next_deadline() is None
    peer.engine.handle_deadline(100.0)

    assert peer.output() == []


# -- the client's role -----------------------------------------------------------------------------------------


def client() -> tuple[AmqpConnection, Recorder]:
    handler = Recorder()
    engine = AmqpConnection(handler, ConnectionLimits(), is_client=True)
    handler.engine = engine
    return engine, handler


def test_a_client_logs_in_and_opens() -> None:
    """AMQP 1.0 §5.3.2 from the other side."""
    engine, handler = client()
    engine.login.start("PLAIN", b"\0u\0p", "host")
    assert engine.data_to_send() == SASL_HEADER

    engine.receive_data(SASL_HEADER + sasl(SaslMechanisms((Symbol("PLAIN"),))), 0.0)
    init = read_frames(engine.data_to_send())
    engine.receive_data(sasl(SaslOutcome(0)), 0.0)
    header = engine.data_to_send()
    engine.receive_data(AMQP_HEADER, 0.0)
    engine.send_open(engine.our_open("c"))
    engine.receive_data(frame(0, OPEN), 0.0)

    assert [one for _, one, _ in init] == [SaslInit(mechanism="PLAIN", initial_response=b"\0u\0p", hostname="host")]
    assert header == AMQP_HEADER
    assert engine.is_open
    assert handler.calls == [("open", "peer")]


@pytest.mark.parametrize(
    "data",
    [AMQP_HEADER, SASL_HEADER + sasl(SaslOutcome(1)), SASL_HEADER + sasl(SaslChallenge(b"")), b"HTTP/1.1"],
)
def test_a_client_whose_login_fails_ends(data: bytes) -> None:
    """AMQP 1.0 §5.3.2: it hears of it as an error."""
    engine, handler = client()
    engine.login.start("ANONYMOUS", b"")
    engine.data_to_send()

    engine.receive_data(data, 0.0)

    assert engine.closed
    assert handler.names() == ["error"]


def test_a_client_takes_an_attach_back_before_it_was_answered() -> None:
    """AMQP 1.0 §2.6.3: the late answer belongs to a link that is gone; the peer's detach follows it."""
    engine, handler = client()
    engine.login.start(None, None)
    engine.receive_data(AMQP_HEADER, 0.0)
    engine.send_open(engine.our_open("c"))
    engine.receive_data(frame(0, OPEN), 0.0)
    session = engine.channels.begin()
    link = session.attach("l", None, None, is_sender=True)
    link.detach()
    engine.data_to_send()

    begin = Begin(remote_channel=0, next_outgoing_id=0, incoming_window=9, outgoing_window=9)
    answer = Attach(name="l", handle=0, role=True)
    engine.receive_data(b"".join(frame(0, one) for one in (begin, answer, Detach(handle=0, closed=True))), 0.0)

    assert handler.names() == ["open", "begin"]
    assert engine.data_to_send() == b""
    assert engine.state == State.OPENED
