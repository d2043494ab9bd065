"""The durable store: what the core puts, removes and defines gathers here, and is read here again.

`group_commit` has a thread commit what has gathered, and says in which states a store can be.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

import lmdb

from artemis_py.core.addresses.address import Address
from artemis_py.core.messages.large_body import LargeBody
from artemis_py.core.messages.message import MessageFormat
from artemis_py.core.queues.arrival import Arrival
from artemis_py.core.queues.page import SCHEDULED_RANK, Page, PageRequest, Place
from artemis_py.core.queues.queue import Queue
from artemis_py.core.queues.reference import PRIORITIES, Reference
from artemis_py.core.queues.storage import RESERVED_SEQUENCES, UNLIMITED, check_record_key, space_of
from artemis_py.errors import DamagedValue
from artemis_py.logs import named_logger
from artemis_py.store import last_values, schema
from artemis_py.store.definitions import address_record, queue_record
from artemis_py.store.environment import INITIAL_MAP_BYTES, Environment
from artemis_py.store.group_commit import GroupCommit
from artemis_py.store.large import LargeFiles
from artemis_py.store.log_start import LogSettings
from artemis_py.store.moves import Move
from artemis_py.store.skipped import skipped_key

LOGGER: Final = named_logger(__name__)

LARGE_MESSAGES_NAME: Final = "large-messages"


class LmdbStore(GroupCommit):
    """A durable store in an LMDB environment; fulfils `Storage`."""

    is_durable = True

    def __init__(
        self,
        folder: Path,
        map_bytes: int = INITIAL_MAP_BYTES,
        large_messages_folder: Path | None = None,
        answers_wait: bool = True,
        log: LogSettings | None = None,
    ) -> None:
        """See `GroupCommit`. Large messages are below `folder` unless another folder is named for them."""
        files = LargeFiles(large_messages_folder or folder / LARGE_MESSAGES_NAME)
        super().__init__(folder, files, map_bytes, answers_wait, log)
        self._formats: Mapping[str, MessageFormat] = {}
        self._address_ids: dict[tuple[int, str], int] = {}
        """Ids of stored addresses, by virtual host and name."""
        self._next_address_id = 1
        self._dropped_scheduled: dict[int, int] = {}
        """Running numbers by queue id; scheduled references up to this one are deleted, or will be."""
        self._highest_queue_id = 0
        self.definitions = 0
        """See `Storage`."""

    # -- what recovery reads ---------------------------------------------------------------------------------

    def open(self, formats: Mapping[str, MessageFormat]) -> Environment:
        """Open the environment and lock its folders; `formats` by name. Raises StoreError."""
        self._formats = formats
        return self._open()

    def know_address(self, host: int, name: str, id: int) -> None:
        """Note that an address of a virtual host is stored under this id."""
        self._address_ids[host, name] = id
        self._next_address_id = max(self._next_address_id, id + 1)

    # -- messages --------------------------------------------------------------------------------------------

    def put_stored(self, reference: Reference, source: Reference) -> None:
        """Gather a reference whose message is stored under another one; see `Storage`."""
        self.put(reference)
        if self.failure is None:
            self._gathering.note_source(reference, source)

    def move(self, source: Queue, rank: int, after: int, arrival: Arrival) -> None:
        """Gather the move of a range; see `Storage`."""
        if self.failure is not None:
            arrival.fail(self.failure)
        else:
            self._gathering.moves.append(Move(source.id, rank, after, arrival))
            if not self._is_planned:
                self._plan()

    def inherit(self, source: Queue, rank: int, arrival: Arrival) -> None:
        """Gather the inheritance of a whole queue; see `Storage`."""
        if self.failure is not None:
            arrival.fail(self.failure)
        else:
            self._gathering.moves.append(Move(source.id, rank, 0, arrival, inherits=True))
            if not self._is_planned:
                self._plan()

    def create_large(self, durable: bool) -> LargeBody:
        """Create a file for a large body; see `Storage`."""
        return self.files.create(durable)

    def find_last(self, queue: Queue, key: bytes) -> Place | None:
        """Look a last-value key up on the loop, in some 5 us; see `Storage`."""
        environment = self._environment
        if environment is None:
            return None
        full_key = last_values.entry_key(queue.id, key)
        try:
            found = environment.find_last(full_key)
        except lmdb.Error as error:
            LOGGER.error("last values cannot be read: queue=%s reason=%s", queue.name, error)
            return None
        if environment.is_due_to_unmap and self._may_unmap:
            environment.unmap()
        if found is not None and found.damage:
            self._set_aside(queue, schema.LAST_VALUES, full_key, found.value, found.damage)
        if found is None or not found.handle:
            return None
        return Place(schema.rank_in(found.handle), schema.number_in(found.handle), found.size_bytes)

    def remove_at(self, queue: Queue, place: Place, key: bytes) -> None:
        """Gather the removal of a reference that was not read; see `Storage`."""
        if self.failure is None:
            handle = schema.handle_of(PRIORITIES - 1 - place.rank, place.sequence)
            self._gathering.remove_unread(queue.id, handle, place.size_bytes, key)
            if not self._is_planned:
                self._plan()

    def is_written(self, reference: Reference) -> bool:
        """Tell whether the reference is in no batch that is still to be committed; see `Storage`."""
        in_flight = self._in_flight
        if self._gathering.puts.has(reference) or (in_flight is not None and in_flight.puts.has(reference)):
            return False
        return self._folding is None or not self._folding.has(reference)

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
        if environment.is_due_to_unmap and self._may_unmap:
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
        id = self._address_ids.get((address.host, address.name))
        if id is None:
            id = self._address_ids[address.host, address.name] = self._next_address_id
            self._next_address_id += 1
        key = schema.U32.pack(id)
        self.definitions += 1
        self._define(schema.ADDRESSES, key, schema.seal(key, address_record(address)))

    def forget_address(self, address: Address) -> None:
        """Gather the end of an address; see `Storage`."""
        id = self._address_ids.pop((address.host, address.name), None)
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
            self._define(schema.RECORDS, skipped_key(queue.name, queue.address.host), None)
        if self.failure is None:
            self._gathering.drops.append(schema.Drop(queue.id, schema.ALL_RANKS))

    def save_duplicate(self, address: Address, number: int, id: bytes) -> None:
        """Gather a duplicate id; see `Storage`."""
        address_id = self._address_ids.get((address.host, address.name))
        if address_id is not None:
            key = schema.duplicate_key(address_id, number)
            self._define(schema.DUPLICATES, key, schema.seal(key, id))

    def forget_duplicate(self, address: Address, number: int) -> None:
        """Gather the end of a duplicate id; see `Storage`."""
        address_id = self._address_ids.get((address.host, address.name))
        if address_id is not None:
            self._define(schema.DUPLICATES, schema.duplicate_key(address_id, number), None)

    def load_duplicates(self, address: Address) -> list[tuple[int, bytes]]:
        """Read the duplicate ids of an address on the loop, once: 20,000 ids take some 20 ms. See `Storage`."""
        address_id = self._address_ids.get((address.host, address.name))
        if address_id is None or self._environment is None or self.failure is not None:
            return []
        found: list[tuple[int, bytes]] = []
        try:
            for key, value in self._environment.read_all(schema.DUPLICATES, schema.U32.pack(address_id)):
                try:
                    found.append((schema.duplicate_number(key), schema.unseal(key, value)))
                except DamagedValue as error:
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
                except DamagedValue as error:
                    LOGGER.error("damaged record passed over: space=%s key=%s reason=%s", space, key.hex(), error)
        except lmdb.Error as error:
            LOGGER.error("records cannot be read: space=%s reason=%s", space, error)
        return found

    def forget_spaces(self, host: int, after: bytes, limit: int) -> bytes | None:
        """Gather the end of records of a virtual host; see `Storage`."""
        if self._environment is None or self.failure is not None:
            return None
        prefix = space_of(host, "").encode()
        try:
            keys = self._environment.keys_after(schema.RECORDS, prefix, after, limit)
            keys = self._with_unfolded(keys, prefix, after, limit)
        except lmdb.Error as error:
            LOGGER.error("records of a virtual host cannot be read: host=%d reason=%s", host, error)
            return None
        for key in keys:
            self._define(schema.RECORDS, key, None)
        return keys[-1] if keys else None

    def _with_unfolded(self, keys: list[bytes], prefix: bytes, after: bytes, limit: int) -> list[bytes]:
        """Add the keys of records that are durable but cannot be read yet."""
        if self._folding is None:
            return keys
        found = set(keys)
        for definitions in self._folding.definitions():
            for database, key in definitions:
                if database == schema.RECORDS and key.startswith(prefix) and key > after:
                    found.add(key)
        return sorted(found)[:limit]

    def mark_hosts(self) -> None:
        """Gather the format of a store with virtual hosts; see `Storage`."""
        version = schema.HOSTS_FORMAT if self._folding is None else schema.HOSTS_FORMAT + schema.LOGGED
        self._define(schema.META, schema.FORMAT_KEY, schema.U32.pack(version))

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
        if self.failure is None and self._run is not None:
            self._gathering.define(database, key, value)
            if not self._is_planned:
                self._plan()
