"""Deliveries of one queue to one consumer of a client."""

from typing import TYPE_CHECKING

from artemis_openwire.broker.exchange_names import exchange_name_of
from artemis_openwire.broker.subscriptions import Reading
from artemis_openwire.engine.codec import write_nested
from artemis_openwire.engine.large_delivery import send_large
from artemis_openwire.engine.structures import ActiveMQDestination
from artemis_openwire.messages.delivery import delivery_of, redirected
from artemis_openwire.messages.format import OPENWIRE_FORMAT
from artemis_py.core.messages.large_body import LargeBody
from artemis_py.core.messages.message import ROUTING_KEY, Message
from artemis_py.core.queues.consumer import REJECTED, RELEASED, Consumer, Sink
from artemis_py.core.queues.reference import Reference
from artemis_py.core.sessions.subscriptions import Subscription
from artemis_py.errors import ProtocolError, StoreError

if TYPE_CHECKING:
    from artemis_openwire.broker.consumers import ClientConsumer


class Source(Sink):
    """One queue that a consumer reads. A list of destinations has one for each of them."""

    def __init__(self, owner: "ClientConsumer", reading: Reading, destination: ActiveMQDestination) -> None:
        self.owner: ClientConsumer = owner
        self.subscription: Subscription = reading.subscription
        self.consumer: Consumer | None = None
        """Consumer of the core; None before it is attached, and once the queue is gone."""
        self._destination: ActiveMQDestination = destination
        self._redirects: bool = reading.redirects
        """Whether messages are to name the queue that they come from instead of the topic that they were sent to."""
        self._is_wild: bool = reading.is_wild
        """Whether messages come from many addresses, and each names its own."""
        self._has_keys: bool = reading.has_keys
        """Whether messages come through an exchange, and each names its routing key."""
        self._address: str = ""
        """The address that `_field` names, if messages come from many."""
        self._field: bytes = write_nested(destination, 1)

    def deliver(self, reference: Reference) -> None:
        """Write one delivery."""
        consumer = self.consumer
        if consumer is None:
            return
        owner = self.owner
        message = reference.message
        try:
            header, body = delivery_of(message, owner.run_name)
            if self._redirects:
                header, body = redirected(header, body, self._destination)
        except (ProtocolError, StoreError) as error:
            # No client can read it: it goes to the dead-letter address.
            owner.log_unconverted(reference, error)
            consumer.refuse(reference, REJECTED)
            return
        if self._is_wild and message.address != self._address:
            self._address = message.address
            self._field = write_nested(type(self._destination)(physical_name=message.address), 1)
        elif self._has_keys:
            self._name_key(message)
        number = owner.next_number
        if message.large is not None and message.format is OPENWIRE_FORMAT:
            is_sent = self._send_large(reference, message.large, header, body, consumer)
        else:
            is_sent = owner.writer.send(
                header,
                body,
                self._field,
                number,
                reference.delivery_count,
                owner.dispatcher.now_ms,
                consumer.is_first_of_group,
            )
        if not is_sent:
            # Larger than this client takes; another one may take it.
            consumer.refuse(reference, RELEASED)
            return
        owner.next_number = number + 1
        owner.dispatched[number] = None if consumer.is_browser else reference
        owner.sent()

    def _name_key(self, message: Message) -> None:
        """Have the delivery name the exchange and the routing key of a message."""
        key = message.lookup(ROUTING_KEY)
        name = message.address if not isinstance(key, str) else exchange_name_of(message.address, key)
        if name != self._address:
            self._address = name
            self._field = write_nested(type(self._destination)(physical_name=name), 1)

    def _send_large(
        self, reference: Reference, large: LargeBody, header: bytes, body: bytes, consumer: Consumer
    ) -> bool:
        """Begin a delivery whose content is in a file; False: the client does not take it, or it cannot be read."""
        owner = self.owner
        try:
            return send_large(
                owner.exchange.handler.engine,
                owner.writer,
                header,
                body,
                large,
                self._field,
                owner.next_number,
                reference.delivery_count,
                owner.dispatcher.now_ms,
                consumer.is_first_of_group,
            )
        except StoreError as error:
            owner.log_unconverted(reference, error)
            return False

    def drained(self) -> None:
        """Tell the consumer that this queue has nothing more for it."""
        self.owner.drained(self)

    def ended(self, reason: str) -> None:
        """Forget a queue that was deleted."""
        self.consumer = None
        self.owner.ended(self, reason)
