"""Undeliverable messages: dead letters, expired messages, and messages that no queue wanted.

A copy that carries a note of its origin goes to the dead-letter or expiry address, or to the one queue that a fully
qualified name in the settings means. If no queue takes it there, it is discarded and counted.
"""

from typing import TYPE_CHECKING, Final

from artemis_py.core.addresses.address import Address
from artemis_py.core.addresses.binding import Binding
from artemis_py.core.messages.message import ROUTING_KEY, Message
from artemis_py.core.names.routing_type import RoutingType
from artemis_py.core.names.syntax import parse_fqqn
from artemis_py.core.queues.outcomes import BY_ADMINISTRATOR, BY_CONSUMER, CLIENT_CAUSE
from artemis_py.core.queues.queue import Queue
from artemis_py.core.queues.reference import Reference
from artemis_py.core.queues.routing_services import RoutingServices
from artemis_py.core.routing.discards import DeadLetters, DeathCause, DiscardCause, Discards
from artemis_py.core.routing.routes import NO_TYPE
from artemis_py.core.routing.transaction import Transaction
from artemis_py.core.runtime.entropy import Entropy
from artemis_py.core.settings.address_settings import ResolvedSettings
from artemis_py.core.settings.queue_config import QueueConfig
from artemis_py.errors import Refusal

if TYPE_CHECKING:
    from artemis_py.core.routing.directory import Directory

ORIGIN_NOTES: Final = (
    "_AMQ_ORIG_ADDRESS",
    "_AMQ_ORIG_QUEUE",
    "_AMQ_ORIG_MESSAGE_ID",
    "_AMQ_ORIG_ROUTING_TYPE",
    "_AMQ_ORIG_NODE",
    "_AMQ_ACTUAL_EXPIRY",
    "_AMQ_DEATH_CAUSE",
    "_AMQ_DEATH_TIME",
    "_AMQ_DEATH_ATTEMPTS",
)
"""Properties that the broker adds to a message that it moves; none of them stays if the message is sent back."""

LOGGED_CHARS: Final = 200
"""Characters of a cause that the log shows."""

BOTH_TYPES: Final = frozenset(RoutingType)

DEATHS: Final = {BY_CONSUMER: DeathCause.REJECTED, BY_ADMINISTRATOR: DeathCause.ADMINISTRATOR}
"""Causes that are always worded in the same way; the others name the number of attempts."""


class Undeliverable(RoutingServices):
    """Takes the messages that the queues of one directory cannot deliver."""

    def __init__(self, directory: "Directory", discards: Discards, dead_letters: DeadLetters, entropy: Entropy) -> None:
        self._directory: Directory = directory
        self._dead_letters: DeadLetters = dead_letters
        self._discards: Discards = discards
        self._entropy: Entropy = entropy
        self.node_name: str = ""
        """Name of this broker in its mesh, where consumers of other brokers get its dead letters; empty without one."""

    def random(self) -> float:
        """Return a number in [0, 1)."""
        return self._entropy.random()

    def account_of(self, message: Message, address: Address) -> Address:
        """Return the address that a message was sent to.

        If that address is gone, or the message is set aside or came through an exchange, it is that of its queue.
        """
        if message.address == address.name or address.sets_aside:
            return address
        if message.extra is not None and ROUTING_KEY in message.extra:
            # It was sent to an exchange, which has nothing to do with an address of that name.
            return address
        return self._directory.addresses.get(message.address, address)

    def dead_letter(self, reference: Reference, cause: str) -> None:
        """Copy a message to the dead-letter address of its queue's address (artemis-model §3.8).

        The copy carries the cause, the time, and the number of attempts to deliver it.
        """
        queue = reference.queue
        extra = reference.message.extra
        said = None if extra is None else extra.get(CLIENT_CAUSE)
        death = DEATHS.get(cause, DeathCause.ATTEMPTS)
        if said is not None:
            cause = f"{cause}: {said}"
        settings = queue.address.settings
        target = settings.dead_letter_address
        if target is None:
            self._discards.add(queue.name, DiscardCause.NO_DEAD_LETTER_ADDRESS, "no dead-letter address")
            return
        collector: Queue | None = None
        if settings.auto_create_dead_letter_resources and target != queue.address.name:
            collector = self._dead_letter_queue(target, reference.message.address, settings)
        copy = _copy(reference.message, target, queue.name)
        copy.set_extra("_AMQ_DEATH_CAUSE", cause)
        copy.set_extra("_AMQ_DEATH_TIME", self._directory.dispatcher.now_ms)
        copy.set_extra("_AMQ_DEATH_ATTEMPTS", reference.delivery_count)
        if self._deliver(copy, target, collector, None, queue.name, "dead-letter address"):
            self._dead_letters.add(queue.name, death, cause[:LOGGED_CHARS])

    def expire(self, reference: Reference) -> None:
        """Copy a message to the expiry address of its own address (artemis-model §3.9)."""
        queue = reference.queue
        message = reference.message
        origin = message.origin
        settings = queue.address.settings
        if isinstance(origin, Address) and not origin.is_exchange:
            settings = origin.settings
        target = settings.expiry_address
        if target is None:
            self._discards.add(queue.name, DiscardCause.NO_EXPIRY_ADDRESS, "expired, no expiry address")
            return
        collector: Queue | None = None
        if settings.auto_create_expiry_resources:
            prefix, suffix = settings.expiry_queue_prefix, settings.expiry_queue_suffix
            collector = self._collector(target, f"{prefix}{message.address}{suffix}", message.address)
        copy = _copy(message, target, queue.name)
        copy.set_extra("_AMQ_ACTUAL_EXPIRY", self._directory.dispatcher.now_ms)
        self._deliver(copy, target, collector, None, queue.name, "expired, and expiry address")

    def unrouted(self, message: Message, address: Address, transaction: Transaction | None) -> None:
        """Copy a message that no queue of its address wanted to the dead-letter address, if the settings say so."""
        settings = address.settings
        target = settings.dead_letter_address
        if not settings.send_to_dla_on_no_route or target is None or parse_fqqn(target)[0] == address.name:
            return
        collector: Queue | None = None
        if settings.auto_create_dead_letter_resources:
            collector = self._dead_letter_queue(target, address.name, settings)
        copy = _copy(message, target, "")
        self._deliver(copy, target, collector, transaction, address.name, "no queue wanted it, and dead-letter address")

    def untransformed(self, message: Message, address: Address, divert: str, transaction: Transaction | None) -> None:
        """Copy a message that the transformer of a divert failed for to the dead-letter address of its address."""
        settings = address.settings
        target = settings.dead_letter_address
        if target is None:
            text = "its transformer failed, no dead-letter address"
            self._discards.add(divert, DiscardCause.NO_DEAD_LETTER_ADDRESS, text)
            return
        collector: Queue | None = None
        if settings.auto_create_dead_letter_resources:
            collector = self._dead_letter_queue(target, address.name, settings)
        copy = _copy(message, target, divert)
        self._deliver(copy, target, collector, transaction, divert, "its transformer failed, and dead-letter address")

    def _deliver(
        self,
        copy: Message,
        target: str,
        collector: Queue | None,
        transaction: Transaction | None,
        origin: str,
        what: str,
    ) -> bool:
        """Send a copy to an address, or to the one queue of an FQQN; False, after counting it, if no queue takes it."""
        address = self._address(target)
        targets: list[Binding] = []
        if address is not None:
            copy.id = self._directory.dispatcher.numbers.new_message_id()
            copy.address = address.name
            copy.origin = address
            copy.stored_first = True
            if self.node_name:
                copy.set_extra("_AMQ_ORIG_NODE", self.node_name)
            targets = self._targets(copy, address, parse_fqqn(target)[1], collector)
        if address is None or not targets:
            self._discards.add(origin, DiscardCause.NO_QUEUE, f"{what} '{target}' has no queue that takes it")
            return False
        # Limits do not apply, because the original was counted before.
        address.routed += 1
        if transaction is not None:
            transaction.send(copy, targets)
        else:
            for binding in targets:
                binding.take(copy)
        return True

    def _address(self, target: str) -> Address | None:
        """Return the address that a setting means, creating it if only wildcard addresses have bindings for it."""
        directory = self._directory
        name, queue_name = parse_fqqn(target)
        if not name and queue_name:
            queue = directory.queues.get(queue_name)
            return None if queue is None else queue.address
        address = directory.addresses.get(name)
        if address is None and name and directory.has_wildcard_queue(name):
            address = directory.create_address(name, BOTH_TYPES, auto_created=True)
        return address

    def _targets(
        self, copy: Message, address: Address, queue_name: str | None, collector: Queue | None
    ) -> list[Binding]:
        """Return the bindings that get a copy and keep it."""
        if queue_name is not None:
            return [queue for queue in self._directory.named_target(copy, address, queue_name) if queue.keeps]
        targets = self._directory.routers.of(address).select(copy)
        if collector is not None and collector not in targets and collector.accepts(copy) and collector.keeps:
            # An anycast collector does not take turns with other anycast queues of its address: it collects everything.
            targets = [binding for binding in targets if not _takes_turns(binding, collector)]
            targets.append(collector)
        return [binding for binding in targets if binding.keeps]

    def _dead_letter_queue(self, target: str, origin: str, settings: ResolvedSettings) -> Queue | None:
        """Return the queue that collects the dead letters of one address.

        Artemis names it after the address of the queue, but its filter tests the address of the message. With wildcards
        the two differ and the message is lost; here both are the address of the message.
        """
        return self._collector(
            target, f"{settings.dead_letter_queue_prefix}{origin}{settings.dead_letter_queue_suffix}", origin
        )

    def _collector(self, target: str, queue_name: str, origin: str) -> Queue | None:
        """Return the auto-created queue that collects the messages from one address, creating it if necessary.

        None if there cannot be one: the target names a queue itself, or is the address the messages come from; or the
        name is too long, or belongs to a queue of another address.
        """
        directory = self._directory
        if "::" in target or target == origin:
            return None
        queue = directory.queues.get(queue_name)
        if queue is not None:
            return queue if queue.address.name == target else None
        quoted = origin.replace("'", "''")
        try:
            if target not in directory.addresses:
                directory.create_address(target, BOTH_TYPES, auto_created=True)
            address = directory.addresses[target]
            routing_type = address.settings.default_queue_routing_type
            if routing_type not in address.routing_types:
                directory.update_address(target, address.routing_types | {routing_type})
            return directory.create_queue(
                QueueConfig(
                    name=queue_name,
                    address=target,
                    routing_type=routing_type,
                    filter=f"_AMQ_ORIG_ADDRESS = '{quoted}'",
                    auto_created=True,
                )
            )
        except Refusal:
            return None


def _takes_turns(binding: Binding, other: Binding) -> bool:
    """Tell whether routing would choose between the two bindings."""
    anycast = RoutingType.ANYCAST
    return binding.address is other.address and binding.routing_type is anycast and other.routing_type is anycast


def _copy(message: Message, target: str, queue_name: str) -> Message:
    copy = message.copy(target)
    note_origin(copy, message, queue_name)
    return copy


def note_origin(copy: Message, original: Message, queue_name: str) -> None:
    """Write the origin of a moved message into its copy, overwriting that of an earlier move (artemis-model §3.8).

    The copy itself has no routing type, because its producer chose the type for another address: a message that was
    sent to a topic would miss the anycast queue of nearly every dead-letter address.
    """
    copy.set_extra("_AMQ_ORIG_ADDRESS", original.address)
    copy.set_extra("_AMQ_ORIG_QUEUE", queue_name)
    copy.set_extra("_AMQ_ORIG_MESSAGE_ID", original.id)
    if original.routing_type != NO_TYPE:
        copy.set_extra("_AMQ_ORIG_ROUTING_TYPE", original.routing_type)
    elif copy.extra is not None:
        copy.extra.pop("_AMQ_ORIG_ROUTING_TYPE", None)
