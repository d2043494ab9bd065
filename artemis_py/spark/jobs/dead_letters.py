"""Dead letters as a table: origin, cause, shape and group of each message.

The facts are annotations that the broker wrote when it moved the message (`x-opt-ORIG-ADDRESS`, `x-opt-ORIG-QUEUE`,
`x-opt-ACTUAL-EXPIRY`, `x-opt-DEATH-CAUSE`, `-TIME` and `-ATTEMPTS`) or that a sink wrote when it was rejected, and
properties in which other brokers and frameworks give a reason. Reading changes nothing.
"""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from attrs import frozen
from pyspark.sql import functions
from pyspark.sql.functions import udf

from artemis_amqp.engine.extensions import (
    ACTUAL_EXPIRY,
    DEATH_ATTEMPTS,
    DEATH_CAUSE,
    DEATH_TIME,
    ORIGINAL_ADDRESS,
    ORIGINAL_QUEUE,
    REDRIVE_COUNT,
    REJECT_REASON,
)
from artemis_py.spark.data_source import NAME
from artemis_py.spark.jobs.fingerprint import fingerprint, sample, shape

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

REASON_PROPERTIES: Final = (
    "DeadLetterReason",
    "DeadLetterErrorDescription",
    "dlqDeliveryFailureCause",
    "x-exception-message",
)
"""Properties with a reason, from Azure's brokers, ActiveMQ and Spring; the first one that is set counts."""

COLUMNS: Final = (
    "address",
    "queue",
    "sequence",
    "enqueued_time",
    "body",
    "body_type",
    "message_id",
    "correlation_id",
    "subject",
    "content_type",
    "creation_time",
    "durable",
    "priority",
    "properties",
    "annotations",
    "message",
)

_REASONS: Final = ", ".join(f"properties['{name}']" for name in REASON_PROPERTIES)
_EXPIRED: Final = f"annotations['{ACTUAL_EXPIRY}']"
_GROUP: Final = ("origin_address", "origin_queue", "cause_shape", "fingerprint")
_DETAIL: Final = "[0-9a-fA-F]{8}(?:-?[0-9a-fA-F]{4}){3}-?[0-9a-fA-F]{12}|[0-9]+"
"""Ids and numbers in a cause: `order 17 is unknown` and `order 18 is unknown` are one cause."""

FACTS: Final[Mapping[str, str]] = {
    "origin_address": f"annotations['{ORIGINAL_ADDRESS}']",
    "origin_queue": f"annotations['{ORIGINAL_QUEUE}']",
    "cause": f"CASE WHEN {_EXPIRED} IS NOT NULL THEN 'expired' "
    f"ELSE coalesce(annotations['{REJECT_REASON}'], {_REASONS}, annotations['{DEATH_CAUSE}'], 'not deliverable') END",
    "attempts": f"cast(annotations['{DEATH_ATTEMPTS}'] AS bigint)",
    "died_at": f"coalesce(timestamp_millis(cast({_EXPIRED} AS bigint)), "
    f"timestamp_millis(cast(annotations['{DEATH_TIME}'] AS bigint)), enqueued_time, creation_time)",
    "redrives": f"coalesce(cast(annotations['{REDRIVE_COUNT}'] AS bigint), 0)",
}
"""Columns derived from what the broker wrote, as SQL on the columns of the source."""


@frozen(kw_only=True)
class Group:
    """A group of similar dead letters."""

    id: str
    """Ten hexadecimal digits; the same in every report."""
    count: int
    origin_address: str | None
    origin_queue: str | None
    cause: str
    """Cause of one of them; the others may have other numbers and ids in it."""
    fingerprint: str
    shape: str
    """Shape of the body, see `fingerprint`."""
    content_type: str | None
    attempts: int | None
    """Largest number of failed deliveries before one of them died; None: the broker did not say."""
    redrives: int
    """Largest number of times that one of them was sent back before."""
    first: datetime | None
    last: datetime | None
    """With `first`: times of the first and last death, if known."""
    sample: str
    """Beginning of one body."""
    hours: tuple[tuple[datetime, int], ...]
    """Number of messages by hour of death; an unknown hour is left out."""


def dead_letters(spark: "SparkSession", source: Mapping[str, str]) -> "DataFrame":
    """Return the messages of dead-letter queues with their facts; `source` are connector options with `queue`."""
    frame = spark.read.format(NAME).options(**source, mode="browse", columns=",".join(COLUMNS)).load()
    return with_facts(frame)


def with_facts(frame: "DataFrame") -> "DataFrame":
    """Return a frame with the columns of FACTS, `cause_shape`, `shape`, `fingerprint` and the group's id, `group`."""
    body_shape = udf(shape, "string", useArrow=False)
    key = udf(fingerprint, "string", useArrow=False)
    return (
        frame.withColumns({name: functions.expr(text) for name, text in FACTS.items()})
        .withColumn("cause_shape", functions.regexp_replace("cause", _DETAIL, "#"))
        .withColumn("shape", body_shape("body", "body_type"))
        .withColumn("fingerprint", key("content_type", functions.map_keys("properties"), "shape"))
        .withColumn("group", functions.expr(f"substr(sha2(concat_ws('\\n', {', '.join(_nulls())}), 256), 1, 10)"))
    )


def _nulls() -> list[str]:
    # `concat_ws` omits nulls, which would merge two different groups.
    return [f"coalesce({name}, '')" for name in _GROUP]


def groups(frame: "DataFrame", limit: int = 200) -> list[Group]:
    """Return the largest groups of a frame from `with_facts`. Long because it is one query and its result."""
    excerpt = udf(sample, "string", useArrow=False)
    found = (
        frame.withColumn("died_s", functions.unix_seconds("died_at"))
        .withColumn("hour", functions.expr("died_s - died_s % 3600"))
        .groupBy("group", *_GROUP, "hour")
        .agg(
            functions.count("*").alias("count"),
            functions.min("cause").alias("cause"),
            functions.first("shape").alias("shape"),
            functions.first("content_type").alias("content_type"),
            functions.max("attempts").alias("attempts"),
            functions.max("redrives").alias("redrives"),
            functions.min("died_s").alias("first"),
            functions.max("died_s").alias("last"),
            functions.first(functions.struct("body", "body_type")).alias("example"),
        )
        .groupBy("group", *_GROUP)
        .agg(
            functions.sum("count").alias("count"),
            functions.min("cause").alias("cause"),
            functions.first("shape").alias("shape"),
            functions.first("content_type").alias("content_type"),
            functions.max("attempts").alias("attempts"),
            functions.max("redrives").alias("redrives"),
            functions.min("first").alias("first"),
            functions.max("last").alias("last"),
            functions.first("example").alias("example"),
            functions.collect_list(functions.struct("hour", "count")).alias("hours"),
        )
        .orderBy(functions.desc("count"), "group")
        .limit(limit)
        .withColumn("sample", excerpt("example.body", "example.body_type"))
        .drop("example")
    )
    return [
        Group(
            id=row["group"],
            count=row["count"],
            origin_address=row["origin_address"],
            origin_queue=row["origin_queue"],
            cause=row["cause"],
            fingerprint=row["fingerprint"],
            shape=row["shape"],
            content_type=row["content_type"],
            attempts=row["attempts"],
            redrives=row["redrives"],
            first=_moment(row["first"]),
            last=_moment(row["last"]),
            sample=row["sample"],
            hours=tuple(
                sorted((_at(item["hour"]), item["count"]) for item in row["hours"] if item["hour"] is not None)
            ),
        )
        for row in found.collect()
    ]


def chosen(frame: "DataFrame", where: str | None, ids: Sequence[str]) -> "DataFrame":
    """Return the rows of a frame from `with_facts` that a condition and ids of groups select; no ids: all groups."""
    if where is not None:
        frame = frame.where(where)
    return frame.where(functions.col("group").isin(*ids)) if ids else frame


def _at(seconds: int) -> datetime:
    # Spark returns timestamps in the time zone of the process; seconds mean the same everywhere.
    return datetime.fromtimestamp(seconds, UTC)


def _moment(seconds: int | None) -> datetime | None:
    return None if seconds is None else _at(seconds)
