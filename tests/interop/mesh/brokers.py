"""Brokers of a mesh as processes, with a proxy between each two of them, and the faults that both can have."""

import signal
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from itertools import combinations
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from tests.interop.broker_process import BrokerProcess, Instance, launch
from tests.interop.kinds.site import Site
from tests.interop.proxy import Proxy
from tests.interop.test_mesh import free_ports

MESH: Final = "mesh"
CONTROL: Final = f"cluster-connection.{MESH}"
POLL_S: Final = 0.05
MEET_TIMEOUT_S: Final = 60.0

CLUSTER: Final = """
<connectors>
  <connector name="self">tcp://127.0.0.1:{port}</connector>
  {connectors}
</connectors>
<cluster-user>mesh</cluster-user><cluster-password>together</cluster-password>
<cluster-connections>
  <cluster-connection name="{mesh}">
    <connector-ref>self</connector-ref>
    <check-period>500</check-period><connection-ttl>2000</connection-ttl><retry-interval>100</retry-interval>
    <static-connectors allow-direct-connections-only="true">{references}</static-connectors>
  </cluster-connection>
</cluster-connections>
"""
"""Silence is noticed soon, so that a process that stands still for a second is sometimes away and sometimes slow."""


class Node:
    """One broker: its folder, its port, and its process while there is one."""

    def __init__(self, folder: Path, port: int, python: str) -> None:
        self.folder: Final = folder
        self.name: Final = folder.name
        self.port: Final = port
        self.python = python
        """The interpreter in whose environment the broker is installed; it may change between two starts."""
        self.logs: Final[list[str]] = []
        """Of its former processes."""
        self._process: BrokerProcess | None = None

    @property
    def url(self) -> str:
        """Where AMQP clients connect."""
        return f"amqp://127.0.0.1:{self.port}"

    @property
    def log(self) -> str:
        """What it has logged since it was started for the first time."""
        return "".join([*self.logs, self._process.log_text() if self._process else ""])

    def start(self) -> None:
        """Return when it accepts connections."""
        assert self._process is None
        self._process = launch(self.folder, self.python)

    def kill(self) -> None:
        """End it without a word."""
        if self._process is not None:
            self._process.kill()
            self._over()

    def stop(self) -> None:
        """End it as an operator does. Raises BrokerFailed if it complains."""
        if self._process is not None:
            self._process.stop()
            self._over()

    def signal(self, number: int) -> None:
        """Send a signal to the process, if there is one."""
        if self._process is not None:
            self._process.process.send_signal(number)

    def _over(self) -> None:
        assert self._process is not None
        self.logs.append(self._process.log_text())
        self._process = None


class Mesh:
    """Nodes, each of which dials those behind it in the list through a proxy of its own. A context manager.

    What clients use has no proxy in between: they lose their connection only with their broker.
    """

    def __init__(self, folder: Path, count: int, *, settings: str = "", pythons: Iterable[str] = ()) -> None:
        """`pythons`: the interpreters of the nodes, that of the tests by default."""
        chosen = [*pythons] or [sys.executable] * count
        ports = free_ports(count)
        self.nodes: Final = [
            Node(folder / f"n{number}", port, python)
            for number, (port, python) in enumerate(zip(ports, chosen, strict=True))
        ]
        self.links: Final = {(one, other): Proxy(other.port) for one, other in combinations(self.nodes, 2)}
        """The proxy between each two nodes."""
        self._settings: Final = settings
        self._stack: Final = ExitStack()

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            for proxy in self.links.values():
                stack.enter_context(proxy)
            for node in self.nodes:
                stack.callback(node.kill)
            for node in self.nodes:
                self._write(node)
                node.start()
            self.wait_until_connected()
            self._stack.push(stack.pop_all())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._stack:
            if error is None:
                for node in self.nodes:
                    node.stop()

    def _write(self, node: Node) -> None:
        dialled = {other.name: proxy.port for (one, other), proxy in self.links.items() if one is node}
        connectors = "".join(
            f'<connector name="{name}">tcp://127.0.0.1:{port}</connector>' for name, port in dialled.items()
        )
        references = "".join(f"<connector-ref>{name}</connector-ref>" for name in dialled)
        instance = Instance(
            persistence="true",
            core="<security-enabled>false</security-enabled>"
            + CLUSTER.format(port=node.port, mesh=MESH, connectors=connectors, references=references),
            parameters="protocols=AMQP,MQTT,OPENWIRE",
            settings=self._settings,
        )
        instance.write(node.folder)
        text = instance.configuration().replace("127.0.0.1:0", f"127.0.0.1:{node.port}")
        text = text.replace("<name>interop</name>", f"<name>{node.name}</name>")
        (node.folder / "etc" / "broker.xml").write_text(text, encoding="utf-8")

    def wait_until_connected(self) -> None:
        """Return when each node has a connection to each other one."""
        deadline = time.monotonic() + MEET_TIMEOUT_S
        for node in self.nodes:
            while int(self.attribute(node, CONTROL, "MembersConnected")) < len(self.nodes) - 1:
                assert time.monotonic() < deadline, f"{node.name} is not connected to all others\n{node.log}"
                time.sleep(POLL_S)

    def attribute(self, node: Node, resource: str, name: str) -> Any:
        """Return an attribute of management of a node."""
        site = Site(node.url)
        try:
            return site.attribute(resource, name)
        finally:
            site.disconnect()

    # -- faults, until the end of their block -----------------------------------------------------------------------

    @contextmanager
    def killed(self, node: Node) -> Iterator[None]:
        """SIGKILL; started again at the end."""
        node.kill()
        try:
            yield
        finally:
            node.start()

    @contextmanager
    def stopped(self, node: Node) -> Iterator[None]:
        """SIGSTOP and SIGCONT: its connections stay, and nothing comes from it."""
        node.signal(signal.SIGSTOP)
        try:
            yield
        finally:
            node.signal(signal.SIGCONT)

    @contextmanager
    def cut_off(self, node: Node) -> Iterator[None]:
        """No connection between it and any other one; its clients stay."""
        proxies = self._links_of(node)
        for proxy in proxies:
            proxy.cut_and_refuse()
        try:
            yield
        finally:
            for proxy in proxies:
                proxy.accept()

    @contextmanager
    def half_open(self, node: Node) -> Iterator[None]:
        """Those that it dials, or that dial it, say nothing more, and the connections stay."""
        proxies = self._links_of(node)
        for proxy in proxies:
            proxy.hold()
        try:
            yield
        finally:
            for proxy in proxies:
                proxy.release()

    @contextmanager
    def broken(self, node: Node) -> Iterator[None]:
        """Its connections to others break once, and may be made again at once."""
        for proxy in self._links_of(node):
            proxy.cut()
        yield

    def _links_of(self, node: Node) -> list[Proxy]:
        return [proxy for ends, proxy in self.links.items() if node in ends]
