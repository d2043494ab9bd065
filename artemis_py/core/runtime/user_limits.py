"""The connections and queues of each user, in all virtual hosts, and how many each may have.

Users without a limit are counted too, because a limit may come while the broker runs. The creator is stored with each
queue, so the counts are the same after a restart.
"""

from collections.abc import Mapping

from artemis_py.errors import LimitExceeded


class UserLimits:
    """The counts, by the exact name of the user. Clients without a user have no limit."""

    def __init__(self) -> None:
        self.max_connections: Mapping[str, int] = {}
        """Limits by user; others have none. What exceeds a lower limit stays."""
        self.max_queues: Mapping[str, int] = {}
        """The same for queues."""
        self._connections: dict[str, int] = {}
        self._queues: dict[str, int] = {}

    # -- connections -----------------------------------------------------------------------------------------

    def check_connection(self, user: str | None, leaving: int = 0) -> None:
        """Raise LimitExceeded if the user may not have one more; `leaving` of its connections end in favour of it."""
        limit = self.max_connections.get(user or "", -1)
        count = self.connections(user)
        if 0 <= limit <= count - leaving:
            raise LimitExceeded(f"user '{user}' has {count} connections; its max-connections is {limit}")

    def connections(self, user: str | None) -> int:
        """Return how many connections a user has."""
        return self._connections.get(user or "", 0)

    def connected(self, user: str | None) -> None:
        """Count a connection."""
        _add(self._connections, user or "")

    def disconnected(self, user: str | None) -> None:
        """Subtract a connection that has ended."""
        _subtract(self._connections, user or "")

    # -- queues ----------------------------------------------------------------------------------------------

    def check_queue(self, user: str | None) -> None:
        """Raise LimitExceeded if the user may not create one more."""
        limit = self.max_queues.get(user or "", -1)
        count = self.queues(user)
        if 0 <= limit <= count:
            raise LimitExceeded(f"user '{user}' has created {count} queues; its max-queues is {limit}")

    def queues(self, user: str | None) -> int:
        """Return how many queues clients of a user have created."""
        return self._queues.get(user or "", 0)

    def queue_added(self, creator: str | None) -> None:
        """Count a queue that was created or restored from the store; None: no client created it."""
        if creator is not None:
            _add(self._queues, creator)

    def queue_removed(self, creator: str | None) -> None:
        """Subtract a queue that was deleted."""
        if creator is not None:
            _subtract(self._queues, creator)


def _add(counts: dict[str, int], user: str) -> None:
    counts[user] = counts.get(user, 0) + 1


def _subtract(counts: dict[str, int], user: str) -> None:
    count = counts.get(user, 0) - 1
    if count > 0:
        counts[user] = count
    else:
        counts.pop(user, None)
