"""PUBLISH and its acknowledgements, both ways."""

import pytest

from artemis_mqtt.engine import reasons
from artemis_mqtt.engine.delivery import MAX_PACKET_ID, Delivery
from artemis_mqtt.engine.flight import RELEASED, SENT, OutgoingFlight
from artemis_mqtt.engine.limits import ConnectionLimits
from artemis_mqtt.engine.packets import MQTT_5, Connect, Disconnect, Subscribe, Subscription, Unsubscribe
from artemis_mqtt.engine.properties import Properties, write_properties
from artemis_mqtt.engine.publish import encode_publish, expiry_property, subscription_identifier_property
from artemis_mqtt.engine.reasons import PacketError
from artemis_mqtt.engine.topics import topic_field
from tests.mqtt_harness import VERSIONS, Conversation, Recorder, ack, publish, subscribe, unsubscribe

PUBACK, PUBREC, PUBREL, PUBCOMP = 4, 5, 6, 7


def opened(version: int = 5, properties: Properties | None = None, **limits: int) -> Conversation:
    """A client that is in."""
    client = Conversation(version, ConnectionLimits(**limits))
    client.open(Connect(client_id="c1", properties=properties or Properties()))
    return client


# -- from the client ---------------------------------------------------------------------------------------------


def identifiers(flight: OutgoingFlight) -> list[int]:
    """The packet identifiers that are under way, in the order of sending."""
    return [delivery.packet_id for delivery in flight.deliveries.in_order()]


def send_pubrel(client: Conversation, packet_id: int) -> None:
    """The broker releases a delivery."""
    delivery = client.engine.outgoing.deliveries.get(packet_id)
    assert delivery is not None
    client.engine.acks.send_pubrels(packet_id, 1)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("qos", [0, 1, 2])
@pytest.mark.parametrize("retain", [False, True])
@pytest.mark.parametrize("payload", [b"", b"x", b"x" * 130, b"x" * 20000])
def test_publish_in_every_version(version: int, qos: int, retain: bool, payload: bytes) -> None:
    """[MQTT-3.3.1-1] [MQTT-2.2.1-2] MQTT 5.0 §3.3: topic, identifier where there is one, and any payload, also none."""
    client = opened(version)
    client.send(publish(version, "a/b", payload, qos, 7 if qos else 0, retain=retain, dup=qos > 0))

    assert client.calls == [("publish", "a/b", payload, qos, retain, qos > 0, 7 if qos else 0, b"", -1)]


def test_publish_with_properties() -> None:
    """MQTT 5.0 §3.3.2.3: what belongs to the hop is taken out, the rest is handed on as it came."""
    client = opened()
    kept = Properties(content_type="t", user_properties=(("a", "b"),))
    for properties in (
        Properties(content_type="t", user_properties=(("a", "b"),), message_expiry_interval=9, topic_alias=1),
        kept,
    ):
        client.send(publish(5, "a", b"x", properties=properties))

    octets = write_properties(kept)
    assert [call[-2:] for call in client.calls] == [(octets, 9), (octets, -1)]


@pytest.mark.parametrize("version", VERSIONS)
def test_each_quality_of_service_has_its_answer(version: int) -> None:
    """[MQTT-4.3.2-4] [MQTT-4.3.3-8] [MQTT-4.3.3-11] [MQTT-2.2.1-5] [MQTT-3.3.4-1] with its identifier."""
    client = opened(version)

    assert client.send(publish(version, "a", b"", 0)) == []
    assert client.send(publish(version, "a", b"", 1, 65535)) == [("puback", 65535, 0)]
    assert client.send(publish(version, "a", b"", 2, 256)) == [("pubrec", 256, 0)]
    assert client.send(ack(PUBREL, 256)) == [("pubcomp", 256, 0)]


def test_answers_go_out_in_the_order_of_the_messages() -> None:
    """[MQTT-4.6.0-2] [MQTT-4.6.0-3]"""
    client = opened()
    answers = client.send(b"".join(publish(5, "a", b"", 1 + n % 2, n) for n in range(1, 7)))

    assert [answer[1] for answer in answers] == [1, 2, 3, 4, 5, 6]


@pytest.mark.parametrize("version", VERSIONS)
def test_a_message_of_qos_2_is_taken_once(version: int) -> None:
    """[MQTT-4.3.3-10] [MQTT-4.3.3-12] until PUBREL one identifier is one message, DUP or not; then another."""
    client = opened(version)
    client.send(publish(version, "a", b"1", 2, 5))
    assert client.send(publish(version, "a", b"1", 2, 5, dup=True)) == [("pubrec", 5, 0)]
    assert client.send(publish(version, "a", b"1", 2, 5)) == [("pubrec", 5, 0)]
    client.send(ack(PUBREL, 5) + publish(version, "a", b"2", 2, 5))

    assert [call[:3] for call in client.calls] == [
        ("publish", "a", b"1"),
        ("duplicate", 5),
        ("duplicate", 5),
        ("pubrel", 5),
        ("publish", "a", b"2"),
    ]


def test_a_message_of_qos_2_is_taken_once_over_connections() -> None:
    """[MQTT-4.3.3-10] identifiers received belong to the session."""
    first = opened()
    first.send(publish(5, "a", b"1", 2, 5))
    handler = Recorder()
    handler.incoming = first.handler.incoming
    second = Conversation(5, handler=handler)
    second.open()

    assert second.send(publish(5, "a", b"1", 2, 5, dup=True)) == [("pubrec", 5, 0)]
    assert second.calls == [("duplicate", 5)]


def test_a_message_of_qos_1_is_new_whenever_it_comes() -> None:
    """[MQTT-4.3.2-5] its identifier is free as soon as it was answered, and nobody compares."""
    client = opened()
    client.send(publish(5, "a", b"1", 1, 5) + publish(5, "a", b"1", 1, 5, dup=True))

    assert len(client.calls) == 2


def test_a_refused_message_of_qos_2_leaves_no_trace() -> None:
    """[MQTT-4.3.3-9] PUBREC of 0x80 or more frees the identifier."""
    client = opened()
    client.handler.answers = False
    client.send(publish(5, "a", b"1", 2, 5))
    client.pubrec(5, reasons.NOT_AUTHORIZED)
    assert client.read() == [("pubrec", 5, reasons.NOT_AUTHORIZED)]
    client.send(publish(5, "a", b"2", 2, 5))

    assert [call[2] for call in client.calls] == [b"1", b"2"]


def test_answers_with_a_reason() -> None:
    """[MQTT-3.4.2-1] [MQTT-3.5.2-1] [MQTT-3.7.2-1] [MQTT-3.11.3-2] the code behind the identifier; 0 is left out."""
    client = opened()
    client.puback(1, reasons.QUOTA_EXCEEDED)
    client.puback(2, reasons.NO_MATCHING_SUBSCRIBERS)
    client.pubrec(3, reasons.NOT_AUTHORIZED)
    client.pubcomp(4)
    client.engine.send_unsuback(5, [0, reasons.NO_SUBSCRIPTION_EXISTED])

    assert client.engine.data_to_send().hex(" ", -100) == "40030001974003000210500300038770020004b0050005000011"


@pytest.mark.parametrize("version", [3, 4])
def test_3_has_no_words_for_a_refused_message(version: int) -> None:
    """[3.1.1: MQTT-3.3.5-2] acknowledged, or the connection closed: here acknowledged, and the identifier held."""
    client = opened(version)
    client.handler.answers = False
    client.send(publish(version, "a", b"1", 1, 4) + publish(version, "a", b"1", 2, 5))
    client.puback(4, reasons.NOT_AUTHORIZED)
    client.pubrec(5, reasons.NOT_AUTHORIZED)

    assert client.engine.data_to_send().hex() == "40020004" + "50020005"
    assert client.handler.incoming.received == {5}


@pytest.mark.parametrize("version", VERSIONS)
def test_an_unknown_pubrel_is_answered_all_the_same(version: int) -> None:
    """[MQTT-4.3.3-11] so that the client can forget the identifier, too; version 5 says that nobody knew it."""
    client = opened(version)

    assert client.send(ack(PUBREL, 5)) == [("pubcomp", 5, 0x92 if version == 5 else 0)]
    assert client.calls == []


@pytest.mark.parametrize(
    ("version", "octets"),
    [
        (5, "36 06 0001 61 0001 00"),  # QoS 3
        (5, "38 04 0001 61 00"),  # QoS 0 with DUP
        (5, "32 06 0001 61 0000 00"),  # packet identifier 0
        (5, "32 04 0001 61 00"),  # no room for one
        (5, "30 03 0001 61"),  # no room for properties
        (5, "30 04 0001 61 05"),  # properties longer than the packet
        (5, "30 01 00"),
        (5, "30 03 0005 61"),
        (4, "36 05 0001 61 0001"),
        (4, "38 03 0001 61"),
        (4, "32 05 0001 61 0000"),
        (4, "30 02 0000"),
        (4, "30 03 0001 2b"),
        (4, "30 03 0001 00"),
        (4, "30 03 0001 ff"),
    ],
)
def test_a_malformed_publish(version: int, octets: str) -> None:
    """[MQTT-3.3.1-2] [MQTT-3.3.1-4] [MQTT-3.3.2-1] [MQTT-3.3.2-2] [MQTT-2.2.1-3] [3.1.1: MQTT-3.3.1-4]"""
    client = opened(version)
    answer = client.send(bytes.fromhex(octets))

    assert client.failure() == reasons.MALFORMED_PACKET
    assert [one.reason for one in answer] == ([reasons.MALFORMED_PACKET] if version == 5 else [])


def test_what_was_legal_before_a_violation_counts() -> None:
    """However TCP cut the stream; and nothing behind it does."""
    client = opened()
    answers = client.send(publish(5, "a", b"1", 1, 1) + b"\x36\x00" + publish(5, "a", b"2", 1, 2))

    assert [call[0] for call in client.calls] == ["publish", "failed"]
    assert answers == [("puback", 1, 0), answers[1]]
    assert isinstance(answers[1], Disconnect)


def test_more_topics_than_are_kept_decoded() -> None:
    """What is kept is a matter of speed only."""
    client = opened(4)
    topics = [f"t/{n}" for n in range(1500)] * 2 + ["x" * 300]
    client.send(b"".join(publish(4, topic) for topic in topics))

    assert [call[1] for call in client.calls] == topics
    assert len(client.engine.reader._topics) <= 1024


# -- topic aliases -----------------------------------------------------------------------------------------------


def test_topic_aliases_of_the_client() -> None:
    """[MQTT-3.3.2-7] [MQTT-3.3.2-12] MQTT 5.0 §3.3.2.3.4: set, used, set anew; up to the maximum that CONNACK gave."""
    client = opened(topic_alias_maximum=2)
    one, two = Properties(topic_alias=1), Properties(topic_alias=2)
    for topic, properties in (("a", one), ("b", two), ("", one), ("c", one), ("", one), ("", two)):
        client.send(publish(5, topic, properties=properties))

    assert [call[1] for call in client.calls] == ["a", "b", "a", "c", "c", "b"]


@pytest.mark.parametrize(
    ("topic", "alias", "reason"),
    [
        ("a", 3, reasons.TOPIC_ALIAS_INVALID),
        ("", 1, reasons.TOPIC_ALIAS_INVALID),
        ("", None, reasons.PROTOCOL_ERROR),
    ],
)
def test_topic_aliases_that_are_none(topic: str, alias: int | None, reason: int) -> None:
    """[MQTT-3.3.2-9] [MQTT-3.2.2-17] above the maximum, unknown on this connection, or neither topic nor alias."""
    for other in (Properties(), Properties(content_type="a")):
        client = opened(topic_alias_maximum=2)
        octets = write_properties(other) + (b"" if alias is None else b"\x23\x00" + bytes((alias,)))
        client.send(encode_publish(True, topic_field(topic), b"", 0, False, False, 0, octets))

        assert client.failure() == reason


def test_without_a_maximum_there_are_no_aliases() -> None:
    """[MQTT-3.2.2-18] and CONNACK says so by saying nothing."""
    client = Conversation(5, ConnectionLimits(topic_alias_maximum=0))
    assert client.open().properties.topic_alias_maximum is None
    client.send(publish(5, "a", properties=Properties(topic_alias=1)))

    assert client.failure() == reasons.TOPIC_ALIAS_INVALID


def test_aliases_end_with_their_connection() -> None:
    """[MQTT-3.3.2-7]"""
    opened().send(publish(5, "a", properties=Properties(topic_alias=1)))
    client = opened()
    client.send(publish(5, "", properties=Properties(topic_alias=1)))

    assert client.failure() == reasons.TOPIC_ALIAS_INVALID


# -- receive maximum ---------------------------------------------------------------------------------------------


def test_a_client_keeps_to_the_receive_maximum() -> None:
    """[MQTT-3.3.4-7] MQTT 5.0 §3.3.4, §4.9: QoS 1 counts until PUBACK, QoS 2 until PUBCOMP or a refusal; QoS 0
    never.
    """
    client = opened(receive_maximum=2)
    client.handler.answers = False
    client.send(publish(5, "a", b"", 1, 1) + publish(5, "a", b"", 2, 2) + publish(5, "a"))
    client.puback(1)
    client.pubrec(2)
    client.send(ack(PUBREL, 2) + publish(5, "a", b"", 2, 3))
    client.pubrec(3, reasons.QUOTA_EXCEEDED)
    client.pubcomp(2)
    client.send(publish(5, "a", b"", 1, 4) + publish(5, "a", b"", 1, 5))
    assert client.engine.is_open
    answer = client.send(publish(5, "a", b"", 1, 6))

    assert [one.reason for one in answer] == [reasons.RECEIVE_MAXIMUM_EXCEEDED]
    assert client.failure() == reasons.RECEIVE_MAXIMUM_EXCEEDED


def test_a_release_from_before_opens_no_more_than_there_is() -> None:
    """MQTT 5.0 §4.9: PUBCOMP for a message of an earlier connection."""
    client = Conversation(5, ConnectionLimits(receive_maximum=1))
    client.handler.incoming.received = {8, 9}
    client.open()
    client.send(ack(PUBREL, 8) + ack(PUBREL, 9))
    client.handler.answers = False
    client.send(publish(5, "a", b"", 1, 1) + publish(5, "a", b"", 1, 2))

    assert client.failure() == reasons.RECEIVE_MAXIMUM_EXCEEDED


@pytest.mark.parametrize("version", [3, 4])
def test_3_has_as_many_in_flight_as_there_are_identifiers(version: int) -> None:
    """There is no Receive Maximum; more than 65535 cannot be told apart."""
    client = opened(version, receive_maximum=1)
    client.handler.answers = False
    client.send(b"".join(publish(version, "a", b"", 1, n) for n in range(1, MAX_PACKET_ID + 1)))
    assert client.engine.is_open
    client.send(publish(version, "a", b"", 1, 1))

    assert client.failure() == reasons.RECEIVE_MAXIMUM_EXCEEDED


# -- to the client -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("qos", [0, 1, 2])
@pytest.mark.parametrize("size", [0, 100, 600, 20000])
def test_a_delivery_in_every_version(version: int, qos: int, size: int) -> None:
    """[MQTT-3.3.2-1] [MQTT-3.3.1-2] [MQTT-4.3.1-1] MQTT 5.0 §3.3; only version 5 is told properties."""
    client = opened(version)
    packet_id = client.engine.outgoing.add(qos, "m") if qos else 0
    octets = write_properties(Properties(content_type="t")) + expiry_property(9) + subscription_identifier_property(300)
    sent = client.engine.writer.send(topic_field("a/b"), bytes(size), qos, True, qos == 2, packet_id, octets)

    properties = Properties(content_type="t", message_expiry_interval=9, subscription_identifiers=(300,))
    expected = Properties() if version != 5 else properties
    assert sent
    assert client.read() == [("publish", "a/b", bytes(size), qos, packet_id, True, qos == 2, expected)]


@pytest.mark.parametrize("size", [127, 128, 129, 16383, 16384, 16385, 2097151, 2097152])
def test_a_packet_at_every_change_of_its_length(size: int) -> None:
    """MQTT 5.0 §2.1.4: the remaining length has one more octet."""
    client = opened(4)
    payload = bytes(size - 3)
    client.send(publish(4, "a", payload))
    client.engine.writer.send(topic_field("a"), payload, 0, False, False, 0, b"")

    assert [len(call[2]) for call in client.calls] == [size - 3]
    assert [len(packet[2]) for packet in client.read()] == [size - 3]


@pytest.mark.parametrize("version", VERSIONS)
def test_deliveries_that_differ_from_the_one_before(version: int) -> None:
    """The beginning of a packet is that of the packet before only if nothing in it differs."""
    client = opened(version)
    one, other = topic_field("a/1"), topic_field("b/2")
    content = write_properties(Properties(content_type="x"))
    sent = [
        (one, b"xx", 0, False, b""),
        (one, b"yy", 0, False, b""),
        (other, b"yy", 0, False, b""),
        (other, b"yy", 0, True, b""),
        (other, b"yyy", 0, True, b""),
        (other, b"y", 1, True, b""),
        (other, b"y", 2, True, b""),
        (one, b"", 0, False, b""),
        (one, b"x" * 200, 0, False, content),
        (one, b"x" * 200, 0, False, b""),
    ]
    for field, payload, qos, retain, properties in sent:
        client.engine.writer.send(field, payload, qos, retain, False, 0x1234 if qos else 0, properties)

    expected = [
        encode_publish(version == MQTT_5, field, payload, qos, retain, False, 0x1234, properties)
        for field, payload, qos, retain, properties in sent
    ]
    assert client.engine.data_to_send() == b"".join(expected)


@pytest.mark.parametrize("version", VERSIONS)
def test_deliveries_of_qos_1_and_2(version: int) -> None:
    """[MQTT-4.3.2-1] [MQTT-4.3.2-2] [MQTT-4.3.3-1] [MQTT-4.3.3-2] [MQTT-4.3.3-4] [MQTT-4.3.3-5]
    [MQTT-4.3.2-3] [MQTT-4.3.3-3]"""
    client = opened(version)
    engine = client.engine
    one, two = engine.outgoing.add(1, "m1"), engine.outgoing.add(2, "m2")
    assert (one, two) == (1, 2)
    assert client.send(ack(PUBREC, two)) == [("pubrel", two, 0)]
    assert client.send(ack(PUBACK, one) + ack(PUBCOMP, two)) == []

    assert client.calls == [("pubrec", two, "m2", 0), ("puback", one, "m1", 0), ("pubcomp", two, "m2")]
    assert engine.outgoing.deliveries.count == 0


def test_deliveries_that_the_client_refuses() -> None:
    """[MQTT-4.3.3-4] [MQTT-4.4.0-2] a PUBREC of 0x80 or more ends the delivery, and there is no PUBREL."""
    client = opened()
    one, two = client.engine.outgoing.add(1, "m1"), client.engine.outgoing.add(2, "m2")
    properties = Properties(reason_string="no")
    answers = client.send(ack(PUBACK, one, 0x87, properties) + ack(PUBREC, two, 0x97))

    assert answers == []
    assert client.calls == [("puback", one, "m1", 0x87), ("pubrec", two, "m2", 0x97)]
    assert client.engine.outgoing.deliveries.count == 0


def test_pubrel_waits_for_the_broker() -> None:
    """[MQTT-4.3.3-4] a repeated PUBREC releases nothing that is not durable yet; later it is answered again."""
    client = opened()
    client.handler.answers = False
    packet_id = client.engine.outgoing.add(2, "m")
    assert client.send(ack(PUBREC, packet_id) * 2) == []
    send_pubrel(client, packet_id)
    assert client.read() == [("pubrel", packet_id, 0)]
    assert client.send(ack(PUBREC, packet_id)) == [("pubrel", packet_id, 0)]
    client.send(ack(PUBCOMP, packet_id))

    assert [call[0] for call in client.calls] == ["pubrec", "pubcomp"]


def test_pubcomp_answers_a_pubrel() -> None:
    """[MQTT-4.3.3-5] one that comes before it is a client's mistake."""
    client = opened()
    client.handler.answers = False
    packet_id = client.engine.outgoing.add(2, "m")
    client.send(ack(PUBREC, packet_id) + ack(PUBCOMP, packet_id))

    assert client.failure() == reasons.PROTOCOL_ERROR


@pytest.mark.parametrize("version", VERSIONS)
def test_answers_to_what_nobody_knows(version: int) -> None:
    """[MQTT-3.6.2-1] they are no error; an unknown PUBREC is released so that the client can forget it."""
    client = opened(version)

    assert client.send(ack(PUBACK, 9) + ack(PUBCOMP, 9)) == []
    assert client.send(ack(PUBREC, 9)) == [("pubrel", 9, 0x92 if version == 5 else 0)]
    if version == 5:
        assert client.send(ack(PUBREC, 9, 0x80)) == []
    assert client.calls == []


@pytest.mark.parametrize(("qos", "answer"), [(2, PUBACK), (1, PUBREC), (1, PUBCOMP), (2, PUBCOMP)])
def test_answers_that_do_not_fit_the_delivery(qos: int, answer: int) -> None:
    """[MQTT-4.3.2-1] [MQTT-4.3.3-1] a client that mixes up its answers lost track of its state."""
    client = opened()
    client.send(ack(answer, client.engine.outgoing.add(qos, "m")))

    assert client.failure() == reasons.PROTOCOL_ERROR


@pytest.mark.parametrize(
    ("version", "octets"),
    [
        (5, "40 02 0000"),
        (5, "41 02 0001"),
        (5, "60 02 0001"),
        (5, "6a 02 0001"),
        (5, "50 01 00"),
        (5, "40 03 0001 01"),
        (5, "62 03 0001 80"),
        (5, "40 05 0001 00 01 1f"),
        (5, "40 05 0001 00 00 00"),
        (5, "7000"),
        (5, "4f 02 0001"),
        (4, "40 03 0001 00"),
        (4, "60 02 0001"),
        (4, "40 00"),
    ],
)
def test_a_malformed_answer(version: int, octets: str) -> None:
    """[MQTT-3.6.1-1] [MQTT-2.1.3-1] [MQTT-3.4.2-1] [MQTT-3.6.2-1] [3.1.1: MQTT-3.6.1-1] [3.1.1: MQTT-2.2.2-2]
    flags, sizes, codes and identifiers."""
    client = opened(version)
    client.send(bytes.fromhex(octets))

    assert client.failure() in (reasons.MALFORMED_PACKET, reasons.PROTOCOL_ERROR)


def test_3_1_marks_what_it_sends_again() -> None:
    """Its PUBREL, SUBSCRIBE and UNSUBSCRIBE may have DUP (MQTT 3.1 §2.1); nothing else may."""
    client = opened(3)
    answers = client.send(
        bytes.fromhex("6a02 0005") + bytes.fromhex("8a06 0006 0001 61 00") + bytes.fromhex("aa05 0007 0001 61")
    )
    assert answers[0] == ("pubcomp", 5, 0)
    assert [answer.packet_id for answer in answers[1:]] == [6, 7]
    client.send(bytes.fromhex("c800"))

    assert client.failure() == reasons.MALFORMED_PACKET


# -- the window --------------------------------------------------------------------------------------------------


def test_the_client_s_receive_maximum_limits_what_is_sent_ahead() -> None:
    """[MQTT-3.3.4-9] [MQTT-3.3.4-10] [MQTT-4.9.0-1] [MQTT-4.9.0-2] [MQTT-4.9.0-3]: QoS 1 until PUBACK, QoS 2
    until PUBCOMP; QoS 0 goes on."""
    client = opened(properties=Properties(receive_maximum=2))
    outgoing = client.engine.outgoing
    one, two = outgoing.add(1, "m1"), outgoing.add(2, "m2")
    assert (outgoing.can_send, outgoing.add(1, "m3")) == (False, 0)
    client.send(ack(PUBREC, two))
    assert not outgoing.can_send
    assert client.engine.writer.send(topic_field("a"), b"", 0, False, False, 0, b"")
    client.send(ack(PUBCOMP, two))
    assert client.calls[-1] == ("writable",)
    assert outgoing.add(1, "m3") == 3
    client.send(ack(PUBACK, one) + ack(PUBACK, 3))

    assert client.calls == [("puback", one, "m1", 0), ("puback", 3, "m3", 0), ("writable",)]


def test_our_own_window_is_the_lower_one() -> None:
    """What we hold in flight for one client is limited, whatever it would take."""
    client = Conversation(4)
    client.handler.window = 1
    client.open()

    assert client.engine.outgoing.add(1, "m1") == 1
    assert client.engine.outgoing.add(1, "m2") == 0


def test_a_refused_delivery_opens_the_window() -> None:
    """[MQTT-4.9.0-2] PUBREC of 0x80 or more."""
    client = opened(properties=Properties(receive_maximum=1))
    client.send(ack(PUBREC, client.engine.outgoing.add(2, "m"), 0x80))

    assert client.engine.outgoing.can_send


def test_identifiers_in_use_are_passed_by() -> None:
    """[MQTT-2.2.1-4] never one that is in use, never 0; when all are, nothing can be sent."""
    flight = OutgoingFlight()
    first = [flight.add(1, n) for n in range(MAX_PACKET_ID)]
    assert first == list(range(1, MAX_PACKET_ID + 1))
    assert flight.add(1, "one too many") == 0
    flight.acknowledge(77)
    assert flight.add(1, "again") == 77

    flight = OutgoingFlight()
    flight.restore(Delivery(65534, 1, SENT, "old", False))
    flight.restore(Delivery(1, 2, RELEASED, "old", False))
    flight.begin(10)
    assert flight.next_resend() is not None
    assert [flight.add(1, n) for n in range(3)] == [65535, 2, 3]


def test_all_identifiers_waiting_for_pubcomp() -> None:
    """Released deliveries of an earlier connection take nothing of the window, but their identifiers."""
    flight = OutgoingFlight()
    for packet_id in range(1, MAX_PACKET_ID + 1):
        flight.restore(Delivery(packet_id, 2, RELEASED, None, False))
    flight.begin(10)

    assert not flight.can_send
    assert flight.add(1, "m") == 0
    flight.complete(9)
    assert flight.quota == 10
    assert flight.add(1, "m") == 9


def test_an_identifier_that_is_never_answered() -> None:
    """The others go round it, and round those that have its place in the ring; the ring grows with what is in use."""
    flight = OutgoingFlight()
    assert flight.add(1, "never answered") == 1
    given = []
    for _ in range(MAX_PACKET_ID + 40):
        given.append(flight.add(1, "m"))
        flight.acknowledge(given[-1])
    assert 1 not in given
    assert given[0] == 2
    assert len(set(given)) > MAX_PACKET_ID * 9 // 10
    more = [flight.add(1, "m") for _ in range(1000)]

    assert len({*more, 1}) == 1001
    assert identifiers(flight) == [1, *more]
    for packet_id in (*more, 1):
        delivery = flight.acknowledge(packet_id)
        assert delivery is not None
        assert delivery.packet_id == packet_id
    assert identifiers(flight) == []


def test_identifiers_of_an_earlier_run_with_one_place() -> None:
    """What a store remembers comes with its identifier, whatever its place in the ring."""
    flight = OutgoingFlight()
    restored = [16, 32, 1, 65535, 32768, 49152]
    for packet_id in restored:
        flight.restore(Delivery(packet_id, 2, RELEASED, None, False))
    assert identifiers(flight) == restored

    for packet_id in restored:
        assert flight.complete(packet_id) is not None
    assert flight.complete(16) is None


# -- sending again -----------------------------------------------------------------------------------------------


def test_a_session_goes_on_where_it_stopped() -> None:
    """[MQTT-4.4.0-1] [MQTT-4.6.0-1] [MQTT-4.6.0-4] [MQTT-3.3.1-1] [MQTT-4.3.3-6]: PUBLISH with DUP and PUBREL, with
    their identifiers and in their order, before anything new."""
    flight = OutgoingFlight()
    flight.restore(Delivery(5, 1, SENT, "m5", False))
    flight.restore(Delivery(3, 2, SENT, "m3", False))
    flight.restore(Delivery(9, 2, RELEASED, "m9", False))
    flight.restore(Delivery(4, 2, RELEASED, "m4", False))
    handler = Recorder()
    handler.outgoing = flight
    client = Conversation(5, handler=handler)
    client.handler.session_present = True
    client.engine.receive_data(connect_octets(), 0.0)
    assert client.read()[1:] == [("pubrel", 9, 0), ("pubrel", 4, 0)]
    assert (flight.can_send, flight.add(1, "new")) == (False, 0)
    again = []
    while (delivery := flight.next_resend()) is not None:
        again.append((delivery.packet_id, delivery.qos, delivery.token))

    assert again == [(5, 1, "m5"), (3, 2, "m3")]
    assert flight.add(1, "new") == 10
    client.calls.clear()
    client.send(ack(PUBACK, 5) + ack(PUBREC, 3) + ack(PUBCOMP, 9) + ack(PUBCOMP, 3) + ack(PUBCOMP, 4))
    assert identifiers(flight) == [10]


def connect_octets() -> bytes:
    """A plain CONNECT of version 5."""
    return bytes.fromhex("100f 0004 4d515454 05 00 0000 00 0002 6331")


def test_sending_again_keeps_to_the_window() -> None:
    """[MQTT-3.3.4-9] also then."""
    flight = OutgoingFlight()
    for packet_id in (1, 2, 3):
        flight.restore(Delivery(packet_id, 1, SENT, None, False))
    flight.begin(2)
    assert [flight.next_resend() is None for _ in range(3)] == [False, False, True]
    assert flight.was_exhausted
    flight.acknowledge(1)

    delivery = flight.next_resend()
    assert delivery is not None
    assert delivery.packet_id == 3


def test_what_was_received_and_not_released_waits_for_the_broker() -> None:
    """It has its PUBREC, so it is not sent again; its PUBREL goes out when the broker's store has that."""
    flight = OutgoingFlight()
    flight.begin(9)
    flight.receive(flight.add(2, "m"), False)
    handler = Recorder()
    handler.outgoing = flight
    client = Conversation(5, handler=handler)
    client.open()
    assert (flight.next_resend(), client.read()) == (None, [])
    send_pubrel(client, 1)

    assert client.read() == [("pubrel", 1, 0)]


def test_an_answer_to_what_was_not_sent_yet() -> None:
    """On this connection the client cannot have got it."""
    flight = OutgoingFlight()
    flight.restore(Delivery(1, 1, SENT, None, False))
    flight.restore(Delivery(2, 2, SENT, None, False))
    flight.begin(9)

    with pytest.raises(PacketError):
        flight.acknowledge(1)
    with pytest.raises(PacketError):
        flight.receive(2, False)
    flight.next_resend()
    flight.begin(9)
    with pytest.raises(PacketError):
        flight.acknowledge(1)


def test_a_delivery_that_is_not_sent_after_all() -> None:
    """Too large for the client, or expired: its place in the window is free, unless it had none yet."""
    flight = OutgoingFlight()
    flight.restore(Delivery(1, 1, SENT, None, False))
    flight.restore(Delivery(2, 1, SENT, None, False))
    flight.begin(5)
    flight.drop(2)
    assert flight.quota == 5
    assert flight.next_resend() is not None
    flight.drop(1)
    flight.drop(1)

    assert (flight.quota, identifiers(flight), flight.next_resend()) == (5, [], None)


# -- topic aliases and sizes towards the client ------------------------------------------------------------------


def test_aliases_are_used_towards_a_client_that_allows_them() -> None:
    """[MQTT-3.1.2-26] [MQTT-3.1.2-27] [MQTT-3.3.2-11] from 1 to its maximum, first with its topic."""
    client = opened(properties=Properties(topic_alias_maximum=2))
    for topic in ("topic/1", "topic/2", "topic/3", "topic/1", "topic/2", "topic/3", "t", "t"):
        client.engine.writer.send(topic_field(topic), b"", 0, False, False, 0, b"")

    assert [(packet[1], packet[-1].topic_alias) for packet in client.read()] == [
        ("topic/1", 1),
        ("topic/2", 2),
        ("topic/3", None),
        ("", 1),
        ("", 2),
        ("topic/3", None),
        ("t", None),
        ("t", None),
    ]


def test_no_aliases_towards_other_clients() -> None:
    """[MQTT-3.1.2-27] a client that says nothing of them gets none."""
    client = opened()
    client.engine.writer.send(topic_field("topic/1"), b"", 0, False, False, 0, b"")

    assert client.read()[0][-1] == Properties()


def test_a_packet_as_large_as_the_client_takes() -> None:
    """[MQTT-3.1.2-24] [MQTT-3.1.2-25] the whole of it; one octet more is not sent, nor its alias learnt."""
    client = opened(properties=Properties(maximum_packet_size=32, topic_alias_maximum=1))
    field = topic_field("topic/1")
    assert not client.engine.writer.send(field, bytes(18), 0, False, False, 0, b"")
    assert client.engine.writer.send(field, bytes(17), 0, False, False, 0, b"")
    assert client.engine.writer.send(field, bytes(24), 0, False, False, 0, b"")

    data = client.engine.data_to_send()
    assert len(data) == 64


def test_nothing_is_sent_after_the_end() -> None:
    """[MQTT-3.14.4-1] answers that come late are dropped, and count as given."""
    client = opened()
    client.engine.disconnect(0)
    client.read()
    client.puback(1)
    client.engine.send_suback(1, [0])

    assert client.engine.writer.send(topic_field("a"), b"", 0, False, False, 0, b"")
    assert client.read() == []


def test_deliveries_stop_while_output_waits() -> None:
    """A slow reader costs a bounded amount of memory; who stopped for it is told when there is room."""
    client = opened(output_limit_bytes=100)
    assert client.engine.can_send
    client.engine.writer.send(topic_field("a"), bytes(100), 0, False, False, 0, b"")
    assert not client.engine.can_send
    assert client.calls == []
    client.read()
    assert client.calls == [("writable",)]
    client.engine.pause()
    assert not client.engine.can_send
    client.engine.resume()

    assert client.calls == [("writable",)]
    assert client.engine.can_send


# -- subscriptions -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", VERSIONS)
def test_subscribe_and_unsubscribe_in_every_version(version: int) -> None:
    """[MQTT-3.8.4-1] [MQTT-3.8.4-2] [MQTT-3.8.4-5] [MQTT-3.8.4-6] [MQTT-3.9.3-1] [MQTT-3.10.4-4] [MQTT-3.10.4-5]
    [MQTT-3.10.4-6] [MQTT-3.11.3-1] [MQTT-2.2.1-6]"""
    client = opened(version)
    is_v5 = version == 5
    subscriptions = (
        Subscription(topic_filter="a/#", qos=1, no_local=is_v5, retain_as_published=is_v5, retain_handling=2 * is_v5),
        Subscription(topic_filter="$share/g/b", qos=2),
        Subscription(topic_filter="+"),
    )
    packet = Subscribe(packet_id=300, subscriptions=subscriptions)
    suback = client.send(subscribe(version, packet))[0]
    gone = Unsubscribe(packet_id=301, topic_filters=("a/#", "+"))
    unsuback = client.send(unsubscribe(version, gone))[0]

    assert client.calls == [("subscribe", packet), ("unsubscribe", gone)]
    assert (suback.packet_id, suback.reasons) == (300, (1, 2, 0))
    assert (unsuback.packet_id, unsuback.reasons) == (301, (0, 0) if version == 5 else ())


def test_subscribe_with_an_identifier() -> None:
    """MQTT 5.0 §3.8.2.1.2"""
    client = opened()
    for identifiers in ((), (268435455,)):
        properties = Properties(subscription_identifiers=identifiers)
        packet = Subscribe(packet_id=1, subscriptions=(Subscription(topic_filter="a"),), properties=properties)
        client.send(subscribe(5, packet))

    assert [call[1].identifier for call in client.calls] == [0, 268435455]


@pytest.mark.parametrize(("version", "codes"), [(3, (2, 0, 0)), (4, (2, 0x80, 0x80)), (5, (2, 0x87, 0x8F))])
def test_refused_filters_in_the_words_of_each_version(version: int, codes: tuple[int, ...]) -> None:
    """[3.1.1: MQTT-3.9.3-2] [MQTT-3.8.4-7] [MQTT-3.9.3-2] 3.1.1 has one failure, 3.1 has none."""
    client = opened(version)
    client.engine.send_suback(1, [2, 0x87, 0x8F])

    assert client.read()[0].reasons == codes


@pytest.mark.parametrize(
    ("version", "octets", "reason"),
    [
        (5, "82 03 0001 00", reasons.PROTOCOL_ERROR),  # no filter
        (4, "82 02 0001", reasons.PROTOCOL_ERROR),
        (5, "80 07 0001 00 0001 61 00", reasons.MALFORMED_PACKET),  # flags
        (4, "80 06 0001 0001 61 00", reasons.MALFORMED_PACKET),
        (5, "82 07 0000 00 0001 61 00", reasons.PROTOCOL_ERROR),  # packet identifier 0
        (5, "82 07 0001 00 0001 61 03", reasons.MALFORMED_PACKET),  # QoS 3
        (4, "82 06 0001 0001 61 03", reasons.MALFORMED_PACKET),
        (5, "82 07 0001 00 0001 61 40", reasons.MALFORMED_PACKET),  # reserved options
        (4, "82 06 0001 0001 61 04", reasons.MALFORMED_PACKET),
        (5, "82 07 0001 00 0001 61 30", reasons.PROTOCOL_ERROR),  # retain handling 3
        (5, "82 06 0001 00 0001 61", reasons.MALFORMED_PACKET),  # no options
        (5, "82 07 0001 00 0001 ff 00", reasons.MALFORMED_PACKET),
        (5, "82 06 0001 00 0000 00", reasons.MALFORMED_PACKET),  # empty filter
        (5, "82 10 0001 00 000a 2473686172652f672f61 04", reasons.PROTOCOL_ERROR),  # no local, shared
        (5, "82 10 0001 00 0001 61 00 0001 62 00 0001 63 00 00", reasons.MALFORMED_PACKET),
        (5, "a2 03 0001 00", reasons.PROTOCOL_ERROR),
        (4, "a2 02 0001", reasons.PROTOCOL_ERROR),
        (5, "a0 06 0001 00 0001 61", reasons.MALFORMED_PACKET),
        (4, "a0 05 0001 0001 61", reasons.MALFORMED_PACKET),
        (5, "a2 06 0000 00 0001 61", reasons.PROTOCOL_ERROR),
    ],
)
def test_subscriptions_that_are_none(version: int, octets: str, reason: int) -> None:
    """[MQTT-3.8.1-1] [MQTT-3.8.3-1] [MQTT-3.8.3-2] [MQTT-3.8.3-4] [MQTT-3.8.3-5] [MQTT-3.10.1-1] [MQTT-3.10.3-1]
    [MQTT-3.10.3-2] [3.1.1: MQTT-3-8.3-4] [3.1.1: MQTT-3.8.3-3]"""
    client = opened(version)
    client.send(bytes.fromhex(octets))

    assert client.failure() == reason


def test_filters_of_one_packet_are_limited() -> None:
    """Each costs the broker far more than its octets."""
    client = opened(4, max_subscribe_filters=2)
    client.send(unsubscribe(4, Unsubscribe(packet_id=1, topic_filters=("a", "b"))))
    assert client.engine.is_open
    filters = tuple(Subscription(topic_filter=name) for name in "abc")
    client.send(subscribe(4, Subscribe(packet_id=1, subscriptions=filters)))

    assert client.failure() == reasons.QUOTA_EXCEEDED


@pytest.mark.parametrize("first", [0x20, 0x90, 0xB0, 0xD0])
def test_packets_of_a_server(first: int) -> None:
    """[MQTT-4.13.1-1] a client does not send them."""
    client = opened()
    client.send(bytes((first, 0)))

    assert client.failure() == reasons.PROTOCOL_ERROR
