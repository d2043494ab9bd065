"""MQTT subscribers of retroactive addresses (artemis-model §3.11)."""

from itertools import product

import pytest

from tests.interop.mqtt.conftest import StartServer
from tests.interop.mqtt.paho_client import Paho
from tests.interop.mqtt.raw import RETAIN_IF_NEW, RETAIN_NEVER, kept, opened
from tests.interop.mqtt.server import MqttInstance, MqttServer, unlike_mosquitto

pytestmark = unlike_mosquitto("has no retroactive addresses")

VERSIONS = (3, 4, 5)
INSTANCE = MqttInstance(
    persistent=True,
    settings="""
<address-setting match="news.#"><retroactive-message-count>3</retroactive-message-count></address-setting>
""",
)


@pytest.fixture(scope="module")
def keeping(serve: StartServer) -> MqttServer:
    """The one server of this module."""
    return serve(INSTANCE)


@pytest.mark.parametrize(("version", "qos"), list(product(VERSIONS, (0, 1, 2))))
def test_a_new_subscription_begins_with_the_history(keeping: MqttServer, name: str, version: int, qos: int) -> None:
    """With Paho: in order, before what comes later."""
    topic = f"news/{name}/{version}{qos}"
    with Paho(keeping, f"c-{name}-{version}{qos}", version=version) as client:
        for number in range(5):
            client.publish(topic, str(number), qos)
        client.subscribe(topic, qos)
        client.publish(topic, "live", qos)
        messages = [client.receive() for _ in range(4)]

        assert [each.payload for each in messages] == [b"2", b"3", b"4", b"live"]
        assert {(each.topic, each.qos, each.retain) for each in messages} == {(topic, qos, False)}


def test_a_session_that_is_resumed_gets_nothing_again(keeping: MqttServer, name: str) -> None:
    topic = f"news/{name}"
    with opened(keeping) as publisher:
        publisher.publish(topic, b"1", 1)
        with kept(keeping, f"c-{name}") as client:
            client.subscribe(topic, options=1)
            assert client.receive_all(1) == [b"1"]
        with kept(keeping, f"c-{name}") as again:
            assert again.connack.session_present
            again.subscribe(topic, options=1)
            assert again.waiting() == []
        with opened(keeping) as other:
            other.subscribe(topic)
            assert other.receive_all(1) == [b"1"]


@pytest.mark.parametrize("version", VERSIONS)
def test_a_retained_message_in_the_history_comes_once(keeping: MqttServer, name: str, version: int) -> None:
    """[MQTT-3.3.1-8]: with RETAIN set, and at its place in the history."""
    topic = f"news/{name}"
    with opened(keeping, version=version) as publisher, opened(keeping, version=version) as late:
        publisher.publish(topic, b"1", 1)
        publisher.publish(topic, b"kept", 1, retain=True)
        publisher.publish(topic, b"3", 1)
        late.subscribe(topic, options=1)
        publisher.publish(topic, b"new", 1, retain=True)
        messages = [late.receive() for _ in range(4)]

        assert [(each.payload, each.retain) for each in messages] == [
            (b"1", False),
            (b"kept", True),
            (b"3", False),
            (b"new", False),
        ]
        assert late.waiting() == []
        late.subscribe(topic, options=1)
        again = late.receive()
        assert (again.payload, again.retain) == (b"new", True)


def test_a_retained_message_that_is_older_than_the_history_comes_behind_it(keeping: MqttServer, name: str) -> None:
    topic = f"news/{name}"
    with opened(keeping) as publisher, opened(keeping) as late:
        publisher.publish(topic, b"kept", 1, retain=True)
        for payload in (b"1", b"2", b"3"):
            publisher.publish(topic, payload, 1)
        late.subscribe(topic, options=1)
        messages = [late.receive() for _ in range(4)]

        assert [(each.payload, each.retain) for each in messages] == [
            (b"1", False),
            (b"2", False),
            (b"3", False),
            (b"kept", True),
        ]
        assert late.waiting() == []


@pytest.mark.parametrize("options", [RETAIN_NEVER, RETAIN_IF_NEW])
def test_retain_handling_is_about_retained_copies_only(keeping: MqttServer, name: str, options: int) -> None:
    """A history is what the subscription missed, whatever Retain Handling says."""
    topic = f"news/{name}/{options}"
    with opened(keeping) as client:
        client.publish(topic, b"kept", 1, retain=True)
        client.subscribe(topic, options=options)

        assert client.receive_all(1) == [b"kept"]
        assert client.waiting() == []


@pytest.mark.parametrize("qos", [0, 1])
def test_a_retained_message_comes_once_after_a_restart(serve: StartServer, name: str, qos: int) -> None:
    """Of QoS 1 it is also in the history, of QoS 0 it is only retained: the history does not survive for it."""
    server = serve(INSTANCE)
    topic = f"news/{name}"
    with opened(server) as publisher:
        publisher.publish(topic, b"1", 1)
        publisher.publish(topic, b"kept", qos, retain=True)
        publisher.publish(topic, b"2", 1)
    server.stop()
    server.run()
    with opened(server) as late:
        late.subscribe(topic, options=1)
        expected = [b"1", b"kept", b"2"] if qos else [b"1", b"2", b"kept"]

        assert late.receive_all(3) == expected
        assert late.waiting() == []
