"""The client of a session, as far as the broker has something to tell it."""

from typing import Protocol


class Client(Protocol):
    """The connection of a session, as told about its rights; implemented by protocols that have something to end."""

    def user_removed(self, reason: str) -> None:
        """End the connection in the protocol's words, because its user was removed."""

    def closed_by_operator(self, reason: str) -> None:
        """End the connection in the protocol's words, because an administrator wants that."""

    def refer(self, only_followers: bool) -> None:
        """Send the client to another broker that it may use, if there is one.

        With `only_followers` this is done only if the client is known to go there by itself; others stay.
        """

    def rights_changed(self) -> None:
        """End what the session's new subject may not have open, and forget permissions that were looked up before."""
