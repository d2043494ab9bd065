"""Topics and client ids up to the 65,535 octets of MQTT: what is no address is refused, and the store goes on."""

from collections.abc import Iterator

import pytest

from tests.interop.mqtt.conftest import StartServer
from tests.interop.mqtt.paho_client import Paho
from tests.interop.mqtt.server import MqttInstance, MqttServer, unlike_mosquitto

pytestmark = unlike_mosquitto("it has no limit of its own below 65,535 octets")

TOPIC_NAME_INVALID = 0x90
TOPIC_FILTER_INVALID = 0x8F
LONG = "t" * 60_000


@pytest.fixture(scope="module")
def stored(serve: StartServer) -> MqttServer:
    """A broker with a store."""
    return serve(MqttInstance(persistent=True))


@pytest.fixture(autouse=True)
def _still_stores(stored: MqttServer) -> Iterator[None]:
    yield
    with Paho(stored, "proof") as client:
        client.subscribe("proof", 1)
        client.publish("proof", "stored", 1)
        assert client.receive().payload == b"stored"


def test_a_topic_that_is_no_address_is_refused(stored: MqttServer) -> None:
    codes: list[int] = []
    with Paho(stored, "long") as client:
        client.client.on_publish = lambda _, __, ___, code, ____: codes.append(code.value)
        client.publish(LONG, "m", 1)
        client.publish(LONG, "m", 1, retain=True)
        for topic in (LONG, LONG + "/#", f"$share/g/{LONG}"):
            assert client.subscribe(topic, 1) == TOPIC_FILTER_INVALID
        client.publish("short", "m", 0)

    assert codes[:2] == [TOPIC_NAME_INVALID, TOPIC_NAME_INVALID]


def test_the_longest_client_id_has_a_session(stored: MqttServer) -> None:
    """A subscription of it would be a queue whose name is too long; the session itself is kept."""
    client_id = "c" * 65_535
    with Paho(stored, client_id, expiry_s=100) as client:
        assert client.subscribe("news", 1) == TOPIC_FILTER_INVALID
    with Paho(stored, client_id, clean=False, expiry_s=0) as client:
        assert client.session_present
        client.publish("news", "m", 1, retain=True)


def test_names_that_are_too_long_only_together(stored: MqttServer) -> None:
    with Paho(stored, "c" * 3000, expiry_s=100) as client:
        assert client.subscribe("t" * 3000, 1) == TOPIC_FILTER_INVALID
        assert client.subscribe("t" * 1000, 1) == 1
