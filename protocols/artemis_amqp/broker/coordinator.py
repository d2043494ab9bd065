"""Transactions: the link on which a client declares and discharges them (AMQP 1.0 part 4, amqp10 §13).

A transaction belongs to the coordinator link that declared it and is rolled back when that link ends. Its work may
come over any session of the connection.
"""

from functools import partial
from struct import Struct
from typing import TYPE_CHECKING, Final

from artemis_amqp.broker.link_end import LinkEnd, Parting
from artemis_amqp.broker.producer_end import supports_rejected
from artemis_amqp.engine import errors
from artemis_amqp.engine.codec import encode_value, read_value
from artemis_amqp.engine.handlers import ReceiverLinkHandler
from artemis_amqp.engine.performatives import (
    Accepted,
    AmqpError,
    Attach,
    Coordinator,
    Declare,
    Declared,
    Discharge,
    Rejected,
    TransactionalState,
    encode,
    read_composite,
)
from artemis_amqp.engine.receiver import ReceiverLink
from artemis_amqp.engine.sender import SenderLink
from artemis_amqp.engine.transfer_frame import TransferFrame
from artemis_amqp.engine.types import Described, Symbol
from artemis_py.core.routing.transaction import Transaction
from artemis_py.core.sessions.session import Session
from artemis_py.errors import LimitExceeded, MalformedFrame, Refusal, UnknownTransaction

if TYPE_CHECKING:
    from artemis_amqp.broker.handler import AmqpHandler

CAPABILITIES: Final = (
    Symbol("amqp:local-transactions"),
    Symbol("amqp:multi-txns-per-ssn"),
    Symbol("amqp:multi-ssns-per-txn"),
)

# Open transactions of one connection. A client works on one per session; 255 sessions are allowed.
TRANSACTION_LIMIT: Final = 1024

# A coordinator link needs one outstanding command at a time; a few more keep pipelining clients busy.
CREDIT: Final = 10

_ID: Final = Struct(">Q")
_VALUE_SECTION: Final = (0x77, "amqp:amqp-value:*")
_ACCEPTED_STATE: Final = encode(Accepted())


class Transactions:
    """The open transactions of one connection, by the ids its client knows."""

    def __init__(self, handler: "AmqpHandler") -> None:
        self._handler = handler
        self._to_settle: dict[int, list[tuple[SenderLink, int, bytes]]] = {}
        """Deliveries that the client retired but did not settle: we settle them when the transaction is committed."""

    @property
    def _session(self) -> Session:
        return self._handler.core_session

    def find(self, txn_id: bytes) -> Transaction:
        """Return the open transaction of this id. Raises UnknownTransaction."""
        if len(txn_id) != _ID.size:
            raise UnknownTransaction("no transaction of this id was declared here")
        number: int = _ID.unpack(txn_id)[0]
        return self._session.transaction(number)

    def id_of(self, transaction: Transaction) -> bytes:
        """Return the txn-id by which the client knows the transaction."""
        return _ID.pack(transaction.id)

    def declare(self) -> Transaction:
        """Open a transaction. Raises LimitExceeded."""
        if len(self._session.transactions) >= TRANSACTION_LIMIT:
            raise LimitExceeded(f"{TRANSACTION_LIMIT} transactions are open on this connection")
        return self._session.begin()

    def settle_at_end(self, transaction: Transaction, link: SenderLink, delivery_id: int, state: bytes) -> None:
        """Settle this delivery when the transaction is committed; after a rollback it stays unsettled at the client."""
        self._to_settle.setdefault(transaction.id, []).append((link, delivery_id, state))

    def commit(self, transaction: Transaction) -> None:
        """Commit a transaction. Raises TransactionRolledBack."""
        settlements = self._to_settle.pop(transaction.id, [])
        self._session.commit(transaction)
        for link, delivery_id, state in settlements:
            self._handler.answers.when_durable(partial(link.settle, delivery_id, state))

    def rollback(self, transaction: Transaction) -> None:
        """Roll a transaction back."""
        self._to_settle.pop(transaction.id, None)
        self._session.rollback(transaction)


class CoordinatorLink(ReceiverLinkHandler):
    """One control link: its transfers are commands, and their outcomes are the answers."""

    def __init__(self, handler: "AmqpHandler", link: ReceiverLink, supports_rejected: bool) -> None:
        self._handler = handler
        self._link = link
        self._supports_rejected = supports_rejected
        self._declared: dict[int, Transaction] = {}

    def start(self) -> None:
        """Let the client send commands."""
        self._link.grant(CREDIT)

    def on_transfer(self, link: ReceiverLink, delivery: TransferFrame) -> None:
        """Carry out one command, a declare or a discharge, and answer it."""
        delivery_id, settled = delivery.delivery_id, delivery.is_settled
        try:
            command = _read_command(delivery.payload)
            if isinstance(command, Declare):
                self._declare(delivery_id, command, settled)
            else:
                self._discharge(delivery_id, command, settled)
        except (Refusal, MalformedFrame, errors.Condition) as error:
            self._refuse(delivery_id, settled, error)
        if self._link.is_attached:
            link.grant(CREDIT)

    def on_settled(self, link: ReceiverLink, delivery_id: int, tag: bytes) -> None:
        """Do nothing: the client settled an answer."""

    def _declare(self, delivery_id: int, command: Declare, settled: bool) -> None:
        if command.global_id is not None:
            raise errors.Condition(errors.NOT_IMPLEMENTED, "distributed transactions are not supported")
        if settled:
            raise errors.Condition(errors.INVALID_FIELD, "a settled declare could not be answered with an id")
        transaction = self._handler.transactions.declare()
        self._declared[transaction.id] = transaction
        declared = encode(Declared(txn_id=self._handler.transactions.id_of(transaction)))
        self._link.session.settle_incoming(delivery_id, delivery_id, declared, True)

    def _discharge(self, delivery_id: int, command: Discharge, settled: bool) -> None:
        transaction = self._handler.transactions.find(command.txn_id)
        if transaction.id not in self._declared:
            raise UnknownTransaction("this transaction was declared on another link")
        if self._is_posting(command.txn_id):
            # The one error that ends the link even if the client understands rejected (AMQP 1.0 §4.4.1); its
            # transactions end too.
            text = "a delivery of the transaction was sent in part: it was rolled back"
            self._handler.links.detach(self._link, AmqpError(errors.ROLLBACK, text))
            return
        del self._declared[transaction.id]
        if command.fail:
            self._handler.transactions.rollback(transaction)
        else:
            self._handler.transactions.commit(transaction)
        if not settled:
            self._handler.answers.when_durable(
                partial(self._link.session.settle_incoming, delivery_id, delivery_id, _ACCEPTED_STATE, True)
            )

    def _is_posting(self, txn_id: bytes) -> bool:
        """Tell whether part of a delivery of this transaction has arrived on any link."""
        for state in self._handler.engine.posting.values():
            if isinstance(state, TransactionalState) and state.txn_id == txn_id:
                return True
        return False

    def _refuse(self, delivery_id: int, settled: bool, error: Exception) -> None:
        amqp_error = errors.to_amqp(error)
        if settled or not self._supports_rejected:
            self._handler.links.detach(self._link, amqp_error)
        else:
            rejected = encode(Rejected(error=amqp_error))
            self._link.session.settle_incoming(delivery_id, delivery_id, rejected, True)

    def close(self) -> None:
        """Roll back the open transactions of a link that is gone."""
        for transaction in self._declared.values():
            if transaction.is_open:
                self._handler.transactions.rollback(transaction)
        self._declared.clear()


class CoordinatorEnd(LinkEnd):
    """Our half of a link to the coordinator."""

    def __init__(self, handler: "AmqpHandler", link: ReceiverLink, attach: Attach, target: Coordinator) -> None:
        super().__init__(handler, link, attach)
        self._link = link
        self._target = target
        self._commands = CoordinatorLink(handler, link, supports_rejected(attach))

    @property
    def terminus(self) -> None:
        """Always None: transactions do not outlive their link."""

    def open(self) -> None:
        """Let the client declare transactions."""
        handler, link = self.handler, self._link
        link.handler = self._commands
        handler.links.register(self)
        link.accept(self.attach.source, _answer(self._target), max_message_size=handler.parameters.max_message_size)
        self._commands.start()

    def leave(self, parting: Parting) -> None:
        """Roll back the link's open transactions."""
        self._commands.close()


def _read_command(payload: bytes) -> Declare | Discharge:
    """Return the command in a control message: one amqp-value section; sections before it are skipped.

    Raises MalformedFrame, Condition.
    """
    offset = 0
    end = len(payload)
    while offset < end:
        section, offset = read_value(payload, offset, end)
        if isinstance(section, Described) and section.descriptor in _VALUE_SECTION:
            octets = encode_value(section.value)
            command, _ = read_composite(octets, 0, len(octets))
            if isinstance(command, (Declare, Discharge)):
                return command
            break
    raise errors.Condition(errors.INVALID_FIELD, "a coordinator takes a declare or a discharge as amqp-value")


def _answer(asked: Coordinator) -> Coordinator:
    """Return the target of the answer, with the requested capabilities that we support."""
    wanted = asked.capabilities
    return Coordinator(capabilities=tuple(one for one in CAPABILITIES if not wanted or one in wanted) or CAPABILITIES)
