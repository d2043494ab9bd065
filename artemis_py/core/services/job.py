"""A job: a message that is to be sent later, once or several times, and what is kept of it.

What its client asked for is a property of its message (`ASKED`), so that it takes part in transactions and survives
with the message. How far it has come is a record of the store in the space `jobs`. Both are JSON:

    property   id, delay, period, repeat, cron, address, queue, type, user, roles, temporary, series
    record     the same, then when it is due, and the repetitions that are left

The key of a record is the sequence of the message in the queue of jobs, a u64.
"""

import json
from struct import Struct
from typing import Any, Final

from attrs import frozen

from artemis_py.core.queues.reference import Reference
from artemis_py.core.runtime.access import Subject
from artemis_py.core.services.cron import Cron
from artemis_py.errors import DamagedValue, InvalidRequest

SPACE: Final = "jobs"
"""Space of the store's records of jobs."""

ASKED: Final = "_AMQ_JOB"
"""Property of a message in the queue of jobs: what its client asked for."""

FOR_EVER: Final = -1

MIN_PERIOD_MS: Final = 10
"""Shortest time between two repetitions: one job alone must not take all of the broker's time."""
MAX_REPEAT: Final = 2**31 - 1
LONGEST_MS: Final = 2**53
"""Longest delay and period, 285,000 years; longer ones mean the same."""

_KEY: Final = Struct(">Q")


@frozen(kw_only=True)
class Timing:
    """When a message is to be sent.

    Without `cron`, first after `delay_ms`, or after `period_ms` if there is no delay. Then `repeat` more times, each
    `period_ms` after the last. With `cron` this begins each time that the schedule says.
    """

    delay_ms: int = 0
    period_ms: int = 0
    repeat: int = 0
    """Number of repetitions after the first time; FOR_EVER: no end."""
    cron: Cron | None = None

    @classmethod
    def of(cls, delay_ms: int = 0, period_ms: int = 0, repeat: int = 0, cron: str = "") -> "Timing":
        """Return what a client asks for, within the limits. Raises InvalidRequest for what makes no sense."""
        repeat = max(min(repeat, MAX_REPEAT), FOR_EVER)
        if cron and repeat == FOR_EVER:
            raise InvalidRequest("a schedule cannot begin an endless repetition each time")
        period_ms = min(max(period_ms, 0), LONGEST_MS)
        return cls(
            delay_ms=min(max(delay_ms, 0), LONGEST_MS),
            period_ms=max(period_ms, MIN_PERIOD_MS) if repeat else period_ms,
            repeat=repeat,
            cron=Cron(cron) if cron else None,
        )

    @property
    def first_ms(self) -> int:
        """Time from the beginning to the first delivery."""
        has_series = self.cron is None or self.repeat != 0
        return self.period_ms if has_series and self.delay_ms == 0 else self.delay_ms


@frozen(kw_only=True)
class Asked:
    """What the client of a job asked for."""

    id: str
    timing: Timing
    address: str
    queue: str
    """Name of the one queue that gets the message; empty: the address decides."""
    routing_type: int
    subject: Subject
    """The client's user, with whose rights an address is created again if it is gone."""
    is_temporary: bool = False
    """Whether the address is temporary: it is not created again."""
    is_series: bool = False
    """Whether it is one series of repetitions of a job with a schedule."""

    def write(self) -> list[object]:
        """Return it as a list for JSON."""
        timing = self.timing
        cron = "" if timing.cron is None else timing.cron.text
        return [
            self.id,
            timing.delay_ms,
            timing.period_ms,
            timing.repeat,
            cron,
            self.address,
            self.queue,
            self.routing_type,
            self.subject.user,
            sorted(self.subject.roles),
            self.is_temporary,
            self.is_series,
        ]


def read_asked(values: Any) -> Asked:
    """Return what `Asked.write` has written. Raises DamagedValue."""
    try:
        id, delay_ms, period_ms, repeat, cron, address, queue, routing_type, user, roles, temporary, series = values
        timing = Timing.of(delay_ms, period_ms, repeat, cron)
        subject = Subject(user, frozenset(roles))
        asked = Asked(
            id=id,
            timing=timing,
            address=address,
            queue=queue,
            routing_type=routing_type,
            subject=subject,
            is_temporary=bool(temporary),
            is_series=bool(series),
        )
        if not all(isinstance(text, str) for text in (id, address, queue)) or not isinstance(routing_type, int):
            raise DamagedValue("a job with names that are none")
    except (TypeError, ValueError, InvalidRequest) as error:
        raise DamagedValue(f"not a job: {error}") from None
    return asked


class Job:
    """One job."""

    __slots__ = ("asked", "due_ms", "id", "is_stored", "left", "reference", "sequence")

    def __init__(self, asked: Asked, sequence: int, due_ms: int) -> None:
        self.asked: Asked = asked
        self.id: str = asked.id
        self.sequence: int = sequence
        """Sequence of its message in the queue of jobs."""
        self.due_ms: int = due_ms
        """When it is due next; with a schedule and repetitions, when the next series of them begins."""
        self.left: int = asked.timing.repeat
        """Number of repetitions after the next time; FOR_EVER: no end."""
        self.reference: Reference | None = None
        """Its message, if it is in memory."""
        self.is_stored: bool = False
        """Whether it survives a restart."""

    @property
    def is_series(self) -> bool:
        """Whether it is one series of repetitions of a job with a schedule."""
        return self.asked.is_series

    @property
    def begins_series(self) -> bool:
        """Whether each time of its schedule begins a job of its own, with repetitions."""
        return self.asked.timing.cron is not None and self.asked.timing.repeat != 0


def key_of(sequence: int) -> bytes:
    """Return the key of a job's record."""
    return _KEY.pack(sequence)


def write_job(job: Job) -> bytes:
    """Return the record of a job."""
    return json.dumps([*job.asked.write(), job.due_ms, job.left], separators=(",", ":")).encode()


def read_job(key: bytes, value: bytes) -> Job:
    """Return the job of a record. Raises DamagedValue."""
    try:
        values = json.loads(value)
        if len(key) != _KEY.size or not isinstance(values, list) or len(values) < 2:
            raise DamagedValue("not a record of a job")
        due_ms, left = values[-2:]
        job = Job(read_asked(values[:-2]), _KEY.unpack(key)[0], int(due_ms))
        job.left = int(left)
    except (ValueError, TypeError) as error:
        raise DamagedValue(f"not a record of a job: {error}") from None
    job.is_stored = True
    return job
