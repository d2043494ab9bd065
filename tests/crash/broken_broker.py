"""A broker with a planted fault, to see the crash test fail: `python -m tests.crash.broken_broker fault run DIR …`.

Each breaks one promise of the store, or of those who answer from it. Where a fault shows only if the broker dies at
the wrong moment, the broker kills itself then, while the file `armed` is in DIR: when all clients are at work.
"""

import os
import resource
import signal
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final

import lmdb

from artemis_amqp.broker.handler import AmqpHandler
from artemis_py.cli import main
from artemis_py.core.addresses.address import Address
from artemis_py.core.queues.reference import Reference
from artemis_py.store.batch import Batch
from artemis_py.store.batch_record import encode_batch
from artemis_py.store.environment import Environment
from artemis_py.store.folding import Folding
from artemis_py.store.lmdb import LmdbStore
from artemis_py.store.schema import QUEUES
from tests.crash.plan import MOVES, ONCE
from tests.log_switch import IS_ON

ANSWER_S: Final = 0.1
"""What was answered or delivered too early arrives within this time."""
FATAL: Final = 3
"""The broker dies at this batch of those in which its fault shows."""
DISK_BYTES: Final = 1024 * 1024

write: Final = Environment.write
append: Final = Folding.append


def replace(owner: type, name: str, function: Callable[..., object]) -> None:
    """Plant a method; an assignment would not pass mypy."""
    setattr(owner, name, function)


def die_at(shows: Callable[[Batch], bool], prepare: Callable[[Batch], bool]) -> None:
    """Kill this process instead of committing a batch in which the fault shows; what `prepare` left is written if it
    returns True.
    """
    seen = []
    armed = Path(sys.argv[2]) / "armed"

    def is_fatal(batch: Batch) -> bool:
        if armed.exists() and shows(batch):
            seen.append(batch.number)
        return len(seen) == FATAL

    def write_or_die(self: Environment, batch: Batch, mark: bytes | None = None, is_logged: bool = True) -> None:
        if is_fatal(batch):
            if prepare(batch):
                write(self, batch)
            os.kill(os.getpid(), signal.SIGKILL)
        write(self, batch, mark, is_logged)

    def append_or_die(self: Folding, batch: Batch, record: list[bytes]) -> str | None:
        if is_fatal(batch):
            if prepare(batch):
                append(self, batch, encode_batch(batch))
            os.kill(os.getpid(), signal.SIGKILL)
        return append(self, batch, record)

    if IS_ON:
        replace(Folding, "append", append_or_die)
    else:
        replace(Environment, "write", write_or_die)


def let_answers_go(batch: Batch) -> bool:
    """Nothing of the batch is written."""
    time.sleep(ANSWER_S)
    return False


def acknowledge_before_commit() -> None:
    """Answer at once, commit later."""

    def when_durable(
        self: LmdbStore, callback: Callable[[], None], failed: Callable[[str], None] | None = None
    ) -> None:
        callback()

    replace(LmdbStore, "when_durable", when_durable)
    die_at(lambda batch: batch.puts.count > 0, let_answers_go)


def deliver_before_commit() -> None:
    """Consumers see what a crash takes back."""
    put = LmdbStore.put

    def put_as_if_stored(self: LmdbStore, reference: Reference) -> None:
        put(self, reference)
        reference.batch = 0

    replace(LmdbStore, "put", put_as_if_stored)
    die_at(lambda batch: any(reference.queue.name == ONCE for reference in batch.puts.all()), let_answers_go)


def confirm_queue_before_commit() -> None:
    """An attach is answered although the queue that it made is not stored, a detach although it is not deleted."""

    def hold_nothing(self: AmqpHandler, offset: int, definitions: int) -> None:
        return None

    replace(AmqpHandler, "_hold_answer", hold_nothing)
    die_at(lambda batch: any(database == QUEUES for database, _ in batch.definitions), let_answers_go)


def move_in_two_steps() -> None:
    """What is put is committed before what is removed: a dead letter is copied first."""

    def put_first(batch: Batch) -> bool:
        batch.gone.clear()
        batch.removals.clear()
        return True

    die_at(lambda batch: any(reference.queue.name in MOVES.values() for reference in batch.puts.all()), put_first)


def commit_halves() -> None:
    """What belongs together is cut in two."""

    def write_half(batch: Batch) -> bool:
        batch.puts.remove(batch.puts.all()[-1])
        return True

    die_at(lambda batch: batch.puts.count > 1, write_half)


def store_no_duplicate_ids() -> None:
    """Known until the end of the process only."""

    def save_duplicate(self: LmdbStore, address: Address, number: int, id: bytes) -> None:
        return None

    replace(LmdbStore, "save_duplicate", save_duplicate)


def store_no_settlements() -> None:
    """What was settled is there again after a restart."""

    def write_puts(self: Environment, batch: Batch, mark: bytes | None = None, is_logged: bool = True) -> None:
        batch.gone.clear()
        batch.removals.clear()
        write(self, batch, mark, is_logged)

    replace(Environment, "write", write_puts)


def do_not_sync() -> None:
    """The log, or LMDB, is not synced; a kill does not show it, a loss of power does."""
    if IS_ON:
        setattr(os, "fdatasync", lambda _: None)  # noqa: B010  mypy forbids assigning to a function
    else:
        setattr(lmdb, "open", partial(lmdb.open, sync=False))  # noqa: B010


def fill_disk() -> None:
    """No file may grow beyond a size: what a full disk is to LMDB, a write that fails."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (DISK_BYTES, resource.RLIM_INFINITY))


FAULTS: Final = {
    "acknowledge-before-commit": acknowledge_before_commit,
    "confirm-queue-before-commit": confirm_queue_before_commit,
    "deliver-before-commit": deliver_before_commit,
    "commit-halves": commit_halves,
    "move-in-two-steps": move_in_two_steps,
    "no-duplicate-ids": store_no_duplicate_ids,
    "no-settlements": store_no_settlements,
    "no-sync": do_not_sync,
    "full-disk": fill_disk,
}

if __name__ == "__main__":
    FAULTS[sys.argv.pop(1)]()
    main()
