"""A broker on a disk that runs out of room, over the wire."""

import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner
from proton import Message

from artemis_py.cli import main
from tests.crash.processes import command_of
from tests.interop.broker_process import STOP_TIMEOUT_S
from tests.interop.proton.client import Client, Refused

CONFIGURATION = """<configuration xmlns="urn:activemq"><core xmlns="urn:activemq:core">
  <security-enabled>false</security-enabled>
  <max-disk-usage>90</max-disk-usage>
  <disk-scan-period>20</disk-scan-period>
  <acceptors><acceptor name="amqp">tcp://127.0.0.1:0?amqpCredits=5;amqpLowCredits=2</acceptor></acceptors>
  <address-settings><address-setting match="#">
    <default-address-routing-type>ANYCAST</default-address-routing-type>
    <default-queue-routing-type>ANYCAST</default-queue-routing-type>
  </address-setting></address-settings>
</core></configuration>
"""
TIMEOUT_S = 20.0


class Disk:
    """The room that the broker sees."""

    def __init__(self, folder: Path) -> None:
        self.file = folder / "free"
        self.log = folder / "log"
        self.url = ""
        self.set_free(500)

    def set_free(self, free: int) -> None:
        """Of 1000 bytes."""
        part = self.file.with_suffix(".new")
        part.write_text(str(free), encoding="ascii")
        part.replace(self.file)

    def wait_for(self, text: str) -> None:
        """Until the broker has seen it."""
        deadline = time.monotonic() + TIMEOUT_S
        while text not in self.log.read_text(encoding="utf-8"):
            assert time.monotonic() < deadline, self.log.read_text(encoding="utf-8")
            time.sleep(0.01)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Disk]:
    """A broker on a disk."""
    disk = Disk(tmp_path)
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc" / "broker.xml").write_text(CONFIGURATION, encoding="utf-8")
    command = command_of("tests.interop.small_disk", str(disk.file), "run", str(tmp_path))
    with disk.log.open("wb") as log, subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True) as broker:
        try:
            assert broker.stdout is not None
            for line in broker.stdout:
                if line == "ready\n":
                    break
                disk.url = f"amqp://127.0.0.1:{line.rpartition(':')[2].strip()}"
            yield disk
        finally:
            broker.send_signal(signal.SIGTERM)
            broker.wait(STOP_TIMEOUT_S)


def test_producers_wait_for_the_disk_and_consumers_go_on(disk: Disk) -> None:
    """No credit from the limit on, credit again when there is room; what was accepted is there."""
    with Client(disk.url) as client:
        sender = client.sender("q")
        sender.send(Message(body="first", durable=True))
        disk.set_free(99)
        disk.wait_for("disk is nearly full, producers wait")
        sent = 1
        while sender.link.credit:
            sender.send(Message(body=f"on credit {sent}", durable=True))
            client.sync()
            sent += 1
        blocked_at = sent
        delivered = len(client.receiver("q").drain())
        disk.set_free(100)
        disk.wait_for("disk has room again")
        client.wait(lambda: sender.link.credit > 0, "credit")
        sender.send(Message(body="after", durable=True))

    assert 2 <= blocked_at <= 6
    assert delivered == blocked_at


def test_an_operator_gets_answers_and_a_producer_the_reason(disk: Disk) -> None:
    """Whatever room is left: purging is what makes some."""
    run = CliRunner(env={"ARTEMIS_PY_URL": disk.url})
    sent = run.invoke(main, ["producer", "--destination", "queue://q", "--message-count", "3"])
    disk.set_free(1)
    disk.wait_for("disk is nearly full, messages are refused")
    started_at = time.monotonic()
    outcomes = [run.invoke(main, command.split()) for command in ("queue pause q", "queue list", "queue purge q")]
    elapsed_s = time.monotonic() - started_at
    command = [sys.executable, "-m", "artemis_py.cli", "producer", "--destination", "queue://q", "--url", disk.url]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as producer:
        assert producer.stderr is not None
        waiting = producer.stderr.readline()
        producer.kill()

    assert (sent.exit_code, [outcome.exit_code for outcome in outcomes]) == (0, [0, 0, 0])
    assert "removed 3 messages from q" in outcomes[2].output
    assert elapsed_s < TIMEOUT_S / 2
    assert waiting == "waiting after 0 of 1 messages: the disk of the broker is nearly full\n"


def test_those_who_still_have_credit_are_refused_when_little_is_left(disk: Disk) -> None:
    """A reason in words, and nothing is stored."""
    with Client(disk.url) as client:
        sender = client.sender("q")
        disk.set_free(49)
        disk.wait_for("disk is nearly full, messages are refused")
        with pytest.raises(Refused, match="the broker's disk is nearly full"):
            sender.send(Message(body="x", durable=True))
