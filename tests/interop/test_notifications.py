"""Notifications and slow consumers with real clients of all protocols, against one broker in this process."""

import json
from collections.abc import Iterator
from typing import Any, Final

import pytest
from proton import Message as ProtonMessage
from proton import ProtonException
from proton.reactor import Selector
from proton.utils import BlockingConnection, BlockingReceiver, ConnectionClosed

from artemis_openwire.engine.structures import ActiveMQQueue, ActiveMQTopic
from artemis_openwire.engine.values import read_map
from artemis_py.testing import RunningBroker, running_broker
from tests.interop.mqtt.paho_client import Paho
from tests.interop.openwire_client import OpenWireClient

ADDRESS: Final = "activemq.notifications"
TIMEOUT_S: Final = 60.0
CONFIGURATION: Final = """<?xml version="1.0" encoding="UTF-8"?>
<configuration xmlns="urn:activemq">
  <core xmlns="urn:activemq:core">
    <security-enabled>false</security-enabled>
    <acceptors><acceptor name="all">tcp://127.0.0.1:0?protocols=AMQP,MQTT,OPENWIRE</acceptor></acceptors>
    <addresses>
      <address name="watched.q"><anycast><queue name="watched.q"/></anycast></address>
      <address name="ended.q"><anycast><queue name="ended.q"/></anycast></address>
    </addresses>
    <address-settings>
      <address-setting match="watched.#">
        <slow-consumer-threshold>10</slow-consumer-threshold>
      </address-setting>
      <address-setting match="ended.#">
        <slow-consumer-threshold>10</slow-consumer-threshold>
        <slow-consumer-policy>KILL</slow-consumer-policy>
      </address-setting>
    </address-settings>
  </core>
</configuration>
"""


@pytest.fixture(scope="module")
def broker() -> Iterator[RunningBroker]:
    """One broker for all tests here; its clock can be moved."""
    with running_broker(CONFIGURATION, persistent=False) as running:
        yield running


@pytest.fixture
def amqp(broker: RunningBroker) -> Iterator[BlockingConnection]:
    """A connection of Proton."""
    connection = BlockingConnection(broker.url(), timeout=TIMEOUT_S)
    yield connection
    connection.close()


def told(connection: BlockingConnection, selector: str) -> BlockingReceiver:
    """A receiver of some notifications."""
    return connection.create_receiver(ADDRESS, credit=100, options=Selector(selector))


def properties(receiver: BlockingReceiver) -> dict[str, Any]:
    """The next notification."""
    message = receiver.receive(timeout=TIMEOUT_S)
    receiver.accept()
    assert message.body is None
    return dict(message.properties)


def test_proton_selects_by_the_words_of_artemis(broker: RunningBroker, amqp: BlockingConnection) -> None:
    """The life of a consumer, told to a subscriber whose selector was written for Artemis."""
    receiver = told(amqp, "_AMQ_NotifType IN ('CONSUMER_CREATED', 'CONSUMER_CLOSED') AND _AMQ_ConsumerCount < 2")
    other = BlockingConnection(broker.url(), timeout=TIMEOUT_S)
    consumer = other.create_receiver("seen", options=Selector("x = 1"))

    created = properties(receiver)
    assert (created["_AMQ_NotifType"], created["_AMQ_Address"]) == ("CONSUMER_CREATED", "seen")
    assert created["_AMQ_FilterString"] == "x = 1"
    assert created["_AMQ_Client_ID"] == other.container.container_id
    assert type(created["_AMQ_Distance"]).__name__ == "int32"
    assert created["_AMQ_RemoteAddress"].startswith("127.0.0.1:")
    consumer.close()
    closed = properties(receiver)
    other.close()
    assert (closed["_AMQ_NotifType"], closed["_AMQ_ConsumerName"]) == ("CONSUMER_CLOSED", created["_AMQ_ConsumerName"])
    assert (closed["_AMQ_ConsumerCount"], closed["_AMQ_Reason"]) == (0, "closed")


@pytest.mark.parametrize("version", [4, 5])
def test_paho_gets_json(broker: RunningBroker, version: int) -> None:
    """MQTT 3 has no properties, and a message without a body would say nothing."""
    with Paho(_server(broker), "watcher", version=version) as watcher, Paho(_server(broker), "all") as everything:
        everything.subscribe("#")
        watcher.subscribe("activemq/notifications")
        with Paho(_server(broker), f"seen-{version}", version=version):
            found = [json.loads(watcher.receive().payload) for _ in range(2)]

        assert [each["_AMQ_NotifType"] for each in found] == ["CONNECTION_CREATED", "SESSION_CREATED"]
        assert [each["_AMQ_Client_ID"] for each in found] == [f"seen-{version}"] * 2
        assert found[1]["_AMQ_Protocol_Name"] == "MQTT"
        assert everything.nothing_came()


def test_an_openwire_client_gets_them_with_its_types(broker: RunningBroker) -> None:
    """A topic as any other, with a selector."""
    with OpenWireClient("127.0.0.1", broker.port("openwire"), "ID:test-1:1") as client:
        client.consume(ActiveMQTopic(physical_name=ADDRESS), selector="_AMQ_NotifType = 'BINDING_ADDED'")
        client.consume(ActiveMQQueue(physical_name="seen-by-openwire"), value=2)

        found = read_map(client.receive().marshalled_properties)

    assert (found["_AMQ_Address"], found["_AMQ_Binding_Type"]) == ("seen-by-openwire", 0)
    assert type(found["_AMQ_Binding_Type"]) is int  # 32 bits; a long has a class of its own
    assert type(found["_AMQ_NotifTimestamp"]).__name__ == "Long"


def test_a_slow_consumer_of_proton_is_reported(broker: RunningBroker, amqp: BlockingConnection) -> None:
    """It takes a hundred messages and settles none."""
    receiver = told(amqp, "_AMQ_NotifType = 'CONSUMER_SLOW'")
    fill(amqp, "watched.q", 100)
    other = BlockingConnection(broker.url(), timeout=TIMEOUT_S)
    consumer = other.create_receiver("watched.q", credit=100)
    for _ in range(100):
        consumer.receive(timeout=TIMEOUT_S)

    for _ in range(2):
        broker.clock.advance(5)
    slow = properties(receiver)
    assert (slow["_AMQ_Address"], slow["_AMQ_ConsumerCount"], slow["artemis_py_Acknowledged"]) == ("watched.q", 1, 0)
    assert slow["_AMQ_Client_ID"] == other.container.container_id
    other.close()


def test_a_slow_consumer_of_proton_is_disconnected(broker: RunningBroker, amqp: BlockingConnection) -> None:
    """KILL: in AMQP's words, with the reason, and what it had goes to others."""
    receiver = told(amqp, "_AMQ_NotifType = 'CONNECTION_DESTROYED'")
    fill(amqp, "ended.q", 100)
    other = BlockingConnection(broker.url(), timeout=TIMEOUT_S)
    consumer = other.create_receiver("ended.q", credit=100)
    for _ in range(100):
        consumer.receive(timeout=TIMEOUT_S)

    for _ in range(2):
        broker.clock.advance(5)
    destroyed = properties(receiver)

    assert destroyed["_AMQ_Reason"].startswith("consumer of queue 'ended.q' is too slow: it acknowledged 0 messages")
    with pytest.raises((ConnectionClosed, ProtonException)) as ended:
        consumer.receive(timeout=TIMEOUT_S)
    assert "ended.q" in str(ended.value)
    assert other.conn.remote_condition.name == "amqp:connection:forced"
    assert broker.queue("ended.q").count == 100


def test_a_slow_subscriber_of_mqtt_is_disconnected(broker: RunningBroker) -> None:
    """MQTT 5.0 §4.13: DISCONNECT with 0x98, administrative action."""
    with Paho(_server(broker), "publisher") as publisher:
        slow = Paho(_server(broker), "slow", setup=lambda client: client.manual_ack_set(True))
        slow.subscribe("ended/topic", qos=1)
        for _ in range(100):
            publisher.publish("ended/topic", "m", qos=1)
        for _ in range(2):
            broker.clock.advance(5)

        assert slow.wait_disconnected() == 0x98


def fill(connection: BlockingConnection, address: str, count: int) -> None:
    """A queue with messages."""
    sender = connection.create_sender(address, options=None)
    for _ in range(count):
        sender.send(ProtonMessage(body="m"))
    sender.close()


class _Server:
    """Where Paho connects to."""

    def __init__(self, port: int) -> None:
        self.port: Final = port
        self.websocket_port: Final = port


def _server(broker: RunningBroker) -> Any:
    return _Server(broker.port("mqtt"))
