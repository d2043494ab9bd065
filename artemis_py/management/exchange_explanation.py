"""What would become of a message that is sent to an exchange, with the reason for each decision, as JSON."""

from collections.abc import Mapping
from typing import Any, Final

from artemis_py.core.addresses.address import Address
from artemis_py.core.messages.builtin_format import plain_message
from artemis_py.core.messages.message import DEFAULT_PRIORITY, ROUTING_KEY, Message
from artemis_py.core.messages.view import MessageView
from artemis_py.core.queues.queue import Queue
from artemis_py.core.routing.domain import Domain
from artemis_py.core.routing.exchanges.arguments import check_arguments, check_key
from artemis_py.core.routing.exchanges.exchange import Exchange
from artemis_py.core.routing.exchanges.explaining import MAX_LOOKS, Entry, Explanation, Look
from artemis_py.core.runtime.access import Permission, Subject
from artemis_py.core.sessions.session import Session
from artemis_py.errors import InvalidRequest, LimitExceeded
from artemis_py.management.json_members import flag_of, key_of

EXPLAINED: Final = ("exchange", "key", "properties", "type", "priority", "durable", "roles", "queue")
"""Members of the object that `explainPublish` takes."""

DEFAULT: Final = ""
"""Name of the default exchange."""


def explained(session: Session, exchange: Exchange | None, wanted: Mapping[str, object]) -> dict[str, Any]:
    """Return the explanation for an exchange; without one, for the default exchange.

    Raises InvalidRequest for a member that is not of its kind, NoSuchQueue for the queue that is asked about.
    """
    domain = session.domain
    key = key_of(wanted)
    check_key("routing key", key)
    message = _message(domain, exchange, key, wanted)
    asked = wanted.get("queue")
    if asked is not None and not isinstance(asked, str):
        raise InvalidRequest("'queue' must be a text")
    found: dict[str, Any] = {"exchange": DEFAULT if exchange is None else exchange.name, "key": key}
    if exchange is None:
        return found | _through_default(session, key, wanted)
    found["permission"] = _permission(session, exchange.name, None, wanted)
    fate = domain.fate(exchange.address)
    explanation = Explanation(message, domain.meter, domain.exchanges, domain.queue(asked) if asked else None)
    problem = ""
    try:
        explanation.run(exchange, key)
    except (LimitExceeded, InvalidRequest) as refusal:
        problem = str(refusal)
    queues = [each for each in explanation.targets if isinstance(each, Queue)]
    listed = queues[:MAX_LOOKS]
    found["queueCount"] = len(queues)
    found["queues"] = [_queue(domain, queue, explanation.paths.get(queue.name, [])) for queue in listed]
    found["entered"] = [_entry(entry) for entry in explanation.entries]
    found |= _outcome(domain, exchange, queues, problem, fate)
    return found


def _message(domain: Domain, exchange: Exchange | None, key: str, wanted: Mapping[str, object]) -> Message:
    properties = wanted.get("properties", {})
    if not isinstance(properties, dict):
        raise InvalidRequest("'properties' must be a JSON object")
    subject, priority = wanted.get("type"), wanted.get("priority", DEFAULT_PRIORITY)
    if subject is not None and not isinstance(subject, str):
        raise InvalidRequest("'type' must be a text")
    if not isinstance(priority, int) or isinstance(priority, bool) or not 0 <= priority <= 9:
        raise InvalidRequest("'priority' must be a whole number from 0 to 9")
    try:
        # The limits of arguments are right for properties, too: each is compared with them.
        check_arguments({name: value for name, value in properties.items() if name != "x-qpid-no-local"})
    except InvalidRequest as error:
        raise InvalidRequest(f"'properties': {str(error).replace('of a binding ', '')}") from None
    view = MessageView(properties=properties, subject=subject)
    name = DEFAULT if exchange is None else exchange.name
    message = plain_message(name, view, durable=flag_of(wanted, "durable", True), priority=priority)
    message.set_extra(ROUTING_KEY, key)
    return message


def _permission(session: Session, address: str, queue: str | None, wanted: Mapping[str, object]) -> dict[str, Any]:
    """Return who is asked about, and whether they may send."""
    roles = wanted.get("roles")
    if roles is None:
        return {"user": session.subject.name, "send": session.may(Permission.SEND, address, queue)}
    if not isinstance(roles, list) or not all(isinstance(role, str) for role in roles):
        raise InvalidRequest("'roles' must be an array of texts")
    subject = Subject(None, frozenset(roles))
    may = session.domain.access.allows(subject, Permission.SEND, address, queue)
    return {"roles": sorted(subject.roles), "send": may}


def _through_default(session: Session, key: str, wanted: Mapping[str, object]) -> dict[str, Any]:
    domain = session.domain
    queue = domain.publishing.queue_for(key)
    if queue is None:
        text = f"the default exchange leads to the queue whose name is the routing key, and there is no queue '{key}'"
        return {
            "queueCount": 0,
            "queues": [],
            "entered": [],
            "permission": None,
            "outcome": "unroutable",
            "reason": text,
        }
    path = [f"the default exchange with key '{key}'"]
    fate = domain.fate(queue.address)
    return {
        "permission": _permission(session, queue.address.name, queue.name, wanted),
        "queueCount": 1,
        "queues": [_queue(domain, queue, path)],
        "entered": [],
        "outcome": _word(fate) if fate else "delivered",
        "reason": fate or f"as sent to ::{key}: diverts of address '{queue.address.name}' apply, too",
        "countsFor": queue.address.name,
    }


def _queue(domain: Domain, queue: Queue, path: list[str]) -> dict[str, Any]:
    fate = domain.fate(queue.address)
    return {
        "queue": queue.name,
        "address": queue.address.name,
        "path": path,
        "limit": fate,
        "waits": queue.address.must_wait,
    }


def _entry(entry: Entry) -> dict[str, Any]:
    return {
        "exchange": entry.exchange.name,
        "type": entry.exchange.config.type.value,
        "key": entry.key,
        "through": entry.through or None,
        "bindings": [_look(look) for look in entry.looks],
        "unlisted": entry.unlisted,
        "alternate": entry.alternate or None,
    }


def _look(look: Look) -> dict[str, Any]:
    key, is_queue, name = look.binding.identity
    return {
        "key": key,
        "queue": name if is_queue else None,
        "destinationExchange": None if is_queue else name,
        "arguments": look.binding.arguments,
        "matches": look.leads,
        "reason": look.reason or None,
    }


def _outcome(domain: Domain, exchange: Exchange, queues: list[Queue], problem: str, fate: str | None) -> dict[str, Any]:
    """Return what the producer is told, as `Publishing.publish` decides it."""
    if fate:
        return {"outcome": _word(fate), "reason": fate, "countsFor": exchange.name}
    if problem:
        return {"outcome": "refused", "reason": problem, "countsFor": None}
    if not queues:
        return {"outcome": "unroutable", "reason": _unroutable(exchange), "countsFor": None}
    refusals = [each for each in map(domain.fate, dict.fromkeys(queue.address for queue in queues)) if each]
    refused = [each for each in refusals if _word(each) == "refused"]
    addresses: dict[Address, None] = dict.fromkeys(queue.address for queue in queues)
    counts = next(iter(addresses)).name if len(addresses) == 1 else exchange.name
    if refused:
        return {"outcome": "refused", "reason": f"{refused[0]}; no queue gets the message", "countsFor": counts}
    if refusals and all(domain.fate(queue.address) for queue in queues):
        return {"outcome": "discarded", "reason": refusals[0], "countsFor": counts}
    return {"outcome": "delivered", "reason": "; ".join(refusals) or None, "countsFor": counts}


def _unroutable(exchange: Exchange) -> str:
    """Return what becomes of a message that reaches no queue, in words."""
    settings = exchange.address.settings
    text = "no queue gets the message: unless the producer asks otherwise, it is "
    if exchange.rejects:
        return f"{text}rejected"
    if settings.send_to_dla_on_no_route and settings.dead_letter_address:
        return f"{text}accepted, and goes to the dead-letter address '{settings.dead_letter_address}'"
    return f"{text}accepted and discarded"


def _word(fate: str) -> str:
    return fate.partition(":")[0]
