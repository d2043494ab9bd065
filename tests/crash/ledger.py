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

from tests.crash.plan import identify
from tests.interop.proton.client import Received


@frozen(kw_only=True)
class Line:
    """One fact."""

    what: str
    """Of messages: attempted, acknowledged; delivered, settling, confirmed, retired (in a transaction), drained.
    Of transactions: begun, committing, committed, rolled-back. Of subscriptions: subscribing, subscribed,
    unsubscribing, unsubscribed; found or missing in the end."""
    id: str
    """Of the message, `producer/number`; of the transaction; name of the subscription."""
    queue: str = ""
    """Where it was sent to, or came from."""
    marked: bool = False
    """The delivery says that it may not be the first."""
    priority: int = 4
    sequence: int = 0
    """Of the delivery, in its queue."""
    transaction: str = ""
    client: str = ""
    at: float = 0.0

    def __str__(self) -> str:
        facts = [f"{self.at:.4f}", self.client, self.what, self.queue]
        facts += [f"sequence={self.sequence}", f"marked={self.marked}"] if self.sequence else []
        facts += [f"transaction={self.transaction}"] if self.transaction else []
        return " ".join(facts)


class Ledger:
    """One client's file."""

    def __init__(self, path: Path) -> None:
        self._client: Final = path.stem
        self._file: Final = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)

    def note(self, what: str, id: str, queue: str = "", **facts: object) -> None:
        """Write one line; `facts` are other fields of `Line`."""
        record = {"what": what, "id": id, "queue": queue, **facts, "client": self._client, "at": time.monotonic()}
        os.write(self._file, json.dumps(record).encode() + b"\n")

    def note_delivery(self, what: str, received: Received, queue: str) -> str:
        """Write down what came, as `delivered` or `drained`; returns its id."""
        message = received.message
        id = identify(message)
        marked = not message.first_acquirer or message.delivery_count > 0
        self.note(what, id, queue, marked=marked, priority=message.priority, sequence=received.sequence)
        return id


def read(folder: Path) -> list[Line]:
    """All lines of all clients, in the order of time."""
    return sorted(_lines(folder), key=lambda line: line.at)


def _lines(folder: Path) -> Iterator[Line]:
    for path in folder.glob("*.ledger"):
        for text in path.read_text(encoding="utf-8").splitlines():
            yield Line(**json.loads(text))
