"""`artemis-py queue`: administer queues of a running broker."""

import json
from typing import Any

import click

from artemis_py.cli.client import Target, target_options
from artemis_py.cli.manage import call
from artemis_py.cli.render import print_json, print_table, say

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
    "paused": "PAUSED",
    "autoCreated": "AUTO",
}

FILTER_OPERATIONS = ("EQUALS", "NOT_EQUALS", "CONTAINS", "NOT_CONTAINS", "GREATER_THAN", "LESS_THAN")


@click.group()
def queue() -> None:
    """Create, update, delete, list, purge, pause and resume queues of a running broker."""


@queue.command()
@target_options
@click.argument("name")
@click.option("--address", help="Where it is bound; default: an address of its own name.")
@click.option("--anycast", "routing_type", flag_value="ANYCAST", default="ANYCAST", help="(default)")
@click.option("--multicast", "routing_type", flag_value="MULTICAST")
@click.option("--durable/--non-durable", default=True, show_default=True)
@click.option("--filter", help="Selector: only messages it accepts get in.")
@click.option("--max-consumers", type=click.IntRange(min=-1), help="-1: no limit.")
@click.option("--exclusive/--shared", default=None, help="Feed one consumer at a time.")
@click.option("--purge-on-no-consumers/--preserve-on-no-consumers", default=None, help="Keep nothing for nobody.")
@click.option("--auto-create-address/--no-auto-create-address", default=True, show_default=True)
@as_json
def create(
    target: Target,
    name: str,
    address: str | None,
    routing_type: str,
    durable: bool,
    filter: str | None,
    max_consumers: int | None,
    exclusive: bool | None,
    purge_on_no_consumers: bool | None,
    auto_create_address: bool,
    json_wanted: bool,
) -> None:
    """Create the queue NAME."""
    wanted = _wanted(
        {
            "name": name,
            "address": address,
            "routing-type": routing_type,
            "durable": durable,
            "filter-string": filter,
            "max-consumers": max_consumers,
            "exclusive": exclusive,
            "purge-on-no-consumers": purge_on_no_consumers,
            "auto-create-address": auto_create_address,
        }
    )
    created = json.loads(call(target, "broker", "createQueue", wanted))
    _done(f"created: queue {name} on address {created['address']} ({created['routingType']})", created, json_wanted)


@queue.command()
@target_options
@click.argument("name")
@click.option("--anycast", "routing_type", flag_value="ANYCAST")
@click.option("--multicast", "routing_type", flag_value="MULTICAST")
@click.option("--filter", help="Selector; an empty one takes the filter away.")
@click.option("--max-consumers", type=click.IntRange(min=-1), help="-1: no limit.")
@click.option("--exclusive/--shared", default=None, help="Feed one consumer at a time.")
@click.option("--purge-on-no-consumers/--preserve-on-no-consumers", default=None, help="Keep nothing for nobody.")
@click.option("--enabled/--disabled", default=None, help="Disabled: new messages pass it by.")
@as_json
def update(
    target: Target,
    name: str,
    routing_type: str | None,
    filter: str | None,
    max_consumers: int | None,
    exclusive: bool | None,
    purge_on_no_consumers: bool | None,
    enabled: bool | None,
    json_wanted: bool,
) -> None:
    """Change the queue NAME; what is not named stays as it is."""
    wanted = _wanted(
        {
            "name": name,
            "routing-type": routing_type,
            "filter-string": filter,
            "max-consumers": max_consumers,
            "exclusive": exclusive,
            "purge-on-no-consumers": purge_on_no_consumers,
            "enabled": enabled,
        }
    )
    if len(wanted) == 1:
        raise click.UsageError("nothing to change: name at least one attribute")
    updated = json.loads(call(target, "broker", "updateQueue", wanted))
    _done(f"updated: queue {name}", updated, json_wanted)


@queue.command()
@target_options
@click.argument("name")
@click.option("--remove-consumers", is_flag=True, help="Delete it even if somebody consumes from it.")
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
@click.option("--value", help="What --field is compared with.")
@click.option("--all", "all_wanted", is_flag=True, help="Temporary queues, too, such as that of this command.")
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
    """List queues with their counters; without a filter those that are not temporary."""
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
        wanted |= {"field": "temporary", "operation": "EQUALS", "value": "false"}
    listed: dict[str, Any] = json.loads(call(target, "broker", "listQueues", wanted, page, max_rows))
    if json_wanted:
        print_json({"queues": listed["data"], "count": listed["count"]})
        return
    print_table(listed["data"], COLUMNS)
    if listed["count"] > len(listed["data"]):
        click.echo(f"{listed['count']} queues in all; --page and --max-rows show more", err=True)


@queue.command()
@target_options
@click.argument("name")
@as_json
def purge(target: Target, name: str, json_wanted: bool) -> None:
    """Discard the messages of the queue NAME that no consumer holds."""
    count = call(target, f"queue.{name}", "removeAllMessages")
    _done(f"removed {count} message{'' if count == 1 else 's'} from {name}", {"removed": count}, json_wanted)


@queue.command()
@target_options
@click.argument("name")
@as_json
def pause(target: Target, name: str, json_wanted: bool) -> None:
    """Hold the deliveries of the queue NAME; messages still arrive."""
    call(target, f"queue.{name}", "pause")
    _done(f"paused: queue {name}", {"queue": name, "paused": True}, json_wanted)


@queue.command()
@target_options
@click.argument("name")
@as_json
def resume(target: Target, name: str, json_wanted: bool) -> None:
    """Deliver from the queue NAME again."""
    call(target, f"queue.{name}", "resume")
    _done(f"resumed: queue {name}", {"queue": name, "paused": False}, json_wanted)


def _wanted(attributes: dict[str, object]) -> dict[str, object]:
    """The attributes that were named on the command line."""
    return {name: value for name, value in attributes.items() if value is not None}


def _done(text: str, fact: dict[str, Any], json_wanted: bool) -> None:
    if json_wanted:
        print_json(fact)
    else:
        say(text)
