"""Management of one address: the resource `address.<name>`."""

from collections.abc import Mapping
from typing import ClassVar

from artemis_py.core.addresses.address import Address
from artemis_py.core.queues.bulk import take_out
from artemis_py.core.queues.queue import queues_of
from artemis_py.core.runtime.background import Steps
from artemis_py.core.sessions.session import Session
from artemis_py.management.control import Control, Operation, Row, bounded_names, edit
from artemis_py.management.sending import SEND


class AddressControl(Control):
    """One address, for the duration of one request."""

    def __init__(self, address: Address, session: Session) -> None:
        super().__init__(f"address.{address.name}")
        self.address = address
        self.session = session

    @property
    def destination(self) -> Address:
        """The address that messages are sent to; see `sending`."""
        return self.address

    @property
    def queue_name(self) -> str:
        """Queue that messages are sent to; empty: all of the address."""
        return ""

    def pause(self) -> None:
        """Pause deliveries from its queues, including queues created later."""
        self.session.domain.pause_address(self.address.name, True)

    def resume(self) -> None:
        """Resume deliveries."""
        self.session.domain.pause_address(self.address.name, False)

    def purge(self) -> Steps:
        """Discard the messages of all its queues that are not with a consumer; the result is their number."""
        emptied = [take_out(queue) for queue in queues_of(self.address)]
        for _, rest in emptied:
            yield from rest
        return sum(count for count, _ in emptied)

    def queue_names(self) -> list[str]:
        """Return the names of its queues, sorted. Raises LimitExceeded beyond MAX_NAMES."""
        names = bounded_names([queue.name for queue in queues_of(self.address)], "listQueues")
        return self.seen_names("queue", names)

    def clear_duplicate_id_cache(self) -> None:
        """Forget the duplicate ids of messages that the address accepted."""
        self.session.domain.duplicates.of(self.address).clear()

    attributes: ClassVar = {
        "Address": lambda control: control.address.name,
        "RoutingTypes": lambda control: routing_types(control.address),
        "QueueNames": queue_names,
        "QueueCount": lambda control: len(queues_of(control.address)),
        "AddressSize": lambda control: control.address.size_bytes,
        "MessageCount": lambda control: control.address.message_count,
        "RoutedMessageCount": lambda control: control.address.routed,
        "UnRoutedMessageCount": lambda control: control.address.unrouted,
        "Paused": lambda control: control.address.paused,
        "AutoCreated": lambda control: control.address.auto_created,
        "Temporary": lambda control: control.address.temporary,
        "Internal": lambda control: control.address.internal,
    }

    operations: ClassVar[Mapping[str, Row]] = {
        "pause": edit(Operation(pause)),
        "resume": edit(Operation(resume)),
        "purge": edit(Operation(purge)),
        "clearDuplicateIdCache": edit(Operation(clear_duplicate_id_cache)),
        "sendMessage": SEND,
    }


def routing_types(address: Address) -> list[str]:
    """Return the names of an address' routing types, always in the same order."""
    return sorted(routing_type.name for routing_type in address.routing_types)
