"""Formats in which a message itself names the user that sent it."""

from typing import TYPE_CHECKING, Protocol, runtime_checkable

if TYPE_CHECKING:
    from artemis_py.core.messages.message import Message


@runtime_checkable
class UserFormat(Protocol):
    """A format that has a place for the user, which its clients could fill with any name."""

    def set_user(self, message: "Message", user: str | None) -> None:
        """Name the user in place of what the client says; None: the client has no user.

        The message is not routed yet. Raises NotAuthorized if it names another user where it must not be changed, and
        MalformedFrame if it is damaged.
        """
