"""The HTTP server: its socket, its limits, and what every answer has.

It runs on the loop of the broker, which has messages to deliver in between. So requests are small, few are carried out
at a time, and connections are few: one that is not busy makes room for a new one.
"""

import asyncio
import uuid
from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from http import HTTPStatus
from typing import Final, cast

from aiohttp import web
from aiohttp.web_protocol import RequestHandler

from artemis_py.errors import ConfigError, NotAuthorized, Refusal
from artemis_py.errors import Problem as Mistake
from artemis_py.logs import named_logger
from artemis_py.management.http.access import CHALLENGE, asks_itself, has_login
from artemis_py.management.http.problems import Problem, of_refusal
from artemis_py.peers import address_of
from artemis_py.transport.acceptor import advice
from artemis_py.transport.config import AcceptorConfig
from artemis_py.transport.tls import server_context

LOGGER: Final = named_logger(__name__)

MOST_CONNECTIONS: Final = 128
"""Open connections; a further one takes the place of the one that has been idle for longest."""

MOST_OF_ADDRESS: Final = 64
"""Open connections of one address (in IPv6 of one /64): half of all, so that nobody takes all of the room."""

KEEP_ALIVE_S: Final = 75.0
"""Time in which a connection must bring a whole request, and in which an idle one stays open."""

BACKLOG: Final = 128
"""Connections that the operating system keeps until they are accepted."""

HANDSHAKE_S: Final = 10.0
"""Time in which a new connection must be open, with TLS."""

STOP_S: Final = 2.0
"""Time that requests have to end when the broker stops."""

HEADERS: Final = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "Server": "artemis_py",
    "X-Content-Type-Options": "nosniff",
}
"""Headers of every answer: a page of ours runs only our scripts, in no frame, and nothing that it shows is kept."""

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class _Refused(asyncio.Protocol):
    """A connection for which there is no room."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Close it at once."""
        # Transports of uvloop are no instances of it.
        cast(asyncio.Transport, transport).abort()


class _Newcomer(asyncio.Protocol):
    """A connection until it is open; before, nobody knows where it comes from."""

    def __init__(self, welcome: Callable[[asyncio.Transport], None]) -> None:
        self._welcome: Final = welcome

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Hand the connection over."""
        self._welcome(cast(asyncio.Transport, transport))


class WebServer:
    """Answers HTTP at one socket."""

    def __init__(self, config: AcceptorConfig, routes: Iterable[web.RouteDef], largest_request_bytes: int) -> None:
        """Create it. Raises ConfigError if a file of TLS cannot be used."""
        self.config: Final = config
        self._tls = server_context(config)
        application = web.Application(client_max_size=largest_request_bytes, middlewares=[self._answer])
        application.add_routes(routes)
        application.on_response_prepare.append(_add_headers)
        self._runner: Final = web.AppRunner(
            application, access_log=None, keepalive_timeout=KEEP_ALIVE_S, shutdown_timeout=STOP_S, handle_signals=False
        )
        self._listening: asyncio.Server | None = None
        self._idle: Final[dict[RequestHandler, None]] = {}
        """Connections without a request at the moment, the one that has been idle for longest first."""
        self._arriving: Final[dict[RequestHandler, float]] = {}
        """Connections that were accepted and are not open yet, with the time until which they may need for that."""

    @property
    def port(self) -> int:
        """Port that clients connect to; the one that the operating system chose if the configuration says 0."""
        assert self._listening is not None
        return int(self._listening.sockets[0].getsockname()[1])

    @property
    def url(self) -> str:
        """URL of the server, without a slash at its end."""
        host = f"[{self.config.host}]" if ":" in self.config.host else self.config.host
        return f"http{'' if self._tls is None else 's'}://{host}:{self.port}"

    async def start(self) -> None:
        """Listen. Raises ConfigError if it cannot."""
        config = self.config
        await self._runner.setup()
        try:
            self._listening = await asyncio.get_running_loop().create_server(
                self._connect,
                config.host,
                config.port,
                backlog=BACKLOG,
                ssl=self._tls,
                ssl_handshake_timeout=None if self._tls is None else HANDSHAKE_S,
            )
        except OSError as error:
            await self._runner.cleanup()
            text = f"cannot listen on {config.host}:{config.port}: {error.strerror or error}; {advice(error)}"
            raise ConfigError([Mistake(config.file, config.line, "web", text)]) from error
        LOGGER.info("answering HTTP: url=%s", self.url)

    def renew_certificates(self) -> None:
        """Read the files of TLS again, for connections that come from now on.

        Raises ConfigError if one cannot be used; the certificates are those of before then.
        """
        tls = self.config.tls
        if self._tls is None or tls is None:
            return
        # asyncio has taken the context; what is wrong with the files is found out with another one.
        server_context(self.config)
        self._tls.load_cert_chain(tls.key_store_path, tls.private_key_path, lambda: tls.key_store_password or "")
        if tls.trust_store_path is not None:
            self._tls.load_verify_locations(tls.trust_store_path)

    async def stop(self) -> None:
        """Close the socket, and all connections when their requests have been answered."""
        listening, self._listening = self._listening, None
        if listening is not None:
            listening.close()
            await self._runner.cleanup()

    def _connect(self) -> asyncio.Protocol:
        """Return the protocol of a new connection; makes room for it if there is none, or refuses it."""
        server = self._runner.server
        assert server is not None
        now = asyncio.get_running_loop().time()
        there = set(server.connections)
        for arrived in [each for each, until in self._arriving.items() if each in there or until < now]:
            del self._arriving[arrived]
        for gone in self._idle.keys() - there - self._arriving.keys():
            del self._idle[gone]
        if len(there) + len(self._arriving) >= MOST_CONNECTIONS:
            oldest = next((each for each in self._idle if each in there), None)
            if oldest is None:
                return _Refused()
            del self._idle[oldest]
            oldest.force_close()
        connection = server()
        self._idle[connection] = None
        self._arriving[connection] = now + HANDSHAKE_S
        return _Newcomer(partial(self._welcome, connection))

    def _welcome(self, connection: RequestHandler, transport: asyncio.Transport) -> None:
        """Open a connection; an address that has too many gives one up for it, or does not get it."""
        server = self._runner.server
        if server is None:  # it has stopped since the connection was accepted
            transport.abort()
            return
        address = _address_of(transport)
        own = {each for each in server.connections if _address_of(each.transport) == address}
        if len(own) >= MOST_OF_ADDRESS:
            oldest = next((each for each in self._idle if each in own), None)
            if oldest is None:
                self._idle.pop(connection, None)
                self._arriving.pop(connection, None)
                transport.abort()
                return
            del self._idle[oldest]
            oldest.force_close()
        transport.set_protocol(connection)
        connection.connection_made(transport)

    @web.middleware
    async def _answer(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Answer a request, or say in JSON why not."""
        connection = request.protocol
        self._idle.pop(connection, None)
        try:
            return await handler(request)
        except Problem as problem:
            return _response(request, problem)
        except NotAuthorized as refusal:
            if has_login(request):
                return of_refusal(refusal).response()
            # Without a name one may be somebody who may do little; with one, more.
            return _response(request, Problem(HTTPStatus.UNAUTHORIZED, "login-needed", str(refusal), CHALLENGE))
        except Refusal as refusal:
            return of_refusal(refusal).response()
        except web.HTTPException as error:
            return _of_aiohttp(error).response()
        except Exception:
            number = uuid.uuid4().hex
            LOGGER.exception("request failed: id=%s method=%s path=%r", number, request.method, request.path[:200])
            text = f"a mistake of the broker; its log says more about request {number}"
            return Problem(HTTPStatus.INTERNAL_SERVER_ERROR, "internal", text).response()
        finally:
            self._idle[connection] = None


def _address_of(transport: asyncio.Transport | None) -> str | None:
    """Return the address that a connection counts for; None if it is being closed."""
    if transport is None or transport.is_closing():
        return None
    name = transport.get_extra_info("peername")
    return address_of(f"[{name[0]}]:{name[1]}" if ":" in name[0] else f"{name[0]}:{name[1]}") if name else ""


def _response(request: web.Request, problem: Problem) -> web.Response:
    if asks_itself(request):
        # The browser would open a dialog of its own.
        problem.headers.pop("WWW-Authenticate", None)
    return problem.response()


def _of_aiohttp(error: web.HTTPException) -> Problem:
    """Return the problem for what aiohttp refuses: an unknown path, a method, a body that is too large."""
    status = HTTPStatus(error.status)
    headers = {"Allow": error.headers["Allow"]} if "Allow" in error.headers else {}
    return Problem(status, status.phrase.lower().replace(" ", "-"), error.reason, headers)


async def _add_headers(request: web.Request, response: web.StreamResponse) -> None:
    response.headers.update(HEADERS)
    if request.secure:
        response.headers["Strict-Transport-Security"] = "max-age=31536000"
