"""The three delivery protocols, seen packet by packet (MQTT 5.0 §4.3, §4.4, §4.6)."""

from itertools import product

import pytest

from tests.interop.mqtt import packets
from tests.interop.mqtt.raw import Raw, kept, opened
from tests.interop.mqtt.server import MqttServer

VERSIONS = (3, 4, 5)


@pytest.mark.parametrize(("version", "sent", "granted"), list(product(VERSIONS, (0, 1, 2), (0, 1, 2))))
def test_messages_arrive_once_in_order_with_the_lower_qos(
    server: MqttServer, name: str, version: int, sent: int, granted: int
) -> None:
    """[MQTT-3.8.4-8] [MQTT-3.1.1/3.8.4-6], [MQTT-4.6.0-5] [MQTT-4.6.0-6]; DUP is not carried over [MQTT-3.3.1-3]."""
    with opened(server, version=version) as subscriber, opened(server, version=version) as publisher:
        assert subscriber.subscribe(name, options=granted) == (granted,)
        for number in range(10):
            assert publisher.publish(name, str(number), sent) < 0x80
        messages = [subscriber.receive() for _ in range(10)]

        assert [message.payload for message in messages] == [str(number).encode() for number in range(10)]
        assert {(message.qos, message.dup, message.retain) for message in messages} == {
            (min(sent, granted), False, False)
        }
        assert subscriber.waiting() == []


@pytest.mark.parametrize("version", VERSIONS)
def test_packet_identifiers_in_flight_differ_and_are_not_zero(server: MqttServer, name: str, version: int) -> None:
    """[MQTT-2.2.1-4], [MQTT-4.3.2-1]."""
    with opened(server, version=version) as subscriber, opened(server, version=version) as publisher:
        subscriber.subscribe(name, options=1)
        for number in range(15):
            publisher.publish(name, str(number), 1)
        identifiers = [subscriber.receive(acknowledge=False).packet_id for _ in range(15)]

        assert len(set(identifiers)) == 15
        assert 0 not in identifiers


@pytest.mark.parametrize("version", VERSIONS)
def test_second_publish_with_the_packet_id_of_an_open_qos_2_exchange_is_not_routed_again(
    server: MqttServer, name: str, version: int
) -> None:
    """[MQTT-4.3.3-10] [MQTT-3.1.1/4.3.3-2]: until PUBREL a repeated PUBLISH is answered and nothing else."""
    with opened(server, version=version) as subscriber, opened(server, version=version) as publisher:
        subscriber.subscribe(name, options=2)
        publisher.send(packets.publish(version, name, b"once", 2, 7))
        assert publisher.expect(packets.PUBREC).packet_id == 7
        publisher.send(packets.publish(version, name, b"once", 2, 7, dup=True))
        assert publisher.expect(packets.PUBREC).packet_id == 7
        publisher.send(packets.answer(packets.PUBREL, 7))
        assert publisher.expect(packets.PUBCOMP).packet_id == 7

        assert subscriber.receive_all(1) == [b"once"]


@pytest.mark.parametrize("version", VERSIONS)
def test_packet_id_is_free_after_pubcomp(server: MqttServer, name: str, version: int) -> None:
    """[MQTT-4.3.3-12]: the next PUBLISH with it is a new message, whatever its DUP flag says."""
    with opened(server, version=version) as subscriber, opened(server, version=version) as publisher:
        subscriber.subscribe(name, options=2)
        for payload, dup in ((b"first", False), (b"second", True)):
            publisher.send(packets.publish(version, name, payload, 2, 9, dup=dup))
            publisher.expect(packets.PUBREC)
            publisher.send(packets.answer(packets.PUBREL, 9))
            publisher.expect(packets.PUBCOMP)

        assert subscriber.receive_all(2) == [b"first", b"second"]


@pytest.mark.parametrize("version", VERSIONS)
def test_packet_id_is_free_after_puback(server: MqttServer, name: str, version: int) -> None:
    """[MQTT-4.3.2-5]: a second QoS 1 PUBLISH with the same id is a new message, even with DUP."""
    with opened(server, version=version) as subscriber, opened(server, version=version) as publisher:
        subscriber.subscribe(name, options=1)
        for dup in (False, True):
            publisher.send(packets.publish(version, name, b"m", 1, 5, dup=dup))
            assert publisher.expect(packets.PUBACK).packet_id == 5

        assert subscriber.receive_all(2) == [b"m", b"m"]


@pytest.mark.parametrize("version", VERSIONS)
def test_both_directions_count_their_packet_ids_alone(server: MqttServer, name: str, version: int) -> None:
    """MQTT 5.0 §2.2.1: the ids of client and server are independent; a client may use the one it has just been sent."""
    with opened(server, version=version) as client:
        client.subscribe(name, options=2)
        client.publish(name, b"one", 2)
        message = client.receive(acknowledge=False)
        client.send(packets.publish(version, name, b"two", 2, message.packet_id))
        assert client.expect(packets.PUBREC).packet_id == message.packet_id
        client.send(packets.answer(packets.PUBREC, message.packet_id))
        assert client.expect(packets.PUBREL).packet_id == message.packet_id
        client.send(packets.answer(packets.PUBCOMP, message.packet_id))
        client.send(packets.answer(packets.PUBREL, message.packet_id))
        assert client.expect(packets.PUBCOMP).packet_id == message.packet_id

        assert client.receive().payload == b"two"


def test_pubrel_of_an_unknown_packet_id_is_answered(server: MqttServer) -> None:
    """[MQTT-4.3.3-11]: with PUBCOMP; 0x92 says that nobody knows it (mosquitto says success)."""
    with opened(server) as client:
        client.send(packets.answer(packets.PUBREL, 1234))
        answer = client.expect(packets.PUBCOMP)

        assert answer.packet_id == 1234
        assert answer.code in (0x00, 0x92)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("kind", [packets.PUBACK, packets.PUBREC, packets.PUBCOMP])
def test_answers_to_nothing_do_no_harm(server: MqttServer, name: str, version: int, kind: int) -> None:
    """MQTT 5.0 §4.13: a client may be a restart ahead; the connection lives, or ends with a reason, and others go
    on.
    """
    with opened(server, version=version) as odd, opened(server, version=version) as other:
        odd.send(packets.answer(kind, 4321))
        other.subscribe(name)
        other.publish(name, b"m")

        assert other.receive().payload == b"m"


@pytest.mark.parametrize("version", VERSIONS)
def test_unacknowledged_messages_come_again_with_dup_and_the_same_ids(
    server: MqttServer, name: str, version: int
) -> None:
    """[MQTT-4.4.0-1], [MQTT-3.3.1-1], in the order of the first time; what was acknowledged does not."""
    client_id = f"c-{name}"
    subscriber = kept(server, client_id, version=version)
    subscriber.subscribe(name, options=2)
    with opened(server, version=version) as publisher:
        for number in range(6):
            publisher.publish(name, str(number), 1 + number % 2)
    before = [subscriber.receive(acknowledge=False) for _ in range(6)]
    subscriber.send(packets.answer(packets.PUBACK, before[0].packet_id))
    subscriber.ping()
    subscriber.drop()
    with kept(server, client_id, version=version) as again:
        after = [again.receive() for _ in range(5)]

        assert [(message.packet_id, message.payload) for message in after] == [
            (message.packet_id, message.payload) for message in before[1:]
        ]
        assert all(message.dup for message in after)
        assert again.waiting() == []


@pytest.mark.parametrize("version", VERSIONS)
def test_pubrel_is_repeated_instead_of_the_message(server: MqttServer, name: str, version: int) -> None:
    """[MQTT-4.3.3-6] [MQTT-3.1.1/4.3.3-1], [MQTT-4.4.0-1]: after PUBREC the message is never sent again."""
    client_id = f"c-{name}"
    subscriber = kept(server, client_id, version=version)
    subscriber.subscribe(name, options=2)
    with opened(server, version=version) as publisher:
        publisher.publish(name, b"m", 2)
    message = subscriber.receive(acknowledge=False)
    subscriber.send(packets.answer(packets.PUBREC, message.packet_id))
    assert subscriber.expect(packets.PUBREL).packet_id == message.packet_id
    subscriber.drop()
    with kept(server, client_id, version=version) as again:
        assert again.expect(packets.PUBREL).packet_id == message.packet_id
        again.send(packets.answer(packets.PUBCOMP, message.packet_id))

        assert again.waiting() == []


@pytest.mark.parametrize("version", VERSIONS)
def test_open_qos_2_exchange_of_a_publisher_is_finished_after_it_comes_back(
    server: MqttServer, name: str, version: int
) -> None:
    """[MQTT-4.3.3-10], [MQTT-4.1.0-1]: the packet id is part of the session; a repetition adds no message."""
    client_id = f"c-{name}"
    with opened(server, version=version) as subscriber:
        subscriber.subscribe(name, options=2)
        publisher = kept(server, client_id, version=version)
        publisher.send(packets.publish(version, name, b"once", 2, 3))
        publisher.expect(packets.PUBREC)
        publisher.drop()
        with kept(server, client_id, version=version) as again:
            again.send(packets.publish(version, name, b"once", 2, 3, dup=True))
            assert again.expect(packets.PUBREC).packet_id == 3
            again.send(packets.answer(packets.PUBREL, 3))
            assert again.expect(packets.PUBCOMP).packet_id == 3

            assert subscriber.receive_all(1) == [b"once"]


def test_message_refused_by_its_receiver_is_not_sent_again(server: MqttServer, name: str) -> None:
    """[MQTT-4.4.0-2]: PUBACK and PUBREC with 0x80 and above end the delivery."""
    client_id = f"c-{name}"
    subscriber = kept(server, client_id)
    subscriber.subscribe(name, options=2)
    with opened(server) as publisher:
        publisher.publish(name, b"1", 1)
        publisher.publish(name, b"2", 2)
        publisher.publish(name, b"3", 1)
    for kind in (packets.PUBACK, packets.PUBREC):
        message = subscriber.receive(acknowledge=False)
        subscriber.send(packets.answer(kind, message.packet_id, 0x83))
    subscriber.ping()
    subscriber.drop()
    with kept(server, client_id) as again:
        assert again.receive_all(1) == [b"3"]


@pytest.mark.parametrize("version", VERSIONS)
def test_qos_0_messages_are_sent_to_nobody_later(server: MqttServer, name: str, version: int) -> None:
    """MQTT 5.0 §4.3.1: a subscription of QoS 0 whose client is away may lose its messages; it never repeats them."""
    client_id = f"c-{name}"
    with kept(server, client_id, version=version) as subscriber:
        subscriber.subscribe(name, options=0)
        with opened(server, version=version) as publisher:
            publisher.publish(name, b"1")
            assert subscriber.receive().payload == b"1"
    with kept(server, client_id, version=version) as again:
        assert again.waiting() == []


@pytest.mark.parametrize("version", VERSIONS)
def test_large_message_arrives(server: MqttServer, name: str, version: int) -> None:
    """Every length of the length field: 1, 2, 3 and 4 octets."""
    with opened(server, version=version) as client:
        client.subscribe(name, options=1)
        for size in (0, 1, 200, 20_000, 3_000_000):
            payload = bytes(index % 251 for index in range(size)) if size < 1000 else b"0123456789" * (size // 10)
            assert client.publish(name, payload, 1) < 0x80
            assert client.receive().payload == payload


@pytest.mark.parametrize("version", VERSIONS)
def test_pipelined_messages_of_one_write_arrive_in_order(server: MqttServer, name: str, version: int) -> None:
    """[MQTT-4.6.0-5]: a thousand packets in one write, their answers in order [MQTT-4.6.0-2]."""
    with opened(server, version=version) as subscriber, opened(server, version=version) as publisher:
        subscriber.subscribe(name, options=0)
        limit = publisher.limit(packets.Property.RECEIVE_MAXIMUM, 65535)
        count = min(1000, limit)
        publisher.send(
            b"".join(packets.publish(version, name, str(number).encode(), 1, number + 1) for number in range(count))
        )
        answers = [publisher.expect(packets.PUBACK).packet_id for _ in range(count)]

        assert answers == list(range(1, count + 1))
        assert subscriber.receive_all(count) == [str(number).encode() for number in range(count)]


def test_octet_by_octet_is_read_like_one_write(server: MqttServer, name: str) -> None:
    """[MQTT-4.2-1]: the stream has no packet borders."""
    with Raw(server) as client:
        for octet in packets.connect(5, f"c-{name}"):
            client.send(bytes([octet]))
        assert client.read().code == 0
        for octet in packets.subscribe(5, 1, [(name, 1)]) + packets.publish(5, name, b"m", 1, 2):
            client.send(bytes([octet]))
        client.expect(packets.SUBACK)
        client.expect(packets.PUBACK)

        assert client.receive().payload == b"m"
