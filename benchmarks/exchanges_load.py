"""What a message costs a broker that comes through an exchange, beside one sent to the queue's address, over AMQP.

    python benchmarks/exchanges_load.py PYTHON [--rounds 5] [--seconds 1.5] [--bindings 1000]

PYTHON is that of an environment with the broker installed. One producer, one consumer, no store; the consumer takes
from the same kind of queue in all cases. Each run has a broker of its own; in a round every subject takes its turn, and
a ratio is formed within a round. CPU is that of the broker's process, by the messages that the consumer got.

    address      the producer's target is the address of the queue
    direct       it is a direct exchange with a routing key, and as many other bindings as `--bindings` says
    topic        the same with patterns
    headers      a headers exchange; the messages have no headers, and one binding wants none
    chain        three fanout exchanges, one behind the other
"""

import argparse
import json
import subprocess
import tempfile
from pathlib import Path
from statistics import median
from typing import Any, Final

import run
from load import Consumer, Load, Producer

from artemis_py.cli.client import Target
from artemis_py.cli.manage import Request, call_all

QUEUE: Final = "work"
KEY: Final = "a.0.b.c"
TARGETS: Final = {
    "address": QUEUE,
    "direct": f"amq.direct/{KEY}",
    "topic": f"amq.topic/{KEY}",
    "headers": "amq.match",
    "chain": "chain.0",
}
SETTINGS: Final = (
    f'<address-setting match="{QUEUE}"><default-address-routing-type>ANYCAST</default-address-routing-type>'
    "</address-setting>"
)


class ExchangeLoad(Load):
    """A producer for a target, and a consumer of the queue."""

    def make(self, options: argparse.Namespace) -> tuple[list[Consumer], list[Producer]]:
        """Open the consumer first: it creates the queue."""
        consumers = [Consumer(options, QUEUE)]
        call_all(
            Target(url=f"amqp://127.0.0.1:{options.port}", user=None, password=None),
            requests(options.subject, options.bindings),
        )
        return consumers, [Producer(options, TARGETS[options.subject], 0)]


def requests(subject: str, others: int) -> list[Request]:
    """Return what makes the bindings of a subject."""

    def bind(exchange: str, key: str, **wanted: Any) -> Request:
        return Request("broker", "bindExchange", ({"exchange": exchange, "key": key, **wanted},))

    match subject:
        case "direct":
            wanted = [bind("amq.direct", KEY, queue=QUEUE)]
            return wanted + [bind("amq.direct", f"x.{number}", queue=QUEUE) for number in range(others)]
        case "topic":
            wanted = [bind("amq.topic", "a.*.b.#", queue=QUEUE)]
            return wanted + [bind("amq.topic", f"x.{number}.*.#", queue=QUEUE) for number in range(others)]
        case "headers":
            wanted = [bind("amq.match", "", queue=QUEUE)]
            return wanted + [bind("amq.match", f"{n}", queue=QUEUE, arguments={"page": n}) for n in range(others)]
        case "chain":
            made = [Request("broker", "createExchange", ({"name": f"chain.{n}", "type": "fanout"},)) for n in range(3)]
            links = [{"destination-exchange": f"chain.{number + 1}"} for number in range(2)]
            made += [bind(f"chain.{number}", "", **link) for number, link in enumerate(links)]
            return [*made, bind("chain.2", "", queue=QUEUE)]
    return []


def once(options: argparse.Namespace, subject: str) -> float:
    """CPU per message of one run against a broker of its own, in microseconds."""
    with tempfile.TemporaryDirectory(prefix="exchanges-") as name:
        broker = run.Broker("compiled", options.python, Path(name) / "broker", False, SETTINGS)
        try:
            command = [options.python, __file__, "--client", "--port", broker.port, "--pid", broker.process.pid]
            command += ["--subject", subject, "--seconds", options.seconds, "--bindings", options.bindings]
            done = subprocess.run([*map(str, command)], capture_output=True, text=True)
            if done.returncode:
                raise SystemExit(f"{subject}: {done.stderr}\n{(broker.folder / 'log').read_text()}")
            figures: dict[str, float] = json.loads(done.stdout)
        finally:
            broker.stop()
    return figures["broker_cpu_us"]


def compare(options: argparse.Namespace) -> None:
    """Print a line of JSON for each subject."""
    times: dict[str, list[float]] = {subject: [] for subject in TARGETS}
    for _ in range(options.rounds):
        for subject, values in times.items():
            values.append(once(options, subject))
    for subject, values in times.items():
        ratios = [value / base for value, base in zip(values, times["address"], strict=True)]
        line: dict[str, object] = {"subject": subject, "us": round(median(values), 2)}
        line["ratio"] = [round(value, 2) for value in (min(ratios), median(ratios), max(ratios))]
        print(json.dumps(line), flush=True)


def main() -> None:
    """Compare, or be the client of one run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("python", type=Path, nargs="?")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=1.5)
    parser.add_argument("--bindings", type=int, default=1000)
    parser.add_argument("--client", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--subject", help=argparse.SUPPRESS)
    for name in ("--port", "--pid"):
        parser.add_argument(name, type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.client:
        fixed = {"settled": False, "topic": False, "durable": False, "body_bytes": 100, "producers": 1, "consumers": 1}
        fixed |= {"ahead": 4000, "warm_up": 0.5}
        print(json.dumps(ExchangeLoad(argparse.Namespace(**vars(options), **fixed)).run()))
    elif options.python is None:
        parser.error("PYTHON is missing")
    else:
        options.python = options.python.absolute()
        compare(options)


if __name__ == "__main__":
    main()
