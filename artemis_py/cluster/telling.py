"""What one peer is told about the queues of this broker: a snapshot, then what changes (mesh §5.4)."""

from typing import TYPE_CHECKING, Final

from artemis_py.cluster.interests import Announced
from artemis_py.cluster.local_queue import LocalQueue, Told
from artemis_py.cluster.records import Digest, Gone, Grant, Ready, Record, SnapshotEnd
from artemis_py.cluster.remote_queue import digest_of, digest_of_interest

if TYPE_CHECKING:
    from artemis_py.cluster.peer import Peer

QUEUES_PER_TURN: Final = 500
"""Queues that a peer is told of in one iteration: some 5 ms."""


class Telling:
    """What a peer was told, and what it is still to be told."""

    def __init__(self, peer: "Peer") -> None:
        self.is_snapshot: bool = False
        """Whether a snapshot is being told."""
        self._peer: Final = peer
        self._untold: Final[dict[int, LocalQueue | Announced]] = {}
        """Queues and subscriptions that the peer is to be told of, by id."""
        self._digest: int = 0
        self._count: int = 0

    def begin(self, queues: list[LocalQueue], interests: list[Announced]) -> None:
        """Tell everything, from the beginning."""
        self.is_snapshot = True
        self._count = self._digest = 0
        for local in queues:
            told = local.told.get(self._peer)
            if told is not None:
                told.instance = None
            self._untold[local.id] = local
        for announced in interests:
            announced.told.pop(self._peer, None)
            self._untold[announced.id] = announced

    def add(self, changed: LocalQueue | Announced) -> None:
        """Tell about a queue, or about subscriptions, at the end of this iteration."""
        self._untold[changed.id] = changed

    def clear(self) -> None:
        """Tell nothing more: the peer is gone."""
        self._untold.clear()

    @property
    def is_over(self) -> bool:
        """Whether the peer knows everything."""
        return not self._untold and not self.is_snapshot

    def digest(self) -> Digest:
        """Return what the peer must have, when it knows everything."""
        return Digest(self._count, self._digest)

    def compose(self, records: list[Record]) -> bool:
        """Add what is to be told in this iteration; return whether the snapshot ended."""
        for id in list(self._untold)[:QUEUES_PER_TURN]:
            changed = self._untold.pop(id)
            if isinstance(changed, Announced):
                self.tell_interest(records, changed)
            else:
                self.tell(records, changed)
        if not self.is_snapshot or self._untold:
            return False
        self.is_snapshot = False
        records.append(SnapshotEnd(self._count, self._digest))
        return True

    def tell(self, records: list[Record], local: LocalQueue) -> None:
        """Add what has changed about a queue since the peer was told last."""
        peer = self._peer
        if local.is_shared and not peer.has_copies:
            return
        told = local.told.get(peer)
        if local.is_closed:
            if told is not None:
                self._tell_gone(records, local, local.told.pop(peer))
            return
        if told is None:
            told = local.told[peer] = Told()
        instance, demand = local.instance(peer), local.demand_for(peer)
        if instance != told.instance or demand != told.demand:
            if told.instance is None:
                self._count += 1
            elif told.demand is not None:
                self._digest ^= digest_of(told.instance, told.demand)
            if instance != told.instance:
                records.append(instance)
            if demand != told.demand or told.instance is None:
                records.append(demand)
                local.changed()
            told.instance, told.demand = instance, demand
            self._digest ^= digest_of(instance, demand)
        total = told.next_grant()
        if total is not None:
            records.append(Grant(local.id, total))
        taker = local.takers.get(peer)
        if taker is not None and taker.is_ready != taker.remote.told_ready:
            taker.remote.told_ready = taker.is_ready
            records.append(Ready(taker.remote.instance.id, int(taker.is_ready)))

    def tell_interest(self, records: list[Record], announced: Announced) -> None:
        """Add what has changed about the subscriptions of an address."""
        peer = self._peer
        told = announced.told.get(peer)
        record = peer.mesh.interests.record_for(peer, announced)
        if record == told:
            return
        if told is not None:
            self._count -= 1
            self._digest ^= digest_of_interest(told)
        if record is None:
            announced.told.pop(peer, None)
            records.append(Gone(announced.id))
            return
        announced.told[peer] = record
        self._count += 1
        self._digest ^= digest_of_interest(record)
        records.append(record)

    def _tell_gone(self, records: list[Record], local: LocalQueue, told: Told) -> None:
        if told.instance is not None and told.demand is not None:
            self._count -= 1
            self._digest ^= digest_of(told.instance, told.demand)
            records.append(Gone(local.id))
