"""Writes that wait for their commit: messages that are stored, but not routed until a whole epoch is.

A job that is restarted, or runs a part of itself twice, writes again what it wrote before. So it writes into stages: a
*writer* (the job) numbers its *epochs*, each *attempt* at a part of one has a stage of its own, and `commit` routes
exactly the attempts it names, in one turn and hence in one commit of the store, together with the number of the epoch.
Committed again, or committed late, an epoch changes nothing. Stages that no commit names are dropped by the next one
of their writer, by `abort`, or when nobody touched them for an hour.

A stage is a queue nobody can reach. Its messages count for the address they will go to, and keep their delivery time
and expiry for then.
"""

import json
from collections.abc import Collection
from typing import TYPE_CHECKING, Final, Protocol
from uuid import uuid4

from artemis_py.core.access import Permission
from artemis_py.core.address import is_unicode
from artemis_py.core.destination import Address
from artemis_py.core.message import Message, RoutingType
from artemis_py.core.queue import Queue
from artemis_py.core.settings import QueueConfig
from artemis_py.core.span import Span
from artemis_py.errors import InvalidRequest, LimitExceeded, NoSuchAddress, NoSuchQueue

if TYPE_CHECKING:
    from artemis_py.core.postoffice import PostOffice
    from artemis_py.core.session import Session

STAGING_ADDRESS: Final = "$artemis.staging"
STAGES: Final = "stages"
EPOCHS: Final = "epochs"
"""Spaces of the store's records: stages by the name of their queue, last epochs by user and writer."""

TIMEOUT_MS: Final = 3_600_000
"""A job whose tasks take longer than this between two messages is broken, not slow."""
SWEEP_MS: Final = 60_000
MAX_STAGES: Final = 4096
"""In all. One is a task of a job; it costs what an empty queue costs."""
MAX_EPOCH: Final = 2**63 - 1
MAX_WRITER_LENGTH: Final = 200
"""Octets: user and writer are the key of a record."""
MAX_ATTEMPT_LENGTH: Final = 200
MAX_WRITERS: Final = 10_000
"""In all: the last epoch of each is remembered for good. One is a job, and has a name of its own."""

_DUE: Final = "_AMQ_STAGED_DELIVERY_TIME"
_EXPIRES: Final = "_AMQ_STAGED_EXPIRY"


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
        self.holder: Holder | None = None
        self.touched_ms: int = queue.hub.now_ms

    @property
    def count(self) -> int:
        """Messages taken so far."""
        return self.queue.message_count


StageKey = tuple[str, str, int, str]


class Staging:
    """All stages of a broker, and the last epoch of every writer."""

    def __init__(self, postoffice: "PostOffice") -> None:
        self._office: Final = postoffice
        self._stages: Final[dict[StageKey, Stage]] = {}
        self._epochs: Final[dict[tuple[str, str], int]] = {}
        self._awaited: Final[dict[str, int]] = {}
        """How many stages there are for an address."""
        self._is_sweeping = False

    def restore(self) -> None:
        """Take up what an earlier run left behind; called once, when the queues are there."""
        storage = self._office.storage
        for key, value in storage.load_records(EPOCHS):
            user, _, writer = key.decode().partition("\0")
            self._epochs[user, writer] = int(value)
        for key, value in storage.load_records(STAGES):
            queue = self._office.queues.get(key.decode())
            if queue is None:
                storage.save_record(STAGES, key, None)
                continue
            user, writer, epoch, attempt, address = json.loads(value)
            self._add((user, writer, epoch, attempt), Stage(user, writer, epoch, attempt, address, queue))
        if self._stages:
            self._plan_sweep()

    def _add(self, key: StageKey, stage: Stage) -> None:
        self._stages[key] = stage
        self._awaited[stage.address] = self._awaited.get(stage.address, 0) + 1

    def awaits(self, address: str) -> bool:
        """Whether messages are staged for an address: it and its queues are then in use, though they look empty."""
        return address in self._awaited

    def last_epoch(self, user: str, writer: str) -> int:
        """The epoch that was committed last; -1 if none was."""
        return self._epochs.get((user, writer), -1)

    def open(self, user: str, writer: str, epoch: int, attempt: str, address: str, holder: Holder) -> Stage:
        """The stage of an attempt, for one more link: whoever filled it before does so no longer.

        An epoch that is committed is staged again like any other: its next commit drops it. Raises InvalidRequest for
        names and numbers that cannot be and for an address other than before, LimitExceeded.
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
        stage.touched_ms = self._office.now_ms
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
        if len(self._stages) >= MAX_STAGES:
            raise LimitExceeded(f"{MAX_STAGES} stages wait for their commit; abort what is not needed")
        office = self._office
        if STAGING_ADDRESS not in office.addresses:
            office.create_address(STAGING_ADDRESS, frozenset((RoutingType.ANYCAST,)), internal=True)
        queue = office.create_queue(
            QueueConfig(
                name=f"{STAGING_ADDRESS}.{uuid4()}",
                address=STAGING_ADDRESS,
                routing_type=RoutingType.ANYCAST,
                internal=True,
                max_consumers=0,
                auto_delete=False,
            )
        )
        record = json.dumps([*key, address]).encode()
        office.storage.save_record(STAGES, queue.name.encode(), record)
        stage = Stage(*key, address, queue)
        self._add(key, stage)
        self._plan_sweep()
        return stage

    def take(self, stage: Stage, message: Message, address: Address) -> None:
        """Keep one message. Raises NoSuchQueue if the stage is gone, and what routing to the address raises."""
        if stage.queue.is_deleted:
            raise NoSuchQueue(
                f"attempt '{stage.attempt}' of epoch {stage.epoch} is over: committed, aborted or forgotten"
            )
        if not self._office.admit(message, address):
            return
        stage.touched_ms = self._office.now_ms
        # In the stage it is neither due nor late: both count from the commit on.
        if message.delivery_time_ms:
            message.set_extra(_DUE, message.delivery_time_ms)
            message.delivery_time_ms = 0
        if message.expires_ms:
            message.set_extra(_EXPIRES, message.expires_ms)
            message.expires_ms = 0
        stage.queue.add(message)

    def release(self, stage: Stage, holder: Holder) -> None:
        """A link that filled a stage is gone."""
        if stage.holder is holder:
            stage.holder = None

    def commit(self, session: "Session", writer: str, epoch: int, attempts: dict[str, int]) -> bool:
        """Route what these attempts hold, each with as many messages as it says; all of it or nothing.

        False if the epoch was committed before: nothing is done then. In both cases all other stages of the writer up
        to this epoch are dropped. Raises NotAuthorized, NoSuchAddress, LimitExceeded, and InvalidRequest for an attempt
        that is not there or holds another number: it must be written again.
        """
        user = session.subject.name
        self._check(user, writer, epoch)
        is_new = epoch > self.last_epoch(user, writer)
        if is_new:
            for stage, address in self._chosen(session, user, writer, epoch, attempts):
                self._route(stage, address)
            self._epochs[user, writer] = epoch
            self._office.storage.save_record(EPOCHS, f"{user}\0{writer}".encode(), str(epoch).encode())
        self._drop([stage for stage in self._of(user, writer) if stage.epoch <= epoch], "its epoch is over")
        return is_new

    def _chosen(
        self, session: "Session", user: str, writer: str, epoch: int, attempts: dict[str, int]
    ) -> list[tuple[Stage, Address]]:
        chosen = []
        for attempt, count in attempts.items():
            stage = self._stages.get((user, writer, epoch, attempt))
            if stage is None:
                raise InvalidRequest(f"nothing is staged by attempt '{attempt}' of epoch {epoch} of writer '{writer}'")
            if stage.count != count:
                raise InvalidRequest(f"attempt '{attempt}' holds {stage.count} messages, not {count}")
            session.check(Permission.SEND, stage.address)
            address = self._office.addresses.get(stage.address)
            if address is None:
                raise NoSuchAddress(f"address '{stage.address}' does not exist any more")
            chosen.append((stage, address))
        return chosen

    def _route(self, stage: Stage, address: Address) -> None:
        # Page by page: what is on disk only does not come into memory all at once.
        span = Span(1, stage.queue.next_sequence)
        while (reference := span.next(stage.queue)) is not None:
            message = reference.message
            extra = message.extra
            if extra is not None:
                message.delivery_time_ms = _number(extra.pop(_DUE, 0))
                message.expires_ms = _number(extra.pop(_EXPIRES, 0))
            self._office.release(message, address)

    def abort(self, session: "Session", writer: str, epoch: int, attempts: Collection[str] | None = None) -> int:
        """Drop what is staged for an epoch and those before it, or some attempts at it; how many stages there were."""
        stages = [stage for stage in self._of(session.subject.name, writer) if stage.epoch <= epoch]
        if attempts is not None:
            stages = [stage for stage in stages if stage.epoch == epoch and stage.attempt in attempts]
        return self._drop(stages, "aborted")

    def _of(self, user: str, writer: str) -> list[Stage]:
        return [stage for stage in self._stages.values() if stage.user == user and stage.writer == writer]

    def _drop(self, stages: list[Stage], reason: str) -> int:
        for stage in stages:
            del self._stages[stage.user, stage.writer, stage.epoch, stage.attempt]
            self._awaited[stage.address] -= 1
            if not self._awaited[stage.address]:
                del self._awaited[stage.address]
            self._office.storage.save_record(STAGES, stage.queue.name.encode(), None)
            if not stage.queue.is_deleted:
                self._office.delete_queue(stage.queue.name, force=True, reason=reason)
        return len(stages)

    def _plan_sweep(self) -> None:
        if not self._is_sweeping:
            self._is_sweeping = True
            self._office.hub.timers.at(self._office.now_ms + SWEEP_MS, self._sweep)

    def _sweep(self) -> None:
        self._is_sweeping = False
        before_ms = self._office.now_ms - TIMEOUT_MS
        stages = [stage for stage in self._stages.values() if stage.touched_ms <= before_ms and stage.holder is None]
        self._drop(stages, "nobody touched this stage for an hour")
        if self._stages:
            self._plan_sweep()


def _number(value: object) -> int:
    return value if isinstance(value, int) else 0
