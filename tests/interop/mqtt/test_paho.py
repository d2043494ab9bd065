"""Eclipse Paho for Python: every version, over TCP and WebSocket."""

from itertools import product
from pathlib import Path
from typing import Final

import pytest
from paho.mqtt.client import Client
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

from tests.interop.mqtt.conftest import StartServer
from tests.interop.mqtt.paho_client import Paho
from tests.interop.mqtt.server import IS_MOSQUITTO, MqttInstance, MqttServer, unlike_mosquitto

VERSIONS: Final = (3, 4, 5)
TRANSPORTS: Final = ("tcp", "websockets")
CERTIFICATES: Final = Path(__file__).resolve().parents[2] / "transport" / "certificates"
BOTH: Final = pytest.mark.parametrize(("version", "transport"), list(product(VERSIONS, TRANSPORTS)))


@BOTH
@pytest.mark.parametrize("qos", [0, 1, 2])
def test_messages_arrive_in_order(server: MqttServer, name: str, version: int, transport: str, qos: int) -> None:
    """A hundred, with the QoS that both sides asked for."""
    with (
        Paho(server, f"s-{name}", version=version, transport=transport) as subscriber,
        Paho(server, f"p-{name}", version=version, transport=transport) as publisher,
    ):
        assert subscriber.subscribe(name, qos) == qos
        for number in range(100):
            publisher.client.publish(name, str(number), qos)
        messages = [subscriber.receive() for _ in range(100)]

        assert [message.payload for message in messages] == [str(number).encode() for number in range(100)]
        assert {message.qos for message in messages} == {qos}
        assert {message.topic for message in messages} == {name}


@BOTH
def test_payloads_are_kept(server: MqttServer, name: str, version: int, transport: str) -> None:
    """Empty, binary and larger than any read."""
    with Paho(server, f"c-{name}", version=version, transport=transport) as client:
        client.subscribe(name, 1)
        payloads = [b"", bytes(range(256)), b"0123456789" * 200_000]
        for payload in payloads:
            client.publish(name, payload, 1)

        assert client.receive_all(3) == payloads


@BOTH
def test_kept_session(server: MqttServer, name: str, version: int, transport: str) -> None:
    """Messages of the meantime come after reconnecting, also over the other transport."""
    options = {"version": version, "clean": False, "expiry_s": 3600}
    with Paho(server, f"s-{name}", transport=transport, **options) as subscriber:  # type: ignore[arg-type]
        subscriber.subscribe(name, 2)
    with Paho(server, f"p-{name}", version=version, transport=transport) as publisher:
        publisher.publish(name, "1", 1)
        publisher.publish(name, "2", 2)
    with Paho(server, f"s-{name}", transport="tcp", **options) as again:  # type: ignore[arg-type]
        assert again.session_present or version == 3
        assert again.receive_all(2) == [b"1", b"2"]


@BOTH
def test_retained_message_and_wildcard(server: MqttServer, name: str, version: int, transport: str) -> None:
    """The flag tells kept from live."""
    with Paho(server, f"c-{name}", version=version, transport=transport) as client:
        client.publish(f"{name}/a", "kept", 1, retain=True)
        client.subscribe(f"{name}/+", 1)
        kept = client.receive()
        client.publish(f"{name}/b", "live", 1, retain=True)
        live = client.receive()

        assert (kept.topic, kept.payload, kept.retain) == (f"{name}/a", b"kept", True)
        assert (live.topic, live.payload, live.retain) == (f"{name}/b", b"live", False)


@BOTH
def test_will(server: MqttServer, name: str, version: int, transport: str) -> None:
    """The socket closes without a DISCONNECT."""

    def setup(client: Client) -> None:
        client.will_set(name, "gone", 1)

    with Paho(server, f"w-{name}", version=version) as watcher:
        watcher.subscribe(name, 1)
        Paho(server, f"d-{name}", version=version, transport=transport, setup=setup).break_off()

        assert watcher.receive().payload == b"gone"


@BOTH
def test_unsubscribe(server: MqttServer, name: str, version: int, transport: str) -> None:
    """Only the other topic is heard from then on."""
    with Paho(server, f"c-{name}", version=version, transport=transport) as client:
        client.subscribe(f"{name}/a", 1)
        client.subscribe(f"{name}/b", 1)
        client.unsubscribe(f"{name}/a")
        client.publish(f"{name}/a", "no", 1)
        client.publish(f"{name}/b", "yes", 1)

        assert client.receive().payload == b"yes"
        assert client.nothing_came()


@BOTH
def test_takeover(server: MqttServer, name: str, version: int, transport: str) -> None:
    """The first client is told in version 5, and the second one works."""
    first = Paho(server, f"c-{name}", version=version, transport=transport)
    with Paho(server, f"c-{name}", version=version, transport=transport) as second:
        code = first.wait_disconnected()
        second.subscribe(name)
        second.publish(name, "m")

        assert second.receive().payload == b"m"
        assert version < 5 or IS_MOSQUITTO or code == 0x8E
    first.client.loop_stop()


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_properties(server: MqttServer, name: str, transport: str) -> None:
    """As Paho names them."""
    with Paho(server, transport=transport) as client:
        client.subscribe(name, 1)
        client.publish(
            name,
            "m",
            1,
            ContentType="text/plain",
            ResponseTopic="answers",
            CorrelationData=b"\x01",
            PayloadFormatIndicator=1,
            MessageExpiryInterval=1000,
            UserProperty=[("a", "1"), ("b", "2"), ("a", "3")],
        )
        properties = client.receive().properties

        assert properties is not None
        assert properties.ContentType == "text/plain"
        assert properties.ResponseTopic == "answers"
        assert properties.CorrelationData == b"\x01"
        assert properties.PayloadFormatIndicator == 1
        assert 990 < properties.MessageExpiryInterval <= 1000
        assert properties.UserProperty == [("a", "1"), ("b", "2"), ("a", "3")]


def test_options_of_a_subscription(server: MqttServer, name: str) -> None:
    """No local, retain as published and retain handling."""
    with Paho(server) as client, Paho(server) as other:
        other.publish(name, "old", 1, retain=True)
        client.subscribe(name, 1, noLocal=True, retainAsPublished=True, retainHandling=2)
        client.publish(name, "own", 1)
        other.publish(name, "new", 1, retain=True)
        message = client.receive()

        assert (message.payload, message.retain) == (b"new", True)
        assert client.nothing_came()


def test_shared_subscription(server: MqttServer, name: str) -> None:
    """Two clients of one group get every message once."""
    with Paho(server) as one, Paho(server) as two, Paho(server) as publisher:
        for member in (one, two):
            member.subscribe(f"$share/group/{name}", 1)
        for number in range(50):
            publisher.publish(name, str(number), 1)
        publisher.publish(name, "end-1", 1)
        publisher.publish(name, "end-2", 1)
        seen: list[bytes] = []
        while len(seen) < 52:
            seen += [member.inbox.get().payload for member in (one, two) if not member.inbox.empty()]

        assert sorted(seen) == sorted([*(str(number).encode() for number in range(50)), b"end-1", b"end-2"])


def test_delayed_will(server: MqttServer, name: str) -> None:
    """One second after the connection broke."""

    def setup(client: Client) -> None:
        properties = Properties(PacketTypes.WILLMESSAGE)
        properties.WillDelayInterval = 1
        client.will_set(name, "gone", 1, properties=properties)

    with Paho(server) as watcher:
        watcher.subscribe(name, 1)
        Paho(server, f"d-{name}", expiry_s=100, setup=setup).break_off()

        assert watcher.receive().payload == b"gone"


@unlike_mosquitto("has its certificates elsewhere in its configuration")
@pytest.mark.parametrize("transport", ["tcp", "websockets"])
def test_over_tls(serve: StartServer, name: str, transport: str) -> None:
    """[MQTT-4.2.0-1]: the client checks the certificate; a payload of several records comes whole."""
    tls = {"sslEnabled": "true", "keyStorePath": str(CERTIFICATES / "broker.pem")}
    server = serve(MqttInstance(limits=tls))

    def trust(client: Client) -> None:
        client.tls_set(str(CERTIFICATES / "authority.pem"))

    with Paho(server, f"c-{name}", transport=transport, setup=trust) as client:
        client.subscribe(name, 2)
        client.publish(name, b"0123456789" * 6_000, 2)

        assert client.receive().payload == b"0123456789" * 6_000
