"""Registry of attached links by name, and the unsettled deliveries of detached links.

A link is identified by its container, its direction and its name. An attach under a name that is in use takes the
link over (AMQP 1.0 §2.6.1, link stealing). A client keeps the deliveries of a link that it detached and did not close
while its session lasts (AMQP 1.0 §2.7.6, `lingering`). After that, a client that asked for `durable=unsettled-state`
may come back and resume. Until then its unsettled deliveries wait, unless another client consumes from the same queue
or the timeout of the terminus expires. Nothing here survives a restart: deliveries then return to their queues.
"""

from collections.abc import Callable
from typing import Final, Protocol

from artemis_py.core.queues.consumer import FAILED, RELEASED, Consumer, ConsumerOptions, Sink
from artemis_py.core.queues.cursors.selective import SelectiveCursor
from artemis_py.core.queues.queue import Queue
from artemis_py.core.queues.reference import CLAIMED, Reference
from artemis_py.core.runtime.timers import Timer

UNSETTLED_STATE: Final = 2
"""Value of a terminus' `durable`: keep the state of unsettled deliveries."""

# Suspended termini kept at once, in all; beyond that the oldest is given up. A client leaves one per durable link.
SUSPENDED_LIMIT: Final = 10_000

After = Callable[[int, Callable[[], None]], Timer]
"""Plans a call in so many milliseconds (`Host.after`)."""

LinkKey = tuple[str, bool, str, str | None]
"""Container id, whether the client receives, link name, user: a user cannot take over another user's link."""


class Attached(Protocol):
    """A link that another attach may take over."""

    def stolen(self) -> None:
        """Detach with `amqp:link:stolen` and suspend what may be resumed: another attach took over the name."""


class SuspendedSource:
    """Deliveries whose link is gone: its client may still settle them, or resume the link.

    They belong to a consumer that is one of the queue's `holders`: it gets no messages and counts for no limit.
    """

    def __init__(self, consumer: Consumer, unsettled: dict[bytes, Reference]) -> None:
        """Take over these deliveries, by delivery-tag, from the link's consumer."""
        self.queue: Final = consumer.queue
        self.sink: Final = _NobodyThere()
        self.holder: Final = _holder(consumer, unsettled, self.sink)
        self.unsettled: Final = unsettled
        self.failed: bool = False
        """Whether the connection broke: a delivery that is not resumed then counts as a failed attempt."""
        self.cut: Callable[[], None] | None = None
        """Makes the detached link's session forget the deliveries; None once the session has ended."""
        self.timer: Timer | None = None

    def give_back(self) -> None:
        """Return all deliveries to the queue: the link will not be resumed."""
        cut, self.cut = self.cut, None
        if cut is not None:
            cut()
        if self.timer is not None:
            self.timer.cancel()
        holder = self.holder
        holder.is_closed = True
        if holder in self.queue.holders:
            self.queue.holders.remove(holder)
        outstanding = sorted(holder.outstanding.take_all(), key=_sequence_of, reverse=True)
        # Newest first: each finds its place at the head at once.
        for reference in outstanding:
            self.queue.give_back(reference, FAILED if self.failed else RELEASED)


def _sequence_of(reference: Reference) -> int:
    return reference.sequence


def _holder(consumer: Consumer, unsettled: dict[bytes, Reference], sink: Sink) -> Consumer:
    # With a cursor of its own: hiding a message from it changes nothing in the queue.
    options = ConsumerOptions(cursor=SelectiveCursor())
    holder = Consumer(consumer.id, consumer.queue, sink, options, consumer.user)
    consumer.queue.holders.append(holder)
    for reference in unsettled.values():
        if reference.outstanding is consumer.outstanding:
            consumer.relinquish(reference)
            holder.adopt(reference)
        elif reference.state == CLAIMED and reference.consumer is consumer:
            # It belongs to a transaction, which gives it back on rollback.
            reference.consumer = holder
    return holder


class SuspendedTarget:
    """Deliveries of a producer whose outcomes its client may not have seen."""

    def __init__(self, unsettled: dict[bytes, bytes]) -> None:
        self.unsettled: Final = unsettled
        """Encoded outcomes by delivery-tag."""
        self.timer: Timer | None = None

    def give_back(self) -> None:
        """Forget the outcomes: the link will not be resumed."""
        if self.timer is not None:
            self.timer.cancel()


class _NobodyThere(Sink):
    """The sink of a consumer that only keeps deliveries."""

    def __init__(self) -> None:
        self.on_ended: Callable[[], None] | None = None

    def deliver(self, reference: Reference) -> None:
        raise AssertionError("a consumer without a queue has no credit")

    def drained(self) -> None:
        """Do nothing: no client waits for the answer."""

    def ended(self, reason: str) -> None:
        """Report that the queue was deleted, and the deliveries with it."""
        if self.on_ended is not None:
            self.on_ended()


class Termini:
    """All attached links by name, and the suspended termini."""

    def __init__(self, after: After) -> None:
        self._after = after
        self._attached: dict[LinkKey, Attached] = {}
        self._suspended: dict[LinkKey, SuspendedSource | SuspendedTarget] = {}
        self._suspended_queues: dict[int, set[LinkKey]] = {}

    def attach(self, key: LinkKey, link: Attached) -> None:
        """Register a link; a link that has the same name is detached first."""
        holder = self._attached.pop(key, None)
        if holder is not None:
            holder.stolen()
        self._attached[key] = link

    def is_attached(self, key: LinkKey) -> bool:
        """Tell whether a link of this name is attached on any connection."""
        return key in self._attached

    def detach(self, key: LinkKey, link: Attached) -> None:
        """Remove a link that is gone."""
        if self._attached.get(key) is link:
            del self._attached[key]

    def suspend(self, key: LinkKey, terminus: SuspendedSource | SuspendedTarget, timeout_s: int | None) -> None:
        """Keep a terminus for resumption until the timeout (None: no limit) or another client consumes its queue."""
        self._forget(key)
        while len(self._suspended) >= SUSPENDED_LIMIT:
            self.drop(next(iter(self._suspended)))
        if isinstance(terminus, SuspendedSource):
            self._suspended_queues.setdefault(terminus.queue.id, set()).add(key)
            terminus.sink.on_ended = lambda: self.drop(key)
        self._suspended[key] = terminus
        self.limit(key, timeout_s)

    def limit(self, key: LinkKey, timeout_s: int | None) -> None:
        """Give up a suspended terminus after `timeout_s` seconds from now; None: no limit."""
        terminus = self._suspended.get(key)
        if terminus is not None and timeout_s is not None:
            terminus.timer = self._after(1000 * timeout_s, lambda: self.drop(key))

    def is_suspended(self, key: LinkKey, terminus: SuspendedSource | SuspendedTarget) -> bool:
        """Tell whether this terminus is still kept under this name."""
        return self._suspended.get(key) is terminus

    def resume(self, key: LinkKey) -> SuspendedSource | SuspendedTarget | None:
        """Remove and return a suspended terminus; the caller now owns its deliveries or outcomes."""
        return self._forget(key)

    def drop(self, key: LinkKey) -> None:
        """Give up a suspended terminus."""
        terminus = self._forget(key)
        if terminus is not None:
            terminus.give_back()

    def release(self, queue: Queue, except_for: LinkKey) -> None:
        """Return to a queue what other clients left behind and can no longer settle: a client attaches to the queue."""
        for key in list(self._suspended_queues.get(queue.id, ())):
            terminus = self._suspended[key]
            if key != except_for and isinstance(terminus, SuspendedSource) and terminus.cut is None:
                self.drop(key)

    def _forget(self, key: LinkKey) -> SuspendedSource | SuspendedTarget | None:
        terminus = self._suspended.pop(key, None)
        if terminus is None:
            return None
        if terminus.timer is not None:
            terminus.timer.cancel()
        if isinstance(terminus, SuspendedSource):
            queue_id = terminus.queue.id
            keys = self._suspended_queues.get(queue_id)
            if keys is not None:
                keys.discard(key)
                if not keys:
                    del self._suspended_queues[queue_id]
        return terminus
