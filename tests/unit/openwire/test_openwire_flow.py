"""Signs of life, input and output that wait, and deliveries."""

from collections.abc import Iterator
from typing import Any

import pytest

from artemis_openwire.engine.codec import write_frame
from artemis_openwire.engine.commands import (
    ActiveMQTextMessage,
    BaseCommand,
    ConnectionInfo,
    MessageDispatch,
    ProducerAck,
    SessionInfo,
)
from artemis_openwire.engine.limits import ConnectionLimits
from artemis_openwire.engine.message_fields import MessageFields
from artemis_openwire.engine.structures import SessionId
from artemis_openwire.engine.values import Long
from tests.openwire_harness import (
    CONNECTION,
    CONSUMER,
    VERSIONS,
    Conversation,
    Recorder,
    text_message,
)

SESSION = SessionInfo(command_id=2, session_id=SessionId(connection_id="ID:host-1-2:1", value=1))


def kinds(commands: list[Any]) -> list[str]:
    """Names of types."""
    return [type(command).__name__ for command in commands]


# -- signs of life -----------------------------------------------------------------------------------------------------


def test_a_silent_client_is_given_up() -> None:
    """When nothing came between two checks; the first is after the initial delay (openwire §12.5)."""
    client = Conversation().log_in()
    engine = client.engine
    engine.handle_deadline(39.9)
    early = engine.closed
    engine.handle_deadline(40.0)
    first = engine.closed
    engine.handle_deadline(70.0)

    assert (early, first, engine.closed) == (False, False, True)
    assert client.calls[-1] == ("failed", "nothing was heard for 30 s")
    assert kinds(client.received())[-1] == "ConnectionError"


def test_octets_are_signs_of_life() -> None:
    """A frame that takes long to arrive too."""
    client = Conversation().log_in()
    frame = write_frame(text_message(1), 12)
    for check, octet in zip((40.0, 70.0, 100.0), frame, strict=False):
        client.engine.receive_data(bytes((octet,)), check - 1)
        client.engine.handle_deadline(check)

    assert not client.engine.closed


def test_we_give_signs_of_life_when_nothing_else_is_sent() -> None:
    """Three times in the time after which the client would give us up."""
    client = Conversation().log_in()
    engine = client.engine
    sent = []
    for now in (10, 20, 30):
        if now == 20:
            engine.respond(5)
            sent.append(kinds(client.received()))
        engine.receive_data(b"\0\0\0\1\0", now)
        engine.handle_deadline(now)
        sent.append(kinds(client.received()))

    # The login was answered before the first check.
    assert sent == [[], ["Response"], [], ["KeepAliveInfo"]]


def test_the_next_deadline_is_the_next_check() -> None:
    """Of either kind."""
    client = Conversation().log_in()

    assert client.engine.next_deadline() == 10.0
    assert Conversation().log_in(MaxInactivityDuration=Long(0)).engine.next_deadline() is None
    quiet = ConnectionLimits(sends_keep_alive=False)
    assert Conversation(limits=quiet).log_in().engine.next_deadline() == 40.0


def test_signs_of_life_overtake_output_that_waits_for_the_store() -> None:
    """A slow disk must not make the client believe that the broker is gone."""
    client = Conversation().log_in()
    client.engine.outbox.put_gate(0)
    client.engine.respond(5)
    client.engine.handle_deadline(10.0)
    client.received()
    client.engine.handle_deadline(20.0)
    early = client.received()
    client.engine.outbox.open_gate()

    assert kinds(early) == ["KeepAliveInfo"]
    assert kinds(client.received()) == ["Response"]


@pytest.mark.parametrize("how", ["halt", "pause"])
def test_the_silence_of_a_client_that_is_not_read_means_nothing(how: str) -> None:
    """Also for some time after it is read again."""
    client = Conversation().log_in()
    engine = client.engine
    getattr(engine, how)()
    engine.handle_deadline(40.0)
    engine.handle_deadline(70.0)
    getattr(engine, {"halt": "proceed", "pause": "resume"}[how])()
    engine.handle_deadline(100.0)
    alive = not engine.closed
    engine.handle_deadline(130.0)

    assert alive
    assert engine.closed


# -- flow --------------------------------------------------------------------------------------------------------------


def test_a_halted_client_is_read_on_later() -> None:
    """In the shares of later iterations."""
    client = Conversation().log_in()
    client.send(text_message(1))
    client.engine.halt()
    client.send(text_message(2), text_message(3))
    before = len(client.calls), client.engine.has_input
    client.engine.proceed()
    has_input = client.engine.has_input
    client.engine.work(1.0)

    assert (before, has_input) == ((1, False), True)
    assert len(client.calls) == 3


class Stepwise(Recorder):
    """Does what a command asks for in three steps."""

    def __init__(self) -> None:
        super().__init__()
        self.done: list[str] = []

    def steps(self) -> Iterator[None]:
        """The steps."""
        for number in range(3):
            self.done.append(f"step {number}")
            self.engine.meter.work += 1
            yield

    def on_command(self, command: BaseCommand, answer_id: int) -> None:
        self.engine.work_through(self.steps())

    def on_message(self, message: MessageFields) -> None:
        self.done.append("message")


def test_work_in_steps_comes_before_the_next_command() -> None:
    """However many turns it takes."""
    handler = Stepwise()
    client = Conversation(handler=handler).log_in()
    engine = client.engine
    engine.meter.end = engine.meter.work + 2
    client.send(SESSION, text_message(1))
    first = list(handler.done)
    while engine.has_input:
        engine.meter.end = engine.meter.work + 2
        engine.work(0.0)

    assert first == ["step 0"]
    assert handler.done == ["step 0", "step 1", "step 2", "message"]


def test_the_share_of_a_turn_ends_between_two_commands() -> None:
    """What is left is done in the next ones."""
    client = Conversation().log_in()
    engine = client.engine
    engine.meter.end = engine.meter.work + 2
    client.send(*[text_message(number) for number in range(5)])
    counts = [len(client.calls)]
    while engine.has_input:
        engine.meter.end = engine.meter.work + 2
        engine.work(0.0)
        counts.append(len(client.calls))

    assert counts == [2, 4, 5]


@pytest.mark.parametrize(("version", "is_told"), [(12, True), (9, False)])
def test_the_first_message_of_a_group_is_marked(version: int, is_told: bool) -> None:
    """In versions that have the field."""
    client = Conversation(version).log_in()
    client.send(text_message(1, group_id="g"))
    _, _, header, body = client.calls[0]

    assert client.engine.dispatch_writer(CONSUMER).send(header, body, b"\0", 1, 0, 0, True)

    (dispatch,) = client.received()
    assert dispatch.message.jmsx_group_first_for_consumer is is_told


def test_a_full_output_stops_deliveries_until_it_is_taken() -> None:
    """The handler is told when there is room."""
    client = Conversation(limits=ConnectionLimits(output_limit_bytes=10)).log_in()
    engine = client.engine
    engine.respond(1)
    full = engine.can_send
    client.received()

    assert not full
    assert engine.can_send
    assert client.calls == [("writable",)]


@pytest.mark.parametrize("version", VERSIONS)
def test_a_message_reaches_a_consumer_as_it_came(version: int) -> None:
    """With the consumer's numbers in it."""
    client = Conversation(version).log_in()
    sent = text_message(1, correlation_id="c")
    client.send(sent)
    _, _, header, body = client.calls[0]
    writer = client.engine.dispatch_writer(CONSUMER)
    field = body[client.engine._message.destination_at : client.engine._message.transaction_at]

    assert writer.send(header, body, field, 5, 1, 9, False)

    (dispatch,) = client.received()
    message = dispatch.message
    assert isinstance(message, ActiveMQTextMessage)
    assert message.message_id is not None
    assert (message.correlation_id, message.message_id.broker_sequence_id) == ("c", 5)
    assert (dispatch.redelivery_counter, message.redelivery_counter) == (1, 1)


def test_the_subject_of_an_advisory_is_left_out_where_its_type_does_not_exist() -> None:
    """A consumer of version 1 gets the message all the same."""
    client = Conversation().log_in()
    client.send(text_message(1, data_structure=ProducerAck(size=1)), text_message(2, data_structure=SESSION))
    old = Conversation(1).log_in()
    writer = old.engine.dispatch_writer(CONSUMER)
    for _, _, header, body in client.calls:
        assert writer.send(header, body, b"\0", 1, 0, 0, False)

    assert [dispatch.message.data_structure for dispatch in old.received()] == [None, SESSION]


def test_the_subject_of_an_advisory_has_the_fields_of_the_consumers_version() -> None:
    """Which differ where those of messages do not: ConnectionInfo got `clientIp` in version 8."""
    subject = ConnectionInfo(connection_id=CONNECTION, client_ip="here")
    client = Conversation(8).log_in()
    client.send(text_message(1, data_structure=subject))
    _, _, header, body = client.calls[0]
    old = Conversation(7).log_in()

    assert old.engine.dispatch_writer(CONSUMER).send(header, body, b"\0", 1, 0, 0, False)

    (dispatch,) = old.received()
    assert dispatch.message.data_structure == ConnectionInfo(connection_id=CONNECTION)


@pytest.mark.parametrize("size", [100, 40_000])
def test_a_message_that_is_larger_than_a_client_takes_is_not_sent(size: int) -> None:
    """By one octet; nothing of it is in the output."""
    whole = Conversation().log_in()
    whole.send(text_message(1, content=bytes(size)))
    _, _, header, body = whole.calls[0]
    arguments = (header, body, b"\0", 1, 0, 0, False)
    assert whole.engine.dispatch_writer(CONSUMER).send(*arguments)
    largest = len(whole.engine.data_to_send()) - 4

    for limit, fits in ((largest, True), (largest - 1, False)):
        client = Conversation().log_in(MaxFrameSize=Long(limit))
        assert client.engine.dispatch_writer(CONSUMER).send(*arguments) is fits
        assert kinds(client.received()) == ["MessageDispatch"] * fits


def test_the_end_of_what_there_is_has_no_message() -> None:
    """For browsers and pulls (openwire §14.2)."""
    client = Conversation().log_in()
    client.engine.dispatch_writer(CONSUMER).send_nothing()

    assert client.received() == [MessageDispatch(consumer_id=CONSUMER)]


def test_a_closed_connection_takes_nothing() -> None:
    """Deliveries that are under way are dropped without harm."""
    client = Conversation().log_in()
    client.send(text_message(1))
    _, _, header, body = client.calls[0]
    client.engine.shutdown()
    client.received()

    assert client.engine.dispatch_writer(CONSUMER).send(header, body, b"\0", 1, 0, 0, False)
    assert client.engine.data_to_send() == b""
    assert not client.engine.can_send
