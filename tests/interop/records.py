"""Records of what other brokers do: this broker is held against them in every run, the others when somebody asks."""

import os
from typing import Final

import pytest

ARE_ASKED: Final = "1" in (os.environ.get("ARTEMIS_PY_PEERS"), os.environ.get("ARTEMIS_PY_RECORD"))

of_another_broker: Final = pytest.mark.skipif(
    not ARE_ASKED, reason="tells only of another broker, whose release does not change: set ARTEMIS_PY_PEERS=1"
)
"""Marks a test that takes minutes, and can only fail after a change of the programs or of that broker's version."""
