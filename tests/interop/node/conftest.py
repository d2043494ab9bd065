"""The Node.js clients, installed once, outside of the source tree."""

import shutil
import subprocess
from pathlib import Path
from typing import Final

import pytest

from tests.interop.mqtt.conftest import server as server

HERE: Final = Path(__file__).parent
SOURCES: Final = (
    "package.json",
    "package-lock.json",
    ".npmrc",
    "client.js",
    "follow.js",
    "scenarios.js",
    "mqtt_scenarios.js",
)
INSTALL_TIMEOUT_S: Final = 300


@pytest.fixture(scope="session")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The scenarios beside the installed clients."""
    directory = tmp_path_factory.mktemp("node")
    for name in SOURCES:
        shutil.copy(HERE / name, directory / name)
    subprocess.run(["npm", "ci", "--no-audit", "--no-fund"], cwd=directory, check=True, timeout=INSTALL_TIMEOUT_S)
    return directory
