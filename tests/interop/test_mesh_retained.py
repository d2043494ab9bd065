"""Retained messages of brokers in a mesh, with Eclipse Paho at each of them."""

from pathlib import Path

from tests.interop.broker_process import launch
from tests.interop.mqtt.paho_client import Paho
from tests.interop.mqtt.server import MqttServer
from tests.interop.test_mesh import free_ports, make, running, until


def found(server: MqttServer, topic: str) -> bytes | None:
    """What a new subscriber finds; None: nothing."""
    with Paho(server) as client:
        client.subscribe(topic, 1)
        # Behind what was retained comes what is published after the answer.
        client.publish(topic, b"live", 1)
        message = client.receive()
        return message.payload if message.retain else None


def test_subscribers_find_what_was_retained_at_another_broker(tmp_path: Path) -> None:
    """Retained, replaced and deleted, while the other broker is there and while it is dead (C35)."""
    ports = free_ports(2)
    folders = make(tmp_path / "a", *ports), make(tmp_path / "b", *reversed(ports))
    servers = [MqttServer(tmp_path), MqttServer(tmp_path)]
    for server, port in zip(servers, ports, strict=True):
        server.port = port
    with running(*folders) as brokers:
        until(lambda: all("broker joined" in each.log_text() for each in brokers), "they never met")
        with Paho(servers[0]) as one:
            one.publish("site/lamp", b"on", 1, retain=True)
            one.publish("site/door", b"open", 0, retain=True)
            assert found(servers[1], "site/lamp") == b"on"
            until(lambda: found(servers[1], "site/door") == b"open", "it was not found")
            with Paho(servers[1]) as other:
                other.publish("site/lamp", b"", 1, retain=True)
            assert found(servers[0], "site/lamp") is None

            brokers[1].kill()
            one.publish("site/lamp", b"off", 1, retain=True)
            one.publish("site/door", b"", 1, retain=True)
            one.publish("site/bell", b"x" * 300_000, 1, retain=True)
        brokers[1] = launch(folders[1])
        until(lambda: found(servers[1], "site/lamp") == b"off", "it did not catch up")
        until(lambda: found(servers[1], "site/door") is None, "it did not catch up")
        until(lambda: found(servers[1], "site/bell") == b"x" * 300_000, "it did not catch up")
