"""Logins over HTTP, and protection against requests that pages of other web sites cause.

A program sends a name and password (`Basic`) or a token (`Bearer`) with each request, or has a certificate. People log
in once and have a session, for which a cookie stands. A request with the header `Authorization` never uses the cookie.

A browser that has logged in here sends the login along with requests that the pages of other sites make. Such a page
cannot read the answer, because no other origin is allowed (CORS), and whatever changes something needs a request that
a page of another origin may not send without asking first. A name that is pointed at this machine after the page was
loaded (DNS rebinding) makes the page one of ours: so requests whose sender has no password need a host that nobody
can do this with. The cookie is sent with requests that pages of other sites cause only if they are of the same site,
which other servers on this machine are: so with it, a change needs a header that only our own pages know.
"""

import asyncio
import base64
import binascii
import hmac
from collections.abc import Callable, Mapping
from functools import partial
from http import HTTPStatus
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Final, TypeVar
from urllib.parse import urlsplit

from aiohttp import web
from attrs import frozen

from artemis_py.core.runtime.access import Subject
from artemis_py.errors import NotAuthorized
from artemis_py.management.http.problems import Problem
from artemis_py.management.http.web_sessions import WebSession, WebSessions
from artemis_py.management.token_control import CREATE
from artemis_py.protocol import Authenticator, ConnectionContext, LoginOutcome, LoginResult
from artemis_py.security.authenticator import AnonymousAccess, OpenAuthenticator
from artemis_py.security.sasl import ANONYMOUS, EXTERNAL
from artemis_py.security.token_logins import TokenLogin, TokenLogins
from artemis_py.security.tokens import Scope, Token
from artemis_py.transport.tls import distinguished_name

CHALLENGE: Final = {"WWW-Authenticate": 'Basic realm="artemis_py", charset="UTF-8"'}

TOKEN_CHALLENGE: Final = {"WWW-Authenticate": 'Bearer realm="artemis_py", error="invalid_token"'}
"""Answer to a wrong token (RFC 6750 §3)."""

CSRF: Final = "X-Artemis-Csrf"
"""Header that a change with a session needs, with the value that the login has returned."""

ASKS_ITSELF: Final = "X-Artemis-Login"
"""Header with the value `page` of programs that ask for the password themselves, such as the console's pages."""

COOKIE: Final = "artemis"
"""Beginning of the cookie's name; the port follows, because browsers send cookies to all ports of a host."""

READING: Final = ("GET", "HEAD")
"""Methods that change nothing."""

FORWARDED: Final = ("Forwarded", "Via", "X-Forwarded-For", "X-Forwarded-Host", "X-Real-IP")
"""Headers of proxies. What comes through one does not come from this machine, wherever the proxy is."""

SAME_SITE: Final = ("same-origin", "none")
"""What a browser says of a request that a page of ours makes, or that its user has typed."""


Result = TypeVar("Result")

Done = Callable[[LoginResult], None]
"""Takes the result of a login."""


@frozen
class Caller:
    """The sender of a request."""

    subject: Subject
    peer: str
    """Network address, for the log."""
    by: str = ""
    """How he has logged in: `session`, `token`, `password`, `certificate` or `anonymous`."""
    session: WebSession | None = None
    token: Token | None = None

    def check_change(self) -> None:
        """Raise NotAuthorized for a token that only reads."""
        if self.token is not None and self.token.scope is not Scope.ALL:
            raise NotAuthorized(f"token {self.token.id} has the scope '{self.token.scope.value}' and changes nothing")

    def check_operation(self, operation: str) -> None:
        """Raise NotAuthorized if an operation needs a person: a token that made tokens would never end."""
        if self.token is not None and operation == CREATE:
            raise NotAuthorized("a token makes no tokens: log in with a name and a password, or a certificate")


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


def check_session(request: web.Request, session: WebSession) -> None:
    """Raise Problem for a change that no page of ours makes; the cookie alone came with the request by itself."""
    site = request.headers.get("Sec-Fetch-Site")
    origin = request.headers.get("Origin")
    has_our_origin = origin is not None and _host_of(origin, with_port=True) == request.host
    is_ours = has_our_origin if site is None else site == "same-origin" and (has_our_origin or origin is None)
    given = request.headers.get(CSRF, "").encode("utf-8", "surrogateescape")
    if not is_ours or not hmac.compare_digest(given, session.csrf.encode("ascii")):
        text = f"a change with a session needs the same origin, and the header {CSRF} with what the login has returned"
        raise Problem(HTTPStatus.FORBIDDEN, "cross-site", text)


def has_login(request: web.Request) -> bool:
    """Tell whether a request brings a login of its own, not only a certificate or nothing."""
    return "Authorization" in request.headers or _cookie_name(request) in request.cookies


def asks_itself(request: web.Request) -> bool:
    """Tell whether a request comes from a page that asks for the password, in place of the browser."""
    return request.headers.get(ASKS_ITSELF) == "page"


def cookie_header(request: web.Request, cookie: str) -> str:
    """Return the header that sets the cookie of a session until the browser is closed; empty: that removes it."""
    # With this prefix of the name, browsers take it from this host over TLS only, and for all paths.
    secure = "; Secure" if request.secure else ""
    gone = "" if cookie else "; Max-Age=0"
    return f"{_cookie_name(request)}={cookie}; Path=/; HttpOnly; SameSite=Strict{secure}{gone}"


def _cookie_name(request: web.Request) -> str:
    try:
        port = urlsplit(f"//{request.host}").port
    except ValueError:
        port = None
    return f"{'__Host-' if request.secure else ''}{COOKIE}-{port or (443 if request.secure else 80)}"


class Access:
    """Logs the senders of requests in."""

    def __init__(
        self,
        authenticator: Authenticator,
        anonymous_metrics: AnonymousAccess,
        sessions: WebSessions,
        tokens: TokenLogins,
    ) -> None:
        self._authenticator: Final = authenticator
        self._anonymous_metrics: Final = anonymous_metrics
        self.sessions: Final = sessions
        self._tokens: Final = tokens

    async def caller(self, request: web.Request, may_read_by_post: bool = False) -> Caller:
        """Return who makes a request that the scope of his token allows; see `_caller`.

        `may_read_by_post`: whoever answers this request finds out itself whether it changes something, and calls
        `Caller.check_change`. Raises Problem, and NotAuthorized for a token that is not for this.
        """
        caller = await self._caller(request)
        if caller.token is not None and caller.token.scope is Scope.METRICS:
            raise NotAuthorized(f"token {caller.token.id} has the scope 'metrics' and reads nothing but /metrics")
        if request.method not in READING and not may_read_by_post:
            caller.check_change()
        return caller

    async def open_session(self, request: web.Request, name: str, password: str) -> tuple[Caller, str]:
        """Log a user in who gives name and password, and begin a session; return it with its cookie. Raises Problem."""
        if isinstance(self._authenticator, OpenAuthenticator):
            check_host(request)
        context = _context(request, self._authenticator)
        changes = self.sessions.changes
        # Without a challenge: whoever asks here has a page for the password.
        result = await _result(lambda done: self._authenticator.login(name, password, context, done), {})
        if changes != self.sessions.changes:
            raise Problem(HTTPStatus.SERVICE_UNAVAILABLE, "busy", "the users were just changed: log in again")
        before = self.sessions.find(request.cookies.get(_cookie_name(request), ""))
        if before is not None:
            self.sessions.close(before)
        session, cookie = self.sessions.open(result)
        return Caller(result, context.peer, "session", session), cookie

    async def _caller(self, request: web.Request) -> Caller:
        """Return who makes a request: with a name and password, a token, a session, a certificate, or without a name
        where that may be.

        Raises Problem.
        """
        context = _context(request, self._authenticator)
        peer = context.peer
        header = request.headers.get("Authorization")
        cookie = request.cookies.get(_cookie_name(request))
        # Without security, every name and password is right.
        if (header is None and cookie is None) or isinstance(self._authenticator, OpenAuthenticator):
            check_host(request)
        if header is not None:
            scheme, _, given = header.partition(" ")
            if scheme.lower() == "bearer":
                return await self._by_token(given.strip(), peer)
            user, password = _credentials(scheme, given)
            subject = await _result(lambda done: self._authenticator.login(user, password, context, done), CHALLENGE)
            return Caller(subject, peer, "password")
        if cookie is not None:
            return self._by_cookie(request, cookie, peer)
        offered = self._authenticator.mechanisms(context)
        for mechanism, by in ((EXTERNAL, "certificate"), (ANONYMOUS, "anonymous")):
            exchange = self._authenticator.begin(mechanism, context) if mechanism in offered else None
            if exchange is not None:
                subject = await _result(partial(exchange.respond, b"", _no_challenge), CHALLENGE)
                return Caller(subject, peer, by)
        raise Problem(HTTPStatus.UNAUTHORIZED, "login-needed", "log in with a name and a password", CHALLENGE)

    def _by_cookie(self, request: web.Request, cookie: str, peer: str) -> Caller:
        session = self.sessions.find(cookie)
        if session is None:
            # Without the cookie, the next request may need no login at all.
            headers = {**CHALLENGE, "Set-Cookie": cookie_header(request, "")}
            raise Problem(HTTPStatus.UNAUTHORIZED, "session-ended", "the session has ended: log in again", headers)
        if request.method not in READING:
            check_session(request, session)
        return Caller(session.subject, peer, "session", session)

    async def _by_token(self, text: str, peer: str) -> Caller:
        if not self._tokens.is_ready:
            text = "the broker is starting, and does not know its tokens yet"
            raise Problem(HTTPStatus.SERVICE_UNAVAILABLE, "host-stopped", text)
        answer: asyncio.Future[TokenLogin] = asyncio.get_running_loop().create_future()
        self._tokens.login(text, peer, partial(_resolve, answer))
        found = await answer
        wrong = "the token is wrong, has ended or was revoked"
        return Caller(_subject(found.result, wrong, TOKEN_CHALLENGE), peer, "token", token=found.token)

    async def check_metrics(self, request: web.Request) -> None:
        """Raise Problem if the sender may not read metrics: every user may, others as the configuration says."""
        allowed = self._anonymous_metrics
        if "Authorization" not in request.headers:
            if allowed is AnonymousAccess.EVERYWHERE:
                return None
            if allowed is AnonymousAccess.LOOPBACK and is_local(request):
                return check_host(request)
        await self._caller(request)
        return None


async def _result(begin: Callable[[Done], None], challenge: Mapping[str, str]) -> Subject:
    """Return the user of a login when it has been checked. Raises Problem."""
    answer: asyncio.Future[LoginResult] = asyncio.get_running_loop().create_future()
    begin(partial(_resolve, answer))
    return _subject(await answer, "the name or the password is wrong", challenge)


def _subject(result: LoginResult, wrong: str, challenge: Mapping[str, str]) -> Subject:
    if result.outcome is LoginOutcome.BUSY:
        raise Problem(HTTPStatus.SERVICE_UNAVAILABLE, "busy", "too many logins at once: try again later")
    if result.subject is None:
        raise Problem(HTTPStatus.UNAUTHORIZED, "login-failed", wrong, challenge)
    return result.subject


def _resolve(answer: asyncio.Future[Result], result: Result) -> None:
    # Whoever waits may have been cancelled.
    if not answer.done():
        answer.set_result(result)


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


def _credentials(scheme: str, encoded: str) -> tuple[str, str]:
    """Return name and password of an `Authorization` header (RFC 7617). Raises Problem."""
    try:
        if scheme.lower() != "basic":
            raise ValueError
        name, separator, password = base64.b64decode(encoded.strip(), validate=True).decode("utf-8").partition(":")
        if not separator:
            raise ValueError
    except (ValueError, binascii.Error):
        text = "the header Authorization must be `Bearer` and a token, or `Basic` and name and password (RFC 7617)"
        raise Problem(HTTPStatus.UNAUTHORIZED, "login-failed", text, CHALLENGE) from None
    return name, password


def _no_challenge(data: bytes) -> None:
    """A mechanism whose first response says everything asks nothing more."""


def _nothing_to_wake() -> None:
    """There is no conversation that would have output."""
