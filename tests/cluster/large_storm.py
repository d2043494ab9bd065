"""Random histories with large messages: bodies in many pieces, and disks that are full at times; see `storm`."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

from artemis_py.cluster import pieces, strict, taker
from tests.cluster.bodies import SIZE, files_of, fill_disk
from tests.cluster.keyed import Keyed
from tests.cluster.node import Node
from tests.cluster.simulation import Simulation
from tests.cluster.storm import Storm
from tests.cluster.topic_storm import ADDRESSES, TopicStorm

SIZES = [1, 999, 1_000, 1_001, 5_000, 30_000]


@contextmanager
def small_pieces() -> Iterator[None]:
    """Pieces of 1,000 octets, so that a body of a few KiB is on its way for long; and refusals that are soon over."""
    before = pieces.PIECE_BYTES, taker.REFUSED_MS, strict.REFUSED_MS
    pieces.PIECE_BYTES, taker.REFUSED_MS, strict.REFUSED_MS = 1_000, 2_000, 2_000  # type: ignore[misc]
    try:
        yield
    finally:
        pieces.PIECE_BYTES, taker.REFUSED_MS, strict.REFUSED_MS = before  # type: ignore[misc]


def fill_for(sim: Simulation, node: Node, ms: int) -> None:
    """Let a disk be full of bodies for a time."""
    fill_disk(node, True)
    sim.at(sim.now + ms, lambda: fill_disk(node, False))


def left_behind(sim: Simulation) -> list[str]:
    """Files of bodies that no message needs, when all disks had time to delete what has just been consumed.

    A message that nobody was promised may still wait until a disk that was full is asked again: a minute, because
    `small_pieces` cannot change a number that is compiled.
    """
    sim.run_until(lambda: not any(map(files_of, sim.nodes)), 75_000)
    return [
        f"{node.name} has files left: {[path.name for path in found]}"
        for node in sim.nodes
        if (found := files_of(node))
    ]


def fails_by_disk(keyed: Keyed, sim: Simulation, index: int, node: Node) -> bool:
    """Now and then a fault is a full disk."""
    if not keyed.chance(0.25, "full", index):
        return False
    fill_for(sim, node, keyed.choice([10, 200, 3_000], "full ms", index))
    return True


class LargeStorm(Storm):
    """One seed, with anycast queues."""

    def run(self) -> list[str]:
        with small_pieces():
            return super().run()

    def send(self, index: int, node: Node) -> None:
        queue = self.keyed.choice(self.queues, "queue", index)
        durable = self.keyed.chance(0.8, "durable", index)
        for number in range(self.keyed.choice([1, 1, 3, 20], "burst", index)):
            large = self.keyed.choice([0, 0, *SIZES], "size", index, number)
            self.simulation.send(
                node, queue, f"{index}-{number}", durable=durable, large=large, colour="red", number=number
            )

    def fail(self, index: int, node: Node) -> None:
        if not fails_by_disk(self.keyed, self.simulation, index, node):
            super().fail(index, node)

    def fail_twice(self, index: int, origin: Node, taker: Node) -> None:
        """The same in the middle of large bodies."""
        queue = self.keyed.choice(self.queues, "queue", index)
        for number in range(3):
            large = self.keyed.choice(SIZES, "size", index, number)
            at_ms = self.simulation.now + 150 + 10 * number
            body = f"{index}-large-{number}"
            self.simulation.at(at_ms, partial(self.simulation.send, origin, queue, body, large=large, colour="red"))
        super().fail_twice(index, origin, taker)

    def settle(self) -> list[str]:
        return super().settle() or left_behind(self.simulation)


class LargeTopicStorm(TopicStorm):
    """One seed, with subscribers."""

    def run(self) -> list[str]:
        with small_pieces():
            return super().run()

    @property
    def has_full_disks(self) -> bool:
        """Whether disks are full at times; a refused copy loses its place."""
        return self.keyed.chance(0.4, "full disks")

    def send(self, index: int, node: Node) -> None:
        self.topics.orders = "" if self.has_full_disks else "address"
        self.topics.crashed()
        durable = self.keyed.chance(0.8, "durable", index)
        address = self.keyed.choice(ADDRESSES, "address", index)
        for number in range(self.keyed.choice([1, 1, 3, 20], "burst", index)):
            colour = self.keyed.choice(["red", "blue"], "colour", index, number)
            large = self.keyed.choice([0, 0, *SIZES], "size", index, number)
            body = {SIZE: large} if large else {}
            self.topics.publish(node, address, durable, colour=colour, number=number, **body)

    def fail(self, index: int, node: Node) -> None:
        if not (self.has_full_disks and fails_by_disk(self.keyed, self.simulation, index, node)):
            super().fail(index, node)

    def settle(self) -> list[str]:
        return super().settle() or left_behind(self.simulation)
