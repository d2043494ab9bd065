"""Folders for the stores of simulated nodes: in memory where that is possible, so that no disk is waited for."""

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture
def folder() -> Iterator[Path]:
    shared = Path("/dev/shm")
    path = Path(tempfile.mkdtemp(prefix="artemis-mesh-", dir=shared if shared.is_dir() else None))
    yield path
    shutil.rmtree(path, ignore_errors=True)
