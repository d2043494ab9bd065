"""What all finders have in common: one task, from the start to the stop."""

import asyncio
from abc import ABC, abstractmethod
from typing import Final

MOST_ENDPOINTS: Final = 1000
"""Hosts and ports that are taken from one source: a mesh has a hundred members at most."""

Endpoint = tuple[str, int]
"""Host and port."""


class Finder(ABC):
    """Finds brokers from its start to its stop, and tells of them whenever they change."""

    def __init__(self) -> None:
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin, on the running loop."""
        self._task = asyncio.get_running_loop().create_task(self.run())

    def stop(self) -> None:
        """End; what was told stays true."""
        if self._task is not None:
            self._task.cancel()

    async def wait_stopped(self) -> None:
        """Wait until everything that `stop` ends has ended."""
        if self._task is not None:
            await asyncio.wait((self._task,))

    @abstractmethod
    async def run(self) -> None:
        """Find, until cancelled."""
