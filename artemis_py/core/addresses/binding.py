"""A binding: one place that the messages of an address may go to. Queues and diverts are such places.

Routing and transactions know only this class, so a further kind of binding is a subclass in a module of its own.
"""

from typing import TYPE_CHECKING

from mypy_extensions import mypyc_attr

from artemis_py.core.messages.message import Message
from artemis_py.core.names.routing_type import RoutingType
from artemis_py.core.selectors.filter import Filter

if TYPE_CHECKING:
    from artemis_py.core.addresses.address import Address


@mypyc_attr(allow_interpreted_subclasses=True)
class Binding:
    """Takes messages of one address. Compiled code calls the methods directly, those of interpreted subclasses too."""

    def __init__(self, name: str, address: "Address", routing_type: RoutingType) -> None:
        self.name: str = name
        """Unique among the bindings of the broker."""
        self.address: Address = address
        """The address it is bound to; a wildcard address stands for many."""
        self.routing_type: RoutingType = routing_type
        """MULTICAST: it gets each message; ANYCAST: it takes turns with the other anycast bindings of its address."""
        self.takes_any_type: bool = False
        """It gets messages that ask for the other routing type too."""
        self.supersedes: bool = False
        """What it accepts goes to no other binding of the address, but for those that supersede the others too."""
        self.filter: Filter | None = None
        self.is_deleted: bool = False
        """It takes nothing more: a transaction that ends later passes it over."""

    def accepts(self, message: Message) -> bool:
        """Whether its filter wants the message.

        A binding without a filter accepts everything, and is asked only if it supersedes others or takes any type.
        """
        return self.filter is None or self.filter.matches(message)

    def has_consumer_for(self, message: Message) -> bool:
        """Whether somebody would take the message at once: anycast prefers such bindings."""
        return True

    @property
    def keeps(self) -> bool:
        """Whether it does not throw away at once what it takes."""
        return True

    def take(self, message: Message) -> None:
        """Take a message that was routed here. Raises nothing: its limits were checked before it was routed."""
        raise NotImplementedError
