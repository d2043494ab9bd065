"""STRICT load balancing: all nodes that have a queue take turns, with consumers or without, reachable or not.

What is another node's turn waits for it in a durable queue of the broker, `$.artemis.internal.sf.<mesh>.<node>`, and
goes over the same channel as messages that are handed over, in the same way. It is never moved again.
"""

from typing import TYPE_CHECKING, Final

from artemis_py.cluster.envelope import PATH, path_of
from artemis_py.core.messages.message import Message
from artemis_py.core.names.routing_type import RoutingType
from artemis_py.core.queues.attaching import attach, detach
from artemis_py.core.queues.consumer import Consumer, ConsumerOptions, Sink
from artemis_py.core.queues.outcomes import REJECTED
from artemis_py.core.queues.queue import Queue
from artemis_py.core.queues.reference import Reference
from artemis_py.core.queues.rules.guard import Guard
from artemis_py.core.queues.settlement import acknowledge, forget
from artemis_py.core.queues.treating import Treatment, treat, whole
from artemis_py.core.routing.discards import DiscardCause
from artemis_py.core.runtime.timers import Timer
from artemis_py.core.settings.queue_config import QueueConfig
from artemis_py.errors import Refusal

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
REPLY: Final = "mesh-reply"
"""Property of a copy that is for a temporary address whose name does not say so."""
DUE: Final = "mesh-due"
"""Property of a copy: delivery time of its message, which counts where the copy arrives."""

MAX_UNSTORED: Final = 10_000
"""Copies that are not durable and wait for a node while it is away; further ones are dropped. Nobody knows whether the
subscriptions will be there when the node is back."""

REFUSED_MS: Final = 10_000
"""Time for which nothing more is sent from here after the node had no room for a large message."""

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
        self.node_id: Final = node_id
        self.name: Final = f"{mesh.domain.options.internal_naming_prefix}sf.{mesh.config.name}.{node_id}"
        self._mesh: Final = mesh
        self.dropped: int = 0
        """Number of copies that were dropped because the node was away for long."""
        self._unstored = 0
        """Number of copies that were kept since the node has left, and are not durable."""
        self._consumer: Consumer | None = None
        self._peer: Peer | None = None
        self._pause: Timer | None = None
        self._is_returning = False
        self._is_forgotten = False
        """Whether the node is no member any more, and copies for it were not discarded yet."""
        if (left := self.queue) is not None:
            # An earlier run has left it.
            left.expiry.returns = self._expired

    @property
    def queue(self) -> Queue | None:
        """The queue, if anything has ever waited."""
        return self._mesh.domain.queues.get(self.name)

    @property
    def waiting_count(self) -> int:
        """Number of messages that wait."""
        queue = self.queue
        return 0 if queue is None else queue.message_count

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
                    text = f"{MAX_UNSTORED} copies wait for node {self.node_id}, which is away"
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
        copy = copy_of(message)
        copy.id = self._mesh.domain.dispatcher.numbers.new_message_id()
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
        self._detach()

    def refresh(self) -> None:
        """Go on, if the channel has room."""
        queue, peer = self.queue, self._peer
        if queue is None or peer is None or self._is_returning:
            return
        if self._consumer is None:
            queue.address.sets_aside = True
            self._consumer = Consumer(self._mesh.domain.new_id(), queue, self, ConsumerOptions(), peer.label)
            attach(self._consumer)
            self._consumer.grant(UNLIMITED)
        if self._may_claim(peer):
            self._consumer.unblock()

    def _may_claim(self, peer: "Peer") -> bool:
        is_paused = self._pause is not None and self._pause.is_pending
        return peer.forwarding.may_claim and not peer.bulk.is_full and not is_paused

    def came_back(self, reference: Reference, is_refused: bool) -> None:
        """Note that a large message was withdrawn; see `Claimant`. If the node has no room for it, wait."""
        if is_refused and self._consumer is not None:
            self._consumer.block()
            self._pause = self._mesh.dispatcher.after(REFUSED_MS, self.refresh)

    def give_back(self, is_forgotten: bool = False) -> None:
        """Put what waits into the queues of this broker that it is for: the node leaves, or another is to get it.

        Copies stay: they are for subscriptions of the node, which has those until it is forgotten. What is on its way
        to the node is not part of it: that comes back when it is known not to have arrived.
        """
        self._detach()
        self._is_forgotten = self._is_forgotten or is_forgotten
        if self._is_returning:
            return
        queue, is_forgotten = self.queue, self._is_forgotten
        self._is_forgotten = False
        if queue is None or not queue.waiting_count:
            self.refresh()
            return
        self._is_returning = True
        steps = treat(queue, whole(queue, None), _Return(self._mesh, self.node_id if is_forgotten else ""))
        self._mesh.domain.dispatcher.slices.start(steps, self._returned, self._stopped)

    def _returned(self, outcome: object) -> None:
        self._is_returning = False
        if self._is_forgotten:
            # The node was forgotten while what waits was looked at.
            self.give_back()
        self.refresh()

    def _stopped(self, refusal: Refusal) -> None:
        """Leave the rest where it is: it cannot be read, and the store has reported that."""
        self._is_returning = False

    def _detach(self) -> None:
        if self._consumer is not None and not self._consumer.is_closed:
            detach(self._consumer, False)
        self._consumer = None

    def deliver(self, reference: Reference) -> None:
        """Claim a message for the node."""
        peer, consumer = self._peer, self._consumer
        if peer is None or consumer is None:
            return
        if reference.message.format.name not in peer.formats:
            # The node cannot read it, and would end the connection.
            consumer.refuse(reference, REJECTED)
            return
        is_too_large = reference.message.large is not None and not peer.has_bulk
        obstacle = ""
        if not peer.may_share(reference.message.address):
            obstacle = f"{peer.label} lacks the permission mesh"
        elif is_too_large and is_copy(reference.message):
            obstacle = f"{peer.label} has an earlier version, which takes no large messages"
        if obstacle:
            self._mesh.not_copied(reference.message, obstacle)
            consumer.relinquish(reference)
            acknowledge(reference)
            return
        if (peer.visit.is_leaving or is_too_large) and not is_copy(reference.message):
            # It came back from the channel after the rest had been given back, or the node was another version once.
            put_here(self._mesh, reference)
            consumer.relinquish(reference)
            acknowledge(reference)
            return
        if peer.has_bulk and (reference.message.large is not None or peer.bulk.orders):
            peer.bulk.claim_for(self, reference, peer.forwarding)
        else:
            peer.forwarding.claim(reference)
        if not self._may_claim(peer):
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
        queue.expiry.returns = self._expired
        self._mesh.begun.append(self)
        return queue

    def _expired(self, reference: Reference) -> bool:
        """Put a message whose turn it was elsewhere, and that has waited too long, into its queue here.

        It expires there as what waits there does. A copy ends: it is for subscriptions of the node, which is away.
        """
        if is_copy(reference.message):
            return False
        put_here(self._mesh, reference)
        return True


class _Return(Treatment):
    """Puts messages that wait for a node into queues of this broker, and ends copies for a node that was forgotten."""

    def __init__(self, mesh: "Mesh", forgotten: str) -> None:
        super().__init__(removes=True)
        self._mesh: Final = mesh
        self._forgotten: Final = forgotten
        """The node, if it is no member any more; otherwise empty."""

    def begin(self, reference: Reference) -> bool:
        """Put it there, in the commit in which it leaves; False if it is to wait on, or does not say for what."""
        extra = reference.message.extra
        if is_copy(reference.message):
            if self._forgotten:
                self._redirect(reference.message)
            return bool(self._forgotten)
        if extra is None or TARGET not in extra:
            return False
        put_here(self._mesh, reference)
        return True

    def _redirect(self, message: Message) -> None:
        """Send a copy to nodes behind the one that was forgotten by other ways, if there are any."""
        mesh = self._mesh
        copy = copy_of(message)
        extra = {} if copy.extra is None else copy.extra
        if extra.pop(DURABLE, None) is not None:
            copy.durable = True
        due_ms = extra.pop(DUE, None)
        if isinstance(due_ms, int) and due_ms > mesh.now_ms:
            copy.delivery_time_ms = due_ms
        copy.origin = mesh.domain.addresses.get(message.address)
        text = extra.get(COPY)
        nodes = text.split(",") if isinstance(text, str) else []
        ways = mesh.elsewhere.ways_to([node for node in nodes if node not in (self._forgotten, mesh.node_id)])
        for via, targets in ways.items():
            mesh.forward_to(via).put_copy(copy, tuple(targets), message.durable, path_of(message))
        if sum(map(len, ways.values())) < len(nodes):
            text = "a copy for a broker that was forgotten"
            mesh.domain.discards.add(message.address, DiscardCause.MESH, text)

    def end(self, reference: Reference) -> None:
        """Forget what waited."""
        forget(reference)


def is_copy(message: Message) -> bool:
    """Tell whether what waits for a node is a copy for subscriptions."""
    return message.extra is not None and COPY in message.extra


def copy_of(message: Message) -> Message:
    """Return a copy with everything that a node needs to know of a message."""
    copy = message.copy(message.address)
    copy.expires_ms = message.expires_ms
    copy.routing_type = message.routing_type
    copy.stored_first = message.stored_first
    return copy


def put_here(mesh: "Mesh", reference: Reference) -> None:
    """Put a message that waits for a queue of another node into the queue of this broker."""
    address, name, is_shared = target_of(reference)
    copy = copy_of(reference.message)
    if copy.extra is not None:
        copy.extra.pop(TARGET, None)
    mesh.arrivals.put(address, name, copy, reference.delivery_count, reference.was_acquired, is_shared)


class Turns(Guard):
    """Decides for each new message of a queue which node's turn it is."""

    def __init__(self, local: "LocalQueue") -> None:
        super().__init__()
        self._local: Final = local
        self._turn = 0
        self._nodes: Final[dict[str, list[str]]] = {}
        """Nodes that take turns, by format of the message."""
        self._version = -1
        """Version of what is known of nodes (`KnownNodes.version`) that they are of."""

    def admit(self, queue: Queue, reference: Reference) -> bool:
        """Keep the message for another node if it is that node's turn; what a peer sent has had its turn."""
        mesh = self._local.mesh
        message = reference.message
        if mesh.arrivals.is_taking or message.has_group:
            return super().admit(queue, reference)
        nodes = self._nodes_for(message.format.name)
        if message.large is not None:
            nodes = [each for each in nodes if each in mesh.takes_large]
        self._turn = (self._turn + 1) % (len(nodes) + 1)
        if self._turn == len(nodes):
            return super().admit(queue, reference)
        mesh.forward_to(nodes[self._turn]).put(message, queue.address.name, queue.name, self._local.is_shared)
        # It is counted where it arrives.
        queue.messages_added -= 1
        queue.messages_replaced -= 1
        return False

    def _nodes_for(self, format: str) -> list[str]:
        """Return the nodes that take turns; with a hundred of them, to look for them costs more than the message."""
        mesh, queue = self._local.mesh, self._local.queue
        if self._version != mesh.nodes.version:
            self._version = mesh.nodes.version
            self._nodes.clear()
        found = self._nodes.get(format)
        if found is None:
            having = mesh.nodes.having(queue.address.name, queue.name, format)
            found = self._nodes[format] = [each for each in having if each not in mesh.departures.leaving]
        return found
