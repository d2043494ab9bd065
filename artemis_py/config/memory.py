"""The memory that this process may use: `global-max-size` is derived from it if it is not set."""

import os
from pathlib import Path
from typing import Final

# Version 2 of control groups, then version 1; in a container they show the container's own limit.
_LIMIT_FILES: Final = ("memory.max", "memory/memory.limit_in_bytes")
_CONTROL_GROUPS: Final = Path("/sys/fs/cgroup")


def half_of_memory(control_groups: Path = _CONTROL_GROUPS) -> int:
    """Return half of the machine's memory, or of the container's if that is less, in bytes.

    Artemis takes half of the Java heap, which is itself a share of the memory.
    """
    limits = [os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")]
    for name in _LIMIT_FILES:
        try:
            text = (control_groups / name).read_text(encoding="ascii").strip()
        except OSError:
            continue
        if text.isdigit():  # version 2 says "max" for no limit
            limits.append(int(text))
    return min(limits) // 2
