"""Servers for the MQTT clients: one for the whole run, and one per module that needs its own configuration."""

from collections.abc import Callable, Iterator

import pytest

from tests.interop.mqtt.raw import Raw
from tests.interop.mqtt.server import MqttInstance, MqttServer, start_server

StartServer = Callable[[MqttInstance], MqttServer]


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MqttServer]:
    """The server most tests share: they keep apart by topics and client ids (fixture `name`)."""
    one = start_server(MqttInstance(), tmp_path_factory.mktemp("mqtt"))
    yield one
    one.stop()


@pytest.fixture(scope="module")
def serve(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StartServer]:
    """Start servers with a configuration of the module's own; they must stop cleanly after it."""
    running: list[MqttServer] = []

    def start_one(instance: MqttInstance) -> MqttServer:
        running.append(start_server(instance, tmp_path_factory.mktemp("mqtt")))
        return running[-1]

    yield start_one
    for one in running:
        if one.is_running:
            one.stop()


@pytest.fixture(autouse=True)
def _close_sockets() -> Iterator[None]:
    """A failed test leaves nothing open."""
    yield
    while Raw.all:
        Raw.all.pop().drop()
