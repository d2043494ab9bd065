"""What real clients hear of other brokers: two processes in a mesh, and one that sends everyone on."""

import os
import queue
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from paho.mqtt.client import Client, MQTTProtocolVersion
from paho.mqtt.enums import CallbackAPIVersion
from proton import Message
from proton.handlers import MessagingHandler
from proton.reactor import Container

from tests.interop.mqtt.paho_client import close_sockets
from tests.interop.test_mesh import artemis_py, free_ports, make, running, until

ALL_CLIENTS: Final = os.environ.get("ARTEMIS_PY_MESH_CLIENTS") == "1"
"""Whether the clients of Java go through all that can happen to them, which takes a minute."""

ROUTER: Final = """<connection-routers><connection-router name="away"><key-type>CLIENT_ID</key-type>
  <local-target-filter>stays</local-target-filter><policy name="FIRST_ELEMENT"/>
  <pool><cluster-connection>mesh</cluster-connection></pool></connection-router></connection-routers>"""


class Follower(MessagingHandler):  # type: ignore[misc]
    """An application on Proton that goes where a redirect says, and notes what it is told."""

    def __init__(self, port: int, container: str) -> None:
        super().__init__()
        self.port = port
        self.container_id = container
        self.others: list[tuple[str, int]] = []
        self.ports: list[int] = []
        self.conditions: list[str] = []
        self.received: list[object] = []

    def run(self) -> "Follower":
        """Until a message has gone to and fro."""
        container = Container(self)
        container.container_id = self.container_id
        container.run()
        return self

    def on_start(self, event: Any) -> None:
        self._connect(event.container)

    def _connect(self, container: Any) -> None:
        self.ports.append(self.port)
        container.connect(f"amqp://127.0.0.1:{self.port}", reconnect=False)

    def on_connection_opened(self, event: Any) -> None:
        properties = event.connection.remote_properties or {}
        if "amqp:connection-establishment-failed" in properties:
            return
        self.others = [(each["network-host"], each["port"]) for each in properties.get("failover-server-list", [])]
        event.container.create_receiver(event.connection, f"of {self.container_id}")
        event.container.create_sender(event.connection, f"of {self.container_id}")

    def on_sendable(self, event: Any) -> None:
        if not self.received:
            event.sender.send(Message(body="hello"))
            event.sender.close()

    def on_message(self, event: Any) -> None:
        self.received.append(event.message.body)
        event.connection.close()

    def on_connection_error(self, event: Any) -> None:
        condition = event.connection.remote_condition
        self.conditions.append(condition.name)
        info = condition.info or {}
        event.connection.close()
        if condition.name == "amqp:connection:redirect" and len(self.ports) < 3:
            self.port = info["port"]
            self._connect(event.container)


def mqtt(port: int, client_id: str, version: int) -> tuple[int, str | None]:
    """The code of the answer to CONNECT, and the reference that it has."""
    answers: queue.Queue[tuple[int, str | None]] = queue.Queue()
    client = Client(CallbackAPIVersion.VERSION2, client_id, protocol=MQTTProtocolVersion(version))

    def connected(client: Client, data: object, flags: object, reason: Any, properties: Any) -> None:
        answers.put((reason.value, getattr(properties, "ServerReference", None)))

    client.on_connect = connected
    client.connect("127.0.0.1", port)
    client.loop_start()
    try:
        return answers.get(timeout=60)
    finally:
        client.loop_stop()
        client.disconnect()
        close_sockets(client)


@pytest.fixture(scope="module")
def ports(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[int, int, int]]:
    """Ports of two brokers of a mesh; the third is one of the first, whose clients are sent to the second."""
    folder: Path = tmp_path_factory.mktemp("mesh")
    first, second, routed = free_ports(3)
    folders = make(folder / "a", first, second), make(folder / "b", second, first)
    path = folders[0] / "etc" / "broker.xml"
    text = path.read_text()
    acceptor = f'<acceptor name="routed">tcp://127.0.0.1:{routed}?router=away</acceptor>'
    text = text.replace("</acceptors>", f"{acceptor}</acceptors>{ROUTER}", 1)
    assert acceptor in text
    path.write_text(text)
    with running(*folders):
        for port in (first, second):
            until(lambda at=port: "up" in artemis_py("mesh", "status", "--json", port=at), "they never met", 60)  # type: ignore[misc]
        yield first, second, routed


def test_proton_hears_of_the_other_broker(ports: tuple[int, int, int]) -> None:
    """C51: in the properties of the open, at each of the two the other one."""
    first, second, _ = ports

    assert Follower(first, "x").run().others == [("127.0.0.1", second)]
    assert Follower(second, "y").run().others == [("127.0.0.1", first)]


def test_proton_goes_where_it_is_sent(ports: tuple[int, int, int]) -> None:
    """The condition has host and port; a client that the local filter keeps stays."""
    _, second, routed = ports
    sent, stays = Follower(routed, "c1").run(), Follower(routed, "stays").run()

    assert (sent.ports, sent.conditions, sent.received) == ([routed, second], ["amqp:connection:redirect"], ["hello"])
    assert (stays.ports, stays.conditions, stays.received) == ([routed], [], ["hello"])


def test_paho_hears_where_to_go(ports: tuple[int, int, int]) -> None:
    """C53: version 5 is told, version 3 is refused; who stays is served."""
    _, second, routed = ports

    assert mqtt(routed, "m5", 5) == (0x9C, f"127.0.0.1:{second}")
    assert mqtt(routed, "m3", 4)[0] != 0
    assert mqtt(routed, "stays", 5)[0] == 0
