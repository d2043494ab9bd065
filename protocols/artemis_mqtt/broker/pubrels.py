"""PUBRELs of QoS 2: when they go out.

A PUBREL promises that the message does not come again, so it waits until the store knows of the PUBREC. Deliveries in a
run leave nothing for the store, because their session ends with the connection, and their PUBRELs could go out at once.
But in a fan-out that would be a write for each read of each client, which the client answers with another. So they wait
for the next write to the client if the dispatcher is about to visit a queue that has messages for it, but not longer
than twice `ROUND_MS`.

    written apart:   PUBLISH -> | <- PUBREC | PUBREL -> | <- PUBCOMP | PUBLISH -> | ...       2 writes, 2 reads
    together:        PUBLISH, PUBREL of those before -> | <- PUBREC, PUBCOMP of those before  1 write, 1 read
"""

from functools import partial
from typing import TYPE_CHECKING, Final

from artemis_mqtt.engine.acknowledgements import Acknowledgements
from artemis_py.core.queues.dispatcher import Dispatcher
from artemis_py.core.runtime.timers import Timer
from artemis_py.wire.answers import Answers
from artemis_py.wire.outbox import Outbox

if TYPE_CHECKING:
    from artemis_mqtt.broker.deliveries import Subscription
    from artemis_mqtt.broker.handler import ClientHandler

# Queues with much to deliver take turns: with a hundred of them, one is visited every 20 to 30 ms. Clients that take a
# message only at its PUBREL get it later by no more than two of these.
ROUND_MS: Final = 25


class DeferredPubrels:
    """Connections whose PUBRELs wait for a write. It makes sure that they do not wait long, whatever becomes of it."""

    def __init__(self, dispatcher: Dispatcher) -> None:
        self._dispatcher: Dispatcher = dispatcher
        self.round: int = 1
        """Number of this round. When it ends, what began to wait in the round before is sent."""
        self._older: list[Pubrels] = []
        self._newer: list[Pubrels] = []
        self._timer: Timer | None = None

    def add(self, pubrels: "Pubrels") -> None:
        """Have `send_deferred` called at the end of the next round."""
        self._newer.append(pubrels)
        if self._timer is None:
            self._timer = self._dispatcher.after(ROUND_MS, self._end_round)

    def _end_round(self) -> None:
        ended = self.round
        late = self._older
        self._older = self._newer
        self._newer = []
        self.round = ended + 1
        self._timer = self._dispatcher.after(ROUND_MS, self._end_round) if self._older else None
        for pubrels in late:
            pubrels.send_deferred(ended - 1)


class Pubrels:
    """The PUBRELs of one connection that are to go out, in the order of their PUBRECs [MQTT-4.6.0-4]."""

    __slots__ = (
        "_acks",
        "_answers",
        "_asked",
        "_count",
        "_deferred",
        "_first_id",
        "_handler",
        "_needs_store",
        "_outbox",
        "_ranges",
        "_round",
        "_subscription",
    )

    def __init__(self, handler: "ClientHandler", deferred: DeferredPubrels) -> None:
        self._handler: ClientHandler = handler
        self._answers: Answers = handler.answers
        self._acks: Acknowledgements = handler.engine.acks
        self._outbox: Outbox = handler.engine.outbox
        self._deferred: DeferredPubrels = deferred
        self._ranges: list[tuple[int, int]] = []
        """First packet identifiers of deliveries that follow each other, and their number."""
        self._first_id: int = 0
        """The newest of them."""
        self._count: int = 0
        """0: there are none at all."""
        self._needs_store: bool = False
        """Whether the store has to know of one of the PUBRECs."""
        self._asked: int = 0
        """Number of ranges that wait for the store; what comes behind them waits as well."""
        self._subscription: Subscription | None = None
        """The subscription of the newest run among them."""
        self._round: int = 0
        """The round in which they began to wait for a write; 0: they do not."""

    def add_one(self, packet_id: int) -> None:
        """Add a delivery whose PUBREC the store has to know of."""
        self._needs_store = True
        self._add(packet_id, 1)

    def add_run(self, subscription: "Subscription", first_id: int, count: int) -> None:
        """Add deliveries that are a run."""
        self._subscription = subscription
        self._add(first_id, count)

    def _add(self, first_id: int, count: int) -> None:
        if self._count and first_id == self._first_id + self._count:
            self._count += count
            return
        if self._count:
            self._ranges.append((self._first_id, self._count))
        self._first_id = first_id
        self._count = count

    def gather(self) -> None:
        """Send them, have them sent when the store is ready, or leave them for the next write."""
        if self._count == 0:
            return
        if self._needs_store or self._asked:
            self._ask()
            return
        subscription = self._subscription
        if not self._outbox.chunks and subscription is not None and subscription.is_due:
            if self._round == 0:
                self._round = self._deferred.round
                self._deferred.add(self)
            return
        self._send()

    def send_deferred(self, round: int) -> None:
        """Send what began to wait for a write in this round, if no write came; the connection may have ended."""
        if self._round == round and not self._handler.is_over():
            self._send()

    def _take(self) -> list[tuple[int, int]]:
        ranges = self._ranges
        ranges.append((self._first_id, self._count))
        self._ranges = []
        self._count = 0
        self._needs_store = False
        self._subscription = None
        self._round = 0
        return ranges

    def _send(self) -> None:
        for first_id, count in self._take():
            self._acks.send_pubrels(first_id, count)

    def _ask(self) -> None:
        for first_id, count in self._take():
            self._asked += 1
            self._answers.when_durable(partial(self._stored, first_id, count))

    def _stored(self, first_id: int, count: int) -> None:
        self._asked -= 1
        self._acks.send_pubrels(first_id, count)
