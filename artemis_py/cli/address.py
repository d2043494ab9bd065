"""`artemis-py address`: administer addresses of a running broker."""

import json
from typing import Any

import click

from artemis_py.cli.client import Target, target_options
from artemis_py.cli.live_names import address_names
from artemis_py.cli.manage import Request, call, call_all
from artemis_py.cli.render import print_json, print_table, say

as_json = click.option("--json", "json_wanted", is_flag=True, help="JSON instead of text.")

COLUMNS = {
    "name": "ADDRESS",
    "routingTypes": "ROUTING",
    "queueCount": "QUEUES",
    "messageCount": "MESSAGES",
    "addressSize": "BYTES",
    "routedMessageCount": "ROUTED",
    "unRoutedMessageCount": "UNROUTED",
    "paused": "PAUSED",
    "autoCreated": "AUTO",
}


@click.group()
def address() -> None:
    """Create, update, delete and show addresses of a running broker."""


def _routing_types(anycast: bool, multicast: bool) -> str:
    return ",".join(name for name, wanted in (("ANYCAST", anycast), ("MULTICAST", multicast)) if wanted)


@address.command()
@target_options
@click.argument("name")
@click.option("--anycast", is_flag=True, help="Each message goes to one of its queues (default).")
@click.option("--multicast", is_flag=True, help="Each message goes to all of its queues.")
@as_json
def create(target: Target, name: str, anycast: bool, multicast: bool, json_wanted: bool) -> None:
    """Create the address NAME."""
    result = call(target, "broker", "createAddress", name, _routing_types(anycast or not multicast, multicast))
    _done(f"created: {result}", {"address": name}, json_wanted)


@address.command()
@target_options
@click.argument("name", shell_complete=address_names)
@click.option("--anycast/--no-anycast", required=True, help="Whether a message can go to one of its queues.")
@click.option("--multicast/--no-multicast", required=True, help="Whether a message can go to all of its queues.")
@as_json
def update(target: Target, name: str, anycast: bool, multicast: bool, json_wanted: bool) -> None:
    """Give the address NAME exactly these routing types."""
    result = call(target, "broker", "updateAddress", name, _routing_types(anycast, multicast))
    _done(f"updated: {result}", {"address": name}, json_wanted)


@address.command()
@target_options
@click.argument("name", shell_complete=address_names)
@click.option("--force", is_flag=True, help="Delete its queues as well, with their messages.")
@as_json
def delete(target: Target, name: str, force: bool, json_wanted: bool) -> None:
    """Delete the address NAME."""
    call(target, "broker", "deleteAddress", name, force)
    _done(f"deleted: address {name}", {"address": name}, json_wanted)


@address.command()
@target_options
@click.argument("name", required=False, shell_complete=address_names)
@click.option("--bindings", is_flag=True, help="With a NAME: show its queues, too.")
@click.option("--all", "all_wanted", is_flag=True, help="Show temporary and internal addresses, too.")
@click.option("--max-rows", type=click.IntRange(1, 1000), default=50, show_default=True)
@as_json
def show(target: Target, name: str | None, bindings: bool, all_wanted: bool, max_rows: int, json_wanted: bool) -> None:
    """Show all addresses that are not temporary or internal, or the address NAME."""
    wanted: dict[str, object] = {"sortField": "name"}
    if name is not None:
        wanted |= {"field": "name", "operation": "EQUALS", "value": name}
        # Asked first, because its error proposes the most similar addresses.
        requests = [Request(f"address.{name}", "getAddress")]
    else:
        requests = []
        if not all_wanted:
            wanted |= {"field": "hidden", "operation": "EQUALS", "value": "false"}
    requests.append(Request("broker", "listAddresses", (wanted, 1, max_rows)))
    if name is not None and bindings:
        of_address = {"field": "address", "operation": "EQUALS", "value": name, "sortField": "name"}
        requests.append(Request("broker", "listQueues", (of_address, 1, max_rows)))
    results: list[Any] = call_all(target, requests)
    pages = [json.loads(result) for result in results[0 if name is None else 1 :]]
    if json_wanted:
        found: dict[str, object] = {"addresses": pages[0]["data"], "count": pages[0]["count"]}
        if len(pages) > 1:
            found["queues"] = pages[1]["data"]
        print_json(found)
        return
    print_table(pages[0]["data"], COLUMNS)
    if len(pages) > 1:
        click.echo()
        print_table(pages[1]["data"], {"name": "QUEUE", "routingType": "ROUTING", "messageCount": "MESSAGES"})
    if pages[0]["count"] > len(pages[0]["data"]):
        click.echo(f"{pages[0]['count']} addresses in all; --max-rows shows more", err=True)


def _done(text: str, fact: dict[str, object], json_wanted: bool) -> None:
    if json_wanted:
        print_json(fact)
    else:
        say(text)
