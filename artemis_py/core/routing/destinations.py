"""Destinations: which addresses and queues are created on demand (artemis-model §1.3), once for all protocols."""

from typing import TYPE_CHECKING

from artemis_py.core.addresses.address import Address
from artemis_py.core.names.routing_type import RoutingType
from artemis_py.core.queues.queue import queues_of
from artemis_py.core.routing.routes import NO_TYPE
from artemis_py.core.routing.sender import Sender
from artemis_py.core.runtime.access import Permission
from artemis_py.core.settings.queue_config import QueueConfig
from artemis_py.errors import NoSuchAddress, NoSuchQueue, RoutingTypeMismatch

if TYPE_CHECKING:
    from artemis_py.core.routing.directory import Directory


def find_destination(directory: "Directory", sender: Sender, name: str, queue_name: str, routing_type: int) -> Address:
    """Return an address for messages of a routing type, creating what they need and `sender` may create.

    With NO_TYPE the type of the address decides: the default one if it does not exist yet; if it has both types,
    nothing is created. Raises what `ensure_destination` raises.
    """
    existing = directory.addresses.get(name)
    if routing_type != NO_TYPE:
        ensure_destination(directory, sender, name, queue_name, RoutingType(routing_type))
    elif existing is None:
        default = directory.settings.resolve(name).default_address_routing_type
        ensure_destination(directory, sender, name, queue_name, default)
    elif len(existing.routing_types) == 1:
        ensure_destination(directory, sender, name, queue_name, next(iter(existing.routing_types)))
    return directory.address(name)


# Long because it is one rule, with its conditions in the order of the model.
def ensure_destination(
    directory: "Directory", sender: Sender, name: str, queue_name: str, routing_type: RoutingType
) -> None:
    """Create the address, and for ANYCAST or an FQQN the queue, if they do not exist and that is allowed.

    A routing type that the address lacks is added to it. Raises NoSuchAddress, NoSuchQueue, RoutingTypeMismatch,
    NotAuthorized, LimitExceeded (artemis-model §1.3).
    """
    settings = directory.settings.resolve(name)
    address = directory.addresses.get(name)
    if address is None:
        directory.temporary_names.check_unused(name)
        if not settings.auto_create_addresses:
            raise NoSuchAddress(f"address '{name}' does not exist and auto-create-addresses is off for it")
        if routing_type is RoutingType.ANYCAST or queue_name:
            # Check for the queue too, so that no address is created whose queue is then refused.
            sender.check(Permission.CREATE_ADDRESS, name)
            sender.check_creations(2, is_queue=True)
        address = sender.create_address(name, frozenset((routing_type,)), auto_created=True)
    elif routing_type not in address.routing_types:
        if not settings.auto_create_addresses:
            raise RoutingTypeMismatch(
                f"address '{name}' does not support {routing_type.name} and auto-create-addresses is off for it"
            )
        sender.update_address(name, address.routing_types | {routing_type})
    if routing_type is RoutingType.MULTICAST and not queue_name:
        return
    wanted = queue_name or name
    queue = directory.queues.get(wanted)
    if queue is not None:
        if not queue_name and queue.routing_type is not RoutingType.ANYCAST:
            raise RoutingTypeMismatch(f"queue '{wanted}' is MULTICAST, not ANYCAST")
        if queue.address is address:
            return
        if queue_name:
            raise NoSuchQueue(f"queue '{wanted}' belongs to address '{queue.address.name}', not to '{name}'")
    if not queue_name:
        for bound in queues_of(address):
            if bound.routing_type is RoutingType.ANYCAST and not directory.options.wildcards.is_wild(bound.name):
                return
    if not settings.auto_create_queues:
        raise NoSuchQueue(f"queue '{wanted}' does not exist and auto-create-queues is off for '{name}'")
    sender.create_queue(QueueConfig(name=wanted, address=name, routing_type=routing_type, auto_created=True))
