"""One mesh that this broker belongs to: its peers, the queues it shares with them, the messages between them.

Messages stay where they arrived until a consumer at another node has room for them; then that node takes them over,
each exactly once (docs/mesh.md). This module combines the parts and has no state of its own about queues or messages.
"""

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from typing import Final
from uuid import UUID

from mypy_extensions import mypyc_attr

from artemis_py.cluster.announcements import Announcements
from artemis_py.cluster.arrivals import Arrivals
from artemis_py.cluster.channels import Channels
from artemis_py.cluster.chosen_names import ChosenNames
from artemis_py.cluster.departures import Departures
from artemis_py.cluster.duplicate_ids import DuplicateIds
from artemis_py.cluster.elsewhere import Elsewhere
from artemis_py.cluster.entry import check_age, check_connection, check_peer
from artemis_py.cluster.events import NotCopied, PeerDown, PeerUp, TablesDiffer
from artemis_py.cluster.hello import Hello
from artemis_py.cluster.interests import Interests
from artemis_py.cluster.lanes import Outgoing
from artemis_py.cluster.local_queue import LocalQueue
from artemis_py.cluster.marks import Marks
from artemis_py.cluster.members import KnownMember as KnownMember
from artemis_py.cluster.members import Members
from artemis_py.cluster.newcomers import Newcomers
from artemis_py.cluster.nodes import KnownNodes
from artemis_py.cluster.peer import Peer, PeerState
from artemis_py.cluster.placement import is_covered
from artemis_py.cluster.queue_news import QueueNews
from artemis_py.cluster.records import SharedInstance
from artemis_py.cluster.remote_queue import RemoteQueue
from artemis_py.cluster.retained_topics import RetainedTopics
from artemis_py.cluster.shells import Shells
from artemis_py.cluster.starts import load_starts, save_start
from artemis_py.cluster.strict import StoreAndForward
from artemis_py.cluster.temporaries import Temporaries
from artemis_py.core.messages.message import Message, MessageFormat
from artemis_py.core.queues.queue import Queue
from artemis_py.core.queues.storage import Storage
from artemis_py.core.queues.watching import TurnListener
from artemis_py.core.routing.domain import Domain
from artemis_py.core.runtime.carrier import PeerRefused
from artemis_py.core.settings.cluster_config import ClusterConfig, LoadBalancing

PASSES: Final = 3
"""Times that changed queues are looked at in one iteration, because looking at one may change another."""
LOOKS: Final = 1000
"""Queues that are looked at in one iteration: some 10 ms. After a start, or if a peer is lost, there may be many."""
MAX_REPORTED: Final = 1000
"""Addresses and reasons that are remembered, so that each is reported once."""


@mypyc_attr(allow_interpreted_subclasses=True)
class Mesh(TurnListener):
    """One `<cluster-connection>` of a broker."""

    def __init__(
        self,
        domain: Domain,
        config: ClusterConfig,
        node_id: str,
        node_name: str,
        formats: Mapping[str, MessageFormat],
        urls: tuple[str, ...] = (),
        clients: tuple[str, ...] = (),
    ) -> None:
        # What tests replace is not final: compiled, that would keep them from it.
        self.domain: Final = domain
        self.config: ClusterConfig = config
        self.node_id: str = node_id
        self.node_name: Final = node_name
        self.formats: Final = formats
        self.urls: Final = urls
        self.clients: Final = clients
        """Addresses of this broker for clients, as others are told."""
        self.storage: Final[Storage] = domain.storage
        self.dispatcher: Final = domain.dispatcher
        self.channels: Channels = Channels(self)
        self.marks: Marks = Marks(domain.storage)
        self.arrivals: Arrivals = Arrivals(self)
        self.peers: Final[dict[str, Peer]] = {}
        """Connections by node id, one for each node."""
        self.members: Final = Members(domain.storage, node_id)
        self.members.on_new = self._tell_member
        self.departures: Final = Departures(self)
        self.members.is_forgotten = self.departures.is_forgotten
        self.loads: Final[dict[str, int]] = {}
        """Number of clients of each node, as it said last."""
        self.dirty: deque[LocalQueue] = deque()
        """Queues that changed in this iteration."""
        self.claiming: list[Outgoing] = []
        """Lanes that messages were claimed for in this iteration."""
        self.handed_over: int = 0
        self.taken: int = 0
        """Messages that peers have confirmed, and that were taken from peers, in this run."""
        self.interests: Final = Interests(self)
        self.elsewhere: Elsewhere = Elsewhere(self)
        self.shells: Final = Shells(self)
        self.announcements: Final = Announcements(self)
        self.chosen_names: ChosenNames = ChosenNames(self)
        self.temporaries: Temporaries = Temporaries(self)
        self.duplicate_ids: Final = DuplicateIds(domain)
        self.newcomers: Newcomers = Newcomers(self)
        self.retained: RetainedTopics = RetainedTopics(self)
        self.incarnation: int = 0
        self.is_ready: bool = False
        """Whether this run is in the store, so that no other run will ever be taken for it."""
        self.run: Final = self.random_number()
        """A random number of this run."""
        self.runs: tuple[int, ...] = ()
        """Random numbers of the runs before it, the newest first."""
        self.connections: int = 0
        """Number of the last connection that was begun."""
        self._marked: dict[Peer, None] = {}
        """Peers that have something to tell."""
        self._locals: Final[dict[str, LocalQueue]] = {}
        self._by_id: Final[dict[int, LocalQueue]] = {}
        self._next_id = 1
        self.stuck: dict[LocalQueue, int] = {}
        """Queues in which `report.stranded` has last seen messages wait for no reason, and since when."""
        self.nodes: Final = KnownNodes()
        self.takes_large: Final[set[str]] = set()
        """Nodes that take large messages, by id."""
        self._forwards: Final[dict[str, StoreAndForward]] = {}
        """What waits for other nodes, by node id."""
        self.begun: list[StoreAndForward] = []
        """What has begun to wait for a node in this iteration, and is sent at its end."""
        self._reported: Final[set[tuple[str, str]]] = set()

    # -- start -------------------------------------------------------------------------------------------------

    def restore(self) -> int:
        """Find what an earlier run left; called once, when queues exist and nothing is delivered yet.

        Returns how many claimed messages are gone.
        """
        self.marks.load()
        missing = self.channels.load()
        self.members.load()
        self.departures.load()
        self.forwards()
        starts, self.runs = load_starts(self.storage)
        self.incarnation = starts + 1
        self.domain.companions.append(QueueNews(self))
        self.domain.undeliverable.node_name = self.node_name
        self.temporaries.install()
        self.domain.dispatcher.turn_listener = self
        self.shells.load()
        for queue in self.domain.queues.values():
            self.interests.add(queue)
            self._share(queue)
        self.elsewhere.load()
        self.domain.routers.remote = self.elsewhere
        self.domain.routers.remote_changed()
        return missing

    def start(self, on_ready: Callable[[], None]) -> None:
        """Begin; connections are allowed from when `on_ready` is called, because this run is in the store then."""
        save_start(self.storage, self.incarnation, (self.run, *self.runs))
        self.storage.when_durable(lambda: self._begin(on_ready))

    def _begin(self, on_ready: Callable[[], None]) -> None:
        self.is_ready = True
        on_ready()

    # -- facts -------------------------------------------------------------------------------------------------

    @property
    def now_ms(self) -> int:
        """Time in milliseconds since 1970, for what is stored or told. A span is measured by `dispatcher.steady_ms`."""
        return self.domain.dispatcher.now_ms

    @property
    def moves_messages(self) -> bool:
        """Whether messages of anycast queues are handed over at all."""
        moving = (LoadBalancing.ON_DEMAND, LoadBalancing.OFF_WITH_REDISTRIBUTION)
        return self.config.load_balancing in moving and self.config.max_hops > 0

    def next_id(self) -> int:
        """Return a new id of a queue or an interest."""
        self._next_id += 1
        return self._next_id - 1

    def not_copied(self, message: Message, reason: str) -> None:
        """Report that subscriptions of other nodes miss a message."""
        key = (message.address, reason)
        if key not in self._reported and len(self._reported) < MAX_REPORTED:
            self._reported.add(key)
            self.domain.events.emit(NotCopied(self.config.name, message.address, reason))

    def locals(self) -> Iterator[LocalQueue]:
        """Return the queues of this broker that peers know."""
        return iter(list(self._locals.values()))

    def local(self, name: str) -> LocalQueue | None:
        """Return the queue of this name, if peers know it."""
        return self._locals.get(name)

    def local_by_id(self, id: int) -> LocalQueue | None:
        """Return the queue that peers know under this id."""
        return self._by_id.get(id)

    def is_reserved(self, name: str) -> bool:
        """Tell whether an address or a queue is the broker's own."""
        options = self.domain.options
        own = ("$", "ActiveMQ.Advisory.", options.internal_naming_prefix, options.management_address)
        # Each broker reports for itself (as `$`, exactly the name: names below it are those of applications).
        is_report = name == options.management_notification_address
        return is_report or name in self.domain.reserved or name.startswith(own)

    def is_shared(self, address: str, queue: str) -> bool:
        """Tell whether the mesh may have a queue of this name."""
        return self.config.scope.covers(address) and not self.is_reserved(address) and not self.is_reserved(queue)

    def may_share(self, peer: Peer, address: str, queue: str) -> bool:
        """Tell whether a peer may hand over messages of a queue."""
        return self.is_shared(address, queue) and peer.may_share(address)

    # -- connections -------------------------------------------------------------------------------------------

    def connect(self, node_id: str = "") -> tuple[Hello, Peer]:
        """Return what this broker says on a new connection, and its listener; `node_id` is who has dialled, if anybody.

        Raises PeerRefused at the start, and when this broker has left.
        """
        if not self.is_ready:
            raise PeerRefused("this broker is starting")
        self.departures.check(node_id)
        self.connections += 1
        hello = Hello(
            cluster=self.config.name,
            node_id=self.node_id,
            node_name=self.node_name,
            incarnation=self.incarnation,
            run=self.run,
            runs=self.runs,
            connection=self.connections,
            now_ms=self.now_ms,
            load_balancing=self.config.load_balancing.value,
            max_hops=self.config.max_hops,
            scope=str(self.config.scope),
            urls=self.urls,
            clients=self.clients,
            formats=tuple(sorted(self.formats)),
        )
        return hello, Peer(self, self.connections)

    def admit(self, peer: Peer) -> None:
        """Let a peer in, and forget an older connection to it. Raises PeerRefused."""
        hello = peer.hello
        assert hello is not None
        check_peer(self, hello)
        current = self.peers.get(hello.node_id)
        if current is None:
            check_age(peer, self.channels.settled.get(hello.node_id, 0))
        else:
            check_connection(self, peer, current)
            current.close("another connection to this broker is newer", is_duplicate=True)
        self.departures.admitted(hello.node_id)
        peer.visit.clock_difference_ms = hello.now_ms - self.now_ms
        self.members.remember(KnownMember(hello.node_id, hello.node_name, hello.urls, hello.incarnation, hello.run))
        self.peers[hello.node_id] = peer

    def peer_up(self, peer: Peer) -> None:
        """Note that messages may go to a peer, and come from it."""
        assert peer.hello is not None
        peer.visit.since_ms = self.now_ms
        self.nodes.learn(peer.node_id, peer.remotes, peer.formats)
        (self.takes_large.add if peer.has_bulk else self.takes_large.discard)(peer.node_id)
        self.forward_to(peer.node_id).connected(peer)
        self.departures.peer_up(peer)
        self.temporaries.peer_up(peer)
        self.retained.tell_digests(peer)
        self.domain.events.emit(PeerUp(self.config.name, peer.node_id, peer.hello.node_name, peer.label))

    def peer_lost(self, peer: Peer, was: PeerState, reason: str) -> None:
        """Note that a connection ended."""
        if self.peers.get(peer.node_id) is peer:
            del self.peers[peer.node_id]
            self.forward_to(peer.node_id).disconnected()
            self.temporaries.peer_lost(peer)
            self.shells.peer_lost(peer.node_id)
            self.newcomers.peer_lost(peer)
            self.retained.peer_lost(peer)
        self._marked.pop(peer, None)
        if was is PeerState.UP and peer.hello is not None:
            in_doubt = peer.in_doubt
            name = peer.hello.node_name
            self.domain.events.emit(PeerDown(self.config.name, peer.node_id, name, reason, in_doubt))
        self.departures.peer_lost(peer, was is PeerState.UP, reason)

    def tables_differ(self, peer: Peer) -> None:
        """Report that what a peer has told is not what is known here."""
        self.domain.events.emit(TablesDiffer(self.config.name, peer.label))

    def mark(self, peer: Peer) -> None:
        """Have a peer told what there is to tell at the end of this iteration."""
        self._marked[peer] = None

    def close(self, reason: str) -> None:
        """End all connections."""
        for peer in list(self.peers.values()):
            peer.close(reason)

    # -- members -----------------------------------------------------------------------------------------------

    @property
    def on_member(self) -> Callable[[KnownMember], None]:
        """Function that is told of each node that is heard of, to dial it."""
        return self.members.on_member

    @on_member.setter
    def on_member(self, listener: Callable[[KnownMember], None]) -> None:
        self.members.on_member = listener

    def _tell_member(self, member: KnownMember) -> None:
        for peer in self.peers.values():
            if peer.node_id != member.node_id:
                peer.tell(member.record)

    def drop(self, member: KnownMember) -> tuple[int, int]:
        """End everything that is on its way to a member, or waits for it; return how many messages each is."""
        node_id = member.node_id
        count = self.channels.drop(node_id)
        self.nodes.forget(node_id)
        self.loads.pop(node_id, None)
        self.elsewhere.forget_peer(node_id)
        self.shells.forget_node(node_id)
        self.chosen_names.forget_node(node_id)
        forward = self.forward_to(node_id)
        waiting = forward.waiting_count
        forward.give_back(is_forgotten=True)
        return count, waiting

    # -- queues ------------------------------------------------------------------------------------------------

    def queue_created(self, queue: Queue) -> None:
        """Share a queue, or tell what it wants, if it is in scope; see `QueueNews`."""
        self.interests.add(queue)
        self._share(queue)
        local = self._locals.get(queue.name)
        if local is not None and local.is_shared:
            self.shells.created(queue)

    def queue_updated(self, queue: Queue) -> None:
        """Tell what a queue wants now; see `QueueNews`."""
        self.interests.review(queue)
        local = self._locals.get(queue.name)
        if local is not None:
            local.news()

    def _share(self, queue: Queue) -> None:
        if not is_covered(self, queue) or queue.name in self._locals:
            return
        local = LocalQueue(self, queue, self.next_id())
        self._locals[queue.name] = local
        self._by_id[local.id] = local
        for peer in self.peers.values():
            remote = peer.remotes.find(queue.address.name, queue.name)
            if remote is not None and peer.state is PeerState.UP and peer.may_share(queue.address.name):
                local.set_taker(peer, remote)

    def queue_removed(self, queue: Queue) -> None:
        """Tell peers that a queue is gone; see `QueueNews`."""
        self.interests.remove(queue)
        local = self._locals.get(queue.name)
        if local is not None and local.queue is queue:
            if local.is_shared:
                self.shells.removed(local)
            del self._locals[queue.name]
            del self._by_id[local.id]
            local.close()

    def granted(self, peer: Peer, remote: RemoteQueue) -> None:
        """Let a peer take more from a queue here."""
        if peer.state is not PeerState.UP:
            return
        local = self._locals.get(remote.instance.queue)
        taker = None if local is None else local.takers.get(peer)
        if local is not None and taker is not None and peer.may_share(remote.instance.address):
            local.stir_taker(taker)

    def demand_changed(self, peer: Peer, remote: RemoteQueue) -> None:
        """Let a peer take from a queue here as it wants to."""
        instance = remote.instance
        if not peer.may_share(instance.address):
            return
        local = self._locals.get(instance.queue)
        if isinstance(instance, SharedInstance) and local is not None and self.shells.is_outdated(local, instance):
            self.shells.drop(local, "its subscription was replaced at another broker")
            local = None
        if local is None and isinstance(instance, SharedInstance):
            if instance.root and self._may_make(instance.address, instance.queue):
                self.shells.make(instance)
                local = self._locals.get(instance.queue)
        elif local is None and self._passes_on(remote):
            self.arrivals.make_shell(instance.address, instance.queue)
            local = self._locals.get(instance.queue)
        if (
            local is not None
            and local.queue.address.name == instance.address
            and local.is_shared == isinstance(instance, SharedInstance)
        ):
            local.set_taker(peer, remote)

    def _passes_on(self, remote: RemoteQueue) -> bool:
        """Tell whether this broker stands between one that wants messages and others that have them."""
        return (
            remote.demand.consumers > 0
            and remote.demand.distance < self.config.max_hops
            and self._may_make(remote.instance.address, remote.instance.queue)
        )

    def _may_make(self, address: str, queue: str) -> bool:
        """Tell whether this broker may make a queue that another node has."""
        return self.config.max_hops > 0 and self.is_shared(address, queue)

    # -- what waits for a node -----------------------------------------------------------------------------------

    def forward_to(self, node_id: str) -> StoreAndForward:
        """Return what waits for a node."""
        found = self._forwards.get(node_id)
        if found is None:
            found = self._forwards[node_id] = StoreAndForward(self, node_id)
        return found

    def forwards(self) -> list[StoreAndForward]:
        """Return what waits for each node, as far as anything may."""
        for member in self.members.values():
            self.forward_to(member.node_id)
        return list(self._forwards.values())

    @property
    def is_forwarding(self) -> bool:
        """Whether anything is on its way to other nodes, or waits for one."""
        return any(each.claims for each in self.channels) or any(each.waiting_count for each in self._forwards.values())

    def go_on_forwarding(self, peer: Peer) -> None:
        """Send more of what waits for a peer."""
        forward = self._forwards.get(peer.node_id)
        if forward is not None:
            forward.refresh()

    # -- the end of an iteration -------------------------------------------------------------------------------

    def turn_ended(self) -> bool:
        """Work out what changed, tell peers, and store claims; see `TurnListener`."""
        if self.peers and self.domain.dispatcher.storage_failure is not None:
            self.close("the store of this broker has failed")
        if self.dirty or self._marked or self.claiming or self.begun or self.departures.to_review:
            return self._act()
        # Most iterations of a broker whose messages concern no other one end here.
        self._flushed()
        return False

    def _act(self) -> bool:
        """Work on what there is; True: there is more."""
        is_reviewing = self.departures.step()
        looks = LOOKS
        for _ in range(PASSES):
            count = min(len(self.dirty), looks)
            looks -= count
            for _ in range(count):
                local = self.dirty.popleft()
                local.is_dirty = False
                if not local.is_closed:
                    local.look()
        begun, self.begun = self.begun, []
        for forward in begun:
            forward.refresh()
        claiming, self.claiming = self.claiming, []
        for outgoing in claiming:
            outgoing.save_claims()
        marked, self._marked = self._marked, {}
        more = False
        for peer in marked:
            has_more = self.retained.compose(peer)
            if peer.flush() or has_more:
                more = True
                self._marked[peer] = None
        self._flushed()
        return more or is_reviewing or bool(self.dirty or self._marked)

    def _flushed(self) -> None:
        """Note that peers were told what has changed, unless there is more to look at."""
        if not self.dirty:
            self.announcements.flushed()
            self.newcomers.flushed()
        self.temporaries.flushed()

    def random_number(self) -> int:
        """Return a number that no other run and no other channel has."""
        return UUID(self.domain.entropy.uuid()).int >> 66
