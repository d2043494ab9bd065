"""The lock of a data folder, which one process at a time can have."""

import fcntl
import os
import time
from pathlib import Path
from typing import Final

from artemis_py.errors import StoreError

LOCK_NAME: Final = "broker.lock"
LOCK_ATTEMPTS: Final = 3
LOCK_PAUSE_S: Final = 0.01


class FolderLock:
    """The right to use a data folder, which one process at a time can have."""

    def __init__(self, folder: Path, setting: str = "journal-directory") -> None:
        """Lock the folder, which the option `setting` names.

        Raises StoreError if another broker uses the folder, or if it cannot be written.
        """
        path = folder / LOCK_NAME
        try:
            self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except OSError as error:
            raise StoreError(f"{path} cannot be written: {error.strerror}") from error
        try:
            self._lock()
        except OSError as error:
            owner = os.read(self._file, 32).decode("ascii", "replace").strip() or "unknown"
            os.close(self._file)
            raise StoreError(
                f"{folder} is used by another broker (process {owner}); stop that one, or give this one a "
                f"{setting} of its own"
            ) from error
        os.ftruncate(self._file, 0)
        os.write(self._file, f"{os.getpid()}\n".encode())

    def _lock(self) -> None:
        """Lock the file, in several attempts: commands that look for a broker lock it for a moment. Raises OSError."""
        for _ in range(LOCK_ATTEMPTS - 1):
            try:
                fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return
            except OSError:
                time.sleep(LOCK_PAUSE_S)
        fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def release(self) -> None:
        """Let other processes use the folder."""
        os.close(self._file)
