"""Log of the events of the core and the transport: their first listener."""

import time
from collections.abc import Callable, Mapping
from typing import Any, Final

from artemis_py.core.runtime.events import (
    AddressAdded,
    AddressHasRoom,
    AddressIsFull,
    AddressRemoved,
    ConnectionClosed,
    ConnectionOpened,
    ConnectionRefused,
    ConsumerSlow,
    DeadLettered,
    Denied,
    DivertLoop,
    Dropped,
    Duplicate,
    Event,
    Events,
    ExchangeAdded,
    ExchangeBound,
    ExchangeRemoved,
    ExchangeUnbound,
    HistoryRefused,
    JobRefused,
    LimitReached,
    ListenerFailed,
    QueueAdded,
    QueueRemoved,
    RefusalCause,
    TransformerFailed,
    Unrouted,
)
from artemis_py.logs import LogBrake, named_logger
from artemis_py.peers import address_of

LOGGER: Final = named_logger(__name__)

TRANSPORT: Final = named_logger("artemis_py.transport.driver")
"""Logger of the lines about connections. Operators set its level and search for its name."""

REFUSALS: Final[Mapping[RefusalCause, str]] = {
    RefusalCause.NO_ROOM: "connection refused: peer=%s reason=%s",
    RefusalCause.DISPLACED: "stranger displaced: peer=%s reason=%s",
    RefusalCause.TLS_FAILED: "TLS failed: peer=%s reason=%s",
    RefusalCause.UNKNOWN_PROTOCOL: "connection speaks no protocol of this acceptor: peer=%s first_bytes=%s",
    RefusalCause.LOGIN_TIMEOUT: "login took too long: peer=%s seconds=%s",
}
"""A template for each refusal, hence a limit of lines for each (`LogBrake`)."""


class EventLog:
    """Logs events. Events that clients can cause at will are logged at a limited rate or as DEBUG."""

    def __init__(self, now: Callable[[], float] = time.monotonic, host: str = "") -> None:
        """Create it; lines about a virtual host other than the default one have a logger named after `host`."""
        self._logger: Final = named_logger(f"{__name__}.{host}") if host else LOGGER
        self._now: Final = now
        self._brake: Final = LogBrake(self._logger, now)
        self._brakes: Final[dict[str, LogBrake]] = {}
        """Brakes of the acceptors by name, so that a flood at one of them hides no line of another."""
        self._lines: Final[dict[type[Event], Callable[[Any], None]]] = {
            AddressAdded: self._address_added,
            AddressRemoved: self._address_removed,
            QueueAdded: self._queue_added,
            QueueRemoved: self._queue_removed,
            ExchangeAdded: self._exchange_added,
            ExchangeRemoved: self._exchange_removed,
            ExchangeBound: self._exchange_bound,
            ExchangeUnbound: self._exchange_unbound,
            ConnectionOpened: self._connection_opened,
            ConnectionClosed: self._connection_closed,
            ConnectionRefused: self._connection_refused,
            ConsumerSlow: self._consumer_slow,
            Unrouted: self._unrouted,
            Dropped: self._dropped,
            DeadLettered: self._dead_lettered,
            DivertLoop: self._divert_loop,
            TransformerFailed: self._transformer_failed,
            Duplicate: self._duplicate,
            AddressIsFull: self._address_is_full,
            AddressHasRoom: self._address_has_room,
            LimitReached: self._limit_reached,
            HistoryRefused: self._history_refused,
            JobRefused: self._job_refused,
            Denied: self._denied,
            ListenerFailed: self._listener_failed,
        }

    def listen(self, events: Events) -> None:
        """Subscribe to the events that the log has a line for."""
        events.subscribe(self.write, *self._lines)

    def write(self, event: Event) -> None:
        """Write the line of an event; ignore an event that has none."""
        line = self._lines.get(type(event))
        if line is not None:
            line(event)

    def _address_added(self, event: AddressAdded) -> None:
        self._logger.debug("address created: name=%s auto_created=%s", event.name, event.auto_created)

    def _address_removed(self, event: AddressRemoved) -> None:
        self._logger.debug("address deleted: name=%s reason=%s", event.name, event.reason)

    def _queue_added(self, event: QueueAdded) -> None:
        template = "queue created: name=%s address=%s auto_created=%s"
        self._logger.debug(template, event.name, event.address, event.auto_created)

    def _queue_removed(self, event: QueueRemoved) -> None:
        self._logger.debug("queue deleted: name=%s address=%s reason=%s", event.name, event.address, event.reason)

    def _exchange_added(self, event: ExchangeAdded) -> None:
        LOGGER.debug("exchange created: name=%s type=%s", event.name, event.type)

    def _exchange_removed(self, event: ExchangeRemoved) -> None:
        LOGGER.debug("exchange deleted: name=%s reason=%s", event.name, event.reason)

    def _exchange_bound(self, event: ExchangeBound) -> None:
        kind = "queue" if event.is_queue else "exchange"
        LOGGER.debug("bound: exchange=%s key=%s %s=%s", event.exchange, event.key, kind, event.destination)

    def _exchange_unbound(self, event: ExchangeUnbound) -> None:
        kind = "queue" if event.is_queue else "exchange"
        LOGGER.debug("unbound: exchange=%s key=%s %s=%s", event.exchange, event.key, kind, event.destination)

    def _connection_opened(self, event: ConnectionOpened) -> None:
        TRANSPORT.debug("connection opened: id=%d peer=%s protocol=%s", event.id, event.peer, event.protocol)

    def _connection_closed(self, event: ConnectionClosed) -> None:
        TRANSPORT.debug("connection closed: id=%d peer=%s reason=%s", event.id, event.peer, event.reason)

    def _connection_refused(self, event: ConnectionRefused) -> None:
        brake = self._brakes.get(event.acceptor)
        if brake is None:
            brake = self._brakes[event.acceptor] = LogBrake(TRANSPORT, self._now)
        brake.warning(address_of(event.peer), REFUSALS[event.cause], event.peer, event.detail)

    def _consumer_slow(self, event: ConsumerSlow) -> None:
        what = "slow consumer is disconnected" if event.is_disconnected else "consumer is slow"
        template = what + ": queue=%s user=%s client=%s peer=%s acknowledged=%d seconds=%.1f demanded=%s"
        client = event.client
        user = "anonymous" if client.user is None else client.user
        facts = (user, client.client_id, client.peer, event.acknowledged, event.span_ms / 1000, event.demand)
        self._brake.warning(address_of(client.peer), template, event.queue, *facts)

    def _unrouted(self, event: Unrouted) -> None:
        """Warn of what surprises new users most (artemis-model §9.1): a topic without subscribers keeps nothing."""
        template = "message reached no queue: address=%s; an anycast queue would have kept it for later consumers"
        self._brake.warning(event.address, template, event.address)

    def _dropped(self, event: Dropped) -> None:
        """Log every such event: the core limits their rate, and their counts leave out no message (`Discards`)."""
        self._logger.warning("messages discarded: queue=%s count=%d reason=%s", event.queue, event.count, event.reason)

    def _dead_lettered(self, event: DeadLettered) -> None:
        """Log every such event: the core limits their rate, as with those of `Dropped`."""
        self._logger.warning("dead letters: queue=%s count=%d cause=%s", event.queue, event.count, event.cause)

    def _divert_loop(self, event: DivertLoop) -> None:
        """Log every such event: there is one for each divert."""
        template = "diverts form a circle, a message is not diverted again: divert=%s way=%s"
        self._logger.warning(template, event.divert, " -> ".join(event.way))

    def _transformer_failed(self, event: TransformerFailed) -> None:
        """Log every such event: there is one for each divert until it is changed."""
        template = "transformer failed, messages are not diverted: divert=%s reason=%s"
        self._logger.warning(template, event.divert, event.reason)

    def _duplicate(self, event: Duplicate) -> None:
        self._brake.warning(event.address, "duplicate not routed: address=%s id=%s", event.address, event.id)

    def _address_is_full(self, event: AddressIsFull) -> None:
        template = "address is full: name=%s policy=%s size_bytes=%d"
        self._brake.warning(event.address, template, event.address, event.policy, event.size_bytes)

    def _address_has_room(self, event: AddressHasRoom) -> None:
        self._brake.info(event.address, "address has room again: name=%s", event.address)

    def _limit_reached(self, event: LimitReached) -> None:
        self._brake.warning(address_of(event.peer), "limit reached: %s; peer=%s", event.text, event.peer)

    def _history_refused(self, event: HistoryRefused) -> None:
        template = "no history is kept of an address: address=%s reason=%s"
        self._brake.warning(event.address, template, event.address, event.reason)

    def _job_refused(self, event: JobRefused) -> None:
        template = "scheduled message not sent, it is tried again: job=%s address=%s reason=%s"
        self._brake.warning(event.address, template, event.job, event.address, event.reason)

    def _denied(self, event: Denied) -> None:
        user, permission = event.subject.name, event.permission.value
        where: tuple[str, ...] = (event.address,) if event.queue is None else (event.address, event.queue)
        template = "permission denied: user=%s permission=%s address=%s" + (" queue=%s" if len(where) > 1 else "")
        self._brake.warning(user, template + " peer=%s", user, permission, *where, event.peer)

    def _listener_failed(self, event: ListenerFailed) -> None:
        template = "listener failed: listener=%s event=%s error=%r"
        self._brake.warning(event.listener, template, event.listener, type(event.event).__name__, event.error)
