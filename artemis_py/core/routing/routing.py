"""Routing: the way of a message through an address to its bindings.

A producer's message goes through `route`: it is admitted (`admission`), the router of its address chooses bindings
(`routes`), and they take it, or a transaction keeps it until the commit. A message that no binding accepts goes to
`undeliverable`.
"""

from artemis_py.core.addresses.address import Address
from artemis_py.core.addresses.binding import Binding
from artemis_py.core.messages.message import Message
from artemis_py.core.queues.dispatcher import Dispatcher
from artemis_py.core.queues.queue import Queue
from artemis_py.core.queues.reference import Reference
from artemis_py.core.routing.admission import Admission
from artemis_py.core.routing.directory import Directory
from artemis_py.core.routing.duplicates import TRAVELLING_ID, readable
from artemis_py.core.routing.fan_out import offer_to_all
from artemis_py.core.routing.forwarding import Forwarding
from artemis_py.core.routing.sender import Sender
from artemis_py.core.routing.transaction import Transaction
from artemis_py.core.routing.transformers import Transformers
from artemis_py.core.runtime.entropy import Entropy
from artemis_py.core.runtime.events import Duplicate, Events, Unrouted
from artemis_py.core.runtime.meter import PASSED_SHIFT
from artemis_py.core.runtime.numbers import Numbers
from artemis_py.core.settings.broker_settings import BrokerSettings
from artemis_py.core.settings.repository import SettingsRepository
from artemis_py.errors import DuplicateMessage


class Routing(Directory):
    """A directory that messages are sent through.

    It is a subclass of the directory rather than a user of it, because both are in the path of every message, and all
    callers that send messages also create addresses and queues.
    """

    def __init__(
        self,
        settings: SettingsRepository,
        dispatcher: Dispatcher,
        options: BrokerSettings,
        events: Events,
        entropy: Entropy,
        host: int = 0,
    ) -> None:
        super().__init__(settings, dispatcher, options, events, entropy, host)
        self.admission: Admission = Admission(dispatcher, events)
        self._numbers: Numbers = dispatcher.numbers
        self.forwarding: Forwarding = Forwarding(self)
        self.transformers: Transformers = Transformers()
        """What diverts may use to change messages."""

    def admit(self, message: Message, address: Address) -> bool:
        """Take responsibility for a message that is sent to an address; False: it is dropped.

        If the message does not name the address its producer sent it to, this address is filled in. Raises AddressFull
        if that is the policy of the address, StoreError for a durable message after the storage failed.
        """
        numbers = self._numbers
        message.id = numbers.message_id
        numbers.message_id += 1
        if not message.address:
            message.address = address.name
        message.origin = address
        if (address.account.is_full or self.account.is_full) and not address.internal:
            if self.admission.drops(message, address):
                return False
        if address.changes_messages:
            self.admission.change(message, address.settings)
        return True

    def route(
        self,
        message: Message,
        address: Address,
        queue_name: str = "",
        transaction: Transaction | None = None,
        sender: Sender | None = None,
    ) -> int:
        """Send a message through an address, or to one queue of it; return how many bindings got it.

        With a transaction they get it at the commit. Raises the same errors as `admit`. With a `sender` it also raises
        what a divert's copies are refused for, and nothing has been sent then.
        """
        if not self.admit(message, address):
            return 0
        router = address.router
        if (
            router is not None
            and router.only is not None
            and router.wildcard_version == self.routers.version
            and message.routing_type != 0
            and not queue_name
            and transaction is None
        ):
            address.routed += 1
            router.only.take(message)
            return 1
        return self._hand_over(message, address, queue_name, transaction, sender)

    def route_once(
        self,
        message: Message,
        address: Address,
        queue_name: str,
        transaction: Transaction | None,
        duplicate_id: bytes,
        sender: Sender | None = None,
    ) -> int:
        """Route a message that has a duplicate id; 0 if the address took one with the same id (artemis-model §3.13).

        A transaction can then only be rolled back; without one the sender is not told. The id is remembered with the
        message: both become durable at the same time.
        """
        if self.is_duplicate(address, duplicate_id, transaction):
            return 0
        message.stored_first = True
        if self.duplicates.travel:
            message.set_extra(TRAVELLING_ID, f"{duplicate_id.hex()} {address.name}")
        count = self.route(message, address, queue_name, transaction, sender)
        self.remember(address, duplicate_id, message, transaction)
        return count

    def is_duplicate(self, address: Address, duplicate_id: bytes, transaction: Transaction | None) -> bool:
        """Tell whether an address took a message with an id; a transaction can then only be rolled back."""
        if duplicate_id not in self.duplicates.of(address) and (
            transaction is None or not transaction.has_claimed(address, duplicate_id)
        ):
            return False
        self.events.emit(Duplicate(address.name, readable(duplicate_id)))
        if transaction is not None:
            transaction.fail(
                DuplicateMessage(f"address '{address.name}' has already accepted a message with the same id")
            )
        return True

    def remember(
        self, address: Address, duplicate_id: bytes, message: Message, transaction: Transaction | None
    ) -> None:
        """Remember the id of a message that was sent, from the commit on if there is a transaction."""
        if transaction is None:
            self.duplicates.of(address).add(duplicate_id, message.durable, self.duplicates.size_of(address))
        else:
            transaction.claim(address, duplicate_id)

    def drops(self, message: Message, address: Address) -> bool:
        """Tell whether an address drops a message that comes to its queues through an exchange. Raises as `admit`."""
        if (address.account.is_full or self.account.is_full) and not address.internal:
            return self.admission.drops(message, address)
        return False

    def fate(self, address: Address) -> str | None:
        """Return what becomes of a message that arrives at an address now, in words; None if it is taken."""
        return None if address.internal else self.admission.fate(address)

    def release(self, message: Message, address: Address) -> int:
        """Route a message that was admitted earlier; return how many bindings got it."""
        address.take_over(message)
        message.stored_first = True
        return self._hand_over(message, address, "", None, None)

    def release_stored(self, source: Reference, address: Address) -> int:
        """Route as `release` does a message that a queue has stored and unlinked; one queue takes it as it is stored.

        The message has neither a delivery time nor an expiry. The caller removes `source` from the store.
        """
        message = source.message
        only = self.routers.of(address).only
        if only is None or message.routing_type == 0 or not isinstance(only, Queue):
            return self.release(message, address)
        address.take_over(message)
        message.stored_first = True
        address.routed += 1
        only.take_stored(source)
        return 1

    def sole_queue(self, address: Address, routing_type: int) -> Queue | None:
        """Return the queue that gets every message of this routing type, whatever is in it, and nothing else does.

        None if there is no such queue, or if the address limits what is in memory and on disk together.
        """
        if not address.pages or address.internal:
            return None
        router = self.routers.of(address)
        found = router.sole(routing_type)
        if router.forwards or not isinstance(found, Queue) or found.address is not address or not found.takes_ranges:
            return None
        return found

    def answer(self, message: Message, address: Address) -> int:
        """Route a message of the broker itself, whatever limits are reached; return how many bindings got it."""
        message.id = self._numbers.new_message_id()
        message.origin = address
        return self._hand_over(message, address, "", None, None)

    def tell(self, message: Message, address: Address, room_bytes: int) -> int:
        """Route a message of the broker itself that nobody has to get: it is gone if no binding wants it.

        While memory or the disk is full, that should be told, too: up to `room_bytes` the address takes it then. Raises
        as `admit`. Returns how many bindings got it.
        """
        if not self.routers.of(address).select(message):
            return 0
        if self.account.is_full and not address.account.is_full and address.account.size_bytes < room_bytes:
            return self.answer(message, address)
        return self.route(message, address)

    def deposit(self, message: Message, queue: Queue) -> None:
        """Put a message into one queue, bypassing routing and limits, for example a copy for a late subscriber."""
        message.id = self._numbers.new_message_id()
        message.origin = queue.address
        queue.take(message)

    def commit(self, transaction: Transaction) -> None:
        """Commit a transaction. Raises TransactionRolledBack, after undoing everything, if something had failed.

        It also fails if an address took a message under an id of this transaction in the meantime.
        """
        claims = transaction.claims
        if not claims:
            transaction.commit()
            return
        self.check_claims(transaction)
        durable = transaction.is_durable
        transaction.commit()
        for address, id in claims:
            self.duplicates.add(address, id, durable)

    def check_claims(self, transaction: Transaction) -> None:
        """Let a transaction fail if an address took a message under one of its ids in the meantime."""
        for address, id in transaction.claims:
            if self.duplicates.knows(address, id):
                self.events.emit(Duplicate(address.name, readable(id)))
                transaction.fail(
                    DuplicateMessage(
                        f"address '{address.name}' has accepted a message with the same id in the meantime"
                    )
                )

    def _hand_over(
        self,
        message: Message,
        address: Address,
        queue_name: str,
        transaction: Transaction | None,
        sender: Sender | None,
    ) -> int:
        forwards = False
        if queue_name:
            targets = self.named_target(message, address, queue_name)
            if self.routers.forwarding > 0:
                targets = self._with_diverts(message, address, targets)
                forwards = True
        else:
            router = self.routers.of(address)
            targets = router.select(message)
            forwards = router.forwards
            self.meter.work += router.choices
        if not targets:
            self.unrouted(message, address, transaction)
            return 0
        if forwards:
            self.forwarding.send(message, address, targets, sender, transaction)
            address.routed += 1
            return len(targets)
        address.routed += 1
        if transaction is not None:
            transaction.send(message, targets)
            self.meter.work += len(targets)
        else:
            passed = offer_to_all(message, targets)
            self.meter.work += len(targets) - passed + (passed >> PASSED_SHIFT)
        return len(targets)

    def _with_diverts(self, message: Message, address: Address, targets: list[Binding]) -> list[Binding]:
        """Add the diverts of an address to the one queue that a message is for (artemis-model §1.5)."""
        diverts = [binding for binding in self.routers.of(address).select_special(message) if binding.forwards]
        return diverts if diverts and diverts[0].supersedes else diverts + targets

    def unrouted(self, message: Message, address: Address, transaction: Transaction | None) -> None:
        """Count a message that no binding accepts; it may become a dead letter."""
        address.unrouted += 1
        if not address.unrouted_reported and not address.internal:
            address.unrouted_reported = True
            self.events.emit(Unrouted(address.name))
        self.undeliverable.unrouted(message, address, transaction)
