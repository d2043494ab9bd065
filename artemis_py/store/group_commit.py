"""Group commit: changes gather in a batch, and a thread commits one batch at a time while the loop continues.

One commit is in flight at a time, and changes that arrive in the meantime gather for the next one: the slower the disk,
the larger the batches. A caller that waits for an answer starts a commit in the same iteration of the loop. A change
that no caller waits for (mostly a settled delivery) starts one a little later, so that it can share a commit, or need
none because a reference that was put is removed again.

A batch is cut in a callback of its own on the loop: between other callbacks, never within one.

With a log (`folding`), a commit appends to it. That is so quick that a batch would be cut too early: most messages
would be written just before they are consumed, and each connection would be answered more often than it has to be. So
the batch is looked at: a small one is committed at once, a larger one when nothing was added since the last look, after
a number of looks, when its records are enough for a fold, or at once when all its messages were consumed, so that
nothing is to be written. Looks are counted and not the time, because a message is consumed after some iterations of the
loop, however long they are. If the disk is quick and the record small, the loop waits for the sync itself, which costs
less than waking another thread twice. A caller whose messages nobody consumes before they are durable, such as a mesh,
hastens it: then it is not looked at.

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
from functools import partial
from pathlib import Path
from typing import Final, Protocol

import lmdb
from attrs import frozen

from artemis_py.core.queues.queue import Queue
from artemis_py.core.queues.reference import Reference
from artemis_py.errors import StoreError
from artemis_py.logs import named_logger
from artemis_py.store import schema
from artemis_py.store.batch import Batch
from artemis_py.store.batch_record import encode_batch
from artemis_py.store.environment import FILE_NAME, Environment
from artemis_py.store.failure import reason_of
from artemis_py.store.folding import Folding
from artemis_py.store.gathering import Gathering
from artemis_py.store.large import LargeFiles, Worker
from artemis_py.store.log_start import LogSettings, start_log

LOGGER: Final = named_logger(__name__)

# Changes that no caller waits for are written after this time, or twice this time if other batches are committed in the
# meantime: one or two commits of a common disk, so that they cost at most one commit in two, and a crash repeats hardly
# more settled deliveries than one commit in flight does anyway.
UNHURRIED_S: Final = 0.005

# A batch of so many changes is appended to the log at once: its callers are few, and most likely wait for these answers
# before they send more.
SMALL_CHANGES: Final = 64

# Changes from which on a batch can be hastened: about a millisecond of work, so that the sync, which may take as long,
# is not made for less.
HASTE_CHANGES: Final = 400

# Time between two looks at a larger batch: the shortest for which the loop can sleep.
LOOK_S: Final = 0.001


class Planned(Protocol):
    """A call that the event loop will make."""

    def cancel(self) -> None:
        """Have it not made."""


class Scheduler(Protocol):
    """The part of the event loop that the store uses."""

    def call_soon(self, callback: Callable[[], object], /) -> object:
        """Run `callback` in the next iteration of the loop."""

    def call_later(self, delay: float, callback: Callable[[], object], /) -> Planned:
        """Run `callback` after `delay` seconds."""


@frozen
class Run:
    """What a store has from its start to its end."""

    scheduler: Scheduler
    worker: Worker
    on_failure: Callable[[str], None]
    on_stored: Callable[[int], object]


class GroupCommit(Gathering):
    """The batches of one store, and its states.

    A base class and not a part of the store, because both its state and its calls are needed for each message.
    """

    def __init__(
        self, folder: Path, files: LargeFiles, map_bytes: int, answers_wait: bool, log: LogSettings | None
    ) -> None:
        """Keep the settings; nothing on disk is touched before `open`.

        Without `answers_wait`, callers are told at once that their messages are durable, which a crash shows to be
        wrong. Without `log`, each batch is committed to LMDB.
        """
        super().__init__()
        self.folder: Final = folder
        self.files: Final = files
        self.answers_wait: Final = answers_wait
        self._map_bytes: Final = map_bytes
        self._log_settings: Final = log
        self._folding: Folding | None = None
        """What becomes of the batches that the log has; None without a log."""
        self._environment: Environment | None = None
        self._run: Run | None = None
        self._in_flight: Batch | None = None
        self._has_drops = False
        """Whether drops are unfinished; each commit then continues them."""
        self._is_urgent = False
        """Whether it starts soon, or right after the commit in flight, because a caller waits for it."""
        self._looks = 0
        """Looks at the gathering batch since a caller waits for it; only with a log."""
        self._changes_seen = 0
        """Changes that it had at the last look."""
        self._is_due = False
        """Whether it needs no other look, and is committed right after the commit in flight."""
        self._has_timer = False
        """Whether a timer is set that commits what no caller waits for."""
        self._fold_plan: Planned | None = None
        """The fold that comes when the log is old enough; a program that embeds a broker would keep it until then."""

    # -- states ----------------------------------------------------------------------------------------------

    def _open(self) -> Environment:
        """Open the environment, lock its folders, and write what a log has into it. Raises StoreError."""
        environment = self._environment = Environment(self.folder, self._map_bytes, self.files.folder)
        try:
            started = start_log(environment, self._log_settings, self.files.folder)
        except (lmdb.Error, StoreError) as error:
            self._environment = None
            environment.close()
            if isinstance(error, StoreError):
                raise
            reason = reason_of(error, self.folder / FILE_NAME)
            raise StoreError(f"the store in {self.folder} cannot be opened: {reason}") from error
        if started is not None and self._log_settings is not None:
            self._folding = Folding(environment, *started, self._log_settings, self._folded)
        return environment

    def start(
        self,
        scheduler: Scheduler,
        worker: Worker,
        on_failure: Callable[[str], None],
        on_stored: Callable[[int], object],
        folding_worker: Worker | None = None,
    ) -> None:
        """Begin to store the core's changes.

        `on_failure` is called with the reason when storing ends, `on_stored` with the number of each durable batch.
        A log is folded by a worker of its own if there is one, so that no commit waits for it.
        """
        self._run = Run(scheduler, worker, on_failure, on_stored)
        self.files.worker = worker
        if self._folding is not None:
            self._folding.worker = folding_worker or worker
            self._tells_empty = True

    def close(self, queues: list[Queue]) -> None:
        """Write the rest, note where the queues' sequences stand, and close. The worker must have ended before.

        Callers that still wait are not answered any more.
        """
        environment, run = self._environment, self._run
        if environment is None:
            return
        self._environment = None
        self._run = None
        if self._fold_plan is not None:
            self._fold_plan.cancel()
            self._fold_plan = None
        self.files.worker = None
        batch, folding = self._gathering, self._folding
        self._gathering = Batch()
        try:
            if self.failure is None and run is not None:
                self._write_rest(environment, batch, queues)
        except (lmdb.Error, OSError) as error:
            reason = reason_of(error, self.folder / FILE_NAME)
            LOGGER.error("the last commit failed: folder=%s reason=%s", self.folder, reason)
        finally:
            if folding is not None:
                folding.log.close()
            self.files.close()
            environment.close()

    def _write_rest(self, environment: Environment, batch: Batch, queues: list[Queue]) -> None:
        for queue in queues:
            if queue.is_stored:
                key = schema.U32.pack(queue.id)
                batch.definitions[(schema.MARKS, key)] = schema.number_value(key, queue.next_sequence)
        if batch.puts.count:
            self.reserved.reserve(batch)
        in_flight, folding = self._in_flight, self._folding
        if folding is not None:
            # Whether or not the log has the batch in flight: the file has it from now on.
            batch = folding.rest(batch) if in_flight is None else folding.rest(in_flight, batch)
            # One number more, because the file now has what no batch of the log has: an older copy of the file does not
            # fit the log of the next run.
            environment.write(batch, folding.mark.value(folding.log.last + 1), is_logged=False)
            folding.log.cut(folding.log.last)
        else:
            if in_flight is not None and not in_flight.is_written:
                # The worker ended before it began this batch.
                environment.write(in_flight)
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
        if self._folding is not None:
            return self._folding.folded
        return self._gathering.number - 1 if self._in_flight is None else self._in_flight.number - 1

    @property
    def _may_unmap(self) -> bool:
        """Whether no transaction of LMDB is open in another thread."""
        return self._in_flight is None if self._folding is None else not self._folding.is_running

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

    def hasten(self) -> None:
        """Commit what has gathered without waiting for more, if it is enough; see `Storage`."""
        if self.failure is not None or self._gathering.changes < HASTE_CHANGES:
            return
        self._urge()
        if self._run is not None and self._folding is not None and not self._is_due:
            self._is_due = True
            self._run.scheduler.call_soon(self._commit_due)

    # -- commits ---------------------------------------------------------------------------------------------

    def _urge(self) -> None:
        """Have the commit start in the coming iteration of the loop, or with a log when the batch is due.

        If a commit is in flight, it starts right after that one at the earliest.
        """
        if self._is_urgent:
            return
        self._is_urgent = True
        self._is_planned = True
        if self._run is None:
            return
        if self._folding is not None:
            self._looks = 0
            self._changes_seen = 0
            self._run.scheduler.call_soon(partial(self._look, self._gathering.number))
        elif self._in_flight is None:
            self._run.scheduler.call_soon(self._commit)

    def _commit_due(self) -> None:
        """Commit the batch that was to be hastened, unless that was done."""
        if self._is_due:
            self._commit()

    def _look(self, number: int) -> None:
        """Commit the batch if it is due; otherwise look again later. What is consumed until then needs no record."""
        run, folding = self._run, self._folding
        batch = self._gathering
        if run is None or folding is None or not self._is_urgent or self._is_due or batch.number != number:
            return
        changes = batch.changes
        if (
            changes <= SMALL_CHANGES
            or changes == self._changes_seen
            or self._looks >= folding.most_looks
            or folding.is_large(batch)
        ):
            self._is_due = True
            self._commit()
            return
        self._looks += 1
        self._changes_seen = changes
        run.scheduler.call_later(LOOK_S, partial(self._look, number))

    def _empty(self) -> None:
        """Have the batch committed in the coming iteration of the loop, if it is still without work then."""
        if self._run is not None:
            self._tells_empty = False
            self._run.scheduler.call_soon(partial(self._commit_empty, self._gathering.number))

    def _commit_empty(self, number: int) -> None:
        """Answer those who wait for a batch without work: that takes no sync, and they send more without a delay."""
        self._tells_empty = True
        batch = self._gathering
        if batch.number == number and not batch.has_work:
            self._is_due = True
            self._commit()

    def _plan(self) -> None:
        """Have a commit start, without hurry; after the commit in flight the next batch is cut anyway."""
        if self._run is not None:
            self._is_planned = True
            if self._in_flight is None and not self._has_timer:
                self._set_timer(self._run)

    def _set_timer(self, run: Run) -> None:
        self._has_timer = True
        number = self._gathering.number
        run.scheduler.call_later(UNHURRIED_S, lambda: self._commit_unhurried(number))

    def _commit_unhurried(self, number: int) -> None:
        """Commit the batch that the timer was set for; if it was cut already, the next one gets its own time.

        Otherwise each batch that a caller hurried would, 5 ms later, cut short another one that nobody waits for. A
        batch that is looked at has its own time, too. There is one timer and not one for each batch, because with a
        lone sender that waits for each answer, batches are cut ten times as often as it goes off.
        """
        self._has_timer = False
        if self._folding is not None and self._is_urgent:
            return
        if self._gathering.number == number:
            self._commit()
        elif self._is_planned and self._in_flight is None and self._run is not None:
            self._set_timer(self._run)

    def _commit(self) -> None:
        """Cut the batch and hand it to the worker, unless a commit is in flight or there is nothing to do."""
        environment, run, folding = self._environment, self._run, self._folding
        if self._in_flight is not None or self.failure is not None:
            return
        if folding is not None and folding.is_behind:
            # The end of the fold calls this again.
            return
        batch = self._gathering
        self._is_planned = False
        self._is_urgent = False
        self._is_due = False
        if not batch.has_work and not self._has_drops:
            if batch.waiting:
                self._gathering = Batch(batch.number + 1)
                self._answer(batch)
            return
        if environment is None or run is None:
            return
        self.reserved.reserve(batch)
        self._gathering = Batch(batch.number + 1)
        self._in_flight = batch
        if folding is None:
            run.worker.submit(lambda: environment.try_write(batch), self._committed)
        else:
            self._append(batch, folding, run)

    def _append(self, batch: Batch, folding: Folding, run: Run) -> None:
        """Have the record of a batch appended to the log."""
        try:
            record = encode_batch(batch)
        except Exception as error:  # a mistake of ours must not leave callers waiting
            LOGGER.exception("a batch could not be encoded")
            self._fail(f"{type(error).__name__}: {error}", batch)
            return
        size = sum([len(part) for part in record])
        if folding.is_quick(batch, size) and not run.worker.is_busy:
            self._appended(folding.append(batch, record), size)
        else:
            run.worker.submit(partial(folding.append, batch, record), lambda failure: self._appended(failure, size))

    def _committed(self, failure: str | None) -> None:
        batch = self._in_flight
        assert batch is not None
        self._in_flight = None
        if failure is not None:
            self._fail(failure, batch)
            return
        self._has_drops = batch.has_more
        batch.release()
        self._free(batch)
        self._answer(batch)
        self._continue()

    def _appended(self, failure: str | None, size_bytes: int) -> None:
        """Answer what the log has, and merge it into the next fold."""
        batch, folding, run = self._in_flight, self._folding, self._run
        if batch is None or folding is None or run is None:
            # A fold has failed since.
            return
        self._in_flight = None
        if failure is not None:
            self._fail(failure, batch)
            return
        if folding.merge(batch, size_bytes):
            self._fold_later(folding, run)
        self._answer(batch)
        if folding.is_due:
            self._fold()
        self._continue()

    def _fold(self) -> None:
        """Begin a fold, unless one runs."""
        if self._folding is not None and self._run is not None and self.failure is None:
            self._folding.fold()

    def _fold_later(self, folding: Folding, run: Run) -> None:
        """Plan a fold for when the log is old enough."""
        if self._fold_plan is not None:
            self._fold_plan.cancel()
        self._fold_plan = run.scheduler.call_later(folding.max_age_s, self._fold)

    def _folded(self, failure: str | None, batch: Batch) -> None:
        """Use that LMDB has what was folded; commits may have waited for it."""
        folding, run = self._folding, self._run
        if folding is None or run is None or self.failure is not None:
            return
        if failure is not None:
            self._fail(failure, self._gathering if self._in_flight is None else self._in_flight)
            batch.fail(failure)
            return
        self._free(batch)
        if folding.is_due:
            self._fold()
        elif folding.has_work:
            self._fold_later(folding, run)
        if self._in_flight is None and (self._is_due or (self._is_planned and not self._is_urgent)):
            self._commit()

    def _free(self, batch: Batch) -> None:
        """Delete the large bodies that no stored message refers to any more, since this batch was written."""
        for id in batch.freed:
            # What has gathered since then may refer to it again; the next commit then checks it again.
            if not any(id in each.bodies for each in self._unwritten()):
                self.files.no_longer_stored(id, batch.bodies.get(id))

    def _unwritten(self) -> list[Batch]:
        found = [self._gathering]
        if self._in_flight is not None:
            found.append(self._in_flight)
        if self._folding is not None:
            found.append(self._folding.batch)
        return found

    def _continue(self) -> None:
        """Commit what has gathered since the last batch was cut: now if it is due, and soon otherwise."""
        if self._is_urgent:
            if self._folding is None or self._is_due:
                self._commit()
            return
        self._is_planned = False
        if self._gathering.has_work or self._has_drops:
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
        unwritten = [batch, *self._unwritten()]
        waiting = batch.waiting if batch is self._gathering else [*batch.waiting, *self._gathering.waiting]
        # The number stays the same: what the batch contained was never committed.
        self._gathering = Batch(batch.number)
        self._in_flight = None
        if self._run is not None:
            self._run.on_failure(reason)
        for each in unwritten:
            each.fail(reason)
        for _, failed in waiting:
            if failed is not None:
                failed(reason)
