"""Messages that nobody could use: dead letters, expired messages, and those that no queue wanted.

A copy goes to the dead-letter or expiry address, with a note of where it came from.
"""

from typing import TYPE_CHECKING, Final

from artemis_py.core.destination import Address
from artemis_py.core.message import Message, RoutingType
from artemis_py.core.queue import Queue
from artemis_py.core.reference import Reference
from artemis_py.core.routing import NO_TYPE
from artemis_py.core.settings import QueueConfig
from artemis_py.core.transaction import Transaction

if TYPE_CHECKING:
    from artemis_py.core.postoffice import PostOffice

BOTH_TYPES: Final = frozenset(RoutingType)


class Undeliverable:
    """Fulfils `hub.Mover`."""

    def __init__(self, office: "PostOffice") -> None:
        self._office = office

    def random(self) -> float:
        """A number in [0, 1)."""
        return self._office.random()

    def dead_letter(self, reference: Reference) -> None:
        """Copy a message to the dead-letter address of its queue's address (reference §3.8)."""
        queue = reference.queue
        settings = queue.address.settings
        target = settings.dead_letter_address
        if target is None:
            self._office.listener.dropped(queue.name, "no dead-letter address", 1)
            return
        # Artemis names the collector after the queue's address and filters on the message's: behind a wildcard the
        # two differ and the message is lost. Named after the message's address they are the same.
        origin = reference.message.address
        if settings.auto_create_dead_letter_resources and target not in (origin, queue.address.name):
            self._create_collector(
                target, settings.dead_letter_queue_prefix + origin + settings.dead_letter_queue_suffix, origin
            )
        copy = reference.message.copy(target)
        _note_origin(copy, reference.message, queue.name)
        self._move(copy, target, queue, "dead-letter address")

    def expire(self, reference: Reference) -> None:
        """Copy a message to the expiry address of its own address (reference §3.9)."""
        queue = reference.queue
        message = reference.message
        origin = message.origin
        settings = queue.address.settings if origin is None else origin.settings
        target = settings.expiry_address
        if target is None:
            self._office.listener.dropped(queue.name, "expired, no expiry address", 1)
            return
        if settings.auto_create_expiry_resources and target != message.address:
            self._create_collector(
                target, settings.expiry_queue_prefix + message.address + settings.expiry_queue_suffix, message.address
            )
        copy = message.copy(target)
        _note_origin(copy, message, queue.name)
        copy.set_extra("_AMQ_ACTUAL_EXPIRY", self._office.hub.now_ms)
        self._move(copy, target, queue, "expiry address")

    def unrouted(self, message: Message, address: Address, transaction: Transaction | None) -> None:
        """Copy a message that no queue of its address wanted to the dead-letter address, if that is asked for."""
        settings = address.settings
        target = settings.dead_letter_address
        if settings.send_to_dla_on_no_route and target is not None and target != address.name:
            dead_letters = self._office.addresses.get(target)
            if dead_letters is not None:
                copy = message.copy(target)
                _note_origin(copy, message, "")
                self._send_copy(copy, dead_letters, transaction)

    def _move(self, copy: Message, target: str, queue: Queue, what: str) -> None:
        address = self._office.addresses.get(target)
        if address is None or not self._send_copy(copy, address, None):
            self._office.listener.dropped(queue.name, f"{what} '{target}' has no queue that takes it", 1)

    def _send_copy(self, copy: Message, address: Address, transaction: Transaction | None) -> int:
        """Route a message of the broker's own; limits do not stop it, for it was counted before."""
        copy.id = self._office.new_message_id()
        copy.origin = address
        copy.stored_first = True
        targets = self._office.routes(address).select(copy)
        if targets:
            address.routed += 1
        if transaction is not None and targets:
            transaction.send(copy, targets)
        else:
            for queue in targets:
                queue.add(copy)
        return len(targets)

    def _create_collector(self, address_name: str, queue_name: str, origin: str) -> None:
        """The auto-created queue that collects what came from one address."""
        if address_name not in self._office.addresses:
            self._office.create_address(address_name, BOTH_TYPES, auto_created=True)
        address = self._office.addresses[address_name]
        if queue_name in self._office.queues:
            return
        routing_type = address.settings.default_queue_routing_type
        if routing_type not in address.routing_types:
            self._office.update_address(address_name, address.routing_types | {routing_type})
        quoted = origin.replace("'", "''")
        self._office.create_queue(
            QueueConfig(
                name=queue_name,
                address=address_name,
                routing_type=routing_type,
                filter=f"_AMQ_ORIG_ADDRESS = '{quoted}'",
                auto_created=True,
            )
        )


def _note_origin(copy: Message, original: Message, queue_name: str) -> None:
    """Write where a moved message came from; what an earlier move wrote is overwritten (reference §3.8).

    The copy itself has no routing type: it was its producer's wish for another address, and a message that was sent to
    a topic would pass by the anycast queue of nearly every dead-letter address.
    """
    copy.set_extra("_AMQ_ORIG_ADDRESS", original.address)
    copy.set_extra("_AMQ_ORIG_QUEUE", queue_name)
    copy.set_extra("_AMQ_ORIG_MESSAGE_ID", original.id)
    if original.routing_type != NO_TYPE:
        copy.set_extra("_AMQ_ORIG_ROUTING_TYPE", original.routing_type)
    elif copy.extra is not None:
        copy.extra.pop("_AMQ_ORIG_ROUTING_TYPE", None)
