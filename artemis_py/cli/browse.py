"""`artemis-py browse`: show the messages of a queue without removing them."""

from typing import Any

import click
from proton import Event
from proton.reactor import Copy, Selector

from artemis_py.cli.client import Conversation, Target, parse_destination, target_options, unread, want
from artemis_py.cli.messages import PRINTED, print_message
from artemis_py.cli.render import Progress, summary

WINDOW = 500
"""Credit for one window, in messages."""


class Browsing(Conversation):
    """Reads copies of messages in windows; a window that the broker cannot fill (drain) is the last one."""

    def __init__(
        self,
        target: Target,
        destination: str,
        count: int | None,
        filter: str | None,
        printed: str,
        progress: Progress,
    ) -> None:
        super().__init__(target, prefetch=0, auto_accept=False)
        self.address, self.capability = parse_destination(destination)
        self.count = count
        self.filter = filter
        self.printed = printed
        self.progress = progress
        self.received = 0
        self.aborted = 0
        self._window_left = 0

    def begin(self, event: Event) -> None:
        """Attach a browser."""
        options: list[Any] = [Copy()]
        if self.filter:
            options.append(Selector(self.filter))
        receiver: Any = event.container.create_receiver(self.connection, self.address, options=options)
        want(receiver.source, self.capability)
        self._next_window(receiver)

    def _next_window(self, receiver: Any) -> None:
        wanted = WINDOW if self.count is None else min(WINDOW, self.count - self.received)
        self._window_left = wanted
        receiver.drain(wanted)

    def on_message(self, event: Event) -> None:
        """Print a copy of a message."""
        if self.is_finished:
            return
        self.received += 1
        self._window_left -= 1
        print_message(event.message, self.printed)
        delivery: Any = event.delivery
        self.accept(delivery)
        if self.received == self.count:
            self.finish()
        elif self._window_left == 0:
            self._next_window(event.receiver)

    def on_aborted(self, event: Event) -> None:
        """Count a message that the broker could not read to its end; it used one credit, and others still follow."""
        self.aborted += 1
        self._window_left -= 1
        if self._window_left == 0 and not self.is_finished:
            self._next_window(event.receiver)

    def on_link_flow(self, event: Event) -> None:
        """Finish if the broker drained the credit: there are no more messages."""
        receiver: Any = event.receiver
        if receiver is not None and self._window_left > 0 and receiver.credit == 0 and not self.is_finished:
            self.finish()

    def tick(self) -> None:
        """Show the progress."""
        self.progress.show(self.received, self.elapsed_s)


@click.command()
@target_options
@click.option("--destination", default="queue://TEST", show_default=True, help="queue://X, X or a::q.")
@click.option("--message-count", type=click.IntRange(min=1), help="Show at most this many messages.")
@click.option("--filter", help="Selector: show only messages that match.")
@click.option(
    "--print", "printed", type=click.Choice(PRINTED), default="body", show_default=True, help="What to print of each."
)
@click.option("--json", "printed", flag_value="json", help="Same as --print json: one JSON object per line.")
@click.option("--quiet", is_flag=True, help="No summary.")
def browse(
    target: Target, destination: str, message_count: int | None, filter: str | None, printed: str, quiet: bool
) -> None:
    """Show the messages that wait in a queue, in their order, and leave them there.

    The exit code is 1 if the broker could not read some of them.
    """
    with Progress("seen", message_count) as progress:
        browsing = Browsing(target, destination, message_count, filter, printed, progress)
        browsing.run()
    if not quiet:
        click.echo(summary("seen", browsing.received, browsing.elapsed_s), err=True)
    if browsing.aborted:
        raise unread(browsing.aborted)
