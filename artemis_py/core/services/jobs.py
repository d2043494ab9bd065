"""Jobs: messages that are sent later, once, several times, or when a schedule of cron says (`job.Timing`).

All jobs are in memory, in a heap by the time at which they are due; their messages wait in a queue of the broker
(`job_queue`), in memory or on disk. When a job is due, a new message is made from its message and routed, and in the
same turn the job is moved to its next time, or ends. Both are in one commit of the store, and nobody sees the new
message before that (`Message.stored_first`), so a crash neither loses a durable occurrence nor repeats it. Times that
passed while the broker was down, or busy, are made up for once.

A delivery time (`Message.delivery_time_ms`) is something else: such a message waits in the queues that it is for.
"""

import json
from collections.abc import Callable
from datetime import tzinfo
from heapq import heapify, heappop, heappush
from typing import Final

from artemis_py.core.addresses.address import Address
from artemis_py.core.messages.message import Message
from artemis_py.core.names.routing_type import RoutingType
from artemis_py.core.queues.reference import Reference
from artemis_py.core.routing.duplicates import readable
from artemis_py.core.routing.transaction import Transaction
from artemis_py.core.runtime.background import SLICE_MESSAGES, Steps
from artemis_py.core.runtime.events import Dropped, Duplicate, JobRefused
from artemis_py.core.runtime.timers import Timer
from artemis_py.core.services.job import (
    ASKED,
    FOR_EVER,
    SPACE,
    Asked,
    Job,
    Timing,
    key_of,
    read_asked,
    read_job,
    write_job,
)
from artemis_py.core.services.job_queue import SCHEDULED, JobQueue
from artemis_py.core.sessions.inlet import AddressInlet
from artemis_py.core.sessions.producer import Producer
from artemis_py.core.sessions.sessions import Sessions
from artemis_py.errors import DamagedValue, DuplicateMessage, LimitExceeded, ProtocolError, Refusal

MAX_JOBS: Final = 1_000_000
"""Limit of jobs. As many take 1 GiB, so the limit of tables is nearly always reached first."""
JOB_BYTES: Final = 1024
CRON_BYTES: Final = 4864
"""What a job counts in the account of tables besides its names, and what its schedule does: rounded up from 909 and
4,651 octets (tracemalloc, CPython 3.11)."""

# Limits of one run: jobs that become due at the same time are sent over several turns.
RUN_JOBS: Final = 100
RUN_UNITS: Final = 500

JOB_UNITS: Final = 5
"""What it costs to send the message of a job, in units of `core.runtime.meter`."""

RETRY_MS: Final = 5000
"""Time after which an occurrence that was refused, for example because its address is full, is tried again."""

# So many ended jobs may be in the heap until they would be due, however few others there are.
LEAST_ENDED: Final = 64

Adapter = Callable[[Message, Job, int], Message]
"""Makes the message of one occurrence from that of the job; the number is unique. Raises ProtocolError."""


class RestoredJobs:
    """Numbers of what an earlier run left, for the log."""

    __slots__ = ("count", "lost", "orphans")

    def __init__(self) -> None:
        self.count: int = 0
        self.lost: int = 0
        """Records that cannot be read."""
        self.orphans: int = 0
        """Messages without a record; they stay in the queue."""


class Jobs:
    """All jobs of a domain."""

    def __init__(self, sessions: Sessions) -> None:
        self._sessions: Final = sessions
        self._domain: Final = sessions.domain
        self._queue: Final = JobQueue(self._domain, self)
        self._by_sequence: Final[dict[int, Job]] = {}
        self._by_id: Final[dict[str, Job]] = {}
        self._heap: list[tuple[int, int, Job]] = []
        """Time, number and job; an entry whose job is due at another time, or has ended, means nothing."""
        self._count: int = 0
        self._ended: int = 0
        """Number of entries in the heap that mean nothing."""
        self._timer: Timer | None = None
        self._needed: Final[dict[str, int]] = {}
        """Number of jobs for an address, by its name."""
        self._adapters: Final[dict[str, Adapter]] = {}
        self.zone: tzinfo | None = None
        """Time zone of schedules; None: that of this machine."""
        self._domain.in_use.append(self.needs)

    def adapt(self, format: str, adapter: Adapter) -> None:
        """Have the protocol of a format make the messages of occurrences; without it they are plain copies."""
        self._adapters[format] = adapter

    # -- restart -------------------------------------------------------------------------------------------------

    def restore(self) -> RestoredJobs:
        """Restore the jobs of an earlier run; called once, when its queues exist."""
        found = RestoredJobs()
        found.orphans = self._queue.restore()
        for key, value in self._domain.records.load_records(SPACE):
            try:
                job = read_job(key, value)
            except DamagedValue:
                found.lost += 1
                continue
            self._add(job)
            found.count += 1
            found.orphans -= 1
        return found

    # -- facts ---------------------------------------------------------------------------------------------------

    @property
    def count(self) -> int:
        """Number of jobs."""
        return len(self._by_sequence)

    def needs(self, address: str) -> bool:
        """Tell whether a job sends to an address, which is then in use."""
        return address in self._needed

    def all(self) -> list[Job]:
        """Return the jobs in the order in which they were scheduled."""
        return list(self._by_sequence.values())

    def find(self, id: str) -> Job | None:
        """Return the job of this id."""
        return self._by_id.get(id)

    def is_pending(self, job: Job) -> bool:
        """Tell whether a job has not ended."""
        return self._by_sequence.get(job.sequence) is job

    def message_of(self, job: Job) -> Message | None:
        """Return the message of a job, as it was sent; None if it is gone. Raises StoreError."""
        found = self._queue.find(job.sequence, job.reference)
        return None if found is None else found.reference.message

    # -- requests ------------------------------------------------------------------------------------------------

    def schedule(
        self,
        producer: Producer,
        message: Message,
        timing: Timing,
        id: str,
        transaction: Transaction | None = None,
        duplicate_id: bytes = b"",
    ) -> None:
        """Send a message of a producer as `timing` says, from now on or from the commit of the transaction on.

        `id` is how the job is named; if another job has this id, a number is added. Raises a kind of Refusal.
        """
        try:
            self._check_room()
            producer.name_user(message)
            address = _address_of(producer, message)
        except Refusal as refusal:
            if transaction is not None:
                transaction.fail(refusal)
            raise
        inlet = producer.inlet
        if address is None or not isinstance(inlet, AddressInlet):
            # A part of the broker takes its messages, such as management: it has nothing to be scheduled.
            producer.send(message, transaction, duplicate_id)
            return
        if duplicate_id and self._is_known(address, duplicate_id, transaction):
            return
        if not self._admit(message, address):
            return
        asked = Asked(
            id=id,
            timing=timing,
            address=address.name,
            queue=producer.queue_name,
            routing_type=message.routing_type,
            subject=inlet.subject,
            is_temporary=address.temporary,
        )
        self._keep(message, asked, transaction)
        if duplicate_id:
            if transaction is None:
                self._domain.duplicates.add(address, duplicate_id, message.durable)
            else:
                transaction.claim(address, duplicate_id)

    def _check_room(self) -> None:
        """Raise LimitExceeded if there is no room for one more job."""
        self._domain.dispatcher.check_tables("a scheduled message")
        if len(self._by_sequence) >= MAX_JOBS:
            raise LimitExceeded(f"{MAX_JOBS} messages are scheduled")

    def _admit(self, message: Message, address: Address) -> bool:
        """Take responsibility for a message; False: its address drops it. Raises AddressFull, StoreError."""
        expires_ms, priority = message.expires_ms, message.priority
        is_taken = self._domain.admit(message, address)
        # What the settings of the address change is changed when the message is sent.
        message.expires_ms, message.priority = expires_ms, priority
        return is_taken

    def remove(self, job: Job) -> None:
        """End a job; what it has sent stays. Raises StoreError if its message cannot be read."""
        if self.is_pending(job):
            found = self._queue.find(job.sequence, job.reference)
            self._end(job)
            if found is not None:
                self._queue.take(found)

    def _is_known(self, address: Address, duplicate_id: bytes, transaction: Transaction | None) -> bool:
        """Tell, and report, whether an address has taken a message with this id."""
        domain = self._domain
        is_claimed = transaction is not None and transaction.has_claimed(address, duplicate_id)
        if not is_claimed and duplicate_id not in domain.duplicates.of(address):
            return False
        domain.events.emit(Duplicate(address.name, readable(duplicate_id)))
        if transaction is not None:
            transaction.fail(DuplicateMessage(f"address '{address.name}' has accepted a message with the same id"))
        return True

    def _keep(self, message: Message, asked: Asked, transaction: Transaction | None) -> None:
        """Put the message of a job into the queue; the job begins when it is there."""
        queue = self._queue.open()
        message.set_extra(ASKED, json.dumps(asked.write(), separators=(",", ":")))
        message.delivery_time_ms = 0
        queue.address.take_over(message)
        if transaction is None:
            queue.take(message)
        else:
            transaction.send(message, [queue])

    # -- what happens to the queue -------------------------------------------------------------------------------

    def arrived(self, reference: Reference, sequence: int) -> bool:
        """Begin the job of a message that gets this sequence."""
        extra = reference.message.extra or {}
        try:
            asked = read_asked(json.loads(str(extra.get(ASKED, ""))))
        except (ValueError, DamagedValue):
            return False
        timing = asked.timing
        now_ms = self._domain.dispatcher.now_ms
        base_ms = now_ms if timing.cron is None else timing.cron.next_ms(now_ms, self.zone)
        job = Job(asked, sequence, base_ms if timing.cron and timing.repeat else base_ms + timing.first_ms)
        if job.id in self._by_id:
            job.id = f"{job.id}-{sequence}"
        job.reference = reference
        queue = reference.queue
        job.is_stored = reference.message.durable and queue.is_stored and self._domain.dispatcher.stores
        self._add(job)
        self._save(job)
        return True

    def moved(self, sequence: int, reference: Reference | None) -> None:
        """Note where the message of a job is."""
        job = self._by_sequence.get(sequence)
        if job is not None:
            job.reference = reference

    def removed(self, sequence: int) -> None:
        """End a job whose message is gone."""
        job = self._by_sequence.get(sequence)
        if job is not None:
            self._end(job)

    def emptied(self) -> None:
        """End all jobs, in slices; none of them sends anything from now on."""
        self._queue.empty()
        self._domain.dispatcher.slices.start(self._end_all(self.all()))

    def _end_all(self, jobs: list[Job]) -> Steps:
        for index, job in enumerate(jobs):
            self._end(job)
            if index % SLICE_MESSAGES == SLICE_MESSAGES - 1:
                yield None
        return None

    def _add(self, job: Job) -> None:
        self._by_sequence[job.sequence] = job
        self._by_id[job.id] = job
        name = job.asked.address
        self._needed[name] = self._needed.get(name, 0) + 1
        self._domain.dispatcher.tables.occupy(_size_of(job))
        self._push(job)

    def _end(self, job: Job, is_planned: bool = True) -> None:
        """Forget a job; its message is taken out of the queue by the caller, or is gone.

        `is_planned` false: the heap has no entry for it any more.
        """
        if self._by_sequence.pop(job.sequence, None) is None:
            return
        del self._by_id[job.id]
        name = job.asked.address
        self._needed[name] -= 1
        if not self._needed[name]:
            del self._needed[name]
        self._domain.dispatcher.tables.vacate(_size_of(job))
        if job.is_stored:
            self._domain.records.save_record(SPACE, key_of(job.sequence), None)
        self._ended += is_planned
        if self._ended > LEAST_ENDED and 2 * self._ended > len(self._heap):
            self._heap = [entry for entry in self._heap if self._means(entry)]
            heapify(self._heap)
            self._ended = 0

    def _save(self, job: Job) -> None:
        if job.is_stored:
            self._domain.records.save_record(SPACE, key_of(job.sequence), write_job(job))

    # -- time ----------------------------------------------------------------------------------------------------

    def _push(self, job: Job) -> None:
        self._count += 1
        heappush(self._heap, (job.due_ms, self._count, job))
        self._plan(job.due_ms)

    def _means(self, entry: tuple[int, int, Job]) -> bool:
        job = entry[2]
        return job.due_ms == entry[0] and self.is_pending(job)

    def _plan(self, when_ms: int) -> None:
        timer = self._timer
        if timer is not None and timer.is_pending:
            if timer.when_ms <= when_ms:
                return
            timer.cancel()
        self._timer = self._domain.dispatcher.timers.at(when_ms, self._run)

    def _run(self) -> None:
        """Send the messages of jobs that are due, up to the limits of one run."""
        dispatcher, meter = self._domain.dispatcher, self._domain.meter
        end = meter.work + RUN_UNITS
        heap = self._heap
        for _ in range(RUN_JOBS):
            if not heap or heap[0][0] > dispatcher.now_ms or meter.work >= end:
                break
            entry = heappop(heap)
            if self._means(entry):
                meter.work += JOB_UNITS
                self._fire(entry[2])
            else:
                self._ended -= 1
            heap = self._heap
        if heap:
            self._plan(heap[0][0])

    def _fire(self, job: Job) -> None:
        """Send the message of a job, and move the job to its next time."""
        now_ms = self._domain.dispatcher.now_ms
        try:
            found = self._queue.find(job.sequence, job.reference)
            if found is None:
                self._end(job, is_planned=False)
                if not self._queue.was_emptied(job.sequence):
                    self._domain.events.emit(Dropped(SCHEDULED, "the message of a job is gone", 1))
                return
            if job.asked.is_temporary and job.asked.address not in self._domain.addresses:
                self._end(job, is_planned=False)
                self._queue.take(found)
                return
            if job.begins_series:
                self._begin_series(job, found.reference.message)
            else:
                self._send(job, found.reference.message)
        except (Refusal, ProtocolError) as error:
            self._domain.events.emit(JobRefused(job.id, job.asked.address, str(error)))
            job.due_ms = now_ms + RETRY_MS
            self._push(job)
            return
        timing = job.asked.timing
        if timing.cron is not None:
            delay_ms = 0 if job.begins_series else timing.first_ms
            job.due_ms = timing.cron.next_ms(max(now_ms - delay_ms, job.due_ms - delay_ms), self.zone) + delay_ms
        elif job.left:
            job.left -= job.left != FOR_EVER
            missed = max(now_ms - job.due_ms, 0) // timing.period_ms
            job.due_ms += (missed + 1) * timing.period_ms
        else:
            self._end(job, is_planned=False)
            self._queue.take(found)
            return
        self._save(job)
        self._push(job)

    def _begin_series(self, job: Job, message: Message) -> None:
        """Begin the repetitions of one time of a schedule: a job of its own. Raises a kind of Refusal."""
        asked, timing = job.asked, job.asked.timing
        self._check_room()
        copy = message.copy("")
        copy.id = self._domain.dispatcher.numbers.new_message_id()
        copy.expires_ms = message.expires_ms
        series = Timing(delay_ms=timing.delay_ms, period_ms=timing.period_ms, repeat=timing.repeat)
        again = Asked(
            id=f"{job.id}-{copy.id}",
            timing=series,
            address=asked.address,
            queue=asked.queue,
            routing_type=asked.routing_type,
            subject=asked.subject,
            is_temporary=asked.is_temporary,
            is_series=True,
        )
        self._keep(copy, again, None)

    def _send(self, job: Job, message: Message) -> None:
        """Send one occurrence. Raises a kind of Refusal."""
        domain, asked = self._domain, job.asked
        number = domain.dispatcher.numbers.message_id
        adapter = self._adapters.get(message.format.name)
        occurrence = message.copy("") if adapter is None else adapter(message, job, number)
        if adapter is None:
            occurrence.expires_ms = message.expires_ms
        if occurrence.extra is not None:
            occurrence.extra.pop(ASKED, None)
            if not occurrence.extra:
                occurrence.extra = None
        occurrence.routing_type = asked.routing_type
        occurrence.stored_first = True
        address = domain.addresses.get(asked.address)
        if address is None or (not address.bindings and asked.routing_type != RoutingType.MULTICAST):
            address = self._create(asked)
        domain.route(occurrence, address, asked.queue)

    def _create(self, asked: Asked) -> Address:
        """Create an address that is gone, with the rights that the user of the job has now. Raises Refusal."""
        session = self._sessions.open_for_absent(asked.subject, "", "", "scheduler")
        try:
            name = f"{asked.address}::{asked.queue}" if asked.queue else asked.address
            kind = None if asked.routing_type < 0 else RoutingType(asked.routing_type)
            session.producer(name, kind)
        finally:
            session.close()
        return self._domain.address(asked.address)


def _size_of(job: Job) -> int:
    """Return what a job counts in the account of tables."""
    asked = job.asked
    names = len(job.id) + len(asked.id) + len(asked.address) + len(asked.queue)
    return names + (JOB_BYTES if asked.timing.cron is None else JOB_BYTES + CRON_BYTES)


def _address_of(producer: Producer, message: Message) -> Address | None:
    """Return where the messages of a producer go; None: to a part of the broker. Raises a kind of Refusal."""
    inlet = producer.inlet
    if not isinstance(inlet, AddressInlet):
        return None
    if inlet.explicit_type >= 0:
        message.routing_type = inlet.explicit_type
    address = inlet.address
    if address is None or address.is_deleted or (not address.bindings and message.routing_type != 0):
        address = inlet.prepare()
    return address
