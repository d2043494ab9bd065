"""What a message costs that comes through an exchange, with connections, beside Broker-J in the same run.

    python benchmarks/exchanges_peer.py [--rounds 5] [--seconds 2] [--bindings 1000] [--brokers broker-j,ours]

Needs Java 17 and Maven, which fetches Broker-J. This broker runs with the Python that runs the benchmark: install the
compiled build there. Both brokers are up all the time and get all subjects once before anything is measured, so that
Java has compiled what it needs. Each round takes every subject with every broker in turn, and a ratio is formed within
a round: of CPU per message, to the same broker's queue and to the other broker.

    queue        a producer for the address of the queue
    direct       a direct exchange with the routing key in the address, and as many other bindings as it says
    topic        the same, with patterns
    chain        three fanout exchanges, one behind the other

Messages have 100 octets and are not durable; the client is load.py: one producer, one consumer, all accepted.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

from run import HERE, REPOSITORY, spread

sys.path[:0] = [str(REPOSITORY)]
from tests.interop.exchanges import brokers  # noqa: E402  the repository is no package
from tests.interop.exchanges.site import Peer  # noqa: E402
from tests.interop.openwire.peers import UNPACK  # noqa: E402

BROKERS: Final = ("broker-j", "ours")
QUEUE: Final = "bench"
KEY: Final = "a.b.c"
TARGETS: Final = {
    "queue": QUEUE,
    "direct": f"bench.direct/{KEY}",
    "topic": f"bench.topic/{KEY}",
    "chain": f"bench.chain.0/{KEY}",
}
WARM_UP_S: Final = 5.0
"""Load of each subject before anything is measured: Java compiles in the meantime."""


def broker_j(folder: Path) -> brokers.Start:
    """Fetch Broker-J; return how it is started."""
    artifact = f"org.apache.qpid:apache-qpid-broker-j:{brokers.BROKER_J}:tar.gz:bin"
    command = ["mvn", "-q", "-B", UNPACK, f"-Dartifact={artifact}", f"-DoutputDirectory={folder}"]
    subprocess.run(command, cwd=folder, check=True)
    return brokers.broker_j(folder / "qpid-broker" / brokers.BROKER_J, folder)


def set_up(site: Peer, bindings: int) -> None:
    """Make the queue and the exchanges."""
    site.queues(QUEUE)
    site.declare("bench.direct", "direct")
    site.declare("bench.topic", "topic")
    for exchange, wanted, other in (("bench.direct", KEY, "x.{}"), ("bench.topic", "a.*.#", "x.{}.*.#")):
        site.bind(exchange, wanted, QUEUE)
        for number in range(bindings - 1):
            site.bind(exchange, other.format(number), QUEUE)
    chain = [f"bench.chain.{number}" for number in range(3)]
    for exchange in chain:
        site.declare(exchange, "fanout")
    for exchange, behind in pairwise(chain):
        site.bind(exchange, "", behind, chain=True)
    site.bind(chain[-1], "", QUEUE)
    site.disconnect()


def load(site: Peer, subject: str, seconds: float) -> float:
    """Put a load on a broker; return the microseconds of CPU that a message takes. Raises SystemExit if it fails."""
    port = site.url.rpartition(":")[2]
    command = [
        *(sys.executable, str(HERE / "load.py"), "--port", port, "--pid", str(site.pid), "--seconds", str(seconds)),
        *("--source", QUEUE, "--target", TARGETS[subject]),
    ]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{type(site).__name__}, {subject}: {done.stderr}")
    result: dict[str, float] = json.loads(done.stdout)
    return result["broker_cpu_us"]


def ratios(taken: list[float], other: list[float]) -> dict[str, float]:
    """Return how one quantity relates to another, over the rounds."""
    return {name: round(value, 2) for name, value in spread([a / b for a, b in zip(taken, other, strict=True)]).items()}


def main() -> None:
    """Measure, and print a line of JSON for each subject and broker."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=2.0, help="of measured load per subject, broker and round")
    parser.add_argument("--bindings", type=int, default=1000)
    parser.add_argument("--brokers", default=",".join(BROKERS))
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary, ExitStack() as running:
        sites: dict[str, Peer] = {}
        for name in options.brokers.split(","):
            folder = Path(temporary) / name
            folder.mkdir()
            start = broker_j(folder) if name == "broker-j" else brokers.ours(folder)
            sites[name] = running.enter_context(start())
            set_up(sites[name], options.bindings)
            for subject in TARGETS:
                load(sites[name], subject, WARM_UP_S)
        taken: dict[tuple[str, str], list[float]] = {}
        for _ in range(options.rounds):
            for subject in TARGETS:
                for name, site in sites.items():
                    taken.setdefault((name, subject), []).append(load(site, subject, options.seconds))
    for (name, subject), times in sorted(taken.items()):
        row: dict[str, Any] = {"broker": name, "subject": subject, "cpu_us": round(spread(times)["median"], 2)}
        row["to its queue"] = ratios(times, taken[name, "queue"])
        for other in sites:
            if other != name:
                row[f"to {other}"] = ratios(times, taken[other, subject])
        print(json.dumps(row))


if __name__ == "__main__":
    main()
