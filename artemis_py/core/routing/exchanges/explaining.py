"""The way of a message through exchanges with the reason for each decision; nothing is sent.

The way itself is that of `Passage`, and whether a binding matches is decided by the router of its exchange. This module
only takes notes, and asks a router that has no other binding about those that were not found.
"""

from typing import TYPE_CHECKING, Final

from artemis_py.core.messages.message import Message
from artemis_py.core.queues.queue import Queue
from artemis_py.core.routing.exchanges.binding import ExchangeBinding
from artemis_py.core.routing.exchanges.exchange import Exchange, router_of
from artemis_py.core.routing.exchanges.matching import HeadersTable, Match
from artemis_py.core.routing.exchanges.passage import Passage, Visit
from artemis_py.core.runtime.meter import Meter

if TYPE_CHECKING:
    from artemis_py.core.routing.exchanges.exchanges import Exchanges

MAX_LOOKS: Final = 1000
"""Bindings that are listed with a reason, in all exchanges together; the others are counted."""


class Look:
    """One binding, and why it led the message on or did not."""

    __slots__ = ("binding", "leads", "reason")

    def __init__(self, binding: ExchangeBinding, leads: bool, reason: str) -> None:
        self.binding: ExchangeBinding = binding
        self.leads: bool = leads
        self.reason: str = reason


class Entry:
    """One exchange that the message entered with one routing key."""

    __slots__ = ("alternate", "exchange", "key", "looks", "through", "unlisted")

    def __init__(self, exchange: Exchange, key: str, through: str) -> None:
        self.exchange: Exchange = exchange
        self.key: str = key
        self.through: str = through
        """Binding or alternate by which it came; empty for the first exchange."""
        self.looks: list[Look] = []
        self.unlisted: int = 0
        """Bindings of the exchange that are not in `looks`."""
        self.alternate: str = ""
        """What was asked because no queue was reached, with the result; empty if nothing was."""


class Explanation(Passage):
    """Finds the queues of a message, and notes why."""

    __slots__ = ("_asked", "_count", "_entries", "_exchanges", "_through", "entries", "paths")

    def __init__(self, message: Message, meter: Meter, exchanges: "Exchanges", asked: Queue | None) -> None:
        """Prepare it for a message that has its routing key; of `asked`, if given, only its bindings are listed."""
        super().__init__(message, meter)
        self._exchanges: Exchanges = exchanges
        self._asked: Queue | None = asked
        self._entries: dict[tuple[str, str], Entry] = {}
        self._through: str = ""
        self._count: int = 0
        self.entries: list[Entry] = []
        """Exchanges in the order in which they were entered."""
        self.paths: dict[str, list[str]] = {}
        """The way to each queue, by its name: what the message entered, in words."""

    # -- notes on the way --------------------------------------------------------------------------------------

    def _enter(self, exchange: Exchange, key: str) -> None:
        super()._enter(exchange, key)
        entry = Entry(exchange, key, self._through)
        self.entries.append(entry)
        self._entries[(exchange.name, key)] = entry
        match = exchange.router.find(key, self._message)
        for target in match.queues:
            self._note_path(target.name)
        self._look_at(entry, match)

    def _follow(self, visit: Visit, binding: ExchangeBinding) -> None:
        entry = self._entries[(visit.exchange.name, visit.key)]
        queue, exchange = binding.queue, binding.exchange
        key = visit.key if binding.replacement is None else binding.replacement
        reason = ""
        leads = True
        if binding.filter is not None and not binding.filter.matches(self._message):
            reason = f"its selector does not select the message: {binding.filter.text}"
            leads = False
        elif queue is not None:
            reason = self._objection(queue)
            leads = not reason
        elif exchange is not None and (exchange.name, key) in self._found:
            reason = "the message has been there with this routing key"
        self._note(entry, Look(binding, leads, reason))
        self._through = f"the binding with key '{binding.key}' of exchange '{visit.exchange.name}'"
        super()._follow(visit, binding)

    def _ask_alternate(self, visit: Visit) -> None:
        entry = self._entries[(visit.exchange.name, visit.key)]
        queue = visit.exchange.alternate_queue
        if queue is not None:
            reason = self._objection(queue)
            entry.alternate = f"queue '{queue.name}'" + (f": {reason}" if reason else "")
        elif visit.exchange.alternate_exchange is not None:
            entry.alternate = f"exchange '{visit.exchange.alternate_exchange.name}'"
            if (visit.exchange.alternate_exchange.name, visit.key) in self._found:
                entry.alternate += ": the message has been there with this routing key"
        self._through = f"the alternate of exchange '{visit.exchange.name}'"
        super()._ask_alternate(visit)

    def _reach(self, visit: Visit, queue: Queue) -> None:
        if not self._objection(queue):
            self._note_path(queue.name)
        super()._reach(visit, queue)

    def _objection(self, queue: Queue) -> str:
        """Return why a queue itself does not take the message; empty if it does."""
        if queue.filter is None or queue.filter.matches(self._message):
            return ""
        return f"the filter of the queue does not select the message: {queue.filter.text}"

    def _note_path(self, queue: str) -> None:
        if queue not in self.paths:
            self.paths[queue] = [f"exchange '{each.exchange.name}' with key '{each.key}'" for each in self._visits]

    def _note(self, entry: Entry, look: Look) -> None:
        asked = self._asked
        is_wanted = asked is None or look.binding.queue is asked or look.binding.queue is None
        if is_wanted and self._count < MAX_LOOKS:
            self._count += 1
            entry.looks.append(look)
        else:
            entry.unlisted += 1

    # -- bindings that the router decided about -----------------------------------------------------------------

    def _look_at(self, entry: Entry, match: Match) -> None:
        """Note the bindings of an exchange, except those that are followed one by one."""
        others = dict.fromkeys(match.others)
        listed: dict[ExchangeBinding, None] = {}
        queues = [each for each in match.queues if isinstance(each, Queue)]
        if self._asked is not None:
            queues = [self._asked]
        for queue in queues:
            if len(listed) >= MAX_LOOKS:
                break
            for binding in self._exchanges.bindings_of(queue):
                if binding.source is entry.exchange and binding not in others and binding not in listed:
                    listed[binding] = None
        if self._asked is None:
            for binding in entry.exchange.bindings.values():
                if len(listed) >= MAX_LOOKS:
                    break
                if binding not in others:
                    listed[binding] = None
        looks = [self._looked_at(binding, entry.key) for binding in listed]
        # Those that match come first: there may be many others.
        for look in [each for each in looks if each.leads] + [each for each in looks if not each.leads]:
            self._note(entry, look)
        entry.unlisted += len(entry.exchange.bindings) - len(others) - len(listed)

    def _looked_at(self, binding: ExchangeBinding, key: str) -> Look:
        """Return what a router that has only this binding says about it."""
        source = binding.source
        router = router_of(source.config.type)
        router.add(binding)
        match = router.find(key, self._message)
        self._meter.work += 1
        if match.queues:
            return Look(binding, True, "")
        if match.others:
            return Look(binding, True, "the queue gets the message through another binding")
        if isinstance(router, HeadersTable) and binding.criteria is not None:
            mode = "none of its criteria is met" if binding.criteria.is_any else "not all of its criteria are met"
            missing = binding.criteria.missing(router.headers_of(self._message))
            return Look(binding, False, f"{mode}: {'; '.join(missing)}")
        if source.has_patterns:
            return Look(binding, False, f"its pattern '{binding.key}' does not cover the routing key '{key}'")
        return Look(binding, False, f"its key is '{binding.key}', not '{key}'")
