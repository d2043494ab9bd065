"""aiomqtt, the asyncio client: every version, over TCP and WebSocket."""

import asyncio
from itertools import product
from typing import Any, Final

import pytest
from aiomqtt import Client, ProtocolVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

from tests.interop.mqtt.server import HOST, MqttServer

pytestmark = pytest.mark.each_build

VERSIONS: Final = (ProtocolVersion.V31, ProtocolVersion.V311, ProtocolVersion.V5)
BOTH: Final = pytest.mark.parametrize(
    ("version", "transport"), list(product(VERSIONS, ("tcp", "websockets"))), ids=lambda value: str(value)
)
TIMEOUT_S: Final = 60.0


def client_of(server: MqttServer, name: str, transport: str = "tcp", **options: Any) -> Client:
    """A client, not connected yet."""
    is_tcp = transport == "tcp"
    return Client(
        HOST,
        server.port if is_tcp else server.websocket_port,
        identifier=name,
        transport="tcp" if is_tcp else "websockets",
        websocket_path=None if is_tcp else "/mqtt",
        timeout=TIMEOUT_S,
        **options,
    )


async def take(client: Client, count: int) -> list[Any]:
    """The next messages."""
    messages: list[Any] = []
    async with asyncio.timeout(TIMEOUT_S):
        async for message in client.messages:
            messages.append(message)
            if len(messages) == count:
                break
    return messages


@BOTH
@pytest.mark.parametrize("qos", [0, 1, 2])
async def test_messages_arrive_in_order(
    server: MqttServer, name: str, version: ProtocolVersion, transport: str, qos: int
) -> None:
    """Publisher and subscriber in one loop."""
    async with (
        client_of(server, f"s-{name}", transport, protocol=version) as subscriber,
        client_of(server, f"p-{name}", transport, protocol=version) as publisher,
    ):
        await subscriber.subscribe(f"{name}/#", qos)
        for number in range(30):
            await publisher.publish(f"{name}/{number % 3}", str(number), qos)
        messages = await take(subscriber, 30)

        assert [message.payload for message in messages] == [str(number).encode() for number in range(30)]
        assert {message.qos for message in messages} == {qos}


async def test_concurrent_publishers(server: MqttServer, name: str) -> None:
    """Ten tasks on one connection: nothing is lost, each task's order is kept."""
    async with (
        client_of(server, f"s-{name}", protocol=ProtocolVersion.V5) as subscriber,
        client_of(server, f"p-{name}", protocol=ProtocolVersion.V5) as publisher,
    ):
        await subscriber.subscribe(f"{name}/+", 1)

        async def work(task: int) -> None:
            for number in range(20):
                await publisher.publish(f"{name}/{task}", str(number), 1)

        await asyncio.gather(*map(work, range(10)))
        messages = await take(subscriber, 200)
        for task in range(10):
            mine = [message.payload for message in messages if str(message.topic) == f"{name}/{task}"]
            assert mine == [str(number).encode() for number in range(20)]


async def test_properties_of_a_retained_message(server: MqttServer, name: str) -> None:
    """User properties keep their order."""
    given = Properties(PacketTypes.PUBLISH)
    given.UserProperty = [("b", "1"), ("a", "2")]
    async with client_of(server, f"c-{name}", protocol=ProtocolVersion.V5) as client:
        await client.publish(name, "kept", 1, retain=True, properties=given)
        await client.subscribe(name, 1)
        [message] = await take(client, 1)

        assert (message.payload, message.retain) == (b"kept", True)
        assert message.properties.UserProperty == [("b", "1"), ("a", "2")]
