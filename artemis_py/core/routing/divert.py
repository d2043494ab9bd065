"""Diverts: bindings that send a copy of each message of an address to another address (artemis-model §3.2).

With an exclusive divert, the queues of its address do not get the message. The copy is a separate message that carries
a note of its origin. It is routed like any other: the limits and the diverts of the address it goes to apply. In a
transaction it is routed at the commit.
"""

from typing import TYPE_CHECKING

from artemis_py.core.addresses.address import Address
from artemis_py.core.addresses.binding import Binding
from artemis_py.core.messages.message import Message
from artemis_py.core.names.routing_type import RoutingType
from artemis_py.core.routing.routes import NO_TYPE
from artemis_py.core.routing.undeliverable import BOTH_TYPES, note_origin
from artemis_py.core.selectors.filter import parse_filter
from artemis_py.core.settings.divert_config import DivertConfig, DivertType
from artemis_py.errors import Refusal

if TYPE_CHECKING:
    from artemis_py.core.routing.routing import Routing


class Divert(Binding):
    """Sends copies from one address to another."""

    def __init__(self, config: DivertConfig, address: Address, routing: "Routing") -> None:
        """Make a divert of an address in the domain `routing`, to be bound there. Raises InvalidFilter."""
        super().__init__(config.name, address, RoutingType.MULTICAST)
        self.takes_any_type = True
        self.configure(config)
        self.forwarded: int = 0
        """Number of copies that it sent on; their address may drop those it has no room for."""
        self._routing: Routing = routing
        self._is_forwarding: bool = False

    def configure(self, config: DivertConfig) -> None:
        """Follow a configuration, whose address must be the one it is bound to. Raises InvalidFilter.

        Routers remember whether it supersedes others, so a bound divert is changed with `update_divert`.
        """
        self.filter = parse_filter(config.filter) if config.filter else None
        self.supersedes = config.exclusive
        self.config: DivertConfig = config
        self.forwarding_address: str = config.forwarding_address
        self.copy_type: DivertType = config.routing_type

    def accepts(self, message: Message) -> bool:
        """Tell whether its filter matches the message, and the message is not a copy that it is sending on right now.

        Diverts may form a cycle, or a divert of a wildcard address may lead to an address that the wildcard matches. A
        message goes through each divert only once; after that only the other bindings of the address get it.
        """
        return not self._is_forwarding and (self.filter is None or self.filter.matches(message))

    def take(self, message: Message) -> None:
        """Send a copy on. If its address does not exist or refuses it, the copy is discarded and counted."""
        address = self._target()
        if address is None:
            self._discard("does not exist")
            return
        copy = message.copy(address.name)
        note_origin(copy, message, self.name)
        copy.expires_ms = message.expires_ms
        copy.delivery_time_ms = message.delivery_time_ms
        copy.routing_type = self._type_of(message)
        copy.stored_first = message.stored_first
        self._is_forwarding = True
        try:
            self._routing.route(copy, address)
            self.forwarded += 1
        except Refusal:
            self._discard("takes no messages")
        finally:
            self._is_forwarding = False

    def _target(self) -> Address | None:
        """Return the address that copies go to, creating it if only wildcard addresses have bindings for it."""
        routing = self._routing
        name = self.forwarding_address
        address = routing.addresses.get(name)
        if address is None and routing.has_wildcard_queue(name):
            address = routing.create_address(name, BOTH_TYPES, auto_created=True)
        return address

    def _type_of(self, message: Message) -> int:
        if self.copy_type is DivertType.PASS:
            return message.routing_type
        if self.copy_type is DivertType.ANYCAST:
            return int(RoutingType.ANYCAST)
        if self.copy_type is DivertType.MULTICAST:
            return int(RoutingType.MULTICAST)
        return NO_TYPE

    def _discard(self, what: str) -> None:
        text = f"diverted, and address '{self.forwarding_address}' {what}"
        self._routing.discards.add(self.name, text)


def create_divert(routing: "Routing", config: DivertConfig) -> Divert:
    """Make a divert and bind it to its address, which is created if it does not exist.

    Raises QueueExists if a queue or another divert has the name, InvalidFilter, InvalidRequest.
    """
    divert = _made(routing, config)
    routing.bind(divert)
    return divert


def update_divert(routing: "Routing", divert: Divert, config: DivertConfig) -> None:
    """Change a bound divert to another configuration with its name.

    It is changed in place, so transactions that have sent to it follow the new configuration at their commits. If its
    address changes, another divert takes its place. Raises InvalidFilter or InvalidRequest, and nothing has changed
    then.
    """
    if config.address == divert.address.name:
        divert.configure(config)
        routing.bindings_changed(divert.address)
        return
    other = _made(routing, config)
    remove_divert(routing, divert)
    routing.bind(other)


def remove_divert(routing: "Routing", divert: Divert) -> None:
    """Unbind a divert; transactions that have sent to it still send through it at their commits."""
    routing.unbind(divert)
    # A commit would pass a deleted divert by and lose the message: an exclusive one has kept it from the queues.
    divert.is_deleted = False


def _made(routing: "Routing", config: DivertConfig) -> Divert:
    """Make a divert, and its address if it does not exist."""
    address = routing.addresses.get(config.address)
    if address is None:
        address = routing.create_address(config.address, BOTH_TYPES)
    return Divert(config, address, routing)
