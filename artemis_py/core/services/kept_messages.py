"""Queues in which services keep messages that clients neither consume nor remove."""

from artemis_py.core.names.routing_type import RoutingType
from artemis_py.core.queues.queue import Queue
from artemis_py.core.routing.domain import Domain
from artemis_py.core.settings.queue_config import QueueConfig


def create_keeper(domain: Domain, name: str, address: str) -> Queue:
    """Create such a queue, and its address if there is none. It stays until its service deletes it."""
    if address not in domain.addresses:
        domain.create_address(address, frozenset((RoutingType.ANYCAST,)), internal=True)
    return domain.create_queue(
        QueueConfig(
            name=name,
            address=address,
            routing_type=RoutingType.ANYCAST,
            internal=True,
            max_consumers=0,
            purge_on_no_consumers=False,
            auto_delete=False,
        )
    )
