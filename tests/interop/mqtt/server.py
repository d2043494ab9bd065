"""The server under test: the broker as installed, or Eclipse Mosquitto to prove the tests themselves.

`ARTEMIS_PY_INTEROP_MQTT=mosquitto` runs the same tests against a mosquitto 2 from the PATH: what fails there is a
mistake of the test, unless it is marked as ours alone.
"""

import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import pytest
from attrs import frozen

from tests.interop.broker_process import START_TIMEOUT_S, BrokerFailed, Instance, launch, start_broker

HOST: Final = "127.0.0.1"
IS_MOSQUITTO: Final = os.environ.get("ARTEMIS_PY_INTEROP_MQTT") == "mosquitto"


def unlike_mosquitto(reason: str) -> pytest.MarkDecorator:
    """A test that mosquitto 2.0.11 fails, by a mistake of it or because MQTT leaves the choice."""
    return pytest.mark.skipif(IS_MOSQUITTO, reason=f"mosquitto 2.0.11 {reason}")


OPEN: Final = "<security-enabled>false</security-enabled><message-expiry-scan-period>100</message-expiry-scan-period>"


@frozen(kw_only=True)
class MqttInstance:
    """What to run, in the words of both servers."""

    persistent: bool = False
    limits: Mapping[str, int | str] = {}
    """Parameters of the acceptor; `MOSQUITTO_LIMITS` has those that mosquitto knows."""
    users: Mapping[str, str] = {}
    """Passwords by user; each is alone in a role of the same name. Without users everybody may do everything."""
    security: str = OPEN
    """Elements of `<core>`."""
    settings: str = ""
    """Further `<address-setting>` elements, which mosquitto does not know."""
    rules: str = ""
    """The same permissions as mosquitto's access list."""


MOSQUITTO_LIMITS: Final = {
    "maximumPacketSize": "max_packet_size",
    "serverKeepAlive": "max_keepalive",
    "receiveMaximum": "max_inflight_messages",
}


class MqttServer:
    """A running server; it can be stopped or killed, and run again in the same folder (at another port)."""

    port: int
    websocket_port: int

    def __init__(self, directory: Path) -> None:
        self.directory: Final = directory

    @property
    def pid(self) -> int:
        raise NotImplementedError

    def stop(self) -> None:
        """As an operator does; raises BrokerFailed unless it ends cleanly."""
        raise NotImplementedError

    def kill(self) -> None:
        """As a power failure does, as far as the process goes."""
        raise NotImplementedError

    def run(self) -> None:
        """Start again after `stop` or `kill`."""
        raise NotImplementedError

    @property
    def is_running(self) -> bool:
        raise NotImplementedError


class OurServer(MqttServer):
    """The broker that is installed; one port takes every protocol, TCP and WebSocket."""

    def __init__(self, instance: MqttInstance, directory: Path) -> None:
        super().__init__(directory)
        parameters = "".join(f";{name}={value}" for name, value in instance.limits.items())
        self._process = start_broker(
            Instance(
                core=instance.security,
                persistence="true" if instance.persistent else "false",
                parameters="protocols=AMQP,MQTT" + parameters,
                settings=instance.settings,
                users="".join(f"{user} = {password}\n" for user, password in instance.users.items()),
                roles="".join(f"{user} = {user}\n" for user in instance.users),
            ),
            directory,
        )
        self._take_ports()

    def _take_ports(self) -> None:
        self.port = self.websocket_port = self._process.port

    @property
    def pid(self) -> int:
        return self._process.process.pid

    def stop(self) -> None:
        self._process.stop()

    def kill(self) -> None:
        self._process.kill()

    def run(self) -> None:
        self._process = launch(self.directory)
        self._take_ports()

    @property
    def is_running(self) -> bool:
        return self._process.process.poll() is None


class Mosquitto(MqttServer):
    """Mosquitto 2 with a configuration of the same meaning."""

    def __init__(self, instance: MqttInstance, directory: Path) -> None:
        super().__init__(directory)
        self.port, self.websocket_port = free_port(), free_port()
        lines = [
            f"listener {self.port} {HOST}",
            f"listener {self.websocket_port} {HOST}",
            "protocol websockets",
            "user root",
            "log_dest stderr",
            "sys_interval 1",
            "max_queued_messages 0",
            f"persistence {'true' if instance.persistent else 'false'}",
            f"persistence_location {directory}/",
            f"allow_anonymous {'false' if instance.users else 'true'}",
        ]
        if instance.users:
            (directory / "passwords").write_text("".join(f"{user}:{word}\n" for user, word in instance.users.items()))
            subprocess.run(["mosquitto_passwd", "-U", str(directory / "passwords")], check=True)
            lines.append(f"password_file {directory / 'passwords'}")
        if instance.rules:
            (directory / "rules").write_text(instance.rules)
            lines.append(f"acl_file {directory / 'rules'}")
        lines += [f"{MOSQUITTO_LIMITS[name]} {value}" for name, value in instance.limits.items()]
        (directory / "mosquitto.conf").write_text("\n".join(lines) + "\n")
        self.run()

    @property
    def pid(self) -> int:
        return self._process.pid

    def stop(self) -> None:
        self._process.send_signal(signal.SIGTERM)
        if self._process.wait() != 0:
            raise BrokerFailed((self.directory / "log").read_text())

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()

    def run(self) -> None:
        command = [shutil.which("mosquitto") or "/usr/sbin/mosquitto", "-c", str(self.directory / "mosquitto.conf")]
        with open(self.directory / "log", "ab") as log:
            self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        deadline = time.monotonic() + START_TIMEOUT_S
        while not is_listening(self.websocket_port):
            if self._process.poll() is not None or time.monotonic() > deadline:
                self.kill()
                raise BrokerFailed((self.directory / "log").read_text())
            time.sleep(0.02)

    @property
    def is_running(self) -> bool:
        return self._process.poll() is None


def free_port() -> int:
    """A port that is free now; mosquitto cannot choose one itself."""
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        port: int = probe.getsockname()[1]
        return port


def is_listening(port: int) -> bool:
    """Somebody accepts connections there."""
    with socket.socket() as probe:
        return probe.connect_ex((HOST, port)) == 0


def start_server(instance: MqttInstance, directory: Path) -> MqttServer:
    """The server that the environment chooses, ready."""
    return Mosquitto(instance, directory) if IS_MOSQUITTO else OurServer(instance, directory)
