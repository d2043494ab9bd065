"""A mesh of brokers: what its messages cost beside local ones, and what it costs a broker that does not use it.

    python benchmarks/mesh.py [--python PYTHON] [--rounds 5] [--only handover,local] [--json FILE]

PYTHON is that of an environment with the broker installed, compiled for figures that count; the one that runs this by
default. Brokers are processes on loopback, each with a store. A round takes all subjects in turn, and a ratio is formed
within a round.

    handover     producer at one broker and consumer at the other, beside both at one of them: rate, and CPU of both
    local        both at one broker that has no mesh, one peer, two peers
    restart      a broker with --queues queues that its peer has as well is started again: time until both know all,
                 memory and octets for each queue, longest wait of a client at the other one meanwhile
    nodes        3 to 100 simulated nodes: what each of them does for one peer
    table        two simulated nodes tell each other 1,000 to 100,000 queues: octets, CPU, longest pause
    core         `local` in instructions: core and mesh without sockets, the same to a thousandth in each run
    whole        `local` in instructions: the brokers of `local`, the one that is measured below callgrind

`core` and `whole` are taken only when `--only` names them. They need valgrind, and do not mind what else the machine
does; the system calls of `whole` are not among its instructions.
"""

import argparse
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import ExitStack, suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from instructions import control, instructions_in
from run import HERE, START_TIMEOUT_S, machine, resident_mib, spread

PARTS: Final = ("handover", "local", "restart", "nodes", "table")
VALGRIND_PARTS: Final = ("core", "whole")
JOINED: Final = "broker joined: mesh=mesh name={}"
CANARY_S: Final = 0.005
"""Pause between two calls of a client that measures how long a broker lets it wait."""
INSTRUCTION_MESSAGES: Final = (2_000, 6_000)
"""Two runs below callgrind: their difference has no start in it."""
WHOLE_S: Final = 10.0
"""Seconds of load below callgrind. It has blocks of messages: one at a time, each would take so long that what a mesh
does every 20 ms would count as a part of it."""

CONFIGURATION: Final = """<?xml version="1.0" encoding="UTF-8"?>
<configuration xmlns="urn:activemq">
  <core xmlns="urn:activemq:core">
    <name>{name}</name>
    <persistence-enabled>true</persistence-enabled>
    <security-enabled>false</security-enabled>
    <acceptors>
      <acceptor name="amqp">tcp://127.0.0.1:{port}?protocols=AMQP</acceptor>
    </acceptors>
    {cluster}
    <address-settings>
      <address-setting match="#">
        <default-address-routing-type>ANYCAST</default-address-routing-type>
        <default-queue-routing-type>ANYCAST</default-queue-routing-type>
      </address-setting>
    </address-settings>
  </core>
</configuration>
"""
CLUSTER: Final = """<connectors>
      <connector name="own">tcp://127.0.0.1:{port}</connector>{connectors}
    </connectors>
    <cluster-user>mesh</cluster-user>
    <cluster-password>mesh</cluster-password>
    <cluster-connections>
      <cluster-connection name="mesh">
        <connector-ref>own</connector-ref>
        <static-connectors{only}>{references}</static-connectors>
      </cluster-connection>
    </cluster-connections>"""
QUEUES: Final = """<?xml version="1.0" encoding="UTF-8"?>
<activemq-journal><bindings>
{}
</bindings><messages/></activemq-journal>
"""
QUEUE: Final = (
    '<address-binding routing-types="ANYCAST" name="accounts.{0}" id="{0}"/>'
    '<queue-binding address="accounts.{0}" filter-string="" name="accounts.{0}" id="{1}" routing-type="ANYCAST"/>'
)


def free_ports(count: int) -> list[int]:
    """Return ports that nobody uses now."""
    sockets = [socket.socket() for _ in range(count)]
    for each in sockets:
        each.bind(("127.0.0.1", 0))
    ports = [int(each.getsockname()[1]) for each in sockets]
    for each in sockets:
        each.close()
    return ports


class Broker:
    """A broker process; it may be started again."""

    def __init__(
        self,
        python: Path,
        folder: Path,
        port: int,
        peers: list[int] | None,
        is_alone: bool = False,
        wrapper: tuple[str, ...] = (),
    ) -> None:
        """`peers`: ports that it dials (None: it belongs to no mesh), and no others if `is_alone`; `wrapper`: a command
        that runs it."""
        self.python = python
        self.wrapper = wrapper
        self.folder = folder
        self.port = port
        self.process: subprocess.Popen[bytes] | None = None
        etc = folder / "etc"
        etc.mkdir(parents=True)
        (folder / "data").mkdir()
        cluster = ""
        if peers is not None:
            connectors = "".join(f'\n      <connector name="to{n}">tcp://127.0.0.1:{n}</connector>' for n in peers)
            references = "".join(f"<connector-ref>to{n}</connector-ref>" for n in peers)
            only = ' allow-direct-connections-only="true"' if is_alone else ""
            cluster = CLUSTER.format(port=port, connectors=connectors, references=references, only=only)
        text = CONFIGURATION.format(name=folder.name, port=port, cluster=cluster)
        (etc / "broker.xml").write_text(text, encoding="utf-8")
        for file in ("artemis-users.properties", "artemis-roles.properties"):
            (etc / file).write_text("", encoding="utf-8")

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: object, traceback: TracebackType | None) -> None:
        self.stop()

    @property
    def pid(self) -> int:
        """Process id."""
        assert self.process is not None
        return self.process.pid

    @property
    def log(self) -> str:
        """What it has logged since it was started."""
        return (self.folder / "log").read_text()

    def start(self) -> float:
        """Start; return the seconds until it listens. Raises SystemExit if it does not."""
        ready = self.folder / "port"
        ready.unlink(missing_ok=True)
        begin = time.monotonic()
        command = [*self.wrapper, self.python.parent / "artemis-py", "run", self.folder, "--port-file", ready]
        with open(self.folder / "log", "wb") as log:
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        while not ready.exists():
            if self.process.poll() is not None or time.monotonic() - begin > START_TIMEOUT_S * 10:
                self.process.kill()
                raise SystemExit(f"{self.folder.name} did not start:\n{self.log}")
            time.sleep(0.002)
        return time.monotonic() - begin

    def await_peer(self, name: str, timeout_s: float = 600.0) -> None:
        """Wait until messages may go to a broker. Raises SystemExit."""
        end = time.monotonic() + timeout_s
        while JOINED.format(name) not in self.log:
            if time.monotonic() > end:
                raise SystemExit(f"{self.folder.name} and {name} did not meet:\n{self.log}")
            time.sleep(0.01)

    def stop(self) -> None:
        """End the process and wait for that."""
        if self.process is not None:
            self.process.terminate()
            self.process.wait()
            self.process = None


def mesh(python: Path, folder: Path, names: str, running: ExitStack, wrapper: tuple[str, ...] = ()) -> list[Broker]:
    """Start brokers that all know each other; a name is a letter, and the first broker is run by `wrapper`."""
    ports = free_ports(len(names))
    brokers: list[Broker] = []
    for name, port in zip(names, ports, strict=True):
        peers = [each for each in ports if each != port]
        broker = Broker(python, folder / name, port, peers, wrapper=() if brokers else wrapper)
        brokers.append(running.enter_context(broker))
    for broker in brokers:
        for name in names:
            if name != broker.folder.name:
                broker.await_peer(name)
    return brokers


def load(producers: Broker, consumers: Broker, arguments: list[str], seconds: float) -> dict[str, float]:
    """Run the client once. Raises SystemExit if it found a broker wrong."""
    command = [sys.executable, HERE / "load.py", "--port", producers.port, "--pid", producers.pid, *arguments]
    if consumers is not producers:
        command += ["--consumer-port", consumers.port, "--consumer-pid", consumers.pid]
    command += ["--seconds", seconds]
    done = subprocess.run([str(each) for each in command], capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{done.stderr}\n{producers.log}\n{consumers.log}")
    result: dict[str, float] = json.loads(done.stdout)
    return result


def ratios(taken: list[float], other: list[float]) -> dict[str, float]:
    """Return how one quantity relates to another, over the rounds."""
    return {key: round(value, 3) for key, value in spread([a / b for a, b in zip(taken, other, strict=True)]).items()}


def handover(python: Path, folder: Path, rounds: int, seconds: float) -> list[dict[str, Any]]:
    """Rates and CPU of what is consumed at the other broker, beside what is consumed where it was sent."""
    rows: list[dict[str, Any]] = []
    with ExitStack() as running:
        a, b = mesh(python, folder, "ab", running)
        for kind, arguments in (("durable", ["--durable"]), ("not durable", [])):
            taken: dict[str, list[dict[str, float]]] = {"local": [], "other": []}
            for _ in range(rounds):
                taken["local"].append(load(a, a, arguments, seconds))
                taken["other"].append(load(a, b, arguments, seconds))
            for key in ("messages_per_s", "broker_cpu_us", "busier_broker_cpu_us"):
                ours, theirs = ([each[key] for each in taken[where]] for where in ("local", "other"))
                figures = {"local": spread(ours)["median"], "other": spread(theirs)["median"]}
                rows.append({"part": "handover", "load": kind, "figure": key, **figures, "ratio": ratios(theirs, ours)})
    return rows


def local(python: Path, folder: Path, rounds: int, seconds: float) -> list[dict[str, Any]]:
    """CPU of a message that stays at its broker, beside a broker without a mesh."""
    with ExitStack() as running:
        alone = running.enter_context(Broker(python, folder / "alone", *free_ports(1), None))
        one = mesh(python, folder / "pair", "ab", running)[0]
        two = mesh(python, folder / "three", "abc", running)[0]
        subjects = {"alone": alone, "1 peer": one, "2 peers": two}
        rows: list[dict[str, Any]] = []
        for kind, arguments in (("durable", ["--durable"]), ("not durable", [])):
            taken: dict[str, list[float]] = {name: [] for name in subjects}
            for number in range(rounds):
                for name in list(subjects) if number % 2 == 0 else reversed(subjects):
                    broker = subjects[name]
                    taken[name].append(load(broker, broker, arguments, seconds)["broker_cpu_us"])
            rows += [
                {
                    "part": "local",
                    "load": kind,
                    "broker": name,
                    "broker_cpu_us": spread(times)["median"],
                    "ratio": ratios(times, taken["alone"]),
                }
                for name, times in taken.items()
            ]
    return rows


def core(python: Path, folder: Path) -> list[dict[str, Any]]:
    """The same for core and mesh alone, in instructions."""
    rows: list[dict[str, Any]] = []
    for block in (1, 100):
        base = 0.0
        for peers in (-1, 0, 1, 2, 25):
            counts = []
            for messages in INSTRUCTION_MESSAGES:
                command = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={folder / 'callgrind'}", str(python)]
                command += [str(HERE / "mesh_simulated.py"), "local", "--peers", str(peers), "--block", str(block)]
                command += ["--messages", str(messages)]
                environment = os.environ | {"PYTHONHASHSEED": "0"}
                done = subprocess.run(command, capture_output=True, text=True, env=environment)
                found = re.search(r"Collected : (\d+)", done.stderr)
                if done.returncode or found is None:
                    raise SystemExit(done.stderr)
                counts.append(int(found[1]))
            each = (counts[1] - counts[0]) / (INSTRUCTION_MESSAGES[1] - INSTRUCTION_MESSAGES[0])
            base = base or each
            name = "alone" if peers < 0 else f"{peers} peers"
            row = {"part": "core", "messages in an iteration": block, "broker": name}
            rows.append(row | {"instructions": round(each), "ratio": round(each / base, 4)})
    return rows


def whole(python: Path, folder: Path, rounds: int) -> list[dict[str, Any]]:
    """The same for whole brokers, in instructions; those for a client's connection and queue count for its messages."""
    rows: list[dict[str, Any]] = []
    for kind, arguments in (("durable", ["--durable"]), ("not durable", [])):
        taken: dict[str, list[float]] = {"alone": [], "1 peer": [], "2 peers": []}
        for number in range(rounds):
            for name, letters in zip(taken, ("a", "ab", "abc"), strict=True):
                place = folder / f"{kind}-{name}-{number}"
                place.mkdir(parents=True)
                counted = str(place / "callgrind")
                wrapper = ("valgrind", "--tool=callgrind", "--instr-atstart=no", f"--callgrind-out-file={counted}")
                with ExitStack() as running:
                    if name == "alone":
                        broker = running.enter_context(
                            Broker(python, place / "a", *free_ports(1), None, wrapper=wrapper)
                        )
                    else:
                        broker = mesh(python, place, letters, running, wrapper)[0]
                    control(broker.pid, "--instr=on")
                    run = load(broker, broker, [*arguments, "--warm-up", "0"], WHOLE_S)
                    control(broker.pid, "--dump")
                    taken[name].append(instructions_in(Path(counted + ".1")) / run["all_messages"])
        rows += [
            {
                "part": "whole",
                "load": kind,
                "broker": name,
                "instructions": round(spread(counts)["median"]),
                "ratio": ratios(counts, taken["alone"]),
            }
            for name, counts in taken.items()
        ]
    return rows


class Canary(threading.Thread):
    """A client that connects again and again, and notes the longest time that it had to wait."""

    def __init__(self, port: int) -> None:
        super().__init__(daemon=True)
        self._port = port
        self._is_over = False
        self.longest_s = 0.0
        self.calls = 0

    def run(self) -> None:
        """Say the header of SASL, and wait for that of the broker."""
        while not self._is_over:
            begin = time.monotonic()
            with socket.create_connection(("127.0.0.1", self._port), timeout=600) as client:
                client.sendall(b"AMQP\x03\x01\x00\x00")
                client.recv(8)
            self.longest_s = max(self.longest_s, time.monotonic() - begin)
            self.calls += 1
            time.sleep(CANARY_S)

    def end(self) -> None:
        """Wait for the last call."""
        self._is_over = True
        self.join()


class Relay:
    """Passes connections on to a port, and counts the octets."""

    def __init__(self, target: int) -> None:
        self._target = target
        self._server = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._server.getsockname()[1])
        self.octets = 0
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            ours = self._server.accept()[0]
            try:
                theirs = socket.create_connection(("127.0.0.1", self._target))
            except OSError:
                ours.close()
                continue
            for source, target in ((ours, theirs), (theirs, ours)):
                threading.Thread(target=self._pump, args=(source, target), daemon=True).start()

    def _pump(self, source: socket.socket, target: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(1 << 16):
                self.octets += len(data)
                target.sendall(data)
        for each in (source, target):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)


def restart(python: Path, folder: Path, queues: int) -> dict[str, Any]:
    """Two brokers with the same queues, one of which is started again."""
    ports = free_ports(2)
    relay = Relay(ports[0])
    a = Broker(python, folder / "a", ports[0], [], True)
    b = Broker(python, folder / "b", ports[1], [relay.port], True)
    # Imported, because a configuration file has no room for so many; a store that was never started has no node id yet.
    file = folder / "queues.xml"
    bindings = "\n".join(QUEUE.format(2 * number + 1, 2 * number + 2) for number in range(queues))
    file.write_text(QUEUES.format(bindings), encoding="utf-8")
    command = [python.parent / "artemis-py", "data", "import", a.folder, file]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    shutil.copytree(a.folder / "data", b.folder / "data", dirs_exist_ok=True)
    with a:
        time.sleep(1)
        memory = resident_mib(a.pid)
        with b:
            a.await_peer("b")
            b.await_peer("a")
            grown_kib = (resident_mib(a.pid) - memory) * 1024
        canary = Canary(a.port)
        canary.start()
        time.sleep(1)
        calm_s, canary.longest_s, octets = canary.longest_s, 0.0, relay.octets
        start_s = b.start()
        begin = time.monotonic()
        try:
            b.await_peer("a")
            joined_s = time.monotonic() - begin
            octets = relay.octets - octets
            time.sleep(1)
        finally:
            canary.end()
            b.stop()
    return {
        "part": "restart",
        "queues": queues,
        "start_s": round(start_s, 2),
        "joined_s": round(joined_s, 2),
        "octets_per_queue": round(octets / queues / 2, 1),
        "kib_per_queue_and_peer": round(grown_kib / queues, 2),
        "longest_wait_ms": round(canary.longest_s * 1000, 1),
        "longest_wait_before_ms": round(calm_s * 1000, 1),
    }


def simulated(python: Path, what: str, options: list[str]) -> list[dict[str, Any]]:
    """What `mesh_simulated.py` finds."""
    command = [str(python), str(HERE / "mesh_simulated.py"), what, *options]
    rows = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout)
    return [{"part": what} | {key: round(value, 2) for key, value in row.items()} for row in rows]


def main() -> None:
    """Measure, and print a line of JSON for each figure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", type=Path, default=Path(sys.executable))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=2.0, help="of measured load per subject and round")
    parser.add_argument("--only", default=",".join(PARTS), help="parts, separated by commas")
    parser.add_argument("--queues", default="1000,100000", help="of `restart`")
    parser.add_argument("--nodes", default="3,10,30,100", help="of `nodes`")
    parser.add_argument("--json", type=Path, help="write all figures there")
    options = parser.parse_args()
    python: Path = options.python.absolute()
    parts = options.only.split(",")
    if unknown := set(parts) - {*PARTS, *VALGRIND_PARTS}:
        parser.error(f"no such part: {', '.join(sorted(unknown))}")
    rows: list[dict[str, Any]] = []

    def add(found: list[dict[str, Any]]) -> None:
        rows.extend(found)
        for row in found:
            print(json.dumps(row), flush=True)

    with tempfile.TemporaryDirectory(prefix="artemis-py-benchmark-") as temporary:
        folder = Path(temporary)
        if "handover" in parts:
            add(handover(python, folder / "handover", options.rounds, options.seconds))
        if "local" in parts:
            add(local(python, folder / "local", options.rounds, options.seconds))
        if "core" in parts:
            add(core(python, folder))
        if "whole" in parts:
            add(whole(python, folder / "whole", options.rounds))
        if "restart" in parts:
            for count in options.queues.split(","):
                add([restart(python, folder / f"restart-{count}", int(count))])
        if "nodes" in parts:
            add(simulated(python, "nodes", ["--nodes", options.nodes]))
        if "table" in parts:
            add(simulated(python, "table", []))
    if options.json is not None:
        options.json.write_text(json.dumps({"machine": machine(), "rows": rows}, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
