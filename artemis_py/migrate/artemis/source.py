"""Reads the `etc` folder of an Artemis instance.

Elements have the same names here, so broker.xml is copied; what this broker does not know is taken out when the result
is checked (`writing.settle`). Key stores, users and logins are what is different.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

from artemis_py.config import verdicts
from artemis_py.config.document import CORE_NAMESPACE
from artemis_py.config.foreign_xml import ForeignElement, parse_foreign
from artemis_py.errors import ConfigError, Problem
from artemis_py.migrate.artemis.table import TABLE
from artemis_py.migrate.findings import Findings, Origin, Outcome
from artemis_py.migrate.jaas import read_login_config
from artemis_py.migrate.java_properties import read_bytes
from artemis_py.migrate.key_stores import KeyStoreError, read_key_store
from artemis_py.migrate.placeholders import replace_placeholders
from artemis_py.migrate.target import Acceptor, Element, Target, unique_file_name

_SPOKEN: Final = ("AMQP", "MQTT", "OPENWIRE")
_FOLDERS: Final = ("journal-directory", "paging-directory", "large-messages-directory")
_GROUPS: Final = frozenset(["address-settings", "security-settings", "addresses", "diverts", "wildcard-addresses"])
_BRIDGING: Final = ("bridges", "broker-connections")
_STORES: Final = (("keyStore", "broker.pem"), ("trustStore", "trust.pem"))
_DEFAULT_PORT: Final = 61616
_MASK: Final = "ENC("
"""Beginning of a password that only Artemis can read."""
_RENAMED: Final = {
    name: verdict.reason
    for table in verdicts.ELEMENTS.values()
    for name, verdict in table.items()
    if verdict.effect is verdicts.Effect.RENAMED
}
_OUTCOMES: Final = {verdicts.Effect.NONE: Outcome.NEEDLESS, verdicts.Effect.LEFT_OUT: Outcome.DROPPED}
"""What a migration says of elements of which the broker warns. What it refuses is told when the result is checked."""


def recognises(path: Path, data: bytes) -> bool:
    """Tell whether this is a broker.xml of Artemis."""
    return CORE_NAMESPACE.encode() in data or (path.name == "broker.xml" and b"urn:activemq" in data)


def read(path: Path, values: Mapping[str, str], findings: Findings) -> Target:
    """Read a broker.xml and the files beside it. Raises ConfigError if it is none."""
    root = parse_foreign(read_bytes(path), str(path))
    core = root.find("core")
    if core is None:
        raise ConfigError(
            [Problem(str(path), root.line, root.name, "has no <core>, so it is no broker.xml of Artemis")]
        )
    instance = str(path.parent.parent)
    own = {"artemis.instance": instance, "artemis.home": instance, "artemis.instance.etc": str(path.parent)}
    replace_placeholders(core, own | dict(values))
    target = Target()
    has_bridges = core.find("bridges") is not None
    for element in core.children:
        if element.name in _BRIDGING or (has_bridges and element.name == "connectors"):
            _read_bridging(path, element, target, findings)
        else:
            _read_element(path, element, target, findings)
    for other in root.children:
        if other.name not in ("core", "login"):
            _tell(findings, Origin(path, other.line, other.name), Outcome.DROPPED)
    _read_logins(path, target, findings)
    return target


def _tell(findings: Findings, origin: Origin, outcome: Outcome, text: str | None = None) -> None:
    TABLE.tell(findings, origin, None if text is None and TABLE.find(origin.element) else outcome, text)


def _read_element(path: Path, element: ForeignElement, target: Target, findings: Findings) -> None:
    origin = Origin(path, element.line, element.name)
    if element.name == "acceptors":
        for acceptor in element.children:
            _read_acceptor(path, acceptor, target, findings)
    elif element.name in _FOLDERS and Path(element.text).is_absolute():
        text = f"a folder of the new instance; {element.text} belongs to Artemis"
        findings.add(origin, Outcome.CHANGED, text)
    elif TABLE.find(element.name) is not None:
        _tell(findings, origin, Outcome.DROPPED)
    elif not _is_ignored(origin, "core", findings):
        target.core.children.append(_copy(path, element, findings))
        if element.name not in _GROUPS:
            findings.add(origin, Outcome.KEPT, f"`{element.name}`")


def _read_bridging(path: Path, element: ForeignElement, target: Target, findings: Findings) -> None:
    """Copy connections to other brokers, without passwords that only Artemis can read."""
    made = _copy(path, element, findings)
    for each in made.walk():
        if each.attributes.get("password", "").startswith(_MASK) or (each.name == "password" and _MASK in each.text):
            findings.add(each.origin, Outcome.DROPPED, "the password is masked; write the password itself")
            each.attributes.pop("password", None)
            each.text = ""
    target.core.children.append(made)
    _tell(findings, made.origin, Outcome.KEPT, f"`{element.name}`" if element.name == "connectors" else None)


def _is_ignored(origin: Origin, parent: str, findings: Findings) -> bool:
    """Tell whether the broker would ignore an element, and report it."""
    verdict = verdicts.ELEMENTS.get(parent, {}).get(origin.element)
    outcome = None if verdict is None else _OUTCOMES.get(verdict.effect)
    if verdict is None or outcome is None:
        return False
    findings.add(origin, outcome, verdict.reason)
    return True


def _copy(path: Path, element: ForeignElement, findings: Findings) -> Element:
    origin = Origin(path, element.line, element.name)
    name = element.name
    renamed = _RENAMED.get(name)
    if renamed is not None:
        findings.add(origin, Outcome.CHANGED, f"`{renamed}`, the present name")
        name = renamed
    made = Element(name, origin, dict(element.attributes), " ".join(element.text.split()))
    made.attributes.pop("schemaLocation", None)
    for child in element.children:
        rule = TABLE.find(child.name)
        if rule is not None and rule.outcome is Outcome.NEEDLESS:
            _tell(findings, Origin(path, child.line, child.name), Outcome.NEEDLESS)
            continue
        if _is_ignored(Origin(path, child.line, child.name), element.name, findings):
            continue
        copied = _copy(path, child, findings)
        if not any(each.name == copied.name and _is_renamed_twice(each, copied) for each in made.children):
            made.children.append(copied)
    if name in ("address-setting", "security-setting", "address", "divert"):
        findings.add(
            origin, Outcome.KEPT, f"`{name}` {element.attributes.get('match') or element.attributes.get('name')}"
        )
    return made


def _is_renamed_twice(one: Element, other: Element) -> bool:
    """Tell whether an old and a new name of one setting stand side by side."""
    return one.name in _RENAMED.values() and not one.attributes and not other.attributes


def _read_acceptor(path: Path, element: ForeignElement, target: Target, findings: Findings) -> None:
    name = element.attributes.get("name", "acceptor")
    origin = Origin(path, element.line, f"acceptor {name}")
    base, _, query = element.text.partition("?")
    try:
        url = urlsplit(base.strip())
        host, port = url.hostname, url.port
    except ValueError:
        host, port = None, None
    if not host or url.scheme != "tcp":
        findings.add(origin, Outcome.DROPPED, "is not of the form tcp://host:port")
        return
    parameters = {
        key.strip(): unquote(value)
        for key, _, value in (each.partition("=") for each in query.replace("&", ";").split(";"))
        if key
    }
    acceptor = Acceptor(name, host, port or _DEFAULT_PORT, origin, parameters)
    if not _choose_protocols(acceptor, findings):
        return
    for parameter in list(parameters):
        rule = TABLE.find(f"acceptor.{parameter}")
        if rule is not None:
            findings.add(Origin(path, element.line, f"acceptor.{parameter}"), rule.outcome, rule.text)
            if rule.outcome in (Outcome.NEEDLESS, Outcome.DROPPED):
                del parameters[parameter]
    if parameters.get("sslEnabled") == "true" and not _read_stores(path, acceptor, target, findings):
        return
    for name_ in [each for each in parameters if each.startswith(("keyStore", "trustStore"))]:
        if name_ not in ("keyStorePath", "trustStorePath") or parameters.get("sslEnabled") != "true":
            del parameters[name_]
    target.acceptors.append(acceptor)
    findings.add(origin, Outcome.KEPT, f"`acceptor` on port {acceptor.port}")


def _choose_protocols(acceptor: Acceptor, findings: Findings) -> bool:
    """Leave out protocols that are not spoken; False if there is no other."""
    written = [each.strip().upper() for each in acceptor.parameters.get("protocols", "").split(",") if each.strip()]
    if not written:
        acceptor.parameters.pop("protocols", None)
        return True
    spoken = [each for each in written if each in _SPOKEN]
    others = [each for each in written if each not in _SPOKEN]
    if not spoken:
        text = f"{', '.join(others)}: not spoken here; Core clients can use JMS over AMQP (Qpid JMS) or OpenWire"
        findings.add(acceptor.origin, Outcome.DROPPED, text)
        return False
    if others:
        text = f"{', '.join(others)}: not spoken here; the acceptor speaks {', '.join(spoken)}"
        findings.add(acceptor.origin, Outcome.CHANGED, text)
    acceptor.parameters["protocols"] = ",".join(spoken)
    return True


def _read_stores(path: Path, acceptor: Acceptor, target: Target, findings: Findings) -> bool:
    """Turn the key stores of an acceptor into PEM files; False if it would be open without them."""
    for prefix, wanted in _STORES:
        name = acceptor.parameters.get(f"{prefix}Path")
        if not name:
            continue
        password = acceptor.parameters.get(f"{prefix}Password", "")
        origin = Origin(path, acceptor.origin.line, f"acceptor.{prefix}Path")
        try:
            if password.startswith(_MASK):
                raise KeyStoreError("has a masked password; write the password itself into the old file, and try again")
            store = read_key_store(read_bytes(path.parent / name), password)
            content = store.identity() if prefix == "keyStore" else store.trust()
        except (KeyStoreError, ConfigError) as error:
            reason = error.problems[0].message if isinstance(error, ConfigError) else str(error)
            findings.add(origin, Outcome.DROPPED, f"{name} {reason}; the acceptor is left out, not opened without it")
            return False
        same = next((each for each, there in target.files.items() if there == content), None)
        file = same or unique_file_name(target, wanted)
        target.files[file] = content
        acceptor.parameters[f"{prefix}Path"] = file
        findings.add(origin, Outcome.CHANGED, f"{file}, readable by its owner only")
    return True


def _read_logins(path: Path, target: Target, findings: Findings) -> None:
    """Read users, roles and guests; the entry of login.config is the domain in bootstrap.xml."""
    domain, origin = "activemq", Origin(path, 0, "login")
    bootstrap = path.parent / "bootstrap.xml"
    if bootstrap.is_file():
        for element in parse_foreign(read_bytes(bootstrap), str(bootstrap)).children:
            place = Origin(bootstrap, element.line, element.name)
            if element.name == "jaas-security":
                domain, origin = element.attributes.get("domain", domain), place
                findings.add(place, Outcome.KEPT, f"users and roles of the entry {domain} in login.config")
            else:
                _tell(findings, place, Outcome.DROPPED)
    enabled = target.core.find("security-enabled")
    if enabled is not None and enabled.text == "false":
        return
    found = read_login_config(target, findings, path.parent / "login.config", domain, origin)
    target.login.put("anonymous-access", "EVERYWHERE" if found.guests else "NOWHERE", origin)
    target.login.put("anonymous-roles", ",".join(found.guests), origin)
