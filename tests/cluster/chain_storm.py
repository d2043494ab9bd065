"""A random history of queues where not every broker is connected with every other one; see `storm`."""

from pathlib import Path

from attrs import evolve

from artemis_py.core.settings.cluster_config import ClusterConfig, LoadBalancing
from tests.cluster.node import make_mesh
from tests.cluster.simulation import MeshMaker
from tests.cluster.storm import Step, Storm


class ChainStorm(Storm):
    """One seed: a chain or a ring, of which every node may reach every other one."""

    def __init__(self, seed: int, folder: Path, maker: MeshMaker = make_mesh, steps: list[Step] | None = None) -> None:
        super().__init__(seed, folder, maker, steps)
        self.nodes_count = self.keyed.between(3, 4, "nodes of a chain")
        self.is_ring = self.keyed.chance(0.5, "ring")

    @property
    def balancing(self) -> LoadBalancing:
        """What all nodes do."""
        kinds = [LoadBalancing.ON_DEMAND, LoadBalancing.ON_DEMAND, LoadBalancing.OFF_WITH_REDISTRIBUTION]
        return self.keyed.choice(kinds, "balancing")

    @property
    def strands_nothing(self) -> bool:
        return self.balancing is LoadBalancing.ON_DEMAND

    def change(self, config: ClusterConfig) -> ClusterConfig:
        detail = self.keyed.choice([1, 16], "detail")
        hops = self.nodes_count - 1
        return evolve(config, load_balancing=self.balancing, max_hops=hops, interest_detail=detail)

    def ties(self) -> list[tuple[int, int]]:
        count = self.nodes_count
        return [(index, (index + 1) % count) for index in range(count if self.is_ring else count - 1)]
