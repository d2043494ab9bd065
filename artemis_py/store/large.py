"""Large bodies as files: one file each, named by its number, in a folder of their own.

    <folder>/<id>.body     the octets of the body and nothing else

The loop writes and reads through the page cache, in the pieces that the wire has; the thread that commits syncs a file
before it commits the first reference to it, and deletes it after it committed the removal of the last. So whatever
moment a crash chooses, a file without a reference is of no use to anybody, and a start removes it. Bodies of messages
that are not durable are such files too.

A body's file may be gone while somebody reads it: an open file keeps its content.
"""

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, Protocol
from zlib import crc32

from artemis_py.core.messages.large_body import LargeBody, LargeReader
from artemis_py.errors import StoreError

SUFFIX: Final = ".body"

# What is written of a durable body is handed to the disk in pieces of this size while the rest arrives: the commit
# at its end, and the commits of others meanwhile, then wait for one piece (0.1 s of a common disk) and not for it all.
SYNC_AHEAD_BYTES: Final = 16 * 1024 * 1024

CHUNK_BYTES: Final = 128 * 1024
"""What is read at once where nobody says how much."""


class Worker(Protocol):
    """A thread that runs jobs in order."""

    def submit(self, job: Callable[[], str | None], done: Callable[[str | None], None]) -> None:
        """Run `job`, which never raises, elsewhere, then `done` with its result on the loop."""


class FileReader(LargeReader):
    """Reads one file, and compares it with what is known of it."""

    def __init__(self, path: Path, size: int, checksum: int) -> None:
        """Raises StoreError."""
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
        # Regular files are read in part only at their end: nothing asks for the 2 GiB that Linux reads at most.
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
    """One body in a file."""

    def __init__(
        self, files: "LargeFiles", id: int, durable: bool, size: int = 0, checksum: int = 0, holders: int = 1
    ) -> None:
        super().__init__(id, size, checksum, holders)
        self._files: Final = files
        self._durable: Final = durable
        self._file = -1
        """Open while it is written, and then until it is synced if a reference to it was put."""
        self._is_synced = holders == 0
        self._synced_ahead = 0
        self._is_syncing_ahead = False
        self._failure: str | None = None
        """Why it can never be durable."""
        self.is_stored = False
        """A reference to it was put, so it is for a commit to say when it goes."""

    @property
    def path(self) -> Path:
        """Its file."""
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
        """See `LargeBody`. One that waits where the store is not concerned has no file open."""
        super().release()
        if self.holders and not self.is_stored:
            self.close()

    def discard(self) -> None:
        """Delete the file, unless the store still refers to it: then the commit that ends that does."""
        if self.is_stored:
            self._files.forget(self.id)
        else:
            self.delete()

    def delete(self) -> None:
        """Nobody needs it, in memory or in the store."""
        self.close()
        self._files.delete(self.id)

    def sync(self) -> bool:
        """In the worker: make the file's content durable; false if it is already. Raises OSError."""
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
        """Write no more, and sync no more."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def _sync_ahead(self) -> None:
        worker = self._files.worker
        if worker is None:
            return
        self._synced_ahead = self.size
        self._is_syncing_ahead = True
        # A descriptor of its own: ours may be closed at any time.
        file = os.dup(self._file)
        worker.submit(lambda: self._sync_and_close(file), self._synced)

    def _sync_and_close(self, file: int) -> None:
        """In the worker. The system reports a lost write only once: `sync`, which comes later here, must know of it."""
        try:
            os.fdatasync(file)
        except OSError as error:
            self._failure = f"{self.path}: {error.strerror}"
        finally:
            os.close(file)

    def _synced(self, _: str | None) -> None:
        self._is_syncing_ahead = False


class LargeFiles:
    """All bodies of one storage."""

    def __init__(self, folder: Path) -> None:
        """Nothing is touched before `open`."""
        self.folder: Final = folder
        self.worker: Worker | None = None
        """Deletes files and syncs them ahead; without one deletions happen at once."""
        self._bodies: dict[int, FileBody] = {}
        """Those that somebody may hold."""
        self._doomed: set[int] = set()
        """Handed to the worker to be deleted."""
        self._next_id = 1

    def open(self, is_needed: Callable[[int], bool]) -> tuple[int, int]:
        """Delete what nobody needs; returns how many files and bytes. Raises StoreError."""
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
        """The file of a body."""
        return body_path(self.folder, id)

    def create(self, durable: bool) -> FileBody:
        """A new body, held by the caller. Raises StoreError."""
        body = FileBody(self, self._next_id, durable)
        body.create()
        self._bodies[body.id] = body
        self._next_id += 1
        return body

    def restore(self, id: int, size: int, checksum: int) -> FileBody:
        """A body that the store refers to, held by nobody yet. Raises StoreError if its file is not as it was."""
        body = self._bodies.get(id)
        if body is None:
            check_file(self.path(id), size)
            body = self._bodies[id] = FileBody(self, id, True, size, checksum, holders=0)
            body.is_stored = True
        return body

    def know(self, body: FileBody) -> None:
        """Somebody holds this body."""
        self._bodies[body.id] = body

    def forget(self, id: int) -> None:
        """Nobody in memory holds this body any more, the store refers to it."""
        self._bodies.pop(id, None)

    def no_longer_stored(self, id: int, noted: FileBody | None) -> None:
        """A commit removed the last reference to this body, which it noted if it put or removed it by name."""
        body = self._bodies.get(id, noted)
        if body is None:
            self.delete(id)
        elif body.holders == 0:
            body.delete()
        else:
            body.is_stored = False

    def delete(self, id: int) -> None:
        """Delete a file, in the worker: a large one takes its time. One that stays is removed at the next start."""
        self._bodies.pop(id, None)
        if self.worker is None:
            _unlink(self.path(id))
            return
        self._doomed.add(id)
        path = self.path(id)
        self.worker.submit(lambda: _unlink(path), lambda _: self._doomed.discard(id))

    def close(self) -> None:
        """Delete what a restart could not use. The worker has ended before."""
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
    """The file of a body in a folder."""
    return folder / f"{id}{SUFFIX}"


def body_files(folder: Path) -> Iterator[tuple[int, Path]]:
    """Numbers and files of all bodies in a folder; what else is there is not ours."""
    for path in folder.iterdir():
        if path.suffix == SUFFIX and path.stem.isascii() and path.stem.isdecimal():
            yield int(path.stem), path


def check_file(path: Path, size: int) -> None:
    """Raises StoreError if the file of a body is missing or not of its size."""
    try:
        found = path.stat().st_size
    except OSError as error:
        raise StoreError(f"{path}: {error.strerror}") from error
    if found != size:
        raise StoreError(f"{path} has {found} bytes, not {size}")


def read_body(path: Path, size: int, checksum: int, chunk_bytes: int = CHUNK_BYTES) -> Iterator[bytes]:
    """The octets of a stored body, piece by piece; for whoever looks at a store without being its broker.

    Raises StoreError, instead of giving the last piece if the checksum is not that of what was read.
    """
    check_file(path, size)
    reader = FileReader(path, size, checksum)
    try:
        while piece := reader.read(chunk_bytes):
            yield piece
    finally:
        reader.close()


def _unlink(path: Path) -> None:
    """A file that cannot be deleted is found again by the next start."""
    try:
        path.unlink(missing_ok=True)
    except OSError:
        return
