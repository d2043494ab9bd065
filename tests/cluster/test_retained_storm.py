"""Random histories of retained messages: all nodes end with the same ones, and nothing that was confirmed is undone.

Messages are retained and deleted at all nodes while connections break, the network falls apart, and nodes die and lose
what is not committed; see `storm`. Faults that are planted are found.
"""

import os
from functools import partial
from pathlib import Path

import pytest

from artemis_py.cluster.mesh import Mesh
from artemis_py.cluster.peer import Peer
from artemis_py.cluster.registers import Registers, Stamp
from artemis_py.cluster.retained_topics import RetainedTopics
from artemis_py.core.messages.builtin_format import plain_message
from artemis_py.core.messages.view import MessageView
from tests.cluster.node import FORMATS, Node, make_mesh
from tests.cluster.simulation import MeshMaker
from tests.cluster.storm import Storm

SEEDS = int(os.environ.get("ARTEMIS_MESH_SEEDS", "8"))
"""Number of histories, as in `test_storm`."""

FIRST_SEED = int(os.environ.get("ARTEMIS_MESH_FIRST_SEED", "0"))

LIMIT = 20
"""Histories within which each planted fault must be found."""

TOPICS = ["a", "a.b", "c"]


class RetainedStorm(Storm):
    """One seed."""

    def __init__(self, seed: int, folder: Path, maker: MeshMaker = make_mesh) -> None:
        super().__init__(seed, folder, maker)
        self.published: dict[tuple[str, Stamp], str | None] = {}
        """What was retained under each stamp; None: deleted."""
        self.confirmed: dict[str, Stamp] = {}
        """The greatest stamp of each topic that a client was told of."""

    def send(self, index: int, node: Node) -> None:
        topic = self.keyed.choice(TOPICS, "topic", index)
        size = self.keyed.choice([1, 40_000], "size", index)
        body = None if self.keyed.chance(0.3, "deletes", index) else f"{index}" * size
        node.run(node.generation, partial(self.retain, node, topic, body))

    def retain(self, node: Node, topic: str, body: str | None) -> None:
        """What a client does, and is told when it is in the store."""
        retained = node.services.retained
        if body is None:
            retained.remove(topic)
        else:
            retained.put(plain_message(topic, MessageView(body=body)))
        register = node.mesh.retained.registers.get(topic)
        assert register is not None
        self.published[topic, register.stamp] = body
        node.store.when_durable(partial(self.confirm, topic, register.stamp))

    def confirm(self, topic: str, stamp: Stamp) -> None:
        """A client was answered."""
        self.confirmed[topic] = max(stamp, self.confirmed.get(topic, (0, 0)))

    def settle(self) -> list[str]:
        sim = self.simulation
        sim.run_for(14_000)
        sim.heal()
        if not sim.run_until(sim.is_meshed, 120_000):
            return ["the mesh did not form again"]
        sim.run_for(10_000)
        for consumer in list(sim.consumers):
            sim.close_consumer(consumer)
        faults: list[str] = []
        for topic in TOPICS:
            stamps = {self.stamp_at(node, topic) for node in sim.nodes}
            bodies = {self.body_at(node, topic) for node in sim.nodes}
            last = max(stamps)
            if len(stamps) > 1 or len(bodies) > 1:
                faults.append(f"nodes have different messages of {topic}: {stamps}")
            elif last < self.confirmed.get(topic, (0, 0)):
                faults.append(f"what was confirmed for {topic} is undone")
            elif last != (0, 0) and bodies != {self.published[topic, last]}:
                faults.append(f"nodes have another message of {topic} than was published under its stamp")
        return faults

    def stamp_at(self, node: Node, topic: str) -> Stamp:
        """The stamp that a node has."""
        register = node.mesh.retained.registers.get(topic)
        return (0, 0) if register is None else register.stamp

    def body_at(self, node: Node, topic: str) -> str | None:
        """What a subscriber finds."""
        message = node.services.retained.get(topic)
        return None if message is None else str(message.view.body)


@pytest.mark.parametrize("seed", range(FIRST_SEED, FIRST_SEED + SEEDS))
def test_all_nodes_end_with_the_same_messages(seed: int, folder: Path) -> None:
    """C35 through breaks, partitions, crashes, stopped processes and slow disks."""
    assert RetainedStorm(seed, folder).run() == []


# -- planted faults ----------------------------------------------------------------------------------------------


class NothingCompared(RetainedTopics):
    """Nodes that connect do not compare what they have."""

    def tell_digests(self, peer: Peer) -> None:
        self._telling(peer)


class StampsForgotten(RetainedTopics):
    """A node that starts does not know its stamps."""

    def __init__(self, mesh: Mesh) -> None:
        super().__init__(mesh)

        class Forgetful(Registers):
            def load(self) -> None:
                pass

        self.registers = Forgetful(mesh.storage, mesh.node_id)  # type: ignore[misc]


def maker_of(plant: type[RetainedTopics]) -> MeshMaker:
    """What makes a mesh with this fault."""

    class Planted(Mesh):
        def __init__(self, *arguments: object) -> None:
            super().__init__(*arguments)  # type: ignore[arg-type]
            self.retained = plant(self)

    return lambda domain, config, id, name: Planted(domain, config, id, name, FORMATS)


@pytest.mark.one_build
@pytest.mark.parametrize("plant", [NothingCompared, StampsForgotten], ids=lambda plant: plant.__name__)
def test_planted_fault_is_found(plant: type[RetainedTopics], folder: Path) -> None:
    """Within a few histories."""
    assert any(RetainedStorm(seed, folder / str(seed), maker_of(plant)).run() for seed in range(LIMIT))
