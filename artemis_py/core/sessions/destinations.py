"""The queue that a point-to-point consumer means, created on demand."""

from typing import TYPE_CHECKING

from artemis_py.core.names.routing_type import RoutingType
from artemis_py.core.queues.queue import Queue, queues_of
from artemis_py.core.routing.destinations import ensure_destination

if TYPE_CHECKING:
    from artemis_py.core.sessions.session import Session


def queue_to_consume(session: "Session", name: str) -> Queue:
    """Return the queue for a point-to-point consumer on address `name`, created if allowed (artemis-model §1.3, end).

    Raises NoSuchAddress, NoSuchQueue, RoutingTypeMismatch, NotAuthorized.
    """
    domain = session.domain
    queue = domain.queues.get(name)
    if queue is not None and queue.address.name == name:
        return queue
    address = domain.addresses.get(name)
    if address is not None:
        for bound in queues_of(address):
            if not domain.options.wildcards.is_wild(bound.name):
                return bound
    if queue is not None:
        return queue
    ensure_destination(domain, session, name, "", RoutingType.ANYCAST)
    return domain.queue(name)
