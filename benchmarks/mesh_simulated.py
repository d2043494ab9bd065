"""What a mesh costs each of its nodes, with up to a hundred of them in one process: the work of `mesh.py`.

The nodes are those of `tests/cluster`: the real core, mesh and store, with a simulated network and clock, without
protocols. CPU is that of the whole process, so the simulation itself is in all figures, at every size alike.

    python mesh_simulated.py nodes [--nodes 3,10,30,100] [--queues 100]
    python mesh_simulated.py local [--peers 2] [--messages 20000] [--block 100]
    python mesh_simulated.py table [--queues 1000,10000,100000]

Prints JSON. `local` is what `mesh.py --only core` runs below callgrind.
"""

import argparse
import json
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Final

from artemis_py.core.messages.builtin_format import PLAIN_FORMAT
from artemis_py.core.messages.message import Message
from artemis_py.core.names.routing_type import RoutingType
from artemis_py.core.queues.consumer import ACCEPTED, Consumer, Sink
from artemis_py.core.queues.reference import Reference
from artemis_py.core.settings.cluster_config import ClusterConfig

# Behind everything else: an installed broker counts, and not the one beside this file.
sys.path.append(str(Path(__file__).resolve().parent.parent))
from tests.cluster.network import CONTROL, End
from tests.cluster.node import Node
from tests.cluster.simulation import Simulation

BLOCK: Final = 100
BODY: Final = bytes(100)
WITHOUT_MESH: Final = -1
"""Number of peers of a broker that has no mesh."""
ATTACHES: Final = 50
LOCAL_MESSAGES: Final = 5_000
IDLE_S: Final = 30
LIMIT_MS: Final = 600_000


class Nodes(Simulation):
    """A simulation that looks for no faults: that grows with everything that nodes know."""

    longest_s = 0.0
    """CPU time of the longest piece of work that nothing interrupted."""

    def check(self, node: Node) -> None:
        """Do nothing."""

    def at(self, when: float, action: Callable[[], object]) -> None:
        """Plan a piece of work, and time it."""
        super().at(when, partial(self._timed, action))

    def _timed(self, action: Callable[[], object]) -> None:
        self.longest_s = max(self.longest_s, spent(action))


class Traffic:
    """What goes over the wire between nodes, in octets of records."""

    def __init__(self) -> None:
        self.octets = 0
        send = End._send

        def counted(end: End, kind: int, number: int, content: bytes, *lane: object) -> None:
            if kind == CONTROL:
                self.octets += len(content)
            send(end, kind, number, content, *lane)  # type: ignore[arg-type]

        End._send = counted  # type: ignore[method-assign, assignment]


class Taker(Sink):
    """A consumer that accepts when it is told to."""

    def __init__(self) -> None:
        self.taken: list[Reference] = []

    def deliver(self, reference: Reference) -> None:
        """Keep it."""
        self.taken.append(reference)

    def drained(self) -> None:
        """Never asked for."""

    def ended(self, reason: str) -> None:
        """Never happens."""


@contextmanager
def simulated(count: int) -> Iterator[Nodes]:
    """So many nodes, all connected, on a quick network."""
    shared = Path("/dev/shm")
    folder = Path(tempfile.mkdtemp(prefix="mesh-", dir=shared if shared.is_dir() else None))
    sim = Nodes(1, folder)
    sim.has_slow_disks = False
    sim.stalls = 0.0
    sim.slowest_ms = 1
    try:
        sim.add_nodes(count, ClusterConfig(name="mesh", check_period_ms=30_000, connection_ttl_ms=60_000))
        settle(sim)
        yield sim
    finally:
        sim.close()
        shutil.rmtree(folder)


def settle(sim: Nodes) -> None:
    """Let all nodes connect and tell each other everything."""
    if not sim.run_until(sim.is_meshed, LIMIT_MS):
        raise SystemExit(f"{len(sim.nodes)} nodes did not connect: {sim.ledger.violations}")
    sim.run_for(1_000)


def spent(work: Callable[[], object]) -> float:
    """Seconds of CPU."""
    begin = time.process_time()
    work()
    return time.process_time() - begin


# -- one node -----------------------------------------------------------------------------------------------------


def local_work(node: Node, messages: int, block: int = BLOCK) -> float:
    """Send and consume messages at one node, past the simulated clock; return the microseconds of one."""
    queue = node.queue("local")
    taker = Taker()
    consumer: Consumer = node.session.consume(queue, taker, None)
    dispatcher, address = node.domain.dispatcher, node.domain.addresses["local"]

    def turn() -> None:
        for _ in range(block):
            node.domain.route(Message(PLAIN_FORMAT, "local", BODY), address)
        consumer.grant(block)
        dispatcher.run(BLOCK)
        for reference in taker.taken:
            consumer.settle(reference, ACCEPTED)
        dispatcher.run(BLOCK)
        if len(taker.taken) != block or queue.message_count:
            raise AssertionError(f"{len(taker.taken)} delivered, {queue.message_count} left")
        taker.taken.clear()

    turn()
    took = spent(lambda: [turn() for _ in range(messages // block)])
    node.session.close_consumer(consumer)
    return took * 1e6 / messages


def local(peers: int, messages: int, block: int) -> dict[str, float]:
    """A message that is sent and consumed at one node, whose peers have nothing to do with it."""
    with simulated(max(peers, 0) + 1) as sim:
        node = sim.nodes[0]
        if peers == WITHOUT_MESH:
            node.domain.companions.clear()
            node.domain.dispatcher.turn_listener = None
            node.domain.routers.remote = None
        for other in sim.nodes[1:]:
            sim.at(sim.now, partial(other.run, other.generation, partial(other.queue, "local")))
        sim.run_for(100)
        return {"us": local_work(node, messages, block)}


# -- many nodes -----------------------------------------------------------------------------------------------------


def nodes(count: int, queues: int, traffic: Traffic) -> dict[str, float]:
    """What each of so many nodes does, by the number of its peers where it tells each of them something."""
    with simulated(count) as sim:
        first = sim.nodes[0]
        peers = count - 1
        figures: dict[str, float] = {"nodes": count}
        figures["local_us"] = local_work(first, LOCAL_MESSAGES)
        settle(sim)
        figures["idle_us_per_peer_s"] = spent(lambda: sim.run_for(IDLE_S * 1000)) * 1e6 / (count * peers * IDLE_S)

        def create() -> None:
            for number in range(queues):
                sim.at(sim.now + number, partial(first.run, first.generation, partial(first.queue, f"q{number}")))
            sim.run_for(queues + 1_000)

        octets = traffic.octets
        figures["create_us_per_peer"] = spent(create) * 1e6 / (queues * peers)
        figures["create_octets_per_peer"] = (traffic.octets - octets) / (queues * peers)

        def attach() -> None:
            for number in range(ATTACHES):
                sim.run_for(10)
                consumer = sim.consume(first, f"q{number % queues}", 10)
                sim.run_for(10)
                sim.close_consumer(consumer)
            sim.run_for(1_000)

        octets = traffic.octets
        figures["attach_us_per_peer"] = spent(attach) * 1e6 / (ATTACHES * peers)
        figures["attach_octets_per_peer"] = (traffic.octets - octets) / (ATTACHES * peers)

        def subscribe() -> None:
            for number in range(ATTACHES):
                sim.at(sim.now + 10 * number, partial(first.run, first.generation, partial(topic, first, number)))
            sim.run_for(10 * ATTACHES + 1_000)

        figures["subscribe_us_per_peer"] = spent(subscribe) * 1e6 / (ATTACHES * peers)

        def join() -> None:
            last = sim.nodes[-1]
            last.crash(False)
            sim.run_for(5_000)
            last.start()
            settle(sim)

        figures["join_ms_per_peer"] = spent(join) * 1e3 / peers
        return figures


def topic(node: Node, number: int) -> None:
    """A subscription to a topic of its own."""
    node.queue(f"s{number}", routing_type=RoutingType.MULTICAST, max_consumers=1)


# -- one table ------------------------------------------------------------------------------------------------------


def table(queues: int, traffic: Traffic) -> dict[str, float]:
    """Two nodes that have the same queues, one of which is started again."""
    with simulated(2) as sim:
        for node in sim.nodes:
            for number in range(queues):
                sim.at(sim.now + number / 10, partial(node.run, node.generation, partial(node.queue, f"q{number}")))
        sim.run_for(queues / 10 + 20_000)
        other = sim.nodes[1]
        other.crash(False)
        sim.run_for(5_000)
        octets = traffic.octets
        other.start()
        sim.longest_s = 0.0
        took = spent(lambda: settle(sim))
        return {
            "queues": queues,
            "octets_per_queue": (traffic.octets - octets) / (2 * queues),
            "us_per_queue": took * 1e6 / (2 * queues),
            "longest_ms": sim.longest_s * 1e3,
        }


def numbers(text: str) -> list[int]:
    """Return what an option lists."""
    return [int(each) for each in text.split(",")]


def main() -> None:
    """Measure, and print JSON."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("what", choices=("nodes", "local", "table"))
    parser.add_argument("--nodes", type=numbers, default=[3, 10, 30, 100])
    parser.add_argument("--queues", type=numbers, help="of a node (nodes: 100; table: 1000,10000,100000)")
    parser.add_argument("--peers", type=int, default=2, help="-1: no mesh")
    parser.add_argument("--messages", type=int, default=20_000)
    parser.add_argument("--block", type=int, default=BLOCK, help="messages in an iteration of the loop, at most 100")
    options = parser.parse_args()
    if options.what == "local":
        print(json.dumps(local(options.peers, options.messages, options.block)))
        return
    traffic = Traffic()
    if options.what == "nodes":
        print(json.dumps([nodes(count, (options.queues or [100])[0], traffic) for count in options.nodes]))
    else:
        print(json.dumps([table(count, traffic) for count in options.queues or [1_000, 10_000, 100_000]]))


if __name__ == "__main__":
    main()
