"""`artemis-py consumer`: receive messages from a queue or subscription and print them."""

import time

import click

from artemis_amqp.client import ReceiverLink, Source, selector_filter
from artemis_py.cli.client import Target, parse_destination, target_options, unread
from artemis_py.cli.connection import Connection, Inbox, capabilities, tell_created
from artemis_py.cli.errors import Failed
from artemis_py.cli.listing import list_options, show_list
from artemis_py.cli.messages import PRINTED, print_message
from artemis_py.cli.render import Progress, summary

# Enough to keep a link with a round trip of a millisecond busy; small enough to leave other consumers their share.
CREDIT_WINDOW = 1000


class Consuming:
    """Receives until the count, a time-out, an empty message or Ctrl-C; accepts the messages that it has printed."""

    def __init__(self, connection: Connection, destination: str, count: int | None, filter: str | None) -> None:
        """Attach a receiver. Raises Failed, NotConnected."""
        address, capability = parse_destination(destination)
        source = Source(
            address=address,
            filter=selector_filter(filter) if filter else None,
            capabilities=capabilities(capability),
        )
        self._connection = connection
        self._count = count
        self._link: ReceiverLink = connection.attach_receiver(source)[0]
        tell_created(connection)
        self._inbox = Inbox()
        self._link.handler = self._inbox
        self.received = 0
        self.broke_on_null = False
        self.last_at = time.monotonic()
        """Time at which something arrived, even if only part of a large message."""

    @property
    def aborted(self) -> int:
        """Number of messages that the broker could not read to their end."""
        return self._link.aborted

    def run(self, timeout_s: float | None, break_on_null: bool, printed: str, progress: Progress) -> None:
        """Print and accept messages. Raises Failed, NotConnected."""
        connection, link = self._connection, self._link
        before = (0, link.arriving)
        while not connection.was_interrupted:
            self._top_up()
            connection.turn(link)
            self._print(break_on_null, printed)
            progress.show(self.received, connection.elapsed_s)
            if self.received == self._count or self.broke_on_null:
                return
            now = time.monotonic()
            if (arrived := (self.received + link.aborted, link.arriving)) != before:
                before = arrived
                self.last_at = now
            elif timeout_s is not None and now - self.last_at >= timeout_s:
                return

    def _print(self, break_on_null: bool, printed: str) -> None:
        """Print what arrived, accepting each; messages after the last one return to the queue when the link closes."""
        while self._inbox and self.received != self._count and not self._connection.was_interrupted:
            delivery_id, message = self._inbox.take()
            print_message(message, printed)
            self._connection.accept(self._link, delivery_id)
            self.received += 1
            if break_on_null and message.content.body is None:
                self.broke_on_null = True
                return

    def _top_up(self) -> None:
        """Grant credit, but never for more messages than are still wanted: the rest stays for other consumers.

        The credit of an aborted message is renewed by the engine.
        """
        link = self._link
        if link.credit * 2 >= CREDIT_WINDOW:
            return
        more = CREDIT_WINDOW
        if self._count is not None:
            begun = 1 if link.arriving >= 0 else 0
            more = min(more, self._count - self.received - begun)
        if more > link.credit:
            link.grant(more)


@click.group(invoke_without_command=True)
@target_options
@click.option("--destination", default="queue://TEST", show_default=True, help="queue://X, topic://X, X or a::q.")
@click.option("--message-count", type=click.IntRange(min=1), help="Stop after this many messages; default: never.")
@click.option("--filter", help="Selector: receive only messages that match.")
@click.option("--receive-timeout", type=click.IntRange(min=0), help="Stop when no message came for this many ms.")
@click.option("--break-on-null", is_flag=True, help="Stop at the first message without a body.")
@click.option(
    "--print", "printed", type=click.Choice(PRINTED), default="body", show_default=True, help="What to print of each."
)
@click.option("--json", "printed", flag_value="json", help="Same as --print json: one JSON object per line.")
@click.option("--quiet", is_flag=True, help="No summary.")
@click.pass_context
def consumer(
    context: click.Context,
    target: Target,
    destination: str,
    message_count: int | None,
    filter: str | None,
    receive_timeout: int | None,
    break_on_null: bool,
    printed: str,
    quiet: bool,
) -> None:
    """Receive messages and print them; each is accepted once it is printed.

    With a count, the exit code is 1 if fewer messages came before the time-out. "consumer list" lists the consumers of
    all clients.
    """
    if context.invoked_subcommand is not None:
        return
    timeout_s = None if receive_timeout is None else receive_timeout / 1000
    with Progress("received", message_count) as progress, Connection(target) as connection:
        consuming = Consuming(connection, destination, message_count, filter)
        consuming.run(timeout_s, break_on_null, printed, progress)
    if not quiet:
        click.echo(summary("received", consuming.received, consuming.last_at - connection.opened_at), err=True)
    if message_count is not None and consuming.received < message_count and not consuming.broke_on_null:
        raise Failed(f"received {consuming.received} of {message_count} messages")
    if consuming.aborted:
        click.echo(f"Warning: {unread(consuming.aborted).message}", err=True)


LISTED = {
    "id": "CONSUMER",
    "queue": "QUEUE",
    "user": "USER",
    "clientID": "CLIENT",
    "remoteAddress": "PEER",
    "connectionID": "CONNECTION",
    "messagesInTransit": "HAS",
    "messagesAcknowledged": "ACKED",
    "filter": "FILTER",
    "browseOnly": "BROWSER",
}


@consumer.command("list")
@target_options
@click.option("--queue", "queue_name", help="Only consumers of this queue.")
@list_options
def list_command(target: Target, queue_name: str | None, page: int, max_rows: int, json_wanted: bool) -> None:
    """List consumers, and how many messages each of them has that it did not settle."""
    wanted: dict[str, object] = {"sortField": "queue"}
    if queue_name is not None:
        wanted |= {"field": "queue", "operation": "EQUALS", "value": queue_name}
    show_list(target, "listConsumers", "consumers", wanted, LISTED, page, max_rows, json_wanted)
