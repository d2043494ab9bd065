"""Reads definitions of RabbitMQ: one virtual host of them."""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from artemis_py.errors import ConfigError, Problem
from artemis_py.migrate.findings import NOWHERE, Findings, Outcome
from artemis_py.migrate.json_document import JsonObject, read_json
from artemis_py.migrate.rabbitmq.definitions import Definitions, is_broken
from artemis_py.migrate.rabbitmq.permissions import grant, read_users
from artemis_py.migrate.rabbitmq.queues import finish_queues, read_queues
from artemis_py.migrate.rabbitmq.table import TABLE
from artemis_py.migrate.rabbitmq.topology import read_bindings, read_exchanges
from artemis_py.migrate.rules import words
from artemis_py.migrate.sources_options import VIRTUAL_HOST
from artemis_py.migrate.target import Acceptor, Target

_PORT: Final = 5672
_MARKS: Final = (b'"rabbit_version"', b'"rabbitmq_version"', b'"vhosts"')
_LISTS: Final = ("exchanges", "queues", "bindings", "permissions", "policies")
_DESCRIBING: Final = words(
    """
    rabbit_version rabbitmq_version product_name product_version rabbitmq_definition_format original_cluster_name
    original_vhost_name explanation metadata description default_queue_type limits
    """
)


def recognises(path: Path, data: bytes) -> bool:
    """Tell whether this is an export of definitions."""
    if not data.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"{"):
        return False
    return any(mark in data for mark in _MARKS) or (b'"bindings"' in data and b'"routing_key"' in data)


def read(path: Path, values: Mapping[str, str], findings: Findings) -> Target:
    """Read the file. Raises ConfigError if it is none, or has no such virtual host."""
    root = read_json(path)
    host = _host(path, root, values, findings)
    target = Target()
    definitions = Definitions(path, root, host, target, findings)
    for policy in definitions.of_host("policies"):
        if is_broken(policy.text("pattern")):
            text = "its regular expression cannot be read here"
            definitions.tell("policies", policy.line, policy.text("name"), Outcome.DROPPED, text)
    administrators = read_users(definitions)
    queues = read_queues(definitions)
    topology = read_exchanges(definitions)
    read_bindings(definitions, topology, queues.names)
    finish_queues(definitions, queues, topology)
    grant(definitions, topology, queues.names, administrators)
    _read_rest(definitions)
    _set_up(definitions)
    return target


def _host(path: Path, root: JsonObject, values: Mapping[str, str], findings: Findings) -> str:
    """Return the virtual host to migrate; report that the others are left out."""
    hosts = {each.text("name"): each.line for each in root.objects("vhosts")}
    named = [each.text("vhost") for name in _LISTS for each in root.objects(name) if each.text("vhost")]
    for name in named:
        hosts.setdefault(name, root.line)
    wanted = values.get(VIRTUAL_HOST)
    if wanted is not None and wanted not in hosts:
        known = ", ".join(sorted(hosts)) or "none"
        raise ConfigError([Problem(str(path), 0, "vhosts", f'there is no virtual host "{wanted}"; there are: {known}')])
    chosen = wanted or ("/" if "/" in hosts or not hosts else max(hosts, key=named.count))
    definitions = Definitions(path, root, chosen, Target(), findings)
    for name, line in hosts.items():
        if name == chosen:
            definitions.tell("vhosts", line, name)
        else:
            text = "one virtual host is migrated at a time; --virtual-host names it"
            definitions.tell("vhosts", line, name, Outcome.DROPPED, text)
    return chosen


def _read_rest(definitions: Definitions) -> None:
    for policy in definitions.of_host("policies"):
        name = policy.text("name")
        if name in definitions.matched:
            definitions.tell("policies", policy.line, name)
        elif not is_broken(policy.text("pattern")):
            text = "applies to no queue or exchange that there is"
            definitions.tell("policies", policy.line, name, Outcome.DROPPED, text)
    for each in definitions.of_host("parameters"):
        text = f"{each.text('component')}: {TABLE.rules['parameters'].text}"
        definitions.tell("parameters", each.line, each.text("name"), Outcome.DROPPED, text)
    if definitions.root.objects("global_parameters"):
        definitions.tell("global_parameters", definitions.root.line_of("global_parameters"))
    known = {rule.partition(".")[0] for rule in TABLE.rules} | _DESCRIBING
    for name in definitions.root:
        if name not in known:
            origin = definitions.origin(definitions.root.line_of(name), name)
            definitions.findings.add(origin, Outcome.DROPPED, "is not known to this migration")


def _set_up(definitions: Definitions) -> None:
    """Set what definitions do not have: ports, logins, and defaults that are those of RabbitMQ."""
    target = definitions.target
    target.acceptors.append(Acceptor("amqp", "0.0.0.0", _PORT, NOWHERE, {"protocols": "AMQP"}))
    text = f"definitions have no ports: AMQP 1.0 on port {_PORT} of all interfaces, without TLS; see broker.xml"
    definitions.findings.add(definitions.origin(0, "acceptors"), Outcome.CHANGED, text)
    target.login.put("anonymous-access", "NOWHERE", NOWHERE)
    for name, value in (
        ("default-address-routing-type", "ANYCAST"),
        ("default-queue-routing-type", "ANYCAST"),
        ("max-delivery-attempts", "-1"),
    ):
        target.setting("#", name, value, NOWHERE)
