"""What may come when, who is told what, and when a connection ends."""

from struct import pack
from typing import Any

import pytest

from artemis_openwire.engine import errors
from artemis_openwire.engine.codec import write_frame
from artemis_openwire.engine.commands import (
    BrokerInfo,
    ConnectionError,
    ConnectionInfo,
    ConsumerInfo,
    DataArrayResponse,
    ExceptionResponse,
    FlushCommand,
    IntegerResponse,
    KeepAliveInfo,
    MessageDispatch,
    MessagePull,
    ProducerAck,
    RemoveInfo,
    Response,
    SessionInfo,
    ShutdownInfo,
)
from artemis_openwire.engine.fields import NO_ANSWER
from artemis_openwire.engine.limits import ConnectionLimits
from artemis_openwire.engine.message_fields import MessageFields
from artemis_openwire.engine.structure import Structure, Throwable
from artemis_openwire.engine.structures import BrokerId, SessionId, XATransactionId
from tests.openwire_harness import (
    CONNECTION,
    CONSUMER,
    PRODUCER,
    VERSIONS,
    Conversation,
    Recorder,
    message_ack,
    text_message,
    wire_format,
)

LOGIN = ConnectionInfo(command_id=1, response_required=True, connection_id=CONNECTION, client_id="c")
SESSION = SessionInfo(command_id=2, session_id=SessionId(connection_id="ID:host-1-2:1", value=1))


def kinds(commands: list[Any]) -> list[str]:
    """Names of types."""
    return [type(command).__name__ for command in commands]


# -- commands ----------------------------------------------------------------------------------------------------------


def test_commands_are_handed_over_in_order() -> None:
    """Records for rare ones, fields for hot ones; answers only to those that want one."""
    client = Conversation().log_in()
    consumer = ConsumerInfo(command_id=3, response_required=True, consumer_id=CONSUMER, prefetch_size=10)
    message, ack = text_message(1, command_id=4, answered=True), message_ack(1, 7)
    client.send(SESSION, consumer, message, ack)

    assert [call[:2] for call in client.calls] == [
        ("command", SESSION),
        ("command", consumer),
        ("message", message),
        ("ack", ack),
    ]
    assert client.received() == [Response(correlation_id=3), Response(correlation_id=4)]


def test_a_failure_is_the_answer_or_a_connection_error() -> None:
    """Unmatched answers are dropped by clients, so a command that wanted none fails with a ConnectionError."""
    client = Conversation().log_in()
    reason = Throwable(errors.DESTINATION, "no such queue")
    client.engine.fail(7, reason)
    client.engine.fail(NO_ANSWER, reason)

    assert client.received() == [
        ExceptionResponse(correlation_id=7, exception=reason),
        ConnectionError(exception=reason),
    ]


def test_negative_ids_are_answered() -> None:
    """Ids of commands have 32 bits and a sign; -1 is one of them."""
    client = Conversation().log_in()
    client.send(text_message(1, command_id=-1, answered=True))

    assert client.received() == [Response(correlation_id=-1)]


def test_answers_with_values_name_their_command() -> None:
    """And are left out where nobody waits for them."""
    client = Conversation().log_in()
    xids = (XATransactionId(format_id=1, global_transaction_id=b"g", branch_qualifier=b"b"),)
    client.engine.respond_with(5, IntegerResponse(result=3))
    client.engine.respond_with(6, DataArrayResponse(data=xids))
    client.engine.respond_with(NO_ANSWER, IntegerResponse(result=3))

    assert client.received() == [
        IntegerResponse(correlation_id=5, result=3),
        DataArrayResponse(correlation_id=6, data=xids),
    ]


@pytest.mark.parametrize("version", VERSIONS)
def test_windows_are_opened_in_versions_that_have_them(version: int) -> None:
    """ProducerAck came with version 3."""

    class Windows(Recorder):
        def on_message(self, message: MessageFields) -> None:
            self.engine.send_producer_ack(message.producer_key, message.window_size)

    client = Conversation(version, handler=Windows()).log_in()
    client.send(text_message(1, content=b"hello", marshalled_properties=b"1234567"))

    expected = [ProducerAck(producer_id=PRODUCER, size=1024 + 5 + 7)]
    assert client.received() == (expected if version >= 3 else [])


def test_commands_that_mean_nothing_are_answered() -> None:
    """An unanswered request would hang an application."""
    client = Conversation().log_in()
    client.send(FlushCommand(command_id=3, response_required=True), FlushCommand(command_id=4))
    client.engine.receive_data(b"\0\0\0\1\0", 0.0)

    assert client.received() == [Response(correlation_id=3)]
    assert client.calls == []


@pytest.mark.parametrize("wanted", [True, False])
def test_a_sign_of_life_is_answered_with_one(wanted: bool) -> None:
    """Never with a Response (openwire §12.5)."""
    client = Conversation().log_in()
    client.send(KeepAliveInfo(response_required=wanted))

    assert client.received() == [KeepAliveInfo()] * wanted


def test_a_bridge_is_refused_by_name() -> None:
    """Its broker is told, and closed."""
    client = Conversation().log_in()
    client.send(BrokerInfo(network_connection=True))

    (error,) = client.received()
    assert "bridge" in error.exception.message
    assert client.engine.closed


def test_a_response_from_a_client_is_ignored() -> None:
    """The failover transport of the Java client replays its notes of requests as Responses."""
    client = Conversation().log_in()
    client.send(Response(correlation_id=1))

    assert (client.engine.closed, client.received(), client.calls) == (False, [], [])


@pytest.mark.parametrize("wrong", [LOGIN, MessageDispatch(), ShutdownInfo(), wire_format(12)])
def test_commands_of_a_broker_and_repeated_ones_end_the_connection(wrong: Structure) -> None:
    """ShutdownInfo as well, but as a goodbye."""
    client = Conversation().log_in()
    client.send(wrong)

    assert client.engine.closed
    told = client.calls[-1][0]
    assert told == ("shutdown" if isinstance(wrong, ShutdownInfo) else "failed")


def test_what_was_right_counts_before_what_was_wrong() -> None:
    """However much of it comes at once."""
    client = Conversation().log_in()
    client.send(text_message(1, answered=True), LOGIN, text_message(2))

    assert kinds(client.received()) == ["Response", "ConnectionError"]
    assert [call[0] for call in client.calls] == ["message", "failed"]


def test_pulls_are_records() -> None:
    """They come once a message, from consumers that want it so."""
    client = Conversation().log_in()
    pull = MessagePull(consumer_id=CONSUMER, timeout=-1)
    client.send(pull)

    assert client.calls == [("command", pull)]


# -- the end -----------------------------------------------------------------------------------------------------------


def test_a_removed_connection_is_over_and_its_socket_is_not() -> None:
    """The client may log in again (openwire §12.3); until then it has nothing to use."""
    client = Conversation().log_in()
    gone = RemoveInfo(command_id=8, response_required=True, object_id=CONNECTION, last_delivered_sequence_id=-1)
    client.send(gone, text_message(1, answered=True), text_message(2), message_ack(1, 1))
    client.send(RemoveInfo(command_id=9, response_required=True, object_id=CONSUMER))
    client.send(FlushCommand(command_id=11, response_required=True))
    answers = client.received()
    client.send(LOGIN)

    assert client.calls == [("command", gone), ("login", LOGIN)]
    assert [answer.correlation_id for answer in answers] == [8, 10, 9, 11]
    assert answers[1].exception.class_name == errors.STATE
    assert client.engine.is_open


def test_a_consumer_that_ends_leaves_the_connection() -> None:
    """Only the name of a connection ends one."""
    client = Conversation().log_in()
    client.send(RemoveInfo(object_id=CONSUMER), text_message(1))

    assert [call[0] for call in client.calls] == ["command", "message"]


def test_a_client_says_goodbye() -> None:
    """Answered if it wants to, then closed; what comes behind is not read."""
    client = Conversation().log_in()
    client.send(ShutdownInfo(command_id=5, response_required=True), text_message(1))

    assert client.received() == [Response(correlation_id=5)]
    assert client.calls == [("shutdown",)]
    assert client.engine.closed


def test_the_broker_says_goodbye() -> None:
    """Without an error, so that a client that can connects elsewhere."""
    client = Conversation().log_in()
    client.engine.shutdown()
    client.engine.respond(3)

    assert client.received() == [ShutdownInfo()]
    assert client.engine.closed


def test_nothing_is_said_to_a_client_that_has_not_begun() -> None:
    """It has not told its version."""
    client = Conversation()
    client.engine.shutdown()

    assert client.engine.data_to_send() == b""
    assert client.engine.closed


# -- limits ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("state", ["first", "negotiated", "open"])
@pytest.mark.parametrize("size", [0, -1, 1 << 30])
def test_a_frame_of_an_impossible_size_is_refused_at_its_header(state: str, size: int) -> None:
    """Nothing is kept for it."""
    client = Conversation()
    if state == "negotiated":
        client.negotiate()
    elif state == "open":
        client.log_in()
    client.engine.receive_data(pack(">i", size) + b"\x17", 0.0)

    assert client.engine.closed
    assert client.engine.kept_bytes == 0
    assert "a frame of" in client.calls[-1][1]


def test_limits_depend_on_what_a_frame_is() -> None:
    """A message may be large, a command not, and before the login nothing."""
    limits = ConnectionLimits(login_frame_size=700, command_size=1000, max_frame_size=2000)
    client = Conversation(limits=limits).log_in()
    client.send(text_message(1, content=bytes(1700)))
    message_told = client.calls[-1][0]
    client.send(ConsumerInfo(selector="x" * 1000))

    early = Conversation(limits=limits).negotiate()
    early.send(ConnectionInfo(client_id="x" * 700))

    assert message_told == "message"
    assert client.calls[-1] == ("failed", "a frame of 1033 bytes and type 5; 1000 is the most")
    assert early.calls[-1] == ("failed", "a frame of 719 bytes and type 3; 700 is the most")


def test_a_message_that_is_too_large_is_refused_before_it_has_arrived() -> None:
    """At its header."""
    client = Conversation(limits=ConnectionLimits(max_frame_size=2000)).log_in()
    client.engine.receive_data(pack(">iB", 2001, 28), 0.0)

    assert client.engine.closed


def test_a_command_may_not_be_longer_than_its_fields() -> None:
    """A field that is read wrongly would be noticed so."""
    client = Conversation().log_in()
    frame = write_frame(SESSION, 12)
    client.engine.receive_data(pack(">i", len(frame) - 3) + frame[4:] + b"\0", 0.0)

    assert client.calls[-1] == ("failed", "SessionInfo is longer than its fields")


def test_deeply_nested_structures_are_refused() -> None:
    """A BrokerInfo in a BrokerInfo and so on, in a message that a client sends."""
    info = BrokerInfo()
    for _ in range(40):
        info = BrokerInfo(peer_broker_infos=(info,))
    client = Conversation().log_in()
    client.send(text_message(1, data_structure=info))

    assert client.calls == [("failed", "more than 8 structures within each other")]


@pytest.mark.parametrize("element", [None, BrokerId(value="b")])
def test_the_structures_of_a_frame_are_limited(element: BrokerId | None) -> None:
    """Null ones count; each would take memory and time."""
    fits = [BrokerInfo(peer_broker_infos=(None,) * 1000)] * 4
    client = Conversation().log_in()
    client.send(text_message(1, data_structure=BrokerInfo(peer_broker_infos=tuple(fits))))
    client.send(text_message(2, broker_path=(element,) * 1024))
    told = [call[0] for call in client.calls]
    paths = Conversation().log_in()
    paths.send(text_message(1, broker_path=(element,) * 1025))
    infos = Conversation().log_in()
    infos.send(text_message(1, data_structure=BrokerInfo(peer_broker_infos=(*fits, *fits))))

    assert told == ["message", "message"]
    assert paths.calls == [("failed", "an array of 1025 brokers; 1024 are the most")]
    assert infos.calls == [("failed", "more than 4096 structures in a frame")]
