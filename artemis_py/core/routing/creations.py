"""How many addresses and queues each user has that were created on demand.

A client creates one with any name it sends to or receives from, so their number has a limit for each user. What is
deleted no longer counts; who created what is stored with it, so a restart counts the same.
"""

from typing import Final

from artemis_py.core.runtime.access import Subject
from artemis_py.errors import LimitExceeded

ANONYMOUS: Final = ""
"""Stands for all clients that have no name."""


class Creations:
    """The counts, by user."""

    def __init__(self) -> None:
        self.limit: int = -1
        """How many one user may have; -1: any number."""
        self._counts: dict[str, int] = {}

    def check(self, subject: Subject, wanted: int) -> None:
        """Raises LimitExceeded if the user may not have so many more."""
        count = self._counts.get(creator_of(subject), 0)
        if 0 <= self.limit < count + wanted:
            raise LimitExceeded(
                f"user '{subject.name}' has {count} addresses and queues that were created on demand; "
                f"max-auto-created-per-user allows {self.limit}"
            )

    def add(self, creator: str | None) -> None:
        """One was created, or came back from the store; None: nobody counts for it."""
        if creator is not None:
            self._counts[creator] = self._counts.get(creator, 0) + 1

    def remove(self, creator: str | None) -> None:
        """One was deleted."""
        if creator is not None:
            count = self._counts.get(creator, 0) - 1
            if count > 0:
                self._counts[creator] = count
            else:
                self._counts.pop(creator, None)

    def count(self, creator: str) -> int:
        """How many this user has."""
        return self._counts.get(creator, 0)


def creator_of(subject: Subject) -> str:
    """The user that a client's creations count for."""
    return ANONYMOUS if subject.user is None else subject.user
