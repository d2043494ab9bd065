"""An `acl_file` becomes security settings.

mosquitto allows what any rule of the user allows and none denies. Here only the narrowest match of an address counts,
so for each filter in the file it is worked out what every user may do there. Each user has a role of its own.
"""

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from attrs import frozen

from artemis_py.errors import ConfigError
from artemis_py.migrate.findings import Findings, Origin, Outcome
from artemis_py.migrate.java_properties import read_text
from artemis_py.migrate.mosquitto.table import TABLE
from artemis_py.migrate.target import Target

ANONYMOUS: Final = "anonymous"
_ACCESS: Final = {
    "read": frozenset(["read"]),
    "write": frozenset(["write"]),
    "readwrite": frozenset(["read", "write"]),
    "deny": frozenset[str](),
}
_PERMISSIONS: Final = {
    "read": (
        "consume",
        "browse",
        "createAddress",
        "createDurableQueue",
        "deleteDurableQueue",
        "createNonDurableQueue",
        "deleteNonDurableQueue",
    ),
    "write": ("send", "createAddress"),
}
_ODD_WORD: Final = re.compile(r".[#+]|[#+].|\*")


@frozen
class _Rule:
    """A rule for one user."""

    filter: str
    access: str
    origin: Origin


def read_acl(path: Path, target: Target, findings: Findings, origin: Origin) -> None:
    """Read a file of permissions; users of the target must be known already."""
    try:
        lines = read_text(path).splitlines()
    except ConfigError as error:
        TABLE.tell(findings, origin, Outcome.DROPPED, f"{path} {error.problems[0].message}; nobody may do anything")
        return
    rules: dict[str, list[_Rule]] = {}
    patterns: list[_Rule] = []
    user = ANONYMOUS
    for number, line in enumerate(lines, 1):
        content = line.strip()
        if not content or content.startswith("#"):
            continue
        word, _, rest = content.partition(" ")
        place = Origin(path, number, word)
        if word == "user" and rest.strip():
            user = rest.strip()
            rules.setdefault(user, [])
            findings.add(place, Outcome.KEPT, f"the role {user}, which has the user of this name")
        elif word in ("topic", "pattern"):
            rule = _parse(rest.strip(), place, findings)
            if rule is not None:
                (patterns if word == "pattern" else rules.setdefault(user, [])).append(rule)
        else:
            findings.add(place, Outcome.DROPPED, "is neither `user`, `topic` nor `pattern`")
    _expand(patterns, rules, target, findings)
    _grant(rules, target)


def _parse(text: str, place: Origin, findings: Findings) -> _Rule | None:
    access, _, rest = text.partition(" ")
    if access not in _ACCESS or not rest.strip():
        access, rest = "readwrite", text
    topic = rest.strip()
    if any(_ODD_WORD.search(word) for word in topic.split("/")):
        findings.add(place, Outcome.DROPPED, "the wildcard is not a whole word, or there is a `*`")
        return None
    if not topic:
        findings.add(place, Outcome.DROPPED, "names no topic")
        return None
    return _Rule(topic, access, place)


def _expand(patterns: list[_Rule], rules: dict[str, list[_Rule]], target: Target, findings: Findings) -> None:
    """Write patterns out for each user."""
    users = dict.fromkeys([*target.users, *(user for user in rules if user != ANONYMOUS)])
    for rule in patterns:
        if "%c" in rule.filter:
            text = "permissions know no client identifiers, so %c has no meaning; use %u"
            findings.add(rule.origin, Outcome.DROPPED, text)
            continue
        for user in users:
            if "%u" in rule.filter and re.search(r"[/+#*]", user):
                findings.add(
                    rule.origin, Outcome.DROPPED, f'not for the user "{user}", whose name is no word of a topic'
                )
                continue
            expanded = _Rule(rule.filter.replace("%u", user), rule.access, rule.origin)
            rules.setdefault(user, []).append(expanded)
        findings.add(rule.origin, Outcome.CHANGED, "written out for the users that there are now")


def _grant(rules: dict[str, list[_Rule]], target: Target) -> None:
    for user in rules:
        if user != ANONYMOUS:
            target.give_role(user, user)
    places: dict[str, Origin] = {}
    for each in rules.values():
        for rule in each:
            places.setdefault(rule.filter, rule.origin)
    for topic, origin in places.items():
        grants: dict[str, set[str]] = {}
        for user, own in rules.items():
            for kind in _allowed(topic, own):
                for permission in _PERMISSIONS[kind]:
                    grants.setdefault(permission, set()).add(user)
        target.permit(match_of(topic), grants, origin)


def _allowed(topic: str, rules: Iterable[_Rule]) -> set[str]:
    """Return what rules allow on everything that a filter covers."""
    covering = [rule for rule in rules if _covers(rule.filter, topic)]
    if any(rule.access == "deny" for rule in covering):
        return set()
    return {kind for rule in covering for kind in _ACCESS[rule.access]}


def _covers(wider: str, topic: str) -> bool:
    words, others = topic.split("/"), wider.split("/")
    for index, word in enumerate(others):
        if word == "#":
            return True
        if index >= len(words) or words[index] == "#" or word not in ("+", words[index]):
            return False
    return len(words) == len(others)


def match_of(topic: str) -> str:
    """Return the match of broker.xml for a filter of MQTT."""
    words = topic.split("/")
    return ".".join({"+": "*"}.get(word, word.replace("\\", "\\\\").replace(".", "\\.")) for word in words)
