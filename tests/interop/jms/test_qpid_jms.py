"""The JMS client of Apache Qpid: one test per class of the Maven project beside this file."""

import shutil
import subprocess
from pathlib import Path
from typing import Final

import pytest

from tests.interop.broker_process import BrokerProcess

HERE: Final = Path(__file__).parent
CLASSES: Final = sorted(path.stem for path in HERE.glob("src/test/java/interop/*Test.java"))
BUILD_TIMEOUT_S: Final = 600
RUN_TIMEOUT_S: Final = 300

pytestmark = pytest.mark.timeout(BUILD_TIMEOUT_S)


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The compiled project, outside of the source tree."""
    directory = tmp_path_factory.mktemp("jms") / "project"
    shutil.copytree(HERE, directory, ignore=shutil.ignore_patterns("target", "*.py", "__pycache__"))
    subprocess.run(["mvn", "-q", "-B", "test-compile"], cwd=directory, check=True, timeout=BUILD_TIMEOUT_S)
    return directory


@pytest.mark.parametrize("suite", CLASSES)
def test_qpid_jms(broker: BrokerProcess, project: Path, suite: str) -> None:
    """All methods of one class, by JUnit."""
    result = subprocess.run(
        ["mvn", "-q", "-B", "test", f"-Dtest={suite}", f"-Dbroker.url={broker.url}"],
        cwd=project,
        capture_output=True,
        text=True,
        timeout=RUN_TIMEOUT_S,
    )

    assert result.returncode == 0, result.stdout + result.stderr
