"""The name of the authenticated user, on each message that its client sends (artemis-model §6.3).

The broker's word is among the extra properties (`VALIDATED_USER`). Some formats have a place of their own for a user,
where clients of the same protocol look; what a client has put there is replaced (`UserFormat`).
"""

from typing import TYPE_CHECKING

from artemis_py.core.messages.message import VALIDATED_USER, Message, MessageFormat
from artemis_py.core.messages.naming import UserFormat
from artemis_py.core.runtime.access import Permission
from artemis_py.core.settings.broker_settings import BrokerSettings
from artemis_py.errors import NotAuthorized

if TYPE_CHECKING:
    from artemis_py.core.sessions.session import Session


class ValidatedUser:
    """What becomes of the messages of one session. It does not refer to the session, which refers to it."""

    def __init__(self, user: str | None, is_named: bool, is_required: bool) -> None:
        self._user: str | None = user or None
        self._is_named: bool = is_named
        """Whether messages get the name of the user."""
        self._is_required: bool = is_required
        """Whether messages of a client without a user are refused."""
        self._extra: dict[str, object] | None = None if not user else {VALIDATED_USER: user}
        self._format: MessageFormat | None = None
        """Format of the last message."""
        self._named: UserFormat | None = None
        """The same, if it has a place for the user."""

    def put_on(self, message: Message, session: "Session") -> None:
        """Name the user on a message of the session. Raises NotAuthorized.

        A message that names another user where it must not be changed is only accepted from a user with the permission
        `manage`, who may send on what others have sent.
        """
        user = self._user
        if self._is_required and user is None:
            raise NotAuthorized("the client has no user, and reject-empty-validated-user is set")
        if not self._is_named:
            return
        if user is not None:
            if message.extra is None:
                message.extra = self._extra
            else:
                message.set_extra(VALIDATED_USER, user)
        if message.format is not self._format:
            self._format = message.format
            self._named = message.format if isinstance(message.format, UserFormat) else None
        if self._named is not None:
            try:
                self._named.set_user(message, user)
            except NotAuthorized:
                if not session.may(Permission.MANAGE, session.domain.options.management_address):
                    raise


def validated_user_of(user: str | None, options: BrokerSettings) -> ValidatedUser | None:
    """Return what names the user of a session with these options; None if they ask for nothing."""
    if not options.populate_validated_user and not options.reject_empty_validated_user:
        return None
    return ValidatedUser(user, options.populate_validated_user, options.reject_empty_validated_user)
