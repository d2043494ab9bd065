"""What deleted queues and addresses had counted.

Queues and addresses keep counters of their own, which end with them. A sum over those that exist would fall when one is
deleted, so each leaves its counts here. Nothing is done here for a message.
"""

from artemis_py.core.addresses.address import Address
from artemis_py.core.queues.queue import Queue

LEAST_LEAVING = 64
"""Deleted queues that may wait here before it is looked which of them have ended."""


class Departed:
    """Sums over the deleted queues, addresses and exchanges of one domain."""

    def __init__(self) -> None:
        self.queues: int = 0
        """Number of deleted queues."""
        self.addresses: int = 0
        """Number of deleted addresses, without those of exchanges."""
        self.added: int = 0
        self.acknowledged: int = 0
        self.expired: int = 0
        self.killed: int = 0
        self.replaced: int = 0
        self.routed: int = 0
        self.unrouted: int = 0
        self._leaving: list[Queue] = []
        self._sweep_at: int = LEAST_LEAVING

    def leaving(self) -> list[Queue]:
        """Return the deleted queues that are not in the sums yet: clients may still settle deliveries of theirs."""
        self._sweep()
        return list(self._leaving)

    def queue_removed(self, queue: Queue) -> None:
        """Add what a queue counted that has just been deleted."""
        self.queues += 1
        if queue.delivering_count == 0:
            self._add(queue)
            return
        self._leaving.append(queue)
        # Half of them at least are new since the last look, so that a look costs each deletion the same on average.
        if len(self._leaving) >= self._sweep_at:
            self._sweep()

    def address_removed(self, address: Address) -> None:
        """Add what an address counted that has just been deleted."""
        self.addresses += 1
        self.exchange_removed(address)

    def exchange_removed(self, address: Address) -> None:
        """Add what the account of an exchange counted that has just been deleted."""
        self.routed += address.routed
        self.unrouted += address.unrouted

    def _sweep(self) -> None:
        """Add the counts of the queues whose last delivery has been settled."""
        leaving: list[Queue] = []
        for queue in self._leaving:
            if queue.delivering_count > 0:
                leaving.append(queue)
            else:
                self._add(queue)
        self._leaving = leaving
        self._sweep_at = max(LEAST_LEAVING, 2 * len(leaving))

    def _add(self, queue: Queue) -> None:
        self.added += queue.messages_added
        self.acknowledged += queue.messages_acknowledged
        self.expired += queue.messages_expired
        self.killed += queue.messages_killed
        self.replaced += queue.messages_replaced
