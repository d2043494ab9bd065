"""OpenWire and AMQP 1.0 on one port: a queue or topic is an address, and messages cross both ways."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from proton import Message as ProtonMessage

from artemis_openwire.engine.commands import ActiveMQBytesMessage, ActiveMQTextMessage
from artemis_openwire.engine.structures import ActiveMQQueue, ActiveMQTopic
from artemis_openwire.engine.values import read_map, write_map
from tests.interop import shipped
from tests.interop.broker_process import BrokerProcess, Instance, start_broker
from tests.interop.mqtt.paho_client import Paho
from tests.interop.mqtt.server import MqttServer
from tests.interop.openwire_client import OpenWireClient, text_content
from tests.interop.proton.client import Client

pytestmark = pytest.mark.each_build

QUEUE = ActiveMQQueue(physical_name="crossing")
TOPIC = ActiveMQTopic(physical_name="news.today")
VIRTUAL_TOPICS = "Consumer.*.%3E%3B2"
"""`Consumer.*.>;2`, as it is written in a URL in XML."""


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """One broker for all of them; the protocol of a connection is detected."""
    folder: Path = tmp_path_factory.mktemp("crossing")
    parameters = f"protocols=AMQP,MQTT,OPENWIRE;virtualTopicConsumerWildcards={VIRTUAL_TOPICS}"
    process = start_broker(Instance(parameters=parameters), folder)
    yield process
    process.stop()


def openwire(broker: BrokerProcess) -> OpenWireClient:
    return OpenWireClient(broker.host, broker.port)


def test_openwire_text_is_an_amqp_string(broker: BrokerProcess) -> None:
    with openwire(broker) as sender, Client(broker.url) as consumer:
        sender.send(
            QUEUE,
            text_content("hello"),
            marshalled_properties=write_map({"colour": "red", "count": 5}),
            correlation_id="c-1",
            priority=7,
        )
        received = consumer.receiver("crossing", ("queue",)).receive()
        received.accept()
        message = received.message

        assert received.body == "hello"
        assert (message.correlation_id, message.priority, message.durable) == ("c-1", 7, True)
        assert message.properties == {"colour": "red", "count": 5}


def test_openwire_octets_are_amqp_data(broker: BrokerProcess) -> None:
    with openwire(broker) as sender, Client(broker.url) as consumer:
        sender.send(QUEUE, b"\x00\xff", ActiveMQBytesMessage)
        received = consumer.receiver("crossing", ("queue",)).receive()
        received.accept()

        assert bytes(received.body) == b"\x00\xff"


def test_an_amqp_string_is_openwire_text(broker: BrokerProcess) -> None:
    with openwire(broker) as consumer, Client(broker.url) as sender:
        consumer.consume(QUEUE)
        message = ProtonMessage(body="hello", properties={"colour": "red"}, correlation_id="c-1", priority=7)
        sender.sender("crossing", ("queue",)).send(message)
        received = consumer.receive()

        assert isinstance(received, ActiveMQTextMessage)
        assert received.content == text_content("hello")
        assert (received.correlation_id, received.priority) == ("c-1", 7)
        assert read_map(received.marshalled_properties)["colour"] == "red"
        assert received.destination == QUEUE


def test_a_topic_of_both(broker: BrokerProcess) -> None:
    with openwire(broker) as wire, Client(broker.url) as amqp:
        wire.consume(TOPIC)
        receiver = amqp.receiver("news.today", ("topic",))
        wire.send(TOPIC, text_content("from openwire"))
        amqp.sender("news.today", ("topic",)).send(ProtonMessage(body="from amqp"))

        assert [wire.receive().content, wire.receive().content] == [
            text_content("from openwire"),
            text_content("from amqp"),
        ]
        assert [receiver.receive().body, receiver.receive().body] == ["from openwire", "from amqp"]


def test_a_queue_of_a_virtual_topic_is_one_for_all_protocols(broker: BrokerProcess) -> None:
    """AMQP reaches it by FQQN, MQTT by a shared subscription with the words before the topic as its group."""
    orders = ActiveMQTopic(physical_name="VT.orders")
    server = MqttServer(broker.directory)
    server.port = broker.port
    with openwire(broker) as wire, Client(broker.url) as amqp, Paho(server, "m") as mqtt:
        wire.consume(ActiveMQQueue(physical_name="Consumer.A.VT.orders"))
        wire.send(orders, text_content("for openwire"))
        assert wire.receive().content == text_content("for openwire")
        wire.leave()

        wire.send(orders, text_content("for amqp"))
        receiver = amqp.receiver("VT.orders::Consumer.A.VT.orders", ("topic",))
        received = receiver.receive()
        received.accept()
        assert received.body == "for amqp"
        receiver.close()

        wire.send(orders, text_content("for mqtt"))
        mqtt.subscribe("$share/Consumer.A/VT/orders", 1)
        message = mqtt.receive()
        assert (message.topic, message.payload) == ("VT/orders", b"for mqtt")


def test_the_broker_as_shipped_speaks_openwire(tmp_path: Path) -> None:
    """On the port that all protocols share."""
    with shipped.running(tmp_path) as server, OpenWireClient("127.0.0.1", server.port) as client:
        client.consume(QUEUE)
        client.send(QUEUE, text_content("hello"))

        assert client.receive().content == text_content("hello")
