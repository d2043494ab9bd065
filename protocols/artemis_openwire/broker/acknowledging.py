"""Acknowledgements: what becomes of deliveries, and of the consumer's window (openwire §14.3)."""

from typing import TYPE_CHECKING, Final

from artemis_openwire.broker.consumers import ClientConsumer
from artemis_openwire.broker.refusals import told
from artemis_openwire.broker.transactions import ClientTransaction
from artemis_openwire.engine.ack_fields import DELIVERED, EXPIRED, INDIVIDUAL, POISON, STANDARD, AckFields
from artemis_openwire.engine.fields import NO_ANSWER
from artemis_openwire.engine.message_fields import HEADER
from artemis_openwire.messages.delivery import delivery_of
from artemis_py.core.queues.consumer import ACCEPTED, REJECTED
from artemis_py.core.queues.consumer import EXPIRED as EXPIRED_OUTCOME
from artemis_py.core.queues.reference import Reference
from artemis_py.errors import ProtocolError, Refusal, StoreError

if TYPE_CHECKING:
    from artemis_openwire.broker.exchange import Exchange

CAUSE: Final = "dlqDeliveryFailureCause"
"""Property of a dead letter: why the client gave the message up (openwire §14.3)."""

# Octets of a cause that are kept: a stack trace in a text would be of no use to anybody.
_MAX_CAUSE: Final = 1024


class Acknowledging:
    """Carries out a client's acknowledgements."""

    def __init__(self, exchange: "Exchange") -> None:
        self._exchange: Final = exchange

    def on_ack(self, ack: AckFields) -> None:
        """Act on one; what it names and is gone is ignored, because it comes again or has ended."""
        answer_id = ack.answer_id
        exchange = self._exchange
        consumer = exchange.consumers.find(ack.consumer_key)
        if consumer is not None:
            key = ack.transaction_key
            try:
                transaction = exchange.transactions.find(key) if key else None
                self._act(ack, consumer, transaction)
            except Refusal as refusal:
                exchange.handler.engine.fail(answer_id, told(refusal))
                return
            consumer.update()
        if answer_id != NO_ANSWER:
            exchange.answer_later(answer_id)

    def _act(self, ack: AckFields, consumer: ClientConsumer, transaction: ClientTransaction | None) -> None:
        kind = ack.type
        if transaction is None and kind in (STANDARD, INDIVIDUAL) and self._settled_one(ack, consumer):
            return
        if kind == DELIVERED:
            consumer.window.extend(ack.count, len(consumer.dispatched))
        elif kind in (STANDARD, INDIVIDUAL):
            numbers = self._numbers(ack, consumer, kind == INDIVIDUAL)
            if transaction is None:
                for number in numbers:
                    self._settle(consumer.take(number), ACCEPTED)
                consumer.window.shrink(len(numbers))
            else:
                if kind == INDIVIDUAL:
                    consumer.window.extend(len(numbers), len(consumer.dispatched))
                for number in numbers:
                    transaction.acknowledge(consumer, number, consumer.dispatched[number])
        elif kind == POISON:
            for number in self._numbers(ack, consumer, False):
                self._give_up(ack, consumer.take(number))
            consumer.window.shrink(1)
        elif kind == EXPIRED:
            for number in self._numbers(ack, consumer, False):
                self._settle(consumer.take(number), EXPIRED_OUTCOME)
            consumer.window.shrink(1)

    def _settled_one(self, ack: AckFields, consumer: ClientConsumer) -> bool:
        """Settle the only delivery that an acknowledgement is about, as nearly all are; False if it is another one."""
        number = ack.last_sequence
        if consumer.is_browser or not ack.has_first or ack.first_sequence != number:
            return False
        reference = consumer.take(number)
        if reference is None:
            return False
        if reference.consumer is not None:
            reference.consumer.settle(reference, ACCEPTED)
        consumer.window.shrink(1)
        return True

    def _numbers(self, ack: AckFields, consumer: ClientConsumer, is_single: bool) -> list[int]:
        """Return the deliveries that an acknowledgement is about, in order: from the first to the last."""
        dispatched = consumer.dispatched
        if not dispatched:
            return []
        oldest = consumer.oldest
        last = ack.last_sequence
        first = ack.first_sequence if ack.has_first else oldest
        if last not in dispatched:
            # The number of an earlier connection: the client found the same message again after it reconnected.
            last = self._number_of(consumer, ack.last_key)
            if first not in dispatched and ack.has_first:
                first = self._number_of(consumer, ack.first_key)
            if first < 0 or last < 0:
                return []
        if is_single:
            return [last]
        first = max(first, oldest)
        if last < first:
            return []
        if first == last:
            return [first] if first in dispatched else []
        self._exchange.handler.host.meter.work += min(last - first, len(dispatched)) >> 4
        if last - first < len(dispatched):
            return [number for number in range(first, last + 1) if number in dispatched]
        # One delivery may stay while millions come and go behind it.
        return [number for number in dispatched if first <= number <= last]

    def _number_of(self, consumer: ClientConsumer, key: bytes) -> int:
        """Return the number of the delivery of a message by the message's own id; -1: it was not delivered."""
        self._exchange.handler.host.meter.work += len(consumer.dispatched) >> 4
        for number, reference in consumer.dispatched.items():
            if reference is not None and _is_message(reference, consumer.run_name, key):
                return number
        return -1

    def _settle(self, reference: Reference | None, outcome: int) -> None:
        if reference is not None and reference.consumer is not None:
            reference.consumer.settle(reference, outcome)

    def _give_up(self, ack: AckFields, reference: Reference | None) -> None:
        """Send a message that the client could not process to the dead-letter address, with the reason."""
        if reference is None or reference.consumer is None:
            return
        if reference.outstanding is reference.consumer.outstanding:
            cause = ack.poison_cause
            text = None if cause is None else cause.message
            if text:
                message = reference.message
                extra = {**(message.extra or {}), CAUSE: text[:_MAX_CAUSE]}
                reference.queue.amend(reference, message.amended(message.annotations, extra))
            reference.delivery_count += 1
        reference.consumer.settle(reference, REJECTED)


def _is_message(reference: Reference, run_name: str, key: bytes) -> bool:
    """Tell whether a delivery is of the message with this id."""
    try:
        header, body = delivery_of(reference.message, run_name)
    except (ProtocolError, StoreError):
        return False
    number_end: int = HEADER.unpack(header)[2]
    return bool(key) and body.endswith(key, 0, number_end)
