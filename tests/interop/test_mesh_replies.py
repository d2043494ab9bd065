"""Requests and replies across brokers of a mesh, with real clients: Proton, Paho, and an OpenWire client of ours."""

from collections.abc import Iterator
from pathlib import Path
from queue import Queue
from typing import Final

import pytest
from paho.mqtt.reasoncodes import ReasonCode
from proton import Message
from proton.utils import BlockingConnection

from artemis_openwire.engine.commands import DestinationInfo, ExceptionResponse
from artemis_openwire.engine.names import ADVISORY_PREFIX
from artemis_openwire.engine.structures import (
    ActiveMQDestination,
    ActiveMQQueue,
    ActiveMQTempQueue,
    ActiveMQTempTopic,
    ActiveMQTopic,
    ConnectionId,
)
from tests.interop.broker_process import BrokerProcess
from tests.interop.mqtt.paho_client import Paho
from tests.interop.mqtt.server import HOST, MqttServer
from tests.interop.openwire_client import OpenWireClient, text_content
from tests.interop.proton.client import Client, Received, Refused
from tests.interop.test_mesh import free_ports, make, running, until

COUNT: Final = 20


@pytest.fixture(scope="module")
def ports(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[int, int]]:
    """Two brokers of a mesh."""
    folder = tmp_path_factory.mktemp("mesh")
    first, second = free_ports(2)
    with running(make(folder / "a", first, second), make(folder / "b", second, first)) as brokers:
        until(lambda: all(_has_joined(each) for each in brokers), "they never met")
        yield first, second


def _has_joined(broker: BrokerProcess) -> bool:
    return "broker joined" in broker.log_text()


@pytest.fixture
def clients(ports: tuple[int, int]) -> Iterator[tuple[Client, Client]]:
    """A Proton client at each broker."""
    with Client(f"amqp://127.0.0.1:{ports[0]}") as one, Client(f"amqp://127.0.0.1:{ports[1]}") as other:
        yield one, other


def text(received: Received) -> str:
    """The body of a message, which is accepted."""
    received.accept()
    return str(received.body)


def test_reply_comes_back_to_the_broker_of_the_request(ports: tuple[int, int]) -> None:
    """The blocking client of Proton, as its manual has it: a link for each reply, or one without a target for all."""
    client, server = [BlockingConnection(f"amqp://127.0.0.1:{port}", timeout=60) for port in ports]
    requests = client.create_sender("requests")
    replies = client.create_receiver(None, dynamic=True)
    work = server.create_receiver("requests", credit=10)
    anonymous = server.create_sender(None)
    for number in range(COUNT):
        requests.send(Message(body=f"{number}", reply_to=replies.remote_source.address))
        request = work.receive(60)
        work.accept()
        answer = Message(body=f"re: {request.body}", address=request.reply_to, durable=number % 3 == 0)
        if number % 2:
            anonymous.send(answer)
        else:
            sender = server.create_sender(request.reply_to)
            sender.send(answer)
            sender.close()

        assert replies.receive(60).body == f"re: {number}"
        replies.accept()
    client.close()
    server.close()


def test_sender_hears_that_the_client_has_left(clients: tuple[Client, Client], ports: tuple[int, int]) -> None:
    """An open link is detached, a new one refused, and a message without a link of its own rejected."""
    with Client(f"amqp://127.0.0.1:{ports[0]}") as client:
        address = client.receiver(None, dynamic=True).address
        sender = clients[1].sender(address)
        sender.send("there")

    assert sender.wait_closed().condition == "amqp:resource-deleted"
    with pytest.raises(Refused, match="is gone"):
        clients[1].sender(address)
    with pytest.raises(Refused, match="is gone"):
        clients[1].sender(None).send(Message(address=address, body="late"))


def test_new_link_to_an_address_that_is_gone_is_refused(clients: tuple[Client, Client], ports: tuple[int, int]) -> None:
    """Although the first that this broker hears of the address is that it is gone."""
    with Client(f"amqp://127.0.0.1:{ports[0]}") as client:
        address = client.receiver(None, dynamic=True).address

    with pytest.raises(Refused, match="has left") as refused:
        clients[1].sender(address).send("late")
    assert refused.value.condition == "amqp:resource-deleted"


def test_consumer_of_another_broker_s_temporary_queue_is_refused(clients: tuple[Client, Client]) -> None:
    """And nothing of that name is made."""
    address = clients[0].receiver(None, dynamic=True).address

    with pytest.raises(Refused, match="client of another broker"):
        clients[1].receiver(address)


def test_mqtt_client_may_reply_to_an_amqp_client(ports: tuple[int, int], tmp_path: Path) -> None:
    """The address is a topic name; what is published to one that is gone has the reason code for that."""
    codes: Queue[ReasonCode] = Queue()
    server = MqttServer(tmp_path)
    server.port = ports[1]
    with Paho(server) as paho:
        paho.client.on_publish = lambda *arguments: codes.put(arguments[3])
        with Client(f"amqp://127.0.0.1:{ports[0]}") as client:
            replies = client.receiver(None, dynamic=True)
            address = replies.address
            paho.publish(address, b"from MQTT", 1)
            assert not codes.get(timeout=60).is_failure
            assert bytes(replies.receive().body) == b"from MQTT"

        def is_refused() -> bool:
            paho.publish(address, b"late", 1)
            return str(codes.get(timeout=60)) == "Topic name invalid"

        until(is_refused, "it was never refused")


def test_openwire_client_may_reply_to_an_amqp_client(clients: tuple[Client, Client], ports: tuple[int, int]) -> None:
    """By a destination of either kind."""
    replies = clients[0].receiver(None, dynamic=True)
    address = replies.address
    with OpenWireClient(HOST, ports[1]) as client:
        for destination in (ActiveMQQueue(physical_name=address), ActiveMQTempQueue(physical_name=address)):
            client.send(destination, text_content("from OpenWire"))
            assert text(replies.receive()) == "from OpenWire"


def made(client: OpenWireClient, destination: ActiveMQDestination, operation: int = 0) -> DestinationInfo:
    """A temporary destination of a client; operation 1: it is removed."""
    connection = ConnectionId(value=client.name)
    return DestinationInfo(connection_id=connection, destination=destination, operation_type=operation)


def named(client: OpenWireClient) -> tuple[str | None, int]:
    """The destination that an advisory is about, and whether (1) it is gone."""
    dispatch = client.next_dispatch()
    assert dispatch is not None
    message = dispatch.message
    assert message is not None
    info = message.data_structure
    assert isinstance(info, DestinationInfo)
    assert info.destination is not None
    return info.destination.physical_name, info.operation_type


@pytest.mark.parametrize("kind", [ActiveMQTempQueue, ActiveMQTempTopic])
def test_clients_of_all_protocols_may_reply_to_an_openwire_client(
    clients: tuple[Client, Client], ports: tuple[int, int], tmp_path: Path, kind: type[ActiveMQDestination]
) -> None:
    """Which names its destination itself: clients of the other broker are told of it before its own is answered."""
    server = MqttServer(tmp_path)
    server.port = ports[1]
    name = f"ID:requester-{kind.__name__}"
    destination = kind(physical_name=f"{name}:1")
    with OpenWireClient(HOST, ports[1]) as replier, OpenWireClient(HOST, ports[0], name) as requester:
        replier.consume(ActiveMQTopic(physical_name=ADVISORY_PREFIX + "TempQueue,ActiveMQ.Advisory.TempTopic"))
        requester.done(made(requester, destination))
        assert named(replier) == (f"{name}:1", 0)
        requester.consume(destination)
        replier.send(destination, text_content("of OpenWire"))
        assert requester.receive().content == text_content("of OpenWire")
        sender = clients[1].sender(f"{name}:1")
        sender.send("of AMQP")
        assert requester.receive().content == text_content("of AMQP")
        with Paho(server) as paho:
            paho.publish(f"{name}:1", b"of MQTT", 1)
            assert b"of MQTT" in (requester.receive().content or b"")

        requester.leave()
        requester.done(made(requester, destination, 1))
        assert sender.wait_closed().condition == "amqp:resource-deleted"
        assert named(replier) == (f"{name}:1", 1)
        refused = replier.answer(replier.begin(replier.message(destination, text_content("late"), 9)))
        assert isinstance(refused, ExceptionResponse)
        assert refused.exception is not None
        assert refused.exception.class_name == "javax.jms.InvalidDestinationException"
        with pytest.raises(Refused, match="is gone"):
            clients[1].sender(None).send(Message(address=f"{name}:1", body="late"))


def test_client_of_another_broker_may_not_have_a_destination_of_the_same_name(ports: tuple[int, int]) -> None:
    """It consumes nothing from it."""
    name = "ID:requester-9:9"
    destination = ActiveMQTempQueue(physical_name=f"{name}:1")
    with OpenWireClient(HOST, ports[0], name) as requester, OpenWireClient(HOST, ports[1]) as other:
        requester.done(made(requester, destination))
        with pytest.raises(AssertionError, match="another connection"):
            other.consume(destination)
