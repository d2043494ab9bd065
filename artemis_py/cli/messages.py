"""Prints messages, for the commands that read them."""

import base64
import json
import sys
from typing import Any
from uuid import UUID

import click

from artemis_amqp.client.messages import Message
from artemis_py.cli.render import json_text, say

PRINTED = ("body", "json", "nothing")


def print_message(message: Message, printed: str) -> None:
    """Print a message on one line: its body or all of it as JSON; or print nothing."""
    if printed == "json":
        click.echo(json_text(as_json(message)))
    elif printed == "body":
        body = message.content.body
        if isinstance(body, str) and sys.stdout.isatty():
            say(body)  # a sender's text must not reach a terminal unescaped; to a file or pipe it goes unchanged
        else:
            click.echo("" if body is None else body if isinstance(body, str | bytes) else json.dumps(_plain(body)))


def as_json(message: Message) -> dict[str, object]:
    """Return the parts of a message that are set, in JSON's types; bytes become {"base64": ...}."""
    content = message.content
    parts: dict[str, Any] = {
        "id": content.message_id,
        "address": content.to,
        "subject": content.subject,
        "reply_to": content.reply_to,
        "correlation_id": content.correlation_id,
        "content_type": content.content_type,
        "durable": message.durable,
        "priority": message.priority,
        "ttl_ms": message.ttl_ms if message.ttl_ms > 0 else None,
        "delivery_count": message.delivery_count,
        "group_id": content.group_id,
        "annotations": content.annotations or None,
        "properties": content.properties or None,
        "body": content.body,
    }
    return {name: _plain(value) for name, value in parts.items() if value is not None}


def _plain(value: Any) -> object:
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, bytes):
        return {"base64": base64.b64encode(value).decode("ascii")}
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, UUID):
        return str(value)
    return repr(value)
