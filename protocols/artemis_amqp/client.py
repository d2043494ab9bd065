"""The client side of the engine on an asyncio loop: connect, attach, flow.

For load tests and other programs that count microseconds; it hands out the engine's own links and adds no layer per
message. Whoever wants comfort uses Proton.
"""

import asyncio
import ssl
from collections.abc import Callable
from itertools import count
from typing import Final
from uuid import uuid4

from artemis_amqp.engine.connection import AmqpConnection
from artemis_amqp.engine.limits import ConnectionLimits
from artemis_amqp.engine.link import Link
from artemis_amqp.engine.performatives import AmqpError, Attach, Begin, Close, Detach, End, Open, Source, Target
from artemis_amqp.engine.receiver import ReceiverLink
from artemis_amqp.engine.sender import SenderLink
from artemis_amqp.engine.session import AmqpSession
from artemis_amqp.engine.states import State
from artemis_amqp.engine.types import Symbol
from artemis_py.errors import ArtemisError

SETTLED: Final = 1
UNSETTLED: Final = 0
"""What a link's sender promises (AMQP 1.0 §2.8.2)."""

GOODBYE_S: Final = 2.0
"""How long `close` waits for the broker's own close."""


class ClientError(ArtemisError):
    """A connection or link did not come about, or ended before we ended it."""

    def __init__(self, condition: str | None, text: str) -> None:
        super().__init__(text)
        self.condition: Final = condition
        """The broker's reason, an AMQP condition; None if it gave none or there was no broker."""


class ConnectionFailed(ClientError):
    """No connection, or no more."""


class LinkFailed(ClientError):
    """The broker refused or detached a link."""


class Client(asyncio.Protocol):
    """One connection with one session. Failures after the set-up go to `on_failure`, once."""

    def __init__(self, on_failure: Callable[[ClientError], None]) -> None:
        self.engine: Final = AmqpConnection(self, ConnectionLimits(), is_client=True)
        self._on_failure = on_failure
        self._loop: Final = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._session: AmqpSession | None = None
        self._names: Final = count(1)
        self._opened: Final[asyncio.Future[None]] = self._loop.create_future()
        self._attached: Final[dict[Link, asyncio.Future[None]]] = {}
        """Links whose attach the broker has not answered, or has and may still refuse."""
        self._lost: Final = asyncio.Event()
        self._timer: asyncio.TimerHandle | None = None
        self._is_open_sent = False
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
            raise ConnectionFailed(None, str(error)) from error
        if user is None:
            client.engine.login.start("ANONYMOUS", b"", host)
        else:
            client.engine.login.start("PLAIN", f"\0{user}\0{password or ''}".encode(), host)
        try:
            await client._opened
        except ClientError:
            client._abort()
            raise
        client._session = client.engine.channels.begin()
        client._keep_alive()
        return client

    async def attach_sender(self, address: str, capabilities: tuple[Symbol, ...], settled: bool) -> SenderLink:
        """A link to send on; the caller sets its `handler`, and looks once whether there was credit before that.

        Raises LinkFailed, ConnectionFailed.
        """
        link = await self._attach(Source(), Target(address=address, capabilities=capabilities), True, settled)
        assert isinstance(link, SenderLink)
        return link

    async def attach_receiver(self, address: str, capabilities: tuple[Symbol, ...], settled: bool) -> ReceiverLink:
        """A link to receive on; the caller sets its `handler`, and grants credit.

        Raises LinkFailed, ConnectionFailed.
        """
        link = await self._attach(Source(address=address, capabilities=capabilities), Target(), False, settled)
        assert isinstance(link, ReceiverLink)
        return link

    async def close(self) -> None:
        """Close in good order; what was given to the engine before is sent first."""
        self._is_closing = True
        self.engine.close()
        try:
            async with asyncio.timeout(GOODBYE_S):
                await self._lost.wait()
        except TimeoutError:
            self._abort()

    async def _attach(self, source: Source, target: Target, is_sender: bool, settled: bool) -> Link:
        assert self._session is not None
        name = f"{uuid4()}-{next(self._names)}"
        link = self._session.attach(name, source, target, is_sender, SETTLED if settled else UNSETTLED)
        attached = self._attached[link] = self._loop.create_future()
        try:
            await attached
        finally:
            self._attached.pop(link, None)
        return link

    # -- called by asyncio -----------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The socket is connected."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        """Feed the engine."""
        self.engine.receive_data(data, self._loop.time())
        if self.engine.closed and self._transport is not None:
            self._flush()
            self._transport.close()

    def pause_writing(self) -> None:
        """The broker reads more slowly than we write."""
        self.engine.pause()

    def resume_writing(self) -> None:
        """It caught up."""
        self.engine.resume()

    def connection_lost(self, exc: Exception | None) -> None:
        """The socket is gone."""
        self._transport = None
        if self._timer is not None:
            self._timer.cancel()
        self._lost.set()
        self._fail(ConnectionFailed(None, "the broker closed the connection" if exc is None else str(exc)))

    # -- called by the engine --------------------------------------------------------------------------------

    def wake(self) -> None:
        """There is output: it goes out when everything that is ready now has run."""
        if not self._is_flush_planned:
            self._is_flush_planned = True
            self._loop.call_soon(self._flush)
        if self.engine.state == State.OPENING and not self._is_open_sent:
            self._is_open_sent = True
            self.engine.send_open(self.engine.our_open(f"client-{uuid4()}"))

    def on_sasl_header(self) -> None:
        """Servers only."""

    def on_sasl_init(self, mechanism: str, initial_response: bytes | None, hostname: str | None) -> None:
        """Servers only."""

    def on_sasl_response(self, data: bytes) -> None:
        """Servers only."""

    def on_open(self, opening: Open) -> None:
        """The broker lets us in; or says so and closes at once, which `on_close` then hears."""
        if not self._opened.done():
            self._loop.call_soon(self._open)

    def on_begin(self, session: AmqpSession, begin: Begin) -> None:
        """Nothing to decide."""

    def on_attach(self, link: Link, attach: Attach) -> None:
        """The broker answers; with a null terminus it is about to refuse."""
        terminus = attach.source if isinstance(link, ReceiverLink) else attach.target
        attached = self._attached.get(link)
        if terminus is not None and attached is not None and not attached.done():
            attached.set_result(None)

    def on_detach(self, link: Link, detach: Detach) -> None:
        """The broker refuses or ends a link."""
        condition, text = _reason(detach.error, "the broker detached the link")
        failure = LinkFailed(condition, text)
        attached = self._attached.get(link)
        if attached is not None and not attached.done():
            attached.set_exception(failure)
        else:
            self._fail(failure)

    def on_end(self, session: AmqpSession, end: End) -> None:
        """The broker ends the session."""
        self._fail(ConnectionFailed(*_reason(end.error, "the broker ended the session")))

    def on_close(self, close: Close | None) -> None:
        """The broker closes."""
        error = None if close is None else close.error
        self._fail(ConnectionFailed(*_reason(error, "the broker closed the connection")))

    def on_error(self, error: AmqpError) -> None:
        """The broker broke the protocol, or refused the login."""
        self._fail(ConnectionFailed(*_reason(error, "the conversation failed")))

    def on_writable(self) -> None:
        """There is room for output again."""
        if self._session is not None:
            self._session.tell_senders()

    # -- steps -----------------------------------------------------------------------------------------------

    def _open(self) -> None:
        if not self._opened.done():
            self._opened.set_result(None)

    def _flush(self) -> None:
        self._is_flush_planned = False
        if self._transport is not None:
            data = self.engine.data_to_send()
            if data:
                self._transport.write(data)

    def _keep_alive(self) -> None:
        """Heartbeats, and an end to waiting for a broker that says nothing."""
        now = self._loop.time()
        deadline = self.engine.next_deadline()
        if deadline is not None and deadline <= now:
            self.engine.handle_deadline(now)
            deadline = self.engine.next_deadline()
        if deadline is not None and not self.engine.closed:
            self._timer = self._loop.call_at(deadline, self._keep_alive)

    def _fail(self, failure: ClientError) -> None:
        """Tell whoever waits; the first failure counts."""
        waiting = [future for future in (self._opened, *self._attached.values()) if not future.done()]
        for future in waiting:
            future.set_exception(failure)
        if not waiting and not self._is_closing:
            self._is_closing = True
            self._on_failure(failure)

    def _abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()


def _reason(error: AmqpError | None, otherwise: str) -> tuple[str | None, str]:
    """Condition and text of an error."""
    if error is None:
        return None, otherwise
    return error.condition, error.description or error.condition
