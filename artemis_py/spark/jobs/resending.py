"""Sending archived or dead messages again, in a task: takes rows, and returns an outcome for each address.

Decides which parts of a message stay (the bare message), which are reset (attempts, time to live) and what is added
(marks and an id for the broker's duplicate detection). Each address has its own sender: if one refuses, the others are
not affected.
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
"""Columns to send. `mark` is the queue that a message comes from; `redrives` is null for a replay; `id` may be null."""
CHUNK: Final = 2000
"""Number of messages with one outcome together."""


@frozen(kw_only=True)
class Resending:
    """Plan of a job's sending; it is passed to the tasks."""

    options: WriteOptions
    writer: str | None = None
    """Name under which messages are staged for one commit; None: each message is routed when it is sent."""
    new_times: bool = False
    tells_sequences: bool = False
    """Whether the outcome names the accepted messages; not useful for a job that sends millions."""


@frozen(kw_only=True)
class Outcome:
    """Result for the messages of one address in one task."""

    address: str
    accepted: int = 0
    rejected: int = 0
    problem: str | None = None
    """Reason why the rest was not sent."""
    staged: Mapping[str, int] = field(factory=dict)
    sequences: tuple[tuple[str, int], ...] = ()
    """Queue and number of the accepted messages, if requested."""


def resend(frame: "DataFrame", plan: Resending) -> list[Outcome]:
    """Send the rows of a frame with the columns WANTED, sorted by target in each partition; return the outcomes.

    Raises the engine's exceptions around ConnectionLost; a refusal by the broker is in the outcome.
    """
    # Rows, not Arrow: `mapInArrow` would need pandas, and sending costs more than converting rows.
    outcomes: list[Outcome] = frame.select(*WANTED).rdd.mapPartitions(partial(send_rows, plan)).collect()
    return outcomes


def send_rows(plan: Resending, rows: "Iterable[Row]") -> Iterator[Outcome]:
    """Send rows that are sorted by target; runs in the task. Raises ConnectionLost when the retries are used up."""
    attempt = str(uuid4())
    for index, (address, group) in enumerate(groupby(rows, key=itemgetter("target"))):
        stage = None if plan.writer is None else StageName(plan.writer, 0, f"{attempt}:{index}")
        yield from _send_all(plan, Sender(plan.options, stage), address, group)


def _send_all(plan: Resending, sender: Sender, address: str, rows: "Iterable[Row]") -> Iterator[Outcome]:
    """Send the rows for one address, until it refuses."""
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
    """Send all of these and wait until each is accepted or rejected; only then may a dead letter be removed."""
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
    """Return one row as a message."""
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
