"""Members that leave a mesh: those that are being drained, and those that an operator forgets (mesh §5.7, §7.3).

    records   mesh-forgotten, id of the node   ->   u64 number of its starts, u64 time of the forgetting

A node that is being drained tells its peers, which give it nothing more. It offers the rest of each queue to one peer,
and that peer grants room for it without a consumer (`drain`). When nothing is left it says so, and the peers forget it.

A forgotten node is remembered for a week, so that a member that was away then does not name it again. Its marks are
kept as long: if it comes back after all, they tell what it had handed over.
"""

from collections import deque
from collections.abc import Callable, Iterator
from struct import Struct
from typing import TYPE_CHECKING, Final

from artemis_py.cluster.drain import Drain, Parting
from artemis_py.cluster.events import DrainChanged, MemberForgotten, PeerParting
from artemis_py.cluster.hello import SIGHT
from artemis_py.cluster.local_queue import LocalQueue
from artemis_py.cluster.members import MAX_MEMBERS, KnownMember
from artemis_py.cluster.peer import PeerState
from artemis_py.cluster.records import Forgotten, Leaving, Offer, Record, Sees, SharedInstance, Sight
from artemis_py.core.runtime.carrier import PeerRefused
from artemis_py.errors import InvalidRequest, ProtocolError

if TYPE_CHECKING:
    from artemis_py.cluster.mesh import Mesh
    from artemis_py.cluster.peer import Peer

FORGOTTEN: Final = "mesh-forgotten"
"""Space of the records of forgotten nodes."""

KEPT_MS: Final = 7 * 24 * 3600 * 1000
"""Time for which a forgotten node is remembered: a member may be away so long."""
MAX_FORGOTTEN: Final = 1000
"""Forgotten nodes that are remembered; peers may name any number."""

QUEUES_PER_TURN: Final = 500
"""Queues that are looked at in one iteration when a drain begins or ends."""

LEFT: Final = "it has left the mesh"
"""Reason with which the connection to a node ends that has said so."""

_RECORD: Final = Struct(">QQ")


class Departures:
    """The nodes that are leaving: this one, or others."""

    def __init__(self, mesh: "Mesh") -> None:
        self.drain: Drain | None = None
        """The drain of this node; None if it stays."""
        self.on_parting: Callable[[Parting], None] = _ignore
        """Told how far this node is, to let clients in or not, and to dial or not."""
        self.leaving: Final[dict[str, Parting]] = {}
        """Other nodes that are leaving, by id."""
        self.sights: Final[dict[str, frozenset[str]]] = {}
        """Ids of the nodes that each peer is connected with, as it has said."""
        self._mesh: Final = mesh
        self._forgotten: Final[dict[str, tuple[int, int]]] = {}
        """Number of starts, and time, by the id of the node."""
        self._released: Final[set[str]] = set()
        """Nodes that have forgotten this one, because it has left."""
        self.to_review: Final[deque[Iterator[LocalQueue]]] = deque()

    # -- facts -------------------------------------------------------------------------------------------------

    @property
    def parting(self) -> Parting:
        """How far this node is."""
        return Parting.STAYS if self.drain is None else self.drain.parting

    @property
    def is_reviewing(self) -> bool:
        """Whether queues are still to be looked at."""
        return bool(self.to_review)

    def load(self) -> None:
        """Read what an earlier run left."""
        for key, value in self._mesh.storage.load_records(FORGOTTEN):
            if len(value) == _RECORD.size:
                incarnation, since_ms = _RECORD.unpack(value)
                self._forgotten[key.decode(errors="replace")] = incarnation, since_ms
        self._end_old()

    def introduction(self, peer: "Peer") -> list[Record]:
        """Return what a peer is told of other nodes, and of this one's plans, at the begin of a snapshot."""
        told: list[Record] = [Forgotten(id, *facts) for id, facts in self._forgotten.items() if id != peer.node_id]
        told += [each.record for each in self._mesh.members.values() if each.node_id != peer.node_id]
        if self.drain is not None:
            told.append(Leaving(self.parting))
        told.append(self._sees())
        return told

    def is_forgotten(self, node_id: str) -> bool:
        """Tell whether a node is to be named by nobody but itself."""
        return node_id in self._forgotten

    # -- this node ---------------------------------------------------------------------------------------------

    def begin(self) -> None:
        """Drain this node. Raises InvalidRequest if that is being done."""
        mesh = self._mesh
        if self.drain is not None:
            raise InvalidRequest("this broker is being drained already")
        self.drain = Drain(mesh)
        for forward in mesh.forwards():
            if forward.node_id not in mesh.peers:
                forward.give_back()
        self.changed()
        self.review()

    def end(self) -> None:
        """Have this node stay after all. Raises InvalidRequest if it is not being drained."""
        if self.drain is None:
            raise InvalidRequest("this broker is not being drained")
        self.drain.stop()
        self.drain = None
        self.changed()
        self.review()

    def changed(self) -> None:
        """Tell everybody how far this node is."""
        mesh = self._mesh
        for peer in mesh.peers.values():
            peer.tell(Leaving(self.parting))
        remaining = 0 if self.drain is None else self.drain.remaining()
        mesh.domain.events.emit(DrainChanged(mesh.config.name, self.parting.word, remaining))
        self.on_parting(self.parting)

    def review(self) -> None:
        """Look at all queues, some in each iteration."""
        self.to_review.append(self._mesh.locals())

    def step(self) -> bool:
        """Look at some queues; True: there are more."""
        for _ in range(QUEUES_PER_TURN):
            if not self.to_review:
                return False
            local = next(self.to_review[0], None)
            if local is None:
                self.to_review.popleft()
            elif not local.is_closed:
                local.news()
        return True

    # -- connections -------------------------------------------------------------------------------------------

    def check(self, node_id: str) -> None:
        """Raise PeerRefused if this node has left, unless a node dials it that has something to settle with it."""
        if self.parting is Parting.LEFT and (not node_id or node_id in self._released):
            raise PeerRefused("this broker has left the mesh; it joins again when it is started again")

    def admitted(self, node_id: str) -> None:
        """Note that a node has come itself: it stays unless it says otherwise, and is no longer forgotten."""
        self.leaving.pop(node_id, None)
        self._mesh.nodes.changed()
        if self._forgotten.pop(node_id, None) is not None:
            self._mesh.storage.save_record(FORGOTTEN, node_id.encode(), None)

    def _sees(self) -> Sees:
        return Sees(tuple(sorted([id for id, peer in self._mesh.peers.items() if peer.state is PeerState.UP])))

    def _tell_sight(self, node_id: str) -> None:
        """Tell whether this node is connected with another one now.

        A broker of an earlier version is told of all connections: with a hundred nodes, to tell everybody of them
        whenever one comes or goes was most of what a node that joins did cost the others.
        """
        current = self._mesh.peers.get(node_id)
        change = Sight(node_id, int(current is not None and current.state is PeerState.UP))
        for peer in self._mesh.peers.values():
            knows = peer.hello is not None and SIGHT in peer.hello.features
            peer.tell(change if knows else self._sees())

    def peer_up(self, peer: "Peer") -> None:
        """Note that there is one more peer to give messages to."""
        self._tell_sight(peer.node_id)
        if self.drain is not None:
            self.review()

    def peer_lost(self, peer: "Peer", was_up: bool, reason: str) -> None:
        """Note that a connection ended."""
        if self.parting is Parting.LEFT and LEFT in reason:
            self._released.add(peer.node_id)
        if self.drain is not None:
            self._mesh.forward_to(peer.node_id).give_back()
            self.review()
        if peer.node_id not in self._mesh.peers:
            self.sights.pop(peer.node_id, None)
        if was_up:
            self._tell_sight(peer.node_id)
        self._end_left(peer.node_id)

    def confirmed(self, peer: "Peer") -> None:
        """Note that a peer has confirmed messages: one that has left may have been waited for."""
        if self.leaving.get(peer.node_id) is Parting.LEFT:
            self._end_left(peer.node_id)

    # -- what peers say ----------------------------------------------------------------------------------------

    def heard(self, peer: "Peer", record: Record) -> None:
        """Process what a peer says about those that leave. Raises ProtocolError."""
        match record:
            case Leaving(state):
                if state not in list(Parting):
                    raise ProtocolError(f"the peer leaves in an unknown way: {state}")
                self._plans(peer, Parting(state))
            case Offer(address, queue, is_offered):
                self._offered(peer, address, queue, bool(is_offered))
            case Sees(node_ids):
                self.sights[peer.node_id] = frozenset((node_ids or ())[:MAX_MEMBERS])
            case Sight(node_id, is_seen):
                sight = self.sights.get(peer.node_id, frozenset()) - {node_id}
                if is_seen and len(sight) < MAX_MEMBERS:
                    sight |= {node_id}
                self.sights[peer.node_id] = sight
            case Forgotten(node_id, incarnation, since_ms):
                self._told_forgotten(node_id, incarnation, since_ms)
            case _:
                raise ProtocolError(f"record {record.number} has no meaning here")

    def _plans(self, peer: "Peer", parting: Parting) -> None:
        mesh = self._mesh
        before = self.leaving.pop(peer.node_id, Parting.STAYS)
        if parting is not Parting.STAYS:
            self.leaving[peer.node_id] = parting
        mesh.nodes.changed()
        peer.visit.is_leaving = parting is not Parting.STAYS
        if parting is before:
            return
        name = "" if peer.hello is None else peer.hello.node_name
        mesh.domain.events.emit(PeerParting(mesh.config.name, peer.node_id, name, parting.word))
        if parting is Parting.STAYS:
            peer.visit.offers = {}
            self.review()
        else:
            mesh.forward_to(peer.node_id).give_back()
        self._end_left(peer.node_id)

    def _offered(self, peer: "Peer", address: str, queue: str, is_offered: bool) -> None:
        """Let a peer hand over what is in one of its queues, or no longer."""
        mesh = self._mesh
        if not is_offered:
            peer.visit.offers.pop((address, queue), None)
        elif peer.remotes.find(address, queue) is None or not mesh.may_share(peer, address, queue):
            # It asks again when it has told of the queue, and finds another one if it may not share it.
            return
        else:
            peer.visit.offers[address, queue] = None
            self._make(peer, address, queue)
        local = mesh.local(queue)
        if local is not None:
            local.news()

    def _make(self, peer: "Peer", address: str, queue: str) -> None:
        """Create the queue for what a peer offers, if this broker does not have it."""
        mesh = self._mesh
        remote = peer.remotes.find(address, queue)
        if remote is None or queue in mesh.domain.queues:
            return
        instance = remote.instance
        if not isinstance(instance, SharedInstance):
            mesh.arrivals.make_shell(address, queue)
        elif instance.root:
            mesh.shells.make(instance)

    def _told_forgotten(self, node_id: str, incarnation: int, since_ms: int) -> None:
        mesh = self._mesh
        known = mesh.members.get(node_id)
        if node_id == mesh.node_id or node_id in mesh.peers or node_id in self._forgotten:
            return
        if known is not None and known.incarnation > incarnation:
            # It has been here since then.
            return
        if since_ms + KEPT_MS > mesh.now_ms and len(self._forgotten) < MAX_FORGOTTEN:
            self._remember(node_id, incarnation, since_ms)
            if known is not None:
                self._drop(known)

    def _end_left(self, node_id: str) -> None:
        """Forget a node that has left, if nothing is on its way to it."""
        mesh = self._mesh
        if self.leaving.get(node_id) is not Parting.LEFT or mesh.channels.claimed_for(node_id):
            return
        del self.leaving[node_id]
        mesh.nodes.changed()
        peer = mesh.peers.get(node_id)
        if peer is not None:
            peer.close(LEFT)
        if mesh.members.get(node_id) is not None:
            self.forget(node_id)

    # -- forgetting --------------------------------------------------------------------------------------------

    def forget(self, node_id: str) -> int:
        """Forget a member that will not come back; return how many messages were on their way to it.

        They are back at their places, marked as perhaps delivered: if the node has taken them and returns, they exist
        twice. What waited for it goes into queues of this broker. All members forget it. Raises InvalidRequest for a
        node that is not known, or is connected.
        """
        mesh = self._mesh
        member = mesh.members.get(node_id)
        if member is None:
            raise InvalidRequest(f"no member of mesh '{mesh.config.name}' has the id '{node_id}'")
        if node_id in mesh.peers:
            raise InvalidRequest(f"member '{member.name}' is connected: stop or drain it first")
        self._end_old()
        if len(self._forgotten) >= MAX_FORGOTTEN:
            raise InvalidRequest(f"{MAX_FORGOTTEN} members were forgotten within a week, which is the limit")
        self._remember(node_id, member.incarnation, mesh.now_ms)
        return self._drop(member)

    def _remember(self, node_id: str, incarnation: int, since_ms: int) -> None:
        mesh = self._mesh
        self._forgotten[node_id] = incarnation, since_ms
        mesh.storage.save_record(FORGOTTEN, node_id.encode(), _RECORD.pack(incarnation, since_ms))
        for peer in mesh.peers.values():
            peer.tell(Forgotten(node_id, incarnation, since_ms))

    def _drop(self, member: KnownMember) -> int:
        """End what this node has of a member."""
        mesh = self._mesh
        self.leaving.pop(member.node_id, None)
        in_doubt, returned = mesh.drop(member)
        mesh.members.forget(member)
        event = MemberForgotten(mesh.config.name, member.node_id, member.name, in_doubt, returned)
        mesh.domain.events.emit(event)
        return in_doubt

    def _end_old(self) -> None:
        """Forget for good those that were forgotten a week ago."""
        mesh = self._mesh
        for node_id, (_, since_ms) in list(self._forgotten.items()):
            if since_ms + KEPT_MS <= mesh.now_ms:
                del self._forgotten[node_id]
                mesh.storage.save_record(FORGOTTEN, node_id.encode(), None)
                mesh.marks.forget_all(node_id)


def _ignore(parting: Parting) -> None:
    pass
