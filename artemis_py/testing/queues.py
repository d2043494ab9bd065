"""What a test sees of one queue."""

import time
from collections.abc import Callable
from typing import Any, Final

from attrs import frozen

from artemis_py.broker import Broker
from artemis_py.core.queues.attaching import attach
from artemis_py.core.queues.consumer import Consumer, ConsumerOptions, Sink
from artemis_py.core.queues.queue import Queue
from artemis_py.core.queues.reference import Reference

PEEKED: Final = 1000
"""Messages that `peek` returns if it is not asked for another number."""
PATIENCE_S: Final = 5.0
"""How long to wait for messages that a test expects."""
_LOOK_AGAIN_S: Final = 0.002


@frozen(kw_only=True)
class KeptMessage:
    """A message in a queue, whatever the protocol it came with."""

    body: object
    """Bytes, str, dict, list, another value, or None without a body."""
    properties: dict[str, object]
    """Application properties."""
    address: str
    """The address that it was sent to."""
    durable: bool
    priority: int
    """0 to 9."""
    expires_ms: int
    """When it expires, in milliseconds since 1970; 0: never."""
    message_id: object
    correlation_id: object
    reply_to: str | None
    delivery_count: int
    """Failed attempts to deliver it."""


class _Reader(Sink):
    """Collects what a browser is shown."""

    def __init__(self) -> None:
        self.found: list[KeptMessage] = []
        self.is_over = False

    def deliver(self, reference: Reference) -> None:
        message = reference.message
        view = message.format.view(message)
        kept = KeptMessage(
            body=view.body,
            properties=dict(view.properties),
            address=message.address,
            durable=message.durable,
            priority=message.priority,
            expires_ms=message.expires_ms,
            message_id=view.message_id,
            correlation_id=view.correlation_id,
            reply_to=view.reply_to,
            delivery_count=reference.delivery_count,
        )
        self.found.append(kept)

    def drained(self) -> None:
        self.is_over = True

    def ended(self, reason: str) -> None:
        self.is_over = True


class TestQueue:
    """One queue by its name, which need not exist yet. Numbers of a queue that does not exist are 0."""

    __test__ = False

    def __init__(self, name: str, ask: Callable[[Callable[[Broker], Any]], Any]) -> None:
        self.name: Final = name
        self._ask: Final = ask

    def _of(self, read: Callable[[Queue], Any], otherwise: object) -> Any:
        def look(broker: Broker) -> object:
            queue = broker.domain.queues.get(self.name)
            return otherwise if queue is None else read(queue)

        return self._ask(look)

    @property
    def exists(self) -> bool:
        """Whether there is a queue of this name."""
        return bool(self._of(lambda queue: True, False))

    @property
    def count(self) -> int:
        """Number of messages in it: those that wait, that consumers have, and that are for later."""
        return int(self._of(lambda queue: queue.message_count, 0))

    @property
    def scheduled(self) -> int:
        """Number of messages in it whose time of delivery has not come."""
        return int(self._of(lambda queue: queue.scheduled_count, 0))

    @property
    def acknowledged(self) -> int:
        """Number of messages that consumers have accepted since the queue exists."""
        return int(self._of(lambda queue: queue.messages_acknowledged, 0))

    @property
    def consumers(self) -> int:
        """Number of its consumers, browsers included."""
        return int(self._of(lambda queue: queue.consumer_count, 0))

    def peek(self, limit: int = PEEKED) -> list[KeptMessage]:
        """Return the first messages, without removing them. Messages that consumers have are left out."""

        def read(broker: Broker) -> list[KeptMessage]:
            queue = broker.domain.queues.get(self.name)
            return [] if queue is None or limit < 1 else _read(broker, queue, limit)

        return list(self._ask(read))

    def wait_for(self, count: int, timeout_s: float = PATIENCE_S) -> None:
        """Wait until at least this many messages are in it. Raises AssertionError after `timeout_s`."""
        self._wait(lambda: self.count >= count, f"{count} messages", timeout_s)

    def wait_until_empty(self, timeout_s: float = PATIENCE_S) -> None:
        """Wait until no message is in it. Raises AssertionError after `timeout_s`."""
        self._wait(lambda: self.count == 0, "no messages", timeout_s)

    def wait_for_consumer(self, timeout_s: float = PATIENCE_S) -> None:
        """Wait until it has a consumer. Raises AssertionError after `timeout_s`."""
        self._wait(lambda: self.consumers > 0, "a consumer", timeout_s)

    def _wait(self, is_so: Callable[[], bool], what: str, timeout_s: float) -> None:
        end = time.monotonic() + timeout_s
        while not is_so():
            if time.monotonic() > end:
                state = f"{self.count} messages, {self.consumers} consumers" if self.exists else "it does not exist"
                raise AssertionError(f"queue '{self.name}' should have {what} within {timeout_s:g} s: {state}")
            time.sleep(_LOOK_AGAIN_S)

    def __repr__(self) -> str:
        return f"<queue '{self.name}'>"


def _read(broker: Broker, queue: Queue, limit: int) -> list[KeptMessage]:
    """Browse a queue in this turn."""
    reader = _Reader()
    consumer = Consumer(broker.domain.new_id(), queue, reader, ConsumerOptions(None, browse=True), "")
    attach(consumer)
    try:
        consumer.grant(limit, True)
        while broker.domain.dispatcher.run() and not reader.is_over:
            pass
    finally:
        consumer.close(False)
    return reader.found
