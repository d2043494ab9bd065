"""The write-ahead log at the start of a store: what it has and the file does not have is written into the file.

The file knows the number of the last batch that it has, because each fold writes it in the same transaction. So a crash
at any moment, also while batches are written here, leaves none out and writes none twice.

    the file says     the log has            why it can happen                   decision
    batches up to n   batches from n + 1 on  the broker was killed               they are written into the file
    batches up to n   nothing behind n       a clean stop, or nothing was sent   nothing to do
    batches up to n   batches behind a gap   a file was restored from a backup   the log sets them aside, and names them
    it needs its log  no folder              somebody deleted it                 an error is logged, the start continues
    nothing           a folder of segments   the file was damaged                the folder is renamed, an error logged

Where batches are lost, what was confirmed with them has used numbers that the file does not know of, and large bodies
that nothing refers to now. So all numbers continue far above those that the file has noted, and the bodies stay, as for
a damaged file (`salvage`). The file notes this before the log is changed: a crash finds the damage again, or the note.
"""

import os
import shutil
from pathlib import Path
from typing import Final

import lmdb
from attrs import field, frozen

from artemis_py.errors import DamagedValue, StoreError
from artemis_py.logs import named_logger
from artemis_py.store import schema
from artemis_py.store.batch_record import Replay
from artemis_py.store.environment import Environment, sync_folder
from artemis_py.store.format import is_logged, read_format
from artemis_py.store.format import mark as mark_format
from artemis_py.store.large import body_files
from artemis_py.store.log.log import WriteAheadLog
from artemis_py.store.log.options import LogOptions
from artemis_py.store.log.segment import FOLDER_NAME
from artemis_py.store.writer import Writer

LOGGER: Final = named_logger(__name__)

STORE_ID_BYTES: Final = 16

# What one transaction takes over: LMDB has its pages in memory until they are written.
REPLAY_BYTES: Final = 16 << 20


@frozen(kw_only=True)
class LogSettings:
    """When the log is folded into the store."""

    files: LogOptions = field(factory=LogOptions)
    max_bytes: int = 64 << 20
    """Size at which the log is folded. At twice this size commits wait for it."""
    max_age_s: float = 2.0
    """Seconds that a batch stays in the log only."""
    most_looks: int = 4
    """Milliseconds for which a batch waits at most while more is added to it; iterations if the loop is slower."""
    longest_wait_s: float = 0.001
    """Seconds of the last append up to which the loop waits for the next small one itself; 0: never."""


@frozen
class Mark:
    """What the file knows of its log."""

    store_id: bytes
    number: int
    """Number of the last batch that the file has."""

    def value(self, number: int) -> bytes:
        """Return the value that says that the file has the batches up to this number."""
        return schema.seal(schema.LOG, self.store_id + schema.U64.pack(number))


def read_mark(environment: Environment, transaction: lmdb.Transaction) -> Mark | None:
    """Return what the file knows of its log; None if it never had one, or if that is damaged."""
    value = transaction.get(schema.LOG, db=environment.database(schema.META))
    if value is None:
        return None
    try:
        content = schema.unseal(schema.LOG, bytes(value))
    except DamagedValue:
        return None
    if len(content) != STORE_ID_BYTES + schema.U64.size:
        return None
    return Mark(content[:STORE_ID_BYTES], schema.U64.unpack_from(content, STORE_ID_BYTES)[0])


def start_log(
    environment: Environment, settings: LogSettings | None, bodies_folder: Path | None = None
) -> tuple[WriteAheadLog, Mark] | None:
    """Write what the log has into the file, and return the log, empty, and the mark; None without `settings`.

    Without settings, a log that an earlier run left is taken over and deleted. `bodies_folder` has the large bodies.
    Raises StoreError, lmdb.Error.
    """
    folder = environment.folder / FOLDER_NAME
    is_there = folder.exists()
    with environment.begin() as transaction:
        mark = read_mark(environment, transaction)
        is_needed = is_logged(read_format(environment.databases, transaction))
    if is_needed and not is_there and (mark is None or mark.number > 0):
        LOGGER.error("the write-ahead log is missing, what was only there is lost: folder=%s", folder)
        _note_loss(environment, bodies_folder)
    if settings is None and not is_there:
        if is_needed:
            environment.apply(lambda transaction: mark_logged(environment, transaction, False))
        return None
    if mark is None:
        if is_there:
            _note_loss(environment, bodies_folder)
            _set_aside(folder)
        mark = Mark(os.urandom(STORE_ID_BYTES), 0)
    # Before the log is made: a log whose file does not know it could not be used.
    _write(environment, mark, mark.number, True)
    try:
        log = WriteAheadLog.open(folder, mark.store_id, LogOptions() if settings is None else settings.files)
    except OSError as error:
        raise StoreError(f"the write-ahead log in {folder} cannot be opened: {error}") from error
    try:
        number = _replay(environment, log, mark, bodies_folder)
        log.cut(number)
    except OSError as error:
        log.close()
        raise StoreError(f"the write-ahead log in {folder} cannot be read: {error}") from error
    except (StoreError, lmdb.Error):
        log.close()
        raise
    if settings is not None:
        return log, Mark(mark.store_id, number)
    log.close()
    _write(environment, mark, number, False)
    shutil.rmtree(folder, ignore_errors=True)
    LOGGER.info("the write-ahead log was folded into the store and deleted: folder=%s", folder)
    return None


def mark_logged(environment: Environment, transaction: lmdb.Transaction, is_needed: bool) -> None:
    """Write in the format whether the log may be needed."""
    mark_format(environment.databases, transaction, schema.LOGGED, is_needed)


def _write(environment: Environment, mark: Mark, number: int, is_needed: bool) -> None:
    def change(transaction: lmdb.Transaction) -> None:
        transaction.put(schema.LOG, mark.value(number), db=environment.database(schema.META))
        mark_logged(environment, transaction, is_needed)

    environment.apply(change)


def _note_loss(environment: Environment, bodies_folder: Path | None) -> None:
    """Note, durably, that batches are lost: numbers continue far above, and no large body is deleted."""
    ids = [] if bodies_folder is None else [id for id, _ in body_files(bodies_folder)]

    def change(transaction: lmdb.Transaction) -> None:
        meta = environment.database(schema.META)
        transaction.put(schema.CONTINUE_FAR, schema.seal(schema.CONTINUE_FAR, b""), db=meta)
        value = transaction.get(schema.KEPT_BODIES, db=meta)
        try:
            kept_below = 1 if value is None else schema.read_number(schema.KEPT_BODIES, bytes(value))
        except DamagedValue:
            kept_below = 1
        kept_below = max(kept_below, max(ids, default=0) + 1)
        transaction.put(schema.KEPT_BODIES, schema.number_value(schema.KEPT_BODIES, kept_below), db=meta)

    environment.apply(change)


def _set_aside(folder: Path) -> None:
    """Rename the folder of a log that cannot be matched with the store. Raises StoreError."""
    number = 1
    while (kept := folder.with_name(f"{folder.name}.damaged-{number}")).exists():
        number += 1
    try:
        folder.rename(kept)
        sync_folder(folder.parent)
    except OSError as error:
        raise StoreError(f"{folder} cannot be renamed: {error.strerror}") from error
    LOGGER.error("the store does not know its write-ahead log any more, what was only there is lost: kept=%s", kept)


def _replay(environment: Environment, log: WriteAheadLog, mark: Mark, bodies_folder: Path | None) -> int:
    """Write the batches behind the mark into the file; return the number of the last one. Raises StoreError."""
    done = mark.number
    count = size = found = lost = 0
    waiting: list[bytes] = []
    ended: set[int] = set()

    def change(transaction: lmdb.Transaction) -> None:
        nonlocal found
        found = 0
        ended.clear()
        for payload in waiting:
            writer = Writer(environment.databases, transaction, 0, environment.inherited)
            replay = Replay(payload, writer)
            replay.run()
            found += replay.lost
            ended.update(writer.ended)
        environment.mark_inheriting(transaction, ended)
        transaction.put(schema.LOG, mark.value(done), db=environment.database(schema.META))

    def flush() -> None:
        nonlocal lost
        if waiting:
            environment.apply(change)
            environment.forget_inherited(ended)
            environment.unmap()
            lost += found
            waiting.clear()

    def note_loss() -> None:
        # After what can be applied, which has notes of numbers as well.
        flush()
        _note_loss(environment, bodies_folder)

    try:
        for number, payload in log.read(mark.number, note_loss):
            done = number
            count += 1
            size += len(payload)
            waiting.append(payload)
            if size >= REPLAY_BYTES:
                flush()
                size = 0
        flush()
    except DamagedValue as error:
        raise StoreError(f"batch {done} of the write-ahead log in {environment.folder}: {error}") from error
    if count:
        LOGGER.info("batches of the write-ahead log were written into the store: count=%d last=%d", count, done)
    if lost:
        LOGGER.error("messages of the write-ahead log could not be found where they were to be taken from: %d", lost)
    return done
