"""Maven, one at a time on this machine: side by side, two would write one file of its repository."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from fcntl import LOCK_EX, flock
from pathlib import Path


@contextmanager
def one_maven() -> Iterator[None]:
    """Wait until no other test of this user runs Maven, and keep them waiting during the block."""
    with open(Path(tempfile.gettempdir()) / f"artemis-py-maven-{os.getuid()}.lock", "w") as lock:
        flock(lock, LOCK_EX)
        yield
