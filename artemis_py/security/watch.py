"""Follows the files of users and roles while the broker runs.

When they change, new logins are checked against the new users, and clients that are logged in keep, gain or lose rights
as the new files say (`revocation`). This module has no clock: `look` tells its caller when to call again.
"""

from collections.abc import Callable, Iterable
from typing import Final

from artemis_py.core.sessions.sessions import Sessions
from artemis_py.logs import named_logger
from artemis_py.security.logins import LoginService
from artemis_py.security.revocation import apply_change
from artemis_py.security.users import UserFiles, Users

LOGGER: Final = named_logger(__name__)

# Time between two checks of the files (two calls of stat each); the same as in Artemis.
REFRESH_S: Final = 5.0

# A file that has just changed may still be incomplete: it is read once it has not changed for this long.
SETTLE_S: Final = 1.0


class UsersWatch:
    """Watches the files of users and roles, and applies their changes."""

    def __init__(
        self,
        files: UserFiles,
        logins: LoginService,
        sessions: Sessions,
        end_logins: Callable[[str], None],
        plan: Callable[[], None],
        others: Callable[[], Iterable[Sessions]] = tuple,
    ) -> None:
        """Create it. `end_logins` ends the logins in progress, with a reason; `plan` plans a turn for their output.

        `others` returns the sessions of virtual hosts, whose clients are the same users.
        """
        self._others: Final = others
        self._files: Final = files
        self._logins: Final = logins
        self._sessions: Final = sessions
        self._end_logins: Final = end_logins
        self._plan: Final = plan
        self.when_changed: Final[list[Callable[[Users, Users], None]]] = []
        """Called with the users before and after each change; each ends what was given to users that are gone."""

    def look(self) -> float:
        """Read the files if they changed and are complete; return the seconds until the next call."""
        if not self._files.is_settled():
            return SETTLE_S
        self.look_now()
        return REFRESH_S

    def look_now(self) -> None:
        """Read the files if they changed, however recently."""
        users = self._files.reload()
        if users is not None:
            old = self._logins.users
            self._logins.replace_users(users)
            revoked = [apply_change(each, old, users) for each in (self._sessions, *self._others())]
            for listener in self.when_changed:
                listener(old, users)
            # The logins in progress were checked against the old users, or are about to be.
            self._end_logins("the users were changed: log in again")
            self._plan()
            LOGGER.info(
                "users reloaded: file=%s sessions_ended=%d sessions_changed=%d",
                self._files.users_file,
                sum(each.ended for each in revoked),
                sum(each.changed for each in revoked),
            )
