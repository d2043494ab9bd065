"""Publishing: the way of a message through an exchange to the queues (qpid-exchanges §4, §10).

All queues are found before any of them gets the message, and if one of their addresses refuses it, none does. A message
for queues of one address counts there, as if it had been sent to that address; one for queues of several addresses
counts for the exchange.
"""

from typing import TYPE_CHECKING, Final

from artemis_py.core.addresses.address import Address
from artemis_py.core.addresses.binding import Binding
from artemis_py.core.messages.message import ROUTING_KEY, Message
from artemis_py.core.queues.queue import Queue
from artemis_py.core.routing.discards import DiscardCause
from artemis_py.core.routing.exchanges.arguments import check_key
from artemis_py.core.routing.exchanges.exchange import Exchange
from artemis_py.core.routing.exchanges.matching import Match
from artemis_py.core.routing.exchanges.passage import Passage
from artemis_py.core.routing.sender import Sender
from artemis_py.core.routing.transaction import Transaction
from artemis_py.core.runtime.access import Permission
from artemis_py.core.runtime.meter import PASSED_SHIFT
from artemis_py.errors import NoRoute

if TYPE_CHECKING:
    from artemis_py.core.routing.routing import Routing

SHORT_KEY: Final = 255
"""Characters of a routing key that is certainly allowed, if it is plain ASCII."""


class Publishing:
    """Sends messages through the exchanges of one domain."""

    def __init__(self, routing: "Routing") -> None:
        self._routing: Routing = routing
        self.blocking: Address | None = None
        """Address of a queue that took the last message although its producers should wait; None if there is none."""

    # Long because the usual case is decided in it, without a call.
    def publish(
        self,
        message: Message,
        exchange: Exchange,
        key: str,
        transaction: Transaction | None = None,
        rejects: bool = False,
    ) -> int:
        """Send a message through an exchange; return how many queues got it, or get it at the commit.

        If no queue gets it, `rejects` decides between NoRoute and discarding it, not the attribute of the exchange.
        Raises AddressFull, StoreError, LimitExceeded, InvalidRequest; no queue has the message then.
        """
        if len(key) > SHORT_KEY or not key.isascii():
            check_key("routing key", key)
        routing = self._routing
        self.blocking = None
        address = exchange.address
        if not routing.admit(message, address):
            return 0
        message.set_extra(ROUTING_KEY, key)
        router = exchange.router
        work = router.work
        match = router.find(key, message)
        routing.meter.work += router.work - work
        if len(match.queues) == 1 and not match.others and transaction is None:
            # The usual case, decided without a list.
            target = match.queues[0]
            home = target.address
            if not home.account.is_full and not routing.account.is_full:
                message.origin = home
                address.routed += 1
                routing.meter.work += 1
                target.offer(message)
                return 1
        targets = self._targets(message, exchange, key, match)
        if not targets:
            if rejects:
                address.unrouted += 1
                text = f"no queue gets what is sent to exchange '{exchange.name}' with routing key '{key}'"
                raise NoRoute(text, exchange.rejects)
            routing.unrouted(message, address, transaction)
            return 0
        targets = self._admitted(message, exchange, targets)
        address.routed += 1
        passed = 0
        if transaction is not None and targets:
            transaction.send(message, list(targets))
        else:
            for target in targets:
                if target.offer(message):
                    passed += 1
        routing.meter.work += len(targets) - passed + (passed >> PASSED_SHIFT)
        return len(targets)

    def publish_once(
        self,
        message: Message,
        exchange: Exchange,
        key: str,
        transaction: Transaction | None,
        rejects: bool,
        duplicate_id: bytes,
    ) -> int:
        """Publish a message that has a duplicate id; 0 if the exchange took one with the same id.

        The ids of an exchange are remembered in memory.
        """
        routing = self._routing
        if routing.is_duplicate(exchange.address, duplicate_id, transaction):
            return 0
        message.stored_first = True
        count = self.publish(message, exchange, key, transaction, rejects)
        routing.remember(exchange.address, duplicate_id, message, transaction)
        return count

    def publish_to_queue(
        self, message: Message, name: str, transaction: Transaction | None, sender: Sender, rejects: bool
    ) -> int:
        """Send a message through the default exchange: to the queue whose name is the routing key.

        It is the same as sending to `::name`, and nothing is created. A queue that belongs to the broker counts as
        missing. Raises what `publish` raises, and NotAuthorized.
        """
        routing = self._routing
        queue = self.queue_for(name)
        if queue is None:
            if rejects:
                raise NoRoute(f"there is no queue '{name}' for what is sent to the default exchange")
            text = "sent to the default exchange, and there is no queue of this name"
            routing.discards.add(name, DiscardCause.NO_QUEUE, text)
            return 0
        sender.check(Permission.SEND, queue.address.name, name)
        return routing.route(message, queue.address, name, transaction, sender)

    def queue_for(self, name: str) -> Queue | None:
        """Return the queue that the default exchange leads to by this key; None if there is none, or the broker's."""
        routing = self._routing
        queue = routing.queues.get(name)
        prefix = routing.options.internal_naming_prefix
        if queue is None or queue.internal or name in routing.reserved or name.startswith(prefix):
            return None
        return queue

    def _targets(self, message: Message, exchange: Exchange, key: str, match: Match) -> list[Binding]:
        """Return the queues that a message reaches, each once, from what it matches. Raises LimitExceeded."""
        if not match.others and (match.queues or not exchange.has_alternate):
            return match.queues
        passage = Passage(message, self._routing.meter)
        passage.run(exchange, key)
        return list(passage.targets)

    def _admitted(self, message: Message, exchange: Exchange, targets: list[Binding]) -> list[Binding]:
        """Return the queues whose addresses take a message, and count it there or for the exchange.

        Raises AddressFull if one of them refuses it.
        """
        first = targets[0].address
        is_shared = is_full = False
        broker = self._routing.account
        for target in targets:
            address = target.address
            if address is not first:
                is_shared = True
            if address.account.is_full or broker.is_full:
                is_full = True
        if is_full:
            targets = self._those_with_room(message, targets)
        message.origin = exchange.address if is_shared else first
        return targets

    def _those_with_room(self, message: Message, targets: list[Binding]) -> list[Binding]:
        """Return the queues whose addresses do not drop a message. Raises AddressFull."""
        routing = self._routing
        taken: list[Binding] = []
        for target in targets:
            if not routing.drops(message, target.address):
                taken.append(target)
        for target in taken:
            if target.address.must_wait:
                self.blocking = target.address
        return taken
