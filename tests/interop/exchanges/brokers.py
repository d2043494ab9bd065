"""The brokers that the programs run against, each as a process in a folder that keeps its data over a restart."""

import json
import os
import shlex
import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from types import ModuleType
from typing import Final

from proton import ProtonException

from tests.interop.broker_process import Instance, launch
from tests.interop.exchanges import bindings, chains, keys, lifetimes, matching, subscriptions, transactions, unroutable
from tests.interop.exchanges.peers import BrokerJ, Ours, RabbitMq
from tests.interop.exchanges.recorded import missing
from tests.interop.exchanges.site import Peer
from tests.interop.java_server import HOST, START_TIMEOUT_S, free_port, running
from tests.interop.kinds.scenario import Seen, observe, programs, setting
from tests.interop.proton.client import Refused

MODULES: Final[tuple[ModuleType, ...]] = (
    matching,
    keys,
    bindings,
    chains,
    unroutable,
    transactions,
    subscriptions,
    lifetimes,
)

BROKER_J: Final = "9.2.1"
CONFIGURATION: Final = {
    "name": "peer",
    "modelVersion": "9.1",
    "authenticationproviders": [{"name": "anyone", "type": "Anonymous"}],
    "ports": [
        {
            "name": "AMQP",
            "port": "${qpid.amqp_port}",
            "bindingAddress": HOST,
            "protocols": ["AMQP_1_0"],
            "authenticationProvider": "anyone",
            "virtualhostaliases": [{"name": "any", "type": "patternMatchingAlias", "pattern": ".*"}],
        },
        {
            "name": "HTTP",
            "port": "${qpid.http_port}",
            "bindingAddress": HOST,
            "protocols": ["HTTP"],
            "authenticationProvider": "anyone",
        },
    ],
    "virtualhostnodes": [
        {
            "name": "default",
            "type": "JSON",
            "defaultVirtualHostNode": "true",
            "virtualHostInitialConfiguration": json.dumps({"type": "BDB"}),
        }
    ],
    "plugins": [{"type": "MANAGEMENT-HTTP", "name": "management"}],
}
"""Configuration of Broker-J: everybody may do everything, from this machine only."""
JAVA: Final = ("nice", "java", "-Xmx300m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")

RABBITMQ: Final = "ARTEMIS_PY_RABBITMQ"
"""Environment variable: the command that runs RabbitMQ 4, if it is not where it usually is."""
RABBITMQ_USUAL: Final = ("/usr/lib/rabbitmq/bin/rabbitmq-server", "rabbitmq-server")
RABBITMQ_CONFIGURATION: Final = """\
listeners.tcp.default = {host}:{port}
management.tcp.ip = {host}
management.tcp.port = {management}
log.file = false
log.console = true
log.console.level = warning
"""

POLL_S: Final = 0.1
Start = Callable[[], AbstractContextManager[Peer]]


def observed(start: Start) -> dict[str, Seen]:
    """Run all programs against a broker, which is restarted once; what each saw."""
    chosen = {name: missing(program) for name, program in programs(MODULES).items()}
    broker = start()
    site = broker.__enter__()

    def restart() -> str:
        nonlocal broker
        broker.__exit__(None, None, None)
        broker = start()
        return broker.__enter__().url

    try:
        return observe(site, restart, chosen)
    finally:
        broker.__exit__(None, None, None)


def ours(folder: Path) -> Start:
    """Return how this broker is started. Addresses that begin with `limited.` have room for one message."""
    Instance(
        persistence="true",
        settings=setting("limited.#", max_size_messages=1, address_full_policy="FAIL"),
    ).write(folder)

    @contextmanager
    def start() -> Iterator[Peer]:
        process = launch(folder)
        try:
            site = Ours(process.url)
            site.pid = process.process.pid
            yield site
        finally:
            process.stop()

    return start


def broker_j(distribution: Path, folder: Path) -> Start:
    """Return how Broker-J is started from an unpacked distribution."""
    port, management = free_port(), free_port()
    initial = folder / "initial.json"
    initial.write_text(json.dumps(CONFIGURATION), encoding="utf-8")
    command = [
        *JAVA,
        *(f"-DQPID_HOME={distribution}", f"-DQPID_WORK={folder / 'work'}", "-cp", str(distribution / "lib" / "*")),
        *("org.apache.qpid.server.Main", "-icp", str(initial)),
        *("-prop", f"qpid.amqp_port={port}", "-prop", f"qpid.http_port={management}"),
    ]

    @contextmanager
    def start() -> Iterator[Peer]:
        with running(command, management, folder) as process:
            site = BrokerJ(f"amqp://{HOST}:{port}", f"http://{HOST}:{management}")
            site.pid = process.pid
            _wait_for(site)
            yield site

    return start


def rabbitmq_command() -> list[str] | None:
    """Return the command that runs RabbitMQ; None if it is not installed."""
    named = os.environ.get(RABBITMQ)
    if named:
        return shlex.split(named)
    return next(([path] for path in map(shutil.which, RABBITMQ_USUAL) if path is not None), None)


def rabbitmq(command: list[str], folder: Path) -> Start:
    """Return how RabbitMQ is started: a node of its own, which shares only the name service of Erlang (epmd)."""
    port, management = free_port(), free_port()
    text = RABBITMQ_CONFIGURATION.format(host=HOST, port=port, management=management)
    (folder / "rabbitmq.conf").write_text(text, encoding="utf-8")
    (folder / "plugins").write_text("[rabbitmq_management].\n", encoding="utf-8")
    environment: Mapping[str, str] = {
        **os.environ,
        "HOME": str(folder),
        "RABBITMQ_NODENAME": f"peer{port}@localhost",
        "RABBITMQ_DIST_PORT": str(free_port()),
        "RABBITMQ_CONFIG_FILE": str(folder / "rabbitmq.conf"),
        "RABBITMQ_ENABLED_PLUGINS_FILE": str(folder / "plugins"),
        "RABBITMQ_MNESIA_BASE": str(folder / "data"),
        "RABBITMQ_LOG_BASE": str(folder / "log"),
        "RABBITMQ_PID_FILE": str(folder / "pid"),
    }

    @contextmanager
    def start() -> Iterator[Peer]:
        with running(["nice", *command], management, folder, environment):
            site = RabbitMq(f"amqp://{HOST}:{port}", f"http://{HOST}:{management}")
            _wait_for(site)
            yield site

    return start


def _wait_for(site: Peer) -> None:
    """Wait until a broker knows its exchanges and takes clients: its management may be there first."""
    deadline = time.monotonic() + START_TIMEOUT_S
    while True:
        try:
            if site.exchanges():
                with site.connect() as client:
                    client.sync()
                return
        except (Refused, ProtonException, OSError) as error:
            if time.monotonic() > deadline:
                raise AssertionError(f"the broker is not ready: {error}") from error
        time.sleep(POLL_S)
