"""The durable store: gathers the core's changes, and has a thread commit them while the loop continues.

One commit is in flight at a time, and changes that arrive in the meantime gather for the next one: the slower the disk,
the larger the batches. A caller that waits for an answer starts a commit in the same iteration of the loop. A change
that no caller waits for (mostly a settled delivery) starts one a little later, so that it can share a commit, or need
none because a reference that was put is removed again.

A batch is cut in a callback of its own on the loop: between other callbacks, never within one.
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
from artemis_py.store.reserved_numbers import ReservedNumbers

LOGGER: Final = named_logger(__name__)

# Changes that no caller waits for are written after this time: about one commit of a common disk, so that they cost at
# most one commit in two, and a crash repeats no more settled deliveries than one commit in flight does anyway.
UNHURRIED_S: Final = 0.005

LARGE_MESSAGES_NAME: Final = "large-messages"


class Scheduler(Protocol):
    """The part of the event loop that the store uses."""

    def call_soon(self, callback: Callable[[], object], /) -> object:
        """Run `callback` in the next iteration of the loop."""

    def call_later(self, delay: float, callback: Callable[[], object], /) -> object:
        """Run `callback` after `delay` seconds."""


class LmdbStore:
    """A durable store in an LMDB environment; fulfils `Storage`."""

    is_durable = True

    def __init__(
        self,
        folder: Path,
        map_bytes: int = INITIAL_MAP_BYTES,
        large_messages_folder: Path | None = None,
        answers_wait: bool = True,
    ) -> None:
        """Keep the settings; nothing on disk is touched before `open`.

        Large messages are below `folder` unless another folder is named for them. Without `answers_wait`, callers are
        told at once that their messages are durable, which a crash shows to be wrong. Long because it declares all
        state.
        """
        self.folder: Final = folder
        self.files: Final = LargeFiles(large_messages_folder or folder / LARGE_MESSAGES_NAME)
        self.answers_wait: Final = answers_wait
        self.reserved: Final = ReservedNumbers()
        self._map_bytes: Final = map_bytes
        self._environment: Environment | None = None
        self._scheduler: Scheduler | None = None
        self._worker: Worker | None = None
        self._on_failure: Callable[[str], None] | None = None
        self._on_stored: Callable[[int], object] | None = None
        self._gathering = Batch(1)
        self._in_flight: Batch | None = None
        self._has_drops = False
        """Whether drops are unfinished; each commit then continues them."""
        self._is_planned = False
        """Whether a commit is going to start, without another call of `_plan` or `_urge`."""
        self._is_urgent = False
        """Whether it starts in the coming iteration of the loop, or right after the commit in flight."""
        self._address_ids: dict[str, int] = {}
        self._next_address_id = 1
        self._formats: Mapping[str, MessageFormat] = {}
        self._dropped_scheduled: dict[int, int] = {}
        """Running numbers by queue id; scheduled references up to this one are deleted, or will be."""
        self._highest_queue_id = 0
        self.definitions = 0
        """See `Storage`."""
        self.failure: str | None = None
        """Reason why nothing is stored any more; None while the store works."""

    # -- life ------------------------------------------------------------------------------------------------

    def open(self, formats: Mapping[str, MessageFormat]) -> Environment:
        """Open the environment and lock its folders; `formats` by name. Raises StoreError.

        Nothing is stored before `start`.
        """
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
        """Begin to store the core's changes.

        `on_failure` is called with the reason when storing ends, `on_stored` with the number of each durable batch.
        """
        self._scheduler = scheduler
        self._worker = worker
        self.files.worker = worker
        self._on_failure = on_failure
        self._on_stored = on_stored

    def close(self, queues: list[Queue]) -> None:
        """Write the rest, note where the queues' sequences stand, and close. The worker must have ended before.

        Callers that still wait are not answered any more.
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
                    # The worker ended before it began this batch.
                    environment.write(self._in_flight)
                for queue in queues:
                    if queue.is_stored:
                        key = schema.U32.pack(queue.id)
                        batch.definitions[(schema.MARKS, key)] = schema.number_value(key, queue.next_sequence)
                if batch.puts:
                    self.reserved.reserve(batch)
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
        """Note that an address is stored under this id."""
        self._address_ids[name] = id
        self._next_address_id = max(self._next_address_id, id + 1)

    # -- messages --------------------------------------------------------------------------------------------

    @property
    def batch(self) -> int:
        """Number of the batch that gathers now; see `Storage`."""
        return self._gathering.number

    @property
    def committed(self) -> int:
        """Number of the last batch that was committed; see `Storage`."""
        return self._gathering.number - 1 if self._in_flight is None else self._in_flight.number - 1

    def put(self, reference: Reference) -> None:
        """Gather a reference; see `Storage`."""
        if self.failure is not None:
            return
        message = reference.message
        reserved = self.reserved
        sequence = reference.sequence
        if sequence:
            priority = 4 if reference.queue.internal else message.priority
            handle = schema.handle_of(priority, sequence)
        else:
            handle = schema.scheduled_handle(reserved.next_scheduled)
            reserved.next_scheduled += 1
        batch = self._gathering
        reference.handle = batch.put(reference, handle)
        if message.stored_first:
            reference.batch = batch.number
        if message.id > reserved.highest_message_id:
            reserved.highest_message_id = message.id
        if not self._is_planned:
            self._plan()

    def create_large(self, durable: bool) -> LargeBody:
        """Create a file for a large body; see `Storage`."""
        return self.files.create(durable)

    def remove(self, reference: Reference) -> None:
        """Gather a removal; see `Storage`."""
        if self.failure is None:
            self._gathering.remove(reference)
            if not self._is_planned:
                self._plan()

    def is_written(self, reference: Reference) -> bool:
        """Tell whether the reference is in no batch that is still to be committed; see `Storage`."""
        in_flight = self._in_flight
        return reference not in self._gathering.puts and (in_flight is None or reference not in in_flight.puts)

    def drop(
        self, queue: Queue, rank: int, after: int, upto: int, kept: frozenset[int], count: int, size_bytes: int
    ) -> None:
        """Gather the removal of a range; see `Storage`."""
        highest = self.reserved.next_scheduled - 1
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
        """Read a page on the loop, in some 4 us a message; see `Pages`."""
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
        """Gather the end of an address; see `Storage`."""
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
        """Gather the end of a queue; see `Storage`."""
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
        """Gather the end of a duplicate id; see `Storage`."""
        address_id = self._address_ids.get(address.name)
        if address_id is not None:
            self._define(schema.DUPLICATES, schema.duplicate_key(address_id, number), None)

    def load_duplicates(self, address: Address) -> list[tuple[int, bytes]]:
        """Read the duplicate ids of an address on the loop, once: 20,000 ids take some 20 ms. See `Storage`."""
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
        """Read records on the loop, at start; see `Storage`. A damaged record is logged and passed over."""
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
        """Gather a definition; one made before the start comes from the store and need not be stored again."""
        if self.failure is None and self._scheduler is not None:
            self._gathering.definitions[(database, key)] = value
            if not self._is_planned:
                self._plan()

    # -- committing ------------------------------------------------------------------------------------------

    def when_durable(self, callback: Callable[[], None], failed: Callable[[str], None] | None = None) -> None:
        """Run `callback` once everything gathered so far is committed; see `Storage`."""
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
        """Commit what has gathered if this reference is in it; see `Storage`."""
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
        """Have a commit start, without hurry; after the commit in flight the next batch is cut anyway."""
        if self._scheduler is not None:
            self._is_planned = True
            if self._in_flight is None:
                self._scheduler.call_later(UNHURRIED_S, self._commit)

    def _commit(self) -> None:
        """Cut the batch and hand it to the worker, unless a commit is in flight or there is nothing to do."""
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
        self.reserved.reserve(batch)
        self._gathering = Batch(batch.number + 1)
        self._in_flight = batch
        environment = self._environment
        self._worker.submit(lambda: environment.try_write(batch), self._committed)

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
            # What has gathered since then may refer to it again; the next commit then checks it again.
            if id not in self._gathering.bodies:
                self.files.no_longer_stored(id, batch.bodies.get(id))
        self._answer(batch)
        # What has gathered since then is committed now if a caller waits for it, and soon otherwise.
        self._is_planned = False
        if self._is_urgent:
            self._commit()
        elif self._gathering.has_work or self._has_drops:
            self._plan()

    def _answer(self, batch: Batch) -> None:
        for callback, _ in batch.waiting:
            try:
                callback()
            except Exception:  # the edge of a connection: its errors must not stop the store
                LOGGER.exception("an answer could not be given")
        # After the answers, because they may have sent something that is to be delivered now.
        if self._on_stored is not None:
            self._on_stored(batch.number)

    def _fail(self, reason: str, batch: Batch) -> None:
        """Stop storing, and give all callers that wait the reason; nothing is confirmed from now on."""
        self.failure = reason
        LOGGER.error(
            "the store failed, nothing is stored or confirmed until a restart: folder=%s reason=%s",
            self.folder,
            reason,
        )
        waiting = [*batch.waiting, *self._gathering.waiting]
        # The number stays the same: what the batch contained was never committed.
        self._gathering = Batch(batch.number)
        self._in_flight = None
        if self._on_failure is not None:
            self._on_failure(reason)
        for _, failed in waiting:
            if failed is not None:
                failed(reason)
