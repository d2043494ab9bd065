"""`artemis-py mesh`: the brokers of a mesh, and what an operator may decide about them."""

import json
import time
from collections.abc import Mapping
from typing import Any, Final

import click

from artemis_py.cli.client import Target, target_options
from artemis_py.cli.connection import Connection
from artemis_py.cli.errors import Failed, NotConnected
from artemis_py.cli.listing import list_options, moment, show_list
from artemis_py.cli.manage import Management, Request, call
from artemis_py.cli.render import print_json, print_table, say

LISTED: Final = {
    "name": "NAME",
    "state": "STATE",
    "urls": "URLS",
    "claimed": "ON THE WAY",
    "waiting": "WAITING",
    "handedOver": "HANDED OVER",
    "taken": "TAKEN",
    "since": "CONNECTED SINCE",
    "clockDifference": "CLOCK MS AHEAD",
    "version": "VERSION",
    "nodeID": "NODE",
}
SEEN: Final = {"name": "NAME", "state": "STATE", "sees": "CONNECTED WITH", "version": "VERSION", "nodeID": "NODE"}
LEFT_OVER: Final = {"queue": "QUEUE", "messages": "MESSAGES", "reason": "WHY THEY STAY"}

SHARED: Final = {
    "name": "NAME",
    "consumers": "CONSUMERS",
    "granted": "WOULD TAKE",
    "handedOver": "WENT THERE",
    "taken": "CAME FROM THERE",
    "since": "LAST CAME",
    "kept": "STAYS THERE",
}

POLL_S: Final = 0.5
"""Time between two questions how far a drain is."""

ENDED: Final = ("empty", "left")
"""States of a broker that has nothing to give any more."""

as_json = click.option("--json", "json_wanted", is_flag=True, help="JSON instead of text.")


@click.group()
def mesh() -> None:
    """Show the brokers of a mesh and why messages wait, take brokers out of it, and let them come back."""


@mesh.command()
@target_options
@list_options
def status(target: Target, page: int, max_rows: int, json_wanted: bool) -> None:
    """List the other brokers of the mesh, as the one that is asked sees them."""
    show_list(target, "listMembers", "brokers", {"sortField": "name"}, LISTED, page, max_rows, json_wanted)


@mesh.command()
@target_options
@as_json
def topology(target: Target, json_wanted: bool) -> None:
    """Show which brokers of the mesh are connected with which, as far as the one that is asked has heard."""
    found: dict[str, Any] = json.loads(str(call(target, "broker", "getMeshTopology")))
    if json_wanted:
        print_json(found)
        return
    nodes: list[dict[str, Any]] = found["nodes"]
    names = {node["nodeID"]: node["name"] for node in nodes}
    rows = [{**node, "sees": _sight(node["sees"], names)} for node in sorted(nodes, key=_name)]
    print_table(rows, SEEN, f"Mesh {found['mesh']}")
    for one, other in _one_sided(nodes):
        say(f"Warning: {names[one]} is connected with {names[other]}, which does not say so", err=True)


def _name(node: Mapping[str, Any]) -> str:
    return str(node["name"])


def _sight(ids: list[str] | None, names: Mapping[str, str]) -> str:
    if ids is None:
        return "unknown"
    return " ".join(sorted(names.get(id, id) for id in ids)) or "nobody"


def _one_sided(nodes: list[dict[str, Any]]) -> list[tuple[str, str]]:
    """Return pairs of brokers of which only the first says that they are connected."""
    sights = {node["nodeID"]: set(node["sees"]) for node in nodes if node["sees"] is not None}
    return [
        (one, other) for one, seen in sights.items() for other in sorted(seen & set(sights)) if one not in sights[other]
    ]


@mesh.command()
@target_options
@click.argument("queue")
@as_json
def explain(target: Target, queue: str, json_wanted: bool) -> None:
    """Say why messages of QUEUE wait at the broker that is asked, where others went, and where they came from."""
    reasons: list[str] = json.loads(str(call(target, "broker", "explainQueue", queue)))
    try:
        shares: list[dict[str, Any]] = json.loads(str(call(target, "broker", "listQueueShares", queue)))
    except NotConnected:
        raise
    except Failed:
        # The mesh does not have the queue, as the reasons say.
        shares = []
    if json_wanted:
        print_json({"queue": queue, "reasons": reasons, "brokers": shares})
        return
    for reason in reasons or ["nothing of the mesh holds messages back"]:
        say(reason)
    if shares:
        for row in shares:
            row["since"] = moment(row["lastTaken"])
        print_table(sorted(shares, key=_name), SHARED)


@mesh.command()
@target_options
@click.option(
    "--grace",
    "grace_s",
    type=click.FloatRange(min=0),
    help="Seconds for which clients may stay; default: as broker.xml says for a graceful shutdown, else 0.",
)
@click.option("--no-wait", is_flag=True, help="Begin, and do not wait for the end.")
@click.option("--stop", is_flag=True, help="Stop a drain: the broker takes clients and messages again.")
@click.option("--show", is_flag=True, help="Only show how far it is.")
@as_json
def drain(target: Target, grace_s: float | None, no_wait: bool, stop: bool, show: bool, json_wanted: bool) -> None:
    """Have the broker that is asked give its messages to the others, before it is taken out of service.

    Clients are refused, and those that are connected must leave. The command waits until nothing is left that could
    move, and names what stays; then the exit code is 1. Ctrl-C ends the waiting, and not the drain. When nothing is
    left at all, the broker leaves the mesh, and joins it again when it is started again.
    """
    if stop + show + no_wait > 1 or ((stop or show) and grace_s is not None):
        raise click.UsageError("--stop and --show go with nothing else, and --no-wait with --grace only")
    with Connection(target, is_operator=True) as connection:
        management = Management(connection, target)
        if show:
            fact = _asked(management, "getMeshStatus")
        elif stop:
            fact = _asked(management, "stopMeshDrain")
        else:
            grace = () if grace_s is None else (round(grace_s * 1000),)
            fact = _begun(management, grace)
            if not no_wait:
                fact = _waited(connection, management, fact, json_wanted)
    if json_wanted:
        print_json(fact)
    else:
        _tell(fact)
    if fact["state"] == "empty" and not show:
        raise Failed(f"{fact['remaining']} messages stay at {fact['name']}")


def _asked(management: Management, operation: str, *parameters: object) -> dict[str, Any]:
    fact: dict[str, Any] = json.loads(str(management.call(Request("broker", operation, parameters))))
    return fact


def _begun(management: Management, grace: tuple[int, ...]) -> dict[str, Any]:
    """Begin a drain, or join the wait for one that has begun."""
    fact = _asked(management, "getMeshStatus")
    return _asked(management, "drainMesh", *grace) if fact["state"] == "stays" else fact


def _waited(connection: Connection, management: Management, fact: dict[str, Any], json_wanted: bool) -> dict[str, Any]:
    """Wait until nothing moves any more; tell how far it is whenever that has changed."""
    told = ""
    while fact["state"] not in ENDED:
        if fact["state"] == "stays":
            raise Failed("the drain was stopped")
        line = f"{fact['drained']} messages given away, {fact['remaining']} left, {fact['clients']} clients"
        if line != told and not json_wanted:
            say(line, err=True)
        told = line
        until = time.monotonic() + POLL_S
        while (left_s := until - time.monotonic()) > 0:
            if connection.was_interrupted:
                raise click.Abort
            connection.exchange(left_s)
        fact = _asked(management, "getMeshStatus")
    return fact


def _tell(fact: Mapping[str, Any]) -> None:
    meanings = {
        "stays": "takes clients and messages",
        "draining": "gives its messages away",
        "empty": "has nothing left that could move",
        "left": "has nothing left, and has left the mesh",
    }
    say(f"{fact['name']} {meanings[fact['state']]}: {fact['drained']} given away, {fact['remaining']} left")
    if fact["queues"]:
        print_table(fact["queues"], LEFT_OVER)


@mesh.command()
@target_options
@click.argument("member")
@click.option("--yes", is_flag=True, help="Do not ask.")
@as_json
def forget(target: Target, member: str, yes: bool, json_wanted: bool) -> None:
    """Forget MEMBER, a name or id, that will not come back. All brokers of the mesh forget it.

    What was on its way to it goes back into its queues. If the member has taken some of that, and comes back after all,
    these messages exist twice.
    """
    fact = _member(target, member)
    if not yes:
        warning = (
            f"{fact['claimed']} messages are on their way from this broker to {fact['name']}, and may exist twice if "
            f"it comes back; {fact['waiting']} wait for it, and go to this broker. Forget it"
        )
        click.confirm(warning, abort=True, err=True)
    count = call(target, "broker", "forgetMember", fact["nodeID"])
    if json_wanted:
        print_json({"forgotten": fact["name"], "nodeID": fact["nodeID"], "returned": count})
    else:
        say(f"forgotten: {fact['name']}; {count} messages went back into their queues")


@mesh.command()
@target_options
@click.argument("member")
@click.option("--yes", is_flag=True, help="Do not ask.")
@as_json
def accept(target: Target, member: str, yes: bool, json_wanted: bool) -> None:
    """Let MEMBER, a name or id, come back although its store is older than it was, for example from a backup.

    What it had confirmed since the backup is lost, and what it had handed over since then may exist twice. The brokers
    that refuse it, as their logs say, need this command each.
    """
    fact = _member(target, member)
    if not yes:
        warning = f"The store of {fact['name']} may lack messages, or have some that exist elsewhere. Let it come back"
        click.confirm(warning, abort=True, err=True)
    call(target, "broker", "acceptMember", fact["nodeID"])
    if json_wanted:
        print_json({"accepted": fact["name"], "nodeID": fact["nodeID"]})
    else:
        say(f"accepted: {fact['name']}, when it connects next")


def _member(target: Target, text: str) -> dict[str, Any]:
    """Return the row of a member."""
    listed = json.loads(str(call(target, "broker", "listMembers", {}, 1, 1000)))
    found = [row for row in listed["data"] if text in (row["name"], row["nodeID"])]
    if len(found) != 1:
        count = f"{len(found)} members have the name" if found else "the mesh has no other member"
        raise Failed(f"{count} '{text}'; `mesh status` shows names and ids")
    row: dict[str, Any] = found[0]
    return row
