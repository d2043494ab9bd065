"""`artemis-py producer`: send messages as fast as the broker accepts them, and report their outcomes."""

import json
from collections.abc import Mapping
from typing import Any

import click
from proton import Delivery, Event, Message

from artemis_py.cli.client import (
    Conversation,
    Target,
    delivery_condition,
    parse_destination,
    refusal,
    target_options,
    want,
)
from artemis_py.cli.errors import Failed
from artemis_py.cli.render import Progress, summary


class Producing(Conversation):
    """Sends `count` messages and waits for the broker's outcome of each."""

    def __init__(
        self, target: Target, destination: str, count: int, message: Message, body: str | bytes, progress: Progress
    ) -> None:
        super().__init__(target)
        self.address, self.capability = parse_destination(destination)
        self.count = count
        self.message = message
        self.body = body
        self.progress = progress
        self.sent = 0
        self.confirmed = 0

    def begin(self, event: Event) -> None:
        """Attach a sender."""
        sender: Any = event.container.create_sender(self.connection, self.address)
        want(sender.target, self.capability)

    def on_sendable(self, event: Event) -> None:
        """Send as many messages as the credit allows."""
        sender: Any = event.sender
        while sender.credit > 0 and self.sent < self.count and not self.is_finished:
            self.message.id = self.sent + 1
            body = self.body
            self.message.body = body.replace("{n}", str(self.sent + 1)) if isinstance(body, str) else body
            sender.send(self.message)
            self.sent += 1

    def on_accepted(self, event: Event) -> None:
        """Count a message that the broker accepted."""
        self.confirmed += 1
        if self.confirmed == self.count:
            self.finish()

    def on_rejected(self, event: Event) -> None:
        """Fail: the broker rejected a message, and would reject the next one too."""
        self.fail(refusal(delivery_condition(event), f"message {self.confirmed + 1} of {self.count}"))

    def on_released(self, event: Event) -> None:
        """Fail: the broker could not accept a message (its outcome is released or modified)."""
        delivery: Any = event.delivery
        reason = "modified" if delivery.remote_state == Delivery.MODIFIED else "released"
        self.fail(Failed(f"message {self.confirmed + 1} of {self.count} was not accepted: the broker {reason} it"))

    def tick(self) -> None:
        """Show the progress."""
        self.progress.show(self.confirmed, self.elapsed_s)


def parse_property(text: str) -> tuple[str, object]:
    """Parse `k=v`: numbers, true and false are sent as such, everything else, and v in quotes, as text."""
    name, separator, value = text.partition("=")
    if not separator or not name:
        raise click.BadParameter(f"{text!r} is not of the form name=value", param_hint="--property")
    try:
        typed = json.loads(value)
    except ValueError:
        return name, value
    return name, typed if isinstance(typed, str | bool | int | float) else value


@click.command()
@target_options
@click.option("--destination", default="queue://TEST", show_default=True, help="queue://X, topic://X, X or a::q.")
@click.option("--message-count", type=click.IntRange(min=1), default=1, show_default=True, help="How many to send.")
@click.option("--message", "text", default="message {n}", show_default=True, help="Text of the body; {n} counts.")
@click.option("--message-size", type=click.IntRange(min=0), help="Send this many bytes instead of a text.")
@click.option("--property", "properties", multiple=True, metavar="NAME=VALUE", help="Application property; repeatable.")
@click.option("--durable/--non-persistent", default=True, show_default=True, help="Whether messages survive a restart.")
@click.option("--priority", type=click.IntRange(0, 9), default=4, show_default=True)
@click.option("--ttl", type=click.IntRange(min=1), help="Milliseconds until a message expires.")
@click.option("--quiet", is_flag=True, help="No summary.")
def producer(
    target: Target,
    destination: str,
    message_count: int,
    text: str,
    message_size: int | None,
    properties: tuple[str, ...],
    durable: bool,
    priority: int,
    ttl: int | None,
    quiet: bool,
) -> None:
    """Send messages and wait until the broker has accepted them."""
    named: Mapping[str, object] = dict(parse_property(each) for each in properties)
    message: Any = Message(durable=durable, priority=priority, properties=dict(named) or None)
    message.ttl = (ttl or 0) / 1000
    body: str | bytes = text if message_size is None else b"x" * message_size
    message.inferred = message_size is not None  # bytes as a data section, text as amqp-value
    message.address = parse_destination(destination)[0]
    with Progress("sent", message_count) as progress:
        producing = Producing(target, destination, message_count, message, body, progress)
        producing.run()
    if not quiet:
        click.echo(summary("sent", producing.confirmed, producing.elapsed_s), err=True)
    if producing.confirmed < message_count:
        raise Failed(f"interrupted: {message_count - producing.confirmed} messages were not confirmed")
