"""`artemis-py mesh`: the other brokers of a mesh."""

import json

import click

from artemis_py.cli.client import Target, target_options
from artemis_py.cli.listing import list_options, show_list
from artemis_py.cli.manage import call
from artemis_py.cli.render import print_json, say

LISTED = {
    "name": "NAME",
    "state": "STATE",
    "urls": "URLS",
    "claimed": "ON THE WAY",
    "waiting": "WAITING",
    "handedOver": "HANDED OVER",
    "taken": "TAKEN",
    "nodeID": "NODE",
}


@click.group()
def mesh() -> None:
    """Show the other brokers of a mesh, and why messages wait."""


@mesh.command()
@target_options
@list_options
def status(target: Target, page: int, max_rows: int, json_wanted: bool) -> None:
    """List the other brokers of the mesh, as the one that is asked sees them."""
    show_list(target, "listMembers", "brokers", {"sortField": "name"}, LISTED, page, max_rows, json_wanted)


@mesh.command()
@target_options
@click.argument("queue")
@click.option("--json", "json_wanted", is_flag=True, help="JSON instead of text.")
def explain(target: Target, queue: str, json_wanted: bool) -> None:
    """Say why messages of QUEUE wait at the broker that is asked."""
    reasons = json.loads(str(call(target, "broker", "explainQueue", queue)))
    if json_wanted:
        print_json({"queue": queue, "reasons": reasons})
        return
    for reason in reasons or ["nothing of the mesh holds messages back"]:
        say(str(reason))
