"""The client of a session, as far as its rights go."""

from typing import Protocol


class Client(Protocol):
    """The connection of a session, as far as its rights go. Fulfilled by a protocol that has something to end."""

    def user_removed(self, reason: str) -> None:
        """The user may not be here any more: end the connection, in the protocol's words."""

    def rights_changed(self) -> None:
        """The session has another subject: end what it may not have open any more, forget what was allowed before."""
