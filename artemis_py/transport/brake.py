"""Log lines that a stranger can provoke, written at a bounded rate."""

import logging
from typing import Final

LOGGER: Final = logging.getLogger(__name__)

# Often enough for an operator who watches, rare enough that a flood of connections cannot fill a disk: at a line of
# 200 bytes and five kinds of lines less than 10 MB a day.
INTERVAL_S: Final = 10.0


class LogBrake:
    """Lets a few lines of a kind pass in an interval and counts the others. Kinds are few and ours, never a peer's."""

    def __init__(self, logger: logging.Logger = LOGGER) -> None:
        """`logger` names the part that has something to say."""
        self._logger = logger
        self._quiet_until: dict[str, float] = {}
        self._said: dict[str, set[str]] = {}
        self._suppressed: dict[str, int] = {}

    def warn(self, kind: str, detail: str, now: float, distinct: int = 1) -> None:
        """Log `kind: detail` as a warning, unless it, or `distinct` other lines of this kind, were logged just now."""
        if now >= self._quiet_until.get(kind, now):
            self._quiet_until[kind] = now + INTERVAL_S
            self._said[kind] = set()
        said = self._said[kind]
        if detail in said or len(said) >= distinct:
            self._suppressed[kind] = self._suppressed.get(kind, 0) + 1
            return
        said.add(detail)
        suppressed = self._suppressed.pop(kind, 0)
        if suppressed:
            self._logger.warning("%s: %s (%d more since the last such line)", kind, detail, suppressed)
        else:
            self._logger.warning("%s: %s", kind, detail)
