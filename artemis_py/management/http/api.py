"""The API: collections of resources, their attributes, and their operations, all from the tables of management.

    GET    /api/v1/queues                     a page of the list
    GET    /api/v1/queues/orders              attributes
    POST   /api/v1/queues/orders/pause        an operation, with a JSON array of its parameters
    POST, PATCH, DELETE                       create, change and delete, where a resource has that

Attributes, operations and columns are those of docs/management.md; so whatever is added there is here too.
"""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from http import HTTPStatus
from typing import Any, Final

from aiohttp import web
from attrs import frozen

from artemis_py.core.runtime.background import Steps
from artemis_py.management.control import Control, parse_json
from artemis_py.management.http.access import Access, Caller, check_origin
from artemis_py.management.http.administration import Administration
from artemis_py.management.http.problems import Problem
from artemis_py.management.http.whoami import MOST_RESOURCES, described

PREFIX: Final = "/api/v1"

LONGEST_REQUEST_BYTES: Final = 256 * 1024
"""Longest body of a request, as with messages to the management address."""

BY_QUERY: Final = "-"
"""Name in a path that stands for the query parameter `name`: for names with a slash, which some proxies change."""


@frozen
class Collection:
    """One kind of resource."""

    kind: str = ""
    """Prefix of the resources' names; empty if they have no attributes to read."""
    listing: str = ""
    """Operation of the broker that lists them; empty if `names` has them."""
    names: str = ""
    """Attribute of the broker with their names; with a listing, with names of what they belong to, if anything."""
    create: str = ""
    change: str = ""
    delete: str = ""
    """Operations of the broker; empty if there are none."""


COLLECTIONS: Final[Mapping[str, Collection]] = {
    "queues": Collection("queue", "listQueues", "", "createQueue", "updateQueue", "destroyQueue"),
    "addresses": Collection("address", "listAddresses", "", "createAddress", "updateAddress", "deleteAddress"),
    "diverts": Collection("divert", "listDiverts", "", "createDivert", "updateDivert", "destroyDivert"),
    "exchanges": Collection("exchange", "listExchanges", "", "createExchange", "updateExchange", "deleteExchange"),
    "bindings": Collection(listing="listExchangeBindings", create="bindExchange"),
    "virtual-hosts": Collection(
        "virtualhost", "listVirtualHosts", "", "createVirtualHost", "updateVirtualHost", "deleteVirtualHost"
    ),
    "connections": Collection(listing="listConnections", delete="closeConnectionWithID"),
    "consumers": Collection(listing="listConsumers"),
    "members": Collection(listing="listMembers", names="ClusterConnectionNames"),
    "acceptors": Collection("acceptor", names="AcceptorNames"),
    "cluster-connections": Collection("cluster-connection", names="ClusterConnectionNames"),
    "broker-connections": Collection("brokerconnection", names="BrokerConnectionNames"),
    "tokens": Collection(listing="listTokens", create="createToken", delete="revokeToken"),
}
"""Collections by their names in paths."""

_FORCED: Final = ("destroyQueue", "deleteAddress")
"""Deletions that take, after the name, whether to delete what is in use."""

_TEXTS: Final = ("field", "operation", "value", "sortField", "sortOrder")
"""Query parameters of a list, as members of Artemis' filter object."""


_NUMBER: Final = re.compile(r"[0-9]{1,18}")

_WORD: Final = re.compile(r"(?<=[a-z])(?=[A-Z])")


def member(attribute: str) -> str:
    """Return the name of an attribute in JSON: `MessageCount` is `messageCount`, `ID` is `id`."""
    return attribute.lower() if attribute.isupper() else attribute[:1].lower() + attribute[1:]


def attributes_of(control: Control, wanted: Sequence[str] = (), may_be_none: bool = False) -> Steps:
    """Return attributes of a resource by their names in JSON, or only those that are wanted; this is work in slices.

    Lists of the names of everything are left out unless they are wanted: they may be long, and there are pages. So is
    what the client may not read. Raises InvalidRequest for a wanted one that does not exist, and NotAuthorized; with
    `may_be_none` the client may read none.
    """
    readable = [] if wanted else control.readable(may_be_none)
    names = [*wanted] or [name for name in readable if not name.endswith("Names")]
    found = yield from control.read_many(["ID" if name == "id" else name for name in names])
    assert isinstance(found, dict)
    return {member(name): value for name, value in found.items()}


class Api:
    """Answers the requests of the API."""

    def __init__(self, access: Access, administration: Administration) -> None:
        self._access: Final = access
        self._administration: Final = administration

    def routes(self) -> list[web.RouteDef]:
        """Return what it answers."""
        one, collection = f"{PREFIX}/{{collection}}/{{name}}", f"{PREFIX}/{{collection}}"
        return [
            web.get(f"{PREFIX}/whoami", self._whoami),
            web.get(f"{PREFIX}/broker", self._broker),
            web.post(f"{PREFIX}/broker/{{operation}}", self._broker_operation),
            web.get(collection, self._list),
            web.post(collection, self._create),
            web.get(one, self._one),
            web.patch(one, self._change),
            web.delete(one, self._delete),
            web.get(f"{PREFIX}/queues/{{name}}/messages", self._messages),
            web.get(f"{PREFIX}/queues/{{name}}/messages/{{number}}", self._message),
            web.post(f"{one}/{{operation}}", self._operation),
        ]

    async def _whoami(self, request: web.Request) -> web.Response:
        caller = await self._access.caller(request)
        resources = request.query.getall("resource", [])
        if len(resources) > MOST_RESOURCES:
            text = f"{len(resources)} resources are more than the {MOST_RESOURCES} of one request"
            raise Problem(HTTPStatus.BAD_REQUEST, "invalid-request", text)
        host = request.query.get("host", "")
        found = await self._administration.read(
            caller, host, lambda find: described(find, caller.subject, resources), is_for_managers=False
        )
        return _answer(found)

    async def _broker(self, request: web.Request) -> web.Response:
        caller = await self._access.caller(request)
        wanted = _wanted(request)
        read = await self._read(request, caller, "broker", lambda control: attributes_of(control, wanted))
        return _answer(read)

    async def _one(self, request: web.Request) -> web.Response:
        caller = await self._access.caller(request)
        wanted = _wanted(request)
        resource = _resource(request)
        return _answer(await self._read(request, caller, resource, lambda control: attributes_of(control, wanted)))

    async def _list(self, request: web.Request) -> web.Response:
        caller = await self._access.caller(request)
        collection = _collection(request)
        if collection.names and not collection.kind and not await self._names(request, caller, collection):
            return _answer({"data": [], "count": 0})
        if collection.listing:
            parameters = [_filter(request), _number(request, "page", 1), _number(request, "pageSize", 100)]
            rows = await self._read(
                request, caller, "broker", lambda control: control.invoke(collection.listing, parameters)
            )
            return _json_text(str(rows))
        names = await self._names(request, caller, collection)
        found = [await self._shown(request, caller, f"{collection.kind}.{name}") for name in names]
        return _answer({"data": found, "count": len(found)})

    async def _messages(self, request: web.Request) -> web.Response:
        caller = await self._access.caller(request)
        wanted: dict[str, object] = {}
        if request.query.get("filter"):
            wanted["filter"] = request.query["filter"]
        if request.query.get("from"):
            wanted["from"] = parse_json(request.query["from"], "the parameter from")
        if "messageCount" in request.query:
            wanted["messageCount"] = _number(request, "messageCount", 0)
        text = await self._read(
            request,
            caller,
            f"queue.{_name(request)}",
            lambda control: control.invoke("listMessagesAsJSON", [wanted]),
        )
        return _json_text(str(text))

    async def _message(self, request: web.Request) -> web.Response:
        caller = await self._access.caller(request)
        text = request.match_info["number"]
        if not _NUMBER.fullmatch(text):
            raise Problem(HTTPStatus.BAD_REQUEST, "invalid-request", f"{text[:50]!r} is not the number of a message")
        found = await self._read(
            request, caller, f"queue.{_name(request)}", lambda control: control.invoke("showMessage", [int(text)])
        )
        if found is None:
            raise Problem(HTTPStatus.NOT_FOUND, "no-such-message", f"no message with the number {text} waits here")
        return _json_text(str(found))

    async def _create(self, request: web.Request) -> web.Response:
        caller, collection, body = await self._change_of(request)
        wanted = _object(body)
        operation = _possible(collection.create, request)
        result = await self._invoke(request, caller, "broker", operation, _parameters(operation, wanted))
        if not collection.kind:
            return _answer({"result": parsed(result)}, HTTPStatus.CREATED)
        return _answer(await self._shown(request, caller, f"{collection.kind}.{wanted['name']}"), HTTPStatus.CREATED)

    async def _change(self, request: web.Request) -> web.Response:
        caller, collection, body = await self._change_of(request)
        wanted = {**_object(body), "name": _name(request)}
        operation = _possible(collection.change, request)
        await self._invoke(request, caller, "broker", operation, _parameters(operation, wanted))
        return _answer(await self._shown(request, caller, _resource(request)))

    async def _delete(self, request: web.Request) -> web.Response:
        check_origin(request)
        caller = await self._access.caller(request)
        operation = _possible(_collection(request).delete, request)
        parameters: list[object] = [_name(request)]
        if operation in _FORCED:
            parameters.append(_flag(request, "force"))
        result = await self._invoke(request, caller, "broker", operation, parameters)
        if result is False:
            raise Problem(HTTPStatus.NOT_FOUND, "no-such-resource", f"there is no {parameters[0]!r} here")
        return web.Response(status=HTTPStatus.NO_CONTENT)

    async def _broker_operation(self, request: web.Request) -> web.Response:
        caller, _, body = await self._change_of(request, of_broker=True)
        operation = request.match_info["operation"]
        return _result(await self._invoke(request, caller, "broker", operation, _array(body)))

    async def _operation(self, request: web.Request) -> web.Response:
        caller, _, body = await self._change_of(request)
        operation = request.match_info["operation"]
        return _result(await self._invoke(request, caller, _resource(request), operation, _array(body)))

    async def _change_of(self, request: web.Request, of_broker: bool = False) -> tuple[Caller, Collection, object]:
        """Return who wants to change something, what kind of thing, and the body of the request."""
        check_origin(request)
        # A page of another site cannot send this type without asking first, and we do not answer that question.
        if request.content_type != "application/json":
            text = "the header Content-Type must be application/json"
            raise Problem(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "not-json", text)
        caller = await self._access.caller(request)
        collection = Collection() if of_broker else _collection(request)
        body = await request.read()
        try:
            text = body.decode("utf-8")
        except UnicodeDecodeError:
            raise Problem(HTTPStatus.BAD_REQUEST, "invalid-request", "the body is not UTF-8") from None
        return caller, collection, parse_json(text, "the body") if text.strip() else None

    async def _names(self, request: web.Request, caller: Caller, collection: Collection) -> list[str]:
        names = await self._read(request, caller, "broker", lambda control: control.read(collection.names))
        assert isinstance(names, list)
        return names

    async def _shown(self, request: web.Request, caller: Caller, resource: str) -> object:
        """Return what the client may read of a resource; nothing if it may only change it."""
        return await self._read(request, caller, resource, lambda control: attributes_of(control, may_be_none=True))

    async def _read(
        self, request: web.Request, caller: Caller, resource: str, ask: Callable[[Control], object]
    ) -> object:
        host = request.query.get("host", "")
        return await self._administration.read(caller, host, lambda find: ask(find(resource)))

    async def _invoke(
        self, request: web.Request, caller: Caller, resource: str, operation: str, parameters: Sequence[object]
    ) -> object:
        caller.check_operation(operation)
        host = request.query.get("host", "")
        return await self._administration.invoke(caller, host, resource, operation, parameters)


def _collection(request: web.Request) -> Collection:
    name = request.match_info["collection"]
    found = COLLECTIONS.get(name)
    if found is None:
        text = f"{name[:200]!r} is none of broker, {', '.join(COLLECTIONS)}"
        raise Problem(HTTPStatus.NOT_FOUND, "no-such-collection", text)
    return found


def _name(request: web.Request) -> str:
    name: str = request.match_info["name"]
    return request.query.get("name", name) if name == BY_QUERY else name


def _resource(request: web.Request) -> str:
    collection = _collection(request)
    if not collection.kind:
        name = request.match_info["collection"]
        raise Problem(HTTPStatus.NOT_FOUND, "no-such-resource", f"{name} are only listed: read /{name}")
    return f"{collection.kind}.{_name(request)}"


def _possible(operation: str, request: web.Request) -> str:
    if not operation:
        text = f"{request.match_info['collection']} do not take {request.method}"
        raise Problem(HTTPStatus.METHOD_NOT_ALLOWED, "method-not-allowed", text)
    return operation


def _wanted(request: web.Request) -> list[str]:
    return [name for name in request.query.get("attributes", "").split(",") if name]


def _filter(request: web.Request) -> dict[str, str]:
    return {name: request.query[name] for name in _TEXTS if name in request.query}


def _number(request: web.Request, name: str, default: int) -> int:
    text = request.query.get(name)
    if text is None:
        return default
    if not text.isascii() or not text.isdecimal() or len(text) > 9:
        raise Problem(HTTPStatus.BAD_REQUEST, "invalid-request", f"{name} must be a whole number, not {text[:50]!r}")
    return int(text)


def _flag(request: web.Request, name: str) -> bool:
    text = request.query.get(name, "false")
    if text not in ("true", "false"):
        raise Problem(HTTPStatus.BAD_REQUEST, "invalid-request", f"{name} must be true or false, not {text[:50]!r}")
    return text == "true"


def _object(body: object) -> dict[str, Any]:
    """Return an object with its members as the operations name them: `maxConsumers` is their `max-consumers`."""
    if not isinstance(body, dict):
        raise Problem(HTTPStatus.BAD_REQUEST, "invalid-request", "the body must be a JSON object")
    return {_WORD.sub("-", name).lower(): value for name, value in body.items()}


def _parameters(operation: str, wanted: Mapping[str, object]) -> list[object]:
    """Return the parameters of an operation that creates or changes something."""
    if operation in ("createAddress", "updateAddress"):
        return [wanted.get("name"), wanted.get("routing-types")]
    return [wanted]


def _array(body: object) -> list[object]:
    if body is None:
        return []
    if not isinstance(body, list):
        text = "the body must be a JSON array of the parameters, or empty"
        raise Problem(HTTPStatus.BAD_REQUEST, "invalid-request", text)
    return body


def parsed(result: object) -> object:
    """Return a result with what Artemis gives as text that contains JSON as the JSON itself."""
    if isinstance(result, str) and result[:1] in ("{", "["):
        try:
            return json.loads(result)
        except ValueError:
            return result
    return result


def _result(result: object) -> web.Response:
    return _answer({"result": parsed(result)})


def _answer(value: object, status: HTTPStatus = HTTPStatus.OK) -> web.Response:
    return _json_text(json.dumps(parsed(value)), status)


def _json_text(text: str, status: HTTPStatus = HTTPStatus.OK) -> web.Response:
    return web.Response(status=status, text=text, content_type="application/json")
