"""Answers programs that read Artemis through Jolokia: scalers, probes, scripts (management reference, section 3.10).

`read`, `exec`, `search` and `version` are there, by path and by body. Hawtio, the console that uses all of Jolokia,
is not served: what it shows is in the API.
"""

import json
import re
import time
from collections.abc import Generator, Mapping, Sequence
from http import HTTPStatus
from typing import Any, Final

from aiohttp import web

from artemis_py.core.runtime.background import Steps
from artemis_py.errors import InvalidFilter, InvalidRequest, NoSuchAddress, NoSuchQueue, NotAuthorized, Refusal
from artemis_py.management.audit import only_reads
from artemis_py.management.broker_control import BrokerControl
from artemis_py.management.control import Control, Kind, NoSuchResource, Operation, parse_json
from artemis_py.management.http.access import Access, Caller, check_origin
from artemis_py.management.http.administration import Administration, Find
from artemis_py.management.http.object_names import is_pattern, matching, parse_name
from artemis_py.management.http.problems import Problem

PREFIX: Final = "/console/jolokia"

MOST_REQUESTS: Final = 100
"""Requests in one body."""

PROTOCOL_VERSION: Final = "7.2"
"""Version of Jolokia's protocol that the answers follow."""

_SEPARATOR: Final = re.compile(r"((?:[^!/]|!.)*)(?:/|$)", re.DOTALL)

_NUMBER: Final = re.compile(r"-?[0-9]{1,18}")

Request = Mapping[str, Any]
"""A request in the form of Jolokia's JSON."""


class _Failure(Exception):
    """A request that has no value; the text begins with the name of a class of Java, as clients expect it."""

    def __init__(self, status: HTTPStatus, kind: str, text: str) -> None:
        super().__init__(text)
        self.status: Final = status
        self.kind: Final = kind


class Jolokia:
    """Answers requests of Jolokia's protocol."""

    def __init__(self, access: Access, administration: Administration) -> None:
        self._access: Final = access
        self._administration: Final = administration

    def routes(self) -> list[web.RouteDef]:
        """Return what it answers."""
        return [
            web.get(PREFIX, self._by_path),
            web.get(f"{PREFIX}/{{path:.*}}", self._by_path),
            web.post(PREFIX, self._by_body),
            web.post(f"{PREFIX}/", self._by_body),
        ]

    async def _by_path(self, request: web.Request) -> web.Response:
        caller = await self._access.caller(request)
        return _answer(await self._respond(caller, _of_path(request.match_info.get("path", "")), may_change=False))

    async def _by_body(self, request: web.Request) -> web.Response:
        caller = await self._access.caller(request, may_read_by_post=True)
        try:
            # Artemis wants an origin, so scripts write this one.
            check_origin(request, may_be_local=True)
            may_change = True
        except Problem:
            # A page of another site may ask, but it cannot read what we answer.
            may_change = False
        try:
            text = (await request.read()).decode("utf-8")
        except UnicodeDecodeError:
            raise Problem(HTTPStatus.BAD_REQUEST, "invalid-request", "the body is not UTF-8") from None
        body = parse_json(text, "the body")
        if isinstance(body, dict):
            return _answer(await self._respond(caller, body, may_change))
        if not isinstance(body, list) or not all(isinstance(each, dict) for each in body):
            raise InvalidRequest("the body must be a JSON object, or an array of objects")
        if len(body) > MOST_REQUESTS:
            raise InvalidRequest(f"{len(body)} requests are more than the {MOST_REQUESTS} of one body")
        return _answer([await self._respond(caller, each, may_change) for each in body])

    async def _respond(self, caller: Caller, request: Request, may_change: bool) -> dict[str, object]:
        """Return the answer to one request; whatever is wrong is said in it."""
        answer: dict[str, object] = {"request": request, "timestamp": int(time.time())}
        try:
            value = await self._value(caller, request, may_change)
        except _Failure as failure:
            return {**answer, "status": failure.status.value, **_error(failure.kind, str(failure))}
        except NotAuthorized as refusal:
            return {**answer, "status": 403, **_error("java.lang.SecurityException", str(refusal))}
        except (InvalidRequest, InvalidFilter) as refusal:
            return {**answer, "status": 400, **_error("java.lang.IllegalArgumentException", str(refusal))}
        except Refusal as refusal:
            return {**answer, "status": 500, **_error("java.lang.IllegalStateException", str(refusal))}
        return {**answer, "status": 200, "value": value}

    async def _value(self, caller: Caller, request: Request, may_change: bool) -> object:
        match request.get("type"):
            case "version":
                return await self._administration.read(caller, "", _version)
            case "search":
                return await self._administration.read(caller, "", lambda find: _search(find, _text(request)))
            case "read":
                return await self._administration.read(caller, "", lambda find: _read(find, request))
            case "exec":
                return await self._exec(caller, request, may_change)
            case other:
                raise InvalidRequest(f"type {other!r} is not one of read, exec, search, version")

    async def _exec(self, caller: Caller, request: Request, may_change: bool) -> object:
        operation = str(request.get("operation") or "").partition("(")[0]
        arguments = request.get("arguments") or []
        if not isinstance(arguments, list):
            raise InvalidRequest("arguments must be a JSON array")
        values: list[object] = []

        def look(find: Find) -> Steps:
            resources = yield from _found(find, _text(request))
            if len(resources) != 1:
                raise _missing(_text(request))
            (resource,) = resources.values()
            control = find(resource)
            if control.hides(operation):
                raise _missing(_text(request))
            values[:] = _converted(control, operation, arguments)
            if not may_change and not only_reads(operation) and operation in control.operations:
                text = f"{operation} changes something: send it as a POST, from no other web site"
                raise _Failure(HTTPStatus.FORBIDDEN, "java.lang.SecurityException", text)
            if not only_reads(operation):
                caller.check_change()
            return resource

        resource = str(await self._administration.read(caller, "", look))
        caller.check_operation(operation)
        return await self._administration.invoke(caller, "", resource, operation, values)


def _of_path(path: str) -> Request:
    """Return the request that a path is: parts between slashes, in which `!` takes the meaning of a character."""
    parts = [re.sub(r"!(.)", r"\1", part) for part in _SEPARATOR.findall(path)[:-1]]
    match parts:
        case [] | [""] | ["version"]:
            return {"type": "version"}
        case ["search", name]:
            return {"type": "search", "mbean": name}
        case ["read", name]:
            return {"type": "read", "mbean": name}
        case ["read", name, attributes, *_]:
            names = attributes.split(",")
            return {"type": "read", "mbean": name, "attribute": names if len(names) > 1 else names[0]}
        case ["exec", name, operation, *arguments]:
            return {"type": "exec", "mbean": name, "operation": operation, "arguments": arguments}
        case [kind, *_]:
            return {"type": kind}
    return {"type": ""}


def _text(request: Request) -> str:
    name = request.get("mbean")
    if not isinstance(name, str):
        raise InvalidRequest("mbean must be the name of an object")
    return name


def _version(find: Find) -> object:
    broker = find("broker")
    assert isinstance(broker, BrokerControl)
    return {
        "protocol": PROTOCOL_VERSION,
        "agent": broker.facts.version,
        "info": {"product": "artemis_py", "vendor": "artemis_py"},
    }


def _found(find: Find, name: str) -> Generator[None, None, dict[str, str]]:
    broker = find("broker")
    assert isinstance(broker, BrokerControl)
    return (yield from matching(parse_name(name), broker))


def _search(find: Find, name: str) -> Steps:
    found = yield from _found(find, name)
    return list(found)


def _missing(name: str) -> _Failure:
    kind = "javax.management.InstanceNotFoundException"
    return _Failure(HTTPStatus.NOT_FOUND, kind, name[:400])


def _read(find: Find, request: Request) -> Steps:
    name = _text(request)
    try:
        return (yield from _read_found(find, name, request.get("attribute")))
    except (NoSuchAddress, NoSuchQueue, NoSuchResource):  # it has gone since, or the client may not know of it
        raise _missing(name) from None


def _read_found(find: Find, name: str, wanted: object) -> Steps:
    found = yield from _found(find, name)
    if is_pattern(parse_name(name)):
        names = wanted if isinstance(wanted, list) else None if wanted is None else [wanted]
        values: dict[str, object] = {}
        for each, resource in found.items():
            yield None
            try:
                control = find(resource)
            except (Problem, Refusal):
                continue  # it has gone since
            values[each] = yield from _attributes(control, names)
        return values
    if not found:
        raise _missing(name)
    control = find(next(iter(found.values())))
    if isinstance(wanted, str):
        return _attribute(control, wanted)
    return (yield from _attributes(control, wanted))


def _attributes(control: Control, wanted: object) -> Steps:
    if wanted is None:
        return (yield from control.read_many(control.readable()))
    if not isinstance(wanted, list) or not all(isinstance(name, str) for name in wanted):
        raise InvalidRequest("attribute must be a name, or an array of names")
    return {name: _attribute(control, name) for name in wanted}


def _attribute(control: Control, name: str) -> object:
    try:
        return control.read(name)
    except NoSuchResource:
        raise
    except InvalidRequest as refusal:
        kind = "javax.management.AttributeNotFoundException"
        raise _Failure(HTTPStatus.NOT_FOUND, kind, str(refusal)) from None


def _converted(control: Control, operation: str, arguments: Sequence[object]) -> list[object]:
    """Return arguments in the types of an operation: in a path, and from many scripts, all of them are text."""
    # Jolokia writes these two for null and for an empty text.
    given = [None if each == "[null]" else "" if each == '""' else each for each in arguments]
    row = control.operations.get(operation)
    ways = () if row is None else row.ways
    for way in ways:
        if way.accepts(given):
            return given
    for way in ways:
        values = _as_declared(way, given)
        if way.accepts(values):
            return values
    return given


def _as_declared(way: Operation, given: Sequence[object]) -> list[object]:
    """Return texts as numbers and flags where an operation takes those."""
    if len(given) != len(way.parameters):
        return list(given)
    values: list[object] = []
    for value, parameter in zip(given, way.parameters, strict=True):
        if parameter.kind is Kind.NUMBER and isinstance(value, str) and _NUMBER.fullmatch(value):
            values.append(int(value))
        elif parameter.kind is Kind.FLAG and value in ("true", "false"):
            values.append(value == "true")
        else:
            values.append(value)
    return values


def _error(kind: str, text: str) -> dict[str, object]:
    return {"error_type": kind, "error": f"{kind} : {text}"}


def _answer(value: object) -> web.Response:
    return web.Response(text=json.dumps(value), content_type="application/json")
