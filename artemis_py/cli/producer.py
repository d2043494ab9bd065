"""`artemis-py producer`: send messages as fast as the broker accepts them, and report their outcomes."""

import json
import time
from typing import Final

import click
from attrs import evolve

from artemis_amqp.client import Rejected, SenderLink
from artemis_amqp.client.messages import FOR_EVER, Message, encode_message
from artemis_amqp.engine.extensions import WAITS_FOR
from artemis_py.cli.client import Target, parse_destination, target_options
from artemis_py.cli.connection import Connection, Outcomes, given_back, is_accepted, refusal
from artemis_py.cli.errors import Failed
from artemis_py.cli.render import Progress, say, summary
from artemis_py.core.messages.view import MessageView

WAIT_S: Final = 1.0
"""Time without credit after which the user is told why."""
MAX_TTL_MS: Final = 2**32 - 1
"""Largest time to live in AMQP's header."""


class Producing:
    """Sends `count` messages and waits for the broker's outcome of each."""

    def __init__(self, connection: Connection, destination: str, count: int, message: Message) -> None:
        """Attach a sender. Raises Failed, NotConnected."""
        self._connection: Final = connection
        self._count: Final = count
        self._message: Final = message
        self._link: Final[SenderLink] = connection.attach_sender(*parse_destination(destination))
        self._outcomes: Final = Outcomes()
        self._link.handler = self._outcomes
        self.sent = 0
        self.confirmed = 0
        self._waiting_since = 0.0
        self._told = ""
        """The reason for waiting that the user was told last."""

    def run(self, progress: Progress) -> None:
        """Send all, and wait until the broker has accepted them. Raises Failed, NotConnected."""
        connection = self._connection
        while self.confirmed < self._count and not connection.was_interrupted:
            while self._link.can_send and self.sent < self._count:
                self.sent += 1
                self._link.send(b"", encoded(self._message, self.sent), None, False)
            connection.turn(self._link)
            self._take_outcomes()
            self._tell_waiting()
            progress.show(self.confirmed, connection.elapsed_s)

    def _tell_waiting(self) -> None:
        """Say why nothing is sent, once it has lasted for a moment, and again if the reason has changed."""
        link, now = self._link, time.monotonic()
        if link.credit > 0 or self.sent == self._count or self.confirmed < self.sent:
            self._waiting_since = now
            return
        self._waiting_since = self._waiting_since or now
        if now - self._waiting_since >= WAIT_S:
            properties = link.peer_properties or {}
            reason = str(properties.get(WAITS_FOR, "the broker gives no credit, and no reason"))
            if reason != self._told:
                self._told = reason
                say(f"waiting after {self.confirmed} of {self._count} messages: {reason}", err=True)

    def _take_outcomes(self) -> None:
        """Count the messages that the broker accepted; fail at another one, as the next would end in the same way."""
        while self._outcomes.arrived:
            state = self._outcomes.arrived.popleft()
            if is_accepted(state):
                self.confirmed += 1
                continue
            what = f"message {self.confirmed + 1} of {self._count}"
            raise refusal(state.error, what) if isinstance(state, Rejected) else given_back(state, what)


def encoded(message: Message, number: int) -> bytes:
    """Return a message with its number as id, and in place of `{n}` in a text."""
    body = message.content.body
    if isinstance(body, str):
        body = body.replace("{n}", str(number))
    return encode_message(evolve(message, content=evolve(message.content, message_id=number, body=body)))


def parse_property(text: str) -> tuple[str, object]:
    """Parse `k=v`: numbers, true and false are sent as such, everything else, and v in quotes, as text."""
    name, separator, value = text.partition("=")
    if not separator or not name:
        raise click.BadParameter(f"{text!r} is not of the form name=value", param_hint="--property")
    try:
        typed = json.loads(value)
    except ValueError:
        return name, value
    if isinstance(typed, int) and not -(2**63) <= typed < 2**63:
        raise click.BadParameter(
            f"{typed} is beyond 64 bits; '{name}=\"{typed}\"' sends a text", param_hint="--property"
        )
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
@click.option("--ttl", type=click.IntRange(1, MAX_TTL_MS), help="Milliseconds until a message expires.")
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
    view = MessageView(
        to=parse_destination(destination)[0],
        properties=dict(parse_property(each) for each in properties),
        body=text if message_size is None else b"x" * message_size,
    )
    message = Message(content=view, durable=durable, priority=priority, ttl_ms=ttl or FOR_EVER)
    try:
        encoded(message, 1)
    except ValueError as error:  # an argument that is not UTF-8
        raise click.UsageError(f"this message cannot be sent: {error}") from None
    with Progress("sent", message_count) as progress, Connection(target) as connection:
        producing = Producing(connection, destination, message_count, message)
        producing.run(progress)
        elapsed_s = connection.elapsed_s
    if not quiet:
        click.echo(summary("sent", producing.confirmed, elapsed_s), err=True)
    if producing.confirmed < message_count:
        raise Failed(f"interrupted: {message_count - producing.confirmed} messages were not confirmed")
