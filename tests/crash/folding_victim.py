"""A store with a log that works until it dies: `python -m tests.crash.folding_victim folder [fault …]`.

Its steps are those of `victim`, with a large message in each, so that the files of the log are used again. What is in
the log is folded after every seventh step.
"""

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final

import lmdb

from artemis_py.store.batch import Batch
from artemis_py.store.environment import Environment
from artemis_py.store.folding import Folding
from artemis_py.store.schema import DATABASES
from tests.core_harness import browse_all
from tests.crash.victim import STEPS, confirm
from tests.log_switch import SMALL_LOG
from tests.unit.store.world import Planned, World, multicast

BALLAST: Final = 20_000
"""Octets of the large messages: a file of the log has room for two."""
FOLD_EVERY: Final = 7
LONG_S: Final = 1.0


def main(folder: Path) -> None:
    """All steps; what is printed leaves the process at once."""
    world = World(folder, log=SMALL_LOG)
    call_later = world.hands.call_later

    def forget_age(delay: float, callback: Callable[[], object], /) -> Planned:
        return call_later(delay, callback) if delay < LONG_S else Planned([], callback)

    world.hands.call_later = forget_age  # type: ignore[method-assign]
    source = world.queue("source")
    world.queue("target")
    world.queue("ballast")
    multicast(world, "news", "news.a", "news.b")
    for step in range(STEPS):
        waiting = browse_all(source)
        if waiting:
            body = waiting[0].message.view.body
            source.purge()
            world.send("target", str(body))
        if world.store.failure is None:
            world.send("source", f"m{step}")
            world.send("news", f"m{step}")
            world.send("ballast", "x" * BALLAST)
        world.store.when_durable(lambda step=step: confirm(step), lambda why: print("failed", flush=True))  # type: ignore[misc]
        world.settle()
        if step % FOLD_EVERY == FOLD_EVERY - 1:
            world.store._fold()
            world.settle()
        if world.store.failure is not None:
            break
    world.store.when_durable(lambda: print("end", flush=True), lambda why: print("failed", flush=True))


def answer_before_sync() -> None:
    """A planted fault: the log is not synced."""
    setattr(os, "fdatasync", lambda _: None)  # noqa: B010  mypy forbids assigning to a function


def cut_early() -> None:
    """A planted fault: files of the log are used again before LMDB has what was in them."""
    append = Folding.append

    def append_and_cut(self: Folding, batch: Batch, record: list[bytes]) -> str | None:
        failure = append(self, batch, record)
        self.log.cut(self.log.last)
        return failure

    setattr(Folding, "append", append_and_cut)  # noqa: B010


def fold_before_append() -> None:
    """A planted fault: LMDB has a batch that the log does not have yet, and that no fold has counted."""
    append = Folding.append

    def fold_and_append(self: Folding, batch: Batch, record: list[bytes]) -> str | None:
        self._environment.write(batch, self.mark.value(self.log.last))
        return append(self, batch, record)

    setattr(Folding, "append", fold_and_append)  # noqa: B010


def fold_without_number() -> None:
    """A planted fault: LMDB does not know which batches it has."""
    try_write = Environment.try_write

    def write(self: Environment, batch: Batch, mark: bytes | None = None) -> str | None:
        return try_write(self, batch)

    setattr(Environment, "try_write", write)  # noqa: B010


def fold_without_sync() -> None:
    """A planted fault: files of the log are used again when LMDB has what was in them, but not on the disk."""

    def open_unsynced(self: Environment, map_bytes: int) -> lmdb.Environment:
        return lmdb.open(
            str(self.folder), map_size=map_bytes, max_dbs=len(DATABASES), readahead=False, sync=False, metasync=False
        )

    setattr(Environment, "_open", open_unsynced)  # noqa: B010


FAULTS: Final = {
    "answer-before-sync": answer_before_sync,
    "cut-early": cut_early,
    "fold-before-append": fold_before_append,
    "fold-without-number": fold_without_number,
    "fold-without-sync": fold_without_sync,
}

if __name__ == "__main__":
    for fault in sys.argv[2:]:
        FAULTS[fault]()
    main(Path(sys.argv[1]))
