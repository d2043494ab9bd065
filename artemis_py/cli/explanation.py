"""Prints what `artemis-py exchange explain` finds, as text."""

from collections.abc import Iterator, Mapping
from typing import Any

Found = Mapping[str, Any]


def explanation_lines(found: Found) -> Iterator[str]:
    """Yield the result first, then the queues with the way to each, then the exchanges with each binding."""
    count = found["queueCount"]
    result = found["outcome"]
    if result == "delivered":
        result = f"{result} to {count} queue{'' if count == 1 else 's'}"
    yield f"{result}: {found['reason']}" if found["reason"] else result
    if found["permission"] is not None:
        yield _permission(found["permission"])
    for queue in found["queues"]:
        limits = [queue["limit"], "its producers wait for credit" if queue["waits"] else None]
        notes = "".join(f"; {each}" for each in limits if each)
        yield f"queue '{queue['queue']}' of address '{queue['address']}'{notes}"
        yield f"  through {', '.join(queue['path'])}"
    if count > len(found["queues"]):
        yield f"{count - len(found['queues'])} more queues are not listed"
    if found.get("countsFor"):
        yield f"its size counts for '{found['countsFor']}'"
    for entry in found["entered"]:
        yield from _entry(entry)


def _permission(permission: Found) -> str:
    who = f"user '{permission['user']}'" if "user" in permission else f"roles {', '.join(permission['roles']) or '-'}"
    return f"{who}: {'may send' if permission['send'] else 'may not send, the message would be refused'}"


def _entry(entry: Found) -> Iterator[str]:
    through = f", through {entry['through']}" if entry["through"] else ""
    yield f"exchange '{entry['exchange']}' ({entry['type']}) with key '{entry['key']}'{through}"
    for binding in entry["bindings"]:
        to = f"queue '{binding['queue']}'"
        if binding["queue"] is None:
            to = f"exchange '{binding['destinationExchange']}'"
        reason = f": {binding['reason']}" if binding["reason"] else ""
        yield f"  {'yes' if binding['matches'] else 'no '}  key '{binding['key']}' to {to}{reason}"
    if entry["unlisted"]:
        yield f"  {entry['unlisted']} more bindings are not listed; --queue asks about those of one queue"
    if entry["alternate"]:
        yield f"  no queue was reached, so its alternate is asked: {entry['alternate']}"
