"""Which connections are OpenWire, what both sides agree on, and who logs in."""

from typing import Any

import pytest

from artemis_openwire.engine import errors
from artemis_openwire.engine.activity import REFUSAL_LINGER_S
from artemis_openwire.engine.codec import write_frame
from artemis_openwire.engine.commands import (
    ConnectionControl,
    ConnectionInfo,
    ExceptionResponse,
    FlushCommand,
    KeepAliveInfo,
    Response,
    SessionInfo,
    WireFormatInfo,
)
from artemis_openwire.engine.limits import ConnectionLimits
from artemis_openwire.engine.negotiation import matches, offer
from artemis_openwire.engine.structure import Structure, Throwable
from artemis_openwire.engine.structures import SessionId
from artemis_openwire.engine.values import Long, read_map
from tests.openwire_harness import (
    BROKER,
    CONNECTION,
    VERSIONS,
    Conversation,
    message_ack,
    text_message,
    wire_format,
)

LOGIN = ConnectionInfo(command_id=1, response_required=True, connection_id=CONNECTION, client_id="c")
SESSION = SessionInfo(command_id=2, session_id=SessionId(connection_id="ID:host-1-2:1", value=1))


def kinds(commands: list[Any]) -> list[str]:
    """Names of types."""
    return [type(command).__name__ for command in commands]


# -- detection and negotiation ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", range(14))
def test_the_first_octets_are_recognised(size: int) -> None:
    """No sooner than the last octet of the magic, and refused nowhere before."""
    head = write_frame(wire_format(12), 1)[:size]

    assert matches(head) is (True if size == 13 else None)


@pytest.mark.parametrize(
    "head", [b"AMQP\0\1\0\0", b"\x10\x0e\0\4MQTT", b"GET / HTTP", b"\0\0\1\0\x02", b"\0\0\1\0\1Act!"]
)
def test_other_protocols_are_not_recognised(head: bytes) -> None:
    """The first octets of AMQP, MQTT and HTTP, another command, another magic."""
    assert matches(head) is False


@pytest.mark.parametrize("version", VERSIONS)
def test_the_older_version_counts(version: int) -> None:
    """A client of each version gets BrokerInfo in that version, and so does everything behind it."""
    client = Conversation(version)
    client.send(wire_format(version))
    ours, broker = client.received()

    assert (ours.version, client.engine.version) == (12, version)
    assert broker == BROKER
    assert client.calls[0][1].version == version


@pytest.mark.parametrize(("offered", "agreed"), [(99, 12), (0, 12), (-1, 12)])
def test_a_version_of_tomorrow_or_none_is_ours(offered: int, agreed: int) -> None:
    """A number that is not positive is no opinion (openwire §2)."""
    client = Conversation()
    client.send(wire_format(offered))

    assert client.engine.version == agreed


def test_we_offer_what_every_client_takes() -> None:
    """No tight encoding, cache or stack traces; numbers of the types that the Java client casts to (openwire §2)."""
    properties = read_map(offer(ConnectionLimits()).marshalled_properties)

    off = ["TightEncodingEnabled", "CacheEnabled", "SizePrefixDisabled", "StackTraceEnabled"]
    assert [properties[name] for name in off] == [False] * 4
    longs = ["MaxInactivityDuration", "MaxInactivityDurationInitalDelay", "MaxFrameSize"]
    assert [type(properties[name]) for name in longs] == [Long] * 3
    assert type(properties["CacheSize"]) is int


def test_the_smaller_limits_count() -> None:
    """Of frames and of silence; the host and the library are told as they are."""
    client = Conversation()
    client.send(wire_format(12, MaxFrameSize=Long(500), MaxInactivityDuration=Long(900), Host="b", ProviderName="X"))
    agreement = client.calls[0][1]

    assert (agreement.max_frame_size, agreement.max_inactivity_s, agreement.initial_delay_s) == (500, 0.9, 10)
    assert (agreement.host, agreement.provider) == ("b", "X 5.17.2")


@pytest.mark.parametrize("size", [Long(0), Long(-1)])
def test_a_frame_size_that_is_not_positive_is_no_opinion(size: Long) -> None:
    """Ours counts."""
    client = Conversation().negotiate(MaxFrameSize=size)

    assert client.calls[0][1].max_frame_size == ConnectionLimits().max_frame_size


@pytest.mark.parametrize(
    "first",
    [
        WireFormatInfo(magic=b"ActiveMX", version=12),
        wire_format(12, MaxFrameSize="large"),
        wire_format(12, MaxInactivityDuration=True),
        WireFormatInfo(version=12, marshalled_properties=b"\0\0\0\1"),
        LOGIN,
        KeepAliveInfo(),
    ],
)
def test_a_wrong_beginning_is_not_answered(first: Structure) -> None:
    """A peer that does not begin as OpenWire does would not understand what is wrong."""
    client = Conversation()
    client.send(first)

    assert client.engine.closed
    assert client.engine.data_to_send() == b""
    assert [call[0] for call in client.calls] == ["failed"]


def test_an_offer_without_properties_is_enough() -> None:
    """Missing flags are false and missing numbers no opinion (openwire §2); without a time, silence means nothing."""
    client = Conversation()
    client.send(WireFormatInfo(version=3))

    assert client.engine.version == 3
    assert client.engine.next_deadline() is None


# -- login -------------------------------------------------------------------------------------------------------------


def test_a_client_logs_in_and_is_answered() -> None:
    """The answer names the command."""
    client = Conversation().negotiate()
    client.send(LOGIN)

    assert client.received() == [Response(correlation_id=1)]
    assert client.engine.is_open
    assert client.calls[-1] == ("login", LOGIN)


def test_what_a_client_sends_behind_its_login_waits() -> None:
    """And is worked through when the login is decided."""
    client = Conversation().negotiate()
    client.handler.accepts = False
    client.send(LOGIN, text_message(1))
    client.send(text_message(2, answered=True))
    told = [call[0] for call in client.calls]

    client.engine.accept()

    assert told == ["negotiated", "login"]
    assert [call[0] for call in client.calls] == ["negotiated", "login", "message", "message"]
    assert client.received() == [Response(correlation_id=1), Response(correlation_id=10)]


@pytest.mark.parametrize("at_once", [True, False])
def test_no_client_sends_without_end_before_its_login_is_decided(at_once: bool) -> None:
    """The buffer has a limit."""
    client = Conversation(limits=ConnectionLimits(login_buffer_size=1000)).negotiate()
    client.handler.accepts = False
    rest = [text_message(number) for number in range(8)]
    if at_once:
        client.send(LOGIN, *rest)
    else:
        client.send(LOGIN)
        client.send(*rest)

    assert client.engine.closed
    assert client.calls[-1] == ("failed", "more than 1000 bytes before the login ended")


def test_a_refused_client_has_time_to_read_why() -> None:
    """The reason is the answer; the socket is closed a little later, and until then not read (openwire §12.1)."""
    client = Conversation().negotiate()
    client.handler.accepts = False
    reason = Throwable(errors.SECURITY, "wrong")
    client.send(LOGIN)
    client.engine.refuse(reason)
    answer = client.received()
    client.send(text_message(1))
    client.engine.handle_deadline(5.0)
    deadline = client.engine.next_deadline()
    client.engine.handle_deadline(deadline or 0.0)

    assert answer == [ExceptionResponse(correlation_id=1, exception=reason)]
    assert deadline == 5.0 + REFUSAL_LINGER_S
    assert client.engine.closed
    assert [call[0] for call in client.calls] == ["negotiated", "login"]


def test_a_refused_client_is_not_closed_too_early() -> None:
    """Deadlines that come sooner change nothing."""
    client = Conversation().negotiate()
    client.handler.accepts = False
    client.send(LOGIN)
    client.engine.refuse(Throwable(errors.SECURITY, "wrong"))
    client.engine.handle_deadline(5.0)
    client.engine.handle_deadline(6.9)

    assert not client.engine.closed


def test_a_client_may_reconnect_with_connection_control_first() -> None:
    """A failover transport says so before it logs in (openwire §12.1)."""
    client = Conversation().negotiate()
    client.send(ConnectionControl(fault_tolerant=True), LOGIN)

    assert client.received() == [Response(correlation_id=1)]


@pytest.mark.parametrize("early", [SESSION, text_message(1), message_ack(1, 1), wire_format(12), FlushCommand()])
def test_nothing_else_comes_before_a_login(early: Structure) -> None:
    """The client is told, and closed."""
    client = Conversation().negotiate()
    client.send(early)

    assert kinds(client.received()) == ["ConnectionError"]
    assert client.engine.closed
