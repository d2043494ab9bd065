"""Large bodies as files: one file each, named by its number, in a folder of their own.

    <folder>/<id>.body     the octets of the body and nothing else

The loop writes and reads through the page cache, in the pieces that arrive on the wire. The thread that commits syncs a
file before it commits the first reference to it, and deletes it after it has committed the removal of the last. So
whenever a crash comes, a file without a reference is of no use, and the next start deletes it. Bodies of messages that
are not durable are such files too.

A body's file may be deleted while a reader has it open: an open file keeps its content.
"""

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, Protocol
from zlib import crc32

from artemis_py.core.messages.large_body import LargeBody, LargeReader
from artemis_py.errors import StoreError

SUFFIX: Final = ".body"

# A durable body is synced in pieces of this size while the rest arrives: the commit at its end, and other commits in
# the meantime, then wait for one piece (0.1 s of a common disk) and not for the whole body.
SYNC_AHEAD_BYTES: Final = 16 * 1024 * 1024

CHUNK_BYTES: Final = 128 * 1024
"""Octets read at once if the caller does not say how many."""


class Worker(Protocol):
    """A thread that runs jobs in order."""

    @property
    def is_busy(self) -> bool:
        """Whether a job runs or waits."""

    def submit(self, job: Callable[[], str | None], done: Callable[[str | None], None]) -> None:
        """Run `job`, which never raises, in the thread, then `done` with its result on the loop."""


class FileReader(LargeReader):
    """Reader of one file, which compares it with its known size and checksum."""

    def __init__(self, path: Path, size: int, checksum: int) -> None:
        """Open the file. Raises StoreError."""
        self._path: Final = path
        self._left = size
        self._checksum: Final = checksum
        self._found = 0
        try:
            self._file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError as error:
            raise StoreError(f"{path} cannot be opened: {error.strerror}") from error

    def read(self, size: int) -> bytes:
        """See `LargeReader`."""
        size = min(size, self._left)
        try:
            data = os.read(self._file, size)
        except OSError as error:
            raise StoreError(f"{self._path} cannot be read: {error.strerror}") from error
        # A read of a regular file is short only at its end: no caller asks for the 2 GiB that Linux reads at most.
        self._left -= size
        self._found = crc32(data, self._found)
        if len(data) != size or (self._left == 0 and self._found != self._checksum):
            raise StoreError(f"{self._path} is damaged")
        return data

    def close(self) -> None:
        """See `LargeReader`."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1


class FileBody(LargeBody):
    """Large body in a file."""

    def __init__(
        self, files: "LargeFiles", id: int, durable: bool, size: int = 0, checksum: int = 0, holders: int = 1
    ) -> None:
        super().__init__(id, size, checksum, holders)
        self._files: Final = files
        self._durable: Final = durable
        self._file = -1
        """Descriptor: open while the body is written, and then until it is synced if a reference to it was put."""
        self._is_synced = holders == 0
        self._synced_ahead = 0
        self._is_syncing_ahead = False
        self._failure: str | None = None
        """Reason why the body can never be durable; None if it can."""
        self.is_stored = False
        """Whether a reference to the body was put, so that a commit decides when the file is deleted."""

    @property
    def path(self) -> Path:
        """Path of the file."""
        return self._files.path(self.id)

    def create(self) -> None:
        """Make the file. Raises StoreError."""
        try:
            self._file = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
        except OSError as error:
            raise StoreError(f"a large message cannot be stored: {self.path}: {error.strerror}") from error

    def append(self, data: bytes) -> None:
        """See `LargeBody`."""
        if self._failure is not None:
            raise StoreError(f"a large message cannot be stored: {self._failure}")
        rest = memoryview(data)
        try:
            while rest:
                rest = rest[os.write(self._file, rest) :]
        except OSError as error:
            self._failure = f"{self.path}: {error.strerror}"
            raise StoreError(f"a large message cannot be stored: {self._failure}") from error
        self.checksum = crc32(data, self.checksum)
        self.size += len(data)
        if self._durable and self.size - self._synced_ahead >= SYNC_AHEAD_BYTES and not self._is_syncing_ahead:
            self._sync_ahead()

    def finish(self) -> None:
        """See `LargeBody`."""
        if self._failure is not None:
            raise StoreError(f"a large message cannot be stored: {self._failure}")
        if not self._durable:
            self.close()

    def reader(self) -> FileReader:
        """See `LargeBody`."""
        return FileReader(self.path, self.size, self.checksum)

    def hold(self) -> None:
        """See `LargeBody`."""
        super().hold()
        if self.holders == 1:
            self._files.know(self)

    def release(self) -> None:
        """See `LargeBody`. A body that waits in memory only, without a reference in the store, has no open file."""
        super().release()
        if self.holders and not self.is_stored:
            self.close()

    def discard(self) -> None:
        """Delete the file; if the store still refers to it, the commit that removes the last reference deletes it."""
        if self.is_stored:
            self._files.forget(self.id)
        else:
            self.delete()

    def delete(self) -> None:
        """Delete the file, which is needed neither in memory nor in the store."""
        self.close()
        self._files.delete(self.id)

    def sync(self) -> bool:
        """Make the file's content durable, in the worker; return False if it already is. Raises OSError."""
        if self._failure is not None:
            raise OSError(0, self._failure)
        if self._is_synced:
            return False
        if self._file < 0:
            self._file = os.open(self.path, os.O_WRONLY | os.O_CLOEXEC)
        os.fsync(self._file)
        self._is_synced = True
        self.close()
        return True

    def close(self) -> None:
        """Close the descriptor if it is open: nothing more is written or synced through it."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def _sync_ahead(self) -> None:
        worker = self._files.worker
        if worker is None:
            return
        self._synced_ahead = self.size
        self._is_syncing_ahead = True
        # The worker gets a descriptor of its own, because ours may be closed at any time.
        file = os.dup(self._file)
        worker.submit(lambda: self._sync_and_close(file), self._synced)

    def _sync_and_close(self, file: int) -> None:
        """Sync and close a descriptor, in the worker.

        A failure is kept for `sync`, which runs later: the system reports a lost write only once.
        """
        try:
            os.fdatasync(file)
        except OSError as error:
            self._failure = f"{self.path}: {error.strerror}"
        finally:
            os.close(file)

    def _synced(self, _: str | None) -> None:
        self._is_syncing_ahead = False


class LargeFiles:
    """All large bodies of one storage."""

    def __init__(self, folder: Path) -> None:
        """Keep the folder; nothing on disk is touched before `open`."""
        self.folder: Final = folder
        self.worker: Worker | None = None
        """Thread that deletes files and syncs them ahead; without one, files are deleted at once."""
        self._bodies: dict[int, FileBody] = {}
        """Bodies that may have holders, by id."""
        self._doomed: set[int] = set()
        """Ids of bodies that the worker is asked to delete."""
        self._next_id = 1

    def open(self, is_needed: Callable[[int], bool]) -> tuple[int, int]:
        """Delete the files that are not needed; return how many files and bytes. Raises StoreError."""
        count = size = 0
        try:
            for id, path in list(body_files(self.folder)):
                self._next_id = max(self._next_id, id + 1)
                if not is_needed(id):
                    count += 1
                    size += path.stat().st_size
                    path.unlink()
        except OSError as error:
            raise StoreError(f"{error.filename}: {error.strerror}") from error
        return count, size

    def path(self, id: int) -> Path:
        """Return the path of a body's file."""
        return body_path(self.folder, id)

    def create(self, durable: bool) -> FileBody:
        """Create a body, held by the caller. Raises StoreError."""
        body = FileBody(self, self._next_id, durable)
        body.create()
        self._bodies[body.id] = body
        self._next_id += 1
        return body

    def restore(self, id: int, size: int, checksum: int) -> FileBody:
        """Return a body that the store refers to, with no holders yet.

        Raises StoreError if its file is missing or has another size.
        """
        body = self._bodies.get(id)
        if body is None:
            check_file(self.path(id), size)
            body = self._bodies[id] = FileBody(self, id, True, size, checksum, holders=0)
            body.is_stored = True
        return body

    def know(self, body: FileBody) -> None:
        """Note a body that has a holder."""
        self._bodies[body.id] = body

    def forget(self, id: int) -> None:
        """Forget a body that has no holders any more; the store still refers to it."""
        self._bodies.pop(id, None)

    def no_longer_stored(self, id: int, noted: FileBody | None) -> None:
        """Delete a body, if it has no holders, after a commit removed the last reference to it.

        `noted` is the body if that batch put or removed it by name.
        """
        body = self._bodies.get(id, noted)
        if body is None:
            self.delete(id)
        elif body.holders == 0:
            body.delete()
        else:
            body.is_stored = False

    def delete(self, id: int) -> None:
        """Delete a file in the worker, because a large one takes time. If that fails, the next start deletes it."""
        self._bodies.pop(id, None)
        if self.worker is None:
            _unlink(self.path(id))
            return
        self._doomed.add(id)
        path = self.path(id)
        self.worker.submit(lambda: _unlink(path), lambda _: self._doomed.discard(id))

    def close(self) -> None:
        """Delete the files that a restart could not use. The worker must have ended before."""
        self.worker = None
        for body in list(self._bodies.values()):
            if body.is_stored:
                body.close()
            else:
                body.delete()
        for id in self._doomed:
            _unlink(self.path(id))
        self._doomed.clear()


def body_path(folder: Path, id: int) -> Path:
    """Return the path of a body's file in a folder."""
    return folder / f"{id}{SUFFIX}"


def body_files(folder: Path) -> Iterator[tuple[int, Path]]:
    """Yield number and path of each body in a folder; other files there are not ours."""
    for path in folder.iterdir():
        if path.suffix == SUFFIX and path.stem.isascii() and path.stem.isdecimal():
            yield int(path.stem), path


def check_file(path: Path, size: int) -> None:
    """Raise StoreError if the file of a body is missing or does not have `size` bytes."""
    try:
        found = path.stat().st_size
    except OSError as error:
        raise StoreError(f"{path}: {error.strerror}") from error
    if found != size:
        raise StoreError(f"{path} has {found} bytes, not {size}")


def read_body(path: Path, size: int, checksum: int, chunk_bytes: int = CHUNK_BYTES) -> Iterator[bytes]:
    """Yield the octets of a stored body, piece by piece; for programs that read a store without being its broker.

    Raises StoreError, in place of the last piece if the checksum does not match.
    """
    check_file(path, size)
    reader = FileReader(path, size, checksum)
    try:
        while piece := reader.read(chunk_bytes):
            yield piece
    finally:
        reader.close()


def _unlink(path: Path) -> None:
    """Delete a file; if that fails, the next start finds it again."""
    try:
        path.unlink(missing_ok=True)
    except OSError:
        return
