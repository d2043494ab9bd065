"""The limits at which the disk under a store counts as full, long before it is.

A commit that fails for lack of space ends all storing until a restart (`store.environment`), and even removing messages
needs space. So a part of the disk is kept free: `min-disk-free` says how much, or `max-disk-usage` as a percentage of
the whole. When less is free, producers wait. When less than half of it is free, they are refused, because producers
that still had credit, or another program, have used the space. The other half is what consumers need to make room
again.
"""

import shutil
from collections.abc import Callable
from enum import IntEnum
from pathlib import Path
from typing import Final

from attrs import frozen

from artemis_py.logs import named_logger

LOGGER: Final = named_logger(__name__)

DEFAULT_FREE_BYTES: Final = 1 << 30
"""Default limit: what a fast disk writes in some seconds, so that the next scan comes early enough."""

REFUSING_PART: Final = 2
"""Divisor of the limit: producers are refused when less than this part of it is free."""


class DiskLevel(IntEnum):
    """Level of free space on a disk."""

    ROOM = 0
    FULL = 1
    """Less than the limit is free: producers wait."""
    EXHAUSTED = 2
    """Less than half of the limit is free: producers are refused."""


@frozen
class DiskSpace:
    """Space of a disk at one moment, in bytes."""

    total: int
    free: int
    """Bytes that this process may still use."""

    @property
    def used_part(self) -> float:
        """Used part of the disk, from 0 to 1."""
        return 1 - self.free / self.total if self.total else 0.0


@frozen(kw_only=True)
class DiskLimit:
    """Space to keep free, in two options; -1 if an option is not set, and bytes take precedence over the percentage."""

    max_usage_percent: int = -1
    min_free_bytes: int = -1

    @classmethod
    def of(cls, max_usage_percent: int, min_free_bytes: int | None) -> "DiskLimit":
        """Return the limit that two options set; one GiB stays free where neither says anything."""
        if min_free_bytes is None:
            min_free_bytes = DEFAULT_FREE_BYTES if max_usage_percent < 0 else -1
        return cls(max_usage_percent=max_usage_percent, min_free_bytes=min_free_bytes)

    def kept_free(self, space: DiskSpace) -> int:
        """Return how many bytes of the disk to keep free; 0 if there is no limit."""
        if self.min_free_bytes >= 0:
            return self.min_free_bytes
        if self.max_usage_percent >= 0:
            return space.total * (100 - self.max_usage_percent) // 100
        return 0

    def level(self, space: DiskSpace) -> DiskLevel:
        """Return the level of the free space, compared with the limit."""
        kept_free = self.kept_free(space)
        if space.free >= kept_free:
            return DiskLevel.ROOM
        return DiskLevel.FULL if space.free * REFUSING_PART >= kept_free else DiskLevel.EXHAUSTED


def space_of(folder: Path) -> DiskSpace:
    """Return the space of the disk that a folder is on. Raises OSError."""
    total, _, free = shutil.disk_usage(folder)
    return DiskSpace(total, free)


class DiskMonitor:
    """Monitor of a disk: writes changes of its level to the log and tells them to the core."""

    def __init__(
        self,
        folder: Path,
        limit: DiskLimit,
        changed: Callable[[bool, bool], None],
        look: Callable[[Path], DiskSpace] = space_of,
        period_s: float = 5.0,
    ) -> None:
        """Start at level ROOM; `changed` is called with whether the disk is full, and whether it is exhausted."""
        self._folder: Final = folder
        self.limit = limit
        """Limit that applies from the next scan on."""
        self.period_s = period_s
        """Seconds between two scans, which the caller starts."""
        self._changed: Final = changed
        self._look: Final = look
        self.level = DiskLevel.ROOM
        self.used_part = -1.0
        """Used part of the disk at the last scan, from 0 to 1; -1 before the first."""

    def scan(self) -> float:
        """Scan once; return the seconds until the next scan. If the disk cannot be read, its level stays as it was."""
        self._scan()
        return self.period_s

    def _scan(self) -> None:
        try:
            space = self._look(self._folder)
        except OSError as error:
            LOGGER.warning("disk cannot be checked: folder=%s reason=%s", self._folder, error.strerror)
            return
        self.used_part = space.used_part
        level = self.limit.level(space)
        if level is not self.level:
            self.level = level
            self._report(space)
            self._changed(level >= DiskLevel.FULL, level is DiskLevel.EXHAUSTED)

    def _report(self, space: DiskSpace) -> None:
        kept_free = self.limit.kept_free(space)
        if self.level is DiskLevel.ROOM:
            LOGGER.info("disk has room again: folder=%s free=%d kept_free=%d", self._folder, space.free, kept_free)
        else:
            consequence = "producers wait" if self.level is DiskLevel.FULL else "messages are refused"
            LOGGER.warning(
                "disk is nearly full, %s: folder=%s free=%d kept_free=%d; free some space, or let messages be consumed",
                consequence,
                self._folder,
                space.free,
                kept_free,
            )
