"""Unsettled deliveries that are kept as a run of messages, without a reference for each.

A subscriber of a fan-out has hundreds of messages unsettled. They came in a few visits of the dispatcher, and are
settled in their order, in a few reads. A run has the messages and the sequence of the first one, and counts those that
are settled; there is no object for a single delivery, so subscribers do not fill the processor's caches with them.

    settled ... | messages that are not settled, with sequences from `first` on

Whatever looks at a single delivery finds a reference to it: `Outstanding` has the run made into references before.
"""

from collections import deque
from typing import TYPE_CHECKING

from mypy_extensions import mypyc_attr

from artemis_py.core.messages.message import Message
from artemis_py.core.queues.reference import DELIVERING, Reference, unhold_all

if TYPE_CHECKING:
    from artemis_py.core.queues.consumer import Consumer


@mypyc_attr(allow_interpreted_subclasses=True)
class Run:
    """Messages of a consumer with consecutive sequences, which are settled in their order; none of them is stored."""

    def __init__(self, consumer: "Consumer", first: int) -> None:
        self.consumer: Consumer = consumer
        self.first: int = first
        """Sequence of the first message that is not settled."""
        self.count: int = 0
        """Number of messages that are not settled."""
        self._parts: deque[list[Message]] = deque()
        """The messages, as they came; a list may be that of other consumers' runs as well, so it never changes."""
        self._settled: int = 0
        """Number of messages of the first list that are settled."""

    def unfold(self) -> None:
        """Have `take_references` called, with whatever the protocol keeps of these deliveries in step."""
        raise NotImplementedError

    def add(self, messages: list[Message], first: int) -> None:
        """Add deliveries. The sequence of the first of them follows that of the last one here, if there is any."""
        if self.count == 0:
            self.first = first
            self.consumer.outstanding.add_run(self)
        self._parts.append(messages)
        self.count += len(messages)
        self.consumer.outstanding.count += len(messages)

    def settle(self, count: int) -> None:
        """Acknowledge the first `count` deliveries: `Consumer.settle` for each of them, without conditions."""
        parts = self._parts
        size_bytes = 0
        left = count
        while left > 0:
            part = parts[0]
            start = self._settled
            stop = start + left
            if stop >= len(part):
                stop = len(part)
                parts.popleft()
                self._settled = 0
            else:
                self._settled = stop
            size_bytes += unhold_all(part, start, stop)
            left -= stop - start
        self.first += count
        self.count -= count
        consumer = self.consumer
        queue = consumer.queue
        queue.delivering_count -= count
        queue.messages_acknowledged += count
        outstanding = consumer.outstanding
        outstanding.count -= count
        if self.count == 0:
            outstanding.remove_run(self)
        consumer.unsettled_bytes -= size_bytes
        consumer.accepted += count
        if consumer.is_starved:
            consumer.feed()

    def take_references(self) -> list[Reference]:
        """Make the deliveries that are not settled into references, which the consumer has instead; return them."""
        consumer = self.consumer
        queue = consumer.queue
        outstanding = consumer.outstanding
        found: list[Reference] = []
        if self.count == 0:
            return found
        outstanding.remove_run(self)
        outstanding.count -= self.count
        sequence = self.first
        start = self._settled
        for part in self._parts:
            for index in range(start, len(part)):
                reference = Reference(part[index], queue)
                reference.sequence = sequence
                reference.state = DELIVERING
                reference.consumer = consumer
                outstanding.append(reference)
                found.append(reference)
                sequence += 1
            start = 0
        self._parts.clear()
        self._settled = 0
        self.count = 0
        return found
