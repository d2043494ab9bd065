"""Brokers as processes that find each other on the local network: no broker is told of another one."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

import pytest

from tests.interop.network import Machine, machine, need_namespaces
from tests.interop.test_mesh import ENVIRONMENT, artemis_py, free_ports, make, receive, running, send, until
from tests.multicast import LOOPBACK, need_multicast

pytestmark = pytest.mark.timeout(300)


def discovering(folder: Path, discovery: str) -> Path:
    """An instance that knows nobody."""
    path = folder / "etc" / "broker.xml"
    text = path.read_text()
    groups = f'<discovery-groups><discovery-group name="g">{discovery}</discovery-group></discovery-groups>'
    for before, after in (
        ("<cluster-connections>", f"{groups}<cluster-connections>"),
        ("</cluster-connection>", '<discovery-group-ref discovery-group-name="g"/></cluster-connection>'),
    ):
        assert text.count(before) == 1
        text = text.replace(before, after)
    path.write_text(text)
    return folder


def by_zeroconf(folder: Path, port: int, group: str) -> Path:
    """One that uses the loopback interface."""
    return discovering(make(folder, port), f'<zeroconf interface="{LOOPBACK}">{group}</zeroconf>')


def test_brokers_on_one_network_make_a_mesh(tmp_path: Path) -> None:
    """mesh §2.4: two of one group share a queue; one of another group is not in it."""
    need_multicast()
    shop, office = f"shop-{uuid4().hex}", f"office-{uuid4().hex}"  # other runs on this machine are on the same network
    first, second, other = free_ports(3)
    folders = (
        by_zeroconf(tmp_path / "a", first, shop),
        by_zeroconf(tmp_path / "b", second, shop),
        by_zeroconf(tmp_path / "c", other, office),
    )
    with running(*folders):
        for port in (first, second):
            until(lambda at=port: "up" in artemis_py("mesh", "status", "--json", port=at), "they never met", 60)  # type: ignore[misc]
        send(first, "orders", ["one", "two"])

        assert receive(second, "orders", 2) == ["one", "two"]
        assert "up" not in artemis_py("mesh", "status", "--json", port=other)


@contextmanager
def running_at(place: Machine, folder: Path, address: str) -> Iterator[None]:
    """A broker on a machine that will have an address on a network."""
    command = ["create", str(folder), "--user", "ops", "--silent", "--host", "0.0.0.0", "--clustered"]
    command += ["--cluster-host", address, "--amqp-port", "0", "--mqtt-port", "0"]
    subprocess.run(
        [sys.executable, "-P", "-m", "artemis_py.cli", *command], check=True, env={**os.environ, **ENVIRONMENT}
    )
    discovering(folder, "<zeroconf>shop</zeroconf><refresh-timeout>300</refresh-timeout>")
    command = [sys.executable, "-P", "-m", "artemis_py.cli", "run", str(folder)]
    with (
        open(folder / "stderr.log", "wb") as log,
        subprocess.Popen(place.enter(*command), stdout=log, stderr=log) as broker,
    ):
        try:
            until(lambda: "broker started" in (folder / "stderr.log").read_text(), "it did not start")
            yield
        finally:
            broker.send_signal(signal.SIGTERM)
            broker.wait(60)


def test_a_network_that_comes_later_is_used(tmp_path: Path) -> None:
    """A broker that starts with its machine starts before the network does, and the other one has announced itself."""
    need_multicast()
    need_namespaces()
    status = (sys.executable, "-P", "-m", "artemis_py.cli", "mesh", "status", "--json")
    with (
        machine() as first,
        machine() as second,
        running_at(first, tmp_path / "a", "10.77.0.1"),
        running_at(second, tmp_path / "b", "10.77.0.2"),
    ):
        first.connect(second, "10.77.0.1/24", "10.77.0.2/24")

        for place in (first, second):
            until(lambda at=place: b'"up"' in subprocess.check_output(at.enter(*status)), "they never met")  # type: ignore[misc]
