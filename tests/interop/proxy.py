"""A TCP proxy in front of one port, in a thread: connections pass through it until a test cuts them."""

import asyncio
import threading
from types import TracebackType
from typing import Final, Self

from artemis_py.testing.network import Relay


class Proxy:
    """A relay with a loop of its own."""

    def __init__(self, target: int) -> None:
        self._target: Final = target
        self._loop: Final = asyncio.new_event_loop()
        self._thread: Final = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._relay: Relay | None = None
        self.port = 0

    def __enter__(self) -> Self:
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self._open(), self._loop).result(10)
        return self

    async def _open(self) -> None:
        self._relay = Relay()
        self.port = await self._relay.port("127.0.0.1", self._target)

    async def _close(self) -> None:
        """End all connections, those as well that were accepted just before: their sockets would stay open."""
        assert self._relay is not None
        self._relay.refuses = True
        await self._relay.close()
        while others := asyncio.all_tasks() - {asyncio.current_task()}:
            await asyncio.wait(others, timeout=1)
            self._relay.cut()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        asyncio.run_coroutine_threadsafe(self._close(), self._loop).result(30)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def cut(self) -> None:
        """Break all connections at once."""
        assert self._relay is not None
        self._loop.call_soon_threadsafe(self._relay.cut)

    def cut_and_refuse(self) -> None:
        """Break all connections, and accept no new ones until `accept`."""
        assert self._relay is not None
        self._relay.refuses = True
        self._loop.call_soon_threadsafe(self._relay.cut)

    def accept(self) -> None:
        """Let connections through again."""
        assert self._relay is not None
        self._relay.refuses = False

    def hold(self) -> None:
        """Pass on nothing of what the target says, until `release`: the connection looks alive to both."""
        assert self._relay is not None
        self._loop.call_soon_threadsafe(self._relay.hold)

    def release(self) -> None:
        """Pass everything on again, what was held first."""
        assert self._relay is not None
        self._loop.call_soon_threadsafe(self._relay.release)
