"""Consumers of one client: their windows, and what they may still get (openwire §14)."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from artemis_openwire.broker.deliveries import Source
from artemis_openwire.broker.destinations import consumed_address
from artemis_openwire.broker.patterns import PatternReader, is_pattern
from artemis_openwire.broker.pulls import Pulls
from artemis_openwire.broker.refusals import invalid_destination
from artemis_openwire.broker.subscriptions import Reading, filter_of, open_reading
from artemis_openwire.broker.watching import Watcher
from artemis_openwire.broker.window import Window
from artemis_openwire.engine import errors
from artemis_openwire.engine.codec import read_nested, write_nested
from artemis_openwire.engine.commands import ConnectionError, ConsumerControl, ConsumerInfo, MessagePull
from artemis_openwire.engine.dispatch_writer import DispatchWriter
from artemis_openwire.engine.names import TEMP_QUEUE, TEMP_TOPIC, destinations_of, is_advisory
from artemis_openwire.engine.structure import Throwable
from artemis_openwire.engine.structures import ActiveMQDestination, ConsumerId
from artemis_py.core.queues.consumer import FAILED
from artemis_py.core.queues.dispatcher import Dispatcher
from artemis_py.core.queues.queue import Queue
from artemis_py.core.queues.reference import Reference
from artemis_py.core.runtime.access import Permission
from artemis_py.core.runtime.accounts import CONSUMER_BYTES
from artemis_py.errors import LimitExceeded, NotAuthorized, Refusal

if TYPE_CHECKING:
    from artemis_openwire.broker.exchange import Exchange

# Consumers of one connection. Each is also counted in the account of tables.
MAX_CONSUMERS: Final = 16_384

# Credit that is never used up: the window says when a consumer gets no more.
ENDLESS: Final = 1 << 60

NOT_KNOWN: Final = -2
"""A client that leaves does not say which deliveries it has seen (openwire §12.3)."""


class ClientConsumer:
    """One consumer of a client, on one queue or on several."""

    def __init__(self, exchange: "Exchange", info: ConsumerInfo, id: ConsumerId) -> None:
        handler = exchange.handler
        self.exchange: Exchange = exchange
        self.info: ConsumerInfo = info
        self.id: ConsumerId = id
        self.is_browser: bool = info.browser
        self.window: Window = Window(info.prefetch_size)
        self.pulls: Pulls = Pulls(self)
        self.writer: DispatchWriter = handler.engine.dispatch_writer(id)
        self.dispatcher: Dispatcher = handler.host.dispatcher
        self.run_name: str = handler.manager.run_name
        self.next_number: int = handler.manager.numbering.begin()
        self.dispatched: dict[int, Reference | None] = {}
        """Deliveries that are not acknowledged, by number, in order; None in place of what a browser looks at."""
        self._oldest: int = self.next_number
        """No delivery with a lower number is in `dispatched`."""
        self.counted: set[int] = set()
        """Deliveries whose last attempt was counted when the client rolled back."""
        self.sources: list[Source] = []
        self.is_closed: bool = False
        self.has_started: bool = False
        self.has_pattern: bool = False
        """Whether it takes from all queues that match a pattern, which may be none."""
        self._flows: bool = True
        """Whether its sources may deliver."""
        self._undrained: set[Source] = set()
        """Sources that have not said yet whether they have anything."""

    # -- opening and closing -------------------------------------------------------------------------------------

    def open(self, parts: list[ActiveMQDestination]) -> None:
        """Attach to the queues of all destinations, or to none; they deliver when `start` is called. Raises Refusal."""
        exchange = self.exchange
        try:
            for part in parts:
                self._attach(open_reading(exchange.handler, exchange.core, self.info, part), part)
        except Refusal:
            self.close(-1)
            raise

    def start(self) -> None:
        """Begin to deliver."""
        self.has_started = True
        for source in self.sources:
            self._grant(source, self.is_browser)
        if self.is_browser and not self.sources:
            self.writer.send_nothing()
        self.update()

    def add(self, reading: Reading, part: ActiveMQDestination) -> None:
        """Attach to one more queue. Raises Refusal."""
        self._attach(reading, part)
        source = self.sources[-1]
        if self.has_started:
            self._grant(source, False)
        if not self._flows and source.consumer is not None:
            source.consumer.block()

    def reads(self, queue: Queue) -> bool:
        """Tell whether it is attached to a queue."""
        return any(source.subscription.queue is queue for source in self.sources)

    def _attach(self, reading: Reading, part: ActiveMQDestination) -> None:
        core, info = self.exchange.core, self.info
        source = Source(self, reading, part)
        try:
            source.consumer = core.consume(
                reading.subscription.queue,
                source,
                reading.filter,
                info.browser,
                info.priority,
                exclusive=info.exclusive,
            )
        except Refusal:
            core.subscriptions.withdraw(reading.subscription, "its consumer was refused")
            raise
        self.sources.append(source)

    def _grant(self, source: Source, drains: bool) -> None:
        if source.consumer is not None:
            if drains:
                self._undrained.add(source)
            source.consumer.grant(ENDLESS, drains)

    def close(self, last_delivered: int) -> None:
        """Leave the queues; deliveries up to `last_delivered` were seen by the application, and count as attempts."""
        self.is_closed = True
        self.pulls.forget_all()
        if self.has_pattern:
            self.exchange.handler.manager.patterns.end(self)
        self.uncount()
        if last_delivered > NOT_KNOWN + 1:
            self.fail_seen(last_delivered)
        core, handler = self.exchange.core, self.exchange.handler
        for source in self.sources:
            if source.consumer is not None:
                core.close_consumer(source.consumer, failed=last_delivered == NOT_KNOWN)
                source.consumer = None
            try:
                core.subscriptions.leave(source.subscription, "its consumer left")
            except Refusal as refusal:
                template = "subscription not deleted: queue=%s reason=%s"
                handler.brake.warning(handler.source, template, source.subscription.queue.name, refusal)
        self.sources = []
        self.dispatched = {}

    @property
    def oldest(self) -> int:
        """The number of the first delivery that is not acknowledged; there has to be one.

        Not `next(iter(...))`, which passes over all deliveries that were taken out in front of it, each time.
        """
        dispatched = self.dispatched
        number = self._oldest
        while number not in dispatched:
            number += 1
        self._oldest = number
        return number

    def take(self, number: int) -> Reference | None:
        """Take a delivery out of the window: it is settled."""
        if self.counted:
            self.counted.discard(number)
        return self.dispatched.pop(number, None)

    def uncount(self) -> None:
        """Take back what a rollback counted, before the end of the consumer counts the same attempt."""
        for number in self.counted:
            reference = self.dispatched.get(number)
            if reference is not None:
                reference.delivery_count -= 1
        self.counted.clear()

    def fail_seen(self, last_delivered: int) -> None:
        """Give back what the application has seen, newest first, so that each finds its place at once."""
        for number in reversed(list(self.dispatched)):
            reference = self.dispatched[number]
            if number <= last_delivered and reference is not None and reference.consumer is not None:
                reference.consumer.settle(reference, FAILED)
        self.exchange.handler.host.meter.work += len(self.dispatched)

    def ended(self, source: Source, reason: str) -> None:
        """Forget a queue that was deleted; without any other one, close the client's consumer and tell why."""
        self.sources.remove(source)
        self._undrained.discard(source)
        if self.sources or self.has_pattern:
            return
        handler = self.exchange.handler
        self.is_closed = True
        self.exchange.consumers.forget(self)
        text = f"consumer {self.id.value} was closed, the queue was removed: {reason}"
        handler.engine.send(ConnectionError(exception=Throwable(errors.DESTINATION, text)))
        handler.engine.send(ConsumerControl(consumer_id=self.id, close=True, destination=self.info.destination))
        handler.wake()

    # -- the window ------------------------------------------------------------------------------------------------

    def update(self) -> None:
        """Deliver, or stop it, as the window and the room in the output say."""
        flows = self.window.room(len(self.dispatched)) > 0 and self.exchange.handler.engine.can_send
        if flows == self._flows:
            return
        self._flows = flows
        for source in self.sources:
            if source.consumer is not None:
                if flows:
                    source.consumer.unblock()
                else:
                    source.consumer.block()

    def sent(self) -> None:
        """Note that a delivery was written."""
        if self.window.prefetch == 0:
            self.pulls.served()
        # What the client owes us now may come behind the messages that wait.
        self.exchange.producers.read_on()
        self.update()

    def drained(self, source: Source) -> None:
        """Note that a queue has nothing for a browser, or for a client that does not wait."""
        self._undrained.discard(source)
        if source.consumer is not None:
            source.consumer.credit = ENDLESS
        if not self._undrained:
            if self.window.prefetch == 0:
                self.pulls.unserved()
            if self.is_browser:
                self.writer.send_nothing()
            self.update()

    def drain(self) -> None:
        """Ask all queues whether they have anything at all; `drained` tells."""
        for source in self.sources:
            self._grant(source, True)
        if not self.sources:
            self.pulls.unserved()

    def stop_draining(self) -> None:
        """Wait for nothing any more: the client has got a message."""
        for source in self._undrained:
            if source.consumer is not None:
                source.consumer.draining = False
        self._undrained.clear()

    def log_unconverted(self, reference: Reference, error: Exception) -> None:
        """Log a message that no OpenWire client can read."""
        handler = self.exchange.handler
        template = "message not delivered: client=%s queue=%s reason=%s"
        handler.brake.warning(handler.source, template, handler.client_id, reference.queue.name, error)


class Consumers:
    """The consumers of one connection."""

    def __init__(self, exchange: "Exchange") -> None:
        self._exchange: Final = exchange
        self._by_key: dict[bytes, ClientConsumer] = {}
        self._watchers: dict[bytes, Watcher] = {}

    def _key(self, id: ConsumerId) -> bytes:
        return write_nested(id, self._exchange.handler.engine.version)

    def find(self, key: bytes) -> ClientConsumer | None:
        """Return the consumer of a name, as an acknowledgement has it."""
        found = self._by_key.get(key)
        if found is None and key != b"\0":
            # Clients that are not written in Java may encode a name in a way of their own.
            version = self._exchange.handler.engine.version
            found = self._by_key.get(write_nested(read_nested(key, version), version))
        return found

    def open(self, info: ConsumerInfo, answer_id: int) -> bool:
        """Open a consumer; one that is open stays. True: it answers by itself, later. Raises Refusal."""
        exchange = self._exchange
        if info.consumer_id is None or info.destination is None:
            raise invalid_destination("a consumer needs an id and a destination")
        key = self._key(info.consumer_id)
        if key in self._by_key or key in self._watchers:
            return False
        exchange.check_session(info.consumer_id)
        if len(self._by_key) + len(self._watchers) >= MAX_CONSUMERS:
            raise LimitExceeded(f"{MAX_CONSUMERS} consumers are open on this connection")
        try:
            parts = destinations_of(info.destination)
        except ValueError as error:
            raise LimitExceeded(str(error)) from None
        if not parts:
            raise invalid_destination("a destination needs a name")
        watched = [part.physical_name or "" for part in parts if is_advisory(part)]
        if watched and len(watched) < len(parts):
            raise invalid_destination("a list has topics of advisories or other destinations, not both")
        if watched:
            self._watch(key, info, info.consumer_id, watched)
            return False
        consumer = ClientConsumer(exchange, info, info.consumer_id)
        virtual_topics = exchange.handler.parameters.virtual_topics
        patterns = [
            part for part in parts if is_pattern(part) and virtual_topics.find(part.physical_name or "") is None
        ]
        consumer.has_pattern = len(patterns) > 0
        consumer.open([part for part in parts if part not in patterns])
        self._by_key[key] = consumer
        exchange.handler.manager.advisories.consumer_added(info, info.consumer_id)
        if not patterns:
            consumer.start()
            return False
        wanted = filter_of(info, exchange.handler.client_id)
        readers = [PatternReader(consumer, pattern, wanted) for pattern in patterns]
        exchange.handler.engine.work_through(self._begin(consumer, readers, answer_id))
        return True

    def _begin(self, consumer: ClientConsumer, readers: list[PatternReader], answer_id: int) -> Iterator[None]:
        """Attach a consumer to all queues of its patterns, in steps, and answer."""
        for reader in readers:
            yield from self._exchange.handler.manager.patterns.begin(reader)
        consumer.start()
        self._exchange.answer_later(answer_id)

    def _watch(self, key: bytes, info: ConsumerInfo, id: ConsumerId, topics: list[str]) -> None:
        """Open a consumer of advisories. Those that the client library needs are for everybody. Raises Refusal."""
        exchange = self._exchange
        if info.subscription_name is not None or (info.selector or "").strip():
            raise invalid_destination("a consumer of advisories is neither durable nor has a selector")
        host = exchange.handler.host
        for topic in topics:
            if topic not in (TEMP_QUEUE, TEMP_TOPIC):
                exchange.core.check(Permission.CONSUME, consumed_address(topic, host.options.wildcards))
        host.check_tables("a consumer of advisories")
        host.tables.occupy(CONSUMER_BYTES)
        watcher = self._watchers[key] = Watcher(exchange.handler, id, topics)
        if exchange.handler.parameters.sends_advisories:
            exchange.handler.manager.advisories.watch(watcher)

    def control(self, control: ConsumerControl) -> None:
        """Set the window, as a client does after a reconnection, or close a consumer."""
        consumer = None if control.consumer_id is None else self._by_key.get(self._key(control.consumer_id))
        if consumer is None or control.consumer_id is None:
            return
        if control.close:
            self.close(control.consumer_id, NOT_KNOWN + 1)
            return
        consumer.window.prefetch = max(control.prefetch, 0)
        consumer.update()

    def pull(self, pull: MessagePull) -> None:
        """Send one message, now or when there is one; see `Pulls`."""
        consumer = None if pull.consumer_id is None else self._by_key.get(self._key(pull.consumer_id))
        if consumer is not None:
            consumer.pulls.ask(pull.timeout)

    def close(self, id: ConsumerId, last_delivered: int) -> None:
        """Close a consumer, if it is open."""
        key = self._key(id)
        advisories = self._exchange.handler.manager.advisories
        watcher = self._watchers.pop(key, None)
        if watcher is not None:
            self._exchange.handler.host.tables.vacate(CONSUMER_BYTES)
            advisories.leave(watcher)
        consumer = self._by_key.pop(key, None)
        if consumer is not None:
            consumer.close(last_delivered)
            advisories.consumer_removed(consumer.info, id)

    def close_session(self, session_id: int, last_delivered: int) -> None:
        """Close the consumers of a session."""
        everyone = [one.id for one in self._by_key.values()] + [one.id for one in self._watchers.values()]
        for id in everyone:
            if id.session_id == session_id:
                self.close(id, last_delivered)

    @property
    def has_unacknowledged(self) -> bool:
        """Whether the client owes us acknowledgements."""
        return any(consumer.dispatched for consumer in self._by_key.values())

    def close_all(self, last_delivered: int) -> None:
        """Return what all consumers have, before the session of the core closes them."""
        for consumer in self._by_key.values():
            consumer.uncount()
            if last_delivered > NOT_KNOWN + 1:
                consumer.fail_seen(last_delivered)

    def forget(self, consumer: ClientConsumer) -> None:
        """Forget a consumer whose queues are gone."""
        self._by_key.pop(self._key(consumer.id), None)
        self._exchange.handler.manager.advisories.consumer_removed(consumer.info, consumer.id)

    def find_room(self) -> None:
        """Continue to deliver: there is room in the output."""
        for watcher in self._watchers.values():
            watcher.find_room()
        for consumer in list(self._by_key.values()):
            consumer.update()

    def check_rights(self) -> None:
        """Close consumers that the client's new rights do not allow."""
        exchange = self._exchange
        for consumer in list(self._by_key.values()):
            try:
                for source in consumer.sources:
                    exchange.core.check_consumer(source.subscription.queue, consumer.is_browser)
            except NotAuthorized as refusal:
                self.close(consumer.id, NOT_KNOWN + 1)
                exchange.handler.engine.send(ConnectionError(exception=errors.throwable_of(refusal)))
                control = ConsumerControl(consumer_id=consumer.id, close=True, destination=consumer.info.destination)
                exchange.handler.engine.send(control)

    def stop(self) -> None:
        """Plan nothing more: the client is gone."""
        advisories = self._exchange.handler.manager.advisories
        self._exchange.handler.host.tables.vacate(CONSUMER_BYTES * len(self._watchers))
        for watcher in self._watchers.values():
            advisories.leave(watcher)
        for consumer in self._by_key.values():
            consumer.is_closed = True
            consumer.uncount()
            consumer.pulls.forget_all()
            if consumer.has_pattern:
                self._exchange.handler.manager.patterns.end(consumer)
            advisories.consumer_removed(consumer.info, consumer.id)
