"""The parts and settings that all connections of one acceptor share."""

import asyncio
import ssl
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from attrs import field, frozen

from artemis_py.core.runtime.events import Events
from artemis_py.core.runtime.referrals import Router
from artemis_py.logs import LogBrake, named_logger
from artemis_py.protocol import (
    DEFAULT_OUTPUT_LIMIT_BYTES,
    Authenticator,
    ConnectionContext,
    ProtocolManager,
)
from artemis_py.transport.config import AcceptorConfig
from artemis_py.transport.connections import Connections
from artemis_py.transport.sockets import is_loopback
from artemis_py.transport.strangers import Standing, WatchedAuthenticator
from artemis_py.transport.tls import distinguished_name, server_name
from artemis_py.transport.turn import Turn

if TYPE_CHECKING:
    from artemis_py.transport.driver import Driver

LOGGER: Final = named_logger("artemis_py.transport.driver")


@frozen(kw_only=True)
class AcceptorContext:
    """Parts and settings that all connections of one acceptor share."""

    config: AcceptorConfig
    managers: Sequence[ProtocolManager]
    """Protocols of this acceptor, in the order in which they are asked to recognise a connection."""
    authenticator: Authenticator
    turn: Turn
    connections: Connections
    events: Events
    """Listeners that are told of connections that open, close or are refused."""
    tls: ssl.SSLContext | None = None
    router: Router | None = None
    """Decides which broker serves a client; None: this one."""
    output_limit_bytes: int = DEFAULT_OUTPUT_LIMIT_BYTES
    idle_timeout_override_ms: int | None = None
    """Idle timeout that `ConnectionContext` passes on to the protocol; None: the protocol's own."""
    brake: LogBrake = field(factory=lambda: LogBrake(LOGGER))
    """Log of exceptions that a connection must never raise; everything else is an event."""
    parameters: Mapping[str, object] = field(init=False)
    """Parameters of the acceptor as each protocol read them, by the protocol's name."""

    @parameters.default
    def _read_parameters(self) -> Mapping[str, object]:
        config = self.config
        return {manager.name: manager.read_parameters(config.name, config.parameters) for manager in self.managers}

    def connection_context(
        self,
        driver: "Driver",
        transport: asyncio.BaseTransport,
        protocol_name: str,
        login_changed: Callable[[Standing], None],
    ) -> ConnectionContext:
        """Return what a protocol may know about a connection, and what it may call."""
        tls = transport.get_extra_info("ssl_object")
        return ConnectionContext(
            connection_id=driver.id,
            peer=driver.peer,
            is_loopback=is_loopback(transport),
            is_encrypted=tls is not None,
            certificate_subject=None if tls is None else distinguished_name(tls.getpeercert()),
            authenticator=WatchedAuthenticator(self.authenticator, login_changed),
            parameters=self.parameters[protocol_name],
            virtual_host=self.config.virtual_host,
            server_name=None if tls is None else server_name(tls),
            router=self.router,
            wake=driver.wake,
            read=driver.read,
            output_limit_bytes=self.output_limit_bytes,
            idle_timeout_override_ms=self.idle_timeout_override_ms,
        )
