"""The JavaScript client MQTT.js: every scenario of `mqtt_scenarios.js` in every version, over TCP and WebSocket."""

import re
import subprocess
from pathlib import Path
from typing import Final

import pytest

from tests.interop.mqtt.server import HOST, MqttServer

HERE: Final = Path(__file__).parent
SCENARIO: Final = re.compile(r"^  async (\w+)\(url, version, topic\)", re.MULTILINE)
NAMES: Final = SCENARIO.findall((HERE / "mqtt_scenarios.js").read_text(encoding="utf-8"))
RUN_TIMEOUT_S: Final = 90


def test_every_scenario_has_a_test(project: Path) -> None:
    """The names read from the source are the ones that run."""
    command = ["node", "mqtt_scenarios.js", "--list"]
    listed = subprocess.run(command, cwd=project, check=True, capture_output=True, text=True, timeout=RUN_TIMEOUT_S)

    assert listed.stdout.split() == NAMES


@pytest.mark.parametrize("transport", ["mqtt", "ws"])
@pytest.mark.parametrize("version", ["3", "4", "5"])
@pytest.mark.parametrize("scenario", NAMES)
def test_mqtt_js(server: MqttServer, project: Path, name: str, scenario: str, version: str, transport: str) -> None:
    """One scenario in a process of its own."""
    port = server.port if transport == "mqtt" else server.websocket_port
    result = subprocess.run(
        ["node", "mqtt_scenarios.js", scenario, f"{transport}://{HOST}:{port}", version, name],
        cwd=project,
        capture_output=True,
        text=True,
        timeout=RUN_TIMEOUT_S,
    )

    assert result.returncode == 0, result.stderr
