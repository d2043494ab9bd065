"""Two builds of this broker under the same load in turn: what a change costs, as a ratio.

    python benchmarks/compare.py BEFORE AFTER [--rounds 5] [--seconds 1.5] [--only "1:1 settled"] [--json FILE]

BEFORE and AFTER are the Pythons of two environments with the broker installed, both compiled or both pure. In each
round every load meets both, one after the other; a ratio is CPU per message after, divided by CPU per message before,
of one round. The client runs from BEFORE's environment for both.
"""

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

import mqtt
import run
from mqtt_load import Broken

DURABLE: Final[dict[str, list[str]]] = {
    "durable 1:1": ["--durable"],
    "durable 8:8": ["--durable", "--producers", "8", "--consumers", "8"],
}
SIDES: Final = ("before", "after")
Measure = Callable[[str], float]
"""CPU per message in microseconds of one run against the named side."""


def amqp(
    pythons: Mapping[str, Path], brokers: Mapping[str, run.Broker], arguments: list[str], seconds: float
) -> Measure:
    """A load of AMQP."""
    return lambda side: run.load(pythons["before"], brokers[side], arguments, seconds)["broker_cpu_us"]


def mqtt_load(pythons: dict[str, Path], folder: Path, name: str, seconds: float) -> Measure:
    """A load of MQTT, each run against a broker of its own."""
    producers, consumers, qos = mqtt.LOADS[name]
    runs = iter(range(sys.maxsize))

    def measure(side: str) -> float:
        broker = mqtt.Broker(side, pythons, folder / f"mqtt-{name.replace(':', '-')}-{next(runs)}")
        try:
            shape = ("--qos", qos, "--producers", producers, "--consumers", consumers)
            return broker.load(*shape, "--seconds", seconds)["cpu_us"]
        finally:
            broker.stop()

    return measure


def ratios(measure: Measure, rounds: int) -> dict[str, object]:
    """The figures of both sides and their ratio, round by round; the order changes from round to round."""
    taken: dict[str, list[float]] = {side: [] for side in SIDES}
    for number in range(rounds):
        for side in SIDES if number % 2 == 0 else SIDES[::-1]:
            taken[side].append(measure(side))
    pairs = zip(taken["before"], taken["after"], strict=True)
    return {side: run.spread(values) for side, values in taken.items()} | {
        "ratio": run.spread([after / before for before, after in pairs])
    }


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("before", type=Path)
    parser.add_argument("after", type=Path)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=1.5)
    parser.add_argument("--only", action="append", help="a load by its name; repeatable")
    parser.add_argument("--data", type=Path, help="folder on the disk to measure")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    pythons = {"before": options.before.absolute(), "after": options.after.absolute()}
    results: dict[str, dict[str, object]] = {}
    running: list[run.Broker] = []
    with tempfile.TemporaryDirectory(prefix="artemis-py-benchmark-", dir=options.data) as temporary:
        folder = Path(temporary)
        try:
            memory = {side: run.Broker(side, pythons[side], folder / side) for side in SIDES}
            stored = {
                side: run.Broker(side, pythons[side], folder / f"{side}-stored", persistence=True) for side in SIDES
            }
            running += [*memory.values(), *stored.values()]
            measures = {
                f"AMQP {name}": amqp(pythons, memory, shape, options.seconds) for name, shape in run.SCENARIOS.items()
            }
            measures |= {
                f"AMQP {name}": amqp(pythons, stored, shape, options.seconds) for name, shape in DURABLE.items()
            }
            measures |= {f"MQTT {name}": mqtt_load(pythons, folder, name, options.seconds) for name in mqtt.LOADS}
            for name, measure in measures.items():
                if options.only and name not in options.only:
                    continue
                print(name, file=sys.stderr, flush=True)
                try:
                    results[name] = ratios(measure, options.rounds)
                except Broken as error:
                    raise SystemExit(f"{name}: {error}") from error
        finally:
            for broker in running:
                broker.stop()
    print("Machine: " + ", ".join(f"{name} {value}" for name, value in run.machine().items()) + "\n")
    print("| load | before (µs) | after (µs) | after / before (min, median, max) |\n| --- | --- | --- | --- |")
    for name, figures in results.items():
        before, after, ratio = (figures[key] for key in (*SIDES, "ratio"))
        print(
            f"| {name} | {before['median']:.2f} | {after['median']:.2f} "  # type: ignore[index]
            f"| {ratio['min']:.2f}, {ratio['median']:.2f}, {ratio['max']:.2f} |"  # type: ignore[index]
        )
    if options.json is not None:
        options.json.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    os.environ.setdefault("PYTHONUNBUFFERED", "1")
    main()
