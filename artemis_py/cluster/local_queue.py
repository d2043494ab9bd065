"""A queue of this broker as a part of the mesh: what its consumers could take, and which peers take from it.

Demand is told as state: how many consumers, what they select, and how many messages each peer may hand over (mesh
§3.5). All of it is worked out at the end of an iteration of the loop, for queues that changed in it.

Messages and credit that come and go change little of that, so there are two kinds of look at a queue. One is at
everything. The other is only at grants and at takers that have used or got one. A queue whose messages concern no
other node at the moment rests: it is looked at again after `PACE_MS`, however many messages come and go.
"""

from typing import TYPE_CHECKING, Final

from artemis_py.cluster.grants import PACE_MS, Grants
from artemis_py.cluster.kept import KeptReport
from artemis_py.cluster.placement import SPREAD as SPREAD
from artemis_py.cluster.placement import placement_of
from artemis_py.cluster.records import Demand, Instance, SharedInstance
from artemis_py.cluster.redistribution import Redistribution
from artemis_py.cluster.remote_queue import RemoteQueue, digest_of
from artemis_py.cluster.strict import Turns
from artemis_py.cluster.taker import MAX_WEIGHT, Taker
from artemis_py.core.names.routing_type import RoutingType
from artemis_py.core.queues.consumer import Consumer
from artemis_py.core.queues.queue import Queue
from artemis_py.core.queues.rules.kinds import set_guard
from artemis_py.core.queues.watching import Watcher
from artemis_py.core.runtime.timers import Timer
from artemis_py.core.selectors.filter import Lookup
from artemis_py.core.settings.cluster_config import LoadBalancing

if TYPE_CHECKING:
    from artemis_py.cluster.mesh import Mesh
    from artemis_py.cluster.peer import Peer

LINGER_MS: Final = 250
"""Time after which peers are told that the last consumer has left: a client may be about to attach again."""


class LocalQueue(Watcher):
    """One queue of this broker, in the scope of the mesh."""

    def __init__(self, mesh: "Mesh", queue: Queue, id: int) -> None:
        self.mesh: Final = mesh
        self.queue: Final = queue
        self.id: Final = id
        self.is_shared: Final = queue.routing_type is RoutingType.MULTICAST
        """Whether it is the queue of a subscription, of which other nodes may have shells (`shells`)."""
        self.grants: Final = Grants(self)
        self.takers: Final[dict[Peer, Taker]] = {}
        self.is_dirty: bool = False
        """Whether it is looked at in the end of this iteration."""
        self._has_changed = False
        """Whether that look is at everything."""
        self._rests = False
        """Whether nothing that messages and credit change concerns another node before `_full_look_ms`."""
        self._is_noted = False
        """Whether something has changed that is left to the look at that time."""
        self._full_look_ms = 0
        """Time from which the next look is at everything."""
        self._stale: Final[dict[Taker, None]] = {}
        """Takers that have used up a grant, or got one."""
        self._ready_count = 0
        """Number of takers for which messages wait that they have no grant for."""
        self._seen_below = 0
        """Messages with a lower sequence were there when all takers were asked for what they want."""
        self.is_closed: bool = False
        self.placement: int = placement_of(queue)
        self.version: int = 1
        """Grows when peers may have to be told something else about the queue or its consumers."""
        self._is_news = True
        self._instance: Instance | None = None
        self._demand = Demand(id)
        """Demand that was told last."""
        self._nothing: Final = Demand(id)
        self._own: Demand = self._nothing
        """Demand of consumers of this broker."""
        self._counted: list[Consumer] = []
        """Consumers of which that was found out."""
        self._digest: tuple[Instance, Demand, int] | None = None
        """The last part of a digest that was worked out, and of what."""
        self._lingers: Demand | None = None
        self._linger_until_ms = 0
        self.alone_since_ms: int = queue.dispatcher.steady_ms
        """Time at which the last consumer of this broker left; -1: there is one."""
        self._redistribution: Final = Redistribution(self)
        self._wake: Timer | None = None
        self.group_taker: Peer | None = None
        """The peer that messages of groups go to; None: they stay here."""
        self.is_ended: bool = False
        """Whether a client here has ended the subscription, and the queue is about to be deleted."""
        self.useless_since_ms = 0
        """Time since which no node has a use for this shell, or can be asked; 0: one has."""
        self.kept: Final = KeptReport(self)
        queue.dispatch.watcher = self
        self._guard()
        self.changed()

    def changed(self) -> None:
        """Look at everything about this queue at the end of this iteration."""
        self._has_changed = True
        self.stir()

    def stir(self) -> None:
        """Look at what messages and grants change, at the end of this iteration."""
        if not self.is_dirty:
            self.is_dirty = True
            self.mesh.dirty.append(self)

    def stir_taker(self, taker: Taker) -> None:
        """Look at a taker that has used up its grant, or got another one, at the end of this iteration."""
        self._stale[taker] = None
        self.stir()

    def visited(self) -> None:
        """Note that messages or credit came or went; see `Watcher`."""
        if self.is_dirty:
            return
        # What this broker's consumers are about to get waits for nobody else.
        if not self._rests or (self.takers and self._has_unseen and not self.queue.dispatch.is_ready):
            self.stir()
        else:
            self._look_later()

    @property
    def _has_unseen(self) -> bool:
        """Whether messages wait, and some have come since all takers were asked for what they want."""
        return self.queue.waiting_count > 0 and self.queue.next_sequence != self._seen_below

    def _look_later(self) -> None:
        """Look at everything, but not before some time has passed."""
        if not self._is_noted:
            self._is_noted = True
            self.wake_at(self._full_look_ms)

    def news(self) -> None:
        """Tell peers of the queue again if anything is different, at the end of this iteration."""
        self._is_news = True
        self.changed()

    def look(self) -> None:
        """Work out what has changed, and have peers told of it that must know."""
        now_ms = self.queue.dispatcher.steady_ms
        drain = self.mesh.departures.drain
        is_full = self._has_changed or drain is not None or now_ms >= self._full_look_ms
        if is_full:
            self._has_changed = self._is_noted = False
            self._full_look_ms = now_ms + PACE_MS
            self.review()
            if self.is_closed:
                return
            if drain is not None:
                drain.look(self)
        self.refresh_takers(is_full)
        self._rests = self.grants.divide() and drain is None and not self._ready_count
        if is_full:
            self.kept.report()
            if self.has_news():
                for peer in self.mesh.peers.values():
                    peer.tell_later(self)
        elif not self._rests:
            self._look_later()

    def close(self) -> None:
        """Forget the queue, which was deleted or has left the mesh."""
        self.is_closed = True
        self.queue.dispatch.watcher = None
        if isinstance(self.queue.guard, Turns):
            set_guard(self.queue, None)
        for peer in self.mesh.peers.values():
            peer.tell_later(self)
        for taker in list(self.takers.values()):
            self.end_taker(taker)
        if self._wake is not None:
            self._wake.cancel()

    def wake_at(self, when_ms: int) -> None:
        """Look at this queue again at this time."""
        wake = self._wake
        if wake is not None and wake.is_pending:
            if wake.when_ms <= when_ms:
                return
            wake.cancel()
        self._wake = self.queue.dispatcher.steady_timers.at(when_ms, self.changed)

    @property
    def moves(self) -> bool:
        """Whether messages are handed over at all. OFF concerns anycast queues only."""
        balancing = self.mesh.config.load_balancing
        if self.is_shared and balancing is LoadBalancing.OFF:
            return self.mesh.config.max_hops > 0
        return self.mesh.moves_messages

    def gives_up(self, is_forced: bool) -> bool:
        """Keep the queue for other nodes, if they have a use for it; see `Watcher`."""
        if not self.is_shared or self.placement != SPREAD or self.own_consumers() or self.queue.subscriber_count:
            return False
        shells = self.mesh.shells
        has_roots = bool(shells.roots_of(self.queue.name))
        # Unsubscribing from a durable subscription ends it for all, unless others consume or are its members.
        is_needed = bool(self.takers) or (has_roots and (is_forced or not self.queue.is_stored))
        if is_needed and not shells.is_shell(self.queue.name):
            shells.give_up(self)
        self.is_ended = not is_needed and (is_forced or not self.queue.consumers)
        return is_needed

    # -- what is told ------------------------------------------------------------------------------------------

    def instance(self, peer: "Peer") -> Instance:
        """Return what a peer is told about the queue itself."""
        queue = self.queue
        text = "" if queue.filter is None else queue.filter.text
        known = self._instance
        if known is not None and known.placement == self.placement and known.filter == text:
            return known
        if self.is_shared:
            root = self.mesh.shells.root_for(peer.node_id, queue.name)
            return SharedInstance(
                self.id, queue.address.name, queue.name, self.placement, text, int(queue.is_stored), root
            )
        self._instance = Instance(self.id, queue.address.name, queue.name, self.placement, text)
        return self._instance

    def own_consumers(self) -> list[Consumer]:
        """Return the consumers of this broker's clients that take messages."""
        return [each for each in self.queue.consumers if not each.is_browser and not isinstance(each.sink, Taker)]

    def has_own_consumer_for(self, source: Lookup) -> bool:
        """Tell whether a consumer of this broker wants a message."""
        return any(each.filter is None or each.filter.matches(source) for each in self.own_consumers())

    def demand_for(self, peer: "Peer") -> Demand:
        """Return the demand that a peer is told: that of consumers here, and of other peers if it may be passed on."""
        is_offered = self.is_offered_by(peer)
        if self.placement != SPREAD or self.mesh.departures.drain is not None:
            return self._nothing
        if not is_offered and not self.moves:
            return self._nothing
        # Only what left here lingers: what others want, the peers are told in different ways.
        own = self._linger(self._own_demand())
        if not is_offered and self.mesh.config.max_hops == 1:
            return own
        wants = {text: (distance, count) for text, distance, count in own.wants}
        for other, taker in self.takers.items():
            if other is not peer:
                for text, distance, count in taker.demand.wants:
                    known = wants.get(text)
                    # The nearest counts. What only comes round in circles gets farther each time, and ends.
                    if distance < self.mesh.config.max_hops and (known is None or (distance + 1, -count) < known):
                        wants[text] = (distance + 1, count)
        if is_offered:
            # As if one consumer wanted everything.
            wants[""] = (1, max(wants.get("", (1, 1))[1], 1))
        return self._sum_up(wants)

    def _own_wants(self) -> dict[str, tuple[int, int]]:
        """Return the distance and number of consumers for each selector of this broker's clients."""
        wants: dict[str, tuple[int, int]] = {}
        for consumer in self.own_consumers():
            text = "" if consumer.filter is None else consumer.filter.text
            wants[text] = (1, wants.get(text, (1, 0))[1] + 1)
        return wants

    def _own_demand(self) -> Demand:
        """Return what consumers of this broker want; it is worked out when consumers have come or gone."""
        if self._counted != self.queue.consumers:
            self._counted = list(self.queue.consumers)
            demand = self._sum_up(self._own_wants())
            if demand != self._own:
                self._own = demand
        return self._own

    def _sum_up(self, wants: dict[str, tuple[int, int]]) -> Demand:
        if not wants:
            return self._nothing
        if len(wants) > self.mesh.config.interest_detail:
            distances, counts = zip(*wants.values(), strict=True)
            wants = {"": (min(distances), sum(counts))}
        told = [(text, distance, min(count, MAX_WEIGHT)) for text, (distance, count) in sorted(wants.items())]
        return Demand(self.id, tuple(told))

    def has_news(self) -> bool:
        """Tell whether peers may have to be told something else than at the last look."""
        demand = self._demand
        if self.placement == SPREAD and self.moves:
            demand = self._linger(self._own_demand())
        # With further hops, what each peer is told depends on all others.
        if self._is_news or demand is not self._demand or self.mesh.config.max_hops > 1:
            self._is_news = False
            self._demand = demand
            self.version += 1
            return True
        return False

    def digest(self, instance: Instance, demand: Demand) -> int:
        """Return the part of the queue in a digest; mostly the same for all peers."""
        known = self._digest
        if known is None or known[0] is not instance or known[1] is not demand:
            known = self._digest = instance, demand, digest_of(instance, demand)
        return known[2]

    def peer_lost(self, peer: "Peer") -> None:
        """Forget a peer whose connection has ended."""
        self.grants.lost(peer)
        taker = self.takers.get(peer)
        if taker is not None:
            self.end_taker(taker)
        self.changed()

    def is_offered_by(self, peer: "Peer") -> bool:
        """Whether a peer is being drained, and this broker is to take all that it has of the queue."""
        return (self.queue.address.name, self.queue.name) in peer.visit.offers

    def _linger(self, demand: Demand) -> Demand:
        """Return the last demand for a moment after the last consumer has left."""
        now_ms = self.queue.dispatcher.steady_ms
        if demand.consumers:
            self._lingers = demand
            self._linger_until_ms = 0
            return demand
        if self._lingers is None or self.queue.is_deleted:
            return demand
        if not self._linger_until_ms:
            self._linger_until_ms = now_ms + LINGER_MS
        if now_ms >= self._linger_until_ms:
            self._lingers = None
            return demand
        self.wake_at(self._linger_until_ms)
        return self._lingers

    def _guard(self) -> None:
        """With STRICT, let nodes take turns, unless another service guards the queue for the moment."""
        is_wanted = self.placement == SPREAD and self.mesh.config.load_balancing is LoadBalancing.STRICT
        guard = self.queue.guard
        if is_wanted and guard is None and self.mesh.config.max_hops:
            set_guard(self.queue, Turns(self))
        elif not is_wanted and isinstance(guard, Turns):
            set_guard(self.queue, None)

    def review(self) -> None:
        """Note a changed kind of queue, and whether anybody has a use for it."""
        if self.is_shared and self.mesh.shells.is_shell(self.queue.name):
            self.mesh.shells.review(self)
            if self.is_closed:
                return
        self._guard()
        placement = placement_of(self.queue)
        if placement != self.placement:
            self.placement = placement
            self._is_news = True
            for taker in list(self.takers.values()):
                self.set_taker(taker.peer, taker.remote)

    # -- takers ------------------------------------------------------------------------------------------------

    def set_taker(self, peer: "Peer", remote: RemoteQueue) -> None:
        """Let a peer take messages if it has demand for them, or no longer if it has none."""
        self.kept.look_again()
        taker = self.takers.get(peer)
        moves = self.moves or self.mesh.departures.drain is not None
        wanted = remote.demand.consumers > 0 and self.placement == SPREAD and moves
        if taker is not None and (
            not wanted or taker.remote is not remote or taker.demand.distance != remote.demand.distance
        ):
            self.end_taker(taker)
            taker = None
        if wanted and taker is None:
            taker = self.takers[peer] = Taker(self, peer, remote)
            peer.taking[self] = None
            if self._redistribution.keeps_what_waits and self.mesh.departures.drain is None:
                taker.restrict(False, self.queue.next_sequence - 1, 0)
        elif taker is not None:
            taker.update()
        self.changed()

    def end_taker(self, taker: Taker) -> None:
        """Detach a taker."""
        if self.takers.get(taker.peer) is taker:
            del self.takers[taker.peer]
            taker.peer.taking.pop(self, None)
        self._stale.pop(taker, None)
        taker.close()
        self.changed()

    def wanted_by(self, taker: Taker, limit: int, may_rest: bool = True) -> int:
        """Return how many of the first messages in memory a peer has consumers for, whatever keeps them here.

        Without `may_rest`, those that wait before they move again are not counted.
        """
        found = 0
        for references in self.queue.backlog.lists:
            candidate = references.head
            while candidate is not None and limit > 0:
                limit -= 1
                found += taker.has_consumer_for(candidate) and (may_rest or not taker.rests(candidate))
                candidate = candidate.next
        return found

    def is_stuck(self, taker: Taker) -> bool:
        """Tell whether the redistribution delay keeps messages from a peer that has room for them."""
        return self._redistribution.keeps_what_waits or taker.consumer.credit == 0

    def refresh_takers(self, is_full: bool) -> None:
        """Let takers use their grants, as the load balancing and the redistribution delay allow.

        That is one step for each taker, so in most iterations it is done for those only that have something to use.
        All of them are asked when messages begin to wait.
        """
        now_ms = self.queue.dispatcher.steady_ms
        if is_full:
            self._note_consumers(now_ms)
            self._choose_group_taker()
        if is_full or (not self._ready_count and self._has_unseen):
            takers = list(self.takers.values())
            self._ready_count = 0
            self._seen_below = self.queue.next_sequence
        else:
            takers = list(self._stale)
            self._ready_count -= sum(each.is_ready for each in takers)
        self._stale.clear()
        for taker in takers:
            is_open = self._redistribution.allows(taker, now_ms) and taker.may_claim
            if taker.refresh(is_open, now_ms):
                self.changed()
            self._ready_count += taker.is_ready
            if taker.is_ready != taker.remote.told_ready:
                taker.peer.tell_later(self)
            if taker.next_due_ms is not None:
                self.wake_at(taker.next_due_ms)

    def _choose_group_taker(self) -> None:
        """Let one peer have the groups of a shared subscription without consumers here, or they would wait for ever.

        All nodes without consumers choose the same one, so each of their groups has one consumer. Groups of anycast
        queues stay where they were sent.
        """
        peer: Peer | None = None
        if self.is_shared and self.takers and self.alone_since_ms >= 0:
            peer = min(self.takers, key=_node_id)
        if peer is not self.group_taker:
            self.group_taker = peer
            if peer is not None:
                self.takers[peer].examine_again()

    def _note_consumers(self, now_ms: int) -> None:
        if self.own_consumers():
            self.alone_since_ms = -1
        elif self.alone_since_ms < 0:
            self.alone_since_ms = now_ms


def _node_id(peer: "Peer") -> str:
    return peer.node_id
