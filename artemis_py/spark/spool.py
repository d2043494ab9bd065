"""A folder that keeps the messages of a broker that gives no sequence numbers, until a stream has read them.

    <folder>/spool.json                                   id of the folder, reader whose messages it keeps
    <folder>/lock                                         locked while that reader runs
    <folder>/<address>::<queue>/<first>-<count>.messages  messages, numbered on from `first`
    <folder>/<address>::<queue>/<first>.part              the file that is being written

A file begins with the line `SPOOL 1`; then, for each message, its size in octets and their CRC-32, both u32, and the
message as the broker sent it. The names of queues are quoted as in a URL. A file gets its final name when it is synced,
so a file with a final name is complete and never changes: a range of numbers always gives the same messages.

Decides what is on disk and when; knows neither broker nor Spark. These are plain files, because an object store can
neither append nor sync: the folder is on a file system that the driver and all tasks have mounted.
"""

import fcntl
import json
import logging
import os
import secrets
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from struct import Struct
from typing import Final, Self
from urllib.parse import quote
from zlib import crc32

from attrs import frozen

from artemis_py.spark.errors import SpoolFailed
from artemis_py.spark.management import Head, Heads
from artemis_py.spark.offsets import Offset, key_of

logger: Final = logging.getLogger(__name__)

NODE: Final = "spool"
"""Name that stands for the broker in an offset."""
MAGIC: Final = b"SPOOL 1\n"
_RECORD: Final = Struct(">II")

LOCK_TIMEOUT_S: Final = 10.0
"""Seconds that a restarted query waits for the end of its last run, whose process Spark kills."""
LOCK_RETRY_S: Final = 0.1


@frozen
class SpoolFile:
    """Messages that are on disk."""

    path: Path
    first: int
    stop: int

    @classmethod
    def named(cls, path: Path) -> Self:
        """Return the file that a name describes. Raises SpoolFailed for a name that is not ours."""
        try:
            first, _, count = path.name.removesuffix(".messages").partition("-")
            return cls(path, int(first), int(first) + int(count))
        except ValueError:
            raise SpoolFailed(f"{path} is not a file of a spool") from None

    def messages(self) -> list[bytes]:
        """Return the messages. Raises SpoolFailed if the file is damaged or missing."""
        try:
            data = self.path.read_bytes()
        except OSError as error:
            raise SpoolFailed(f"{self.path} cannot be read: {error}") from None
        found: list[bytes] = []
        offset = len(MAGIC)
        while offset + _RECORD.size <= len(data):
            size, checksum = _RECORD.unpack_from(data, offset)
            offset += _RECORD.size + size
            message = data[offset - size : offset]
            if len(message) != size or crc32(message) != checksum:
                raise SpoolFailed(f"{self.path}: message {self.first + len(found)} is damaged")
            found.append(message)
        if not data.startswith(MAGIC) or offset != len(data) or len(found) != self.stop - self.first:
            raise SpoolFailed(f"{self.path} is damaged: {len(found)} of {self.stop - self.first} messages")
        return found


def queue_of(name: str) -> tuple[str, str]:
    """Return address and queue of a name that a user gives: `address::queue`, or one name for both."""
    address, _, queue = name.partition("::")
    return address, queue or address


def files_of(folder: Path, address: str, queue: str) -> list[SpoolFile]:
    """Return the files of one queue, in order."""
    return [SpoolFile.named(path) for path in sorted(_folder_of(folder, address, queue).glob("*.messages"))]


def kept_of(folder: Path, address: str, queue: str, start: int, stop: int) -> list[tuple[int, int]]:
    """Return the parts of a range of numbers that are in the files, as ranges. Raises SpoolFailed."""
    kept: list[tuple[int, int]] = []
    for file in files_of(folder, address, queue):
        if file.first < stop and file.stop > start:
            begin, end = max(start, file.first), min(stop, file.stop)
            if kept and kept[-1][1] == begin:
                begin = kept.pop()[0]
            kept.append((begin, end))
    return kept


def read_spool(folder: Path, address: str, queue: str, start: int, stop: int) -> Iterator[tuple[int, list[bytes]]]:
    """Yield the messages of a range that exist, one list per file with the number of its first. Raises SpoolFailed."""
    for file in files_of(folder, address, queue):
        if file.first < stop and file.stop > start:
            begin, end = max(start, file.first), min(stop, file.stop)
            yield begin, file.messages()[begin - file.first : end - file.first]


class Spool:
    """The folder as its reader uses it; only that reader writes there."""

    def __init__(self, folder: Path, names: Sequence[str]) -> None:
        """Prepare; `names` are the queues, as a user names them."""
        self._folder: Final = folder
        self._names: Final = names
        self._lock: int | None = None
        self._next: Final = dict.fromkeys(names, 0)

    def heads(self) -> Heads:
        """Return the heads of the queues; creates the folder if it is missing. Raises SpoolFailed."""
        try:
            id = int(self._described()["id"])
            return Heads(node=NODE, queues=tuple(self._head(name, id) for name in self._names))
        except OSError as error:
            raise SpoolFailed(f"spoolDir {self._folder}: {error}") from None

    def _head(self, name: str, id: int) -> Head:
        address, queue = queue_of(name)
        files = files_of(self._folder, address, queue)
        next = self._end(name, files)
        count = sum(file.stop - file.first for file in files)
        size = sum(file.path.stat().st_size for file in files)
        return Head(
            address=address,
            queue=queue,
            queue_id=id,
            first=files[0].first if files else next,
            next=next,
            average_bytes=size // count if count else 0,
        )

    def _end(self, name: str, files: list[SpoolFile]) -> int:
        self._next[name] = max(self._next[name], files[-1].stop if files else 0)
        return self._next[name]

    def check_free(self) -> None:
        """Raise SpoolFailed if the folder has messages of another reader: a new one would read them as its own."""
        owner = self._described()["reader"]
        if owner:
            raise SpoolFailed(
                f"spoolDir {self._folder} belongs to the query with the reader {owner} in its offsets: start it with "
                "its checkpoint, or use another folder"
            )

    def claim(self, begin: Offset) -> None:
        """Lock the folder for this reader, from `begin` on, unless it is locked. Raises SpoolFailed if another has it.

        An unfinished file is set aside: none of its messages was accepted, so the broker sends them again.
        """
        if self._lock is not None:
            return
        try:
            lock = self._locked()
            try:
                self._take_over(begin)
            except BaseException:
                os.close(lock)
                raise
        except OSError as error:
            raise SpoolFailed(f"spoolDir {self._folder}: {error}") from None
        self._lock = lock

    def _take_over(self, begin: Offset) -> None:
        described = self._described()
        if described["reader"] not in ("", begin.reader):
            raise SpoolFailed(
                f"spoolDir {self._folder} belongs to the query with the reader {described['reader']} in its offsets, "
                f"this query is {begin.reader}: use another folder"
            )
        self._describe({**described, "reader": begin.reader})
        for name in self._names:
            address, queue = queue_of(name)
            position = begin.positions.get(key_of(NODE, address, queue))
            # All files are deleted when everything was read: the checkpoint says where numbers continue.
            self._next[name] = 0 if position is None else position.next
            self._set_aside(_folder_of(self._folder, address, queue))

    def _locked(self) -> int:
        """Return the descriptor of the lock, which is released with this process."""
        self._folder.mkdir(parents=True, exist_ok=True)
        lock = os.open(self._folder / "lock", os.O_RDWR | os.O_CREAT, 0o644)
        deadline = time.monotonic() + LOCK_TIMEOUT_S
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return lock
            except BlockingIOError:
                if time.monotonic() >= deadline:
                    os.close(lock)
                    owner = self._described()["reader"]
                    raise SpoolFailed(
                        f"spoolDir {self._folder} is in use by the query with the reader {owner} in its offsets"
                    ) from None
            time.sleep(LOCK_RETRY_S)

    def _set_aside(self, folder: Path) -> None:
        for path in folder.glob("*.part"):
            aside = path.with_suffix(".unfinished")
            logger.warning("an unfinished file is set aside, its messages come again: file=%s", aside)
            path.rename(aside)

    def append(self, name: str, messages: Sequence[bytes]) -> None:
        """Add messages of a queue; they are on disk when this returns. After SpoolFailed, none of them count."""
        address, queue = queue_of(name)
        folder = _folder_of(self._folder, address, queue)
        first = self._end(name, files_of(self._folder, address, queue))
        part = folder / f"{first:020d}.part"
        try:
            if not folder.is_dir():
                folder.mkdir()
                _sync_folder(self._folder)
            with open(part, "wb") as file:
                file.write(MAGIC)
                for message in messages:
                    file.write(_RECORD.pack(len(message), crc32(message)))
                    file.write(message)
                file.flush()
                os.fsync(file.fileno())
            part.rename(folder / f"{first:020d}-{len(messages)}.messages")
            _sync_folder(folder)
        except OSError as error:
            raise SpoolFailed(f"{part} cannot be written: {error}") from None
        self._next[name] = first + len(messages)

    def acknowledge(self, offset: Offset) -> None:
        """Delete the files that end before `offset`. Raises SpoolFailed."""
        for key, position in offset.positions.items():
            address, _, queue = key.partition("|")[2].partition("::")
            for file in files_of(self._folder, address, queue):
                if file.stop <= position.next:
                    try:
                        file.path.unlink(missing_ok=True)
                    except OSError as error:
                        raise SpoolFailed(f"{file.path} cannot be deleted: {error}") from None

    def _described(self) -> dict[str, str]:
        path = self._folder / "spool.json"
        try:
            described: dict[str, str] = json.loads(path.read_bytes())
        except FileNotFoundError:
            self._folder.mkdir(parents=True, exist_ok=True)
            # Below 2^53: it is a number in JSON, and other languages than Python may read the checkpoint.
            self._describe({"id": str(secrets.randbits(52)), "reader": ""})
            return self._described()
        except ValueError as error:
            raise SpoolFailed(f"{path} is damaged: {error}") from None
        return described

    def _describe(self, described: dict[str, str]) -> None:
        path = self._folder / "spool.json"
        new = path.with_suffix(f".{os.getpid()}.part")
        with open(new, "w", encoding="ascii") as file:
            json.dump(described, file)
            file.flush()
            os.fsync(file.fileno())
        new.rename(path)
        _sync_folder(self._folder)


def _folder_of(folder: Path, address: str, queue: str) -> Path:
    return folder / quote(f"{address}::{queue}", safe=":")


def _sync_folder(folder: Path) -> None:
    """Make new file names in a folder durable."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
