"""What durability costs: the broker with its store against itself without, and against the bare disk.

In each round the same load meets the compiled broker with `persistence-enabled` true and false, one after the other,
and a loop in this process writes the same bytes to the same disk, with fdatasync behind each batch.

    python benchmarks/durable.py [--rounds 5] [--seconds 2] [--builds FOLDER] [--data FOLDER] [--json FILE]

`--data` says where the store and the bare file lie: the disk that is measured.
"""

import argparse
import json
import os
import selectors
import sys
import tempfile
import time
from argparse import Namespace
from pathlib import Path
from statistics import median
from typing import Final

from load import Producer
from run import Broker, install, load, machine, spread

SIZES: Final = (100, 1024)
CROWDS: Final = (1, 16)
"""Producers, and as many consumers."""
RAW_BATCH: Final = 500
"""Messages to one fdatasync: what a read of 64 KiB brings of the smaller ones."""
OVERHEAD_BYTES: Final = 60
"""Of a message beyond its body, as the client sends it."""
LONE_SENDS: Final = 200


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


def send_latencies(broker: Broker) -> list[float]:
    """Seconds from a durable message of a lone producer to its settlement, one by one."""
    options = Namespace(port=broker.port, settled=False, topic=False, durable=True, body_bytes=100)
    producer = Producer(options, "lone", 0)
    selector = selectors.DefaultSelector()
    selector.register(producer.socket, selectors.EVENT_READ)
    producer.take(b"")
    while not producer.credit_limit:
        selector.select(5.0)
        producer.read()
    taken = []
    for number in range(LONE_SENDS):
        start = time.perf_counter()
        producer.produce(number + 1)
        while producer.settled <= number:
            selector.select(5.0)
            producer.read()
        taken.append(time.perf_counter() - start)
    producer.close()
    return taken


def measure(python: Path, folder: Path, rounds: int, seconds: float) -> dict[str, object]:
    """All figures."""
    results: dict[str, object] = {}
    durable = Broker("durable", python, folder / "durable", persistence=True)
    memory = Broker("memory", python, folder / "memory")
    try:
        for size in SIZES:
            for crowd in CROWDS:
                arguments = ["--durable", "--body-bytes", str(size)]
                arguments += ["--producers", str(crowd), "--consumers", str(crowd)]
                taken: dict[str, list[float]] = {"durable": [], "memory": [], "raw": []}
                for number in range(rounds):
                    print(f"{crowd}:{crowd}, {size} bytes: round {number + 1}", file=sys.stderr, flush=True)
                    for broker in (durable, memory):
                        taken[broker.name].append(load(python, broker, arguments, seconds)["messages_per_s"])
                    taken["raw"].append(raw_rate(folder, size, seconds))
                results[f"{crowd}:{crowd}, {size} bytes"] = {
                    "durable_per_s": spread(taken["durable"]),
                    "of_memory": spread([a / b for a, b in zip(taken["durable"], taken["memory"], strict=True)]),
                    "raw_by_durable": spread([b / a for a, b in zip(taken["durable"], taken["raw"], strict=True)]),
                }
        ratios = []
        for _ in range(rounds):
            raw, sent = raw_latencies(folder), send_latencies(durable)
            ratios.append(median(sent) / median(raw))
        results["lone send, by one fdatasync"] = spread(ratios)
    finally:
        durable.stop()
        memory.stop()
    return results


def report(results: dict[str, object]) -> str:
    """The figures as Markdown."""
    lines = [
        "| load | durable messages/s | of the rate without a store (min, median, max) | bare disk / durable |",
        "| --- | --- | --- | --- |",
    ]
    for name, figures in results.items():
        assert isinstance(figures, dict)
        if "durable_per_s" in figures:
            of_memory, raw = figures["of_memory"], figures["raw_by_durable"]
            lines.append(
                f"| {name} | {figures['durable_per_s']['median']:,.0f} "
                f"| {of_memory['min']:.2f}, {of_memory['median']:.2f}, {of_memory['max']:.2f} "
                f"| {raw['min']:.1f}, {raw['median']:.1f}, {raw['max']:.1f} |"
            )
        else:
            lines += ["", f"{name}: {figures['min']:.1f}, {figures['median']:.1f}, {figures['max']:.1f}"]
    return "\n".join(lines)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=2.0, help="of measured load per scenario, broker and round")
    parser.add_argument("--builds", type=Path, help="folder that keeps the environment")
    parser.add_argument("--data", type=Path, help="folder on the disk to measure")
    parser.add_argument("--json", type=Path, help="write all figures there")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="artemis-py-benchmark-", dir=options.data) as temporary:
        folder = Path(temporary)
        builds = folder / "builds" if options.builds is None else options.builds.resolve()
        results = measure(install(builds, "compiled"), folder, options.rounds, options.seconds)
    if options.json is not None:
        options.json.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    print("Machine: " + ", ".join(f"{name} {value}" for name, value in machine().items()) + "\n")
    print(report(results))


if __name__ == "__main__":
    main()
