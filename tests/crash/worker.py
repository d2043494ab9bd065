"""A client of the crash test: it works until it is told to stop, and connects again whenever the broker went away.

An operation without an answer has an unknown outcome, and stays so: nothing is sent twice, except under a duplicate id.
"""

import random
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

from proton import ProtonException

from tests.crash.ledger import Ledger
from tests.crash.plan import SUBSCRIBER
from tests.interop.proton.client import Client, Refused

POLL_INTERVAL_S: Final = 0.01
LONGEST_PAUSE_S: Final = 0.04
"""Between two windows of a producer: consumers shall keep up, for in the end everything is drained and checked."""


class Worker:
    """One client process."""

    def __init__(self, url: str, ledger: Path, folder: Path, seed: int) -> None:
        """`folder`: where the broker announces its port, and the file that ends the work appears."""
        self.url: Final = url
        self.name: Final = ledger.stem
        self.ledger: Final = Ledger(ledger)
        self.random: Final = random.Random(seed)
        self._stop: Final = folder / "stop"
        self._port: Final = folder / "port"
        self._numbers = 0

    @property
    def goes_on(self) -> bool:
        """Until the stop file is there."""
        return not self._stop.exists()

    def run(self, work: Callable[["Worker", Client], None]) -> None:
        """Work, and connect again when that ends with an error."""
        while self.goes_on:
            while self.goes_on and not self._port.exists():
                time.sleep(POLL_INTERVAL_S)
            try:
                client = Client(self.url, SUBSCRIBER if self.name.startswith("subscribe") else None)
                try:
                    work(self, client)
                finally:
                    leave(client)
            except (ProtonException, Refused, OSError):
                time.sleep(POLL_INTERVAL_S)

    def new_id(self) -> str:
        """For a message or a transaction; numbers ascend."""
        self._numbers += 1
        return f"{self.name}/{self._numbers}"

    def pause(self) -> None:
        """Let the others have the machine."""
        time.sleep(self.random.uniform(0, LONGEST_PAUSE_S))


def leave(client: Client) -> None:
    """Close what is left of a connection; usually the broker is gone already."""
    with suppress(ProtonException, OSError):
        client.close()
