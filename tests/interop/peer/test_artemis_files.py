"""Files that Artemis wrote: the instance of its `create` starts unchanged, and of its examples only some are refused.

Run this module (`python -m`) with an instance and a folder to count the examples in it.
"""

import logging
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
from attrs import frozen
from lxml import etree
from proton import ConnectionException

from artemis_py.cli.check import Findings, examine
from artemis_py.testing import running_broker
from tests.interop.broker_process import launch
from tests.interop.peer.conftest import CREATE_TIMEOUT_S, PASSWORD, USER, unpacked_artemis
from tests.interop.proton.client import Client

NEWEST: Final = "2.44.0"
WITH_EXAMPLES: Final = "2.31.2"
"""The last distribution that has them; they have a repository of their own now, which Maven does not have."""
PORTS: Final = (61616, 5672, 61613, 5445, 1883)
OFFSETS: Final = range(100, 3000, 37)
SASL_HEADER: Final = b"AMQP\x03\x01\x00\x00"
UNKNOWN: Final = ("is not an element", "is not an attribute", "is unknown", "does not belong")
"""What is said of a name that Artemis does not know."""

pytestmark = pytest.mark.timeout(300)


@frozen
class Count:
    """How many configurations pass, with and without warnings, and how many have errors."""

    clean: int
    warned: int
    refused: int


@pytest.fixture(scope="module")
def newest(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Apache Artemis, unpacked."""
    return unpacked_artemis(NEWEST, tmp_path_factory.mktemp("newest"))


@pytest.fixture(scope="module")
def instance(newest: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What `create` writes, with all of its acceptors, on ports that are free."""
    folder = tmp_path_factory.mktemp("created") / "broker"
    command = [
        *(str(newest / "bin" / "artemis"), "create", str(folder), "--silent", "--host", "127.0.0.1"),
        *("--user", USER, "--password", PASSWORD, "--require-login", "--port-offset", str(free_offset())),
        *("--no-autotune", "--nio"),
    ]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, timeout=CREATE_TIMEOUT_S)
    return folder


def free_offset() -> int:
    """A number that can be added to the ports of Artemis."""
    for offset in OFFSETS:
        try:
            for port in PORTS:
                socket.create_server(("127.0.0.1", port + offset)).close()
        except OSError:
            continue
        return offset
    raise AssertionError("no ports are free")


def test_the_instance_of_artemis_passes_and_starts_unchanged(instance: Path) -> None:
    """Its user logs in with the password that `create` hashed; others do not, nor do those without a name."""
    before = {path.name: path.read_bytes() for path in (instance / "etc").iterdir()}
    assert examine(instance / "etc" / "broker.xml").problems == []

    broker = launch(instance)
    try:
        with Client(broker.url, user=USER, password=PASSWORD, allowed_mechs="PLAIN") as client:
            client.send("DLQ", "one")
            client.receiver("DLQ").receive()
        for wrong in ({"user": USER, "password": "wrong", "allowed_mechs": "PLAIN"}, {"allowed_mechs": "ANONYMOUS"}):
            with pytest.raises(ConnectionException):
                Client(broker.url, **wrong)
    except BaseException:
        broker.kill()
        raise
    broker.stop()

    assert "parameter useEpoll: has no effect here" in broker.log_text()
    assert {path.name: path.read_bytes() for path in (instance / "etc").iterdir()} == before


def test_examples_of_artemis(instance: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    """No name in them is unknown, those without errors start, and docs/artemis-compatibility.md has the numbers."""
    found = []
    examples = unpacked_artemis(WITH_EXAMPLES, tmp_path_factory.mktemp("examples")) / "examples"
    for file in configurations(instance, examples):
        found.append(examine(file))
        if not found[-1].problems:
            starts(file)
    told = [str(problem) for each in found for problem in (*each.problems, *each.warnings)]

    assert [text for text in told if any(unknown in text for unknown in UNKNOWN)] == []
    assert counted(found) == Count(clean=0, warned=51, refused=100)


def starts(file: Path) -> None:
    """Start a broker with a configuration: it has the queues of the file, and answers clients."""
    declared = {element.get("name") for element in etree.parse(file).iterfind("{*}core/{*}addresses//{*}queue")}
    with running_broker(file) as broker:
        assert declared <= set(broker.queue_names)
        with socket.create_connection(("127.0.0.1", broker.port("amqp"))) as client:
            client.sendall(SASL_HEADER)
            assert client.recv(len(SASL_HEADER), socket.MSG_WAITALL) == SASL_HEADER


def configurations(instance: Path, examples: Path) -> Iterator[Path]:
    """Each configuration of a broker, laid over an instance as the build of the examples does it."""
    with tempfile.TemporaryDirectory() as folder:
        for file in sorted(examples.rglob("broker*.xml")):
            etc = Path(folder) / "etc"
            shutil.rmtree(etc, ignore_errors=True)
            shutil.copytree(instance / "etc", etc)
            shutil.copytree(file.parent, etc, dirs_exist_ok=True)
            yield etc / file.name


def counted(found: list[Findings]) -> Count:
    """The sums."""
    refused = sum(bool(each.problems) for each in found)
    warned = sum(bool(each.warnings) and not each.problems for each in found)
    return Count(len(found) - refused - warned, warned, refused)


if __name__ == "__main__":
    logging.disable()
    print(counted([examine(file) for file in configurations(Path(sys.argv[1]), Path(sys.argv[2]))]))
