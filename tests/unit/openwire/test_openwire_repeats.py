"""What is kept from one message, acknowledgement or delivery for the next changes nothing about any of them."""

from itertools import product
from typing import Any, Final

import pytest
from attrs import evolve

from artemis_openwire.broker.transactions import END
from artemis_openwire.engine.ack_fields import AckFields
from artemis_openwire.engine.codec import write_frame, write_nested
from artemis_openwire.engine.commands import ActiveMQTextMessage, TransactionInfo
from artemis_openwire.engine.dispatch_writer import DispatchWriter
from artemis_openwire.engine.message_fields import MessageFields
from artemis_openwire.engine.step_fields import BEGIN, COMMIT_ONE_PHASE, ROLLBACK, StepFields
from artemis_openwire.engine.structures import (
    ActiveMQQueue,
    ActiveMQTopic,
    ConnectionId,
    ConsumerId,
    LocalTransactionId,
    MessageId,
    ProducerId,
    XATransactionId,
)
from artemis_py.wire.outbox import Outbox
from tests.openwire_harness import CONNECTION, CONSUMER, Conversation, message_ack, text_message

OTHER: Final = ProducerId(connection_id="ID:other-1-2:1", session_id=1, value=9)


def transaction(number: int) -> LocalTransactionId:
    return LocalTransactionId(value=number, connection_id=CONNECTION)


def messages() -> list[ActiveMQTextMessage]:
    """Messages that differ in everything that the head, the middle and the end of one can have."""
    other = MessageId(producer_id=OTHER, producer_sequence_id=1)
    return [
        text_message(1),
        text_message(2),
        text_message(3, content=b"\0\0\0\3abc"),
        text_message(4, user_id="u"),
        text_message(5, redelivery_counter=3, arrival=9),
        text_message(6, destination=ActiveMQTopic(physical_name="t")),
        text_message(7, transaction_id=transaction(1)),
        text_message(8, transaction_id=transaction(2)),
        text_message(9, group_id="g", expiration=-1, priority=9),
        text_message(10, content=b"x" * 20_000),
        evolve(text_message(1), producer_id=OTHER, message_id=other),
        text_message(11),
    ]


def kept(version: int, reader: MessageFields | None) -> list[tuple[bytes, bytes]]:
    """Header and body of each message, twice, read by one reader or each by its own."""
    found = []
    for number, message in enumerate(messages() + messages()):
        fields = MessageFields() if reader is None else reader
        fields.read(write_frame(message, version)[4:], version)
        found.append((fields.header(100 + number // 5), fields.body))
    return found


@pytest.mark.parametrize("version", [1, 2, 3, 9, 12])
def test_messages(version: int) -> None:
    reader = MessageFields()
    for message in messages() + messages():
        body = write_frame(message, version)[4:]
        fresh = MessageFields()
        fresh.read(body, version)
        reader.read(body, version)

        assert reader.producer_key == fresh.producer_key == write_nested(message.producer_id, version)
        assert reader.transaction_key == fresh.transaction_key
        assert reader.destination == fresh.destination == message.destination
    assert kept(version, MessageFields()) == kept(version, None)


def written(writer: DispatchWriter, outbox: Outbox, arguments: Any) -> bytes:
    """What one delivery adds to the output."""
    assert writer.send(*arguments)
    assert outbox.size == sum(len(chunk) for chunk in outbox.chunks)
    return outbox.take()


@pytest.mark.parametrize(("version", "of"), [(1, 1), (3, 3), (9, 3), (12, 12), (12, 10), (3, 12), (12, 3)])
def test_deliveries(version: int, of: int) -> None:
    """The client has one version, the messages another."""
    key = write_nested(CONSUMER, version)
    queues = [write_nested(ActiveMQQueue(physical_name=name), 1) for name in ("a", "long.name")]
    first = Outbox(1 << 30, lambda: None)
    writer = DispatchWriter(first, version, 1 << 20, key)
    sequence = 250
    for redeliveries, is_first, now_ms, queue in product((0, 2), (False, True), (500, 501), queues):
        for header, body in kept(of, MessageFields()):
            arguments = (header, body, queue, sequence, redeliveries, now_ms, is_first)
            second = Outbox(1 << 30, lambda: None)
            fresh = DispatchWriter(second, version, 1 << 20, key)

            assert written(writer, first, arguments) == written(fresh, second, arguments)
            sequence += 1


def test_a_delivery_that_is_too_large_leaves_the_next_as_it_is() -> None:
    fields = MessageFields()
    small, large = (write_frame(text_message(1, content=bytes(size)), 12)[4:] for size in (10, 400))
    outboxes = [Outbox(1 << 30, lambda: None) for _ in range(2)]
    key = write_nested(CONSUMER, 12)
    writer, fresh = (DispatchWriter(outbox, 12, 500, key) for outbox in outboxes)
    for body, fits in ((small, True), (large, False), (small, True)):
        fields.read(body, 12)
        assert writer.send(fields.header(1), body, b"\0", 7, 0, 2, False) is fits
    fresh.send(fields.header(1), small, b"\0", 7, 0, 2, False)

    assert outboxes[0].take() == 2 * outboxes[1].take()


@pytest.mark.parametrize("version", [1, 6, 7, 12])
def test_acknowledgements(version: int) -> None:
    consumer = ConsumerId(connection_id=CONNECTION.value, session_id=1, value=3)
    other = MessageId(producer_id=OTHER, producer_sequence_id=1, broker_sequence_id=70)
    all_of_them = [
        message_ack(1, 7),
        message_ack(2, 8),
        message_ack(3, 9, kind=4),
        message_ack(4, 10, first_message_id=None),
        message_ack(5, 11, first_message_id=None),
        message_ack(6, 12, last_message_id=other),
        message_ack(7, 13, consumer_id=consumer),
        message_ack(8, 14, transaction_id=transaction(1)),
        message_ack(9, 15, transaction_id=transaction(2)),
        message_ack(10, 16, message_count=5),
        message_ack(11, -1, last_message_id=None),
        message_ack(12, 1 << 61),
    ]
    reader = AckFields()
    for ack in all_of_them * 2:
        body = write_frame(ack, version)[4:]
        fresh = AckFields()
        fresh.read(body, version)
        reader.read(body, version)
        for name in ("type", "count", "has_first", "first_sequence", "last_sequence", "first_key", "last_key"):
            assert getattr(reader, name) == getattr(fresh, name)
        assert reader.consumer_key == write_nested(ack.consumer_id, version)
        assert reader.transaction_key == (write_nested(ack.transaction_id, version) if ack.transaction_id else b"")


# -- steps of transactions ---------------------------------------------------------------------------------------------


def step(number: int, kind: int, **fields: Any) -> TransactionInfo:
    given: dict[str, Any] = {"command_id": number + 20, "connection_id": CONNECTION}
    return TransactionInfo(**(given | {"transaction_id": transaction(number), "type": kind} | fields))


def test_the_first_step_is_a_record_and_later_ones_are_not() -> None:
    client = Conversation().log_in()
    client.send(step(1, BEGIN), step(1, COMMIT_ONE_PHASE), step(258, BEGIN), step(258, ROLLBACK))
    one, two = (write_nested(transaction(number), 12) for number in (1, 258))

    assert client.calls == [
        ("command", step(1, BEGIN)),
        ("step", one, COMMIT_ONE_PHASE),
        ("step", two, BEGIN),
        ("step", two, ROLLBACK),
    ]


def test_a_step_that_is_not_like_the_last_is_a_record() -> None:
    """Of another size, connection, kind or step."""
    other = ConnectionId(value="ID:host-9-9:9")
    xa = XATransactionId(format_id=1, global_transaction_id=b"g", branch_qualifier=b"b")
    unlike = [
        step(2, BEGIN, connection_id=other),
        step(3, BEGIN, transaction_id=LocalTransactionId(value=3, connection_id=other)),
        step(4, BEGIN, connection_id=None),
        step(5, BEGIN, transaction_id=xa),
        step(6, END),
    ]
    for each in unlike:
        client = Conversation().log_in()
        client.send(step(1, BEGIN), each)
        assert client.calls == [("command", step(1, BEGIN)), ("command", each)]


@pytest.mark.parametrize("version", [1, 12])
def test_steps_that_are_damaged_are_not_known(version: int) -> None:
    reader = StepFields()
    reader.learn(write_frame(step(1, BEGIN), version)[4:], step(1, BEGIN), version)
    body = write_frame(step(2, COMMIT_ONE_PHASE), version)[4:]
    number_at = body.index((2).to_bytes(8, "big"))

    assert reader.read(body)
    for offset in (*range(6, number_at), *range(number_at + 8, len(body))):
        damaged = body[:offset] + bytes((body[offset] ^ 0x81,)) + body[offset + 1 :]
        assert not reader.read(damaged)
    assert not reader.read(body + b"\0")
    assert not reader.read(body[:-1])
