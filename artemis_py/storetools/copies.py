"""`data backup` and `data compact`: a store copied as it is at one moment, without its free space.

A copy is made in another folder, and its journal is moved into place last, in one step, so that an interruption leaves
no half store behind.
"""

import os
import shutil
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures import TimeoutError as NotYet
from pathlib import Path
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
from artemis_py.storetools.bodies import opened_with_bodies
from artemis_py.storetools.snapshot import Progress, Snapshot, opened

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
    interrupted backup left. Large bodies are below `folder` unless their folder is named. Returns the size of the copy
    in bytes; `progress` counts bytes too. Raises StoreError.
    """
    aside = target / NEW_NAME
    try:
        target.mkdir(parents=True, exist_ok=True)
        _check_free(target, is_resumed=aside.exists())
        shutil.rmtree(aside, ignore_errors=True)
        (aside / JOURNAL_NAME).mkdir(parents=True)
        with opened_with_bodies(folder, large_messages_folder) as (snapshot, bodies):
            _check_sound(snapshot)
            copied = _copy_bodies(snapshot, bodies.folder, aside / LARGE_MESSAGES_NAME, progress)
            size = _copy(snapshot, aside / JOURNAL_NAME, progress, copied)
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


def _copy_bodies(snapshot: Snapshot, source: Path, target: Path, progress: Progress) -> int:
    """Copy and sync the bodies that the snapshot refers to; return their size in bytes. Raises OSError.

    A body that is missing is missing in the copy too: its message is damaged in both, and the others are not.
    """
    target.mkdir()
    size = 0
    for key in snapshot.keys(schema.BODIES):
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


def _copy(snapshot: Snapshot, target: Path, progress: Progress, copied: int = 0) -> int:
    """Copy and sync LMDB's file; `copied` bytes of other files come before it in the progress.

    Returns the size of all. Raises StoreError, OSError.
    """
    with ThreadPoolExecutor(1) as thread:
        total = copied + snapshot.used_bytes
        # LMDB copies in one call and lets other threads run in the meantime: this one reports the progress.
        copying = thread.submit(snapshot.environment.copy, str(target), compact=True)
        while True:
            try:
                copying.result(LOOK_S)
                break
            except NotYet:
                file = target / FILE_NAME
                progress(min(copied + (file.stat().st_size if file.exists() else 0), total), total)
            except lmdb.Error as error:
                reason = reason_of(error, target / FILE_NAME)
                raise StoreError(f"the store cannot be copied to {target}: {reason}") from error
    progress(total, total)
    with (target / FILE_NAME).open("rb") as copy:
        os.fsync(copy.fileno())
        return copied + os.fstat(copy.fileno()).st_size
