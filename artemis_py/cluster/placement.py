"""Where the messages of a queue may be, and whether the mesh has the queue at all."""

from typing import TYPE_CHECKING, Final

from artemis_py.core.names.routing_type import RoutingType
from artemis_py.core.queues.queue import Queue
from artemis_py.core.settings.cluster_config import need_of_one_broker

if TYPE_CHECKING:
    from artemis_py.cluster.mesh import Mesh

SPREAD: Final = 1
"""Placement of a queue whose messages may be at any node."""
KEPT: Final = 2
"""Placement of a queue that needs one broker: its messages stay at the node that took them."""


def kind_of(queue: Queue) -> str:
    """Return for what a queue needs one broker, behind the word "that"; empty: its messages may be at any node."""
    return need_of_one_broker(queue.settings)


def placement_of(queue: Queue) -> int:
    """Return where the messages of a queue may be."""
    return KEPT if kind_of(queue) else SPREAD


def is_covered(mesh: "Mesh", queue: Queue) -> bool:
    """Tell whether peers are told about a queue at all; about the queue of a subscription only if it is shared."""
    address = queue.address
    return (
        (queue.routing_type is RoutingType.ANYCAST or (placement_of(queue) == SPREAD and not address.is_exchange))
        and not queue.temporary
        and not queue.internal
        and not address.temporary
        and not address.internal
        and not mesh.is_reserved(address.name)
        and not mesh.is_reserved(queue.name)
        and mesh.config.scope.covers(address.name)
    )


def is_kept_subscription(mesh: "Mesh", queue: Queue) -> bool:
    """Tell whether a queue gets copies of what is published at other nodes, and stays at its own."""
    return is_subscription(mesh, queue) and (queue.temporary or placement_of(queue) != SPREAD)


def is_subscription(mesh: "Mesh", queue: Queue) -> bool:
    """Tell whether a queue collects messages of addresses that the mesh covers."""
    address = queue.address
    return (
        queue.routing_type is RoutingType.MULTICAST
        and not queue.internal
        and not address.internal
        and not address.temporary
        and not address.is_exchange
        and not mesh.is_reserved(address.name)
        and may_cover(mesh, address.name)
    )


def may_cover(mesh: "Mesh", address: str) -> bool:
    """Tell whether the mesh may have messages that an address or pattern of addresses stands for."""
    scope = mesh.config.scope
    wildcards = mesh.domain.options.wildcards
    if not wildcards.routing_enabled or not wildcards.is_wild(address):
        return scope.covers(address)
    ends = [address.find(each) for each in (wildcards.any_words, wildcards.single_word)]
    prefix = address[: min([end for end in ends if end >= 0])]
    is_included = any(each.startswith(prefix) or prefix.startswith(each) for each in scope.includes or ("",))
    return is_included and not prefix.startswith(scope.excludes)
