"""`artemis-py connection`: the connections of clients."""

import click

from artemis_py.cli.client import Target, target_options
from artemis_py.cli.errors import Failed
from artemis_py.cli.listing import list_options, show_list
from artemis_py.cli.manage import call
from artemis_py.cli.render import print_json, say

LISTED = {
    "connectionID": "CONNECTION",
    "remoteAddress": "PEER",
    "protocol": "PROTOCOL",
    "user": "USER",
    "clientID": "CLIENT",
    "since": "SINCE",
    "consumerCount": "CONSUMERS",
}


@click.group()
def connection() -> None:
    """List and close the connections of clients."""


@connection.command("list")
@target_options
@click.option("--user-name", help="Only connections of this user.")
@list_options
def list_command(target: Target, user_name: str | None, page: int, max_rows: int, json_wanted: bool) -> None:
    """List connections, the oldest first; that of this command is among them."""
    wanted: dict[str, object] = {"sortField": "connectionID"}
    if user_name is not None:
        wanted |= {"field": "user", "operation": "EQUALS", "value": user_name}
    show_list(target, "listConnections", "connections", wanted, LISTED, page, max_rows, json_wanted)


@connection.command()
@target_options
@click.argument("number", required=False, type=click.IntRange(min=1))
@click.option("--user-name", help="Close all connections of this user.")
@click.option("--host", help="Close all connections from this network address.")
@click.option("--json", "json_wanted", is_flag=True, help="JSON instead of text.")
def close(target: Target, number: int | None, user_name: str | None, host: str | None, json_wanted: bool) -> None:
    """Close the connection NUMBER, or those of a user or an address. Their clients may connect again.

    Messages that a client had not settled return to their queues. The exit code is 1 if there was no such connection.
    """
    ways = {
        "closeConnectionWithID": number,
        "closeConnectionsForUser": user_name,
        "closeConnectionsForAddress": host,
    }
    given = [(operation, value) for operation, value in ways.items() if value is not None]
    if len(given) != 1:
        raise click.UsageError("name one of NUMBER, --user-name and --host")
    ((operation, value),) = given
    if not call(target, "broker", operation, value):
        raise Failed("there is no such connection")
    if json_wanted:
        print_json({"closed": value})
    else:
        say(f"closed: {'connection' if number is not None else 'connections of'} {value}")
