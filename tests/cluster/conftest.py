"""Simulations with folders for their stores: in memory where that is possible, so that no disk is waited for."""

import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.cluster.simulation import Simulation

Simulate = Callable[..., Simulation]


@pytest.fixture
def folder() -> Iterator[Path]:
    shared = Path("/dev/shm")
    path = Path(tempfile.mkdtemp(prefix="artemis-mesh-", dir=shared if shared.is_dir() else None))
    yield path
    shutil.rmtree(path, ignore_errors=True)


@pytest.fixture
def sim(folder: Path) -> Iterator[Simulation]:
    """One simulation, whose promises must hold at the end."""
    simulation = Simulation(1, folder)
    yield simulation
    simulation.close()
    assert simulation.ledger.violations == []
