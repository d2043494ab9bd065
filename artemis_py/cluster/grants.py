"""How many messages of a queue each peer may hand over now: grants (mesh §3.5).

The room of the consumers here is divided among the peers that know of them. A grant is told as a running total.
"""

from typing import TYPE_CHECKING, Final

from artemis_py.cluster.records import Demand, Instance

if TYPE_CHECKING:
    from artemis_py.cluster.local_queue import LocalQueue
    from artemis_py.cluster.peer import Peer

BUSY_MS: Final = 1000
"""Time after a message came for which its peer gets a share of the room, and not only a standing grant."""

MAX_GRANT: Final = 4000
"""Most messages of a queue that one peer may have on their way here, if its consumers have credit for so many. They are
on their way from before the commit of their claims, and a grant is told when half of the last one is used. With 1000,
one broker waited for the other most of the time."""

PACE_MS: Final = 20
"""Time between two looks at peers that have nothing to hand over, and before a grant is taken back."""


class Told:
    """What one peer was told about a queue, and what it has sent for it, since its connection began."""

    __slots__ = ("demand", "granted", "instance", "is_ready", "received", "received_ms", "share", "told_ms", "version")

    def __init__(self) -> None:
        self.instance: Instance | None = None
        self.demand: Demand | None = None
        self.granted: int = 0
        self.received: int = 0
        self.received_ms: int = 0
        """Time at which the last message came."""
        self.share: int = 0
        """Messages that the peer may have on their way here now."""
        self.is_ready: bool = False
        """Whether the peer has messages and waits for a grant."""
        self.version: int = 0
        """Version of the queue that the peer was told of (`LocalQueue.version`)."""
        self.told_ms: int = 0
        """Time at which the peer was told of a grant."""

    def is_due(self, now_ms: int) -> bool:
        """Tell whether the peer must hear of another grant.

        Small changes are not told: a peer asks for more when nothing is left, or is given more when half is used. That
        there is less room is not told at once: mostly there is room again a moment later.
        """
        unused = self.granted - self.received
        share = self.share
        if share == unused or (share < unused < 2 * share) or (share > unused > 0 and share < 2 * unused):
            return False
        return share > unused or now_ms >= self.told_ms + PACE_MS

    def next_grant(self, now_ms: int) -> int | None:
        """Return the running total that the peer is to be told; None if what it knows will do."""
        if not self.is_due(now_ms):
            return None
        self.granted = self.received + self.share
        self.told_ms = now_ms
        return self.granted


class Grants:
    """The grants of one queue of this broker."""

    def __init__(self, local: "LocalQueue") -> None:
        self.audience: Final[dict[Peer, Told]] = {}
        """Peers that know that there are consumers here; see `Telling.told_of` for all others."""
        self._local: Final = local
        self._busy: Final[dict[Peer, Told]] = {}
        """Peers that have messages and wait, or that have just sent some."""
        self._turn = 0
        """Which of them comes first when room is divided."""
        self._is_uneven = False
        """Whether other peers must be looked at."""
        self._quiet_share = 0
        """Messages that each of them may have on their way here."""
        self._divided_ms = 0
        """Time at which they were looked at."""
        self._waits_for_room = False

    # -- who knows of consumers here -----------------------------------------------------------------------------

    def join(self, peer: "Peer", told: Told) -> None:
        """Note that a peer knows of consumers here."""
        self.audience[peer] = told
        if told.is_ready:
            self._busy[peer] = told
        self._is_uneven = True
        self._local.changed()

    def leave(self, peer: "Peer", told: Told) -> None:
        """Note that a peer knows that there are no consumers here any more; its grant ends at once."""
        del self.audience[peer]
        told.share = told.told_ms = 0
        self._is_uneven = True
        self._local.changed()

    def lost(self, peer: "Peer") -> None:
        """Forget a peer whose connection has ended."""
        self.audience.pop(peer, None)
        self._busy.pop(peer, None)
        self._is_uneven = True

    def note_ready(self, peer: "Peer", is_ready: bool) -> None:
        """Note whether a peer has messages and waits for a grant."""
        told = peer.telling.told_of(self._local)
        if told is not None:
            told.is_ready = is_ready
            self._busy[peer] = told
            self._local.stir()

    def came_from(self, peer: "Peer", count: int) -> None:
        """Count messages that a peer has handed over."""
        told = peer.telling.told_of(self._local)
        if told is not None:
            told.received += count
            told.received_ms = self._local.queue.dispatcher.steady_ms
            self._busy[peer] = told
            self._local.stir()

    # -- room --------------------------------------------------------------------------------------------------

    def room(self) -> int:
        """Return how many messages the consumers of this broker could take now."""
        queue = self._local.queue
        if self._takes_nothing():
            return 0
        room = 0
        for consumer in self._local.own_consumers():
            if consumer.credit > 0 and not consumer.blocked and not consumer.is_closed and not consumer.is_starved:
                room += consumer.credit
        if queue.dispatch.awaits_store:
            # They have credit for these, and get them as soon as they are durable.
            room = max(room - queue.waiting_count, 0)
        return room

    def _passed_on(self, peer: "Peer") -> int:
        """Return how many messages other peers would take, if a peer may be told of that."""
        room = 0
        if self._local.mesh.config.max_hops > 1 and not self._takes_nothing():
            for other, taker in self._local.takers.items():
                if other is not peer and taker.demand.distance < self._local.mesh.config.max_hops:
                    room += max(taker.unused, 0)
        return room

    def _room_for(self, peer: "Peer", own_room: int) -> int:
        """Return how many messages a peer might hand over, if it were the only one."""
        if self._local.is_offered_by(peer):
            return MAX_GRANT if self._local.queue.enabled and not self._is_full() else 0
        return own_room + self._passed_on(peer)

    def _takes_nothing(self) -> bool:
        queue = self._local.queue
        return queue.paused or queue.address.paused or not queue.enabled or self._is_full()

    def _is_full(self) -> bool:
        address = self._local.queue.address
        dispatcher = self._local.queue.dispatcher
        if dispatcher.storage_failure is not None:
            return True
        is_full = address.must_wait or (address.account.is_full and not address.pages)
        if is_full and not self._waits_for_room:
            self._waits_for_room = True
            address.when_room(self._has_room)
        return is_full

    def _has_room(self) -> None:
        self._waits_for_room = False
        self._local.changed()

    def divide(self) -> bool:
        """Decide how many messages each peer may have on their way here, and have those told that must know.

        Peers that have messages and wait, or that have just sent some, share the room. The others have a few each, so
        that the first message of a quiet queue need not ask; all of these are looked at once in a while only, since
        each message that comes and goes here changes the room.

        Returns whether nothing of this must be known sooner than after `PACE_MS`.
        """
        if self._local.queue.dispatch.is_ready:
            # Its consumers are about to get more of what waits here: their room is not known before.
            return False
        if not self.audience:
            return True
        now_ms = self._local.queue.dispatcher.steady_ms
        own_room = self.room()
        busy = self._busy_peers(now_ms)
        self._turn = (self._turn + 1) % max(len(busy), 1)
        for index, peer in enumerate(busy):
            room = self._room_for(peer, own_room)
            # The rest of the division goes to the first in turn.
            share = room // len(busy) + (room % len(busy) if index == self._turn else 0)
            self._give(peer, min(share, MAX_GRANT), now_ms)
        quiet_share = min(self._standing_grant, own_room // len(self.audience))
        if self._is_uneven or self._is_special or quiet_share != self._quiet_share:
            if not self._is_uneven and now_ms < self._divided_ms + PACE_MS:
                self._local.wake_at(self._divided_ms + PACE_MS)
                return self._is_quiet
            self._is_uneven = False
            self._quiet_share = quiet_share
            self._divided_ms = now_ms
            for peer in self.audience:
                if peer not in self._busy:
                    share = self._quiet_share_of(peer, own_room) if self._is_special else quiet_share
                    self._give(peer, min(self._standing_grant, share), now_ms)
        return self._is_quiet

    def _quiet_share_of(self, peer: "Peer", own_room: int) -> int:
        """Return the room of a peer that has not asked, where peers have different room.

        With further hops none of them gets nothing while there is room: messages may wait behind it, and it has none
        itself, so it would never ask.
        """
        room = self._room_for(peer, own_room)
        share = room // len(self.audience)
        return 1 if not share and room > 0 and self._local.mesh.config.max_hops > 1 else share

    def _busy_peers(self, now_ms: int) -> list["Peer"]:
        found: list[Peer] = []
        for peer, told in list(self._busy.items()):
            if peer in self.audience and (told.is_ready or (told.received and now_ms < told.received_ms + BUSY_MS)):
                found.append(peer)
                if not told.is_ready:
                    self._local.wake_at(told.received_ms + BUSY_MS)
            else:
                del self._busy[peer]
                self._is_uneven = True
        return found

    def _give(self, peer: "Peer", share: int, now_ms: int) -> None:
        """Let a peer have so many messages on their way here."""
        told = self.audience[peer]
        told.share = share
        if told.is_due(now_ms):
            peer.tell_later(self._local)
        elif share < told.granted - told.received and now_ms < told.told_ms + PACE_MS:
            self._local.wake_at(told.told_ms + PACE_MS)

    @property
    def _is_quiet(self) -> bool:
        """Whether no peer waits for room or has just sent something, and all have the same room."""
        return not self._busy and not self._is_uneven and not self._is_special

    @property
    def _is_special(self) -> bool:
        """Whether peers may have different room: what others pass on, or what they offer."""
        mesh = self._local.mesh
        return mesh.config.max_hops > 1 or bool(mesh.departures.leaving)

    @property
    def _standing_grant(self) -> int:
        """Return what a peer may hand over that has not asked; one that stands between others cannot ask for them."""
        standing = self._local.mesh.config.standing_grant
        return max(standing, 1) if self._local.mesh.config.max_hops > 1 else standing
