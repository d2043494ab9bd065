"""Staging: messages that are stored, but not routed until the whole epoch is committed.

A job that is restarted, or that runs a part twice, writes the same messages again. So it writes into stages: a *writer*
(the job) numbers its *epochs*, each *attempt* at a part of an epoch has a stage of its own, and `commit` decides for
exactly the attempts that it names, in one commit of the store, and routes them (`epochs`). Committing an epoch again,
or late, changes nothing. Stages that no commit names are deleted by the next commit of their writer, by `abort`, or
after an hour without use.

A stage is a queue that clients cannot reach. Because no consumer can make room in it, its messages do not count against
the limits of their target address while they are staged; their delivery time and expiry apply from the commit on. The
amount that may be staged depends on the policy of that address:

    PAGE         as much as fits on disk, within the address' page limits, which include what it already has there
    BLOCK        MAX_STAGED_BYTES; the address' own limits delay the routing
    FAIL, DROP   as much as fits into the address with what it already has
"""

import json
from collections.abc import Collection
from typing import Final, Protocol

from artemis_py.core.addresses.address import Address
from artemis_py.core.messages.message import Message
from artemis_py.core.names.syntax import is_unicode
from artemis_py.core.queues.queue import Queue
from artemis_py.core.routing.discards import DiscardCause
from artemis_py.core.routing.domain import Domain
from artemis_py.core.runtime.access import Permission
from artemis_py.core.runtime.background import Steps
from artemis_py.core.services.epochs import DUE, EXPIRES, Epochs, WriterKey
from artemis_py.core.services.kept_messages import create_keeper
from artemis_py.core.services.stage_inlet import StageInlet
from artemis_py.core.sessions.producer import Producer
from artemis_py.core.sessions.session import Session
from artemis_py.core.settings.address_settings import FullPolicy, PageFullPolicy
from artemis_py.errors import AddressFull, InvalidRequest, LimitExceeded, NoSuchAddress, NoSuchQueue

STAGING_ADDRESS: Final = "$artemis.staging"
STAGES: Final = "stages"
"""Space of the store's records of stages, by name of the queue."""

TIMEOUT_MS: Final = 3_600_000
"""Time without use after which a stage is deleted: a task that is silent for so long is broken, not slow."""
SWEEP_MS: Final = 60_000
MAX_STAGES: Final = 4096
"""Limit of stages in all. A stage is one task of a job, and costs as much as an empty queue."""
DROPPED_STAGES: Final = 50
"""Stages that are deleted in one turn."""
MAX_EPOCH: Final = 2**63 - 1
MAX_WRITER_LENGTH: Final = 200
"""Octets of user and writer together, because they are the key of a record."""
MAX_ATTEMPT_LENGTH: Final = 200
MAX_WRITERS: Final = 10_000
"""Limit of writers in all, because the last epoch of each is kept forever. A writer is a job with a name of its own."""
MAX_STAGED_BYTES: Final = 1 << 30
"""Limit for one address whose policy is BLOCK, in all stages together. Epochs are bounded, but may be much larger
than the address."""


STAGED_MEMORY_BYTES: Final = 64 << 20
"""Messages of all stages that stay in memory while the broker has room, so that the commit need not read them: some
100,000 of 100 bytes. The others are on disk only."""


class Holder(Protocol):
    """The link that fills a stage."""

    def stolen(self) -> None:
        """Stop filling the stage, because another link does so now; messages that still arrive here must not count."""


class Stage:
    """Messages that one attempt has written so far."""

    def __init__(self, user: str, writer: str, epoch: int, attempt: str, address: str, queue: Queue) -> None:
        self.user: Final = user
        self.writer: Final = writer
        self.epoch: Final = epoch
        self.attempt: Final = attempt
        self.address: Final = address
        self.queue: Final = queue
        self.refused: int = 0
        """Messages that a link brought and the broker refused."""
        self.dropped: int = 0
        """Messages that it accepted and discarded, because its address is full and the policy for that is DROP."""
        self.holder: Holder | None = None
        self.touched_steady_ms: int = queue.dispatcher.steady_ms
        self.is_over: bool = False
        """Whether its epoch is decided or it was discarded; it takes nothing more then."""
        self.is_uniform: bool = queue.next_sequence == 1
        """Whether the store could move its messages as a range: all are durable and small, have the same priority and
        routing type, and neither delivery time, expiry nor group. What an earlier run staged is not examined."""
        self.priority: int = 0
        self.routing_type: int = 0
        """What the messages have in common, if they are uniform and there are any."""
        self.moved: int = 0
        """Sequence of the last message that left it in a range."""
        self.taken: int = queue.message_count
        """Number of messages that it has taken in all; their size is `size_bytes`."""
        self.size_bytes: int = queue.backlog.size_bytes

    @property
    def key(self) -> "StageKey":
        """User, writer, epoch and attempt."""
        return self.user, self.writer, self.epoch, self.attempt

    def compare(self, message: Message) -> None:
        """Note whether a message has what the others before it have in common."""
        if self.taken == 0:
            self.priority = message.priority
            self.routing_type = message.routing_type
        self.is_uniform = (
            message.priority == self.priority
            and message.routing_type == self.routing_type
            and message.durable
            and not message.delivery_time_ms
            and not message.expires_ms
            and not message.has_group
            and not message.is_shared
            and message.large is None
            and message.original is None
        )

    @property
    def count(self) -> int:
        """Number of messages that were accepted so far, as the client knows it."""
        return self.queue.message_count + self.dropped


class _Awaited:
    """Totals of what is staged for one address."""

    __slots__ = ("message_count", "size_bytes", "stages")

    def __init__(self) -> None:
        self.stages = 0
        self.message_count = 0
        self.size_bytes = 0


StageKey = tuple[str, str, int, str]


class Staging:
    """All stages of a broker, and the last epoch of every writer."""

    def __init__(self, domain: Domain) -> None:
        self._domain: Final = domain
        self._stages: Final[dict[StageKey, Stage]] = {}
        self.epochs: Final[Epochs] = Epochs(domain, self._end)
        self.memory_bytes: int = STAGED_MEMORY_BYTES
        self.max_stages: int = MAX_STAGES
        self.max_writers: int = MAX_WRITERS
        self.max_staged_bytes: int = MAX_STAGED_BYTES
        self._awaited: Final[dict[str, _Awaited]] = {}
        """Totals of what is staged, by address."""
        self._count = 0
        """Number of stages, including those whose epoch is being routed."""
        self._is_sweeping = False
        domain.in_use.append(self.awaits)

    def restore(self) -> None:
        """Restore what an earlier run left; called once, when the queues exist."""
        records = self._domain.records
        decided = self.epochs.restore()
        names = {name for chosen in decided.values() for name in chosen}
        undone: dict[str, Stage] = {}
        for key, value in records.load_records(STAGES):
            queue = self._domain.queues.get(key.decode())
            if queue is None:
                records.save_record(STAGES, key, None)
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
            self.epochs.resume(writer_key, [undone[name] for name in chosen if name in undone])
        over = [stage for stage in self._stages.values() if stage.epoch <= self.last_epoch(stage.user, stage.writer)]
        self._domain.dispatcher.slices.start(self._drop(over, "its epoch is over"))
        if self._stages:
            self._plan_sweep()

    def _await(self, stage: Stage) -> None:
        """Count a stage in the totals of its address."""
        awaited = self._awaited.setdefault(stage.address, _Awaited())
        awaited.stages += 1
        awaited.message_count += stage.taken
        awaited.size_bytes += stage.size_bytes
        self._count += 1

    def awaits(self, address: str) -> bool:
        """Tell whether messages are staged for an address; if so, it and its queues are in use even if empty."""
        return address in self._awaited

    def last_epoch(self, user: str, writer: str) -> int:
        """Return the epoch that was decided last, which may not be completely routed yet; -1 if none was."""
        return self.epochs.last((user, writer))

    def open(self, user: str, writer: str, epoch: int, attempt: str, address: str, holder: Holder) -> Stage:
        """Return the stage of an attempt for a new link, in place of the link that filled it before.

        An epoch that is already committed can be staged again; its next commit, or a restart, discards that. Raises
        InvalidRequest for invalid names and numbers and for an address other than before, LimitExceeded.
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
        stage.touched_steady_ms = self._domain.dispatcher.steady_ms
        return stage

    def _check(self, user: str, writer: str, epoch: int) -> None:
        """Raise InvalidRequest or LimitExceeded, so that no invalid key of a record reaches the store."""
        if not writer or not is_unicode(writer) or len(f"{user}\0{writer}".encode()) > MAX_WRITER_LENGTH:
            raise InvalidRequest(f"a writer needs a name in Unicode, of {MAX_WRITER_LENGTH} octets with the user's")
        if not 0 <= epoch <= MAX_EPOCH:
            raise InvalidRequest(f"an epoch is a number from 0, not {epoch}")
        if len(self.epochs) >= self.max_writers and (user, writer) not in self.epochs:
            raise LimitExceeded(f"the broker remembers {self.max_writers} writers, and '{writer}' is not one of them")

    def _create(self, key: StageKey, address: str) -> Stage:
        if self._count >= self.max_stages:
            raise LimitExceeded(f"{self.max_stages} stages wait for their commit; abort what is not needed")
        domain = self._domain
        queue = create_keeper(domain, f"{STAGING_ADDRESS}.{domain.entropy.uuid()}", STAGING_ADDRESS)
        queue.address.sets_aside = True
        # A commit routes what is still in memory without reading it; settings of addresses are about other queues.
        queue.address.account.set_limits(self.memory_bytes, -1)
        queue.backlog.set_window(-1, -1)
        stage = Stage(key[0], key[1], key[2], key[3], address, queue)
        self._save(stage)
        self._stages[key] = stage
        self._await(stage)
        self._plan_sweep()
        return stage

    def plug(self, stage: Stage, producer: Producer) -> None:
        """Put everything that a producer sends from now on into a stage, until its epoch is committed."""
        producer.inlet = StageInlet(self, stage, producer.inlet)

    def take(self, stage: Stage, message: Message, address: Address) -> None:
        """Keep one message. Raises NoSuchQueue if the stage is gone, and what routing to the address raises."""
        if stage.is_over or stage.queue.is_deleted:
            raise NoSuchQueue(
                f"attempt '{stage.attempt}' of epoch {stage.epoch} is over: committed, aborted or forgotten"
            )
        awaited = self._awaited[stage.address]
        if not self._domain.admit(message, address) or self._is_dropped(awaited, address):
            stage.dropped += 1
            self._save(stage)
            return
        if stage.is_uniform:
            stage.compare(message)
        stage.taken += 1
        stage.size_bytes += message.size
        awaited.message_count += 1
        awaited.size_bytes += message.size
        message.origin = stage.queue.address
        stage.touched_steady_ms = self._domain.dispatcher.steady_ms
        # In the stage neither delivery time nor expiry apply; they do from the commit on.
        if message.delivery_time_ms:
            message.set_extra(DUE, message.delivery_time_ms)
            message.delivery_time_ms = 0
        if message.expires_ms:
            message.set_extra(EXPIRES, message.expires_ms)
            message.expires_ms = 0
        stage.queue.take(message)

    def refuse(self, stage: Stage) -> None:
        """Count a message for the stage that was refused.

        A client that lost its connection before it got the refusal learns of it from this number: from the count of
        messages alone it would mistake a later message for the missing one. No later message is on disk before the
        number is.
        """
        stage.refused += 1
        if not stage.queue.is_deleted:
            self._save(stage)

    def _save(self, stage: Stage) -> None:
        record: list[object] = [
            stage.user, stage.writer, stage.epoch, stage.attempt, stage.address, stage.refused, stage.dropped
        ]  # fmt: skip
        self._domain.records.save_record(STAGES, stage.queue.name.encode(), json.dumps(record).encode())

    def _is_dropped(self, awaited: _Awaited, address: Address) -> bool:
        """Tell whether a message is discarded because of what is staged already. Raises AddressFull."""
        settings, account = address.settings, address.account
        policy = settings.address_full_policy
        count, size = awaited.message_count, awaited.size_bytes
        if policy is FullPolicy.BLOCK:
            if size < self.max_staged_bytes:
                return False
            raise AddressFull(
                f"{size} bytes are staged for address '{address.name}', whose policy is BLOCK: "
                f"{self.max_staged_bytes} are allowed; commit smaller epochs"
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
        self._domain.discards.add(address.name, DiscardCause.STAGE, "full with what is staged for it")
        return True

    def release(self, stage: Stage, holder: Holder | None) -> None:
        """Note that the link that filled a stage is gone; does nothing if another one fills it now."""
        if stage.holder is holder:
            stage.holder = None

    def commit(self, session: Session, writer: str, epoch: int, attempts: dict[str, int]) -> Steps:
        """Route the messages of these attempts, all or nothing; `attempts` says how many messages each one must have.

        The result is False if the epoch was committed before: these attempts are ignored then. In both cases all other
        stages of the writer up to this epoch are deleted. Raises NotAuthorized, NoSuchAddress, LimitExceeded, and
        InvalidRequest for an attempt that does not exist or has another number of messages: it must be written again.
        Raises StoreError if the epoch is decided but not all of it could be routed: the next request or start resumes.
        """
        user = session.subject.name
        self._check(user, writer, epoch)
        key: WriterKey = (user, writer)
        yield from self.epochs.await_turn(key)
        try:
            yield from self.epochs.route(key)
            is_new = epoch > self.epochs.last(key)
            if is_new:
                chosen = self._chosen(session, user, writer, epoch, attempts)
                self._close(chosen)
                self.epochs.decide(key, epoch, chosen)
            others = [stage for stage in self._of(user, writer) if stage.epoch <= epoch]
            yield from self._drop(others, "its epoch is over")
            yield from self.epochs.route(key)
        finally:
            self.epochs.end_turn(key)
        return is_new

    def _chosen(self, session: Session, user: str, writer: str, epoch: int, attempts: dict[str, int]) -> list[Stage]:
        chosen = []
        for attempt, count in attempts.items():
            stage = self._stages.get((user, writer, epoch, attempt))
            if stage is None:
                raise InvalidRequest(f"nothing is staged by attempt '{attempt}' of epoch {epoch} of writer '{writer}'")
            if stage.count != count:
                raise InvalidRequest(f"attempt '{attempt}' has {stage.count} messages, not {count}")
            session.check(Permission.SEND, stage.address)
            if stage.address not in self._domain.addresses:
                raise NoSuchAddress(f"address '{stage.address}' no longer exists")
            chosen.append(stage)
        return chosen

    def abort(self, session: Session, writer: str, epoch: int, attempts: Collection[str] | None = None) -> Steps:
        """Delete the stages of an epoch and those before it, or of some attempts at it; the result is their number."""
        stages = [stage for stage in self._of(session.subject.name, writer) if stage.epoch <= epoch]
        if attempts is not None:
            stages = [stage for stage in stages if stage.epoch == epoch and stage.attempt in attempts]
        return self._drop(stages, "aborted")

    def _of(self, user: str, writer: str) -> list[Stage]:
        return [stage for stage in self._stages.values() if stage.user == user and stage.writer == writer]

    def _drop(self, stages: list[Stage], reason: str) -> Steps:
        """Close these stages at once, then delete them in slices; return their number."""
        self._close(stages)
        for index, stage in enumerate(stages):
            if index % DROPPED_STAGES == DROPPED_STAGES - 1:
                yield None
            self._end(stage, reason)
        return len(stages)

    def _close(self, stages: list[Stage]) -> None:
        """Let these stages take nothing more, and remove them from the table."""
        for stage in stages:
            del self._stages[stage.key]
            stage.is_over = True

    def _end(self, stage: Stage, reason: str = "its epoch is committed") -> None:
        """Delete a closed stage with what is still in it."""
        self._count -= 1
        awaited = self._awaited[stage.address]
        awaited.stages -= 1
        awaited.message_count -= stage.taken
        awaited.size_bytes -= stage.size_bytes
        if awaited.stages == 0:
            del self._awaited[stage.address]
        self._domain.records.save_record(STAGES, stage.queue.name.encode(), None)
        if not stage.queue.is_deleted:
            self._domain.delete_queue(stage.queue.name, force=True, reason=reason)

    def _plan_sweep(self) -> None:
        if not self._is_sweeping:
            self._is_sweeping = True
            self._domain.dispatcher.after(SWEEP_MS, self._sweep)

    def _sweep(self) -> None:
        self._is_sweeping = False
        before_ms = self._domain.dispatcher.steady_ms - TIMEOUT_MS
        stages = [each for each in self._stages.values() if each.touched_steady_ms <= before_ms and each.holder is None]
        self._domain.dispatcher.slices.start(self._drop(stages, "this stage was not used for an hour"))
        if self._stages:
            self._plan_sweep()
