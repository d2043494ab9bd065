"""`dlq redrive`: sends dead letters back to where they came from, a few thousand at a time.

A dead letter is acknowledged when its copy was accepted, and only then. A run that is killed in between leaves dead
letters whose copies were routed already. The copy's id consists of node, queue and number of the dead letter, so that
the broker drops the next run's copy as a duplicate, and the dead letter is acknowledged. A counter in the annotations
stops a message that dies again and again.
"""

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from attrs import define, evolve, field, frozen
from pyspark.sql import functions

from artemis_py.spark.connection import Broker
from artemis_py.spark.errors import InvalidOption
from artemis_py.spark.jobs.dead_letters import chosen, dead_letters
from artemis_py.spark.jobs.resending import Outcome, Resending, resend
from artemis_py.spark.jobs.running import OnProgress, Progress, quiet
from artemis_py.spark.management import Heads, Management
from artemis_py.spark.offsets import Offset, Position, earliest, key_of, latest, ranges_by_key
from artemis_py.spark.options import ReadOptions, WriteOptions, read_options
from artemis_py.spark.planning import Planner
from artemis_py.spark.receiving import Range

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

MAX_CHUNK: Final = 5000
"""Messages read, sent and acknowledged together: as many as the broker acknowledges in one request, and far fewer than
the 20,000 ids that an address remembers."""
DEFAULT_LIMIT: Final = 3


@frozen(kw_only=True)
class RedriveOptions:
    """Which dead letters to send, and how."""

    where: str | None = None
    """A condition in SQL on the columns and facts of `dead_letters`."""
    groups: tuple[str, ...] = ()
    """Ids of groups in a report; empty: all."""
    to: str | None = None
    """Address for all messages; None: each goes to the queue it came from."""
    max_redrives: int = DEFAULT_LIMIT
    """Number of redrives after which a message stays."""
    max_messages: int | None = None
    """Number of messages to send, the oldest of each queue first; None: all."""
    rate: float | None = None
    """Messages per second, kept from chunk to chunk."""
    is_rehearsal: bool = False
    """Whether to count only, and send nothing."""


@define
class Redriven:
    """Result of a redrive."""

    selected: int = 0
    sent: int = 0
    removed: int = 0
    """Dead letters that were acknowledged; fewer than `sent` if a consumer had some of them."""
    rejected: int = 0
    looping: int = 0
    """Dead letters that stayed because they were sent back too often."""
    homeless: int = 0
    """Dead letters that stayed because they do not say where they came from."""
    problems: dict[str, str] = field(factory=dict)
    """Addresses that refused, with the reason."""


def redrive(
    spark: "SparkSession",
    source: Mapping[str, str],
    sink: WriteOptions,
    options: RedriveOptions,
    on_progress: OnProgress = quiet,
) -> Redriven:
    """Send the dead letters that exist at the beginning; `source` are options of the connector with `queue`.

    Raises InvalidOption, SparkError from the driver, and the engine's exceptions around errors in tasks. Long because
    counting, sending and acknowledging a part use the same persisted rows.
    """
    _check(options)
    reading = read_options({**source, "mode": "browse"})
    heads = Planner(reading).heads()
    parts = list(chunks(heads, options.rate))
    total = sum(part.count for part in parts)
    result = Redriven()
    sending = evolve(sink, address=None, idempotence="none", on_reject="drop")
    plan = Resending(options=sending, tells_sequences=True)
    began = time.monotonic()
    done = 0
    for part in parts:
        left = None if options.max_messages is None else options.max_messages - result.sent
        if left is not None and left <= 0:
            break
        # Persisted, so that it is read once, and the messages that are counted are those that are sent.
        frame = letters_of(spark, source, heads, part).persist()
        try:
            _count(frame, options, result)
            if not options.is_rehearsal:
                rows = wanted(frame, options, heads.node, part)
                outcomes = resend(rows if left is None else _oldest(rows, left), plan)
                _add(result, outcomes)
                _acknowledge(reading, part, outcomes, result)
        finally:
            frame.unpersist()
        done += part.count
        on_progress(Progress(done, total))
        if options.rate is not None:
            time.sleep(max(result.sent / options.rate - (time.monotonic() - began), 0.0))
    return result


def chunks(heads: Heads, rate: float | None) -> Iterator[Range]:
    """Yield the current messages in parts that are sent and acknowledged one by one; with a rate, one second's each."""
    size = MAX_CHUNK if rate is None else min(max(int(rate), 1), MAX_CHUNK)
    for part in ranges_by_key(earliest(heads), latest(heads)).values():
        for start in range(part.start, part.stop, size):
            yield evolve(part, start=start, stop=min(start + size, part.stop))


def wanted(frame: "DataFrame", options: RedriveOptions, node: str, part: Range) -> "DataFrame":
    """Return the rows to send, with the columns that `resend` needs, in the order of the queue."""
    target = _origin() if options.to is None else functions.lit(options.to)
    name = f"redrive:{node}:{part.queue_id}:"
    return (
        chosen(frame, options.where, options.groups)
        .where(functions.col("redrives") < options.max_redrives)
        .withColumns(
            {
                "target": target,
                "mark": functions.col("queue"),
                "id": functions.concat(functions.lit(name), functions.col("sequence").cast("string")),
                "redrives": functions.col("redrives") + 1,
            }
        )
        .where("target IS NOT NULL")
        .coalesce(1)
        .sortWithinPartitions("target", "sequence")
    )


def _oldest(rows: "DataFrame", number: int) -> "DataFrame":
    return rows.orderBy("sequence").limit(number).coalesce(1).sortWithinPartitions("target", "sequence")


def _origin() -> "Column":
    """Return the queue in which a message died; one with the name of its address is reached by the address alone."""
    return functions.expr(
        "CASE WHEN origin_queue IS NULL OR origin_queue = origin_address THEN origin_address "
        "ELSE concat(origin_address, '::', origin_queue) END"
    )


def letters_of(spark: "SparkSession", source: Mapping[str, str], heads: Heads, part: Range) -> "DataFrame":
    """Return the dead letters of one part, with their facts."""
    key = key_of(heads.node, part.address, part.queue)
    bounds = {
        name: json.dumps(Offset({key: Position(part.queue_id, number)}).written())
        for name, number in (("startingOffsets", part.start), ("endingOffsets", part.stop))
    }
    # Other consumers may take dead letters at any time: a missing one is not lost.
    return dead_letters(spark, {**source, **bounds, "failOnDataLoss": "false"})


def _count(frame: "DataFrame", options: RedriveOptions, result: Redriven) -> None:
    origin = functions.lit(options.to) if options.to is not None else functions.col("origin_address")
    is_looping = functions.col("redrives") >= options.max_redrives
    row = (
        chosen(frame, options.where, options.groups)
        .agg(
            functions.count("*").alias("selected"),
            functions.count_if(is_looping).alias("looping"),
            functions.count_if(~is_looping & origin.isNull()).alias("homeless"),
        )
        .first()
    )
    assert row is not None
    result.selected += row["selected"]
    result.looping += row["looping"]
    result.homeless += row["homeless"]


def _add(result: Redriven, outcomes: list[Outcome]) -> None:
    for outcome in outcomes:
        result.sent += outcome.accepted
        result.rejected += outcome.rejected
        if outcome.problem is not None:
            result.problems.setdefault(outcome.address, outcome.problem)


def _acknowledge(reading: ReadOptions, part: Range, outcomes: list[Outcome], result: Redriven) -> None:
    sequences = sorted(sequence for outcome in outcomes for _, sequence in outcome.sequences)
    result.removed += acknowledge(reading, part, sequences)


def acknowledge(reading: ReadOptions, part: Range, sequences: Sequence[int]) -> int:
    """Remove dead letters of one part by their numbers; return how many there were. Raises SparkError."""
    if not sequences:
        return 0
    return Broker(reading.connection).run(
        lambda connection: Management(connection, reading.connection.idle_timeout_s).acknowledge_numbers(
            part, sequences
        )
    )


def _check(options: RedriveOptions) -> None:
    if options.rate is not None and options.rate <= 0:
        raise InvalidOption("the rate must be more than 0 messages a second")
    if options.max_messages is not None and options.max_messages < 1:
        raise InvalidOption("the number of messages must be 1 or more")
    if options.max_redrives < 1:
        raise InvalidOption("the limit of redrives must be 1 or more")
