"""The exchanges of one virtual host: creates, changes, finds and deletes them and their bindings.

Exchanges have a namespace of their own. A queue, an address and an exchange may have the same name and have nothing to
do with each other. What is durable at both ends is kept in the store (`kept`).
"""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Final

from attrs import evolve

from artemis_py.core.addresses.address import Address
from artemis_py.core.names.routing_type import RoutingType
from artemis_py.core.queues.queue import Queue
from artemis_py.core.routing.companion import Companion
from artemis_py.core.routing.exchanges.arguments import Scalar, check_arguments, check_key
from artemis_py.core.routing.exchanges.binding import ExchangeBinding
from artemis_py.core.routing.exchanges.exchange import Exchange
from artemis_py.core.routing.exchanges.kept import KeptExchanges
from artemis_py.core.routing.names import check_name
from artemis_py.core.runtime.accounts import BINDING_BYTES, EXCHANGE_BYTES, NAME_FACTOR
from artemis_py.core.runtime.background import SLICE_UNITS, Steps
from artemis_py.core.runtime.events import ExchangeAdded, ExchangeBound, ExchangeRemoved, ExchangeUnbound
from artemis_py.core.runtime.meter import ADDRESS_UNITS, BINDING_UNITS
from artemis_py.core.settings.exchange_config import (
    Destination,
    ExchangeConfig,
    ExchangeLifetime,
    ExchangeType,
)
from artemis_py.errors import ExchangeExists, InUse, InvalidRequest, NoSuchExchange, NoSuchQueue

if TYPE_CHECKING:
    from artemis_py.core.routing.routing import Routing

DEFAULT_EXCHANGE: Final = ""
PREDECLARED: Final[Mapping[str, ExchangeType]] = {
    "amq.direct": ExchangeType.DIRECT,
    "amq.topic": ExchangeType.TOPIC,
    "amq.fanout": ExchangeType.FANOUT,
    "amq.match": ExchangeType.HEADERS,
}
RESERVED_PREFIXES: Final = ("amq.", "qpid.")

_MULTICAST: Final = frozenset((RoutingType.MULTICAST,))


class Exchanges(Companion):
    """All exchanges of one domain. Those of PREDECLARED are always there, and count for no client."""

    def __init__(self, routing: "Routing") -> None:
        self._routing: Final = routing
        self._named: Final[dict[str, Exchange]] = {}
        self._of_queue: Final[dict[Queue, dict[ExchangeBinding, None]]] = {}
        """Bindings that lead to a queue."""
        self._alternate_for: Final[dict[Queue, dict[Exchange, None]]] = {}
        """Exchanges whose alternate is a queue."""
        self._bound: Final[dict[str, int]] = {}
        """Number of bindings and alternates that lead to queues of an address, by its name."""
        self.declared: Final[dict[ExchangeBinding, None]] = {}
        """Bindings that the configuration declares; those of an earlier one remain until they are removed."""
        self._kept: Final = KeptExchanges(routing.records)
        for name, kind in PREDECLARED.items():
            self._make(ExchangeConfig(name=name, type=kind))
        routing.companions.append(self)
        routing.settings.on_change(self._apply_settings)

    def __iter__(self) -> Iterator[Exchange]:
        return iter(list(self._named.values()))

    # -- finding -----------------------------------------------------------------------------------------------

    def find(self, name: str) -> Exchange | None:
        """Return the exchange of this name; None if there is none. The default exchange is none of them."""
        return self._named.get(name)

    def exchange(self, name: str) -> Exchange:
        """Return the exchange of this name. Raises NoSuchExchange."""
        exchange = self._named.get(name)
        if exchange is None:
            raise NoSuchExchange(f"exchange '{name}' does not exist")
        return exchange

    def named_in(self, text: str) -> tuple[Exchange, str | None] | None:
        """Return the exchange, and the routing key if there is one, that `exchange` or `exchange/key` means.

        None if the text means no exchange: also if an address has the whole text as its name.
        """
        exchange = self._named.get(text)
        if exchange is not None:
            return exchange, None
        name, slash, key = text.partition("/")
        exchange = self._named.get(name)
        if not slash or exchange is None or text in self._routing.addresses:
            return None
        return exchange, key or None

    def destination(self, name: str) -> Destination:
        """Return what a name without a kind means as a destination: an exchange, or else a queue.

        Raises NoSuchQueue if there is neither.
        """
        if name in self._named:
            return Destination(name, is_queue=False)
        if name in self._routing.queues:
            return Destination(name, is_queue=True)
        raise NoSuchQueue(f"there is neither an exchange nor a queue '{name}'")

    def leads_to(self, address: str) -> bool:
        """Tell whether any binding or alternate leads to a queue of an address: it is then not deleted as unused."""
        return address in self._bound

    def bindings_of(self, queue: Queue) -> list[ExchangeBinding]:
        """Return the bindings that lead to a queue."""
        return list(self._of_queue.get(queue, ()))

    def own_address(self, exchange: str, queue: str) -> str:
        """Return the name of the address that the queue of a subscription to an exchange has for itself.

        It is below the name of the exchange, so that permissions and settings for `exchange.#` are also those of its
        subscriptions. It never has wildcards: the queue would collect what is sent to other addresses.
        """
        syntax = self._routing.options.wildcards
        name = exchange + syntax.delimiter + queue
        if not syntax.is_wild(name):
            return name
        return syntax.delimiter.join([syntax.escape(word) for word in syntax.words(name)])

    def subscribed(self, queue: Queue) -> Exchange | None:
        """Return the exchange that a queue collects from for a subscriber; None for any other queue."""
        if queue.routing_type is RoutingType.MULTICAST:
            for binding in self._of_queue.get(queue, ()):
                if queue.address.name == self.own_address(binding.source.name, queue.name):
                    return binding.source
        return None

    # -- exchanges ---------------------------------------------------------------------------------------------

    def declare(self, config: ExchangeConfig) -> Exchange:
        """Create an exchange.

        Raises ExchangeExists, InvalidRequest for a name that is not allowed or an alternate that cannot be one,
        NoSuchExchange or NoSuchQueue for an alternate that does not exist.
        """
        check_exchange_name(config.name)
        if config.name in self._named:
            raise ExchangeExists(f"exchange '{config.name}' exists already")
        self._check_alternate(config)
        exchange = self._make(config)
        self._set_alternate(exchange, config.alternate)
        self._keep(exchange)
        return exchange

    def update(self, exchange: Exchange, config: ExchangeConfig) -> None:
        """Change the alternate of an exchange, what becomes of messages that reach no queue, and who declares it.

        Raises InvalidRequest if anything else differs, and what `declare` raises for an alternate.
        """
        changed = evolve(
            exchange.config,
            alternate=config.alternate,
            unroutable=config.unroutable,
            configuration_managed=config.configuration_managed,
        )
        if changed != config:
            raise InvalidRequest(
                f"of exchange '{exchange.name}' only the alternate and what becomes of unroutable messages can change"
            )
        self._check_alternate(config)
        exchange.follow(config)
        self._set_alternate(exchange, config.alternate)
        self._keep(exchange)

    def delete(
        self,
        exchange: Exchange,
        if_unused: bool = False,
        force: bool = False,
        reason: str = "deleted by request",
    ) -> None:
        """Delete an exchange, and all bindings from and to it; do nothing if it is gone.

        Raises InvalidRequest for a predeclared one; InUse if it is the alternate of another exchange (not with
        `force`: those have none then), or with `if_unused` if it has bindings.
        """
        if exchange.is_deleted:
            return
        if exchange.is_predeclared:
            raise InvalidRequest(f"exchange '{exchange.name}' is predeclared and cannot be deleted")
        if if_unused and exchange.bindings:
            raise InUse(f"exchange '{exchange.name}' has {len(exchange.bindings)} bindings")
        if not force:
            self._check_no_alternate(f"exchange '{exchange.name}'", exchange.alternate_for)
        unused: list[Exchange] = []
        self._drop(exchange, unused, reason)
        self._drop_all(unused)

    def _make(self, config: ExchangeConfig) -> Exchange:
        routing = self._routing
        name = config.name
        settings = routing.settings.resolve(name)
        # Nothing of it is stored: it is made again with its exchange.
        address = Address(name, _MULTICAST, settings, routing.account, temporary=True)
        address.is_exchange = True
        address.created_steady_ms = routing.dispatcher.steady_ms
        exchange = Exchange(config, address, name in PREDECLARED)
        self._named[name] = exchange
        if not exchange.is_predeclared:
            routing.dispatcher.tables.occupy(EXCHANGE_BYTES + NAME_FACTOR * len(name))
            routing.meter.work += ADDRESS_UNITS
            routing.events.emit(ExchangeAdded(name, config.type.value))
        return exchange

    def _drop_all(self, unused: list[Exchange]) -> None:
        """Remove exchanges without bindings, and those that end with them."""
        # A loop rather than a recursion, because exchanges may be chained to any length.
        while unused:
            self._drop(unused.pop(), unused, "its last binding was removed")

    def _drop(self, exchange: Exchange, unused: list[Exchange], reason: str) -> None:
        """Remove one exchange, and note those that end with it."""
        if exchange.is_deleted:
            return
        routing = self._routing
        exchange.is_deleted = exchange.address.is_deleted = True
        del self._named[exchange.name]
        for binding in [*exchange.bindings.values(), *exchange.incoming]:
            self._remove(binding)
            if binding.source is not exchange:
                self._note_unused(binding.source, unused)
        self._set_alternate(exchange, None)
        for other in list(exchange.alternate_for):
            self._lose_alternate(other)
        routing.duplicates.forget(exchange.address)
        routing.departed.exchange_removed(exchange.address)
        routing.dispatcher.tables.vacate(EXCHANGE_BYTES + NAME_FACTOR * len(exchange.name))
        routing.meter.work += ADDRESS_UNITS
        self._kept.forget_exchange(exchange)
        routing.events.emit(ExchangeRemoved(exchange.name, reason))
        if exchange.watchers:
            routing.dispatcher.slices.start(self._tell_watchers(exchange, reason))

    def _tell_watchers(self, exchange: Exchange, reason: str) -> Steps:
        """Tell what watches an exchange that it is gone, in slices: any number of clients may send to it."""
        meter = self._routing.meter
        end = meter.work + SLICE_UNITS
        while exchange.watchers:
            watcher, tell = next(iter(exchange.watchers.items()))
            del exchange.watchers[watcher]
            tell(reason)
            meter.work += 1
            if meter.work >= end:
                yield None
                end = meter.work + SLICE_UNITS
        return None

    def _note_unused(self, exchange: Exchange, unused: list[Exchange]) -> None:
        """Note an exchange that ends because its last binding is gone; an alternate of another one stays."""
        if (
            exchange.config.lifetime is ExchangeLifetime.LAST_BINDING
            and not exchange.bindings
            and not exchange.is_deleted
            and not exchange.alternate_for
        ):
            unused.append(exchange)

    def _keep(self, exchange: Exchange) -> None:
        if exchange.is_durable:
            self._kept.keep_exchange(exchange)

    # -- alternates --------------------------------------------------------------------------------------------

    def _check_alternate(self, config: ExchangeConfig) -> None:
        """Raise InvalidRequest, NoSuchExchange or NoSuchQueue for an alternate that an exchange may not have."""
        alternate = config.alternate
        if alternate is None:
            return
        if alternate.is_queue:
            is_durable = self._routing.queue(alternate.name).is_stored
        elif alternate.name == config.name:
            raise InvalidRequest(f"exchange '{config.name}' cannot be its own alternate")
        else:
            is_durable = self.exchange(alternate.name).is_durable
        if config.durable and config.lifetime is not ExchangeLifetime.SESSION and not is_durable:
            raise InvalidRequest(f"exchange '{config.name}' is durable, and its alternate, {alternate}, is not")

    def _check_no_alternate(self, what: str, users: Mapping[Exchange, None]) -> None:
        """Raise InUse for what is the alternate of an exchange."""
        for exchange in users:
            raise InUse(f"{what} is the alternate of exchange '{exchange.name}'")

    def _set_alternate(self, exchange: Exchange, alternate: Destination | None) -> None:
        """Have an exchange use an alternate that exists, in place of the one it has."""
        if exchange.alternate_exchange is not None:
            del exchange.alternate_exchange.alternate_for[exchange]
            exchange.alternate_exchange = None
        if exchange.alternate_queue is not None:
            queue = exchange.alternate_queue
            users = self._alternate_for[queue]
            del users[exchange]
            if not users:
                del self._alternate_for[queue]
            exchange.alternate_queue = None
            self._count(queue, -1)
        if alternate is None:
            return
        if alternate.is_queue:
            queue = self._routing.queue(alternate.name)
            exchange.alternate_queue = queue
            self._alternate_for.setdefault(queue, {})[exchange] = None
            self._count(queue, 1)
        else:
            other = exchange.alternate_exchange = self.exchange(alternate.name)
            other.alternate_for[exchange] = None

    def _lose_alternate(self, exchange: Exchange) -> None:
        exchange.follow(evolve(exchange.config, alternate=None))
        self._set_alternate(exchange, None)
        self._keep(exchange)

    # -- bindings ----------------------------------------------------------------------------------------------

    # Long because a binding is noted in several places, which must all agree.
    def bind(
        self,
        source: Exchange,
        key: str,
        destination: Destination,
        arguments: Mapping[str, Scalar] | None = None,
        replace: bool = False,
        is_restored: bool = False,
        is_declared: bool = False,
    ) -> bool:
        """Bind a queue or an exchange to an exchange; False if there is such a binding, and `replace` is false.

        The arguments do not belong to the identity of a binding (qpid-exchanges §3); with `replace` they change. One
        that `is_restored` is in the store already. One that `is_declared` belongs to the configuration, also after a
        client has replaced it. Raises NoSuchQueue, NoSuchExchange, InvalidFilter, InvalidRequest.
        """
        check_key("binding key", key)
        checked = check_arguments({} if arguments is None else arguments)
        routing = self._routing
        queue = routing.queue(destination.name) if destination.is_queue else None
        exchange = None if destination.is_queue else self.exchange(destination.name)
        binding = ExchangeBinding(source, key, queue, exchange, checked)
        before = source.bindings.get(binding.identity)
        if before is not None:
            if not replace:
                return False
            is_declared = is_declared or before.is_declared
            self._remove(before)
        source.add(binding)
        if is_declared:
            binding.is_declared = True
            self.declared[binding] = None
        if queue is not None:
            self._of_queue.setdefault(queue, {})[binding] = None
            self._count(queue, 1)
        elif exchange is not None:
            exchange.incoming[binding] = None
        routing.dispatcher.tables.occupy(binding.table_bytes(BINDING_BYTES))
        routing.meter.work += BINDING_UNITS
        source.address.unrouted_reported = False
        if binding.is_stored and not is_restored:
            self._kept.keep_binding(binding)
        if routing.events.wants(ExchangeBound):
            routing.events.emit(ExchangeBound(source.name, key, destination.name, destination.is_queue))
        return True

    def unbind(self, source: Exchange, key: str, destination: Destination) -> bool:
        """Remove a binding, whatever its arguments; False if there is none.

        An exchange that ends with its last binding is deleted.
        """
        binding = source.bindings.get((key, destination.is_queue, destination.name))
        if binding is None:
            return False
        self._remove(binding)
        self._end_unused([source])
        return True

    def _remove(self, binding: ExchangeBinding) -> None:
        """Remove a binding that is there."""
        source = binding.source
        if source.bindings.get(binding.identity) is not binding:
            return
        source.remove(binding)
        self.declared.pop(binding, None)
        queue = binding.queue
        if queue is not None:
            bindings = self._of_queue.get(queue)
            if bindings is not None:
                bindings.pop(binding, None)
                if not bindings:
                    del self._of_queue[queue]
            self._count(queue, -1)
        elif binding.exchange is not None:
            binding.exchange.incoming.pop(binding, None)
        self._routing.dispatcher.tables.vacate(binding.table_bytes(BINDING_BYTES))
        self._routing.meter.work += BINDING_UNITS
        if binding.is_stored:
            self._kept.forget_binding(binding)
        events = self._routing.events
        if events.wants(ExchangeUnbound):
            key, is_queue, destination = binding.identity
            events.emit(ExchangeUnbound(source.name, key, destination, is_queue))

    def _count(self, queue: Queue, difference: int) -> None:
        name = queue.address.name
        count = self._bound.get(name, 0) + difference
        if count:
            self._bound[name] = count
        else:
            self._bound.pop(name, None)

    def _end_unused(self, sources: list[Exchange]) -> None:
        """Delete those among these exchanges that have lost their last binding, and what ends with them."""
        unused: list[Exchange] = []
        for source in sources:
            self._note_unused(source, unused)
        self._drop_all(unused)

    # -- what happens to queues --------------------------------------------------------------------------------

    def queue_updated(self, queue: Queue) -> None:
        """Look at a queue again: routers remember whether it has a selector."""
        for binding in self._of_queue.get(queue, ()):
            binding.source.router.remove(binding)
            binding.source.router.add(binding)

    def check_queue_removal(self, queue: Queue) -> None:
        """Raise InUse if a queue is the alternate of an exchange."""
        self._check_no_alternate(f"queue '{queue.name}'", self._alternate_for.get(queue, {}))

    def queue_removed(self, queue: Queue) -> None:
        """Remove the bindings to a queue that was deleted."""
        for exchange in list(self._alternate_for.get(queue, ())):
            self._lose_alternate(exchange)
        bindings = list(self._of_queue.get(queue, ()))
        if not bindings:
            return
        sources: dict[Exchange, None] = {}
        for binding in bindings:
            self._remove(binding)
            sources[binding.source] = None
        self._end_unused(list(sources))

    def _apply_settings(self) -> None:
        for exchange in self._named.values():
            exchange.address.apply_settings(self._routing.settings.resolve(exchange.name))

    # -- start -------------------------------------------------------------------------------------------------

    def restore(self) -> list[str]:
        """Make the exchanges and bindings of an earlier run; return what is wrong with those that cannot be made.

        They stay stored. Called once, when the addresses and queues of the store exist.
        """
        return self._kept.restore(self)

    def restored(self, config: ExchangeConfig) -> Exchange:
        """Make a stored exchange, without its alternate. Raises ExchangeExists, InvalidRequest."""
        exchange = self._named.get(config.name)
        if exchange is None:
            check_exchange_name(config.name)
            return self._make(evolve(config, alternate=None))
        if not exchange.is_predeclared or exchange.config.type is not config.type:
            raise ExchangeExists(f"exchange '{config.name}' exists already")
        exchange.follow(evolve(config, alternate=None))
        return exchange

    def restored_alternate(self, exchange: Exchange, config: ExchangeConfig) -> None:
        """Give a stored exchange its alternate. Raises NoSuchExchange, NoSuchQueue, InvalidRequest."""
        self._check_alternate(config)
        exchange.follow(config)
        self._set_alternate(exchange, config.alternate)


def check_exchange_name(name: str) -> None:
    """Raise InvalidRequest for a name that a new exchange may not have."""
    check_name("exchange", name)
    if name.startswith(RESERVED_PREFIXES):
        raise InvalidRequest(f"exchange '{name}': names that begin with 'amq.' or 'qpid.' are reserved")
    if "/" in name or "::" in name:
        # What follows the first slash of an address is a routing key; `::` names a queue.
        raise InvalidRequest(f"the name of exchange '{name}' may not contain '/' or '::'")
