"""A listening socket."""

import asyncio
import errno
import socket
import ssl
from collections.abc import Sequence
from typing import Final

from artemis_py.core.runtime.outer_events import AcceptorStarted, AcceptorStopped
from artemis_py.errors import ConfigError, Problem
from artemis_py.logs import named_logger
from artemis_py.protocol import ProtocolManager
from artemis_py.transport.acceptor_context import AcceptorContext
from artemis_py.transport.config import AcceptorConfig
from artemis_py.transport.driver import Driver
from artemis_py.transport.encryption import TlsLayer
from artemis_py.transport.sockets import set_buffers
from artemis_py.transport.tls import server_context

LOGGER: Final = named_logger(__name__)

# asyncio accepts a socket in one iteration of its loop, and makes a transport for it in the next two. If that one is
# refused, its socket is closed in the iteration after them.
ITERATIONS_OF_ACCEPT: Final = 4

ANY_HOST: Final = {"": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "::1"}
"""Addresses that a client on this machine connects to if the broker listens on every interface."""


class Acceptor:
    """Listens for the connections of one `AcceptorConfig`.

    When the process runs out of file descriptors, asyncio stops accepting for a second at a time; the connections
    wait in the backlog.
    """

    def __init__(self, context: AcceptorContext) -> None:
        self._context = context
        self._tls = context.tls
        self._server: asyncio.Server | None = None
        self._announced_port: int | None = None
        """Port that listeners were told of; None while it does not listen."""

    @property
    def config(self) -> AcceptorConfig:
        """Configuration of this acceptor."""
        return self._context.config

    @property
    def protocols(self) -> list[str]:
        """Names of the protocols that this acceptor speaks."""
        return [manager.name for manager in self._context.managers]

    @property
    def is_listening(self) -> bool:
        """Whether the socket is open."""
        return self._server is not None

    @property
    def port(self) -> int:
        """Port that clients connect to; the one that the operating system chose if the configuration says 0."""
        assert self._server is not None
        return int(self._server.sockets[0].getsockname()[1])

    async def start(self) -> None:
        """Open the socket. Raises ConfigError if it cannot listen on the address."""
        config = self._context.config
        loop = asyncio.get_running_loop()
        try:
            self._server = await loop.create_server(
                lambda: accept(self._context, self._tls),
                config.host,
                config.port,
                backlog=config.backlog,
                start_serving=False,
            )
            # Before it listens, because the window of a connection is chosen while the connection is made.
            for each in self._server.sockets:
                set_buffers(each, config.tcp_send_buffer_size, config.tcp_receive_buffer_size)
            await self._server.start_serving()
        except OSError as error:
            await self.stop()
            text = f"cannot listen on {config.host}:{config.port}: {error.strerror or error}; {advice(error)}"
            raise ConfigError([Problem(config.file, config.line, f"acceptor {config.name}", text)]) from error
        LOGGER.info(
            "listening: acceptor=%s address=%s:%d protocols=%s", config.name, config.host, self.port, self.protocols
        )
        self._announced_port = self.port
        self._context.events.emit(AcceptorStarted(config.name, config.host, self.port, tuple(self.protocols)))

    def renew_certificates(self) -> None:
        """Read the files of TLS again, for connections that come from now on.

        Raises ConfigError if one cannot be used; the certificates are those of before then.
        """
        self._tls = server_context(self._context.config)

    async def stop(self) -> None:
        """Close the listening socket; connections stay."""
        server, self._server = self._server, None
        if server is None:
            return
        loop = asyncio.get_running_loop()
        if isinstance(loop, asyncio.SelectorEventLoop):
            # It makes no transport for a socket that it accepted just before the server is closed, and does not close
            # that socket either. (uvloop accepts a socket and makes its transport at once.)
            for each in server.sockets:
                loop.remove_reader(each.fileno())
            for _ in range(ITERATIONS_OF_ACCEPT):
                await asyncio.sleep(0)
        server.close()
        port, self._announced_port = self._announced_port, None
        if port is not None:
            config = self._context.config
            self._context.events.emit(AcceptorStopped(config.name, config.host, port))


def url_of(acceptors: Sequence[Acceptor], scheme: str) -> str:
    """Return the URL for clients of a protocol: `amqp://127.0.0.1:port`, or `amqps://` with TLS.

    Raises LookupError if no acceptor speaks the protocol.
    """
    for acceptor in acceptors:
        if scheme.upper() in acceptor.protocols:
            host = ANY_HOST.get(acceptor.config.host, acceptor.config.host)
            secure = "" if acceptor.config.tls is None else "s"
            return f"{scheme}{secure}://{f'[{host}]' if ':' in host else host}:{acceptor.port}"
    raise LookupError(f"no acceptor of this broker speaks {scheme}")


def managers_of(config: AcceptorConfig, installed: Sequence[ProtocolManager]) -> list[ProtocolManager]:
    """Return the managers of the protocols that an acceptor names, or of all that are installed."""
    return [manager for manager in installed if not config.protocols or manager.name in config.protocols]


def accept(acceptor: AcceptorContext, tls: ssl.SSLContext | None) -> asyncio.Protocol:
    """Return the asyncio protocol for a socket that is being accepted."""
    driver = Driver(acceptor)
    return driver if tls is None else TlsLayer(driver, tls)


def advice(error: OSError) -> str:
    """Return what to do if a socket cannot listen."""
    if isinstance(error, socket.gaierror):
        return "write a name of this machine that resolves, or an address such as 127.0.0.1 or 0.0.0.0"
    match error.errno:
        case errno.EADDRINUSE:
            return "choose a free port, or end the program that has this one: perhaps this broker runs already"
        case errno.EACCES | errno.EPERM:
            return "ports below 1024 need the right to use them: choose a higher one, or give the process that right"
        case errno.EADDRNOTAVAIL:
            return "this machine has no such address: use one of its own, or 0.0.0.0 for all of them"
        case errno.EAFNOSUPPORT:
            return "this machine does not support this kind of address"
        case _:
            return "choose another host or port"
