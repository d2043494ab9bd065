"""Messages from peers: into their queues, which are created if need be (mesh §5.5)."""

from typing import TYPE_CHECKING, Final

from mypy_extensions import mypyc_attr

from artemis_py.cluster.blocks import Run
from artemis_py.cluster.envelope import PATH, Envelope
from artemis_py.cluster.events import TakenAside
from artemis_py.cluster.records import SharedInstance
from artemis_py.cluster.strict import COPY, DUE, DURABLE
from artemis_py.core.addresses.address import Address
from artemis_py.core.messages.message import Message
from artemis_py.core.names.routing_type import RoutingType
from artemis_py.core.queues.queue import Queue
from artemis_py.core.routing.discards import DiscardCause
from artemis_py.core.routing.domain import Domain
from artemis_py.core.runtime.carrier import Lane
from artemis_py.core.settings.queue_config import QueueConfig
from artemis_py.errors import ProtocolError, Refusal

if TYPE_CHECKING:
    from artemis_py.cluster.lanes import Incoming
    from artemis_py.cluster.mesh import Mesh
    from artemis_py.cluster.peer import Peer


@mypyc_attr(allow_interpreted_subclasses=True)
class Arrivals:
    """Puts messages of peers where they belong."""

    def __init__(self, mesh: "Mesh") -> None:
        self.is_taking: bool = False
        """Whether a message from a peer is being put into its queue."""
        self._mesh: Final = mesh
        self._domain: Final[Domain] = mesh.domain

    # -- messages ----------------------------------------------------------------------------------------------

    def take(self, peer: "Peer", lane: Lane, envelope: Envelope) -> Address | None:
        """Put a message from a peer where it belongs. Raises ProtocolError for one that the peer must not send.

        Returns the address of a copy if its producers must wait: the peer should send no more of them for now.
        """
        if envelope.queue:
            self._check(peer, envelope)
            self._count(peer, envelope, int(self._take_handed(envelope, envelope.message)))
            return None
        if lane is Lane.HANDOVER:
            raise ProtocolError("a message that is handed over names no queue")
        if self._mesh.temporaries.is_reply(envelope.message) or self._may_bring(peer, envelope.address):
            return self._take_copy(envelope)
        return None

    def take_all(self, peer: "Peer", incoming: "Incoming", run: Run) -> None:
        """Put messages of one run where they belong, and move the mark of their lane past each. Raises ProtocolError.

        What a message that is handed over needs of its queue and its peer is looked up once for all of them.
        """
        envelope = run.envelope
        if envelope.queue:
            self._check(peer, envelope)
            queue = self._domain.queues.get(envelope.queue)
            if queue is not None and queue.enabled and queue.address.name == envelope.address:
                count = self._take_run(incoming, envelope, queue, run.messages)
            else:
                count = 0
                for message in run.messages:
                    count += self._take_handed(envelope, message)
                    incoming.taken_next()
            self._count(peer, envelope, count)
        else:
            for message in run.messages:
                envelope.message = message
                full = self.take(peer, incoming.lane, envelope)
                incoming.taken_next()
                if full is not None:
                    incoming.hold(full)
        peer.taken += len(run.messages)
        self._mesh.taken += len(run.messages)

    def _take_run(self, incoming: "Incoming", envelope: Envelope, queue: Queue, messages: list[Message]) -> int:
        """Put messages that are handed over into a queue that takes them; return how many it took."""
        addresses, numbers = self._domain.addresses, self._domain.dispatcher.numbers
        delivery_count, was_acquired = envelope.delivery_count, envelope.was_acquired
        address = ""
        origin: Address | None = None
        count = 0
        self.is_taking = True
        for message in messages:
            if message.extra is not None:
                # It is looked up: it may be a duplicate.
                count += self._take_handed(envelope, message)
                self.is_taking = True
            else:
                message.extra = envelope.path_alone
                message.id = numbers.new_message_id()
                if origin is None or message.address != address:
                    address = message.address
                    origin = addresses.get(address, queue.address)
                message.origin = origin
                queue.take_handed(message, delivery_count, was_acquired)
                count += 1
            incoming.taken_next()
        self.is_taking = False
        return count

    def _check(self, peer: "Peer", envelope: Envelope) -> None:
        """Raise ProtocolError for a queue that a peer must not hand over messages of."""
        local = self._mesh.local(envelope.queue)
        is_known = local is not None and local.queue.address.name == envelope.address
        if not is_known and not self._mesh.is_shared(envelope.address, envelope.queue):
            raise ProtocolError(f"the peer has sent a message for '{envelope.address}', which the mesh does not have")
        if not peer.may_share(envelope.address):
            raise ProtocolError(f"the peer has sent a message for '{envelope.address}', without the permission mesh")

    def _take_handed(self, envelope: Envelope, message: Message) -> bool:
        """Put a message that is handed over into its queue; tell whether it is there."""
        has_extra = message.extra is not None
        if not has_extra:
            message.extra = envelope.path_alone
        elif self._mesh.duplicate_ids.is_duplicate(envelope, message):
            return False
        else:
            message.set_extra(PATH, envelope.path_text)
        if not self.put(
            envelope.address,
            envelope.queue,
            message,
            envelope.delivery_count,
            envelope.was_acquired,
            envelope.is_shared,
        ):
            return False
        if has_extra:
            self._mesh.duplicate_ids.remember(message)
        return True

    def _count(self, peer: "Peer", envelope: Envelope, count: int) -> None:
        """Count messages of a queue that a peer has handed over."""
        local = self._mesh.local(envelope.queue)
        if local is not None and count:
            local.grants.came_from(peer, count)

    def _may_bring(self, peer: "Peer", address: str) -> bool:
        """Tell whether a peer may bring copies for an address; if not, they are discarded.

        The peer cannot know it: a subscription to a pattern may cover addresses that it must not bring.
        """
        reason = ""
        if not self._mesh.config.scope.covers(address) or self._mesh.is_reserved(address):
            reason = f"a copy from {peer.label}, whose mesh covers other addresses"
        elif not peer.may_share(address):
            reason = f"a copy from {peer.label}, which lacks the permission mesh"
        if reason:
            self._domain.discards.add(address, DiscardCause.MESH, reason)
        return not reason

    def _take_copy(self, envelope: Envelope) -> Address | None:
        """Give a copy to the subscriptions here that want it, and pass it on to other nodes that it is for."""
        mesh, domain, message = self._mesh, self._domain, envelope.message
        extra = {} if message.extra is None else message.extra
        text = extra.pop(COPY, None)
        nodes = text.split(",") if isinstance(text, str) and text else [mesh.node_id]
        if extra.pop(DURABLE, None) is not None:
            message.durable = True
        due_ms = extra.pop(DUE, None)
        extra.pop(PATH, None)
        message.extra = extra or None
        message.delivery_time_ms = due_ms if isinstance(due_ms, int) and due_ms > mesh.now_ms else 0
        message.id = domain.dispatcher.numbers.new_message_id()
        message.references = 0
        others = [node for node in nodes if node != mesh.node_id]
        if others and len(envelope.path) < mesh.config.max_hops and mesh.node_id not in envelope.path:
            message.origin = domain.addresses.get(message.address)
            for via, targets in mesh.elsewhere.ways_to(others).items():
                mesh.forward_to(via).put_copy(message, tuple(targets), message.durable, envelope.path)
        elif others:
            domain.discards.add(message.address, DiscardCause.MESH, "a copy has gone through too many brokers")
        return self._give_to_subscriptions(message) if mesh.node_id in nodes else None

    def _give_to_subscriptions(self, message: Message) -> Address | None:
        mesh, domain = self._mesh, self._domain
        if mesh.temporaries.is_reply(message):
            return mesh.temporaries.take(message)
        queues = mesh.interests.queues_for(message)
        if not queues:
            return None
        address = domain.addresses.get(message.address, queues[0].address)
        message.origin = address
        try:
            is_dropped = domain.drops(message, address)
        except Refusal as refusal:
            text = f"a copy from another broker was refused: {refusal}"
            domain.discards.add(message.address, DiscardCause.MESH, text)
            return None
        if not is_dropped:
            if mesh.newcomers.are_there:
                mesh.newcomers.copied(message)
            for queue in queues:
                queue.take(message)
            mesh.duplicate_ids.remember(message)
        return address if address.must_wait else None

    def make_shared(self, instance: SharedInstance) -> Queue | None:
        """Create the queue of a subscription that another node has; None if that is not possible."""
        domain = self._domain
        try:
            known = domain.addresses.get(instance.address)
            if known is None:
                known = domain.create_address(instance.address, frozenset((RoutingType.MULTICAST,)), auto_created=True)
            elif RoutingType.MULTICAST not in known.routing_types:
                domain.update_address(instance.address, known.routing_types | {RoutingType.MULTICAST})
            return domain.create_queue(
                QueueConfig(
                    name=instance.queue,
                    address=instance.address,
                    routing_type=RoutingType.MULTICAST,
                    durable=instance.is_durable > 0,
                    filter=instance.filter or None,
                    max_consumers=-1,
                    auto_delete=False,
                    auto_created=True,
                )
            )
        except Refusal as refusal:
            domain.events.emit(TakenAside(self._mesh.config.name, instance.queue, str(refusal)))
            return None

    def put(
        self,
        address: str,
        name: str,
        message: Message,
        delivery_count: int,
        was_acquired: bool,
        is_for_subscription: bool = False,
    ) -> bool:
        """Put a message into a queue of this broker, past all rules of the mesh; create the queue if need be.

        Returns False if that is not possible, and the message went to the dead-letter address, or if the subscription
        that it is for was ended.
        """
        queue = self._domain.queues.get(name)
        if queue is None and is_for_subscription:
            # It was ended while the message was on its way.
            self._domain.discards.add(name, DiscardCause.MESH, "the subscription was ended")
            return False
        if queue is None:
            queue = self.make_shell(address, name)
        message.id = self._domain.dispatcher.numbers.new_message_id()
        if queue is None or queue.address.name != address or not queue.enabled:
            self._put_aside(address, name, message)
            return False
        message.origin = self._domain.addresses.get(message.address, queue.address)
        self.is_taking = True
        queue.take_handed(message, delivery_count, was_acquired)
        self.is_taking = False
        return True

    def _put_aside(self, address: str, name: str, message: Message) -> None:
        """Send a message that cannot be in its queue to the dead-letter address, since the peer does not keep it."""
        domain = self._domain
        reason = f"queue '{name}' of '{address}' cannot be had here"
        domain.events.emit(TakenAside(self._mesh.config.name, name, reason))
        known = domain.addresses.get(address)
        if known is None:
            known = domain.create_address(address, frozenset((RoutingType.ANYCAST,)), auto_created=True)
        domain.undeliverable.untransformed(message, known, name, None)

    def make_shell(self, address: str, name: str) -> Queue | None:
        """Create a queue that exists elsewhere, with this broker's settings; None if that is not possible."""
        domain = self._domain
        try:
            known = domain.addresses.get(address)
            if known is None:
                known = domain.create_address(address, frozenset((RoutingType.ANYCAST,)), auto_created=True)
            elif RoutingType.ANYCAST not in known.routing_types:
                domain.update_address(address, known.routing_types | {RoutingType.ANYCAST})
            return domain.create_queue(
                QueueConfig(name=name, address=address, routing_type=RoutingType.ANYCAST, auto_created=True)
            )
        except Refusal as refusal:
            domain.events.emit(TakenAside(self._mesh.config.name, name, str(refusal)))
            return None
