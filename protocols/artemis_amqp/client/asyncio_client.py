"""A client on an asyncio loop: connect, attach, and the engine's own links.

For load tests and other programs that count microseconds: it adds no layer per message. Proton is more convenient.
"""

import asyncio
import ssl
from collections.abc import Callable
from typing import Final
from uuid import uuid4

from artemis_amqp.client.conversation import Conversation
from artemis_amqp.client.failures import ClientError, ConnectionFailed
from artemis_amqp.engine.connection import AmqpConnection
from artemis_amqp.engine.limits import ConnectionLimits
from artemis_amqp.engine.link import Link
from artemis_amqp.engine.performatives import Source, Target
from artemis_amqp.engine.receiver import ReceiverLink
from artemis_amqp.engine.sender import SenderLink
from artemis_amqp.engine.types import Symbol

SETTLED: Final = 1
UNSETTLED: Final = 0
"""Values of snd-settle-mode (AMQP 1.0 §2.8.2)."""

GOODBYE_S: Final = 2.0
"""Seconds that `close` waits for the broker's own close."""


class Client(asyncio.Protocol):
    """One connection with one session. `on_failure` is called once, for the first failure after the set-up."""

    def __init__(self, on_failure: Callable[[ClientError], None]) -> None:
        self._conversation: Final = Conversation(f"client-{uuid4()}", ConnectionLimits(), self._plan_flush)
        self.engine: Final[AmqpConnection] = self._conversation.engine
        self._on_failure = on_failure
        self._loop: Final = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._opened: Final[asyncio.Future[None]] = self._loop.create_future()
        self._waiting: Final[dict[Link, asyncio.Future[None]]] = {}
        """Links whose attach the broker has not answered."""
        self._lost: Final = asyncio.Event()
        self._timer: asyncio.TimerHandle | None = None
        self._is_flush_planned = False
        self._is_closing = False

    # -- for the program -------------------------------------------------------------------------------------

    @classmethod
    async def connect(
        cls,
        host: str,
        port: int,
        on_failure: Callable[[ClientError], None],
        user: str | None = None,
        password: str | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> "Client":
        """Log in (anonymously without a user) and open. Raises ConnectionFailed."""
        loop = asyncio.get_running_loop()
        try:
            _, client = await loop.create_connection(lambda: cls(on_failure), host, port, ssl=tls)
        except OSError as error:
            raise ConnectionFailed(str(error)) from error
        if user is None:
            client._conversation.start("ANONYMOUS", b"", host)
        else:
            client._conversation.start("PLAIN", f"\0{user}\0{password or ''}".encode(), host)
        try:
            await client._opened
        except ClientError:
            client._abort()
            raise
        client._conversation.begin()
        client._keep_alive()
        return client

    async def attach_sender(self, address: str, capabilities: tuple[Symbol, ...], settled: bool) -> SenderLink:
        """Attach a link to send on; the caller sets its `handler`, then checks once for credit that was granted before.

        Raises LinkFailed, ConnectionFailed.
        """
        link = await self._attach(Source(), Target(address=address, capabilities=capabilities), True, settled)
        assert isinstance(link, SenderLink)
        return link

    async def attach_receiver(self, address: str, capabilities: tuple[Symbol, ...], settled: bool) -> ReceiverLink:
        """Attach a link to receive on; the caller sets its `handler` and grants credit.

        Raises LinkFailed, ConnectionFailed.
        """
        link = await self._attach(Source(address=address, capabilities=capabilities), Target(), False, settled)
        assert isinstance(link, ReceiverLink)
        return link

    async def close(self) -> None:
        """Close; output that the engine already has is sent first."""
        self._is_closing = True
        self.engine.close()
        try:
            async with asyncio.timeout(GOODBYE_S):
                await self._lost.wait()
        except TimeoutError:
            self._abort()

    async def _attach(self, source: Source, target: Target, is_sender: bool, settled: bool) -> Link:
        link = self._conversation.attach(source, target, is_sender, SETTLED if settled else UNSETTLED)
        attached = self._waiting[link] = self._loop.create_future()
        try:
            await attached
        finally:
            self._waiting.pop(link, None)
        return link

    # -- called by asyncio -----------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Remember the transport: the socket is connected."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        """Pass received bytes to the engine."""
        self.engine.receive_data(data, self._loop.time())
        if self._conversation.has_news:
            self._tell_news()
        if self.engine.closed and self._transport is not None:
            self._flush()
            self._transport.close()

    def pause_writing(self) -> None:
        """Pause deliveries: the broker reads more slowly than we write."""
        self.engine.pause()

    def resume_writing(self) -> None:
        """Resume deliveries: the broker caught up."""
        self.engine.resume()

    def connection_lost(self, exc: Exception | None) -> None:
        """Fail: the socket is gone."""
        self._transport = None
        if self._timer is not None:
            self._timer.cancel()
        self._lost.set()
        self._conversation.fail(ConnectionFailed("the broker closed the connection" if exc is None else str(exc)))
        self._tell_news()

    # -- steps -----------------------------------------------------------------------------------------------

    def _plan_flush(self) -> None:
        """Send output after all callbacks that are ready now have run."""
        if not self._is_flush_planned:
            self._is_flush_planned = True
            self._loop.call_soon(self._flush)

    def _flush(self) -> None:
        self._is_flush_planned = False
        if self._transport is not None:
            data = self.engine.data_to_send()
            if data:
                self._transport.write(data)

    def _keep_alive(self) -> None:
        """Send heartbeats, and fail if the broker is silent for too long."""
        now = self._loop.time()
        deadline = self.engine.next_deadline()
        if deadline is not None and deadline <= now:
            self.engine.handle_deadline(now)
            self._tell_news()
            deadline = self.engine.next_deadline()
        if deadline is not None and not self.engine.closed:
            self._timer = self._loop.call_at(deadline, self._keep_alive)

    def _tell_news(self) -> None:
        """Complete the futures that wait for the broker's answers."""
        conversation = self._conversation
        conversation.has_news = False
        if conversation.failure is not None:
            self._fail(conversation.failure)
        elif conversation.is_open and not self._opened.done():
            self._opened.set_result(None)
        for link, failure in list(conversation.detached.items()):
            del conversation.detached[link]
            attached = self._waiting.get(link)
            if attached is None or attached.done():
                self._fail(failure)
            else:
                attached.set_exception(failure)
        for link, attached in self._waiting.items():
            if link in conversation.attached and not attached.done():
                attached.set_result(None)

    def _fail(self, failure: ClientError) -> None:
        """Pass a failure to all waiting futures or, if there are none, the first one to `on_failure`."""
        waiting = [future for future in (self._opened, *self._waiting.values()) if not future.done()]
        for future in waiting:
            future.set_exception(failure)
        if not waiting and not self._is_closing:
            self._is_closing = True
            self._on_failure(failure)

    def _abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()
