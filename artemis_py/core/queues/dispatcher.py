"""The dispatcher: whose turn it is to deliver, and what all queues of a broker share."""

from collections import deque
from typing import TYPE_CHECKING, Final

from mypy_extensions import mypyc_attr

from artemis_py.core.queues.cursors.cursor import ScanBudget
from artemis_py.core.queues.reference import Reference
from artemis_py.core.queues.storage import UNLIMITED, Scratch, Storage
from artemis_py.core.runtime.accounts import MemoryAccount, tables_limit
from artemis_py.core.runtime.background import BackgroundWork
from artemis_py.core.runtime.meter import Meter
from artemis_py.core.runtime.numbers import Numbers
from artemis_py.core.runtime.timers import Timers
from artemis_py.core.settings.broker_settings import DEFAULT_BROKER_SETTINGS, BrokerSettings
from artemis_py.errors import LimitExceeded

if TYPE_CHECKING:
    from artemis_py.core.queues.consumer import Consumer

# What a consumer may have and not settle while memory is tight (half of the limit is used) or full, with what Python
# needs for it: some ten thousand small messages, and some hundred. A consumer that never settles stops there, the
# others of its queue go on. Thousands of them add up to more than there is: beyond `overdrawn_bytes` each has one.
UNSETTLED_BYTES_TIGHT: Final = 8 << 20
UNSETTLED_BYTES_FULL: Final = 256 << 10


# Room for tables is given out in so many parts. Addresses that are made because a client sends to them may fill two of
# them, queues and addresses that a client asked for three, and the last is for consumers, links and sessions.
TABLES_PARTS: Final = 4
ADDRESS_PARTS: Final = 2
QUEUE_PARTS: Final = 3

# What a queue may deliver in a turn although there are more queues than that leaves room for: few where all that became
# ready get something at once, and much where queues take turns, so that it goes out in one write.
LEAST_DELIVERIES: Final = 8
LEAST_OF_MANY: Final = 250

# A queue that delivered so many the last time takes turns with its like. Those that deliver a message now and then go
# before all of them, however many there are.
MANY: Final = 4

# What a visit to a queue counts at the least, in deliveries: as much as the write that it causes takes. Queues that
# take turns gather more until it is theirs, and a fan-out to 100 connections is not 100 writes in each turn: with 100
# connections a write carries as many messages as this says.
VISIT: Final = 5
VISIT_OF_MANY: Final = 100


@mypyc_attr(allow_interpreted_subclasses=True)
class Dispatchable:
    """Has something to deliver now and then, and is visited for that: a queue, as the dispatcher sees it."""

    def __init__(self) -> None:
        self.is_ready: bool = False
        """It is in the list of those to visit."""
        self.is_greedy: bool = False
        """In its last visit it delivered all it was allowed to."""
        self.awaits_store: bool = False
        """It is ready again when what it has was stored."""

    def mark_ready(self) -> None:
        """Have `deliver` called in this turn."""
        raise NotImplementedError

    def deliver(self, budget: int) -> int:
        """Deliver at most so many messages; how many it did."""
        raise NotImplementedError


class Dispatcher:
    """Visits queues that have something to deliver, and has what all of them share: time, timers, storage, memory."""

    def __init__(
        self, storage: Storage, scratch: Scratch | None = None, options: BrokerSettings = DEFAULT_BROKER_SETTINGS
    ) -> None:
        self.now_ms: int = 0
        """Milliseconds since 1970, set at the start of each turn."""
        self.meter: Meter = Meter()
        self.storage: Storage = storage
        self.stores: bool = storage.is_durable
        """Whether the storage takes durable messages; false once it failed."""
        self.storage_failure: str | None = None
        """Why nothing is stored any more; None while it is."""
        self.numbers: Numbers = Numbers()
        self.scratch: Scratch | None = scratch
        """Takes messages that are not durable, if they do not fit into memory."""
        self.account: MemoryAccount = MemoryAccount(options.global_max_size_bytes, options.global_max_messages)
        """Memory that messages of all addresses take."""
        self.account.can_spill = scratch is not None
        self.tables: MemoryAccount = MemoryAccount(tables_limit(options.global_max_size_bytes))
        """Memory that addresses, queues, consumers, links and sessions take."""
        self.starved: set[Consumer] = set()
        """Consumers that get nothing until memory is free, or they settle something."""
        self.timers: Timers = Timers(self.meter)
        self.slices: BackgroundWork = BackgroundWork()
        """Work that takes many turns."""
        self.scan: ScanBudget = ScanBudget(0)
        """Messages that may be examined for cursors in the visit that is under way."""
        self.ready: list[Dispatchable] = []
        """Queues that may have something to deliver, since the last turn."""
        self._again: deque[Dispatchable] = deque()
        """Queues that had more than their share of a turn: they take turns."""
        self.stored_batch: int = 0
        """The last batch that is durable; references of later ones are not delivered yet."""
        self._awaiting_store: list[Dispatchable] = []
        """Queues that have consumers for such references."""

    def check_tables(self, what: str, parts: int = TABLES_PARTS) -> None:
        """Raises LimitExceeded if a client may not have one more of `what`, an address or a queue for instance.

        That is so when `parts` of `TABLES_PARTS` of the room are taken: a flood of what is made by the way leaves
        something for the clients that come.
        """
        tables = self.tables
        if tables.max_bytes >= 0 and tables.size_bytes >= tables.max_bytes // TABLES_PARTS * parts:
            raise LimitExceeded(
                f"no room for {what}: addresses, queues, consumers and sessions take {tables.size_bytes} bytes, "
                "as much as they may"
            )

    def await_store(self, queue: Dispatchable, reference: Reference) -> None:
        """Let a queue deliver when this reference of it is durable, and have that hurried."""
        if not queue.awaits_store:
            queue.awaits_store = True
            self._awaiting_store.append(queue)
        self.storage.hurry(reference)

    def storage_failed(self, reason: str) -> None:
        """Nothing becomes durable any more: refuse what asks for it; everything else goes on in memory."""
        self.storage_failure = reason
        self.stores = False
        self.account.close()
        self.stored(UNLIMITED)

    def disk_changed(self, is_full: bool, is_exhausted: bool) -> None:
        """Hold producers back or let them go on, as `disk-full-policy` says; consumers go on in any case.

        `is_exhausted`: so little is left that messages are refused whatever the policy.
        """
        self.account.disk_is_full = is_full
        self.account.disk_is_exhausted = is_exhausted
        self.account.update()

    def stored(self, batch: int) -> bool:
        """Everything up to this batch is durable; True if some queue may have something to deliver now."""
        self.stored_batch = batch
        awaiting, self._awaiting_store = self._awaiting_store, []
        for queue in awaiting:
            queue.awaits_store = False
            queue.mark_ready()
        return len(self.ready) > 0 or self.slices.has_work

    @property
    def free_unsettled_bytes(self) -> int:
        """Bytes that a consumer may surely have and not settle; above that `holds_back` decides."""
        account = self.account
        return 1 if account.size_bytes >= account.overdrawn_bytes else UNSETTLED_BYTES_FULL

    def holds_back(self, unsettled_bytes: int) -> bool:
        """Whether a consumer that has so much and did not settle it gets nothing more for now."""
        account = self.account
        if account.size_bytes >= account.overdrawn_bytes:
            return unsettled_bytes > 0
        if account.size_bytes >= account.full_bytes:
            return unsettled_bytes >= UNSETTLED_BYTES_FULL
        return account.is_tight and unsettled_bytes >= UNSETTLED_BYTES_TIGHT

    def starve(self, consumer: "Consumer") -> None:
        """Give a consumer nothing until memory is free, or it settles something."""
        consumer.is_starved = True
        self.starved.add(consumer)

    def next_deadline_ms(self) -> int | None:
        """When `handle_deadlines` is due next."""
        return self.timers.next_ms()

    def handle_deadlines(self) -> None:
        """Do what was planned for a moment up to `now_ms`."""
        self.timers.run(self.now_ms)

    def run(self, budget: int = 1000) -> bool:
        """Let every ready queue deliver, at most `budget` messages in all, then do a slice of long work.

        True if some queue had to stop early, or there is more work.
        """
        self._dispatch(budget)
        if self.slices.has_work:
            self.slices.run()
        return len(self.ready) > 0 or len(self._again) > 0 or self.slices.has_work

    def _dispatch(self, budget: int) -> None:
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
        share = max(budget // count, LEAST_DELIVERIES)
        # A queue with little to deliver does not wait until those with much had their turns; nor do they for ever.
        kept = budget >> 1 if again else 0
        index = 0
        try:
            while index < len(fresh) and budget > kept:
                queue = fresh[index]
                index += 1
                if queue.is_greedy:
                    again.append(queue)
                else:
                    budget -= max(self._serve(queue, min(share, budget - kept)), VISIT)
            count = len(again)
            while count > 0 and budget > 0:
                queue = again.popleft()
                budget -= max(self._serve(queue, min(max(budget // count, LEAST_OF_MANY), budget)), VISIT_OF_MANY)
                count -= 1
        finally:
            # A queue that did not get its turn goes first in the next one, even if a sink failed.
            if index < len(fresh):
                self.ready = fresh[index:] + self.ready

    def _serve(self, queue: Dispatchable, share: int) -> int:
        """Let a queue deliver; how many it did."""
        queue.is_ready = False
        delivered = queue.deliver(share)
        queue.is_greedy = delivered >= min(share, MANY)
        return delivered
