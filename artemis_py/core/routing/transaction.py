"""A local transaction: sends and settlements that happen together or not at all (artemis-model §3.18).

A message is routed when it is sent, and the queues get it at the commit. A settlement claims its delivery until the
transaction ends: no other consumer gets the message, and it counts as in delivery.
"""

from collections.abc import Callable

from artemis_py.core.addresses.address import Address
from artemis_py.core.addresses.binding import Binding
from artemis_py.core.messages.message import Message
from artemis_py.core.queues.consumer import ACCEPTED, FAILED
from artemis_py.core.queues.reference import Reference, Shown, hold, unhold
from artemis_py.core.queues.settlement import acknowledge, amend, claim, end_claim, give_back, unclaim
from artemis_py.errors import Refusal, TransactionRolledBack


class Settlement:
    """The settlement of one delivery at the commit."""

    __slots__ = ("amended", "here", "is_final", "outcome", "reference")

    def __init__(self, reference: Reference, outcome: int, here: bool, is_final: bool, amended: Message | None) -> None:
        self.reference = reference
        self.amended = amended
        self.outcome = outcome
        self.here = here
        self.is_final = is_final

    def carry_out(self) -> None:
        """Settle the claimed delivery."""
        reference = self.reference
        end_claim(reference)
        consumer = reference.consumer
        if self.outcome == ACCEPTED:
            if consumer is not None:
                consumer.accepted += 1
            acknowledge(reference)
        else:
            if consumer is not None and not self.here:
                consumer.hide(reference)
            if self.amended is not None:
                amend(reference, self.amended)
            give_back(reference, self.outcome)

    def undo(self) -> None:
        """Return the delivery as a failed attempt, or to the client that keeps it."""
        reference = self.reference
        end_claim(reference)
        if self.is_final or not unclaim(reference):
            give_back(reference, FAILED)


class Transaction:
    """One transaction, which ends with exactly one `commit` or `rollback`."""

    def __init__(self, id: int, started_steady_ms: int) -> None:
        self.id: int = id
        self.started_steady_ms: int = started_steady_ms
        """Time of the beginning, as `Dispatcher.steady_ms` counts."""
        self.is_open: bool = True
        self.claims: dict[tuple[Address, bytes], None] = {}
        """Duplicate ids of its messages, each with the address that remembers it from the commit on."""
        self._failure: Refusal | None = None
        self.on_end: Callable[[Transaction], None] | None = None
        """Called when it has ended, in whatever way."""
        self._sends: list[tuple[Message, list[Binding]]] = []
        self._settlements: list[Settlement] = []

    def send(self, message: Message, targets: list[Binding]) -> None:
        """Keep a routed message until the transaction ends; it counts for the memory limits from now on."""
        hold(message)
        self._sends.append((message, targets))

    def claim(self, address: Address, duplicate_id: bytes) -> None:
        """Keep the duplicate id of a message that was sent."""
        self.claims[(address, duplicate_id)] = None

    def has_claimed(self, address: Address, duplicate_id: bytes) -> bool:
        """Tell whether one of its messages for this address has this id."""
        return (address, duplicate_id) in self.claims

    @property
    def is_durable(self) -> bool:
        """Whether any message in it is durable."""
        return any(message.durable for message, _ in self._sends)

    def settle(
        self,
        reference: Reference,
        outcome: int,
        here: bool = True,
        is_final: bool = True,
        amended: Message | None = None,
    ) -> bool:
        """Claim a delivery; False if it was settled already.

        `is_final` false: the client keeps the delivery if the transaction is rolled back. `amended`: the changed
        message that replaces the original when it is given back (`Queue.amend`).
        """
        consumer = reference.consumer
        if consumer is not None and isinstance(reference, Shown):
            # Its message stays in the queue, whatever becomes of the transaction.
            consumer.settle(reference, outcome)
            return True
        if consumer is None or reference.outstanding is not consumer.outstanding:
            return False
        claim(reference)
        self._settlements.append(Settlement(reference, outcome, here, is_final, amended))
        return True

    def fail(self, reason: Refusal) -> None:
        """Note that a part of the transaction failed, so that it can only be rolled back."""
        if self._failure is None:
            self._failure = reason

    def commit(self) -> None:
        """Carry out everything. Raises TransactionRolledBack, after undoing everything, if a part of it had failed."""
        self.check()
        self.is_open = False
        for message, targets in self._sends:
            message.stored_first = True
            for target in targets:
                if not target.is_deleted:
                    target.take(message)
            unhold(message)
        for settlement in self._settlements:
            settlement.carry_out()
        self._clear()

    def rollback(self) -> None:
        """Undo everything: discard messages; deliveries go back as failed attempts, or to clients that keep them."""
        self.is_open = False
        for message, _ in self._sends:
            unhold(message)
        # Newest first, so that each finds its place at the head of its queue at once.
        for settlement in reversed(self._settlements):
            settlement.undo()
        self._clear()

    @property
    def sends(self) -> list[tuple[Message, list[Binding]]]:
        """Its messages, each with the bindings that get it at the commit. Each message is held once for it."""
        return self._sends

    @property
    def settlements(self) -> list[Settlement]:
        """Its claimed deliveries, in the order in which they were settled."""
        return self._settlements

    @property
    def has_work(self) -> bool:
        """Whether it has anything to carry out, or has failed."""
        return bool(self._sends or self._settlements or self.claims) or self._failure is not None

    def check(self) -> None:
        """Raise TransactionRolledBack, after undoing everything, if a part of it had failed."""
        if self._failure is not None:
            reason = self._failure
            self.rollback()
            raise TransactionRolledBack(f"transaction {self.id} was rolled back: {reason}")

    def hand_over(self) -> None:
        """End it without doing anything: the caller has taken over its messages, its claims and its settlements."""
        self.is_open = False
        self._clear()

    def _clear(self) -> None:
        self.claims = {}
        self._sends = []
        self._settlements = []
        if self.on_end is not None:
            self.on_end(self)
            self.on_end = None
