"""What a change of users, roles or permissions means for those that are logged in.

A user that is gone, or has another password, is not let in again, so its connections end. A user with other roles has
the rights of the new ones from now on: what its connections have open and may not have any more ends.
"""

from attrs import frozen

from artemis_py.core.runtime.access import Subject
from artemis_py.core.sessions.sessions import Sessions
from artemis_py.security.users import Users


@frozen
class Revoked:
    """How many sessions a change concerned."""

    ended: int
    changed: int


def apply_change(sessions: Sessions, old: Users, new: Users) -> Revoked:
    """Have all open sessions follow the users of now."""
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
    """Have all open sessions follow the permissions of now: what they have open and may not have any more ends."""
    for session in list(sessions.opened.values()):
        session.set_rights(session.subject)


def subject_now(users: Users, subject: Subject) -> Subject:
    """Somebody that was logged in earlier, with the roles of now: none for a user that is gone."""
    return subject if subject.user is None else users.subject(subject.user)
