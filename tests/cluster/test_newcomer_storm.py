"""Random histories of subscribers that come when messages have just been retained elsewhere.

A subscriber must find what was confirmed at its node, and at those that are connected with it all the time, or
something newer, and nothing older; and no message comes to it twice. See `storm`.
"""

import os
from functools import partial
from pathlib import Path

import pytest

from artemis_py.cluster.mesh import Mesh
from artemis_py.cluster.newcomers import Newcomers
from artemis_py.cluster.peer import Peer
from artemis_py.cluster.registers import Stamp
from artemis_py.core.services.retained import Newcomer
from tests.cluster.node import FORMATS, Node, make_mesh
from tests.cluster.simulation import MeshMaker
from tests.cluster.test_newcomers import Subscriber, _publish
from tests.cluster.test_retained_storm import TOPICS, RetainedStorm

SEEDS = int(os.environ.get("ARTEMIS_MESH_SEEDS", "8"))
"""Number of histories, as in `test_storm`."""

FIRST_SEED = int(os.environ.get("ARTEMIS_MESH_FIRST_SEED", "0"))

FOUND = [60, 111, 259]
"""Seeds that have found faults."""

LIMIT = 20
"""Histories within which each planted fault must be found."""

FOUND_BY = 15
"""A seed that found each of them when this was written, and is tried first."""


class Watched(Subscriber):
    """A subscriber, and what it must find."""

    def __init__(self, storm: "NewcomerStorm", node: Node, topic: str) -> None:
        self.storm = storm
        self.generation = node.generation
        self.is_wanted = not node.mesh.newcomers._slow
        """Whether its node waits for all that are connected."""
        self.peers = connected(storm, node)
        self.wanted = storm.confirmed_at(topic, [node, *self.peers])
        super().__init__(node, topic)

    def answered(self) -> None:
        super().answered()
        is_late = self.announcement is not None and self.announcement.is_late
        now = connected(self.storm, self.node)
        is_cut = any(now.get(node) is not peer for node, peer in self.peers.items())
        self.is_wanted = self.is_wanted and not is_late and not is_cut

    def fault(self) -> str:
        """What is wrong, if anything is."""
        topic, got = self.pattern, [body for body in (*self.found, *self.live) if body not in ("", "answer")]
        where = f"a subscriber of {topic} at {self.node.name}"
        if not self.is_wanted or not self.answers or self.generation != self.node.generation:
            return ""
        if any(got.count(body) > 1 and self.storm.publishers[body] in (self.node, *self.peers) for body in got):
            return f"{where} got {[body[:9] for body in got]}"
        old = [body for body in self.found if body != "answer" and self.storm.stamps[body] < self.wanted]
        if old:
            return f"{where} found {old}, which was replaced or deleted"
        newer = [stamp for other, stamp in self.storm.published if other == topic and stamp >= self.wanted]
        if self.wanted > (0, 0) and all(self.storm.published[topic, stamp] is not None for stamp in newer):
            if not any(self.storm.stamps[body] >= self.wanted for body in got):
                return f"{where} did not find what was confirmed before"
        return ""


def connected(storm: "NewcomerStorm", node: Node) -> dict[Node, Peer]:
    """Nodes with a connection that both sides take for good."""
    found: dict[Node, Peer] = {}
    for other in storm.simulation.nodes:
        peer, back = node.mesh.peers.get(other.mesh.node_id), other.mesh.peers.get(node.mesh.node_id)
        if peer is not None and back is not None and peer.is_taking and back.is_taking:
            if other.is_running and not other.is_stopped:
                found[other] = peer
    return found


class NewcomerStorm(RetainedStorm):
    """One seed."""

    def __init__(self, seed: int, folder: Path, maker: MeshMaker = make_mesh) -> None:
        super().__init__(seed, folder, maker)
        self.subscribers: list[Watched] = []
        self.stamps: dict[str, Stamp] = {}
        """The stamp of each message, by its body."""
        self.publishers: dict[str, Node] = {}
        """The node where it was published."""
        self.confirmed_by: dict[tuple[str, str], Stamp] = {}
        """The greatest stamp that clients of a node were told of, by topic and node."""
        self.checked = 0

    def retain(self, node: Node, topic: str, body: str | None) -> None:
        """A message is also published; upon the answer somebody may subscribe elsewhere."""
        number = len(self.published)
        text = "" if body is None else f"{number}:{body}"
        _publish(node, topic, text, partial(self.told, node, topic, number))
        register = node.mesh.retained.registers.get(topic)
        assert register is not None
        self.published[topic, register.stamp] = text or None
        self.stamps[text] = register.stamp
        self.publishers[text] = node
        node.store.when_durable(partial(self.confirm, topic, register.stamp))
        key = (topic, node.name)
        node.store.when_durable(partial(self.note, key, register.stamp))

    def note(self, key: tuple[str, str], stamp: Stamp) -> None:
        """A client of a node was answered."""
        self.confirmed_by[key] = max(stamp, self.confirmed_by.get(key, (0, 0)))

    def told(self, node: Node, topic: str, number: int) -> None:
        """Have somebody subscribe at another node a moment later."""
        others = [each for each in self.simulation.nodes if each is not node and each.is_running]
        if others and self.keyed.chance(0.5, "upon the answer", number):
            other = self.keyed.choice(others, "where", number)
            self.simulation.at(self.simulation.now, lambda: self.subscribe(other, topic))

    def confirmed_at(self, topic: str, nodes: list[Node]) -> Stamp:
        """The greatest stamp that clients of these nodes were told of."""
        return max([self.confirmed_by.get((topic, node.name), (0, 0)) for node in nodes])

    def subscribe(self, node: Node, topic: str) -> None:
        """A new subscriber, if the node is there."""
        if not node.is_stopped:
            node.run(node.generation, lambda: self.subscribers.append(Watched(self, node, topic)))

    def attach(self, index: int, node: Node) -> None:
        self.subscribe(node, self.keyed.choice(TOPICS, "topic", index))

    def settle(self) -> list[str]:
        faults = super().settle()
        self.checked = sum(each.is_wanted and each.answers > 0 for each in self.subscribers)
        return [*faults, *filter(None, [each.fault() for each in self.subscribers])]


@pytest.mark.parametrize("seed", [*range(FIRST_SEED, FIRST_SEED + SEEDS), *FOUND])
def test_subscribers_find_what_was_retained(seed: int, folder: Path) -> None:
    """C35 through breaks, partitions, crashes, stopped processes and slow disks."""
    storm = NewcomerStorm(seed, folder)

    assert storm.run() == []
    assert storm.checked > 0


# -- planted faults ----------------------------------------------------------------------------------------------


class NobodyAsked(Newcomers):
    """What is retained is looked up at once."""

    def introduce(self, newcomer: Newcomer) -> bool:
        return False


class CopiesForgotten(Newcomers):
    """What has come as a copy is looked up as well."""

    def _has_come(self, *_: object) -> bool:
        return False


class ChangesForgotten(Newcomers):
    """What was retained here in between is looked up as well."""

    def changed_here(self, topic: str) -> None:
        pass


def maker_of(plant: type[Newcomers]) -> MeshMaker:
    """What makes a mesh with this fault."""

    class Planted(Mesh):
        def __init__(self, *arguments: object) -> None:
            super().__init__(*arguments)  # type: ignore[arg-type]
            self.newcomers = plant(self)

    return lambda domain, config, id, name: Planted(domain, config, id, name, FORMATS)


@pytest.mark.one_build
@pytest.mark.parametrize("plant", [NobodyAsked, CopiesForgotten, ChangesForgotten], ids=lambda plant: plant.__name__)
def test_planted_fault_is_found(plant: type[Newcomers], folder: Path) -> None:
    """Within a few histories."""
    seeds = [FOUND_BY, *[seed for seed in range(LIMIT) if seed != FOUND_BY]]

    assert any(NewcomerStorm(seed, folder / str(seed), maker_of(plant)).run() for seed in seeds)
