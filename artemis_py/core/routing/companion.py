"""A companion of a directory: a service that acts when an address or a queue is created or deleted.

Listeners of events must not change the core. A companion may: it is called when the change is complete, in the same
turn and thus in the same commit of the store.
"""

from artemis_py.core.addresses.address import Address
from artemis_py.core.queues.queue import Queue


class Companion:
    """Does nothing by itself; services override what they need, and add themselves to `Directory.companions`."""

    def address_added(self, address: Address) -> None:
        """Act on an address that was created, or restored from the store."""

    def address_removed(self, address: Address) -> None:
        """Act on an address that was deleted; nothing is bound to it any more."""

    def queue_created(self, queue: Queue) -> None:
        """Act on a new queue, before any message is routed to it. Queues restored from the store are not new."""

    def queue_updated(self, queue: Queue) -> None:
        """Act on a queue whose attributes were changed."""

    def check_queue_removal(self, queue: Queue) -> None:
        """Raise InUse if a queue may not be deleted, unless that is forced."""

    def queue_removed(self, queue: Queue) -> None:
        """Act on a queue that was deleted."""
