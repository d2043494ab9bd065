"""When the disk under a store counts as full, long before it is.

A commit that fails for want of space ends all storing until a restart (`store.environment`), and even removing messages
needs space. So a part of the disk is kept free: `min-disk-free` says how much, or `max-disk-usage` as a percentage of
the whole. Below it producers are held back; below half of it they are refused, as those that still had credit, or
another program, went on. The other half is what consumers need to make room again.
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
"""Where nothing is said: what a fast disk takes in some seconds, so that the next look comes early enough."""

REFUSING_PART: Final = 2
"""Producers are refused when so many times less than the limit is free."""


class DiskLevel(IntEnum):
    """How much is free."""

    ROOM = 0
    FULL = 1
    """Less than the limit: producers wait."""
    EXHAUSTED = 2
    """Less than half of it: they are refused."""


@frozen
class DiskSpace:
    """One look at a disk, in bytes."""

    total: int
    free: int
    """What this process may still use."""

    @property
    def used_part(self) -> float:
        """From 0 to 1."""
        return 1 - self.free / self.total if self.total else 0.0


@frozen(kw_only=True)
class DiskLimit:
    """How much is kept free; each -1 if it is not set, and bytes count before the percentage."""

    max_usage_percent: int = -1
    min_free_bytes: int = -1

    @classmethod
    def of(cls, max_usage_percent: int, min_free_bytes: int | None) -> "DiskLimit":
        """Return the limit that two options set; one GiB stays free where neither says anything."""
        if min_free_bytes is None:
            min_free_bytes = DEFAULT_FREE_BYTES if max_usage_percent < 0 else -1
        return cls(max_usage_percent=max_usage_percent, min_free_bytes=min_free_bytes)

    def kept_free(self, space: DiskSpace) -> int:
        """In bytes; 0: there is no limit."""
        if self.min_free_bytes >= 0:
            return self.min_free_bytes
        if self.max_usage_percent >= 0:
            return space.total * (100 - self.max_usage_percent) // 100
        return 0

    def level(self, space: DiskSpace) -> DiskLevel:
        """What is free, against the limit."""
        kept_free = self.kept_free(space)
        if space.free >= kept_free:
            return DiskLevel.ROOM
        return DiskLevel.FULL if space.free * REFUSING_PART >= kept_free else DiskLevel.EXHAUSTED


def space_of(folder: Path) -> DiskSpace:
    """The disk that a folder is on. Raises OSError."""
    total, _, free = shutil.disk_usage(folder)
    return DiskSpace(total, free)


class DiskMonitor:
    """Looks at the disk, writes changes to the log and tells them to the core."""

    def __init__(
        self,
        folder: Path,
        limit: DiskLimit,
        changed: Callable[[bool, bool], None],
        look: Callable[[Path], DiskSpace] = space_of,
        period_s: float = 5.0,
    ) -> None:
        """`changed` is told whether the disk is full, and whether it is exhausted."""
        self._folder: Final = folder
        self.limit = limit
        """Counts from the next scan on."""
        self.period_s = period_s
        """How often somebody is to scan."""
        self._changed: Final = changed
        self._look: Final = look
        self.level = DiskLevel.ROOM
        self.used_part = -1.0
        """From 0 to 1 when it was last seen; -1: never."""

    def scan(self) -> float:
        """Look once; returns the seconds until the next look. A disk that cannot be looked at stays as it was."""
        self._scan()
        return self.period_s

    def _scan(self) -> None:
        try:
            space = self._look(self._folder)
        except OSError as error:
            LOGGER.warning("disk cannot be looked at: folder=%s reason=%s", self._folder, error.strerror)
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
