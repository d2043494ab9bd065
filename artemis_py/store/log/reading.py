"""What the log's files contain: their batches in order, and where the order ends. Changes nothing.

Batches have consecutive numbers, and only one is written at a time. So behind an invalid record there are two cases:

- Nothing valid and newer follows: the record was being written when the power failed, and was never confirmed. The log
  ends before it. (The last record of all looks the same if it is damaged later. Nobody can tell the two apart.)
- A newer record follows: the invalid one was whole once, and is damaged. What follows it cannot be applied without it.

A damaged record that LMDB has already is passed over.
"""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from artemis_py.errors import StoreError
from artemis_py.store.log.segment import (
    HEADER_BYTES,
    RECORD_BYTES,
    Header,
    Record,
    decode_header,
    find_record,
    record_at,
    seed_of,
    segment_files,
    was_begun,
)

READ_BYTES: Final = 1 << 30
"""Octets that are read at once: Linux reads at most 2 GiB."""


class Segment:
    """A file of the log."""

    __slots__ = ("end", "first", "header", "is_torn", "last", "path", "size")

    def __init__(self, path: Path, header: Header, size: int, first: int) -> None:
        self.path: Final[Path] = path
        self.header: Final[Header] = header
        self.size: Final[int] = size
        """Size of the file in octets."""
        self.first: Final[int] = first
        """Number of the batch in the first record; 0 if that is not valid."""
        self.last = 0
        """Number of the last batch that was found; 0 if the segment was not read, or nothing was found."""
        self.end = HEADER_BYTES
        """Offset behind the record of that batch."""
        self.is_torn = False
        """Whether a record that is not valid follows there, and nothing else."""


class Damage:
    """Where batches are missing that others follow."""

    __slots__ = ("expected", "found", "index", "offset")

    def __init__(self, index: int, offset: int, expected: int, found: int) -> None:
        self.index: Final[int] = index
        """Index of the segment."""
        self.offset: Final[int] = offset
        """Offset in its file: what is before it can be applied."""
        self.expected: Final[int] = expected
        """Number of the first batch that is missing."""
        self.found: Final[int] = found
        """Number of the next one that is there."""


def find_segments(folder: Path, store_id: bytes | None) -> tuple[list[Segment], list[Path]]:
    """Return the segments of a log by their number, and files whose beginning is unreadable.

    Segments that were made ahead come first. Without `store_id` all that are of one store are accepted. Raises OSError,
    and StoreError for files of another store or of a later release.
    """
    segments: list[Segment] = []
    unknown: list[tuple[Path, bytes, int]] = []
    for path in segment_files(folder):
        data, size = _beginning(path)
        header = decode_header(data, path)
        if header is None:
            unknown.append((path, data, size))
            continue
        if store_id is None:
            store_id = header.store_id
        if header.store_id != store_id:
            raise StoreError(
                f"the log file {path} belongs to another store: put back the log that belongs to this store, or move "
                f"{folder} elsewhere if what is only in that log may be lost"
            )
        record = _first_record(path, data, size, seed_of(store_id))
        is_own = record is not None and record.salt == header.salt and record.segment == header.number
        segments.append(Segment(path, header, size, record.number if record is not None and is_own else 0))
    unreadable: list[Path] = []
    for path, data, size in unknown:
        # The records of a segment say all that its header says.
        record = None if store_id is None else _first_record(path, data, size, seed_of(store_id))
        if record is None or store_id is None:
            unreadable.append(path)
        else:
            header = Header(store_id, record.writer, record.segment, record.epoch, record.salt)
            segments.append(Segment(path, header, size, record.number))
    segments.sort(key=lambda segment: segment.header.number)
    return segments, unreadable


class LogReader:
    """Reads the batches of some segments in order, once."""

    def __init__(self, segments: list[Segment], seed: int, after: int, sync: bool = False) -> None:
        """`sync`: what a killed process wrote is synced before it is read, so that a batch that was read stays."""
        self.segments: Final[list[Segment]] = segments
        self.last = after
        """Number of the last batch that was read, or of the last one in LMDB."""
        self.damage: Damage | None = None
        """Damage that ended the log."""
        self.passed: list[Path] = []
        """Segments with damaged batches that LMDB has."""
        self._seed: Final[int] = seed
        self._sync: Final[bool] = sync

    def batches(self) -> Iterator[tuple[int, bytes]]:
        """Return the batches with a higher number than `last`, without a gap. Raises OSError."""
        for index in range(first_needed(self.segments, self.last), len(self.segments)):
            segment = self.segments[index]
            if segment.header.number == 0:
                continue
            data = read_content(segment.path, self._sync)
            offset = HEADER_BYTES
            while True:
                record = self._next(segment, data, offset)
                if record is None:
                    break
                if record.number > self.last + 1:
                    self.damage = Damage(index, offset, self.last + 1, record.number)
                    return
                segment.last = record.number
                segment.end = record.end
                offset = record.end
                if record.number == self.last + 1:
                    self.last = record.number
                    yield record.number, data[record.start : record.end]

    def _next(self, segment: Segment, data: bytes, offset: int) -> Record | None:
        """Return the record at an offset, or the next one behind it if it is not valid; None at the end."""
        header = segment.header
        record = record_at(data, offset, self._seed)
        if record is not None and record.salt == header.salt and record.segment == header.number:
            return record
        record = find_record(data, offset, header, self._seed)
        if record is None:
            segment.is_torn = was_begun(data, offset, header)
        elif record.number <= self.last + 1:
            self.passed.append(segment.path)
        return record


def first_needed(segments: list[Segment], after: int) -> int:
    """Return the index of the segment with the first batch behind `after`, if that is in any."""
    found = 0
    for index, segment in enumerate(segments):
        if 0 < segment.first <= after + 1:
            found = index
    return found


def read_content(path: Path, sync: bool, limit: int | None = None) -> bytes:
    """Return a file's content, or `limit` octets of it at most, if wanted after syncing it. Raises OSError."""
    file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        if sync:
            os.fsync(file)
        return _read(file, 0, os.fstat(file).st_size if limit is None else limit)
    finally:
        os.close(file)


def _beginning(path: Path) -> tuple[bytes, int]:
    """Return the first block of a file with the head of its first record, and the file's size."""
    file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return _read(file, 0, HEADER_BYTES + RECORD_BYTES), os.fstat(file).st_size
    finally:
        os.close(file)


def _first_record(path: Path, beginning: bytes, size: int, seed: int) -> Record | None:
    """Return the first record of a file if it is valid, which means reading it."""
    length = int.from_bytes(beginning[HEADER_BYTES + 8 : HEADER_BYTES + 16])
    end = HEADER_BYTES + RECORD_BYTES + length
    if len(beginning) < HEADER_BYTES + RECORD_BYTES or end > size:
        return None
    file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return record_at(_read(file, 0, end), HEADER_BYTES, seed)
    finally:
        os.close(file)


def _read(file: int, offset: int, size: int) -> bytes:
    """Return at most `size` octets, fewer at the end of the file."""
    parts: list[bytes] = []
    while size > 0:
        part = os.pread(file, min(size, READ_BYTES), offset)
        if not part:
            break
        parts.append(part)
        offset += len(part)
        size -= len(part)
    return b"".join(parts)
