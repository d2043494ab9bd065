"""Exchanges and bindings of RabbitMQ."""

import json
from typing import Final

from artemis_py.core.routing.exchanges.exchanges import PREDECLARED
from artemis_py.core.settings.exchange_config import Destination, ExchangeType
from artemis_py.migrate.exchanges import Topology, add_binding, add_exchange, is_writable
from artemis_py.migrate.findings import Outcome
from artemis_py.migrate.json_document import JsonObject
from artemis_py.migrate.rabbitmq.definitions import Definitions
from artemis_py.migrate.target import Element

# RabbitMQ has two predeclared headers exchanges; one would do.
_RENAMED: Final = {"amq.headers": "amq.match"}


def read_exchanges(definitions: Definitions) -> Topology:
    """Read the exchanges, with the alternates that arguments and policies give them."""
    topology = Topology()
    for each in definitions.of_host("exchanges"):
        name, kind = each.text("name"), each.text("type")
        line = each.line_of("name")
        if name in PREDECLARED or name == "" or name in _RENAMED or name == "amq.rabbitmq.trace":
            continue
        if kind not in {known.value for known in ExchangeType} or not is_writable(name):
            text = f"type {kind} comes from a plugin; its bindings are left out, too" if is_writable(name) else None
            definitions.tell("exchanges.type", line, name if is_writable(name) else "", Outcome.DROPPED, text)
            continue
        is_durable = each.flag("durable", True)
        is_ending = each.flag("auto_delete")
        topology.types[name] = kind
        topology.elements[name] = add_exchange(
            definitions.target,
            name,
            kind,
            definitions.origin(line, f'exchanges "{name}"'),
            durable=None if is_durable else "false",
            auto_delete="true" if is_ending else None,
            # As AMQP 1.0 clients of RabbitMQ are told.
            unroutable="reject",
        )
        definitions.tell("exchanges", line, name)
        if is_ending:
            definitions.tell("exchanges.auto_delete", each.line_of("auto_delete"), name)
        if each.flag("internal"):
            topology.internal.add(name)
            definitions.tell("exchanges.internal", each.line_of("internal"), name)
    for each in definitions.of_host("exchanges"):
        _read_alternate(definitions, topology, each)
    return topology


def _read_alternate(definitions: Definitions, topology: Topology, exchange: JsonObject) -> None:
    name = exchange.text("name")
    if name not in topology.types:
        return
    for argument, found in definitions.arguments("exchanges", exchange).items():
        if argument != "alternate-exchange":
            text = f"the argument {argument} has no meaning here"
            definitions.tell("exchanges.type", found.line, name, Outcome.DROPPED, text)
            continue
        other = _RENAMED.get(str(found.value), str(found.value))
        if other not in topology.types or other == name:
            text = f"there is no exchange {other} to be its alternate"
            definitions.tell("exchanges.alternate-exchange", found.line, name, Outcome.DROPPED, text)
            continue
        element = _element(definitions, topology, name, found.line)
        element.attributes["alternate-exchange"] = other
        definitions.tell("exchanges.alternate-exchange", found.line, name)


def read_bindings(definitions: Definitions, topology: Topology, queues: set[str]) -> None:
    """Read the bindings to queues and exchanges that are migrated."""
    seen: dict[tuple[str, str, Destination], set[str]] = {}
    for each in definitions.of_host("bindings"):
        line = each.line
        source = _RENAMED.get(each.text("source"), each.text("source"))
        is_queue = each.text("destination_type", "queue") != "exchange"
        to = each.text("destination")
        destination = Destination(to if is_queue else _RENAMED.get(to, to), is_queue)
        key = each.text("routing_key")
        label = f"{source} to {destination.name}"
        if source == "":
            text = "every queue can be reached by its name"
            definitions.tell("bindings", line, label, Outcome.NEEDLESS, text)
            continue
        missing = ""
        if source not in topology.types:
            missing = f"exchange {source}"
        elif destination.name not in (queues if is_queue else topology.types):
            missing = f"{'queue' if is_queue else 'exchange'} {destination.name}"
        if missing:
            definitions.tell("bindings", line, label, Outcome.DROPPED, f"{missing} is not there, or was left out")
            continue
        _read_binding(definitions, topology, each, (source, key, destination), seen)


# Long because each difference between the brokers is reported where it is found.
def _read_binding(
    definitions: Definitions,
    topology: Topology,
    binding: JsonObject,
    identity: tuple[str, str, Destination],
    seen: dict[tuple[str, str, Destination], set[str]],
) -> None:
    source, key, destination = identity
    label, line = f"{source} to {destination.name}", binding.line
    is_headers = topology.types[source] == "headers"
    arguments = dict(binding.object("arguments"))
    if not is_headers and arguments:
        text = f"only headers exchanges compare arguments; {', '.join(sorted(arguments))} mean nothing"
        definitions.tell("bindings.arguments", line, label, Outcome.NEEDLESS, text)
        arguments = {}
    outcome, text = Outcome.KEPT, "`binding`"
    if is_headers:
        criteria = [name for name in arguments if not name.lower().startswith("x-")]
        mode = str(arguments.get("x-match", "all"))
        if not criteria and mode == "any":
            definitions.tell("bindings", line, label, Outcome.DROPPED, "without arguments `any` matches nothing there")
            return
        if any(arguments[name] == "" for name in criteria):
            outcome, text = Outcome.CHANGED, "an empty text means here that the property is there, with any value"
    form = json.dumps(arguments, sort_keys=True)
    others = seen.setdefault(identity, set())
    if form in others:
        definitions.tell("bindings", line, label, Outcome.NEEDLESS, "the same binding is there already")
        return
    others.add(form)
    if len(others) > 1:
        # Its exchange does not look at the key, but two bindings with one key and destination are the same here.
        key = f"{key}#{len(others)}"
        outcome, text = Outcome.CHANGED, f"with the key {key}, because arguments do not tell bindings apart here"
    origin = definitions.origin(line, f'bindings "{label}"')
    objection = add_binding(_element(definitions, topology, source, line), destination, key, arguments, origin)
    if objection is not None:
        definitions.tell("bindings", line, label, Outcome.DROPPED, objection)
        return
    topology.bindings.setdefault(source, []).append((key, destination, bool(arguments)))
    definitions.tell("bindings", line, label, outcome, text)


def _element(definitions: Definitions, topology: Topology, name: str, line: int) -> Element:
    """Return the element of an exchange; that of a predeclared one is made when it is needed first."""
    if name not in topology.elements:
        origin = definitions.origin(line, f'exchanges "{name}"')
        topology.elements[name] = add_exchange(definitions.target, name, None, origin, unroutable="reject")
    return topology.elements[name]
