"""`artemis-py consumer`: receive messages from a queue or subscription and print them."""

import time
from typing import Any

import click
from proton import Event
from proton.reactor import Selector

from artemis_py.cli.client import Conversation, Target, parse_destination, target_options, unread, want
from artemis_py.cli.errors import Failed
from artemis_py.cli.messages import PRINTED, print_message
from artemis_py.cli.render import Progress, summary

# Enough to keep a link with a round trip of a millisecond busy; small enough to leave other consumers their share.
CREDIT_WINDOW = 1000


class Consuming(Conversation):
    """Receives until the count, a time-out, an empty message or Ctrl-C; accepts the messages that it has printed."""

    def __init__(
        self,
        target: Target,
        destination: str,
        count: int | None,
        filter: str | None,
        receive_timeout_s: float | None,
        break_on_null: bool,
        printed: str,
        progress: Progress,
    ) -> None:
        super().__init__(target, prefetch=0, auto_accept=False)
        self.address, self.capability = parse_destination(destination)
        self.count = count
        self.filter = filter
        self.receive_timeout_s = receive_timeout_s
        self.break_on_null = break_on_null
        self.printed = printed
        self.progress = progress
        self.received = 0
        self.aborted = 0
        self.broke_on_null = False
        self.granted = 0
        self.last_at = 0.0

    def begin(self, event: Event) -> None:
        """Attach a receiver."""
        self.last_at = time.monotonic()
        options: Any = Selector(self.filter) if self.filter else None
        receiver: Any = event.container.create_receiver(self.connection, self.address, options=options)
        want(receiver.source, self.capability)
        self.top_up(receiver)

    def top_up(self, receiver: Any) -> None:
        """Grant credit, but never for more messages than are still wanted: the rest stays for other consumers."""
        if receiver.credit * 2 >= CREDIT_WINDOW:
            return
        more = CREDIT_WINDOW - receiver.credit
        if self.count is not None:
            more = min(more, self.count - self.granted)
        if more > 0:
            receiver.flow(more)
            self.granted += more

    def on_delivery(self, event: Event) -> None:
        """Restart the time-out: something arrived, even if only part of a large message."""
        self.last_at = time.monotonic()

    def on_aborted(self, event: Event) -> None:
        """Count a message that the broker could not read to its end, and ask for another one."""
        self.aborted += 1
        self.granted -= 1
        if not self.is_finished:
            self.top_up(event.receiver)

    def on_message(self, event: Event) -> None:
        """Print a message, then accept it; messages after the last one return to the queue when the link closes."""
        if self.is_finished:
            return
        self.received += 1
        print_message(event.message, self.printed)
        delivery: Any = event.delivery
        self.accept(delivery)
        self.broke_on_null = self.break_on_null and event.message.body is None
        if self.received == self.count or self.broke_on_null:
            self.finish()
        else:
            self.top_up(event.receiver)

    def tick(self) -> None:
        """Show the progress, and finish after the time-out."""
        now = time.monotonic()
        self.progress.show(self.received, self.elapsed_s)
        if self.receive_timeout_s is not None and now - self.last_at >= self.receive_timeout_s:
            self.finish()


@click.command()
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
def consumer(
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

    With a count, the exit code is 1 if fewer messages came before the time-out.
    """
    timeout_s = None if receive_timeout is None else receive_timeout / 1000
    with Progress("received", message_count) as progress:
        consuming = Consuming(target, destination, message_count, filter, timeout_s, break_on_null, printed, progress)
        consuming.run()
    if not quiet:
        click.echo(summary("received", consuming.received, consuming.last_at - consuming.opened_at), err=True)
    if message_count is not None and consuming.received < message_count and not consuming.broke_on_null:
        raise Failed(f"received {consuming.received} of {message_count} messages")
    if consuming.aborted:
        click.echo(f"Warning: {unread(consuming.aborted).message}", err=True)
