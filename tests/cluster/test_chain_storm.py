"""Random histories in chains and rings: nothing is lost, doubled or stranded on the way through other nodes."""

import os
from pathlib import Path

import pytest

from tests.cluster.chain_storm import ChainStorm

SEEDS = int(os.environ.get("ARTEMIS_MESH_SEEDS", "8"))
"""Number of histories, as in `test_storm`."""

FIRST_SEED = int(os.environ.get("ARTEMIS_MESH_FIRST_SEED", "0"))


@pytest.mark.parametrize("seed", range(FIRST_SEED, FIRST_SEED + SEEDS))
def test_nothing_is_lost_doubled_or_stranded_on_the_way(seed: int, folder: Path) -> None:
    """C17, C18 and C61 through breaks, partitions, crashes, stopped processes and slow disks."""
    assert ChainStorm(seed, folder).run() == []
