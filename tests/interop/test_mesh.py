"""Brokers of a mesh as processes, made with `artemis-py create`, with a network between them that fails."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from socket import socket
from typing import Final

import pytest
from proton import ConnectionException, Delivery, Message
from proton.utils import BlockingConnection

from tests.interop.broker_process import BrokerProcess, launch
from tests.interop.proton.client import Client
from tests.interop.proxy import Proxy

pytestmark = pytest.mark.timeout(300)

COUNT: Final = 200
CREDIT: Final = 50
ENVIRONMENT: Final = {"ARTEMIS_PY_PASSWORD": "secret", "ARTEMIS_PY_CLUSTER_PASSWORD": "together"}


def free_ports(count: int) -> list[int]:
    """Ports that nobody uses now."""
    sockets = [socket() for _ in range(count)]
    for each in sockets:
        each.bind(("127.0.0.1", 0))
    ports = [int(each.getsockname()[1]) for each in sockets]
    for each in sockets:
        each.close()
    return ports


def make(folder: Path, port: int, *peers: int, direct: bool = False) -> Path:
    """An instance that dials these ports; with `direct` no others, of which it may hear."""
    command = [sys.executable, "-P", "-m", "artemis_py.cli", "create", str(folder), "--user", "ops", "--silent"]
    command += ["--port", str(port), "--amqp-port", "0", "--mqtt-port", "0", "--clustered"]
    for peer in peers:
        command += ["--peer", f"127.0.0.1:{peer}"]
    subprocess.run(command, check=True, env={**os.environ, **ENVIRONMENT})
    if direct:
        path = folder / "etc" / "broker.xml"
        only = '<static-connectors allow-direct-connections-only="true">'
        text = path.read_text().replace("<static-connectors>", only)
        if not peers:
            text = text.replace("      </cluster-connection>", f"{only}</static-connectors></cluster-connection>")
        path.write_text(text)
    return folder


def artemis_py(*arguments: str, port: int) -> str:
    """What a command prints."""
    command = [sys.executable, "-P", "-m", "artemis_py.cli", *arguments, "--url", f"amqp://127.0.0.1:{port}"]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def until(is_true: Callable[[], object], what: str, timeout_s: float = 60.0) -> None:
    """Wait for something that a broker will do."""
    end = time.monotonic() + timeout_s
    while not is_true():
        assert time.monotonic() < end, what
        time.sleep(0.05)


def send(port: int, queue: str, bodies: list[str]) -> None:
    """Durable messages, each confirmed."""
    connection = BlockingConnection(f"amqp://127.0.0.1:{port}", timeout=60)
    sender = connection.create_sender(queue)
    for body in bodies:
        sender.send(Message(body=body, durable=True))
    connection.close()


def receive(port: int, queue: str, count: int) -> list[str]:
    """So many messages, of a consumer with credit for more; a kill after this brings none of them back."""
    bodies: list[str] = []
    with Client(f"amqp://127.0.0.1:{port}") as client:
        receiver = client.receiver(queue)
        receiver.flow(CREDIT)
        while len(bodies) < count:
            taken = receiver.receive_many(min(CREDIT, count - len(bodies)))
            for each in taken:
                each.delivery.update(Delivery.ACCEPTED)
            for each in taken:
                client.wait(lambda: each.delivery.settled, "a settlement")  # noqa: B023
                each.delivery.settle()
            bodies += [str(each.body) for each in taken]
            receiver.flow(len(taken))
    return bodies


@contextmanager
def running(*folders: Path) -> Iterator[list[BrokerProcess]]:
    """Brokers, which must stop cleanly; one that a test has killed is left out."""
    brokers = [launch(folder) for folder in folders]
    try:
        yield brokers
    except BaseException:
        for broker in brokers:
            broker.kill()
        raise
    for broker in brokers:
        if broker.process.poll() is None:
            broker.stop()


def connected(broker: BrokerProcess) -> int:
    """How often it has connected to another one."""
    return broker.log_text().count("connected to another broker")


def test_two_brokers_share_a_queue(tmp_path: Path) -> None:
    """Sent at one, consumed at the other, whichever was there first; both ways."""
    first, second = free_ports(2)
    with running(make(tmp_path / "a", first, second), make(tmp_path / "b", second, first)):
        until(lambda: "up" in artemis_py("mesh", "status", "--json", port=first), "they never met")
        send(first, "q", [f"a{number}" for number in range(COUNT)])
        assert receive(second, "q", COUNT) == [f"a{number}" for number in range(COUNT)]

        send(second, "r", [f"b{number}" for number in range(COUNT)])
        assert receive(first, "r", COUNT) == [f"b{number}" for number in range(COUNT)]

        (member,) = json.loads(artemis_py("mesh", "status", "--json", port=first))["brokers"]
        assert (member["name"], member["state"], member["resyncs"]) == ("b", "up", 0)
        send(first, "nobody", ["x"])
        assert "no other broker has a consumer for it" in artemis_py("mesh", "explain", "nobody", port=first)


def test_a_broker_that_is_cut_off_returns(tmp_path: Path) -> None:
    """One dials the other through a proxy; nothing is lost or doubled when that breaks now and then."""
    first, second = free_ports(2)
    bodies = [f"m{number}" for number in range(5 * COUNT)]
    over = threading.Event()
    with Proxy(second) as proxy, ExitStack() as stack:
        folders = make(tmp_path / "a", first, proxy.port, direct=True), make(tmp_path / "b", second, direct=True)
        both = stack.enter_context(running(*folders))

        def cut() -> None:
            proxy.cut()  # at least once, however quick the brokers are
            while not over.wait(1):
                proxy.cut()

        until(lambda: connected(both[0]), "they never met")
        sending = threading.Thread(target=send, args=(first, "q", bodies))
        knife = threading.Thread(target=cut)
        stack.callback(sending.join)
        stack.callback(knife.join)
        stack.callback(over.set)
        sending.start()
        knife.start()
        received = receive(second, "q", COUNT)
        over.set()
        received += receive(second, "q", len(bodies) - COUNT)

        assert sorted(received) == sorted(bodies)
        until(lambda: connected(both[0]) > 1, "they never met again")


def test_a_killed_broker_loses_and_doubles_nothing(tmp_path: Path) -> None:
    """SIGKILL of the taker while messages are on their way, then of the origin."""
    first, second = free_ports(2)
    folders = make(tmp_path / "a", first, second), make(tmp_path / "b", second, first)
    bodies = [f"m{number}" for number in range(3 * COUNT)]
    with running(*folders) as brokers:
        send(first, "q", bodies)
        received = receive(second, "q", COUNT)
        brokers[1].kill()
        brokers[1] = launch(folders[1])
        received += receive(second, "q", COUNT)
        brokers[0].kill()
        brokers[0] = launch(folders[0])
        received += receive(second, "q", COUNT)

        assert sorted(received) == sorted(bodies)


def test_a_stopped_broker_holds_no_more_than_its_credit(tmp_path: Path) -> None:
    """SIGSTOP of one with a consumer (C24): all else goes to the consumer of the third, nothing comes twice."""
    ports = first, second, third = free_ports(3)
    names = ["a", "b", "c"]
    folders = [make(tmp_path / name, port, *ports) for name, port in zip(names, ports, strict=True)]
    bodies = [f"m{number}" for number in range(10 * COUNT)]
    with running(*folders) as brokers, Client(f"amqp://127.0.0.1:{second}") as client:
        for port in ports:
            until(lambda: artemis_py("mesh", "status", "--json", port=port).count('"up"') == 2, "they never met")  # noqa: B023
        held = client.receiver("q")
        send(first, "q", ["first"])
        assert [str(each.body) for each in held.receive_many(1)] == ["first"]
        held.flow(CREDIT)
        brokers[1].process.send_signal(signal.SIGSTOP)
        try:
            send(first, "q", bodies)
            received = receive(third, "q", len(bodies) - CREDIT)
        finally:
            brokers[1].process.send_signal(signal.SIGCONT)
        late = [str(each.body) for each in held.receive_many(CREDIT)]

        assert sorted(received + late) == sorted(bodies)


@pytest.mark.parametrize("wrong", ["password", "name"])
def test_a_stranger_is_not_let_in(tmp_path: Path, wrong: str) -> None:
    """Both logs say why (C15)."""
    first, second = free_ports(2)
    folders = make(tmp_path / "a", first, second), make(tmp_path / "b", second)
    path = folders[0] / "etc" / "broker.xml"
    old, new = {
        "password": (">together<", ">guessed<"),
        "name": ('cluster-connection name="mesh"', 'cluster-connection name="x"'),
    }[wrong]
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))
    with running(*folders) as (a, b):
        until(lambda: "another broker refuses this one" in a.log_text(), "it was let in")
        expected = {"password": "login failed", "name": "broker refused"}[wrong]
        until(lambda: expected in b.log_text(), "the other log says nothing")


def test_a_broker_is_drained_and_comes_back(tmp_path: Path) -> None:
    """Its clients go, its messages follow, it leaves the mesh, and joins it when it is started again (C55)."""
    first, second = free_ports(2)
    folders = make(tmp_path / "a", first, second), make(tmp_path / "b", second, first)
    bodies = [f"m{number}" for number in range(5 * COUNT)]
    with running(*folders) as brokers:
        until(lambda: "up" in artemis_py("mesh", "status", "--json", port=first), "they never met")
        send(first, "q", bodies)
        client = BlockingConnection(f"amqp://127.0.0.1:{first}", timeout=60)
        fact = json.loads(artemis_py("mesh", "drain", "--json", port=first))

        assert (fact["state"], fact["drained"], fact["remaining"]) == ("left", len(bodies), 0)
        with pytest.raises(ConnectionException, match=r"drained|another broker serves this client"):
            client.create_sender("q")
        with pytest.raises(ConnectionException, match=r"drained|another broker serves this client"):
            BlockingConnection(f"amqp://127.0.0.1:{first}", timeout=60)
        assert json.loads(artemis_py("mesh", "status", "--json", port=second))["brokers"] == []
        assert receive(second, "q", len(bodies)) == bodies
        brokers[0].stop()
        brokers[0] = launch(folders[0])
        until(lambda: "up" in artemis_py("mesh", "status", "--json", port=second), "it never came back")
        send(first, "q", ["after"])
        assert receive(second, "q", 1) == ["after"]

        nodes = json.loads(artemis_py("mesh", "topology", "--json", port=second))["nodes"]
        ids = {node["name"]: node["nodeID"] for node in nodes}
        assert {node["name"]: node["sees"] for node in nodes} == {"a": [ids["b"]], "b": [ids["a"]]}
        (share,) = json.loads(artemis_py("mesh", "explain", "q", "--json", port=second))["brokers"]
        assert (share["name"], share["taken"]) == ("a", 1)
        brokers[0].kill()
        until(lambda: "away" in artemis_py("mesh", "status", "--json", port=second), "it is still there")
        fact = json.loads(artemis_py("mesh", "forget", "a", "--yes", "--json", port=second))
        assert fact == {"forgotten": "a", "nodeID": ids["a"], "returned": 0}
        assert json.loads(artemis_py("mesh", "status", "--json", port=second))["brokers"] == []
