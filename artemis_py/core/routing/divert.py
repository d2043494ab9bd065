"""Diverts: bindings that send a copy of each message of an address to other addresses (artemis-model §3.2).

With an exclusive divert, the queues of its address do not get the message. A copy is a separate message that carries a
note of its origin, and is routed like any other: the limits and the diverts of the address it goes to apply. What
follows from several diverts together is decided in `forwarding`.
"""

from typing import TYPE_CHECKING

from mypy_extensions import mypyc_attr

from artemis_py.core.addresses.address import Address
from artemis_py.core.addresses.binding import Binding
from artemis_py.core.messages.draft import Draft, Transformer, Unchanged
from artemis_py.core.messages.message import Message
from artemis_py.core.names.routing_type import RoutingType
from artemis_py.core.routing.names import check_address_name, check_name
from artemis_py.core.routing.routes import NO_TYPE
from artemis_py.core.routing.transformers import unusable
from artemis_py.core.routing.undeliverable import BOTH_TYPES, note_origin
from artemis_py.core.runtime.events import TransformerFailed
from artemis_py.core.selectors.filter import Filter, parse_filter
from artemis_py.core.settings.divert_config import DivertConfig, DivertType
from artemis_py.errors import InvalidRequest, Refusal

if TYPE_CHECKING:
    from artemis_py.core.routing.routing import Routing

# Work of a transformer, in deliveries, and octets of a message that count as one more.
TRANSFORM_UNITS = 4
TRANSFORM_BYTES_PER_UNIT = 1024


class Divert(Binding):
    """Sends copies from one address to others."""

    def __init__(self, config: DivertConfig, address: Address, routing: "Routing", is_restored: bool = False) -> None:
        """Make a divert of an address in the domain `routing`, to be bound there. Raises InvalidFilter, InvalidRequest.

        If `is_restored`, a transformer that is no longer installed fails for each message instead.
        """
        super().__init__(config.name, address, RoutingType.MULTICAST)
        self.takes_any_type = True
        self.forwards = True
        self._routing: Routing = routing
        self.forwarded: int = 0
        """Number of copies that it sent on."""
        self.failed: int = 0
        """Number of messages that it did not send on, because its transformer failed."""
        self.unchanged: int = 0
        """Number of messages that it sent on as they came, because its transformer could not use them."""
        self.last_ms: int = 0
        """Time at which it last took a message; 0: it never did."""
        self.passing: int = 0
        """More than 0 while targets are chosen for a message that has passed it."""
        self.keeper: DivertKeeper | None = None
        """Told when it is unbound; None: it is not kept."""
        self.configure(config, is_restored)

    def configure(self, config: DivertConfig, is_restored: bool = False) -> None:
        """Follow a configuration, whose address must be the one it is bound to. Raises InvalidFilter, InvalidRequest.

        Routers remember whether it supersedes others, so a bound divert is changed with `update_divert`.
        """
        filter, transform = _parts(self._routing, config, is_restored)
        self.filter = filter
        self._transform: Transformer | None = transform
        self.supersedes = config.exclusive
        self.routing_name = config.routing_name or ""
        self.config: DivertConfig = config
        self.forwarding_addresses: tuple[str, ...] = config.forwarding_addresses
        self.copy_type: DivertType = config.routing_type
        self._loop_reported: bool = False
        self._failure_reported: bool = False

    def accepts(self, message: Message) -> bool:
        """Tell whether its filter matches the message, and the message has not passed it before.

        Diverts may form a circle, or a divert of a wildcard address may lead to an address that the wildcard matches. A
        message goes through each divert only once; after that only the other bindings of the address get it. That is
        reported once.
        """
        if self.filter is not None and not self.filter.matches(message):
            return False
        if self.passing == 0:
            return True
        if not self._loop_reported:
            self._loop_reported = True
            self._routing.forwarding.report_loop(self)
        return False

    def take(self, message: Message) -> None:
        """Send copies on that no client is told about; those that are refused are discarded and counted."""
        routing = self._routing
        address = routing.addresses.get(message.address, self.address)
        routing.forwarding.send(message, address, [self], None, None)

    def unbound(self) -> None:
        """Tell its keeper."""
        if self.keeper is not None:
            self.keeper.divert_removed(self)

    def copy_of(self, message: Message, now_ms: int) -> Message | None:
        """Return a changed copy of a message, not readdressed yet; None if its transformer fails."""
        self.last_ms = now_ms
        copy = message.copy(message.address)
        note_origin(copy, message, self.name)
        copy.expires_ms = message.expires_ms
        copy.delivery_time_ms = message.delivery_time_ms
        copy.routing_type = self._type_of(message)
        copy.stored_first = message.stored_first
        if self._transform is None or self._transformed(copy, self._transform, now_ms):
            return copy
        return None

    def _transformed(self, copy: Message, transform: Transformer, now_ms: int) -> bool:
        """Have the transformer change a copy; False if that fails."""
        self._routing.meter.work += TRANSFORM_UNITS + copy.content_size // TRANSFORM_BYTES_PER_UNIT
        draft = Draft(copy, now_ms)
        try:
            transform(draft)
            draft.apply()
        except Unchanged:
            self.unchanged += 1
        except Exception as error:  # a transformer of another package must not end the connection of the sender
            self.failed += 1
            if not self._failure_reported:
                self._failure_reported = True
                text = str(error) if isinstance(error, Refusal) else repr(error)
                self._routing.events.emit(TransformerFailed(self.name, text))
            return False
        return True

    def _type_of(self, message: Message) -> int:
        if self.copy_type is DivertType.PASS:
            return message.routing_type
        if self.copy_type is DivertType.ANYCAST:
            return int(RoutingType.ANYCAST)
        if self.copy_type is DivertType.MULTICAST:
            return int(RoutingType.MULTICAST)
        return NO_TYPE


def _parts(
    routing: "Routing", config: DivertConfig, is_restored: bool = False
) -> tuple[Filter | None, Transformer | None]:
    """Return what a divert is made of. Raises InvalidFilter, InvalidRequest."""
    check_name("binding", config.name)
    names = config.forwarding_addresses
    if not names:
        raise InvalidRequest(f"divert '{config.name}' needs a forwarding address")
    for name in names:
        check_address_name(name)
    filter = parse_filter(config.filter) if config.filter else None
    if config.transformer is None:
        return filter, None
    try:
        return filter, routing.transformers.make(config.transformer)
    except InvalidRequest as error:
        if not is_restored:
            raise
        return filter, unusable(config.transformer, str(error))


@mypyc_attr(allow_interpreted_subclasses=True)
class DivertKeeper:
    """Keeps diverts beyond a restart."""

    def divert_removed(self, divert: Divert) -> None:
        """Forget a divert that was unbound."""
        raise NotImplementedError


def check_divert(routing: "Routing", config: DivertConfig) -> None:
    """Raise what making a divert would raise, InvalidFilter or InvalidRequest."""
    _parts(routing, config)


def create_divert(routing: "Routing", config: DivertConfig, is_restored: bool = False) -> Divert:
    """Make a divert and bind it to its address, which is created if it does not exist.

    Raises QueueExists if a queue or another divert has the name, InvalidFilter, InvalidRequest.
    """
    divert = _made(routing, config, is_restored)
    routing.bind(divert)
    return divert


def update_divert(routing: "Routing", divert: Divert, config: DivertConfig) -> Divert:
    """Change a bound divert to another configuration with its name; return the divert that is bound then.

    It is changed in place; what open transactions have sent goes where it went when it was sent. If its address
    changes, another divert takes its place. Raises InvalidFilter or InvalidRequest, and nothing has changed
    then.
    """
    if config.address == divert.address.name:
        divert.configure(config)
        routing.bindings_changed(divert.address)
        routing.tell_updated(divert)
        return divert
    other = _made(routing, config)
    remove_divert(routing, divert)
    routing.bind(other)
    return other


def remove_divert(routing: "Routing", divert: Divert) -> None:
    """Unbind a divert; dead letters that open transactions hold for it still go through it at their commits."""
    routing.unbind(divert)
    # A commit would pass a deleted divert by and lose the message: an exclusive one has kept it from the queues.
    divert.is_deleted = False


def _made(routing: "Routing", config: DivertConfig, is_restored: bool = False) -> Divert:
    """Make a divert, and its address if it does not exist."""
    address = routing.addresses.get(config.address)
    if address is None:
        address = routing.create_address(config.address, BOTH_TYPES)
    return Divert(config, address, routing, is_restored)
