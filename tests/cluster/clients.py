"""Simulated clients: consumers that come, settle after a while, and go."""

from typing import TYPE_CHECKING

from artemis_py.core.messages.builtin_format import plain_message
from artemis_py.core.messages.large_body import LargeBody
from artemis_py.core.messages.message import Message
from artemis_py.core.messages.view import MessageView
from artemis_py.core.queues.consumer import ACCEPTED, FAILED, RELEASED, Consumer, Sink
from artemis_py.core.queues.reference import Reference
from artemis_py.core.selectors.filter import Filter, parse_filter
from artemis_py.errors import StoreError
from tests.cluster.bodies import SIZE, body_fault, with_body

if TYPE_CHECKING:
    from tests.cluster.node import Node


class SimConsumer(Sink):
    """A consumer of one queue at one node."""

    count = 0
    has_order = True
    """Whether the order of what a node sent is looked at here."""

    def __init__(
        self,
        node: "Node",
        queue: str,
        credit: int,
        selector: str | None = None,
        settle_ms: int = 30,
        release: float = 0.0,
    ) -> None:
        self.node = node
        self.generation = node.generation
        simulation = node.simulation
        simulation.consumer_count += 1
        if selector is not None:
            simulation.ledger.selective.add(queue)
        self.name = f"{node.name}/{queue}/{simulation.consumer_count}"
        self.window = credit
        self.settle_ms = settle_ms
        self.release = release
        self.is_closed = False
        self.bodies: list[str] = []
        """What it got, in order."""
        self.last: dict[str, int] = {}
        """Number of the last message from each node that had to come in order."""
        self._unsettled: dict[str, Reference] = {}
        self._count = 0
        self.consumer: Consumer = self.attach(queue, None if selector is None else parse_filter(selector))
        self.consumer.grant(credit)
        simulation.consumers.append(self)

    def attach(self, queue: str, filter: Filter | None) -> Consumer:
        """Consume from the queue."""
        return self.node.session.consume(self.node.queue(queue), self, filter)

    def key(self, body: str) -> str:
        """The name of a message in the ledger."""
        return body

    @property
    def is_alive(self) -> bool:
        return not self.is_closed and self.node.generation == self.generation

    def holds(self, body: str) -> bool:
        return self.is_alive and body in self._unsettled

    def unsettled(self) -> list[Message]:
        """What it got and has not settled."""
        return [reference.message for reference in self._unsettled.values()]

    def deliver(self, reference: Reference) -> None:
        simulation = self.node.simulation
        self.bodies.append(str(reference.message.view.body))
        body = self.key(self.bodies[-1])
        if fault := body_fault(reference.message, self.bodies[-1]):
            simulation.ledger.violations.append(f"{body} delivered to {self.name} has {fault}")
        if self.has_order and not simulation.ledger.came_in_order(body, self):
            simulation.ledger.violations.append(f"order: {body} came late to {self.name}")
        simulation.ledger.delivered(body, self)
        self._unsettled[body] = reference
        self._count += 1
        took = simulation.keyed.between(0, self.settle_ms, "settle", self.name, self._count)
        generation = self.generation
        simulation.at(simulation.now + took, lambda: self.node.run(generation, lambda: self._settle(reference, body)))

    def _settle(self, reference: Reference, body: str) -> None:
        if self.is_closed or body not in self._unsettled:
            return
        simulation = self.node.simulation
        del self._unsettled[body]
        if self.release and simulation.keyed.chance(self.release, "release", self.name, self._count, body):
            simulation.ledger.released(body)
            self.consumer.settle(reference, RELEASED)
        else:
            simulation.ledger.accepted(body, self)
            self.consumer.settle(reference, ACCEPTED)
            self.node.store.when_durable(lambda: simulation.ledger.confirmed(body))
        if self.window:
            self.consumer.grant(min(self.consumer.credit + 1, self.window))

    def fail(self) -> None:
        """Give everything back as a failed attempt, and ask for as much again."""
        unsettled, self._unsettled = self._unsettled, {}
        for body, reference in unsettled.items():
            self.node.simulation.ledger.released(body)
            self.consumer.settle(reference, FAILED)
        self.consumer.grant(self.window)

    def close(self) -> None:
        """Detach; what is not settled goes back."""
        if self.is_alive:
            for body in self._unsettled:
                self.node.simulation.ledger.released(body)
            self._unsettled.clear()
            self.node.session.close_consumer(self.consumer)
        self.is_closed = True

    def drained(self) -> None:
        pass

    def ended(self, reason: str) -> None:
        for body in self._unsettled:
            self.node.simulation.ledger.released(body)
        self.is_closed = True


def send(
    node: "Node",
    queue: str,
    body: str,
    durable: bool = True,
    has_group: bool = False,
    delay_ms: int = 0,
    ttl_ms: int = 0,
    large: int = 0,
    **properties: object,
) -> None:
    """Send a message at a node, which acknowledges it when it is durable; `large` is the size of a large body."""
    ledger = node.simulation.ledger
    if large:
        properties[SIZE] = large
    message = plain_message(queue, MessageView(body=body, properties=dict(properties)))
    message.durable = durable
    message.has_group = has_group
    message.delivery_time_ms = node.clock() + delay_ms if delay_ms else 0
    message.expires_ms = node.clock() + ttl_ms if ttl_ms else 0
    held: LargeBody | None = None
    if large:
        try:
            held = with_body(node, message, body, large)
        except StoreError:
            return
    ledger.sent(body, durable, node.name)
    node.queue(queue)
    node.domain.route(message, node.domain.addresses[queue])
    if held is not None:
        held.release()
    node.store.when_durable(lambda: ledger.acknowledged(body))
