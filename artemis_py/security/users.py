"""Users and their roles, as the two property files define them (`docs/security.md`).

`artemis-users.properties` has a line `name = password` per user, hashed or (with a warning) plain;
`artemis-roles.properties` has a line `role = user, user` per role. Checking a password is slow on purpose: the
authenticator calls the slow methods of `Users` outside the event loop, which is why a `Users` never changes.
"""

import hashlib
import hmac
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from artemis_py.core.runtime.access import Subject
from artemis_py.errors import ConfigError, Problem
from artemis_py.logs import named_logger
from artemis_py.security.passwords import (
    DEFAULT_COST,
    ArtemisPassword,
    HashCost,
    HashedPassword,
    ScramKeys,
    check_artemis,
    check_hash,
    derive_scram_keys,
    hash_of_nobody,
    parse_hash,
)
from artemis_py.security.properties import read_properties, split_list, unescape

LOGGER: Final = named_logger(__name__)

_REMEDY: Final = "`artemis-py user hash` prints what to put there"

Password = HashedPassword | ArtemisPassword | str
"""A password as it is stored; a str is a plain one."""


class Users:
    """All users at one moment. Immutable, so worker threads may read it."""

    def __init__(
        self,
        passwords: Mapping[str, Password],
        roles: Mapping[str, frozenset[str]],
        cost: HashCost = DEFAULT_COST,
    ) -> None:
        """Create it; `roles` maps users to roles. A user without a password can log in only with a certificate."""
        self._passwords = dict(passwords)
        self._roles = dict(roles)
        self._cost = cost
        self._nobody = hash_of_nobody(cost)
        # Derived from the secrets: an outsider cannot compute a made-up salt, and it is the same after a restart.
        self._salt_key = hashlib.sha256(repr(sorted(self._passwords.items())).encode("utf-8", "replace")).digest()

    @property
    def plain_count(self) -> int:
        """Number of passwords that are not hashed."""
        return sum(isinstance(password, str) for password in self._passwords.values())

    @property
    def weak_count(self) -> int:
        """Number of passwords that are hashed as Artemis does it, which is cheap to try passwords against."""
        return sum(isinstance(password, ArtemisPassword) for password in self._passwords.values())

    @property
    def roles(self) -> frozenset[str]:
        """Roles that any user has."""
        return frozenset().union(*self._roles.values())

    def knows(self, user: str) -> bool:
        """Tell whether there is such a user with a password."""
        return user in self._passwords

    def subject(self, user: str) -> Subject:
        """Return the user with its roles."""
        return Subject(user, self._roles.get(user, frozenset()))

    def refusal(self, user: str, old: "Users") -> str | None:
        """Return why a login of `user` under the `old` users is no longer valid; None if it still is."""
        if old.exists(user) and not self.exists(user):
            return f"user '{user}' was removed"
        if self._passwords.get(user) != old._passwords.get(user):
            return f"the password of user '{user}' was changed"
        return None

    def exists(self, user: str) -> bool:
        """Tell whether either file has the user; one that logs in with a certificate is only in the file of roles."""
        return user in self._passwords or user in self._roles

    def verify(self, user: str, password: str) -> bool:
        """Tell whether this is the user's password. Slow.

        Exactly one slow hash is computed, also if the user is unknown or the password is wrong or stored as plain text
        (reliability §5.1). The hash of Artemis costs a tenth of it, and comes on top.
        """
        stored = self._passwords.get(user)
        if isinstance(stored, HashedPassword):
            return check_hash(stored.argon2, password)
        check_hash(self._nobody, password)
        if isinstance(stored, ArtemisPassword):
            return check_artemis(stored, password)
        return stored is not None and hmac.compare_digest(_encode(stored), _encode(password))

    def scram_keys(self, user: str) -> tuple[ScramKeys, bool]:
        """Return the SCRAM keys of a user, and whether they are genuine. Slow.

        A user that is unknown or has no keys gets made-up keys with a salt that is always the same. One derivation is
        done in every case, so neither the exchange nor its duration shows the difference (RFC 5802 §9,
        reliability §5.1).
        """
        stored = self._passwords.get(user)
        salt = hmac.digest(self._salt_key, _encode(user), "sha256")[:16]
        derived = derive_scram_keys(stored if isinstance(stored, str) else "", salt, self._cost.scram_iterations)
        if isinstance(stored, HashedPassword) and stored.scram is not None:
            return stored.scram, True
        return derived, isinstance(stored, str)


class UserFiles:
    """The files of users and roles, and whether they changed."""

    def __init__(self, users_file: Path, roles_file: Path, cost: HashCost = DEFAULT_COST) -> None:
        self.users_file = users_file
        self._roles_file = roles_file
        self._cost = cost
        self._seen: tuple[object, object] | None = None
        self._last_look: tuple[object, object] | None = None

    def load(self) -> Users:
        """Read both files and log the warnings about them. Raises ConfigError with the mistakes of both."""
        users = self.read()
        for problem in self.warnings_of(users):
            LOGGER.warning("%s", problem)
        return users

    def warnings_of(self, users: Users) -> list[Problem]:
        """Return the warnings about users that were read from the files; they name no user."""
        return [
            Problem(str(self.users_file), 1, "file", f"passwords that are {what}: {count}; {_REMEDY}")
            for count, what in (
                (users.plain_count, "not hashed"),
                (users.weak_count, "hashed as Artemis does it, which a thief of the file can guess fast"),
            )
            if count
        ]

    def read(self) -> Users:
        """Read both files. Raises ConfigError with the mistakes of both."""
        self._seen = self._last_look = self._marks()
        problems: list[Problem] = []
        passwords: dict[str, Password] = {}
        roles: dict[str, set[str]] = {}
        try:
            passwords = _read_passwords(self.users_file)
        except ConfigError as error:
            problems += error.problems
        try:
            roles = _read_roles(self._roles_file)
        except ConfigError as error:
            problems += error.problems
        if problems:
            raise ConfigError(problems)
        return Users(passwords, {user: frozenset(names) for user, names in roles.items()}, self._cost)

    def is_settled(self) -> bool:
        """Tell whether both files are unchanged since the last call; a file that is being written may be incomplete."""
        before, self._last_look = self._last_look, self._marks()
        return self._last_look == before

    def reload(self) -> Users | None:
        """Return the users as the files define them now; None if neither file changed since it was last read.

        For files that cannot be used, log an error once and also return None: the users stay as they were.
        """
        if self._marks() == self._seen:
            return None
        try:
            return self.load()
        except ConfigError as error:
            for problem in error.problems:
                LOGGER.error("users are not reloaded: %s", problem)
            return None

    def _marks(self) -> tuple[object, object]:
        return mark_of(self.users_file), mark_of(self._roles_file)


def mark_of(path: Path) -> object:
    """Return a value that changes when a file is written or replaced."""
    try:
        status = path.stat()
    except OSError as error:
        return error.errno
    return status.st_mtime_ns, status.st_size, status.st_ino


def _read_passwords(path: Path) -> dict[str, Password]:
    passwords: dict[str, Password] = {}
    problems: list[Problem] = []
    for entry in read_properties(path):
        value = unescape(entry.value)
        if not value:
            problems.append(Problem(str(path), entry.line, entry.name, "has no password"))
        elif value.startswith("ENC(") and value.endswith(")"):
            try:
                passwords[entry.name] = parse_hash(value)
            except ValueError as error:
                problems.append(Problem(str(path), entry.line, entry.name, str(error)))
        else:
            passwords[entry.name] = value
    if problems:
        raise ConfigError(problems)
    return passwords


def _read_roles(path: Path) -> dict[str, set[str]]:
    """Return the roles of each user; the file lists the users of each role."""
    roles: dict[str, set[str]] = {}
    for entry in read_properties(path):
        for user in split_list(entry.value):
            roles.setdefault(user, set()).add(entry.name)
    return roles


def _encode(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")
