"""Reads an activemq.xml: finds the broker in it, the values for `${name}`, and has each part read."""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from artemis_py.config.foreign_xml import ForeignElement, parse_foreign
from artemis_py.errors import ConfigError, Problem
from artemis_py.migrate.activemq import connectors, interceptors, plugins, policies, usage
from artemis_py.migrate.activemq.reading import Reading
from artemis_py.migrate.findings import Findings, Outcome
from artemis_py.migrate.java_properties import read_bytes, read_java_properties
from artemis_py.migrate.placeholders import replace_placeholders
from artemis_py.migrate.target import Target

_MARK: Final = b"activemq"
_HARMLESS_BEANS: Final = ("LogQuery", "DataSource", "jetty", "SpringContextHook")


def recognises(path: Path, data: bytes) -> bool:
    """Tell whether this is a configuration of ActiveMQ, or of something in Java that uses it."""
    is_xml = data.lstrip()[:1] == b"<" or data.startswith((b"\xef\xbb\xbf<", b"\xff\xfe", b"\xfe\xff"))
    return is_xml and _MARK in data and b"urn:activemq" not in data


def read(path: Path, values: Mapping[str, str], findings: Findings) -> Target:
    """Read the file. Raises ConfigError if it is not XML, or has no broker."""
    root = parse_foreign(read_bytes(path), str(path))
    known = _own_values(path) | dict(values)
    brokers = [each for each in _walk(root) if each.name == "broker"]
    reading = Reading(path, known, findings)
    known |= _properties(root, reading) | dict(values)
    reading.values = known
    replace_placeholders(root, known)
    if not brokers:
        raise ConfigError([Problem(str(path), root.line, root.name, _why_no_broker(root))])
    broker = brokers[0]
    _read_broker(reading, broker)
    for other in brokers[1:]:
        reading.tell(other, "", Outcome.DROPPED, "is a second broker in one file; give it a file of its own")
        reading.cover(other)
    _pass_over_beans(reading, root)
    reading.sweep(root)
    return reading.target


def _why_no_broker(root: ForeignElement) -> str:
    if any("BrokerService" in each.attributes.get("class", "") for each in _walk(root)):
        return "has a broker written as a bean of Spring; write it as a <broker> of ActiveMQ, then migrate it"
    return (
        "has no <broker>: this is the configuration of a client. Clients need no migration: change the host in their "
        "URL"
    )


def _pass_over_beans(reading: Reading, root: ForeignElement) -> None:
    """Report the beans that only serve the console or a database; any other may do anything."""
    for bean in _walk(root):
        kind = bean.attributes.get("class", "")
        if bean.name == "bean" and any(word in kind for word in _HARMLESS_BEANS):
            reading.cover(bean)
            reading.tell(bean, "", Outcome.NEEDLESS, f"{kind.rpartition('.')[2]} has no part here")


def _own_values(path: Path) -> dict[str, str]:
    """Return the values that scripts of ActiveMQ set."""
    conf = path.resolve().parent
    return {"activemq.conf": str(conf), "activemq.base": str(conf.parent), "activemq.home": str(conf.parent)} | {
        "activemq.data": str(conf.parent / "data")
    }


def _properties(root: ForeignElement, reading: Reading) -> dict[str, str]:
    """Return the properties of the files that the placeholder configurers of Spring name."""
    found: dict[str, str] = {}
    for bean in _walk(root):
        kind = bean.attributes.get("class", "")
        if bean.name == "property-placeholder":
            names = bean.attributes.get("location", "").split(",")
        elif bean.name == "bean" and "Placeholder" in kind:
            names = [each for part in _walk(bean) for each in (part.text, part.attributes.get("value", "")) if each]
        else:
            continue
        reading.cover(bean)
        for name in filter(None, map(str.strip, names)):
            if ".properties" not in name:
                continue
            file = reading.path(name)
            try:
                found |= {entry.name: entry.value for entry in read_java_properties(file)}
                reading.tell(bean, "", Outcome.KEPT, f"values for ${{name}} are read from {file.name}")
            except ConfigError:
                reading.tell(bean, "", Outcome.DROPPED, f"there is no file {file}; give values with -D NAME=VALUE")
    return found


def _read_broker(reading: Reading, broker: ForeignElement) -> None:
    core = reading.target.core
    name = reading.text(broker, "brokerName")
    core.put("name", name or "localhost", reading.origin(broker, "brokerName"))
    is_persistent = reading.flag(broker, "persistent")
    memory = any(each.name == "memoryPersistenceAdapter" for each in _walk(broker))
    if is_persistent is False or memory:
        core.put("persistence-enabled", "false", reading.origin(broker, "persistent"))
    advisories = reading.flag(broker, "advisorySupport")
    reading.has_advisories = advisories is not False
    if reading.flag(broker, "schedulerSupport") is False:
        reading.tell(broker, "schedulerSupport", Outcome.CHANGED)
    period = reading.number(broker, "schedulePeriodForDestinationPurge")
    if period:
        reading.purges = True
        core.put("address-queue-scan-period", str(period), reading.origin(broker, "schedulePeriodForDestinationPurge"))
    if reading.flag(broker, "populateJMSXUserID"):
        core.put("populate-validated-user", "true", reading.origin(broker, "populateJMSXUserID"))
    for unwanted in ("deleteAllMessagesOnStartup", "useMirroredQueues", "rejectDurableConsumers"):
        if reading.flag(broker, unwanted) is False:
            reading.tell(broker, unwanted, Outcome.NEEDLESS, "the default here")
        elif unwanted in broker.attributes:
            reading.tell(broker, unwanted)
    if reading.text(broker, "offlineDurableSubscriberTimeout", is_told=False) not in (None, "-1"):
        text = "durable subscriptions of absent clients are not deleted; delete their queues with `artemis-py queue`"
        reading.tell(broker, "offlineDurableSubscriberTimeout", Outcome.DROPPED, text)
    elif "offlineDurableSubscriberTimeout" in broker.attributes:
        reading.tell(broker, "offlineDurableSubscriberTimeout")
    for moved in ("dataDirectory", "tmpDataDirectory", "schedulerDirectoryFile"):
        reading.text(broker, moved)
    interceptors.read_interceptors(reading, broker)
    usage.read_usage(reading, broker)
    policies.read_policies(reading, broker)
    plugins.read_plugins(reading, broker)
    connectors.read_connectors(reading, broker)


def _walk(element: ForeignElement) -> list[ForeignElement]:
    return [element, *(below for child in element.children for below in _walk(child))]
