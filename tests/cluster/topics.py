"""Simulated subscribers of topics, and what they were promised."""

from functools import partial
from typing import TYPE_CHECKING

from artemis_py.cluster.envelope import Envelope
from artemis_py.cluster.peer import Peer
from artemis_py.core.messages.builtin_format import plain_message
from artemis_py.core.messages.large_body import LargeBody
from artemis_py.core.messages.message import Message
from artemis_py.core.messages.view import MessageView
from artemis_py.core.names.routing_type import RoutingType
from artemis_py.core.queues.consumer import Consumer
from artemis_py.core.queues.reference import Reference
from artemis_py.core.runtime.announcement import Announcement
from artemis_py.core.selectors.filter import Filter, parse_filter
from artemis_py.core.sessions.subscriptions import Subscription, SubscriptionSpec
from artemis_py.errors import StoreError
from tests.cluster.bodies import SIZE, with_body
from tests.cluster.clients import SimConsumer

if TYPE_CHECKING:
    from tests.cluster.node import Node
    from tests.cluster.simulation import Simulation


class Subscribed:
    """A subscription, whoever consumes from it: its messages are expected once."""

    def __init__(self, node: "Node", address: str, name: str, selector: str | None, durable: bool) -> None:
        self.node = node
        """Its node; of a shared one the node of the first member."""
        self.generation = node.generation
        self.address = address
        self.name = name
        self.filter: Filter | None = None if selector is None else parse_filter(selector)
        self.durable = durable
        self.is_shared = False
        self.is_over = False
        self.knows: dict[str, int] = {}
        """Nodes that know of it, as it was promised, and their generations then; a member's own node is one."""
        self.last: dict[tuple[str, tuple[str, ...]], int] = {}
        """The last message of each producer that came on each way."""

    def wants(self, message: Message, address: str) -> bool:
        """Whether a message is for it."""
        syntax = self.node.domain.options.wildcards
        return syntax.matches(self.address, address) and (self.filter is None or self.filter.matches(message))

    def is_promised(self, node: "Node", durable: bool) -> bool:
        """Whether what is published at a node now must reach it."""
        if self.is_over or (not self.durable and self.generation != self.node.generation):
            return False
        generation = self.knows.get(node.name)
        return generation is not None and ((self.durable and durable) or generation == node.generation)


class Topics:
    """All subscriptions of one simulation."""

    def __init__(self, simulation: "Simulation") -> None:
        self.simulation = simulation
        self.subscriptions: dict[str, Subscribed] = {}
        self.published: dict[str, int] = {}
        self.orders = "publisher"
        """Whether what a publisher sends has one order, or one for each address, which is all that large ones keep."""
        self._ways: dict[tuple[str, str], tuple[str, ...]] = {}
        """Ids of the nodes that a copy has come through, by the node where it arrived and its body."""
        simulation.on_arrival = self._arrived

    def _arrived(self, node: "Node", envelope: Envelope) -> None:
        self._ways[node.name, str(envelope.message.view.body)] = envelope.path

    def way_of(self, node: "Node", body: str) -> tuple[str, ...]:
        """Return the nodes that a copy has come through; those of one way have an order, and no others (mesh.md)."""
        return self._ways.get((node.name, body), ())

    def subscribe(
        self,
        node: "Node",
        address: str,
        name: str = "",
        shared: bool = False,
        durable: bool = True,
        credit: int = 50,
        **options: object,
    ) -> "SimSubscriber":
        """A new consumer: of a subscription without a name, of a durable one, or of a shared one."""
        found: list[SimSubscriber] = []
        node.run(
            node.generation,
            lambda: found.append(
                SimSubscriber(self, node, address, name, shared, durable, credit, **options)  # type: ignore[arg-type]
            ),
        )
        return found[0]

    def publish(self, node: "Node", address: str, durable: bool = True, **properties: object) -> str:
        """Publish at a node; the body says where and in which order."""
        number = self.published[node.name] = self.published.get(node.name, 0) + 1
        body = f"{node.name}:{number}"
        node.run(node.generation, partial(self._publish, node, address, body, durable, properties))
        return body

    def _publish(self, node: "Node", address: str, body: str, durable: bool, properties: dict[str, object]) -> None:
        ledger = self.simulation.ledger
        message = plain_message(address, MessageView(body=body, properties=properties))
        message.durable = durable
        held: LargeBody | None = None
        if isinstance(size := properties.get(SIZE), int):
            try:
                held = with_body(node, message, body, size)
            except StoreError:
                return
        promised: list[str] = []
        for each in self.subscriptions.values():
            if each.is_promised(node, durable) and each.wants(message, address):
                promised.append(f"{body}@{each.name}")
                ledger.sent(promised[-1], durable and each.durable, node.name)
        node.session.producer(address, RoutingType.MULTICAST).send(message)
        if held is not None:
            held.release()
        for key in promised:
            node.store.when_durable(partial(ledger.acknowledged, key))

    def end(self, subscription: Subscribed) -> None:
        """Expect nothing more for a subscription."""
        subscription.is_over = True
        for key, entry in self.simulation.ledger.entries.items():
            if key.endswith(f"@{subscription.name}"):
                entry.is_acknowledged = False

    def crashed(self) -> None:
        """Expect nothing for subscriptions that ended with their process."""
        for each in self.subscriptions.values():
            if not each.durable and not each.is_over and each.generation != each.node.generation:
                self.end(each)


class SimSubscriber(SimConsumer):
    """A consumer of a subscription."""

    has_order = False
    """It is looked at by publisher and way."""

    def __init__(
        self,
        topics: Topics,
        node: "Node",
        address: str,
        name: str,
        shared: bool,
        durable: bool,
        credit: int,
        selector: str | None = None,
        **options: object,
    ) -> None:
        self.topics = topics
        count = len(topics.subscriptions)
        self.spec = SubscriptionSpec(
            address,
            (name,) if name else (),
            durable=bool(name) and durable,
            shared=shared,
            filter=None if selector is None else parse_filter(selector),
            recreates=bool(name),
        )
        name = name or f"plain{count}"
        known = topics.subscriptions.get(name)
        if known is None or known.is_over:
            known = topics.subscriptions[name] = Subscribed(node, address, name, selector, self.spec.durable)
            known.is_shared = shared
        self.subscription = known
        self.of: Subscription | None = None
        super().__init__(node, address, credit, None, **options)  # type: ignore[arg-type]

    def attach(self, queue: str, filter: Filter | None) -> Consumer:
        session, node = self.node.session, self.node
        self.of = session.subscribe(self.spec)
        generations = {each.mesh.node_id: each.generation for each in node.simulation.nodes}
        peers = {peer: generations.get(peer.node_id, 0) for peer in node.mesh.peers.values() if peer.is_taking}
        announcement = node.domain.dispatcher.announcements.fresh
        node.domain.dispatcher.announcements.fresh = None
        generation = node.generation
        node.store.when_durable(lambda: node.run(generation, lambda: self._durable(announcement, peers)))
        return session.consume(self.of.queue, self)

    def _durable(self, announcement: Announcement | None, peers: dict[Peer, int]) -> None:
        self.subscription.knows[self.node.name] = self.node.generation
        if announcement is None:
            return
        if announcement.is_over:
            self._answered(announcement, peers)
        else:
            announcement.when_over(lambda: self._answered(announcement, peers))

    def _answered(self, announcement: Announcement, peers: dict[Peer, int]) -> None:
        """Peers know of the subscription that were up all the time: one that has connected again is told later."""
        if announcement.is_late:
            return
        for peer, generation in peers.items():
            if peer.is_up and peer.hello is not None:
                self.subscription.knows[peer.hello.node_name] = generation

    def key(self, body: str) -> str:
        return f"{body}@{self.subscription.name}"

    def deliver(self, reference: Reference) -> None:
        body = str(reference.message.view.body)
        ledger = self.node.simulation.ledger
        if self.key(body) not in ledger.entries:
            # It was not promised, and is not forbidden.
            ledger.sent(self.key(body), False, "")
        if self.subscription.is_over:
            ledger.violations.append(f"{body} came for {self.subscription.name}, which is over")
        subscription = self.subscription
        producer, _, number = body.partition(":")
        if not subscription.durable and not subscription.is_shared:
            if self.topics.orders == "address":
                producer += reference.message.address
            way = producer, self.topics.way_of(self.node, body)
            if self.topics.orders and int(number) <= subscription.last.get(way, 0):
                ledger.violations.append(f"order: {body} came after {subscription.last[way]}")
            subscription.last[way] = int(number)
        super().deliver(reference)

    def close(self) -> None:
        """Detach; a subscription without a name ends with that."""
        was_alive = self.is_alive
        super().close()
        if was_alive and self.of is not None and not self.subscription.durable:
            self.node.session.subscriptions.leave(self.of, "its client left")
            if not self.subscription.is_shared or self.of.queue.is_deleted:
                self.topics.end(self.subscription)

    def unsubscribe(self) -> None:
        """Detach, and end the subscription."""
        super().close()
        assert self.of is not None
        self.node.session.unsubscribe(self.of, "its client unsubscribed")
