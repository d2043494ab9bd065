"""The number of addresses and queues that each user created on demand.

A client creates one with any name it sends to or receives from, so their number is limited for each user. Deleted ones
no longer count. The creator is stored with each address and queue, so the counts are the same after a restart.
"""

from typing import Final

from artemis_py.core.runtime.access import Subject
from artemis_py.errors import LimitExceeded

ANONYMOUS: Final = ""
"""Stands for all clients without a user."""


class Creations:
    """The counts, by user."""

    def __init__(self) -> None:
        self.limit: int = -1
        """The most that one user may have; -1: no limit."""
        self._counts: dict[str, int] = {}

    def check(self, subject: Subject, wanted: int) -> None:
        """Raise LimitExceeded if the user may not have `wanted` more."""
        count = self._counts.get(creator_of(subject), 0)
        if 0 <= self.limit < count + wanted:
            raise LimitExceeded(
                f"user '{subject.name}' has {count} addresses and queues that were created on demand; "
                f"max-auto-created-per-user allows {self.limit}"
            )

    def add(self, creator: str | None) -> None:
        """Count an address or queue that was created or restored from the store; None: it counts for no user."""
        if creator is not None:
            self._counts[creator] = self._counts.get(creator, 0) + 1

    def remove(self, creator: str | None) -> None:
        """Subtract an address or queue that was deleted."""
        if creator is not None:
            count = self._counts.get(creator, 0) - 1
            if count > 0:
                self._counts[creator] = count
            else:
                self._counts.pop(creator, None)

    def count(self, creator: str) -> int:
        """Return how many this user has."""
        return self._counts.get(creator, 0)


def creator_of(subject: Subject) -> str:
    """Return the user that a client's creations count for."""
    return ANONYMOUS if subject.user is None else subject.user
