"""The files of the log, byte by byte. Numbers are big-endian.

Each file of the folder `log` is a segment: a header, room up to 4,096, then records without gaps.

     0         8        12        16        32        48        56        64        72        76        80
    +---------+---------+---------+---------+---------+---------+---------+---------+---------+---------+
    | 8 octets| u32     | u32     | 16 oct. | 16 oct. | u64     | u64     | 8 octets| u32     | u32     |
    | "amq-log" | format  | 0       | store   | writer  | segment | epoch   | salt    | 0       | CRC-32  |
    +---------+---------+---------+---------+---------+---------+---------+---------+---------+---------+

    format    FORMAT. A later format has the same 80 octets, so that this release can refuse it by name
    store     identifier of the store: the log of another one is refused
    writer    identifier of the broker process that wrote the records
    segment   number of the segment, from 1; 0: made ahead, and not used yet
    epoch     number of the writer among those of this log, from 1
    salt      random, another one for each use of the file
    CRC-32    of the octets before it

A record has one batch:

     0         4         8         16        24        32        40        48        64
    +---------+---------+---------+---------+---------+---------+---------+---------+-----------
    | u32     | u32     | u64     | 8 octets| u64     | u64     | u64     | 16 oct. |
    | CRC-32  | format  | length  | salt    | segment | number  | epoch   | writer  | payload
    +---------+---------+---------+---------+---------+---------+---------+---------+-----------

    CRC-32    of the store's identifier, the record from octet 4 on, and the payload
    length    octets of the payload
    number    number of the batch: consecutive in the whole log

A file is used again without being cleared. The records of its earlier use have another salt and segment number, so they
are never taken for newer ones. The salt is not known to clients, so no message can contain a valid record.
"""

from pathlib import Path
from struct import Struct
from typing import Final
from zlib import crc32

from artemis_py.errors import StoreError

FOLDER_NAME: Final = "log"
"""Folder of the log inside `journal-directory`."""
SUFFIX: Final = ".log"
"""Suffix of a segment; its name is a number that says nothing about the order."""
DAMAGED_SUFFIX: Final = ".damaged"
"""Suffix of a segment that was set aside; if the name is taken, a number follows."""

FORMAT: Final = 1
MAGIC: Final = b"amq-log\n"
ID_BYTES: Final = 16
"""Octets of a store's and of a writer's identifier."""
SALT_BYTES: Final = 8

HEADER_BYTES: Final = 4096
"""Where the records begin: the header has a block of its own, so that writing a record never writes it again."""
RECORD_BYTES: Final = 64
"""Octets of a record before its payload."""

_HEADER: Final = Struct(">8sII16s16sQQ8sI")
_RECORD: Final = Struct(">IQ8sQQQ16s")
_U32: Final = Struct(">I")
_SALT_OFFSET: Final = 16
"""Offset of the salt in a record."""


class Header:
    """What the header of a segment says: which use of the file this is."""

    __slots__ = ("epoch", "number", "salt", "store_id", "writer")

    def __init__(self, store_id: bytes, writer: bytes, number: int, epoch: int, salt: bytes) -> None:
        self.store_id: Final[bytes] = store_id
        self.writer: Final[bytes] = writer
        self.number: Final[int] = number
        """Number of the segment; 0 if the file was made ahead and not used yet."""
        self.epoch: Final[int] = epoch
        self.salt: Final[bytes] = salt


class Record:
    """A valid record in the content of a segment."""

    __slots__ = ("end", "epoch", "number", "offset", "salt", "segment", "start", "writer")

    def __init__(
        self, offset: int, length: int, salt: bytes, segment: int, number: int, epoch: int, writer: bytes
    ) -> None:
        self.offset: Final[int] = offset
        """Offset of the record."""
        self.start: Final[int] = offset + RECORD_BYTES
        """Offset of its payload."""
        self.end: Final[int] = offset + RECORD_BYTES + length
        self.salt: Final[bytes] = salt
        self.segment: Final[int] = segment
        self.number: Final[int] = number
        """Number of the batch."""
        self.epoch: Final[int] = epoch
        self.writer: Final[bytes] = writer


def seed_of(store_id: bytes) -> int:
    """Return the checksum that those of the store's records continue."""
    return crc32(store_id)


def encode_header(header: Header) -> bytes:
    """Return the first block of a segment."""
    fields = (FORMAT, 0, header.store_id, header.writer, header.number, header.epoch, header.salt, 0)
    content = _HEADER.pack(MAGIC, *fields)
    return (content + _U32.pack(crc32(content))).ljust(HEADER_BYTES, b"\0")


def decode_header(data: bytes, path: Path) -> Header | None:
    """Return the header at the beginning of a file; None if there is none, or it is damaged.

    Raises StoreError for a format of a later release.
    """
    if len(data) < _HEADER.size + _U32.size:
        return None
    magic, version, _, store_id, writer, number, epoch, salt, _ = _HEADER.unpack_from(data)
    if magic != MAGIC or crc32(data[: _HEADER.size]) != _U32.unpack_from(data, _HEADER.size)[0]:
        return None
    if version != FORMAT:
        raise StoreError(
            f"the log file {path} has format {version}, this release of artemis_py reads {FORMAT}: start it with the "
            "release that wrote it"
        )
    return Header(store_id, writer, number, epoch, salt)


def encode_record(header: Header, seed: int, number: int, length: int, parts: list[bytes]) -> bytes:
    """Return what precedes the payload of a batch: `parts`, which have `length` octets together."""
    content = _RECORD.pack(FORMAT, length, header.salt, header.number, number, header.epoch, header.writer)
    checksum = crc32(content, seed)
    for part in parts:
        checksum = crc32(part, checksum)
    return _U32.pack(checksum) + content


def record_at(data: bytes, offset: int, seed: int) -> Record | None:
    """Return the record at an offset of a segment's content; None if there is none, or it is not whole."""
    start = offset + RECORD_BYTES
    if start > len(data):
        return None
    version, length, salt, segment, number, epoch, writer = _RECORD.unpack_from(data, offset + _U32.size)
    if version != FORMAT or length > len(data) - start:
        return None
    with memoryview(data) as view:
        checksum = crc32(view[offset + _U32.size : start + length], seed)
    if checksum != _U32.unpack_from(data, offset)[0]:
        return None
    return Record(offset, length, salt, segment, number, epoch, writer)


def find_record(data: bytes, offset: int, header: Header, seed: int) -> Record | None:
    """Return the first valid record of this use of the file from an offset on; None if there is none."""
    found = data.find(header.salt, offset + _SALT_OFFSET)
    while found >= 0:
        record = record_at(data, found - _SALT_OFFSET, seed)
        if record is not None and record.segment == header.number:
            return record
        found = data.find(header.salt, found + 1)
    return None


def was_begun(data: bytes, offset: int, header: Header) -> bool:
    """Return whether a record of this use of the file was begun at an offset where there is no valid one."""
    if offset + RECORD_BYTES > len(data):
        return False
    _, _, salt, segment, _, _, writer = _RECORD.unpack_from(data, offset + _U32.size)
    # One damaged octet does not hide it.
    return bool(salt == header.salt or (segment == header.number and writer == header.writer))


def segment_files(folder: Path) -> list[Path]:
    """Return the segments in a folder, by name; none if there is no such folder. Raises OSError."""
    return sorted(folder.glob(f"*{SUFFIX}"))
