"""The write-ahead log: a batch is safe after one sequential write and one sync, whatever its size.

The log knows nothing of what is in a batch. It gives back, after a crash, a prefix of the batches that were appended,
with at least those whose `append` returned.

Files are used again without being cleared, because a write into a block that was written before changes no metadata.
Measured on ext4 with records of 4 KiB, from call to return of write and fdatasync: 97 us into such a file, 144 us into
one that is only allocated (each block's state changes), 153 us at the end of a growing file. A new file is only
allocated all the same: to fill it first would delay the start, or the batch that needs it, and it is slower once only.

A file is made when a batch needs it, and doubles from 64 KiB to its full size: a broker that stores little has
little on the disk, and one that is started for a test writes nothing ahead.
"""

import errno
import os
import shutil
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from threading import Lock
from typing import Final

from artemis_py.logs import named_logger
from artemis_py.store.log.disk import allocate, clear, damaged_name, is_unused, sync_file, sync_folder, unlink
from artemis_py.store.log.options import SMALLEST_FILE_BYTES, LogOptions
from artemis_py.store.log.reading import Damage, LogReader, Segment, find_segments
from artemis_py.store.log.segment import (
    HEADER_BYTES,
    ID_BYTES,
    RECORD_BYTES,
    SALT_BYTES,
    SUFFIX,
    Header,
    encode_header,
    encode_record,
    seed_of,
)

LOGGER: Final = named_logger(__name__)

NEW_NAME: Final = "new"
"""File that is being made; it gets its name when its header is on the disk."""

# Linux takes as many parts in one call (IOV_MAX).
MOST_PARTS: Final = 1024

HAS_DATA_SYNC: Final = hasattr(os, "fdatasync")
"""False on macOS."""


class _Full:
    """A segment with batches that is not written any more."""

    __slots__ = ("last", "path", "size", "used_bytes")

    def __init__(self, path: Path, size: int, used_bytes: int, last: int) -> None:
        self.path: Final[Path] = path
        self.size: Final[int] = size
        self.used_bytes: Final[int] = used_bytes
        """Octets of its records."""
        self.last: Final[int] = last
        """Number of its last batch."""


class WriteAheadLog:
    """An open log. One thread at a time appends; another may cut at the same time."""

    def __init__(self, folder: Path, store_id: bytes, options: LogOptions) -> None:
        """Take `open` instead."""
        assert len(store_id) == ID_BYTES
        self.folder: Final[Path] = folder
        self.options: Final[LogOptions] = options
        self.last = 0
        """Number of the newest batch; 0 if there was none. Known when `read` has ended."""
        self.size_bytes = 0
        """Octets of the batches that are not cut, approximately: a segment counts until all its batches are cut."""
        self.set_aside: list[Path] = []
        """Damaged files that `read` kept under another name."""
        self._store_id: Final[bytes] = store_id
        self._seed: Final[int] = seed_of(store_id)
        self._writer: Final[bytes] = os.urandom(ID_BYTES)
        self._sync: Final[bool] = options.sync
        self._epoch = 0
        self._segment_number = 0
        """Number of the last segment that was used."""
        self._name = 0
        """Number in the name of the last file that was made."""
        self._found: list[Segment] = []
        self._unreadable: list[Path] = []
        """Files with records whose beginning is damaged."""
        self._is_read = False
        self._failure: str | None = None
        """Reason why nothing is appended any more."""
        self._lock: Final = Lock()
        """Lock for the fields from here on, and `last` and `size_bytes`."""
        self._full: Final[deque[_Full]] = deque()
        self._free: Final[deque[tuple[Path, int]]] = deque()
        """Files of `file_bytes` at most whose batches are cut, and their sizes."""
        self._files = 0
        """Number of files, those in use and those that are free."""
        self._has_durable_names = True
        """False until the names are synced that were there before: a killed process may have left them so."""
        self._file = -1
        self._path: Path = folder
        self._size = 0
        """Size of the file that is written; 0: there is none yet."""
        self._end = 0
        """Offset in it behind the last record."""
        self._cut_end = HEADER_BYTES
        """Offset in it behind the last record that is cut for certain."""
        self._header: Header | None = None

    @classmethod
    def open(cls, folder: Path, store_id: bytes, options: LogOptions) -> "WriteAheadLog":
        """Open or create the log in a folder of its own; `read` it before you append.

        `store_id`: 16 octets that no other store has. Raises OSError, and StoreError if the folder has the log of
        another store or of a later release.
        """
        log = cls(folder, store_id, options)
        log._open()
        return log

    def _open(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        (self.folder / NEW_NAME).unlink(missing_ok=True)
        self._found, unreadable = find_segments(self.folder, self._store_id)
        for path in unreadable:
            if is_unused(path):
                path.unlink()
            else:
                self._unreadable.append(path)
        for segment in self._found:
            self._epoch = max(self._epoch, segment.header.epoch)
            self._segment_number = max(self._segment_number, segment.header.number)
            name = segment.path.stem
            self._name = max(self._name, int(name) if name.isdecimal() else 0)
        self._epoch += 1
        self._files = len(self._found)
        self._has_durable_names = not self._found

    # -- the start ---------------------------------------------------------------------------------------------

    def read(self, after: int, on_loss: Callable[[], None] | None = None) -> Iterator[tuple[int, bytes]]:
        """Return number and content of each batch with a number above `after`, in order, without a gap.

        Read it to its end before the first `append`, whose number is the next one (`last` plus 1). Have what you read
        in LMDB, synced, before that as well: where a sync had failed, the system may show what the disk has lost.

        A batch that was not written whole ends the log, with a warning. If newer ones follow a damaged one, they are
        set aside with it, and named as errors; so are files whose beginning cannot be read. `on_loss` is called before
        that: a caller that is killed in it finds the damage again. Raises OSError.
        """
        assert not self._is_read
        reader = LogReader(self._found, self._seed, after, sync=True)
        yield from reader.batches()
        self.last = reader.last
        for path in reader.passed:
            LOGGER.warning("a damaged batch of the log is not needed, the store has it: file=%s", path)
        damage = reader.damage
        if on_loss is not None and (damage is not None or self._unreadable):
            on_loss()
        for path in self._unreadable:
            LOGGER.error("a file of the log has no beginning that can be read, it is not applied: file=%s", path)
            self._rename_damaged(path)
        if damage is not None:
            self._keep_damaged(damage)
        elif self._unreadable:
            sync_folder(self.folder)
        if self._found and self._found[-1].is_torn:
            template = "the log ends before a batch that was not written whole: file=%s offset=%d batch=%d"
            LOGGER.warning(template, self._found[-1].path, self._found[-1].end, self.last + 1)
        for segment in self._found:
            used_bytes = segment.end - HEADER_BYTES
            if segment.last > after:
                self._full.append(_Full(segment.path, segment.size, used_bytes, segment.last))
                self.size_bytes += used_bytes
            elif segment.size <= self.options.file_bytes:
                self._free.append((segment.path, segment.size))
            else:
                self._delete(segment.path)
        self._found = []
        while self._free and self._is_surplus():
            self._delete(self._free.pop()[0])
        self._make_ahead()
        self._is_read = True
        if self.last > after:
            LOGGER.info("log read: folder=%s batches=%d-%d", self.folder, after + 1, self.last)

    def _make_ahead(self) -> None:
        """Make as many files as the options say. On a full disk the broker starts all the same, to be emptied."""
        try:
            while self._files < self.options.min_files:
                self._free.append((self._create(self.options.file_bytes), self.options.file_bytes))
        except OSError as error:
            if error.errno != errno.ENOSPC:
                raise
            LOGGER.warning("the disk has no room for the files of the log: folder=%s", self.folder)

    def _keep_damaged(self, damage: Damage) -> None:
        """Set damaged batches and all that follow them aside, so that the log ends before them.

        A kill at any step leaves the damage to be found again, or nothing to be done.
        """
        segments = self._found
        LOGGER.error(
            "the log is damaged, batches from %d on are not applied, the next one that can be read is %d: "
            "file=%s offset=%d",
            damage.expected,
            damage.found,
            segments[damage.index].path,
            damage.offset,
        )
        rest = segments[damage.index :]
        before = segments[: damage.index]
        if damage.offset > HEADER_BYTES:
            # Its beginning is still needed.
            before.append(rest.pop(0))
            self._copy_damaged(before[-1].path)
        elif before and before[-1].is_torn:
            self._copy_damaged(before[-1].path)
        for segment in rest:
            self._rename_damaged(segment.path)
            self._files -= 1
        sync_folder(self.folder)
        if damage.offset > HEADER_BYTES:
            clear(before[-1].path, damage.offset, before[-1].size)
        self._found = before

    def _rename_damaged(self, path: Path) -> None:
        kept = damaged_name(path)
        path.rename(kept)
        self._kept(path, kept)

    def _copy_damaged(self, path: Path) -> None:
        new = self.folder / NEW_NAME
        shutil.copyfile(path, new)
        sync_file(new)
        kept = damaged_name(path)
        new.rename(kept)
        self._kept(path, kept)

    def _kept(self, path: Path, kept: Path) -> None:
        self.set_aside.append(kept)
        LOGGER.error("a damaged file of the log is kept under another name: file=%s kept=%s", path, kept)

    # -- appending ---------------------------------------------------------------------------------------------

    def append(self, number: int, parts: list[bytes]) -> None:
        """Write a batch that consists of `parts`; it is on the disk when this returns.

        `number`: that of the batch before plus 1. The interpreter lock is released while this writes and syncs. Raises
        OSError, and from then on always: whether the batch is there is not known, and the kernel reports a lost write
        only once.
        """
        if self._failure is not None:
            raise OSError(errno.EIO, f"the log failed before: {self._failure}")
        assert self._is_read
        assert number == self.last + 1
        length = 0
        for part in parts:
            length += len(part)
        size = RECORD_BYTES + length
        try:
            if self._end + size > self._size and not self._grow(self._end + size):
                self._switch(HEADER_BYTES + size)
            header = self._header
            assert header is not None
            head = encode_record(header, self._seed, number, length, parts)
            if self._end == HEADER_BYTES:
                # The header gets to the disk together with the first record.
                self._write([encode_header(header), head, *parts], 0, HEADER_BYTES + size)
            else:
                self._write([head, *parts], self._end, size)
            if self._sync:
                if HAS_DATA_SYNC:
                    os.fdatasync(self._file)
                else:
                    os.fsync(self._file)
        except OSError as error:
            self._failure = error.strerror or str(error)
            raise
        with self._lock:
            self._end += size
            self.last = number
            self.size_bytes += size

    def _write(self, parts: list[bytes], offset: int, size: int) -> None:
        """Write some parts of `size` octets together at an offset, in one call if the system takes them."""
        if len(parts) <= MOST_PARTS:
            written = os.pwritev(self._file, parts, offset)
            if written != size:
                self._write_rest(b"".join(parts), written, offset)
            return
        for start in range(0, len(parts), MOST_PARTS):
            some = parts[start : start + MOST_PARTS]
            size = 0
            for part in some:
                size += len(part)
            written = os.pwritev(self._file, some, offset)
            if written != size:
                self._write_rest(b"".join(some), written, offset)
            offset += size

    def _write_rest(self, data: bytes, done: int, offset: int) -> None:
        """Write what a call left out: more than 2 GiB, or the disk is full and the next call says so."""
        with memoryview(data) as view:
            while done < len(data):
                written = os.pwrite(self._file, view[done:], offset + done)
                if written == 0:
                    raise OSError(errno.EIO, "nothing was written")
                done += written

    def _grow(self, least_bytes: int) -> bool:
        """Make the file that is written larger; return False if another one is to be taken instead."""
        most_bytes = self.options.file_bytes
        if self._size == 0 or least_bytes > most_bytes:
            return False
        # On a full disk there may be room for the record, and it may be the one that makes room.
        for size in (min(max(least_bytes, 2 * self._size), most_bytes), least_bytes):
            try:
                allocate(self._file, self._size, size)
            except OSError as error:
                if error.errno != errno.ENOSPC:
                    raise
            else:
                with self._lock:
                    self._size = size
                return True
        # A file that is used again needs no room.
        return False

    def _switch(self, least_bytes: int) -> None:
        """Take another file, which has at least this size."""
        path: Path | None = None
        size = 0
        if least_bytes <= self.options.file_bytes:
            with self._lock:
                path, size = self._take_free(least_bytes)
        if not self._has_durable_names:
            # Not at the start, which relies on nothing in the folder, and would wait for it.
            sync_folder(self.folder)
            self._has_durable_names = True
        if path is None:
            size = max(least_bytes, SMALLEST_FILE_BYTES)
            path = self._create(size)
        file = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
        if size < least_bytes:
            try:
                allocate(file, size, least_bytes)
            except OSError:
                os.close(file)
                raise
            size = least_bytes
        self._segment_number += 1
        header = Header(self._store_id, self._writer, self._segment_number, self._epoch, os.urandom(SALT_BYTES))
        before = self._file
        with self._lock:
            if self._size:
                used_bytes = self._end - HEADER_BYTES
                self._full.append(_Full(self._path, self._size, used_bytes, self.last))
                # Counted as a whole again, until it is cut as a whole.
                self.size_bytes += self._cut_end - HEADER_BYTES
            self._header = header
            self._file = file
            self._path = path
            self._size = size
            self._end = HEADER_BYTES
            self._cut_end = HEADER_BYTES
        if before >= 0:
            os.close(before)

    def _take_free(self, least_bytes: int) -> tuple[Path | None, int]:
        """Return a free file and its size: one that is large enough, or else the one that is free for longest."""
        for index, (_, size) in enumerate(self._free):
            if size >= least_bytes:
                self._free.rotate(-index)
                break
        return self._free.popleft() if self._free else (None, 0)

    def _create(self, size: int) -> Path:
        """Make a file that belongs to this store and is not used yet. Raises OSError."""
        if self._files == 0:
            # The folder may be as new as its first file.
            sync_folder(self.folder.parent)
        new = self.folder / NEW_NAME
        header = Header(self._store_id, self._writer, 0, self._epoch, bytes(SALT_BYTES))
        file = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)
        try:
            allocate(file, 0, size)
            os.pwrite(file, encode_header(header), 0)
            os.fsync(file)
        except OSError:
            with suppress(OSError):
                new.unlink()
            raise
        finally:
            os.close(file)
        self._name += 1
        path = self.folder / f"{self._name:08d}{SUFFIX}"
        new.rename(path)
        sync_folder(self.folder)
        with self._lock:
            self._files += 1
        return path

    # -- the end of batches ------------------------------------------------------------------------------------

    def cut(self, upto: int) -> None:
        """Forget the batches up to this number, which LMDB has, synced; their files are used again, or deleted.

        For any thread. The files keep what they had until they are used: `read` passes over it, because LMDB knows the
        number of its last batch.
        """
        surplus: list[Path] = []
        with self._lock:
            while self._full and self._full[0].last <= upto:
                full = self._full.popleft()
                self.size_bytes -= full.used_bytes
                if full.size <= self.options.file_bytes and not self._is_surplus():
                    self._free.append((full.path, full.size))
                else:
                    self._files -= 1
                    surplus.append(full.path)
            if self._size and upto >= self.last:
                self.size_bytes -= self._end - self._cut_end
                self._cut_end = self._end
        for path in surplus:
            unlink(path)

    def _is_surplus(self) -> bool:
        """Return whether there are more files than are kept."""
        kept = self.options.pool_files
        return kept >= 0 and self._files > max(kept, self.options.min_files)

    def _delete(self, path: Path) -> None:
        self._files -= 1
        unlink(path)

    def close(self) -> None:
        """Close the file; nothing is appended any more."""
        if self._failure is None:
            self._failure = "it is closed"
        if self._file >= 0:
            os.close(self._file)
            self._file = -1
