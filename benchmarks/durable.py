"""What durability costs: the broker with its store against itself without, the bare disk, and Apache Artemis.

In each round the same load meets the compiled broker without `write-ahead-log` ("durable"), with it ("log"), and with
`persistence-enabled` false, one after the other, and a loop in this process writes the same bytes to the same disk,
with fdatasync behind each batch.

    python benchmarks/durable.py [--artemis] [--rounds 5] [--seconds 2] [--builds FOLDER | --python PYTHON]
                                 [--data FOLDER] [--json FILE]

`--artemis` puts the load on a real Artemis, too (NIO journal with datasync, as it comes); it needs Java 17 and Maven,
which fetches it. `--data` says where the stores and the bare file lie: the disk that is measured.
"""

import argparse
import json
import os
import selectors
import subprocess
import sys
import tempfile
import time
from argparse import Namespace
from pathlib import Path
from statistics import median
from typing import Any, Final

from load import Producer
from run import CONFIGURATION, Broker, install, load, machine, spread

SIZES: Final = (100, 1024)
CROWDS: Final = (1, 16)
"""Producers, and as many consumers."""
RAW_BATCH: Final = 500
"""Messages to one fdatasync: what a read of 64 KiB brings of the smaller ones."""
OVERHEAD_BYTES: Final = 60
"""Of a message beyond its body, as the client sends it."""
LONE_SENDS: Final = 20
"""Messages of the lone producer, and small writes to the bare disk, before it is the other's turn."""
LONE_TURNS: Final = 15
WARM_UP_S: Final = 8.0
"""Load of each kind for Artemis before anything is measured: Java compiles in the meantime."""


def start_artemis(folder: Path) -> Any:
    """Fetch Artemis, and start it with the settings that this broker has here."""
    from openwire import Broker as Peer
    from openwire import peers

    def command(place: Path, port: int) -> list[str]:
        distribution = peers.artemis_distribution(place)
        instance = place / "instance"
        create = [str(distribution / "bin" / "artemis"), "create", str(instance), "--silent", "--no-autotune", "--nio"]
        create += ["--allow-anonymous", "--user", "admin", "--password", "secret", "--no-web"]
        subprocess.run(create, check=True, stdout=subprocess.DEVNULL)
        configuration = CONFIGURATION.format(persistence="true", settings="", core="")
        configuration = configuration.replace("127.0.0.1:0?", f"127.0.0.1:{port}?")
        configuration = configuration.replace("<acceptors>", "<journal-type>NIO</journal-type>\n    <acceptors>")
        (instance / "etc" / "broker.xml").write_text(configuration, encoding="utf-8")
        return [str(instance / "bin" / "artemis"), "run"]

    return Peer("artemis", folder, command)


def raw_rate(folder: Path, body_bytes: int, seconds: float) -> float:
    """Messages per second that the disk takes in batches."""
    block = os.urandom(RAW_BATCH * (body_bytes + OVERHEAD_BYTES))
    path = folder / "raw"
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    try:
        count = 0
        start = time.perf_counter()
        while (elapsed := time.perf_counter() - start) < seconds:
            os.write(descriptor, block)
            os.fdatasync(descriptor)
            count += RAW_BATCH
        return count / elapsed
    finally:
        os.close(descriptor)
        path.unlink()


def raw_latencies(folder: Path) -> list[float]:
    """Seconds that a small write and its fdatasync take, one by one."""
    path = folder / "raw"
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    try:
        taken = []
        for _ in range(LONE_SENDS):
            start = time.perf_counter()
            os.write(descriptor, bytes(100 + OVERHEAD_BYTES))
            os.fdatasync(descriptor)
            taken.append(time.perf_counter() - start)
        return taken
    finally:
        os.close(descriptor)
        path.unlink()


class LoneProducer(Producer):
    """Sends a durable message, and waits for its settlement before it sends the next one."""

    def __init__(self, broker: Broker) -> None:
        options = Namespace(port=broker.port, settled=False, target=None, topic=False, durable=True, body_bytes=100)
        self.left_at = 0.0
        """When octets were given to the socket last."""
        self.arrived_at = 0.0
        """When octets came from it last."""
        super().__init__(options, "lone", 0)
        self._selector = selectors.DefaultSelector()
        self._selector.register(self.socket, selectors.EVENT_READ)
        self.take(b"")
        while not self.credit_limit:
            self._wait()

    def _wait(self) -> None:
        self._selector.select(5.0)
        self.read()

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Note the time: what this client does before counts for nobody."""
        self.left_at = time.perf_counter()
        super().write(data)

    def take(self, data: bytes) -> None:
        """Note the time: what this client does afterwards counts for nobody."""
        self.arrived_at = time.perf_counter()
        super().take(data)

    def latencies(self) -> list[float]:
        """Seconds from the octets of a message to those of its settlement, one by one."""
        taken = []
        for _ in range(LONE_SENDS):
            number = self.sent
            self.produce(number + 1)
            while self.settled <= number:
                self._wait()
            taken.append(self.arrived_at - self.left_at)
        return taken


def lone_send(broker: Broker, folder: Path) -> float:
    """How many times as long as the bare disk a lone durable message takes; they take turns, so both meet the same."""
    producer = LoneProducer(broker)
    raw: list[float] = []
    sent: list[float] = []
    for _ in range(LONE_TURNS):
        raw += raw_latencies(folder)
        sent += producer.latencies()
    producer.close()
    return median(sent) / median(raw)


def measure(python: Path, folder: Path, rounds: int, seconds: float, with_artemis: bool = False) -> dict[str, object]:
    """All figures."""
    results: dict[str, object] = {}
    stores = [
        Broker(
            "durable", python, folder / "durable", persistence=True, core="<write-ahead-log>false</write-ahead-log>"
        ),
        Broker("log", python, folder / "log", persistence=True, core="<write-ahead-log>true</write-ahead-log>"),
    ]
    brokers: list[Any] = [*stores, Broker("memory", python, folder / "memory")]
    try:
        if with_artemis:
            brokers.append(start_artemis(folder / "artemis"))
        for size in SIZES:
            for crowd in CROWDS:
                arguments = ["--durable", "--body-bytes", str(size)]
                arguments += ["--producers", str(crowd), "--consumers", str(crowd)]
                taken: dict[str, list[float]] = {broker.name: [] for broker in brokers} | {"raw": []}
                cpu: dict[str, list[float]] = {broker.name: [] for broker in brokers}
                if with_artemis:
                    load(python, brokers[-1], arguments, WARM_UP_S)
                for number in range(rounds):
                    print(f"{crowd}:{crowd}, {size} bytes: round {number + 1}", file=sys.stderr, flush=True)
                    for broker in brokers:
                        figures = load(python, broker, arguments, seconds)
                        taken[broker.name].append(figures["messages_per_s"])
                        cpu[broker.name].append(figures["broker_cpu_us"])
                    taken["raw"].append(raw_rate(folder, size, seconds))
                for store in stores:
                    rates = taken[store.name]
                    results[f"{crowd}:{crowd}, {size} bytes, {store.name}"] = {
                        "durable_per_s": spread(rates),
                        "of_memory": spread([a / b for a, b in zip(rates, taken["memory"], strict=True)]),
                        "raw_by_durable": spread([b / a for a, b in zip(rates, taken["raw"], strict=True)]),
                        "cpu_us": spread(cpu[store.name]),
                    } | (_beside_artemis(store.name, taken, cpu) if with_artemis else {})
        for store in stores:
            ratios = [lone_send(store, folder) for _ in range(rounds)]
            results[f"lone send, by one fdatasync, {store.name}"] = spread(ratios)
    finally:
        for broker in brokers:
            broker.stop()
    return results


def _beside_artemis(store: str, taken: dict[str, list[float]], cpu: dict[str, list[float]]) -> dict[str, object]:
    """This broker's rate and CPU, both with a store, as parts of Artemis', round by round."""
    rates = zip(taken[store], taken["artemis"], strict=True)
    costs = zip(cpu[store], cpu["artemis"], strict=True)
    return {
        "rate_by_artemis": spread([ours / theirs for ours, theirs in rates]),
        "cpu_by_artemis": spread([ours / theirs for ours, theirs in costs]),
    }


def report(results: dict[str, object]) -> str:
    """The figures as Markdown."""
    lines = [
        "| load | durable/s | CPU (us) | of the rate without a store | disk / durable | of Artemis' rate | CPU |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for name, figures in results.items():
        assert isinstance(figures, dict)
        if "durable_per_s" in figures:
            cells = [
                name,
                f"{figures['durable_per_s']['median']:,.0f}",
                f"{figures['cpu_us']['median']:.1f}",
            ]
            for key in ("of_memory", "raw_by_durable", "rate_by_artemis", "cpu_by_artemis"):
                ratio = figures.get(key)
                cells.append("" if ratio is None else f"{ratio['min']:.2f}, {ratio['median']:.2f}, {ratio['max']:.2f}")
            lines.append(f"| {' | '.join(cells)} |")
        else:
            lines += ["", f"{name}: {figures['min']:.1f}, {figures['median']:.1f}, {figures['max']:.1f}"]
    return "\n".join(lines)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=2.0, help="of measured load per scenario, broker and round")
    parser.add_argument("--artemis", action="store_true", help="compare with a real Artemis, too")
    environment = parser.add_mutually_exclusive_group()
    environment.add_argument("--builds", type=Path, help="folder that keeps the environment")
    environment.add_argument("--python", type=Path, help="Python of an environment with the broker, compiled")
    parser.add_argument("--data", type=Path, help="folder on the disk to measure")
    parser.add_argument("--json", type=Path, help="write all figures there")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="artemis-py-benchmark-", dir=options.data) as temporary:
        folder = Path(temporary)
        builds = folder / "builds" if options.builds is None else options.builds.resolve()
        python = install(builds, "compiled") if options.python is None else options.python.absolute()
        results = measure(python, folder, options.rounds, options.seconds, options.artemis)
    if options.json is not None:
        options.json.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    print("Machine: " + ", ".join(f"{name} {value}" for name, value in machine().items()) + "\n")
    print(report(results))


if __name__ == "__main__":
    main()
