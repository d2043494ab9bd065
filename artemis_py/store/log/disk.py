"""What the log asks of the file system: room, durable names, and files that are set aside or deleted."""

import errno
import os
from pathlib import Path
from typing import Final

from artemis_py.logs import named_logger
from artemis_py.store.log.reading import read_content
from artemis_py.store.log.segment import DAMAGED_SUFFIX, HEADER_BYTES

LOGGER: Final = named_logger(__name__)

ZEROS_BYTES: Final = 1 << 20


def unlink(path: Path) -> None:
    """Delete a file that is not needed; one that cannot be deleted stays, and is used or deleted later."""
    try:
        path.unlink()
    except OSError as error:
        LOGGER.warning("a file of the log cannot be deleted: file=%s reason=%s", path, error.strerror)


def allocate(file: int, before: int, size: int) -> None:
    """Give a file a larger size, and its blocks where the file system can do that. Raises OSError (disk full)."""
    if hasattr(os, "posix_fallocate"):
        try:
            os.posix_fallocate(file, before, size - before)
            return
        except OSError as error:
            if error.errno not in (errno.EINVAL, errno.EOPNOTSUPP):
                raise
    os.ftruncate(file, size)


def is_unused(path: Path) -> bool:
    """Return whether there is nothing but zeros where a file has records."""
    content = read_content(path, False)[HEADER_BYTES:]
    return content.count(0) == len(content)


def clear(path: Path, offset: int, end: int) -> None:
    """Overwrite a part of a file with zeros, durably. Raises OSError."""
    file = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        while offset < end:
            offset += os.pwrite(file, bytes(min(ZEROS_BYTES, end - offset)), offset)
        os.fsync(file)
    finally:
        os.close(file)


def damaged_name(path: Path) -> Path:
    """Return a free name under which a file is set aside."""
    number = 1
    kept = path.with_name(path.name + DAMAGED_SUFFIX)
    while kept.exists():
        number += 1
        kept = path.with_name(f"{path.name}{DAMAGED_SUFFIX}-{number}")
    return kept


def sync_file(path: Path) -> None:
    file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(file)
    finally:
        os.close(file)


def sync_folder(folder: Path) -> None:
    """Make the names in a folder durable."""
    sync_file(folder)
