"""Writes a migrated configuration, after this broker has checked it.

A reader of a foreign format cannot know every bound and rule of broker.xml. What the check refuses is taken out again,
and reported at the place of the old configuration that asked for it; so what is written always passes the check.
"""

import re
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Final

from artemis_py.config.document import LAST_LINE
from artemis_py.errors import ConfigError, Problem
from artemis_py.migrate.findings import NOWHERE, Findings, Outcome
from artemis_py.migrate.rendering import Line, render
from artemis_py.migrate.target import Acceptor, Element, Target
from artemis_py.security.passwords import parse_hash

Check = Callable[[Path], object]
"""Function that checks a broker.xml and everything that it refers to, and raises ConfigError."""

USERS_FILE: Final = "artemis-users.properties"
ROLES_FILE: Final = "artemis-roles.properties"
REPORT_FILE: Final = "migration-report.txt"
FILE_NAME: Final = "broker.xml"

# Without one of these an acceptor would be open to more clients than it was.
_GUARDING: Final = re.compile(r"parameter (ssl|key|trust|private|need|protocols|sasl|connectionsAllowed)")
_ALTERNATE: Final = re.compile(r"attribute (alternate-\w+):")
_PARAMETER: Final = re.compile(r"parameter (\w[\w-]*):")


def settle(target: Target, findings: Findings, check: Check) -> None:
    """Take out of a target what this broker refuses. Raises ConfigError if that does not help."""
    keep_usable_users(target, findings)
    with tempfile.TemporaryDirectory(prefix="artemis-py-migrate-") as name:
        folder = Path(name) / "etc"
        while True:
            target.declare_letter_queues()
            lines = write_files(folder, target)
            try:
                check(folder / FILE_NAME)
            except ConfigError as error:
                if len(lines) > LAST_LINE:
                    # Something else would be taken out.
                    text = f"has {len(lines)} lines: what is wrong with it cannot be told apart beyond {LAST_LINE}"
                    raise ConfigError([*error.problems, Problem(FILE_NAME, LAST_LINE, "file", text)]) from error
                mended = [_take_out(target, lines, problem, findings) for problem in error.problems]
                if not any(mended):
                    raise
            else:
                return


def write(folder: Path, target: Target, findings: Findings, schemas: dict[str, bytes]) -> None:
    """Write an instance to a folder, with the report and the `schemas` for editors. Raises OSError."""
    (folder / "data").mkdir(parents=True, exist_ok=True)
    etc = folder / "etc"
    write_files(etc, target)
    for name, content in schemas.items():
        (etc / name).write_bytes(content)
    report = "".join(f"{finding}\n" for finding in findings.in_order())
    (etc / REPORT_FILE).write_text(report, encoding="utf-8")


def write_files(etc: Path, target: Target) -> list[Line]:
    """Write broker.xml and the files beside it; return the lines of broker.xml."""
    etc.mkdir(parents=True, exist_ok=True)
    lines = render(target)
    (etc / FILE_NAME).write_text("".join(f"{line}\n" for line, _ in lines), encoding="utf-8")
    users = "".join(f"{_escaped(user)} = {password}\n" for user, password in target.users.items())
    roles = "".join(
        f"{_escaped(role)} = {', '.join(_escaped(user) for user in users)}\n" for role, users in target.roles.items()
    )
    _write_private(etc / USERS_FILE, f"# user = password, hashed\n{users}".encode())
    (etc / ROLES_FILE).write_text(f"# role = users\n{roles}", encoding="utf-8")
    for name, content in target.files.items():
        _write_private(etc / name, content)
    return lines


def keep_usable_users(target: Target, findings: Findings) -> None:
    """Remove users whose password this broker cannot verify; the readers say so where they find them."""
    for user, password in list(target.users.items()):
        try:
            parse_hash(password)
        except ValueError as error:
            del target.users[user]
            findings.add(NOWHERE, Outcome.DROPPED, f'user "{user}": the password cannot be verified here: {error}')


def _write_private(path: Path, content: bytes) -> None:
    """Write a file that only its owner can read, from its first byte on."""
    path.unlink(missing_ok=True)
    path.touch(mode=0o600)
    path.write_bytes(content)


def _escaped(name: str) -> str:
    r"""Write a name for a properties file: a backslash makes each special character an ordinary one."""
    return re.sub(r"([\\=:,#! ])", r"\\\1", name)


def _take_out(target: Target, lines: list[Line], problem: Problem, findings: Findings) -> bool:
    """Remove what caused a problem; False if it cannot be found."""
    found = lines[problem.line - 1][1] if 0 < problem.line <= len(lines) else None
    if isinstance(found, Acceptor):
        return _mend_acceptor(target, found, problem, findings)
    if found is None or found.name == "core":
        return False
    attribute = _ALTERNATE.match(problem.message)
    if attribute is not None and found.attributes.pop(attribute[1], None) is not None:
        findings.add(found.origin, Outcome.DROPPED, f"this broker refuses the alternate: {problem.message}")
        return True
    # Without its filter a divert, queue or binding would take messages that are not meant for it.
    unwanted = _parent(target, found) if found.name in ("filter", "argument") else found
    parent = None if unwanted is None else _parent(target, unwanted)
    if unwanted is None or parent is None:
        return False
    parent.children.remove(unwanted)
    what = (
        found.name if unwanted is found else f"{unwanted.name} {unwanted.attributes.get('name')} for its {found.name}"
    )
    findings.add(found.origin, Outcome.DROPPED, f"this broker refuses {what}: {problem.message}")
    return True


def _mend_acceptor(target: Target, acceptor: Acceptor, problem: Problem, findings: Findings) -> bool:
    parameter = _PARAMETER.match(problem.message)
    if parameter is not None and not _GUARDING.match(problem.message) and parameter[1] in acceptor.parameters:
        del acceptor.parameters[parameter[1]]
        findings.add(acceptor.origin, Outcome.DROPPED, problem.message)
        return True
    if acceptor not in target.acceptors:
        return False
    target.acceptors.remove(acceptor)
    findings.add(acceptor.origin, Outcome.DROPPED, f'acceptor "{acceptor.name}": {problem.message}')
    return True


def _parent(target: Target, wanted: Element) -> Element | None:
    """Return the element that another one is in; None if it is in none any more."""
    parts = (target.core, target.login, target.exchanges)
    return next((each for part in parts for each in part.walk() if wanted in each.children), None)
