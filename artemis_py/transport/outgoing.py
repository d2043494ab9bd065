"""A connection that this broker makes: driven like an accepted one, with a protocol that is known from the start."""

import asyncio
import math
import socket
from collections.abc import Callable, Sequence
from typing import Final, cast

from attrs import frozen

from artemis_py.core.runtime.events import ConnectionOpened, Events
from artemis_py.peers import address_of
from artemis_py.protocol import (
    ConnectionContext,
    LoginOutcome,
    LoginResult,
    OutgoingContext,
    ProtocolConnection,
    SaslExchange,
)
from artemis_py.transport.acceptor_context import AcceptorContext
from artemis_py.transport.config import AcceptorConfig, ConnectorConfig
from artemis_py.transport.connections import Connections
from artemis_py.transport.driver import Driver
from artemis_py.transport.driver_state import State
from artemis_py.transport.sockets import is_loopback, peer_text
from artemis_py.transport.turn import Turn

Connect = Callable[[OutgoingContext], ProtocolConnection]
"""Begins our side of a conversation on a new connection."""


@frozen(kw_only=True)
class ConnectorContext:
    """Parts and settings that all connections of one connector share."""

    config: ConnectorConfig
    protocol: str
    """Name of the protocol, for the log."""
    connect: Connect
    login_timeout_s: float
    """Time from the connection to a login that both sides have finished."""
    turn: Turn
    connections: Connections
    events: Events
    may_dial: Callable[[], bool] = lambda: True
    """Tells before each attempt whether it is wanted; if not, the question comes again after a delay. The end of a
    connection that is not wanted is no news."""

    def terms(self) -> AcceptorContext:
        """Return what the driver needs: as of an acceptor that nobody can connect to."""
        config = AcceptorConfig(
            name=self.config.name,
            tcp_no_delay=self.config.tcp_no_delay,
            handshake_timeout_s=max(1, math.ceil(self.login_timeout_s)),
        )
        return AcceptorContext(
            config=config,
            managers=(),
            authenticator=_Nobody(),
            turn=self.turn,
            connections=self.connections,
            events=self.events,
        )


class _Nobody:
    """Lets nobody log in: on a connection that we make, we are the ones to do so."""

    def mechanisms(self, context: ConnectionContext) -> Sequence[str]:
        return ()

    def begin(self, mechanism: str, context: ConnectionContext) -> SaslExchange | None:
        return None

    def login(
        self, user: str | None, password: str | None, context: ConnectionContext, done: Callable[[LoginResult], None]
    ) -> None:
        done(LoginResult(LoginOutcome.BAD_CREDENTIALS))


class Outgoing(Driver):
    """One socket that this broker connected."""

    __slots__ = ("_context", "_ended", "_opened")

    def __init__(self, context: ConnectorContext, opened: Callable[[], None], ended: Callable[[str], None]) -> None:
        """Create it; `opened` is called after the login, `ended` once when the connection is over, with the reason."""
        super().__init__(context.terms())
        self._context: Final = context
        self._opened = opened
        self._ended = ended

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Register the connection and begin the conversation."""
        acceptor, context = self._acceptor, self._context
        now = acceptor.turn.enter()
        self._transport = cast(asyncio.Transport, transport)
        self.peer = peer_text(transport)
        self.peer_address = address_of(self.peer)
        refusal = acceptor.connections.admit(self)
        if refusal is not None:
            self._state = State.LOST
            self._transport.abort()
            self._ended(refusal)
            return
        # We know whom we connected to, so it takes no room from strangers, and makes none for them.
        acceptor.connections.log_in(self)
        self.id = acceptor.connections.new_id()
        if not context.config.tcp_no_delay and (sock := transport.get_extra_info("socket")) is not None:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 0)
        self._deadline = now + context.login_timeout_s
        acceptor.turn.plan_deadline(self, self._deadline)
        self._begin()
        self._state = State.OPEN
        self.protocol_name = context.protocol
        tls = context.config.tls
        outgoing = OutgoingContext(
            connection_id=self.id,
            peer=self.peer,
            host=context.config.host,
            is_loopback=is_loopback(transport),
            is_encrypted=transport.get_extra_info("ssl_object") is not None,
            has_certificate=tls is not None and tls.key_store_path is not None,
            mechanisms=context.config.sasl_mechanisms,
            wake=self.wake,
            output_limit_bytes=acceptor.output_limit_bytes,
        )
        try:
            self._connection = context.connect(outgoing)
        except Exception:
            self._fail("connect")
            self._ended("failed in connect")
            return
        acceptor.events.emit(ConnectionOpened(self.id, self.protocol_name, self.acceptor_name, self.peer))
        acceptor.turn.mark(self)

    def flush(self, now: float) -> None:
        """Write all output; note that the login is over."""
        was_stranger = self._is_stranger
        super().flush(now)
        if was_stranger and not self._is_stranger:
            self._opened()

    def _release(self, reason: str) -> None:
        was_open = self._connection is not None
        super()._release(reason)
        if was_open:
            self._ended(reason)
