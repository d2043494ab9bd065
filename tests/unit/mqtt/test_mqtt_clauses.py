"""What the standard asks of the broker behind the engine, statement by statement."""

from pathlib import Path

import pytest
from wsproto import ConnectionType, WSConnection
from wsproto.events import AcceptConnection, BytesMessage, Request

from artemis_mqtt.engine.packets import Connack, Connect, Disconnect, Unsubscribe, Will
from artemis_mqtt.engine.properties import Properties
from artemis_py.core.runtime.access import Subject
from artemis_py.protocol import ConnectionContext, LoginOutcome, LoginResult, SaslExchange
from artemis_py.security.authenticator import OpenAuthenticator
from artemis_py.transport.websocket import WebSocketManager
from tests import mqtt_harness as wire
from tests.mqtt_site import Client, Site, connected, lasting

PUBACK, PUBREC, PUBREL, PUBCOMP = 4, 5, 6, 7
LASTS = Properties(session_expiry_interval=1000)


def payloads(client: Client) -> list[bytes]:
    """Of the messages that a client got."""
    return [packet[2] for packet in client.packets() if packet[0] == "publish"]


def unsubscribe(client: Client, *topic_filters: str) -> tuple[int, ...]:
    """The codes of UNSUBACK."""
    client.send(wire.unsubscribe(client.version, Unsubscribe(packet_id=9, topic_filters=topic_filters)))
    (answer,) = client.packets()
    codes: tuple[int, ...] = answer.reasons
    return codes


# -- sessions ----------------------------------------------------------------------------------------------------


def test_clean_start_does_away_with_the_session() -> None:
    """[MQTT-3.1.2-4] [MQTT-3.1.4-4] [MQTT-3.2.2-2] [MQTT-3.1.3-2]: all of it, and nobody else's."""
    site = Site()
    for name in ("a", "b"):
        lasting(site, name).subscribe("t", 1)
    connected(site, "p").publish("t", b"1", 1, 1)
    again = Client(site)
    assert not again.connect("a", properties=LASTS).session_present
    other = Client(site)

    assert other.connect("b", clean_start=False, properties=LASTS).session_present
    assert (payloads(again), payloads(other)) == ([], [b"1"])


def test_without_clean_start_the_session_goes_on() -> None:
    """[MQTT-3.1.2-5] [MQTT-3.1.2-6] [MQTT-3.1.2-23] [MQTT-4.1.0-1] [MQTT-4.5.0-1]: made, and gone on with: its
    subscriptions, and what came meanwhile."""
    site = Site()
    first = lasting(site, "s")
    first.subscribe("t", 2)
    site.pass_time(100_000)
    first.lose()
    connected(site, "p").publish("t", b"1", 2, 1)
    site.pass_time(100_000)

    assert payloads(lasting(site, "s")) == [b"1"]


def test_retained_messages_outlive_the_session_that_left_them() -> None:
    """[3.1.1: MQTT-3.1.2-7]"""
    site = Site()
    client = connected(site, "c", version=4)
    client.publish("t", b"1", retain=True)
    client.leave()
    other = connected(site, "d", version=4)
    other.subscribe("t")

    assert payloads(other) == [b"1"]


def test_an_assigned_name_is_new_and_told() -> None:
    """[MQTT-3.1.3-7] [MQTT-3.2.2-16]: and it names the session."""
    site = Site()
    names = [Client(site).connect("", properties=LASTS).properties.assigned_client_identifier for _ in range(3)]
    assert len(set(names)) == 3
    assert names[0]

    assert Client(site).connect(names[0], clean_start=False, properties=LASTS).session_present


# -- wills -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", wire.VERSIONS)
@pytest.mark.parametrize("retain", [False, True])
def test_a_will_is_published_as_it_says(version: int, retain: bool) -> None:
    """[MQTT-3.1.2-7] [MQTT-3.1.2-14] [MQTT-3.1.2-15]: kept until then, and retained or not."""
    site = Site()
    reader = connected(site, "r", version)
    reader.subscribe("w", 1)
    client = connected(site, "c", version, will=Will(topic="w", payload=b"gone", qos=1, retain=retain))
    assert payloads(reader) == []
    client.lose()
    assert [packet[2:4] for packet in reader.packets()] == [(b"gone", 1)]
    late = connected(site, "l", version)
    late.subscribe("w", 1)

    assert payloads(late) == ([b"gone"] if retain else [])


@pytest.mark.parametrize("version", wire.VERSIONS)
def test_goodbye_takes_the_will_back(version: int) -> None:
    """[MQTT-3.14.4-3]"""
    site = Site()
    reader = connected(site, "r", version)
    reader.subscribe("w")
    connected(site, "c", version, will=Will(topic="w", payload=b"gone")).leave()
    site.pass_time(10)

    assert payloads(reader) == []


def test_goodbye_with_the_will() -> None:
    """MQTT 5.0 §3.14.2.1: reason code 0x04."""
    site = Site()
    reader = connected(site, "r")
    reader.subscribe("w")
    client = connected(site, "c", will=Will(topic="w", payload=b"gone"))
    client.send(wire.disconnect(5, Disconnect(reason=4)))
    client.lose()

    assert payloads(reader) == [b"gone"]


# -- login -------------------------------------------------------------------------------------------------------


class Nobody:
    """Lets nobody in."""

    def mechanisms(self, context: ConnectionContext) -> list[str]:
        """None."""
        return []

    def begin(self, mechanism: str, context: ConnectionContext) -> SaslExchange | None:
        """None."""
        return None

    def login(self, user: str | None, password: str | None, context: ConnectionContext, done: object) -> None:
        """Wrong, whatever it is."""
        assert callable(done)
        done(LoginResult(LoginOutcome.BAD_CREDENTIALS, None if user != "x" else Subject("x")))


@pytest.mark.parametrize("version", wire.VERSIONS)
def test_whoever_is_not_let_in_is_out(version: int) -> None:
    """[MQTT-3.1.4-2] and nothing behind its CONNECT counts."""
    site = Site()
    reader = connected(site, "r")
    reader.subscribe("t")
    client = Client(site, version, Nobody())
    packet = Connect(version=version, client_id="c", username="u", password=b"p")
    client.send(wire.connect(packet), wire.publish(version, "t"))
    (answer,) = client.packets()

    assert isinstance(answer, Connack)
    assert answer.reason in ((0x86, 0x87) if version == 5 else (4, 5))
    assert client.handler.closed
    assert payloads(reader) == []


@pytest.mark.parametrize("wanted", [None, 0, 1])
def test_no_response_information_unless_asked_for(wanted: int | None) -> None:
    """[MQTT-3.1.2-28]"""
    answer = Client(Site()).connect(properties=Properties(request_response_information=wanted))

    assert answer.properties.response_information is None or wanted == 1


def test_a_client_that_is_taken_over_is_told_no_expiry() -> None:
    """[MQTT-3.14.2-2]: that is the client's to say."""
    site = Site()
    first = lasting(site, "c")
    lasting(site, "c")
    (last,) = first.packets()

    assert last.reason == 0x8E
    assert last.properties.session_expiry_interval is None


# -- WebSocket ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [1, 7, 100])
def test_mqtt_over_websocket(size: int) -> None:
    """[MQTT-6.0.0-1] [MQTT-6.0.0-2] [MQTT-6.0.0-4]: `mqtt` is selected; binary frames, cut anywhere."""
    site = Site()
    context = ConnectionContext(
        connection_id=1, peer="peer", is_loopback=True, authenticator=OpenAuthenticator(), wake=lambda: None
    )
    connection = WebSocketManager([site.manager]).connect(context)
    client = WSConnection(ConnectionType.CLIENT)
    request = Request(host="broker", target="/", subprotocols=["other", "mqtt"])
    connection.receive_data(client.send(request), 0.0)
    client.receive_data(connection.data_to_send())
    (accepted,) = client.events()
    assert isinstance(accepted, AcceptConnection)
    assert accepted.subprotocol == "mqtt"

    octets = wire.connect(Connect(client_id="c")) + wire.PINGREQ * 2
    for start in range(0, len(octets), size):
        connection.receive_data(client.send(BytesMessage(data=octets[start : start + size])), 0.0)
    client.receive_data(connection.data_to_send())
    answer = b"".join(bytes(event.data) for event in client.events() if isinstance(event, BytesMessage))

    assert [type(packet) for packet in wire.read_server_packets(5, answer)] == [Connack, str, str]


# -- deliveries --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", wire.VERSIONS)
@pytest.mark.parametrize("published", [0, 1, 2])
@pytest.mark.parametrize("granted", [0, 1, 2])
def test_the_lower_quality_of_service_counts(version: int, published: int, granted: int) -> None:
    """[MQTT-3.8.4-8] [MQTT-3.3.1-3] [MQTT-3.3.2-3]: of message and subscription; DUP coming in is not passed on."""
    site = Site()
    reader = connected(site, "r", version)
    assert reader.subscribe("a/+", granted) == (granted,)
    connected(site, "p", version).publish("a/b", b"m", published, min(published, 1), dup=published > 0)
    (packet,) = reader.packets()

    assert packet[:4] == ("publish", "a/b", b"m", min(published, granted))
    assert packet[6] is False


@pytest.mark.parametrize("version", wire.VERSIONS)
def test_overlapping_subscriptions(version: int) -> None:
    """[MQTT-3.3.4-2] [3.1.1: MQTT-3.3.5-1]: a copy for each, so that one has the highest quality of service."""
    site = Site()
    reader = connected(site, "r", version)
    for qos, topic_filter in enumerate(("a/#", "a/b", "+/b")):
        reader.subscribe(topic_filter, qos)
    connected(site, "p", version).publish("a/b", b"m", 2, 1)

    assert sorted(packet[3] for packet in reader.packets()) == [0, 1, 2]


def test_topics_are_compared_character_by_character() -> None:
    """[MQTT-4.7.3-4]: no case folding, no normal forms, no empty levels left out."""
    site = Site()
    topics = ["a/b", "A/b", "a/b/", "/a/b", "a//b", "a/b ", "a.b", "\u00e9", "e\u0301", "a\\b", "*"]
    readers = {topic: connected(site, f"r{index}") for index, topic in enumerate(topics)}
    for topic, reader in readers.items():
        reader.subscribe(topic)
    publisher = connected(site, "p")
    for topic in topics:
        publisher.publish(topic, topic.encode())

    assert [payloads(reader) for reader in readers.values()] == [[topic.encode()] for topic in topics]


@pytest.mark.parametrize("qos", [0, 1, 2])
def test_messages_keep_their_order(qos: int) -> None:
    """[MQTT-4.6.0-5] [MQTT-4.6.0-6]: those of one client to one topic, whichever subscription finds them."""
    site = Site()
    reader = connected(site, "r")
    reader.subscribe("a/#", qos)
    first, second = connected(site, "p1"), connected(site, "p2")
    for number in range(1, 30):
        for publisher, name in ((first, b"1"), (second, b"2")):
            publisher.publish("a/b", name + b"%d" % number, qos, number if qos else 0)
    got = payloads(reader)

    for name in (b"1", b"2"):
        assert [one for one in got if one.startswith(name)] == [name + b"%d" % number for number in range(1, 30)]


def test_what_expired_is_not_delivered() -> None:
    """[MQTT-3.3.2-5] [MQTT-3.3.2-6]: what is left of the interval goes out, and nothing when there is nothing left."""
    site = Site()
    reader = lasting(site, "r")
    reader.subscribe("t", 1)
    reader.lose()
    publisher = connected(site, "p")
    for number, expiry_s in ((1, 5), (2, 20)):
        properties = Properties(message_expiry_interval=expiry_s)
        publisher.publish("t", b"%d" % number, 1, number, properties=properties)
    publisher.packets()
    site.pass_time(8)

    (packet,) = lasting(site, "r").packets()
    assert packet[2] == b"2"
    assert packet[-1].message_expiry_interval == 12


def test_a_delivery_that_has_begun_does_not_expire() -> None:
    """[MQTT-4.3.3-7] [MQTT-4.3.3-13]: it is completed, also over connections."""
    site = Site()
    reader = lasting(site, "r")
    reader.subscribe("t", 2)
    connected(site, "p").publish("t", b"1", 2, 1, properties=Properties(message_expiry_interval=5))
    (packet,) = reader.packets()
    site.pass_time(60)
    reader.lose()
    reader = lasting(site, "r")
    (again,) = reader.packets()
    assert (again[2], again[4], again[6]) == (b"1", packet[4], True)
    reader.ack(PUBREC, packet[4])
    assert reader.packets() == [("pubrel", packet[4], 0)]
    reader.ack(PUBCOMP, packet[4])

    assert reader.packets() == []
    assert site.domain.queue("r.t").message_count == 0


@pytest.mark.parametrize("version", wire.VERSIONS)
def test_retained_messages(version: int) -> None:
    """[MQTT-3.3.1-5] [MQTT-3.3.1-8] the last one with RETAIN counts, whatever its QoS; one without leaves it alone."""
    site = Site()
    publisher = connected(site, "p", version)
    publisher.publish("t", b"1", 1, 1, retain=True)
    publisher.publish("t", b"2", retain=True)
    publisher.publish("t", b"3", 1, 2)
    reader = connected(site, "r", version)
    reader.subscribe("t", 1)

    assert [(packet[2], packet[3], packet[5]) for packet in reader.packets()] == [(b"2", 0, True)]


def test_subscribing_again_sends_what_is_retained_and_loses_nothing() -> None:
    """[MQTT-3.8.4-4] [MQTT-3.8.4-3]"""
    site = Site()
    publisher = connected(site, "p")
    publisher.publish("t", b"kept", retain=True)
    reader = connected(site, "r")
    reader.subscribe("t", 1)
    publisher.publish("t", b"1", 1, 1)
    reader.subscribe("t", 1, retain_handling=0)
    publisher.publish("t", b"2", 1, 2)
    reader.subscribe("t", 1, retain_handling=2)
    publisher.publish("t", b"3", 1, 3)

    got = payloads(reader)
    assert [one for one in got if one != b"kept"] == [b"1", b"2", b"3"]
    assert got.count(b"kept") == 2


def test_what_had_begun_is_completed_after_unsubscribing() -> None:
    """[MQTT-3.10.4-2] [MQTT-3.10.4-3]: and nothing is added."""
    site = Site()
    reader = connected(site, "r")
    reader.subscribe("t", 2)
    publisher = connected(site, "p")
    publisher.publish("t", b"1", 2, 1)
    (packet,) = reader.packets()
    assert unsubscribe(reader, "t") == (0,)
    publisher.publish("t", b"2", 2, 2)
    reader.ack(PUBREC, packet[4])
    assert reader.packets() == [("pubrel", packet[4], 0)]
    reader.ack(PUBCOMP, packet[4])

    assert reader.packets() == []
    assert not reader.handler.closed


@pytest.mark.parametrize("version", wire.VERSIONS)
def test_a_client_that_waits_for_a_failing_store_is_closed(version: int, tmp_path: Path) -> None:
    """[3.1.1: MQTT-4.8.0-2] its message may be stored or not: no answer would be true."""
    with Site(tmp_path) as site:
        lasting(site, "r").subscribe("t", 1)
        site.commit()
        client = connected(site, "c", version)
        client.publish("t", b"1", 1, 1)
        client.handler._store_failed("disk full")
        answers = client.packets_before_commit()

        assert client.handler.closed
        assert [one for one in answers if isinstance(one, tuple)] == []


# -- shared subscriptions ----------------------------------------------------------------------------------------


def test_each_member_of_a_group_has_its_own_quality_of_service() -> None:
    """[MQTT-4.8.2-3]"""
    site = Site()
    members = {qos: connected(site, f"m{qos}") for qos in (0, 1)}
    for qos, member in members.items():
        member.subscribe("$share/g/t", qos)
    publisher = connected(site, "p")
    for number in range(1, 9):
        publisher.publish("t", b"m", 1, number)
    for qos, member in members.items():
        got = [packet[3] for packet in member.packets()]
        assert got
        assert set(got) == {qos}


def test_a_message_that_a_member_began_is_completed_with_it() -> None:
    """[MQTT-4.8.2-4]: QoS 2, whose identifiers only that client knows."""
    site = Site()
    member = lasting(site, "m")
    member.subscribe("$share/g/t", 2)
    connected(site, "p").publish("t", b"1", 2, 1)
    (packet,) = member.packets()
    member.lose()
    other = lasting(site, "o")
    other.subscribe("$share/g/t", 2)
    assert payloads(other) == []

    (again,) = lasting(site, "m").packets()
    assert (again[2], again[4], again[6]) == (b"1", packet[4], True)


@pytest.mark.parametrize(("qos", "answer"), [(1, PUBACK), (2, PUBREC)])
def test_a_message_that_a_member_refused_goes_to_nobody_else(qos: int, answer: int) -> None:
    """[MQTT-4.8.2-6]"""
    site = Site()
    member = connected(site, "m")
    member.subscribe("$share/g/t", qos)
    connected(site, "p").publish("t", b"1", qos, 1)
    (packet,) = member.packets()
    other = connected(site, "o")
    other.subscribe("$share/g/t", qos)
    member.ack(answer, packet[4], 0x80)

    assert (member.packets(), payloads(other)) == ([], [])
