"""Paho, Proton and our OpenWire client on one port: what one sends through an exchange, all get, before and after a
restart.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest
from proton import Message

from artemis_openwire.engine.structures import ActiveMQTopic
from artemis_py.testing.running import RunningBroker, running_broker
from tests.interop.mqtt.paho_client import Paho
from tests.interop.mqtt.server import MqttServer
from tests.interop.openwire_client import OpenWireClient, text_content
from tests.interop.proton.client import Client

HOST = "127.0.0.1"

CONFIGURATION = """<configuration xmlns="urn:activemq"><core xmlns="urn:activemq:core">
  <security-enabled>false</security-enabled>
  <acceptors><acceptor name="all">tcp://127.0.0.1:0?mqttExchange=amq.topic;amqpAddresses=RABBITMQ</acceptor></acceptors>
</core></configuration>"""


@pytest.fixture
def broker() -> Iterator[RunningBroker]:
    """A broker with a store."""
    with running_broker(CONFIGURATION, persistent=True) as running:
        yield running


@pytest.fixture
def server(broker: RunningBroker, tmp_path: Path) -> MqttServer:
    """The same as Paho wants it."""
    server = MqttServer(tmp_path)
    server.port = int(broker.url().rpartition(":")[2].partition("/")[0])
    return server


def send_all(server: MqttServer, url: str, run: int) -> None:
    """One durable message of each client for `plant.<protocol>.state`."""
    with Client(url) as amqp, Paho(server, "writer") as mqtt, OpenWireClient(HOST, server.port, "ID:writer-1:1") as jms:
        amqp.sender("amq.topic/plant.amqp.state").send(Message(body=f"amqp {run}", durable=True))
        amqp.sender("/exchanges/amq.topic/plant.rabbit.state").send(Message(body=f"rabbit {run}", durable=True))
        mqtt.publish("plant/mqtt/state", f"mqtt {run}", qos=1)
        mqtt.publish("plant/mqtt/other", "not wanted", qos=1)
        jms.send(ActiveMQTopic(physical_name="exchange://amq.topic/plant.jms.state"), text_content(f"jms {run}"))


SENDERS = ("amqp", "rabbit", "mqtt", "jms")
EXPECTED = [f"{sender} {run}" for run in (1, 2) for sender in SENDERS]


def test_durable_subscriptions_of_all_protocols_collect(broker: RunningBroker, server: MqttServer) -> None:
    """Their clients are away, the broker starts again, and each gets everything, with the key in its own words."""
    destination = ActiveMQTopic(physical_name="exchange://amq.topic/plant.*.state")
    with Client(broker.url(), "reader") as amqp:
        amqp.receiver("amq.topic/plant.*.state", name="sub", durable=True).detach()
    with Paho(server, "mqtt-reader", clean=False, expiry_s=1000) as mqtt:
        assert mqtt.subscribe("plant/+/state", 1) == 1
    with OpenWireClient(HOST, server.port, "ID:reader-1:1") as jms:
        jms.consume(destination, subscription_name="sub")
    for run in (1, 2):
        send_all(server, broker.url(), run)
        broker.restart()

    with Client(broker.url(), "reader") as amqp:
        received = [
            bytes(body).decode() if isinstance(body, memoryview | bytes) else body
            for body in amqp.receiver("amq.topic/plant.*.state", name="sub", durable=True).bodies()
        ]
    with Paho(server, "mqtt-reader", clean=False, expiry_s=1000) as mqtt:
        messages = [mqtt.receive() for _ in EXPECTED]
        assert mqtt.nothing_came()
    with OpenWireClient(HOST, server.port, "ID:reader-1:1") as jms:
        jms.consume(destination, subscription_name="sub")
        dispatches = [jms.next_dispatch() for _ in EXPECTED]
        assert jms.next_dispatch(0.1) is None

    assert received == EXPECTED
    assert [message.payload.decode() for message in messages] == EXPECTED
    assert [message.topic for message in messages] == [f"plant/{sender}/state" for sender in SENDERS] * 2
    assert [each.destination.physical_name for each in dispatches if each is not None and each.destination] == [
        f"exchange://amq.topic/plant.{sender}.state" for sender in SENDERS
    ] * 2
