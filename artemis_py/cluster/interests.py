"""What subscriptions of this broker want of messages that are published at other nodes, as peers are told it.

A queue that needs one broker, such as that of a durable subscription that is not shared, or of a subscriber without a
name, stays at its node. All such queues of one address are told as one interest: their selectors, and those of durable
queues among them. A message that is published elsewhere comes as one copy, and is put into each queue that wants it.

With `max-hops` above 1 a node also tells what it has heard, of each node from the nearest peer only.
"""

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Final

from artemis_py.cluster.patterns import Patterns
from artemis_py.cluster.placement import is_kept_subscription
from artemis_py.cluster.records import Interest, Texts
from artemis_py.core.messages.message import Message
from artemis_py.core.queues.queue import Queue

if TYPE_CHECKING:
    from artemis_py.cluster.mesh import Mesh
    from artemis_py.cluster.peer import Peer

NOBODY: Final[tuple[str, ...]] = ()


class Announced:
    """What the subscriptions of one address at one node want."""

    __slots__ = ("id", "is_gone", "node", "pattern", "queues", "told")

    def __init__(self, id: int, node: str, pattern: str) -> None:
        self.id: Final = id
        self.node: Final = node
        """Id of the node that has the subscriptions."""
        self.pattern: Final = pattern
        """Address of the subscriptions, which may have wildcards."""
        self.queues: Final[dict[Queue, None]] = {}
        """Queues of this broker's own subscriptions."""
        self.told: Final[dict[Peer, Interest]] = {}
        """What each peer was told last."""
        self.is_gone: bool = False
        """Whether there are no subscriptions any more."""


class Interests:
    """All that this broker tells of subscriptions."""

    def __init__(self, mesh: "Mesh") -> None:
        self._mesh: Final = mesh
        self._own: Final[dict[str, Announced]] = {}
        """Own subscriptions by address."""
        self._others: Final[dict[tuple[str, str], Announced]] = {}
        """Subscriptions of other nodes, by node and address."""
        self._patterns: Final[Patterns[Announced]] = Patterns(mesh.domain.options.wildcards)

    def announced(self) -> Iterator[Announced]:
        """Return everything that peers are told."""
        yield from list(self._own.values())
        yield from list(self._others.values())

    # -- own subscriptions ---------------------------------------------------------------------------------------

    def add(self, queue: Queue) -> None:
        """Tell what a queue wants, if it gets copies."""
        if not is_kept_subscription(self._mesh, queue):
            return
        pattern = queue.address.name
        own = self._own.get(pattern)
        if own is None:
            own = self._own[pattern] = Announced(self._mesh.next_id(), self._mesh.node_id, pattern)
            self._patterns.add(pattern, own)
        own.queues[queue] = None
        self._tell(own)
        self._mesh.announcements.begin()

    def remove(self, queue: Queue) -> None:
        """Tell that a queue wants nothing any more."""
        pattern = queue.address.name
        own = self._own.get(pattern)
        if own is None or queue not in own.queues:
            return
        del own.queues[queue]
        if not own.queues:
            del self._own[pattern]
            self._patterns.remove(pattern, own)
            own.is_gone = True
        self._tell(own)

    def review(self, queue: Queue) -> None:
        """Tell what has changed about a queue."""
        own = self._own.get(queue.address.name)
        if own is None or queue not in own.queues:
            self.add(queue)
        elif not is_kept_subscription(self._mesh, queue):
            self.remove(queue)
        else:
            self._tell(own)

    def queues_for(self, message: Message) -> list[Queue]:
        """Return the queues here that want a message which was published at another node."""
        found: list[Queue] = []
        for own in self._patterns.match(message.address):
            for queue in own.queues:
                if queue.filter is None or queue.filter.matches(message):
                    found.append(queue)
        return found

    # -- what others have told -----------------------------------------------------------------------------------

    def relay(self, node: str, pattern: str) -> None:
        """Tell peers on what a node wants, as far as `max-hops` allows; its nearest way may have changed."""
        if self._mesh.config.max_hops < 2:
            return
        key = (node, pattern)
        known = self._others.get(key)
        if self._mesh.elsewhere.nearest(node, pattern) is None:
            if known is not None:
                del self._others[key]
                known.is_gone = True
                self._tell(known)
            return
        if known is None:
            known = self._others[key] = Announced(self._mesh.next_id(), node, pattern)
        self._tell(known)

    # -- what peers are told ---------------------------------------------------------------------------------------

    def record_for(self, peer: "Peer", announced: Announced) -> Interest | None:
        """Return what a peer is told; None: it is not told of these subscriptions, or no longer."""
        if announced.is_gone or not peer.has_copies or not self._mesh.config.max_hops:
            return None
        if not peer.may_share(announced.pattern):
            return None
        if announced.node == self._mesh.node_id:
            wants = self._selectors(announced.queues)
            durable = self._selectors([queue for queue in announced.queues if queue.is_stored])
            return Interest(announced.id, announced.node, 1, announced.pattern, wants, durable)
        nearest = self._mesh.elsewhere.nearest(announced.node, announced.pattern)
        if nearest is None or nearest.via == peer.node_id or announced.node == peer.node_id:
            return None
        record = nearest.record
        if record.distance >= self._mesh.config.max_hops:
            return None
        return Interest(
            announced.id, announced.node, record.distance + 1, announced.pattern, record.wants, record.durable
        )

    def _selectors(self, queues: Iterable[Queue]) -> Texts:
        """Return the different selectors of some queues; None if one has none, or if they are too many to tell."""
        found: dict[str, None] = {}
        for queue in queues:
            if queue.filter is None:
                return None
            found[queue.filter.text] = None
            if len(found) > self._mesh.config.interest_detail:
                return None
        return tuple(sorted(found))

    def _tell(self, announced: Announced) -> None:
        for peer in self._mesh.peers.values():
            peer.tell_later(announced)
