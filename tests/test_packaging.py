"""The distribution that these tests run against is the one they mean to test."""

import os
from importlib.metadata import entry_points

import pytest

from artemis_py.core import message


def test_build_is_the_one_asked_for() -> None:
    """A failed compilation falls back to pure Python in silence; the run that means to test it must not."""
    expected = os.environ.get("ARTEMIS_PY_TESTED_BUILD")
    if expected is None:
        pytest.skip("ARTEMIS_PY_TESTED_BUILD is not set: this run takes whatever is installed")

    assert ("pure" if message.__file__.endswith(".py") else "compiled") == expected


def test_tests_run_against_the_installed_package() -> None:
    """tox tests the wheel, not the tree around it."""
    if "ARTEMIS_PY_TESTED_BUILD" not in os.environ:
        pytest.skip("ARTEMIS_PY_TESTED_BUILD is not set: the tree itself may be under test")

    assert "site-packages" in message.__file__


def test_protocols_are_announced_as_entry_points() -> None:
    """The broker finds its protocols through this group and by no other way."""
    names = {entry_point.name for entry_point in entry_points(group="artemis_py.protocols")}

    assert "AMQP" in names
