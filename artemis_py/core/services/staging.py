"""Writes that wait for their commit: messages that are stored, but not routed until a whole epoch is.

A job that is restarted, or runs a part of itself twice, writes again what it wrote before. So it writes into stages: a
*writer* (the job) numbers its *epochs*, each *attempt* at a part of one has a stage of its own, and `commit` decides
for exactly the attempts it names, in one commit of the store, and routes them (`epochs`). Committed again, or committed
late, an epoch changes nothing. Stages that no commit names are dropped by the next one of their writer, by `abort`, or
when nobody touched them for an hour.

A stage is a queue nobody can reach. Nobody can make room in it by consuming, so its messages do not count for the
limits of the address they will go to, as long as they are there; they keep their delivery time and expiry for then.
What may be staged depends on the policy of that address:

    PAGE         as much as the disk holds, or the address' page limits together with what it has there already
    BLOCK        MAX_STAGED_BYTES; the address' own limits hold the routing back
    FAIL, DROP   what fits into the address together with what it has
"""

import json
from collections.abc import Collection
from typing import Final, Protocol

from artemis_py.core.addresses.address import Address
from artemis_py.core.messages.message import Message
from artemis_py.core.names.routing_type import RoutingType
from artemis_py.core.names.syntax import is_unicode
from artemis_py.core.queues.queue import Queue
from artemis_py.core.routing.domain import Domain
from artemis_py.core.runtime.access import Permission
from artemis_py.core.runtime.background import Steps
from artemis_py.core.services.epochs import DUE, EXPIRES, Epochs, WriterKey
from artemis_py.core.services.stage_inlet import StageInlet
from artemis_py.core.sessions.producer import Producer
from artemis_py.core.sessions.session import Session
from artemis_py.core.settings.address_settings import FullPolicy, PageFullPolicy
from artemis_py.core.settings.queue_config import QueueConfig
from artemis_py.errors import AddressFull, InvalidRequest, LimitExceeded, NoSuchAddress, NoSuchQueue

STAGING_ADDRESS: Final = "$artemis.staging"
STAGES: Final = "stages"
"""Space of the store's records of stages, by the name of their queue."""

TIMEOUT_MS: Final = 3_600_000
"""A job whose tasks take longer than this between two messages is broken, not slow."""
SWEEP_MS: Final = 60_000
MAX_STAGES: Final = 4096
"""In all. One is a task of a job; it costs what an empty queue costs."""
DROPPED_STAGES: Final = 50
"""Of those that are deleted, in one turn."""
MAX_EPOCH: Final = 2**63 - 1
MAX_WRITER_LENGTH: Final = 200
"""Octets: user and writer are the key of a record."""
MAX_ATTEMPT_LENGTH: Final = 200
MAX_WRITERS: Final = 10_000
"""In all: the last epoch of each is remembered for good. One is a job, and has a name of its own."""
MAX_STAGED_BYTES: Final = 1 << 30
"""For one address whose policy is BLOCK, in all stages together: what it is meant to bound is bounded, and an epoch may
be much larger than the address."""


class Holder(Protocol):
    """The link that fills a stage."""

    def stolen(self) -> None:
        """Another link fills it now: nothing that still arrives here may count."""


class Stage:
    """What one attempt has written so far."""

    def __init__(self, user: str, writer: str, epoch: int, attempt: str, address: str, queue: Queue) -> None:
        self.user: Final = user
        self.writer: Final = writer
        self.epoch: Final = epoch
        self.attempt: Final = attempt
        self.address: Final = address
        self.queue: Final = queue
        self.refused: int = 0
        """Messages that a link brought and the broker did not take."""
        self.dropped: int = 0
        """Messages that it took and dropped, for its address is full and wants that."""
        self.holder: Holder | None = None
        self.touched_ms: int = queue.dispatcher.now_ms
        self.is_over: bool = False
        """Its epoch is decided, or it was dropped: it takes nothing more."""
        self.taken: int = queue.message_count
        """Messages, and their size, that it took in all."""
        self.size_bytes: int = queue.backlog.size_bytes

    @property
    def key(self) -> "StageKey":
        """Whose it is."""
        return self.user, self.writer, self.epoch, self.attempt

    @property
    def count(self) -> int:
        """Messages taken so far: what a client knows to be accepted."""
        return self.queue.message_count + self.dropped


class _Awaited:
    """What is staged for one address."""

    __slots__ = ("message_count", "size_bytes", "stages")

    def __init__(self) -> None:
        self.stages = 0
        self.message_count = 0
        self.size_bytes = 0


StageKey = tuple[str, str, int, str]


class Staging:
    """All stages of a broker, and the last epoch of every writer."""

    def __init__(self, postoffice: Domain) -> None:
        self._office: Final = postoffice
        self._stages: Final[dict[StageKey, Stage]] = {}
        self._epochs: Final = Epochs(postoffice, self._end)
        self._awaited: Final[dict[str, _Awaited]] = {}
        """What is staged, by address."""
        self._count = 0
        """Stages, those included whose epoch is being routed."""
        self._is_sweeping = False
        postoffice.in_use.append(self.awaits)

    def restore(self) -> None:
        """Take up what an earlier run left behind; called once, when the queues are there."""
        storage = self._office.storage
        decided = self._epochs.restore()
        names = {name for chosen in decided.values() for name in chosen}
        undone: dict[str, Stage] = {}
        for key, value in storage.load_records(STAGES):
            queue = self._office.queues.get(key.decode())
            if queue is None:
                storage.save_record(STAGES, key, None)
                continue
            queue.address.sets_aside = True
            user, writer, epoch, attempt, address, refused, dropped = json.loads(value)
            stage = Stage(user, writer, epoch, attempt, address, queue)
            stage.refused = refused
            stage.dropped = dropped
            self._await(stage)
            if queue.name in names:
                stage.is_over = True
                undone[queue.name] = stage
            else:
                self._stages[stage.key] = stage
        for writer_key, chosen in decided.items():
            self._epochs.resume(writer_key, [undone[name] for name in chosen if name in undone])
        over = [stage for stage in self._stages.values() if stage.epoch <= self.last_epoch(stage.user, stage.writer)]
        self._office.dispatcher.slices.start(self._drop(over, "its epoch is over"))
        if self._stages:
            self._plan_sweep()

    def _await(self, stage: Stage) -> None:
        """A stage more is there."""
        awaited = self._awaited.setdefault(stage.address, _Awaited())
        awaited.stages += 1
        awaited.message_count += stage.taken
        awaited.size_bytes += stage.size_bytes
        self._count += 1

    def awaits(self, address: str) -> bool:
        """Whether messages are staged for an address: it and its queues are then in use, though they look empty."""
        return address in self._awaited

    def last_epoch(self, user: str, writer: str) -> int:
        """The epoch that was decided last, though it may not all be routed yet; -1 if none was."""
        return self._epochs.last((user, writer))

    def open(self, user: str, writer: str, epoch: int, attempt: str, address: str, holder: Holder) -> Stage:
        """The stage of an attempt, for one more link: whoever filled it before does so no longer.

        An epoch that is committed is staged again like any other: its next commit drops it, or a start. Raises
        InvalidRequest for names and numbers that cannot be and for an address other than before, LimitExceeded.
        """
        self._check(user, writer, epoch)
        if not attempt or not is_unicode(attempt) or len(attempt) > MAX_ATTEMPT_LENGTH:
            raise InvalidRequest(f"a stage needs an attempt, of at most {MAX_ATTEMPT_LENGTH} characters")
        key = (user, writer, epoch, attempt)
        stage = self._stages.get(key)
        if stage is None:
            stage = self._create(key, address)
        elif stage.address != address:
            raise InvalidRequest(f"attempt '{attempt}' writes to '{stage.address}', not to '{address}'")
        previous, stage.holder = stage.holder, holder
        if previous is not None and previous is not holder:
            previous.stolen()
        stage.touched_ms = self._office.dispatcher.now_ms
        return stage

    def _check(self, user: str, writer: str, epoch: int) -> None:
        """Raises InvalidRequest, LimitExceeded: what cannot be the key of a record must not reach the store."""
        if not writer or not is_unicode(writer) or len(f"{user}\0{writer}".encode()) > MAX_WRITER_LENGTH:
            raise InvalidRequest(f"a writer needs a name in Unicode, of {MAX_WRITER_LENGTH} octets with the user's")
        if not 0 <= epoch <= MAX_EPOCH:
            raise InvalidRequest(f"an epoch is a number from 0, not {epoch}")
        if len(self._epochs) >= MAX_WRITERS and (user, writer) not in self._epochs:
            raise LimitExceeded(f"the broker remembers {MAX_WRITERS} writers, and '{writer}' is none of them")

    def _create(self, key: StageKey, address: str) -> Stage:
        if self._count >= MAX_STAGES:
            raise LimitExceeded(f"{MAX_STAGES} stages wait for their commit; abort what is not needed")
        office = self._office
        if STAGING_ADDRESS not in office.addresses:
            office.create_address(STAGING_ADDRESS, frozenset((RoutingType.ANYCAST,)), internal=True)
        queue = office.create_queue(
            QueueConfig(
                name=f"{STAGING_ADDRESS}.{office.entropy.uuid()}",
                address=STAGING_ADDRESS,
                routing_type=RoutingType.ANYCAST,
                internal=True,
                max_consumers=0,
                auto_delete=False,
            )
        )
        queue.address.sets_aside = True
        stage = Stage(*key, address, queue)
        self._save(stage)
        self._stages[key] = stage
        self._await(stage)
        self._plan_sweep()
        return stage

    def plug(self, stage: Stage, producer: Producer) -> None:
        """Have what a producer sends from now on go into a stage, until its epoch is committed."""
        producer.inlet = StageInlet(self, stage, producer.inlet)

    def take(self, stage: Stage, message: Message, address: Address) -> None:
        """Keep one message. Raises NoSuchQueue if the stage is gone, and what routing to the address raises."""
        if stage.is_over or stage.queue.is_deleted:
            raise NoSuchQueue(
                f"attempt '{stage.attempt}' of epoch {stage.epoch} is over: committed, aborted or forgotten"
            )
        awaited = self._awaited[stage.address]
        if not self._office.admit(message, address) or self._is_dropped(awaited, address):
            stage.dropped += 1
            self._save(stage)
            return
        stage.taken += 1
        stage.size_bytes += message.size
        awaited.message_count += 1
        awaited.size_bytes += message.size
        message.origin = stage.queue.address
        stage.touched_ms = self._office.dispatcher.now_ms
        # In the stage it is neither due nor late: both count from the commit on.
        if message.delivery_time_ms:
            message.set_extra(DUE, message.delivery_time_ms)
            message.delivery_time_ms = 0
        if message.expires_ms:
            message.set_extra(EXPIRES, message.expires_ms)
            message.expires_ms = 0
        stage.queue.take(message)

    def refuse(self, stage: Stage) -> None:
        """A message for the stage was not taken.

        A client that lost its connection before it heard that learns it from the number: by the count of messages alone
        it would take those that came after for the one that is missing. Those are not on disk before the number is.
        """
        stage.refused += 1
        if not stage.queue.is_deleted:
            self._save(stage)

    def _save(self, stage: Stage) -> None:
        record = [*stage.key, stage.address, stage.refused, stage.dropped]
        self._office.storage.save_record(STAGES, stage.queue.name.encode(), json.dumps(record).encode())

    def _is_dropped(self, awaited: _Awaited, address: Address) -> bool:
        """Whether a message is dropped because of what is staged already. Raises AddressFull."""
        settings, account = address.settings, address.account
        policy = settings.address_full_policy
        count, size = awaited.message_count, awaited.size_bytes
        if policy is FullPolicy.BLOCK:
            if size < MAX_STAGED_BYTES:
                return False
            raise AddressFull(
                f"{size} bytes are staged for address '{address.name}', whose policy is BLOCK: "
                f"{MAX_STAGED_BYTES} are allowed; commit smaller epochs"
            )
        if policy is FullPolicy.PAGE:
            is_full = (
                0 <= settings.page_limit_bytes <= address.paged_bytes + size
                or 0 <= settings.page_limit_messages <= address.paged_count + count
            )
            drops = settings.page_full_policy is PageFullPolicy.DROP
        else:
            is_full = (
                account.size_bytes + size >= account.full_bytes
                or account.message_count + count >= account.full_messages
            )
            drops = policy is FullPolicy.DROP
        if not is_full:
            return False
        if not drops:
            raise AddressFull(f"address '{address.name}' is full with the {size} bytes that are staged for it")
        self._office.discards.add(address.name, "full with what is staged for it", 1)
        return True

    def release(self, stage: Stage, holder: Holder) -> None:
        """A link that filled a stage is gone."""
        if stage.holder is holder:
            stage.holder = None

    def commit(self, session: Session, writer: str, epoch: int, attempts: dict[str, int]) -> Steps:
        """Route what these attempts hold, each with as many messages as it says; all of it or nothing.

        The result is False if the epoch was committed before: nothing is done then. In both cases all other stages of
        the writer up to this epoch are dropped. Raises NotAuthorized, NoSuchAddress, LimitExceeded, and InvalidRequest
        for an attempt that is not there or holds another number: it must be written again. Raises StoreError if not all
        could be routed, though the epoch is decided: the next request or start goes on.
        """
        user = session.subject.name
        self._check(user, writer, epoch)
        key: WriterKey = (user, writer)
        yield from self._epochs.await_turn(key)
        try:
            yield from self._epochs.route(key)
            is_new = epoch > self._epochs.last(key)
            if is_new:
                chosen = self._chosen(session, user, writer, epoch, attempts)
                self._close(chosen)
                self._epochs.decide(key, epoch, chosen)
            others = [stage for stage in self._of(user, writer) if stage.epoch <= epoch]
            yield from self._drop(others, "its epoch is over")
            yield from self._epochs.route(key)
        finally:
            self._epochs.end_turn(key)
        return is_new

    def _chosen(self, session: Session, user: str, writer: str, epoch: int, attempts: dict[str, int]) -> list[Stage]:
        chosen = []
        for attempt, count in attempts.items():
            stage = self._stages.get((user, writer, epoch, attempt))
            if stage is None:
                raise InvalidRequest(f"nothing is staged by attempt '{attempt}' of epoch {epoch} of writer '{writer}'")
            if stage.count != count:
                raise InvalidRequest(f"attempt '{attempt}' holds {stage.count} messages, not {count}")
            session.check(Permission.SEND, stage.address)
            if stage.address not in self._office.addresses:
                raise NoSuchAddress(f"address '{stage.address}' does not exist any more")
            chosen.append(stage)
        return chosen

    def abort(self, session: Session, writer: str, epoch: int, attempts: Collection[str] | None = None) -> Steps:
        """Drop what is staged for an epoch and those before it, or some attempts at it; how many stages there were."""
        stages = [stage for stage in self._of(session.subject.name, writer) if stage.epoch <= epoch]
        if attempts is not None:
            stages = [stage for stage in stages if stage.epoch == epoch and stage.attempt in attempts]
        return self._drop(stages, "aborted")

    def _of(self, user: str, writer: str) -> list[Stage]:
        return [stage for stage in self._stages.values() if stage.user == user and stage.writer == writer]

    def _drop(self, stages: list[Stage], reason: str) -> Steps:
        """Close these at once, and delete them; how many there were."""
        self._close(stages)
        for index, stage in enumerate(stages):
            if index % DROPPED_STAGES == DROPPED_STAGES - 1:
                yield None
            self._end(stage, reason)
        return len(stages)

    def _close(self, stages: list[Stage]) -> None:
        """They take nothing more, and nobody finds them."""
        for stage in stages:
            del self._stages[stage.key]
            stage.is_over = True

    def _end(self, stage: Stage, reason: str = "its epoch is committed") -> None:
        """A closed stage is deleted, with what is still in it."""
        self._count -= 1
        awaited = self._awaited[stage.address]
        awaited.stages -= 1
        awaited.message_count -= stage.taken
        awaited.size_bytes -= stage.size_bytes
        if awaited.stages == 0:
            del self._awaited[stage.address]
        self._office.storage.save_record(STAGES, stage.queue.name.encode(), None)
        if not stage.queue.is_deleted:
            self._office.delete_queue(stage.queue.name, force=True, reason=reason)

    def _plan_sweep(self) -> None:
        if not self._is_sweeping:
            self._is_sweeping = True
            self._office.dispatcher.timers.at(self._office.dispatcher.now_ms + SWEEP_MS, self._sweep)

    def _sweep(self) -> None:
        self._is_sweeping = False
        before_ms = self._office.dispatcher.now_ms - TIMEOUT_MS
        stages = [stage for stage in self._stages.values() if stage.touched_ms <= before_ms and stage.holder is None]
        self._office.dispatcher.slices.start(self._drop(stages, "nobody touched this stage for an hour"))
        if self._stages:
            self._plan_sweep()
