"""What version 5 sends along: properties, expiry, aliases, flow control, sizes (MQTT 5.0 §3.3.2.3, §4.9)."""

from functools import partial

import pytest

from tests.interop.mqtt import packets
from tests.interop.mqtt.conftest import StartServer
from tests.interop.mqtt.packets import Properties, Property
from tests.interop.mqtt.raw import Raw, kept, opened
from tests.interop.mqtt.server import IS_MOSQUITTO, MqttInstance, MqttServer, unlike_mosquitto
from tests.interop.mqtt.waiting import until

ALL = (
    (Property.PAYLOAD_FORMAT, 1),
    (Property.CONTENT_TYPE, "text/plain; charset=utf-8"),
    (Property.RESPONSE_TOPIC, "answers/to me"),
    (Property.CORRELATION_DATA, bytes(range(256))),
    (Property.USER, ("same", "1")),
    (Property.USER, ("other", "")),
    (Property.USER, ("same", "2")),
    (Property.USER, ("", "é☃")),
)


@pytest.fixture(scope="module")
def limited(serve: StartServer) -> MqttServer:
    """A server with small limits."""
    return serve(MqttInstance(limits={"maximumPacketSize": 1000, "serverKeepAlive": 20, "receiveMaximum": 10}))


@pytest.mark.parametrize("qos", [0, 1, 2])
def test_properties_arrive_unaltered(server: MqttServer, name: str, qos: int) -> None:
    """[MQTT-3.3.2-4] [MQTT-3.3.2-15] [MQTT-3.3.2-16] [MQTT-3.3.2-17] [MQTT-3.3.2-18] [MQTT-3.3.2-20]."""
    with opened(server) as client:
        client.subscribe(name, options=qos)
        client.publish(name, "é☃", qos, given=ALL)
        message = client.receive()

        assert sorted(map(repr, message.properties)) == sorted(map(repr, ALL))
        assert message.all(Property.USER) == [value for number, value in ALL if number == Property.USER]


def test_properties_outlast_the_queue(server: MqttServer, name: str) -> None:
    """[MQTT-3.3.2-17]: kept for a client that is away."""
    with kept(server, f"c-{name}") as first:
        first.subscribe(name, options=1)
        first.disconnect()
    with opened(server) as publisher:
        publisher.publish(name, b"m", 1, given=ALL)
    with kept(server, f"c-{name}") as again:
        assert sorted(map(repr, again.receive().properties)) == sorted(map(repr, ALL))


def test_versions_read_each_other(server: MqttServer, name: str) -> None:
    """A 3.1.1 subscriber gets the payload alone; a version 5 subscriber gets no properties out of nowhere."""
    with opened(server) as new, opened(server, version=4) as old, opened(server, version=3) as oldest:
        for client in (new, old, oldest):
            client.subscribe(name, options=1)
        new.publish(name, b"new", 1, given=ALL)
        old.publish(name, b"old", 1)
        first, second = new.receive(), new.receive()

        assert old.receive_all(2) == [b"new", b"old"]
        assert oldest.receive_all(2) == [b"new", b"old"]
        assert first.payload == b"new"
        assert (second.payload, second.properties) == (b"old", ())


def test_expired_message_is_not_delivered(server: MqttServer, name: str) -> None:
    """[MQTT-3.3.2-5]: one second; the message behind it, without expiry, is what comes."""
    with kept(server, f"c-{name}") as subscriber:
        subscriber.subscribe(name, options=1)
        subscriber.disconnect()
    with opened(server) as publisher, kept(server, f"t-{name}") as timer:
        publisher.publish(name, b"short", 1, given=[(Property.MESSAGE_EXPIRY, 1)])
        publisher.publish(name, b"long", 1)
        # A will of the same delay is published when the second is over.
        marker = packets.Will(topic=f"{name}-over", properties=[(Property.WILL_DELAY, 2)])
        timer.subscribe(f"{name}-over")
        opened(server, f"w-{name}", given=[(Property.SESSION_EXPIRY, 100)], will=marker).drop()
        timer.receive()
    with kept(server, f"c-{name}") as again:
        assert again.receive_all(1) == [b"long"]


def test_expiry_interval_counts_down(server: MqttServer, name: str) -> None:
    """[MQTT-3.3.2-6]: what the subscriber gets is the time that is left."""
    with kept(server, f"c-{name}") as subscriber:
        subscriber.subscribe(name, options=1)
        subscriber.disconnect()
    with opened(server) as publisher, opened(server) as watcher:
        publisher.publish(name, b"m", 1, given=[(Property.MESSAGE_EXPIRY, 1000)])
        watcher.subscribe(f"{name}-over")
        marker = packets.Will(topic=f"{name}-over", properties=[(Property.WILL_DELAY, 2)])
        opened(server, f"w-{name}", given=[(Property.SESSION_EXPIRY, 100)], will=marker).drop()
        watcher.receive()
    with kept(server, f"c-{name}") as again:
        left = again.receive().get(Property.MESSAGE_EXPIRY)

        assert isinstance(left, int)
        assert 900 < left <= 999


def test_undelayed_message_keeps_its_expiry_interval(server: MqttServer, name: str) -> None:
    """[MQTT-3.3.2-6]."""
    with opened(server) as client:
        client.subscribe(name)
        client.publish(name, b"m", given=[(Property.MESSAGE_EXPIRY, 1000)])
        left = client.receive().get(Property.MESSAGE_EXPIRY)

        assert isinstance(left, int)
        assert 990 < left <= 1000


# Topic aliases


def test_alias_stands_for_its_topic(server: MqttServer, name: str) -> None:
    """MQTT 5.0 §3.3.2.3.4, [MQTT-3.3.2-12]: every number up to the maximum; it can be given a new meaning."""
    with opened(server) as client, opened(server) as subscriber:
        maximum = client.limit(Property.TOPIC_ALIAS_MAXIMUM, 0)
        subscriber.subscribe(f"{name}/#", options=1)
        for topic, alias in (("a", 1), ("", 1), ("b", maximum), ("", maximum), ("c", 1), ("", 1)):
            client.publish(f"{name}/{topic}" if topic else "", b"m", 1, given=[(Property.TOPIC_ALIAS, alias)])

        assert maximum >= 1
        assert [subscriber.receive().topic for _ in range(6)] == [f"{name}/{topic}" for topic in "aabbcc"]


@pytest.mark.parametrize("alias", [0, 65535])
def test_alias_out_of_range_is_refused(server: MqttServer, name: str, alias: int) -> None:
    """[MQTT-3.3.2-8] [MQTT-3.3.2-9]: DISCONNECT 0x94."""
    with opened(server) as client:
        if client.limit(Property.TOPIC_ALIAS_MAXIMUM, 0) >= alias > 0:
            pytest.skip("the server takes every alias there is")
        client.send(packets.publish(5, name, b"m", given=[(Property.TOPIC_ALIAS, alias)]))
        goodbye = client.wait_closed()

        assert goodbye is not None
        assert goodbye.code == 0x94 or (IS_MOSQUITTO and goodbye.code == 0x81)


def test_alias_without_a_topic_before_is_refused(server: MqttServer, name: str) -> None:
    """[MQTT-3.3.2-7]: aliases do not outlive a connection; a Protocol Error."""
    with kept(server, f"c-{name}") as first:
        first.publish(name, b"m", 1, given=[(Property.TOPIC_ALIAS, 1)])
        first.disconnect()
    with kept(server, f"c-{name}") as again:
        again.send(packets.publish(5, "", b"m", given=[(Property.TOPIC_ALIAS, 1)]))
        goodbye = again.wait_closed()

        assert goodbye is not None
        assert goodbye.code in (0x82, 0x94)


def test_empty_topic_without_alias_is_refused(server: MqttServer) -> None:
    """[MQTT-3.3.2-1] [MQTT-4.7.3-1]: a Protocol Error."""
    with opened(server) as client:
        client.send(packets.publish(5, "", b"m"))
        goodbye = client.wait_closed()

        assert goodbye is not None
        assert goodbye.code in (0x81, 0x82, 0x90)


def test_server_sends_no_alias_unasked(server: MqttServer, name: str) -> None:
    """[MQTT-3.1.2-27]; the publisher's alias is its own business [MQTT-3.3.2-7]."""
    with opened(server) as publisher, opened(server) as subscriber:
        subscriber.subscribe(name)
        publisher.publish(name, b"m", given=[(Property.TOPIC_ALIAS, 1)])
        message = subscriber.receive()

        assert (message.topic, message.get(Property.TOPIC_ALIAS)) == (name, None)


def test_server_aliases_stay_within_the_clients_maximum(server: MqttServer, name: str) -> None:
    """[MQTT-3.1.2-26] [MQTT-3.3.2-11]: whether it uses any or not, every message can be read."""
    with opened(server, given=[(Property.TOPIC_ALIAS_MAXIMUM, 2)]) as client:
        client.subscribe(f"{name}/+", options=1)
        known: dict[int, str] = {}
        seen = []
        for topic in "abcabcaab":
            client.publish(f"{name}/{topic}", b"m", 1)
            message = client.receive()
            alias = message.get(Property.TOPIC_ALIAS)
            if isinstance(alias, int):
                assert 1 <= alias <= 2
                if message.topic:
                    known[alias] = message.topic
                seen.append(known[alias])
            else:
                seen.append(message.topic)

        assert seen == [f"{name}/{topic}" for topic in "abcabcaab"]


# Flow control


def has_waiting(client: Raw, count: int) -> bool:
    """As many messages as this, or more, are here."""
    return len(client.waiting()) >= count


@pytest.mark.parametrize("maximum", [1, 3])
def test_no_more_than_receive_maximum_are_on_their_way(server: MqttServer, name: str, maximum: int) -> None:
    """[MQTT-3.3.4-9] [MQTT-4.9.0-2]; other packets do not wait [MQTT-3.3.4-10] [MQTT-4.9.0-3]."""
    if IS_MOSQUITTO and maximum > 1:
        pytest.skip("mosquitto 2.0.11 forgets it after the first acknowledgement")
    with opened(server, given=[(Property.RECEIVE_MAXIMUM, maximum)]) as subscriber, opened(server) as publisher:
        subscriber.subscribe(name, options=2)
        for number in range(6):
            publisher.publish(name, str(number), 1 + number % 2)
        for number in range(6):
            due = min(maximum, 6 - number)
            until(partial(has_waiting, subscriber, due), f"{due} messages")
            assert len(subscriber.waiting()) <= maximum
            assert subscriber.receive().payload == str(number).encode()


def test_qos_0_does_not_wait_for_the_window(server: MqttServer, name: str) -> None:
    """MQTT 5.0 §4.9: QoS 0 has no quota."""
    with opened(server, given=[(Property.RECEIVE_MAXIMUM, 1)]) as subscriber, opened(server) as publisher:
        subscriber.subscribe(f"{name}/0", options=0)
        subscriber.subscribe(f"{name}/1", options=1)
        publisher.publish(f"{name}/1", b"1", 1)
        publisher.publish(f"{name}/1", b"2", 1)
        publisher.publish(f"{name}/0", b"3", 0)
        publisher.ping()
        topics = [subscriber.receive(acknowledge=False).topic for _ in range(2)]

        assert topics == [f"{name}/1", f"{name}/0"]


@unlike_mosquitto("closes without a reason")
def test_exceeding_the_servers_receive_maximum_ends_the_connection(limited: MqttServer, name: str) -> None:
    """MQTT 5.0 §4.9: DISCONNECT 0x93, for PUBLISH packets of QoS 2 that are all left open."""
    with opened(limited) as client:
        maximum = client.limit(Property.RECEIVE_MAXIMUM, 65535)
        for number in range(maximum + 1):
            client.send(packets.publish(5, name, b"m", 2, number + 1))
        while (packet := client.read()).kind == packets.PUBREC:
            pass

        assert maximum == 10
        assert (packet.kind, packet.code) == (packets.DISCONNECT, 0x93)


# Sizes and server limits


def test_server_says_its_limits(limited: MqttServer) -> None:
    """MQTT 5.0 §3.2.2.3: Maximum Packet Size and Server Keep Alive."""
    with opened(limited, keep_alive=100) as client:
        assert client.connack.get(Property.MAXIMUM_PACKET_SIZE) == 1000
        assert client.connack.get(Property.SERVER_KEEP_ALIVE) == 20


def test_server_keep_alive_is_sent_only_if_it_differs(limited: MqttServer) -> None:
    """[MQTT-3.2.2-22]: a shorter one of the client is used."""
    with opened(limited, keep_alive=10) as client:
        assert client.connack.get(Property.SERVER_KEEP_ALIVE) in (None, 10)


def test_too_large_packet_ends_the_connection(limited: MqttServer, name: str) -> None:
    """[MQTT-3.2.2-15]: DISCONNECT 0x95, before its body has to arrive."""
    with opened(limited) as client:
        client.send(packets.publish(5, name, bytes(2000)))
        goodbye = client.wait_closed()

        assert goodbye is not None
        assert goodbye.code == 0x95


def test_packets_of_the_maximum_size_are_taken(limited: MqttServer, name: str) -> None:
    """MQTT 5.0 §3.2.2.3.6: the limit counts the whole packet."""
    with opened(limited) as client:
        client.subscribe(name, options=1)
        head = len(packets.publish(5, name, b"", 1, 1)) + 1
        client.publish(name, bytes(1000 - head), 1)

        assert client.receive().size == 1000


@pytest.mark.parametrize("qos", [0, 1, 2])
def test_message_too_large_for_a_client_is_not_sent_to_it(server: MqttServer, name: str, qos: int) -> None:
    """[MQTT-3.1.2-24] [MQTT-3.1.2-25]: others get it, and the next one arrives."""
    with opened(server, given=[(Property.MAXIMUM_PACKET_SIZE, 200)]) as small, opened(server) as large:
        small.subscribe(name, options=qos)
        large.subscribe(name, options=qos)
        large.publish(name, bytes(300), qos)
        assert large.receive().payload == bytes(300)
        large.publish(name, b"small", qos)

        assert large.receive().payload == b"small"
        assert small.receive_all(1) == [b"small"]


def test_maximum_packet_size_counts_the_properties(server: MqttServer, name: str) -> None:
    """[MQTT-3.1.2-24]: a small payload with large properties."""
    with opened(server, given=[(Property.MAXIMUM_PACKET_SIZE, 200)]) as small:
        small.subscribe(name, options=1)
        small.publish(name, b"m", 1, given=[(Property.USER, ("key", "v" * 300))])
        small.publish(name, b"small", 1)

        assert small.receive_all(1) == [b"small"]


def test_all_optional_features_are_there(server: MqttServer) -> None:
    """MQTT 5.0 §3.2.2.3: nothing is switched off; absent means available."""
    with opened(server) as client:
        for number in (
            Property.RETAIN_AVAILABLE,
            Property.WILDCARD_AVAILABLE,
            Property.SUBSCRIPTION_ID_AVAILABLE,
            Property.SHARED_AVAILABLE,
        ):
            assert client.connack.get(number) in (None, 1)
        assert client.connack.get(Property.MAXIMUM_QOS) is None


def test_request_and_response(server: MqttServer, name: str) -> None:
    """MQTT 5.0 §4.10: the responder knows the requester by its properties alone."""
    with opened(server) as requester, opened(server) as responder:
        responder.subscribe(f"{name}/service", options=1)
        requester.subscribe(f"{name}/answers/mine", options=1)
        given: Properties = [(Property.RESPONSE_TOPIC, f"{name}/answers/mine"), (Property.CORRELATION_DATA, b"42")]
        requester.publish(f"{name}/service", b"question", 1, given=given)
        request = responder.receive()
        topic, correlation = request.get(Property.RESPONSE_TOPIC), request.get(Property.CORRELATION_DATA)
        assert isinstance(topic, str)
        assert isinstance(correlation, bytes)
        responder.publish(topic, b"answer", 1, given=[(Property.CORRELATION_DATA, correlation)])
        answer = requester.receive()

        assert (answer.payload, answer.get(Property.CORRELATION_DATA)) == (b"answer", b"42")


def test_no_response_information_unasked(server: MqttServer) -> None:
    """[MQTT-3.1.2-28]."""
    with opened(server, given=[(Property.REQUEST_RESPONSE, 0)]) as client:
        assert client.connack.get(Property.RESPONSE_INFORMATION) is None


def test_no_reason_strings_for_a_client_that_wants_none(server: MqttServer, name: str) -> None:
    """[MQTT-3.1.2-29]: on no packet but PUBLISH, CONNACK and DISCONNECT."""
    with opened(server, given=[(Property.REQUEST_PROBLEM, 0)]) as client:
        client.send(packets.unsubscribe(5, 1, [name]))
        first = client.expect(packets.UNSUBACK)
        client.send(packets.answer(packets.PUBREL, 99))
        second = client.expect(packets.PUBCOMP)

        assert (first.properties, second.properties) == ((), ())


def test_unknown_authentication_method_is_refused(server: MqttServer, name: str) -> None:
    """[MQTT-4.12.0-1]: CONNACK 0x8C, then closed."""
    with Raw(server) as client:
        connack = client.connect(f"c-{name}", given=[(Property.AUTHENTICATION_METHOD, "NO-SUCH-METHOD")])

        assert connack.code == 0x8C
        assert client.wait_closed() is None


def test_auth_without_a_method_is_an_error(server: MqttServer) -> None:
    """[MQTT-4.12.0-7]: Protocol Error."""
    with opened(server) as client:
        client.send(packets.packet(packets.AUTH, 0))
        goodbye = client.wait_closed()

        assert goodbye is None or goodbye.code >= 0x80


def test_long_window_of_a_version_3_subscriber(server: MqttServer, name: str) -> None:
    """3.1.1 has no receive maximum: everything comes, in order, as it is acknowledged."""
    with opened(server, version=4) as subscriber, opened(server) as publisher:
        subscriber.subscribe(name, options=1)
        for number in range(200):
            publisher.publish(name, str(number), 1)

        assert subscriber.receive_all(200) == [str(number).encode() for number in range(200)]
