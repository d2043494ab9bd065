"""The dispatcher: which queues deliver when, and what all queues of a broker share."""

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from mypy_extensions import mypyc_attr

from artemis_py.core.queues.cursors.cursor import ScanBudget
from artemis_py.core.queues.reference import Reference
from artemis_py.core.queues.storage import UNLIMITED, Scratch, Storage
from artemis_py.core.queues.watching import TurnListener, Watcher
from artemis_py.core.runtime.accounts import MemoryAccount, tables_limit
from artemis_py.core.runtime.announcement import Announcements
from artemis_py.core.runtime.background import BackgroundWork
from artemis_py.core.runtime.meter import Meter
from artemis_py.core.runtime.numbers import Numbers
from artemis_py.core.runtime.timers import Timer, Timers
from artemis_py.core.runtime.user_limits import UserLimits
from artemis_py.core.settings.broker_settings import DEFAULT_BROKER_SETTINGS, BrokerSettings
from artemis_py.errors import LimitExceeded

if TYPE_CHECKING:
    from artemis_py.core.queues.consumer import Consumer

# Bytes that a consumer may have unsettled while memory is tight (half of the limit is used) or full, including Python's
# own overhead: about ten thousand small messages, or a few hundred. A consumer that never settles stops there; the
# others of its queue continue. Thousands of such consumers need more than there is: beyond `overdrawn_bytes` each may
# have one message.
UNSETTLED_BYTES_TIGHT: Final = 8 << 20
UNSETTLED_BYTES_FULL: Final = 256 << 10


# The memory for tables has this many parts. Addresses that are created because a client sends to them may fill two of
# them, queues and addresses that a client asked for three; the last is for consumers, links and sessions. Beyond the
# limit there is one more, for the first of each that a client needs to ask for anything, and to get the answer: without
# it nobody could delete what fills the memory.
TABLES_PARTS: Final = 4
ADDRESS_PARTS: Final = 2
QUEUE_PARTS: Final = 3
RESERVE_PARTS: Final = 5

# What a queue may deliver in a visit even if the budget is too small for all queues: few messages where every queue
# that became ready is served in the same iteration, and many where queues take turns, so that they go out in one write.
# While no input waits, every queue may deliver many: those that the budget does not reach come first the next time.
LEAST_DELIVERIES: Final = 8
LEAST_OF_MANY: Final = 250

# A queue that delivered this many in its last visit, while input waited, takes turns with others like it: what arrives
# meanwhile goes out in the same write. Queues that deliver a message now and then are served before all of them,
# however many there are. While no input waits, that gains nothing, and only a queue that has still more takes turns.
MANY: Final = 4

# The least that a visit to a queue costs, in deliveries: about the cost of the write that it causes. Queues that take
# turns gather more messages while they wait, so a fan-out to 100 connections does not mean 100 writes in each
# iteration: with 100 connections a write carries as many messages as `VISIT_OF_MANY` says.
VISIT: Final = 5
VISIT_OF_MANY: Final = 100


@mypyc_attr(allow_interpreted_subclasses=True)
class Dispatchable:
    """A queue as the dispatcher sees it: something to visit when it has messages to deliver."""

    def __init__(self) -> None:
        self.is_ready: bool = False
        """Whether it is in the list of queues to visit."""
        self.is_greedy: bool = False
        """Whether it delivered all that it was allowed to (or `MANY`) in its last visit."""
        self.awaits_store: bool = False
        """Whether it becomes ready when its next message is durable."""
        self.watcher: Watcher | None = None
        """Told after each visit, and when a consumer comes or leaves; None without a mesh."""

    def mark_ready(self) -> None:
        """Have `deliver` called in this iteration of the loop."""
        raise NotImplementedError

    def deliver(self, budget: int) -> int:
        """Deliver at most `budget` messages; return how many."""
        raise NotImplementedError


class Dispatcher:
    """Visits queues that have something to deliver, and owns what they share: time, timers, storage, memory."""

    def __init__(
        self, storage: Storage, scratch: Scratch | None = None, options: BrokerSettings = DEFAULT_BROKER_SETTINGS
    ) -> None:
        self.now_ms: int = 0
        """Time in milliseconds since 1970, set at the start of each iteration of the loop."""
        self.steady_ms: int = 0
        """Milliseconds on a clock that nobody sets, for spans; stamped with `now_ms`. It begins anywhere."""
        self.meter: Meter = Meter()
        self.storage: Storage = storage
        self.storage_put: Callable[[Reference], None] = storage.put
        """`Storage.put`, found once: it is called for each message."""
        self.storage_remove: Callable[[Reference], None] = storage.remove
        self.stores: bool = storage.is_durable
        """Whether the storage takes durable messages; false once it has failed."""
        self.storage_failure: str | None = None
        """Why the storage failed; None as long as it works."""
        self.numbers: Numbers = Numbers()
        self.scratch: Scratch | None = scratch
        """Room on disk for messages that are not durable and do not fit into memory."""
        self.account: MemoryAccount = MemoryAccount(options.global_max_size_bytes, options.global_max_messages)
        """Memory used by the messages of all addresses."""
        self.account.can_spill = scratch is not None
        self.tables: MemoryAccount = MemoryAccount(tables_limit(options.global_max_size_bytes))
        """Memory used by addresses, queues, consumers, links and sessions."""
        self.users: UserLimits = UserLimits()
        """Connections and queues of each user, and limits for them."""
        self.starved: set[Consumer] = set()
        """Consumers that get nothing until memory is free or they settle something."""
        self.timers: Timers = Timers(self.meter)
        """Calls that are planned by `now_ms`."""
        self.steady_timers: Timers = Timers(self.meter)
        """Calls that are planned by `steady_ms`."""
        self.slices: BackgroundWork = BackgroundWork()
        """Work that takes many iterations of the loop."""
        self.scan: ScanBudget = ScanBudget(0)
        """Number of messages that may still be examined for cursors in the current visit."""
        self.ready: list[Dispatchable] = []
        """Queues that became ready since the last iteration."""
        self._again: deque[Dispatchable] = deque()
        """Queues with much to deliver, which take turns."""
        self.stored_batch: int = 0
        """The last batch that is durable; references of later batches are not delivered yet."""
        self._awaiting_store: list[Dispatchable] = []
        """Queues that have consumers waiting for such references."""
        self.turn_listener: TurnListener | None = None
        """Told when all queues of an iteration were served; None if this broker belongs to no mesh."""
        self.announcements: Announcements = Announcements()
        """What answers wait for besides the store; empty if this broker belongs to no mesh."""

    def check_tables(self, what: str, parts: int = TABLES_PARTS) -> None:
        """Raise LimitExceeded if a client may not have one more of `what`, for example an address or a queue.

        That is so when `parts` of `TABLES_PARTS` of the memory for tables are used: a flood of addresses created on
        demand leaves room for the clients that follow.
        """
        tables = self.tables
        if tables.max_bytes >= 0 and tables.size_bytes >= tables.max_bytes // TABLES_PARTS * parts:
            raise LimitExceeded(
                f"no room for {what}: addresses, queues, consumers and sessions take {tables.size_bytes} bytes, "
                "which is their limit"
            )

    def await_store(self, queue: Dispatchable, reference: Reference) -> None:
        """Let a queue deliver when this reference of it is durable, and have the storage hurry."""
        if not queue.awaits_store:
            queue.awaits_store = True
            self._awaiting_store.append(queue)
        self.storage.hurry(reference)

    def storage_failed(self, reason: str) -> None:
        """Refuse durable messages from now on, because the storage takes nothing more; the rest continues in memory."""
        self.storage_failure = reason
        self.stores = False
        self.account.close()
        self.stored(UNLIMITED)

    def disk_changed(self, is_full: bool, is_exhausted: bool) -> None:
        """Block or unblock producers, as `disk-full-policy` says; consumers continue in any case.

        `is_exhausted`: so little room is left that messages are refused whatever the policy, unless DROP discards them.
        """
        self.account.disk_is_full = is_full
        self.account.disk_is_exhausted = is_exhausted
        self.account.update()

    def stored(self, batch: int) -> bool:
        """Note that everything up to `batch` is durable; return whether there is something to run now."""
        self.stored_batch = batch
        awaiting, self._awaiting_store = self._awaiting_store, []
        for queue in awaiting:
            queue.awaits_store = False
            queue.mark_ready()
        return len(self.ready) > 0 or self.slices.has_work

    @property
    def free_unsettled_bytes(self) -> int:
        """Bytes that any consumer may have unsettled; above that `holds_back` decides."""
        account = self.account
        return 1 if account.size_bytes >= account.overdrawn_bytes else UNSETTLED_BYTES_FULL

    def holds_back(self, unsettled_bytes: int) -> bool:
        """Tell whether a consumer with this much unsettled gets nothing more for now."""
        account = self.account
        if account.size_bytes >= account.overdrawn_bytes:
            return unsettled_bytes > 0
        if account.size_bytes >= account.full_bytes:
            return unsettled_bytes >= UNSETTLED_BYTES_FULL
        return account.is_tight and unsettled_bytes >= UNSETTLED_BYTES_TIGHT

    def starve(self, consumer: "Consumer") -> None:
        """Give a consumer nothing until memory is free or it settles something."""
        consumer.is_starved = True
        self.starved.add(consumer)

    def after(self, delay_ms: int, callback: Callable[[], None]) -> Timer:
        """Plan a call in `delay_ms`, even if the wall clock is set in between."""
        return self.steady_timers.at(self.steady_ms + delay_ms, callback)

    def next_deadline_ms(self) -> int | None:
        """Return when a timer of the wall clock is due next, in milliseconds since 1970; None: never."""
        return self.timers.next_ms()

    def next_steady_ms(self) -> int | None:
        """Return when a timer of the steady clock is due next, as `steady_ms` counts; None: never."""
        return self.steady_timers.next_ms()

    def is_due(self) -> bool:
        """Tell whether `handle_deadlines` has something to run now."""
        deadline_ms, steady_ms = self.next_deadline_ms(), self.next_steady_ms()
        if deadline_ms is not None and deadline_ms <= self.now_ms:
            return True
        return steady_ms is not None and steady_ms <= self.steady_ms

    def handle_deadlines(self) -> None:
        """Run the timers that are due at `now_ms` and at `steady_ms`."""
        try:
            self.timers.run(self.now_ms)
        finally:
            self.steady_timers.run(self.steady_ms)

    def run(self, budget: int = 1000, is_busy: bool = True) -> bool:
        """Let every ready queue deliver, at most `budget` messages in all, then do a slice of background work.

        `is_busy`: more input waits, so deliveries may wait a little to be written together. Returns True if some queue
        had to stop early, or if there is more work.
        """
        self._dispatch(budget, is_busy)
        if self.slices.has_work:
            self.slices.run()
        if self.turn_listener is not None and self.turn_listener.turn_ended():
            return True
        return len(self.ready) > 0 or len(self._again) > 0 or self.slices.has_work

    def _dispatch(self, budget: int, is_busy: bool) -> None:
        if self.starved and not self.account.is_tight:
            starved, self.starved = self.starved, set()
            for consumer in starved:
                consumer.feed()
        fresh = self.ready
        again = self._again
        count = len(fresh) + len(again)
        if count == 0:
            return
        self.ready = []
        share = max(budget // count, LEAST_DELIVERIES if is_busy else LEAST_OF_MANY)
        many = MANY if is_busy else LEAST_OF_MANY
        # Queues with little to deliver do not wait for those with much, nor do the latter wait forever.
        kept = budget >> 1 if again else 0
        index = 0
        try:
            while index < len(fresh) and budget > kept:
                queue = fresh[index]
                index += 1
                if queue.is_greedy:
                    again.append(queue)
                else:
                    budget -= max(self._serve(queue, min(share, budget - kept), many), VISIT)
            count = len(again)
            while count > 0 and budget > 0:
                queue = again.popleft()
                share = min(max(budget // count, LEAST_OF_MANY), budget)
                budget -= max(self._serve(queue, share, many), VISIT_OF_MANY)
                count -= 1
        finally:
            # A queue that was not visited goes first in the next iteration, even if a sink failed.
            if index < len(fresh):
                self.ready = fresh[index:] + self.ready

    def _serve(self, queue: Dispatchable, share: int, many: int) -> int:
        """Let a queue deliver; return how many messages it delivered; `many` of them make it take turns."""
        queue.is_ready = False
        delivered = queue.deliver(share)
        queue.is_greedy = delivered >= min(share, many)
        if queue.watcher is not None:
            queue.watcher.visited()
        return delivered
