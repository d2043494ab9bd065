"""A mesh of brokers in one thread: time is a heap of planned calls, and nothing else makes anything happen."""

from collections.abc import Callable
from heapq import heappop, heappush
from pathlib import Path

from artemis_py.cluster.envelope import Envelope
from artemis_py.cluster.events import ChannelGap, TablesDiffer
from artemis_py.cluster.mesh import Mesh
from artemis_py.cluster.peer import PeerState
from artemis_py.cluster.placement import is_kept_subscription
from artemis_py.cluster.report import stranded
from artemis_py.core.queues.queue import Queue
from artemis_py.core.routing.domain import Domain
from artemis_py.core.settings.address_settings import AddressSettings
from artemis_py.core.settings.cluster_config import ClusterConfig
from tests.cluster.clients import SimConsumer, send
from tests.cluster.keyed import Keyed
from tests.cluster.ledger import Ledger
from tests.cluster.network import Link
from tests.cluster.node import Node, make_mesh
from tests.core_harness import START_MS

LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
"""Names of the first nodes."""

MeshMaker = Callable[[Domain, ClusterConfig, str, str], Mesh]


class Simulation:
    """Some nodes, their network, and what their clients were promised."""

    def __init__(self, seed: int, folder: Path, maker: MeshMaker = make_mesh) -> None:
        self.keyed = Keyed(seed)
        self.folder = folder
        self.make_mesh = maker
        self.now: float = float(START_MS)
        self.nodes: list[Node] = []
        self.settings = AddressSettings()
        self.ledger = Ledger()
        self.consumers: list[SimConsumer] = []
        self.consumer_count = 0
        self.transfers = 0
        """Messages that went from one node to another."""
        self.copies = 0
        """Those among them that were copies for subscriptions."""
        self.on_arrival: Callable[[Node, Envelope], None] | None = None
        """Function that is told of each message that a node takes from another one."""
        self.dials = 0
        self.live_links: set[Link] = set()
        self.all_links: list[Link] = []
        self.slowest_ms = 20
        self.stalls = 0.02
        """Share of what is sent that takes much longer than the rest."""
        self.has_slow_disks = True
        """Whether some disks are slow always, and all now and then."""
        self._cut_off: set[frozenset[str]] = set()
        self._heap: list[tuple[float, int, Callable[[], object]]] = []
        self._planned = 0

    # -- time --------------------------------------------------------------------------------------------------

    def at(self, when: float, action: Callable[[], object]) -> None:
        self._planned += 1
        heappush(self._heap, (max(when, self.now), self._planned, action))

    def run_for(self, ms: float) -> None:
        """Let this much time pass, or stop at the first violation."""
        end = self.now + ms
        while self._heap and self._heap[0][0] <= end and not self.ledger.violations:
            when, _, action = heappop(self._heap)
            self.now = when
            action()
        self.now = end

    def run_until(self, condition: Callable[[], bool], limit_ms: float = 60_000, step_ms: float = 50) -> bool:
        """Let time pass until the condition holds, which is asked every `step_ms`; false if it does not in time."""
        end = self.now + limit_ms
        while not condition():
            if self.now >= end or self.ledger.violations:
                return False
            self.run_for(step_ms)
        return True

    # -- the world ---------------------------------------------------------------------------------------------

    def add_nodes(
        self,
        count: int,
        config: ClusterConfig | None = None,
        settings: AddressSettings | None = None,
        ties: list[tuple[int, int]] | None = None,
    ) -> list[Node]:
        """Start brokers that all know each other, or only those of `ties`."""
        config = ClusterConfig(name="mesh") if config is None else config
        settings = self.settings if settings is None else settings
        for index in range(count):
            name = LETTERS[index] if index < len(LETTERS) else f"N{index}"
            self.nodes.append(Node(self, name, self.folder / name, config, settings))
        pairs = [(one, other) for one in range(count) for other in range(count)] if ties is None else ties
        for one, other in pairs:
            if one != other:
                self.nodes[one].neighbours.append(self.nodes[other])
                self.nodes[one].dial_soon(self.nodes[other])
        return self.nodes

    def connect(self, dialler: Node, target: Node) -> Link:
        link = Link(self, len(self.all_links), dialler, target)
        self.all_links.append(link)
        self.live_links.add(link)
        return link

    def delay(self, link: int, direction: bool, ordinal: int) -> float:
        """How long octets are on their way, now and then much longer."""
        if self.keyed.chance(self.stalls, "stall", link, direction, ordinal):
            return self.keyed.between(50, 1_500, "stalled", link, direction, ordinal)
        return 0.1 + self.slowest_ms * self.keyed.number("delay", link, direction, ordinal)

    def is_cut_off(self, one: Node, other: Node) -> bool:
        return frozenset((one.name, other.name)) in self._cut_off

    def partition(self, one: Node, other: Node, ms: float) -> None:
        """Let nothing pass between two nodes for a time."""
        pair = frozenset((one.name, other.name))
        self._cut_off.add(pair)
        for link in list(self.live_links):
            if frozenset((link.ends[0].node.name, link.ends[1].node.name)) == pair:
                link.cut()
        self.at(self.now + ms, lambda: self._cut_off.discard(pair))

    def cut(self, one: Node, other: Node) -> None:
        """Break the connection between two nodes."""
        pair = {one.name, other.name}
        for link in list(self.live_links):
            if {link.ends[0].node.name, link.ends[1].node.name} == pair:
                link.cut()

    def give_up(self, node: Node, other: Node, ms: float) -> None:
        """Let one node think that the connection is broken, while octets are still on their way."""
        for link in list(self.live_links):
            if {link.ends[0].node.name, link.ends[1].node.name} == {node.name, other.name}:
                link.give_up(node, ms)

    def crash(self, node: Node, down_ms: float, lands: bool = False) -> None:
        """Kill a node, and start it again after a time."""
        if not node.is_running:
            return
        self.ledger.crashes += 1
        node.crash(lands)
        self.at(self.now + down_ms, node.start)

    def stop(self, node: Node, ms: float) -> None:
        """SIGSTOP, and SIGCONT after a time."""
        if node.is_running and not node.is_stopped:
            node.is_stopped = True
            self.at(self.now + ms, node.resume)

    def heal(self) -> None:
        """Everybody is up and reaches everybody."""
        self._cut_off.clear()
        for node in self.nodes:
            if node.is_stopped:
                node.resume()

    def close(self) -> None:
        for node in self.nodes:
            node.close()

    # -- clients -----------------------------------------------------------------------------------------------

    def send(self, node: Node, queue: str, body: str, **options: object) -> None:
        node.run(node.generation, lambda: send(node, queue, body, **options))  # type: ignore[arg-type]

    def consume(self, node: Node, queue: str, credit: int = 10, **options: object) -> SimConsumer:
        found: list[SimConsumer] = []
        node.run(node.generation, lambda: found.append(SimConsumer(node, queue, credit, **options)))  # type: ignore[arg-type]
        return found[0]

    def close_consumer(self, consumer: SimConsumer) -> None:
        consumer.node.run(consumer.generation, consumer.close)
        consumer.is_closed = True

    # -- what must hold ----------------------------------------------------------------------------------------

    def is_meshed(self) -> bool:
        """Whether all nodes are up and connected to those that they should be."""
        for node in self.nodes:
            if not node.is_running:
                return False
            ups = {
                peer.hello.node_name for peer in node.mesh.peers.values() if peer.state is PeerState.UP and peer.hello
            }
            wanted = {other.name for other in node.neighbours}
            wanted |= {other.name for other in self.nodes if node in other.neighbours}
            if ups != wanted:
                return False
        return True

    def check(self, node: Node) -> None:
        """What must hold after each turn (I7): no connection that is over, no table that differs from another."""
        wrong: list[str] = []
        mesh = node.mesh
        for channel in mesh.channels:
            for number, reference in channel.claims.items():
                entry = self.ledger.entries.get(str(reference.message.view.body))
                if entry is not None:
                    entry.claims.add((node.name, channel.id, number))
        for id, peer in mesh.peers.items():
            if peer.state is PeerState.CLOSED:
                wrong.append(f"a closed connection to {id}")
            if peer.remotes.count != len(list(peer.remotes)) + len(peer.remotes.interests):
                wrong.append(f"a wrong count of what {id} has told")
        for via, known in mesh.elsewhere._by_peer.items():
            if any(each.is_gone or mesh.elsewhere._remotes[key].get(via) is not each for key, each in known.items()):
                wrong.append(f"subscriptions that {via} has told and that are gone")
        queues = node.domain.queues
        if not all(name in queues and mesh.local(name) for name in mesh.shells._shells):
            wrong.append("a shell that is no queue")
        told = {queue for own in mesh.interests._own.values() for queue in own.queues}
        if told != {queue for queue in queues.values() if is_kept_subscription(mesh, queue)}:
            wrong.append("subscriptions that others are not told of")
        self.ledger.violations += [f"{node.name} has {each}" for each in wrong]

    def in_flight(self) -> int:
        """Messages that are claimed anywhere."""
        return sum(len(each.claims) for node in self.nodes for each in node.mesh.channels)

    def table_faults(self) -> list[str]:
        """Differences between what each node tells and what its peers know (I7), and counters that must be 0 (I13)."""
        faults: list[str] = []
        for node in self.nodes:
            faults += [f"{node.name}: {event}" for event in node.events if isinstance(event, ChannelGap | TablesDiffer)]
            for peer in node.mesh.peers.values():
                if peer.resyncs:
                    faults.append(f"{node.name} and {peer.label} were told everything again")
                other = next(each for each in self.nodes if each.mesh.node_id == peer.node_id)
                back = other.mesh.peers.get(node.mesh.node_id)
                assert back is not None
                told_interests = {
                    each.told[back].id: each.told[back]
                    for each in other.mesh.interests.announced()
                    if back in each.told
                }
                if told_interests != peer.remotes.interests:
                    faults.append(f"{node.name} believes {peer.remotes.interests} of {other.name}: {told_interests}")
                for announced in other.mesh.interests.announced():
                    if other.mesh.interests.record_for(back, announced) != announced.told.get(back):
                        faults.append(f"{other.name} has not told {node.name} of {announced.pattern}")
                theirs = {remote.instance.queue: (remote.instance, remote.demand) for remote in peer.remotes}
                told = {
                    local.queue.name: (local.instance(back), local.demand_for(back)) for local in other.mesh.locals()
                }
                if theirs != told:
                    faults.append(f"{node.name} believes of {other.name}: {theirs}; it is {told}")
        return faults

    def stranded(self) -> list[str]:
        """Queues where a message in memory waits that a consumer with credit anywhere would take (I5)."""
        found: list[str] = []
        for node in self.nodes:
            for queue in node.domain.queues.values():
                if not queue.waiting_count or queue.internal:
                    continue
                for consumer in self.consumers:
                    if (
                        consumer.is_alive
                        and consumer.consumer.queue.name == queue.name
                        and consumer.consumer.credit > 0
                        and (count := _wanted(queue, consumer))
                    ):
                        found.append(f"{count} messages of {queue.name} wait at {node.name} for {consumer.name}")
                        break
        return found

    def counted_as_stranded(self) -> list[str]:
        """What the metric `mesh_messages_stranded` says of each node: something has waited for five seconds (C61)."""
        for node in self.nodes:
            stranded(node.mesh, node.steady_clock())
        self.run_for(6_000)
        counts = {node.name: stranded(node.mesh, node.steady_clock()) for node in self.nodes}
        return [f"{name} counts {count} messages as stranded" for name, count in counts.items() if count]


def _wanted(queue: Queue, consumer: SimConsumer) -> int:
    """Messages of a queue that a consumer, of any node, would take."""
    filter = consumer.consumer.filter
    if filter is None:
        return queue.waiting_count
    found = 0
    for references in queue.backlog.lists:
        reference = references.head
        while reference is not None:
            found += filter.matches(reference.message)
            reference = reference.next
    return found
