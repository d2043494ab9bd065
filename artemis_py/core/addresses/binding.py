"""A binding: one destination of an address' messages, such as a queue or a divert.

Routing and transactions know only this class; another kind of binding is a subclass in a module of its own.
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
    """Takes messages of one address. Compiled code calls the methods directly, even those of interpreted subclasses."""

    def __init__(self, name: str, address: "Address", routing_type: RoutingType) -> None:
        self.name: str = name
        """Unique among the bindings of the broker."""
        self.address: Address = address
        """The address it is bound to; a wildcard address stands for many."""
        self.routing_type: RoutingType = routing_type
        """MULTICAST: it gets every message; ANYCAST: it alternates with the other anycast bindings of its address."""
        self.takes_any_type: bool = False
        """Whether it also gets messages that ask for the other routing type."""
        self.supersedes: bool = False
        """Whether messages that it accepts go to no other binding of the address, except others that supersede."""
        self.forwards: bool = False
        """Whether it keeps nothing, and sends on what it takes through other addresses: a divert."""
        self.routing_name: str = ""
        """Bindings that get messages of any type and have the same routing name take turns; empty: it takes none."""
        self.is_accessory: bool = False
        """Whether it belongs to its address and ends with it: an address with nothing else bound counts as unused."""
        self.filter: Filter | None = None
        self.is_deleted: bool = False
        """Whether it is gone and takes nothing more; transactions that end later skip it."""

    def accepts(self, message: Message) -> bool:
        """Tell whether its filter matches the message.

        A binding without a filter accepts everything, and is asked only if it supersedes others or takes any type.
        """
        return self.filter is None or self.filter.matches(message)

    def has_consumer_for(self, message: Message) -> bool:
        """Tell whether a consumer would take the message at once; anycast routing prefers such bindings."""
        return True

    @property
    def keeps(self) -> bool:
        """Whether it keeps the messages that it takes, and does not discard them at once."""
        return True

    @property
    def has_messages(self) -> bool:
        """Whether an accessory has messages, so that its address is not deleted by itself."""
        return False

    def take(self, message: Message) -> None:
        """Take a message that was routed here. Raises nothing: its limits were checked before it was routed."""
        raise NotImplementedError

    def offer(self, message: Message) -> bool:
        """Take a message that was sent just now, as `take`; True: it passed through, and nothing of it was kept."""
        self.take(message)
        return False

    def unbound(self) -> None:
        """Called when a binding other than a queue was unbound from its address."""
