"""The LMDB environment on disk: opening it for one broker only, and writing batches into it.

LMDB's rules (measured and read): the map is never writable (a full disk would be a SIGBUS), every commit syncs its data
before its meta page, and uncommitted changes are never visible. So a crash leaves the last commit, and there is nothing
to recover or to compact. A commit that failed may or may not have reached the disk, and the kernel reports a lost write
only once, so nothing is retried after it.
"""

import mmap
import os
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from threading import Lock
from types import TracebackType
from typing import Final

import lmdb

from artemis_py.core.messages.message import MessageFormat
from artemis_py.core.messages.record import Bodies
from artemis_py.core.queues.page import Page, PageRequest
from artemis_py.core.queues.queue import Queue
from artemis_py.errors import StoreError
from artemis_py.logs import named_logger
from artemis_py.store import schema
from artemis_py.store.batch import Batch
from artemis_py.store.condition import Damage, examine, has_note, leave_note, remove_note
from artemis_py.store.failure import reason_of
from artemis_py.store.folder_lock import FolderLock
from artemis_py.store.format import check_format, mark
from artemis_py.store.inherited import PREFIX, Inherited
from artemis_py.store.large import body_files
from artemis_py.store.last_values import Found, look_up
from artemis_py.store.pages import PageReader
from artemis_py.store.salvage import copy_readable
from artemis_py.store.writer import DROP_SLICE, PAGE_BYTES, Writer

LOGGER: Final = named_logger(__name__)

FILE_NAME: Final = "data.mdb"
NEW_NAME: Final = "new"
"""Folder in which a new file is built before it is moved to its place."""

DAMAGED_SUFFIX: Final = ".damaged"
"""Suffix of a file that was set aside; from the second such file on, a number follows."""

MAX_PROBLEMS_LOGGED: Final = 20

# The map only reserves address space; the file grows with its content. The map is doubled when it is used up.
INITIAL_MAP_BYTES: Final = 1 << 30

# Pages of the map that were touched count as memory of the process until they are unmapped. Mapping them again costs
# some 20 us and a page fault for every 16 pages that are touched again.
MAPPED_BYTES: Final = 32 << 20


def map_size_for(file: Path, map_bytes: int = INITIAL_MAP_BYTES) -> int:
    """Return a size for the map in bytes, at least twice that of the file."""
    size = file.stat().st_size if file.exists() else 0
    while map_bytes < 2 * size:
        map_bytes *= 2
    return map_bytes


def resident_file_bytes() -> int:
    """Return how many bytes of the process's memory are pages of files; 0 where the system does not tell (not Linux).

    Counting the touched bytes is not enough: the system also maps the neighbours of a page, which are of no use to
    references that are put in no order (those that wait for their delivery time).
    """
    try:
        with open("/proc/self/statm", "rb") as file:
            return int(file.read().split()[2]) * mmap.PAGESIZE
    except (OSError, ValueError, IndexError):
        return 0


def sync_folder(folder: Path) -> None:
    """Make the names in a folder durable."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


class Environment:
    """An open store, used by one thread at a time: the starting one, then the worker. `read_all` is for any thread."""

    def __init__(
        self,
        folder: Path,
        map_bytes: int = INITIAL_MAP_BYTES,
        large_messages_folder: Path | None = None,
        for_import: bool = False,
    ) -> None:
        """Open or create the store in `folder`, and lock the folder of its large messages if one is given.

        A store that an import left half filled is opened `for_import` only. The readable part of a damaged store is
        copied into a new one first, and the log says what is lost; an import refuses a damaged store. Raises StoreError
        with what to do. Long because a step that fails has to undo the steps before it.
        """
        self.folder: Final = folder
        self._locks: list[FolderLock] = []
        self._take(folder, "journal-directory")
        if large_messages_folder is not None:
            self._take(large_messages_folder, "large-messages-directory")
            self._check_belongs(large_messages_folder)
        self._resizing = Lock()
        """Lock for reading and resizing: LMDB's map may only change its size while no thread reads."""
        self.drop_slice = DROP_SLICE
        """Most references of a purge that one commit deletes."""
        self._resident_before = resident_file_bytes()
        self._touched_bytes = 0
        """Bytes touched since the file was mapped, approximately."""
        self._is_sound = True
        """Whether no write has failed, so that the file is what LMDB meant to write."""
        try:
            if (folder / FILE_NAME).exists():
                self._examine(large_messages_folder, for_import)
            else:
                self._create()
            remove_note(folder / FILE_NAME)
        except StoreError:
            self._release()
            raise
        except (lmdb.Error, OSError) as error:
            self._release()
            reason = reason_of(error, folder / FILE_NAME)
            raise StoreError(f"the store in {folder} cannot be opened: {reason}") from error
        try:
            self._env = self._open(map_bytes)
            with self._env.begin(write=True) as transaction:
                self.databases = {name: self._env.open_db(name, txn=transaction) for name in schema.DATABASES}
                check_format(folder, self.databases, transaction, for_import)
                if not for_import:
                    self._check_whole(transaction)
            self.inherited: Final = Inherited(self.read_all(schema.RECORDS, PREFIX))
            """Ranges of one queue that belong to another one."""
        except (lmdb.Error, OSError) as error:
            self._release()
            reason = reason_of(error, folder / FILE_NAME)
            raise StoreError(f"the store in {folder} cannot be opened: {reason}") from error
        except StoreError:
            self._env.close()
            self._release()
            raise

    def _take(self, folder: Path, setting: str) -> None:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._locks.append(FolderLock(folder, setting))
        except OSError as error:
            self._release()
            raise StoreError(f"{folder} cannot be created: {error.strerror}") from error
        except StoreError:
            self._release()
            raise

    def _check_belongs(self, large_messages_folder: Path) -> None:
        """Raise StoreError if a new store has files of large messages.

        A new store refers to no file: those in the folder belong to another store, and would be deleted.
        """
        if not (self.folder / FILE_NAME).exists() and next(body_files(large_messages_folder), None) is not None:
            self._release()
            raise StoreError(
                f"the store in {self.folder} is new, but {large_messages_folder} holds large messages of another one: "
                "name the journal-directory that belongs to them, or delete them"
            )

    def _release(self) -> None:
        """Let other processes use the folders."""
        for lock in self._locks:
            lock.release()
        self._locks.clear()

    def _create(self) -> None:
        """Make an empty store in another folder, and move it to its place in one step.

        LMDB writes the first pages of a file without further care: a crash in the middle would leave a file that cannot
        be opened.
        """
        aside = self.folder / NEW_NAME
        shutil.rmtree(aside, ignore_errors=True)
        aside.mkdir()
        with lmdb.open(str(aside), max_dbs=len(schema.DATABASES)) as environment:
            environment.sync(True)
        (aside / FILE_NAME).replace(self.folder / FILE_NAME)
        shutil.rmtree(aside)
        sync_folder(self.folder)

    def _examine(self, large_messages_folder: Path | None, for_import: bool) -> None:
        """Make sure that LMDB can open the file safely. Raises StoreError, lmdb.Error, OSError."""
        file = self.folder / FILE_NAME
        if not has_note(file):
            LOGGER.info("checking the pages of the store, because it was not stopped cleanly: file=%s", file)
        damage = examine(file)
        if damage is None:
            return
        if for_import:
            raise StoreError(
                f"the store {file} is damaged: {damage.problems[0]}; start a broker on it, which takes over what can "
                "be read"
            )
        self._salvage(damage, large_messages_folder)

    def _salvage(self, damage: Damage, large_messages_folder: Path | None) -> None:
        """Replace a damaged file by what can be read of it, and keep the file under another name.

        Raises StoreError, lmdb.Error, OSError.
        """
        file = damage.path
        LOGGER.error("the store is damaged: file=%s problems=%d", file, len(damage.problems))
        for problem in damage.problems[:MAX_PROBLEMS_LOGGED]:
            LOGGER.error("damaged: %s", problem)
        ids = [] if large_messages_folder is None else [id for id, _ in body_files(large_messages_folder)]
        aside = self.folder / NEW_NAME
        shutil.rmtree(aside, ignore_errors=True)
        aside.mkdir()
        try:
            map_bytes = map_size_for(file, 2 * INITIAL_MAP_BYTES)
            losses = copy_readable(damage, aside, map_bytes, max(ids, default=0) + 1)
        except (lmdb.Error, OSError) as error:
            reason = reason_of(error, file)
            shutil.rmtree(aside, ignore_errors=True)
            raise StoreError(
                f"the store {file} is damaged, and what can be read of it cannot be copied: {reason}. "
                f"Nothing was changed. Make room for {file.stat().st_size} bytes if the disk is full; `artemis-py data "
                "export` saves what can be read"
            ) from error
        kept = _set_aside(file)
        (aside / FILE_NAME).replace(file)
        shutil.rmtree(aside)
        sync_folder(self.folder)
        for loss in losses:
            LOGGER.error("lost: %s", loss)
        LOGGER.error(
            "the broker continues with what could be read of the store; put a backup in its place if you need what is "
            "lost, or delete the damaged file: kept=%s",
            kept,
        )

    def _open(self, map_bytes: int) -> lmdb.Environment:
        map_bytes = map_size_for(self.folder / FILE_NAME, map_bytes)
        # No read-ahead: a backlog is not read in the order of its pages.
        return lmdb.open(str(self.folder), map_size=map_bytes, max_dbs=len(schema.DATABASES), readahead=False)

    def _check_whole(self, transaction: lmdb.Transaction) -> None:
        if transaction.get(schema.IMPORT, db=self.database(schema.META)) is not None:
            raise StoreError(
                f"an import into the store in {self.folder} was not finished: run `artemis-py data import` with the "
                "same file again, it continues where it stopped"
            )

    def database(self, name: bytes) -> "lmdb._Database":
        """Return the handle of a named database."""
        return self.databases[name]

    def begin(self, write: bool = False) -> lmdb.Transaction:
        """Begin a transaction of LMDB, and return it."""
        return self._env.begin(write=write)

    def read_all(self, database: bytes, prefix: bytes) -> list[tuple[bytes, bytes]]:
        """Return the last commit's keys that begin with `prefix`, in order, with their values. Raises lmdb.Error."""
        found: list[tuple[bytes, bytes]] = []
        with self._resizing, self.begin() as transaction:
            cursor = transaction.cursor(db=self.database(database))
            if cursor.set_range(prefix):
                for key, value in cursor:
                    if not bytes(key).startswith(prefix):
                        break
                    found.append((bytes(key), bytes(value)))
        return found

    def keys_after(self, database: bytes, prefix: bytes, after: bytes, limit: int) -> list[bytes]:
        """Return at most `limit` keys of the last commit behind `after` that begin with `prefix`. Raises lmdb.Error."""
        found: list[bytes] = []
        with self._resizing, self.begin() as transaction:
            cursor = transaction.cursor(db=self.database(database))
            there = cursor.set_range(max(prefix, after))
            if there and bytes(cursor.key()) == after:
                there = cursor.next()
            while there and len(found) < limit and bytes(cursor.key()).startswith(prefix):
                found.append(bytes(cursor.key()))
                there = cursor.next()
        return found

    def find_last(self, key: bytes) -> Found | None:
        """Return the entry of a last-value key, None if there is none. Raises lmdb.Error."""
        with self._resizing, self.begin() as transaction:
            self._touched_bytes += PAGE_BYTES
            return look_up(self.databases, transaction, key)

    def read_page(
        self,
        formats: Mapping[str, MessageFormat],
        bodies: Bodies,
        queue: Queue,
        request: PageRequest,
        above: int,
    ) -> tuple[Page, list[tuple[bytes, bytes, bytes, str]]]:
        """Return a page of a queue, and the values found damaged on the way; see `PageReader`. Raises lmdb.Error."""
        with self._resizing, self.begin() as transaction:
            reader = PageReader(self.databases, transaction, formats, bodies, self.inherited)
            page = reader.read(queue, request, above)
            self._touched_bytes += reader.read_bytes
        return page, reader.damaged

    @property
    def is_due_to_unmap(self) -> bool:
        """Whether pages of the map take more memory than they should."""
        return self._touched_bytes > MAPPED_BYTES

    def close(self) -> None:
        """Close the files and let other processes use the folders."""
        self._env.close()
        if self._is_sound:
            leave_note(self.folder / FILE_NAME)
        self._release()

    def __enter__(self) -> "Environment":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    # -- writing -----------------------------------------------------------------------------------------------

    def try_write(self, batch: Batch, place: bytes | None = None) -> str | None:
        """Write a batch, in the worker; return None, or the reason why it is not durable. See `write`."""
        try:
            self.write(batch, place)
        except (lmdb.Error, OSError) as error:
            return reason_of(error, self.folder / FILE_NAME)
        except Exception as error:  # the edge of a thread: whatever the error is, this batch must not be confirmed
            LOGGER.exception("a batch could not be written")
            return f"{type(error).__name__}: {error}"
        return None

    def write(self, batch: Batch, place: bytes | None = None, is_logged: bool = True) -> None:
        """Make a batch durable as a whole, after the large bodies that it refers to.

        With a `place` in the log, note which batches of the log the file has now, and whether the log may have others.
        Raises lmdb.Error or OSError if that fails; the batch may or may not be durable then.
        """
        touched_bytes = 0
        ended: set[int] = set()

        def change(transaction: lmdb.Transaction) -> None:
            nonlocal touched_bytes, ended
            writer = Writer(self.databases, transaction, self.drop_slice, self.inherited)
            writer.write(batch)
            touched_bytes, ended = writer.touched_bytes, writer.ended
            self.mark_inheriting(transaction, ended)
            if place is not None:
                transaction.put(schema.LOG, place, db=self.database(schema.META))
                if not is_logged:
                    mark(self.databases, transaction, schema.LOGGED, False)

        if batch.bodies:
            sync_bodies(batch)
        self.apply(change)
        self.forget_inherited(ended)
        batch.is_written = True
        self._touched_bytes += touched_bytes
        if self._touched_bytes > MAPPED_BYTES or resident_file_bytes() > self._resident_before + MAPPED_BYTES:
            self.unmap()

    def apply(self, change: Callable[[lmdb.Transaction], None]) -> None:
        """Make the changes that `change` makes durable as a whole; raises the errors of `write`.

        `change` is called again if the map had to grow.
        """
        while True:
            try:
                with self.begin(write=True) as transaction:
                    change(transaction)
                return
            except lmdb.MapFullError:
                # Nothing was written: LMDB notices that the map is used up before it writes the first page.
                with self._resizing:
                    self._env.set_mapsize(2 * self._env.info()["map_size"])
            except (lmdb.Error, OSError):
                self._is_sound = False
                raise

    def drop_all(self) -> None:
        """Delete everything that was still to be deleted when the last run ended. Raises lmdb.Error."""
        has_more = True
        while has_more:
            with self.begin(write=True) as transaction:
                writer = Writer(self.databases, transaction, self.drop_slice, self.inherited)
                has_more = writer.drop_some()
                self.mark_inheriting(transaction, writer.ended)
            self.forget_inherited(writer.ended)

    def mark_inheriting(self, transaction: lmdb.Transaction, ended: set[int]) -> None:
        """Write in the format whether queues have inherited ranges besides those that `ended` in this transaction."""
        ranges = self.inherited.by_source
        if ranges or ended:
            mark(self.databases, transaction, schema.INHERITING, len(ranges) > len(ended))

    def forget_inherited(self, ended: set[int]) -> None:
        """Forget the ranges that ended in the last transaction."""
        for source_id in ended:
            self.inherited.forget(source_id)

    def unmap(self) -> None:
        """Give back the memory of file pages that were read or written; they stay in the system's cache.

        It must not be called while a transaction is open.
        """
        with self._resizing:
            self._touched_bytes = 0
            self._env.set_mapsize(self._env.info()["map_size"])


def _set_aside(file: Path) -> Path:
    """Give a damaged file a second name, and return that; the first name is reused next. Raises OSError."""
    number = 1
    while True:
        kept = file.with_name(file.name + DAMAGED_SUFFIX + (f"-{number}" if number > 1 else ""))
        try:
            os.link(file, kept)
            return kept
        except FileExistsError:
            number += 1
        except OSError:
            # The file system has no hard links. The file is not renamed instead, because a crash right after that
            # would leave no file, and the store would count as new.
            shutil.copyfile(file, kept)
            return kept


def sync_bodies(batch: Batch) -> None:
    """Make the large bodies that a batch refers to durable, their content and names. Raises OSError."""
    folders = set()
    for reference in batch.puts.all():
        body = reference.message.large
        if body is not None and batch.bodies[body.id].sync():
            folders.add(batch.bodies[body.id].path.parent)
    for folder in folders:
        sync_folder(folder)
        # The folder itself may be as new as its first file.
        sync_folder(folder.parent)
