"""The report of `telemetry`: the windows written so far, by device and over time."""

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from attrs import frozen
from pyspark.sql import functions

from artemis_py.spark.jobs.charts import SERIES_COLOURS, bars, lines
from artemis_py.spark.jobs.page import page, section, table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

POINTS: Final = 200
"""Points of a line: more could not be told apart."""
DEVICES: Final = 200


@frozen(kw_only=True)
class Device:
    """One device over the whole time."""

    name: str
    count: int
    min: float
    max: float
    avg: float
    alerts: int = 0
    """Number of windows that match a rule, among the latest of each rule."""
    points: tuple[tuple[float, float], ...] = ()
    """Seconds since 1970 and average; empty for devices without a line."""


@frozen(kw_only=True)
class Overview:
    """Content of a report."""

    devices: tuple[Device, ...]
    """Devices with most alerts first, then those with most measurements, at most DEVICES."""
    device_count: int
    measurement_count: int
    window_count: int
    first: datetime | None
    last: datetime | None
    alerts: Mapping[str, tuple[tuple[str, datetime | None, float, float, int], ...]]
    """Latest windows that match, by rule: device, beginning, max, avg, count."""


# Long because it runs one query for each part of the report.
def overview(windows: "DataFrame", rules: Mapping[str, str], latest: int = 50) -> Overview:
    """Return what a report needs; `windows` has the columns of `telemetry.WINDOWS`."""
    total = windows.agg(
        functions.count("*").alias("windows"),
        functions.sum("count").alias("measurements"),
        functions.count_distinct("device").alias("devices"),
        functions.min(functions.unix_seconds("window_start")).alias("first"),
        functions.max(functions.unix_seconds("window_end")).alias("last"),
    ).first()
    assert total is not None
    alerts = {name: _matching(windows, rule, latest) for name, rule in rules.items()}
    # A device that alerts and measures seldom is the one that the reader looks for.
    alerting = Counter(device for rows in alerts.values() for device, *_ in rows)
    first = [device for device, _ in alerting.most_common(DEVICES)]
    weighted = (functions.sum(functions.expr("`avg` * count")) / functions.sum("count")).alias("avg")
    found = (
        windows.groupBy("device")
        .agg(
            functions.sum("count").alias("count"),
            functions.min("min").alias("min"),
            functions.max("max").alias("max"),
            weighted,
        )
        .orderBy(functions.col("device").isin(*first).desc(), functions.desc("count"), "device")
        .limit(DEVICES)
        .collect()
    )
    found.sort(key=lambda row: -alerting[row["device"]])
    drawn = [row["device"] for row in found[:SERIES_COLOURS]]
    points: dict[str, list[tuple[float, float]]] = {}
    if drawn:
        step_s = max((total["last"] - total["first"]) / POINTS, 1.0)
        moment = functions.expr(f"floor(cast(window_start AS double) / {step_s!r}) * {step_s!r}D").alias("moment")
        chosen = windows.where(functions.col("device").isin(*drawn)).groupBy("device", moment)
        for row in chosen.agg(weighted).collect():
            points.setdefault(row["device"], []).append((float(row["moment"]), float(row["avg"])))
    return Overview(
        devices=tuple(
            Device(
                name=row["device"],
                count=row["count"],
                min=row["min"],
                max=row["max"],
                avg=row["avg"],
                alerts=alerting[row["device"]],
                points=tuple(sorted(points.get(row["device"], ()))),
            )
            for row in found
        ),
        device_count=total["devices"],
        measurement_count=total["measurements"] or 0,
        window_count=total["windows"],
        first=_moment(total["first"]),
        last=_moment(total["last"]),
        alerts=alerts,
    )


Alert = tuple[str, datetime | None, float, float, int]
"""Device, beginning of the window, its maximum, average and count."""


def _matching(windows: "DataFrame", rule: str, latest: int) -> tuple[Alert, ...]:
    """Return the latest windows that match a rule."""
    found = windows.where(rule).withColumn("start", functions.unix_seconds("window_start"))
    rows = found.orderBy(functions.desc("start"), "device").limit(latest).collect()
    return tuple((row["device"], _moment(row["start"]), row["max"], row["avg"], row["count"]) for row in rows)


def _moment(seconds: int | None) -> datetime | None:
    # Spark returns timestamps in the time zone of the process; seconds mean the same everywhere.
    return None if seconds is None else datetime.fromtimestamp(seconds, UTC)


def render(title: str, found: Overview, made_at: datetime) -> str:
    """Return the HTML of a report."""
    facts = [
        ("devices", f"{found.device_count:,}"),
        ("measurements", f"{found.measurement_count:,}"),
        ("windows", f"{found.window_count:,}"),
        ("alerts", f"{sum(len(rows) for rows in found.alerts.values()):,}"),
    ]
    ends = ("", "")
    if found.first is not None and found.last is not None:
        ends = (f"{found.first:%Y-%m-%d %H:%M:%S}", f"{found.last:%Y-%m-%d %H:%M:%S}")
    drawn = {device.name: device.points for device in found.devices if device.points}
    busiest = sorted(found.devices, key=lambda device: -device.count)
    counts = [(device.name, float(device.count)) for device in busiest[:12]]
    return page(
        title,
        f"as of {made_at:%Y-%m-%d %H:%M} UTC",
        facts,
        [
            section(
                "Over time",
                lines(drawn, "Average, of the devices with most alerts, then of those with most measurements", ends),
            ),
            section("Alerts", *(_alerts(name, rows) for name, rows in found.alerts.items())) if found.alerts else "",
            section("Devices", bars(counts, "Measurements"), _devices(found.devices)),
        ],
    )


def _alerts(name: str, rows: Sequence[tuple[str, datetime | None, float, float, int]]) -> str:
    shown = [(device, f"{start:%Y-%m-%d %H:%M:%S}", *values) for device, start, *values in rows]
    return section(name, table(["device", "window", "max", "avg", "count"], shown))


def _devices(devices: Sequence[Device]) -> str:
    rows = [(device.name, device.alerts, device.count, device.min, device.avg, device.max) for device in devices]
    return table(["device", "alerts", "count", "min", "avg", "max"], rows)
