"""`artemis-py token`: tokens with which programs ask a running broker over HTTP."""

import json
from typing import Any, Final

import click

from artemis_py.cli.client import Target, default_host_options
from artemis_py.cli.errors import Failed
from artemis_py.cli.listing import list_options, moment, show_list
from artemis_py.cli.manage import call
from artemis_py.cli.render import print_json, say
from artemis_py.security.tokens import DEFAULT_DAYS, MOST_DAYS, Scope

COLUMNS: Final = {
    "id": "TOKEN",
    "name": "NAME",
    "owner": "OWNER",
    "scope": "SCOPE",
    "ends": "ENDS",
    "lastUsed": "LAST USED",
    "expired": "EXPIRED",
}

as_json = click.option("--json", "json_wanted", is_flag=True, help="JSON instead of text.")


@click.group()
def token() -> None:
    """Make, list and revoke tokens for programs that ask a running broker over HTTP.

    A token stands for the user who makes it, and has the roles that this user has when it is used. It is sent in the
    header "Authorization: Bearer".
    """


@token.command()
@default_host_options
@click.argument("name")
@click.option(
    "--scope",
    type=click.Choice([scope.value for scope in Scope]),
    default=Scope.ALL.value,
    show_default=True,
    help="all: what its owner may do; read: only what changes nothing; metrics: only /metrics.",
)
@click.option(
    "--days",
    type=click.IntRange(1, MOST_DAYS),
    default=DEFAULT_DAYS,
    show_default=True,
    help="Days until it ends.",
)
@as_json
def create(target: Target, name: str, scope: str, days: int, json_wanted: bool) -> None:
    """Make a token for the user of --user; NAME says what it is for.

    Only the token goes to standard output, so that you can send it into a file. It cannot be shown again.
    """
    made: dict[str, Any] = json.loads(
        call(target, "broker", "createToken", {"name": name, "scope": scope, "days": days})
    )
    if json_wanted:
        print_json(made)
    else:
        click.echo(made["token"])
    end = moment(made["expirationTime"])
    say(f"created: token {made['id']} of user {made['owner']}, ends {end} UTC; it is shown only now", err=True)
    if not made["durable"]:
        say("Warning: the broker has no store, so the token ends with the broker", err=True)


@token.command("list")
@default_host_options
@list_options
def list_command(target: Target, page: int, max_rows: int, json_wanted: bool) -> None:
    """List the tokens of all users, without their secrets."""
    times = {"ends": "expirationTime", "lastUsed": "lastUsedTime"}
    wanted = {"sortField": "name"}
    show_list(target, "listTokens", "tokens", wanted, COLUMNS, page, max_rows, json_wanted, times)


@token.command()
@default_host_options
@click.argument("id")
@as_json
def revoke(target: Target, id: str, json_wanted: bool) -> None:
    """End the token ID for good. The exit code is 1 if there is none of this id."""
    if not call(target, "broker", "revokeToken", id):
        raise Failed(f"token {id} does not exist")
    if json_wanted:
        print_json({"revoked": id})
    else:
        say(f"revoked: token {id}")
