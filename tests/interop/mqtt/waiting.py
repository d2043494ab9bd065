"""Waiting for what a server does in its own time."""

import time
from collections.abc import Callable
from typing import Final

TIMEOUT_S: Final = 60.0
INTERVAL_S: Final = 0.05


def until(condition: Callable[[], bool], what: str) -> None:
    """Return when the condition holds; raises AssertionError when it does not for far too long."""
    deadline = time.monotonic() + TIMEOUT_S
    while not condition():
        assert time.monotonic() < deadline, f"still waiting for {what}"
        time.sleep(INTERVAL_S)
