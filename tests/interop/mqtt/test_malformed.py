"""What no client library would send: each must end its own connection and nothing else (MQTT 5.0 and 3.1.1)."""

from typing import Final

import pytest

from tests.interop.mqtt import packets
from tests.interop.mqtt.packets import Property, binary, packet, properties, variable
from tests.interop.mqtt.raw import Closed, Raw, opened
from tests.interop.mqtt.server import IS_MOSQUITTO, MqttServer, unlike_mosquitto

HEAD: Final = binary("MQTT") + b"\x05\x02\x00\x00"
SHORT: Final = (1).to_bytes(2, "big")

# Name, clause, octets after a good CONNECT of version 5, reason codes of the DISCONNECT that may come.
AFTER_CONNECT: Final = [
    ("[MQTT-3.1.0-2] second CONNECT", packets.connect(5, "x"), (0x82,)),
    ("MQTT 5.0 §2.1.2 packet type 0", b"\x00\x00", (0x81, 0x82)),
    ("[MQTT-3.14.0-1] CONNACK of a client", b"\x20\x03\x00\x00\x00", (0x81, 0x82)),
    ("MQTT 5.0 §2.1.4 length of five octets", b"\x30\xff\xff\xff\xff\x01", (0x81, 0x95)),
    ("[MQTT-3.3.1-4] QoS 3", packet(3, 6, binary("t"), SHORT, b"\x00", b"m"), (0x81,)),
    ("[MQTT-3.3.1-2] DUP of QoS 0", packet(3, 8, binary("t"), b"\x00", b"m"), (0x81, 0x82)),
    ("[MQTT-2.2.1-2] packet id 0", packet(3, 2, binary("t"), b"\x00\x00", b"\x00", b"m"), (0x81, 0x82)),
    ("[MQTT-3.3.2-2] wildcard # in a topic", packets.publish(5, "a/#", b"m"), (0x81, 0x82, 0x90)),
    ("[MQTT-4.7.0-1] wildcard + in a topic", packets.publish(5, "a/+/b", b"m"), (0x81, 0x82, 0x90)),
    ("[MQTT-4.7.3-2] null in a topic", packets.publish(5, "a\0b", b"m"), (0x81, 0x82, 0x90)),
    ("[MQTT-1.5.4-1] bad UTF-8", packet(3, 0, binary(b"a\xff"), b"\x00", b"m"), (0x81, 0x82, 0x90)),
    ("[MQTT-1.5.4-1] surrogate", packet(3, 0, binary(b"a\xed\xa0\x80"), b"\x00", b"m"), (0x81, 0x82, 0x90)),
    ("[MQTT-1.5.4-1] overlong UTF-8", packet(3, 0, binary(b"a\xc0\xaf"), b"\x00", b"m"), (0x81, 0x82, 0x90)),
    ("MQTT 5.0 §3.3.2.1 topic longer than the packet", packet(3, 0, b"\x00\x09t"), (0x81,)),
    (
        "MQTT 5.0 §2.2.2 property of another packet",
        packets.publish(5, "t", b"", given=[(Property.WILL_DELAY, 1)]),
        (0x81, 0x82),
    ),
    ("MQTT 5.0 §2.2.2 unknown property", packet(3, 0, binary("t"), b"\x02\x7f\x00"), (0x81, 0x82)),
    (
        "MQTT 5.0 §2.2.2 property twice",
        packets.publish(5, "t", b"", given=[(Property.PAYLOAD_FORMAT, 1)] * 2),
        (0x81, 0x82),
    ),
    ("MQTT 5.0 §3.3.2.3.2 format 2", packets.publish(5, "t", b"", given=[(Property.PAYLOAD_FORMAT, 2)]), (0x81, 0x82)),
    ("MQTT 5.0 §2.2.2.1 properties longer than the packet", packet(3, 0, binary("t"), b"\x7f\x01\x01"), (0x81,)),
    ("[MQTT-3.3.2-14] wildcard in a response topic", None, (0x81, 0x82)),
    ("[MQTT-3.3.4-6] subscription id of a client", None, (0x81, 0x82)),
    ("[MQTT-3.6.1-1] PUBREL flags", b"\x60\x02\x00\x01", (0x81,)),
    ("[MQTT-2.1.3-1] PUBACK flags", b"\x42\x02\x00\x01", (0x81,)),
    ("MQTT 5.0 §3.4.2 PUBACK without id", b"\x40\x00", (0x81,)),
    ("[MQTT-3.8.1-1] SUBSCRIBE flags", packet(8, 0, SHORT, b"\x00", binary("t"), b"\x00"), (0x81,)),
    ("[MQTT-3.8.3-2] no filter", packet(8, 2, SHORT, b"\x00"), (0x81, 0x82)),
    ("[MQTT-2.2.1-3] SUBSCRIBE with id 0", packet(8, 2, b"\x00\x00\x00", binary("t"), b"\x00"), (0x81, 0x82)),
    ("MQTT 5.0 §3.8.3.1 QoS 3", packets.subscribe(5, 1, [("t", 3)]), (0x81, 0x82)),
    ("[MQTT-3.8.3-5] reserved option bits", packets.subscribe(5, 1, [("t", 0x40)]), (0x81, 0x82)),
    ("MQTT 5.0 §3.8.3.1 retain handling 3", packets.subscribe(5, 1, [("t", 0x30)]), (0x81, 0x82)),
    (
        "MQTT 5.0 §3.8.2.1.2 subscription id 0",
        packets.subscribe(5, 1, [("t", 0)], [(Property.SUBSCRIPTION_ID, 0)]),
        (0x81, 0x82),
    ),
    ("MQTT 5.0 §3.8.3 filter without options", packet(8, 2, SHORT, b"\x00", binary("t")), (0x81,)),
    ("[MQTT-3.10.1-1] UNSUBSCRIBE flags", packet(10, 0, SHORT, b"\x00", binary("t")), (0x81,)),
    ("[MQTT-3.10.3-2] no filter to unsubscribe", packet(10, 2, SHORT, b"\x00"), (0x81, 0x82)),
    ("[MQTT-2.1.3-1] PINGREQ flags", b"\xc1\x00", (0x81,)),
    ("MQTT 5.0 §3.12 PINGREQ with a body", b"\xc0\x01\x00", (0x81,)),
    ("[MQTT-3.14.1-1] DISCONNECT flags", b"\xe1\x00", (0x81,)),
    ("[MQTT-3.15.1-1] AUTH flags", b"\xf1\x00", (0x81, 0x82)),
    ("MQTT 5.0 §3.9 SUBACK of a client", b"\x90\x04\x00\x01\x00\x00", (0x81, 0x82)),
]
MORE: Final = {
    "[MQTT-3.3.2-14] wildcard in a response topic": packets.publish(
        5, "t", b"", given=[(Property.RESPONSE_TOPIC, "a/+")]
    ),
    "[MQTT-3.3.4-6] subscription id of a client": packets.publish(5, "t", b"", given=[(Property.SUBSCRIPTION_ID, 1)]),
}
# What mosquitto 2.0.11 lets pass.
LENIENT: Final = {
    "MQTT 5.0 §3.12 PINGREQ with a body",
    "[MQTT-3.3.1-2] DUP of QoS 0",
    "MQTT 5.0 §3.3.2.3.2 format 2",
    "[MQTT-3.3.2-14] wildcard in a response topic",
    "[MQTT-3.3.4-6] subscription id of a client",
    "[MQTT-2.1.3-1] PUBACK flags",
    "[MQTT-2.1.3-1] PINGREQ flags",
    "MQTT 5.0 §3.9 SUBACK of a client",
}

# Octets instead of a good CONNECT.
INSTEAD_OF_CONNECT: Final = [
    ("[MQTT-3.1.0-1] PUBLISH first", packets.publish(5, "t", b"m")),
    ("[MQTT-3.1.0-1] PINGREQ first", b"\xc0\x00"),
    ("[MQTT-3.1.4-1] CONNECT flags", b"\x11" + packets.connect(5, "x")[1:]),
    ("[MQTT-3.1.2-3] reserved connect flag", packet(1, 0, binary("MQTT"), b"\x05\x03\x00\x00\x00", binary("x"))),
    (
        "[MQTT-3.1.2-12] will QoS 3",
        packet(1, 0, binary("MQTT"), b"\x05\x1e\x00\x00\x00", binary("x"), b"\x00\0\1t\0\0"),
    ),
    ("[MQTT-3.1.2-11] will QoS without will", packet(1, 0, binary("MQTT"), b"\x05\x0a\x00\x00\x00", binary("x"))),
    ("[MQTT-3.1.2-13] will retain without will", packet(1, 0, binary("MQTT"), b"\x05\x22\x00\x00\x00", binary("x"))),
    ("[MQTT-3.1.2-9] will flag without will", packet(1, 0, binary("MQTT"), b"\x05\x06\x00\x00\x00", binary("x"))),
    ("[MQTT-3.1.2-17] user flag without user", packet(1, 0, binary("MQTT"), b"\x05\x82\x00\x00\x00", binary("x"))),
    ("[MQTT-3.1.2-18] octets behind the payload", packet(1, 0, HEAD, b"\x00", binary("x"), b"more")),
    ("[MQTT-3.1.3-3] no client id", packet(1, 0, HEAD, b"\x00")),
    ("[MQTT-3.1.3-4] client id of bad UTF-8", packet(1, 0, HEAD, b"\x00", binary(b"\xff"))),
    (
        "MQTT 5.0 §3.1.2.11 property of another packet",
        packet(1, 0, HEAD, properties([(Property.TOPIC_ALIAS, 1)]), binary("x")),
    ),
    (
        "MQTT 5.0 §3.1.2.11 property twice",
        packet(1, 0, HEAD, properties([(Property.SESSION_EXPIRY, 1)] * 2), binary("x")),
    ),
    (
        "MQTT 5.0 §3.1.2.11.3 receive maximum 0",
        packet(1, 0, HEAD, properties([(Property.RECEIVE_MAXIMUM, 0)]), binary("x")),
    ),
    (
        "MQTT 5.0 §3.1.2.11.4 packet size 0",
        packet(1, 0, HEAD, properties([(Property.MAXIMUM_PACKET_SIZE, 0)]), binary("x")),
    ),
    (
        "MQTT 5.0 §3.1.2.11.7 request problem 2",
        packet(1, 0, HEAD, properties([(Property.REQUEST_PROBLEM, 2)]), binary("x")),
    ),
    (
        "MQTT 5.0 §3.1.2.11.10 data without method",
        packet(1, 0, HEAD, properties([(Property.AUTHENTICATION_DATA, b"")]), binary("x")),
    ),
    ("[MQTT-3.1.2-1] protocol name", packet(1, 0, binary("MQTX"), b"\x05\x02\x00\x00\x00", binary("x"))),
    ("[MQTT-3.1.2-1] name of 3.1 with level 5", packet(1, 0, binary("MQIsdp"), b"\x05\x02\x00\x00\x00", binary("x"))),
    ("MQTT 5.0 §2.1.4 length of five octets", b"\x10\xff\xff\xff\xff\x01"),
    ("[MQTT-1.5.5-1] length not of the fewest octets", None),
]
LENIENT_CONNECT: Final = {
    "MQTT 5.0 §3.1.2.11.10 data without method",
    "[MQTT-3.1.2-18] octets behind the payload",
    "[MQTT-1.5.5-1] length not of the fewest octets",
}


@pytest.mark.parametrize(("case", "data", "codes"), AFTER_CONNECT, ids=[row[0] for row in AFTER_CONNECT])
def test_violation_ends_the_connection(
    server: MqttServer, name: str, case: str, data: bytes | None, codes: tuple[int, ...]
) -> None:
    """[MQTT-3.14.4-2], MQTT 5.0 §4.13: closed, after a DISCONNECT that says why if there is one; others do not notice.

    [MQTT-3.1.0-2] [MQTT-3.3.1-4] [MQTT-3.3.1-2] [MQTT-2.2.1-2] [MQTT-2.2.1-3] [MQTT-3.3.2-2] [MQTT-4.7.0-1]
    [MQTT-4.7.3-2] [MQTT-1.5.4-1] [MQTT-1.5.4-2] [MQTT-3.3.2-14] [MQTT-3.3.4-6] [MQTT-3.6.1-1] [MQTT-2.1.3-1]
    [MQTT-3.8.1-1] [MQTT-3.8.3-2] [MQTT-3.8.3-5] [MQTT-3.10.1-1] [MQTT-3.10.3-2] [MQTT-3.14.1-1] [MQTT-3.15.1-1]
    """
    if IS_MOSQUITTO and case in LENIENT:
        pytest.skip("mosquitto 2.0.11 lets it pass")
    with opened(server) as other:
        other.subscribe(name)
        with opened(server) as client:
            client.send(data if data is not None else MORE[case])
            goodbye = client.wait_closed()
        other.publish(name, b"m")

        assert goodbye is None or IS_MOSQUITTO or goodbye.code in codes, goodbye
        assert other.receive().payload == b"m"


@pytest.mark.parametrize(("case", "data"), INSTEAD_OF_CONNECT, ids=[row[0] for row in INSTEAD_OF_CONNECT])
def test_bad_connect_is_not_accepted(server: MqttServer, case: str, data: bytes | None) -> None:
    """[MQTT-3.1.4-1] [MQTT-3.1.0-1]: closed, after a CONNACK of 0x80 and above if any [MQTT-3.2.2-7] [MQTT-3.2.2-6].

    [MQTT-3.1.2-1] [MQTT-3.1.2-3] [MQTT-3.1.2-9] [MQTT-3.1.2-11] [MQTT-3.1.2-12] [MQTT-3.1.2-13] [MQTT-3.1.2-17]
    [MQTT-3.1.2-18] [MQTT-3.1.3-3] [MQTT-3.1.3-4] [MQTT-1.5.5-1] [MQTT-3.14.0-1]
    """
    if IS_MOSQUITTO and case in LENIENT_CONNECT:
        pytest.skip("mosquitto 2.0.11 lets it pass")
    if data is None:
        good = packets.connect(5, "x")
        data = good[:1] + bytes([good[1] | 0x80, 0]) + good[2:]
    with Raw(server) as client:
        client.send(data)
        try:
            answer = client.read()
        except Closed:
            return
        assert answer.kind == packets.CONNACK
        assert answer.code >= 0x80 or answer.code == 1  # what a client of another version reads
        assert not answer.session_present
        assert client.wait_closed() is None


@pytest.mark.parametrize(("level", "version", "code"), [(6, 5, 0x84), (2, 4, 1), (0, 4, 1), (0x7F, 5, 0x84)])
def test_unknown_version_is_refused_in_words_the_client_reads(
    server: MqttServer, level: int, version: int, code: int
) -> None:
    """[MQTT-3.1.2-2] [MQTT-3.1.1/3.1.2-2]: return code 1 to the old, 0x84 to the new; then closed."""
    with Raw(server, version) as client:
        client.send(packet(1, 0, binary("MQTT"), bytes([level, 2, 0, 0, 0]), binary("x")))
        octets = client.read_to_end()

        assert octets == b"" or octets[3] in (code, 0x84, 1)


@pytest.mark.parametrize("version", [3, 4])
@pytest.mark.parametrize(
    "data",
    [
        packets.connect(4, "x"),
        packet(3, 6, binary("t"), SHORT, b"m"),
        packets.publish(4, "a/#", b"m"),
        packet(3, 0, binary(b"a\xff"), b"m"),
        packet(3, 0, binary("a\0b"), b"m"),
        packet(8, 0, SHORT, binary("t"), b"\x00"),
        packet(8, 2, SHORT),
        packets.subscribe(4, 1, [("t", 3)]),
        packet(10, 0, SHORT, binary("t")),
        packet(10, 2, SHORT),
        b"\x60\x02\x00\x01",
        b"\x00\x00",
        b"\xf0\x00",
        b"\xe1\x00",
    ],
    ids=[
        "[3.1.0-2] second CONNECT",
        "[3.3.1-4] QoS 3",
        "[3.3.2-2] wildcard in a topic",
        "[1.5.3-1] bad UTF-8",
        "[1.5.3-2] null",
        "[3.8.1-1] SUBSCRIBE flags",
        "[3.8.3-3] no filter",
        "[3.8.3-4] QoS 3 asked for",
        "[3.10.1-1] UNSUBSCRIBE flags",
        "[3.10.3-2] no filter to unsubscribe",
        "[3.6.1-1] PUBREL flags",
        "packet type 0",
        "packet type 15",
        "[3.14.1-1] DISCONNECT flags",
    ],
)
def test_violation_of_version_3_closes_without_a_word(server: MqttServer, version: int, data: bytes) -> None:
    """[MQTT-3.1.1/4.8.0-1] [MQTT-3.1.1/3.1.0-2] [MQTT-3.1.1/3.3.1-4] [MQTT-3.1.1/3.3.2-2] [MQTT-3.1.1/1.5.3-1]
    [MQTT-3.1.1/1.5.3-2] [MQTT-3.1.1/3.8.1-1] [MQTT-3.1.1/3.8.3-3] [MQTT-3.1.1/3.8.3-4] [MQTT-3.1.1/3.10.1-1]
    [MQTT-3.1.1/3.10.3-2] [MQTT-3.1.1/3.6.1-1] [MQTT-3.1.1/3.14.1-1]: version 3 has no word for it.
    """
    if IS_MOSQUITTO and version == 3:
        pytest.skip("mosquitto 2.0.11 lets some of it pass in version 3.1")
    with opened(server, version=version) as client:
        client.send(data)

        assert client.wait_closed() is None


@unlike_mosquitto("waits for the rest")
def test_length_beyond_the_limit_is_refused_at_once(server: MqttServer) -> None:
    """MQTT 5.0 §4.13: the announced length counts; nobody has to wait for 256 MiB that never come."""
    with opened(server) as client:
        client.send(b"\x30" + variable(268_435_455))
        goodbye = client.wait_closed()

        assert goodbye is not None
        assert goodbye.code == 0x95


def test_half_a_packet_at_the_end_is_nothing(server: MqttServer, name: str) -> None:
    """MQTT 5.0 §4.2: what was complete before counts; the rest does not."""
    with opened(server) as other:
        other.subscribe(name)
        with opened(server) as client:
            client.send(packets.publish(5, name, b"whole") + packets.publish(5, name, b"cut")[:-1])
            client.drop()
        assert other.receive().payload == b"whole"
        other.publish(name, b"end", 1)

        assert other.receive_all(1) == [b"end"]


def test_packets_behind_a_refused_connect_are_not_acted_on(server: MqttServer, name: str) -> None:
    """[MQTT-3.1.4-6] [MQTT-3.2.0-1]: a PUBLISH in the same write goes nowhere."""
    with opened(server) as other:
        other.subscribe(name, options=1)
        with Raw(server) as client:
            bad = packets.connect(5, "x", given=[(Property.AUTHENTICATION_METHOD, "NONE-SUCH")])
            client.send(bad + packets.publish(5, name, b"no", 1, 1))
            client.wait_closed()
        other.publish(name, b"end", 1)

        assert other.receive_all(1) == [b"end"]


def test_packets_behind_a_good_connect_are(server: MqttServer, name: str) -> None:
    """MQTT 5.0 §3.1.4: a client need not wait for CONNACK, which comes first [MQTT-3.2.0-1]."""
    with Raw(server) as client:
        client.send(
            packets.connect(5, "c-" + name)
            + packets.subscribe(5, 1, [(name, 1)])
            + packets.publish(5, name, b"m", 1, 2)
        )
        assert client.read().kind == packets.CONNACK
        client.expect(packets.SUBACK)
        client.expect(packets.PUBACK)

        assert client.receive().payload == b"m"


def test_packets_behind_disconnect_are_not_acted_on(server: MqttServer, name: str) -> None:
    """[MQTT-3.14.4-1]."""
    with opened(server) as other, opened(server) as client:
        other.subscribe(name)
        client.send(b"\xe0\x00" + packets.publish(5, name, b"no"))
        client.wait_closed()
        other.publish(name, b"end", 1)

        assert other.receive_all(1) == [b"end"]
