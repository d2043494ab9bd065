"""`artemis-py queue`: administer queues of a running broker."""

import json
from collections.abc import Callable, Mapping
from typing import Any, Final

import click

from artemis_py.cli.client import Target, target_options
from artemis_py.cli.listing import moment
from artemis_py.cli.live_names import queue_names
from artemis_py.cli.manage import Request, call, call_all
from artemis_py.cli.render import print_json, print_table, say
from artemis_py.core.settings.declaration import Kind
from artemis_py.core.settings.queue_config import QUEUE_ATTRIBUTES
from artemis_py.core.settings.queue_settings import Mutability, QueueAttribute

as_json = click.option("--json", "json_wanted", is_flag=True, help="JSON instead of text.")

COLUMNS = {
    "name": "QUEUE",
    "address": "ADDRESS",
    "routingType": "ROUTING",
    "consumerCount": "CONSUMERS",
    "messageCount": "MESSAGES",
    "deliveringCount": "DELIVERING",
    "scheduledCount": "SCHEDULED",
    "messagesAdded": "ADDED",
    "messagesAcked": "ACKED",
    "messagesReplaced": "REPLACED",
    "paused": "PAUSED",
    "autoCreated": "AUTO",
}

HOLDERS = {
    "id": "CONSUMER",
    "messagesInTransit": "HAS",
    "oldestInTransit": "FROM ID",
    "messagesAcknowledged": "ACKED",
    "credit": "CREDIT",
    "user": "USER",
    "clientID": "CLIENT",
    "remoteAddress": "PEER",
    "since": "CONNECTED SINCE",
}
MAX_CONSUMERS = 100

FILTER_OPERATIONS = ("EQUALS", "NOT_EQUALS", "CONTAINS", "NOT_CONTAINS", "GREATER_THAN", "LESS_THAN")


@click.group()
def queue() -> None:
    """Create, update, delete, list, show, purge, pause and resume queues of a running broker."""


# Flags with a separate word for their opposite.
FLAGS: Final[Mapping[str, str]] = {
    "durable": "--durable/--non-durable",
    "enabled": "--enabled/--disabled",
    "exclusive": "--exclusive/--shared",
    "purge-on-no-consumers": "--purge-on-no-consumers/--preserve-on-no-consumers",
}

# The name is an argument, the routing type is two flags, and --user is the login.
NOT_OPTIONS: Final = ("name", "routing-type", "user")

Command = Callable[..., None]


def attribute_options(is_update: bool) -> Callable[[Command], Command]:
    """Give a command an option for each attribute that a queue can be created with, or that can be updated.

    An option that is not given is None, and is not sent: the broker decides.
    """

    def add(command: Command) -> Command:
        for attribute in reversed(QUEUE_ATTRIBUTES):
            if attribute.json is None or attribute.json in NOT_OPTIONS:
                continue
            if not is_update or attribute.mutability is Mutability.EVERYBODY:
                command = _option(attribute, is_update)(command)
        return command

    return add


def _option(attribute: QueueAttribute, is_update: bool) -> Callable[[Command], Command]:
    name = attribute.name
    match attribute.kind:
        case Kind.BOOLEAN:
            flag = FLAGS.get(name, f"--{name}/--no-{name}")
            return click.option(flag, attribute.attribute, default=None, help=attribute.help)
        case Kind.TEXT:
            help = f"{attribute.help} Empty: none." if is_update else attribute.help
            return click.option(f"--{name}", attribute.attribute, help=help)
        case type() as enum:
            words = click.Choice(list(enum.__members__), case_sensitive=False)
            return click.option(f"--{name}", attribute.attribute, type=words, help=attribute.help)
        case _:
            numbers = click.IntRange(None if attribute.minimum is None else int(attribute.minimum))
            return click.option(f"--{name}", attribute.attribute, type=numbers, help=attribute.help)


def _wanted(name: str, routing_type: str | None, said: Mapping[str, object]) -> dict[str, object]:
    """Return the JSON object of a queue, with the attributes that were given on the command line."""
    given = {"name": name, "routing_type": routing_type, **said}
    attributes = [(each.json, given.get(each.attribute)) for each in QUEUE_ATTRIBUTES]
    return {name: value for name, value in attributes if name is not None and value is not None}


@queue.command()
@target_options
@click.argument("name")
@click.option("--anycast", "routing_type", flag_value="ANYCAST", default="ANYCAST", help="(default)")
@click.option("--multicast", "routing_type", flag_value="MULTICAST")
@attribute_options(is_update=False)
@click.option("--auto-create-address/--no-auto-create-address", default=True, show_default=True)
@as_json
def create(
    target: Target, name: str, routing_type: str, auto_create_address: bool, json_wanted: bool, **attributes: object
) -> None:
    """Create the queue NAME, on an address of its own name unless --address says otherwise."""
    wanted = _wanted(name, routing_type, attributes) | {"auto-create-address": auto_create_address}
    created = json.loads(call(target, "broker", "createQueue", wanted))
    _done(f"created: queue {name} on address {created['address']} ({created['routingType']})", created, json_wanted)


@queue.command()
@target_options
@click.argument("name", shell_complete=queue_names)
@click.option("--anycast", "routing_type", flag_value="ANYCAST")
@click.option("--multicast", "routing_type", flag_value="MULTICAST")
@attribute_options(is_update=True)
@as_json
def update(target: Target, name: str, routing_type: str | None, json_wanted: bool, **attributes: object) -> None:
    """Change the queue NAME; attributes that are not named stay as they are."""
    wanted = _wanted(name, routing_type, attributes)
    if len(wanted) == 1:
        raise click.UsageError("nothing to change: name at least one attribute")
    updated = json.loads(call(target, "broker", "updateQueue", wanted))
    _done(f"updated: queue {name}", updated, json_wanted)


@queue.command()
@target_options
@click.argument("name", shell_complete=queue_names)
@click.option("--remove-consumers", is_flag=True, help="Delete it even if it has consumers.")
@click.option("--auto-delete-address", is_flag=True, help="Delete its auto-created address with its last queue.")
@as_json
def delete(target: Target, name: str, remove_consumers: bool, auto_delete_address: bool, json_wanted: bool) -> None:
    """Delete the queue NAME with its messages."""
    call(target, "broker", "destroyQueue", name, remove_consumers, auto_delete_address)
    _done(f"deleted: queue {name}", {"queue": name}, json_wanted)


@queue.command()
@target_options
@click.option("--name", help="Only queues with this text in their name.")
@click.option("--field", help="Only queues where this field matches --value (fields: see --json).")
@click.option("--operation", type=click.Choice(FILTER_OPERATIONS), default="EQUALS", show_default=True)
@click.option("--value", help="Value that --field is compared with.")
@click.option("--all", "all_wanted", is_flag=True, help="Show temporary and internal queues, too.")
@click.option("--sort", "sort_field", default="name", show_default=True, help="Field to sort by.")
@click.option("--descending", is_flag=True, help="Largest first.")
@click.option("--page", type=click.IntRange(min=1), default=1, show_default=True)
@click.option("--max-rows", type=click.IntRange(1, 1000), default=50, show_default=True)
@as_json
def stat(
    target: Target,
    name: str | None,
    field: str | None,
    operation: str,
    value: str | None,
    all_wanted: bool,
    sort_field: str,
    descending: bool,
    page: int,
    max_rows: int,
    json_wanted: bool,
) -> None:
    """List queues with their counters; without a filter, all that are not temporary or internal."""
    if (field is None) != (value is None):
        raise click.UsageError("--field and --value go together")
    if name is not None:
        if field is not None:
            raise click.UsageError("use either --name or --field")
        field, operation, value = "name", "CONTAINS", name
    wanted = {"sortField": sort_field, "sortOrder": "desc" if descending else "asc"}
    if field is not None and value is not None:
        wanted |= {"field": field, "operation": operation, "value": value}
    elif not all_wanted:
        wanted |= {"field": "hidden", "operation": "EQUALS", "value": "false"}
    listed: dict[str, Any] = json.loads(call(target, "broker", "listQueues", wanted, page, max_rows))
    if json_wanted:
        print_json({"queues": listed["data"], "count": listed["count"]})
        return
    print_table(listed["data"], COLUMNS)
    if listed["count"] > len(listed["data"]):
        click.echo(f"{listed['count']} queues in all; --page and --max-rows show more", err=True)


queue.add_command(stat, "list")


@queue.command()
@target_options
@click.argument("name", shell_complete=queue_names)
@click.option("--all", "all_wanted", is_flag=True, help="Show the settings that have their defaults, too.")
@as_json
def show(target: Target, name: str, all_wanted: bool, json_wanted: bool) -> None:
    """Show the queue NAME: its counters, who holds messages, the next message, and where its settings come from."""
    exactly = {"field": "name", "operation": "EQUALS", "value": name}
    (listed,) = call_all(target, [Request("broker", "listQueues", (exactly,))])
    rows = json.loads(listed)["data"]
    if not rows:
        # Its error proposes the most similar names.
        call(target, f"queue.{name}", "getName")
    facts: dict[str, Any] = rows[0]
    of_queue = {"field": "queue", "operation": "EQUALS", "value": name, "sortField": "id"}
    answers = call_all(
        target,
        [
            Request("broker", "listConsumers", (of_queue, 1, MAX_CONSUMERS)),
            Request(f"queue.{name}", "listMessagesAsJSON", ({"messageCount": 1},)),
            Request("broker", "listAddressSettingOrigins", (facts["address"],)),
        ],
    )
    consumers, first, settings = (json.loads(answer) for answer in answers)
    found = {
        "queue": facts,
        "consumers": consumers["data"],
        "nextMessage": next(iter(first["messages"]), None),
        "settings": settings,
    }
    if json_wanted:
        print_json(found)
    else:
        _print_queue(found, consumers["count"], all_wanted)


def _print_queue(found: dict[str, Any], consumer_count: int, all_wanted: bool) -> None:
    facts = found["queue"]
    shown = [{"fact": key, "value": value} for key, value in facts.items() if value not in (None, False) or all_wanted]
    print_table(shown, {"fact": "QUEUE", "value": facts["name"]})
    click.echo()
    if found["nextMessage"] is None:
        click.echo("No message waits.")
    else:
        message = found["nextMessage"]
        sent = moment(message["timestamp"])
        say(f"The next message has the ID {message['messageID']}, and was sent {sent or 'at an unknown time'}.")
    click.echo()
    if found["consumers"]:
        for row in found["consumers"]:
            row["since"] = moment(row["connectionCreationTime"])
        print_table(found["consumers"], HOLDERS)
        if consumer_count > len(found["consumers"]):
            click.echo(f"{consumer_count} consumers in all: see consumer list --queue", err=True)
    else:
        click.echo("No client consumes.")
    click.echo()
    settings = [
        {"setting": name, "value": each["value"], "match": "default" if each["match"] is None else each["match"]}
        for name, each in found["settings"].items()
        if all_wanted or each["match"] is not None
    ]
    if settings:
        print_table(settings, {"setting": "SETTING", "value": "VALUE", "match": "FROM MATCH"})
    else:
        click.echo("All settings have their defaults.")


@queue.command()
@target_options
@click.argument("name", shell_complete=queue_names)
@as_json
def purge(target: Target, name: str, json_wanted: bool) -> None:
    """Discard the messages of the queue NAME that no consumer has."""
    count = call(target, f"queue.{name}", "removeAllMessages")
    _done(f"removed {count} message{'' if count == 1 else 's'} from {name}", {"removed": count}, json_wanted)


@queue.command()
@target_options
@click.argument("name", shell_complete=queue_names)
@as_json
def pause(target: Target, name: str, json_wanted: bool) -> None:
    """Stop delivering from the queue NAME; messages still arrive."""
    call(target, f"queue.{name}", "pause")
    _done(f"paused: queue {name}", {"queue": name, "paused": True}, json_wanted)


@queue.command()
@target_options
@click.argument("name", shell_complete=queue_names)
@as_json
def resume(target: Target, name: str, json_wanted: bool) -> None:
    """Deliver from the queue NAME again."""
    call(target, f"queue.{name}", "resume")
    _done(f"resumed: queue {name}", {"queue": name, "paused": False}, json_wanted)


def _done(text: str, fact: dict[str, Any], json_wanted: bool) -> None:
    if json_wanted:
        print_json(fact)
    else:
        say(text)
