"""`telemetry`: measurements of devices in windows of time, to Parquet files and, beyond a threshold, to an address.

A window is closed when the watermark has passed it: then its row is written, and never changes again. The engine drops
measurements that are later than the watermark allows. Each batch is written to its own folder, which is replaced if the
batch is repeated; alerts carry an id of device, window and rule, by which the broker drops repeated ones.
"""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from attrs import frozen
from pyspark.errors import AnalysisException
from pyspark.sql import functions
from pyspark.sql.functions import udf

from artemis_amqp.client import MalformedValue, plain, read_value
from artemis_py.spark.data_source import NAME
from artemis_py.spark.errors import InvalidOption
from artemis_py.spark.jobs.running import OnProgress, quiet, run, stream

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

WINDOWS: Final = (
    "device string, window_start timestamp, window_end timestamp, count bigint, min double, max double, avg double"
)
"""Columns that are written; rules of alerts are conditions on them."""
UNUSABLE: Final = "unusable"
_TAKEN: Final = frozenset((*(part.split()[0] for part in WINDOWS.split(", ")), "span", "value", "rule", "batch"))
_COLUMN: Final = re.compile(r"[A-Za-z_]\w*", re.ASCII)
# A single NaN or infinity would be the maximum and the average of its window, and match most rules.
_IS_USABLE: Final = "device IS NOT NULL AND value IS NOT NULL AND abs(value) < double('Infinity') AND at IS NOT NULL"
_PROPERTY: Final = re.compile(r"[^'\\\\]+")
_NAME: Final = re.compile(r"[\w-]+")
_SOURCE: Final = ("address", "sequence", "enqueued_time", "creation_time", "body", "body_type", "properties")


@frozen(kw_only=True)
class TelemetryOptions:
    """Places of the values in a message, their aggregation, and the destination of the results."""

    path: str
    """Folder for the windows."""
    checkpoint: str | None = None
    """Folder of the checkpoint; None: `_checkpoint` in `path`."""
    device: str = "address"
    """`$.path` in the body, `property:name`, `address`, or `address:N` for its level N, the first one being 1."""
    value: str = "$.value"
    """Path of the measurement in the body: a number, or a number as text."""
    time: str | None = None
    """Path of the time in the body: ISO 8601, or seconds or milliseconds since 1970; None: the arrival of the message.

    A time without a zone is in that of the session (`spark.sql.session.timeZone`).
    """
    window: str = "1 minute"
    slide: str | None = None
    """Distance between the beginnings of windows; None: windows do not overlap."""
    watermark: str = "2 minutes"
    """Longest delay of a measurement."""
    aggregates: Mapping[str, str] = {}
    """Further columns by name: an aggregate in SQL on `value`, which is written as a double."""
    alerts: Mapping[str, str] = {}
    """Rules by name: a condition in SQL on the columns of WINDOWS and `aggregates`."""
    alert_address: str | None = None
    interval_s: float | None = None
    """Seconds between two batches of a continuous run; None: stop at the messages that exist now."""


@frozen(kw_only=True)
class Measured:
    """Result of a run."""

    messages: int
    batches: int
    """Number of batches with messages."""
    is_interrupted: bool
    unusable: int
    """Messages that were skipped: without device, finite number or time, or neither JSON nor a map."""
    late: int
    """Windows of a device, in one batch, for which measurements came after the watermark and were dropped."""
    windows: int
    """Windows that were closed and written."""
    alerts: int


def telemetry(
    spark: "SparkSession",
    source: Mapping[str, str],
    sink: Mapping[str, str],
    options: TelemetryOptions,
    on_progress: OnProgress = quiet,
) -> Measured:
    """Aggregate new messages. `source` are options of the connector, `sink` those of its connection for alerts.

    Raises InvalidOption, and the engine's exceptions around the connector's errors.
    """
    check(options)
    frame = windows(stream(spark, {**source, "columns": ",".join(_SOURCE)}), options)
    folder = options.path.rstrip("/")

    closed = told = 0

    def write(batch: "DataFrame", number: int) -> None:
        nonlocal closed, told
        # There are several actions: without this the messages would be read for each.
        batch.persist()
        count = batch.count()
        # A repeated batch has the windows of the first attempt: without a window there is no file to replace.
        if count:
            batch.write.mode("overwrite").parquet(f"{folder}/batch={number}")
            told += _send_alerts(batch, sink, options)
        closed += count
        batch.unpersist()

    writer = frame.writeStream.outputMode("append").foreachBatch(write)
    done = run(writer, options.checkpoint or f"{folder}/_checkpoint", options.interval_s, on_progress)
    return Measured(
        messages=done.messages,
        batches=done.batches,
        is_interrupted=done.is_interrupted,
        unusable=done.observed.get(UNUSABLE, 0),
        late=done.late,
        windows=closed,
        alerts=told,
    )


def _send_alerts(batch: "DataFrame", sink: Mapping[str, str], options: TelemetryOptions) -> int:
    if not options.alerts or options.alert_address is None:
        return 0
    found = alerts(batch, options.alerts)
    count: int = found.count()
    if count:
        writer = found.write.format(NAME).options(**sink, address=options.alert_address, payload="body")
        writer.mode("append").save()
    return count


def windows(frame: "DataFrame", options: TelemetryOptions) -> "DataFrame":
    """Return the rows of WINDOWS for messages. A message without device, number or time is skipped."""
    text = udf(body_text, "string", useArrow=False)
    measured = (
        frame.withColumn("text", text("body", "body_type"))
        .select(
            functions.expr(device_of(options.device)).alias("device"),
            functions.expr(f"try_cast({_path(options.value)} AS double)").alias("value"),
            functions.expr(time_of(options.time)).alias("at"),
        )
        .observe("measurements", functions.count_if(~functions.expr(_IS_USABLE)).alias(UNUSABLE))
        .where(_IS_USABLE)
    )
    span = functions.window("at", options.window, options.slide)
    return (
        measured.withWatermark("at", options.watermark)
        .groupBy("device", span.alias("span"))
        .agg(
            functions.count("value").alias("count"),
            functions.min("value").alias("min"),
            functions.max("value").alias("max"),
            functions.avg("value").alias("avg"),
            *(functions.expr(text).cast("double").alias(name) for name, text in options.aggregates.items()),
        )
        .selectExpr(
            *("device", "span.start AS window_start", "span.end AS window_end", "count", "`min`", "`max`", "`avg`"),
            *(f"`{name}`" for name in options.aggregates),
        )
    )


def alerts(windows: "DataFrame", rules: Mapping[str, str]) -> "DataFrame":
    """Return a JSON message for each window and rule that matches; a repetition has the same id."""
    found = [windows.where(rule).withColumn("rule", functions.lit(name)) for name, rule in rules.items()]
    united = found[0]
    for one in found[1:]:
        united = united.unionByName(one)
    return united.select(
        functions.to_json(functions.struct("rule", *windows.columns)).alias("body"),
        functions.lit("application/json").alias("content_type"),
        functions.col("rule").alias("subject"),
        functions.expr("concat_ws('|', rule, device, unix_millis(window_start), unix_millis(window_end))").alias(
            "duplicate_id"
        ),
    )


def read_windows(spark: "SparkSession", path: str, aggregates: Iterable[str] = ()) -> "DataFrame":
    """Return the windows written so far, with these columns of `aggregates`; no rows if no window was closed yet."""
    schema = ", ".join((WINDOWS, *(f"`{name}` double" for name in aggregates)))
    reader = spark.read.schema(schema).option("recursiveFileLookup", "true")
    try:
        return reader.parquet(f"{path.rstrip('/')}/batch=*")
    except AnalysisException as error:
        if error.getCondition() != "PATH_NOT_FOUND":
            raise
        return spark.createDataFrame([], schema)


def body_text(body: bytes | None, body_type: str | None) -> str | None:
    """Return a body as JSON text: unchanged, or an AMQP value written as JSON; None if it is not text."""
    if body is None:
        return None
    octets = bytes(body)
    try:
        if body_type not in ("value", "sequence"):
            return octets.decode("utf-8")
        value = plain(read_value(octets, 0, len(octets))[0])
        # Some clients send octets as a value, not as data.
        return value.decode("utf-8") if isinstance(value, bytes) else json.dumps(value, default=str)
    except (MalformedValue, ValueError):
        return None


def device_of(text: str) -> str:
    """Return the SQL for the name of the device. Raises InvalidOption."""
    if text.startswith("$"):
        return _path(text)
    kind, _, name = text.partition(":")
    if kind == "property" and _PROPERTY.fullmatch(name):
        return f"properties['{name}']"
    if kind == "address" and not name:
        return "address"
    if kind == "address" and name.isdigit() and int(name) > 0:
        # For addresses such as `sensors.a1.temp` and topics such as `sensors/a1/temp`.
        return f"get(split(address, '[./]'), {int(name) - 1})"
    raise InvalidOption(f"device {text!r}: use $.path, property:name, address, or address:N with the first level 1")


def time_of(path: str | None) -> str:
    """Return the SQL for the time of a measurement. Raises InvalidOption."""
    if path is None:
        return "coalesce(enqueued_time, creation_time, current_timestamp())"
    text = _path(path)
    # Seconds since 1970 reach 1e11 in the year 5138.
    number = f"try_cast({text} AS double)"
    return (
        f"CASE WHEN {number} IS NULL THEN try_cast({text} AS timestamp) WHEN abs({number}) < 1e11 "
        f"THEN timestamp_micros(cast({number} * 1000000 AS bigint)) "
        f"ELSE timestamp_micros(cast({number} * 1000 AS bigint)) END"
    )


def _path(path: str) -> str:
    if not path.startswith("$") or "'" in path or "\\" in path:
        raise InvalidOption(f"path {path!r}: use a path as in $.name, $.list[0] or $.outer.inner")
    return f"get_json_object(text, '{path}')"


def rules(texts: Sequence[str]) -> dict[str, str]:
    """Return rules from the command line: `name=condition`, or a condition, which is then its own name."""
    found: dict[str, str] = {}
    for text in texts:
        name, separator, condition = text.partition("=")
        is_named = bool(separator) and _NAME.fullmatch(name.strip()) and not condition.startswith(("=", ">", "<"))
        is_column = name.strip() in _TAKEN
        if is_named and not is_column:
            found[name.strip()] = condition.strip()
        else:
            found[text.strip()] = text.strip()
    return found


def aggregates(texts: Sequence[str]) -> dict[str, str]:
    """Return aggregates from the command line: `name=SQL`. Raises InvalidOption."""
    found: dict[str, str] = {}
    for text in texts:
        name, separator, expression = text.partition("=")
        if not separator or not expression.strip():
            raise InvalidOption(f"aggregate {text!r}: use NAME=SQL, such as p95=percentile_approx(value, 0.95)")
        found[name.strip()] = expression.strip()
    return found


def check(options: TelemetryOptions) -> None:
    """Raise InvalidOption for invalid options, before anything is started."""
    if bool(options.alerts) != (options.alert_address is not None):
        raise InvalidOption("alerts need a condition and an address to send them to")
    for name in options.aggregates:
        if not _COLUMN.fullmatch(name) or name.lower() in _TAKEN:
            raise InvalidOption(f"aggregate {name!r}: use a name of letters, digits and _ that no other column has")
    device_of(options.device)
    time_of(options.time)
    _path(options.value)
