"""What goes in comes out: bytes, sections, sizes and settlement."""

import uuid
from typing import Any, Final

import pytest
from proton import (
    UNDESCRIBED,
    Array,
    Data,
    Delivery,
    Described,
    Message,
    byte,
    char,
    decimal32,
    decimal64,
    decimal128,
    float32,
    int32,
    short,
    symbol,
    timestamp,
    ubyte,
    uint,
    ulong,
    ushort,
)

from tests.interop.broker_process import BrokerProcess
from tests.interop.proton.client import Client, Refused, bare_message, encode

EVERY_TYPE: Final[dict[str, Any]] = {
    "null": None,
    "true": True,
    "false": False,
    "ubyte": ubyte(255),
    "ushort": ushort(65535),
    "uint": uint(4294967295),
    "uint0": uint(0),
    "ulong": ulong(18446744073709551615),
    "ulong0": ulong(0),
    "byte": byte(-128),
    "short": short(-32768),
    "int": int32(-2147483648),
    "small int": int32(-1),
    "long": -9223372036854775808,
    "small long": 1,
    "float": float32(1.5),
    "double": 2.5,
    "infinity": float("inf"),
    "decimal32": decimal32(1),
    "decimal64": decimal64(2),
    "decimal128": decimal128(bytes(range(16))),
    "char": char("\U0001f600"),
    "timestamp": timestamp(1700000000123),
    "uuid": uuid.UUID("12345678-1234-5678-1234-567812345678"),
    "binary": b"\x00\xff" * 3,
    "long binary": bytes(300),
    "string": "gr\u00fc\u00dfe \U0001f600",
    "long string": "x" * 300,
    "symbol": symbol("sym"),
    "empty list": [],
    "list": [1, "two", [None]],
    "map": {"a": 1, "b": {"c": symbol("d")}},
    "described": Described(symbol("my:type"), [1, 2]),
    "array": Array(UNDESCRIBED, Data.INT, int32(1), int32(2)),
    "nested": {"deep": [{"deeper": [b"bytes", uint(7)]}]},
}


@pytest.mark.parametrize("kind", EVERY_TYPE)
def test_body_of_every_type_comes_out_as_it_went_in(broker: BrokerProcess, name: str, kind: str) -> None:
    """AMQP 1.0 §3.2: the bare message is immutable; so its bytes are equal, not only its meaning."""
    sent = Message(id="m1", body=EVERY_TYPE[kind])
    with Client(broker.url) as client:
        client.send(name, sent)
        received = client.receive(name)

    assert received.body == EVERY_TYPE[kind]
    assert received.bare == bare_message(encode(sent))


def test_bare_message_with_all_sections_is_passed_through_byte_for_byte(broker: BrokerProcess, name: str) -> None:
    """Wide encodings, several data sections and a footer: not ours to normalise (AMQP 1.0 §3.2)."""
    data = b"\x00\x53\x75\xb0\x00\x00\x00\x03abc" + b"\x00\x53\x75\xa0\x03def"
    application = _map_section(0x74, b"\xb1\0\0\0\x03key" + b"\xb1\0\0\0\x03val")
    properties = _wide_list_section(0x73, b"\xb1\0\0\0\x06wide-1", 1)
    footer = _map_section(0x78, b"\xa3\x04foot" + b"\x55\x01")
    bare = properties + application + data + footer
    with Client(broker.url) as client:
        client.send(name, bytes.fromhex("005370c0020141") + bare)
        received = client.receive(name)

    assert received.data.endswith(bare)
    assert received.message.durable


def test_message_of_many_frames_arrives_whole(broker: BrokerProcess, name: str) -> None:
    """AMQP 1.0 §2.6.14: one delivery over as many transfers as the peers' max-frame-size makes it."""
    body = bytes(range(256)) * 4096 * 3
    with Client(broker.url, max_frame_size=4096) as client:
        client.send(name, Message(body=body))
        received = client.receive(name)

    assert received.body == body


def test_message_of_many_frames_interleaves_with_another_link(broker: BrokerProcess, name: str) -> None:
    """AMQP 1.0 §2.6.14: deliveries of different links of a session may interleave."""
    with Client(broker.url, max_frame_size=512) as client:
        first, second = client.sender(name + "-1"), client.sender(name + "-2")
        deliveries = [first.start(Message(body=b"1" * 200_000)), second.start(Message(body=b"2" * 200_000))]
        for sender, delivery in zip((first, second), deliveries, strict=True):
            sender.wait(delivery)
            delivery.settle()
        bodies = [client.receive(f"{name}-{number}").body for number in (1, 2)]

    assert bodies == [b"1" * 200_000, b"2" * 200_000]


def test_aborted_delivery_leaves_nothing(broker: BrokerProcess, name: str) -> None:
    """AMQP 1.0 §2.7.5: an aborted delivery is discarded, the link goes on."""
    with Client(broker.url, max_frame_size=512) as client:
        sender = client.sender(name)
        delivery = sender.link.delivery("aborted")
        sender.link.stream(b"\x00\x53\x75\xb0\x00\x01\x00\x00" + bytes(10_000))
        client.sync()
        delivery.abort()
        sender.send("after")

        assert client.bodies(name) == ["after"]


def test_settled_send_arrives(broker: BrokerProcess, name: str) -> None:
    """AMQP 1.0 §2.8.2: a pre-settled transfer is answered by nothing."""
    with Client(broker.url) as client:
        client.sender(name, settled=True).send("once", settled=True)

        assert client.bodies(name) == ["once"]


def test_settled_delivery_is_gone_when_it_was_sent(broker: BrokerProcess, name: str) -> None:
    """AMQP 1.0 §2.8.2: with snd-settle-mode settled nothing is ever returned to the queue."""
    with Client(broker.url) as client:
        client.send(name, "once")
        receiver = client.receiver(name, settled=True)
        received = receiver.receive()
        settled = received.delivery.settled
        receiver.close()

        assert settled
        assert client.bodies(name) == []


def test_unsettled_send_is_accepted(broker: BrokerProcess, name: str) -> None:
    """AMQP 1.0 §3.4.2: accepted, and settled by the broker since the link is rcv-settle-mode first."""
    with Client(broker.url) as client:
        sender = client.sender(name)
        delivery = sender.start("m")
        state = sender.wait(delivery)
        client.wait(lambda: delivery.settled, "settlement")

    assert state == Delivery.ACCEPTED


def test_messages_keep_their_order(broker: BrokerProcess, name: str) -> None:
    """One producer, one queue, one consumer: first in, first out."""
    with Client(broker.url) as client:
        sender = client.sender(name)
        deliveries = [sender.start(Message(body=number)) for number in range(500)]
        for delivery in deliveries:
            sender.wait(delivery)
        receiver = client.receiver(name)
        received = [one.body for one in receiver.drain(500)]

    assert received == list(range(500))


def test_higher_priority_is_delivered_first(broker: BrokerProcess, name: str) -> None:
    """AMQP 1.0 §3.2.1 priority: ten levels, default 4, order kept inside a level."""
    with Client(broker.url) as client:
        for number, priority in enumerate([0, 4, 9, 4, 1, 9]):
            client.send(name, Message(body=number, priority=priority))

        assert client.bodies(name) == [2, 5, 1, 3, 4, 0]


def test_header_fields_reach_the_consumer(broker: BrokerProcess, name: str) -> None:
    """AMQP 1.0 §3.2.1: durable, priority and first delivery."""
    with Client(broker.url) as client:
        client.send(name, Message(body="m", durable=True, priority=7))
        message = client.receive(name).message

    assert (message.durable, message.priority, message.delivery_count) == (True, 7, 0)


def test_message_without_header_is_not_durable(broker: BrokerProcess, name: str) -> None:
    """AMQP 1.0 §3.2.1: the defaults hold when the section is absent."""
    with Client(broker.url) as client:
        client.send(name, Message(body="m"))
        message = client.receive(name).message

    assert (message.durable, message.priority) == (False, 4)


def test_properties_and_annotations_reach_the_consumer(broker: BrokerProcess, name: str) -> None:
    """AMQP 1.0 §3.2.3 to §3.2.5: every field; unknown message annotations travel with the message."""
    sent = Message(
        id=uuid.UUID(int=1),
        user_id=b"user",
        address=name,
        subject="subject",
        reply_to="reply",
        correlation_id=ulong(7),
        content_type=symbol("text/plain"),
        content_encoding=symbol("gzip"),
        expiry_time=0,
        creation_time=1700000000.0,
        group_id="group",
        group_sequence=3,
        reply_to_group_id="other",
        properties={"s": "t", "n": 1, "b": True},
        annotations={symbol("x-opt-mine"): "kept"},
        body="m",
    )
    with Client(broker.url) as client:
        client.send(name, sent)
        received = client.receive(name)
    message = received.message

    assert message.id == uuid.UUID(int=1)
    assert message.correlation_id == 7
    assert message.properties == {"s": "t", "n": 1, "b": True}
    assert (message.user_id, message.address, message.subject, message.reply_to) == (b"user", name, "subject", "reply")
    assert (message.content_type, message.content_encoding) == ("text/plain", "gzip")
    assert (message.group_id, message.group_sequence, message.reply_to_group_id) == ("group", 3, "other")
    assert received.annotations["x-opt-mine"] == "kept"


def test_delivery_annotations_do_not_pass_the_broker(broker: BrokerProcess, name: str) -> None:
    """AMQP 1.0 §3.2.2: they concern one hop."""
    with Client(broker.url) as client:
        client.send(name, Message(instructions={symbol("x-hop"): 1}, body="m"))
        message = client.receive(name).message

    assert symbol("x-hop") not in (message.instructions or {})


def test_message_without_body_is_passed_on(broker: BrokerProcess, name: str) -> None:
    """Artemis and JMS producers send a plain Message with an empty value section."""
    with Client(broker.url) as client:
        client.send(name, b"\x00\x53\x77\x40")
        received = client.receive(name)

    assert received.bare == b"\x00\x53\x77\x40"


def test_two_queues_do_not_mix(broker: BrokerProcess, name: str) -> None:
    """An address is an end-point of its own."""
    with Client(broker.url) as client:
        client.send(name + ".a", "a")
        client.send(name + ".b", "b")

        assert client.bodies(name + ".a") == ["a"]
        assert client.bodies(name + ".b") == ["b"]


def test_expired_message_is_moved_to_the_expiry_address(broker: BrokerProcess, name: str) -> None:
    """AMQP 1.0 §3.2.1 ttl; artemis-model §3.9: a copy with its origin annotated, found by the scanner."""
    with Client(broker.url) as client:
        expired = client.receiver("ExpiryQueue", selector=f"JMSType = '{name}'")
        client.send(name, Message(body=name, ttl=0.001, subject=name))
        received = expired.receive()
        received.accept()

        assert received.body == name
        assert received.annotations["x-opt-ORIG-ADDRESS"] == name
        assert received.annotations["x-opt-ORIG-QUEUE"] == name
        assert received.message.ttl == 0
        assert client.bodies(name) == []


def test_message_whose_time_to_live_is_not_over_is_delivered(broker: BrokerProcess, name: str) -> None:
    """AMQP 1.0 §3.2.1: the ttl a consumer sees is what is left, at most what was given."""
    with Client(broker.url) as client:
        client.send(name, Message(body="m", ttl=60.0))
        message = client.receive(name).message

    assert 0 < message.ttl <= 60.0


def test_rejected_message_names_its_error(broker: BrokerProcess, name: str) -> None:
    """AMQP 1.0 §3.4.3; artemis-model §3.15: FAIL answers rejected `amqp:resource-limit-exceeded`."""
    address = f"full.fail.{name}"
    with Client(broker.url) as client:
        sender = client.sender(address)
        for body in ("1", "2", "3"):
            sender.send(body)
        with pytest.raises(Refused) as refused:
            sender.send("4")

        assert refused.value.condition == "amqp:resource-limit-exceeded"
        assert client.bodies(address) == ["1", "2", "3"]


def test_dropped_message_looks_accepted(broker: BrokerProcess, name: str) -> None:
    """artemis-model §3.15: DROP is silent."""
    address = f"full.drop.{name}"
    with Client(broker.url) as client:
        sender = client.sender(address)
        for body in ("1", "2", "3", "4"):
            sender.send(body)

        assert client.bodies(address) == ["1", "2", "3"]


def test_blocked_producer_gets_credit_again_when_there_is_room(broker: BrokerProcess, name: str) -> None:
    """artemis-model §3.15: BLOCK withholds link credit, and grants it once consumers made room."""
    address = f"full.block.{name}"
    with Client(broker.url) as producer, Client(broker.url) as consumer:
        producer.send(address, "1", "2", "3")
        sender = producer.sender(address)
        producer.sync()
        held = sender.link.credit
        taken = consumer.bodies(address)
        sender.send("4")

        assert held == 0
        assert taken == ["1", "2", "3"]
        assert consumer.bodies(address) == ["4"]


def _wide_list_section(code: int, items: bytes, number: int) -> bytes:
    """A list section in its widest form: ulong descriptor of nine bytes, list32."""
    return (
        b"\x00\x80"
        + code.to_bytes(8, "big")
        + b"\xd0"
        + (len(items) + 4).to_bytes(4, "big")
        + number.to_bytes(4, "big")
        + items
    )


def _map_section(code: int, items: bytes) -> bytes:
    """A map section of one pair in the map32 form."""
    return bytes((0, 0x53, code)) + b"\xd1" + (len(items) + 4).to_bytes(4, "big") + (2).to_bytes(4, "big") + items


def test_delivery_tags_can_be_read_as_text(broker: BrokerProcess, name: str) -> None:
    """AMQP 1.0 §2.8.7: Proton's Python decodes them, and raises for what is no text; each is another."""
    with Client(broker.url) as client:
        sender = client.sender(name)
        for delivery in [sender.start("m") for _ in range(300)]:
            sender.wait(delivery)
        received = client.receiver(name).receive_many(300)

        assert len({one.delivery.tag for one in received}) == 300


def test_a_delivery_of_nothing_is_rejected(broker: BrokerProcess, name: str) -> None:
    """AMQP 1.0 §3.2: without any section it is no message."""
    with Client(broker.url) as client:
        sender = client.sender(name)
        with pytest.raises(Refused) as refused:
            sender.send(b"")
        sender.send("m")

        assert refused.value.condition == "amqp:decode-error"
        assert client.bodies(name) == ["m"]
