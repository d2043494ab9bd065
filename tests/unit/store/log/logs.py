"""Logs with small files, and what they have on disk."""

from pathlib import Path
from typing import Final

from artemis_py.store.log.log import WriteAheadLog
from artemis_py.store.log.options import SMALLEST_FILE_BYTES, LogOptions
from artemis_py.store.log.segment import HEADER_BYTES, RECORD_BYTES, segment_files

STORE: Final = b"store-identifier"
OPTIONS: Final = LogOptions(file_bytes=SMALLEST_FILE_BYTES, min_files=2)
THIRD_BYTES: Final = (SMALLEST_FILE_BYTES - HEADER_BYTES) // 3 - RECORD_BYTES
"""Size of a payload of which three fill a file."""


def opened(folder: Path, options: LogOptions = OPTIONS) -> WriteAheadLog:
    """The log in a folder."""
    return WriteAheadLog.open(folder / "log", STORE, options)


def batch(number: int, size: int = 40) -> bytes:
    """A payload that no other number has."""
    return (b"%d," % number * (size // 2 + 1))[:size]


def filled(folder: Path, numbers: range, size: int = 40, options: LogOptions = OPTIONS) -> dict[int, bytes]:
    """Make a log, or go on with one, and append batches; returns them."""
    batches = {number: batch(number, size) for number in numbers}
    log = opened(folder, options)
    assert list(log.read(numbers.start - 1)) == []
    for number, payload in batches.items():
        log.append(number, [payload])
    log.close()
    return batches


def read(folder: Path, after: int = 0, options: LogOptions = OPTIONS) -> dict[int, bytes]:
    """The batches that a start finds."""
    log = opened(folder, options)
    batches = dict(log.read(after))
    log.close()
    return batches


def files(folder: Path) -> list[Path]:
    """The segments."""
    return segment_files(folder / "log")


def damaged_files(folder: Path) -> list[str]:
    """Names of what was set aside."""
    return sorted(path.name for path in (folder / "log").iterdir() if ".damaged" in path.name)


def overwrite(path: Path, offset: int, data: bytes) -> None:
    """Change a file in the middle."""
    with path.open("r+b") as file:
        file.seek(offset)
        file.write(data)
