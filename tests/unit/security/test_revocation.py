"""What a change of users means for those that are logged in."""

from pathlib import Path

import pytest

from artemis_py.core.runtime.access import Subject
from artemis_py.core.sessions.sessions import Sessions
from artemis_py.security.revocation import Revoked, apply_change, subject_now
from artemis_py.security.users import UserFiles, Users
from tests.unit.transport.doubles import Bench, small_domain

OLD = Users({"ann": "a", "bob": "b"}, {"ann": frozenset({"r"}), "CN=device": frozenset({"r"})})


class Told:
    """A session's connection."""

    def __init__(self) -> None:
        self.events: list[str] = []

    def closed_by_operator(self, reason: str) -> None: ...

    def refer(self, only_followers: bool) -> None: ...

    def user_removed(self, reason: str) -> None:
        self.events.append(reason)

    def rights_changed(self) -> None:
        self.events.append("rights")


@pytest.mark.parametrize(
    ("user", "new", "reason"),
    [
        ("ann", Users({"ann": "a"}, {}), None),
        ("ann", Users({"ann": "x"}, {"ann": frozenset({"r"})}), "the password of user 'ann' was changed"),
        ("ann", Users({}, {}), "user 'ann' was removed"),
        ("bob", Users({}, {"bob": frozenset({"r"})}), "the password of user 'bob' was changed"),
        ("CN=device", Users({}, {"CN=device": frozenset()}), None),
        ("CN=device", Users({}, {}), "user 'CN=device' was removed"),
        ("CN=unlisted", Users({}, {}), None),
    ],
)
def test_who_may_not_be_here_any_more(user: str, new: Users, reason: str | None) -> None:
    """Certificates are users without a password; one that no file has was never in it."""
    assert new.refusal(user, OLD) == reason


def test_sessions_follow() -> None:
    """Ended, changed or left alone; a session nobody is told of has no rights left either."""
    registry = Sessions(small_domain())
    sessions = {name: registry.open(OLD.subject(name)) for name in ("ann", "bob", "CN=device")}
    nobody, silent = registry.open(Subject(None)), registry.open(OLD.subject("ann"))
    told = {}
    for name, session in sessions.items():
        session.client = told[name] = Told()
    new = Users({"bob": "b"}, {"bob": frozenset({"s"}), "CN=device": frozenset({"r"})})

    assert apply_change(registry, OLD, new) == Revoked(ended=2, changed=1)
    assert told["ann"].events == ["user 'ann' was removed"]
    assert told["bob"].events == ["rights"]
    assert told["CN=device"].events == []
    assert sessions["bob"].subject == Subject("bob", frozenset({"s"}))
    assert silent.subject == Subject("ann")
    assert nobody.subject == Subject(None)
    assert subject_now(new, Subject("ann", frozenset({"r"}))) == Subject("ann")
    assert subject_now(new, Subject(None, frozenset({"guest"}))) == Subject(None, frozenset({"guest"}))


def test_logins_under_way_begin_again() -> None:
    """They may be checked against users of before; those that have not begun are left alone."""
    bench = Bench()
    silent, logging_in = bench.accept(), bench.accept()
    known, _ = bench.log_in()
    bench.receive(logging_in, b"LINE ")
    bench.connections.end_logins("the users were changed")
    bench.loop.run()

    assert logging_in.output == b"BYE the users were changed\n"
    assert not silent.is_aborted
    assert known.output == b""


def test_a_file_that_is_being_written_is_not_settled(tmp_path: Path) -> None:
    """Half of it would be users that are gone: it is taken when it stayed the same from one look to the next."""
    users, roles = tmp_path / "users", tmp_path / "roles"
    users.write_text("ann = a\n", encoding="utf-8")
    roles.write_text("", encoding="utf-8")
    files = UserFiles(users, roles)
    files.load()
    assert files.is_settled()
    users.write_text("", encoding="utf-8")
    assert not files.is_settled()
    users.write_text("ann = a\nbob = b\n", encoding="utf-8")

    assert not files.is_settled()
    assert files.is_settled()
    reloaded = files.reload()
    assert reloaded is not None
    assert reloaded.knows("bob")
