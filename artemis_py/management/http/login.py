"""Logging in and out for people: what the console's login page asks.

GET  /api/v1/login     who asks, and by which way he has logged in
POST /api/v1/login     {"name", "password"}: opens a session, which a cookie stands for
POST /api/v1/logout    ends it
"""

import asyncio
import json
from collections.abc import Mapping
from http import HTTPStatus
from typing import Final

from aiohttp import web

from artemis_py.logs import named_logger
from artemis_py.management.control import parse_json
from artemis_py.management.http.access import Access, Caller, check_origin, cookie_header
from artemis_py.management.http.problems import Problem

LOGGER: Final = named_logger(__name__)

PATH: Final = "/api/v1/login"
LOGOUT: Final = "/api/v1/logout"

BODY_S: Final = 10.0
"""Time for the body of a login: nobody has logged in yet, and a connection that is busy makes no room for others."""


class Login:
    """Answers the requests of the login page."""

    def __init__(self, access: Access) -> None:
        self._access: Final = access

    def routes(self) -> list[web.RouteDef]:
        """Return what it answers."""
        return [web.get(PATH, self._who), web.post(PATH, self._log_in), web.post(LOGOUT, self._log_out)]

    async def _who(self, request: web.Request) -> web.Response:
        return self._answer(await self._access.caller(request), {})

    async def _log_in(self, request: web.Request) -> web.Response:
        check_origin(request)
        name, password = await _given(request)
        caller, cookie = await self._access.open_session(request, name, password)
        LOGGER.info("session opened: user=%s peer=%s", caller.subject.name, caller.peer)
        return self._answer(caller, {"Set-Cookie": cookie_header(request, cookie)})

    async def _log_out(self, request: web.Request) -> web.Response:
        caller = await self._access.caller(request)
        if caller.session is None:
            text = "there is no session to end: nobody has logged in here with POST /api/v1/login"
            raise Problem(HTTPStatus.CONFLICT, "no-session", text)
        self._access.sessions.close(caller.session)
        LOGGER.info("session ended by its user: user=%s peer=%s", caller.subject.name, caller.peer)
        return web.Response(status=HTTPStatus.NO_CONTENT, headers={"Set-Cookie": cookie_header(request, "")})

    def _answer(self, caller: Caller, headers: Mapping[str, str]) -> web.Response:
        known: dict[str, object] = {"user": caller.subject.user, "by": caller.by}
        session = caller.session
        if session is not None:
            now = self._access.sessions.now()
            known["csrf"] = session.csrf
            known["idleSeconds"] = round(session.ends - now)
            known["leftSeconds"] = round(session.life_ends - now)
        return web.Response(text=json.dumps(known), content_type="application/json", headers=dict(headers))


async def _given(request: web.Request) -> tuple[str, str]:
    """Return name and password of a login. Raises Problem, InvalidRequest."""
    # A page of another site cannot send this type without asking first, and we do not answer that question.
    if request.content_type != "application/json":
        text = "the header Content-Type must be application/json"
        raise Problem(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "not-json", text)
    try:
        async with asyncio.timeout(BODY_S):
            octets = await request.read()
        body = parse_json(octets.decode("utf-8"), "the body")
        wanted = body if isinstance(body, dict) else {}
        name, password = wanted.get("name"), wanted.get("password")
        if isinstance(name, str) and isinstance(password, str) and name:
            # Escapes of JSON can write halves of characters, which are no text.
            f"{name}{password}".encode()
            return name, password
    except TimeoutError:
        text = f"the body did not come within {BODY_S:g} s"
        raise Problem(HTTPStatus.REQUEST_TIMEOUT, "request-timeout", text, {"Connection": "close"}) from None
    except UnicodeError:
        pass
    text = 'the body must be {"name": "…", "password": "…"} in UTF-8'
    raise Problem(HTTPStatus.BAD_REQUEST, "invalid-request", text)
