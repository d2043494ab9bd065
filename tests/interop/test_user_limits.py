"""`resource-limit-settings` as clients of all protocols meet it, and through a reload and a restart."""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
from proton import ConnectionException

from artemis_openwire.engine.structures import ActiveMQTopic
from tests.interop.broker_process import BrokerProcess, Instance, launch, start_broker
from tests.interop.mqtt.paho_client import Paho
from tests.interop.mqtt.paho_client import Refused as MqttRefused
from tests.interop.mqtt.server import MqttServer
from tests.interop.openwire_client import OpenWireClient
from tests.interop.proton.client import Client, Refused
from tests.interop.test_reload import change, hang_up

LIMIT: Final = "<max-connections>1</max-connections><max-queues>1</max-queues>"
CORE: Final = f"""
<security-enabled>false</security-enabled>
<resource-limit-settings>
  <resource-limit-setting match="ann">{LIMIT}</resource-limit-setting>
</resource-limit-settings>
"""


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    """A broker in which ann may have one connection and one queue."""
    instance = Instance(core=CORE, persistence="true", parameters="protocols=AMQP,MQTT,OPENWIRE")
    process = start_broker(instance, tmp_path / "broker")
    yield process
    process.kill()


def amqp(broker: BrokerProcess, user: str = "ann") -> Client:
    return Client(broker.url, user=user, password="p", allowed_mechs="PLAIN")


def mqtt(broker: BrokerProcess, client_id: str = "m", user: str = "ann") -> Paho:
    server = MqttServer(broker.directory)
    server.port = broker.port
    return Paho(server, client_id, user=user, password="p")


def openwire(broker: BrokerProcess, name: str = "ID:w-1:1") -> OpenWireClient:
    return OpenWireClient(broker.host, broker.port, name, user_name="ann", password="p")


def test_connections_of_all_protocols_count_together(broker: BrokerProcess) -> None:
    with amqp(broker), mqtt(broker, "other", "bob"), amqp(broker, "bob"):
        with pytest.raises(ConnectionException, match="amqp:resource-limit-exceeded"):
            amqp(broker)
        with pytest.raises(MqttRefused) as refused:
            mqtt(broker)
        assert refused.value.code == 0x97
        with pytest.raises(AssertionError, match="ResourceAllocationException"):
            openwire(broker)
        assert "reason=user 'ann' has 1 connections; its max-connections is 1" in broker.log_text()
        change(broker, "<max-connections>1<", "<max-connections>2<")
        hang_up(broker, "configuration reloaded")
        amqp(broker).close()
    broker.stop()


def test_a_client_that_comes_back_replaces_its_connection(broker: BrokerProcess) -> None:
    """The broker has not noticed that it was gone."""
    first = mqtt(broker)
    second = mqtt(broker)
    first.wait_disconnected()
    second.close()
    first.close()
    with openwire(broker), openwire(broker):
        pass
    broker.stop()


def test_queues_of_all_protocols_count_together(broker: BrokerProcess) -> None:
    """Also after a restart; one that is deleted makes room."""
    with amqp(broker) as client:
        receiver = client.receiver("news", ("topic",), name="mine", durable=True)
        with pytest.raises(Refused) as refused:
            client.receiver("other", ("queue",))
        assert refused.value.condition == "amqp:resource-limit-exceeded"
        receiver.detach()
    broker.stop()
    broker = launch(broker.directory)
    with mqtt(broker) as subscriber:
        assert subscriber.subscribe("other", 1) == 0x97
    with openwire(broker) as wire, pytest.raises(AssertionError, match="ResourceAllocationException"):
        wire.consume(ActiveMQTopic(physical_name="other"))
    assert "limit reached: user 'ann' has created 1 queues; its max-queues is 1" in broker.log_text()
    change(broker, "<max-queues>1<", "<max-queues>2<")
    hang_up(broker, "configuration reloaded")
    with mqtt(broker) as subscriber:
        assert subscriber.subscribe("other", 1) == 1
    broker.stop()
