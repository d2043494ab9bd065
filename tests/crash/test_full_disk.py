"""A broker whose disk is full, over the wire."""

import subprocess
from pathlib import Path

import pytest
from proton import Delivery, Message, ProtonException

from tests.crash.run import CrashRun
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
        with pytest.raises((ProtonException, Refused), match="the store failed"):  # noqa: PT012  the loop is the point
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
