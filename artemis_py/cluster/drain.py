"""Draining this node: its messages go to other nodes before it is taken out of service (mesh §7.3).

Each queue with messages is offered to one peer, so that its order is kept: the one with the most consumers of it, else
the one that a hash of its name chooses. The peer answers an offer with demand for everything and with grants, as if it
had a consumer (`LocalQueue.demand_for`). The rest is the usual way of a message: claims, marks, confirmations.
Consumers at other nodes take their share as before.

What cannot move stays and is named (`report.remaining`). A queue counts as done when its taker has a grant, has
examined everything, and nothing is on its way.
"""

from enum import IntEnum
from hashlib import blake2b
from typing import TYPE_CHECKING, Final

from artemis_py.cluster.hello import OFFERS
from artemis_py.cluster.local_queue import LocalQueue
from artemis_py.cluster.peer import Peer, PeerState
from artemis_py.cluster.placement import SPREAD
from artemis_py.cluster.records import Offer
from artemis_py.core.runtime.timers import Timer
from artemis_py.core.settings.cluster_config import parse_scope

if TYPE_CHECKING:
    from artemis_py.cluster.mesh import Mesh

CHECK_MS: Final = 500
"""Time between two looks at whether everything has moved."""
OFFER_MS: Final = 1_000
"""Time after which an offer that was not answered is made again."""


class Parting(IntEnum):
    """How far a node is with leaving the mesh."""

    STAYS = 0
    DRAINING = 1
    """It gives its messages away, and takes none."""
    EMPTY = 2
    """Nothing is left in it that another node could take."""
    LEFT = 3
    """Nothing is left in its queues at all: peers may forget it."""

    @property
    def word(self) -> str:
        """The state as operators see it."""
        return self.name.lower()


class _Outlet:
    """Which peer gets what is in a queue."""

    __slots__ = ("is_told", "next_ms", "peer")

    def __init__(self) -> None:
        self.peer: Peer | None = None
        self.is_told: bool = False
        """Whether the peer has had the offer."""
        self.next_ms: int = 0
        """Time from which the offer may be made again."""


class Drain:
    """One drain of this node, from the command to its end."""

    def __init__(self, mesh: "Mesh") -> None:
        self.handed_over_before: Final = mesh.handed_over
        self._mesh: Final = mesh
        self._outlets: Final[dict[LocalQueue, _Outlet]] = {}
        """Queues that have messages, and may move them."""
        self._is_empty = False
        self._has_left = False
        self._timer: Timer = mesh.dispatcher.after(CHECK_MS, self._check)

    # -- facts -------------------------------------------------------------------------------------------------

    @property
    def parting(self) -> Parting:
        """How far it is."""

        if self._has_left:
            return Parting.LEFT
        return Parting.EMPTY if self._is_empty else Parting.DRAINING

    @property
    def moved(self) -> int:
        """Number of messages that other nodes have taken since it began."""
        return self._mesh.handed_over - self.handed_over_before

    def remaining(self) -> int:
        """Return how many messages are in the queues that may move."""
        return sum(local.queue.message_count for local in self._outlets)

    def target_of(self, local: LocalQueue) -> Peer | None:
        """Return the peer that gets what is in a queue; None if there is none now."""
        outlet = self._outlets.get(local)
        return None if outlet is None else outlet.peer

    # -- queues ------------------------------------------------------------------------------------------------

    def look(self, local: LocalQueue) -> None:
        """Offer a queue with messages to a peer, or no longer if it is empty."""
        queue = local.queue
        outlet = self._outlets.get(local)
        if local.is_closed or not queue.message_count or local.placement != SPREAD:
            if outlet is not None:
                self._withdraw(local, outlet)
                del self._outlets[local]
            return
        if outlet is None:
            outlet = self._outlets[local] = _Outlet()
        peer = outlet.peer
        if peer is None or not self._may_have(peer, local):
            self._withdraw(local, outlet)
            peer = outlet.peer = self._choose(local)
        if peer is not None:
            self._offer(local, outlet, peer)

    def stop(self) -> None:
        """End it: this node stays. Peers forget all offers when they hear of that."""
        self._timer.cancel()
        for local, outlet in self._outlets.items():
            outlet.is_told = False
            self._withdraw(local, outlet)

    def _offer(self, local: LocalQueue, outlet: _Outlet, peer: Peer) -> None:
        queue = local.queue
        taker = local.takers.get(peer)
        if taker is not None:
            taker.take_groups(True)
        now_ms = self._mesh.dispatcher.steady_ms
        if taker is not None and outlet.is_told:
            return
        if now_ms >= outlet.next_ms:
            outlet.is_told = True
            outlet.next_ms = now_ms + OFFER_MS
            peer.tell(Offer(queue.address.name, queue.name, 1))
        local.wake_at(outlet.next_ms)

    def _withdraw(self, local: LocalQueue, outlet: _Outlet) -> None:
        peer = outlet.peer
        if peer is None:
            return
        if outlet.is_told:
            peer.tell(Offer(local.queue.address.name, local.queue.name, 0))
        taker = local.takers.get(peer)
        if taker is not None:
            taker.take_groups(False)
        outlet.peer = None
        outlet.is_told = False
        outlet.next_ms = 0

    def _may_have(self, peer: Peer, local: LocalQueue) -> bool:
        return (
            peer.state is PeerState.UP
            and not peer.visit.is_leaving
            and (peer.has_copies or not local.is_shared)
            and peer.may_share(local.queue.address.name)
        )

    def _choose(self, local: LocalQueue) -> Peer | None:
        """Return the peer that a queue goes to; the same one each time, unless consumers come or go."""
        queue = local.queue
        best: Peer | None = None
        best_rank = (-1, b"")
        for peer in self._mesh.peers.values():
            hello = peer.hello
            if hello is None or OFFERS not in hello.features or not self._may_have(peer, local):
                continue
            if not parse_scope(hello.scope).covers(queue.address.name):
                continue
            remote = peer.remotes.find(queue.address.name, queue.name)
            digest = blake2b(f"{queue.name}\n{peer.node_id}".encode(), digest_size=8).digest()
            rank = (0 if remote is None else remote.demand.consumers, digest)
            if rank > best_rank:
                best, best_rank = peer, rank
        return best

    # -- the end -----------------------------------------------------------------------------------------------

    def _check(self) -> None:
        """See whether everything has moved, and whether something has come since."""
        mesh = self._mesh
        self._timer = mesh.dispatcher.after(CHECK_MS, self._check)
        is_empty = not mesh.departures.is_reviewing and all(map(self._is_done, self._outlets.items()))
        is_empty = is_empty and not mesh.is_forwarding
        has_left = is_empty and not any(queue.message_count for queue in mesh.domain.queues.values())
        if (is_empty, has_left) != (self._is_empty, self._has_left):
            self._is_empty, self._has_left = is_empty, has_left
            mesh.departures.changed()

    def _is_done(self, entry: tuple[LocalQueue, _Outlet]) -> bool:
        """Tell whether what is left in a queue cannot move."""
        local, outlet = entry
        queue = local.queue
        if not queue.message_count:
            return True
        if outlet.peer is None or queue.delivering_count:
            return False
        if queue.paused or queue.address.paused or not queue.waiting_count:
            return True
        taker = local.takers.get(outlet.peer)
        return taker is not None and outlet.is_told and taker.is_idle
