"""The durable store: gathers what the core says, and has it committed by a thread while the loop goes on.

One commit is in flight at a time, and what comes meanwhile gathers for the next: the slower the disk, the larger the
batches. Somebody who waits for an answer starts a commit in the same iteration of the loop; what nobody waits for
(settled deliveries, mostly) starts one a little later, so that it can share one, or need none because what was put is
removed again.

Batches are cut in calls of their own from the loop, hence between turns and never within one.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final, Protocol

import lmdb

from artemis_py.core.addresses.address import Address
from artemis_py.core.messages.large_body import LargeBody
from artemis_py.core.messages.message import MessageFormat
from artemis_py.core.queues.page import SCHEDULED_RANK, Page, PageRequest
from artemis_py.core.queues.queue import Queue
from artemis_py.core.queues.reference import Reference
from artemis_py.core.queues.storage import RESERVED_SEQUENCES, UNLIMITED, check_record_key
from artemis_py.logs import named_logger
from artemis_py.store import schema
from artemis_py.store.batch import Batch
from artemis_py.store.definitions import address_record, queue_record
from artemis_py.store.environment import FILE_NAME, INITIAL_MAP_BYTES, Environment
from artemis_py.store.failure import reason_of
from artemis_py.store.large import LargeFiles, Worker

LOGGER: Final = named_logger(__name__)

# What nobody waits for is written after this time: about one commit of a common disk, so that it costs at most one
# commit in two, and a crash repeats no more settled deliveries than one commit in flight does anyway.
UNHURRIED_S: Final = 0.005

LARGE_MESSAGES_NAME: Final = "large-messages"

# Message ids are reserved ahead like sequences, see `core.queues.storage`.
RESERVED_MESSAGE_IDS: Final = 65536


class Scheduler(Protocol):
    """What the store needs of the event loop."""

    def call_soon(self, callback: Callable[[], object], /) -> object:
        """Call in the next iteration."""

    def call_later(self, delay: float, callback: Callable[[], object], /) -> object:
        """Call after so many seconds."""


class LmdbStore:
    """Fulfils `Storage` with an LMDB environment in a folder."""

    is_durable = True

    def __init__(
        self,
        folder: Path,
        map_bytes: int = INITIAL_MAP_BYTES,
        large_messages_folder: Path | None = None,
        answers_wait: bool = True,
    ) -> None:
        """Nothing is touched before `open`. Large messages are below the folder unless another one is named.

        Without `answers_wait` everybody is told at once that it is durable, which a crash shows to be wrong.
        """
        self.folder: Final = folder
        self.files: Final = LargeFiles(large_messages_folder or folder / LARGE_MESSAGES_NAME)
        self.answers_wait: Final = answers_wait
        self._map_bytes: Final = map_bytes
        self._environment: Environment | None = None
        self._scheduler: Scheduler | None = None
        self._worker: Worker | None = None
        self._on_failure: Callable[[str], None] | None = None
        self._on_stored: Callable[[int], object] | None = None
        self._gathering = Batch(1)
        self._in_flight: Batch | None = None
        self._has_drops = False
        """What was dropped is not all deleted: each commit goes on with it."""
        self._is_planned = False
        """A commit will start by itself."""
        self._is_urgent = False
        """It will start in the coming iteration of the loop."""
        self._address_ids: dict[str, int] = {}
        self._next_address_id = 1
        self._formats: Mapping[str, MessageFormat] = {}
        self._next_scheduled = 1
        self._reserved_scheduled = 0
        self._dropped_scheduled: dict[int, int] = {}
        """By queue id: scheduled references up to this number are gone, or on their way."""
        self._highest_message_id = 0
        self._reserved_message_id = 0
        self._highest_queue_id = 0
        self.definitions = 0
        """See `Storage`."""
        self.failure: str | None = None
        """Why nothing is stored any more."""

    # -- life ------------------------------------------------------------------------------------------------

    def open(self, formats: Mapping[str, MessageFormat]) -> Environment:
        """Take the folders; `formats` by name. Until `start` nothing is written. Raises StoreError."""
        self._formats = formats
        self._environment = Environment(self.folder, self._map_bytes, self.files.folder)
        return self._environment

    def start(
        self,
        scheduler: Scheduler,
        worker: Worker,
        on_failure: Callable[[str], None],
        on_stored: Callable[[int], object],
    ) -> None:
        """Begin to store what the core says; `on_failure` is told when that ends, `on_stored` of each durable batch."""
        self._scheduler = scheduler
        self._worker = worker
        self.files.worker = worker
        self._on_failure = on_failure
        self._on_stored = on_stored

    def close(self, queues: list[Queue]) -> None:
        """Write the rest, note where the queues' sequences stand, and close. The worker has ended before.

        Who still waits is not told any more.
        """
        environment = self._environment
        if environment is None:
            return
        self._environment = None
        self.files.worker = None
        batch = self._gathering
        self._gathering = Batch()
        try:
            if self.failure is None and self._worker is not None:
                if self._in_flight is not None and not self._in_flight.is_written:
                    # The worker ended before it began.
                    environment.write(self._in_flight)
                for queue in queues:
                    if queue.is_stored:
                        key = schema.U32.pack(queue.id)
                        batch.definitions[(schema.MARKS, key)] = schema.number_value(key, queue.next_sequence)
                if batch.puts:
                    self._reserve_numbers(batch)
                environment.write(batch)
                for id in batch.freed:
                    self.files.no_longer_stored(id, batch.bodies.get(id))
        except (lmdb.Error, OSError) as error:
            reason = reason_of(error, self.folder / FILE_NAME)
            LOGGER.error("the last commit failed: folder=%s reason=%s", self.folder, reason)
        finally:
            self.files.close()
            environment.close()

    # -- what recovery tells ---------------------------------------------------------------------------------

    def know_address(self, name: str, id: int) -> None:
        """An address of this id is stored."""
        self._address_ids[name] = id
        self._next_address_id = max(self._next_address_id, id + 1)

    def know_message_id(self, next_id: int) -> None:
        """Message ids below this one may be taken: the mark only goes up, also if nothing is put in this run."""
        self._highest_message_id = next_id - 1

    def know_scheduled(self, number: int) -> None:
        """Running numbers below this one may be taken."""
        self._next_scheduled = max(self._next_scheduled, number)

    # -- messages --------------------------------------------------------------------------------------------

    @property
    def batch(self) -> int:
        """The batch that gathers; see `Storage`."""
        return self._gathering.number

    @property
    def committed(self) -> int:
        """The last that was committed; see `Storage`."""
        return self._gathering.number - 1 if self._in_flight is None else self._in_flight.number - 1

    def put(self, reference: Reference) -> None:
        """Gather a reference; see `Storage`."""
        if self.failure is not None:
            return
        sequence = reference.sequence
        if sequence:
            priority = 4 if reference.queue.internal else reference.message.priority
            handle = schema.handle_of(priority, sequence)
        else:
            handle = schema.scheduled_handle(self._next_scheduled)
            self._next_scheduled += 1
        reference.handle = self._gathering.put(reference, handle)
        if reference.message.stored_first:
            reference.batch = self._gathering.number
        if reference.message.id > self._highest_message_id:
            self._highest_message_id = reference.message.id
        if not self._is_planned:
            self._plan()

    def create_large(self, durable: bool) -> LargeBody:
        """A file; see `Storage`."""
        return self.files.create(durable)

    def remove(self, reference: Reference) -> None:
        """Gather a removal; see `Storage`."""
        if self.failure is None:
            self._gathering.remove(reference)
            if not self._is_planned:
                self._plan()

    def is_written(self, reference: Reference) -> bool:
        """Whether it is in no batch that is still to be committed; see `Storage`."""
        in_flight = self._in_flight
        return reference not in self._gathering.puts and (in_flight is None or reference not in in_flight.puts)

    def drop(
        self, queue: Queue, rank: int, after: int, upto: int, kept: frozenset[int], count: int, size_bytes: int
    ) -> None:
        """Gather the removal of a range; see `Storage`."""
        highest = self._next_scheduled - 1
        if rank == SCHEDULED_RANK:
            self._dropped_scheduled[queue.id] = highest
        if self.failure is None:
            drop = schema.Drop(queue.id, rank, after, upto, highest, kept)
            drop.count = count
            drop.size_bytes = size_bytes
            self._gathering.drops.append(drop)
            if not self._is_planned:
                self._plan()

    def read(self, queue: Queue, request: PageRequest) -> Page | None:
        """Read on the loop, some 4 us a message; see `Pages`."""
        environment = self._environment
        if environment is None:
            return None
        above = self._dropped_scheduled.get(queue.id, 0)
        try:
            page, damaged = environment.read_page(self._formats, self.files, queue, request, above)
        except lmdb.Error as error:
            LOGGER.error("messages cannot be read: queue=%s reason=%s", queue.name, error)
            return None
        if environment.is_due_to_unmap and self._in_flight is None:
            environment.unmap()
        for database, key, value, reason in damaged:
            self._set_aside(queue, database, key, value, reason)
        return page

    def _set_aside(self, queue: Queue, database: bytes, key: bytes, value: bytes, reason: str) -> None:
        LOGGER.error(
            "damaged value set aside: queue=%s database=%s key=%s reason=%s",
            queue.name,
            database.decode(),
            key.hex(),
            reason,
        )
        if self.failure is None:
            self._gathering.damaged.append((database, key, value))
            if not self._is_planned:
                self._plan()

    def update(self, reference: Reference, due_ms: int) -> None:
        """Gather a failed attempt; see `Storage`."""
        if self.failure is None:
            self._gathering.update(reference, due_ms)
            if not self._is_planned:
                self._plan()

    # -- definitions -----------------------------------------------------------------------------------------

    def save_address(self, address: Address) -> None:
        """Gather an address; see `Storage`."""
        id = self._address_ids.get(address.name)
        if id is None:
            id = self._address_ids[address.name] = self._next_address_id
            self._next_address_id += 1
        key = schema.U32.pack(id)
        self.definitions += 1
        self._define(schema.ADDRESSES, key, schema.seal(key, address_record(address)))

    def forget_address(self, address: Address) -> None:
        """Gather its end; see `Storage`."""
        id = self._address_ids.pop(address.name, None)
        if id is not None:
            self.definitions += 1
            self._define(schema.ADDRESSES, schema.U32.pack(id), None)
            if self.failure is None:
                self._gathering.dropped_addresses.append(id)

    def save_queue(self, queue: Queue) -> None:
        """Gather a queue; see `Storage`."""
        key = schema.U32.pack(queue.id)
        self.definitions += 1
        self._define(schema.QUEUES, key, schema.seal(key, queue_record(queue)))
        if queue.id > self._highest_queue_id:
            self._highest_queue_id = queue.id
            value = schema.number_value(schema.NEXT_QUEUE_ID, queue.id + 1)
            self._define(schema.META, schema.NEXT_QUEUE_ID, value)

    def forget_queue(self, queue: Queue) -> None:
        """Gather its end; see `Storage`."""
        key = schema.U32.pack(queue.id)
        self.definitions += 1
        self._define(schema.QUEUES, key, None)
        self._define(schema.MARKS, key, None)
        if queue.skipped:
            self._define(schema.RECORDS, schema.skipped_key(queue.name), None)
        if self.failure is None:
            self._gathering.drops.append(schema.Drop(queue.id, schema.ALL_RANKS))

    def save_duplicate(self, address: Address, number: int, id: bytes) -> None:
        """Gather a duplicate id; see `Storage`."""
        address_id = self._address_ids.get(address.name)
        if address_id is not None:
            key = schema.duplicate_key(address_id, number)
            self._define(schema.DUPLICATES, key, schema.seal(key, id))

    def forget_duplicate(self, address: Address, number: int) -> None:
        """Gather its end; see `Storage`."""
        address_id = self._address_ids.get(address.name)
        if address_id is not None:
            self._define(schema.DUPLICATES, schema.duplicate_key(address_id, number), None)

    def load_duplicates(self, address: Address) -> list[tuple[int, bytes]]:
        """Read on the loop, once for an address: 20,000 ids take some 20 ms. See `Storage`."""
        address_id = self._address_ids.get(address.name)
        if address_id is None or self._environment is None or self.failure is not None:
            return []
        found: list[tuple[int, bytes]] = []
        try:
            for key, value in self._environment.read_all(schema.DUPLICATES, schema.U32.pack(address_id)):
                try:
                    found.append((schema.duplicate_number(key), schema.unseal(key, value)))
                except schema.DamagedValue as error:
                    LOGGER.error("damaged duplicate id passed over: address=%s reason=%s", address.name, error)
        except lmdb.Error as error:
            LOGGER.error("duplicate ids cannot be read: address=%s reason=%s", address.name, error)
        return found

    def save_record(self, space: str, key: bytes, value: bytes | None) -> None:
        """Gather a record; see `Storage`."""
        check_record_key(space, key)
        full_key = schema.record_key(space, key)
        self._define(schema.RECORDS, full_key, None if value is None else schema.seal(full_key, value))

    def load_records(self, space: str) -> list[tuple[bytes, bytes]]:
        """Read on the loop, at start; see `Storage`. A damaged record is named in the log and passed over."""
        if self._environment is None or self.failure is not None:
            return []
        found: list[tuple[bytes, bytes]] = []
        prefix = schema.record_key(space, b"")
        try:
            for key, value in self._environment.read_all(schema.RECORDS, prefix):
                try:
                    found.append((key[len(prefix) :], schema.unseal(key, value)))
                except schema.DamagedValue as error:
                    LOGGER.error("damaged record passed over: space=%s key=%s reason=%s", space, key.hex(), error)
        except lmdb.Error as error:
            LOGGER.error("records cannot be read: space=%s reason=%s", space, error)
        return found

    def reserve(self, queue: Queue) -> int:
        """Gather a new mark; see `Storage`."""
        if self.failure is not None:
            return UNLIMITED
        mark = queue.next_sequence + RESERVED_SEQUENCES
        key = schema.U32.pack(queue.id)
        self._define(schema.MARKS, key, schema.number_value(key, mark))
        return mark - RESERVED_SEQUENCES // 2

    def _define(self, database: bytes, key: bytes, value: bytes | None) -> None:
        """Definitions that are made before the start come from the store."""
        if self.failure is None and self._scheduler is not None:
            self._gathering.definitions[(database, key)] = value
            if not self._is_planned:
                self._plan()

    # -- committing ------------------------------------------------------------------------------------------

    def when_durable(self, callback: Callable[[], None], failed: Callable[[str], None] | None = None) -> None:
        """Run `callback` after the commit of what was gathered; see `Storage`."""
        if self.failure is not None:
            if failed is not None:
                failed(self.failure)
            return
        batch = self._gathering
        if not self.answers_wait or (self._in_flight is None and not batch.has_work and not batch.waiting):
            callback()
            return
        batch.waiting.append((callback, failed))
        self._urge()

    def hurry(self, reference: Reference) -> None:
        """Commit what gathers if this is in it; see `Storage`."""
        if reference.batch == self._gathering.number:
            self._urge()

    def _urge(self) -> None:
        """Have the commit start in the coming iteration of the loop, or right after the one in flight."""
        if not self._is_urgent:
            self._is_urgent = True
            self._is_planned = True
            if self._scheduler is not None and self._in_flight is None:
                self._scheduler.call_soon(self._commit)

    def _plan(self) -> None:
        """See that a commit comes, without hurry; after the one in flight the next is cut anyway."""
        if self._scheduler is not None:
            self._is_planned = True
            if self._in_flight is None:
                self._scheduler.call_later(UNHURRIED_S, self._commit)

    def _commit(self) -> None:
        """Cut the batch and hand it to the worker, unless there is one under way or nothing to do."""
        if self._in_flight is not None or self.failure is not None:
            return
        batch = self._gathering
        self._is_planned = False
        self._is_urgent = False
        if not batch.has_work and not self._has_drops:
            if batch.waiting:
                self._gathering = Batch(batch.number + 1)
                self._answer(batch)
            return
        if self._environment is None or self._worker is None:
            return
        self._reserve_numbers(batch)
        self._gathering = Batch(batch.number + 1)
        self._in_flight = batch
        environment = self._environment
        self._worker.submit(lambda: environment.try_write(batch), self._committed)

    def _reserve_numbers(self, batch: Batch) -> None:
        """Never give an id again: a shared message is stored under its own. Nor a scheduled reference's number."""
        if self._highest_message_id + RESERVED_MESSAGE_IDS // 2 > self._reserved_message_id:
            self._reserved_message_id = self._highest_message_id + RESERVED_MESSAGE_IDS
            mark = schema.number_value(schema.NEXT_MESSAGE_ID, self._reserved_message_id)
            batch.definitions[(schema.META, schema.NEXT_MESSAGE_ID)] = mark
        if self._next_scheduled > self._reserved_scheduled:
            self._reserved_scheduled = self._next_scheduled + RESERVED_MESSAGE_IDS
            mark = schema.number_value(schema.NEXT_SCHEDULED, self._reserved_scheduled)
            batch.definitions[(schema.META, schema.NEXT_SCHEDULED)] = mark

    def _committed(self, failure: str | None) -> None:
        batch = self._in_flight
        assert batch is not None
        self._in_flight = None
        if failure is not None:
            self._fail(failure, batch)
            return
        self._has_drops = batch.has_more
        batch.release()
        for id in batch.freed:
            # What gathered since may refer to it again, and its commit looks anew.
            if id not in self._gathering.bodies:
                self.files.no_longer_stored(id, batch.bodies.get(id))
        self._answer(batch)
        # What gathered meanwhile goes out now if anybody waits for it, and soon otherwise.
        self._is_planned = False
        if self._is_urgent:
            self._commit()
        elif self._gathering.has_work or self._has_drops:
            self._plan()

    def _answer(self, batch: Batch) -> None:
        for callback, _ in batch.waiting:
            try:
                callback()
            except Exception:  # the edge of a connection: what it does wrong may not stop the store
                LOGGER.exception("an answer could not be given")
        # Behind the answers, for these may have sent something that is to be delivered now.
        if self._on_stored is not None:
            self._on_stored(batch.number)

    def _fail(self, reason: str, batch: Batch) -> None:
        """Confirm nothing from now on."""
        self.failure = reason
        LOGGER.error(
            "the store failed, nothing is stored or confirmed until a restart: folder=%s reason=%s",
            self.folder,
            reason,
        )
        waiting = [*batch.waiting, *self._gathering.waiting]
        # Its number stays: what it held was never committed.
        self._gathering = Batch(batch.number)
        self._in_flight = None
        if self._on_failure is not None:
            self._on_failure(reason)
        for _, failed in waiting:
            if failed is not None:
                failed(reason)
