"""Exchanges and bindings of a migrated configuration: the names that may be, and how they are written."""

import re
from collections.abc import Mapping
from typing import Final

from attrs import Factory, define

from artemis_py.core.routing.exchanges.arguments import MATCH, NO_LOCAL, REPLACEMENT, SELECTOR
from artemis_py.core.routing.exchanges.exchanges import PREDECLARED
from artemis_py.core.routing.exchanges.patterns import TOPIC_SYNTAX
from artemis_py.core.settings.exchange_config import Destination
from artemis_py.migrate.findings import Origin
from artemis_py.migrate.target import Element, Target

_UNWRITABLE: Final = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")
_TYPES: Final = {bool: "boolean", int: "integer", float: "decimal"}


@define(eq=False)
class Topology:
    """The exchanges that are migrated, and what they lead to."""

    elements: dict[str, Element] = Factory(dict)
    types: dict[str, str] = Factory(lambda: {name: kind.value for name, kind in PREDECLARED.items()})
    internal: set[str] = Factory(set)
    """Exchanges to which no client may send."""
    bindings: dict[str, list[tuple[str, Destination, bool]]] = Factory(dict)
    """Key, destination, and whether it has arguments, for each exchange."""

    def reached(self, exchange: str, key: str | None, seen: frozenset[str] = frozenset()) -> set[str] | None:
        """Return the queues that get what is sent to an exchange with a key, or with any key; None if that varies."""
        if exchange not in self.types or exchange in seen:
            return set()
        kind, found = self.types[exchange], set[str]()
        for pattern, destination, has_arguments in self.bindings.get(exchange, ()):
            is_certain = kind == "fanout" or (kind == "topic" and pattern == "#")
            if not is_certain:
                if kind == "headers" or key is None:
                    return None
                if not (TOPIC_SYNTAX.matches(pattern, key) if kind == "topic" else pattern == key):
                    continue
            if destination.is_queue:
                found.add(destination.name)
                continue
            further = self.reached(destination.name, key, seen | {exchange})
            if further is None or has_arguments:
                return None
            found |= further
        return found

    def leading_to(self, queue: str) -> list[str]:
        """Return the exchanges that are bound to a queue."""
        return [
            name
            for name, bindings in self.bindings.items()
            if any(each.is_queue and each.name == queue for _, each, _ in bindings)
        ]


def is_writable(text: str) -> bool:
    """Tell whether XML can have a text: it has no control characters and no halves of surrogate pairs."""
    return not _UNWRITABLE.search(text)


def objection_to_queue(name: str) -> str | None:
    """Return why a queue cannot have a name; None if it can."""
    if not name or not is_writable(name) or name != name.strip():
        return "the name is empty, begins or ends with a space, or has control characters"
    if "::" in name:
        return "the name has `::`, which separates an address from a queue here"
    if any(word in ("*", "#") for word in name.split(".")):
        return "`*` and `#` are wildcards in addresses here"
    return None


def match_of(name: str) -> str:
    """Return the match of settings and permissions that means this name only; it has no wildcards."""
    return name.replace("\\", "\\\\")


def add_exchange(target: Target, name: str, kind: str | None, origin: Origin, **attributes: str | None) -> Element:
    """Declare an exchange, or give a predeclared one attributes; its type is left out if it is None."""
    made = target.exchanges.child("exchange", name=name)
    made.origin = origin
    for attribute, value in {"type": kind, **attributes}.items():
        if value is not None:
            made.attributes[attribute.replace("_", "-")] = value
    return made


def add_binding(
    exchange: Element, destination: Destination, key: str, arguments: Mapping[str, object], origin: Origin
) -> str | None:
    """Add a binding; if it cannot be written, return why."""
    if not is_writable(key):
        return "its key has control characters"
    attributes = {"key": key} if key else {}
    attributes["queue" if destination.is_queue else "exchange"] = destination.name
    made = Element("binding", origin, attributes)
    for name, value in arguments.items():
        objection = _add_argument(made, name, value, origin)
        if objection:
            return objection
    exchange.children.append(made)
    return None


def _add_argument(binding: Element, name: str, value: object, origin: Origin) -> str | None:
    known = name.lower()
    text = _text(value)
    if text is None or not is_writable(name + text) or name != name.strip() or not name:
        return f"its argument {name!r} is no text, number or truth value, or has characters that XML has not"
    if known == MATCH:
        binding.attributes["match"] = text.lower()
    elif known == SELECTOR:
        if text.strip():
            binding.add("filter", origin, string=text)
    elif known == REPLACEMENT:
        binding.attributes["replacement-key"] = text
    elif known == NO_LOCAL:
        return f"`{NO_LOCAL}` is not supported; use a selector that excludes the sender" if value else None
    else:
        made = binding.add("argument", origin, name=name)
        if value is not None:
            made.attributes["value"] = text
            if not isinstance(value, str):
                made.attributes["type"] = _TYPES[type(value)]
    return None


def _text(value: object) -> str | None:
    """Return how a value is written; None if it cannot be."""
    match value:
        case None:
            return ""
        case bool():
            return "true" if value else "false"
        case float():
            return f"{value:.15f}".rstrip("0").rstrip(".") if abs(value) < 1e15 else None
        case str() | int():
            return str(value)
        case _:
            return None
