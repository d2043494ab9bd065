"""Peers that break the protocol: each ends its own connection, with the right condition; nobody else notices.

Frames are written byte by byte (`raw`): no library would send these.
"""

import socket
from collections.abc import Iterator
from typing import Final

import pytest

from tests.interop.broker_process import BrokerProcess, Instance
from tests.interop.conftest import StartBroker
from tests.interop.proton.client import Client
from tests.interop.proton.raw import (
    AMQP,
    ATTACH,
    BEGIN,
    BEGIN_FRAME,
    CLOSE,
    DETACH,
    FLOW,
    OPEN,
    SASL,
    TRANSFER,
    Raw,
    ending,
    frame,
    opening,
    performative,
    performatives,
    text,
)

OPENING: Final = opening("raw")
BEGINNING: Final = OPENING + BEGIN_FRAME
TARGET: Final = performative(0x29, text("raw"), 1)


def attach(name: str, handle: int, role_receiver: bool = False) -> bytes:
    """Attach as sender to address `raw`."""
    role = b"\x41" if role_receiver else b"\x42"
    termini = performative(0x28, text("raw"), 1) + (b"\x40" if role_receiver else TARGET)
    delivery_count = b"\x40" if role_receiver else b"\x43"
    fields = text(name) + b"\x52" + bytes((handle,)) + role + b"\x40\x40" + termini + b"\x40\x40" + delivery_count
    return frame(performative(ATTACH, fields, 10))


@pytest.fixture
def raw(broker: BrokerProcess) -> Iterator[Raw]:
    """A fresh socket."""
    peer = Raw(broker)
    yield peer
    peer.close()


@pytest.fixture
def bystander(broker: BrokerProcess, name: str) -> Iterator[Client]:
    """A client that is at work all the while, and must be served after it as before."""
    with Client(broker.url) as client:
        sender, receiver = client.sender(name), client.receiver(name)
        sender.send("before")
        yield client
        sender.send("after")
        assert receiver.bodies() == ["before", "after"]


MALFORMED: Final = {
    "frame smaller than its header": OPENING + b"\x00\x00\x00\x07\x02\x00\x00\x00",
    "data offset below two": OPENING + frame(performative(CLOSE), offset=1),
    "data offset beyond the frame": OPENING + frame(b"", offset=9),
    "body is not described": OPENING + frame(b"\x45"),
    "unknown performative": OPENING + frame(performative(0x60)),
    "truncated list": OPENING + frame(b"\x00\x53\x11\xd0\x00\x00\x00\xff\x00\x00\x00\x04\x40"),
    "list count beyond its size": OPENING + frame(b"\x00\x53\x11\xc0\x02\xff\x40"),
    "invalid constructor": OPENING + frame(performative(BEGIN, b"\x3f", 1)),
    "broken utf-8": AMQP + frame(performative(OPEN, b"\xa1\x02\xff\xfe", 1)),
    "field of the wrong type": AMQP + frame(performative(OPEN, b"\x43", 1)),
    "mandatory field missing": AMQP + frame(performative(OPEN, b"\x40", 1)),
    "too many fields": OPENING + frame(performative(CLOSE, b"\x40\x40\x40", 3)),
    "deep nesting": OPENING + frame(b"\x00\x53\x11\x00" * 2000 + b"\x40"),
}


@pytest.mark.parametrize("case", MALFORMED)
@pytest.mark.usefixtures("bystander")
def test_malformed_frame_closes_its_connection(raw: Raw, case: str) -> None:
    """AMQP 1.0 §2.4.7, §2.8.16: decode errors are `amqp:decode-error`, `framing-error` or `invalid-field` on the
    connection.
    """
    raw.send(MALFORMED[case])
    answer = raw.read_to_end()

    assert ending(answer) in (
        "amqp:decode-error",
        "amqp:connection:framing-error",
        "amqp:invalid-field",
        "amqp:not-implemented",
    )


OUT_OF_ORDER: Final = {
    "begin before open": AMQP + frame(performative(BEGIN, b"\x40\x43\x52\x64\x52\x64", 4)),
    "second open": OPENING + frame(performative(OPEN, text("raw"), 1)),
    "attach without a session": OPENING + attach("l", 0),
    "begin on a channel in use": BEGINNING + frame(performative(BEGIN, b"\x40\x43\x52\x64\x52\x64", 4)),
    "flow on an unknown handle": BEGINNING
    + frame(performative(FLOW, b"\x43\x52\x64\x43\x52\x64\x52\x09\x43\x52\x01", 7)),
    "transfer on an unknown handle": BEGINNING + frame(performative(TRANSFER, b"\x52\x09\x43\xa0\x01t", 3)),
    "detach of an unknown handle": BEGINNING + frame(performative(DETACH, b"\x52\x09", 1)),
    "handle in use": BEGINNING + attach("one", 0) + attach("two", 0),
    "transfer without delivery-id": BEGINNING
    + attach("l", 0)
    + frame(performative(TRANSFER, b"\x43", 1) + b"\x00\x53\x77\x40"),
}


@pytest.mark.parametrize("case", OUT_OF_ORDER)
@pytest.mark.usefixtures("bystander")
def test_frame_out_of_order_is_answered_with_an_error(raw: Raw, case: str) -> None:
    """AMQP 1.0 §2.4 to §2.6: an error on connection, session or link; then we close and the broker does."""
    raw.send(OUT_OF_ORDER[case])
    raw.send(frame(performative(CLOSE)))
    condition = ending(raw.read_to_end())

    assert condition.startswith("amqp:")
    assert condition != "amqp:internal-error"


CONDITIONS: Final = {
    "flow on an unknown handle": "amqp:session:unattached-handle",
    "transfer on an unknown handle": "amqp:session:unattached-handle",
    "detach of an unknown handle": "amqp:session:unattached-handle",
    "handle in use": "amqp:session:handle-in-use",
}


@pytest.mark.parametrize("case", CONDITIONS)
def test_session_error_has_its_own_condition(raw: Raw, case: str) -> None:
    """AMQP 1.0 §2.8.17."""
    raw.send(OUT_OF_ORDER[case])
    raw.send(frame(performative(CLOSE)))

    assert ending(raw.read_to_end()) == CONDITIONS[case]


@pytest.mark.usefixtures("bystander")
def test_frame_above_the_maximum_closes_its_connection(raw: Raw) -> None:
    """AMQP 1.0 §2.4.1, §2.8.16: the limit is the one in the broker's own open; nothing of that size is waited for."""
    raw.send(OPENING + (0x7FFFFFFF).to_bytes(4, "big") + b"\x02\x00\x00\x00")

    assert ending(raw.read_to_end()) == "amqp:connection:framing-error"


@pytest.mark.usefixtures("bystander")
def test_large_frame_before_the_open_closes_its_connection(raw: Raw) -> None:
    """AMQP 1.0 §2.4.1: until the open is exchanged a frame has 512 octets by the standard, 4096 here at most."""
    raw.send(AMQP + frame(performative(OPEN, b"\xb1" + (100_000).to_bytes(4, "big") + b"x" * 100_000, 1)))
    answer = raw.read_to_end()

    assert answer[:8] == AMQP or answer == b""


@pytest.mark.usefixtures("bystander")
def test_transfer_beyond_the_credit_detaches_the_link(raw: Raw) -> None:
    """AMQP 1.0 §2.8.18 `amqp:link:transfer-limit-exceeded`: more than any credit the broker grants."""
    transfer = b"".join(
        frame(
            performative(TRANSFER, b"\x43" + b"\x70" + number.to_bytes(4, "big") + b"\xa0\x01t\x43\x41", 5)
            + b"\x00\x53\x77\x40"
        )
        for number in range(3000)
    )
    raw.send(BEGINNING + attach("l", 0) + transfer)
    raw.send(frame(performative(CLOSE)))
    condition = ending(raw.read_to_end())

    assert condition in ("amqp:link:transfer-limit-exceeded", "amqp:session:window-violation")


@pytest.mark.usefixtures("bystander")
def test_reused_tag_of_an_unsettled_delivery_is_no_harm(raw: Raw) -> None:
    """AMQP 1.0 §2.6.12: the broker may refuse it; it must answer in the protocol's words or take it."""
    transfer = b"".join(
        frame(performative(TRANSFER, b"\x43\x52" + bytes((number,)) + b"\xa0\x01t\x43\x42", 5) + b"\x00\x53\x77\x40")
        for number in range(2)
    )
    raw.send(BEGINNING + attach("l", 0) + transfer + frame(performative(CLOSE)))
    codes = [code for code, _ in performatives(raw.read_to_end())]

    assert codes[-1] == CLOSE


NOT_AMQP: Final = {
    "http": b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
    "noise": bytes(range(255, 191, -1)),
    "tls": b"\x16\x03\x01\x00\xc8\x01\x00\x00\xc4\x03\x03",
    "zeros": bytes(64),
}


@pytest.mark.parametrize("case", NOT_AMQP)
@pytest.mark.usefixtures("bystander")
def test_unknown_protocol_is_told_ours_and_closed(raw: Raw, case: str) -> None:
    """AMQP 1.0 §2.2: whatever a peer begins with, it learns what is spoken here; a web browser is answered as such."""
    raw.send(NOT_AMQP[case])

    assert raw.read_to_end() == SASL or case == "http"


@pytest.mark.parametrize("version", [b"AMQP\x00\x00\x09\x01", b"AMQP\x01\x01\x00\x00", b"AMQP\x00\x02\x00\x00"])
@pytest.mark.usefixtures("bystander")
def test_other_version_is_answered_with_a_supported_header(raw: Raw, version: bytes) -> None:
    """AMQP 1.0 §2.2: write a protocol header of ours, then close."""
    raw.send(version)
    answer = raw.read_to_end()

    assert answer in (AMQP, SASL)


@pytest.mark.usefixtures("bystander")
def test_connection_cut_inside_a_frame_is_forgotten(raw: Raw) -> None:
    """A truncated frame and a closed socket: nothing to say, nothing left."""
    raw.send(BEGINNING + attach("l", 0) + frame(performative(TRANSFER, b"\x43\x43\xa0\x01t\x43\x42", 5))[:-3])
    raw.socket.shutdown(socket.SHUT_WR)

    raw.read_to_end()


@pytest.mark.usefixtures("bystander")
def test_sasl_frame_out_of_place_ends_the_login(raw: Raw) -> None:
    """AMQP 1.0 §5.3.2: an open instead of sasl-init."""
    raw.send(SASL + frame(performative(OPEN, text("raw"), 1)))

    assert raw.read_to_end()[:8] == SASL


@pytest.mark.usefixtures("bystander")
def test_unknown_mechanism_is_refused(raw: Raw) -> None:
    """AMQP 1.0 §5.3.3.6: outcome code 1 (auth)."""
    raw.send(SASL + frame(performative(0x41, b"\xa3\x05BOGUS", 1), kind=1))
    found = performatives(raw.read_to_end())

    assert found[-1][0] == 0x44
    assert found[-1][1][0] == 1


@pytest.mark.usefixtures("bystander")
def test_bytes_one_at_a_time_are_understood(raw: Raw) -> None:
    """TCP cuts where it likes."""
    raw.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    for byte in BEGINNING + attach("l", 0) + frame(performative(CLOSE)):
        raw.send(bytes((byte,)))
    codes = [code for code, _ in performatives(raw.read_to_end())]

    assert codes[0] == OPEN
    assert {BEGIN, ATTACH} <= set(codes)
    assert codes[-1] == CLOSE


def test_port_that_wants_a_login_says_so(start: StartBroker) -> None:
    """AMQP 1.0 §2.2: a header that would do without is answered with that of SASL, and the end; with a login all is
    well.
    """
    secure = start(
        Instance(
            core="<security-enabled>true</security-enabled>",
            parameters="protocols=AMQP;saslMechanisms=PLAIN",
            users="admin = secret\n",
            roles="admin = admin\n",
        )
    )
    with Raw(secure) as plain:
        plain.send(OPENING)
        answer = plain.read_to_end()
    with Client(secure.url, user="admin", password="secret", allowed_mechs="PLAIN"):
        pass

    assert answer == SASL
