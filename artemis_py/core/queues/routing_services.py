"""Services of routing that queues need. Routing is a layer above them, so each queue gets it when it is created."""

from typing import TYPE_CHECKING

from mypy_extensions import mypyc_attr

from artemis_py.core.addresses.address import Address
from artemis_py.core.messages.message import Message

if TYPE_CHECKING:
    from artemis_py.core.queues.reference import Reference


@mypyc_attr(allow_interpreted_subclasses=True)
class RoutingServices:
    """Takes undeliverable messages, and finds the addresses of messages. None of the methods raises anything."""

    def dead_letter(self, reference: "Reference", cause: str) -> None:
        """Copy a message to the dead-letter address of its queue's address, if there is one; `cause` says why."""
        raise NotImplementedError

    def expire(self, reference: "Reference") -> None:
        """Copy a message to the expiry address of its own address, if there is one."""
        raise NotImplementedError

    def account_of(self, message: Message, address: Address) -> Address:
        """Return the address that a message read from disk counts for; `address` is the address of its queue."""
        raise NotImplementedError

    def random(self) -> float:
        """Return a number in [0, 1), for the collision avoidance of redeliveries."""
        raise NotImplementedError
