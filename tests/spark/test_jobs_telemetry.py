"""The job `telemetry` on a real session and broker."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from proton import Message, symbol

from artemis_py.spark.jobs.telemetry import TelemetryOptions, read_windows, telemetry
from artemis_py.spark.jobs.telemetry_report import overview, render
from artemis_py.spark.options import read_options
from artemis_py.spark.planning import Planner
from tests.interop.broker_process import BrokerProcess
from tests.spark.conftest import message_count, receive, send

NOON = 1_800_000_000
"""A moment at which a minute begins."""


def measurement(device: str, second: int, value: float) -> Message:
    body = {"device": device, "at": NOON + second, "value": value}
    return Message(body=json.dumps(body).encode(), content_type=symbol("application/json"))


@pytest.mark.timeout(400)  # Two queries with state, each of several batches.
def test_windows_go_to_files_and_thresholds_to_an_address(
    spark: Any, broker: BrokerProcess, name: str, tmp_path: Path
) -> None:
    """Each window once, also over two runs; a map counts as JSON does, and what is no measurement is passed over."""
    source = {"url": broker.url, "address": name, "subscription": "telemetry"}
    options = TelemetryOptions(
        path=str(tmp_path / "windows"),
        device="$.device",
        time="$.at",
        window="1 minute",
        watermark="30 seconds",
        alerts={"hot": "max > 90", "silent": "count < 2"},
        alert_address=f"{name}.alerts",
    )

    def run() -> None:
        telemetry(spark, source, {"url": broker.url}, options)

    Planner(read_options(source)).heads()  # Makes the subscription.
    alike = Message(body={"device": "a", "at": NOON + 20, "value": 95})
    broken = [Message(body=b"{"), Message(body="text"), Message(body={"device": "a", "value": "much"})]
    send(broker, name, [measurement("a", 0, 10), alike, measurement("b", 59, 1), *broken, measurement("a", 600, 0)])
    run()
    send(broker, name, [measurement("a", 61, 5), measurement("a", 1200, 0)])
    run()

    rows = read_windows(spark, options.path).orderBy("window_start", "device").collect()
    found = [(row["device"], row["count"], row["min"], row["max"], row["avg"]) for row in rows]
    assert found == [("a", 2, 10.0, 95.0, 52.5), ("b", 1, 1.0, 1.0, 1.0), ("a", 1, 0.0, 0.0, 0.0)]
    assert message_count(broker, f"{name}.alerts") == 3
    told = [json.loads(message.body) for message in receive(broker, f"{name}.alerts", 3)]
    assert {(one["rule"], one["device"]) for one in told} == {("hot", "a"), ("silent", "b"), ("silent", "a")}
    shown = overview(read_windows(spark, options.path), options.alerts)
    assert (shown.device_count, shown.measurement_count, shown.window_count) == (2, 4, 3)
    assert [len(device.points) for device in shown.devices] == [2, 1]
    assert "hot" in render("Telemetry", shown, datetime(2027, 1, 1, tzinfo=UTC))
