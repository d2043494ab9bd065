"""`data backup` and `data compact`: a store copied as it is at one moment, without its free space.

A copy is made in another folder, and its journal is moved into place last, in one step, so that an interruption leaves
no half store behind.
"""

import os
import shutil
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures import TimeoutError as NotYet
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import lmdb

from artemis_py.errors import StoreError
from artemis_py.store import schema
from artemis_py.store.condition import leave_note
from artemis_py.store.environment import FILE_NAME, NEW_NAME, sync_folder
from artemis_py.store.failure import reason_of
from artemis_py.store.folder_lock import FolderLock
from artemis_py.store.large import body_path
from artemis_py.store.lmdb import LARGE_MESSAGES_NAME
from artemis_py.store.log.segment import FOLDER_NAME
from artemis_py.storetools.bodies import opened_with_bodies
from artemis_py.storetools.snapshot import Progress, Snapshot, is_logged, opened
from artemis_py.storetools.unfolded import check_copy, copy_log, fold_copy, log_state, wait_until_folded

JOURNAL_NAME: Final = "journal"
CHUNK_BYTES: Final = 1 << 20
LOOK_S: Final = 0.1
"""Seconds between two reports of a copy's progress."""


def back_up(
    folder: Path,
    target: Path,
    progress: Progress = lambda done, total: None,
    large_messages_folder: Path | None = None,
) -> int:
    """Copy a store and its large bodies to `target`/journal and `target`/large-messages, even while a broker uses it.

    So `target` may be the `data` folder of an instance. It must be empty or missing, or contain only what an
    interrupted backup left. What only the write-ahead log has is written into the copy of LMDB's file. Large bodies are
    below `folder` unless their folder is named. Returns the size of the copy in bytes; `progress` counts bytes too.
    Raises StoreError.
    """
    aside = target / NEW_NAME
    try:
        target.mkdir(parents=True, exist_ok=True)
        _check_free(target, is_resumed=aside.exists())
        shutil.rmtree(aside, ignore_errors=True)
        journal = aside / JOURNAL_NAME
        journal.mkdir(parents=True)
        with opened_with_bodies(folder, large_messages_folder, lambda: copy_log(folder, journal)) as (snapshot, bodies):
            _check_sound(snapshot)
            size = _copy(snapshot, journal, progress)
            needed: Iterable[bytes] = snapshot.keys(schema.BODIES)
            if is_logged(snapshot):
                check_copy(journal, snapshot)
                needed = fold_copy(journal)
                size = (journal / FILE_NAME).stat().st_size
            shutil.rmtree(journal / FOLDER_NAME, ignore_errors=True)
            size = _copy_bodies(needed, bodies.folder, aside / LARGE_MESSAGES_NAME, progress, size)
        # Bodies first: without a journal there is no store yet.
        for name in (LARGE_MESSAGES_NAME, JOURNAL_NAME):
            sync_folder(aside / name)
            (aside / name).replace(target / name)
            sync_folder(target)
        shutil.rmtree(aside)
        sync_folder(target.parent)
    except OSError as error:
        raise StoreError(f"{error.filename or target} cannot be copied: {error.strerror}") from error
    return size


def _check_free(target: Path, is_resumed: bool) -> None:
    """Raise StoreError if the target is not empty; delete the bodies that an interrupted backup left."""
    leftovers = {NEW_NAME, LARGE_MESSAGES_NAME} if is_resumed else {NEW_NAME}
    if any(path.name not in leftovers for path in target.iterdir()):
        raise StoreError(f"{target} is not empty; a backup needs a folder of its own")
    if is_resumed:
        shutil.rmtree(target / LARGE_MESSAGES_NAME, ignore_errors=True)


def _check_sound(snapshot: Snapshot) -> None:
    """Raise StoreError if the store is damaged, because a copy has to be a store."""
    if snapshot.problems:
        raise StoreError(
            f"the store is damaged and is not copied: {snapshot.problems[0]}; a broker that starts on it takes over "
            "what can be read, and `artemis-py data export` saves it"
        )


def _copy_bodies(keys: Iterable[bytes], source: Path, target: Path, progress: Progress, size: int) -> int:
    """Copy and sync the bodies with these keys; `size` bytes were copied before. Return the size of all.

    Raises OSError. A body that is missing is missing in the copy too: its message is damaged in both, and the others
    are not.
    """
    target.mkdir()
    for key in keys:
        id = schema.U64.unpack(key)[0]
        path = body_path(source, id)
        if not path.exists():
            continue
        with path.open("rb") as original, body_path(target, id).open("wb") as copy:
            shutil.copyfileobj(original, copy, CHUNK_BYTES)
            copy.flush()
            os.fsync(copy.fileno())
            size += copy.tell()
        progress(size, 0)
    return size


def compact(folder: Path, progress: Progress = lambda done, total: None) -> tuple[int, int]:
    """Give back the free space of a store that no broker uses; return its sizes before and after. Raises StoreError."""
    file = folder / FILE_NAME
    if not file.exists():
        raise StoreError(f"there is no store in {folder}")
    lock = FolderLock(folder)
    try:
        before = file.stat().st_size
        aside = folder / NEW_NAME
        shutil.rmtree(aside, ignore_errors=True)
        aside.mkdir()
        with opened(folder, holds_lock=True) as snapshot:
            _check_sound(snapshot)
            after = _copy(snapshot, aside, progress)
        (aside / FILE_NAME).replace(file)
        shutil.rmtree(aside)
        sync_folder(folder)
        leave_note(file)
        return before, after
    except OSError as error:
        raise StoreError(f"{error.filename}: {error.strerror}") from error
    finally:
        lock.release()


@contextmanager
def folded(folder: Path, beside: Path) -> Iterator[tuple[Path, list[str]]]:
    """Yield a store with all that was confirmed before, and lines about what is damaged in its log or left out.

    That is `folder`, if a broker uses it and folds its log, or if there is nothing to fold. Otherwise a copy of LMDB's
    file, in the folder `beside`, gets what the log has. A damaged file is not copied. Raises StoreError, OSError.
    """
    if not (folder / FOLDER_NAME).is_dir() or wait_until_folded(folder):
        yield folder, []
        return
    with opened(folder) as snapshot:
        state = log_state(folder, snapshot)
        is_damaged = bool(snapshot.problems)
    lines = [f"damaged: {problem}" for problem in state.problems]
    if is_damaged and state.batches:
        lines.append(f"{state.batches} commits that are in the write-ahead log only, because the file is damaged")
    if is_damaged or not state.batches:
        yield folder, lines
        return
    with TemporaryDirectory(prefix=".log-", dir=beside) as name:
        copy = Path(name)
        copy_log(folder, copy)
        with opened(folder) as snapshot:
            _copy(snapshot, copy, lambda done, total: None)
        fold_copy(copy)
        yield copy, lines


def _copy(snapshot: Snapshot, target: Path, progress: Progress) -> int:
    """Copy and sync LMDB's file, and return its size. Raises StoreError, OSError."""
    with ThreadPoolExecutor(1) as thread:
        total = snapshot.used_bytes
        # LMDB copies in one call and lets other threads run in the meantime: this one reports the progress.
        copying = thread.submit(snapshot.copy_to, target)
        while True:
            try:
                copying.result(LOOK_S)
                break
            except NotYet:
                file = target / FILE_NAME
                progress(min(file.stat().st_size if file.exists() else 0, total), total)
            except lmdb.Error as error:
                reason = reason_of(error, target / FILE_NAME)
                raise StoreError(f"the store cannot be copied to {target}: {reason}") from error
    progress(total, total)
    with (target / FILE_NAME).open("rb") as copy:
        os.fsync(copy.fileno())
        return os.fstat(copy.fileno()).st_size
