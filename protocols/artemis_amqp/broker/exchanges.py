"""Links and relayed messages that go to an exchange (qpid-exchanges §13).

An address means an exchange if there is one of that name, or of the name before the first slash; what follows the slash
is the routing key. Otherwise each message has its own: the application property `routing-key`, the subject, or `to`.
"""

from typing import TYPE_CHECKING, Final

from attrs import evolve

from artemis_amqp.broker.rabbit_addresses import RabbitTarget, read_target
from artemis_amqp.engine.performatives import Target
from artemis_amqp.engine.types import Symbol
from artemis_amqp.messages.sections import SUBJECT_FIELD, TO_FIELD, read_application_property, read_property
from artemis_py.core.messages.message import Message
from artemis_py.core.names.routing_type import RoutingType
from artemis_py.core.sessions.exchanges import (
    RoutingKeys,
    open_exchange_of_name,
    open_named_exchange,
    open_queue_producer,
)
from artemis_py.core.sessions.producer import Producer
from artemis_py.core.sessions.session import Session

if TYPE_CHECKING:
    from artemis_amqp.broker.handler import AmqpHandler

DISCARD_UNROUTABLE: Final = Symbol("DISCARD_UNROUTABLE")
REJECT_UNROUTABLE: Final = Symbol("REJECT_UNROUTABLE")
_KEY_PROPERTIES: Final = ("routing-key", "routing_key")


class MessageKeys(RoutingKeys):
    """Finds the routing key in a message."""

    def key_of(self, message: Message, exchange: str) -> str:
        """Return the routing key, without the name of the exchange and a slash in front. Raises MalformedValue."""
        bare = message.data
        key: str | None = None
        for name in _KEY_PROPERTIES:
            value = read_application_property(bare, name)
            if isinstance(value, str):
                key = value
                break
        if key is None:
            subject = read_property(bare, SUBJECT_FIELD)
            if isinstance(subject, str):
                key = subject
        if key is None:
            to = read_property(bare, TO_FIELD)
            # The name of the exchange alone is no key, however it came into the field.
            if not isinstance(to, str) or to == exchange:
                return ""
            key = to
        prefix = exchange + "/"
        return key[len(prefix) :] if key.startswith(prefix) else key


KEYS: Final = MessageKeys()


def open_exchange(session: Session, target: Target, name: str, wants_queue: bool) -> tuple[Target, Producer] | None:
    """Return the target for the answer and the producer, if the address of a target means an exchange.

    The capabilities of the answer say what becomes of messages that reach no queue. Raises NotAuthorized.
    """
    opened = open_named_exchange(session, name, KEYS, wish_of(target.capabilities), wants_queue)
    if opened is None:
        return None
    producer, rejects = opened
    return _answer(target, REJECT_UNROUTABLE if rejects else DISCARD_UNROUTABLE), producer


def open_rabbit_target(session: Session, target: Target, wanted: RabbitTarget) -> tuple[Target, Producer]:
    """Return the target for the answer and the producer for an address of RabbitMQ. Raises Refusal."""
    wish = wish_of(target.capabilities)
    producer = _open_rabbit(session, wanted, wish, must_exist=True)
    effective = None if wish is None else REJECT_UNROUTABLE if wish else DISCARD_UNROUTABLE
    return _answer(target, effective), producer


def relay(
    handler: "AmqpHandler", to: str, routing_type: RoutingType | None, is_prefixed: bool, wish: bool | None
) -> Producer:
    """Return the producer for a message on an anonymous link, by its `to`. Raises Refusal."""
    session = handler.core_session
    if not is_prefixed:
        wanted = read_target(to) if handler.parameters.has_rabbit_addresses else None
        if wanted is not None:
            return _open_rabbit(session, wanted, wish, must_exist=False)
        opened = open_named_exchange(session, to, KEYS, wish, routing_type is RoutingType.ANYCAST)
        if opened is not None:
            return opened[0]
    return session.producer(to, routing_type)


def wish_of(capabilities: tuple[Symbol, ...]) -> bool | None:
    """Return whether a producer wants messages refused that reach no queue; None: the exchange decides."""
    if DISCARD_UNROUTABLE in capabilities:
        return False
    return True if REJECT_UNROUTABLE in capabilities else None


def _open_rabbit(session: Session, wanted: RabbitTarget, wish: bool | None, must_exist: bool) -> Producer:
    """Open a producer that is told of messages that reach no queue, unless it wants to know nothing of them.

    For a target the queue `must_exist`; a relayed message that names none is one that reaches no queue. Raises Refusal.
    """
    rejects = wish is not False
    if wanted.exchange is None:
        return open_queue_producer(session, wanted.key, rejects, must_exist)
    return open_exchange_of_name(session, wanted.exchange, wanted.key, KEYS, rejects)


def _answer(target: Target, effective: Symbol | None) -> Target:
    """Return the target with the capability that is in force."""
    others = tuple([each for each in target.capabilities if each not in (DISCARD_UNROUTABLE, REJECT_UNROUTABLE)])
    return evolve(target, capabilities=others if effective is None else (*others, effective))
