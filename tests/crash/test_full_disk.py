"""A broker whose disk is full, over the wire."""

import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from proton import Delivery, Message, ProtonException

from tests.crash.run import CrashRun
from tests.interop.broker_process import Instance, start_broker
from tests.interop.proton.client import Client, Refused

BODY_BYTES = 20_000


def start(run: CrashRun) -> "tuple[subprocess.Popen[bytes], str]":
    """A broker of the crash test, and its URL."""
    broker = run.start()
    return broker, run.url


def drain(url: str) -> list[str]:
    """Take everything from the queue."""
    with Client(url) as client:
        receiver = client.receiver("work")
        bodies = []
        while taken := receiver.drain():
            for received in taken:
                bodies.append(str(received.body)[:10])
                received.delivery.update(Delivery.ACCEPTED)
                received.delivery.settle()
        return bodies


def test_a_full_disk_ends_acknowledgements_and_loses_none(tmp_path: Path) -> None:
    """R5, P15: who waits is told why, durable messages are refused, others and consumers go on."""
    (tmp_path / "etc").mkdir()
    broker, url = start(CrashRun(tmp_path, seed=1, fault="full-disk"))
    acknowledged = []
    try:
        # The first is the answer to a message that waits when a fold fails, the second to one that comes then.
        failed = "(the store failed|nothing can be stored any more)"
        full = f"{failed}: the disk is full for this process: .* may not grow beyond"
        with pytest.raises((ProtonException, Refused), match=full):  # noqa: PT012  the loop is the point
            client = Client(url)
            sender = client.sender("work")
            for number in range(200):
                sender.send(Message(body=f"{number:010}".ljust(BODY_BYTES, "x"), durable=True))
                acknowledged.append(f"{number:010}")
        with Client(url) as client:
            sender = client.sender("work")
            with pytest.raises(Refused, match="nothing can be stored any more"):
                sender.send(Message(body="refused", durable=True))
            sender.send(Message(body="volatile", durable=False))
        while_full = drain(url)
    finally:
        broker.kill()
        broker.wait()
    broker, url = start(CrashRun(tmp_path, seed=1))
    try:
        after_restart = drain(url)
    finally:
        broker.kill()
        broker.wait()

    assert len(acknowledged) > 5
    assert while_full[-1] == "volatile"
    assert set(acknowledged) <= set(while_full)
    assert set(acknowledged) <= set(after_restart)


def test_a_large_message_that_does_not_fit_is_refused_and_nothing_else(tmp_path: Path) -> None:
    """Nothing was promised for it, so the store goes on; its file is gone."""
    (tmp_path / "etc").mkdir()
    broker, url = start(CrashRun(tmp_path, seed=1, fault="full-disk"))
    try:
        with Client(url) as client:
            sender = client.sender("work")
            with pytest.raises(Refused, match=r"a large message cannot be stored: .*File too large"):
                sender.send(Message(body=bytes(5_000_000), durable=True))
            # Files are deleted by the thread that commits, in order: the next confirmation comes behind it.
            sender.send(Message(body="small", durable=True))
            left = list((tmp_path / "data" / "large-messages").glob("*.body"))
            sender.send(Message(body="large".ljust(300_000), durable=True))
        taken = drain(url)
    finally:
        broker.kill()
        broker.wait()

    assert left == []
    assert taken == ["small", "large     "]


@pytest.mark.parametrize("role", ["sender", "receiver"])
def test_whoever_comes_after_the_failure_hears_the_reason(tmp_path: Path, role: str) -> None:
    """Also for an address that has to be made: nothing is said of a link that the client never saw attached."""
    (tmp_path / "etc").mkdir()
    broker, url = start(CrashRun(tmp_path, seed=1, fault="full-disk"))
    try:
        fill(url)
        with (
            pytest.raises((ProtonException, Refused), match="the store failed: the disk is full"),
            Client(url) as client,
        ):
            getattr(client, role)("new")
    finally:
        broker.kill()
        broker.wait()


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 4 MiB, for who may mount one."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", str(folder)]
    if shutil.which("mount") is None or subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("a file system can be mounted by root on Linux only")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


def test_a_full_disk_is_called_a_full_disk(small_disk: Path) -> None:
    """LMDB says that of a write that was cut short: Input/output error. The log and the client are told what it is."""
    core = "<security-enabled>false</security-enabled><min-disk-free>0</min-disk-free>"
    broker = start_broker(Instance(core=core, persistence="true"), small_disk / "instance")
    try:
        failures = [fill(broker.url)]
        with pytest.raises((ProtonException, Refused)) as failure, Client(broker.url) as client:
            client.sender("new")
        failures.append(str(failure.value))
        log = broker.log_text()
    finally:
        broker.kill()

    for text in (*failures, next(line for line in log.splitlines() if "the store failed" in line)):
        assert re.search(r"the disk is full: \d+ bytes are left", text), text
    assert "Traceback" not in log


def fill(url: str) -> str:
    """Send until the store fails; returns what the client was told."""
    with pytest.raises((ProtonException, Refused)) as failure, Client(url) as client:  # noqa: PT012  the loop is the point
        sender = client.sender("work")
        for _ in range(1000):
            sender.send(Message(body="x" * BODY_BYTES, durable=True))
    return str(failure.value)
