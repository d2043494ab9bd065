"""A broker whose disk has as much room as a file says: `python -m tests.interop.small_disk FILE run …`."""

import shutil
import sys
from pathlib import Path
from typing import NamedTuple

from artemis_py.cli import main

TOTAL_BYTES = 1000


class Usage(NamedTuple):
    """As `shutil.disk_usage` gives it."""

    total: int
    used: int
    free: int


if __name__ == "__main__":
    file = Path(sys.argv.pop(1))

    def disk_usage(path: object) -> Usage:
        free = int(file.read_text(encoding="ascii"))
        return Usage(TOTAL_BYTES, TOTAL_BYTES - free, free)

    shutil.disk_usage = disk_usage  # type: ignore[assignment]
    main()
