"""Subscriptions at one broker of a mesh, publishers at another: brokers as processes, Proton and Paho as clients."""

from pathlib import Path
from typing import Final

from proton import Message

from tests.interop.broker_process import launch
from tests.interop.mqtt.paho_client import Paho
from tests.interop.mqtt.server import MqttServer
from tests.interop.proton.client import Client, Receiver
from tests.interop.test_mesh import free_ports, make, running, until

COUNT: Final = 50
TOPIC: Final = ("topic",)
GROUP: Final = ("topic", "shared", "global")


def url(port: int) -> str:
    """Where a broker is."""
    return f"amqp://127.0.0.1:{port}"


def publish(port: int, address: str, bodies: list[str]) -> None:
    """Durable messages, each confirmed."""
    with Client(url(port)) as client:
        client.send(address, *[Message(body=body, durable=True) for body in bodies], capabilities=TOPIC)


def take(receiver: Receiver, count: int) -> list[str]:
    """So many messages, accepted."""
    bodies = []
    for received in receiver.receive_many(count):
        bodies.append(str(received.body))
        received.accept()
    return bodies


def came(receiver: Receiver) -> int:
    """How many messages have come by now."""
    receiver.client.sync()
    return receiver.waiting


def test_subscribers_get_what_is_published_at_another_broker(tmp_path: Path) -> None:
    """Each kind of subscription gets each message once, also what came while its broker was dead (C4, C32, C60)."""
    first, second = free_ports(2)
    folders = make(tmp_path / "a", first, second), make(tmp_path / "b", second, first)
    bodies = [f"m{number}" for number in range(COUNT)]
    with running(*folders) as brokers:
        until(lambda: all("broker joined" in each.log_text() for each in brokers), "they never met")
        with Client(url(second), "c") as client, Client(url(first), "d") as other:
            plain = client.receiver("topic.news", TOPIC)
            durable = client.receiver("topic.news", TOPIC, name="kept", durable=True)
            shared = [each.receiver("topic.news", GROUP, name="group", durable=True) for each in (client, other)]
            for each in shared:
                each.flow(COUNT // 2)
            server = MqttServer(tmp_path)
            server.port = second
            with Paho(server) as paho:
                assert paho.subscribe("topic/+", 1) == 1
                publish(first, "topic.news", bodies)

                assert take(plain, COUNT) == bodies
                assert take(durable, COUNT) == bodies
                assert sorted(paho.receive_all(COUNT)) == sorted(body.encode() for body in bodies)
                until(lambda: sum(came(each) for each in shared) == COUNT, "the group missed messages")
                parts = [take(each, each.waiting) for each in shared]
                assert sorted(parts[0] + parts[1]) == sorted(bodies)

            # On the answer to a subscription it counts everywhere.
            for number in range(10):
                late = client.receiver(f"topic.late{number}", TOPIC)
                publish(first, f"topic.late{number}", ["x"])
                assert take(late, 1) == ["x"]
            durable.detach()

        brokers[1].kill()
        publish(first, "topic.news", ["while away"])
        brokers[0].kill()
        brokers[0] = launch(folders[0])
        brokers[1] = launch(folders[1])
        with Client(url(second), "c") as client:
            durable = client.receiver("topic.news", TOPIC, name="kept", durable=True)
            assert take(durable, 1) == ["while away"]
