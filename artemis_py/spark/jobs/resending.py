"""Sending archived or dead messages again, in a task: rows in, and for each address what the broker took.

Decides what of a message stays (its bare part), what begins anew (attempts, time to live) and what is added (marks and
an id of the broker's duplicate detection). One sender an address: an address that refuses leaves the others alone.
"""

import time
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from itertools import groupby, islice
from operator import itemgetter
from typing import TYPE_CHECKING, Final
from uuid import uuid4

from attrs import field, frozen

from artemis_amqp.engine.extensions import REDRIVE_COUNT, REDRIVEN_FROM, REPLAYED_FROM
from artemis_py.spark.encoding import DUPLICATE_ID, Encoded
from artemis_py.spark.errors import Refused, SendFailed
from artemis_py.spark.jobs.rewriting import (
    clients_annotations,
    head,
    with_new_times,
    without_duplicate_id,
)
from artemis_py.spark.options import WriteOptions
from artemis_py.spark.sending import Sender, StageName

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row

WANTED: Final = (
    "target",
    "message",
    "durable",
    "priority",
    "annotations",
    "mark",
    "redrives",
    "id",
    "queue",
    "sequence",
)
"""Columns of what is sent. `mark` is the queue it comes from; `redrives` is null for a replay; `id` may be null."""
CHUNK: Final = 2000
"""Messages of which it is reported together that they were accepted."""


@frozen(kw_only=True)
class Resending:
    """How a job sends; travels to the tasks."""

    options: WriteOptions
    writer: str | None = None
    """Name under which messages are staged for one commit; None: each appears when it is sent."""
    new_times: bool = False
    tells_sequences: bool = False
    """Whether the outcome names the messages that were accepted: whoever sends millions has no use for it."""


@frozen(kw_only=True)
class Outcome:
    """What became of the messages for one address in one task."""

    address: str
    accepted: int = 0
    rejected: int = 0
    problem: str | None = None
    """Why the rest was not sent."""
    staged: Mapping[str, int] = field(factory=dict)
    sequences: tuple[tuple[str, int], ...] = ()
    """Queue and number of the messages that were accepted, if they were asked for."""


def resend(frame: "DataFrame", plan: Resending) -> list[Outcome]:
    """Send the rows of a frame with the columns WANTED, sorted by target in each partition; what became of them.

    Raises the engine's exceptions around ConnectionLost; a refusal by the broker is in the outcome.
    """
    # Rows, not Arrow: `mapInArrow` would need pandas, and sending costs more than the rows do.
    outcomes: list[Outcome] = frame.select(*WANTED).rdd.mapPartitions(partial(send_rows, plan)).collect()
    return outcomes


def send_rows(plan: Resending, rows: "Iterable[Row]") -> Iterator[Outcome]:
    """In a task, rows sorted by target. Raises ConnectionLost when the tries are used up."""
    attempt = str(uuid4())
    for index, (address, group) in enumerate(groupby(rows, key=itemgetter("target"))):
        stage = None if plan.writer is None else StageName(plan.writer, 0, f"{attempt}:{index}")
        yield from _send_all(plan, Sender(plan.options, stage), address, group)


def _send_all(plan: Resending, sender: Sender, address: str, rows: "Iterable[Row]") -> Iterator[Outcome]:
    """The rows for one address, until it refuses."""
    left = iter(rows)
    try:
        while chunk := list(islice(left, CHUNK)):
            yield _send(plan, sender, address, chunk)
        if sender.staged:
            yield Outcome(address=address, staged=dict(sender.staged))
    except (Refused, SendFailed) as error:
        yield Outcome(address=address, problem=str(error))
    finally:
        sender.close()


def _send(plan: Resending, sender: Sender, address: str, rows: "list[Row]") -> Outcome:
    """All of these, accepted or rejected when it returns: only then a dead letter may go."""
    before = sender.dropped
    first = sender.number + 1
    sender.send(encoded(plan, row) for row in rows)
    sender.flush()
    rejected = sender.dropped - before
    done: tuple[tuple[str, int], ...] = ()
    if plan.tells_sequences:
        done = tuple(
            (row["queue"], row["sequence"]) for number, row in enumerate(rows, first) if number not in sender.rejected
        )
    return Outcome(address=address, accepted=len(rows) - rejected, rejected=rejected, sequences=done)


def encoded(plan: Resending, row: "Row") -> Encoded:
    """One row as a message."""
    annotations = clients_annotations(dict(row["annotations"] or ()))
    if row["redrives"] is None:
        annotations[REPLAYED_FROM] = row["mark"]
    else:
        annotations |= {REDRIVEN_FROM: row["mark"], REDRIVE_COUNT: row["redrives"]}
    if row["id"] is not None:
        annotations[DUPLICATE_ID] = row["id"]
    bare = without_duplicate_id(bytes(row["message"]))
    if plan.new_times:
        bare = with_new_times(bare, int(time.time() * 1000))
    priority = row["priority"]
    durable = row["durable"]
    begin = head(durable is None or durable, 4 if priority is None else priority, annotations)
    return Encoded(row["target"], begin, bare)
