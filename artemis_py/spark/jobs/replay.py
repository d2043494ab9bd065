"""`replay`: sends the messages of an archive to the addresses they came from, or to another one.

Without a rate all messages are staged and routed together: killed or run again under the same name, a replay adds
nothing. With a rate messages are routed as they are sent, under ids by which the broker recognises them
(`id-cache-size`).
"""

from typing import TYPE_CHECKING, Final

from attrs import evolve, frozen
from pyspark.sql import functions

from artemis_py.spark.columns import COLUMNS
from artemis_py.spark.errors import InvalidOption
from artemis_py.spark.jobs.archive import DATE
from artemis_py.spark.jobs.resending import Resending, resend
from artemis_py.spark.options import WriteOptions
from artemis_py.spark.sink import Sent, abort_epoch, check_commit, commit_epoch

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SCHEMA: Final = f"{', '.join(f'`{name}` {kind}' for name, kind in COLUMNS.items())}, {DATE} string"
"""Schema of an archive; given, not inferred, because an address that looks like a number is still text."""


@frozen(kw_only=True)
class ReplayOptions:
    """Which messages to send, and where."""

    path: str
    """The archive."""
    job: str
    """Name of this replay; under one name nothing is sent twice."""
    where: str | None = None
    """A condition in SQL on the columns of the archive."""
    to: str | None = None
    """Address for all messages; None: each goes to the one it came from."""
    new_times: bool = False
    rate: float | None = None
    """Messages per second; None: as fast as the broker accepts them, and all routed at once at the end."""


@frozen(kw_only=True)
class Replayed:
    """Result of a replay."""

    sent: int
    rejected: int
    was_done_before: bool
    """Whether the broker had already committed a replay of this name; nothing was added then."""
    problems: tuple[str, ...]


def selection(spark: "SparkSession", options: ReplayOptions) -> "DataFrame":
    """Return the archived messages that would be sent. Raises the engine's exceptions for a bad path or condition."""
    frame = spark.read.schema(SCHEMA).parquet(options.path).where("message IS NOT NULL")
    return frame if options.where is None else frame.where(options.where)


def preview(spark: "SparkSession", options: ReplayOptions) -> list[tuple[str, str, int]]:
    """Return address, day and number of the messages that would be sent."""
    groups = selection(spark, options).groupBy("address", DATE).count().orderBy("address", DATE)
    return [(row["address"], row[DATE], row["count"]) for row in groups.collect()]


def replay(spark: "SparkSession", sink: WriteOptions, options: ReplayOptions) -> Replayed:
    """Send the selected messages, and commit them if they are staged; a refusal is in `problems` of the result.

    Raises InvalidOption, and the engine's exceptions around ConnectionLost. Long because a staged replay is committed
    for all addresses or for none.
    """
    plan = planned(sink, options)
    is_staged = plan.writer is not None
    if plan.writer is not None:
        check_commit(plan.options, plan.writer)
    frame = selection(spark, options).select(
        (functions.col("address") if options.to is None else functions.lit(options.to)).alias("target"),
        "message",
        "durable",
        "priority",
        "annotations",
        functions.concat_ws("::", "address", "queue").alias("mark"),
        functions.lit(None).cast("bigint").alias("redrives"),
        (
            functions.lit(None).cast("string")
            if is_staged
            else functions.concat_ws(":", functions.lit(f"replay:{options.job}"), "queue", "sequence")
        ).alias("id"),
        "queue",
        "sequence",
    )
    # Messages of an address stay in one task, so that they keep their order; a rate is kept by one task alone.
    tasks = spark.sparkContext.defaultParallelism if options.rate is None else 1
    parts = frame.repartition(tasks, "target").sortWithinPartitions("target", "queue", "sequence")
    outcomes = resend(parts, plan)
    problems = tuple(f"{outcome.address}: {outcome.problem}" for outcome in outcomes if outcome.problem)
    staged = [
        Sent(plan.writer, outcome.accepted, outcome.rejected, dict(outcome.staged))
        for outcome in outcomes
        if plan.writer is not None and outcome.staged
    ]
    accepted = sum(outcome.accepted for outcome in outcomes)
    is_new = True
    if problems and staged:
        # All or nothing: the messages staged for the other addresses are dropped too.
        abort_epoch(plan.options, staged[0].writer, 0)
        accepted = 0
    elif staged:
        is_new = commit_epoch(plan.options, 0, staged)
    return Replayed(
        sent=accepted if is_new else 0,
        rejected=sum(outcome.rejected for outcome in outcomes),
        was_done_before=not is_new,
        problems=problems,
    )


def planned(sink: WriteOptions, options: ReplayOptions) -> Resending:
    """Return how the tasks send. Raises InvalidOption."""
    if not options.job:
        raise InvalidOption("a replay needs a name: under the same name nothing is sent twice")
    if options.rate is None:
        return Resending(
            options=evolve(sink, on_reject="drop"), writer=f"replay:{options.job}", new_times=options.new_times
        )
    if options.rate <= 0:
        raise InvalidOption("the rate must be more than 0 messages a second")
    # The pace is checked when this many are unsettled: ten times a second.
    in_flight = min(max(int(options.rate / 10), 1), sink.max_in_flight)
    paced = evolve(
        sink, on_reject="drop", idempotence="none", max_in_flight=in_flight, max_messages_per_second=options.rate
    )
    return Resending(options=paced, new_times=options.new_times)
