"""An exchange: it keeps no messages, and leads them to queues and other exchanges (qpid-exchanges §1)."""

from collections.abc import Callable

from artemis_py.core.addresses.address import Address
from artemis_py.core.queues.queue import Queue
from artemis_py.core.routing.exchanges.binding import ExchangeBinding, Identity
from artemis_py.core.routing.exchanges.matching import ExchangeRouter, HeadersTable, KeyTable, TopicTable
from artemis_py.core.settings.exchange_config import ExchangeConfig, ExchangeLifetime, ExchangeType, Unroutable


class Exchange:
    """One exchange of a virtual host."""

    __slots__ = (
        "address",
        "alternate_exchange",
        "alternate_for",
        "alternate_queue",
        "bindings",
        "config",
        "has_patterns",
        "incoming",
        "is_deleted",
        "is_durable",
        "is_headers",
        "is_predeclared",
        "name",
        "rejects",
        "router",
        "watchers",
    )

    def __init__(self, config: ExchangeConfig, address: Address, is_predeclared: bool) -> None:
        """Make an exchange without bindings. `address` is its account, which no queue is bound to."""
        self.name: str = config.name
        self.config: ExchangeConfig = config
        self.address: Address = address
        """Settings, limits and counts of its name. It is not among the addresses of the domain."""
        self.is_predeclared: bool = is_predeclared
        self.is_headers: bool = config.type is ExchangeType.HEADERS
        self.has_patterns: bool = config.type is ExchangeType.TOPIC
        self.is_durable: bool = config.durable and config.lifetime is not ExchangeLifetime.SESSION
        self.is_deleted: bool = False
        self.rejects: bool = config.unroutable is Unroutable.REJECT
        self.bindings: dict[Identity, ExchangeBinding] = {}
        """Bindings that begin here."""
        self.incoming: dict[ExchangeBinding, None] = {}
        """Bindings of other exchanges, or of itself, that lead here."""
        self.alternate_queue: Queue | None = None
        self.alternate_exchange: Exchange | None = None
        self.alternate_for: dict[Exchange, None] = {}
        """Exchanges whose alternate this is."""
        self.watchers: dict[object, Callable[[str], None]] = {}
        """Called with the reason when it is deleted, by what watches it."""
        self.router: ExchangeRouter = router_of(config.type)

    @property
    def has_alternate(self) -> bool:
        """Whether something gets what reaches no queue."""
        return self.alternate_queue is not None or self.alternate_exchange is not None

    def follow(self, config: ExchangeConfig) -> None:
        """Follow another configuration, without its alternate."""
        self.config = config
        self.rejects = config.unroutable is Unroutable.REJECT

    def add(self, binding: ExchangeBinding) -> None:
        """Add a binding, in place of the one with its identity."""
        before = self.bindings.get(binding.identity)
        if before is not None:
            self.router.remove(before)
        self.bindings[binding.identity] = binding
        self.router.add(binding)

    def remove(self, binding: ExchangeBinding) -> None:
        """Remove a binding."""
        del self.bindings[binding.identity]
        self.router.remove(binding)


def router_of(type: ExchangeType) -> ExchangeRouter:
    """Return a router without bindings for exchanges of a type."""
    if type is ExchangeType.TOPIC:
        return TopicTable()
    if type is ExchangeType.HEADERS:
        return HeadersTable()
    return KeyTable(ignores_keys=type is ExchangeType.FANOUT)
