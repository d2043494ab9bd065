"""A store without a log that works until it dies: `python -m tests.crash.victim folder`.

Step n puts a message for two subscriptions, moves the oldest message of a queue to another queue in the same turn
(as to a dead-letter address), puts a new one there, and prints n when all that was confirmed. If the store fails
instead it prints the reason and tries to go on, which must confirm nothing.
"""

import os
import sys
from functools import partial
from pathlib import Path
from typing import Final

import lmdb

from artemis_py.store.batch import Batch
from artemis_py.store.environment import Environment
from tests.core_harness import browse_all
from tests.crash.lost_writes import note_call
from tests.unit.store.world import World, multicast

STEPS: Final = 12


def confirm(step: int) -> None:
    """Say that a step is confirmed, also in the log of the store's system calls if there is one."""
    print(step, flush=True)
    log = os.environ.get("STORE_LOG")
    if log is not None:
        note_call(Path(log), "A", step + 1)


def main(folder: Path) -> None:
    """All steps; what is printed leaves the process at once."""
    world = World(folder, log=None)
    source, target = world.queue("source"), world.queue("target")
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
        world.store.when_durable(lambda step=step: confirm(step), lambda why: print("failed", flush=True))  # type: ignore[misc]
        world.settle()
        if world.store.failure is not None:
            break
    world.store.when_durable(lambda: print("end", flush=True), lambda why: print("failed", flush=True))
    assert target.message_count <= STEPS


def without_sync() -> None:
    """A planted fault: LMDB is told not to sync."""
    setattr(lmdb, "open", partial(lmdb.open, sync=False))  # noqa: B010  mypy forbids assigning to a function


def in_two_steps() -> None:
    """A planted fault: what is put is committed before what is removed."""
    write = Environment.write

    def split(self: Environment, batch: Batch, mark: bytes | None = None) -> None:
        puts = Batch()
        puts.definitions.update(batch.definitions)
        for reference in batch.puts.all():
            handle = batch.puts.handle(reference)
            batch.puts.remove(reference)
            puts.puts.add(reference, handle)
        write(self, puts)
        write(self, batch, mark)

    setattr(Environment, "write", split)  # noqa: B010


FAULTS: Final = {"without-sync": without_sync, "in-two-steps": in_two_steps}

if __name__ == "__main__":
    for fault in sys.argv[2:]:
        FAULTS[fault]()
    main(Path(sys.argv[1]))
