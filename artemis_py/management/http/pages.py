"""The files of the console, from memory: they are read once, when the broker starts."""

from collections.abc import Mapping
from http import HTTPStatus
from importlib.resources import files
from typing import Final

from aiohttp import web

from artemis_py.management.http.access import Access
from artemis_py.management.http.problems import Problem

TYPES: Final[Mapping[str, str]] = {
    "html": "text/html",
    "css": "text/css",
    "js": "text/javascript",
    "svg": "image/svg+xml",
}
"""Content types by the ends of names; other files are not served."""

FIRST_PAGE: Final = "index.html"


class Pages:
    """Serves the console below `/console/`."""

    def __init__(self, access: Access) -> None:
        self._access: Final = access
        self._files: Final = {
            each.name: (each.read_bytes(), TYPES[each.name.rpartition(".")[2]])
            for each in files("artemis_py.console").iterdir()
            if each.name.rpartition(".")[2] in TYPES
        }

    def routes(self) -> list[web.RouteDef]:
        """Return what it answers."""
        return [
            web.get("/", self._go_there),
            web.get("/console", self._go_there),
            web.get("/console/", self._file),
            web.get("/console/{file}", self._file),
        ]

    async def _go_there(self, request: web.Request) -> web.Response:
        return web.Response(status=HTTPStatus.FOUND, headers={"Location": "/console/"})

    async def _file(self, request: web.Request) -> web.Response:
        name = request.match_info.get("file", FIRST_PAGE)
        found = self._files.get(name)
        if found is None:
            raise Problem(HTTPStatus.NOT_FOUND, "not-found", f"the console has no file {name[:100]!r}")
        if name == FIRST_PAGE and request.query.get("login") == "basic":
            # For people who want the browser's own dialog: the page does not ask then.
            await self._access.caller(request)
        body, content_type = found
        return web.Response(body=body, content_type=content_type, charset="utf-8")
