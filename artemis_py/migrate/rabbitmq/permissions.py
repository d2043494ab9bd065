"""Users and permissions of RabbitMQ.

There, a regular expression says for which names a user may configure, write and read. Here, the narrowest match counts,
so for each queue and exchange of the file it is worked out who may do what. Each user has a role of its own.
"""

from typing import Final

from attrs import frozen

from artemis_py.migrate.exchanges import Topology, is_writable, match_of, objection_to_queue
from artemis_py.migrate.findings import Outcome
from artemis_py.migrate.json_document import JsonObject
from artemis_py.migrate.rabbitmq.definitions import Definitions, is_broken, matches
from artemis_py.security.passwords import hash_password

_CONFIGURE: Final = (
    "createAddress",
    "deleteAddress",
    "createDurableQueue",
    "deleteDurableQueue",
    "createNonDurableQueue",
    "deleteNonDurableQueue",
)
_READ: Final = ("consume", "browse")
_WRITE: Final = ("send",)
_ALL: Final = frozenset([".*", "^.*$", "^.*", ".*$"])
_DEFAULT_EXCHANGE: Final = "amq.default"
_MANAGEMENT: Final = "activemq.management"


@frozen
class _Rights:
    """What one user may do, as the file says."""

    user: str
    origin_line: int
    configure: str
    write: str
    read: str
    unusable: frozenset[str]
    """Exchanges that the user may not use, because permissions for single routing keys do not exist here."""

    def grants(self, name: str | None) -> set[str]:
        """Return the permissions for a name; None: for names that are not in the file."""
        found: set[str] = set()
        for pattern, permissions in ((self.configure, _CONFIGURE), (self.write, _WRITE), (self.read, _READ)):
            if pattern in _ALL if name is None else matches(pattern or "^$", name):
                found.update(permissions)
        return found


def read_users(definitions: Definitions) -> list[str]:
    """Read the users of all virtual hosts; return the administrators among those that can have a role."""
    administrators = []
    for each in definitions.root.objects("users"):
        name, line = each.text("name"), each.line_of("name")
        if not name or not name.isprintable() or "," in name or name != name.strip():
            definitions.tell("users", line, "", Outcome.DROPPED, "the name is no name of a role")
            continue
        target = definitions.target
        target.give_role(name, name)
        if each.text("password"):
            target.users[name] = hash_password(each.text("password"))
            definitions.tell("users.password", each.line_of("password"), name)
        else:
            definitions.tell("users.password_hash", each.line_of("password_hash"), name)
        definitions.tell("users", line, name)
        tags = _tags(each)
        if tags:
            definitions.tell("users.tags", each.line_of("tags"), name)
        if "administrator" in tags:
            administrators.append(name)
        if each.object("limits"):
            definitions.tell("users.limits", each.line_of("limits"), name)
    return administrators


def _tags(user: JsonObject) -> list[str]:
    """Return the tags, which older releases write as one text."""
    tags = user.get("tags")
    if isinstance(tags, str):
        return [each.strip() for each in tags.split(",") if each.strip()]
    return [each for each in tags if isinstance(each, str)] if isinstance(tags, list) else []


def grant(definitions: Definitions, topology: Topology, queues: set[str], administrators: list[str]) -> None:
    """Write the permissions of all users."""
    target = definitions.target
    rights = _rights(definitions, topology)
    nowhere = definitions.origin(definitions.root.line_of("permissions"), "permissions")
    general: dict[str, set[str]] = {}
    for each in rights:
        for permission in sorted(each.grants(None)):
            general.setdefault(permission, set()).add(each.user)
    everywhere = {name: set(roles) for name, roles in general.items()}
    for user in administrators:
        everywhere.setdefault("manage", set()).add(user)
    target.permit("#", everywhere, nowhere)
    if administrators:
        # A request needs them; the reply goes to a temporary queue, which `#` decides about.
        asking = {name: set(administrators) for name in ("manage", "send", "createAddress", "createNonDurableQueue")}
        target.permit(_MANAGEMENT, asking, nowhere)
    for name in sorted({*queues, *topology.types}):
        if objection_to_queue(name) is not None or not is_writable(name):
            continue  # only an exchange may have such a name, and no match would mean it
        grants: dict[str, set[str]] = {}
        for each in rights:
            found = each.grants(name)
            if name in queues and matches(each.write or "^$", _DEFAULT_EXCHANGE):
                found.update(_WRITE)
            if name in topology.internal and name not in queues:
                found.difference_update(_WRITE)
            if name in each.unusable:
                found.difference_update((*_WRITE, *_READ))
            for permission in sorted(found):
                grants.setdefault(permission, set()).add(each.user)
        if grants != general:
            target.permit(match_of(name), grants or {"send": set()}, nowhere)


def _rights(definitions: Definitions, topology: Topology) -> list[_Rights]:
    known = {each.text("name") for each in definitions.root.objects("users")} & {
        user for users in definitions.target.roles.values() for user in users
    }
    unusable = _unusable(definitions, known)
    found = []
    for each in definitions.of_host("permissions"):
        user, line = each.text("user"), each.line
        if user not in known:
            definitions.tell("permissions", line, user, Outcome.DROPPED, "there is no such user")
            continue
        patterns = [each.text(member) for member in ("configure", "write", "read")]
        broken = [pattern for pattern in patterns if is_broken(pattern)]
        if broken:
            text = f"the regular expression {broken[0]} cannot be read here; it allows nothing"
            definitions.tell("permissions", line, user, Outcome.DROPPED, text)
        configure, write, read = ("" if pattern in broken else pattern for pattern in patterns)
        found.append(_Rights(user, line, configure, write, read, frozenset(unusable.get(user, ()))))
        if all(pattern in _ALL for pattern in patterns):
            definitions.tell("permissions", line, user, Outcome.KEPT, "`security-settings`: everything")
        elif not broken:
            definitions.tell("permissions", line, user)
    return found


def _unusable(definitions: Definitions, users: set[str]) -> dict[str, set[str]]:
    """Return the exchanges whose permissions depend on routing keys, by user."""
    found: dict[str, set[str]] = {}
    for each in definitions.of_host("topic_permissions"):
        user, exchange = each.text("user"), each.text("exchange") or "amq.topic"
        if each.text("write") in _ALL and each.text("read") in _ALL:
            definitions.tell("topic_permissions", each.line, user, Outcome.NEEDLESS, "they allow everything")
        elif user in users:
            found.setdefault(user, set()).add(exchange)
            text = f"routing keys have no permissions; the user may not use exchange {exchange} at all"
            definitions.tell("topic_permissions", each.line, user, Outcome.DROPPED, text)
    return found
