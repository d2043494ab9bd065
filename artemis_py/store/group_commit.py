"""Group commit: changes gather in a batch, and a thread commits one batch at a time while the loop continues.

One commit is in flight at a time, and changes that arrive in the meantime gather for the next one: the slower the disk,
the larger the batches. A caller that waits for an answer starts a commit in the same iteration of the loop. A change
that no caller waits for (mostly a settled delivery) starts one a little later, so that it can share a commit, or need
none because a reference that was put is removed again.

A batch is cut in a callback of its own on the loop: between other callbacks, never within one.

`lmdb` says what the changes are. This module decides when they are committed. A store has these states:

    state     entered by       what works                                    `_environment`   `_run`   `failure`
    made                       nothing on disk is touched                    None             None     None
    open      `open`           recovery reads, nothing is committed          there            None     None
    running   `start`          what gathers is committed                     there            there    None
    failed    a failed commit  messages are read, nothing is confirmed       there            there    the reason
    closed    `close`          nothing is read or committed                  None             None     as before

A store whose broker could not start is closed while it is open, and then writes nothing.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Final, Protocol

import lmdb
from attrs import frozen

from artemis_py.core.queues.queue import Queue
from artemis_py.core.queues.reference import Reference
from artemis_py.logs import named_logger
from artemis_py.store import schema
from artemis_py.store.batch import Batch
from artemis_py.store.environment import FILE_NAME, Environment
from artemis_py.store.failure import reason_of
from artemis_py.store.large import LargeFiles, Worker
from artemis_py.store.reserved_numbers import ReservedNumbers

LOGGER: Final = named_logger(__name__)

# Changes that no caller waits for are written after this time: about one commit of a common disk, so that they cost at
# most one commit in two, and a crash repeats no more settled deliveries than one commit in flight does anyway.
UNHURRIED_S: Final = 0.005


class Scheduler(Protocol):
    """The part of the event loop that the store uses."""

    def call_soon(self, callback: Callable[[], object], /) -> object:
        """Run `callback` in the next iteration of the loop."""

    def call_later(self, delay: float, callback: Callable[[], object], /) -> object:
        """Run `callback` after `delay` seconds."""


@frozen
class Run:
    """What a store has from its start to its end."""

    scheduler: Scheduler
    worker: Worker
    on_failure: Callable[[str], None]
    on_stored: Callable[[int], object]


class GroupCommit:
    """The batches of one store, and its states.

    A base class and not a part of the store, because both its state and its calls are needed for each message.
    """

    def __init__(self, folder: Path, files: LargeFiles, map_bytes: int, answers_wait: bool) -> None:
        """Keep the settings; nothing on disk is touched before `open`.

        Without `answers_wait`, callers are told at once that their messages are durable, which a crash shows to be
        wrong.
        """
        self.folder: Final = folder
        self.files: Final = files
        self.answers_wait: Final = answers_wait
        self.reserved: Final = ReservedNumbers()
        self._map_bytes: Final = map_bytes
        self._environment: Environment | None = None
        self._run: Run | None = None
        self.failure: str | None = None
        """Reason why nothing is stored any more; None while the store works."""
        self._gathering = Batch(1)
        self._in_flight: Batch | None = None
        self._has_drops = False
        """Whether drops are unfinished; each commit then continues them."""
        self._is_planned = False
        """Whether a commit is going to start, without another call of `_plan` or `_urge`."""
        self._is_urgent = False
        """Whether it starts in the coming iteration of the loop, or right after the commit in flight."""

    # -- states ----------------------------------------------------------------------------------------------

    def _open(self) -> Environment:
        """Open the environment and lock its folders. Raises StoreError."""
        self._environment = Environment(self.folder, self._map_bytes, self.files.folder)
        return self._environment

    def start(
        self,
        scheduler: Scheduler,
        worker: Worker,
        on_failure: Callable[[str], None],
        on_stored: Callable[[int], object],
    ) -> None:
        """Begin to store the core's changes.

        `on_failure` is called with the reason when storing ends, `on_stored` with the number of each durable batch.
        """
        self._run = Run(scheduler, worker, on_failure, on_stored)
        self.files.worker = worker

    def close(self, queues: list[Queue]) -> None:
        """Write the rest, note where the queues' sequences stand, and close. The worker must have ended before.

        Callers that still wait are not answered any more.
        """
        environment, run = self._environment, self._run
        if environment is None:
            return
        self._environment = None
        self._run = None
        self.files.worker = None
        batch = self._gathering
        self._gathering = Batch()
        try:
            if self.failure is None and run is not None:
                self._write_rest(environment, batch, queues)
        except (lmdb.Error, OSError) as error:
            reason = reason_of(error, self.folder / FILE_NAME)
            LOGGER.error("the last commit failed: folder=%s reason=%s", self.folder, reason)
        finally:
            self.files.close()
            environment.close()

    def _write_rest(self, environment: Environment, batch: Batch, queues: list[Queue]) -> None:
        if self._in_flight is not None and not self._in_flight.is_written:
            # The worker ended before it began this batch.
            environment.write(self._in_flight)
        for queue in queues:
            if queue.is_stored:
                key = schema.U32.pack(queue.id)
                batch.definitions[(schema.MARKS, key)] = schema.number_value(key, queue.next_sequence)
        if batch.puts:
            self.reserved.reserve(batch)
        environment.write(batch)
        for id in batch.freed:
            self.files.no_longer_stored(id, batch.bodies.get(id))

    # -- answers ---------------------------------------------------------------------------------------------

    @property
    def batch(self) -> int:
        """Number of the batch that gathers now; see `Storage`."""
        return self._gathering.number

    @property
    def committed(self) -> int:
        """Number of the last batch that was committed; see `Storage`."""
        return self._gathering.number - 1 if self._in_flight is None else self._in_flight.number - 1

    def when_durable(self, callback: Callable[[], None], failed: Callable[[str], None] | None = None) -> None:
        """Run `callback` once everything gathered so far is committed; see `Storage`."""
        if self.failure is not None:
            if failed is not None:
                failed(self.failure)
            return
        batch = self._gathering
        if not self.answers_wait or (self._in_flight is None and not batch.has_work and not batch.waiting):
            callback()
            return
        batch.waiting.append((callback, failed))
        self._urge()

    def hurry(self, reference: Reference) -> None:
        """Commit what has gathered if this reference is in it; see `Storage`."""
        if reference.batch == self._gathering.number:
            self._urge()

    # -- commits ---------------------------------------------------------------------------------------------

    def _urge(self) -> None:
        """Have the commit start in the coming iteration of the loop, or right after the one in flight."""
        if not self._is_urgent:
            self._is_urgent = True
            self._is_planned = True
            if self._run is not None and self._in_flight is None:
                self._run.scheduler.call_soon(self._commit)

    def _plan(self) -> None:
        """Have a commit start, without hurry; after the commit in flight the next batch is cut anyway."""
        if self._run is not None:
            self._is_planned = True
            if self._in_flight is None:
                self._run.scheduler.call_later(UNHURRIED_S, self._commit)

    def _commit(self) -> None:
        """Cut the batch and hand it to the worker, unless a commit is in flight or there is nothing to do."""
        if self._in_flight is not None or self.failure is not None:
            return
        batch = self._gathering
        self._is_planned = False
        self._is_urgent = False
        if not batch.has_work and not self._has_drops:
            if batch.waiting:
                self._gathering = Batch(batch.number + 1)
                self._answer(batch)
            return
        environment = self._environment
        if environment is None or self._run is None:
            return
        self.reserved.reserve(batch)
        self._gathering = Batch(batch.number + 1)
        self._in_flight = batch
        self._run.worker.submit(lambda: environment.try_write(batch), self._committed)

    def _committed(self, failure: str | None) -> None:
        batch = self._in_flight
        assert batch is not None
        self._in_flight = None
        if failure is not None:
            self._fail(failure, batch)
            return
        self._has_drops = batch.has_more
        batch.release()
        for id in batch.freed:
            # What has gathered since then may refer to it again; the next commit then checks it again.
            if id not in self._gathering.bodies:
                self.files.no_longer_stored(id, batch.bodies.get(id))
        self._answer(batch)
        # What has gathered since then is committed now if a caller waits for it, and soon otherwise.
        self._is_planned = False
        if self._is_urgent:
            self._commit()
        elif self._gathering.has_work or self._has_drops:
            self._plan()

    def _answer(self, batch: Batch) -> None:
        for callback, _ in batch.waiting:
            try:
                callback()
            except Exception:  # the edge of a connection: its errors must not stop the store
                LOGGER.exception("an answer could not be given")
        # After the answers, because they may have sent something that is to be delivered now.
        if self._run is not None:
            self._run.on_stored(batch.number)

    def _fail(self, reason: str, batch: Batch) -> None:
        """Stop storing, and give all callers that wait the reason; nothing is confirmed from now on."""
        self.failure = reason
        LOGGER.error(
            "the store failed, nothing is stored or confirmed until a restart: folder=%s reason=%s",
            self.folder,
            reason,
        )
        waiting = [*batch.waiting, *self._gathering.waiting]
        # The number stays the same: what the batch contained was never committed.
        self._gathering = Batch(batch.number)
        self._in_flight = None
        if self._run is not None:
            self._run.on_failure(reason)
        for _, failed in waiting:
            if failed is not None:
                failed(reason)
