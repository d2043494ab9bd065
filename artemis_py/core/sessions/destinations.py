"""The queue that a point-to-point consumer means, created on demand."""

from typing import TYPE_CHECKING

from artemis_py.core.names.routing_type import RoutingType
from artemis_py.core.names.syntax import FQQN_SEPARATOR
from artemis_py.core.queues.queue import Queue, queues_of
from artemis_py.core.routing.destinations import ensure_destination
from artemis_py.core.routing.domain import Domain

if TYPE_CHECKING:
    from artemis_py.core.sessions.session import Session


def anycast_queue(session: "Session", name: str) -> Queue:
    """Return the queue that a name means to a client that asks for a queue, created if allowed (artemis-model §1.3).

    Other than with `queue_to_consume`, queues of the subscribers of a topic of that name do not count.
    Raises NoSuchAddress, NoSuchQueue, RoutingTypeMismatch, NotAuthorized, LimitExceeded.
    """
    queue = _existing(session, name)
    if queue is None:
        ensure_destination(session.domain, session, name, "", RoutingType.ANYCAST)
        queue = _existing(session, name)
    return session.domain.queue(name) if queue is None else queue


def _existing(session: "Session", name: str) -> Queue | None:
    domain = session.domain
    queue = domain.queues.get(name)
    if queue is not None and (queue.routing_type is RoutingType.ANYCAST or queue.address.name != name):
        return queue
    address = domain.addresses.get(name)
    if address is not None:
        for bound in queues_of(address):
            if bound.routing_type is RoutingType.ANYCAST and not domain.options.wildcards.is_wild(bound.name):
                return bound
    return None


def full_name(domain: Domain, name: str) -> str:
    """Return the name to send to for the queue or address `name`: a queue of another address by its qualified name."""
    if name not in domain.addresses:
        queue = domain.queues.get(name)
        if queue is not None:
            return f"{queue.address.name}{FQQN_SEPARATOR}{name}"
    return name


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
