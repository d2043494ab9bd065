"""What clients write down, each into a file of its own: before every operation, and after every answer.

One JSON object a line. Clients outlive the broker they test, so a line only has to leave the process. Times are
those of the system's monotonic clock, which all processes share.
"""

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from attrs import frozen


@frozen(kw_only=True)
class Line:
    """One fact."""

    what: str
    """attempted, acknowledged, delivered, confirmed; begun, committed, rolled-back for transactions."""
    id: str
    """Of the message, `producer/number`; or of the transaction."""
    queue: str = ""
    """Where it was sent to, or came from."""
    marked: bool = False
    """The delivery says that it may not be the first."""
    priority: int = 4
    transaction: str = ""
    client: str = ""
    at: float = 0.0


class Ledger:
    """One client's file."""

    def __init__(self, path: Path) -> None:
        self._client: Final = path.stem
        self._file: Final = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)

    def note(
        self, what: str, id: str, queue: str = "", marked: bool = False, priority: int = 4, transaction: str = ""
    ) -> None:
        """Write one line."""
        record = {
            "what": what,
            "id": id,
            "queue": queue,
            "marked": marked,
            "priority": priority,
            "transaction": transaction,
            "client": self._client,
            "at": time.monotonic(),
        }
        os.write(self._file, json.dumps(record).encode() + b"\n")


def read(folder: Path) -> list[Line]:
    """All lines of all clients, in the order of time."""
    return sorted(_lines(folder), key=lambda line: line.at)


def _lines(folder: Path) -> Iterator[Line]:
    for path in folder.glob("*.ledger"):
        for text in path.read_text(encoding="utf-8").splitlines():
            yield Line(**json.loads(text))
