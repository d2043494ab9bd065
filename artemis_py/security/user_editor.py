"""Changes the files of users and roles: lines of other users, comments and the order of the lines stay.

A running broker follows the files by itself (`watch`). Each file is replaced as a whole by renaming, and keeps its
permissions, so that neither a reader nor a crash meets half of it. Editors take turns by a lock beside the files.
"""

import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from artemis_py.errors import InvalidRequest
from artemis_py.security.properties import parse_properties, split_list, unescape

_SPECIAL: Final = "\\=#!, \t"


class UserEditor:
    """The files of users and roles of one instance, to be changed."""

    def __init__(self, users_file: Path, roles_file: Path) -> None:
        self._users_file: Final = users_file
        self._roles_file: Final = roles_file

    def users(self) -> dict[str, list[str]]:
        """Return all users with their roles, sorted. Raises ConfigError, OSError.

        A user that is only in the file of roles logs in with a certificate.
        """
        names = {entry.name for entry in parse_properties(_text(self._users_file), str(self._users_file))}
        found: dict[str, list[str]] = {name: [] for name in names}
        for role, members in self._roles(_text(self._roles_file)).items():
            for member in members:
                found.setdefault(member, []).append(role)
        return {name: sorted(roles) for name, roles in sorted(found.items())}

    def has_password(self, user: str) -> bool:
        """Tell whether the user is in the file of users. Raises ConfigError, OSError."""
        text = _text(self._users_file)
        return any(entry.name == user for entry in parse_properties(text, str(self._users_file)))

    def add(self, user: str, password_hash: str, roles: list[str]) -> None:
        """Add a user. Raises InvalidRequest if it exists, ConfigError, OSError."""
        with self._locked():
            if user in self.users():
                raise InvalidRequest(f"user '{user}' exists already; set its password with passwd")
            # Roles first: in between the user does not exist yet, and has nothing that it should not have.
            _change(self._roles_file, lambda text: self._with_roles(text, user, roles))
            _change(self._users_file, lambda text: _with_line(text, str(self._users_file), user, password_hash))

    def set_password(self, user: str, password_hash: str) -> None:
        """Replace the password of a user. Raises InvalidRequest if there is none, ConfigError, OSError."""
        with self._locked():
            if not self.has_password(user):
                raise InvalidRequest(f"user '{user}' does not exist")
            _change(self._users_file, lambda text: _with_line(text, str(self._users_file), user, password_hash))

    def remove(self, user: str) -> None:
        """Remove a user from both files. Raises InvalidRequest if it does not exist, ConfigError, OSError."""
        with self._locked():
            if user not in self.users():
                raise InvalidRequest(f"user '{user}' does not exist")
            _change(self._users_file, lambda text: _with_line(text, str(self._users_file), user, None))
            _change(self._roles_file, lambda text: self._with_roles(text, user, []))

    def _roles(self, text: str) -> dict[str, list[str]]:
        return {entry.name: split_list(entry.value) for entry in parse_properties(text, str(self._roles_file))}

    def _with_roles(self, text: str, user: str, wanted: list[str]) -> str:
        """Return the text of the file of roles in which the user has exactly these."""
        file = str(self._roles_file)
        for role, members in self._roles(text).items():
            if (user in members) != (role in wanted):
                left = [member for member in members if member != user] + ([user] if role in wanted else [])
                text = _with_line(text, file, role, ", ".join(map(_escaped, left)))
        for role in wanted:
            if role not in self._roles(text):
                text = _with_line(text, file, role, _escaped(user))
        return text

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Keep other editors out."""
        with open(self._users_file.with_name(f".{self._users_file.name}.lock"), "w", encoding="ascii") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield


def _text(path: Path) -> str:
    return path.read_bytes().decode("utf-8")


def _with_line(text: str, file: str, name: str, value: str | None) -> str:
    """Return the text with this value for a name, in its line or in a new one; None removes the line."""
    lines = text.split("\n")
    number = next((entry.line for entry in parse_properties(text, file) if entry.name == name), None)
    line = f"{_escaped(name)} = {value}"
    if number is not None:
        lines[number - 1 : number] = [] if value is None else [line]
    elif value is not None:
        at = len(lines) - 1 if lines[-1] == "" else len(lines)
        lines.insert(at, line)
    return "\n".join(lines)


def _change(path: Path, change: Callable[[str], str]) -> None:
    """Replace a file by what `change` makes of its text."""
    before = _text(path)
    after = change(before)
    if after == before:
        return
    # Whatever was wrong with the old text has been raised; the new one must be as good.
    parse_properties(after, str(path))
    status = path.stat()
    written = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        descriptor = os.open(written, os.O_WRONLY | os.O_CREAT | os.O_EXCL, status.st_mode & 0o777)
        with os.fdopen(descriptor, "w", encoding="utf-8", newline="") as file:
            os.fchmod(file.fileno(), status.st_mode & 0o777)
            with suppress(PermissionError):
                # The broker must be able to read what an administrator writes.
                os.fchown(file.fileno(), status.st_uid, status.st_gid)
            file.write(after)
            file.flush()
            os.fsync(file.fileno())
        written.replace(path)
    except BaseException:
        written.unlink(missing_ok=True)
        raise


def _escaped(name: str) -> str:
    """Return a name as it is written in these files. Raises InvalidRequest for one that no line can hold."""
    if not name or not name.isprintable():
        raise InvalidRequest("a name needs characters that can be printed")
    written = "".join(f"\\{character}" if character in _SPECIAL else character for character in name)
    assert unescape(written) == name
    return written
