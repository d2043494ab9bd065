"""What made a write fail, in words that an operator can act on.

LMDB says "Input/output error" whenever a write was cut short, and a disk that fills in the middle of a write cuts it
short: the system's own reason is lost. So the file system is asked, and the limit of the process.
"""

import os
import resource
from pathlib import Path
from typing import Final

# A write that was cut short took what there was; what is left is less than this, whatever the file system keeps for
# itself.
FULL_BYTES: Final = 1 << 20
PROBE_NAME: Final = "room"
PROBE_BYTES: Final = 64 << 10


def reason_of(error: Exception, file: Path) -> str:
    """Why `file` could not be written: the disk is full, or the file may not grow, or what the library said."""
    text = error.strerror or str(error) if isinstance(error, OSError) else str(error)
    full = _why_full(file)
    return text if full is None else f"{full} ({text})"


def _why_full(file: Path) -> str | None:
    """None if there is room."""
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
    return None if reason is None else f"the disk of {file.parent} takes nothing more: {reason}"


def _probe(path: Path) -> str | None:
    """A quota shows only to who writes; the reason of the system if that fails."""
    try:
        with path.open("wb") as file:
            file.write(bytes(PROBE_BYTES))
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        return error.strerror
    finally:
        path.unlink(missing_ok=True)
    return None
