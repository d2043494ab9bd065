"""The reason why a write failed, in words that an operator can act on.

LMDB says "Input/output error" whenever a write was cut short, and a disk that fills in the middle of a write cuts it
short, so the system's own reason is lost. This module therefore asks the file system, and the limits of the process.
"""

import os
import resource
from contextlib import suppress
from pathlib import Path
from typing import Final

# A write that was cut short used up the free space: less than this is left, whatever the file system reserves for
# itself.
FULL_BYTES: Final = 1 << 20
PROBE_NAME: Final = "room"
PROBE_BYTES: Final = 64 << 10


def reason_of(error: Exception, file: Path) -> str:
    """Return why `file` could not be written: the disk is full, the file may not grow, or the library's own message."""
    text = error.strerror or str(error) if isinstance(error, OSError) else str(error)
    full = _why_full(file)
    return text if full is None else f"{full} ({text})"


def _why_full(file: Path) -> str | None:
    """Return why there is no room; None if there is."""
    try:
        status = os.statvfs(file.parent)
        free_bytes = status.f_bavail * status.f_frsize
        size = file.stat().st_size if file.exists() else 0
    except OSError:
        return None
    if free_bytes < FULL_BYTES:
        return f"the disk is full: {free_bytes} bytes are left on the disk of {file.parent}"
    limit = resource.getrlimit(resource.RLIMIT_FSIZE)[0]
    if limit != resource.RLIM_INFINITY and size + FULL_BYTES > limit:
        return f"the disk is full for this process: {file} may not grow beyond {limit} bytes (ulimit -f)"
    reason = _probe(file.with_name(PROBE_NAME))
    return None if reason is None else f"the disk of {file.parent} accepts no more data: {reason}"


def _probe(path: Path) -> str | None:
    """Write a test file, because a quota shows only on writing; return the system's reason if that fails."""
    try:
        with path.open("wb") as file:
            file.write(bytes(PROBE_BYTES))
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        return error.strerror
    finally:
        with suppress(OSError):
            path.unlink(missing_ok=True)
    return None
