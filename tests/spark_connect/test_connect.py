"""Clients that are far from Spark: a program over Spark Connect, and the notebook of the examples."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import pytest
from proton import Message
from proton.utils import BlockingConnection

from tests.interop.broker_process import REPOSITORY, BrokerProcess

TIMEOUT_S: Final = 400

pytestmark = pytest.mark.timeout(TIMEOUT_S + 200)


def test_a_client_of_spark_connect_reads_writes_and_streams(
    broker: BrokerProcess, server: str, environment: dict[str, str], tmp_path: Path
) -> None:
    """The source registers itself at the server; the client has no Java, and an error is the same."""
    program = Path(__file__).with_name("client.py")
    command = [sys.executable, "-P", "-W", "ignore", str(program), server, broker.url, "connect", str(tmp_path)]
    without_java = {**environment, "PATH": "", "JAVA_HOME": ""}
    done = subprocess.run(command, env=without_java, capture_output=True, text=True, timeout=TIMEOUT_S)

    assert done.stdout.splitlines() == [
        "written and read: 10",
        "streamed before: 0",
        "streamed after: 10",
        "streamed back: 10",
        "refused: True",
    ], done.stderr


def test_the_notebook_runs_from_top_to_bottom(
    broker: BrokerProcess, environment: dict[str, str], tmp_path: Path
) -> None:
    connection = BlockingConnection(broker.url, timeout=30)
    sender = connection.create_sender("orders")
    for number in range(100):
        sender.send(Message(body=str(number), properties={"region": ("north", "south")[number % 2]}))
    connection.close()  # the notebook may take minutes, in which this client would say nothing
    notebook = REPOSITORY / "examples" / "spark" / "queue.ipynb"
    run = (
        "import sys, nbformat; from nbclient import NotebookClient; "
        "book = nbformat.read(sys.argv[1], as_version=4); NotebookClient(book, kernel_name='python3').execute(); "
        "print(nbformat.writes(book))"
    )
    done = subprocess.run(
        [sys.executable, "-c", run, str(notebook)],
        env={**environment, "ARTEMIS_PY_URL": broker.url, "IPYTHONDIR": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
    )

    assert done.returncode == 0, done.stderr
    shown = _outputs(done.stdout)
    assert "100" in shown
    assert "north|   50" in shown
    connection = BlockingConnection(broker.url, timeout=30)
    receiver = connection.create_receiver("orders.large", credit=10)
    assert sorted(receiver.receive(timeout=30).body for _ in range(10)) == [str(number) for number in range(90, 100)]
    connection.close()


def _outputs(text: str) -> str:
    cells: list[Any] = json.loads(text)["cells"]
    outputs = [output for cell in cells for output in cell.get("outputs", ())]
    return "\n".join("".join(one.get("text") or one.get("data", {}).get("text/plain", "")) for one in outputs)
