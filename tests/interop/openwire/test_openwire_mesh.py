"""The genuine client of ActiveMQ in a mesh: it knows one broker, and is told of the other (mesh §7.1)."""

import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest

from tests.interop.openwire import peers
from tests.interop.openwire.peers import BROKER_JARS, CLASSIC_6, Build
from tests.interop.test_mesh import artemis_py, free_ports, make, running, until
from tests.interop.test_mesh_clients import ALL_CLIENTS, ROUTER

pytestmark = [
    pytest.mark.timeout(600),
    pytest.mark.skipif(not ALL_CLIENTS, reason="slow: set ARTEMIS_PY_MESH_CLIENTS=1"),
]

Said = Callable[[str], str]
"""Waits for a line with this text, and returns it."""


@pytest.fixture(scope="module")
def build(tmp_path_factory: pytest.TempPathFactory) -> Build:
    """The compiled programs."""
    try:
        return peers.build(CLASSIC_6, tmp_path_factory.mktemp("jakarta"))
    except peers.Unavailable as missing:
        pytest.skip(str(missing))


@contextmanager
def wanderer(build: Build, port: int) -> Iterator[tuple["subprocess.Popen[str]", Said]]:
    """A client that knows one port."""
    command = build.java("interop.Wanderer", f"failover:(tcp://127.0.0.1:{port})", "q", without=BROKER_JARS)
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        output: Final = process.stdout
        assert output is not None

        def said(text: str) -> str:
            for line in output:
                if text in line:
                    return line
            raise AssertionError(f"it ended before it said {text}")

        try:
            yield process, said
        finally:
            process.kill()


def say(process: "subprocess.Popen[str]", text: str) -> None:
    """Have it send this."""
    assert process.stdin is not None
    process.stdin.write(f"{text}\n")
    process.stdin.flush()


def test_a_client_goes_on_at_the_other_broker(build: Build, tmp_path: Path) -> None:
    """C52: SIGKILL of the only broker that it was configured with."""
    first, second = free_ports(2)
    with running(make(tmp_path / "a", first, second), make(tmp_path / "b", second, first)) as brokers:
        until(lambda: "up" in artemis_py("mesh", "status", "--json", port=first), "they never met", 60)
        with wanderer(build, first) as (process, said):
            assert str(first) in said("ready")
            say(process, "one")
            said("got one")
            brokers[0].kill()
            assert str(second) in said("at ")
            say(process, "two")
            said("got two")


def test_a_client_goes_where_it_is_sent(build: Build, tmp_path: Path) -> None:
    """A router sends it to the other broker before it is logged in."""
    first, second = free_ports(2)
    folders = make(tmp_path / "a", first, second), make(tmp_path / "b", second, first)
    path = folders[0] / "etc" / "broker.xml"
    path.write_text(
        path.read_text()
        .replace("</acceptor>", ";router=away</acceptor>", 1)
        .replace("</acceptors>", f"</acceptors>{ROUTER}", 1)
    )
    with running(*folders):
        until(lambda: "up" in artemis_py("mesh", "status", "--json", port=second), "they never met", 60)
        with wanderer(build, first) as (process, said):
            assert str(second) in said("ready")
            say(process, "one")
            said("got one")


def test_replies_come_back_from_the_other_broker(build: Build, tmp_path: Path) -> None:
    """C34: the client refuses to send to a temporary destination that it was not told of."""
    first, second = free_ports(2)
    with running(make(tmp_path / "a", first, second), make(tmp_path / "b", second, first)):
        until(lambda: "up" in artemis_py("mesh", "status", "--json", port=first), "they never met", 60)
        urls = [f"tcp://127.0.0.1:{port}" for port in (first, second)]
        command = build.java("interop.Replies", *urls, without=BROKER_JARS)
        done = subprocess.run(command, capture_output=True, text=True, timeout=240)

    assert done.stdout.splitlines() == ["queues done", "topic reply", "late refused", "late refused"], done.stderr
