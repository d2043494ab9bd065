"""The way of one message through exchanges: which queues it reaches (qpid-exchanges §4).

Each exchange is entered once with the same routing key. Another way to it gets what the first visit found, and
nothing while that is under way. So circles end, and the result does not depend on the order of bindings, unless
there are alternates within a circle.
"""

from typing import Final

from artemis_py.core.addresses.binding import Binding
from artemis_py.core.messages.message import Message
from artemis_py.core.queues.queue import Queue
from artemis_py.core.routing.exchanges.binding import ExchangeBinding
from artemis_py.core.routing.exchanges.exchange import Exchange
from artemis_py.core.runtime.meter import Meter
from artemis_py.errors import LimitExceeded

MAX_VISITS: Final = 2000
"""Most exchanges that one message enters, counted again for each routing key. As many as diverts may make copies."""
MAX_MENTIONS: Final = 1_000_000
"""Most bindings that are met on the way, beyond those of the first exchange. One exchange may be entered with many
keys, and have many bindings."""


class Visit:
    """One exchange, entered with one routing key."""

    __slots__ = ("asks_alternate", "exchange", "index", "is_reached", "key", "others")

    def __init__(self, exchange: Exchange, key: str, others: list[ExchangeBinding], is_reached: bool) -> None:
        self.exchange: Exchange = exchange
        self.key: str = key
        self.others: list[ExchangeBinding] = others
        """Bindings that have to be looked at one by one."""
        self.index: int = 0
        self.is_reached: bool = is_reached
        """Whether a queue has been reached through this exchange."""
        self.asks_alternate: bool = exchange.has_alternate
        """Whether the alternate is still to be asked if no queue is reached."""


class Passage:
    """Collects the queues of one message."""

    __slots__ = ("_found", "_mentions", "_message", "_meter", "_visits", "targets")

    def __init__(self, message: Message, meter: Meter) -> None:
        self._message: Message = message
        self._meter: Meter = meter
        self._found: dict[tuple[str, str], bool] = {}
        """Whether a queue was reached through an exchange with a routing key; false while that is not known."""
        self._mentions: int = 0
        self._visits: list[Visit] = []
        """Exchanges that are being looked at; each was entered from the one before it."""
        self.targets: dict[Binding, None] = {}
        """Queues that were reached."""

    def run(self, exchange: Exchange, key: str) -> None:
        """Find all queues. Raises LimitExceeded if there are too many exchanges on the way."""
        visits = self._visits
        self._enter(exchange, key)
        while visits:
            visit = visits[-1]
            if visit.index < len(visit.others):
                binding = visit.others[visit.index]
                visit.index += 1
                self._follow(visit, binding)
            elif visit.asks_alternate and not visit.is_reached:
                visit.asks_alternate = False
                self._ask_alternate(visit)
            else:
                visits.pop()
                self._found[(visit.exchange.name, visit.key)] = visit.is_reached
                if visits and visit.is_reached:
                    visits[-1].is_reached = True

    def _follow(self, visit: Visit, binding: ExchangeBinding) -> None:
        """Follow a binding, if its selector lets the message pass."""
        self._meter.work += 1
        if binding.filter is not None and not binding.filter.matches(self._message):
            return
        if binding.queue is not None:
            self._reach(visit, binding.queue)
        elif binding.exchange is not None:
            self._visit(visit, binding.exchange, visit.key if binding.replacement is None else binding.replacement)

    def _ask_alternate(self, visit: Visit) -> None:
        """Go to the alternate of an exchange, through which no queue was reached."""
        exchange = visit.exchange
        if exchange.alternate_queue is not None:
            self._reach(visit, exchange.alternate_queue)
        elif exchange.alternate_exchange is not None:
            self._visit(visit, exchange.alternate_exchange, visit.key)

    def _reach(self, visit: Visit, queue: Queue) -> None:
        """Note a queue, if its own selector lets the message pass."""
        if queue.filter is None or queue.filter.matches(self._message):
            self.targets[queue] = None
            visit.is_reached = True

    def _visit(self, visit: Visit, exchange: Exchange, key: str) -> None:
        """Go to another exchange, unless the message has been there with this key."""
        found = self._found.get((exchange.name, key))
        if found is None:
            self._enter(exchange, key)
        elif found:
            visit.is_reached = True

    def _enter(self, exchange: Exchange, key: str) -> None:
        if len(self._found) == MAX_VISITS:
            raise LimitExceeded(f"exchange '{exchange.name}': a message enters more than {MAX_VISITS} exchanges")
        if self._mentions > MAX_MENTIONS:
            raise LimitExceeded(f"exchange '{exchange.name}': a message meets more than {MAX_MENTIONS} bindings")
        self._found[(exchange.name, key)] = False
        router = exchange.router
        work = router.work
        match = router.find(key, self._message)
        self._meter.work += router.work - work + 1
        if self._visits:
            self._mentions += len(match.queues) + len(match.others)
        for queue in match.queues:
            self.targets[queue] = None
        self._visits.append(Visit(exchange, key, match.others, len(match.queues) > 0))
