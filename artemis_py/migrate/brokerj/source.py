"""Reads a `config.json` of Broker-J with the file of one virtual host node, or the file of a virtual host alone."""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from artemis_py.errors import ConfigError, Problem
from artemis_py.migrate.brokerj.acl import Rule, grant, read_rules
from artemis_py.migrate.brokerj.hosts import read_host
from artemis_py.migrate.brokerj.logins import read_logins
from artemis_py.migrate.brokerj.ports import read_ports
from artemis_py.migrate.brokerj.reading import Reading
from artemis_py.migrate.findings import NOWHERE, Findings, Origin, Outcome
from artemis_py.migrate.json_document import JsonObject, parse_json, read_json
from artemis_py.migrate.placeholders import unresolved
from artemis_py.migrate.rules import words
from artemis_py.migrate.sources_options import VIRTUAL_HOST
from artemis_py.migrate.target import Acceptor, Target

_MARKS: Final = (
    b'"virtualhostnodes"',
    b'"authenticationproviders"',
    b'"durableBindings"',
    b'"nodeAutoCreationPolicies"',
)
_MAJORS: Final = range(7, 11)
_DEFAULTS: Final = {
    "qpid.amqp_port": "5672",
    "qpid.http_port": "8080",
    "broker.name": "Broker",
    "file.separator": "/",
    "user.home": "~",
}
_READ: Final = words(
    """
    authenticationproviders groupproviders ports keystores truststores accesscontrolproviders virtualhostnodes plugins
    brokerloggers trustedhosts connectionlimitproviders
    """
)
_OF_HOSTS: Final = words(
    """
    exchanges queues nodeAutoCreationPolicies virtualhostaccesscontrolproviders virtualhostloggers
    enabledConnectionValidators disabledConnectionValidators globalAddressDomains storePath
    virtualhostconnectionlimitproviders connectionThreadPoolSize numberOfSelectors housekeepingCheckPeriod
    housekeepingThreadCount storeTransactionIdleTimeoutClose storeTransactionIdleTimeoutWarn
    storeTransactionOpenTimeoutClose storeTransactionOpenTimeoutWarn statisticsReportingPeriod storeUnderfullSize
    storeOverfullSize localTransactionSynchronizationPolicy remoteTransactionSynchronizationPolicy
    """
)


def recognises(path: Path, data: bytes) -> bool:
    """Tell whether this is a configuration of Broker-J or of one of its virtual hosts."""
    return data.lstrip(b"\xef\xbb\xbf \t\r\n").startswith((b"{", b"/")) and any(mark in data for mark in _MARKS)


def read(path: Path, values: Mapping[str, str], findings: Findings) -> Target:
    """Read the file and those that it names. Raises ConfigError if it is none, or has no such virtual host."""
    root = read_json(path)
    own = {name: str(value) for name, value in root.object("context").items() if isinstance(value, str | int)}
    known = _DEFAULTS | {"qpid.home_dir": str(path.parent), "qpid.work_dir": str(path.parent)} | own | dict(values)
    known |= {f"json:{name}": value for name, value in known.items()}
    reading = Reading(path, known, findings)
    _check_version(reading, root)
    if "virtualhostnodes" not in root and ("exchanges" in root or "queues" in root):
        _set_up_alone(reading)
        _read_host(reading, root, None)
        return reading.target
    used = read_ports(reading, root)
    read_logins(reading, root, used)
    for kind in ("plugins", "brokerloggers", "trustedhosts", "connectionlimitproviders"):
        for each in root.objects(kind):
            reading.tell(kind, each, each.text("name"))
    reading.tell_others("broker", root, reading.text(root, "name"), _READ)
    node = _node(reading, root, values.get(VIRTUAL_HOST))
    if node is not None:
        host, host_reading = _host(reading, node)
        _read_host(host_reading, host, read_rules(reading, root.objects("accesscontrolproviders")))
    return reading.target


def _check_version(reading: Reading, root: JsonObject) -> None:
    version = reading.text(root, "modelVersion")
    major = version.partition(".")[0]
    if version and (not major.isdecimal() or int(major) not in _MAJORS):
        text = f"model {version} is not known here, only 7 to 9; start a Broker-J of these releases on it once"
        origin = reading.origin(root, "modelVersion", "modelVersion")
        reading.findings.add(origin, Outcome.DROPPED, text)


def _set_up_alone(reading: Reading) -> None:
    """Set what the file of a virtual host does not have."""
    target = reading.target
    target.acceptors.append(Acceptor("amqp", "127.0.0.1", 5672, NOWHERE, {"protocols": "AMQP"}))
    target.login.put("anonymous-access", "NOWHERE", NOWHERE)
    text = "the file of a virtual host has neither ports nor users: port 5672 of this machine, and nobody can log in"
    reading.findings.add(Origin(reading.path, 0, "ports"), Outcome.DROPPED, text)


def _node(reading: Reading, root: JsonObject, wanted: str | None) -> JsonObject | None:
    """Return the virtual host node to migrate; report that the others are left out."""
    nodes = {reading.text(each, "name"): each for each in root.objects("virtualhostnodes")}
    if wanted is not None and wanted not in nodes:
        text = f'there is no virtual host node "{wanted}"; there are: {", ".join(sorted(nodes)) or "none"}'
        raise ConfigError([Problem(str(reading.path), 0, "virtualhostnodes", text)])
    marked = [name for name, each in nodes.items() if reading.text(each, "defaultVirtualHostNode") == "true"]
    chosen = wanted or next(iter(marked or nodes), None)
    for name, each in nodes.items():
        if name != chosen:
            text = "one virtual host is migrated at a time; --virtual-host names it"
            reading.tell("virtualhostnodes", each, name, Outcome.DROPPED, text)
    return None if chosen is None else nodes[chosen]


def _host(reading: Reading, node: JsonObject) -> tuple[JsonObject, Reading]:
    """Return the virtual host of a node, from a file of its own or from within the configuration; else an empty one."""
    name = reading.text(node, "name")
    nested = node.objects("virtualhosts")
    if nested:
        reading.tell("virtualhostnodes", node, name)
        return nested[0], reading
    for path in _places(reading, node, name):
        if path.is_file():
            reading.tell("virtualhostnodes", node, name, None, f"the virtual host that is migrated, from {path.name}")
            return read_json(path), Reading(path, reading.values, reading.findings, reading.target)
    initial = reading.text(node, "virtualHostInitialConfiguration")
    if initial.strip("{} \n") and unresolved(initial) is None:
        line = node.line_of("virtualHostInitialConfiguration")
        inner = Reading(reading.path, reading.values, reading.findings, reading.target, is_nested=True, line=line)
        text = "its file is not there, so what it began with is migrated: queues that were made later are missing"
        reading.tell("virtualhostnodes", node, name, Outcome.CHANGED, text)
        return parse_json(initial, str(reading.path)), inner
    kind = node.text("type")
    text = f"there is no {name}/config/{name}.json; a node of type {kind} other than JSON keeps it in a database"
    reading.tell("virtualhostnodes", node, name, Outcome.DROPPED, text)
    return JsonObject(node.line), reading


def _places(reading: Reading, node: JsonObject, name: str) -> list[Path]:
    """Return where the file of a node may be."""
    base = reading.path.parent
    store = reading.text(node, "storePath")
    places = [base / name / "config" / f"{name}.json", base / f"{name}.json"]
    return [*([Path(store) / f"{name}.json", Path(store)] if store else []), *places]


def _read_host(reading: Reading, host: JsonObject, general: list[Rule] | None) -> None:
    """Read a virtual host; `general` has the access rules of the broker, which come after those of the host."""
    name = reading.text(host, "name")
    topology, queues = read_host(reading, host)
    own = read_rules(reading, host.objects("virtualhostaccesscontrolproviders"))
    rules = None if own is None and general is None else [*(own or ()), *(general or ())]
    grant(reading, topology, queues, rules)
    for logger in host.objects("virtualhostloggers"):
        reading.tell("virtualhostloggers", logger, logger.text("name"))
    reading.tell_others("virtualhost", host, name, _OF_HOSTS)
    target = reading.target
    for setting, value in (
        ("default-address-routing-type", "ANYCAST"),
        ("default-queue-routing-type", "ANYCAST"),
        ("max-delivery-attempts", "-1"),
    ):
        target.setting("#", setting, value, NOWHERE)
