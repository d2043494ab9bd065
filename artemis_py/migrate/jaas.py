"""A `login.config` of Java: users and groups in property files, and guests.

Only these modules are read; for the others (LDAP, certificates, scripts) the report says what is missing.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from attrs import Factory, define

from artemis_py.config.jaas import read_entries
from artemis_py.errors import ConfigError
from artemis_py.migrate.findings import Findings, Origin, Outcome
from artemis_py.migrate.java_properties import Entry, read_java_properties, read_text
from artemis_py.migrate.target import Target
from artemis_py.security.passwords import hash_password, parse_hash

_USERS: Final = "properties.user"
_GROUPS: Final = ("properties.group", "properties.role")


@define
class Found:
    """What a login configuration says beside users and groups."""

    guests: list[str] = Factory(list)
    """Roles of guests; empty: there are none."""


def read_login_config(target: Target, findings: Findings, path: Path, name: str, origin: Origin) -> Found:
    """Read one entry of a login.config; users and groups go into the target."""
    found = Found()
    try:
        entries = read_entries(read_text(path))
    except ConfigError:
        findings.add(origin, Outcome.DROPPED, f"there is no {path}; nobody can log in until you add users")
        return found
    if name not in entries:
        findings.add(origin, Outcome.DROPPED, f"{path.name} has no entry {name}; nobody can log in")
        return found
    for module in entries[name]:
        kind, options = module.name, module.options
        place = Origin(path, module.line, kind)
        if kind == "PropertiesLoginModule":
            _read_properties(target, findings, path.parent, options, place)
        elif kind == "GuestLoginModule":
            group = next(
                (value for key, value in options.items() if key.endswith(("guest.group", "guest.role"))), "guests"
            )
            found.guests.append(group)
            text = f"`anonymous-access` EVERYWHERE with the role {group}; a wrong password does not make a guest"
            findings.add(place, Outcome.CHANGED, text)
        else:
            findings.add(
                place, Outcome.DROPPED, "users come from two property files only; write those that you need there"
            )
    return found


def _read_properties(
    target: Target, findings: Findings, folder: Path, options: Mapping[str, str], place: Origin
) -> None:
    base = next((value for key, value in options.items() if key.endswith("baseDir")), "")
    for key, value in options.items():
        if not key.endswith((_USERS, *_GROUPS)):
            continue
        file = folder / base / value
        try:
            entries = read_java_properties(file)
        except ConfigError as error:
            findings.add(place, Outcome.DROPPED, f"{file} {error.problems[0].message}")
            continue
        findings.add(place, Outcome.KEPT, f"users and roles of {value}")
        for entry in entries:
            if key.endswith(_USERS):
                _add_user(target, findings, file, entry)
            else:
                _add_group(target, findings, file, entry)


def _add_user(target: Target, findings: Findings, file: Path, entry: Entry) -> None:
    origin = Origin(file, entry.line, entry.name)
    if entry.value.startswith("ENC("):
        try:
            parse_hash(entry.value)
        except ValueError:
            text = (
                "the password is encrypted, or hashed in a way that is not known here; set it: `artemis-py user hash`"
            )
            findings.add(origin, Outcome.DROPPED, text)
        else:
            target.users[entry.name] = entry.value
            findings.add(origin, Outcome.KEPT, "the user, with the same hash")
    elif not entry.value:
        findings.add(origin, Outcome.DROPPED, "the user has no password; set one: `artemis-py user hash`")
    else:
        target.users[entry.name] = hash_password(entry.value)
        findings.add(origin, Outcome.KEPT, "the user; the password is hashed")


def _add_group(target: Target, findings: Findings, file: Path, entry: Entry) -> None:
    for user in filter(None, map(str.strip, entry.value.split(","))):
        target.give_role(entry.name, user)
    findings.add(Origin(file, entry.line, entry.name), Outcome.KEPT, "the role and its users")
