"""`artemis-py exchange`: administer exchanges and bindings of a running broker."""

import json
from collections.abc import Callable, Sequence
from typing import Any, Final

import click

from artemis_py.cli.client import Target, target_options
from artemis_py.cli.explanation import explanation_lines
from artemis_py.cli.manage import Request, call, call_all
from artemis_py.cli.render import print_json, print_table, say
from artemis_py.core.settings.exchange_config import ExchangeLifetime, ExchangeType, Unroutable

as_json = click.option("--json", "json_wanted", is_flag=True, help="JSON instead of text.")

COLUMNS: Final = {
    "name": "EXCHANGE",
    "type": "TYPE",
    "durable": "DURABLE",
    "bindings": "BINDINGS",
    "routedMessages": "ROUTED",
    "unroutedMessages": "UNROUTED",
}

BINDING_COLUMNS: Final = {
    "key": "KEY",
    "queue": "QUEUE",
    "destinationExchange": "EXCHANGE",
    "arguments": "ARGUMENTS",
    "durable": "DURABLE",
}

SHOWN_BINDINGS: Final = 1000
"""Bindings that `show` prints: those of one page."""

Command = Callable[..., None]


@click.group()
def exchange() -> None:
    """Create, delete, bind and show exchanges of a running broker.

    They lead messages to queues by routing keys or headers, as in Qpid and RabbitMQ.
    """


def _destination(command: Command) -> Command:
    """Give a command the options for what is bound."""
    for each in (
        click.option("--key", default="", help="Binding key: a routing key, or a pattern of a topic exchange."),
        click.option("--to-exchange", help="The exchange that is bound."),
        click.option("--queue", help="The queue that is bound."),
    ):
        command = each(command)
    return command


@exchange.command()
@target_options
@click.argument("name")
@click.option(
    "--type", "kind", type=click.Choice([each.value for each in ExchangeType]), required=True, help="How it routes."
)
@click.option("--durable/--non-durable", default=True, show_default=True, help="Whether it survives a restart.")
@click.option("--auto-delete", is_flag=True, help="Delete it with the last of its bindings.")
@click.option("--alternate-queue", help="Queue for messages that reach no other queue.")
@click.option("--alternate-exchange", help="Exchange for messages that reach no queue.")
@click.option(
    "--unroutable",
    type=click.Choice([each.value for each in Unroutable]),
    help="What becomes of messages that reach no queue. Default: discard.",
)
@as_json
def create(
    target: Target, name: str, kind: str, durable: bool, auto_delete: bool, json_wanted: bool, **said: str | None
) -> None:
    """Create the exchange NAME."""
    lifetime = ExchangeLifetime.LAST_BINDING if auto_delete else ExchangeLifetime.PERMANENT
    wanted: dict[str, object] = {"name": name, "type": kind, "durable": durable, "lifetime": lifetime.value}
    wanted |= {member.replace("_", "-"): value for member, value in said.items() if value is not None}
    created = json.loads(call(target, "broker", "createExchange", wanted))
    _done(f"created: {kind} exchange {name}", created, json_wanted)


@exchange.command()
@target_options
@click.argument("name")
@click.option("--if-unused", is_flag=True, help="Only if it has no bindings.")
@as_json
def delete(target: Target, name: str, if_unused: bool, json_wanted: bool) -> None:
    """Delete the exchange NAME and its bindings; queues stay."""
    call(target, "broker", "deleteExchange", name, if_unused)
    _done(f"deleted: exchange {name}", {"exchange": name}, json_wanted)


@exchange.command()
@target_options
@click.argument("name")
@_destination
@click.option("--argument", "arguments", multiple=True, metavar="NAME=VALUE", help="A text; may be given repeatedly.")
@click.option("--json-arguments", metavar="JSON", help="Arguments that are not texts, as a JSON object.")
@click.option("--replace", is_flag=True, help="Replace the arguments of a binding with this key.")
@as_json
def bind(
    target: Target,
    name: str,
    queue: str | None,
    to_exchange: str | None,
    key: str,
    arguments: Sequence[str],
    json_arguments: str | None,
    replace: bool,
    json_wanted: bool,
) -> None:
    """Bind a queue or an exchange to the exchange NAME."""
    wanted = _binding(name, queue, to_exchange, key)
    wanted |= {"arguments": _values(arguments, json_arguments, "argument", "arguments"), "replace": replace}
    is_new = call(target, "broker", "bindExchange", wanted)
    text = f"bound to {name}" if is_new else f"unchanged: bound to {name} with this key already; see --replace"
    _done(text, {"bound": is_new}, json_wanted)


@exchange.command()
@target_options
@click.argument("name")
@_destination
@as_json
def unbind(target: Target, name: str, queue: str | None, to_exchange: str | None, key: str, json_wanted: bool) -> None:
    """Remove a binding of the exchange NAME."""
    if not call(target, "broker", "unbindExchange", _binding(name, queue, to_exchange, key)):
        raise click.ClickException(f"there is no such binding of exchange '{name}'")
    _done(f"unbound from {name}", {"unbound": True}, json_wanted)


@exchange.command("list")
@target_options
@click.option("--page", type=click.IntRange(min=1), default=1, show_default=True)
@click.option("--max-rows", type=click.IntRange(1, 1000), default=50, show_default=True)
@as_json
def list_(target: Target, page: int, max_rows: int, json_wanted: bool) -> None:
    """List the exchanges with their counters."""
    listed: dict[str, Any] = json.loads(call(target, "broker", "listExchanges", {"sortField": "name"}, page, max_rows))
    if json_wanted:
        print_json({"exchanges": listed["data"], "count": listed["count"]})
        return
    print_table(listed["data"], COLUMNS)
    if listed["count"] > len(listed["data"]):
        click.echo(f"{listed['count']} exchanges in all; --page and --max-rows show more", err=True)


@exchange.command()
@target_options
@click.argument("name")
@as_json
def show(target: Target, name: str, json_wanted: bool) -> None:
    """Show everything about the exchange NAME, with its bindings."""
    one = {"field": "name", "operation": "EQUALS", "value": name}
    its = {"field": "exchange", "operation": "EQUALS", "value": name, "sortField": "key"}
    # Asked first, because its error proposes the most similar exchanges.
    requests = [
        Request(f"exchange.{name}", "getName"),
        Request("broker", "listExchanges", (one, 1, 1)),
        Request("broker", "listExchangeBindings", (its, 1, SHOWN_BINDINGS)),
    ]
    _, exchanges, bindings = call_all(target, requests)
    (found,), bound = json.loads(exchanges)["data"], json.loads(bindings)["data"]
    if json_wanted:
        print_json(found | {"boundTo": bound})
        return
    for member, value in found.items():
        click.echo(f"{member}: {'' if value is None else json.dumps(value, ensure_ascii=False)}".rstrip())
    if bound:
        print_table(bound, BINDING_COLUMNS)
    if found["bindings"] > len(bound):
        click.echo(f"{found['bindings']} bindings in all, the first {len(bound)} are shown", err=True)


@exchange.command()
@target_options
@click.argument("name")
@click.argument("key", default="")
@click.option("--property", "properties", multiple=True, metavar="NAME=VALUE", help="A text; may be given repeatedly.")
@click.option("--json-properties", metavar="JSON", help="Properties that are not texts, as a JSON object.")
@click.option("--type", "kind", help="Subject of the message, which is its JMSType.")
@click.option("--priority", type=click.IntRange(0, 9), default=4, show_default=True)
@click.option("--non-durable", is_flag=True, help="A message that is not durable.")
@click.option("--role", "roles", multiple=True, help="A role of the sender; without any, you are the sender.")
@click.option("--queue", help="List only the bindings that lead to this queue.")
@as_json
def explain(
    target: Target,
    name: str,
    key: str,
    properties: Sequence[str],
    json_properties: str | None,
    kind: str | None,
    priority: int,
    non_durable: bool,
    roles: Sequence[str],
    queue: str | None,
    json_wanted: bool,
) -> None:
    """Say which queues would get a message sent to the exchange NAME with the routing key KEY, and why.

    Nothing is sent. An empty NAME is the default exchange.
    """
    wanted: dict[str, object] = {"exchange": name, "key": key, "priority": priority, "durable": not non_durable}
    wanted["properties"] = _values(properties, json_properties, "property", "properties")
    optional = {"type": kind, "queue": queue, "roles": list(roles) or None}
    wanted |= {member: value for member, value in optional.items() if value is not None}
    found = json.loads(call(target, "broker", "explainPublish", wanted))
    if json_wanted:
        print_json(found)
        return
    for line in explanation_lines(found):
        say(line)


def _binding(name: str, queue: str | None, to_exchange: str | None, key: str) -> dict[str, object]:
    if (queue is None) is (to_exchange is None):
        raise click.UsageError("name either --queue or --to-exchange")
    destination = {"queue": queue} if to_exchange is None else {"destination-exchange": to_exchange}
    return {"exchange": name, "key": key, **destination}


def _values(texts: Sequence[str], json_text: str | None, one: str, several: str) -> dict[str, object]:
    """Return what the options `--<one> NAME=VALUE` and `--json-<several>` say together."""
    found: dict[str, object] = {}
    if json_text is not None:
        hint = f"--json-{several}"
        try:
            parsed = json.loads(json_text)
        except ValueError as error:
            raise click.BadParameter(f"it is not JSON: {error}", param_hint=hint) from None
        if not isinstance(parsed, dict):
            raise click.BadParameter("it is not a JSON object", param_hint=hint)
        found |= parsed
    for text in texts:
        name, equals, value = text.partition("=")
        if not name or not equals:
            raise click.BadParameter(f"{text!r} is not NAME=VALUE", param_hint=f"--{one}")
        found[name] = value
    return found


def _done(text: str, fact: dict[str, Any], json_wanted: bool) -> None:
    if json_wanted:
        print_json(fact)
    else:
        say(text)
