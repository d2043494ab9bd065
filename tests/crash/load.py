"""A client of the crash test as a process: `python -m tests.crash.load role url ledger folder seed`."""

import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from tests.crash.consumers import consume, hurry, share, subscribe
from tests.crash.producers import Repetition, produce, transact
from tests.crash.worker import Worker
from tests.interop.proton.client import Client

ROLES: Final[Mapping[str, Callable[[Worker, Client], None]]] = {
    "produce": produce,
    "transact": transact,
    "repeat": Repetition(),
    "consume": consume,
    "hurry": hurry,
    "share": share,
    "subscribe": subscribe,
}

if __name__ == "__main__":
    role, url, ledger, folder, seed = sys.argv[1:]
    Worker(url, Path(ledger), Path(folder), int(seed)).run(ROLES[role])
