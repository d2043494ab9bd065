"""Sessions of people who logged in on the page of the console: a cookie stands for name and password.

They are in memory only, so a restart ends them. The cookie is 256 random bits, of which only a hash is kept: whoever
sees the memory of the broker cannot log in with it. A session ends when it is logged out, when it was not used for a
while, when its time is over, and when its user is removed or has a new password or new roles.
"""

import secrets
from collections.abc import Callable
from hashlib import sha256
from typing import Final

from artemis_py.core.runtime.access import Subject
from artemis_py.security.users import Users

IDLE_S: Final = 30 * 60.0
"""Time without a request after which a session ends."""

LIFE_S: Final = 12 * 3600.0
"""Time after which a session ends, however much it is used: a working day."""

MOST_OF_USER: Final = 100
"""Sessions of one user; a further one ends the one that has not been used for longest."""

MOST_SESSIONS: Final = 1_000
"""Sessions in all, below 1 KiB each; a further one ends the one that has not been used for longest."""

_RANDOM_BYTES: Final = 32


class WebSession:
    """One session."""

    def __init__(self, key: bytes, subject: Subject, now: float) -> None:
        self.key: Final = key
        """Hash of the cookie."""
        self.subject: Final = subject
        self.csrf: Final = secrets.token_urlsafe(_RANDOM_BYTES)
        """What a request that changes something must bring besides the cookie: pages of other sites cannot read it."""
        self.life_ends: Final = now + LIFE_S
        self.used: float = now

    @property
    def ends(self) -> float:
        """When it ends if it is not used again."""
        return min(self.used + IDLE_S, self.life_ends)


class WebSessions:
    """All sessions, by the hashes of their cookies; the one that has not been used for longest first."""

    def __init__(self, now: Callable[[], float]) -> None:
        """Create it; `now` returns the seconds of a monotonic clock."""
        self.now: Final = now
        self._sessions: Final[dict[bytes, WebSession]] = {}
        self.changes = 0
        """How often the users have changed: a login that was checked against old ones opens no session."""

    def __len__(self) -> int:
        return len(self._sessions)

    def open(self, subject: Subject) -> tuple[WebSession, str]:
        """Begin a session; return it and its cookie."""
        now = self.now()
        for ended in [each for each in self._sessions.values() if each.ends <= now]:
            self.close(ended)
        own = [each for each in self._sessions.values() if each.subject.user == subject.user]
        if len(own) >= MOST_OF_USER:
            self.close(own[0])
        if len(self._sessions) >= MOST_SESSIONS:
            self.close(next(iter(self._sessions.values())))
        cookie = secrets.token_urlsafe(_RANDOM_BYTES)
        session = self._sessions[_hash(cookie)] = WebSession(_hash(cookie), subject, now)
        return session, cookie

    def find(self, cookie: str) -> WebSession | None:
        """Return the session of a cookie, which is used now; None if there is none, or not any more."""
        session = self._sessions.pop(_hash(cookie), None)
        now = self.now()
        if session is None or session.ends <= now:
            return None
        session.used = now
        self._sessions[session.key] = session
        return session

    def close(self, session: WebSession) -> None:
        """End a session."""
        self._sessions.pop(session.key, None)

    def users_changed(self, old: Users, new: Users) -> None:
        """End the sessions of users that were removed, or have a new password or other roles."""
        self.changes += 1
        for session in list(self._sessions.values()):
            user = session.subject.user
            if user is not None and (new.refusal(user, old) is not None or new.subject(user) != session.subject):
                self.close(session)


def _hash(cookie: str) -> bytes:
    return sha256(cookie.encode("utf-8", "surrogateescape")).digest()
