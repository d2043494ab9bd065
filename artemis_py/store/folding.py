"""Folding: what the write-ahead log has is written into LMDB, many batches in one transaction.

    gathering  --commit-->  in the log  --merge-->  fold batch  --fold-->  in LMDB, and cut from the log
       loop       sync         durable                memory       sync       can be read

A batch that was appended to the log is durable, and is merged into the fold batch. A message that was put by one batch
and removed by a later one disappears there, and is never written into LMDB. One fold runs at a time, in a thread of its
own; batches that become durable in the meantime are merged into the next one.

Until it is folded, a message is in memory only, as far as readers are concerned. So a fold starts early when memory is
tight: what is to be on disk only may be forgotten after it.
"""

from collections.abc import Callable
from functools import partial
from math import inf
from time import perf_counter
from typing import Final

from artemis_py.core.queues.reference import Reference
from artemis_py.logs import named_logger
from artemis_py.store.batch import Batch
from artemis_py.store.environment import Environment, sync_bodies
from artemis_py.store.failure import reason_of
from artemis_py.store.large import Worker
from artemis_py.store.log.log import WriteAheadLog
from artemis_py.store.log_start import LogSettings, Mark

LOGGER: Final = named_logger(__name__)

# Changes, bytes of messages and bytes of records that one fold writes, approximately: enough that LMDB's syncs do not
# count, and few enough that its pages take little memory (four times the bytes at most). No account counts records.
FOLD_CHANGES: Final = 8_192
FOLD_BYTES: Final = 4 << 20
FOLD_RECORD_BYTES: Final = 256 << 10

# Changes in no order that one fold writes. Each takes a page of LMDB's memory, which is never given back, and the
# system maps up to 16 pages of the file around the one that is read: 4 MiB and 64 MiB. A fold of 8,192 had 45 MiB of
# the first, and mapped the whole file.
FOLD_SCATTERED: Final = 1_024

# Records up to this size take as long as the sync alone.
QUICK_BYTES: Final = 64 << 10

# Commits wait at so many times the size at which the log is folded, of the log, of records and of messages. Those that
# are put faster than LMDB takes them would be in memory until it is tight: 134,000 were, 100 MiB, after one million.
WAIT_FACTOR: Final = 2


class Folding:
    """The batches of a store that are durable and not in LMDB yet."""

    def __init__(
        self,
        environment: Environment,
        log: WriteAheadLog,
        mark: Mark,
        settings: LogSettings,
        on_folded: Callable[[str | None, Batch], None],
    ) -> None:
        """Begin with an empty log. `on_folded` is called on the loop, with the reason if a fold has failed."""
        self.log: Final = log
        self.mark: Final = mark
        self.worker: Worker | None = None
        """Thread that folds; set before the first commit."""
        self.folded = 0
        """Number in this run of the last batch that is in LMDB."""
        self._environment: Final = environment
        self._settings: Final = settings
        self._on_folded: Final = on_folded
        self.batch = Batch()
        """What is durable and waits for the next fold."""
        self._in_flight: Batch | None = None
        self._merged = (0, mark.number)
        """Numbers in this run and in the log of the last batch that was merged."""
        self._folding = (0, mark.number)
        """The same of the last batch in the fold that runs."""
        self._log_bytes = 0
        """Bytes that were appended and are not in a fold."""
        self._folding_bytes = 0
        self._has_drops = False
        self._append_s = inf
        """Seconds that the last append took."""

    def is_quick(self, batch: Batch, size_bytes: int) -> bool:
        """Tell whether the loop waits itself until the record of a batch, of this size, is appended."""
        return self._append_s < self._settings.longest_wait_s and size_bytes <= QUICK_BYTES and not batch.bodies

    @property
    def is_behind(self) -> bool:
        """Whether commits must wait for the fold that runs: the log is too long, or too much is in memory."""
        folding, batch = self._in_flight, self.batch
        if folding is None:
            return False
        if folding.defined_bytes + batch.defined_bytes >= WAIT_FACTOR * FOLD_RECORD_BYTES:
            return True
        if batch.puts.count >= WAIT_FACTOR * FOLD_CHANGES or batch.put_bytes >= WAIT_FACTOR * FOLD_BYTES:
            return True
        if batch.scattered >= FOLD_SCATTERED:
            # Not twice as many: they would all be in the next fold.
            return True
        return self._log_bytes + self._folding_bytes >= WAIT_FACTOR * self._settings.max_bytes

    def is_large(self, batch: Batch) -> bool:
        """Tell whether a batch must not wait for more: its records alone are enough for a fold."""
        return batch.defined_bytes >= FOLD_RECORD_BYTES

    @property
    def has_work(self) -> bool:
        """Whether there is anything to fold."""
        return self.batch.has_work

    @property
    def most_looks(self) -> int:
        """Number of looks after which a batch is committed although more is added to it."""
        return self._settings.most_looks

    @property
    def max_age_s(self) -> float:
        """Seconds that a batch may be in the log only."""
        return self._settings.max_age_s

    @property
    def is_running(self) -> bool:
        """Whether a fold runs."""
        return self._in_flight is not None

    @property
    def is_due(self) -> bool:
        """Whether it is time for a fold."""
        batch = self.batch
        if (
            self._has_drops
            or batch.moves
            or self._log_bytes >= self._settings.max_bytes
            or batch.put_bytes >= FOLD_BYTES
            or batch.defined_bytes >= FOLD_RECORD_BYTES
            or batch.scattered >= FOLD_SCATTERED
        ):
            return True
        if batch.puts.count + len(batch.removals) + len(batch.updates) + len(batch.definitions) >= FOLD_CHANGES:
            return True
        last = batch.last_put
        return last is not None and last.queue.dispatcher.account.is_tight

    def has(self, reference: Reference) -> bool:
        """Tell whether a reference that was put is durable, but not in LMDB yet."""
        return self.batch.puts.has(reference) or (self._in_flight is not None and self._in_flight.puts.has(reference))

    def definitions(self) -> list[dict[tuple[bytes, bytes], bytes | None]]:
        """Return the definitions that are not in LMDB yet, oldest first."""
        return [each.definitions for each in (self._in_flight, self.batch) if each is not None]

    def append(self, batch: Batch, record: list[bytes]) -> str | None:
        """Append the record of a batch, in parts, to the log; return the reason if it is not durable. It blocks."""
        try:
            if batch.bodies:
                sync_bodies(batch)
            began = perf_counter()
            self.log.append(self.log.last + 1, record)
            self._append_s = perf_counter() - began
        except OSError as error:
            return reason_of(error, self.log.folder)
        except Exception as error:  # the edge of a thread: whatever the error is, this batch must not be confirmed
            LOGGER.exception("a batch could not be appended to the log")
            return f"{type(error).__name__}: {error}"
        return None

    def merge(self, batch: Batch, size_bytes: int) -> bool:
        """Add the batch that was appended last, with a record of this size.

        Return True if it is the first one of a fold, and no fold runs.
        """
        is_first = self._in_flight is None and not self.batch.has_work
        self.batch.merge(batch)
        self._merged = (batch.number, self.log.last)
        self._log_bytes += size_bytes
        return is_first

    def fold(self) -> None:
        """Begin to write what was merged into LMDB, unless a fold runs or there is nothing to do."""
        if self._in_flight is not None or self.worker is None or not (self.batch.has_work or self._has_drops):
            return
        batch = self._in_flight = self.batch
        self.batch = Batch()
        self._folding = self._merged
        self._folding_bytes = self._log_bytes
        self._log_bytes = 0
        number = self._folding[1]
        self.worker.submit(partial(self._write, batch, number), self._done)

    def _write(self, batch: Batch, number: int) -> str | None:
        """Write what is folded and cut the log, in the worker; return the reason if that failed."""
        failure = self._environment.try_write(batch, self.mark.value(number))
        if failure is None:
            self.log.cut(number)
        return failure

    def _done(self, failure: str | None) -> None:
        batch = self._in_flight
        assert batch is not None
        self._in_flight = None
        self._folding_bytes = 0
        if failure is None:
            self.folded = self._folding[0]
            self._has_drops = batch.has_more
            batch.release()
        self._on_folded(failure, batch)

    def rest(self, *later: Batch) -> Batch:
        """Return everything that is not in LMDB, with batches that were not merged yet; no fold may run any more."""
        rest = Batch()
        if self._in_flight is not None and not self._in_flight.is_written:
            rest.merge(self._in_flight)
        rest.merge(self.batch)
        for batch in later:
            rest.merge(batch)
        return rest
