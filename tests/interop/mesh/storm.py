"""Clients of three protocols at all brokers of a mesh, faults, and a verdict over what the clients wrote down.

`python -m tests.interop.mesh.storm --nodes 5 --seconds 600` runs it for ten minutes, one seed after the other.
"""

import argparse
import random
import shutil
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from typing import Final

from attrs import frozen

from tests.crash.ledger import read
from tests.interop.mesh.brokers import CONTROL, Mesh, Node
from tests.interop.mesh.clients import (
    GROUP,
    NEWS,
    SHARE,
    WORK,
    AmqpConsumer,
    AmqpMember,
    AmqpProducer,
    AmqpSubscriber,
    OpenWireConsumer,
    OpenWireProducer,
    OpenWireSubscriber,
    PahoMember,
    PahoPublisher,
    PahoSubscriber,
    Worker,
)
from tests.interop.mesh.verdict import Verdict, judge

SETTINGS: Final = "".join(
    f'<address-setting match="{address}">'
    f"<default-address-routing-type>{kind}</default-address-routing-type>"
    f"<default-queue-routing-type>{kind}</default-queue-routing-type>"
    "<max-delivery-attempts>-1</max-delivery-attempts></address-setting>"
    for address, kind in ((WORK, "ANYCAST"), (NEWS, "MULTICAST"))
)
Fault = Callable[[Node], AbstractContextManager[None]]
"""It lasts as long as its block."""

QUIET_S: Final = 20.0
"""Nothing has come for this long, and nothing was left to come: what is missing is lost or stranded."""
LOOK_S: Final = 0.5
READY_TIMEOUT_S: Final = 60.0
LULL_S: Final = (0.2, 1.0)
"""Between two faults."""
FAULT_S: Final = (0.05, 3.0)
"""How long a fault lasts: shorter and longer than it takes brokers to give each other up."""


@frozen(kw_only=True)
class Outcome:
    """What a storm has shown."""

    verdict: Verdict
    faults: list[str]
    failures: list[str]
    """Of clients, and what brokers say of themselves."""
    waiting: dict[str, int]
    """Messages of each broker that nobody got although consumers were there."""

    @property
    def is_clean(self) -> bool:
        """Nothing lost, doubled, out of order or stranded."""
        return not (self.verdict.missing or self.verdict.violations or self.failures or any(self.waiting.values()))

    def __str__(self) -> str:
        lines = [str(self.verdict), f"faults: {', '.join(self.faults)}", f"waiting: {self.waiting}"]
        return "\n".join([*lines, *self.failures])


class Storm:
    """One run in one folder."""

    def __init__(self, mesh: Mesh, folder: Path, seed: int) -> None:
        self.mesh: Final = mesh
        self.random: Final = random.Random(seed)
        self.faults: Final[list[str]] = []
        self._folder: Final = folder
        self._seed: Final = seed
        folder.mkdir()
        nodes = mesh.nodes
        first, second, third = nodes[0], nodes[1], nodes[-1]
        self.subscribers: Final[list[Worker]] = [
            self._worker(AmqpSubscriber, "as1", [second]),
            self._worker(OpenWireSubscriber, "os1", [third]),
            self._worker(PahoSubscriber, "ps1", [first]),
        ]
        self.members: Final[list[Worker]] = [
            self._worker(AmqpMember, "am1", nodes),
            self._worker(AmqpMember, "am2", nodes),
            self._worker(PahoMember, "pm1", [second]),
            self._worker(PahoMember, "pm2", [third]),
        ]
        self.consumers: Final[list[Worker]] = [
            self._worker(AmqpConsumer, "ac1", nodes),
            self._worker(AmqpConsumer, "ac2", nodes),
            self._worker(OpenWireConsumer, "oc1", nodes),
        ]
        self.producers: Final[list[Worker]] = [
            self._worker(AmqpProducer, "ap1", nodes),
            self._worker(AmqpProducer, "ap2", nodes),
            self._worker(OpenWireProducer, "op1", [second]),
            self._worker(PahoPublisher, "pp1", [third]),
        ]

    def _worker(self, kind: type[Worker], name: str, nodes: Sequence[Node]) -> Worker:
        return kind(name, nodes, self._folder, self._seed)

    @property
    def destinations(self) -> Mapping[str, Sequence[str]]:
        """Who gets all that is sent to an address."""
        return {WORK: [WORK], NEWS: [*(worker.name for worker in self.subscribers), GROUP, SHARE]}

    @property
    def ordered(self) -> list[str]:
        """Subscriptions with one consumer."""
        return [worker.name for worker in self.subscribers]

    def run(self, blow: Callable[["Storm"], None]) -> Outcome:
        """Begin the load, do `blow`, let everything come through, and judge."""
        workers = [*self.subscribers, *self.members, *self.consumers, *self.producers]
        try:
            # A shared subscription gets what is sent once it exists, as every other one.
            _start([*self.subscribers, *self.members])
            _start([*self.consumers, *self.producers])
            blow(self)
            return self._end()
        finally:
            for worker in workers:
                worker.stopping.set()
            for worker in workers:
                if worker.is_alive():
                    worker.join(QUIET_S)

    def faults_at_random(self, number: int) -> None:
        """So many faults, each kind of them in turn, at random nodes; now and then two at once."""
        kinds = [self.mesh.killed, self.mesh.stopped, self.mesh.cut_off, self.mesh.half_open, self.mesh.broken]
        turns: list[Fault] = []
        while len(turns) < number:
            turns += self.random.sample(kinds, len(kinds))
        del turns[number:]
        while turns:
            time.sleep(self.random.uniform(*LULL_S))
            count = 2 if len(turns) > 1 and self.random.random() < 0.3 else 1
            with ExitStack() as stack:
                for node in self.random.sample(self.mesh.nodes, count):
                    fault = turns.pop()
                    self.faults.append(f"{fault.__name__} {node.name}")
                    stack.enter_context(fault(node))
                time.sleep(self.random.uniform(*FAULT_S))

    def _end(self) -> Outcome:
        """Stop what sends; leave one consumer of the queue, and let it and the subscriptions take all that is left."""
        for worker in [*self.producers, *self.consumers]:
            worker.stopping.set()
        for worker in [*self.producers, *self.consumers]:
            worker.join(READY_TIMEOUT_S)
        self.mesh.wait_until_connected()
        last = self._worker(AmqpConsumer, "last", [self.random.choice(self.mesh.nodes)])
        last.start()
        try:
            verdict, waiting = self._await_the_rest()
        finally:
            last.stopping.set()
            last.join(READY_TIMEOUT_S)
        everybody = [*self.subscribers, *self.members, *self.consumers, *self.producers, last]
        failures = [worker.failure for worker in everybody if worker.failure]
        failures += [f"{worker.name} did not end" for worker in self.producers if worker.is_alive()]
        for node in self.mesh.nodes:
            for name in ("StrandedMessageCount", "MessagesInDoubt", "Resyncs"):
                number = self.mesh.attribute(node, CONTROL, name)
                failures += [f"{name} of {node.name} is {number}"] if number else []
        return Outcome(verdict=verdict, faults=self.faults, failures=failures, waiting=waiting)

    def _await_the_rest(self) -> tuple[Verdict, dict[str, int]]:
        known, since = -1, time.monotonic()
        while True:
            lines = read(self._folder)
            verdict = judge(lines, self.destinations, self.ordered)
            waiting = {node.name: self._waiting(node) for node in self.mesh.nodes}
            if not verdict.missing and not any(waiting.values()):
                return verdict, waiting
            if len(lines) != known:
                known, since = len(lines), time.monotonic()
            elif time.monotonic() - since > QUIET_S:
                return verdict, waiting
            time.sleep(LOOK_S)

    def _waiting(self, node: Node) -> int:
        """Messages in its queues, those for other brokers among them."""
        count: int = self.mesh.attribute(node, "broker", "TotalMessageCount")
        return count


def _start(workers: Sequence[Worker]) -> None:
    for worker in workers:
        worker.start()
    for worker in workers:
        assert worker.ready.wait(READY_TIMEOUT_S), f"{worker.name} did not begin: {worker.failure}"


def storm(folder: Path, seed: int, nodes: int, faults: int) -> Outcome:
    """Run one storm with so many faults."""
    with Mesh(folder / "mesh", nodes, settings=SETTINGS) as mesh:
        return Storm(mesh, folder / "ledgers", seed).run(lambda storm: storm.faults_at_random(faults))


def main() -> None:
    """Run seeds until the time is over or one fails, which keeps its folder."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--seed", type=int, default=random.randrange(1_000_000))
    parser.add_argument("--nodes", type=int, default=3)
    parser.add_argument("--faults", type=int, default=15, help="of one run")
    parser.add_argument("--seconds", type=float, default=300.0, help="in all")
    arguments = parser.parse_args()
    end = time.monotonic() + arguments.seconds
    seed = arguments.seed
    while time.monotonic() < end:
        folder = Path(tempfile.mkdtemp(prefix=f"storm-{seed}-"))
        began = time.monotonic()
        outcome = storm(folder, seed, arguments.nodes, arguments.faults)
        print(f"seed {seed}, {time.monotonic() - began:.0f} s\n{outcome}", flush=True)
        if not outcome.is_clean:
            raise SystemExit(f"seed {seed} failed: {folder}")
        shutil.rmtree(folder)
        seed += 1


if __name__ == "__main__":
    main()
