"""The distribution that these tests run against is the one they mean to test."""

import os
import shutil
import subprocess
import sys
import tomllib
from importlib.machinery import EXTENSION_SUFFIXES
from importlib.metadata import entry_points
from importlib.util import find_spec
from pathlib import Path
from typing import Final

import pytest

import artemis_py

REPOSITORY: Final = Path(__file__).resolve().parents[1]


def hot_modules() -> list[str]:
    """Dotted names of the modules that are meant to be compiled."""
    with open(REPOSITORY / "pyproject.toml", "rb") as file:
        packages: dict[str, list[str]] = tomllib.load(file)["tool"]["artemis_py"]["compiled"]
    return [
        ".".join(path.relative_to(REPOSITORY).with_suffix("").parts).removeprefix("protocols.")
        for package, names in packages.items()
        for name in names
        for path in sorted((REPOSITORY / package).glob(f"{name}.py"))
        if path.name != "__init__.py"
    ]


def test_build_is_the_one_asked_for() -> None:
    """A failed compilation falls back to pure Python in silence; the run that means to test it must not."""
    expected = os.environ.get("ARTEMIS_PY_TESTED_BUILD")
    if expected is None:
        pytest.skip("ARTEMIS_PY_TESTED_BUILD is not set: this run takes whatever is installed")
    modules = hot_modules()
    origins = {name: spec.origin for name in modules if (spec := find_spec(name)) is not None}
    compiled = [name for name, origin in origins.items() if origin and origin.endswith(tuple(EXTENSION_SUFFIXES))]

    assert modules
    assert compiled == (modules if expected == "compiled" else [])


def test_a_hot_module_that_is_not_there_fails_the_build(tmp_path: Path) -> None:
    """A renamed module would be interpreted in silence otherwise."""
    shutil.copy(REPOSITORY / "setup.py", tmp_path)
    (tmp_path / "pyproject.toml").write_text('[tool.artemis_py.compiled]\n"artemis_py" = ["gone"]\n', encoding="utf-8")

    done = subprocess.run([sys.executable, "setup.py", "--version"], cwd=tmp_path, capture_output=True, text=True)

    assert done.returncode != 0
    assert "artemis_py/gone.py does not exist" in done.stderr


def test_tests_run_against_the_installed_package() -> None:
    """tox tests the wheel, not the tree around it."""
    if "ARTEMIS_PY_TESTED_BUILD" not in os.environ:
        pytest.skip("ARTEMIS_PY_TESTED_BUILD is not set: the tree itself may be under test")

    assert "site-packages" in str(artemis_py.__file__)


def test_protocols_are_announced_as_entry_points() -> None:
    """The broker finds its protocols through this group and by no other way."""
    names = {entry_point.name for entry_point in entry_points(group="artemis_py.protocols")}

    assert "AMQP" in names
