"""STRICT load balancing: all nodes that have a queue take turns, with consumers or without, reachable or not.

What is another node's turn waits for it in a durable queue of the broker, `$.artemis.internal.sf.<mesh>.<node>`, and
goes over the same channel as messages that are handed over, in the same way. It is never moved again.
"""

from typing import TYPE_CHECKING, Final

from artemis_py.cluster.envelope import PATH
from artemis_py.core.messages.message import Message
from artemis_py.core.names.routing_type import RoutingType
from artemis_py.core.queues.attaching import attach, detach
from artemis_py.core.queues.consumer import Consumer, ConsumerOptions, Sink
from artemis_py.core.queues.outcomes import REJECTED
from artemis_py.core.queues.queue import Queue
from artemis_py.core.queues.reference import Reference
from artemis_py.core.queues.rules.guard import Guard
from artemis_py.core.queues.settlement import acknowledge
from artemis_py.core.settings.queue_config import QueueConfig

if TYPE_CHECKING:
    from artemis_py.cluster.local_queue import LocalQueue
    from artemis_py.cluster.mesh import Mesh
    from artemis_py.cluster.peer import Peer

TARGET: Final = "mesh-target"
"""Property of a message that waits for another node: address and queue there, separated by a line feed. A third line
says that the queue is that of a shared subscription."""

COPY: Final = "mesh-copy"
"""Property of a copy that waits for another node: the nodes that it is for, separated by commas."""
DURABLE: Final = "mesh-durable"
"""Property of a copy of a durable message that only subscriptions which are not durable want."""
DUE: Final = "mesh-due"
"""Property of a copy: delivery time of its message, which counts where the copy arrives."""

MAX_UNSTORED: Final = 10_000
"""Copies that are not durable and wait for a node while it is away; further ones are dropped. Nobody knows whether the
subscriptions will be there when the node is back."""

UNLIMITED: Final = 1 << 40
"""Credit of the consumer that sends what waits: the window of the channel is the limit."""


def target_of(reference: Reference) -> tuple[str, str, bool]:
    """Return address and name of the queue that a message is for at the peer, and whether subscribers share it.

    A copy is for no particular queue.
    """
    queue = reference.queue
    extra = reference.message.extra
    if queue.internal and extra is not None:
        if COPY in extra:
            return reference.message.address, "", False
        target = extra.get(TARGET)
        if isinstance(target, str):
            address, name, *rest = target.split("\n")
            return address, name, bool(rest)
    return queue.address.name, queue.name, queue.routing_type is RoutingType.MULTICAST


class StoreAndForward(Sink):
    """What waits for one node, and the consumer that sends it while the node is connected."""

    def __init__(self, mesh: "Mesh", node_id: str) -> None:
        self.name: Final = f"{mesh.domain.options.internal_naming_prefix}sf.{mesh.config.name}.{node_id}"
        self._mesh: Final = mesh
        self.dropped: int = 0
        """Number of copies that were dropped because the node was away for long."""
        self._node_id: Final = node_id
        self._unstored = 0
        """Number of copies that were kept since the node has left, and are not durable."""
        self._consumer: Consumer | None = None
        self._peer: Peer | None = None

    @property
    def queue(self) -> Queue | None:
        """The queue, if anything has ever waited."""
        return self._mesh.domain.queues.get(self.name)

    def put(self, message: Message, address: str, queue: str, is_shared: bool = False) -> None:
        """Keep a message for the node, as durable as everything of this iteration."""
        copy = self._copy(message)
        copy.set_extra(TARGET, f"{address}\n{queue}" + ("\nshared" if is_shared else ""))
        waiting = self._waiting()
        copy.origin = waiting.address
        waiting.adopt(copy)

    def put_copy(self, message: Message, nodes: tuple[str, ...], durable: bool, path: tuple[str, ...] = ()) -> None:
        """Keep a copy of a message for subscriptions of some nodes: this one, or those behind it.

        It counts for the address of the message, so what waits here holds that address' producers back as well.
        """
        if self._peer is None and not (durable and message.durable):
            if self._unstored >= MAX_UNSTORED:
                self.dropped += 1
                if self.dropped == 1:
                    text = f"{MAX_UNSTORED} copies wait for node {self._node_id}, which is away"
                    self._mesh.not_copied(message, text)
                return
            self._unstored += 1
        copy = self._copy(message)
        extra = {} if copy.extra is None else copy.extra
        for name in (TARGET, DURABLE, DUE, PATH):
            extra.pop(name, None)
        extra[COPY] = ",".join(nodes)
        if path:
            extra[PATH] = ",".join(path)
        if message.durable and not durable:
            copy.durable = False
            extra[DURABLE] = True
        if message.delivery_time_ms:
            extra[DUE] = message.delivery_time_ms
        copy.extra = extra
        waiting = self._waiting()
        copy.origin = waiting.address if message.origin is None else message.origin
        waiting.adopt(copy)

    def _copy(self, message: Message) -> Message:
        copy = message.copy(message.address)
        copy.id = self._mesh.domain.dispatcher.numbers.new_message_id()
        copy.expires_ms = message.expires_ms
        copy.routing_type = message.routing_type
        copy.stored_first = message.stored_first
        return copy

    def _waiting(self) -> Queue:
        """Return the queue, which is made when the first message waits."""
        waiting = self.queue
        return self._create() if waiting is None else waiting

    def connected(self, peer: "Peer") -> None:
        """Send what waits, and what comes."""
        self._peer = peer
        self._unstored = self.dropped = 0
        self.refresh()

    def disconnected(self) -> None:
        """Send nothing more; what is claimed stays claimed."""
        self._peer = None
        if self._consumer is not None and not self._consumer.is_closed:
            detach(self._consumer, False)
        self._consumer = None

    def refresh(self) -> None:
        """Go on, if the channel has room."""
        queue, peer = self.queue, self._peer
        if queue is None or peer is None:
            return
        if self._consumer is None:
            queue.address.sets_aside = True
            self._consumer = Consumer(self._mesh.domain.new_id(), queue, self, ConsumerOptions(), peer.label)
            attach(self._consumer)
            self._consumer.grant(UNLIMITED)
        if peer.forwarding.may_claim:
            self._consumer.unblock()

    def deliver(self, reference: Reference) -> None:
        """Claim a message for the node."""
        peer, consumer = self._peer, self._consumer
        if peer is None or consumer is None:
            return
        if reference.message.format.name not in peer.formats:
            # The node cannot read it, and would end the connection.
            consumer.refuse(reference, REJECTED)
            return
        if not peer.may_share(reference.message.address):
            self._mesh.not_copied(reference.message, f"{peer.label} lacks the permission mesh")
            consumer.relinquish(reference)
            acknowledge(reference)
            return
        peer.forwarding.claim(reference)
        if not peer.forwarding.may_claim:
            consumer.block()

    def drained(self) -> None:
        """Do nothing: it never drains."""

    def ended(self, reason: str) -> None:
        """Note that an administrator deleted the queue."""
        self._consumer = None

    def _create(self) -> Queue:
        domain = self._mesh.domain
        if self.name not in domain.addresses:
            domain.create_address(self.name, frozenset((RoutingType.ANYCAST,)), internal=True)
        queue = domain.create_queue(
            QueueConfig(
                name=self.name,
                address=self.name,
                routing_type=RoutingType.ANYCAST,
                internal=True,
                purge_on_no_consumers=False,
                auto_delete=False,
            )
        )
        queue.address.sets_aside = True
        self._mesh.forwarding_begun(self)
        return queue


class Turns(Guard):
    """Decides for each new message of a queue which node's turn it is."""

    def __init__(self, local: "LocalQueue") -> None:
        super().__init__()
        self._local: Final = local
        self._turn = 0

    def admit(self, queue: Queue, reference: Reference) -> bool:
        """Keep the message for another node if it is that node's turn; what a peer sent has had its turn."""
        mesh = self._local.mesh
        message = reference.message
        if mesh.arrivals.is_taking or message.has_group or message.large is not None:
            return super().admit(queue, reference)
        nodes = mesh.nodes_with(queue.address.name, queue.name, message.format.name)
        self._turn = (self._turn + 1) % (len(nodes) + 1)
        if self._turn == len(nodes):
            return super().admit(queue, reference)
        mesh.forward_to(nodes[self._turn]).put(message, queue.address.name, queue.name, self._local.is_shared)
        # It is counted where it arrives.
        queue.messages_added -= 1
        queue.messages_replaced -= 1
        return False
