"""Transactions: what a client sends and acknowledges in one happens together or not at all (openwire §15.1).

A message or acknowledgement names its transaction by the octets of its id. A client that rolls back keeps what it has
received, and delivers it again by itself; so do we.
"""

from typing import TYPE_CHECKING, Final

from artemis_openwire.broker.refusals import CommandRefused
from artemis_openwire.engine import errors
from artemis_openwire.engine.codec import write_nested
from artemis_openwire.engine.commands import TransactionInfo
from artemis_openwire.engine.step_fields import BEGIN, COMMIT_ONE_PHASE, ROLLBACK
from artemis_openwire.engine.structures import LocalTransactionId, XATransactionId
from artemis_py.core.queues.consumer import ACCEPTED
from artemis_py.core.queues.reference import DELIVERING, Reference
from artemis_py.core.routing.transaction import Transaction
from artemis_py.errors import LimitExceeded, Refusal, TransactionRolledBack

if TYPE_CHECKING:
    from artemis_openwire.broker.consumers import ClientConsumer
    from artemis_openwire.broker.exchange import Exchange

PREPARE: Final = 1
COMMIT_TWO_PHASE: Final = 3
RECOVER: Final = 5
FORGET: Final = 6
END: Final = 7

_TIMED_OUT: Final = "the transaction was rolled back: it has taken too long"

# Open transactions of one connection. A client works on one for each session.
TRANSACTION_LIMIT: Final = 1024


class ClientTransaction:
    """One transaction, and the deliveries that were acknowledged in it."""

    def __init__(self, of: Transaction, is_replay: bool = False) -> None:
        self.of: Final = of
        self.is_replay: Final = is_replay
        """Whether all that the client does in it was done before, in a branch that is prepared."""
        self._acknowledged: list[tuple[ClientConsumer, int]] = []

    def acknowledge(self, consumer: "ClientConsumer", number: int, reference: Reference | None) -> None:
        """Acknowledge a delivery at the commit; it stays in the consumer's window until then."""
        if self.is_replay:
            return
        if reference is None or self.of.settle(reference, ACCEPTED, is_final=False):
            self._acknowledged.append((consumer, number))

    def committed(self) -> None:
        """Take the acknowledged deliveries out of the windows."""
        for consumer, number in self._acknowledged:
            consumer.take(number)
            consumer.window.shrink(1)
        self._update()

    def rolled_back(self) -> None:
        """Leave the deliveries with their consumers, which deliver them to the application again."""
        for consumer, number in self._acknowledged:
            consumer.window.shrink(1)
            reference = consumer.dispatched.get(number)
            if reference is not None and reference.state == DELIVERING:
                # The application gets it again, from the client; the next consumer is told of all attempts.
                reference.delivery_count += 1
                consumer.counted.add(number)
        self._update()

    def _update(self) -> None:
        for consumer in {id(consumer): consumer for consumer, _ in self._acknowledged}.values():
            consumer.update()


class Transactions:
    """The open transactions of one connection."""

    def __init__(self, exchange: "Exchange") -> None:
        self._exchange: Final = exchange
        self._open: dict[bytes, ClientTransaction] = {}

    def find(self, key: bytes) -> ClientTransaction:
        """Return an open transaction, local or distributed. Raises CommandRefused, TransactionRolledBack."""
        found = self._open.get(key)
        if found is None:
            found = self._exchange.branches.find(key)
        if found is None:
            raise CommandRefused(errors.JMS, "the transaction has not been started")
        if not found.of.is_open:
            raise TransactionRolledBack(_TIMED_OUT)
        return found

    def on_info(self, info: TransactionInfo, answer_id: int) -> bool:
        """Take a step of a transaction; True if the answer is not a plain one, and was given. Raises Refusal."""
        if isinstance(info.transaction_id, XATransactionId) or info.type == RECOVER:
            self._exchange.branches.on_info(info, answer_id)
            return True
        if not isinstance(info.transaction_id, LocalTransactionId):
            raise CommandRefused(errors.JMS, "a transaction needs an id")
        self.step(write_nested(info.transaction_id, self._exchange.handler.engine.version), info.type)
        return False

    def step(self, key: bytes, step: int) -> None:
        """Take a step of a local transaction. Raises Refusal."""
        if step == BEGIN:
            self._begin(key)
        elif step in (COMMIT_ONE_PHASE, COMMIT_TWO_PHASE):
            self._commit(key)
        elif step == ROLLBACK:
            self._rollback(key)
        elif step != END:
            raise CommandRefused(errors.JMS, f"a local transaction has no step of type {step}")

    def _begin(self, key: bytes) -> None:
        if key in self._open:
            return
        if len(self._open) >= TRANSACTION_LIMIT:
            raise LimitExceeded(f"{TRANSACTION_LIMIT} transactions are open on this connection")
        self._open[key] = ClientTransaction(self._exchange.core.begin())

    def _commit(self, key: bytes) -> None:
        transaction = self._end(key)
        if not transaction.of.is_open:
            transaction.rolled_back()
            raise TransactionRolledBack(_TIMED_OUT)
        try:
            self._exchange.core.commit(transaction.of)
        except Refusal:
            transaction.rolled_back()
            raise
        transaction.committed()

    def _rollback(self, key: bytes) -> None:
        transaction = self._end(key)
        if transaction.of.is_open:
            self._exchange.core.rollback(transaction.of)
        transaction.rolled_back()

    def _end(self, key: bytes) -> ClientTransaction:
        """Return a transaction that ends. Raises CommandRefused."""
        transaction = self._open.pop(key, None)
        if transaction is None:
            raise CommandRefused(errors.JMS, "the transaction has not been started")
        return transaction

    def close(self) -> None:
        """Forget everything: the session of the core rolls back what is open."""
        self._open.clear()
