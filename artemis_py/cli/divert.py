"""`artemis-py divert`: administer diverts of a running broker."""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import click

from artemis_py.cli.client import Target, target_options
from artemis_py.cli.manage import Request, call, call_all
from artemis_py.cli.render import print_json, print_table, say
from artemis_py.core.settings.divert_config import DivertType

as_json = click.option("--json", "json_wanted", is_flag=True, help="JSON instead of text.")

COLUMNS: Final = {
    "name": "DIVERT",
    "address": "ADDRESS",
    "forwardingAddress": "FORWARDING ADDRESS",
    "exclusive": "EXCLUSIVE",
    "filter": "FILTER",
    "transformerClassName": "TRANSFORMER",
    "copies": "COPIES",
    "failed": "FAILED",
    "managed": "MANAGED",
}

Command = Callable[..., None]


@click.group()
def divert() -> None:
    """Create, update, delete and show diverts of a running broker.

    They are kept in the store. What is done to a divert of broker.xml lasts until the broker reads the file again.
    """


def divert_options(is_update: bool) -> Callable[[Command], Command]:
    """Give a command the options for the members of a divert; those that are not given are not sent."""
    empty = " Empty: none." if is_update else ""

    def add(command: Command) -> Command:
        types = click.Choice([each.name for each in DivertType], case_sensitive=False)
        options = [
            click.option("--address", required=not is_update, help="What is sent to this address is copied."),
            click.option(
                "--forwarding-address",
                "to",
                multiple=True,
                required=not is_update,
                help="Where the copies go; may be given more than once.",
            ),
            click.option(
                "--exclusive/--non-exclusive", default=None, help="Whether queues of the address get nothing."
            ),
            click.option("--filter", help=f"Selector of the messages that are copied.{empty}"),
            click.option("--routing-name", help=f"Diverts with the same one take turns.{empty}"),
            click.option("--routing-type", type=types, help="Routing type of the copies. Default: STRIP."),
            click.option("--transformer", help=f"Name of a transformer that changes the copies.{empty}"),
            click.option(
                "--property", "properties", multiple=True, metavar="KEY=VALUE", help="A property for the transformer."
            ),
        ]
        for each in reversed(options):
            command = each(command)
        return command

    return add


def _wanted(
    name: str,
    to: Sequence[str],
    transformer: str | None,
    properties: Sequence[str],
    said: Mapping[str, object],
) -> dict[str, object]:
    """Return the JSON object of a divert, with what was given on the command line."""
    wanted: dict[str, object] = {"name": name}
    wanted |= {member.replace("_", "-"): value for member, value in said.items() if value is not None}
    if "filter" in wanted:
        wanted["filter-string"] = wanted.pop("filter")
    if to:
        wanted["forwarding-address"] = ",".join(to)
    if properties and not transformer:
        raise click.UsageError("--property needs --transformer")
    if transformer is not None:
        pairs = dict(_pair(text) for text in properties)
        wanted["transformer-configuration"] = {"class-name": transformer, "properties": pairs} if transformer else None
    return wanted


def _pair(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not key or not equals:
        raise click.BadParameter(f"{text!r} is not KEY=VALUE", param_hint="--property")
    return key, value


@divert.command()
@target_options
@click.argument("name")
@divert_options(is_update=False)
@as_json
def create(
    target: Target,
    name: str,
    to: Sequence[str],
    transformer: str | None,
    properties: Sequence[str],
    json_wanted: bool,
    **said: object,
) -> None:
    """Create the divert NAME, and its address if it does not exist."""
    created = json.loads(call(target, "broker", "createDivert", _wanted(name, to, transformer, properties, said)))
    _warn_of_circle(created)
    _done(f"created: divert {name} from {created['address']} to {created['forwardingAddress']}", created, json_wanted)


@divert.command()
@target_options
@click.argument("name")
@divert_options(is_update=True)
@as_json
def update(
    target: Target,
    name: str,
    to: Sequence[str],
    transformer: str | None,
    properties: Sequence[str],
    json_wanted: bool,
    **said: object,
) -> None:
    """Change the divert NAME; what is not named stays as it is."""
    wanted = _wanted(name, to, transformer, properties, said)
    if len(wanted) == 1:
        raise click.UsageError("nothing to change: name at least one option")
    updated = json.loads(call(target, "broker", "updateDivert", wanted))
    _warn_of_circle(updated)
    _done(f"updated: divert {name}", updated, json_wanted)


@divert.command()
@target_options
@click.argument("name")
@as_json
def delete(target: Target, name: str, json_wanted: bool) -> None:
    """Delete the divert NAME; copies that it made stay where they are."""
    call(target, "broker", "destroyDivert", name)
    _done(f"deleted: divert {name}", {"divert": name}, json_wanted)


@divert.command("list")
@target_options
@click.option("--address", help="Only diverts of this address.")
@click.option("--page", type=click.IntRange(min=1), default=1, show_default=True)
@click.option("--max-rows", type=click.IntRange(1, 1000), default=50, show_default=True)
@as_json
def list_(target: Target, address: str | None, page: int, max_rows: int, json_wanted: bool) -> None:
    """List the diverts with their counters."""
    wanted = {"sortField": "name"}
    if address is not None:
        wanted |= {"field": "address", "operation": "EQUALS", "value": address}
    listed: dict[str, Any] = json.loads(call(target, "broker", "listDiverts", wanted, page, max_rows))
    if json_wanted:
        print_json({"diverts": listed["data"], "count": listed["count"]})
        return
    print_table(listed["data"], COLUMNS)
    if listed["count"] > len(listed["data"]):
        click.echo(f"{listed['count']} diverts in all; --page and --max-rows show more", err=True)


@divert.command()
@target_options
@click.argument("name")
@as_json
def show(target: Target, name: str, json_wanted: bool) -> None:
    """Show everything about the divert NAME."""
    wanted = {"field": "name", "operation": "EQUALS", "value": name}
    # Asked first, because its error proposes the most similar diverts.
    requests = [Request(f"divert.{name}", "getUniqueName"), Request("broker", "listDiverts", (wanted, 1, 1))]
    _, listed = call_all(target, requests)
    (found,) = json.loads(listed)["data"]
    if json_wanted:
        print_json(found)
        return
    for member, value in found.items():
        click.echo(f"{member}: {'' if value is None else json.dumps(value, ensure_ascii=False)}".rstrip())


def _warn_of_circle(divert: Mapping[str, Any]) -> None:
    if divert["circle"]:
        way = " -> ".join(divert["circle"])
        click.echo(f"warning: a message may come back: {way}; it goes through each divert once", err=True)


def _done(text: str, fact: dict[str, Any], json_wanted: bool) -> None:
    if json_wanted:
        print_json(fact)
    else:
        say(text)
