"""Destinations: which addresses and queues are created on demand (artemis-model §1.3), once for all protocols."""

from typing import TYPE_CHECKING

from artemis_py.core.names.routing_type import RoutingType
from artemis_py.core.queues.queue import Queue, queues_of
from artemis_py.core.runtime.access import Permission
from artemis_py.core.settings.queue_config import QueueConfig
from artemis_py.errors import NoSuchAddress, NoSuchQueue, RoutingTypeMismatch

if TYPE_CHECKING:
    from artemis_py.core.sessions.session import Session


# Long because it is one rule, with its conditions in the order of the model.
def ensure_destination(session: "Session", name: str, queue_name: str, routing_type: RoutingType) -> None:
    """Create the address, and for ANYCAST or an FQQN the queue, if they do not exist and that is allowed.

    A routing type that the address lacks is added to it. Raises NoSuchAddress, NoSuchQueue, RoutingTypeMismatch,
    NotAuthorized, LimitExceeded (artemis-model §1.3).
    """
    domain = session.domain
    settings = domain.settings.resolve(name)
    address = domain.addresses.get(name)
    if address is None:
        if not settings.auto_create_addresses:
            raise NoSuchAddress(f"address '{name}' does not exist and auto-create-addresses is off for it")
        if routing_type is RoutingType.ANYCAST or queue_name:
            # Check for the queue too, so that no address is created whose queue is then refused.
            session.check(Permission.CREATE_ADDRESS, name)
            session.check_creations(2)
        address = session.create_address(name, frozenset((routing_type,)), auto_created=True)
    elif routing_type not in address.routing_types:
        if not settings.auto_create_addresses:
            raise RoutingTypeMismatch(
                f"address '{name}' does not support {routing_type.name} and auto-create-addresses is off for it"
            )
        session.update_address(name, address.routing_types | {routing_type})
    if routing_type is RoutingType.MULTICAST and not queue_name:
        return
    wanted = queue_name or name
    queue = domain.queues.get(wanted)
    if queue is not None:
        if not queue_name and queue.routing_type is not RoutingType.ANYCAST:
            raise RoutingTypeMismatch(f"queue '{wanted}' is MULTICAST, not ANYCAST")
        if queue.address is address:
            return
        if queue_name:
            raise NoSuchQueue(f"queue '{wanted}' belongs to address '{queue.address.name}', not to '{name}'")
    if not queue_name:
        for bound in queues_of(address):
            if not domain.options.wildcards.is_wild(bound.name):
                return
    if not settings.auto_create_queues:
        raise NoSuchQueue(f"queue '{wanted}' does not exist and auto-create-queues is off for '{name}'")
    session.create_queue(QueueConfig(name=wanted, address=name, routing_type=routing_type, auto_created=True))


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
    ensure_destination(session, name, "", RoutingType.ANYCAST)
    return domain.queue(name)
