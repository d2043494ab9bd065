"""Catching up: a new queue gets the history of its address, before any newer message.

A short history is copied in the turn in which the queue is created. A longer one takes several turns:

    ring      ... evicted ... │ still to be copied │ newer, which came after the queue was created ...
                              └ position           └ upto
    queue     history up to `position`
    waiting   messages that came for the queue since then, in their order

What comes for the queue while it is catching up waits in an internal queue of its own, and follows when the history is
complete. The ring evicts nothing that a queue still has to copy. Each step is in one commit of the store: the copies,
the record that says how far the queue is, and what leaves the waiting queue. After a crash the next start continues
with the record, so the queue has each message once.
"""

import json
from collections.abc import Callable
from contextlib import suppress
from struct import Struct
from typing import TYPE_CHECKING, Final

from artemis_py.core.messages.message import Message
from artemis_py.core.names.routing_type import RoutingType
from artemis_py.core.queues.queue import Queue
from artemis_py.core.queues.reference import Reference
from artemis_py.core.queues.rules.guard import Guard
from artemis_py.core.queues.rules.kinds import set_guard
from artemis_py.core.queues.settlement import forget, replace
from artemis_py.core.routing.domain import Domain
from artemis_py.core.runtime.background import Steps, Wait
from artemis_py.core.services.history import HistoryReader, as_sent
from artemis_py.core.settings.queue_config import QueueConfig
from artemis_py.errors import StoreError

if TYPE_CHECKING:
    from artemis_py.core.services.retroactive import Retroactive

SPACE: Final = "retroactive"
"""Space of the store's records of queues that are catching up, by id of the queue."""

AT_ONCE: Final = 1000
"""Longest history that is copied in the turn that creates the queue: some 5 ms."""

SLICE: Final = 500
"""Messages of a longer history that are copied in one turn."""

SLICE_BYTES: Final = 1 << 20
"""The same in bytes, approximately."""

AT_A_TIME: Final = 100
"""Messages that are read at a time, so that the limit of bytes is not exceeded by much."""

PER_ARRIVAL: Final = 2
"""Messages that are copied for each one that comes: a queue catches up, however fast its producers are."""

UNSTORED_MESSAGES: Final = 10_000
"""After so many messages the copying waits for a commit, because they are in memory until then."""

RETRY_MS: Final = 1000
"""Time before the next attempt if the disk cannot be read."""

_KEY: Final = Struct(">I")


class Pins(Guard):
    """Keeps a ring from evicting what queues still have to copy; the ring is longer than its size for that time."""

    def __init__(self) -> None:
        super().__init__()
        self._readers: Final[list[HistoryReader]] = []
        self._lowest = 0
        """A sequence that no reader is behind."""

    def add(self, reader: HistoryReader) -> None:
        """Keep what this reader has not read yet."""
        self._readers.append(reader)
        self._lowest = min([each.position for each in self._readers])

    def remove(self, reader: HistoryReader) -> bool:
        """Undo `add`; tell whether there are other readers."""
        self._readers.remove(reader)
        return bool(self._readers)

    def may_go(self, reference: Reference) -> bool:
        """Tell whether all readers have read this message."""
        if reference.sequence > self._lowest:
            self._lowest = min([each.position for each in self._readers], default=reference.sequence)
        return reference.sequence <= self._lowest

    def admit(self, queue: Queue, reference: Reference) -> bool:
        """Let the message in, and evict the oldest ones as far as they were read."""
        for _ in range(PER_ARRIVAL):
            oldest = queue.backlog.oldest() if queue.waiting_count >= queue.settings.ring_size else None
            if oldest is None or not self.may_go(oldest):
                break
            replace(oldest)
        return True


class CatchUp(Guard):
    """The entry rule of a queue that is catching up."""

    def __init__(self, service: "Retroactive", queue: Queue, reader: HistoryReader, excess: int) -> None:
        super().__init__()
        self.queue: Final = queue
        self.reader: Final = reader
        self.is_over: bool = False
        """Whether the queue has everything, or was deleted."""
        self.waiting: Queue | None = None
        """Queue of what came in the meantime; made when the first message comes."""
        self._service: Final = service
        self._domain: Final[Domain] = service.domain
        self._excess: int = excess
        """Messages at the beginning that are no longer part of the history, and are only kept for other readers."""
        self._lost: int = self._gone()
        self._is_copying = False

    # -- what comes -------------------------------------------------------------------------------------------

    def admit(self, queue: Queue, reference: Reference) -> bool:
        """Let in what is copied; other messages wait until the history is complete."""
        if self._is_copying:
            return self.inner is None or self.inner.admit(queue, reference)
        if self.waiting is None:
            self.waiting = self._make_waiting()
        self.waiting.adopt(reference.message)
        # It is neither refused nor replaced.
        queue.messages_replaced -= 1
        self.step(PER_ARRIVAL)
        return False

    def _make_waiting(self) -> Queue:
        queue = self.queue
        waiting = self._domain.create_queue(
            QueueConfig(
                name=self._service.name_of_waiting(queue),
                address=self.reader.ring.address.name,
                routing_type=RoutingType.ANYCAST,
                durable=queue.is_stored,
                internal=True,
                max_consumers=0,
                ring_size=-1,
                auto_delete=False,
                exclusive=False,
                last_value=False,
                non_destructive=False,
                purge_on_no_consumers=False,
            )
        )
        # Its messages expire in their own queue, whose address says where they go then.
        waiting.expiry.is_off = True
        self.waiting = waiting
        self.save()
        return waiting

    def emptied(self, queue: Queue) -> int:
        """Copy nothing more, and remove what waits."""
        count = 0 if self.waiting is None else self.waiting.message_count
        self._service.end(self)
        return count

    # -- what is copied ---------------------------------------------------------------------------------------

    def step(self, limit: int) -> int:
        """Copy the next messages, about `limit`; return how many were looked at, 0 if none can be read now."""
        self._is_copying = True
        try:
            done = self._copy(limit)
            if self.reader.is_done and done < limit:
                done += self._follow(limit - done)
        finally:
            self._is_copying = False
        self._domain.meter.work += done
        if self.reader.is_done and (self.waiting is None or self.waiting.message_count == 0):
            self._service.end(self)
        elif done:
            self.save()
        return done

    def _copy(self, limit: int) -> int:
        """Copy messages of the ring."""
        done = size = 0
        reader = self.reader
        while not reader.is_done and done < limit and size < SLICE_BYTES:
            before = reader.position
            try:
                found = reader.read(min(limit - done, AT_A_TIME))
            except StoreError:
                break
            if not found and reader.position == before:
                break
            for reference in found:
                self._take(reference.message)
                size += reference.message.size
            done += max(len(found), 1)
        return done

    def _take(self, message: Message) -> None:
        if self._excess > 0:
            # What has expired in the ring is not counted among its messages any more.
            lost = self._gone()
            self._excess -= lost - self._lost
            self._lost = lost
            if self._excess > 0:
                self._excess -= 1
                return
        queue = self.queue
        self._note_id(message.id)
        if 0 < message.expires_ms <= self._domain.dispatcher.now_ms:
            return
        if message.origin is None:
            # It was read from the disk, and is nowhere in memory.
            message.origin = self._domain.undeliverable.account_of(message, queue.address)
        sent = as_sent(message, self._domain.dispatcher.now_ms)
        if queue.filter is None or queue.filter.matches(sent):
            queue.take(sent)

    def _note_id(self, id: int) -> None:
        ids = self.queue.history_ids
        self.queue.history_ids = (id, id) if ids is None else (ids[0], id)

    def _gone(self) -> int:
        ring = self.reader.ring
        return ring.messages_expired + ring.messages_killed

    def _follow(self, limit: int) -> int:
        """Move messages that came in the meantime."""
        done = size = 0
        waiting = self.waiting
        while waiting is not None and done < limit and size < SLICE_BYTES:
            reference = waiting.backlog.head()
            if reference is None:
                break
            waiting.backlog.unlink(reference)
            if self.queue.keeps:
                self.queue.adopt(reference.message)
            size += reference.message.size
            forget(reference)
            done += 1
        return done

    def copy_all(self) -> Steps:
        """Copy the rest in slices, the first of them in the next turn."""
        yield None
        storage = self._domain.dispatcher.storage
        unstored = 0
        while not self.is_over:
            wait: Wait | None = None
            done = self.step(SLICE)
            unstored += done
            if done == 0:
                wait = self._pause
            elif unstored >= UNSTORED_MESSAGES and self._domain.dispatcher.storage_failure is None:
                unstored = 0
                wait = storage.when_durable
            if not self.is_over:
                with suppress(StoreError):
                    # Without a store the rest is copied in memory.
                    yield wait
        return None

    def _pause(self, resume: Callable[[], None], failed: Callable[[str], None]) -> None:
        self._domain.dispatcher.after(RETRY_MS, resume)

    # -- what survives a restart --------------------------------------------------------------------------------

    def save(self) -> None:
        """Have the store remember how far the queue is, together with what was copied."""
        if self.queue.is_stored:
            reader = self.reader
            waiting = "" if self.waiting is None else self.waiting.name
            record = [reader.ring.name, reader.position, reader.upto, self._excess, waiting]
            self._domain.records.save_record(SPACE, _KEY.pack(self.queue.id), json.dumps(record).encode())

    def forget(self) -> None:
        """Have the store forget the record."""
        if self.queue.is_stored:
            self._domain.records.save_record(SPACE, _KEY.pack(self.queue.id), None)

    def begin(self) -> None:
        """Put the queue under this rule, and keep the ring from evicting what is still to be copied."""
        if self.waiting is not None:
            self.waiting.expiry.is_off = True
        ring = self.reader.ring
        pins = ring.guard
        if not isinstance(pins, Pins):
            pins = Pins()
            set_guard(ring, pins)
        pins.add(self.reader)
        set_guard(self.queue, self)

    def end(self) -> None:
        """Take the queue from under this rule, and delete what belongs to it."""
        self.is_over = True
        ring = self.reader.ring
        pins = ring.guard
        if isinstance(pins, Pins) and not pins.remove(self.reader):
            set_guard(ring, None)
        set_guard(self.queue, None)
        self.forget()
        if self.waiting is not None and not self.waiting.is_deleted:
            self._domain.delete_queue(self.waiting.name, force=True, reason="its messages have reached their queue")


def read_record(key: bytes, value: bytes) -> tuple[int, str, int, int, int, str]:
    """Return id of the queue, name of the ring, position, last sequence to copy, excess, name of the waiting queue."""
    ring, position, upto, excess, waiting = json.loads(value)
    return int(_KEY.unpack(key)[0]), str(ring), int(position), int(upto), int(excess), str(waiting)
