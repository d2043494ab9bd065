"""Names of Artemis' management objects (JMX), and the resources here that they stand for.

    org.apache.activemq.artemis:broker="b",component=addresses,address="a",subcomponent=queues,routing-type="anycast",queue="q"

A value may be a pattern: `*` stands for any characters, `?` for one.
"""

import re
from collections.abc import Callable, Generator, Iterator, Mapping
from fnmatch import fnmatchcase
from typing import Final

from artemis_py.core.queues.queue import queues_of
from artemis_py.errors import InvalidRequest
from artemis_py.management.broker_control import BrokerControl
from artemis_py.management.divert_control import all_diverts
from artemis_py.management.listing import SLICE_ITEMS

DOMAIN: Final = "org.apache.activemq.artemis"

MOST_OBJECTS: Final = 1000
"""Objects that one pattern may match; for more there are lists with pages."""

LONGEST_NAME: Final = 4096

_KEY: Final = re.compile(r'([\w-]+)=("(?:[^"\\]|\\.)*"|[^",=:]*)(?:,|$)', re.DOTALL)
_ESCAPED: Final = re.compile(r"\\(.)", re.DOTALL)

Keys = Mapping[str, str]
"""Values of an object name by their keys, as patterns in which a backslash takes the meaning of the next character."""


def parse_name(text: str) -> Keys:
    """Return the keys of an object name; those of another domain than ours match nothing. Raises InvalidRequest."""
    domain, separator, rest = text.partition(":")
    if not separator or len(text) > LONGEST_NAME:
        raise InvalidRequest(f"{text[:200]!r} is not the name of an object: write {DOMAIN}:broker=…")
    keys: dict[str, str] = {} if fnmatchcase(DOMAIN, domain) else {"domain": domain}
    at = 0
    while at < len(rest):
        found = _KEY.match(rest, at)
        if found is None:
            raise InvalidRequest(f"{text[:200]!r} has no key and value after {rest[:at][-50:]!r}")
        value = found[2]
        keys[found[1]] = value[1:-1] if value.startswith('"') else value
        at = found.end()
    return keys


def is_pattern(keys: Keys) -> bool:
    """Tell whether an object name may stand for several objects."""
    return any(re.search(r"[*?]", _ESCAPED.sub("", value)) for value in keys.values())


def name_of(keys: Keys) -> str:
    """Return an object name from its values as they are, with its keys sorted (JMX's canonical form)."""
    unquoted = ("component", "subcomponent")
    parts = [f"{key}={value if key in unquoted else _quoted(value)}" for key, value in sorted(keys.items())]
    return f"{DOMAIN}:{','.join(parts)}"


def matching(wanted: Keys, broker: BrokerControl) -> Generator[None, None, dict[str, str]]:
    """Return the resources that a name stands for, by their object names: work in slices, as a pattern is compared
    with everything there is. Raises InvalidRequest if they are many.

    A pattern stands only for resources that the client may know of. One that is named is found, and says itself who may
    read it.
    """
    found: dict[str, str] = {}
    sight = _Sight(broker) if is_pattern(wanted) else None
    matchers = {key: _matcher(value) for key, value in wanted.items()}
    for number, (keys, resource) in enumerate(_objects(wanted, broker), start=1):
        if number % SLICE_ITEMS == 0:
            yield
        if keys.keys() == wanted.keys() and all(matchers[key](value) for key, value in keys.items()):
            if sight is not None and not sight.sees(resource):
                continue
            found[name_of(keys)] = resource
            if len(found) > MOST_OBJECTS:
                raise InvalidRequest(f"the pattern matches more than {MOST_OBJECTS} objects: use listQueues")
    return found


class _Sight:
    """Tells which resources a client may know of; it looks for the permissions on a kind once."""

    def __init__(self, broker: BrokerControl) -> None:
        self._broker: Final = broker
        self._by_kind: Final[dict[str, Callable[[str], bool] | None]] = {}

    def sees(self, resource: str) -> bool:
        """Tell whether the client may know of a resource such as `queue.orders`. There always is a broker."""
        kind, _, name = resource.partition(".")
        if not name:
            return True
        if kind not in self._by_kind:
            self._by_kind[kind] = self._broker.seen(kind)
        is_seen = self._by_kind[kind]
        return is_seen is None or is_seen(name)


def _objects(wanted: Keys, broker: BrokerControl) -> Iterator[tuple[dict[str, str], str]]:
    """Yield objects with the same keys as the one that is wanted, and their resources."""
    top = {"broker": broker.domain.options.name}
    if wanted.keys() == {"broker"}:
        yield top, "broker"
        return
    addresses = broker.domain.addresses
    if "address" in wanted:
        exact = _exact(wanted["address"])
        # A list, because addresses come and go between two slices.
        chosen = list(addresses.values()) if exact is None else [addresses[exact]] if exact in addresses else []
        for address in chosen:
            of_address = {**top, "component": "addresses", "address": address.name}
            if "queue" in wanted:
                for queue in list(queues_of(address)):
                    kind = queue.routing_type.name.lower()
                    yield (
                        {**of_address, "subcomponent": "queues", "routing-type": kind, "queue": queue.name},
                        f"queue.{queue.name}",
                    )
            elif "divert" in wanted:
                for divert in all_diverts(broker):
                    if divert.address is address:
                        yield {**of_address, "subcomponent": "diverts", "divert": divert.name}, f"divert.{divert.name}"
            else:
                yield of_address, f"address.{address.name}"
        return
    mesh = broker.facts.mesh
    for component, resource, names in (
        ("acceptors", "acceptor", [acceptor.name for acceptor in broker.facts.acceptors()]),
        ("cluster-connections", "cluster-connection", [] if mesh is None else [mesh.config.name]),
        ("broker-connections", "brokerconnection", [each.options.name for each in broker.facts.broker_connections()]),
    ):
        for name in names:
            yield {**top, "component": component, "name": name}, f"{resource}.{name}"


def _exact(pattern: str) -> str | None:
    """Return the one value that a pattern matches; None if it may match others."""
    return None if re.search(r"[*?]", _ESCAPED.sub("", pattern)) else _ESCAPED.sub(r"\1", pattern)


def _matcher(pattern: str) -> Callable[[str], bool]:
    exact = _exact(pattern)
    if exact is not None:
        return lambda value: value == exact
    # fnmatch knows sets in brackets as well, and has no backslash: every character without a meaning is made a set.
    parts = re.findall(r"\\.|.", pattern, re.DOTALL)
    glob = "".join(part if part in "*?" else f"[{part[-1]}]" if part[-1] in "*?[" else part[-1] for part in parts)
    return lambda value: fnmatchcase(value, glob)


def _quoted(value: str) -> str:
    return '"' + re.sub(r'([\\"*?])', r"\\\1", value).replace("\n", "\\n") + '"'
