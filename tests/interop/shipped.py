"""A broker with the configuration that is shipped, started as somebody does who has just installed it."""

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from tests.interop.broker_process import START_TIMEOUT_S, STOP_TIMEOUT_S
from tests.interop.mqtt.server import MqttServer

PORTS: Final = {"ARTEMIS_PY_PORT": "0", "ARTEMIS_PY_AMQP_PORT": "0", "ARTEMIS_PY_MQTT_PORT": "0"}
COMMAND: Final = [sys.executable, "-P", "-m", "artemis_py.cli"]


class Shipped(MqttServer):
    """A broker that runs as shipped; the port of all protocols."""

    def __init__(self, directory: Path, port: int, process_id: int) -> None:
        super().__init__(directory)
        self.port = self.websocket_port = port
        self._process_id: Final = process_id

    @property
    def pid(self) -> int:
        return self._process_id

    @property
    def url(self) -> str:
        """What AMQP clients connect to."""
        return f"amqp://127.0.0.1:{self.port}"


def create(directory: Path) -> Path:
    """An instance in a folder of this directory; its configuration."""
    command = [*COMMAND, "create", "instance", "--user", "u", "--silent"]
    for option in ("--port", "--amqp-port", "--mqtt-port"):
        command += [option, "0"]
    environment = os.environ | {"ARTEMIS_PY_PASSWORD": "secret"}
    subprocess.run(command, cwd=directory, env=environment, check=True, timeout=START_TIMEOUT_S)
    return directory / "instance" / "etc" / "broker.xml"


@contextmanager
def running(directory: Path, *arguments: str, variables: Mapping[str, str] | None = None) -> Iterator[Shipped]:
    """`artemis-py run` with these arguments; it must end cleanly. The log is in `directory`."""
    with (
        (directory / "log").open("wb") as log,
        subprocess.Popen(
            [*COMMAND, "run", *arguments],
            cwd=directory,
            env=os.environ | PORTS | dict(variables or {}),
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
        ) as process,
    ):
        assert process.stdout is not None
        first = process.stdout.readline()
        assert first.startswith("listening: artemis "), (directory / "log").read_text()
        while process.stdout.readline() != "ready\n":
            assert process.poll() is None, (directory / "log").read_text()
        try:
            yield Shipped(directory, int(first.rpartition(":")[2]), process.pid)
        finally:
            process.terminate()
            code = process.wait(STOP_TIMEOUT_S)
        assert code == 0
