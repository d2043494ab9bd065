"""MQTT side by side: this checkout (pure and compiled), mosquitto, rumqttd and amqtt, in one run.

    python benchmarks/mqtt.py [--brokers mosquitto,rumqttd,amqtt,pure,compiled] [--only load,matching,memory]
                              [--loads "1:10 QoS 0,1:10 QoS 1"] [--rounds 3] [--seconds 2] [--builds FOLDER]
                              [--partners FOLDER] [--json FILE]

The partners are mosquitto on the PATH (Debian: apt install mosquitto), rumqttd on the PATH or in `--partners`
(cargo install rumqttd --version 0.20.0 --root FOLDER), and amqtt beside this Python. One that is not installed is named
and left out. In each round every broker gets the same load, one after the other: the ratios within a round are what
counts. `--brokers` may also name echo, which is `mqtt_echo.c`, compiled here: its delays are the client's own.
"""

import argparse
import importlib.util
import json
import os
import resource
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from mqtt_load import PARTS, Broken, Client
from run import HERE, START_TIMEOUT_S, install, resident_mib, spread

BROKERS: Final = ("mosquitto", "rumqttd", "amqtt", "pure", "compiled")
OURS_BUILDS: Final = ("pure", "compiled")
PARTNERS: Final = Path.home() / ".cache" / "artemis-py-benchmarks"
"""Where rumqttd is looked for, in `bin`, if it is not on the PATH."""

# Producers, consumers, QoS, messages that may be on their way.
LOADS: Final[dict[str, tuple[int, int, int]]] = {
    f"{producers}:{consumers} QoS {qos}": (producers, consumers, qos)
    for qos in (0, 1, 2)
    for producers, consumers in ((1, 1), (1, 10), (1, 100), (10, 10), (100, 1))
}
SIZES: Final = (1, 100, 10_000, 100_000, 1_000_000)
FILTERS_PER_CLIENT: Final = 1000
CONNECTIONS: Final = 2000
AMQTT_SUBSCRIPTIONS: Final = 10_000
"""Beyond, it takes minutes to subscribe."""

# Windows of 1,000 as here, queues without a limit as here, no disk as here.
MOSQUITTO: Final = """listener {port} 127.0.0.1
allow_anonymous true
user root
max_inflight_messages 1000
max_queued_messages 0
persistence false
log_type error
set_tcp_nodelay true
"""

# As mosquitto: windows of 1,000. What is sent is kept in segments, of which the last is always there: those of the
# example it brings, 10 of 100 MiB. 200 packets at once are its default.
RUMQTTD: Final = """id = 0

[router]
id = 0
max_connections = 10010
max_outgoing_packet_count = 200
max_segment_size = 104857600
max_segment_count = 10

[v4.1]
name = "benchmark"
listen = "127.0.0.1:{port}"
next_connection_delay_ms = 1

[v4.1.connections]
connection_timeout_ms = 60000
max_payload_size = 20480
max_inflight_count = 1000
dynamic_filters = true
"""

OURS: Final = """<?xml version="1.0" encoding="UTF-8"?>
<configuration xmlns="urn:activemq">
  <core xmlns="urn:activemq:core">
    <name>benchmark</name>
    <persistence-enabled>false</persistence-enabled>
    <security-enabled>false</security-enabled>
    <acceptors>
      <acceptor name="mqtt">tcp://127.0.0.1:{port}?protocols=MQTT</acceptor>
    </acceptors>
  </core>
</configuration>
"""


class Broker:
    """A broker process that accepts connections."""

    def __init__(self, name: str, programs: dict[str, Path], folder: Path, wrapper: Sequence[str | Path] = ()) -> None:
        """`programs`: each broker's, for ours the Python that it is installed in; `wrapper`: a command that runs it."""
        self.name = name
        self.folder = folder
        folder.mkdir(parents=True)
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port: int = probe.getsockname()[1]
        command = [*wrapper, *self._command(programs)]
        with open(folder / "log", "wb") as log:
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        deadline = time.monotonic() + START_TIMEOUT_S
        while not self._accepts():
            if self.process.poll() is not None or time.monotonic() > deadline:
                self.process.kill()
                raise SystemExit(f"{name} did not start:\n{(folder / 'log').read_text()}")
            time.sleep(0.01)

    def _command(self, programs: dict[str, Path]) -> list[str | Path]:
        program = programs[self.name]
        if self.name == "mosquitto":
            (self.folder / "mosquitto.conf").write_text(MOSQUITTO.format(port=self.port))
            return [program, "-c", self.folder / "mosquitto.conf"]
        if self.name == "rumqttd":
            (self.folder / "rumqttd.toml").write_text(RUMQTTD.format(port=self.port))
            return [program, "--quiet", "--config", self.folder / "rumqttd.toml"]
        if self.name == "echo":
            return [program, str(self.port)]
        if self.name == "amqtt":
            return [program, HERE / "amqtt_broker.py", str(self.port)]
        (self.folder / "etc").mkdir()
        (self.folder / "data").mkdir()
        (self.folder / "etc" / "broker.xml").write_text(OURS.format(port=self.port), encoding="utf-8")
        for file in ("artemis-users.properties", "artemis-roles.properties"):
            (self.folder / "etc" / file).write_text("", encoding="utf-8")
        return [program, "-P", "-m", "artemis_py.cli", "run", self.folder]

    def _accepts(self) -> bool:
        try:
            Client(self.port, "probe").close()
        except (OSError, Broken):
            return False
        return True

    def load(self, *arguments: object, timeout: float = 300) -> dict[str, float]:
        """One run of the client. Raises Broken if it found the broker wrong."""
        command = [sys.executable, HERE / "mqtt_load.py", "--port", self.port, "--pid", self.process.pid, *arguments]
        done = subprocess.run([*map(str, command)], capture_output=True, text=True, timeout=timeout)
        if done.returncode:
            raise Broken(f"{self.name}: {done.stderr.strip()}")
        result: dict[str, float] = json.loads(done.stdout)
        return result

    def stop(self) -> None:
        """SIGKILL: with a million subscriptions a polite end takes its time."""
        self.process.kill()
        self.process.wait()


def find_partners(folder: Path) -> dict[str, Path]:
    """The programs of the partners that are installed; for amqtt the Python that has it."""
    path = os.pathsep.join((os.environ.get("PATH", os.defpath), "/usr/sbin", str(folder / "bin")))
    found = {name: Path(program) for name in ("mosquitto", "rumqttd") if (program := shutil.which(name, path=path))}
    if importlib.util.find_spec("amqtt") is not None:
        found["amqtt"] = Path(sys.executable)
    return found


def compile_echo(folder: Path) -> Path:
    """The program that `mqtt_echo.c` is. Raises CalledProcessError if there is no C compiler."""
    program = folder / "echo"
    subprocess.run(["cc", "-O2", "-o", program, HERE / "mqtt_echo.c"], check=True)
    return program


def measure_load(
    names: list[str], programs: dict[str, Path], folder: Path, rounds: int, seconds: float, loads: list[str]
) -> dict[str, object]:
    """CPU per delivered message, messages a second, the delay at half of that rate, and at the lowest of these halves.

    The delay at its own half says what a broker is like under its own load; only at the same rate do brokers, and the
    client, have the same to do.
    """
    results: dict[str, object] = {}
    for scenario in loads:
        producers, consumers, qos = LOADS[scenario]
        shape = ("--qos", qos, "--producers", producers, "--consumers", consumers)
        taken: dict[str, list[dict[str, float]]] = {name: [] for name in names}
        failures: dict[str, str] = {}
        for number in range(rounds):
            rates: list[float] = []
            for name in names:
                if name in failures:
                    continue
                print(f"{scenario}: {name}, round {number + 1} of {rounds}", file=sys.stderr, flush=True)
                broker = Broker(name, programs, folder / f"{name}-{scenario.replace(':', '-')}-{number}")
                try:
                    fast = broker.load(*shape, "--seconds", seconds)
                    rate = fast["per_s"] / consumers / 2
                    slow = broker.load(*shape, "--seconds", seconds, "--rate", rate)
                    taken[name].append(fast | slow)
                    rates.append(rate)
                except (Broken, subprocess.TimeoutExpired) as error:
                    failures[name] = str(error)
                    print(error, file=sys.stderr)
                finally:
                    broker.stop()
            for name in names if len(rates) > 1 else ():
                if name in failures:
                    continue
                broker = Broker(name, programs, folder / f"{name}-{scenario.replace(':', '-')}-{number}-even")
                try:
                    even = broker.load(*shape, "--seconds", seconds, "--rate", min(rates))
                    taken[name][-1] |= {f"even_{part}": even[part] for part in PARTS}
                except (Broken, subprocess.TimeoutExpired) as error:
                    failures[name] = str(error)
                    print(error, file=sys.stderr)
                finally:
                    broker.stop()
        results[scenario] = {
            name: {key: spread([each[key] for each in values if key in each]) for key in values[0]}
            for name, values in taken.items()
            if values
        } | {name: {"failure": why} for name, why in failures.items()}
    return results


def measure_matching(
    names: list[str], programs: dict[str, Path], folder: Path, seconds: float, sizes: list[int]
) -> dict[str, object]:
    """CPU per message that matches one subscription, while others of other topics are there; memory of those."""
    results: dict[str, dict[str, object]] = {}
    for name in names:
        results[name] = {}
        for size in sizes:
            if name == "amqtt" and size > AMQTT_SUBSCRIPTIONS:
                continue
            print(f"matching: {name}, {size} subscriptions", file=sys.stderr, flush=True)
            broker = Broker(name, programs, folder / f"{name}-matching-{size}")
            before = resident_mib(broker.process.pid)
            clients = []
            try:
                start = time.monotonic()
                for first in range(0, size - 1, FILTERS_PER_CLIENT):
                    client = Client(broker.port, f"idle{first}")
                    last = min(first + FILTERS_PER_CLIENT, size - 1)
                    client.subscribe([f"field/{number // 1000}/+/{number % 1000}" for number in range(first, last)], 0)
                    clients.append(client)
                subscribed_s = time.monotonic() - start
                grown = resident_mib(broker.process.pid) - before
                results[name][str(size)] = broker.load("--seconds", seconds, "--topic", "field/7/x/none") | {
                    "subscribe_us": subscribed_s / size * 1e6,
                    "bytes_per_subscription": grown * 1024 * 1024 / size,
                }
            except (Broken, OSError) as error:
                results[name][str(size)] = {"failure": str(error)}
                print(error, file=sys.stderr)
            finally:
                broker.stop()
                for client in clients:
                    client.socket.close()
    return results


def measure_memory(names: list[str], programs: dict[str, Path], folder: Path) -> dict[str, object]:
    """KiB of an idle connection, and of a session that is kept with one subscription."""
    results: dict[str, object] = {}
    for name in names:
        print(f"memory: {name}", file=sys.stderr, flush=True)
        broker = Broker(name, programs, folder / f"{name}-memory-connections")
        before = resident_mib(broker.process.pid)
        clients = [Client(broker.port, f"idle{number}") for number in range(CONNECTIONS)]
        connection = (resident_mib(broker.process.pid) - before) * 1024 / CONNECTIONS
        broker.stop()
        for client in clients:
            client.socket.close()
        broker = Broker(name, programs, folder / f"{name}-memory-sessions")
        for number in range(100):  # what the first ones leave behind is not the sessions'
            Client(broker.port, f"warm{number}").close()
        start = resident_mib(broker.process.pid)
        for number in range(CONNECTIONS):
            client = Client(broker.port, f"kept{number}", clean=False)
            client.subscribe([f"device/{number}/+"], 1)
            client.close()
        session = (resident_mib(broker.process.pid) - start) * 1024 / CONNECTIONS
        broker.stop()
        results[name] = {"resident_mib": before, "connection_kib": connection, "session_kib": session}
    return results


def print_results(results: dict[str, object]) -> None:
    """Markdown."""

    def rows(value: object) -> dict[str, dict[str, dict[str, object]]]:
        return value  # type: ignore[return-value]

    if "load" in results:
        print(
            "| load | broker | CPU per delivered message (µs) | client's | messages/s "
            "| p50, p99, p99.9 at half of it (ms) | at the same rate | client's p99 |"
        )
        print("| --- | --- | --- | --- | --- | --- | --- | --- |")
        for scenario, brokers in rows(results["load"]).items():
            for name, values in brokers.items():
                if "failure" in values:
                    print(f"| {scenario} | {name} | failed: {values['failure']} | | | | | |")
                    continue
                figures = {key: value["median"] for key, value in values.items()}  # type: ignore[index]
                delays = ", ".join(f"{figures[part]:.2f}" for part in PARTS)
                even = ", ".join(f"{figures[f'even_{part}']:.2f}" for part in PARTS if f"even_{part}" in figures)
                print(
                    f"| {scenario} | {name} | {figures['cpu_us']:.2f} | {figures['client_us']:.2f} "
                    f"| {figures['per_s']:,.0f} | {delays} | {even} | {figures['client_p99_ms']:.2f} |"
                )
        print()
    if "matching" in results:
        print("| subscriptions | broker | CPU per message (µs) | to subscribe (µs) | octets each |")
        print("| --- | --- | --- | --- | --- |")
        for name, sizes in rows(results["matching"]).items():
            for size, values in sizes.items():
                if "failure" in values:
                    print(f"| {int(size):,} | {name} | failed: {values['failure']} | | |")
                else:
                    print(
                        f"| {int(size):,} | {name} | {values['cpu_us']:.2f} | {values['subscribe_us']:.1f} "
                        f"| {values['bytes_per_subscription']:,.0f} |"
                    )
        print()
    if "memory" in results:
        print("| broker | started (MiB) | idle connection (KiB) | kept session (KiB) |")
        print("| --- | --- | --- | --- |")
        for name, values in rows(results["memory"]).items():
            print(
                f"| {name} | {values['resident_mib']:.1f} | {values['connection_kib']:.1f} "
                f"| {values['session_kib']:.1f} |"
            )


def main() -> None:
    """Everything, or what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--brokers", default=",".join(BROKERS))
    parser.add_argument("--only", default="load,matching,memory")
    parser.add_argument("--loads", default=",".join(LOADS))
    parser.add_argument("--sizes", default=",".join(map(str, SIZES)))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--builds", type=Path)
    parser.add_argument("--partners", type=Path, default=PARTNERS)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    programs = find_partners(options.partners)
    names = []
    for name in options.brokers.split(","):
        if name in programs or name in (*OURS_BUILDS, "echo"):
            names.append(name)
        else:
            print(f"missing, and left out: {name}", file=sys.stderr)
    only = options.only.split(",")
    results: dict[str, object] = {}
    with tempfile.TemporaryDirectory(prefix="benchmark-") as temporary:
        folder = Path(temporary)
        builds = options.builds or folder / "builds"
        programs |= {name: install(builds, name) for name in names if name in OURS_BUILDS}
        if "echo" in names:
            programs["echo"] = compile_echo(folder)
        if "load" in only:
            loads = options.loads.split(",")
            results["load"] = measure_load(names, programs, folder, options.rounds, options.seconds, loads)
        if "matching" in only:
            sizes = [int(size) for size in options.sizes.split(",")]
            results["matching"] = measure_matching(names, programs, folder, options.seconds, sizes)
        if "memory" in only:
            results["memory"] = measure_memory(names, programs, folder)
    print_results(results)
    if options.json:
        options.json.write_text(json.dumps(results, indent=2), encoding="utf-8")


if __name__ == "__main__":
    os.environ.setdefault("PYTHONUNBUFFERED", "1")
    main()
