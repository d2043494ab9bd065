"""`artemis-py vhost`: administer the virtual hosts of a running broker."""

import json
from collections.abc import Callable, Sequence
from typing import Any, Final

import click

from artemis_py.cli.client import Target, default_host_options
from artemis_py.cli.errors import Failed
from artemis_py.cli.listing import list_options, show_list
from artemis_py.cli.manage import Request, call, call_all
from artemis_py.cli.render import print_json, say

COLUMNS: Final = {
    "name": "VIRTUAL HOST",
    "state": "STATE",
    "connectionCount": "CONNECTIONS",
    "addressCount": "ADDRESSES",
    "queueCount": "QUEUES",
    "exchangeCount": "EXCHANGES",
}

_SHOWN: Final = (
    *("name", "state", "hostnames", "maxConnections", "maxQueues", "roles", "declared", "connectionCount"),
    *("addressCount", "queueCount", "exchangeCount"),
    *("totalMessageCount", "totalMessagesAdded", "totalMessagesAcknowledged"),
)
"""Attributes that `show` prints."""

as_json = click.option("--json", "json_wanted", is_flag=True, help="JSON instead of text.")

Command = Callable[..., None]


@click.group()
def vhost() -> None:
    """Create, start, stop and delete virtual hosts of a running broker.

    Each has addresses, queues, exchanges, settings and permissions of its own. Other commands work in one with --vhost.
    """


def _options(command: Command) -> Command:
    """Give a command the options of a host; those that are not given are not sent."""
    options = [
        click.option("--hostname", "hostnames", multiple=True, help="Another name for clients; may be repeated."),
        click.option("--max-connections", type=click.IntRange(min=-1), help="Clients at a time; -1: no limit."),
        click.option("--max-queues", type=click.IntRange(min=-1), help="Queues; -1: no limit."),
        click.option("--role", "roles", multiple=True, help="Role that may connect; may be repeated. Default: all."),
    ]
    for option in reversed(options):
        command = option(command)
    return command


def _wanted(
    name: str,
    hostnames: Sequence[str],
    max_connections: int | None,
    max_queues: int | None,
    roles: Sequence[str],
) -> dict[str, Any]:
    given: dict[str, Any] = {"name": name, "max-connections": max_connections, "max-queues": max_queues}
    # An empty one takes all names away.
    given |= {"hostnames": [each for each in hostnames if each] if hostnames else None}
    given |= {"roles": [each for each in roles if each] if roles else None}
    return {key: value for key, value in given.items() if value is not None}


@vhost.command()
@default_host_options
@click.argument("name")
@_options
@click.option("--stopped", is_flag=True, help="Let clients connect only after `vhost start`.")
@as_json
def create(target: Target, name: str, stopped: bool, json_wanted: bool, **options: Any) -> None:
    """Create the virtual host NAME, without addresses and settings."""
    wanted = _wanted(name, **options) | ({"enabled": False} if stopped else {})
    _done(f"created: virtual host {name}", json.loads(call(target, "broker", "createVirtualHost", wanted)), json_wanted)


@vhost.command()
@default_host_options
@click.argument("name")
@_options
@as_json
def update(target: Target, name: str, json_wanted: bool, **options: Any) -> None:
    """Change options of the virtual host NAME; --hostname "" and --role "" take all of them away."""
    wanted = _wanted(name, **options)
    _done(f"updated: virtual host {name}", json.loads(call(target, "broker", "updateVirtualHost", wanted)), json_wanted)


@vhost.command()
@default_host_options
@click.argument("name")
@as_json
def start(target: Target, name: str, json_wanted: bool) -> None:
    """Let clients connect to the virtual host NAME again. The exit code is 1 if they may already."""
    if not call(target, "broker", "startVirtualHost", name):
        raise Failed(f"virtual host {name} is active already")
    _done(f"started: virtual host {name}", {"started": name}, json_wanted)


@vhost.command()
@default_host_options
@click.argument("name")
@click.option("--reason", default="", help="What clients are told.")
@as_json
def stop(target: Target, name: str, reason: str, json_wanted: bool) -> None:
    """Close the virtual host NAME to clients, and end their connections; its messages stay.

    The exit code is 1 if it is stopped already.
    """
    if not call(target, "broker", "stopVirtualHost", name, reason):
        raise Failed(f"virtual host {name} is stopped already")
    _done(f"stopped: virtual host {name}", {"stopped": name}, json_wanted)


@vhost.command()
@default_host_options
@click.argument("name")
@as_json
def delete(target: Target, name: str, json_wanted: bool) -> None:
    """Delete the virtual host NAME with its addresses, queues, messages and exchanges."""
    call(target, "broker", "deleteVirtualHost", name)
    _done(f"deleted: virtual host {name}", {"deleted": name}, json_wanted)


@vhost.command("list")
@default_host_options
@list_options
def list_command(target: Target, page: int, max_rows: int, json_wanted: bool) -> None:
    """List the virtual hosts, the default one first."""
    show_list(target, "listVirtualHosts", "virtualHosts", {}, COLUMNS, page, max_rows, json_wanted)


@vhost.command()
@default_host_options
@click.argument("name")
@as_json
def show(target: Target, name: str, json_wanted: bool) -> None:
    """Show everything about the virtual host NAME; `default` is the host of clients that name none."""
    resource = f"virtualhost.{name}"
    names = [f"get{key[0].upper()}{key[1:]}" for key in _SHOWN]
    values = call_all(target, [Request(resource, each) for each in names])
    fact = dict(zip(_SHOWN, values, strict=True))
    if json_wanted:
        print_json(fact)
        return
    for member, value in fact.items():
        say(f"{member}: {json.dumps(value, ensure_ascii=False)}")


def _done(text: str, fact: dict[str, Any], json_wanted: bool) -> None:
    if json_wanted:
        print_json(fact)
    else:
        say(text)
