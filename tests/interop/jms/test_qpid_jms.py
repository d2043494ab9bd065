"""The JMS client of Apache Qpid: one test per class of the Maven project beside this file."""

import json
import shutil
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import Final

import pytest

from tests.interop.broker_process import BrokerProcess
from tests.interop.maven import one_maven
from tests.interop.test_mesh import artemis_py, free_ports, make, running, send, until
from tests.interop.test_mesh_clients import ALL_CLIENTS, ROUTER

HERE: Final = Path(__file__).parent
CLASSES: Final = sorted(path.stem for path in HERE.glob("src/test/java/interop/*Test.java"))
BUILD_TIMEOUT_S: Final = 600
RUN_TIMEOUT_S: Final = 300
COUNT: Final = 100
"""Messages that a client takes with as many consumers."""

pytestmark = pytest.mark.timeout(BUILD_TIMEOUT_S)


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The compiled project, outside of the source tree."""
    directory = tmp_path_factory.mktemp("jms") / "project"
    shutil.copytree(HERE, directory, ignore=shutil.ignore_patterns("target", "*.py", "__pycache__"))
    with one_maven():
        subprocess.run(["mvn", "-q", "-B", "test-compile"], cwd=directory, check=True, timeout=BUILD_TIMEOUT_S)
    return directory


@pytest.mark.parametrize("suite", CLASSES)
def test_qpid_jms(broker: BrokerProcess, project: Path, suite: str) -> None:
    """All methods of one class, by JUnit."""
    with one_maven():
        result = subprocess.run(
            ["mvn", "-q", "-B", "test", f"-Dtest={suite}", f"-Dbroker.url={broker.url}"],
            cwd=project,
            capture_output=True,
            text=True,
            timeout=RUN_TIMEOUT_S,
        )

    assert result.returncode == 0, result.stdout + result.stderr


@pytest.mark.parametrize("action", ["REPLACE", "ADD"])
@pytest.mark.parametrize("is_routed", [False, True], ids=["killed", "routed"])
def test_a_client_goes_on_at_the_other_broker(project: Path, tmp_path: Path, is_routed: bool, action: str) -> None:
    """C51: it knows one broker. That is killed, and the list in its open names the other; or it sends clients on."""
    if is_routed and action == "ADD":
        pytest.skip("a redirect is no list")
    if (is_routed or action == "ADD") and not ALL_CLIENTS:
        pytest.skip("slow: set ARTEMIS_PY_MESH_CLIENTS=1")
    first, second = free_ports(2)
    folders = make(tmp_path / "a", first, second), make(tmp_path / "b", second, first)
    if is_routed:
        path = folders[0] / "etc" / "broker.xml"
        text = path.read_text().replace("</acceptor>", ";router=away</acceptor>", 1)
        path.write_text(text.replace("</acceptors>", f"</acceptors>{ROUTER}", 1))
    url = f"failover:(amqp://127.0.0.1:{first})?failover.amqpOpenServerListAction={action}"
    ready = tmp_path / "ready"
    command = ["mvn", "-q", "-B", "test", "-Dtest=Wanderer", f"-Dbroker.url={url}"]
    with one_maven(), running(*folders) as brokers:
        until(lambda: "up" in artemis_py("mesh", "status", "--json", port=second), "they never met", 60)
        client = subprocess.Popen(
            [*command, f"-Dbroker.last={second}", f"-Dbroker.ready={ready}"],
            cwd=project,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        try:
            until(lambda: ready.exists() or client.poll() is not None, "it never connected", RUN_TIMEOUT_S)
            if not is_routed:
                brokers[0].kill()
            output, _ = client.communicate(timeout=RUN_TIMEOUT_S)
        finally:
            with suppress(ProcessLookupError):
                client.kill()

    assert client.returncode == 0, output


def test_a_receive_loop_makes_progress_at_the_other_broker(project: Path, tmp_path: Path) -> None:
    """C23: each consumer gets one message of the other broker, in order, and each message moves once."""
    first, second = free_ports(2)
    queues = [f"loop.{prefetch}" for prefetch in (0, 1, 1000)]
    command = ["mvn", "-q", "-B", "test", "-Dtest=Looper", f"-Dbroker.count={COUNT}"]
    with one_maven(), running(make(tmp_path / "a", first, second), make(tmp_path / "b", second, first)):
        until(lambda: "up" in artemis_py("mesh", "status", "--json", port=first), "they never met")
        for queue in queues:
            send(first, queue, [str(number) for number in range(COUNT)])
        result = subprocess.run(
            [*command, f"-Dbroker.url=amqp://127.0.0.1:{second}"],
            cwd=project,
            capture_output=True,
            text=True,
            timeout=RUN_TIMEOUT_S,
        )
        assert result.returncode == 0, result.stdout + result.stderr

        for queue in queues:
            (share,) = json.loads(artemis_py("mesh", "explain", queue, "--json", port=first))["brokers"]
            assert (share["handedOver"], share["taken"]) == (COUNT, 0)
