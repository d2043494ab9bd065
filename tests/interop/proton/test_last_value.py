"""Last-value queues of a broker.xml: AMQP and MQTT clients, a restart and a kill (artemis-model §3.4)."""

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from proton import Message

from artemis_py.storetools.check import check_folder
from tests.interop.broker_process import BrokerProcess, Instance, launch, start_broker
from tests.interop.mqtt.paho_client import Paho
from tests.interop.proton.client import Client

INSTANCE = Instance(
    persistence="true",
    core="<security-enabled>false</security-enabled>",
    addresses="""
<address name="prices"><anycast><queue name="prices" last-value-key="symbol"/></anycast></address>
<address name="states"><anycast><queue name="states" last-value="true"/></anycast></address>
<address name="recent"><anycast><queue name="recent" last-value-key="symbol" ring-size="2"/></anycast></address>
""",
    settings="""
<address-setting match="#"><max-read-page-messages>2</max-read-page-messages></address-setting>
<address-setting match="ticker"><default-last-value-key>symbol</default-last-value-key></address-setting>
""",
)


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    """One for each test, because tests end it."""
    process = start_broker(INSTANCE, tmp_path / "broker")
    yield process
    process.kill()


def price(symbol: object, body: str, priority: int = 4) -> Message:
    """A durable message about a share."""
    return Message(body=body, durable=True, priority=priority, properties={"symbol": symbol})


def test_consumer_gets_the_last_message_of_each_key(broker: BrokerProcess) -> None:
    """In the order in which they came; a message without the property is ordinary."""
    with Client(broker.url) as client:
        client.send("prices", price("a", "a1", 9), price("b", "b1"), Message(body="plain"), price(7, "7"))
        client.send("prices", price("a", "a2"), price("7", "7 as text"))

        assert client.bodies("prices") == ["b1", "plain", "a2", "7 as text"]


def test_common_property_is_the_key(broker: BrokerProcess) -> None:
    """`last-value="true"`, and also where another property is named."""
    with Client(broker.url) as client:
        for address in ("states", "prices"):
            for body in ("1", "2"):
                client.send(address, Message(body=body, properties={"_AMQ_LVQ_NAME": "a"}))

            assert client.bodies(address) == ["2"]


def test_superseded_delivery_does_not_come_back(broker: BrokerProcess) -> None:
    """Released, it is discarded; a current one returns."""
    with Client(broker.url) as client:
        client.send("prices", price("a", "a1"), price("b", "b1"))
        receiver = client.receiver("prices")
        old, current = receiver.receive_many(2)
        client.send("prices", price("a", "a2"))
        old.release()
        current.release()
        receiver.close()

        assert client.bodies("prices") == ["b1", "a2"]


def test_ring_of_last_values_keeps_the_newest(broker: BrokerProcess) -> None:
    """Both attributes on one queue."""
    with Client(broker.url) as client:
        client.send("recent", price("a", "a1"), price("b", "b1"), price("a", "a2"))
        client.send("recent", price("c", "c1"))

        assert client.bodies("recent") == ["a2", "c1"]


@pytest.mark.parametrize("ends", ["stop", "kill"])
def test_last_values_survive_the_end_of_the_broker(broker: BrokerProcess, ends: str) -> None:
    """With most of them on disk only; what came before is replaced after the start, and nothing comes back."""
    count = 40
    client = Client(broker.url)
    client.send("prices", *[price(f"k{number}", f"old {number}") for number in range(count)])
    client.send("prices", *[price(f"k{number}", f"mid {number}") for number in range(0, count, 2)])
    held = client.receiver("prices").receive()
    assert held.body == "old 1"
    client.send("prices", price("k1", "mid 1"))
    getattr(broker, ends)()
    client.abort()
    broker.process.wait()
    assert check_folder(broker.directory / "data" / "journal") == []

    again = launch(broker.directory)
    try:
        with Client(again.url) as client:
            client.send("prices", *[price(f"k{number}", f"new {number}") for number in range(0, count, 4)])
            found = client.bodies("prices")
    finally:
        again.kill()

    old = [f"old {number}" for number in range(3, count, 2)]
    middle = [f"mid {number}" for number in range(2, count, 4)]
    assert found == [*old, *middle, "mid 1", *[f"new {number}" for number in range(0, count, 4)]]


def test_mqtt_session_that_returns_gets_the_last_value_of_each_key(broker: BrokerProcess) -> None:
    """The key is a user property; the setting of the address makes the queues of subscriptions last-value queues."""
    server: Any = SimpleNamespace(port=broker.port, websocket_port=broker.port)
    with Paho(server, "reader", clean=False, expiry_s=1000) as reader:
        reader.subscribe("ticker", 1)
    with Paho(server, "writer") as writer:
        for symbol, body in (("a", "a1"), ("b", "b1"), ("a", "a2"), ("b", "b2"), ("c", "c1")):
            writer.publish("ticker", body, 1, UserProperty=("symbol", symbol))
    with Client(broker.url) as client:
        client.send("ticker", price("c", "c2"), capabilities=("topic",))

    with Paho(server, "reader", clean=False, expiry_s=1000) as reader:
        assert reader.receive_all(3)[:2] == [b"a2", b"b2"]
        assert reader.nothing_came()
