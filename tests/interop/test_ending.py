"""How the process ends: every client is told, nobody is waited for in vain, and memory is not taken apart."""

import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
from proton import ConnectionException, Event, Message
from proton.handlers import MessagingHandler
from proton.reactor import Container

from tests.interop.broker_process import START_TIMEOUT_S, STOP_TIMEOUT_S, Instance, launch
from tests.interop.proton.client import Client

# A broker that would wait an hour for goodbyes, and whose memory says so when it is taken apart.
PATIENT: Final = """
import sys
from artemis_py import broker
from artemis_py.cli import main, serving

class Canary:
    def __del__(self):
        print("taken apart", file=sys.stderr, flush=True)

class Watched(broker.Broker):
    def __init__(self, *arguments, **options):
        super().__init__(*arguments, **options)
        self.canary = Canary()

serving.GOODBYE_S = 3600.0
serving.Broker = Watched
main()
"""


class Patient:
    """That broker as a process."""

    def __init__(self, directory: Path) -> None:
        self.log: Final = directory / "log"
        Instance(persistence="true").write(directory)
        with self.log.open("wb") as log:
            self.process: Final = subprocess.Popen(
                [sys.executable, "-P", "-c", PATIENT, "run", str(directory)],
                cwd=directory,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )
        assert self.process.stdout is not None
        listening = self.process.stdout.readline()
        assert listening.startswith("listening: "), self.log.read_text()
        self.url: Final = f"amqp://127.0.0.1:{listening.rpartition(':')[2].strip()}"
        assert self.process.stdout.readline() == "ready\n"

    def end(self) -> int:
        """Told to stop; the exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(STOP_TIMEOUT_S)

    def close(self) -> None:
        """After the test, whatever it left."""
        self.process.kill()
        self.process.wait()
        assert self.process.stdout is not None
        self.process.stdout.close()


@pytest.fixture
def patient(tmp_path: Path) -> Iterator[Patient]:
    broker = Patient(tmp_path)
    yield broker
    broker.close()


class Told(MessagingHandler):  # type: ignore[misc]
    """A client in its own loop that has a link, and remembers why its connection ended."""

    def __init__(self, url: str) -> None:
        super().__init__()
        self.url = url
        self.is_attached = threading.Event()
        self.is_over = threading.Event()
        self.condition: str | None = None

    def on_start(self, event: Event) -> None:
        connection = event.container.connect(self.url, reconnect=False)
        event.container.create_receiver(connection, "q")

    def on_link_opened(self, event: Event) -> None:
        self.is_attached.set()

    def on_disconnected(self, event: Event) -> None:
        self.condition = event.connection.remote_condition.name
        self.is_over.set()


def test_a_client_that_blocks_elsewhere_is_not_waited_for(patient: Patient) -> None:
    """A blocking client reads when it is called: it finds the reason then, and the broker is long gone."""
    client = Client(patient.url)
    client.send("q", "m")
    connection = client.connection.conn

    code = patient.end()
    with pytest.raises((ConnectionException, OSError)):
        client.wait(lambda: False, "the end of the connection")

    assert (code, connection.remote_condition.name) == (0, "amqp:connection:forced")


def test_a_client_that_listens_is_told_and_not_waited_for(patient: Patient) -> None:
    """Proton's container hears the reason, and leaves its side of the connection open."""
    told = Told(patient.url)
    container = Container(told)
    thread = threading.Thread(target=container.run, daemon=True)
    thread.start()
    assert told.is_attached.wait(START_TIMEOUT_S)

    code = patient.end()

    assert told.is_over.wait(START_TIMEOUT_S)
    assert (code, told.condition) == (0, "amqp:connection:forced")
    container.stop()
    thread.join(START_TIMEOUT_S)


def test_memory_is_not_taken_apart_at_the_end(patient: Patient, tmp_path: Path) -> None:
    """Two million messages would take seconds. What is stored is safe all the same, and the log is complete."""
    with Client(patient.url) as client:
        client.send("q", *[Message(body=str(number), durable=True) for number in range(100)])
        client.send("q", *[str(number) for number in range(100)])

    code = patient.end()
    log = patient.log.read_text().splitlines()
    again = launch(tmp_path)
    with Client(again.url) as client:
        bodies = client.bodies("q")
    again.stop()

    assert code == 0
    assert log[-1].endswith("broker stopped: name=interop")
    assert "taken apart" not in log
    assert bodies == [str(number) for number in range(100)]
