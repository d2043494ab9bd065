"""A network between clients and a broker that fails as a test asks: a relay on the broker's loop."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final
from urllib.parse import urlsplit

_PIECE: Final = 64 * 1024


class Relay:
    """Relays for the acceptors of one broker; lives on the broker's loop, all calls are made there."""

    def __init__(self) -> None:
        self._servers: dict[str, tuple[asyncio.Server, int]] = {}
        self._writers: set[asyncio.StreamWriter] = set()
        self._flows: Final = asyncio.Event()
        self._flows.set()
        self.delay_s = 0.0
        self.refuses = False

    async def port(self, host: str, port: int) -> int:
        """Return the port of the relay to this one of the broker."""
        key = f"{host}:{port}"
        known = self._servers.get(key)
        if known is None:

            async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
                await self._relay(reader, writer, host, port)

            server = await asyncio.start_server(connected, "127.0.0.1", 0)
            known = self._servers[key] = server, server.sockets[0].getsockname()[1]
        return known[1]

    async def _relay(
        self, client_reader: asyncio.StreamReader, client_writer: asyncio.StreamWriter, host: str, port: int
    ) -> None:
        self._writers.add(client_writer)
        broker_writer: asyncio.StreamWriter | None = None
        try:
            if self.refuses:
                return
            broker_reader, broker_writer = await asyncio.open_connection(host, port)
            self._writers.add(broker_writer)
            there = asyncio.ensure_future(self._pump(client_reader, broker_writer, False))
            back = asyncio.ensure_future(self._pump(broker_reader, client_writer, True))
            await asyncio.wait((there, back), return_when=asyncio.FIRST_COMPLETED)
            there.cancel()
            back.cancel()
            await asyncio.gather(there, back, return_exceptions=True)
        except OSError:
            pass
        finally:
            for writer in (client_writer, broker_writer):
                if writer is not None:
                    self._writers.discard(writer)
                    writer.close()

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, is_answer: bool) -> None:
        """Pass on what comes. Answers wait while they are held."""
        with suppress(OSError):
            while data := await reader.read(_PIECE):
                if self.delay_s > 0:
                    await asyncio.sleep(self.delay_s)
                if is_answer:
                    await self._flows.wait()
                writer.write(data)
                await writer.drain()

    def hold(self) -> None:
        """Pass on no answers."""
        self._flows.clear()

    def release(self) -> None:
        """Pass on answers, the held ones first."""
        self._flows.set()

    def cut(self) -> int:
        """Break all connections at once; return how many there were."""
        writers, self._writers = self._writers, set()
        for writer in writers:
            writer.transport.abort()
        return (len(writers) + 1) // 2

    async def close(self) -> None:
        """End the relays."""
        self.cut()
        for server, _ in self._servers.values():
            server.close()
        self._servers = {}


class Network:
    """The network of one broker. Only clients that use `url` of this class are concerned."""

    def __init__(self, run: Callable[[Any], Any], relay: Relay, url: Callable[[str], str]) -> None:
        self._run: Final = run
        self._relay: Final = relay
        self._url: Final = url

    def url(self, scheme: str) -> str:
        """Return a URL like that of `RunningBroker.url`, over this network. It stays the same over restarts."""
        parts = urlsplit(self._url(scheme))
        port = self._run(self._relay.port(parts.hostname or "127.0.0.1", parts.port or 0))
        return f"{parts.scheme}://127.0.0.1:{port}"

    def cut(self) -> int:
        """Break all connections without a goodbye, and return how many there were.

        Answers that were held are lost: the broker has acted, and the client does not know.
        """
        return int(self._run(_call(self._relay.cut)))

    @contextmanager
    def held_answers(self) -> Iterator[None]:
        """Keep back what the broker sends, until the end of the block: outcomes, deliveries, everything.

        With `cut` in the block, a client loses the answer to what it sent.
        """
        self._run(_call(self._relay.hold))
        try:
            yield
        finally:
            self._run(_call(self._relay.release))

    @contextmanager
    def slow(self, delay_s: float) -> Iterator[None]:
        """Delay each piece of data, in both directions, until the end of the block."""
        self._relay.delay_s = delay_s
        try:
            yield
        finally:
            self._relay.delay_s = 0.0

    @contextmanager
    def down(self) -> Iterator[None]:
        """Break all connections, and accept no new ones until the end of the block."""
        self._relay.refuses = True
        self.cut()
        try:
            yield
        finally:
            self._relay.refuses = False


async def _call(function: Callable[[], Any]) -> Any:
    return function()
