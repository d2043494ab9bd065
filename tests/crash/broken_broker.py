"""A broker with a planted fault, to see the crash test fail: `python -m tests.crash.broken_broker fault run DIR …`."""

import resource
import sys
import time
from collections.abc import Callable
from typing import Final

from artemis_py.cli import main
from artemis_py.core.destination import Address
from artemis_py.store.batch import Batch
from artemis_py.store.environment import Environment
from artemis_py.store.lmdb import LmdbStore

COMMIT_DELAY_S: Final = 0.2
"""So that a kill between an answer and its commit is likely."""

DISK_BYTES: Final = 1024 * 1024


def acknowledge_before_commit() -> None:
    """Answer at once, commit later."""

    def when_durable(
        self: LmdbStore, callback: Callable[[], None], failed: Callable[[str], None] | None = None
    ) -> None:
        callback()

    write = Environment.write

    def slow_write(self: Environment, batch: Batch) -> None:
        time.sleep(COMMIT_DELAY_S)
        write(self, batch)

    setattr(LmdbStore, "when_durable", when_durable)  # noqa: B010  mypy forbids assigning to a method
    setattr(Environment, "write", slow_write)  # noqa: B010


def duplicate_ids_not_stored() -> None:
    """Known until the end of the process only."""

    def save_duplicate(self: LmdbStore, address: Address, number: int, id: bytes) -> None:
        return None

    setattr(LmdbStore, "save_duplicate", save_duplicate)  # noqa: B010


def full_disk() -> None:
    """No file may grow beyond a size: what a full disk is to LMDB, a write that fails."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (DISK_BYTES, resource.RLIM_INFINITY))


FAULTS: Final = {
    "acknowledge-before-commit": acknowledge_before_commit,
    "duplicate-ids-not-stored": duplicate_ids_not_stored,
    "full-disk": full_disk,
}

if __name__ == "__main__":
    FAULTS[sys.argv.pop(1)]()
    main()
