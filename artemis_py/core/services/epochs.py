"""Decided epochs: the last one of each writer, and its stages that are still to be routed.

The decision is one record, and the commit point: writer, epoch, and the stages that make it up. From then on the epoch
is committed, whatever happens. Its messages move from their stages to the queues in slices, each in one turn of the
loop, so after any crash a message is in its stage or in the queues, and never in both. The next start continues where
the last run ended. If an epoch takes more than one slice, readers see it appear in parts, in the order of its attempts.

If every message of a stage goes to one queue, which need not examine them, the queue inherits what the stage has in the
store, however many they are, in the same commit as the decision. A few messages are moved there instead, in ranges, so
that no queue consists of many small parts; a slice is then as many as one commit of the store should move. Otherwise,
and for stages that an earlier run left, each message is routed by itself.

Each writer has one request served at a time, in the order of arrival. So an epoch waits for those before it, and a
client that asks again for one that is being routed gets its answer when that is done.

Nothing can refuse a message after the decision: permissions and addresses were checked before. If its address is
deleted in the meantime the message is discarded, as it would have been with the address, and the log says so. An
address whose policy is BLOCK takes the epoch as its consumers make room.
"""

import json
from collections import deque
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Final

from artemis_py.core.addresses.address import Address
from artemis_py.core.messages.message import DEFAULT_PRIORITY, Message
from artemis_py.core.queues.arrival import Arrival
from artemis_py.core.queues.queue import Queue
from artemis_py.core.queues.reference import GONE, PRIORITIES, unhold
from artemis_py.core.routing.discards import DiscardCause
from artemis_py.core.routing.domain import Domain
from artemis_py.core.runtime.background import Steps
from artemis_py.core.settings.address_settings import FullPolicy
from artemis_py.errors import LimitExceeded, StoreError

if TYPE_CHECKING:
    from artemis_py.core.services.staging import Stage

EPOCHS: Final = "epochs"
COMMITS: Final = "commits"
"""Spaces of the store's records, by user and writer: the last epoch, and its stages that are to be routed."""

SLICE_MESSAGES: Final = 200
"""Messages routed in one turn: some 3 ms."""
STAGE_COST: Final = 10
"""Cost of the end of a stage, in messages of a slice: its queue is deleted."""

INHERITED_MESSAGES: Final = 1000
"""Messages from which on a stage is inherited. Moving so many takes some 3 ms; a queue with a million messages consists
of a thousand parts at most."""

RANGE_MESSAGES: Final = 20_000
RANGE_UNIT_BYTES: Final = 1600
"""Messages that one commit of the store moves, in some 60 ms, for which others wait; one of twice these bytes counts as
two, and so on."""

UNSTORED_MESSAGES: Final = 5000
UNSTORED_BYTES: Final = 16 << 20
"""Messages, and their bytes, that are routed before the store must have written them: until then they are in memory."""

STAGE_RANK: Final = PRIORITIES - 1 - DEFAULT_PRIORITY
"""Rank of the references in a stage; an internal queue has one priority."""

MAX_WAITING: Final = 100
"""Waiting requests of one writer. A job usually has one, and may have given up on some."""

DUE: Final = "_AMQ_STAGED_DELIVERY_TIME"
EXPIRES: Final = "_AMQ_STAGED_EXPIRY"
"""Properties of a staged message for its delivery time and expiry, which apply from the commit on."""

WriterKey = tuple[str, str]


class Epochs:
    """The decided epochs of all writers of a broker."""

    def __init__(self, domain: Domain, on_routed: Callable[["Stage"], None]) -> None:
        """Create an empty table; `on_routed` is called for each stage in the turn in which its last message left it."""
        self._domain: Final = domain
        self._on_routed: Final = on_routed
        self.slice_messages: int = SLICE_MESSAGES
        self.unstored_messages: int = UNSTORED_MESSAGES
        self.range_messages: int = RANGE_MESSAGES
        self.inherited_messages: int = INHERITED_MESSAGES
        self._moved: int = 0
        """Messages that were moved in ranges, and that the store may not have written yet."""
        self._arrival: Arrival | None = None
        """The last range of them."""
        self._last: Final[dict[WriterKey, int]] = {}
        self._undone: Final[dict[WriterKey, deque[Stage]]] = {}
        """Stages of decided epochs that are still to be routed."""
        self._served: Final[dict[WriterKey, deque[Callable[[], None]]]] = {}
        """Writers with a request in progress, and callbacks that continue the waiting ones."""

    def __len__(self) -> int:
        """Return the number of writers in the table."""
        return len(self._last)

    def __contains__(self, key: WriterKey) -> bool:
        return key in self._last

    def last(self, key: WriterKey) -> int:
        """Return the epoch that was decided last; -1 if none was."""
        return self._last.get(key, -1)

    # -- restart ------------------------------------------------------------------------------------------------

    def restore(self) -> dict[WriterKey, list[str]]:
        """Load what an earlier run left; return the names of the stages that are still to be routed, by writer."""
        records = self._domain.records
        for key, value in records.load_records(EPOCHS):
            self._last[_read_key(key)] = int(value)
        return {_read_key(key): json.loads(value) for key, value in records.load_records(COMMITS)}

    def resume(self, key: WriterKey, stages: Iterable["Stage"]) -> None:
        """Continue, from the next turn on, to route what an earlier run decided."""
        self._undone[key] = deque(stages)
        self._served[key] = deque()
        self._domain.dispatcher.slices.start(self._resume(key))

    def _resume(self, key: WriterKey) -> Steps:
        try:
            # Addresses and queues of the configuration are created first.
            yield None
            yield from self.route(key)
        finally:
            self.end_turn(key)
        return None

    # -- one after the other ---------------------------------------------------------------------------------

    def await_turn(self, key: WriterKey) -> Steps:
        """Wait until no other request of this writer is in progress; `end_turn` must follow. Raises LimitExceeded."""
        waiting = self._served.get(key)
        if waiting is None:
            self._served[key] = deque()
        elif len(waiting) >= MAX_WAITING:
            raise LimitExceeded(f"{MAX_WAITING} requests of writer '{key[1]}' are waiting already")
        else:
            yield _when_served(waiting)
        return None

    def end_turn(self, key: WriterKey) -> None:
        """End this request of the writer and continue the next one."""
        if self._served[key]:
            self._served[key].popleft()()
        else:
            del self._served[key]

    # -- committing ------------------------------------------------------------------------------------------

    def decide(self, key: WriterKey, epoch: int, stages: list["Stage"]) -> None:
        """Commit an epoch; it is durable with the store's batch of this turn. `route` must follow."""
        records = self._domain.records
        self._last[key] = epoch
        records.save_record(EPOCHS, record_key(key), str(epoch).encode())
        self._undone[key] = deque(stages)
        records.save_record(COMMITS, record_key(key), json.dumps([stage.queue.name for stage in stages]).encode())

    def route(self, key: WriterKey) -> Steps:
        """Route what was decided and is not routed yet. Raises StoreError; the rest is then routed another time."""
        undone = self._undone.get(key)
        if undone is None:
            return None
        domain = self._domain
        left = self.slice_messages
        unstored = unstored_bytes = 0
        while undone:
            if domain.dispatcher.storage_failure is not None:
                raise StoreError(f"decisions can no longer be stored: {domain.dispatcher.storage_failure}")
            stage = undone[0]
            yield from self._move_ranges(stage)
            while stage.queue.waiting_count > 0 and left > 0:
                address = domain.addresses.get(stage.address)
                if address is not None and _is_blocked(address):
                    yield _when_room(address)
                    continue
                moved, moved_bytes = self._move(stage, address, left)
                if moved == 0 and stage.queue.waiting_count > 0:
                    raise StoreError(f"what attempt '{stage.attempt}' of epoch {stage.epoch} staged cannot be read")
                left -= moved
                unstored += moved
                unstored_bytes += moved_bytes
            if stage.queue.waiting_count == 0:
                undone.popleft()
                self._on_routed(stage)
                left -= STAGE_COST
            if left <= 0 and undone:
                left = self.slice_messages
                if unstored >= self.unstored_messages or unstored_bytes >= UNSTORED_BYTES:
                    unstored = unstored_bytes = 0
                    yield domain.storage.when_durable
                else:
                    yield None
        del self._undone[key]
        domain.records.save_record(COMMITS, record_key(key), None)
        arrival = self._arrival
        if arrival is not None:
            # It may be durable, in a log, before it can be read.
            yield arrival.when_arrived
            if self._arrival is arrival:
                self._arrival = None
                self._moved = 0
        return None

    def _move_ranges(self, stage: "Stage") -> Steps:
        """Have the store move what it can of a stage; what is left has to be routed. Raises StoreError."""
        while True:
            target = self._target_of(stage)
            if target is None:
                return None
            if stage.moved == 0 and stage.queue.waiting_count >= self.inherited_messages:
                self._inherit(stage, target)
            elif self._moved < self.range_messages or self._arrival is None:
                self._move_range(stage, target)
            else:
                # Anything may have changed after that.
                yield self._arrival.when_arrived
                self._moved = 0

    def _target_of(self, stage: "Stage") -> Queue | None:
        """Return the queue to which the store can move what is left of a stage; None if there is none."""
        queue = stage.queue
        count = queue.waiting_count
        if not stage.is_uniform or count == 0 or stage.moved + count != queue.next_sequence - 1:
            return None
        address = self._domain.addresses.get(stage.address)
        return None if address is None else self._domain.sole_queue(address, stage.routing_type)

    def _inherit(self, stage: "Stage", target: Queue) -> None:
        """Let a queue have all messages of a stage, where the store has them."""
        count, size_bytes = stage.queue.backlog.give_up(DEFAULT_PRIORITY, stage.queue.waiting_count)
        self._arrival = target.expect(stage.priority, count, size_bytes)
        target.address.routed += count
        self._domain.storage.inherit(stage.queue, STAGE_RANK, self._arrival)
        stage.moved = count

    def _move_range(self, stage: "Stage", target: Queue) -> None:
        """Have the store move the next messages of a stage, as many as there is room for."""
        backlog = stage.queue.backlog
        units = 1 + backlog.size_bytes // backlog.count // RANGE_UNIT_BYTES
        count, size_bytes = backlog.give_up(DEFAULT_PRIORITY, max(1, (self.range_messages - self._moved) // units))
        self._moved += count * units
        arrival = target.expect(stage.priority, count, size_bytes)
        target.address.routed += count
        self._domain.storage.move(stage.queue, STAGE_RANK, stage.moved, arrival)
        self._arrival = arrival
        stage.moved += count

    def _move(self, stage: "Stage", address: Address | None, limit: int) -> tuple[int, int]:
        """Route the next messages of a stage, fewer than `limit` if the address is full; return number and size."""
        queue = stage.queue
        moved = moved_bytes = 0
        stored = stored_bytes = first = last = 0
        while moved < limit and (address is None or not _is_blocked(address)):
            reference = queue.backlog.head()
            if reference is None:
                break
            queue.backlog.unlink(reference)
            message = reference.message
            if address is not None:
                sent = _as_sent(message)
                if sent is message:
                    self._domain.release_stored(reference, address)
                else:
                    self._domain.release(sent, address)
            reference.state = GONE
            unhold(message)
            if reference.handle:
                first = first or reference.sequence
                last = reference.sequence
                stored += 1
                stored_bytes += message.size
            moved += 1
            moved_bytes += message.size
        if stored:
            # Nothing else leaves a stage, so what was moved is a range, and one entry in the store removes it.
            self._domain.storage.drop(queue, STAGE_RANK, first - 1, last, frozenset(), stored, stored_bytes)
        if address is None and moved:
            reason = f"the address was deleted while epoch {stage.epoch} of writer '{stage.writer}' was routed"
            self._domain.discards.add(stage.address, DiscardCause.STAGE, reason, moved)
        return moved, moved_bytes


def record_key(key: WriterKey) -> bytes:
    """Return the key of a writer's records."""
    return "\0".join(key).encode()


def _read_key(key: bytes) -> WriterKey:
    user, _, writer = key.decode().partition("\0")
    return user, writer


def _is_blocked(address: Address) -> bool:
    """Tell whether only consumers can make room. The broker-wide limit is ignored: it counts staged messages too."""
    return address.settings.address_full_policy is FullPolicy.BLOCK and address.account.is_over_limit


def _when_served(waiting: deque[Callable[[], None]]) -> Callable[[Callable[[], None], Callable[[str], None]], None]:
    return lambda resume, failed: waiting.append(resume)


def _when_room(address: Address) -> Callable[[Callable[[], None], Callable[[str], None]], None]:
    return lambda resume, failed: address.account.when_room(resume)


def _as_sent(message: Message) -> Message:
    """Return a staged message with the delivery time and expiry that its producer gave it."""
    extra = message.extra
    if extra is None or not (DUE in extra or EXPIRES in extra):
        return message
    # The store may be about to write the staged message, so that must not change.
    sent = message.copy(message.address)
    sent.id = message.id
    sent.routing_type = message.routing_type
    sent.extra = {name: value for name, value in extra.items() if name not in (DUE, EXPIRES)} or None
    sent.delivery_time_ms = _number(extra.get(DUE))
    sent.expires_ms = _number(extra.get(EXPIRES))
    return sent


def _number(value: object) -> int:
    return value if isinstance(value, int) else 0
