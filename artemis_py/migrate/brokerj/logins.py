"""Authentication providers and groups of Broker-J."""

from typing import Final

from artemis_py.errors import ConfigError
from artemis_py.migrate.brokerj.reading import Reading
from artemis_py.migrate.findings import Origin, Outcome
from artemis_py.migrate.java_properties import read_java_properties, read_text
from artemis_py.migrate.json_document import JsonObject
from artemis_py.security.passwords import hash_password

GUEST: Final = "guests"
_UNREADABLE: Final = "the password is stored in a form that cannot be verified here; set it: `artemis-py user hash`"


def read_logins(reading: Reading, root: JsonObject, used: set[str]) -> None:
    """Read the providers that ports use, and the groups."""
    guests = False
    for provider in root.objects("authenticationproviders"):
        name, kind = provider.text("name"), provider.text("type")
        if name not in used:
            text = "no port that is migrated uses it"
            reading.tell("authenticationproviders", provider, name, Outcome.NEEDLESS, text)
        elif kind == "Anonymous":
            guests = True
            text = f"`anonymous-access` EVERYWHERE with the role {GUEST}"
            reading.tell("authenticationproviders", provider, name, Outcome.CHANGED, text)
        elif kind in ("PlainPasswordFile", "Base64MD5PasswordFile"):
            _read_file(reading, provider, name, kind == "PlainPasswordFile")
        elif kind in ("Plain", "MD5", "SCRAM-SHA-1", "SCRAM-SHA-256"):
            for user in provider.objects("users"):
                origin = reading.origin(user, "name", f'users "{user.text("name")}"')
                _add_user(reading, user.text("name"), user.text("password") if kind == "Plain" else "", origin)
            reading.tell("authenticationproviders", provider, name)
        elif kind == "External":
            text = "`saslMechanisms` EXTERNAL, for clients with a certificate: the name is the whole subject"
            reading.tell("authenticationproviders", provider, name, Outcome.CHANGED, text)
        else:
            text = f"users come from files only, not from {kind}; write those that you need there"
            reading.tell("authenticationproviders", provider, name, Outcome.DROPPED, text)
    origin = Origin(reading.path, 0, "login")
    reading.target.login.put("anonymous-access", "EVERYWHERE" if guests else "NOWHERE", origin)
    reading.target.login.put("anonymous-roles", GUEST if guests else "", origin)
    if guests:
        reading.target.roles.setdefault(GUEST, [])
    for provider in root.objects("groupproviders"):
        _read_groups(reading, provider)


def _read_file(reading: Reading, provider: JsonObject, name: str, is_plain: bool) -> None:
    path = reading.file(reading.text(provider, "path"))
    try:
        lines = read_text(path).splitlines()
    except ConfigError as error:
        text = f"{path} {error.problems[0].message}; write users with `artemis-py user hash`"
        reading.tell("authenticationproviders", provider, name, Outcome.DROPPED, text)
        return
    reading.tell("authenticationproviders", provider, name)
    for number, line in enumerate(lines, 1):
        if line.strip() and not line.startswith("#"):
            user, _, password = line.strip().partition(":")
            _add_user(reading, user, password if is_plain else "", Origin(path, number, f'users "{user}"'))


def _add_user(reading: Reading, user: str, password: str, origin: Origin) -> None:
    if not user.strip() or not user.isprintable() or "," in user:
        reading.findings.add(
            Origin(origin.file, origin.line, "users"), Outcome.DROPPED, "the name is no name of a role"
        )
        return
    reading.target.give_role(user, user)
    if password:
        reading.target.users[user] = hash_password(password)
        reading.findings.add(origin, Outcome.KEPT, "the user, with a role of the same name; the password is hashed")
    else:
        reading.findings.add(origin, Outcome.DROPPED, _UNREADABLE)


def _read_groups(reading: Reading, provider: JsonObject) -> None:
    name = provider.text("name")
    for group in provider.objects("groups"):
        members = [each.text("name") for each in group.objects("groupmembers")]
        _add_group(reading, group.text("name"), members, reading.origin(group, "name", "groups"))
    if provider.text("path"):
        path = reading.file(reading.text(provider, "path"))
        try:
            entries = read_java_properties(path)
        except ConfigError as error:
            text = f"{path} {error.problems[0].message}"
            reading.tell("groupproviders", provider, name, Outcome.DROPPED, text)
            return
        for entry in entries:
            if entry.name.endswith(".users"):
                members = [each.strip() for each in entry.value.split(",") if each.strip()]
                _add_group(reading, entry.name.removesuffix(".users"), members, Origin(path, entry.line, "groups"))
    elif not provider.objects("groups") and provider.text("type") not in ("ManagedGroupProvider", "GroupFile"):
        text = f"roles come from a file only, not from {provider.text('type')}"
        reading.tell("groupproviders", provider, name, Outcome.DROPPED, text)
        return
    reading.tell("groupproviders", provider, name)


def _add_group(reading: Reading, group: str, members: list[str], origin: Origin) -> None:
    if not group.strip() or not group.isprintable() or "," in group:
        reading.findings.add(origin, Outcome.DROPPED, "the name is no name of a role")
        return
    reading.target.roles.setdefault(group, [])
    for member in members:
        reading.target.give_role(group, member)
    reading.findings.add(origin, Outcome.KEPT, f"the role {group} and its users")
