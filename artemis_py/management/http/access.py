"""Logins over HTTP, and protection against requests that pages of other web sites cause.

A browser that has logged in here sends the login along with requests that the pages of other sites make. Such a page
cannot read the answer, because no other origin is allowed (CORS), and whatever changes something needs a request that
a page of another origin may not send without asking first. A name that is pointed at this machine after the page was
loaded (DNS rebinding) makes the page one of ours: so requests whose sender has no password need a host that nobody
can do this with.
"""

import asyncio
import base64
import binascii
from collections.abc import Callable
from functools import partial
from http import HTTPStatus
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Final
from urllib.parse import urlsplit

from aiohttp import web
from attrs import frozen

from artemis_py.core.runtime.access import Subject
from artemis_py.management.http.problems import Problem
from artemis_py.protocol import Authenticator, ConnectionContext, LoginOutcome, LoginResult
from artemis_py.security.authenticator import AnonymousAccess, OpenAuthenticator
from artemis_py.security.sasl import ANONYMOUS, EXTERNAL
from artemis_py.transport.tls import distinguished_name

CHALLENGE: Final = {"WWW-Authenticate": 'Basic realm="artemis_py", charset="UTF-8"'}

FORWARDED: Final = ("Forwarded", "Via", "X-Forwarded-For", "X-Forwarded-Host", "X-Real-IP")
"""Headers of proxies. What comes through one does not come from this machine, wherever the proxy is."""

SAME_SITE: Final = ("same-origin", "none")
"""What a browser says of a request that a page of ours makes, or that its user has typed."""


Done = Callable[[LoginResult], None]
"""Takes the result of a login."""


@frozen
class Caller:
    """The sender of a request."""

    subject: Subject
    peer: str
    """Network address, for the log."""


def check_origin(request: web.Request, may_be_local: bool = False) -> None:
    """Raise Problem for a request that a page of another site makes; only for requests that change something.

    `may_be_local`: a page that this machine serves may change something, too.
    """
    site = request.headers.get("Sec-Fetch-Site", "none")
    origin = request.headers.get("Origin")
    is_ours = (
        origin is None
        or _host_of(origin, with_port=True) == request.host
        or (may_be_local and _host_of(origin) == "localhost")
    )
    if site in SAME_SITE and is_ours:
        return
    text = f"pages of {origin or 'another site'} may not change anything here"
    raise Problem(HTTPStatus.FORBIDDEN, "cross-site", text)


class Access:
    """Logs the senders of requests in."""

    def __init__(self, authenticator: Authenticator, anonymous_metrics: AnonymousAccess) -> None:
        self._authenticator: Final = authenticator
        self._anonymous_metrics: Final = anonymous_metrics

    async def caller(self, request: web.Request) -> Caller:
        """Return who makes a request: with a name and password, a certificate, or without a name where that may be.

        Raises Problem.
        """
        context = _context(request, self._authenticator)
        header = request.headers.get("Authorization")
        # Without security, every name and password is right.
        if header is None or isinstance(self._authenticator, OpenAuthenticator):
            check_host(request)
        if header is not None:
            user, password = _credentials(header)
            return await self._login(context, lambda done: self._authenticator.login(user, password, context, done))
        offered = self._authenticator.mechanisms(context)
        for mechanism in (EXTERNAL, ANONYMOUS):
            exchange = self._authenticator.begin(mechanism, context) if mechanism in offered else None
            if exchange is not None:
                return await self._login(context, partial(exchange.respond, b"", _no_challenge))
        raise Problem(HTTPStatus.UNAUTHORIZED, "login-needed", "log in with a name and a password", CHALLENGE)

    async def check_metrics(self, request: web.Request) -> None:
        """Raise Problem if the sender may not read metrics: every user may, others as the configuration says."""
        allowed = self._anonymous_metrics
        if "Authorization" not in request.headers:
            if allowed is AnonymousAccess.EVERYWHERE:
                return None
            if allowed is AnonymousAccess.LOOPBACK and is_local(request):
                return check_host(request)
        await self.caller(request)
        return None

    async def _login(self, context: ConnectionContext, begin: Callable[[Done], None]) -> Caller:
        answer: asyncio.Future[LoginResult] = asyncio.get_running_loop().create_future()

        def done(result: LoginResult) -> None:
            if not answer.done():
                answer.set_result(result)

        begin(done)
        result = await answer
        if result.outcome is LoginOutcome.BUSY:
            raise Problem(HTTPStatus.SERVICE_UNAVAILABLE, "busy", "too many logins at once: try again later")
        if result.subject is None:
            raise Problem(HTTPStatus.UNAUTHORIZED, "login-failed", "the name or the password is wrong", CHALLENGE)
        return Caller(result.subject, context.peer)


def check_host(request: web.Request) -> None:
    """Raise Problem unless the request is for an address, or for `localhost`: other names may be anybody's."""
    host = _host_of(f"//{request.host}")
    if host == "localhost" or host.endswith(".localhost") or _address(host):
        return
    text = (
        f"without a login, requests are answered for addresses and localhost, not for {host[:200]!r}: "
        "log in, or write the address"
    )
    raise Problem(HTTPStatus.MISDIRECTED_REQUEST, "host-not-allowed", text)


def _host_of(url: str, with_port: bool = False) -> str:
    """Return the host of a URL; empty if it has none, or is none."""
    try:
        parts = urlsplit(url)
        return parts.netloc if with_port else parts.hostname or ""
    except ValueError:
        return ""


def is_local(request: web.Request) -> bool:
    """Tell whether a request comes from this machine, and not through a proxy."""
    return _is_loopback(_peer(request)[0]) and not any(name in request.headers for name in FORWARDED)


def _context(request: web.Request, authenticator: Authenticator) -> ConnectionContext:
    host, port = _peer(request)
    transport = request.transport
    certificate = None if transport is None else transport.get_extra_info("peercert")
    return ConnectionContext(
        connection_id=0,
        peer=f"[{host}]:{port}" if ":" in host else f"{host}:{port}",
        is_loopback=is_local(request),
        is_encrypted=request.secure,
        certificate_subject=distinguished_name(certificate),
        authenticator=authenticator,
        wake=_nothing_to_wake,
    )


def _peer(request: web.Request) -> tuple[str, int]:
    """Return address and port of the sender; empty if it has gone."""
    name = None if request.transport is None else request.transport.get_extra_info("peername")
    return (str(name[0]), int(name[1])) if isinstance(name, tuple) else ("", 0)


def _is_loopback(host: str) -> bool:
    address = _address(host)
    if address is None:
        return False
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return (mapped or address).is_loopback


def _address(host: str) -> IPv4Address | IPv6Address | None:
    try:
        return ip_address(host.partition("%")[0])
    except ValueError:
        return None


def _credentials(header: str) -> tuple[str, str]:
    """Return name and password of an `Authorization` header (RFC 7617). Raises Problem."""
    scheme, _, encoded = header.partition(" ")
    try:
        if scheme.lower() != "basic":
            raise ValueError
        name, separator, password = base64.b64decode(encoded.strip(), validate=True).decode("utf-8").partition(":")
        if not separator:
            raise ValueError
    except (ValueError, binascii.Error):
        text = "the header Authorization must be `Basic` and the name and password in UTF-8 (RFC 7617)"
        raise Problem(HTTPStatus.UNAUTHORIZED, "login-failed", text, CHALLENGE) from None
    return name, password


def _no_challenge(data: bytes) -> None:
    """A mechanism whose first response says everything asks nothing more."""


def _nothing_to_wake() -> None:
    """There is no conversation that would have output."""
