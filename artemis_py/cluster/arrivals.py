"""Messages from peers: into their queues, which are created if need be (mesh §5.5)."""

from typing import TYPE_CHECKING, Final

from artemis_py.cluster.envelope import PATH, Envelope
from artemis_py.cluster.events import TakenAside
from artemis_py.core.names.routing_type import RoutingType
from artemis_py.core.queues.queue import Queue
from artemis_py.core.routing.domain import Domain
from artemis_py.core.settings.queue_config import QueueConfig
from artemis_py.errors import ProtocolError, Refusal

if TYPE_CHECKING:
    from artemis_py.cluster.mesh import Mesh
    from artemis_py.cluster.peer import Peer


class Arrivals:
    """Puts messages of peers where they belong."""

    def __init__(self, mesh: "Mesh") -> None:
        self.is_taking: bool = False
        """Whether a message from a peer is being put into its queue."""
        self._mesh: Final = mesh
        self._domain: Final[Domain] = mesh.domain

    # -- messages ----------------------------------------------------------------------------------------------

    def take(self, peer: "Peer", envelope: Envelope) -> None:
        """Put a message from a peer into its queue. Raises ProtocolError for one that the peer must not send."""
        if (
            not self._mesh.config.scope.covers(envelope.address)
            or self._mesh.is_reserved(envelope.address)
            or self._mesh.is_reserved(envelope.queue)
        ):
            raise ProtocolError(f"the peer has sent a message for '{envelope.address}', which the mesh does not have")
        if not peer.may_share(envelope.address):
            raise ProtocolError(f"the peer has sent a message for '{envelope.address}', without the permission mesh")
        message = envelope.message
        queue = self._domain.queues.get(envelope.queue)
        if queue is None:
            queue = self.make_shell(envelope.address, envelope.queue)
        message.id = self._domain.dispatcher.numbers.new_message_id()
        message.set_extra(PATH, ",".join(envelope.path))
        if queue is None or queue.address.name != envelope.address or not queue.enabled:
            self._put_aside(envelope)
            return
        message.origin = self._domain.addresses.get(message.address, queue.address)
        self.is_taking = True
        queue.take_handed(message, envelope.delivery_count, envelope.was_acquired)
        self.is_taking = False
        local = self._mesh.local(envelope.queue)
        if local is not None:
            told = local.told.get(peer)
            if told is not None:
                told.received += 1
                told.received_ms = self._mesh.now_ms
            local.changed()

    def _put_aside(self, envelope: Envelope) -> None:
        """Send a message that cannot be in its queue to the dead-letter address: the peer no longer has it."""
        domain = self._domain
        reason = f"queue '{envelope.queue}' of '{envelope.address}' cannot be had here"
        domain.events.emit(TakenAside(self._mesh.config.name, envelope.queue, reason))
        address = domain.addresses.get(envelope.address)
        if address is None:
            address = domain.create_address(envelope.address, frozenset((RoutingType.ANYCAST,)), auto_created=True)
        domain.undeliverable.untransformed(envelope.message, address, envelope.queue, None)

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
