"""`sendMessage` of addresses and queues: a message that a request describes, as in Artemis and in a form of ours."""

import base64
import binascii
import json
from collections.abc import Mapping
from typing import Final, Protocol

from artemis_py.core.addresses.address import Address
from artemis_py.core.messages.builtin_format import plain_message
from artemis_py.core.messages.message import DEFAULT_PRIORITY, LATEST_MS
from artemis_py.core.messages.view import MessageView
from artemis_py.core.names.syntax import FQQN_SEPARATOR, is_unicode
from artemis_py.core.queues.reference import PRIORITIES
from artemis_py.core.routing.duplicates import DUPLICATE_ID, duplicate_id
from artemis_py.core.sessions.inlet import EndpointInlet
from artemis_py.core.sessions.session import Session
from artemis_py.errors import InvalidRequest
from artemis_py.management.control import Kind, Operation, Parameter, Row, edit
from artemis_py.management.message_treatments import check_room

TEXT: Final = 3
OCTETS: Final = (0, 4)
"""Artemis' types of messages whose body is octets, in base64; 3 is text."""

MAX_PROPERTIES: Final = 1_000
MAX_NUMBER: Final = (1 << 63) - 1
"""Largest number of a property: 64 bits with a sign, which every protocol has."""

_TEXTS: Final = {
    "contentType": "content_type",
    "correlationID": "correlation_id",
    "groupID": "group_id",
    "replyTo": "reply_to",
    "subject": "subject",
}
"""Members of our form that are texts, and the fields of a message that they become."""

_OTHERS: Final = ("body", "bodyBase64", "properties", "durable", "priority", "timeToLive", "delay")


class Destination(Protocol):
    """The resource of an address or a queue."""

    session: Session

    @property
    def destination(self) -> Address:
        """The address that messages are sent to."""

    @property
    def queue_name(self) -> str:
        """Queue of the address that they are for; empty: all that want them."""


def _send_described(
    control: Destination,
    headers: dict[str, object] | None,
    kind: int,
    body: str | None,
    durable: bool,
    user: str | None,
    password: str | None,
    has_id: bool = False,
) -> str:
    """Send a message that is described as in Artemis; return its message id.

    Raises InvalidRequest, NotAuthorized and what a producer is refused for.
    """
    own = control.session.subject.user
    if user and user != own:
        raise InvalidRequest(f"the message is sent by who asks, not by user '{user}': log in as that user")
    if kind == TEXT:
        content: object = body or ""
    elif kind in OCTETS:
        content = _octets(body or "", "body")
    else:
        raise InvalidRequest(f"type {kind} of messages cannot be sent here: use 3 (text), 0 or 4 (octets in base64)")
    return _send(control, MessageView(body=content), headers or {}, durable)[0]


def _send_object(control: Destination, wanted: Mapping[str, object]) -> str:
    """Send a message that a JSON object describes. Raises as the other form does.

    Returns its message id, and how many queues got it, as JSON text.
    """
    unknown = [name for name in wanted if name not in _TEXTS and name not in _OTHERS]
    if unknown:
        raise InvalidRequest(f"a message has no '{unknown[0]}'; it may have {', '.join(sorted([*_TEXTS, *_OTHERS]))}")
    view = MessageView()
    for name, field in _TEXTS.items():
        value = wanted.get(name)
        if value is not None and not isinstance(value, str):
            raise InvalidRequest(f"'{name}' must be a text")
        setattr(view, field, value)
    body, octets = wanted.get("body"), wanted.get("bodyBase64")
    if body is not None and octets is not None:
        raise InvalidRequest("a message has 'body' or 'bodyBase64', not both")
    if isinstance(octets, str):
        view.body = _octets(octets, "bodyBase64")
    elif octets is not None:
        raise InvalidRequest("'bodyBase64' must be a text")
    elif body is None or isinstance(body, str):
        view.body = body or ""
    else:
        raise InvalidRequest("'body' must be a text; write JSON as text, with a 'contentType'")
    properties, durable = wanted.get("properties", {}), wanted.get("durable", True)
    if not isinstance(properties, dict):
        raise InvalidRequest("'properties' must be a JSON object")
    if not isinstance(durable, bool):
        raise InvalidRequest("'durable' must be true or false")
    priority = _number(wanted, "priority", DEFAULT_PRIORITY, PRIORITIES - 1)
    span_ms, delay_ms = _number(wanted, "timeToLive", 0, LATEST_MS), _number(wanted, "delay", 0, LATEST_MS)
    id, count = _send(control, view, properties, durable, priority, span_ms, delay_ms)
    return json.dumps({"messageID": id, "queueCount": count})


def _send(
    control: Destination,
    view: MessageView,
    properties: dict[str, object],
    durable: bool,
    priority: int = DEFAULT_PRIORITY,
    span_ms: int = 0,
    delay_ms: int = 0,
) -> tuple[str, int]:
    """Send a message as any client would; return its id, and how many queues got it.

    The spans, in milliseconds, are 0 for none.
    """
    _check(view, properties)
    session, now_ms = control.session, control.session.domain.dispatcher.now_ms
    name = control.destination.name
    queue = control.queue_name
    producer = session.producer(f"{name}{FQQN_SEPARATOR}{queue}" if queue else name)
    if isinstance(producer.inlet, EndpointInlet):
        raise InvalidRequest(f"'{name}' takes requests and no messages: ask it yourself")
    check_room(control.destination)
    view.properties = properties
    id = view.message_id = f"ID:{session.domain.entropy.uuid()}"
    view.creation_time_ms = now_ms
    message = plain_message(name, view, durable=durable, priority=priority)
    if span_ms:
        message.expires_ms = now_ms + span_ms
    if delay_ms:
        message.delivery_time_ms = now_ms + delay_ms
    return id, producer.send(message, None, duplicate_id(properties.get(DUPLICATE_ID)))


def _check(view: MessageView, properties: Mapping[str, object]) -> None:
    texts = [view.body, *[getattr(view, field) for field in _TEXTS.values()], *properties, *properties.values()]
    if any(isinstance(text, str) and not is_unicode(text) for text in texts):
        raise InvalidRequest("a text of the message has half of a surrogate pair, which no protocol can send")
    if len(properties) > MAX_PROPERTIES:
        raise InvalidRequest(f"a message has {MAX_PROPERTIES} properties at most")
    for name, value in properties.items():
        if not name:
            raise InvalidRequest("a property needs a name")
        if isinstance(value, dict | list):
            raise InvalidRequest(f"property '{name}' must be a text, a number, true, false or null")
        if isinstance(value, int) and abs(value) > MAX_NUMBER:
            raise InvalidRequest(f"property '{name}' has a number of more than 64 bits")


def _octets(text: str, name: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise InvalidRequest(f"'{name}' must be octets in base64") from None


def _number(wanted: Mapping[str, object], name: str, default: int, most: int) -> int:
    value = wanted.get(name, default)
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= most:
        raise InvalidRequest(f"'{name}' must be a whole number from 0 to {most}")
    return value


_DESCRIBED: Final = (
    Parameter("headers", Kind.OBJECT_OR_NULL),
    Parameter("type", Kind.NUMBER),
    Parameter("body", Kind.TEXT_OR_NULL),
    Parameter("durable", Kind.FLAG),
    Parameter("user", Kind.TEXT_OR_NULL),
    Parameter("password", Kind.TEXT_OR_NULL),
)

SEND: Final[Row] = edit(
    Operation(_send_described, *_DESCRIBED),
    Operation(_send_described, *_DESCRIBED, Parameter("createMessageId", Kind.FLAG)),
    Operation(_send_object, Parameter("message", Kind.OBJECT)),
)
"""Operation of an address and of a queue; it needs the permission to send there as well."""
