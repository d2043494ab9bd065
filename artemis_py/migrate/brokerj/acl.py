"""Access rules of Broker-J: the first rule that fits decides there, the narrowest match of an address here.

So for each queue and exchange it is worked out what every user may do. Each user has a role of its own.
"""

import re
from collections.abc import Iterable
from typing import Final

from attrs import define

from artemis_py.errors import ConfigError
from artemis_py.migrate.brokerj.reading import Reading
from artemis_py.migrate.exchanges import Topology, match_of, objection_to_queue
from artemis_py.migrate.findings import Origin, Outcome
from artemis_py.migrate.java_properties import read_text
from artemis_py.migrate.json_document import JsonObject
from artemis_py.migrate.rules import words

EVERYTHING: Final = (
    *("createAddress", "deleteAddress", "createDurableQueue", "deleteDurableQueue", "createNonDurableQueue"),
    *("deleteNonDurableQueue", "send", "consume", "browse", "manage"),
)
_LINE: Final = re.compile(r"(?:\d+\s+)?ACL\s+(\S+)\s+(\S+)\s+(\S+)(?:\s+(\S+))?(.*)", re.IGNORECASE)
_PROPERTY: Final = re.compile(r'(\w+)\s*=\s*(?:"([^"]*)"|(\S+))')
_WITHOUT_MEANING: Final = words("virtualhost_name virtualhost")

# What an action on an object grants, for queues and for exchanges.
_OF_QUEUES: Final = {
    ("CONSUME", "QUEUE"): ("consume", "browse"),
    ("CREATE", "QUEUE"): ("createAddress", "createDurableQueue", "createNonDurableQueue"),
    ("DELETE", "QUEUE"): ("deleteAddress", "deleteDurableQueue", "deleteNonDurableQueue"),
}
_OF_EXCHANGES: Final = {
    ("PUBLISH", "EXCHANGE"): ("send",),
    ("BIND", "EXCHANGE"): ("consume",),
    ("CREATE", "EXCHANGE"): ("createAddress",),
    ("DELETE", "EXCHANGE"): ("deleteAddress",),
}
_KNOWN: Final = {*_OF_QUEUES, *_OF_EXCHANGES, ("ACCESS", "VIRTUALHOST"), ("ACCESS", "MANAGEMENT")}


@define
class Rule:
    """One rule."""

    allows: bool
    identity: str
    action: str
    object: str
    properties: dict[str, str]

    def fits(self, identities: set[str], action: str, object: str, name: str | None, key: str | None) -> bool:
        """Tell whether it decides about an action of somebody; a name that is None is one that no rule names.

        A rule with further properties allows nothing here, and denies everything that it might deny.
        """
        if self.identity.upper() != "ALL" and self.identity not in identities:
            return False
        if self.action not in (action, "ALL") or self.object not in (object, "ALL", ""):
            return False
        others = dict(self.properties)
        wanted, routing_key = others.pop("name", None), others.pop("routingkey", None)
        if others and self.allows:
            return False
        if routing_key is not None and key is None and self.allows:
            return False
        if name is None and not self.allows:
            return True
        return _covers(wanted, name) and (routing_key is None or key is None or _covers(routing_key, key))


def _covers(wanted: str | None, name: str | None) -> bool:
    if wanted is None or wanted == "*":
        return True
    if name is None:
        return False
    return name.startswith(wanted[:-1]) if wanted.endswith("*") else name == wanted


def read_rules(reading: Reading, providers: Iterable[JsonObject]) -> list[Rule] | None:
    """Return the rules of all providers in their order; None if there is no provider."""
    found: list[Rule] | None = None
    for provider in providers:
        name = provider.text("name")
        if provider.text("type").lower() in ("allowall", "allow-all"):
            continue
        found = [] if found is None else found
        path = reading.text(provider, "path")
        if path:
            file = reading.file(path)
            try:
                lines = read_text(file).splitlines()
            except ConfigError as error:
                text = f"{file} {error.problems[0].message}; nobody may do anything"
                reading.tell("accesscontrolproviders", provider, name, Outcome.DROPPED, text)
                continue
            found += [rule for number, line in enumerate(lines, 1) for rule in _parse(reading, file, number, line)]
        for rule in provider.objects("rules"):
            properties = {key.lower(): str(value) for key, value in rule.object("attributes").items()}
            made = Rule(
                rule.text("outcome").upper().startswith("ALLOW"),
                rule.text("identity"),
                rule.text("operation").upper(),
                rule.text("objectType").upper(),
                {key: value for key, value in properties.items() if key not in _WITHOUT_MEANING},
            )
            _tell(reading, reading.origin(rule, "operation", "rules"), made)
            found.append(made)
        reading.tell("accesscontrolproviders", provider, name)
    return found


def _parse(reading: Reading, file: object, number: int, line: str) -> list[Rule]:
    text = line.strip()
    if not text or text.startswith("#"):
        return []
    origin = Origin(reading.file(str(file)), number, text.split()[0])
    match = _LINE.fullmatch(text)
    if match is None:
        reading.findings.add(origin, Outcome.DROPPED, "is no rule that is known here")
        return []
    outcome, identity, action, object, rest = match[1], match[2], match[3], match[4] or "", match[5]
    if "=" in object:  # no object is named
        object, rest = "", f"{object}{rest}"
    properties = {each[1].lower(): each[2] or each[3] or "" for each in _PROPERTY.finditer(rest)}
    properties = {key: value for key, value in properties.items() if key not in _WITHOUT_MEANING}
    rule = Rule(outcome.upper().startswith("ALLOW"), identity, action.upper(), object.upper(), properties)
    _tell(reading, origin, rule)
    return [rule]


def _tell(reading: Reading, origin: Origin, rule: Rule) -> None:
    others = sorted(set(rule.properties) - {"name", "routingkey"})
    if rule.action != "ALL" and rule.object != "ALL" and (rule.action, rule.object) not in _KNOWN:
        text = f"{rule.action} {rule.object} is no permission here"
        reading.findings.add(origin, Outcome.NEEDLESS if not rule.allows else Outcome.DROPPED, text)
    elif others:
        effect = "the rule allows nothing" if rule.allows else "it is denied in any case"
        reading.findings.add(origin, Outcome.DROPPED, f"{', '.join(others)}: permissions do not know this; {effect}")
    else:
        text = "`security-settings`, worked out for each queue and exchange that there is"
        reading.findings.add(origin, Outcome.CHANGED, text)


def grant(reading: Reading, topology: Topology, queues: set[str], rules: list[Rule] | None) -> None:
    """Write the permissions of all users; without rules everybody who logs in may do everything."""
    target = reading.target
    origin = Origin(reading.path, 0, "accesscontrolproviders")
    subjects = {user: {user, *_groups(reading, user)} for user in _users(reading)}
    if rules is None:
        target.permit("#", {permission: set(subjects) for permission in EVERYTHING}, origin)
        text = "there are no access rules: everybody who logs in may do everything, as in Broker-J"
        reading.findings.add(origin, Outcome.KEPT, text)
        return
    general = _grants(rules, subjects, None, True, True)
    managers = {
        subject for subject, names in subjects.items() if _allows(rules, names, "ACCESS", "MANAGEMENT", None, None)
    }
    # A reply to a request of management goes to a temporary queue.
    target.permit("#", general | ({"manage": managers} if managers else {}), origin)
    if managers:
        target.permit("activemq.management", {"manage": managers, "send": managers}, origin)
    for name in sorted({*queues, *topology.types}):
        if objection_to_queue(name) is None:
            grants = _grants(rules, subjects, name, name in queues, name in topology.types)
            if grants != general:
                target.permit(match_of(name), grants or {"send": set()}, origin)


def _users(reading: Reading) -> list[str]:
    """Return the users, and groups without known members; each of them is a role."""
    roles = reading.target.roles
    return sorted(
        {user for members in roles.values() for user in members} | {role for role in roles if not roles[role]}
    )


def _groups(reading: Reading, user: str) -> list[str]:
    return [role for role, members in reading.target.roles.items() if user in members]


def _grants(
    rules: list[Rule], subjects: dict[str, set[str]], name: str | None, is_queue: bool, is_exchange: bool
) -> dict[str, set[str]]:
    """Return who may do what to a queue or exchange of a name, or of any name that no rule has."""
    found: dict[str, set[str]] = {}
    actions = [*(_OF_QUEUES.items() if is_queue else ()), *(_OF_EXCHANGES.items() if is_exchange else ())]
    for subject, identities in subjects.items():
        permissions: list[str] = []
        for (action, object), granted in actions:
            if _allows(rules, identities, action, object, name, None):
                permissions += granted
        # What is sent to a queue goes there through the default exchange, which has no name.
        if is_queue and name is not None and _allows(rules, identities, "PUBLISH", "EXCHANGE", "", name):
            permissions.append("send")
        for permission in permissions:
            found.setdefault(permission, set()).add(subject)
    return found


def _allows(
    rules: list[Rule], identities: set[str], action: str, object: str, name: str | None, key: str | None
) -> bool:
    first = next((rule for rule in rules if rule.fits(identities, action, object, name, key)), None)
    return first is not None and first.allows
