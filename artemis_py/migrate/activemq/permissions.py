"""The authorization map becomes security settings.

ActiveMQ grants what any matching entry grants; here only the narrowest match counts. So the grants of all wider entries
are added to each match. An entry for queues and one for topics of the same name become one match.
"""

from typing import Final

from attrs import frozen

from artemis_py.config.foreign_xml import ForeignElement
from artemis_py.migrate.activemq.reading import Reading, is_covered, match_of
from artemis_py.migrate.findings import Origin, Outcome

_CREATING: Final = (
    "createAddress",
    "deleteAddress",
    "createDurableQueue",
    "deleteDurableQueue",
    "createNonDurableQueue",
    "deleteNonDurableQueue",
)
# A subscription is a queue here, so that a reader of a topic has to create and delete queues.
_SUBSCRIBING: Final = ("createDurableQueue", "deleteDurableQueue", "createNonDurableQueue", "deleteNonDurableQueue")
_READING: Final = ("consume", "browse")
_EVERYTHING: Final = (*_CREATING, "send", *_READING, "manage")
_TEMPORARY: Final = "temporary"
_ANY_GROUP: Final = "*"

Grants = dict[str, set[str]]


@frozen
class _Entry:
    """An authorization entry that was read."""

    pattern: str
    is_queue: bool
    grants: Grants
    origin: Origin


def permit_everything(reading: Reading, roles: set[str], origin: Origin) -> None:
    """Grant everything on all addresses to some roles."""
    reading.target.permit("#", {kind: set(roles) for kind in _EVERYTHING}, origin)


def read_authorization(reading: Reading, plugin: ForeignElement) -> None:
    """Read an `authorizationPlugin`."""
    reading.tell(plugin)
    entries: list[_Entry] = []
    temporary: list[ForeignElement] = []
    for element in _below(plugin):
        if element.name == "authorizationEntry":
            entries += _read_entry(reading, element)
        elif element.name == "tempDestinationAuthorizationEntry" and element.attributes:
            temporary.append(element)
    for entry in entries:
        for wider in entries:
            if wider.is_queue is entry.is_queue and is_covered(entry.pattern, wider.pattern):
                reading.target.permit(match_of(entry.pattern), wider.grants, entry.origin)
    for element in temporary:
        _read_temporary(reading, element, entries)


def _read_entry(reading: Reading, element: ForeignElement) -> list[_Entry]:
    kind = "queue" if "queue" in element.attributes else "topic"
    pattern = reading.text(element, kind)
    if not pattern:
        reading.tell(element, "", Outcome.DROPPED, "names neither a queue nor a topic")
        reading.cover(element)
        return []
    grants: Grants = {}
    wanted = {
        "read": _READING if kind == "queue" else (*_READING, *_SUBSCRIBING),
        "write": ("send",),
        "admin": (*_CREATING, "manage") if pattern == ">" and kind == "queue" else _CREATING,
    }
    for attribute, permissions in wanted.items():
        roles = _roles(reading, element, attribute)
        for permission in permissions:
            grants.setdefault(permission, set()).update(roles)
    return [_Entry(each.strip(), kind == "queue", grants, reading.origin(element)) for each in pattern.split(",")]


def _roles(reading: Reading, element: ForeignElement, attribute: str) -> set[str]:
    names = {name.strip() for name in (reading.text(element, attribute) or "").split(",") if name.strip()}
    if _ANY_GROUP in names:
        anonymous = reading.target.login.find("anonymous-roles")
        guests = set(anonymous.text.split(",")) if anonymous is not None else set()
        reading.tell(element, attribute, Outcome.CHANGED, "`*` stands for all groups that there are now")
        names = {*names, *reading.target.roles, *guests} - {_ANY_GROUP, ""}
    return names


def _read_temporary(reading: Reading, element: ForeignElement, entries: list[_Entry]) -> None:
    """Give permissions for temporary destinations; those of OpenWire have names that only `#` matches."""
    grants: Grants = {}
    for attribute, permissions in (("read", _READING), ("write", ("send",)), ("admin", _CREATING)):
        roles = _roles(reading, element, attribute)
        for permission in permissions:
            grants.setdefault(permission, set()).update(roles)
    reading.target.core.put("uuid-namespace", _TEMPORARY, reading.origin(element))
    everywhere: Grants = {}
    for entry in entries:
        if entry.pattern == ">":
            for permission, roles in entry.grants.items():
                everywhere.setdefault(permission, set()).update(roles)
    for permission, roles in everywhere.items():
        grants.setdefault(permission, set()).update(roles)
    reading.target.permit(f"{_TEMPORARY}.#", grants, reading.origin(element))
    missing = sorted(
        {role for permission, roles in grants.items() for role in roles - everywhere.get(permission, set())}
    )
    if missing:
        text = (
            f"temporary destinations of OpenWire have the permissions of `#`, which these roles do not have: "
            f"{', '.join(missing)}; give them these permissions there if they need temporary destinations"
        )
        reading.tell(element, "", Outcome.DROPPED, text)
    else:
        reading.tell(element)


def _below(element: ForeignElement) -> list[ForeignElement]:
    return [part for child in element.children for part in (child, *_below(child))]
