"""Brokers that were migrated serve the clients of the old ones."""

import base64
import hashlib
import json
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from artemis_openwire.engine.structures import ActiveMQQueue, ActiveMQTopic
from tests.interop.broker_process import BrokerProcess, launch
from tests.interop.mqtt.paho_client import Paho, Refused
from tests.interop.mqtt.server import MqttServer
from tests.interop.openwire_client import POISON, OpenWireClient, text_content
from tests.interop.proton.client import Client
from tests.migration import migrate, migrate_broker

CLASSIC = """
<destinationPolicy><policyMap><policyEntries>
  <policyEntry queue=">"><deadLetterStrategy><individualDeadLetterStrategy queuePrefix="DLQ."/></deadLetterStrategy>
  </policyEntry>
</policyEntries></policyMap></destinationPolicy>
<destinationInterceptors><virtualDestinationInterceptor><virtualDestinations>
  <virtualTopic name="VirtualTopic.&gt;" prefix="Consumer.*."/>
  <compositeQueue name="in"><forwardTo><queue physicalName="out.a"/><topic physicalName="out.b"/></forwardTo>
  </compositeQueue>
</virtualDestinations></virtualDestinationInterceptor></destinationInterceptors>
<plugins><simpleAuthenticationPlugin><users>
  <authenticationUser username="ann" password="sesame" groups="ops"/></users></simpleAuthenticationPlugin></plugins>
<transportConnectors><transportConnector name="auto" uri="auto+nio://127.0.0.1:0"/></transportConnectors>
"""


@pytest.fixture(scope="module")
def classic(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """A broker with the configuration of one of ActiveMQ Classic."""
    folder: Path = tmp_path_factory.mktemp("classic")
    migrated = migrate_broker(folder, CLASSIC)
    assert migrated.exit_code == 0
    process = launch(migrated.folder)
    yield process
    process.stop()


def openwire(broker: BrokerProcess, name: str = "ID:test-1:1", password: str = "sesame") -> OpenWireClient:
    return OpenWireClient(broker.host, broker.port, name, user_name="ann", password=password)


def test_a_client_of_activemq_sends_and_receives(classic: BrokerProcess) -> None:
    with openwire(classic) as client:
        client.consume(ActiveMQQueue(physical_name="orders"))
        client.send(ActiveMQQueue(physical_name="orders"), text_content("one"))

        assert client.receive().content == text_content("one")


def test_a_wrong_password_is_refused(classic: BrokerProcess) -> None:
    with pytest.raises(AssertionError, match="SecurityException"), openwire(classic, password="wrong"):
        pass


def test_a_virtual_topic_has_the_queues_of_its_consumers(classic: BrokerProcess) -> None:
    with openwire(classic) as client:
        client.consume(ActiveMQQueue(physical_name="Consumer.A.VirtualTopic.News"))
        client.send(ActiveMQTopic(physical_name="VirtualTopic.News"), text_content("news"))

        assert client.receive().content == text_content("news")


def test_a_composite_queue_forwards(classic: BrokerProcess) -> None:
    with openwire(classic) as client, openwire(classic, "ID:test-2:1") as other:
        other.consume(ActiveMQTopic(physical_name="out.b"))
        client.consume(ActiveMQQueue(physical_name="out.a"))
        client.send(ActiveMQQueue(physical_name="in"), text_content("both"))

        assert client.receive().content == text_content("both")
        assert other.receive().content == text_content("both")


def test_a_poison_message_is_in_the_queue_of_its_own(classic: BrokerProcess) -> None:
    with openwire(classic) as client:
        client.consume(ActiveMQQueue(physical_name="poisoned"))
        client.send(ActiveMQQueue(physical_name="poisoned"), text_content("bad"))
        client.receive(POISON)
        client.consume(ActiveMQQueue(physical_name="DLQ.poisoned"), 2)

        assert client.receive().content == text_content("bad")


def test_an_expired_message_is_in_the_same_queue(classic: BrokerProcess) -> None:
    """ActiveMQ has one strategy for both; here the dead-letter and the expiry settings name one queue."""
    with openwire(classic) as client:
        client.send(ActiveMQQueue(physical_name="late"), text_content("old"), expiration=int(time.time() * 1000) + 1)
        client.consume(ActiveMQQueue(physical_name="late"))
        client.consume(ActiveMQQueue(physical_name="DLQ.late"), 2)

        assert client.receive().content == text_content("old")


def test_a_client_of_amqp_uses_the_names_of_activemq(classic: BrokerProcess) -> None:
    url = f"amqp://{classic.host}:{classic.port}"
    with openwire(classic) as sender, Client(url, user="ann", password="sesame") as consumer:
        receiver = consumer.receiver("queue://crossing")
        sender.send(ActiveMQQueue(physical_name="crossing"), text_content("hello"))
        received = receiver.receive()
        received.accept()

        assert received.body == "hello"


class Migrated(MqttServer):
    """The port of a broker that was migrated."""

    def __init__(self, port: int) -> None:
        super().__init__(Path())
        self.port = self.websocket_port = port


def hashed(password: str) -> str:
    """What mosquitto_passwd writes."""
    digest = hashlib.pbkdf2_hmac("sha512", password.encode(), b"salt", 101)
    return f"$7$101${base64.b64encode(b'salt').decode()}${base64.b64encode(digest).decode()}"


def free_port() -> int:
    """A port that nobody has now; in mosquitto.conf 0 means something else."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


@pytest.fixture(scope="module")
def mosquitto(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MqttServer]:
    """A broker with the configuration of a mosquitto."""
    folder: Path = tmp_path_factory.mktemp("mosquitto")
    (folder / "passwords").write_text(f"ann:{hashed('sesame')}\nbob:{hashed('swordfish')}\n")
    (folder / "acl").write_text("user ann\ntopic home/#\nuser bob\ntopic read home/+/temperature\n")
    (folder / "mosquitto.conf").write_text(
        f"listener {free_port()} 127.0.0.1\npassword_file passwords\nacl_file acl\npersistence true\n"
    )
    migrated = migrate(folder / "mosquitto.conf", folder / "new")
    assert migrated.exit_code == 0
    process = launch(migrated.folder)
    yield Migrated(process.port)
    process.stop()


def test_clients_of_mosquitto_keep_password_and_permissions(mosquitto: MqttServer) -> None:
    first = Paho(mosquitto, "a", user="ann", password="sesame")
    second = Paho(mosquitto, "b", user="bob", password="swordfish")
    with first as ann, second as bob:
        assert ann.subscribe("home/#", 1) == 1
        assert bob.subscribe("home/+/temperature", 1) == 1
        ann.publish("home/attic/secret", "s", 1)
        ann.publish("home/attic/temperature", "21", 1)

        assert bob.receive().payload == b"21"
        assert ann.receive_all(2) == [b"s", b"21"]
        bob.publish("home/attic/temperature", "forged", 1)
        ann.publish("home/attic/temperature", "22", 1)
        assert ann.receive().payload == b"22"


def test_others_are_refused(mosquitto: MqttServer) -> None:
    with pytest.raises(Refused):
        Paho(mosquitto, "c", user="ann", password="Sesame")
    with pytest.raises(Refused):
        Paho(mosquitto, "c")


ARTEMIS = """<configuration xmlns="urn:activemq"><core xmlns="urn:activemq:core">
  <name>old</name><critical-analyzer>true</critical-analyzer>
  <acceptors><acceptor name="artemis">tcp://127.0.0.1:0?useEpoll=true;protocols=CORE,AMQP</acceptor></acceptors>
  <security-settings><security-setting match="#">
    <permission type="send" roles="amq"/><permission type="consume" roles="amq"/>
  </security-setting></security-settings>
  <addresses><address name="orders"><anycast><queue name="orders"/></anycast></address></addresses>
</core></configuration>
"""
LOGIN = """activemq { org.apache.activemq.artemis.spi.core.security.jaas.PropertiesLoginModule required
  org.apache.activemq.jaas.properties.user="artemis-users.properties"
  org.apache.activemq.jaas.properties.role="artemis-roles.properties"; };
"""


def test_a_client_of_artemis_sends_and_receives(tmp_path: Path) -> None:
    etc = tmp_path / "old" / "etc"
    etc.mkdir(parents=True)
    (etc / "broker.xml").write_text(ARTEMIS)
    (etc / "login.config").write_text(LOGIN)
    (etc / "artemis-users.properties").write_text("ann = sesame\n")
    (etc / "artemis-roles.properties").write_text("amq = ann\n")
    process = launch(migrate(tmp_path / "old", tmp_path / "new").folder)
    with Client(process.url, user="ann", password="sesame") as client:
        sender, receiver = client.sender("orders"), client.receiver("orders")
        sender.send("hello")
        received = receiver.receive()
        received.accept()

        assert received.body == "hello"
    process.stop()


# Qpid Broker-J.

BROKER_J = {
    "modelVersion": "9.0",
    "authenticationproviders": [
        {"name": "plain", "type": "Plain", "users": [{"name": "ann", "type": "managed", "password": "sesame"}]}
    ],
    "ports": [{"name": "AMQP", "port": 0, "bindingAddress": "127.0.0.1", "authenticationProvider": "plain"}],
    "virtualhostnodes": [
        {
            "name": "default",
            "virtualhosts": [
                {
                    "queues": [{"name": "work", "type": "standard"}, {"name": "rest", "type": "standard"}],
                    "exchanges": [
                        {
                            "name": "orders",
                            "type": "topic",
                            "alternateBinding": {"destination": "rest"},
                            "durableBindings": [{"bindingKey": "*.new", "destination": "work", "arguments": {}}],
                        }
                    ],
                }
            ],
        }
    ],
}


def test_a_client_of_broker_j_sends_through_an_exchange(tmp_path: Path) -> None:
    """With the address, the user and the password that it had there."""
    file = tmp_path / "config.json"
    file.write_text(json.dumps(BROKER_J))
    process = launch(migrate(file, tmp_path / "new").folder)
    try:
        with Client(process.url, user="ann", password="sesame") as client:
            client.send("orders/eu.new", "one")
            client.send("orders/other", "two")

            assert client.receiver("work").bodies() == ["one"]
            assert client.receiver("rest").bodies() == ["two"]
    finally:
        process.stop()
