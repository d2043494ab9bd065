"""The queues of one peer, as it tells them on one connection (mesh §5.4).

A record replaces the one before it, a snapshot sweeps what it does not repeat, and a digest shows whether both sides
agree: nothing here can drift.
"""

from collections.abc import Iterator
from typing import Final

from artemis_py.cluster.placement import SPREAD
from artemis_py.cluster.record_codec import encode_one, hash_of
from artemis_py.cluster.records import Demand, Gone, Grant, Instance, Interest, SharedInstance
from artemis_py.errors import ProtocolError

MAX_QUEUES: Final = 2_000_000
"""Queues that one peer may tell of: twice of what a node of a large mesh has, some 2 GB."""
MAX_OCTETS: Final = 1 << 29
"""Octets of all that one peer may tell of them, and of its subscriptions: 250 for each of so many queues."""


class RemoteQueue:
    """One queue of a peer."""

    __slots__ = ("demand", "granted", "handed", "instance", "is_told", "told_ready")

    def __init__(self, instance: Instance) -> None:
        self.instance: Instance = instance
        self.demand: Demand = Demand(instance.id)
        self.granted: int = 0
        """Messages that may be handed over, counted from the begin of the connection."""
        self.handed: int = 0
        """Messages that were claimed for it since then."""
        self.told_ready: bool = False
        """Whether the peer was told that messages wait for a grant."""
        self.is_told: bool = True
        """Whether the running snapshot has repeated it."""

    @property
    def concerns_others(self) -> bool:
        """Whether other brokers have anything to do with it, besides knowing that it exists."""
        instance = self.instance
        return self.demand.consumers > 0 or instance.placement != SPREAD or isinstance(instance, SharedInstance)


class RemoteQueues:
    """What one peer has told on one connection."""

    def __init__(self) -> None:
        self._queues: Final[dict[int, RemoteQueue]] = {}
        self._ids: Final[dict[tuple[str, str], int]] = {}
        """Ids by address and queue."""
        self.interests: Final[dict[int, Interest]] = {}
        """What subscriptions want, by id."""
        self._untold: Final[dict[int, None]] = {}
        """Interests that the running snapshot has not repeated."""
        self.digest: int = 0
        self.count: int = 0
        self.max_octets: int = MAX_OCTETS
        """A peer that tells more is closed."""
        self._octets = 0

    def __iter__(self) -> Iterator[RemoteQueue]:
        return iter(list(self._queues.values()))

    def get(self, id: int) -> RemoteQueue | None:
        """Return the queue with this id."""
        return self._queues.get(id)

    def find(self, address: str, queue: str) -> RemoteQueue | None:
        """Return the queue of this name; None if the peer has none."""
        id = self._ids.get((address, queue))
        return None if id is None else self._queues[id]

    def begin(self) -> None:
        """Begin a snapshot."""
        for remote in self._queues.values():
            remote.is_told = False
        self._untold.update(dict.fromkeys(self.interests))

    def sweep(self) -> list[RemoteQueue]:
        """End a snapshot; return what it did not repeat, and is forgotten."""
        gone = [remote for remote in self._queues.values() if not remote.is_told]
        for remote in gone:
            self._remove(remote)
        return gone

    def sweep_interests(self) -> list[Interest]:
        """End a snapshot; return what subscriptions wanted, and is forgotten."""
        gone = [self.remove_interest(id) for id in list(self._untold)]
        self._untold.clear()
        return gone

    def add_interest(self, interest: Interest) -> None:
        """Note what subscriptions want. Raises ProtocolError."""
        known = self.interests.get(interest.id)
        if known is None:
            if len(self.interests) >= MAX_QUEUES:
                raise ProtocolError(f"the peer tells of more than {MAX_QUEUES} addresses with subscriptions")
        elif (known.node, known.pattern) != (interest.node, interest.pattern):
            raise ProtocolError(f"the peer gives the subscriptions of '{known.pattern}' another address")
        else:
            self.remove_interest(interest.id)
        self.interests[interest.id] = interest
        self._untold.pop(interest.id, None)
        self._note(encode_one(interest), 1)

    def remove_interest(self, id: int) -> Interest:
        """Forget what subscriptions wanted, and return it."""
        interest = self.interests.pop(id)
        self._note(encode_one(interest), -1)
        return interest

    def add(self, instance: Instance) -> RemoteQueue:
        """Note a queue, or what has changed about it. Raises ProtocolError."""
        remote = self._queues.get(instance.id)
        key = (instance.address, instance.queue)
        if remote is None:
            if len(self._queues) >= MAX_QUEUES:
                raise ProtocolError(f"the peer tells of more than {MAX_QUEUES} queues")
            if key in self._ids:
                raise ProtocolError(f"the peer has queue '{instance.queue}' twice")
            remote = self._queues[instance.id] = RemoteQueue(instance)
            self._ids[key] = instance.id
            self._count(remote)
            return remote
        if key != (remote.instance.address, remote.instance.queue):
            raise ProtocolError(f"the peer gives another name to queue '{remote.instance.queue}'")
        self._count(remote, -1)
        remote.instance = instance
        remote.is_told = True
        self._count(remote)
        return remote

    def set_demand(self, demand: Demand) -> RemoteQueue | None:
        """Note what the consumers of a queue want; None if there is no such queue. Raises ProtocolError."""
        remote = self._queues.get(demand.id)
        if remote is not None:
            self._count(remote, -1)
            remote.demand = demand
            self._count(remote)
        return remote

    def grant(self, grant: Grant) -> RemoteQueue | None:
        """Note how many messages may be handed over; None if there is no such queue."""
        remote = self._queues.get(grant.id)
        if remote is not None:
            remote.granted = grant.total
        return remote

    def remove(self, gone: Gone) -> RemoteQueue | None:
        """Forget a queue; None if there is none."""
        remote = self._queues.get(gone.id)
        if remote is not None:
            self._remove(remote)
        return remote

    def _remove(self, remote: RemoteQueue) -> None:
        self._count(remote, -1)
        del self._queues[remote.instance.id]
        del self._ids[remote.instance.address, remote.instance.queue]
        remote.demand = Demand(remote.instance.id)

    def _count(self, remote: RemoteQueue, difference: int = 1) -> None:
        self._note(encode_one(remote.instance) + encode_one(remote.demand), difference)

    def _note(self, octets: bytes, difference: int) -> None:
        """Count something that the peer has told (1), or tells no more (-1). Raises ProtocolError."""
        self.count += difference
        self.digest ^= hash_of(octets)
        self._octets += difference * len(octets)
        if difference > 0 and self._octets > self.max_octets:
            raise ProtocolError(f"the peer tells more than {self.max_octets} octets of queues and subscriptions")


def digest_of(instance: Instance, demand: Demand) -> int:
    """Return the part that a queue has in the digest."""
    return hash_of(encode_one(instance) + encode_one(demand))


def digest_of_interest(interest: Interest) -> int:
    """Return the part that the subscriptions of an address have in the digest."""
    return hash_of(encode_one(interest))
