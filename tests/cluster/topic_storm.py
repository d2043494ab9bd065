"""A random history of publishers and subscribers; see `storm`."""

from functools import partial
from pathlib import Path

from attrs import evolve

from artemis_py.core.settings.cluster_config import ClusterConfig, LoadBalancing
from tests.cluster.node import Node, make_mesh
from tests.cluster.simulation import MeshMaker
from tests.cluster.storm import Step, Storm
from tests.cluster.topics import SimSubscriber, Topics

ADDRESSES = ["t0", "t1.a", "t1.b"]
PATTERNS = ["t0", "t0", "t1.a", "t1.*", "t1.#", "#"]
SELECTORS = ["colour = 'red'", "colour <> 'red'", "number > 5"]


class TopicStorm(Storm):
    """One seed."""

    def __init__(self, seed: int, folder: Path, maker: MeshMaker = make_mesh, steps: list[Step] | None = None) -> None:
        super().__init__(seed, folder, maker, steps)
        self.topics = Topics(self.simulation)
        self.is_chain = self.nodes_count > 2 and self.keyed.chance(0.3, "chain")
        self.is_ring = self.is_chain and self.keyed.chance(0.5, "ring")

    def change(self, config: ClusterConfig) -> ClusterConfig:
        balancing = self.keyed.choice([*LoadBalancing, LoadBalancing.ON_DEMAND], "balancing")
        if balancing is LoadBalancing.STRICT:
            # What is a node's turn waits there for consumers of this node.
            balancing = LoadBalancing.ON_DEMAND
        hops = self.nodes_count - 1 if self.is_chain else 1
        return evolve(config, load_balancing=balancing, max_hops=hops, interest_detail=self.keyed.choice([1, 16], "d"))

    def ties(self) -> list[tuple[int, int]] | None:
        if not self.is_chain:
            return None
        count = self.nodes_count
        return [(index, (index + 1) % count) for index in range(count if self.is_ring else count - 1)]

    # -- steps -------------------------------------------------------------------------------------------------

    def send(self, index: int, node: Node) -> None:
        self.topics.crashed()
        durable = self.keyed.chance(0.8, "durable", index)
        address = self.keyed.choice(ADDRESSES, "address", index)
        for number in range(self.keyed.choice([1, 1, 3, 20], "burst", index)):
            colour = self.keyed.choice(["red", "blue"], "colour", index, number)
            self.topics.publish(node, address, durable, colour=colour, number=number)

    def attach(self, index: int, node: Node) -> None:
        self.topics.crashed()
        kind = self.keyed.choice(["plain", "plain", "durable", "shared"], "subscription", index)
        pattern = self.keyed.choice(PATTERNS, "pattern", index)
        options = {"settle_ms": self.keyed.choice([1, 30, 300], "slow", index), "credit": 50}
        if kind == "plain":
            selector = self.keyed.choice([None, None, *SELECTORS], "selector", index)
            self.topics.subscribe(node, pattern, selector=selector, **options)  # type: ignore[arg-type]
        elif kind == "shared":
            group = self.keyed.choice(["t0", "t1.#"], "group", index)
            self.topics.subscribe(node, group, f"group.{group}", shared=True, **options)  # type: ignore[arg-type]
        else:
            self.resume(node, self.keyed.choice(["t0", "t1.*"], "kept", index), **options)

    def resume(self, node: Node, address: str, **options: int) -> None:
        """A consumer of a durable subscription, which stays at its node."""
        name = f"kept.{node.name}.{address}"
        if any(each.is_alive and each.subscription.name == name for each in self.subscribers()):
            return
        self.topics.subscribe(node, address, name, **options)  # type: ignore[arg-type]

    def subscribers(self) -> list[SimSubscriber]:
        """All that ever were."""
        return [each for each in self.simulation.consumers if isinstance(each, SimSubscriber)]

    def fail_twice(self, index: int, origin: Node, taker: Node) -> None:
        """Break a connection full of copies, and kill one side after that."""
        sim = self.simulation
        if taker.is_running and not taker.is_stopped:
            self.resume(taker, "t0", credit=50)
        burst_ms = sim.now + 400
        for number in range(20):
            sim.at(burst_ms + number, partial(self.topics.publish, origin, "t0", colour="red", number=1))
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
        """Heal; each durable subscription gets a consumer, and one more message from each node must reach all."""
        sim = self.simulation
        sim.run_for(14_000)
        sim.heal()
        if not sim.run_until(sim.is_meshed, 120_000):
            return sim.ledger.violations or ["the mesh did not form again"]
        sim.run_for(10_000)
        self.topics.crashed()
        for name, each in self.topics.subscriptions.items():
            if each.durable and not any(one.is_alive and one.subscription is each for one in self.subscribers()):
                self.topics.subscribe(each.node, each.address, name, shared=each.is_shared)
        sim.run_for(3_000)
        for each in self.topics.subscriptions.values():
            each.knows = {node.name: node.generation for node in sim.nodes}
        for node in sim.nodes:
            for address in ADDRESSES:
                self.topics.publish(node, address, colour="red", number=9)
        # Nothing is missing before it is acknowledged, which takes a slow disk a while.
        sim.run_for(5_000)
        sim.run_until(lambda: not sim.ledger.missing() and not sim.in_flight(), 120_000)
        self.come_to_rest()
        faults = list(sim.ledger.violations)
        if lost := sim.ledger.missing():
            faults.append(f"lost: {lost[:5]} and {len(lost)} in all")
        if sim.in_flight():
            faults.append(f"{sim.in_flight()} claims are left")
        return faults + self.leftovers() + sim.table_faults()

    def leftovers(self) -> list[str]:
        """What waits for other nodes although all are there, and shells that no node has a use for (I10)."""
        found: list[str] = []
        names = {name for name, each in self.topics.subscriptions.items() if not each.is_over}
        for node in self.simulation.nodes:
            for queue in node.domain.queues.values():
                if queue.internal and queue.message_count:
                    found.append(f"{queue.message_count} messages wait in {queue.name} at {node.name}")
                if node.mesh.shells.is_shell(queue.name) and queue.name not in names:
                    found.append(f"{node.name} has a shell of {queue.name}, which is over")
        return found
