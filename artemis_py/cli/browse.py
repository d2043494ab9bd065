"""`artemis-py browse`: show the messages of a queue without removing them."""

import click

from artemis_amqp.client import ReceiverLink, Source, selector_filter
from artemis_py.cli.client import Target, parse_destination, target_options, unread
from artemis_py.cli.connection import Connection, Inbox, capabilities, tell_created
from artemis_py.cli.messages import PRINTED, print_message
from artemis_py.cli.render import Progress, summary

WINDOW = 500
"""Credit for one window, in messages."""


class Browsing:
    """Reads copies of messages in windows; a window that the broker cannot fill (drain) is the last one."""

    def __init__(self, connection: Connection, destination: str, filter: str | None) -> None:
        """Attach a browser. Raises Failed, NotConnected."""
        address, capability = parse_destination(destination)
        source = Source(
            address=address,
            distribution_mode="copy",
            filter=selector_filter(filter) if filter else None,
            capabilities=capabilities(capability),
        )
        self._connection = connection
        self._link: ReceiverLink = connection.attach_receiver(source)[0]
        tell_created(connection)
        self._inbox = Inbox()
        self._link.handler = self._inbox
        self.received = 0

    @property
    def aborted(self) -> int:
        """Number of messages that the broker could not read to their end."""
        return self._link.aborted

    def run(self, count: int | None, printed: str, progress: Progress) -> None:
        """Print up to `count` messages. Raises Failed, NotConnected."""
        while not self._connection.was_interrupted and self.received != count:
            wanted = WINDOW if count is None else min(WINDOW, count - self.received)
            if not self._read_window(wanted, printed, progress):
                return

    def _read_window(self, wanted: int, printed: str, progress: Progress) -> bool:
        """Print up to `wanted` messages; tell whether there may be more.

        The engine renews the credit of aborted ones, so that a window has room for all its messages. Credit that comes
        back means that there are no more; a message whose first frames came before that is still completed.
        """
        link, inbox, connection = self._link, self._inbox, self._connection
        returned = link.returned
        stop = self.received + wanted
        link.grant(wanted, drain=True)
        while self.received < stop:
            while inbox:
                delivery_id, message = inbox.take()
                print_message(message, printed)
                connection.accept(link, delivery_id)
                self.received += 1
            progress.show(self.received, connection.elapsed_s)
            if self.received == stop:
                break
            if connection.was_interrupted or (link.returned != returned and link.arriving < 0):
                return False
            connection.turn(link)
        return True


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
    with Progress("seen", message_count) as progress, Connection(target) as connection:
        browsing = Browsing(connection, destination, filter)
        browsing.run(message_count, printed, progress)
        elapsed_s = connection.elapsed_s
    if not quiet:
        click.echo(summary("seen", browsing.received, elapsed_s), err=True)
    if browsing.aborted:
        raise unread(browsing.aborted)
