"""Reads the `login.config` of an Artemis instance, for a `broker.xml` that has no `<login>`.

It names the files of users and roles, and says whether clients may come without a name. A module that asks somebody
else for users, such as LDAP, does not exist here: it is left out if a login works without it, else it is an error.
"""

from pathlib import Path
from typing import Any, Final

from artemis_py.config.document import SIZE_LIMIT_BYTES
from artemis_py.config.jaas import LoginModule, read_entries
from artemis_py.config.report import Place, Report
from artemis_py.security.authenticator import AnonymousAccess

FILE_NAME: Final = "login.config"
DOMAIN: Final = "activemq"
"""Entry that Artemis uses, unless its bootstrap.xml names another."""

_OPTION: Final = "org.apache.activemq.jaas."
_MUST_SUCCEED: Final = frozenset(["required", "requisite"])
_OURS: Final = "write <login> into broker.xml instead (docs/configuration.md)"


def read_login_file(folder: Path, report: Report) -> dict[str, Any]:
    """Return what the file in a folder says, by attribute of LoginConfig; nothing if there is none."""
    path = folder / FILE_NAME
    try:
        with path.open("rb") as stream:
            text = stream.read(SIZE_LIMIT_BYTES).decode("utf-8", "replace")
    except OSError:
        return {}
    entries = read_entries(text)
    entry = entries.get(DOMAIN, next(iter(entries.values())) if len(entries) == 1 else None)
    if entry is None:
        report.warning(_place(path, 1), f"is not read: it has no entry {DOMAIN}; {_OURS}")
        return {}
    return _values(entry, path, report)


def _values(entry: list[LoginModule], path: Path, report: Report) -> dict[str, Any]:
    values: dict[str, Any] = {"anonymous_access": AnonymousAccess.NOWHERE}
    for module in entry:
        options = module.options
        match module.name:
            case "PropertiesLoginModule":
                base = options.get("baseDir", "")
                for name in ("user", "role"):
                    file = options.get(f"{_OPTION}properties.{name}")
                    if file is not None:
                        values[f"{name}s_file"] = str(Path(base, file))
            case "GuestLoginModule":
                values["anonymous_access"] = AnonymousAccess.EVERYWHERE
                values["anonymous_roles"] = (options.get(f"{_OPTION}guest.role", "guests"),)
            case name if module.flag in _MUST_SUCCEED:
                text = f"{name} is not supported by artemis_py: logins would not need what it asks for; {_OURS}"
                report.problem(_place(path, module.line), text)
            case name:
                report.warning(_place(path, module.line), f"{name} is left out: its users cannot log in; {_OURS}")
    return values


def _place(path: Path, line: int) -> Place:
    return Place(file=str(path), line=line, element=FILE_NAME)
