"""`mosquitto_pub` and `mosquitto_sub`, as people script them."""

import shutil
import subprocess
from typing import Final

import pytest

from tests.interop.mqtt.raw import opened
from tests.interop.mqtt.server import HOST, MqttServer

TIMEOUT_S: Final = 60.0
VERSIONS: Final = {"mqttv31": 3, "mqttv311": 4, "mqttv5": 5}

pytestmark = pytest.mark.skipif(
    shutil.which("mosquitto_pub") is None or shutil.which("mosquitto_sub") is None,
    reason="mosquitto_pub and mosquitto_sub are not installed (package mosquitto-clients)",
)


def command(program: str, server: MqttServer, version: str, *arguments: str) -> list[str]:
    """What an operator types."""
    return [program, "-h", HOST, "-p", str(server.port), "-V", version, *arguments]


def publish(server: MqttServer, version: str, *arguments: str, text: str | None = None) -> str:
    """Run `mosquitto_pub`; what it said of its errors."""
    done = subprocess.run(
        command("mosquitto_pub", server, version, *arguments),
        input=text,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
    )
    assert done.returncode == 0, done.stderr
    return done.stderr


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("qos", ["0", "1", "2"])
def test_lines_arrive_in_order(server: MqttServer, name: str, version: str, qos: str) -> None:
    """`-l`: a message per line of the input; `-C` ends the subscriber; a retained one says that it is there."""
    publish(server, version, "-t", f"{name}/ready", "-m", "ready", "-r", "-q", "1")
    subscriber = subprocess.Popen(
        command("mosquitto_sub", server, version, "-t", f"{name}/#", "-q", qos, "-C", "51", "-W", "20"),
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert subscriber.stdout is not None
        assert subscriber.stdout.readline() == "ready\n"
        lines = [f"line {number}" for number in range(50)]
        publish(server, version, "-t", f"{name}/a", "-q", qos, "-l", text="\n".join(lines) + "\n")
        output, _ = subscriber.communicate(timeout=TIMEOUT_S)
    finally:
        subscriber.kill()
        subscriber.communicate()

    assert output.splitlines() == lines


@pytest.mark.parametrize("version", VERSIONS)
def test_retained_message_is_printed_and_removed(server: MqttServer, name: str, version: str) -> None:
    """`-r`, `--retained-only` and `--remove-retained`."""
    publish(server, version, "-t", name, "-m", "kept", "-r", "-q", "1")
    done = subprocess.run(
        command("mosquitto_sub", server, version, "-t", name, "--retained-only", "-C", "1", "-W", "20"),
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
    )
    publish(server, version, "-t", name, "-n", "-r", "-q", "1")
    with opened(server) as client:
        client.subscribe(name)

        assert done.stdout == "kept\n"
        assert client.waiting() == []


@pytest.mark.parametrize("version", VERSIONS)
def test_kept_session(server: MqttServer, name: str, version: str) -> None:
    """`-c -i`: what was published in the meantime is printed by the next run."""
    keep = ["-c", "-i", name[-20:], "-q", "1", "-t", name]
    if version == "mqttv5":
        keep += ["-x", "3600"]
    first = subprocess.run(command("mosquitto_sub", server, version, *keep, "-E"), timeout=TIMEOUT_S)
    assert first.returncode == 0
    publish(server, version, "-t", name, "-m", "meanwhile", "-q", "1")
    done = subprocess.run(
        command("mosquitto_sub", server, version, *keep, "-C", "1", "-W", "20"),
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
    )

    assert done.stdout == "meanwhile\n"


def test_properties(server: MqttServer, name: str) -> None:
    """`-D` and `-F`: version 5."""
    publish(
        server,
        "mqttv5",
        *("-t", name, "-m", "m", "-q", "1", "-r"),
        *("-D", "publish", "content-type", "text/plain"),
        *("-D", "publish", "response-topic", "answers"),
        *("-D", "publish", "correlation-data", "42"),
        *("-D", "publish", "user-property", "a", "b"),
    )
    done = subprocess.run(
        command("mosquitto_sub", server, "mqttv5", "-t", name, "-C", "1", "-W", "20", "-F", "%t|%p|%C|%R|%D|%P"),
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
    )

    assert done.stdout == f"{name}|m|text/plain|answers|42|a:b\n"
