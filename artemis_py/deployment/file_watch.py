"""Tells whether broker.xml has changed since it was last read (`configuration-file-refresh-period`).

It has no clock: its caller looks again after the time that `look` returns.
"""

from pathlib import Path
from typing import Final

from artemis_py.security.users import mark_of
from artemis_py.security.watch import SETTLE_S


class FileWatch:
    """One file. Any change of its time, size or inode counts: also an older time, as of a file that was put back."""

    def __init__(self, path: Path) -> None:
        """Begin with the file as it is now, just before it is read."""
        self.path: Final = path
        self._seen: object = None
        self._last_look: object = None
        self.note()

    def note(self) -> None:
        """Note that the file is read now."""
        self._seen = self._last_look = mark_of(self.path)

    def look(self) -> float | None:
        """Return 0 if the file has changed and has been quiet for a second, the seconds to wait if it has just changed.

        None: it is as it was read. A file that has just changed may still be incomplete.
        """
        before, self._last_look = self._last_look, mark_of(self.path)
        if self._last_look == self._seen:
            return None
        return 0.0 if self._last_look == before else SETTLE_S
