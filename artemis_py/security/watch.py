"""Follows the files of users and roles while the broker runs.

When they change, new logins are checked against the new users, and clients that are logged in keep, get or lose rights
as the new files say (`revocation`). There is no clock here: the caller of `look` is told when to call again.
"""

from collections.abc import Callable
from typing import Final

from artemis_py.core.sessions.sessions import Sessions
from artemis_py.logs import named_logger
from artemis_py.security.logins import LoginService
from artemis_py.security.revocation import apply_change
from artemis_py.security.users import UserFiles

LOGGER: Final = named_logger(__name__)

# How often the files are looked at (two calls of stat); as Artemis looks at its files.
REFRESH_S: Final = 5.0

# A file that has just changed may still be written: it is taken when it stayed the same for so long.
SETTLE_S: Final = 1.0


class UsersWatch:
    """The two files, and all that depends on them."""

    def __init__(
        self,
        files: UserFiles,
        logins: LoginService,
        sessions: Sessions,
        end_logins: Callable[[str], None],
        plan: Callable[[], None],
    ) -> None:
        """`end_logins` ends the logins that are under way, with a reason; `plan` has the loop send what that caused."""
        self._files: Final = files
        self._logins: Final = logins
        self._sessions: Final = sessions
        self._end_logins: Final = end_logins
        self._plan: Final = plan

    def look(self) -> float:
        """Take the files if they changed and are complete; returns the seconds after which to look again."""
        if not self._files.is_settled():
            return SETTLE_S
        users = self._files.reload()
        if users is not None:
            old = self._logins.users
            self._logins.replace_users(users)
            revoked = apply_change(self._sessions, old, users)
            # These were checked against the old ones, or are about to be.
            self._end_logins("the users were changed: log in again")
            self._plan()
            LOGGER.info(
                "users reloaded: file=%s sessions_ended=%d sessions_changed=%d",
                self._files.users_file,
                revoked.ended,
                revoked.changed,
            )
        return REFRESH_S
