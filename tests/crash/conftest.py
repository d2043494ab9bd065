"""The library between the store and the system, and how many states are made with it."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

STATES = int(os.environ.get("ARTEMIS_PY_CRASH_STATES", "100"))
"""Crash states of each test that makes some; the variable asks for more than the short form."""


@pytest.fixture(scope="session")
def shim(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The compiled library."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None or not sys.platform.startswith("linux"):
        pytest.skip("faults are injected by a C library on Linux: there is no compiler here")
    library = tmp_path_factory.mktemp("shim") / "store_faults.so"
    source = Path(__file__).with_name("store_faults.c")
    subprocess.run([compiler, "-shared", "-fPIC", "-O1", "-o", str(library), str(source), "-ldl"], check=True)
    return library
