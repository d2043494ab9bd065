"""The tables of docs/artemis-compatibility.md: every name that Artemis knows, and what becomes of it here.

`test_documentation` compares the page with them, and writes them.
"""

from collections.abc import Iterable, Mapping
from importlib.metadata import entry_points
from typing import Final

from artemis_py.config.broker_config import WILDCARD_OPTIONS
from artemis_py.config.known import (
    ACCEPTOR_PARAMETERS,
    ADDRESS_SETTINGS,
    AMQP_CONNECTION_NAMES,
    BRIDGE_ELEMENTS,
    CLUSTER_ELEMENTS,
    CORE_ELEMENTS,
    DISCOVERY_ELEMENTS,
    DIVERT_ELEMENTS,
    QUEUE_ATTRIBUTES,
    RESOURCE_LIMIT_ELEMENTS,
    ROUTER_ELEMENTS,
    ROUTER_POOL_ELEMENTS,
)
from artemis_py.config.verdicts import (
    ADDRESS_SETTING,
    AMQP_CONNECTION,
    BRIDGE,
    CLUSTER_CONNECTION,
    CONNECTION_ROUTER,
    CONNECTOR_PARAMETERS,
    CORE,
    DISCOVERY_GROUP,
    PARAMETERS,
    PERMISSIONS,
    PROTOCOLS,
    RESOURCE_LIMIT,
    ROUTER_POOL,
    SASL_MECHANISMS,
    SECURITY_SETTINGS,
    Effect,
    Verdict,
)
from artemis_py.core.runtime.access import Permission
from artemis_py.security.authenticator import MECHANISMS
from artemis_py.transport.config import ACCEPTOR_OPTIONS, CONNECTOR_OPTIONS, CONNECTOR_TLS_OPTIONS, TLS_OPTIONS
from tests.unit.config.samples import QUEUE, content

CLASSES: Final = {
    Effect.NONE: "no effect",
    Effect.LEFT_OUT: "left out",
    Effect.REFUSED: "**error**",
    Effect.RENAMED: "read",
}
OWN_PERMISSION_NAMES: Final = ("createTempQueue", "deleteTempQueue")


def row(name: str, verdict: Verdict | None, note: str = "") -> str:
    """A line of a table."""
    if verdict is None:
        return f"| `{name}` | read | {note} |"
    reason = f"an old name of `{verdict.reason}`" if verdict.effect is Effect.RENAMED else verdict.reason
    # Of a class without its package; the properties of a plugin do not matter.
    values = {each.rpartition(".")[2] if each.startswith("org.") else each for each in verdict.harmless} - {"property"}
    harmless = ", ".join(f"`{each}`" for each in sorted(values))
    accepted = f"; no effect with {harmless}" if harmless else ""
    return f"| `{name}` | {CLASSES[verdict.effect]} | {reason}{accepted} |"


def table(rows: Iterable[str]) -> str:
    """Markdown."""
    return "\n".join(["", "| name | here | why, what to do |", "| --- | --- | --- |", *rows, "", ""])


def names(known: Iterable[str], verdicts: Mapping[str, Verdict], notes: Mapping[str, str] | None = None) -> str:
    """A table of names in the order of the alphabet; those without a verdict are read."""
    return table(row(name, verdicts.get(name), (notes or {}).get(name, "")) for name in sorted(known, key=str.lower))


def parameters() -> str:
    """A table of what the URL of an acceptor may have, with what reads it."""
    readers = {each.name: "" for each in ACCEPTOR_OPTIONS} | {each.name: "TLS" for each in TLS_OPTIONS}
    protocols: dict[str, list[str]] = {}
    for entry_point in sorted(entry_points(group="artemis_py.protocols"), key=lambda each: each.name):
        for each in entry_point.load().parameters:
            protocols.setdefault(each.name, []).append(entry_point.name)
    readers |= {name: ", ".join(speakers) for name, speakers in protocols.items()}
    return names(ACCEPTOR_PARAMETERS, PARAMETERS, readers)


def connector_parameters() -> str:
    """A table of what the URL of a connector may have; other parameters of Artemis have no effect."""
    read = {each.name: "" for each in CONNECTOR_OPTIONS} | {each.name: "TLS" for each in CONNECTOR_TLS_OPTIONS}
    known = [each for each in (*read, *CONNECTOR_PARAMETERS) if each in ACCEPTOR_PARAMETERS]
    return names(known, CONNECTOR_PARAMETERS, read)


def words(read: Iterable[str], others: Iterable[str], note: str) -> str:
    """A table of values of a list, of which some are left out."""
    lines = {each: f"| `{each}` | read |  |" for each in read} | {
        each: f"| `{each}` | left out | {note} |" for each in others
    }
    return table(lines[each] for each in sorted(lines))


QUEUE_ELEMENTS: Final = ("durable", "filter", "user")
PROTOCOLS_READ: Final = sorted(each.name for each in entry_points(group="artemis_py.protocols"))

COMPATIBILITY: Final = {
    "core": names(CORE_ELEMENTS, CORE),
    "address-setting": names(ADDRESS_SETTINGS, ADDRESS_SETTING),
    "queue": names({*QUEUE_ATTRIBUTES, *QUEUE_ELEMENTS} & {*content(QUEUE).attributes, *content(QUEUE).children}, {}),
    "divert": names(DIVERT_ELEMENTS, {}),
    "cluster-connection": names(CLUSTER_ELEMENTS, CLUSTER_CONNECTION),
    "amqp-connection": names(AMQP_CONNECTION_NAMES, AMQP_CONNECTION),
    "bridge": names(BRIDGE_ELEMENTS, BRIDGE),
    "discovery-group": names(DISCOVERY_ELEMENTS, DISCOVERY_GROUP),
    "connection-router": names(ROUTER_ELEMENTS, CONNECTION_ROUTER),
    "router-pool": names(ROUTER_POOL_ELEMENTS, ROUTER_POOL),
    "connector": connector_parameters(),
    "resource-limit-setting": names(RESOURCE_LIMIT_ELEMENTS, RESOURCE_LIMIT),
    "wildcard-addresses": names([each.name for each in WILDCARD_OPTIONS], {}),
    "security-settings": names(["role-mapping", "security-setting", *SECURITY_SETTINGS], SECURITY_SETTINGS),
    "permissions": names([*[each.value for each in Permission], *OWN_PERMISSION_NAMES, *PERMISSIONS], PERMISSIONS),
    "parameters": parameters(),
    "protocols": words(PROTOCOLS_READ, PROTOCOLS, "an acceptor that speaks nothing else is not opened"),
    "mechanisms": words(MECHANISMS, SASL_MECHANISMS, "an error if the acceptor has no other"),
}
