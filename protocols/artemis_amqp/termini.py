"""What outlives a detached link: who is attached under which name, and unsettled deliveries of durable termini.

A link is named by its container, its direction and its name. An attach under a name that is in use takes it over
(AMQP 1.0 §2.6.1, link stealing). A client that asked for `durable=unsettled-state` may come back and resume: until
then its unsettled deliveries wait for it, unless somebody else starts to consume from the same queue, or the
terminus' own timeout runs out. Nothing here survives a restart: deliveries then go back to their queues.
"""

from collections.abc import Callable
from typing import Final, Protocol

from artemis_py.core.consumer import Consumer, Sink
from artemis_py.core.queue import Queue
from artemis_py.core.reference import Reference
from artemis_py.core.timers import Timer, Timers

UNSETTLED_STATE: Final = 2
"""A terminus' `durable`: keep the state of unsettled deliveries."""

# Suspended termini kept at once, in all; the oldest gives way. A client makes one per durable link it leaves behind.
SUSPENDED_LIMIT: Final = 10_000

LinkKey = tuple[str, bool, str]
"""Container id of the client, whether the client receives, link name."""


class Attached(Protocol):
    """A link that somebody may take over."""

    def stolen(self) -> None:
        """Another attach took the name: detach with `amqp:link:stolen`, suspending what is to be resumed."""


class SuspendedSource:
    """A consumer whose client went away with deliveries unsettled."""

    def __init__(self, consumer: Consumer, unsettled: dict[bytes, Reference], failed: bool) -> None:
        self.consumer: Final = consumer
        self.unsettled: Final = unsettled
        """By delivery-tag."""
        self.failed: Final = failed
        """The connection broke: what is not resumed counts as a failed attempt."""
        self.timer: Timer | None = None

    def give_back(self) -> None:
        """Nobody resumes: everything returns to the queue."""
        if self.timer is not None:
            self.timer.cancel()
        self.consumer.close(self.failed)


class SuspendedTarget:
    """A producer's deliveries whose outcome its client may not have seen."""

    def __init__(self, unsettled: dict[bytes, bytes]) -> None:
        self.unsettled: Final = unsettled
        """Encoded outcomes by delivery-tag."""
        self.timer: Timer | None = None

    def give_back(self) -> None:
        """Nobody resumes: forget the outcomes."""
        if self.timer is not None:
            self.timer.cancel()


class _NobodyThere(Sink):
    """The sink of a suspended consumer: it has no credit, so nothing is ever delivered."""

    def deliver(self, reference: Reference) -> None:
        raise AssertionError("a suspended consumer has no credit")

    def drained(self) -> None:
        """Nobody waits for the answer."""

    def ended(self, reason: str) -> None:
        """The queue is gone; `Termini.resume` finds the consumer closed."""


class Termini:
    """All links by name, and the suspended ones."""

    def __init__(self, timers: Timers, now_ms: Callable[[], int]) -> None:
        self._timers = timers
        self._now_ms = now_ms
        self._attached: dict[LinkKey, Attached] = {}
        self._suspended: dict[LinkKey, SuspendedSource | SuspendedTarget] = {}
        self._suspended_queues: dict[int, set[LinkKey]] = {}

    def attach(self, key: LinkKey, link: Attached) -> None:
        """Register a link; whoever holds the name loses it first."""
        holder = self._attached.pop(key, None)
        if holder is not None:
            holder.stolen()
        self._attached[key] = link

    def detach(self, key: LinkKey, link: Attached) -> None:
        """The link is gone."""
        if self._attached.get(key) is link:
            del self._attached[key]

    def suspend(self, key: LinkKey, terminus: SuspendedSource | SuspendedTarget, timeout_s: int | None) -> None:
        """Keep a terminus for resumption; for ever without a timeout, or until somebody else wants the queue."""
        self._forget(key)
        while len(self._suspended) >= SUSPENDED_LIMIT:
            self.drop(next(iter(self._suspended)))
        if isinstance(terminus, SuspendedSource):
            consumer = terminus.consumer
            consumer.grant(0)
            consumer.sink = _NobodyThere()
            self._suspended_queues.setdefault(consumer.queue.id, set()).add(key)
        self._suspended[key] = terminus
        if timeout_s is not None:
            terminus.timer = self._timers.at(self._now_ms() + 1000 * timeout_s, lambda: self.drop(key))

    def resume(self, key: LinkKey) -> SuspendedSource | SuspendedTarget | None:
        """Take a suspended terminus back; the caller now owns what it holds."""
        return self._forget(key)

    def drop(self, key: LinkKey) -> None:
        """Give a suspended terminus up."""
        terminus = self._forget(key)
        if terminus is not None:
            terminus.give_back()

    def release(self, queue: Queue, except_for: LinkKey) -> None:
        """Somebody attaches to this queue: what others left behind on it goes back."""
        for key in list(self._suspended_queues.get(queue.id, ())):
            if key != except_for:
                self.drop(key)

    def _forget(self, key: LinkKey) -> SuspendedSource | SuspendedTarget | None:
        terminus = self._suspended.pop(key, None)
        if terminus is None:
            return None
        if terminus.timer is not None:
            terminus.timer.cancel()
        if isinstance(terminus, SuspendedSource):
            queue_id = terminus.consumer.queue.id
            keys = self._suspended_queues.get(queue_id)
            if keys is not None:
                keys.discard(key)
                if not keys:
                    del self._suspended_queues[queue_id]
        return terminus
