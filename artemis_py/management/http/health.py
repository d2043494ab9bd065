"""Health checks for supervisors and load balancers. They need no login, and their answers name nothing.

Liveness never looks at the disk or at other brokers: a restart would mend neither.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from http import HTTPStatus
from typing import Final

from aiohttp import web

Check = Callable[[], str | None]
"""Returns what is wrong; None if all is well."""


class Health:
    """Answers `/health/live`, `/health/started` and `/health/ready`."""

    def __init__(self, has_started: Check, checks: Mapping[str, Check]) -> None:
        """Create it; `checks` by name are what the broker needs to serve clients, besides having started."""
        self._has_started: Final = has_started
        self._checks: Final = {"started": has_started, **checks}

    def routes(self) -> list[web.RouteDef]:
        """Return what it answers."""
        return [
            web.get("/health/live", self._live),
            web.get("/health/started", self._started),
            web.get("/health/ready", self._ready),
        ]

    async def _live(self, request: web.Request) -> web.Response:
        """That the loop comes to answer is the answer."""
        return _answer([])

    async def _started(self, request: web.Request) -> web.Response:
        return _answer([("started", self._has_started())])

    async def _ready(self, request: web.Request) -> web.Response:
        return _answer([(name, check()) for name, check in self._checks.items()])


def _answer(found: Sequence[tuple[str, str | None]]) -> web.Response:
    checks = [
        {"check": name, "ok": problem is None, **({} if problem is None else {"detail": problem})}
        for name, problem in found
    ]
    is_well = all(problem is None for _, problem in found)
    body = json.dumps({"ok": is_well, "checks": checks})
    status = HTTPStatus.OK if is_well else HTTPStatus.SERVICE_UNAVAILABLE
    return web.Response(status=status, text=body, content_type="application/json")
