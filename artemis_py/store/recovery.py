"""Recovery: brings what a start finds in the store back into the domain.

There is nothing to repair: LMDB shows the last commit. Only the named cases below are left to decide.

    case                                       why it can happen                  decision
    the checksum of a value is wrong           the medium, or another program     moved to `damaged`, named in the log
    the value of a count is damaged            the same                           its references are counted again
    a number that only goes up is damaged      the same                           it continues far above those in use
    batches of the log were lost               the same                           all numbers continue far above
    a file that no large message needs         it was not complete, not durable,  deleted, counted in the log
                                               or not deleted yet
    references of a queue that is missing      the queue's value was damaged      a queue of their own, on an address
                                                                                  of the same name, named in the log
    references that were to be deleted         the broker ended before            deleted
    a queue of a virtual host without record   the record was damaged             a stopped host, named by its number
    a queue whose address is missing           the address's value was damaged    the address is made for the queue's
                                                                                  routing type, named in the log

Messages are not read here, except those that prepared transaction branches have claimed (`restore_branches`): otherwise
the cost of a start depends on the number of addresses and queues only. A damaged message is found when it is read: one
with a wrong checksum, or whose shared part is missing, is moved to `damaged` then, and one of a protocol that is not
installed waits in its queue.
"""

import logging
from collections.abc import Iterator, Mapping
from typing import Final

import lmdb
from attrs import define

from artemis_py.core.messages.message import MESSAGE_OVERHEAD_BYTES, MessageFormat
from artemis_py.core.names.routing_type import RoutingType
from artemis_py.core.queues.page import SCHEDULED_RANK
from artemis_py.core.queues.queue import Queue
from artemis_py.core.queues.storage import RESERVED_SEQUENCES
from artemis_py.core.routing.domain import Domain
from artemis_py.core.services.branches import Branches
from artemis_py.core.services.job_queue import SCHEDULED
from artemis_py.core.services.jobs import Jobs
from artemis_py.core.services.prepared_messages import PREPARED
from artemis_py.core.services.retained import RetainedMessages
from artemis_py.core.services.virtual_hosts import VirtualHosts
from artemis_py.errors import DamagedValue, Refusal, StoreError
from artemis_py.logs import named_logger
from artemis_py.store import schema
from artemis_py.store.definitions import (
    read_address,
    read_queue,
    recovered_address,
    recovered_name,
    recovered_queue,
)
from artemis_py.store.environment import FILE_NAME, Environment
from artemis_py.store.failure import reason_of
from artemis_py.store.format import mark
from artemis_py.store.inherited import PREFIX, read_record, record_of
from artemis_py.store.lmdb import LmdbStore
from artemis_py.store.numbers import FAR, Numbers
from artemis_py.store.skipped import read_ranges, skipped_key, write_ranges

LOGGER: Final = named_logger(__name__)

MAX_SKIPPED: Final = 100
"""Most ranges of skipped numbers kept for a queue: more crashes than a reader will sleep through."""


@define
class Recovered:
    """Numbers of what came back, for the log."""

    addresses: int = 0
    queues: int = 0
    references: int = 0
    damaged: int = 0
    lost_queues: int = 0
    """Queues whose definition was lost, and whose messages are now in a queue of another name."""
    orphans: int = 0
    """Files of large messages that no message referred to."""


def restore(
    store: LmdbStore,
    domain: Domain,
    formats: Mapping[str, MessageFormat],
    may_create: bool,
    hosts: VirtualHosts | None = None,
) -> None:
    """Fill `domain` from `store`, and the domains of `hosts`, and log what was found.

    A missing folder is created if `may_create`. Raises StoreError.
    """
    if not may_create and not store.folder.is_dir():
        raise StoreError(f"{store.folder} does not exist, and create-journal-dir is false")
    if not store.answers_wait:
        LOGGER.warning("journal-sync options are off: a crash loses what was confirmed just before it")
    found = recover(store, domain, formats, hosts)
    LOGGER.info(
        "store opened: folder=%s addresses=%d queues=%d messages=%d damaged=%d",
        store.folder,
        found.addresses,
        found.queues,
        found.references,
        found.damaged,
    )


def restore_retained(retained: RetainedMessages, formats: Mapping[str, MessageFormat]) -> None:
    """Bring back the retained messages, and log how many are lost. The store must have started."""
    lost = retained.load(formats)
    if lost:
        LOGGER.error("retained messages that cannot be read were forgotten: count=%d", lost)


def restore_branches(branches: Branches) -> None:
    """Bring back the prepared transaction branches, and log what was found. The store must have started."""
    found = branches.restore()
    if found.prepared or found.outcomes:
        LOGGER.info(
            "prepared transaction branches found: count=%d ended_by_management=%d deliveries_gone=%d",
            found.prepared,
            found.outcomes,
            found.missing,
        )
    if found.lost:
        LOGGER.error(
            "records of transaction branches cannot be read, their deliveries wait again: count=%d", found.lost
        )
    if found.orphans > 0:
        LOGGER.warning(
            "messages of transaction branches that are not known stay where they are: queue=%s count=%d",
            PREPARED,
            found.orphans,
        )


def restore_jobs(jobs: Jobs) -> None:
    """Bring back the scheduled messages of `Jobs`, and log what was found. The store must have started."""
    found = jobs.restore()
    if found.count:
        LOGGER.info("scheduled messages found: count=%d", found.count)
    if found.lost:
        LOGGER.error("records of scheduled messages cannot be read, they are not sent: count=%d", found.lost)
    if found.orphans > 0:
        template = "scheduled messages that have no record stay where they are: queue=%s count=%d"
        LOGGER.warning(template, SCHEDULED, found.orphans)


def recover(
    store: LmdbStore, domain: Domain, formats: Mapping[str, MessageFormat], hosts: VirtualHosts | None = None
) -> Recovered:
    """Open `store` and fill `domain` and the domains of `hosts` from it; `formats` by name. Raises StoreError."""
    environment = store.open(formats)
    try:
        environment.drop_all()
        lost = 0 if hosts is None else hosts.restore()
        if lost:
            LOGGER.error("records of virtual hosts cannot be read: count=%d", lost)
        with environment.begin(write=True) as transaction:
            return _Recovery(store, environment, transaction, domain, hosts).run()
    except lmdb.Error as error:
        reason = reason_of(error, environment.folder / FILE_NAME)
        raise StoreError(f"the store in {environment.folder} cannot be read: {reason}") from error


class _Recovery:
    """Recovery at one start."""

    def __init__(
        self,
        store: LmdbStore,
        environment: Environment,
        transaction: lmdb.Transaction,
        domain: Domain,
        hosts: VirtualHosts | None,
    ) -> None:
        self._store = store
        self._environment = environment
        self._transaction = transaction
        self._domain = domain
        self._hosts = hosts
        self._domains: dict[int, Domain] = {0: domain}
        """Domains by the id of their virtual host."""
        self._queues: dict[int, Queue] = {}
        self._found = Recovered()
        self._numbers_there = Numbers(environment.databases, transaction)
        self._marks: dict[int, int] = {}
        """Sequences at which queues continue, by queue id."""
        self._scheduled_below = 1
        """Limit of running numbers: those of all scheduled references are below it."""
        self._last: dict[int, int] = {}
        """Highest stored sequences, by queue id."""
        meta = environment.database(schema.META)
        self._is_far: bool = transaction.get(schema.CONTINUE_FAR, db=meta) is not None
        """Whether numbers were lost that were higher than those noted."""

    def run(self) -> Recovered:
        self._large_bodies()
        self._addresses()
        self._define_queues()
        self._numbers()
        self._counts()
        self._skip()
        if self._is_far:
            LOGGER.error("all numbers continue far above what is noted, because later ones were lost with the log")
            self._transaction.delete(schema.CONTINUE_FAR, db=self._environment.database(schema.META))
        return self._found

    def _large_bodies(self) -> None:
        """Delete files that no stored message refers to: never finished, not durable, or not deleted in time."""
        bodies = self._environment.database(schema.BODIES)
        kept_below = self._number(schema.META, schema.KEPT_BODIES)
        kept = 0

        def is_needed(id: int) -> bool:
            nonlocal kept
            if self._transaction.get(schema.U64.pack(id), db=bodies) is not None:
                return True
            stays = kept_below is None or id < kept_below
            kept += stays
            return stays

        count, size = self._store.files.open(is_needed)
        self._found.orphans = count
        if kept:
            LOGGER.warning(
                "large messages of a damaged store are kept, though no message refers to them: folder=%s count=%d",
                self._store.files.folder,
                kept,
            )
        if count:
            LOGGER.info("large messages that no message refers to were removed: count=%d bytes=%d", count, size)

    def _addresses(self) -> None:
        for key, value in self._all(schema.ADDRESSES):
            try:
                record = read_address(schema.unseal(key, value))
                self._store.know_address(record.host, record.name, schema.U32.unpack(key)[0])
                address = self._domain_of(record.host).create_address(
                    record.name,
                    record.routing_types,
                    record.auto_created,
                    internal=record.internal,
                    creator=record.creator,
                )
                address.paused = record.paused
                self._found.addresses += 1
            except (DamagedValue, Refusal) as error:
                self._set_aside(schema.ADDRESSES, key, value, str(error))

    def _define_queues(self) -> None:
        for key, value in self._all(schema.QUEUES):
            try:
                record = read_queue(schema.unseal(key, value))
                config = record.config
                domain = self._domain_of(record.host)
                if config.last_value is None:
                    # What the settings of the address were when the queue was created still counts.
                    config = config.changed(last_value=False)
                if config.address not in domain.addresses:
                    LOGGER.error(
                        "address of a stored queue created again: address=%s queue=%s", config.address, config.name
                    )
                    routing_type = config.routing_type or RoutingType.MULTICAST
                    domain.create_address(config.address, frozenset((routing_type,)), config.auto_created)
                queue = domain.create_queue(config, schema.U32.unpack(key)[0])
                queue.paused = record.paused
                self._queues[queue.id] = queue
                self._reserve(queue, key)
                self._found.queues += 1
            except (DamagedValue, Refusal) as error:
                self._set_aside(schema.QUEUES, key, value, str(error))

    def _domain_of(self, host: int) -> Domain:
        """Return the domain of a virtual host. Raises DamagedValue if this store is opened without hosts."""
        domain = self._domains.get(host)
        if domain is None:
            if self._hosts is None:
                raise DamagedValue(f"it belongs to virtual host {host}")
            domain = self._domains[host] = self._hosts.domain_of(host).sessions.domain
        return domain

    def _reserve(self, queue: Queue, key: bytes) -> None:
        """Continue with sequences that the run before has certainly not used."""
        marks = self._environment.database(schema.MARKS)
        mark = self._number(schema.MARKS, key)
        if mark is None or self._is_far or (mark == 1 and self._last_sequence(queue)):
            mark = self._new_mark(queue, mark or 1)
        queue.next_sequence = self._marks[queue.id] = mark
        queue.sequence_limit = mark + RESERVED_SEQUENCES // 2
        self._transaction.put(key, schema.number_value(key, mark + RESERVED_SEQUENCES), db=marks)

    def _new_mark(self, queue: Queue, noted: int) -> int:
        """Return a mark above everything the queue may have used; the gap is noted at once, so that it stays known."""
        ranges = self._skipped(queue)
        last = self._last_sequence(queue)
        start = max(ranges[-1][1] if ranges else 1, last + 1)
        mark = max(start, noted) + FAR
        LOGGER.log(
            logging.INFO if self._is_far else logging.ERROR,
            "the sequences of a queue continue far above what was used: queue=%s last=%d next=%d",
            queue.name,
            last,
            mark,
        )
        self._write_skipped(queue, [*ranges, (start, mark)])
        return mark

    def _last_sequence(self, queue: Queue) -> int:
        """Return the highest stored sequence of a queue, or one above it; 0 if there is none."""
        spans = self._environment.inherited.of_queue(queue.id)
        return max(self._numbers_there.last_sequence(queue.id), *(span.first + span.count - 1 for span in spans), 0)

    def _number(self, database: bytes, key: bytes) -> int | None:
        """Return a number that must not be used twice, 1 if none was noted yet; None if it is damaged."""
        value = self._transaction.get(key, db=self._environment.database(database))
        if value is None:
            return 1
        try:
            return schema.read_number(key, bytes(value))
        except DamagedValue as error:
            self._set_aside(database, key, bytes(value), str(error))
            return None

    def _meta_number(self, name: bytes) -> int:
        number = self._number(schema.META, name)
        if number is None or self._is_far:
            number = self._numbers_there.next_number(name, number or 0)
            LOGGER.error("a number continues far above what was used: name=%s next=%d", name.decode(), number)
            value = schema.number_value(name, number)
            self._transaction.put(name, value, db=self._environment.database(schema.META))
        return number

    def _numbers(self) -> None:
        self._scheduled_below = self._meta_number(schema.NEXT_SCHEDULED)
        self._store.reserved.know_scheduled(self._scheduled_below)
        next_message_id = self._meta_number(schema.NEXT_MESSAGE_ID)
        self._store.reserved.know_message_id(next_message_id)
        self._domain.dispatcher.numbers.go_on_from(next_message_id, self._meta_number(schema.NEXT_QUEUE_ID))

    def _counts(self) -> None:
        for key, value in self._all(schema.COUNTS):
            try:
                count, size_bytes = schema.read_counts(key, value)
            except DamagedValue as error:
                self._set_aside(schema.COUNTS, key, value, str(error))
                count, size_bytes = self._count_again(key)
            stored_id, rank = schema.read_rank(key)
            last = self._numbers_there.last_sequence_of(stored_id, rank) if count and rank < SCHEDULED_RANK else 0
            queue_id, handle = self._environment.inherited.owner_of(stored_id, last)
            if queue_id != stored_id:
                rank, last = schema.rank_in(handle), schema.number_in(handle)
            queue = self._queues.get(queue_id)
            if queue is None:
                if not count:
                    continue
                queue = self._queues[queue_id] = self._recover_queue(queue_id)
            self._found.references += count
            if count and rank < SCHEDULED_RANK:
                self._last[queue_id] = max(self._last.get(queue_id, 0), last)
            if count:
                queue.restore(rank, count, size_bytes, self._scheduled_below)
        self._forget_empty_ranges()

    def _forget_empty_ranges(self) -> None:
        """Forget inherited ranges that have no references: what they had was in pages that are lost."""
        for key, value in self._all(schema.RECORDS, PREFIX):
            try:
                read_record(key, schema.unseal(key, value))
            except DamagedValue as error:
                self._set_aside(schema.RECORDS, key, value, str(error))
        references = self._environment.database(schema.REFERENCES)
        cursor = self._transaction.cursor(db=references)
        for span in list(self._environment.inherited.by_source.values()):
            prefix = schema.U32.pack(span.source_id)
            if not (cursor.set_range(prefix) and bytes(cursor.key()).startswith(prefix)):
                self._transaction.delete(record_of(span)[0], db=self._environment.database(schema.RECORDS))
                self._environment.inherited.forget(span.source_id)
        is_left = bool(self._environment.inherited.by_source)
        mark(self._environment.databases, self._transaction, schema.INHERITING, is_left)

    def _recover_queue(self, id: int) -> Queue:
        """Make a queue for messages whose own queue is lost.

        No producer sends to its name, because what the lost queue was is not known.
        """
        addresses = self._environment.database(schema.ADDRESSES)
        cursor = self._transaction.cursor(db=addresses)
        address_id = schema.U32.unpack(cursor.key())[0] + 1 if cursor.last() else 1
        name = recovered_name(id)
        if name not in self._domain.addresses:
            self._transaction.put(*recovered_address(id, address_id), db=addresses)
            self._domain.create_address(name, frozenset((RoutingType.ANYCAST,)))
            self._store.know_address(0, name, address_id)
        key, value = recovered_queue(id)
        self._transaction.put(key, value, db=self._environment.database(schema.QUEUES))
        queue = self._domain.create_queue(read_queue(schema.unseal(key, value)).config, id)
        self._reserve(queue, key)
        self._found.lost_queues += 1
        LOGGER.error("the definition of a queue is lost, its messages are in a new one: id=%d queue=%s", id, name)
        return queue

    def _skip(self) -> None:
        """Note which numbers a crash left out: a reader that expects all of them is told (`heads`)."""
        for queue in self._queues.values():
            ranges = self._skipped(queue)
            mark = self._marks[queue.id]
            start = max(ranges[-1][1] if ranges else 1, mark - RESERVED_SEQUENCES, self._last.get(queue.id, 0) + 1)
            if start < mark:
                ranges = self._write_skipped(queue, [*ranges, (start, mark)])
            queue.skipped = tuple(ranges)

    def _skipped(self, queue: Queue) -> list[tuple[int, int]]:
        """Return the ranges of sequences that the queue may never have used."""
        key = skipped_key(queue.name, queue.address.host)
        value = bytes(self._transaction.get(key, b"", db=self._environment.database(schema.RECORDS)))
        try:
            return read_ranges(schema.unseal(key, value)) if value else []
        except DamagedValue as error:
            self._set_aside(schema.RECORDS, key, value, str(error))
            return []

    def _write_skipped(self, queue: Queue, ranges: list[tuple[int, int]]) -> list[tuple[int, int]]:
        """Note the last of the ranges; return what was noted."""
        key = skipped_key(queue.name, queue.address.host)
        value = schema.seal(key, write_ranges(ranges[-MAX_SKIPPED:]))
        self._transaction.put(key, value, db=self._environment.database(schema.RECORDS))
        return ranges[-MAX_SKIPPED:]

    def _count_again(self, key: bytes) -> tuple[int, int]:
        """Count the references under the key of a count, and store the result if there are any."""
        count = size_bytes = 0
        cursor = self._transaction.cursor(db=self._environment.database(schema.REFERENCES))
        found = cursor.set_range(key)
        while found and bytes(cursor.key()).startswith(key):
            count += 1
            size_bytes += len(cursor.value()) + MESSAGE_OVERHEAD_BYTES
            found = cursor.next()
        if count:
            value = schema.counts(key, count, size_bytes)
            self._transaction.put(key, value, db=self._environment.database(schema.COUNTS))
        return count, size_bytes

    def _all(self, database: bytes, prefix: bytes = b"") -> Iterator[tuple[bytes, bytes]]:
        """Yield all keys that begin with `prefix`, in order, and their values.

        The pair yielded last may be deleted before the next.
        """
        cursor = self._transaction.cursor(db=self._environment.database(database))
        found = cursor.set_range(prefix) if prefix else cursor.first()
        while found:
            key = bytes(cursor.key())
            if not key.startswith(prefix):
                return
            yield key, bytes(cursor.value())
            # The caller may have deleted it through this transaction, which moves the cursor.
            found = cursor.set_range(key) and (cursor.key() != key or cursor.next())

    def _set_aside(self, database: bytes, key: bytes, value: bytes, reason: str) -> None:
        LOGGER.error("damaged value set aside: database=%s key=%s reason=%s", database.decode(), key.hex(), reason)
        self._found.damaged += 1
        self._transaction.put(database + b"\x00" + key, value, db=self._environment.database(schema.DAMAGED))
        self._transaction.delete(key, db=self._environment.database(database))
