"""Applies a change of users, roles or permissions to clients that are logged in.

If a user was removed or its password changed, its connections end. If its roles changed, the new roles apply at once:
whatever its connections have open without a right to it is closed.
"""

from attrs import frozen

from artemis_py.core.runtime.access import Subject
from artemis_py.core.sessions.sessions import Sessions
from artemis_py.security.users import Users


@frozen
class Revoked:
    """Number of sessions that a change ended, and of those whose rights it changed."""

    ended: int
    changed: int


def apply_change(sessions: Sessions, old: Users, new: Users) -> Revoked:
    """Apply the new users to all open sessions; return how many it concerned."""
    ended = changed = 0
    for session in list(sessions.opened.values()):
        subject = session.subject
        if subject.user is None:
            continue
        reason = new.refusal(subject.user, old)
        if reason is not None:
            ended += 1
            session.revoke(reason)
        elif new.subject(subject.user) != subject:
            changed += 1
            session.set_rights(new.subject(subject.user))
    return Revoked(ended, changed)


def apply_rules(sessions: Sessions) -> None:
    """Apply the current permissions to all open sessions: close what they have open without a right to it."""
    for session in list(sessions.opened.values()):
        session.set_rights(session.subject)


def subject_now(users: Users, subject: Subject) -> Subject:
    """Return an earlier login with its current roles; a user that was removed has none."""
    return subject if subject.user is None else users.subject(subject.user)
