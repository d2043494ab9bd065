"""A random history: clients come and go while connections break, nodes die and the network falls apart.

The history is a list of steps that is drawn before it begins. What a step does depends on its own key only, so a run
with some steps left out does in the others what it did before: that is how a failing seed is shrunk (`shrink`).
"""

import logging
from functools import partial
from pathlib import Path
from typing import NamedTuple

from artemis_py.core.settings.address_settings import AddressSettings
from artemis_py.core.settings.cluster_config import ClusterConfig
from tests.cluster.keyed import Keyed
from tests.cluster.node import Node, make_mesh
from tests.cluster.simulation import MeshMaker, Simulation

HOUR_MS = 3_600_000
SELECTORS = ["colour = 'red'", "colour = 'blue'", "number > 5 AND colour <> 'green'"]


class Step(NamedTuple):
    """One event of a history."""

    key: int
    at_ms: int
    kind: str


class Errors(logging.Handler):
    """Errors that the broker has logged: the mesh causes none."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.texts: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.texts.append(
            f"logged: {record.getMessage()} {record.exc_info[1]!r}" if record.exc_info else record.getMessage()
        )


class Storm:
    """One seed."""

    def __init__(self, seed: int, folder: Path, maker: MeshMaker = make_mesh, steps: list[Step] | None = None) -> None:
        self.keyed = Keyed(seed)
        self.simulation = Simulation(seed, folder, maker)
        self.nodes_count = self.keyed.between(2, 4, "nodes")
        self.queues = [f"q{index}" for index in range(self.keyed.between(1, 3, "queues"))]
        self.steps = self.draw() if steps is None else steps
        self.faults: list[str] = []

    def draw(self) -> list[Step]:
        """The steps: most of them clients', some of them faults."""
        steps: list[Step] = []
        at_ms = 0
        for index in range(self.keyed.between(80, 250, "steps")):
            at_ms += self.keyed.between(0, 60, "pause", index)
            number = self.keyed.number("kind", index)
            kind = "send" if number < 0.45 else "attach" if number < 0.65 else "leave" if number < 0.8 else "fault"
            steps.append(Step(index, at_ms, kind))
        return steps

    def run(self) -> list[str]:
        """Play the history, heal, drain; return what was wrong."""
        sim = self.simulation
        settings = AddressSettings(max_read_page_messages=self.keyed.choice([4, 1000], "window"))
        config = ClusterConfig(
            name="mesh",
            standing_grant=self.keyed.choice([0, 2, 10], "standing"),
            check_period_ms=5_000,
            connection_ttl_ms=10_000,
        )
        errors = Errors()
        logging.getLogger("artemis_py").addHandler(errors)
        try:
            sim.add_nodes(self.nodes_count, self.change(config), settings, self.ties())
            sim.run_for(self.keyed.choice([0, 2_000], "lead"))
            start = sim.now
            sim.ledger.has_order = not self.selects
            if self.sets_clocks and self.keyed.chance(0.3, "clocks"):
                self.set_clocks()
            for step in self.steps:
                sim.at(start + step.at_ms, partial(self.play, step))
            sim.run_for((self.steps[-1].at_ms if self.steps else 0) + 100)
            self.faults += sim.ledger.violations or self.settle()
            self.faults += errors.texts
        finally:
            logging.getLogger("artemis_py").removeHandler(errors)
            sim.close()
        return self.faults

    def change(self, config: ClusterConfig) -> ClusterConfig:
        """The configuration of each broker."""
        return config

    @property
    def selects(self) -> bool:
        """Whether consumers have selectors; in histories without, order is looked at (I4)."""
        return self.keyed.chance(0.6, "with selectors")

    @property
    def sets_clocks(self) -> bool:
        """Whether wall clocks are set in some histories: not where the newer of two times wins."""
        return True

    def set_clocks(self) -> None:
        """Set the wall clocks of some brokers by an hour while the history is played: no span depends on them."""
        for node in self.simulation.nodes:
            # A clock that is set back must still say a time after 1970.
            node.set_clock(2 * HOUR_MS)
            by_ms = self.keyed.choice([-HOUR_MS, -HOUR_MS, HOUR_MS, 0], "clock", node.name)
            at_ms = self.simulation.now + self.keyed.between(0, 5_000, "clock at", node.name)
            self.simulation.at(at_ms, partial(node.set_clock, by_ms))

    @property
    def strands_nothing(self) -> bool:
        """Whether the configuration keeps no message from a consumer elsewhere that has room for it."""
        return True

    def ties(self) -> list[tuple[int, int]] | None:
        """Which brokers know each other; None: all."""
        return None

    # -- steps -------------------------------------------------------------------------------------------------

    def play(self, step: Step) -> None:
        node = self.keyed.choice(self.simulation.nodes, "node", step.key)
        if step.kind == "fault":
            self.fail(step.key, node)
        elif step.kind == "send":
            self.send(step.key, node)
        elif step.kind == "attach":
            if node.is_running and not node.is_stopped:
                self.attach(step.key, node)
        else:
            alive = [each for each in self.simulation.consumers if each.is_alive and not each.node.is_stopped]
            if alive:
                self.simulation.close_consumer(self.keyed.choice(alive, "who", step.key))

    def send(self, index: int, node: Node) -> None:
        queue = self.keyed.choice(self.queues, "queue", index)
        durable = self.keyed.chance(0.8, "durable", index)
        for number in range(self.keyed.choice([1, 1, 3, 20], "burst", index)):
            colour = self.keyed.choice(["red", "blue", "green"], "colour", index, number)
            self.simulation.send(node, queue, f"{index}-{number}", durable=durable, colour=colour, number=number)

    def attach(self, index: int, node: Node) -> None:
        self.simulation.consume(
            node,
            self.keyed.choice(self.queues, "queue", index),
            self.keyed.choice([0, 1, 1, 5, 50], "credit", index),
            selector=self.keyed.choice([None, None, *SELECTORS], "selector", index) if self.selects else None,
            settle_ms=self.keyed.choice([1, 30, 300], "slow", index),
            release=self.keyed.choice([0.0, 0.0, 0.3], "release", index),
        )

    def fail(self, index: int, node: Node) -> None:
        sim = self.simulation
        other = self.keyed.choice([each for each in sim.nodes if each is not node], "other", index)
        kind = self.keyed.choice(["cut", "crash", "twice", "twice", "twice", "partition", "stop"], "fault", index)
        ms = self.keyed.choice([1, 50, 500, 3_000], "ms", index)
        if kind == "cut":
            sim.cut(node, other)
        elif kind == "twice":
            self.fail_twice(index, node, other)
        elif kind == "crash":
            sim.crash(node, ms, lands=self.keyed.chance(0.5, "lands", index))
        elif kind == "partition":
            sim.partition(node, other, ms)
        else:
            sim.stop(node, ms * 4)

    def fail_twice(self, index: int, origin: Node, taker: Node) -> None:
        """Break a connection full of messages, and kill one side after that, perhaps while its disk is still busy."""
        sim = self.simulation
        queue = self.keyed.choice(self.queues, "queue", index)
        if taker.is_running and not taker.is_stopped:
            sim.consume(taker, queue, 50, settle_ms=300)
        burst_ms = sim.now + 150
        for number in range(20):
            body = f"{index}-{number}"
            sim.at(burst_ms + number, partial(sim.send, origin, queue, body, colour="red", number=1))
        cut_ms = burst_ms + self.keyed.between(0, 100, "cut", index)
        if self.keyed.chance(0.3, "gives up", index):
            sim.at(cut_ms, lambda: sim.give_up(origin, taker, self.keyed.choice([100, 800], "late", index)))
            return
        if self.keyed.chance(0.5, "at once", index):
            sim.at(cut_ms, lambda: sim.give_up(origin, taker, 1))
        else:
            sim.at(cut_ms, lambda: sim.cut(origin, taker))
        victim = self.keyed.choice([origin, taker, taker], "victim", index)
        crash_ms = cut_ms + self.keyed.between(5, 500, "after", index)
        sim.at(crash_ms, lambda: sim.crash(victim, self.keyed.choice([1, 500], "down", index)))

    # -- the end -----------------------------------------------------------------------------------------------

    def settle(self) -> list[str]:
        """Heal, let one consumer drain each queue, and look at what is left."""
        sim = self.simulation
        sim.run_for(14_000)
        sim.heal()
        if not sim.run_until(sim.is_meshed, 120_000):
            return sim.ledger.violations or ["the mesh did not form again"]
        sim.run_for(3_000)
        if self.strands_nothing:
            # A backlog may go over slow disks to a consumer with credit for one message.
            if not sim.run_until(lambda: not sim.stranded(), 300_000):
                return sim.ledger.violations or sim.stranded()
            if counted := sim.counted_as_stranded():
                return sim.ledger.violations or counted
        for consumer in list(sim.consumers):
            sim.close_consumer(consumer)
        for number, queue in enumerate(self.queues):
            sim.consume(self.keyed.choice(sim.nodes, "drain", number), queue, 10_000)
        sim.run_until(lambda: not sim.ledger.missing() and not sim.in_flight(), 120_000)
        sim.run_for(4_000)
        # Messages that nobody was promised may be on their way now, and a large one takes a while.
        sim.run_until(lambda: not sim.in_flight(), 120_000)
        sim.run_for(2_000)
        faults = list(sim.ledger.violations)
        if lost := sim.ledger.missing():
            faults.append(f"lost: {lost[:5]} and {len(lost)} in all")
        if sim.in_flight():
            faults.append(f"{sim.in_flight()} claims are left")
        return faults + sim.table_faults()

    def come_to_rest(self) -> None:
        """Wait until nothing was on its way for 4 s: in a chain, a copy is not while a node in between stores it."""
        sim = self.simulation
        moved_ms = sim.now

        def is_at_rest() -> bool:
            nonlocal moved_ms
            if sim.in_flight():
                moved_ms = sim.now
            return sim.now >= moved_ms + 4_000

        sim.run_until(is_at_rest, 120_000)


def shrink(seed: int, folder: Path, maker: MeshMaker = make_mesh, attempts: int = 1_000) -> list[Step]:
    """Return few steps with which a seed still fails: halves, quarters and so on are left out (ddmin)."""
    count = 0

    def fails(steps: list[Step]) -> bool:
        nonlocal count
        count += 1
        return bool(Storm(seed, folder / str(count), maker, steps).run())

    steps = Storm(seed, folder / "draw", maker).draw()
    size = len(steps) // 2
    while size:
        index = 0
        while index < len(steps) and count < attempts:
            candidate = steps[:index] + steps[index + size :]
            if fails(candidate):
                steps = candidate
            else:
                index += size
        size //= 2
    return steps
