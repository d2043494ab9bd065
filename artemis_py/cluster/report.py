"""What an operator wants to know of a mesh: who is connected, and why messages wait where they are."""

from typing import TYPE_CHECKING, Final

from attrs import frozen

from artemis_py.cluster.local_queue import LocalQueue
from artemis_py.cluster.peer import PeerState
from artemis_py.cluster.placement import SPREAD, is_kept_subscription, kind_of
from artemis_py.cluster.records import VERSION
from artemis_py.cluster.remains import Rest, rest_of
from artemis_py.core.settings.cluster_config import LoadBalancing
from artemis_py.errors import InvalidRequest

if TYPE_CHECKING:
    from artemis_py.cluster.mesh import Mesh

STRANDED_MS: Final = 5_000
"""Time for which a message may wait although a consumer elsewhere has room for it."""

SAMPLE: Final = 500
"""Messages of a queue that are looked at: those in memory, from the head."""


@frozen
class MemberStatus:
    """One member of a mesh, as this broker sees it."""

    node_id: str
    name: str
    state: str
    """`up`, `suspect`, a state on the way there, `away`; `draining`, `empty` or `left` for one that is leaving."""
    urls: tuple[str, ...]
    claimed: int
    """Messages on their way to it; while it is away they are in doubt."""
    waiting: int
    """Messages that wait for it: copies for its subscriptions, and its turns with STRICT."""
    handed_over: int
    taken: int
    """Messages that it has taken, and given, since it was connected."""
    resyncs: int
    """Times that tables differed; must be 0."""
    since_ms: int
    """Time since which it is connected, in milliseconds since 1970; 0 while it is not."""
    is_dialled: bool
    """Whether this broker made the connection."""
    version: int
    """Version of the mesh that it speaks; 0 while it is away."""
    clock_difference_ms: int
    """How far its clock was ahead of this broker's at its hello, with the time that the hello took."""


@frozen
class OwnStatus:
    """What this broker is doing in its mesh."""

    cluster: str
    node_id: str
    name: str
    state: str
    """`stays`, or how far a drain is: `draining`, `empty`, `left`."""
    incarnation: int
    handed_over: int
    taken: int
    """Messages that others have taken, and given, since the start."""
    drained: int
    """Messages that others have taken since the drain began."""
    clients: int
    """Clients that are connected, without those that operate the broker."""
    remaining: int
    """Messages that are left; only counted during a drain."""
    rest: tuple[Rest, ...]
    """Queues that have them, and what keeps them; only during a drain, and the first `MOST_RESTS`."""


def members_of(mesh: "Mesh") -> list[MemberStatus]:
    """Return all known members but this broker."""
    found: list[MemberStatus] = []
    for member in mesh.members.values():
        peer = mesh.peers.get(member.node_id)
        state = "away"
        if peer is not None:
            state = "suspect" if peer.is_suspect else peer.state.value
            leaving = mesh.departures.leaving.get(member.node_id)
            if leaving is not None and state == "up":
                state = leaving.word
        forward = mesh.forward_to(member.node_id).queue
        found.append(
            MemberStatus(
                node_id=member.node_id,
                name=member.name,
                state=state,
                urls=member.urls,
                claimed=mesh.channels.claimed_for(member.node_id),
                waiting=0 if forward is None else forward.message_count,
                handed_over=0 if peer is None else peer.handed_over,
                taken=0 if peer is None else peer.taken,
                resyncs=0 if peer is None else peer.resyncs,
                since_ms=0 if peer is None else peer.visit.since_ms,
                is_dialled=peer is not None and peer.is_dialled,
                version=0 if peer is None or peer.hello is None else peer.hello.version,
                clock_difference_ms=0 if peer is None else peer.visit.clock_difference_ms,
            )
        )
    return found


def own_status(mesh: "Mesh", clients: int) -> OwnStatus:
    """Return what this broker is doing; `clients` is the number of its clients."""
    drain = mesh.departures.drain
    count, rest = (0, ()) if drain is None else rest_of(mesh)
    return OwnStatus(
        cluster=mesh.config.name,
        node_id=mesh.node_id,
        name=mesh.node_name,
        state=mesh.departures.parting.word,
        incarnation=mesh.incarnation,
        handed_over=mesh.handed_over,
        taken=mesh.taken,
        drained=0 if drain is None else drain.moved,
        clients=clients,
        remaining=count,
        rest=rest,
    )


def topology(mesh: "Mesh") -> dict[str, object]:
    """Return the brokers of the mesh and which of them see each other, as far as this broker has heard."""
    own = {"nodeID": mesh.node_id, "name": mesh.node_name, "urls": list(mesh.urls), "version": VERSION}
    nodes = [
        own
        | {"state": "here", "sees": sorted(peer.node_id for peer in mesh.peers.values() if peer.state is PeerState.UP)}
    ]
    for status in members_of(mesh):
        sight = mesh.departures.sights.get(status.node_id)
        nodes.append(
            {
                "nodeID": status.node_id,
                "name": status.name,
                "urls": list(status.urls),
                "version": status.version,
                "state": status.state,
                # What it said last; None: it has never said, or is not connected with this broker.
                "sees": None if sight is None else sorted(sight),
            }
        )
    return {"mesh": mesh.config.name, "nodes": nodes}


def explain(mesh: "Mesh", name: str) -> list[str]:
    """Return why messages of a queue wait here, a sentence for each reason."""
    local = mesh.local(name)
    if local is None:
        known = mesh.domain.queues.get(name)
        if known is None:
            return [f"there is no queue '{name}' here"]
        if is_kept_subscription(mesh, known):
            return ["this subscription is not shared: what is published elsewhere comes here as copies, and stays"]
        return ["the mesh does not have this queue: see scope"]
    queue = local.queue
    found = _kept(mesh, local)
    if local.placement != SPREAD:
        return found
    if mesh.shells.is_shell(name):
        found.append("clients of other brokers share this subscription, and none of this one's: it collects for them")
    if mesh.config.load_balancing is LoadBalancing.OFF and not local.is_shared:
        found.append("message-load-balancing is OFF: messages stay where they were sent")
    if queue.paused or queue.address.paused:
        found.append("the queue or its address is paused")
    for member in members_of(mesh):
        if member.claimed and member.state != "up":
            found.append(f"{member.claimed} messages of all queues are in doubt until '{member.name}' is back")
    if not local.takers and local.moves:
        found.append("no other broker has a consumer for it")
    for peer, taker in local.takers.items():
        wanted = local.wanted_by(taker, SAMPLE)
        if not wanted:
            version = "" if peer.has_bulk else ", or cannot take it: its version knows no large messages"
            found.append(f"{peer.label} wants none of what waits{version}")
        elif taker.unused <= 0:
            found.append(f"{peer.label} has a consumer for {wanted} of what waits, and no room")
        elif not peer.may_claim:
            found.append(f"{peer.label} is slow, or silent: its connection takes no more now")
        elif taker.has_refused:
            found.append(f"{peer.label} had no room for a large message, and is asked again after a while")
        elif local.wanted_by(taker, SAMPLE, may_rest=False) < wanted:
            found.append(
                f"some of what waits has moved often, and waits up to a minute before it moves to {peer.label}"
            )
        elif local.is_stuck(taker):
            found.append(f"redistribution-delay keeps {wanted} messages from {peer.label}")
    return found


def _kept(mesh: "Mesh", local: LocalQueue) -> list[str]:
    """Return which instances of a queue keep their messages, here or elsewhere, and whom that leaves without."""
    queue = local.queue
    found: list[str] = []
    if local.placement != SPREAD:
        found.append(f"a queue that {kind_of(queue)} needs one broker: messages stay where they were sent")
    for peer in mesh.peers.values():
        remote = peer.remotes.find(queue.address.name, queue.name)
        if remote is not None and local.placement != SPREAD and remote.demand.consumers:
            found.append(f"{remote.demand.consumers} consumers at {peer.label} get nothing of it")
        elif remote is not None and local.placement == SPREAD and remote.instance.placement != SPREAD:
            found.append(f"what {peer.label} has of it stays there: its queue of this name needs one broker")
    return found


@frozen
class Share:
    """What one other broker has to do with a queue of this one."""

    name: str
    node_id: str
    has_queue: bool
    is_kept: bool
    """Whether its queue of this name needs one broker, so that messages stay there."""
    consumers: int
    granted: int
    """Messages that it would take now."""
    handed_over: int
    taken: int
    """Messages of the queue that went there, and came from there, since it was connected."""
    last_taken_ms: int
    """Time at which the last one came; 0: none did."""


def shares(mesh: "Mesh", name: str) -> list[Share]:
    """Return where messages of a queue went, and where they came from. Raises InvalidRequest if it is not shared."""
    local = mesh.local(name)
    if local is None:
        raise InvalidRequest(f"the mesh has no queue '{name}' at this broker")
    queue = local.queue
    wall_ahead_ms = mesh.now_ms - mesh.dispatcher.steady_ms
    found: list[Share] = []
    for peer in mesh.peers.values():
        remote = peer.remotes.find(queue.address.name, name)
        told = peer.telling.told_of(local)
        found.append(
            Share(
                name="" if peer.hello is None else peer.hello.node_name,
                node_id=peer.node_id,
                has_queue=remote is not None,
                is_kept=remote is not None and remote.instance.placement != SPREAD,
                consumers=0 if remote is None else remote.demand.consumers,
                granted=0 if remote is None else max(remote.granted - remote.handed, 0),
                handed_over=0 if remote is None else remote.handed,
                taken=0 if told is None else told.received,
                last_taken_ms=0 if told is None or not told.received else wall_ahead_ms + told.received_ms,
            )
        )
    return found


def stranded(mesh: "Mesh", steady_ms: int) -> int:
    """Return how many messages wait although a consumer at a broker that is up has had room for them for 5 s.

    At most `SAMPLE` of a queue are counted. Asked again and again, because what is stuck now may move in a moment. Only
    queues that peers take from are looked at: most queues have no consumers there.
    """
    count = 0
    seen, mesh.stuck = mesh.stuck, {}
    for local in dict.fromkeys([local for peer in mesh.peers.values() for local in peer.taking]):
        stuck = _stuck(local)
        if stuck:
            since_ms = mesh.stuck[local] = seen.get(local, steady_ms)
            if steady_ms - since_ms >= STRANDED_MS:
                count += stuck
    return count


def _stuck(local: LocalQueue) -> int:
    queue = local.queue
    if not queue.waiting_count or queue.paused or queue.address.paused:
        return 0
    for peer, taker in local.takers.items():
        if peer.state is PeerState.UP and taker.unused > 0:
            wanted = local.wanted_by(taker, SAMPLE, may_rest=False)
            if wanted:
                return wanted
    return 0
