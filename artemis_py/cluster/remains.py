"""What is left in a broker that is being drained, and why it stays."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from attrs import frozen

from artemis_py.cluster.local_queue import LocalQueue
from artemis_py.cluster.placement import kind_of
from artemis_py.core.names.routing_type import RoutingType
from artemis_py.core.queues.queue import Queue

if TYPE_CHECKING:
    from artemis_py.cluster.mesh import Mesh

MOST_RESTS: Final = 100
"""Queues that are named; the messages of the others are counted."""

MOST_EXAMINED: Final = 5_000
"""Queues with messages that are examined for one answer: some 20 ms."""


@frozen
class Rest:
    """A queue with messages."""

    queue: str
    messages: int
    reason: str
    moves: bool
    """Whether they are about to move, or will when something that is named has happened."""


def rest_of(mesh: "Mesh") -> tuple[int, tuple[Rest, ...]]:
    """Return how many messages are left, and the first queues that have them: those that cannot move come first."""
    count = examined = 0
    found: list[Rest] = []
    targets = {forward.name: forward.node_id for forward in mesh.forwards()}
    for queue in mesh.domain.queues.values():
        messages = queue.message_count
        count += messages
        if messages and examined < MOST_EXAMINED:
            examined += 1
            reason, moves = _reason(mesh, queue, targets)
            if not moves or len(found) < MOST_RESTS:
                found.append(Rest(queue.name, messages, reason, moves))
    found.sort(key=lambda rest: (rest.moves, rest.queue))
    return count, tuple(found[:MOST_RESTS])


def _reason(mesh: "Mesh", queue: Queue, targets: Mapping[str, str]) -> tuple[str, bool]:
    """Return why messages of a queue are still here, and whether they can move.

    `targets` are ids of nodes by the names of the queues in which messages wait for them.
    """
    if queue.name in targets:
        member = mesh.members.get(targets[queue.name])
        return f"on the way to '{targets[queue.name] if member is None else member.name}'", True
    local = mesh.local(queue.name)
    if local is None:
        return _reason_outside(mesh, queue), False
    kind = kind_of(queue)
    if kind:
        return f"a queue that {kind} stays at its broker", False
    return _reason_spread(mesh, local)


def _reason_outside(mesh: "Mesh", queue: Queue) -> str:
    """Return why the mesh does not have a queue."""
    if queue.internal or queue.address.internal or mesh.is_reserved(queue.address.name):
        return "the broker's own"
    if queue.temporary or queue.address.temporary:
        return "a temporary queue goes with its client"
    if queue.routing_type is RoutingType.MULTICAST:
        return "a subscription stays at its broker"
    return "its address is not in the scope of the mesh"


def _reason_spread(mesh: "Mesh", local: LocalQueue) -> tuple[str, bool]:
    queue = local.queue
    drain = mesh.departures.drain
    peer = None if drain is None else drain.target_of(local)
    if queue.paused or queue.address.paused:
        return "the queue or its address is paused", False
    if peer is None:
        return "no broker is connected that could take it", True
    if queue.delivering_count:
        away = [status.name for status in mesh.members.values() if _is_away(mesh, status.node_id)]
        if away:
            return f"{queue.delivering_count} with consumers, or in doubt until {', '.join(away)} is back", True
        return f"on the way to {peer.label}", True
    if not queue.waiting_count:
        return f"{queue.scheduled_count} wait for their delivery time", True
    taker = local.takers.get(peer)
    if taker is None or not taker.is_idle:
        return f"on the way to {peer.label}", True
    what = "in a format that it cannot read" if peer.has_bulk else "large, or in a format that it cannot read"
    return f"{peer.label} cannot take them: {what}", False


def _is_away(mesh: "Mesh", node_id: str) -> bool:
    return node_id not in mesh.peers and mesh.channels.claimed_for(node_id) > 0
