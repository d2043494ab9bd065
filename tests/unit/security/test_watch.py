"""The files of users and roles are followed while the broker runs; the test says when somebody looks."""

from pathlib import Path

from artemis_py.core.sessions.sessions import Sessions
from artemis_py.security.logins import LoginService
from artemis_py.security.users import UserFiles
from artemis_py.security.watch import REFRESH_S, SETTLE_S, UsersWatch
from tests.unit.transport.doubles import small_domain


class Files:
    """The two files of a folder, and a broker that follows them."""

    def __init__(self, folder: Path) -> None:
        self.users, self.roles = folder / "users", folder / "roles"
        self.users.write_text("ann = a\n", encoding="utf-8")
        self.roles.write_text("admins = ann\n", encoding="utf-8")
        self.sessions = Sessions(small_domain())
        self.events: list[str] = []
        files = UserFiles(self.users, self.roles)
        self.logins = LoginService(files.load(), lambda job, done: None, lambda delay_s, call: None, lambda: 0.0)
        self.watch = UsersWatch(
            files, self.logins, self.sessions, self.events.append, lambda: self.events.append("a turn is planned")
        )


def test_nothing_happens_while_the_files_stay_as_they_are(tmp_path: Path) -> None:
    files = Files(tmp_path)

    assert files.watch.look() == REFRESH_S
    assert files.events == []


def test_changed_files_reach_logins_and_sessions_once_they_are_complete(tmp_path: Path) -> None:
    """One that changed since the last look may be half written."""
    files = Files(tmp_path)
    session = files.sessions.open(files.logins.users.subject("ann"))
    files.users.write_text("ann = a\nbob = b\n", encoding="utf-8")
    files.roles.write_text("", encoding="utf-8")

    assert files.watch.look() == SETTLE_S
    assert not files.logins.users.knows("bob")
    assert files.watch.look() == REFRESH_S
    assert files.logins.users.knows("bob")
    assert session.subject.roles == frozenset()
    assert files.events == ["the users were changed: log in again", "a turn is planned"]


def test_files_that_cannot_be_used_change_nothing(tmp_path: Path) -> None:
    files = Files(tmp_path)
    files.users.write_text("ann\n", encoding="utf-8")

    assert [files.watch.look(), files.watch.look()] == [SETTLE_S, REFRESH_S]
    assert files.logins.users.knows("ann")
    assert files.events == []
