"""Wills (MQTT 5.0 §3.1.2.5, §3.1.3.2; MQTT 3.1.1 §3.1.2.5)."""

import pytest

from tests.interop.mqtt import packets
from tests.interop.mqtt.packets import Properties, Property, Will
from tests.interop.mqtt.raw import Raw, kept, opened
from tests.interop.mqtt.server import IS_MOSQUITTO, MqttServer, unlike_mosquitto
from tests.interop.mqtt.waiting import until

VERSIONS = (3, 4, 5)


def doomed(server: MqttServer, name: str, will: Will, version: int = 5, expiry_s: int = 0) -> Raw:
    """A connection with a will."""
    given = [(Property.SESSION_EXPIRY, expiry_s)] if version == 5 else []
    return opened(server, f"d-{name}", version=version, clean=not expiry_s, given=given, will=will)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("qos", [0, 1, 2])
def test_will_is_published_when_the_connection_breaks(server: MqttServer, name: str, version: int, qos: int) -> None:
    """[MQTT-3.1.2-7] [MQTT-3.1.2-8] [MQTT-3.1.2-14] [MQTT-3.1.1/3.1.2-8], with its QoS."""
    with opened(server, version=version) as watcher:
        watcher.subscribe(name, options=2)
        doomed(server, name, Will(topic=name, payload=b"gone", qos=qos), version).drop()
        message = watcher.receive()

        assert (message.payload, message.qos, message.retain) == (b"gone", qos, False)


@pytest.mark.parametrize("version", VERSIONS)
def test_will_is_dropped_by_a_normal_disconnect(server: MqttServer, name: str, version: int) -> None:
    """[MQTT-3.14.4-3] [MQTT-3.1.1/3.14.4-3], [MQTT-3.1.2-10]."""
    with opened(server, version=version) as watcher:
        watcher.subscribe(name)
        doomed(server, name, Will(topic=name), version).disconnect()

        assert watcher.waiting() == []


def test_will_is_published_after_disconnect_with_will(server: MqttServer, name: str) -> None:
    """MQTT 5.0 §3.14.2.1: reason code 0x04."""
    with opened(server) as watcher:
        watcher.subscribe(name)
        doomed(server, name, Will(topic=name)).disconnect(0x04)

        assert watcher.receive().payload == b"gone"


@pytest.mark.parametrize("version", VERSIONS)
def test_retained_will_is_there_for_later_subscribers(server: MqttServer, name: str, version: int) -> None:
    """[MQTT-3.1.2-15] [MQTT-3.1.1/3.1.2-17]."""
    with opened(server, version=version) as watcher, opened(server, version=version) as late:
        watcher.subscribe(name)
        doomed(server, name, Will(topic=name, retain=True, qos=1), version).drop()
        watcher.receive()
        late.subscribe(name, options=1)
        message = late.receive()

        assert (message.payload, message.retain) == (b"gone", True)


@pytest.mark.parametrize("version", VERSIONS)
def test_will_is_published_when_the_client_breaks_the_protocol(server: MqttServer, name: str, version: int) -> None:
    """MQTT 5.0 §3.1.2.5: the server closes for an error."""
    with opened(server, version=version) as watcher:
        watcher.subscribe(name)
        client = doomed(server, name, Will(topic=name), version)
        client.send(b"\x00\x00")
        client.wait_closed()

        assert watcher.receive().payload == b"gone"


@unlike_mosquitto("drops the will of a session that goes on")
def test_will_is_published_when_the_session_is_taken_over(server: MqttServer, name: str) -> None:
    """MQTT 5.0 §3.1.4: the first connection ends without DISCONNECT; the will has no delay."""
    with opened(server) as watcher:
        watcher.subscribe(name)
        first = doomed(server, name, Will(topic=name), expiry_s=100)
        second = doomed(server, name, Will(topic=f"{name}-other"), expiry_s=100)
        first.wait_closed()

        assert watcher.receive().payload == b"gone"
        second.disconnect()


def test_will_carries_its_properties(server: MqttServer, name: str) -> None:
    """MQTT 5.0 §3.1.3.2: all of them reach the subscriber; the delay itself does not."""
    given: Properties = [
        (Property.PAYLOAD_FORMAT, 1),
        (Property.MESSAGE_EXPIRY, 1000),
        (Property.CONTENT_TYPE, "text/plain"),
        (Property.RESPONSE_TOPIC, "answers"),
        (Property.CORRELATION_DATA, b"\x00\xff"),
        (Property.USER, ("b", "2")),
        (Property.USER, ("a", "1")),
    ]
    with opened(server) as watcher:
        watcher.subscribe(name)
        doomed(server, name, Will(topic=name, properties=given)).drop()
        message = watcher.receive()

        assert dict(message.properties) | {Property.MESSAGE_EXPIRY: 1000} == dict(given)
        assert message.all(Property.USER) == [("b", "2"), ("a", "1")]


def test_delayed_will_is_not_published_if_the_session_goes_on(server: MqttServer, name: str) -> None:
    """[MQTT-3.1.3-9] [MQTT-3.1.2-8]: the client is back before the delay is over."""
    with opened(server) as watcher:
        watcher.subscribe(name, f"{name}-marker")
        will = Will(topic=name, properties=[(Property.WILL_DELAY, 2)])
        doomed(server, name, will, expiry_s=100).drop()
        kept(server, f"d-{name}").disconnect()
        marker = Will(topic=f"{name}-marker", properties=[(Property.WILL_DELAY, 3)])
        doomed(server, f"{name}-2", marker, expiry_s=100).drop()

        assert watcher.receive().topic == f"{name}-marker"


def test_delayed_will_is_published_when_its_time_has_come(server: MqttServer, name: str) -> None:
    """[MQTT-3.1.2-8]: after the delay, which a marker with a shorter one comes before."""
    with opened(server) as watcher:
        watcher.subscribe(f"{name}/#")
        for number in (2, 1):
            will = Will(topic=f"{name}/{number}", properties=[(Property.WILL_DELAY, number)])
            doomed(server, f"{name}-{number}", will, expiry_s=100).drop()

        assert [watcher.receive().topic for _ in range(2)] == [f"{name}/1", f"{name}/2"]


def test_delayed_will_is_published_when_the_session_ends(server: MqttServer, name: str) -> None:
    """[MQTT-3.1.2-8]: whichever comes first; here the session expires long before the delay is over."""
    with opened(server) as watcher:
        watcher.subscribe(name)
        will = Will(topic=name, properties=[(Property.WILL_DELAY, 10_000)])
        doomed(server, name, will, expiry_s=1).drop()

        assert watcher.receive().payload == b"gone"


@unlike_mosquitto("drops the will")
def test_clean_start_ends_the_old_session_and_publishes_its_delayed_will(server: MqttServer, name: str) -> None:
    """MQTT 5.0 §3.1.2.5: discarding the session ends it."""
    with opened(server) as watcher:
        watcher.subscribe(name)
        will = Will(topic=name, properties=[(Property.WILL_DELAY, 10_000)])
        doomed(server, name, will, expiry_s=10_000).drop()
        opened(server, f"d-{name}").disconnect()

        assert watcher.receive().payload == b"gone"


@pytest.mark.parametrize("version", VERSIONS)
def test_silent_client_is_closed_and_its_will_published(server: MqttServer, name: str, version: int) -> None:
    """[MQTT-3.1.2-22] [MQTT-3.1.1/3.1.2-24]: one and a half times a keep alive of one second."""
    with opened(server, version=version) as watcher:
        watcher.subscribe(name)
        will = Will(topic=name, payload=b"asleep")
        silent = opened(server, f"d-{name}", version=version, keep_alive=1, will=will)

        assert watcher.receive().payload == b"asleep"
        goodbye = silent.wait_closed()
        if version == 5 and not IS_MOSQUITTO:
            assert goodbye is not None
            assert goodbye.code == 0x8D


def test_pinging_client_is_not_closed(server: MqttServer, name: str) -> None:
    """[MQTT-3.12.4-1]: PINGREQ counts; a silent neighbour with the same keep alive goes first."""
    with opened(server) as watcher:
        watcher.subscribe(f"{name}/#")
        pinging = opened(server, f"p-{name}", keep_alive=1, will=Will(topic=f"{name}/pinging"))
        opened(server, f"s-{name}", keep_alive=1, will=Will(topic=f"{name}/silent"))

        def is_over() -> bool:
            pinging.ping()
            return watcher.waiting() != []

        until(is_over, "the end of the silent client")
        pinging.ping()

        assert [message.topic for message in watcher.inbox] == [f"{name}/silent"]


@pytest.mark.parametrize("version", VERSIONS)
def test_will_topic_with_a_wildcard_is_refused(server: MqttServer, name: str, version: int) -> None:
    """[MQTT-4.7.0-1]: no subscriber of `a/b` ever sees a message named `a/+`."""
    with Raw(server, version) as client:
        client.send(packets.connect(version, f"d-{name}", will=Will(topic=f"{name}/+")))
        goodbye = client.wait_closed()

        assert goodbye is None
