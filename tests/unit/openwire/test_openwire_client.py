"""The client side, against our own engine and alone."""

from struct import pack

import pytest

from artemis_openwire.client.connection import ClientConnection, ClientHandler
from artemis_openwire.client.frames import AckTemplate, Dispatch, MessageTemplate
from artemis_openwire.engine import errors
from artemis_openwire.engine.ack_fields import INDIVIDUAL
from artemis_openwire.engine.codec import read_frame, write_frame, write_nested
from artemis_openwire.engine.commands import (
    BaseCommand,
    BrokerInfo,
    ConnectionError,
    ConnectionInfo,
    ConsumerInfo,
    ExceptionResponse,
    KeepAliveInfo,
    Response,
    SessionInfo,
    ShutdownInfo,
)
from artemis_openwire.engine.limits import ConnectionLimits
from artemis_openwire.engine.negotiation import Agreement
from artemis_openwire.engine.structure import Throwable
from artemis_openwire.engine.structures import LocalTransactionId
from artemis_py.errors import MalformedFrame
from tests.openwire_harness import (
    BROKER,
    CONNECTION,
    CONSUMER,
    PRODUCER,
    QUEUE,
    VERSIONS,
    Conversation,
    frames,
    message_ack,
    text_message,
    wire_format,
)


class Told(ClientHandler):
    """Keeps what it is told."""

    def __init__(self) -> None:
        self.calls: list[tuple[object, ...]] = []

    def on_negotiated(self, agreement: Agreement) -> None:
        self.calls.append(("negotiated", agreement.version))

    def on_response(self, command_id: int, response: Response) -> None:
        self.calls.append(("response", command_id, response))

    def on_dispatch(self, dispatch: Dispatch) -> None:
        content = dispatch.message.content if dispatch.has_message else None
        self.calls.append(("dispatch", dispatch.consumer_key, content, dispatch.message_id, dispatch.redeliveries))

    def on_command(self, command: BaseCommand) -> None:
        self.calls.append(("command", command))

    def on_closed(self, reason: str) -> None:
        self.calls.append(("closed", reason))


class Pair:
    """A client and a server that talk to each other without a socket."""

    def __init__(self, version: int = 12) -> None:
        self.told = Told()
        self.client = ClientConnection(self.told, ConnectionLimits(version=version))
        self.server = Conversation(version)
        self.exchange()

    def exchange(self) -> None:
        """Carry octets until there are none."""
        while True:
            to_server, to_client = self.client.data_to_send(), self.server.engine.data_to_send()
            if not to_server and not to_client:
                return
            self.server.engine.receive_data(to_server, 0.0)
            self.client.receive_data(to_client, 0.0)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_client_and_our_engine_understand_each_other(version: int) -> None:
    """From the negotiation to the acknowledgement, in every version."""
    pair = Pair(version)
    client, server = pair.client, pair.server
    login = client.request(ConnectionInfo(connection_id=CONNECTION, client_id="c"))
    client.tell(ConsumerInfo(consumer_id=CONSUMER, destination=QUEUE))
    template = MessageTemplate(text_message(0), version)
    client.write(template.frame(client.next_id(), True, 41))
    pair.exchange()
    _, message, header, body = server.calls[-1]
    writer = server.engine.dispatch_writer(CONSUMER)
    writer.send(header, body, write_nested(QUEUE, version), 7, 3, 0, False)
    pair.exchange()
    dispatch = pair.told.calls[-1]
    message_id = dispatch[3]
    assert isinstance(message_id, bytes)
    client.write(AckTemplate(CONSUMER, QUEUE, version).frame(client.next_id(), True, message_id, message_id, 1))
    pair.exchange()

    assert message == text_message(41, command_id=3, answered=True)
    key = write_nested(CONSUMER, version)
    assert pair.told.calls == [
        ("negotiated", version),
        ("command", BROKER),
        ("response", login, Response(correlation_id=login)),
        ("response", 3, Response(correlation_id=3)),
        ("dispatch", key, b"\0\0\0\2hi", message_id, 3),
        ("response", 4, Response(correlation_id=4)),
    ]
    assert server.calls[-1] == ("ack", message_ack(41, 7, command_id=4, response_required=True))


@pytest.mark.parametrize("version", [6, 12])
def test_an_acknowledgement_may_belong_to_a_transaction(version: int) -> None:
    """And be of any kind."""
    transaction = LocalTransactionId(value=3, connection_id=CONNECTION)
    template = AckTemplate(CONSUMER, QUEUE, version, INDIVIDUAL, transaction)
    last = write_nested(message_ack(1, 2).last_message_id, version)

    (frame,) = frames(template.frame(9, False, b"\0", last, 1))

    expected = message_ack(1, 2, kind=4, command_id=9, transaction_id=transaction, first_message_id=None)
    assert read_frame(frame, version) == expected


def test_nothing_is_sent_before_the_broker_has_offered() -> None:
    """But the client's own offer."""
    told = Told()
    client = ClientConnection(told)
    (first,) = frames(client.data_to_send())
    client.receive_data(write_frame(wire_format(9), 1), 0.0)

    assert first[0] == 1
    assert told.calls == [("negotiated", 9)]


def logged_in() -> Pair:
    """A client that may send anything; what it was told is forgotten."""
    pair = Pair()
    pair.client.request(ConnectionInfo(connection_id=CONNECTION))
    pair.exchange()
    pair.told.calls.clear()
    return pair


def test_failures_are_answers_or_commands() -> None:
    """Depending on what the client asked for."""
    pair = logged_in()
    pair.server.engine.fail(5, Throwable(errors.JMS, "no"))
    pair.server.engine.fail(1 << 40, Throwable(errors.JMS, "no"))
    pair.exchange()

    reason = Throwable(errors.JMS, "no")
    assert pair.told.calls == [
        ("response", 5, ExceptionResponse(correlation_id=5, exception=reason)),
        ("command", ConnectionError(exception=reason)),
    ]


def test_a_dispatch_without_a_message_is_told() -> None:
    """The end of what there is."""
    pair = logged_in()
    pair.server.engine.dispatch_writer(CONSUMER).send_nothing()
    pair.exchange()

    assert pair.told.calls == [("dispatch", write_nested(CONSUMER, 12), None, b"", 0)]


def test_signs_of_life_are_sent_and_answered() -> None:
    """From both sides."""
    pair = logged_in()
    pair.client.handle_deadline(10.0)
    pair.client.data_to_send()
    pair.client.handle_deadline(20.0)
    sent = list(frames(pair.client.data_to_send()))
    pair.client.receive_data(write_frame(KeepAliveInfo(response_required=True), 12), 21.0)
    answered = list(frames(pair.client.data_to_send()))

    assert sent == answered == [write_frame(KeepAliveInfo(), 12)[4:]]


def test_a_silent_broker_is_given_up() -> None:
    """As a broker gives up its clients."""
    pair = logged_in()
    pair.client.handle_deadline(40.0)
    pair.client.handle_deadline(70.0)

    assert pair.client.closed
    assert pair.told.calls == [("closed", "nothing was heard for 30 s")]


def test_both_sides_say_goodbye() -> None:
    """And are closed."""
    leaving, left = logged_in(), logged_in()
    leaving.client.close()
    leaving.exchange()
    left.server.engine.shutdown()
    left.exchange()

    assert leaving.server.calls[-1] == ("shutdown",)
    assert left.told.calls == [("closed", "the broker shuts down")]
    assert leaving.client.closed
    assert left.client.closed


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (write_frame(SessionInfo(), 12), "SessionInfo from a broker"),
        (write_frame(wire_format(12), 12), "WireFormatInfo from a broker"),
        (pack(">i", 0) + b"x", "a frame of 0 bytes"),
        (b"\0\0\0\7\x15\0\0\0\0\0\0", "a dispatch is shorter than its fields"),
        (b"\0\0\0\x0e\x15" + bytes(13), "the fields of a dispatch do not end"),
    ],
)
def test_a_broker_that_breaks_the_protocol_is_left(data: bytes, reason: str) -> None:
    """Whatever it sends, nothing is raised."""
    pair = logged_in()
    pair.client.receive_data(data, 0.0)

    assert pair.client.closed
    assert str(pair.told.calls[-1][1]).startswith(reason)


def test_a_broker_introduces_itself_after_its_offer() -> None:
    """Not before."""
    told = Told()
    client = ClientConnection(told)
    client.receive_data(write_frame(BrokerInfo(), 1), 0.0)

    assert told.calls == [("closed", "BrokerInfo before WireFormatInfo")]


def test_single_octets_are_enough() -> None:
    """However TCP cuts the stream."""
    told = Told()
    client = ClientConnection(told)
    data = write_frame(wire_format(12), 1) + write_frame(BROKER, 12) + write_frame(ShutdownInfo(), 12)
    for octet in data:
        client.receive_data(bytes((octet,)), 0.0)

    assert told.calls == [("negotiated", 12), ("command", BROKER), ("closed", "the broker shuts down")]


def test_a_template_needs_a_message_with_an_id() -> None:
    """There would be no place for the number."""
    with pytest.raises(MalformedFrame, match="without an id"):
        MessageTemplate(text_message(1).__class__(producer_id=PRODUCER), 12)
