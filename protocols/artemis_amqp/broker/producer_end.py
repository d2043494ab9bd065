"""A link on which a client sends: its target, what is resumed on it, and what is kept when it ends.

`producers` handles the deliveries.
"""

from typing import TYPE_CHECKING, Final

from attrs import evolve

from artemis_amqp.broker.addressing import routing_type_of
from artemis_amqp.broker.dynamic_nodes import create_node
from artemis_amqp.broker.exchanges import open_exchange, open_rabbit_target, wish_of
from artemis_amqp.broker.lingering import UNSETTLED_LIMIT, resumption_timeout_s
from artemis_amqp.broker.link_end import LinkEnd, Parting
from artemis_amqp.broker.producers import IncomingLink
from artemis_amqp.broker.rabbit_addresses import read_target
from artemis_amqp.broker.stages import open_stage
from artemis_amqp.broker.termini import SuspendedTarget
from artemis_amqp.engine import errors
from artemis_amqp.engine.performatives import AmqpError, Attach, Target
from artemis_amqp.engine.receiver import ReceiverLink
from artemis_amqp.engine.types import Symbol
from artemis_py.core.names.routing_type import RoutingType
from artemis_py.core.sessions.producer import Producer
from artemis_py.errors import NoSuchQueue

if TYPE_CHECKING:
    from artemis_amqp.broker.handler import AmqpHandler

DELAYED_DELIVERY: Final = Symbol("DELAYED_DELIVERY")
_REJECTED: Final = Symbol("amqp:rejected:list")


def supports_rejected(attach: Attach) -> bool:
    """Tell whether the client understands the outcome rejected."""
    outcomes = () if attach.source is None else attach.source.outcomes
    return not outcomes or _REJECTED in outcomes


class ProducerEnd(LinkEnd):
    """Our half of a link on which a client sends messages."""

    def __init__(self, handler: "AmqpHandler", link: ReceiverLink, attach: Attach, target: Target | None) -> None:
        super().__init__(handler, link, attach)
        self._link: Final = link
        self._target: Final = target
        self._incoming: IncomingLink | None = None

    @property
    def terminus(self) -> Target | None:
        """The target that the client asked for."""
        return self._target

    @property
    def is_receiving(self) -> bool:
        """Whether part of a large message has arrived."""
        return self._incoming is not None and self._incoming.is_receiving

    def open(self) -> None:
        """Find the address, resume what the link left behind, and let the client send."""
        handler, link, attach = self.handler, self._link, self.attach
        if self._target is None:
            # This sender only asks what we remember of its terminus (amqp10 §9).
            raise NoSuchQueue(f"link '{attach.name}' has no known target")
        answer, producer = self._open_target(self._target)
        staged = open_stage(self, producer)
        wish = wish_of(answer.capabilities)
        incoming = self._incoming = IncomingLink(handler, link, producer, supports_rejected(attach), wish)
        link.handler = incoming
        handler.links.register(self)
        if producer is not None:
            producer.hold()
            producer.when_gone(self._target_deleted)
        self._take_back(incoming)
        link.accept(
            attach.source,
            answer,
            max_message_size=handler.parameters.max_message_size,
            offered_capabilities=(DELAYED_DELIVERY,) if DELAYED_DELIVERY in attach.desired_capabilities else (),
            unsettled=errors.decode_states(incoming.unsettled) if incoming.unsettled else None,
            properties=staged,
        )
        handler.manager.lifetimes.attached(self.key, "" if producer is None else producer.name)
        incoming.start()

    def _open_target(self, target: Target) -> tuple[Target, Producer | None]:
        """Return the target for the answer, and the producer for it; the producer is None for an anonymous terminus."""
        session = self.handler.core_session
        routing_type = routing_type_of(target.capabilities)
        if target.dynamic:
            name, properties = create_node(self, target)
            answer = evolve(target, address=name, dynamic_node_properties=properties)
            return answer, session.producer(name, routing_type)
        if not target.address:
            return target, None
        if self.handler.parameters.has_rabbit_addresses:
            wanted = read_target(target.address)
            if wanted is not None:
                return open_rabbit_target(session, target, wanted)
        name, prefixed = self.handler.prefixes.strip(target.address)
        if prefixed is None:
            opened = open_exchange(session, target, name, routing_type is RoutingType.ANYCAST)
            if opened is not None:
                return opened
        return target, session.producer(name, prefixed if routing_type is None else routing_type)

    def _take_back(self, incoming: IncomingLink) -> None:
        """Take back outcomes from before a re-attach that the client may still ask for."""
        known = self.attach.unsettled
        suspended = self.handler.manager.termini.resume(self.key)
        if isinstance(suspended, SuspendedTarget) and known:
            # The same dictionary: the client may also settle them by their delivery-ids in the link's former session.
            incoming.unsettled = suspended.unsettled
            for tag in [tag for tag in suspended.unsettled if tag not in known]:
                del suspended.unsettled[tag]

    def _target_deleted(self, reason: str) -> None:
        """Detach the link: what it sends to was deleted."""
        self.handler.links.detach(self._link, AmqpError(errors.RESOURCE_DELETED, f"the target was removed: {reason}"))

    def check_rights(self) -> None:
        """Raise NotAuthorized if the client's new rights do not allow this link."""
        if self._incoming is not None:
            self._incoming.check_rights()

    def leave(self, parting: Parting) -> None:
        """Keep outcomes that the client did not settle, if it may come back and resume the link."""
        session = self.link.session
        incoming = self._incoming
        if incoming is not None:
            incoming.stop()
            may_come_back = parting not in (Parting.CLOSED, Parting.REMOVED)
            if may_come_back and incoming.has_unsettled and resumption_timeout_s(self._target) != 0:
                self.suspend(SuspendedTarget(incoming.unsettled))
            if len(session.unsettled_in) > UNSETTLED_LIMIT:
                session.drop_deliveries(self.link)
        self.depart(parting)
