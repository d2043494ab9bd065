"""Instructions that a delivered message costs the broker: the same on a busy machine as on an idle one.

    python benchmarks/instructions.py PYTHON [PYTHON ...] [--loads "1:10 QoS 0,AMQP 1:1 100 durable"]
                                      [--messages 1000] [--folder FOLDER]

Each PYTHON has this broker installed, best compiled. The broker runs in valgrind's callgrind, which counts from the
first connection on; the same load comes with a number of messages and with three times as many, and the difference is
what messages cost: connecting and subscribing is in both. Loads of AMQP, which are not settled in advance, take
seconds instead of a number of messages. `--folder` keeps what callgrind wrote, for
callgrind_annotate. Needs valgrind on the PATH.

System calls are not in it, and waiting for memory is not either: look at `mqtt.py` for the time.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Final

import run
from mqtt import LOADS, Broker

AMQP_LOADS: Final = {
    f"AMQP {crowd}:{crowd} {octets} {store}": ("--producers", crowd, "--consumers", crowd, "--body-bytes", octets)
    for store in ("memory", "durable")
    for crowd in ("1", "16")
    for octets in ("100", "1024")
}
DEFAULT_LOADS: Final = [*(name for name in LOADS if not name.startswith("100:1")), *AMQP_LOADS]
AMQP_S: Final = 5.0
"""Seconds of the shorter run."""
MORE: Final = 3
"""The longer run has so many times the messages of the shorter one."""
SLOW_S: Final = 1200.0
"""Callgrind makes a broker some fifty times slower."""


def control(pid: int, *arguments: str) -> None:
    """Have the callgrind that runs a process do something."""
    subprocess.run(["callgrind_control", *arguments, str(pid)], check=True, capture_output=True, timeout=60)


def instructions_in(file: Path) -> int:
    """The instructions in a file of callgrind's. Raises SystemExit if it has no sum."""
    for line in file.read_text().splitlines():
        if line.startswith(("summary:", "totals:")):
            return int(line.split()[1])
    raise SystemExit(f"callgrind wrote no sum to {file}")


def instructions(python: Path, load: str, messages: int, folder: Path) -> float:
    """Instructions for each delivered message."""
    place = folder / "broker"
    wrapper = ("valgrind", "--tool=callgrind", "--instr-atstart=no", f"--callgrind-out-file={place}/callgrind")
    broker: Broker | run.Broker
    put: Callable[[int], float]
    if load in AMQP_LOADS:
        broker = peer = run.Broker("compiled", python, place, persistence=load.endswith("durable"), wrapper=wrapper)
        put = partial(_put_amqp, python, peer, AMQP_LOADS[load])
    else:
        broker = Broker("compiled", {"compiled": python}, place, wrapper)
        put = partial(_put_mqtt, broker, load, messages)
    try:
        put(1)
        control(broker.process.pid, "--instr=on")
        delivered = []
        for factor in (1, MORE):
            delivered.append(put(factor))
            control(broker.process.pid, "--dump")
    finally:
        broker.stop()
    shorter, longer = (instructions_in(folder / "broker" / f"callgrind.{number}") for number in (1, 2))
    return (longer - shorter) / (delivered[1] - delivered[0])


def _put_mqtt(broker: Broker, load: str, messages: int, factor: int) -> float:
    producers, consumers, qos = LOADS[load]
    shape = ("--producers", producers, "--consumers", consumers, "--qos", qos)
    return float(broker.load(*shape, "--messages", factor * messages, timeout=SLOW_S)["delivered"])


def _put_amqp(python: Path, broker: run.Broker, arguments: Sequence[str], factor: int) -> float:
    return run.load(python, broker, [*arguments, "--durable"], factor * AMQP_S)["all_messages"]


def main() -> None:
    """Print a line for each load and Python."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pythons", nargs="+", type=Path, metavar="PYTHON")
    parser.add_argument("--loads", default=",".join(DEFAULT_LOADS))
    parser.add_argument("--messages", type=int, default=1000, help="of each producer in the shorter run")
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    if shutil.which("valgrind") is None:
        raise SystemExit("valgrind is missing")
    os.environ["PYTHONHASHSEED"] = "0"
    results: dict[str, dict[str, float]] = {}
    with tempfile.TemporaryDirectory(prefix="instructions-") as temporary:
        base = options.folder or Path(temporary)
        print("| load | broker | instructions per delivered message |")
        print("| --- | --- | --- |", flush=True)
        for load in options.loads.split(","):
            for number, python in enumerate(options.pythons):
                folder = base / f"{load.replace(':', '-').replace(' ', '-')}-{number}"
                count = instructions(python.absolute(), load, options.messages, folder)
                results.setdefault(load, {})[str(python)] = count
                print(f"| {load} | {python.absolute().parent.parent.name} | {count:,.0f} |", flush=True)
    if options.json:
        options.json.write_text(json.dumps(results, indent=1), encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
