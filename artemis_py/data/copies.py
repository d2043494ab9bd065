"""`data backup` and `data compact`: a store copied as it is at one moment, without its free space.

A copy is made aside and takes its place in one step, so that an interruption leaves no half store behind.
"""

import os
import shutil
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures import TimeoutError as NotYet
from pathlib import Path
from typing import Final

import lmdb

from artemis_py.data.snapshot import Progress, opened
from artemis_py.errors import StoreError
from artemis_py.store.environment import FILE_NAME, NEW_NAME, FolderLock, sync_folder

LOOK_S: Final = 0.1
"""How often the progress of a copy is looked at."""


def back_up(folder: Path, target: Path, progress: Progress = lambda done, total: None) -> int:
    """Copy a store, also while a broker uses it: `target` is then a folder that a broker starts from.

    `target` must be empty or missing, or hold nothing but what an interrupted backup left. Returns the size of the
    copy in bytes; `progress` counts bytes too. Raises StoreError.
    """
    if target.exists() and any(path.name != NEW_NAME for path in target.iterdir()):
        raise StoreError(f"{target} is not empty; a backup needs a folder of its own")
    try:
        target.mkdir(parents=True, exist_ok=True)
        size = _copy(folder, target / NEW_NAME, progress)
        _move_in(target)
        sync_folder(target.parent)
    except OSError as error:
        raise StoreError(f"{target} cannot be written: {error.strerror}") from error
    return size


def compact(folder: Path, progress: Progress = lambda done, total: None) -> tuple[int, int]:
    """Give back the free space of a store that no broker uses; returns its size before and after. Raises StoreError."""
    file = folder / FILE_NAME
    if not file.exists():
        raise StoreError(f"there is no store in {folder}")
    lock = FolderLock(folder)
    try:
        before = file.stat().st_size
        after = _copy(folder, folder / NEW_NAME, progress)
        _move_in(folder)
        return before, after
    except OSError as error:
        raise StoreError(f"{error.filename}: {error.strerror}") from error
    finally:
        lock.release()


def _copy(folder: Path, aside: Path, progress: Progress) -> int:
    """Copy into a folder of its own, synced; returns the size. Raises StoreError, OSError."""
    shutil.rmtree(aside, ignore_errors=True)
    with opened(folder) as snapshot, ThreadPoolExecutor(1) as thread:
        aside.mkdir()
        total = snapshot.used_bytes
        # LMDB copies in one call and lets other threads run meanwhile: this one looks how far it is.
        copying = thread.submit(snapshot.environment.copy, str(aside), compact=True)
        while True:
            try:
                copying.result(LOOK_S)
                break
            except NotYet:
                file = aside / FILE_NAME
                progress(min(file.stat().st_size if file.exists() else 0, total), total)
            except lmdb.Error as error:
                shutil.rmtree(aside, ignore_errors=True)
                raise StoreError(f"the store in {folder} cannot be copied to {aside}: {error}") from error
    progress(total, total)
    with (aside / FILE_NAME).open("rb") as copy:
        os.fsync(copy.fileno())
        return os.fstat(copy.fileno()).st_size


def _move_in(folder: Path) -> None:
    """Let the copy aside take its place."""
    aside = folder / NEW_NAME
    (aside / FILE_NAME).replace(folder / FILE_NAME)
    shutil.rmtree(aside)
    sync_folder(folder)
