"""What one peer is told about the queues of this broker: a snapshot, then what changes (mesh §5.4)."""

from collections.abc import Iterator
from itertools import chain, islice
from typing import TYPE_CHECKING, Final

from mypy_extensions import mypyc_attr

from artemis_py.cluster.chosen_names import OwnName
from artemis_py.cluster.grants import Told
from artemis_py.cluster.interests import Announced
from artemis_py.cluster.local_queue import LocalQueue
from artemis_py.cluster.records import Digest, Gone, Grant, Ready, Record, SnapshotEnd
from artemis_py.cluster.remote_queue import digest_of_interest

if TYPE_CHECKING:
    from artemis_py.cluster.peer import Peer

QUEUES_PER_TURN: Final = 500
"""Queues that a peer is told of in one iteration: some 5 ms."""


@mypyc_attr(allow_interpreted_subclasses=True)
class Telling:
    """What a peer was told, and what it is still to be told."""

    def __init__(self, peer: "Peer") -> None:
        self.is_snapshot: bool = False
        """Whether a snapshot is being told."""
        self._peer: Final = peer
        self.audience: Final[dict[LocalQueue, None]] = {}
        """Queues of which the peer knows that they have consumers."""
        self._told: dict[LocalQueue, Told] = {}
        """What the peer knows of each queue."""
        self._untold: Final[dict[int, LocalQueue | Announced | OwnName]] = {}
        """Queues, subscriptions and names that have changed, by id."""
        self._rest: Iterator[LocalQueue | Announced | OwnName] | None = None
        """What of a snapshot the peer is still to be told."""
        self._digest: int = 0
        self._count: int = 0

    def begin(self, queues: list[LocalQueue], interests: list[Announced], names: list[OwnName]) -> None:
        """Tell everything, from the beginning."""
        self.is_snapshot = True
        self._count = self._digest = 0
        for told in self._told.values():
            told.instance = None
        for announced in interests:
            announced.told.pop(self._peer, None)
        self._rest = chain(queues, interests, names)

    def add(self, changed: LocalQueue | Announced | OwnName) -> None:
        """Tell about a queue, subscriptions, or a name, at the end of this iteration."""
        self._untold[changed.id] = changed

    def clear(self) -> None:
        """Tell nothing more: the peer is gone."""
        self._untold.clear()
        self._rest = None
        self._told = {}
        self.audience.clear()

    def told_of(self, local: LocalQueue) -> Told | None:
        """Return what the peer knows of a queue."""
        return self._told.get(local)

    @property
    def is_over(self) -> bool:
        """Whether the peer knows everything."""
        return not self._untold and not self.is_snapshot

    def digest(self) -> Digest:
        """Return what the peer must have, when it knows everything."""
        return Digest(self._count, self._digest)

    def compose(self, records: list[Record]) -> bool:
        """Add what is to be told in this iteration; return whether the snapshot ended."""
        batch = [self._untold.pop(id) for id in list(islice(self._untold, QUEUES_PER_TURN))]
        if self._rest is not None and len(batch) < QUEUES_PER_TURN:
            batch += islice(self._rest, QUEUES_PER_TURN - len(batch))
            if len(batch) < QUEUES_PER_TURN:
                self._rest = None
        for changed in batch:
            if isinstance(changed, Announced):
                self.tell_interest(records, changed)
            elif isinstance(changed, OwnName):
                record = changed.record_for(self._peer)
                if record is not None:
                    records.append(record)
            else:
                self.tell(records, changed)
        if not self.is_snapshot or self._untold or self._rest is not None:
            return False
        self.is_snapshot = False
        records.append(SnapshotEnd(self._count, self._digest))
        return True

    def tell(self, records: list[Record], local: LocalQueue) -> None:
        """Add what has changed about a queue since the peer was told last."""
        peer = self._peer
        if local.is_shared and not peer.has_copies:
            return
        told = self._told.get(local)
        if local.is_closed:
            if told is not None:
                self._tell_gone(records, local, self._told.pop(local))
            return
        if told is None:
            told = self._told[local] = Told()
        if told.version != local.version or told.instance is None:
            told.version = local.version
            self._tell_demand(records, local, told)
        total = told.next_grant(peer.mesh.dispatcher.steady_ms)
        if total is not None:
            records.append(Grant(local.id, total))
        taker = local.takers.get(peer)
        if taker is not None and taker.is_ready != taker.remote.told_ready:
            taker.remote.told_ready = taker.is_ready
            records.append(Ready(taker.remote.instance.id, int(taker.is_ready)))

    def _tell_demand(self, records: list[Record], local: LocalQueue, told: Told) -> None:
        """Add the queue itself and what its consumers want, if the peer does not know that."""
        instance, demand = local.instance(self._peer), local.demand_for(self._peer)
        if instance == told.instance and demand == told.demand:
            return
        if told.instance is None:
            self._count += 1
        elif told.demand is not None:
            self._digest ^= local.digest(told.instance, told.demand)
        self._digest ^= local.digest(instance, demand)
        if instance != told.instance:
            records.append(instance)
        # A queue that is new to the peer has no demand before it is told of one.
        if demand != told.demand and (told.demand is not None or demand.wants):
            records.append(demand)
        told.instance, told.demand = instance, demand
        if demand.consumers:
            self.audience[local] = None
            local.grants.join(self._peer, told)
        elif local in self.audience:
            del self.audience[local]
            local.grants.leave(self._peer, told)

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
            self._digest ^= local.digest(told.instance, told.demand)
            self.audience.pop(local, None)
            records.append(Gone(local.id))
