"""Retained messages (MQTT 5.0 §3.3.1.3, §3.8.3.1; MQTT 3.1.1 §3.3.1.3)."""

import pytest

from tests.interop.mqtt.packets import Property
from tests.interop.mqtt.raw import RETAIN_AS_PUBLISHED, RETAIN_IF_NEW, RETAIN_NEVER, kept, opened
from tests.interop.mqtt.server import MqttServer
from tests.interop.mqtt.waiting import until

VERSIONS = (3, 4, 5)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("qos", [0, 1, 2])
def test_later_subscriber_gets_the_last_retained_message(server: MqttServer, name: str, version: int, qos: int) -> None:
    """[MQTT-3.3.1-5] [MQTT-3.3.1-9], with RETAIN set [MQTT-3.1.1/3.3.1-8] [MQTT-3.1.1/3.3.1-6]."""
    with opened(server, version=version) as publisher, opened(server, version=version) as subscriber:
        for payload in (b"first", b"last"):
            publisher.publish(name, payload, qos, retain=True)
        publisher.ping()
        subscriber.subscribe(name, options=2)
        message = subscriber.receive()

        assert (message.payload, message.retain, message.qos, message.dup) == (b"last", True, qos, False)
        assert subscriber.waiting() == []


@pytest.mark.parametrize("version", VERSIONS)
def test_existing_subscriber_sees_no_retain_flag(server: MqttServer, name: str, version: int) -> None:
    """[MQTT-3.3.1-12] [MQTT-3.1.1/3.3.1-9]."""
    with opened(server, version=version) as client:
        client.subscribe(name)
        client.publish(name, b"m", retain=True)

        assert not client.receive().retain


def test_existing_subscriber_may_ask_for_the_flag_as_published(server: MqttServer, name: str) -> None:
    """[MQTT-3.3.1-13]."""
    with opened(server) as client:
        client.subscribe(name, options=RETAIN_AS_PUBLISHED)
        client.publish(name, b"1", retain=True)
        client.publish(name, b"2")

        assert [client.receive().retain for _ in range(2)] == [True, False]


@pytest.mark.parametrize("version", VERSIONS)
def test_empty_payload_clears(server: MqttServer, name: str, version: int) -> None:
    """[MQTT-3.3.1-6] [MQTT-3.3.1-7] [MQTT-3.1.1/3.3.1-10] [MQTT-3.1.1/3.3.1-11]; subscribers there get it."""
    with opened(server, version=version) as client, opened(server, version=version) as late:
        client.subscribe(name)
        client.publish(name, b"m", 1, retain=True)
        client.publish(name, b"", 1, retain=True)
        late.subscribe(name)

        assert client.receive_all(2) == [b"m", b""]
        assert late.waiting() == []


@pytest.mark.parametrize("version", VERSIONS)
def test_ordinary_message_leaves_the_retained_one_alone(server: MqttServer, name: str, version: int) -> None:
    """[MQTT-3.3.1-8] [MQTT-3.1.1/3.3.1-12]; an empty one too."""
    with opened(server, version=version) as client:
        client.publish(name, b"kept", 1, retain=True)
        client.publish(name, b"passing", 1)
        client.publish(name, b"", 1)
        client.subscribe(name)

        assert client.receive_all(1) == [b"kept"]


def test_wildcard_subscription_gets_every_match(server: MqttServer, name: str) -> None:
    """[MQTT-3.3.1-9]: one message per topic, and no others."""
    topics = [f"{name}/{room}/{kind}" for room in "abc" for kind in ("light", "heat")]
    with opened(server) as client:
        for topic in topics:
            client.publish(topic, topic.encode(), 1, retain=True)
        client.subscribe(f"{name}/+/heat")
        heat = client.receive_all(3)
        client.subscribe(f"{name}/b/#")
        room = client.receive_all(2)

        assert sorted(heat) == sorted(topic.encode() for topic in topics if topic.endswith("heat"))
        assert sorted(room) == sorted(topic.encode() for topic in topics if "/b/" in topic)


def test_multi_level_wildcard_includes_the_parent(server: MqttServer, name: str) -> None:
    """MQTT 5.0 §4.7.1.2: `a/#` matches `a`."""
    with opened(server) as client:
        client.publish(name, b"parent", 1, retain=True)
        client.publish(f"{name}/child", b"child", 1, retain=True)
        client.subscribe(f"{name}/#")

        assert sorted(client.receive_all(2)) == [b"child", b"parent"]


def test_retain_handling_0_sends_again_on_every_subscribe(server: MqttServer, name: str) -> None:
    """[MQTT-3.3.1-9] [MQTT-3.8.4-4]."""
    with opened(server) as client:
        client.publish(name, b"m", 1, retain=True)
        client.subscribe(name)
        client.subscribe(name)

        assert client.receive_all(2) == [b"m", b"m"]


def test_retain_handling_1_sends_for_a_new_subscription_only(server: MqttServer, name: str) -> None:
    """[MQTT-3.3.1-10]."""
    with opened(server) as client:
        client.publish(name, b"m", 1, retain=True)
        client.subscribe(name, options=RETAIN_IF_NEW)
        client.subscribe(name, options=RETAIN_IF_NEW)
        once = client.receive_all(1)
        client.unsubscribe(name)
        client.subscribe(name, options=RETAIN_IF_NEW)

        assert once == [b"m"]
        assert client.receive_all(1) == [b"m"]


def test_retain_handling_1_knows_subscriptions_of_a_kept_session(server: MqttServer, name: str) -> None:
    """[MQTT-3.3.1-10]: the subscription exists since the connection before."""
    with opened(server) as publisher, kept(server, f"c-{name}") as first:
        publisher.publish(name, b"m", 1, retain=True)
        first.subscribe(name, options=RETAIN_NEVER)
        first.disconnect()
        with kept(server, f"c-{name}") as second:
            second.subscribe(name, options=RETAIN_IF_NEW)

            assert second.waiting() == []


def test_retain_handling_2_sends_nothing(server: MqttServer, name: str) -> None:
    """[MQTT-3.3.1-11]."""
    with opened(server) as client:
        client.publish(name, b"m", 1, retain=True)
        client.subscribe(name, options=RETAIN_NEVER)

        assert client.waiting() == []


def test_retained_message_keeps_its_properties(server: MqttServer, name: str) -> None:
    """[MQTT-3.3.2-4] [MQTT-3.3.2-15] [MQTT-3.3.2-16] [MQTT-3.3.2-17] [MQTT-3.3.2-18] [MQTT-3.3.2-20]."""
    given = (
        (Property.PAYLOAD_FORMAT, 1),
        (Property.CONTENT_TYPE, "text/plain"),
        (Property.RESPONSE_TOPIC, "answers"),
        (Property.CORRELATION_DATA, b"\x00\x01"),
        (Property.USER, ("z", "1")),
        (Property.USER, ("a", "2")),
    )
    with opened(server) as publisher, opened(server) as subscriber:
        publisher.publish(name, b"m", 1, retain=True, given=given)
        subscriber.subscribe(name)

        assert sorted(map(repr, subscriber.receive().properties)) == sorted(map(repr, given))


def test_retained_message_expires(server: MqttServer, name: str) -> None:
    """MQTT 5.0 §3.3.2.3.3: after its interval later subscribers get nothing."""
    with opened(server) as client:
        client.publish(name, b"m", 1, retain=True, given=[(Property.MESSAGE_EXPIRY, 1)])

        def is_gone() -> bool:
            client.subscribe(name)
            found = client.waiting()
            client.inbox.clear()
            return not found

        until(is_gone, "the end of a retained message")


@pytest.mark.parametrize("topic", ["/lead", "trail/", "a//b", "dot.ted/a.b", "star*/x", "spa ce/é☃", "back\\slash"])
def test_odd_topics_are_kept_apart(server: MqttServer, name: str, topic: str) -> None:
    """[MQTT-4.7.3-4]: no normalisation; what the address model spells differently comes back as it was."""
    mine = f"{name}{topic}" if not topic.startswith("/") else f"{topic}/{name}"
    with opened(server) as publisher, opened(server) as subscriber:
        publisher.publish(mine, mine, 1, retain=True)
        subscriber.subscribe(mine)
        message = subscriber.receive()
        publisher.publish(mine, b"live", 1)

        assert (message.topic, message.payload.decode()) == (mine, mine)
        assert subscriber.receive().topic == mine
        publisher.publish(mine, b"", 1, retain=True)


def test_will_and_publish_share_the_retained_place(server: MqttServer, name: str) -> None:
    """[MQTT-3.3.1-5]: a topic has one retained message whoever wrote it."""
    with opened(server) as one, opened(server) as two, opened(server) as reader:
        one.publish(name, b"one", 1, retain=True)
        two.publish(name, b"two", 2, retain=True)
        reader.subscribe(name, options=2)

        assert reader.receive_all(1) == [b"two"]
