"""Virtual hosts, with Proton and Paho as the clients and a store: chosen by open and by user name, and stopped."""

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from proton import ConnectionException, Message

from artemis_py.broker import Broker
from artemis_py.core.settings.virtual_host_config import VirtualHostConfig
from artemis_py.testing.running import RunningBroker, running_broker
from tests.core_harness import make_queue
from tests.interop.mqtt.paho_client import Paho
from tests.interop.mqtt.paho_client import Refused as PahoRefused
from tests.interop.proton.client import Client


def set_up(broker: Broker) -> None:
    """A queue of one name in the default host and in two others."""
    hosts = [broker.virtual_hosts.hosts.create(VirtualHostConfig(name=name)) for name in ("red", "blue")]
    for domain in (broker.domain, *[host.services.sessions.domain for host in hosts]):
        make_queue(domain, "orders")


@pytest.fixture
def broker() -> Iterator[RunningBroker]:
    """A broker with a store."""
    with running_broker(persistent=True) as running:
        running._ask(set_up)
        yield running


def counts(broker: RunningBroker) -> list[int]:
    """Messages in the queue of each host."""

    def count(broker: Broker) -> list[int]:
        hosts = broker.virtual_hosts.hosts.restored()
        return [services.sessions.domain.queues["orders"].message_count for services in hosts]

    return broker._ask(count)


def state(broker: RunningBroker, name: str, operation: str) -> None:
    """Start or stop a host."""
    broker._ask(lambda broker: getattr(broker.virtual_hosts.hosts, operation)(name))


def test_messages_stay_in_the_host_that_the_open_names(broker: RunningBroker) -> None:
    """Over a restart, too."""
    for host, count in (("red", 2), ("vhost:blue", 3), (None, 1)):
        options: dict[str, Any] = {} if host is None else {"virtual_host": host}
        with Client(broker.url(), **options) as client:
            for number in range(count):
                client.send("orders", Message(body=f"{host} {number}", durable=True))

    assert counts(broker) == [1, 2, 3]
    broker.restart()
    assert counts(broker) == [1, 2, 3]
    with Client(broker.url(), virtual_host="red") as client:
        assert client.receiver("orders").receive().body == "red 0"


def test_a_stopped_host_refuses_and_keeps_its_messages(broker: RunningBroker) -> None:
    """The condition is `connection:forced`; the other hosts take clients."""
    with Client(broker.url(), virtual_host="red") as client:
        client.send("orders", Message(body="kept", durable=True))
    state(broker, "red", "stop")

    with pytest.raises(ConnectionException, match="amqp:connection:forced"):
        Client(broker.url(), virtual_host="red")
    with Client(broker.url(), virtual_host="blue") as client:
        client.send("orders", Message(body="blue", durable=True))

    state(broker, "red", "start")
    with Client(broker.url(), virtual_host="red") as client:
        assert client.receiver("orders").receive().body == "kept"


def test_mqtt_clients_name_the_host_with_their_user(broker: RunningBroker) -> None:
    """As with RabbitMQ; topics of another host are not heard."""
    server: Any = SimpleNamespace(port=broker.port("mqtt"))
    with (
        Paho(server, "c", user="red:alice", password="p") as red,
        Paho(server, "c", user="alice", password="p") as default,
    ):
        for client in (red, default):
            client.subscribe("t/#", qos=1)
        red.publish("t/1", "for red", qos=1)

        assert red.receive_all(1) == [b"for red"]
        assert default.nothing_came()
    state(broker, "red", "stop")
    with pytest.raises(PahoRefused):
        Paho(server, "c", user="red:alice", password="p")
