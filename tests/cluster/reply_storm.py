"""A random history of requests and replies across nodes; see `storm`.

Requesters have temporary queues and topics, under names that their broker makes (AMQP) or that they choose (OpenWire).
Repliers anywhere take requests from one queue, and send to where these say. Some requesters go on at another node under
the names that they have.
"""

from functools import partial
from pathlib import Path

from artemis_py.cluster.peer import Peer
from artemis_py.core.messages.builtin_format import plain_message
from artemis_py.core.messages.view import MessageView
from artemis_py.core.names.routing_type import RoutingType
from artemis_py.core.queues.consumer import Consumer
from artemis_py.core.queues.reference import Reference
from artemis_py.core.runtime.access import Subject
from artemis_py.core.selectors.filter import Filter
from artemis_py.core.sessions.producer import Producer
from artemis_py.core.sessions.session import Session
from artemis_py.errors import NoSuchAddress
from tests.cluster.clients import SimConsumer
from tests.cluster.node import Node, make_mesh
from tests.cluster.simulation import MeshMaker
from tests.cluster.storm import Step, Storm

WORK = "work"
REQUESTER = "requester"
"""Property of a request: number of its requester."""


class Requester:
    """A client with one temporary address."""

    def __init__(self, storm: "ReplyStorm", node: Node, name: str | None, routing_type: RoutingType) -> None:
        self.storm = storm
        self.node = node
        self.generation = node.generation
        self.number = len(storm.requesters)
        storm.requesters.append(self)
        self.session = Session(node.domain, Subject("requester"), f"requester {self.number}", "test")
        self.temporary = self.session.create_node(routing_type, name)
        self.name = self.temporary.name
        self.is_chosen = name is not None
        self.is_ready = False
        """Whether its client was told that its address is there."""
        self.is_over = False
        self.promised: list[str] = []
        """Replies that must come, unless its client leaves."""
        self.knows: dict[str, int] = {node.name: node.generation}
        """Nodes that must know its name, and their generations."""
        self.last: dict[str, int] = {}
        """The last reply of each node."""
        queue = self.name
        if routing_type is RoutingType.MULTICAST:
            queue = self.session.create_temporary_queue(routing_type, self.name, None).name
        self.consumer = Inbox(self, queue)
        generations = {each.mesh.node_id: each.generation for each in storm.simulation.nodes}
        peers = {peer: generations.get(peer.node_id, 0) for peer in node.mesh.peers.values() if peer.is_taking}
        board = node.domain.dispatcher.announcements
        announcement, board.fresh = board.fresh, None
        if announcement is None or announcement.is_over:
            self.is_ready = True
        else:
            waited = announcement
            announcement.when_over(lambda: self.answered({} if waited.is_late else peers))

    def answered(self, peers: dict[Peer, int]) -> None:
        """Its client was told that the address is there."""
        self.is_ready = True
        for peer, generation in peers.items():
            if peer.is_up and peer.hello is not None:
                self.knows[peer.hello.node_name] = generation

    @property
    def is_alive(self) -> bool:
        """Whether its client is there."""
        return not self.is_over and self.generation == self.node.generation

    def must_be_known(self, node: Node) -> bool:
        """Whether a node cannot but know its name: it was told, and has not been cut off for long."""
        is_told = self.knows.get(node.name) == node.generation and self.is_alive
        return is_told and (node is self.node or node.mesh.temporaries.is_reachable(self.node.mesh.node_id))

    def end(self) -> None:
        """Expect nothing more."""
        self.is_over = True
        for body in self.promised:
            self.storm.simulation.ledger.entries[body].is_acknowledged = False

    def leave(self) -> None:
        """End its session."""
        self.end()
        if self.generation == self.node.generation and self.node.is_running:
            self.node.run(self.generation, self._leave)

    def _leave(self) -> None:
        self.consumer.close()
        self.temporary.delete("temporary")


class Inbox(SimConsumer):
    """The consumer of a requester."""

    def __init__(self, requester: Requester, queue: str) -> None:
        self.requester = requester
        super().__init__(requester.node, queue, 20)

    def attach(self, queue: str, filter: Filter | None) -> Consumer:
        return self.requester.session.consume(self.node.domain.queues[queue], self, filter)

    def deliver(self, reference: Reference) -> None:
        number, _, replier = str(reference.message.view.body).partition(" of ")
        last = self.requester.last
        if int(number) <= last.get(replier, 0):
            self.node.simulation.ledger.violations.append(f"order: {number} of {replier} came after {last[replier]}")
        last[replier] = int(number)
        super().deliver(reference)


class Replier(SimConsumer):
    """Takes requests, and answers each time that it gets one."""

    def __init__(self, storm: "ReplyStorm", node: Node, durable: bool, keeps_link: bool) -> None:
        self.storm = storm
        self.durable = durable
        self.keeps_link = keeps_link
        super().__init__(node, WORK, 5)

    def deliver(self, reference: Reference) -> None:
        super().deliver(reference)
        number = reference.message.view.properties[REQUESTER]
        assert isinstance(number, int)
        self.storm.reply(self.node, self.storm.requesters[number], self.durable, self.keeps_link)


class ReplyStorm(Storm):
    """One seed."""

    def __init__(self, seed: int, folder: Path, maker: MeshMaker = make_mesh, steps: list[Step] | None = None) -> None:
        super().__init__(seed, folder, maker, steps)
        self.queues = [WORK]
        self.requesters: list[Requester] = []
        self.replies = 0
        self.refused = 0
        self._links: dict[tuple[str, int, str], Producer] = {}

    # -- replies -----------------------------------------------------------------------------------------------

    def reply(self, node: Node, requester: Requester, durable: bool, keeps_link: bool = False) -> bool:
        """Send a reply as clients do; false if it is refused."""
        name, ledger = requester.name, self.simulation.ledger
        if requester.is_chosen and node.session.owns_temporary(name) is None:
            # The library of OpenWire does not send to a destination that it does not know of.
            if requester.must_be_known(node):
                ledger.violations.append(f"{node.name} does not know {name}")
            self.refused += 1
            return False
        self.replies += 1
        body = f"{self.replies} of {node.name}"
        ledger.sent(body, durable, node.name)
        message = plain_message(name, MessageView(body=body))
        message.durable = durable
        try:
            self.link(node, name, keeps_link).send(message)
        except NoSuchAddress:
            del ledger.entries[body]
            self.refused += 1
            return False
        if requester.is_alive and self.is_found(node, requester):
            requester.promised.append(body)
            node.store.when_durable(partial(self.acknowledge, requester, body))
        return True

    def link(self, node: Node, name: str, keeps_link: bool) -> Producer:
        """A new producer, or the one that was kept."""
        key = (node.name, node.generation, name)
        if keeps_link and key in self._links:
            return self._links[key]
        producer = node.session.producer(name)
        if keeps_link:
            self._links[key] = producer
            producer.when_gone(partial(self.detached, key))
        return producer

    def detached(self, key: tuple[str, int, str], reason: str) -> None:
        """The broker ended a link."""
        self._links.pop(key, None)

    def is_found(self, node: Node, requester: Requester) -> bool:
        """Whether a node sends to where the requester is, and not to where it was before."""
        if not requester.is_chosen or node is requester.node:
            return True
        return node.mesh.chosen_names.holder(requester.name) == requester.node.mesh.node_id

    def acknowledge(self, requester: Requester, body: str) -> None:
        """A replier was answered."""
        if requester.is_alive:
            self.simulation.ledger.acknowledged(body)

    # -- steps -------------------------------------------------------------------------------------------------

    def alive(self) -> list[Requester]:
        """Requesters whose clients are there."""
        for each in self.requesters:
            if not each.is_over and each.generation != each.node.generation:
                each.end()
        return [each for each in self.requesters if not each.is_over]

    def send(self, index: int, node: Node) -> None:
        """Some requests of one requester."""
        ready = [each for each in self.alive() if each.is_ready and each.node.is_running]
        if not ready:
            return
        requester = self.keyed.choice(ready, "requester", index)
        for number in range(self.keyed.choice([1, 1, 3, 20], "burst", index)):
            durable = self.keyed.chance(0.5, "durable", index, number)
            body = f"request {index}-{number}"
            self.simulation.send(requester.node, WORK, body, durable=durable, **{REQUESTER: requester.number})

    def attach(self, index: int, node: Node) -> None:
        kind = self.keyed.choice(["requester", "requester", "moves", "replier"], "client", index)
        if kind == "replier":
            durable = self.keyed.chance(0.7, "durable", index)
            keeps_link = self.keyed.chance(0.5, "keeps", index)
            node.run(node.generation, lambda: Replier(self, node, durable, keeps_link))
            return
        routing_type = self.keyed.choice([RoutingType.ANYCAST, RoutingType.MULTICAST], "type", index)
        name = self.keyed.choice([None, f"ID:host-{index}:1:1"], "name", index)
        former = [each for each in self.alive() if each.is_chosen and each.node is not node]
        if kind == "moves" and former:
            # Its former node notices later that the client has left.
            requester = self.keyed.choice(former, "who", index)
            if requester.name in node.domain.addresses:
                return
            requester.end()
            name = requester.name
            late_ms = self.keyed.choice([0, 50, 1_000], "late", index)
            self.simulation.at(self.simulation.now + late_ms, requester.leave)
        node.run(node.generation, lambda: Requester(self, node, name, routing_type))

    def play(self, step: Step) -> None:
        clients: list[Requester | Replier] = [each for each in self.alive() if not each.node.is_stopped]
        if step.kind != "leave":
            super().play(step)
            return
        for consumer in self.simulation.consumers:
            if isinstance(consumer, Replier) and consumer.is_alive and not consumer.node.is_stopped:
                clients.append(consumer)
        if clients:
            client = self.keyed.choice(clients, "who leaves", step.key)
            if isinstance(client, Requester):
                client.leave()
            else:
                self.simulation.close_consumer(client)

    def fail(self, index: int, node: Node) -> None:
        super().fail(index, node)
        self.alive()

    def fail_twice(self, index: int, origin: Node, taker: Node) -> None:
        """Break a connection full of replies, and kill one side after that."""
        sim = self.simulation
        made: list[Requester] = []
        name = self.keyed.choice([None, f"ID:host-{index}:1:1"], "name", index)
        taker.run(taker.generation, lambda: made.append(Requester(self, taker, name, RoutingType.ANYCAST)))
        burst_ms = sim.now + 400
        for number in range(20):
            durable = self.keyed.chance(0.7, "durable", index, number)
            sim.at(burst_ms + number, partial(self.replies_at, origin, made, durable))
        cut_ms = burst_ms + self.keyed.between(0, 100, "cut", index)
        if self.keyed.chance(0.3, "gives up", index):
            sim.at(cut_ms, lambda: sim.give_up(origin, taker, self.keyed.choice([100, 800], "late", index)))
            return
        sim.at(cut_ms, lambda: sim.cut(origin, taker))
        victim = self.keyed.choice([origin, origin, taker], "victim", index)
        crash_ms = cut_ms + self.keyed.between(5, 500, "after", index)
        sim.at(crash_ms, lambda: sim.crash(victim, self.keyed.choice([1, 500], "down", index)))

    def replies_at(self, node: Node, requesters: list[Requester], durable: bool) -> None:
        """One reply, if node and requester are there."""
        for requester in requesters:
            node.run(node.generation, partial(self.reply, node, requester, durable))

    # -- the end -----------------------------------------------------------------------------------------------

    def settle(self) -> list[str]:
        """Heal; each requester that is left gets a reply from each node; then all leave."""
        sim = self.simulation
        sim.run_for(14_000)
        sim.heal()
        if not sim.run_until(sim.is_meshed, 120_000):
            return sim.ledger.violations or ["the mesh did not form again"]
        sim.run_for(15_000)
        faults: list[str] = []
        for consumer in list(sim.consumers):
            if isinstance(consumer, Replier):
                sim.close_consumer(consumer)
        drain = sim.nodes[0]
        drain.run(drain.generation, lambda: Replier(self, drain, True, False))
        sim.run_for(10_000)
        for requester in self.alive():
            for node in sim.nodes:
                if not self.reply(node, requester, True):
                    faults.append(f"{node.name} refuses a reply to {requester.name}, which is there")
                node.plan_turn()
        # Nothing is missing before it is acknowledged, which takes a slow disk a while.
        sim.run_for(5_000)
        sim.run_until(lambda: not sim.ledger.missing() and not sim.in_flight(), 120_000)
        if lost := sim.ledger.missing():
            faults.append(f"lost: {lost[:5]} and {len(lost)} in all")
        for requester in self.alive():
            requester.leave()
        sim.run_for(10_000)
        if sim.in_flight():
            faults.append(f"{sim.in_flight()} claims are left")
        return sim.ledger.violations + faults + self.leftovers() + sim.table_faults()

    def leftovers(self) -> list[str]:
        """What is remembered of addresses that are gone, and what waits for them."""
        found: list[str] = []
        names = {each.name for each in self.requesters}
        for node in self.simulation.nodes:
            mesh = node.mesh
            waiting = [queue.name for queue in node.domain.queues.values() if queue.internal and queue.message_count]
            found += [f"messages wait in {name} at {node.name}" for name in waiting]
            found += [f"{node.name} has an address {name}" for name in names & set(node.domain.addresses)]
            chosen = mesh.chosen_names
            if chosen._own or chosen._heard or chosen._holders or chosen._untold:
                found.append(f"{node.name} knows names that are gone: {chosen._own} {chosen._heard} {chosen._untold}")
            if mesh.temporaries._askers:
                found.append(f"{node.name} has peers that send to {list(mesh.temporaries._askers)}")
            believed = [name for name, remote in mesh.temporaries._remotes.items() if not remote.address.is_deleted]
            if believed:
                found.append(f"{node.name} believes that {believed} are there")
        return found
