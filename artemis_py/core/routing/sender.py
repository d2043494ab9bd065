"""The sender of a message: decides what may be created on demand for it."""

from typing import TYPE_CHECKING

from artemis_py.core.addresses.address import Address
from artemis_py.core.names.routing_type import RoutingType
from artemis_py.core.queues.queue import Queue
from artemis_py.core.runtime.access import Permission
from artemis_py.core.settings.queue_config import QueueConfig

if TYPE_CHECKING:
    from artemis_py.core.routing.directory import Directory


class Sender:
    """Creates addresses and queues with the rights of whatever sends a message. A session is one, for its client."""

    def check(self, permission: Permission, address: str, queue: str | None = None) -> None:
        """Raise NotAuthorized, and report it, if the sender lacks a permission."""
        raise NotImplementedError

    def check_creations(self, wanted: int, is_queue: bool = False) -> None:
        """Raise LimitExceeded, and report it, if the sender may not have `wanted` more addresses and queues on demand.

        `is_queue`: a queue is to be created, on demand or not.
        """
        raise NotImplementedError

    def create_address(self, name: str, routing_types: frozenset[RoutingType], auto_created: bool = False) -> Address:
        """Create an address. Raises a kind of Refusal."""
        raise NotImplementedError

    def update_address(self, name: str, routing_types: frozenset[RoutingType]) -> Address:
        """Change routing types. Raises a kind of Refusal."""
        raise NotImplementedError

    def create_queue(self, config: QueueConfig) -> Queue:
        """Create a queue. Raises a kind of Refusal."""
        raise NotImplementedError


class BrokerAsSender(Sender):
    """The broker itself, which may do everything: it routes dead letters, and what it has staged for clients."""

    def __init__(self, directory: "Directory") -> None:
        self._directory: Directory = directory

    def check(self, permission: Permission, address: str, queue: str | None = None) -> None:
        """Allow it."""

    def check_creations(self, wanted: int, is_queue: bool = False) -> None:
        """Allow it: what the broker creates has a name from its configuration, so there cannot be many."""

    def create_address(self, name: str, routing_types: frozenset[RoutingType], auto_created: bool = False) -> Address:
        """Create an address. Raises what `Directory.create_address` raises."""
        return self._directory.create_address(name, routing_types, auto_created)

    def update_address(self, name: str, routing_types: frozenset[RoutingType]) -> Address:
        """Change routing types. Raises what `Directory.update_address` raises."""
        return self._directory.update_address(name, routing_types)

    def create_queue(self, config: QueueConfig) -> Queue:
        """Create a queue. Raises what `Directory.create_queue` raises."""
        return self._directory.create_queue(config)
