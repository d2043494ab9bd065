"""How a message is shown by the commands that read messages."""

import base64
import json
from typing import Any
from uuid import UUID

import click
from proton import Message

PRINTED = ("body", "json", "nothing")


def print_message(message: Message, printed: str) -> None:
    """One line per message: its body, all of it as JSON, or no line at all."""
    if printed == "json":
        click.echo(json.dumps(as_json(message), ensure_ascii=False))
    elif printed == "body":
        body: Any = message.body
        if isinstance(body, memoryview):
            body = bytes(body)
        click.echo("" if body is None else body if isinstance(body, str | bytes) else json.dumps(_plain(body)))


def as_json(message: Message) -> dict[str, object]:
    """The parts of a message that are set, in JSON's types; bytes become {"base64": ...}."""
    parts: dict[str, Any] = {
        "id": message.id,
        "address": message.address,
        "subject": message.subject,
        "reply_to": message.reply_to,
        "correlation_id": message.correlation_id,
        # Proton reads a missing one as the text None.
        "content_type": None if message.content_type == "None" else message.content_type,
        "durable": message.durable,
        "priority": message.priority,
        "ttl_ms": round(message.ttl * 1000) or None,
        "delivery_count": message.delivery_count,
        "group_id": message.group_id,
        "annotations": message.annotations,
        "properties": message.properties,
        "body": message.body,
    }
    return {name: _plain(value) for name, value in parts.items() if value is not None}


def _plain(value: Any) -> object:
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, bytes | memoryview):
        return {"base64": base64.b64encode(value).decode("ascii")}
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, UUID):
        return str(value)
    return repr(value)
